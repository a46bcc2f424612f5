"""The two halves of byte-level BPE in the graph: texts to pieces, pieces to tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_zoo.text.offsets import lookup_table, picked
from bert_zoo.text.tokenizer import traced_once
from bert_zoo.text.unicode_tables import code_points

_VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_HIDDEN = tuple(byte for byte in range(256) if byte not in _VISIBLE)
# GPT-2's alphabet, a character for every byte: itself, or for the invisible ones those from U+0100.
ALPHABET = {
    **{chr(byte): byte for byte in _VISIBLE},
    **{chr(0x100 + position): byte for position, byte in enumerate(_HIDDEN)},
}

# Kinds of code points. The order matters: white space, the end of a text, what pieces are made of.
_BLANK, _SPACE, _END, _OTHER, _LETTER, _NUMBER = range(6)

# Ends a text or a piece while several of them are one vector. No character of GPT-2's alphabet.
_TERMINATOR = "\n"
# The id of a byte that the vocabulary has no token for.
_ABSENT = -1

Merges = Sequence[tuple[str, str]]


class Splitter(tf.Module):
    """Splits texts by GPT-2's pattern, with the tables of what the reference takes for letters."""

    def __init__(self):
        super().__init__()
        kinds = np.full(0x110000, _OTHER, np.int32)
        kinds[code_points("byte_bpe/letters")] = _LETTER
        kinds[code_points("byte_bpe/numbers")] = _NUMBER
        kinds[code_points("byte_bpe/whitespace")] = _SPACE
        kinds[ord(" ")] = _BLANK
        self._kinds = tf.constant(kinds)
        chars = sorted(ALPHABET, key=ALPHABET.__getitem__)
        self._char_of_byte = tf.constant([ord(char) for char in chars], tf.int32)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits string [batch], of any bytes, to string [batch, (pieces)] in GPT-2's alphabet."""
        terminated = tf.strings.join([texts, _TERMINATOR])
        decoded = tf.strings.unicode_decode(terminated, "UTF-8", errors="replace")
        codes, ends = decoded.values, decoded.row_splits[1:] - 1
        kinds = tf.gather(self._kinds, codes)
        kinds = tf.tensor_scatter_nd_update(kinds, ends[:, None], tf.fill(tf.shape(ends), _END))
        starts = tf.where(_piece_starts(codes, kinds))[:, 0]
        is_piece = tf.gather(kinds, starts) != _END

        utf8, starts = tf.cond(
            tf.reduce_any(codes > 0x7F), lambda: _utf8(codes, starts), lambda: (codes, starts)
        )
        pieces = tf.RaggedTensor.from_row_starts(
            tf.gather(self._char_of_byte, utf8), starts, validate=False
        )
        pieces = tf.strings.unicode_encode(pieces, "UTF-8")
        row_ends = tf.where(~is_piece)[:, 0] - tf.range(tf.size(ends, tf.int64))
        return tf.RaggedTensor.from_row_splits(
            picked(pieces, is_piece), tf.concat([[0], row_ends], 0), validate=False
        )


def _piece_starts(codes: tf.Tensor, kinds: tf.Tensor) -> tf.Tensor:
    """Returns where pieces start, bool [n]; a terminator is a piece too.

    A run of one kind is a piece, with the blank before it if there is one. White space before
    something else leaves its last character to it: a blank joins that, another is its own piece.
    """
    before = tf.concat([[_END], kinds], 0)[:-1]
    after = tf.concat([kinds, [_END]], 0)[1:]
    run_changes = tf.maximum(kinds, _SPACE) != tf.maximum(before, _SPACE)
    joins_blank = (before == _BLANK) & (kinds > _END)
    is_last_space = (kinds < _END) & (after > _END)
    starts = (run_changes & ~joins_blank) | is_last_space | (kinds == _END)
    apostrophes = tf.where(starts & (codes == ord("'")))[:, 0]
    return tf.cond(
        tf.size(apostrophes) > 0,
        lambda: _with_contractions(starts, apostrophes, codes, kinds),
        lambda: starts,
    )


def _with_contractions(
    starts: tf.Tensor, apostrophes: tf.Tensor, codes: tf.Tensor, kinds: tf.Tensor
) -> tf.Tensor:
    """Makes pieces of 's 't 'm 'd 're 've 'll where a piece starts with an apostrophe."""
    first = tf.gather(codes, apostrophes + 1)
    # After the last text's terminator there is nothing; its own is no letter.
    second = tf.gather(codes, tf.minimum(apostrophes + 2, tf.size(codes, tf.int64) - 1))
    one = tf.reduce_any(first[:, None] == [ord(char) for char in "stmd"], axis=1)
    pairs = first[:, None] * 0x80 + second[:, None]
    two = (second <= 0x7F) & tf.reduce_any(
        pairs == [ord(a) * 0x80 + ord(b) for a, b in ("re", "ve", "ll")], axis=1
    )
    length = tf.where(one, 2, tf.where(two, 3, 0))
    begin = picked(apostrophes, length > 0)
    end = begin + tf.cast(picked(length, length > 0), tf.int64)
    starts = tf.tensor_scatter_nd_update(
        starts, (begin + 1)[:, None], tf.zeros_like(begin, tf.bool)
    )
    # Whatever follows, a letter too, begins a piece.
    return tf.tensor_scatter_nd_update(starts, end[:, None], tf.ones_like(end, tf.bool))


