"""SentencePiece's BPE in the graph: merges the characters of whole texts, with bytes for unknown characters.

Merges never join what no token has side by side. So a text is cut between characters that no merge joins,
mostly before each blank, and the pieces are merged as in `bert_zoo.text.byte_bpe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    as_utf8,
    characters_of_bytes,
    joined_rows,
    lookup_table,
    picked,
    token_columns,
)
from bert_zoo.text.byte_bpe import Merger, Merges, checked_merges
from bert_zoo.text.files import AddedToken, Vocabulary, special_tokens
from bert_zoo.text.format import bpe_model, framed, sequence, serialized
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks, TokenizeFunction, Tokenizer
from bert_zoo.text.vocabulary_files import BLANKS

SPACE = BLANKS["content"]  # a blank inside tokens
# The tokens of bytes.
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Above every code point.
_CODES = 1 << 21
_ABSENT = -1


class SentencePieceBpeTokenizer(Tokenizer):
    """Gemma's tokenizer: blanks become "▁", and characters are merged to tokens, across words too.

    Ids equal those of the tokenizers library's BPE with byte fallback on every text. A character without a
    token becomes those of its bytes. Special and added tokens inside a text become their own ids. Case,
    accents and blanks at both ends are kept. Bytes that are not UTF-8 count as U+FFFD, as in
    `text.decode("utf-8", "replace")`. An empty text has no tokens.

    A token with some bytes of a character covers that character. Otherwise offsets equal the library's, in
    which the blank belongs to the token.

    Args:
        vocabulary: tokens in the order of their ids, among them those of all bytes, "<0x00>" to "<0xFF>".
        merges: pairs of tokens, first merges first.
        add_prefix_space: put a blank before each text, and before the text after a special token.
        unknown_token, padding_token, cls_token, sep_token, mask_token: names of the special tokens; None for
            those that the vocabulary lacks.
        added_tokens: tokens that are kept whole, besides the special tokens; see `AddedToken`.
        source: where vocabulary and merges come from, for error messages.

    Raises:
        ValueError: duplicates in the vocabulary, a special token or byte that it lacks, or merges that do
            not fit it.

    Source: Kudo and Richardson 2018; huggingface/tokenizers.
    """

    marks = Marks(begins=SPACE)

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Merges,
        *,
        add_prefix_space: bool = False,
        unknown_token: str | None = "<unk>",
        padding_token: str | None = "<pad>",
        cls_token: str | None = "<bos>",
        sep_token: str | None = "<eos>",
        mask_token: str | None = "<mask>",
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
        source: str | Path = "the arguments",
    ):
        named = special_tokens(unknown_token, padding_token, cls_token, sep_token, mask_token)
        super().__init__(
            Vocabulary(vocabulary),
            add_prefix_space=bool(add_prefix_space),
            **named,
            added_tokens=added_tokens,
        )
        known = self._base_vocabulary
        if missing := [byte for byte in BYTES if byte not in known]:
            raise ValueError(
                f"The vocabulary of {source} lacks tokens of {len(missing)} bytes, such as {missing[0]}. Check "
                "that it belongs to a model with Gemma's tokenizer."
            )
        # In a plain object, so that tf.Module does not track each of them.
        self._plain = SimpleNamespace(
            merges=checked_merges(merges, known, source),
            bytes={name: byte for byte, name in enumerate(BYTES)},
        )
        self._build_graph()

    @property
    def merges(self) -> tuple[tuple[str, str], ...]:
        """All merges, in order."""
        return self._plain.merges

    def _build(self) -> None:
        self._added = AddedTokens(self.added_tokens, Blanks(prefix=self._options.add_prefix_space))
        self._merger = CharacterMerger(self.base_vocabulary, self.merges)
        spelled = [
            b" " if token in self._plain.bytes else token.encode() for token in self.vocabulary
        ]
        self._num_bytes = tf.constant([*map(len, spelled)], tf.int32)
        self._trace(self._tokenize_batch, partial(self._tokenize_batch, with_offsets=True))

    def _tokenize_batch(self, texts: tf.Tensor, with_offsets: bool = False) -> tf.RaggedTensor:
        return self._added.tokenize(
            texts, None, self._tokenize_normalized, with_offsets=with_offsets
        )

    def _tokenize_normalized(self, texts: tf.Tensor, with_offsets: bool) -> tf.RaggedTensor:
        pieces = self._merger.split(texts)
        ids = self._merger(pieces.values)
        tokens = joined_rows(ids, pieces)
        if not with_offsets:
            return tokens
        num_bytes = tf.gather(self._num_bytes, tokens.values)
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        characters = characters_of_bytes(codes.values)
        first_bytes = tf.cumsum(num_bytes, exclusive=True)
        shift = tf.cast(tf.gather(codes.row_splits, tokens.value_rowids()), tf.int32)
        starts = tf.gather(characters, first_bytes) - shift
        lasts = tf.gather(characters, first_bytes + num_bytes - 1) - shift
        return tokens.with_values(token_columns(tokens.values, starts, lasts + 1))

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any]:
        blanks: dict[str, Any] = BLANKS
        if self._options.add_prefix_space:
            blanks = sequence([{"type": "Prepend", "prepend": SPACE}, BLANKS], "normalizers")
        decoder = [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ]
        return serialized(
            bpe_model(
                self._base_vocabulary.ids,
                self.merges,
                unk_token=self._options.unknown_token,
                fuse_unk=True,
                byte_fallback=True,
            ),
            self._tokens_in_text(),
            normalizer=blanks,
            pre_tokenizer=None,
            decoder=sequence(decoder, "decoders"),
        )

    def _spelling(self, token: str) -> bytes:
        if token in self._plain.bytes:
            return bytes([self._plain.bytes[token]])
        return token.replace(SPACE, " ").encode()

    def _begins_word(self, token: str) -> bool:
        return token.startswith(SPACE)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # Bytes that are not UTF-8, for example a character cut in half, become U+FFFD.
        return as_utf8(super()._join(ids))

    def _files(self) -> dict[str, Any]:
        config = self._config(
            "PreTrainedTokenizerFast", add_prefix_space=self._options.add_prefix_space
        )
        config["added_tokens_decoder"] = self._tokens_in_text()
        return {"tokenizer.json": framed(self), "tokenizer_config.json": config}


class Blanks:
    """Writes blanks as in tokens; with `prefix`, puts one before each text."""

    def __init__(self, *, prefix: bool):
        self._prefix = prefix

    def normalized(self, text: str) -> str:
        return (SPACE if self._prefix else "") + text.replace(" ", SPACE)

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        written = tf.strings.regex_replace(as_utf8(texts), " ", SPACE)
        if not self._prefix:
            return tokenize(written)
        prefix = tf.where(written == "", "", SPACE)
        tokens = tokenize(tf.strings.join([prefix, written]))
        if not with_offsets:
            return tokens
        # The prefix is not in the text; it gets the position of the first character.
        ids, starts, ends = tf.unstack(tokens.values, num=3, axis=1)
        return tokens.with_values(
            token_columns(ids, tf.maximum(starts - 1, 0), tf.maximum(ends - 1, 1))
        )


class CharacterMerger(Merger):
    """Joins the characters of pieces to tokens; a character without a token becomes the tokens of its bytes."""

    def __init__(self, tokens: Sequence[str], merges: Merges):
        ids = {token: index for index, token in enumerate(tokens)}
        super().__init__(merges, ids)
        single = [token for token in tokens if len(token) == 1]
        self._first = lookup_table(
            np.array([*map(ord, single), _ABSENT], np.int64),
            np.array([*(ids[char] for char in single), _ABSENT], np.int32),
            default=_ABSENT,
        )
        self._byte_ids = tf.constant([ids[byte] for byte in BYTES], tf.int32)
        # What merges can join: the characters side by side in their tokens.
        made = {left + right for left, right in merges}
        joined = {pair for token in made for pair in pairwise(token)}
        keys = [ord(a) * _CODES + ord(b) for a, b in joined]
        self._joined = lookup_table(
            np.array([*keys, _ABSENT], np.int64), np.ones(len(keys) + 1, np.int32), default=0
        )
        self._look_up_whole([*made, *single])

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts in UTF-8 [batch] between characters that no merge joins, string [batch, (pieces)]."""
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        code = tf.cast(codes.values, tf.int64)
        before = tf.concat([[_ABSENT], code], 0)[:-1]
        begins = self._joined.lookup(before * _CODES + code) == 0
        row_starts = picked(codes.row_splits[:-1], codes.row_lengths() > 0)
        begins = tf.tensor_scatter_nd_update(
            begins, row_starts[:, None], tf.ones_like(row_starts, tf.bool)
        )
        starts = tf.where(begins)[:, 0]
        pieces = tf.RaggedTensor.from_row_starts(codes.values, starts, validate=False)
        row_splits = tf.searchsorted(starts, codes.row_splits, out_type=tf.int64)
        return tf.RaggedTensor.from_row_splits(
            tf.strings.unicode_encode(pieces, "UTF-8"), row_splits, validate=False
        )

    def _first_ids(self, pieces: tf.Tensor) -> tf.Tensor:
        codes = tf.strings.unicode_decode(pieces, "UTF-8")
        ids = codes.with_values(self._first.lookup(tf.cast(codes.values, tf.int64)))

        def with_bytes() -> tf.RaggedTensor:
            data = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(pieces), tf.uint8), tf.int32)
            id_of_char = tf.gather(ids.values, characters_of_bytes(codes.values))
            of_bytes = tf.where(id_of_char == _ABSENT, tf.gather(self._byte_ids, data), id_of_char)
            is_first = tf.bitwise.bitwise_and(data, 0xC0) != 0x80
            kept = is_first | (id_of_char == _ABSENT)
            splits = tf.concat([[0], tf.cumsum(tf.strings.length(pieces))], 0)
            kept_before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
            return picked(of_bytes, kept), tf.gather(kept_before, splits)

        values, row_splits = tf.cond(
            tf.reduce_any(ids.values == _ABSENT), with_bytes, lambda: (ids.values, ids.row_splits)
        )
        rows = tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
        ends = tf.fill([tf.size(pieces), 1], self._end)
        return tf.concat(
            [rows, tf.RaggedTensor.from_tensor(ends, row_splits_dtype=tf.int64)], 1
        ).values
