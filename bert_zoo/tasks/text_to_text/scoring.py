"""Likelihoods of targets, token by token."""

import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL, UNLIMITED
from bert_zoo.models.graphs import on_model
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.tasks.scores import TextScores, text_score


def label_log_probs(model, inputs, labels):
    """Returns the labels' log-probabilities, float32 [batch, target length]; without meaning for label -100."""
    logits = ops.cast(model(inputs, training=False), "float32")
    wanted = ops.maximum(labels, 0)[..., None]
    return ops.take_along_axis(logits, wanted, axis=-1)[..., 0] - ops.logsumexp(logits, axis=-1)


def score(model, sources, targets, batch_size: int) -> TextScores:
    """See `TextToText.score`."""
    from bert_zoo.text.batches import strings, text_batch

    check_batch_size(batch_size)
    sources, targets = strings(sources, "sources"), strings(targets, "targets")
    if len(sources) != len(targets):
        raise ValueError(
            f"There are {len(sources)} sources and {len(targets)} targets. Pass one target for each source."
        )
    if not sources:
        return TextScores()
    # Nothing is truncated.
    reader = model.preprocessor.with_options(
        sequence_length=UNLIMITED, padding="longest", report_truncation=False
    )
    tokenizer = reader.tokenizer
    has_bytes = tokenizer.unit not in ("word", "subword")
    # Group pairs of similar length to avoid padding.
    lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    order = np.argsort(lengths, kind="stable")
    scores = {}
    for rows in np.split(order, range(batch_size, len(order), batch_size)):
        texts = (text_batch([column[row] for row in rows]) for column in (sources, targets))
        inputs, labels = model.labelled_texts_to_inputs(*texts, reader)
        inputs = {name: np.asarray(ids) for name, ids in inputs.items()}
        labels = np.asarray(labels)
        found = ops.convert_to_numpy(on_model(model, label_log_probs, inputs, labels))
        for row, ids, log_probs in zip(rows, labels, found, strict=True):
            is_real, text = ids != IGNORED_LABEL, targets[row]
            size = len(text.encode() if has_bytes else text)
            scores[row] = text_score(tokenizer, text, ids[is_real], log_probs[is_real], size)
    return TextScores(scores[row] for row in range(len(targets)))
