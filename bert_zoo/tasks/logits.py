"""Changes to the scores of next tokens before one is chosen: what is barred, forced, penalised or left to draw from.

The functions take `scores`, float32 [rows, vocabulary], and mostly `tokens`, int32 [rows, length]: the texts so far,
negative where there is no token. They and their order are those of transformers' `generate`
(generation/logits_process.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from bert_zoo.generation_config import GenerationConfig

# What `do_sample` draws from if nothing is said, as in transformers.
DEFAULT_TOP_K = 50


@dataclass(frozen=True)
class LogitsProcessor:
    """The changes that one call of `generate` makes to scores; fields as in `GenerationConfig`."""

    stop_ids: tuple[int, ...] = ()  # tokens that end a text
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    min_length: int = 0
    min_new_tokens: int = 0
    forced_bos_token_id: int | None = None
    forced_eos_token_id: tuple[int, ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    keep: int = 1  # least number of tokens that drawing is left with

    @classmethod
    def of(
        cls, config: GenerationConfig, stop_ids: Sequence[int], *, draws: bool, beams: bool
    ) -> "LogitsProcessor":
        """The changes that a configuration asks for.

        `draws` is whether to warp scores for drawing, `beams` whether beams are drawn, which go on after a stop token.
        """
        stops = tuple(stop_ids)
        options: dict[str, Any] = {
            "repetition_penalty": config.repetition_penalty,
            "no_repeat_ngram_size": config.no_repeat_ngram_size,
            "forced_bos_token_id": config.forced_bos_token_id,
            "forced_eos_token_id": config.forced_eos_token_id,
            "suppress_tokens": config.suppress_tokens,
            "begin_suppress_tokens": config.begin_suppress_tokens,
        }
        if stops:
            options |= {
                "min_new_tokens": config.min_new_tokens,
                "min_length": config.min_length if config.min_new_tokens is None else None,
            }
        # A text must be able to end.
        options["bad_words_ids"] = tuple(
            word for word in config.bad_words_ids or () if word not in [(stop,) for stop in stops]
        )
        if draws:
            top_k = DEFAULT_TOP_K if config.top_k is None else config.top_k
            options |= {"temperature": config.temperature, "top_k": top_k, "top_p": config.top_p}
            options["keep"] = 1 + max(1, len(stops)) if beams else 1
        options = {name: value for name, value in options.items() if value is not None}
        needs_stops = options.get("min_new_tokens") or options.get("min_length")
        return cls(stop_ids=stops if needs_stops else (), **options)

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens before the last one of a prompt matter."""
        return bool(
            self.repetition_penalty != 1.0
            or self.no_repeat_ngram_size
            or self.min_length
            or self.forced_bos_token_id is not None
            or any(len(word) > 2 for word in self.bad_words_ids)
        )

    def __call__(self, scores, tokens, index, first):
        """Changed scores of the next tokens, float32 [rows, vocabulary].

        Of `tokens` [rows, length], `index` is the next token's position, and `first` the first new token's.
        """
        if self == LogitsProcessor():
            return scores
        number, length = index - first, ops.shape(tokens)[1]
        # What follows may be filled already.
        tokens = ops.where(ops.arange(length) < index, tokens, -1)
        given = ops.sum(ops.cast(tokens >= 0, "int32"), axis=1, keepdims=True)
        if self.repetition_penalty != 1.0:
            scores = penalised(scores, tokens, self.repetition_penalty)
        if self.no_repeat_ngram_size:
            scores = without_repeated_ngrams(scores, tokens, index, self.no_repeat_ngram_size)
        if self.bad_words_ids:
            scores = without_words(scores, tokens, index, self.bad_words_ids)
        if self.stop_ids:
            is_short = ops.logical_or(number < self.min_new_tokens, given < self.min_length)
            scores = ops.where(is_short, without(scores, self.stop_ids), scores)
        if self.forced_bos_token_id is not None:
            scores = ops.where(given == 1, only(scores, [self.forced_bos_token_id]), scores)
        if self.forced_eos_token_id:
            is_last = index + 1 == length
            scores = ops.where(is_last, only(scores, self.forced_eos_token_id), scores)
        if self.suppress_tokens:
            scores = without(scores, self.suppress_tokens)
        if self.begin_suppress_tokens:
            # After a forced token, that is the second one.
            is_forced = ops.logical_and(given - number == 1, self.forced_bos_token_id is not None)
            begins = number == ops.cast(is_forced, "int32")
            scores = ops.where(begins, without(scores, self.begin_suppress_tokens), scores)
        if self.temperature != 1.0:
            scores = scores / self.temperature
        if self.top_k:
            scores = of_top_k(scores, max(self.top_k, self.keep))
        return scores if self.top_p == 1.0 else of_top_p(scores, self.top_p, self.keep)


