"""Byte pair encoding in the graph: merges the bytes of pieces, or the characters of words, to tokens.

A piece begins as single bytes or characters. Of its neighbouring pairs, the one that comes first in the list
of merges is joined (the leftmost if there are several), until no pair is in the list.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8, joined_rows, lookup_table, picked, token_columns
from bert_zoo.text.files import Vocabulary
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Tokenizer, traced_once

Merges = Sequence[tuple[str, str]]
# The suffix of a word's last character, and so of tokens that end a word.
WORD_END = "</w>"
# Above every code point: marks a word's last one.
_LAST = 1 << 21


def checked_merges(
    merges: Sequence[tuple[str, str]], vocabulary: Vocabulary, source: str | Path
) -> tuple[tuple[str, str], ...]:
    """The merges; ValueError if they do not fit the vocabulary, repeat, or use a token before they make it."""
    pairs = tuple(map(tuple, merges))
    problems = []
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(part, str) and part for part in pair):
            problems.append(f"merge {number} is {shown(pair)}, not two tokens")
            continue
        absent = [token for token in (*pair, "".join(pair)) if token not in vocabulary]
        if absent:
            problems.append(
                f"merge {number}, {shown(pair)}, needs {shown(absent)}, not in the vocabulary"
            )
    if len(set(pairs)) < len(pairs):
        repeated = [pair for pair, count in Counter(pairs).items() if count > 1]
        problems += [f"the merge {shown(pair)} comes more than once" for pair in repeated]
    problems = problems or [
        f"merge {first} uses {shown(token)}, which the later merge {number} makes"
        for token, first, number in _used_before_made(pairs)
    ]
    if problems:
        raise ValueError(
            f"BPE cannot follow the merges of {source}: {listed(problems)}. Check that vocabulary and "
            "merges belong together, and fetch the files again."
        )
    return pairs


def listed(items: list[str]) -> str:
    """Lists the first five items, and the number of others."""
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return "; ".join(items[:5]) + more


def _used_before_made(merges: Merges) -> list[tuple[str, int, int]]:
    """Tokens that a merge uses before another one makes them, with the numbers of both merges."""
    first_used: dict[str, int] = {}
    for number, pair in enumerate(merges):
        for part in pair:
            first_used.setdefault(part, number)
    last_made = {"".join(pair): number for number, pair in enumerate(merges)}
    return [
        (token, first_used[token], number)
        for token, number in last_made.items()
        if first_used.get(token, number) < number
    ]


def at_last_places(merges: Merges) -> tuple[tuple[str, str], ...]:
    """Returns each merge once, at its last place, as transformers' Python tokenizers do."""
    places = {tuple(pair): place for place, pair in enumerate(merges)}
    return tuple(sorted(places, key=places.__getitem__))


def merge_files(ids: Mapping[str, int], merges: Merges, first_line: str = "") -> dict[str, str]:
    """The contents of vocab.json and merges.txt in transformers' format."""
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    return {
        "vocab.json": json.dumps(dict(ids), ensure_ascii=False) + "\n",
        "merges.txt": first_line + lines,
    }


