"""Byte-level BPE in the graph, with the ids of Hugging Face's fast RoBERTa tokenizer on every input.

A text is cut at its special tokens, and what lies between them into *pieces* by GPT-2's pattern

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

Each piece becomes tokens by merging: it begins as single bytes, then of its neighbouring pairs the one
that comes first in the list of merges is joined, the leftmost if there are several, until no pair is
in the list. Inside the graph a piece is written in GPT-2's alphabet, a character for every byte, as
vocabularies are.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from bert_zoo.error_text import shown
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.batches import as_utf8
from bert_zoo.text.byte_bpe_files import NFC
from bert_zoo.text.byte_bpe_graph import ALPHABET, Merger, Splitter
from bert_zoo.text.composition import composed_text, tokenize_composed
from bert_zoo.text.layout import Layout
from bert_zoo.text.offsets import (
    characters_of_bytes,
    joined_rows,
    sums_before,
    token_columns,
    utf8_lengths,
)
from bert_zoo.text.serialized import bpe_model, composing, serialized
from bert_zoo.text.token_finder import around, token_finders
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.unicode_tables import code_points
from bert_zoo.text.vocabulary import HF_SPECIAL_TOKENS, Vocabulary, special_tokens

logger = logging.getLogger(__name__)


class ByteBpeTokenizer(Tokenizer):
    """RoBERTa's and GPT-2's tokenizer: split by GPT-2's pattern, then merge bytes to tokens.

    Ids equal those of the tokenizers library's ByteLevel and BPE on every text. Special and added
    tokens inside a text become their own ids, as they do there. Bytes that are not UTF-8 count as
    U+FFFD, as in `text.decode("utf-8", "replace")`. An empty text has no tokens.

    With a normalization, special and added tokens are found in the text as it is; what stands between
    them is normalised and cut once more, at the tokens that are found there, and then split and merged.

    Offsets equal that library's with RoBERTa's `trim_offsets`: " the" stands for its three letters,
    and a blank alone for nothing (start and end are equal). Each token with a part of a character's
    bytes stands for that character, and the mask token for itself, without the white space it takes.
    A blank put before what follows a special token is trimmed from the text, as there, so that the
    word's token starts one character late.

    Args:
        vocabulary: tokens in the order of their ids, written in GPT-2's alphabet.
        merges: pairs of tokens, first merges first.
        add_prefix_space: put a blank before a text, and before what follows a special token, if it
            does not begin with one.
        lstrip_mask: the mask token takes the white space before it, as in the released files and
            in fairseq. (transformers 5.23 does so only where a file of the directory says so.)
        unknown_token, padding_token, cls_token, sep_token, mask_token, eos_token: the special tokens'
            names; None for those that the vocabulary does not have.
        added_tokens: what texts are cut at beside the special tokens; see `Tokenizer`.
        normalization: "NFC", which composes letters and accents, or None.
        begins_word: pattern of the tokens, as text, that `word_starts` has for the first of a word; by
            default they begin with a blank, as in fairseq.
        source: what an error names as the origin of vocabulary and merges.

    Raises:
        ValueError: duplicates in the vocabulary, a special token that it lacks, merges that do not
            fit it, or special tokens that can overlap in a text.

    Source: Radford et al. 2019, openai/gpt-2 src/encoder.py; huggingface/tokenizers.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]],
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
            raise ValueError(f"normalization is {normalization!r}; it is {NFC!r} or None.")
        # In a plain object, so that tf.Module does not track each of them.
        self._merges = SimpleNamespace(pairs=_byte_merges(merges, self._base_vocabulary, source))
        with tf.init_scope(), tf.device("CPU:0"):
            self._engine = _Engine(
                self.base_vocabulary, self.vocabulary, self.merges, self.added_tokens, self._options
            )
        self._trace(self._engine.tokenize, partial(self._engine.tokenize, with_offsets=True))

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

    def _begins_word(self, token: str) -> bool:
        text = _bytes_of(token).decode(errors="replace")
        return re.fullmatch(self._options.begins_word, text, re.DOTALL) is not None

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # Bytes that are not UTF-8, for example a character cut in half, become U+FFFD.
        joined = tf.strings.reduce_join(tf.gather(self._engine.token_bytes, ids), axis=1)
        return as_utf8(joined)

    @property
    def merges(self) -> tuple[tuple[str, str], ...]:
        """Every merge, in its order."""
        return self._merges.pairs

    def _files(self) -> dict[str, Any]:
        options = self._options
        special = {theirs: getattr(options, ours) for ours, theirs in HF_SPECIAL_TOKENS.items()}
        special |= dict.fromkeys(("bos_token", "eos_token"), options.eos_token)
        special = {theirs: token for theirs, token in special.items() if token is not None}
        config = {
            "tokenizer_class": "RobertaTokenizer" if options.cls_token else "GPT2Tokenizer",
            "add_prefix_space": options.add_prefix_space,
            **special,
            "added_tokens_decoder": self._tokens_in_text(),
        }
        if options.normalization:
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
            # vocab.json and merges.txt cannot say it.
            rows = composing(Layout(pair="cls A sep B sep", segments=False), self)
            content = {**self.serialized(), "post_processor": rows}
            return {"tokenizer.json": content, "tokenizer_config.json": config}
        merges = "".join(f"{left} {right}\n" for left, right in self.merges)
        return {
            "vocab.json": json.dumps(self._base_vocabulary.ids, ensure_ascii=False) + "\n",
            "merges.txt": "#version: 0.2\n" + merges,
            "tokenizer_config.json": config,
        }


