"""Byte-level BPE in the graph, with the ids of Hugging Face's fast RoBERTa tokenizer on every input.

A text is cut at its special tokens. The rest is split into *pieces* by GPT-2's pattern

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

Each piece becomes tokens by merging. It begins as single bytes. Of its neighbouring pairs, the one that
comes first in the list of merges is joined (the leftmost if there are several), until no pair is in the
list. Inside the graph a piece is written in GPT-2's alphabet, one character per byte, as vocabularies are.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    as_utf8,
    characters_of_bytes,
    joined_rows,
    picked,
    sums_before,
    token_columns,
    utf8_lengths,
)
from bert_zoo.text.bpe import Merger, Merges, checked_merges, listed, merge_files
from bert_zoo.text.files import AddedToken, Vocabulary, special_tokens
from bert_zoo.text.format import bpe_model, composing, serialized
from bert_zoo.text.normalizer import Composition
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks, Tokenizer
from bert_zoo.text.unicode_tables import NFC, code_points

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
