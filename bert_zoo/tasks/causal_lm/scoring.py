"""Likelihoods of texts under a language model, token by token."""

import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL, UNLIMITED
from bert_zoo.models.graphs import on_model
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.tasks.scores import TextScores, text_score


def label_log_probs(model, token_ids: np.ndarray, labels: np.ndarray, length: int) -> np.ndarray:
    """Returns the labels' log-probabilities, float32 [batch, tokens], in segments of `length` tokens.

    Rows may be padded on the right, because tokens do not see what follows. Rows longer than the model's
    positions are read in windows that overlap by half.
    """
    tokens, window = token_ids.shape[1], model.longest_input
    if tokens <= window:
        return _of_window(model, token_ids, labels, length)
    step = window // 2
    found = []
    for start in range(0, tokens - window + step, step):
        rows = (array[:, start : start + window] for array in (token_ids, labels))
        of_window = _of_window(model, *rows, length)
        found.append(of_window[:, window - step :] if start else of_window)
    return np.concatenate(found, axis=1)


def _of_window(model, token_ids: np.ndarray, labels: np.ndarray, length: int) -> np.ndarray:
    state = model.initial_memory(len(token_ids), tokens=_multiple(token_ids.shape[1], length))
    segments = []
    for start in range(0, token_ids.shape[1], length):
        ids, wanted = (array[:, start : start + length] for array in (token_ids, labels))
        found, state = on_model(model, _scored_segment, ids, wanted, state)
        segments.append(ops.convert_to_numpy(found))
    return np.concatenate(segments, axis=1)


def _multiple(number: int, of: int) -> int:
    """Rounds a number up to a multiple of another."""
    return -(-number // of) * of


def _scored_segment(model, token_ids, labels, state):
    outputs = model({"token_ids": token_ids, "labels": labels, **state}, training=False)
    return outputs["log_probs"], {name: outputs[name] for name in state}


def score(model, texts, batch_size: int, segment_length: int) -> TextScores:
    """See `CausalLM.score`."""
    from bert_zoo.text.batches import strings

    for name, value in (("batch_size", batch_size), ("segment_length", segment_length)):
        check_batch_size(value, name)
    texts = strings(texts)
    if not texts:
        return TextScores()
    # Segments handle long texts, so nothing is truncated.
    reader = model.preprocessor.with_options(
        sequence_length=UNLIMITED, padding="longest", report_truncation=False
    )
    tokenizer = model.preprocessor.tokenizer
    # Group texts of similar length to avoid padding.
    order = np.argsort([len(text) for text in texts], kind="stable")
    scores = {}
    for start in range(0, len(texts), batch_size):
        numbers = order[start : start + batch_size]
        rows = reader.scored([texts[number] for number in numbers])
        token_ids, labels = np.asarray(rows["token_ids"]), np.asarray(rows["labels"])
        are_scored = labels != IGNORED_LABEL
        for number in numbers[~are_scored.any(axis=1)]:
            raise ValueError(
                f"texts[{number}] is {texts[number]!r}, which has no token to score. Without an end token in the "
                "vocabulary, the first token is not scored. Leave the text out, or make it longer."
            )
        found = label_log_probs(model, token_ids, labels, segment_length)
        for number, is_scored, ids, values in zip(numbers, are_scored, labels, found, strict=True):
            text, ids = texts[number], ids[is_scored]
            characters = _num_characters(tokenizer, text, ids)
            scores[number] = text_score(tokenizer, text, ids, values[is_scored], characters)
    return TextScores(scores[number] for number in range(len(texts)))


def _num_characters(tokenizer, text: str, ids: np.ndarray) -> int:
    """Returns the number of scored characters; of bytes, if tokens are bytes."""
    if tokenizer.unit not in ("word", "subword"):
        return len(ids)
    # Without an end token, the first token is not scored.
    if not hasattr(tokenizer, "eos_id"):
        return len(tokenizer.detokenized([ids])[0].decode("utf-8", "replace"))
    return len(text)