class _Engine(tf.Module):
    """The constants and the graph of a ByteBpeTokenizer."""

    def __init__(
        self,
        base_vocabulary: Sequence[str],
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]],
        added_tokens: Mapping[int, AddedToken],
        options: SimpleNamespace,
    ):
        super().__init__()
        self._normalizes = options.normalization is not None
        self._raw_tokens, self._normalized_tokens = token_finders(
            added_tokens, composed_text if self._normalizes else str
        )
        self._add_prefix_space = options.add_prefix_space
        self._splitter = Splitter()
        self._merger = Merger(base_vocabulary, merges)
        added = {token.content for token in added_tokens.values()}
        self.token_bytes = tf.constant(
            [token.encode() if token in added else _bytes_of(token) for token in vocabulary]
        )
        self._num_bytes = tf.constant([len(token.encode()) for token in vocabulary])
        leading, trailing = zip(*map(_count_blanks, vocabulary), strict=True)
        self._leading_blanks, self._trailing_blanks = tf.constant(leading), tf.constant(trailing)
        takes = [i for i, token in added_tokens.items() if token.lstrip or token.rstrip]
        self._takes_blanks = None
        if takes:
            self._takes_blanks = tf.constant([i in takes for i in range(len(vocabulary))])

    def tokenize(self, texts: tf.Tensor, with_offsets: bool = False) -> tf.RaggedTensor:
        """Tokenizes string [batch] to int32 [batch, (tokens)], or with offsets [batch, (tokens), 3]."""
        tokenize = partial(self._tokenize_plain, with_offsets=with_offsets)
        tokenize = around(self._normalized_tokens, tokenize, with_offsets=with_offsets)
        if self._normalizes:
            tokenize = partial(tokenize_composed, tokenize=tokenize, with_offsets=with_offsets)
        tokens = around(self._raw_tokens, tokenize, with_offsets=with_offsets)(texts)
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

        # From the bytes of pieces, written in GPT-2's alphabet, to the bytes of texts, which are that
        # alphabet's characters, and on to the characters of texts. The first matters only for a
        # vocabulary that lacks bytes: the reference counts on as if they were not there.
        num_bytes = tf.gather(self._num_bytes, ids.values)
        piece_bytes = tf.cumsum(tf.strings.length(pieces.values), exclusive=True)
        first_bytes = tf.gather(piece_bytes, ids.value_rowids())
        first_bytes += sums_before(num_bytes, ids.row_splits)
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        spelled = tf.strings.unicode_decode(pieces.values, "UTF-8")
        characters = tf.repeat(characters_of_bytes(decoded.values), utf8_lengths(spelled.values))
        # The prefix comes from no place of the text; it shares its first character.
        shift = tf.cast(has_prefix, tf.int32) + tf.cast(decoded.row_splits[:-1], tf.int32)
        shift = tf.gather(shift, tokens.value_rowids())
        starts = tf.maximum(tf.gather(characters, first_bytes) - shift, 0)
        lasts = tf.maximum(tf.gather(characters, first_bytes + num_bytes - 1) - shift, 0)
        return tokens.with_values(token_columns(ids.values, starts, lasts + 1))

    def _with_prefix_space(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Texts as they are to be split, and which of them, bool [batch], got a blank."""
        if not self._add_prefix_space:
            return texts, tf.zeros_like(texts, tf.bool)
        first = tf.strings.substr(texts, 0, 1)
        needs_prefix = (first != "") & (first != " ")
        return tf.where(needs_prefix, tf.strings.join([" ", texts]), texts), needs_prefix

    def _trimmed(self, texts: tf.Tensor, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Leaves the blanks around tokens out of their spans, as the reference counts them."""
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
        if self._add_prefix_space:
            # One blank that begins a text is taken for the prefix, which has no place of its own.
            leading = tf.where((starts == 0) & (leading == 1), 0, leading)
        starts = tf.minimum(starts + leading, ends)
        trailing = tf.where(ends >= trailing, trailing, 0)
        return token_columns(ids, starts, tf.maximum(ends - trailing, starts))


def _blanks_at_ends(texts: tf.Tensor, tokens: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """With how much white space the spans of tokens [batch, (tokens), 3] begin and end, int32 [tokens] each."""
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
    """Returns with how many blanks a token begins and ends, in GPT-2's alphabet or a special one."""
    is_blank = [char in _blanks() for char in token]
    return [*is_blank, False].index(False), [*is_blank[::-1], False].index(False)


def _bytes_of(token: str) -> bytes:
    """What a token in GPT-2's alphabet stands for; one in other letters stands for itself."""
    if ALPHABET.keys() >= set(token):
        return bytes(map(ALPHABET.__getitem__, token))
    return token.encode()


def _byte_merges(
    merges: Sequence[tuple[str, str]], vocabulary: Vocabulary, source: str | Path
) -> tuple[tuple[str, str], ...]:
    """The list of merges, checked against the vocabulary, which may lack bytes."""
    missing = [f"byte 0x{b:02x} ({c!r})" for c, b in ALPHABET.items() if c not in vocabulary]
    if missing:
        logger.warning(
            "The vocabulary of %s lacks %s. Texts are read without them, as by Hugging Face's "
            "tokenizer. A byte-level vocabulary has a token for every byte, in GPT-2's alphabet; "
            "check that it is one.",
            source,
            _listed(missing),
        )
    return checked_merges(merges, vocabulary, source)


def checked_merges(
    merges: Sequence[tuple[str, str]], vocabulary: Vocabulary, source: str | Path
) -> tuple[tuple[str, str], ...]:
    """The list of merges, checked against the vocabulary."""
    pairs = tuple(map(tuple, merges))
    problems, last_made, first_used = [], {}, {}
    for number, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(part, str) and part for part in pair):
            problems.append(f"merge {number} is {shown(pair)}, not two tokens")
            continue
        absent = [token for token in (*pair, "".join(pair)) if token not in vocabulary]
        if absent:
            problems.append(
                f"merge {number}, {shown(pair)}, needs {shown(absent)}, not in the vocabulary"
            )
        last_made["".join(pair)] = number
        for token in pair:
            first_used.setdefault(token, number)
    if len(set(pairs)) < len(pairs):
        repeated = [pair for pair, count in Counter(pairs).items() if count > 1]
        problems += [f"the merge {shown(pair)} comes more than once" for pair in repeated]
    problems += [
        f"merge {first_used[token]} uses {shown(token)}, which the later merge {number} makes"
        for token, number in last_made.items()
        if first_used.get(token, number) < number
    ]
    if problems:
        raise ValueError(
            f"The merges of {source} are not a list that BPE can follow: "
            f"{_listed(problems)}. Check that vocabulary and merges belong together, and fetch "
            "the files again."
        )
    return pairs


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return "; ".join(items[:5]) + more