def without(scores, ids: Sequence[int]):
    """Scores with -inf for some ids."""
    barred = np.zeros(scores.shape[-1], "float32")
    barred[list(ids)] = -np.inf
    return scores + barred


def only(scores, ids: Sequence[int]):
    """Scores of 0 for some ids and -inf for all others."""
    forced = np.full(scores.shape[-1], -np.inf, "float32")
    forced[list(ids)] = 0.0
    return ops.zeros_like(scores) + forced


def penalised(scores, tokens, penalty: float):
    """Scores that are lower, for a penalty above 1, for tokens that have occurred.

    Source: Keskar et al. 2019 (arXiv:1909.05858), section 4.1.
    """
    lower = ops.where(scores < 0, scores * penalty, scores / penalty)
    return ops.where(_occurring(tokens, scores), lower, scores)


def without_repeated_ngrams(scores, tokens, index, size: int):
    """Scores with -inf for tokens that would complete a sequence of `size` tokens again."""
    tokens, index = _widened(tokens, size - 1), index + size - 1
    starts = ops.arange(ops.shape(tokens)[1] - size + 1)
    ends = ops.take(tokens, starts + size - 1, axis=1)
    is_repeated = ends >= 0
    for place in range(size - 1):
        last = ops.take(tokens, index - size + 1 + place, axis=1)[:, None]
        is_same = ops.take(tokens, starts + place, axis=1) == last
        is_repeated = ops.logical_and(is_repeated, ops.logical_and(is_same, last >= 0))
    return ops.where(_occurring(ops.where(is_repeated, ends, -1), scores), -np.inf, scores)


def without_words(scores, tokens, index, words: Sequence[Sequence[int]]):
    """Scores with -inf for tokens that would complete a word, a sequence of ids."""
    by_length: dict[int, list[Sequence[int]]] = {}
    for word in words:
        by_length.setdefault(len(word), []).append(word)
    if single := by_length.pop(1, None):
        scores = without(scores, [word[0] for word in single])
    for length, same in by_length.items():
        same, wide = np.array(same, "int32"), _widened(tokens, length - 1)
        is_begun = True
        for place in range(length - 1):
            last = ops.take(wide, index + place, axis=1)[:, None]
            is_begun = ops.logical_and(is_begun, last == same[:, place])
        ends = ops.where(is_begun, same[:, -1], -1)
        scores = ops.where(_occurring(ends, scores), -np.inf, scores)
    return scores


def of_top_k(scores, number: int):
    """Scores with -inf for all but the highest ones."""
    lowest = ops.top_k(scores, min(number, scores.shape[-1]))[0][:, -1:]
    return ops.where(scores < lowest, -np.inf, scores)


def of_top_p(scores, total: float, keep: int = 1):
    """Scores with -inf for all but the likeliest tokens, at least `keep`, whose probability is `total`."""
    highest = ops.top_k(scores, scores.shape[-1])[0]
    probabilities = ops.softmax(highest)
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    is_kept = ops.logical_or(before < total, ops.arange(scores.shape[-1]) < keep)
    lowest = ops.min(ops.where(is_kept, highest, np.inf), axis=-1, keepdims=True)
    return ops.where(scores < lowest, -np.inf, scores)


def _widened(tokens, number: int):
    """Tokens after a number of columns without any."""
    return ops.pad(tokens, [[0, 0], [number, 0]], constant_values=-1)


def _occurring(ids, scores):
    """Which tokens are among a row's ids [rows, n], as bool [rows, vocabulary]; negative ids are none."""
    size = scores.shape[-1]
    column = ops.where(ids >= 0, ids, size)
    row = ops.zeros_like(column) + ops.arange(ops.shape(column)[0], dtype=column.dtype)[:, None]
    places = ops.reshape(ops.stack([row, column], axis=-1), (-1, 2))
    none = ops.zeros_like(ops.pad(scores, [[0, 0], [0, 1]]), "bool")
    found = ops.scatter_update(none, places, ops.ones_like(places[:, 0], "bool"))
    return found[:, :-1]
