"""Byte pair encoding in the graph, of characters and of bytes.

A piece begins as single bytes or characters. Of its neighbouring pairs, the one that comes first in the list
of merges is joined (the leftmost if there are several), until no pair is in the list.
"""

from __future__ import annotations

import itertools
import json
import logging
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    as_utf8,
    characters_of_bytes,
    joined_rows,
    lookup_table,
    picked,
    sums_before,
    token_columns,
    utf8_lengths,
)
from bert_zoo.text.files import AddedToken, Vocabulary, special_tokens
from bert_zoo.text.format import bpe_model, framed, sequence, serialized
from bert_zoo.text.normalizer import Composition
from bert_zoo.text.numpy_packing import ragged_range
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks, Tokenizer, traced_once
from bert_zoo.text.unicode_tables import NFC, code_points
from bert_zoo.text.vocabulary_files import PATTERNS, Pattern

Merges = Sequence[tuple[str, str]]
# The suffix of a word's last character, and so of tokens that end a word.
WORD_END = "</w>"
# Above every code point: marks a word's last one.
_LAST = 1 << 21


def checked_merges(
    merges: Sequence[tuple[str, str]], vocabulary: Vocabulary, source: str | Path
) -> tuple[tuple[str, str], ...]:
    """The merges; ValueError if they do not fit the vocabulary or repeat."""
    pairs = tuple(map(tuple, merges))
    problems = []
    known = vocabulary.ids  # there may be half a million merges
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair) or "" in pair:
            problems.append(f"merge {number} is {shown(pair)}, not two tokens")
        elif not (pair[0] in known and pair[1] in known and pair[0] + pair[1] in known):
            absent = [token for token in (*pair, "".join(pair)) if token not in known]
            problems.append(
                f"merge {number}, {shown(pair)}, needs {shown(absent)}, not in the vocabulary"
            )
    if len(set(pairs)) < len(pairs):
        repeated = [pair for pair, count in Counter(pairs).items() if count > 1]
        problems += [f"the merge {shown(pair)} comes more than once" for pair in repeated]
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

    Then the neighbours cannot take a part of the pair away, whatever they grow to. If a neighbour cannot
    grow before the pair is merged, only its own merge with the pair counts. If no pair of the batch is
    safe, every piece makes its first merge, at all places.

    In a trained list, all merges that make a token come before all that use it. Lists that were made from
    a vocabulary have all pairs that make each token, and some come after merges that use the token. Then
    a pair is safe only if it also comes before all merges of the token that it makes with such neighbours,
    and a first merge whose token an earlier one uses is made only at its leftmost place in a piece.
    """

    def __init__(self, merges: Merges, ids: Mapping[str, int]):
        """Takes the merges, and the ids (0, 1, ...) of all tokens that they join or make."""
        super().__init__()
        self._end = len(ids)  # the id that ends a piece, which no merge has
        self._num_merges = len(merges)
        parts = [*zip(*merges, strict=True)] or [(), ()]
        left, right, made = (
            np.fromiter(map(ids.__getitem__, tokens), np.int64, len(merges))
            for tokens in (*parts, map(operator.add, *parts))
        )
        self._pairs, self._left_bound, self._right_bound = self._with_bounds(left, right, ids)
        self._no_pair = self._left_bound.shape[0] - 1
        # One more, so that there is something to gather without merges.
        self._merged = tf.constant([*made, 0], tf.int32)
        number = np.arange(len(merges))
        first_use = np.full(len(ids), len(merges))
        for used in (left, right):
            np.minimum.at(first_use, used, number)
        is_used_before = first_use[made] < number
        self._is_used_before = tf.constant(is_used_before) if is_used_before.any() else None

    def _look_up_whole(self, pieces: Sequence[str], ids: Sequence[int] | None = None) -> None:
        """Makes the table of pieces that are one token, by default those that merging makes one of."""
        self._merge = traced_once(
            self._merge_in_rounds, tf.TensorSpec([None], tf.string, name="pieces")
        )
        spelled = np.array(pieces, object)
        if ids is not None:
            self._whole = lookup_table(spelled, np.array(ids, np.int32), default=-1)
            return
        # Merging decides, as it may not arrive at every token.
        merged = self._merge(tf.constant(spelled))
        # Pieces of bytes that the vocabulary lacks become empty.
        is_whole = (merged.row_lengths() == 1).numpy()
        whole_ids = tf.gather(merged.values, merged.row_splits[:-1].numpy()[is_whole]).numpy()
        self._whole = lookup_table(spelled[is_whole], whole_ids, default=-1)

    def _with_bounds(
        self, left: np.ndarray, right: np.ndarray, ids: Mapping[str, int]
    ) -> tuple[tf.lookup.StaticHashTable, tf.Tensor, tf.Tensor]:
        """Numbers of pairs, first those of merges, int64 [merges], in their order, and the bounds of all numbers. The
        left bound of (a, b) is the number of the first merge of something ending in a with b. The right bound is that
        of the first merge of a with something beginning with b.
        """
        size = self._end + 1
        endings, ends = _known_parts(left, ids, from_end=True)
        beginnings, begins = _known_parts(right, ids, from_end=False)
        bounded = endings * size + right[ends], left[begins] * size + beginnings
        # These are in the order of the merges, so that the first of equal keys is the first merge.
        found = [np.unique(keys, return_index=True) for keys in bounded]
        # Merges' pairs are among them. A table must not be empty; -1 is no pair.
        keys = np.union1d(np.append(found[0][0], -1), found[1][0])
        numbers = np.full(len(keys), -1, np.int32)
        numbers[np.searchsorted(keys, left * size + right)] = np.arange(len(left))
        numbers[numbers < 0] = np.arange(len(left), len(keys))
        bounds = []
        for (each, first), merge in zip(found, (ends, begins), strict=True):
            # The last entry is for all other pairs.
            bound = np.full(len(keys) + 1, len(keys), np.int32)
            bound[numbers[np.searchsorted(keys, each)]] = merge[first]
            bounds.append(tf.constant(bound))
        return lookup_table(keys, numbers, default=len(keys)), *bounds

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
        return self._numbers(tf.gather(ids, positions), tf.gather(ids, positions + 1))

    def _numbers(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Returns the numbers of the pairs of ids [n]."""
        left, right = tf.cast(left, tf.int64), tf.cast(right, tf.int64)
        return self._pairs.lookup(left * (self._end + 1) + right)

    def _are_safe(
        self, ids: tf.Tensor, pairs: tf.Tensor, positions: tf.Tensor, candidates: tf.Tensor
    ) -> tf.Tensor:
        """Which candidates, the merges at some positions, are safe, bool [candidates]."""
        before_that, before, after, after_that = (
            tf.gather(pairs, tf.maximum(positions + place, 0)) for place in (-2, -1, 1, 2)
        )
        left_stays = candidates < tf.gather(self._left_bound, before_that)
        right_stays = candidates < tf.gather(self._right_bound, after_that)

        left = tf.where(left_stays, before, tf.gather(self._left_bound, before))
        right = tf.where(right_stays, after, tf.gather(self._right_bound, after))
        are_safe = candidates < tf.minimum(left, right)
        if self._is_used_before is None:
            return are_safe
        # The same for the tokens that they make.
        which = tf.where(are_safe)
        at, merges, left_stays, right_stays = (
            tf.gather_nd(each, which) for each in (positions, candidates, left_stays, right_stays)
        )
        made = tf.gather(self._merged, merges)
        before = self._numbers(tf.gather(ids, at - 1), made)
        after = self._numbers(made, tf.gather(ids, at + 2))
        left = tf.where(left_stays, before, tf.gather(self._left_bound, before))
        right = tf.where(right_stays, after, tf.gather(self._right_bound, after))
        return tf.tensor_scatter_nd_update(are_safe, which, merges < tf.minimum(left, right))

    def _round(self, ids: tf.Tensor, pairs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Makes the safe merges, or else the first ones of every piece. `ids` [n] have `_end` in front and after every
        piece, and `pairs` [n] are their results of `_find_pairs`. Only changed pairs are looked up again.
        """
        positions = tf.where(pairs < self._num_merges)[:, 0]
        candidates = tf.gather(pairs, positions)
        is_safe = self._are_safe(ids, pairs, positions, candidates)
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
        is_first = candidates == first
        if self._is_used_before is not None:
            places = tf.where(is_first, positions, positions.dtype.max)
            leftmost = tf.gather(tf.math.segment_min(places, piece), piece)
            is_first &= ~tf.gather(self._is_used_before, first) | (positions == leftmost)
        chosen = picked(positions, is_first)
        # In a run of one token, a pair overlaps with itself; every other one counts, from the left.
        starts_run = tf.concat([[True], chosen[1:] != chosen[:-1] + 1], 0)
        run = tf.cumsum(tf.cast(starts_run, tf.int32)) - 1
        run_start = tf.gather(picked(chosen, starts_run), run)
        return picked(chosen, (chosen - run_start) % 2 == 0)


def _known_parts(
    tokens: np.ndarray, ids: Mapping[str, int], *, from_end: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that each of some tokens, int64 [n], ends in or begins with, itself included, one after the other, and
    for each the position of its token in `tokens`.
    """
    get, names = ids.get, [*ids]
    distinct, which = np.unique(tokens, return_inverse=True)
    rows = []
    for token in map(names.__getitem__, distinct.tolist()):
        places = range(len(token))
        found = [get(token[i:] if from_end else token[: i + 1], -1) for i in places]
        rows.append([part for part in found if part >= 0])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(lengths.sum()))
    starts, lengths = (np.cumsum(lengths) - lengths)[which], lengths[which]
    return values[ragged_range(starts, lengths)], np.repeat(np.arange(len(tokens)), lengths)


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


