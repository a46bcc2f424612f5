"""Finds added tokens in texts, and tokenizes the text between them separately.

A few tokens without options, such as special tokens, are found by a pattern, whose graph is made much faster.
Otherwise, all positions of a text are searched at once with a tree of the tokens' letters.

Source: huggingface/tokenizers, added_vocabulary.rs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple, Protocol

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    MARK,
    as_utf8,
    joined_rows,
    lookup_table,
    picked,
    sums_before,
    token_columns,
)
from bert_zoo.text.files import AddedToken
from bert_zoo.text.tokenizer import TokenizeFunction
from bert_zoo.text.unicode_tables import code_points, re2_class

# The most tokens in one pattern: from 2,000 on, RE2 logs for every text that it lacks memory.
MOST_IN_A_PATTERN = 200
# Above every code point.
_CODES = 1 << 21
_NONE = -1


class Normalizer(Protocol):
    """Normalises whole texts before they are split into words."""

    def normalized(self, text: str) -> str:
        """Returns a normalised text."""

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        """Normalises texts [batch] and calls `tokenize`; offsets are those of the original texts."""


class AddedTokens(tf.Module):
    """Cuts texts at added tokens (by id), first in the original texts, then in normalised texts, if there is a
    `normalizer`. If several tokens are equal after normalisation, the one with the lowest id is found. Hugging
    Face's library takes any of them. `in_raw_texts` searches for all in the original texts, and ends words at
    blanks, as transformers' tokenizers in Python do. ValueError if normalisation empties one.
    """

    def __init__(
        self,
        tokens: Mapping[int, AddedToken],
        normalizer: Normalizer | None = None,
        *,
        in_raw_texts: bool = False,
    ):
        super().__init__()
        raw, others = {}, {}
        for index, token in sorted(tokens.items()):
            if in_raw_texts or not token.normalized:
                raw[token.content] = index, token
                continue
            spelling = normalizer.normalized(token.content) if normalizer else token.content
            if not spelling:
                raise ValueError(
                    f"Normalisation leaves nothing of the added token {shown(token.content)}, which is "
                    "searched in normalised text. Add it with normalized=False."
                )
            others.setdefault(spelling, (index, token))
        self._normalizer = normalizer
        self._raw, self._normalized = (
            _finder(found, in_raw_texts) if found else None for found in (raw, others)
        )

    def tokenize(
        self,
        texts: tf.Tensor,
        tokenize: Callable[..., tf.RaggedTensor] | None,
        tokenize_normalized: Callable[..., tf.RaggedTensor],
        *,
        with_offsets: bool,
    ) -> tf.RaggedTensor:
        """int32 [batch, (tokens)] of texts, string [batch], around added tokens, or ids, starts and ends [batch,
        (tokens), 3] with offsets. `tokenize` does that for string [n], `tokenize_normalized` for texts that
        `normalizer` has normalised; the first is None if texts always are.
        """
        options = {"with_offsets": with_offsets}
        if tokenize is None or self._normalized is not None:
            tokenize = partial(tokenize_normalized, **options)
            if self._normalized is not None:
                around = self._normalized.tokenize_around
                tokenize = partial(around, tokenize=tokenize, **options)
            if self._normalizer is not None:
                tokenize = partial(self._normalizer.tokenize, tokenize=tokenize, **options)
        else:
            tokenize = partial(tokenize, **options)
        if self._raw is None:
            return tokenize(texts)
        return self._raw.tokenize_around(texts, tokenize, **options)

    @property
    def spellings(self) -> list[tuple[str, AddedToken]]:
        """(spelling in texts, token) for all tokens."""
        finders = (finder for finder in (self._raw, self._normalized) if finder is not None)
        return [item for finder in finders for item in finder.spellings.items()]


def _finder(
    tokens: Mapping[str, tuple[int, AddedToken]], words_between_blanks: bool
) -> TokenFinder:
    if _fit_in_a_pattern([(spelling, token) for spelling, (_, token) in tokens.items()]):
        return PatternFinder(tokens)
    return TreeFinder(tokens, words_between_blanks=words_between_blanks)


def _fit_in_a_pattern(tokens: Sequence[tuple[str, AddedToken]]) -> bool:
    """Whether a pattern can find the tokens: no `single_word` or `rstrip`, and no ambiguous white space."""
    if len(tokens) > MOST_IN_A_PATTERN or any(t.single_word or t.rstrip for _, t in tokens):
        return False
    lstrip = [spelling for spelling, token in tokens if token.lstrip]
    return not lstrip or not any(
        spelling[0].isspace() or any(spelling.startswith(s) for s in lstrip if s != spelling)
        for spelling, _ in tokens
    )


class TextSegments(NamedTuple):
    """Texts [batch] cut into segments [segments]: in each text, plain text and added tokens alternate."""

    texts: tf.Tensor  # string, "" for an added token
    ids: tf.Tensor  # int32, -1 for plain text
    starts: tf.Tensor  # int64, position in the text, in characters
    ends: tf.Tensor
    row_splits: tf.Tensor  # int64 [batch + 1]


class TokenFinder(tf.Module):
    """Finds the leftmost, longest tokens (spelling in texts -> id, and options); subclasses define `_segments`."""

    def __init__(self, tokens: Mapping[str, tuple[int, AddedToken]]):
        super().__init__()
        # In a plain object, so that tf.Module does not track each of them.
        self._plain = SimpleNamespace(
            spellings={text: token for text, (_, token) in tokens.items()}
        )
        self._pattern = None
        if len(tokens) <= MOST_IN_A_PATTERN:
            self._pattern = rf"\C*?(?:{'|'.join(map(re.escape, tokens))})\C*"

    @property
    def spellings(self) -> Mapping[str, AddedToken]:
        """Spelling in the searched texts -> token."""
        return self._plain.spellings

    def tokenize_around(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        """Cuts texts [batch] at added tokens, and tokenizes the parts between them as separate texts. `tokenize` maps
        string [n] to int32 [n, (tokens)], or [n, (tokens), 3] with offsets.
        """
        if self._pattern is None:
            is_cut = tf.constant(True)
        else:
            is_cut = tf.reduce_any(tf.strings.regex_full_match(texts, self._pattern))

        def whole() -> TextSegments:
            zeros = tf.zeros_like(texts, tf.int64)
            row_splits = tf.range(tf.size(texts, tf.int64) + 1)
            return TextSegments(texts, tf.fill(tf.shape(texts), _NONE), zeros, zeros, row_splits)

        # `tokenize` is in neither branch: a pass over a data set first optimises the graph, which takes
        # longer for a larger graph, even if a part occurs twice.
        segments = TextSegments(*tf.cond(is_cut, lambda: self._segments(texts), whole))
        tokens = tokenize(segments.texts)

        def joined() -> tuple[tf.Tensor, tf.Tensor]:
            found = _with_found(tokens, segments, with_offsets)
            return found.values, found.row_splits

        values, splits = tf.cond(is_cut, joined, lambda: (tokens.values, tokens.row_splits))
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    def _segments(self, texts: tf.Tensor) -> TextSegments:
        """Cuts texts [batch]."""
        raise NotImplementedError


class PatternFinder(TokenFinder):
    """Finds a few tokens without options other than lstrip, by a pattern."""

    def __init__(self, tokens: Mapping[str, tuple[int, AddedToken]]):
        super().__init__(tokens)
        ids = [index for index, _ in tokens.values()]
        self._ids = lookup_table([*tokens], np.array(ids, np.int32), default=_NONE)
        white_space = f"[{re2_class('byte_bpe/whitespace')}]*"
        # The longest first, so that they are found before tokens within them.
        self._tokens = "|".join(
            (white_space if tokens[spelling][1].lstrip else "") + re.escape(spelling)
            for spelling in sorted(tokens, key=len, reverse=True)
        )
        lstrip = [re.escape(text) for text, (_, token) in tokens.items() if token.lstrip]
        self._stripped = f"^{white_space}({'|'.join(lstrip)})$" if lstrip else None

    def _segments(self, texts: tf.Tensor) -> TextSegments:
        marked = tf.strings.regex_replace(as_utf8(texts), self._tokens, MARK + rb"\0" + MARK)
        segments = tf.strings.split(marked, MARK)
        found = segments.values
        if self._stripped is not None:
            found = tf.strings.regex_replace(found, self._stripped, r"\1")
        ids = self._ids.lookup(found)
        # A segment is either text or one added token.
        plain = tf.where(ids != _NONE, "", segments.values)
        lengths = tf.strings.length(segments.values, unit="UTF8_CHAR")
        starts = tf.cast(sums_before(lengths, segments.row_splits), tf.int64)
        ends = starts + tf.cast(lengths, tf.int64)
        return TextSegments(plain, ids, starts, ends, segments.row_splits)


class TreeFinder(TokenFinder):
    """Finds any tokens, by a tree of their letters. With `words_between_blanks`, a `single_word` token needs a blank or
    the end of the text on both sides, as in transformers' tokenizers in Python.
    """

    def __init__(
        self, tokens: Mapping[str, tuple[int, AddedToken]], *, words_between_blanks: bool = False
    ):
        super().__init__(tokens)
        edges, ends = _tree_of([*tokens])
        keys = [node * _CODES + code for node, code in edges]
        self._edges = lookup_table(
            np.array(keys, np.int64), np.array([*edges.values()], np.int64), default=_NONE
        )
        self._ends = tf.constant(ends)
        ids, entries = zip(*tokens.values(), strict=True)
        self._ids = tf.constant(ids, tf.int32)
        self._single = _flags([entry.single_word for entry in entries])
        self._lstrip = _flags([entry.lstrip for entry in entries])
        self._rstrip = _flags([entry.rstrip for entry in entries])
        if self._single is not None:
            letters = code_points("added_tokens/word")
            blank = [ord(" ")]
            self._is_word = ~_set_of(blank) if words_between_blanks else _set_of(letters)
        if self._lstrip is not None or self._rstrip is not None:
            self._is_space = _set_of(code_points("byte_bpe/whitespace"))

    def _segments(self, texts: tf.Tensor) -> TextSegments:
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        starts, ends, tokens, row = self._found(decoded.values, decoded.row_splits)
        number = tf.range(tf.size(starts, tf.int64))
        num_rows = tf.size(texts, tf.int64)
        # Each text has a first segment, then two for each of its tokens.
        first = tf.range(num_rows) + 2 * tf.searchsorted(row, tf.range(num_rows), out_type=tf.int64)
        token = row + 2 * number + 1
        places = tf.concat([first, token, token + 1], 0)[:, None]
        size = tf.size(places, tf.int64)[None]
        begins = tf.scatter_nd(places, tf.concat([decoded.row_splits[:-1], starts, ends], 0), size)
        # A segment before a token ends where the token begins. A text's last segment ends with the text.
        last = tf.concat([first[1:], size], 0) - 1
        places = tf.concat([last, token - 1, token], 0)[:, None]
        stops = tf.scatter_nd(places, tf.concat([decoded.row_splits[1:], starts, ends], 0), size)
        ids = tf.tensor_scatter_nd_update(
            tf.fill(size, _NONE), token[:, None], tf.gather(self._ids, tokens)
        )
        row_splits = tf.concat([first, size], 0)
        # A token may begin, and even end, before the end of another that includes white space.
        is_text = (ids == _NONE) & (begins < stops)
        codes = tf.ragged.range(begins, tf.where(is_text, stops, begins))
        plain = tf.strings.unicode_encode(
            codes.with_values(tf.gather(decoded.values, codes.values)), "UTF-8"
        )
        text_begins = tf.repeat(decoded.row_splits[:-1], row_splits[1:] - row_splits[:-1])
        return TextSegments(plain, ids, begins - text_begins, stops - text_begins, row_splits)

    def _found(self, codes: tf.Tensor, row_splits: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Finds tokens in the code points [n] of texts: start, end, token's index and text's, [found] each."""
        row_ends = tf.repeat(row_splits[1:], row_splits[1:] - row_splits[:-1])
        lengths, longest = self._longest_from_each(codes, row_ends)
        starts = tf.where(longest != _NONE)[:, 0]
        ends = starts + tf.gather(lengths, starts)
        tokens = tf.gather(longest, starts)
        is_first = _are_reached(tf.searchsorted(starts, ends, out_type=tf.int64))
        starts, ends, tokens = (picked(each, is_first) for each in (starts, ends, tokens))
        row = tf.searchsorted(row_splits, starts, side="right", out_type=tf.int64) - 1
        begin, end = tf.gather(row_splits, row), tf.gather(row_splits, row + 1)
        if self._single is not None:
            is_word = tf.concat([tf.gather(self._is_word, codes), [False]], 0)
            touches_word = tf.gather(is_word, tf.maximum(starts - 1, 0)) & (starts > begin)
            touches_word |= tf.gather(is_word, ends) & (ends < end)
            counts = ~(tf.gather(self._single, tokens) & touches_word)
            starts, ends, tokens, row, begin, end = (
                picked(each, counts) for each in (starts, ends, tokens, row, begin, end)
            )
        if self._lstrip is not None or self._rstrip is not None:
            # Positions of other characters than white space, and one before and after all texts.
            others = tf.where(~tf.gather(self._is_space, codes))[:, 0]
            others = tf.concat([[-1], others, tf.size(codes, tf.int64)[None]], 0)
        if self._rstrip is not None:
            after = tf.gather(others, tf.searchsorted(others, ends))
            ends = tf.where(tf.gather(self._rstrip, tokens), tf.minimum(after, end), ends)
        if self._lstrip is not None:
            before = tf.gather(others, tf.searchsorted(others, starts) - 1) + 1
            ends_before = tf.concat([[0], ends], 0)[:-1]
            before = tf.maximum(before, tf.maximum(begin, ends_before))
            starts = tf.where(tf.gather(self._lstrip, tokens), before, starts)
        return starts, ends, tokens, row

    def _longest_from_each(
        self, codes: tf.Tensor, row_ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Length int64 and index int32 (-1 for none) of the longest token that begins at each position, [n]."""

        def alive(places, nodes):
            is_there = nodes != _NONE
            return picked(places, is_there), picked(nodes, is_there)

        def go_on(length, places, nodes, lengths, longest):
            token = tf.gather(self._ends, nodes)
            ended = picked(places, token != _NONE)[:, None]
            longest = tf.tensor_scatter_nd_update(longest, ended, picked(token, token != _NONE))
            lengths = tf.tensor_scatter_nd_update(
                lengths, ended, tf.fill(tf.shape(ended)[:1], length)
            )
            is_inside = places + length < tf.gather(row_ends, places)
            places, nodes = picked(places, is_inside), picked(nodes, is_inside)
            keys = nodes * _CODES + tf.cast(tf.gather(codes, places + length), tf.int64)
            return length + 1, *alive(places, self._edges.lookup(keys)), lengths, longest

        size = tf.size(codes, tf.int64)
        nodes = self._edges.lookup(tf.cast(codes, tf.int64))
        one = tf.constant(1, tf.int64)
        vector = tf.TensorShape([None])
        *_, lengths, longest = tf.while_loop(
            lambda length, places, *_: tf.size(places) > 0,
            go_on,
            (one, *alive(tf.range(size), nodes), tf.zeros_like(row_ends), tf.fill([size], _NONE)),
            shape_invariants=(tf.TensorShape([]), vector, vector, vector, vector),
        )
        return lengths, longest


def _tree_of(tokens: Sequence[str]) -> tuple[dict[tuple[int, int], int], list[int]]:
    """The tokens' letters as a tree: (node, code point) -> node, and the token that ends at each node."""
    edges: dict[tuple[int, int], int] = {}
    ends = [_NONE]
    for number, token in enumerate(tokens):
        node = 0
        for code in map(ord, token):
            if (node, code) not in edges:
                edges[node, code] = len(ends)
                ends.append(_NONE)
            node = edges[node, code]
        ends[node] = number
    return edges, ends


def _flags(values: list[bool]) -> tf.Tensor | None:
    """An option of all tokens, bool [tokens]; None if no token has it."""
    return tf.constant(values) if any(values) else None


def _set_of(codes: list[int]) -> tf.Tensor:
    """A set of code points as bool [code points]."""
    is_in = np.zeros(0x110000, bool)
    is_in[codes] = True
    return tf.constant(is_in)


def _are_reached(following: tf.Tensor) -> tf.Tensor:
    """Which of [n] items are reached from the first, bool [n]. The successor of each item comes after it, or is n. Each
    round goes twice as far as the previous one.
    """
    size = tf.size(following, tf.int64)
    following = tf.concat([following, [size]], 0)

    def go_on(steps, following, reached):
        ahead = picked(following, reached)[:, None]
        reached = tf.tensor_scatter_nd_update(reached, ahead, tf.ones_like(ahead[:, 0], tf.bool))
        return steps * 2, tf.gather(following, following), reached

    is_first = tf.concat([[True], tf.fill([size], False)], 0)
    one = tf.constant(1, tf.int64)
    vector = tf.TensorShape([None])
    _, _, reached = tf.while_loop(
        lambda steps, *_: steps <= size,
        go_on,
        (one, following, is_first),
        shape_invariants=(tf.TensorShape([]), vector, vector),
    )
    return reached[:-1]


def _with_found(
    tokens: tf.RaggedTensor, segments: TextSegments, with_offsets: bool
) -> tf.RaggedTensor:
    """Merges the tokens of segments with the added tokens that were found."""
    is_found = segments.ids != _NONE
    found = segments.ids
    if with_offsets:
        found = token_columns(found, segments.starts, segments.ends)
        shifts = tf.gather(segments.starts, tokens.value_rowids())
        shifts = token_columns(tf.zeros_like(shifts), shifts, shifts)
        tokens = tokens.with_values(tokens.values + shifts)
    # Each added token has its own segment, without other tokens.
    before = tf.concat([[0], tf.cumsum(tf.cast(is_found, tf.int64))], 0)
    row_splits = tokens.row_splits + before
    segment = tf.cast(tokens.value_rowids(), tf.int64)
    of_text = tf.range(tf.size(segment, tf.int64)) + tf.gather(before, segment)
    of_found = picked(row_splits[:-1], is_found)
    places = [tf.cast(each, tf.int32) for each in (of_text, of_found)]
    values = tf.dynamic_stitch(places, [tokens.values, picked(found, is_found)])
    tokens = tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
    rows = tf.RaggedTensor.from_row_splits(segments.ids, segments.row_splits, validate=False)
    return joined_rows(tokens, rows)
