"""Pseudo-log-likelihood: the probability of each token of a text, given all others."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.models.direct import tokenized
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.tasks.masked_lm.blanks import Blank, log_probs_at
from bert_zoo.tasks.scores import TextScores, text_score
from bert_zoo.text.batches import strings, text_batch

LEFT_TO_RIGHT = "left_to_right"
WITHIN_WORD = ("one_by_one", LEFT_TO_RIGHT)


def score(model, texts: Any, batch_size: int, within_word: str) -> TextScores:
    """See `FillsMasks.score`."""
    check_batch_size(batch_size)
    if within_word not in WITHIN_WORD:
        raise ValueError(f"within_word is {within_word!r}; choose one of {WITHIN_WORD}.")
    if within_word == LEFT_TO_RIGHT and model.encoder.backbone.has_second_stream:
        raise ValueError(
            f"within_word={LEFT_TO_RIGHT!r} masks further tokens, but this model was not trained to read masks, because "
            "it predicts in a second stream. Leave within_word out."
        )
    texts = strings(texts)
    if not texts:
        return TextScores()
    tokenizer = model.preprocessor.tokenizer
    rows = tokenized(model, text_batch(texts))
    if empty := [number for number, row in enumerate(rows) if not len(row)]:
        raise ValueError(
            f"texts[{empty[0]}] is {shown(texts[empty[0]])}, which has no token to score. Leave it out."
        )
    word_starts = tokenizer.word_starts if within_word == LEFT_TO_RIGHT else None
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    blanks = (b for number in order for b in _blanks(rows[number], tokenizer.mask_id, word_starts))
    wanted = ([token_id] for number in order for token_id in rows[number])
    ends = np.cumsum([len(rows[number]) for number in order])
    batches = log_probs_at(model, blanks, wanted, batch_size, total=int(ends[-1]))
    log_probs = np.split(np.concatenate(list(batches))[:, 0], ends[:-1])
    found = dict(zip(order, log_probs, strict=True))
    return TextScores(
        text_score(tokenizer, text, row, found[number], len(text))
        for number, (text, row) in enumerate(zip(texts, rows, strict=True))
    )


def _blanks(token_ids: np.ndarray, mask_id: int, word_starts: np.ndarray | None) -> Iterator[Blank]:
    """Yields a text with each token masked in turn; with `word_starts`, also the rest of its word."""
    size = len(token_ids)
    ends = np.arange(1, size + 1)
    if word_starts is not None:
        starts = np.append(np.flatnonzero(word_starts[token_ids]), size)
        ends = starts[np.searchsorted(starts, np.arange(size), side="right")]
    for position, end in enumerate(ends):
        hidden = token_ids.copy()
        hidden[position:end] = mask_id
        yield Blank(hidden, position)