class Merger(tf.Module):
    """Joins the bytes or characters of pieces to tokens; subclasses define `_first_ids`.

    Most pieces are one token, which a table looks up. The others are merged in rounds. BPE makes one
    merge at a time in each piece, the first of the list. A round makes all merges at once that BPE will
    certainly make. A pair is *safe* if it comes in the list before

    - every merge of its left token with something that ends in its left neighbour, and
    - every merge of its right token with something that begins with its right neighbour.

    Then the neighbours cannot take a part of the pair away, whatever they grow to. If no pair of the
    batch is safe, every piece makes its first merge, at all places.

    This assumes that all merges that make a token come before all that use it, as in every trained
    list. The tokenizer refuses other lists.
    """

    def __init__(self, merges: Merges, ids: Mapping[str, int]):
        """Takes the merges, and the ids (0, 1, ...) of all tokens that they join or make."""
        super().__init__()
        self._end = len(ids)  # the id that ends a piece, which no merge has
        self._num_merges = len(merges)
        keys, self._left_bound, self._right_bound = self._pairs_with_bounds(merges, ids)
        self._no_pair = len(keys)
        self._pairs = lookup_table(keys, np.arange(len(keys), dtype=np.int32), default=len(keys))
        # One more, so that there is something to gather without merges.
        self._merged = tf.constant([*(ids[left + right] for left, right in merges), 0], tf.int32)

    def _look_up_whole(self, pieces: Sequence[str]) -> None:
        """Makes the table of pieces that are one token."""
        self._merge = traced_once(
            self._merge_in_rounds, tf.TensorSpec([None], tf.string, name="pieces")
        )
        # Merging decides, as it may not arrive at every token.
        spelled = np.array(pieces, object)
        merged = self._merge(tf.constant(spelled))
        # Pieces of bytes that the vocabulary lacks become empty.
        is_whole = (merged.row_lengths() == 1).numpy()
        whole_ids = tf.gather(merged.values, merged.row_splits[:-1].numpy()[is_whole]).numpy()
        self._whole = lookup_table(spelled[is_whole], whole_ids, default=-1)

    def _pairs_with_bounds(
        self, merges: Merges, ids: Mapping[str, int]
    ) -> tuple[np.ndarray, tf.Tensor, tf.Tensor]:
        """Keys of pairs, beginning with the merges' pairs, and their bounds. The left bound of (a, b) is the number of
        the first merge of something ending in a with b. The right bound is that of the first merge of a with
        something beginning with b.
        """
        size = self._end + 1
        keys, left, right = [], {}, {}
        for number, (a, b) in enumerate(merges):
            id_a, id_b = ids[a], ids[b]
            keys.append(id_a * size + id_b)
            for start in range(len(a)):
                if (suffix := ids.get(a[start:])) is not None:
                    left.setdefault(suffix * size + id_b, number)
            for stop in range(1, len(b) + 1):
                if (prefix := ids.get(b[:stop])) is not None:
                    right.setdefault(id_a * size + prefix, number)
        # A table must not be empty; -1 is no pair.
        keys = list(dict.fromkeys([*keys, *left, *right])) or [-1]
        # The last entry is for all other pairs.
        bounds = [
            [*(side.get(key, len(keys)) for key in keys), len(keys)] for side in (left, right)
        ]
        return np.array(keys, np.int64), *(tf.constant(side, tf.int32) for side in bounds)

    def __call__(self, pieces: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids int32 [pieces, (tokens)] of pieces, string [pieces]."""
        whole = self._whole.lookup(pieces)
        is_whole = whole >= 0
        others, which = tf.unique(picked(pieces, ~is_whole))
        merged = self._merge(others)
        # The ids of a piece are a slice of the pool.
        num_pieces = tf.size(pieces, tf.int64)
        pool = tf.concat([whole, merged.values], 0)
        at = tf.where(~is_whole)
        starts = tf.tensor_scatter_nd_update(
            tf.range(num_pieces), at, num_pieces + tf.gather(merged.row_splits, which)
        )
        lengths = tf.tensor_scatter_nd_update(
            tf.ones_like(starts), at, tf.gather(merged.row_lengths(), which)
        )
        slices = tf.ragged.range(starts, starts + lengths)
        return slices.with_values(tf.gather(pool, slices.values))

    def _first_ids(self, pieces: tf.Tensor) -> tf.Tensor:
        """The ids that merging begins with, int32 [n], with `_end` after each piece."""
        raise NotImplementedError

    def _merge_in_rounds(self, pieces: tf.Tensor) -> tf.RaggedTensor:
        # Another end in front, so that every id has neighbours.
        ids = tf.concat([[self._end], self._first_ids(pieces)], 0)
        found = self._find_pairs(ids, tf.range(tf.size(ids, tf.int64) - 1))
        ids, _ = tf.while_loop(
            lambda ids, pairs: tf.reduce_any(pairs < self._num_merges),
            self._round,
            (ids, tf.concat([found, [self._no_pair]], 0)),
            shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None])),
        )
        is_token = ids != self._end
        row_splits = tf.where(~is_token)[:, 0] - tf.range(tf.size(pieces, tf.int64) + 1)
        return tf.RaggedTensor.from_row_splits(picked(ids, is_token), row_splits, validate=False)

    def _find_pairs(self, ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Returns the numbers of the pairs of the ids at some positions with the next ones."""
        left = tf.cast(tf.gather(ids, positions), tf.int64)
        right = tf.cast(tf.gather(ids, positions + 1), tf.int64)
        return self._pairs.lookup(left * (self._end + 1) + right)

    def _round(self, ids: tf.Tensor, pairs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Makes the safe merges, or else the first ones of every piece. `ids` [n] have `_end` in front and after every
        piece, and `pairs` [n] are their results of `_find_pairs`. Only changed pairs are looked up again.
        """
        positions = tf.where(pairs < self._num_merges)[:, 0]
        candidates = tf.gather(pairs, positions)
        before, after = tf.gather(pairs, positions - 1), tf.gather(pairs, positions + 1)
        is_safe = candidates < tf.minimum(
            tf.gather(self._left_bound, before), tf.gather(self._right_bound, after)
        )
        chosen = tf.cond(
            tf.reduce_any(is_safe),
            lambda: picked(positions, is_safe),
            lambda: self._first_of_each_piece(ids, positions, candidates),
        )
        merged = tf.gather(self._merged, tf.gather(pairs, chosen))
        ids = tf.tensor_scatter_nd_update(ids, chosen[:, None], merged)
        is_kept = tf.tensor_scatter_nd_update(
            tf.ones_like(ids, tf.bool), chosen[:, None] + 1, tf.zeros_like(chosen, tf.bool)
        )
        kept = tf.where(is_kept)[:, 0]
        ids, pairs = tf.gather(ids, kept), tf.gather(pairs, kept)

        moved = chosen - tf.range(tf.size(chosen, tf.int64))
        changed = tf.concat([moved, moved - 1], 0)
        found = self._find_pairs(ids, changed)
        return ids, tf.tensor_scatter_nd_update(pairs, changed[:, None], found)

    def _first_of_each_piece(
        self, ids: tf.Tensor, positions: tf.Tensor, candidates: tf.Tensor
    ) -> tf.Tensor:
        """Returns all positions of each piece's first merge."""
        piece = tf.searchsorted(tf.where(ids == self._end)[:, 0], positions)
        first = tf.gather(tf.math.segment_min(candidates, piece), piece)
        chosen = picked(positions, candidates == first)
        # In a run of one token, a pair overlaps with itself; every other one counts, from the left.
        starts_run = tf.concat([[True], chosen[1:] != chosen[:-1] + 1], 0)
        run = tf.cumsum(tf.cast(starts_run, tf.int32)) - 1
        run_start = tf.gather(picked(chosen, starts_run), run)
        return picked(chosen, (chosen - run_start) % 2 == 0)


class WordMerger(Merger):
    """Joins the characters of words to tokens of a vocabulary (token as merges make it, with "</w>" at the end of a
    word -> id). The result of a merge need not be a token: later merges may make one of it. Otherwise it becomes the
    unknown token, and so does a character that no merge and no token has.
    """

    def __init__(
        self, tokens: Mapping[str, int], merges: Sequence[tuple[str, str]], unknown_id: int
    ):
        parts = (part for left, right in merges for part in (left, right, left + right))
        ids = {symbol: index for index, symbol in enumerate(dict.fromkeys([*tokens, *parts]))}
        token_ids = [tokens.get(symbol, unknown_id) for symbol in ids]
        lengths = [len(symbol.removesuffix(WORD_END)) for symbol in ids]
        ids[""] = len(ids)  # for characters without a symbol
        super().__init__(merges, ids)
        self._token_ids = tf.constant([*token_ids, unknown_id])
        self._lengths = tf.constant([*lengths, 1])
        if _used_before_made(merges):
            # Then no merge is safe, and each word makes its merges one by one.
            self._left_bound = self._right_bound = tf.fill(tf.shape(self._left_bound), -1)
        chars = {}
        for symbol, index in ids.items():
            bare = symbol.removesuffix(WORD_END)
            if len(bare) == 1:
                chars[ord(bare) + (_LAST if bare != symbol else 0)] = index
        self._first = lookup_table(
            np.array([*chars], np.int64), np.array([*chars.values()], np.int32), default=ids[""]
        )
        self._look_up_whole(
            [t.removesuffix(WORD_END) for t in tokens if t.endswith(WORD_END) and t != WORD_END]
        )

    def _first_ids(self, pieces: tf.Tensor) -> tf.Tensor:
        codes = tf.strings.unicode_decode(pieces, "UTF-8")
        is_last = tf.scatter_nd(
            codes.row_splits[1:, None] - 1,
            tf.ones_like(pieces, tf.int32),
            tf.shape(codes.values, tf.int64),
        )
        chars = tf.cast(codes.values + is_last * _LAST, tf.int64)
        ids = codes.with_values(self._first.lookup(chars))
        ends = tf.fill([tf.size(pieces), 1], self._end)
        return tf.concat(
            [ids, tf.RaggedTensor.from_tensor(ends, row_splits_dtype=tf.int64)], 1
        ).values

    def __call__(self, pieces: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids int32 [words, (tokens)] of words, string [words]."""
        symbols = super().__call__(pieces)
        return symbols.with_values(tf.gather(self._token_ids, symbols.values))

    def with_offsets(self, pieces: tf.Tensor, spans: tf.Tensor) -> tf.RaggedTensor:
        """Ids, starts and ends int32 [words, (tokens), 3] of words, string [words]; `spans` int32 [characters, 2] are
        the start and end of each character of all words in its text.
        """
        symbols = super().__call__(pieces)
        ids, lengths = (
            tf.gather(column, symbols.values) for column in (self._token_ids, self._lengths)
        )
        stops = tf.cumsum(lengths)
        starts, ends = tf.gather(spans[:, 0], stops - lengths), tf.gather(spans[:, 1], stops - 1)
        return symbols.with_values(token_columns(ids, starts, ends))


class MergesWords(Tokenizer):
    """Base class of tokenizers that merge the characters of words, first merges first; `_build` calls `_prepare`."""

    def __init__(self, vocabulary: Vocabulary, merges: Merges, **options: Any):
        super().__init__(vocabulary, **options)
        # In a plain object, so that tf.Module does not track each of them.
        self._merges = SimpleNamespace(pairs=tuple(map(tuple, merges)))

    def _prepare(
        self,
        find_words: Callable[[tf.Tensor], tf.RaggedTensor],
        ids: Mapping[str, int],
        added_tokens: AddedTokens,
        *,
        in_normalized: Callable[[tf.Tensor], tf.RaggedTensor] | None = None,
        with_spans: Callable[[tf.Tensor], tuple[tf.RaggedTensor, tf.Tensor]] | None = None,
    ) -> None:
        """Makes the functions that tokenize.

        Args:
            find_words: maps texts in UTF-8 [batch] to string [batch, (words)].
            ids: see `WordMerger`.
            in_normalized: `find_words` for texts that the normalizer of `added_tokens` has normalised.
            with_spans: returns the words, and start and end of each of their characters in its text,
                int32 [characters, 2]; None for a tokenizer without offsets.
        """
        self._added, self._merger = added_tokens, WordMerger(ids, self.merges, self.unk_id)
        self._find_words, self._in_normalized = find_words, in_normalized
        self._find_words_with_spans = with_spans
        with_offsets = partial(self._tokenize_batch, with_offsets=True)
        self._trace(self._tokenize_batch, with_offsets if with_spans else None)

    @property
    def merges(self) -> tuple[tuple[str, str], ...]:
        return self._merges.pairs

    def _tokenize_batch(self, texts: tf.Tensor, *, with_offsets: bool = False) -> tf.RaggedTensor:
        return self._added.tokenize(
            as_utf8(texts),
            partial(self._tokenize_words, find_words=self._find_words),
            partial(self._tokenize_words, find_words=self._in_normalized),
            with_offsets=with_offsets,
        )

    def _tokenize_words(
        self,
        texts: tf.Tensor,
        find_words: Callable[[tf.Tensor], tf.RaggedTensor],
        with_offsets: bool,
    ) -> tf.RaggedTensor:
        if with_offsets:
            words, spans = self._find_words_with_spans(texts)
            return joined_rows(self._merger.with_offsets(words.values, spans), words)
        words = find_words(texts)
        return joined_rows(self._merger(words.values), words)