# -------------------------------------------------------------------------------------------------
# Byte-level BPE, with the ids of Hugging Face's fast RoBERTa tokenizer on every input.
#
# A text is cut at its special tokens. The rest is split into *pieces* by GPT-2's pattern
#
#     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#
# or by another of `PATTERNS`.
#
# Inside the graph a piece is written in GPT-2's alphabet, one character per byte, as vocabularies are.
# -------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

_VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_HIDDEN = tuple(byte for byte in range(256) if byte not in _VISIBLE)
# GPT-2's alphabet: visible bytes are their own characters, the others those from U+0100.
ALPHABET = {
    **{chr(byte): byte for byte in _VISIBLE},
    **{chr(0x100 + position): byte for position, byte in enumerate(_HIDDEN)},
}

# Kinds of code points. The order matters: white space, the end of a text, the kinds of pieces.
_BLANK, _SPACE, _NEWLINE, _END, _OTHER, _LETTER, _NUMBER = range(7)

_LONG_S = 0x17F  # "ſ", another small s

# Ends a text or a piece where several are joined into one vector. Not in GPT-2's alphabet.
_TERMINATOR = "\n"
# The id of a byte without a token.
_ABSENT = -1


class ByteBpeTokenizer(Tokenizer):
    """RoBERTa's, GPT-2's and Llama 3's tokenizer: splits texts by a pattern, then merges bytes to tokens.

    Ids equal those of the tokenizers library's ByteLevel and BPE on every text. Special and added
    tokens inside a text become their own ids, as they do there. Bytes that are not UTF-8 count as
    U+FFFD, as in `text.decode("utf-8", "replace")`. An empty text has no tokens.

    With a normalization, special and added tokens are searched in the text as it is. The text between
    them is normalised, searched for added tokens with `normalized=True`, then split and merged.

    Offsets equal that library's with RoBERTa's `trim_offsets`: " the" covers its three letters, and a
    blank alone covers nothing (start equals end). A token with some bytes of a character covers that
    character. The mask token covers itself, without the white space it takes. A blank that
    `add_prefix_space` puts after a special token is trimmed from the text, as there, so the word's
    token starts one character late.

    Args:
        vocabulary: tokens in the order of their ids, written in GPT-2's alphabet.
        merges: pairs of tokens, first merges first.
        add_prefix_space: put a blank before a text, and before the text after a special token, unless
            it begins with one.
        lstrip_mask: the mask token takes the white space before it, as in the released files and
            in fairseq. (transformers 5.23 does so only where a file of the directory says so.)
        unknown_token, padding_token, cls_token, sep_token, mask_token, eos_token: names of the special
            tokens; None for those that the vocabulary lacks.
        added_tokens: tokens that are kept whole, besides the special tokens; see `AddedToken`.
        normalization: "NFC", which composes letters and accents, or None.
        pattern: by which texts are split: "gpt_2"; "digits", GPT-2's with each digit alone; "gpt_4", of GPT-4 and
            Llama 3, with up to three digits together; "qwen2", the same with each digit alone.
        ignore_merges: a piece that is a token becomes it, even if merges do not arrive at it (Llama 3).
        begins_word: regular expression for the text of tokens that begin a word in `word_starts`; by
            default those with a leading blank, as in fairseq.
        source: where vocabulary and merges come from, for error messages.

    Raises:
        ValueError: duplicates in the vocabulary, a special token that it lacks, merges that do not
            fit it, or another normalization or pattern.

    Source: Radford et al. 2019, openai/gpt-2 src/encoder.py; huggingface/tokenizers.
    """

    marks = Marks(begins="Ġ")

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Merges,
        *,
        add_prefix_space: bool = False,
        lstrip_mask: bool = True,
        unknown_token: str | None = "<unk>",
        padding_token: str | None = "<pad>",
        cls_token: str | None = "<s>",
        sep_token: str | None = "</s>",
        mask_token: str | None = "<mask>",
        eos_token: str | None = None,
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
        normalization: str | None = None,
        pattern: str = "gpt_2",
        ignore_merges: bool = False,
        begins_word: str = " .*",
        source: str | Path = "the arguments",
    ):
        named = special_tokens(unknown_token, padding_token, cls_token, sep_token, mask_token)
        named["eos_token"] = eos_token
        super().__init__(
            Vocabulary(vocabulary),
            add_prefix_space=bool(add_prefix_space),
            lstrip_mask=bool(lstrip_mask and mask_token),
            **named,
            added_tokens=added_tokens,
            normalization=normalization,
            pattern=pattern,
            ignore_merges=bool(ignore_merges),
            begins_word=begins_word,
        )
        if normalization not in (None, NFC):
            raise ValueError(f"normalization is {normalization!r}; choose {NFC!r} or None.")
        if pattern not in PATTERNS:
            raise ValueError(f"pattern is {shown(pattern)}; choose one of {[*PATTERNS]}.")
        # In a plain object, so that tf.Module does not track each of them.
        self._plain = SimpleNamespace(
            merges=_byte_merges(merges, self._base_vocabulary, source),
            added={token.content for token in self.added_tokens.values()},
        )
        self._build_graph()

    def _build(self) -> None:
        found = self.added_tokens
        takes = [index for index, token in found.items() if token.lstrip or token.rstrip]
        self._added = AddedTokens(found, Composition() if self._options.normalization else None)
        self._splitter = Splitter(PATTERNS[self._options.pattern])
        self._merger = ByteMerger(
            self.base_vocabulary, self.merges, ignore_merges=self._options.ignore_merges
        )
        self._num_bytes = tf.constant([len(token.encode()) for token in self.vocabulary])
        leading, trailing = zip(*map(_count_blanks, self.vocabulary), strict=True)
        self._leading_blanks, self._trailing_blanks = map(tf.constant, (leading, trailing))
        self._takes_blanks = None
        if takes:
            self._takes_blanks = tf.constant([i in takes for i in range(self.vocab_size)])
        self._trace(self._tokenize_batch, partial(self._tokenize_batch, with_offsets=True))

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any]:
        options = self._options
        level = {
            "type": "ByteLevel",
            "add_prefix_space": options.add_prefix_space,
            "trim_offsets": True,
            "use_regex": True,
        }
        steps = PATTERNS[options.pattern].steps(level)
        return serialized(
            bpe_model(self._base_vocabulary.ids, self.merges, ignore_merges=options.ignore_merges),
            self._tokens_in_text(),
            normalizer=options.normalization and {"type": options.normalization},
            pre_tokenizer=steps[0] if len(steps) == 1 else sequence(steps, "pretokenizers"),
            decoder=level,
            post_processor=level,  # of offsets alone
        )

    def _tokens_of_roles(self) -> dict[str, AddedToken]:
        tokens, mask = super()._tokens_of_roles(), self._options.mask_token
        if self._options.lstrip_mask:
            tokens[mask] = replace(tokens[mask], lstrip=True)
        return tokens

    @property
    def mask_takes_space(self) -> bool:
        return self._options.lstrip_mask

    def _spelling(self, token: str) -> bytes:
        """The bytes of a token; an added token, or one outside GPT-2's alphabet, is plain text."""
        if token in self._plain.added or not ALPHABET.keys() >= set(token):
            return token.encode()
        return bytes(map(ALPHABET.__getitem__, token))

    def _letters(self, token: str) -> str:
        return self._spelling(token).decode(errors="replace")

    def _begins_word(self, token: str) -> bool:
        begins_word = self._options.begins_word
        return re.fullmatch(begins_word, self._letters(token), re.DOTALL) is not None

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # Bytes that are not UTF-8, for example a character cut in half, become U+FFFD.
        return as_utf8(super()._join(ids))

    def _tokenize_batch(self, texts: tf.Tensor, with_offsets: bool = False) -> tf.RaggedTensor:
        tokenize = self._tokenize_plain
        tokens = self._added.tokenize(
            texts,
            None if self._options.normalization else tokenize,
            tokenize,
            with_offsets=with_offsets,
        )
        if not with_offsets:
            return tokens
        return tokens.with_values(self._trimmed(texts, tokens))

    def _tokenize_plain(self, texts: tf.Tensor, with_offsets: bool) -> tf.RaggedTensor:
        """Tokenizes texts without special tokens; offsets are not trimmed."""
        texts, has_prefix = self._with_prefix_space(texts)
        pieces = self._splitter(texts)
        ids = self._merger(pieces.values)
        tokens = joined_rows(ids, pieces)
        if not with_offsets:
            return tokens

        # From the bytes of pieces, written in GPT-2's alphabet, to the bytes of texts, one per character
        # of that alphabet, and then to the characters of texts. The first step matters only for a
        # vocabulary that lacks bytes: the reference does not count these.
        num_bytes = tf.gather(self._num_bytes, ids.values)
        piece_bytes = tf.cumsum(tf.strings.length(pieces.values), exclusive=True)
        first_bytes = tf.gather(piece_bytes, ids.value_rowids())
        first_bytes += sums_before(num_bytes, ids.row_splits)
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        spelled = tf.strings.unicode_decode(pieces.values, "UTF-8")
        characters = tf.repeat(characters_of_bytes(decoded.values), utf8_lengths(spelled.values))
        # The prefix is not in the text; it gets the position of the first character.
        shift = tf.cast(has_prefix, tf.int32) + tf.cast(decoded.row_splits[:-1], tf.int32)
        shift = tf.gather(shift, tokens.value_rowids())
        starts = tf.maximum(tf.gather(characters, first_bytes) - shift, 0)
        lasts = tf.maximum(tf.gather(characters, first_bytes + num_bytes - 1) - shift, 0)
        return tokens.with_values(token_columns(ids.values, starts, lasts + 1))

    def _with_prefix_space(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The texts with their prefix, and which of them got one, bool [batch]."""
        if not self._options.add_prefix_space:
            return texts, tf.zeros_like(texts, tf.bool)
        first = tf.strings.substr(texts, 0, 1)
        needs_prefix = (first != "") & (first != " ")
        return tf.where(needs_prefix, tf.strings.join([" ", texts]), texts), needs_prefix

    def _trimmed(self, texts: tf.Tensor, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Trims the blanks at both ends of the tokens' spans, counted as in the reference."""
        ids, starts, ends = tf.unstack(tokens.values, num=3, axis=1)
        leading, trailing = (
            tf.gather(blanks, ids) for blanks in (self._leading_blanks, self._trailing_blanks)
        )
        if self._takes_blanks is not None:
            takes = tf.gather(self._takes_blanks, ids)
            taken = _blanks_at_ends(texts, tokens)
            leading, trailing = (
                tf.where(takes, of_text, own)
                for of_text, own in zip(taken, (leading, trailing), strict=True)
            )
        if self._options.add_prefix_space:
            # A single blank at the start of a text counts as the prefix, which takes no place.
            leading = tf.where((starts == 0) & (leading == 1), 0, leading)
        starts = tf.minimum(starts + leading, ends)
        trailing = tf.where(ends >= trailing, trailing, 0)
        return token_columns(ids, starts, tf.maximum(ends - trailing, starts))

    @property
    def merges(self) -> tuple[tuple[str, str], ...]:
        """All merges, in order."""
        return self._plain.merges

    def _files(self) -> dict[str, Any]:
        options = self._options
        name = "RobertaTokenizer" if options.cls_token else "GPT2Tokenizer"
        config = self._config(name, add_prefix_space=options.add_prefix_space)
        if options.eos_token is not None:
            config |= dict.fromkeys(("bos_token", "eos_token"), options.eos_token)
        config["added_tokens_decoder"] = self._tokens_in_text()
        if options.normalization or options.pattern != "gpt_2" or options.ignore_merges:
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
            # vocab.json and merges.txt cannot say it.
            return {"tokenizer.json": framed(self), "tokenizer_config.json": config}
        files = merge_files(self._base_vocabulary.ids, self.merges, "#version: 0.2\n")
        return {**files, "tokenizer_config.json": config}


def _blanks_at_ends(texts: tf.Tensor, tokens: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """White space at the start and end of the spans of tokens [batch, (tokens), 3], int32 [tokens] each."""
    codes = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    shifts = tf.gather(codes.row_splits, tokens.value_rowids())
    begins, ends = (tf.cast(tokens.values[:, i], tf.int64) + shifts for i in (1, 2))
    is_space = tf.reduce_any(codes.values[:, None] == code_points("byte_bpe/whitespace"), axis=1)
    others = tf.concat([[-1], tf.where(~is_space)[:, 0], [tf.size(is_space, tf.int64)]], 0)
    first = tf.gather(others, tf.searchsorted(others, begins))
    last = tf.gather(others, tf.searchsorted(others, ends) - 1)
    blanks = (tf.minimum(first, ends) - begins, ends - tf.maximum(last + 1, begins))
    return tuple(tf.cast(each, tf.int32) for each in blanks)


@cache
def _blanks() -> frozenset[str]:
    return frozenset(["Ġ", *map(chr, code_points("byte_bpe/whitespace"))])


def _count_blanks(token: str) -> tuple[int, int]:
    """Returns the number of blanks at a token's start and at its end, in GPT-2's alphabet or not."""
    is_blank = [char in _blanks() for char in token]
    return [*is_blank, False].index(False), [*is_blank[::-1], False].index(False)


def _byte_merges(
    merges: Merges, vocabulary: Vocabulary, source: str | Path
) -> tuple[tuple[str, str], ...]:
    """The list of merges, checked against the vocabulary, which may lack bytes."""
    missing = [f"byte 0x{b:02x} ({c!r})" for c, b in ALPHABET.items() if c not in vocabulary]
    if missing:
        logger.warning(
            "The vocabulary of %s lacks %s. These bytes are dropped from texts, as by Hugging Face's "
            "tokenizer. A byte-level vocabulary has a token for every byte, in GPT-2's alphabet. "
            "Check that this is one.",
            source,
            listed(missing),
        )
    return checked_merges(merges, vocabulary, source)


class Splitter(tf.Module):
    """Splits texts by a pattern, with the reference's tables of letters, numbers and white space."""

    def __init__(self, pattern: Pattern):
        super().__init__()
        kinds = np.full(0x110000, _OTHER, np.int32)
        kinds[code_points("byte_bpe/letters")] = _LETTER
        kinds[code_points("byte_bpe/numbers")] = _NUMBER
        kinds[code_points("byte_bpe/whitespace")] = _SPACE
        kinds[ord(" ")] = _BLANK
        if pattern.is_modern:
            kinds[[*map(ord, "\r\n")]] = _NEWLINE
        elif pattern.most_digits:
            kinds[code_points("byte_bpe/digits")] = _NUMBER
        self._kinds = tf.constant(kinds)
        self._pattern = pattern
        chars = sorted(ALPHABET, key=ALPHABET.__getitem__)
        self._char_of_byte = tf.constant([ord(char) for char in chars], tf.int32)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits string [batch], of any bytes, to string [batch, (pieces)] in GPT-2's alphabet."""
        terminated = tf.strings.join([texts, _TERMINATOR])
        decoded = tf.strings.unicode_decode(terminated, "UTF-8", errors="replace")
        codes, ends = decoded.values, decoded.row_splits[1:] - 1
        kinds = tf.gather(self._kinds, codes)
        kinds = tf.tensor_scatter_nd_update(kinds, ends[:, None], tf.fill(tf.shape(ends), _END))
        starts = tf.where(self._piece_starts(codes, kinds))[:, 0]
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

    def _piece_starts(self, codes: tf.Tensor, kinds: tf.Tensor) -> tf.Tensor:
        """Where pieces start, bool [n]; a terminator is a piece too."""
        pattern = self._pattern
        if pattern.is_modern:
            starts = _modern_starts(kinds, pattern.most_digits)
        else:
            if pattern.most_digits:  # which are cut out before
                kinds = tf.where(kinds == _NUMBER, _END, kinds)
            starts = _starts(kinds)
        apostrophes = tf.where(starts & (codes == ord("'")))[:, 0]
        return tf.cond(
            tf.size(apostrophes) > 0,
            lambda: _with_contractions(starts, apostrophes, codes, any_case=pattern.is_modern),
            lambda: starts,
        )


def _starts(kinds: tf.Tensor) -> tf.Tensor:
    """Where pieces of GPT-2's pattern start without contractions, bool [n]. A run of one kind is a piece, with the
    blank before it if there is one. Of white space before something else, the last character is split off: a blank
    joins the next piece, another is its own.
    """
    before, after = _neighbours(kinds)
    run_changes = tf.maximum(kinds, _SPACE) != tf.maximum(before, _SPACE)
    joins_blank = (before == _BLANK) & (kinds > _END)
    is_last_space = (kinds < _END) & (after > _END)
    return (run_changes & ~joins_blank) | is_last_space | (kinds == _END)


def _modern_starts(kinds: tf.Tensor, most_digits: int) -> tf.Tensor:
    """The same for GPT-4's pattern. Letters take the one character before them, unless it is a line end, a number, or
    part of a piece. Other characters take a blank before them, and all line ends after them. White space ends at its
    last line end; of what follows, the last character is split off as in GPT-2's.
    """
    before, after = _neighbours(kinds)
    before_that, _ = _neighbours(before)
    is_space, place = kinds < _END, tf.range(tf.size(kinds, tf.int64))
    run_changes = tf.maximum(kinds, _NEWLINE) != tf.maximum(before, _NEWLINE)
    is_taken = (before < _NEWLINE) | (
        (before == _OTHER) & (before_that != _OTHER) & (before_that != _BLANK)
    )
    joins = ((kinds == _LETTER) & is_taken) | ((kinds == _OTHER) & (before == _BLANK))
    joins |= (kinds == _NEWLINE) & (before == _OTHER)
    is_last_space = (kinds < _NEWLINE) & (after > _END)
    starts = (run_changes & ~joins) | is_last_space | (kinds == _END)
    # Numbers, counted from the start of their run.
    runs = tf.concat([[0], tf.where(run_changes)[:, 0]], 0)
    in_run = place - tf.gather(runs, tf.cumsum(tf.cast(run_changes, tf.int32)))
    starts |= (kinds == _NUMBER) & (in_run % most_digits == 0)

    def with_lines() -> tf.Tensor:
        # White space after a line end.
        at = tf.where((kinds < _NEWLINE) & (before == _NEWLINE))[:, 0]
        lines, others = (
            tf.concat([[-1], tf.where(is_there)[:, 0], tf.size(kinds, tf.int64)[None]], 0)
            for is_there in (kinds == _NEWLINE, kinds != _NEWLINE)
        )
        words = tf.where(~is_space)[:, 0]
        next_line = tf.gather(lines, tf.searchsorted(lines, at))
        next_word = tf.gather(words, tf.searchsorted(words, at))
        # What stands before the line ends.
        other = tf.gather(others, tf.searchsorted(others, at) - 1)
        is_other = tf.gather(kinds, tf.maximum(other, 0)) == _OTHER
        begins = picked(at, (next_line > next_word) | ((other >= 0) & is_other))
        return tf.tensor_scatter_nd_update(starts, begins[:, None], tf.ones_like(begins, tf.bool))

    return tf.cond(tf.reduce_any(kinds == _NEWLINE), with_lines, lambda: starts)


def _neighbours(kinds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The kinds [n] before and after each."""
    return tf.concat([[_END], kinds], 0)[:-1], tf.concat([kinds, [_END]], 0)[1:]


def _with_contractions(
    starts: tf.Tensor, apostrophes: tf.Tensor, codes: tf.Tensor, *, any_case: bool
) -> tf.Tensor:
    """Makes pieces of 's 't 'm 'd 're 've 'll where a piece starts with an apostrophe."""
    if any_case:
        codes = tf.where(codes == _LONG_S, ord("s"), codes)
        is_capital = (codes >= ord("A")) & (codes <= ord("Z"))
        codes = tf.where(is_capital, codes + (ord("a") - ord("A")), codes)
    first = tf.gather(codes, apostrophes + 1)
    # Nothing follows the last text's terminator, which is not a letter itself.
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
    # Whatever follows begins a piece, even a letter.
    return tf.tensor_scatter_nd_update(starts, end[:, None], tf.ones_like(end, tf.bool))


def _utf8(codes: tf.Tensor, starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the bytes [m] of code points [n], and the `starts` as positions among the bytes."""
    data = tf.io.decode_raw(tf.strings.unicode_encode(codes, "UTF-8"), tf.uint8)
    is_first = tf.bitwise.bitwise_and(data, tf.constant(0xC0, tf.uint8)) != 0x80
    return tf.cast(data, tf.int32), tf.gather(tf.where(is_first)[:, 0], starts)


class ByteMerger(Merger):
    """Joins the bytes of pieces, written in GPT-2's alphabet, to tokens; drops bytes without a token. With
    `ignore_merges`, a piece that is a token becomes it.
    """

    def __init__(self, tokens: Sequence[str], merges: Merges, *, ignore_merges: bool = False):
        ids = {token: index for index, token in enumerate(tokens)}
        super().__init__(merges, ids)
        id_of_char = np.zeros(ord(max(ALPHABET)) + 1, np.int32)
        for char in ALPHABET:
            id_of_char[ord(char)] = ids.get(char, _ABSENT)
        self._lacks_bytes = not ids.keys() >= ALPHABET.keys()
        id_of_char[ord(_TERMINATOR)] = self._end
        self._id_of_char = tf.constant(id_of_char)
        pieces = [token for token in tokens if ALPHABET.keys() >= set(token)]
        self._look_up_whole(pieces, [ids[piece] for piece in pieces] if ignore_merges else None)

    def _first_ids(self, pieces: tf.Tensor) -> tf.Tensor:
        chars = tf.strings.unicode_decode(tf.strings.join([pieces, _TERMINATOR]), "UTF-8")
        ids = tf.gather(self._id_of_char, chars.values)
        return picked(ids, ids != _ABSENT) if self._lacks_bytes else ids
