"""Normalises whole texts like SentencePiece, to search them for added tokens in normalised text."""

from __future__ import annotations

from bert_zoo.graph import tf
from bert_zoo.text.cleaner import CharacterTable, TextCleaner
from bert_zoo.text.composition import Composition
from bert_zoo.text.offsets import at_origins
from bert_zoo.text.sentencepiece_model import character_rules
from bert_zoo.text.tokenizer import TokenizeFunction


class PieceNormalizer(tf.Module):
    """Applies a family's cleaning, the model's rules for single characters, and composition (NFC).

    Composition replaces the rules for letters with marks, which the released models have for NFKC. White
    space only changes where rules turn it into spaces.

    Args:
        rules: normalisation rules of a SentencePiece model; empty for none.
        **cleaning: options of TextCleaner.
    """

    def __init__(self, rules: bytes, **cleaning: bool):
        super().__init__()
        self._cleaner = TextCleaner(**cleaning)
        self._composition = Composition() if rules else None
        self._table = CharacterTable(
            {ord(char): [*map(ord, written)] for char, written in character_rules(rules).items()}
        )

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        replaced, origins = self._table(self._cleaner(texts))
        if self._composition is not None:
            tokens = self._composition.tokenize(replaced, tokenize, with_offsets=with_offsets)
        else:
            tokens = tokenize(replaced)
        if not with_offsets:
            return tokens
        for places in (origins, self._cleaner.origins(texts)):
            tokens = at_origins(tokens, places.values, places.row_splits)
        return tokens

    def normalized(self, text: str) -> str:
        text = self._table(self._cleaner(tf.constant([text])))[0][0].numpy().decode()
        return text if self._composition is None else self._composition.normalized(text)
