"""Byte pair encoding in the graph, of characters and of bytes.

A piece begins as single bytes or characters. Of its neighbouring pairs, the one that comes first in the list
of merges is joined (the leftmost if there are several), until no pair is in the list.
"""

from __future__ import annotations

import json
import logging
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
from bert_zoo.text.format import bpe_model, composing, serialized
from bert_zoo.text.normalizer import Composition
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks, Tokenizer, traced_once
from bert_zoo.text.unicode_tables import NFC, code_points

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


# -------------------------------------------------------------------------------------------------
# Byte-level BPE, with the ids of Hugging Face's fast RoBERTa tokenizer on every input.
#
# A text is cut at its special tokens. The rest is split into *pieces* by GPT-2's pattern
#
#     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
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
_BLANK, _SPACE, _END, _OTHER, _LETTER, _NUMBER = range(6)

# Ends a text or a piece where several are joined into one vector. Not in GPT-2's alphabet.
_TERMINATOR = "\n"
# The id of a byte without a token.
_ABSENT = -1


class ByteBpeTokenizer(Tokenizer):
    """RoBERTa's and GPT-2's tokenizer: splits texts by GPT-2's pattern, then merges bytes to tokens.

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
        begins_word: regular expression for the text of tokens that begin a word in `word_starts`; by
            default those with a leading blank, as in fairseq.
        source: where vocabulary and merges come from, for error messages.

    Raises:
        ValueError: duplicates in the vocabulary, a special token that it lacks, merges that do not
            fit it, or another normalization.

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
            begins_word=begins_word,
        )
        if normalization not in (None, NFC):
            raise ValueError(f"normalization is {normalization!r}; choose {NFC!r} or None.")
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
        self._splitter = Splitter()
        self._merger = ByteMerger(self.base_vocabulary, self.merges)
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
        return serialized(
            bpe_model(self._base_vocabulary.ids, self.merges),
            self._tokens_in_text(),
            normalizer=options.normalization and {"type": options.normalization},
            pre_tokenizer=level,
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
        if options.normalization:
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
            # vocab.json and merges.txt cannot say it.
            rows = composing(Layout(pair="cls A sep B sep", segments=False), self)
            content = {**self.serialized(), "post_processor": rows}
            return {"tokenizer.json": content, "tokenizer_config.json": config}
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
    """Splits texts by GPT-2's pattern, with the reference's tables of letters, numbers and white space."""

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
    """Where pieces start, bool [n]; a terminator is a piece too. A run of one kind is a piece, with the blank before it
    if there is one. Of white space before something else, the last character is split off: a blank joins the next
    piece, another is its own.
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
    """Joins the bytes of pieces, written in GPT-2's alphabet, to tokens; drops bytes without a token."""

    def __init__(self, tokens: Sequence[str], merges: Merges):
        ids = {token: index for index, token in enumerate(tokens)}
        super().__init__(merges, ids)
        id_of_char = np.zeros(ord(max(ALPHABET)) + 1, np.int32)
        for char in ALPHABET:
            id_of_char[ord(char)] = ids.get(char, _ABSENT)
        self._lacks_bytes = not ids.keys() >= ALPHABET.keys()
        id_of_char[ord(_TERMINATOR)] = self._end
        self._id_of_char = tf.constant(id_of_char)
        self._look_up_whole([token for token in tokens if ALPHABET.keys() >= set(token)])

    def _first_ids(self, pieces: tf.Tensor) -> tf.Tensor:
        chars = tf.strings.unicode_decode(tf.strings.join([pieces, _TERMINATOR]), "UTF-8")
        ids = tf.gather(self._id_of_char, chars.values)
        return picked(ids, ids != _ABSENT) if self._lacks_bytes else ids
