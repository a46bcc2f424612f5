"""The tokenizer of proteins: letters that stand for amino acids."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8, is_white_space, token_columns
from bert_zoo.text.files import AddedToken, Vocabulary
from bert_zoo.text.format import serialized
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.unicode_tables import code_points


class ResidueTokenizer(Tokenizer):
    """Finds the tokens of its vocabulary wherever they stand in a text, with or without blanks between them.

    The longest token wins, so `<mask>` is one token. What is left between blanks and tokens, such as a
    word in lower case, is one unknown token. Ids equal those of transformers' EsmTokenizer.

    Args:
        vocabulary: tokens in the order of their ids.
        unknown_token, padding_token, cls_token, eos_token, mask_token: names of the special tokens.
        added_tokens: further tokens; see `AddedToken`.

    Raises:
        ValueError: an empty vocabulary, duplicates in it, or a special token that it lacks.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        unknown_token: str = "<unk>",
        padding_token: str = "<pad>",
        cls_token: str = "<cls>",
        eos_token: str = "<eos>",
        mask_token: str = "<mask>",
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
    ):
        super().__init__(
            Vocabulary(vocabulary),
            unknown_token=unknown_token,
            padding_token=padding_token,
            cls_token=cls_token,
            eos_token=eos_token,
            mask_token=mask_token,
            added_tokens=added_tokens,
        )
        self._build_graph()

    @property
    def added_tokens(self) -> dict[int, AddedToken]:
        named = super().added_tokens
        return {i: named.get(i, AddedToken(token)) for i, token in enumerate(self.vocabulary)}

    @property
    def _hidden_ids(self) -> set[int]:
        return super()._hidden_ids | {self.eos_id}

    def _build(self) -> None:
        self._finder = AddedTokens(self.added_tokens, in_raw_texts=True)
        self._trace(
            self._tokenize_batch, functools.partial(self._tokenize_batch, with_offsets=True)
        )

    def _tokenize_batch(self, texts: tf.Tensor, with_offsets: bool = False) -> tf.RaggedTensor:
        return self._finder.tokenize(texts, None, self._unknown_words, with_offsets=with_offsets)

    def _unknown_words(self, texts: tf.Tensor, with_offsets: bool) -> tf.RaggedTensor:
        """An unknown token for each word between blanks of texts that have no tokens."""
        texts = tf.strings.join([" ", as_utf8(texts), " "])
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        inside = ~is_white_space(codes.values)
        starts = tf.where(inside[1:] & ~inside[:-1])[:, 0] + 1
        ends = tf.where(inside[:-1] & ~inside[1:])[:, 0] + 1
        row = tf.searchsorted(codes.row_splits, starts, side="right", out_type=tf.int64) - 1
        values = tf.fill(tf.shape(starts), self.unk_id)
        if with_offsets:
            before = tf.gather(codes.row_splits, row) + 1
            values = token_columns(values, starts - before, ends - before)
        rows = tf.size(texts, tf.int64)
        return tf.RaggedTensor.from_value_rowids(values, row, rows, validate=False)

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any]:
        blanks = {"Regex": f"[{''.join(map(chr, code_points('python/whitespace')))}]+"}
        model = {"type": "WordLevel", "unk_token": self._options.unknown_token}
        return serialized(
            model | {"vocab": self._base_vocabulary.ids},
            self._tokens_in_text(),
            normalizer=None,
            pre_tokenizer={
                "type": "Split",
                "pattern": blanks,
                "behavior": "Removed",
                "invert": False,
            },
            decoder={"type": "Fuse"},
        )

    def _files(self) -> dict[str, Any]:
        config = self._config("EsmTokenizer", eos_token=self._options.eos_token)
        if self._options.added_tokens:
            config["added_tokens_decoder"] = super()._tokens_in_text()
        lines = "".join(f"{token}\n" for token in self.base_vocabulary)
        return {"vocab.txt": lines, "tokenizer_config.json": config}