def _utf8(codes: tf.Tensor, starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the bytes [m] of code points [n], and where among them those of `starts` begin."""
    data = tf.io.decode_raw(tf.strings.unicode_encode(codes, "UTF-8"), tf.uint8)
    is_first = tf.bitwise.bitwise_and(data, tf.constant(0xC0, tf.uint8)) != 0x80
    return tf.cast(data, tf.int32), tf.gather(tf.where(is_first)[:, 0], starts)


class Merger(tf.Module):
    """Joins the bytes of pieces to tokens.

    Most pieces are a token, and a table says which; only others are merged, in rounds. The rule
    is one merge at a time in each piece, the first of the list. A round makes at once all those
    that the rule is sure to make sooner or later: a pair is *safe* when it comes in the list before

    - every merge of something that ends in its left neighbour with its left token, and
    - every merge of its right token with something that begins with its right neighbour:

    whatever the neighbours grow to until its turn comes, they cannot take a part of the pair away.
    Where no pair of the batch is safe, every piece makes the first merge it has, wherever it has it.

    This supposes that all merges that make a token come before all that use it, as in every list
    that training writes; the tokenizer refuses other lists.
    """

    def __init__(self, tokens: Sequence[str], merges: Merges):
        super().__init__()
        ids = {token: index for index, token in enumerate(tokens)}
        self._prepare(merges, ids)
        id_of_char = np.zeros(ord(max(ALPHABET)) + 1, np.int32)
        for char in ALPHABET:
            id_of_char[ord(char)] = ids.get(char, _ABSENT)
        self._lacks_bytes = not ids.keys() >= ALPHABET.keys()
        id_of_char[ord(_TERMINATOR)] = self._end
        self._id_of_char = tf.constant(id_of_char)
        self._look_up_whole([token for token in tokens if ALPHABET.keys() >= set(token)])

    def _prepare(self, merges: Merges, ids: dict[str, int]) -> None:
        """Makes the tables of merges, whose tokens have these ids, 0 to their number - 1."""
        self._end = len(ids)  # the terminator's id: a token that no merge has
        self._num_merges = len(merges)
        keys, self._left_bound, self._right_bound = self._pairs_with_bounds(merges, ids)
        self._no_pair = len(keys)
        self._pairs = lookup_table(keys, np.arange(len(keys), dtype=np.int32), default=len(keys))
        # One more, so that there is something to gather where there are no merges.
        self._merged = tf.constant([*(ids[left + right] for left, right in merges), 0], tf.int32)

    def _look_up_whole(self, pieces: Sequence[str]) -> None:
        """Makes the table of those pieces that are a token."""
        self._merge = traced_once(
            self._merge_in_rounds, tf.TensorSpec([None], tf.string, name="pieces")
        )
        # A token that merging does not arrive at is no answer; so merging itself is asked.
        spelled = np.array(pieces, object)
        merged = self._merge(tf.constant(spelled))
        # Of bytes that the vocabulary lacks nothing is left.
        is_whole = (merged.row_lengths() == 1).numpy()
        whole_ids = tf.gather(merged.values, merged.row_splits[:-1].numpy()[is_whole]).numpy()
        self._whole = lookup_table(spelled[is_whole], whole_ids, default=-1)

    def _pairs_with_bounds(
        self, merges: Merges, ids: dict[str, int]
    ) -> tuple[np.ndarray, tf.Tensor, tf.Tensor]:
        """Keys of pairs, those of the merges first, and their bounds.

        The bound of (a, b) to the left is the number of the first merge of something ending in a
        with b; to the right, of the first merge of a with something beginning with b.
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
        keys = list(dict.fromkeys([*keys, *left, *right]))
        # The last entry is that of all other pairs.
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
        """What merging begins with, int32 [n]: each piece's ids, and the terminator's behind them."""
        chars = tf.strings.unicode_decode(tf.strings.join([pieces, _TERMINATOR]), "UTF-8")
        ids = tf.gather(self._id_of_char, chars.values)
        return picked(ids, ids != _ABSENT) if self._lacks_bytes else ids

    def _merge_in_rounds(self, pieces: tf.Tensor) -> tf.RaggedTensor:
        # One terminator more in front, so that every id has neighbours.
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
        """Makes the safe merges, or else the first ones of every piece.

        Of ids [n], the terminator's first and after every piece, `pairs` [n] are what `_find_pairs`
        says; only what has changed is asked anew.
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
        """Returns the positions of each piece's first merge, wherever it has it."""
        piece = tf.searchsorted(tf.where(ids == self._end)[:, 0], positions)
        first = tf.gather(tf.math.segment_min(candidates, piece), piece)
        chosen = picked(positions, candidates == first)
        # A pair overlaps with itself in a run of one token; from its left end, every other counts.
        starts_run = tf.concat([[True], chosen[1:] != chosen[:-1] + 1], 0)
        run = tf.cumsum(tf.cast(starts_run, tf.int32)) - 1
        run_start = tf.gather(picked(chosen, starts_run), run)
        return picked(chosen, (chosen - run_start) % 2 == 0)
