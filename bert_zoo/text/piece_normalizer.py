"""Texts as SentencePiece normalises them, whole: where tokens are looked for that are found in normalised texts."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from bert_zoo.text.albert_text import TextCleaner
from bert_zoo.text.composition import compose_as_reference, tokenize_composed
from bert_zoo.text.offsets import at_origins, joined_rows, look_up
from bert_zoo.text.sentencepiece_model import character_rules
from bert_zoo.text.tokenizer import TokenizeFunction
from bert_zoo.text.unicode_tables import paged

_UNCHANGED = -1


class PieceNormalizer(tf.Module):
    """What a family does to a text, the model's rules for single characters, and composition (NFC).

    The last stands for the rules for letters with marks, which the released models have for NFKC. White
    space stays as it is, but that rules make spaces of it.

    Args:
        rules: of a SentencePiece model; empty for none.
        **cleaning: options of TextCleaner.
    """

    def __init__(self, rules: bytes, **cleaning: bool):
        super().__init__()
        self._cleaner = TextCleaner(**cleaning)
        self._composes = bool(rules)
        numbers = np.zeros(0x110000, np.int32)
        rows = [[_UNCHANGED]]
        for character, written in character_rules(rules).items():
            numbers[ord(character)] = len(rows)
            rows.append([*map(ord, written)])
        self._pages, self._rows = map(tf.constant, paged(numbers))
        self._written = tf.RaggedTensor.from_row_lengths(
            np.int32([code for row in rows for code in row]), [*map(len, rows)]
        )

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        """What `tokenize` gives for normalised texts; offsets are those of the texts [batch] as they came."""
        cleaned = self._cleaner(texts)
        replaced, origins = self._replaced(cleaned)
        if self._composes:
            tokens = tokenize_composed(replaced, tokenize, with_offsets=with_offsets)
        else:
            tokens = tokenize(replaced)
        if not with_offsets:
            return tokens
        for places in (origins, self._cleaner.origins(texts)):
            tokens = at_origins(tokens, places.values, places.row_splits)
        return tokens

    def normalized(self, text: str) -> str:
        """A text, normalised."""
        normalized, _ = self._replaced(self._cleaner(tf.constant([text])))
        if self._composes:
            normalized = compose_as_reference(normalized)
        return normalized[0].numpy().decode()

    def _replaced(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor]:
        """Texts [batch] with the rules' characters, and which of the texts' each comes from."""
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        codes = characters.values
        written = tf.gather(self._written, look_up(codes, self._pages, self._rows))
        origin = written.value_rowids()
        kept = tf.gather(codes, origin)
        codes = written.with_values(tf.where(written.values == _UNCHANGED, kept, written.values))
        places = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).values
        origins = written.with_values(tf.gather(places, origin))
        return tf.strings.unicode_encode(joined_rows(codes, characters), "UTF-8"), joined_rows(
            origins, characters
        )
