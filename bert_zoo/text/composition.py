"""Composes letters and accents (Unicode's NFC) before texts are tokenized."""

from __future__ import annotations

from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8
from bert_zoo.text.offsets import at_origins
from bert_zoo.text.tokenizer import TokenizeFunction, import_tensorflow_text, traced_once
from bert_zoo.text.unicode_tables import re2_class

# Hugging Face's library has an older Unicode than ICU, which moves and joins marks that the library does
# not know. Between two of these noncharacters, such a mark stays separate.
_GUARD = "\ufdd0"
# Characters below U+0300 never compose with one another.
_COMPOSED = r"[\x{0}-\x{2ff}]*"


class Composition:
    """Normalises texts to NFC; bytes that are not UTF-8 count as U+FFFD."""

    def normalized(self, text: str) -> str:
        return compose_as_reference(tf.constant([text]))[0].numpy().decode()

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        tokenize = traced_once(tokenize, tf.TensorSpec([None], tf.string))

        def compose() -> tf.RaggedTensor:
            source = as_utf8(texts)
            composed = compose_as_reference(source)
            tokens = tokenize(composed)
            if not with_offsets:
                return tokens
            return at_origins(tokens, *origins(composed, source))

        is_composed = tf.strings.regex_full_match(texts, _COMPOSED)
        return tf.cond(tf.reduce_all(is_composed), lambda: tokenize(texts), compose)


def compose_as_reference(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts [n], UTF-8, in the NFC of Hugging Face's library."""
    younger = f"([{re2_class('composition/younger')}])"
    guarded = tf.strings.regex_replace(texts, younger, rf"{_GUARD}\1{_GUARD}")
    composed = normalized(guarded, "NFC")
    return tf.strings.regex_replace(composed, f"{_GUARD}{younger}{_GUARD}", r"\1")


def normalized(texts: tf.Tensor, form: str) -> tf.Tensor:
    """Returns texts [n], UTF-8, in one of Unicode's normalization forms."""
    return import_tensorflow_text().normalize_utf8(texts, form)


def origins(composed: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the original positions of the characters of composed texts [batch].

    Both texts decompose to the same characters, which are counted. A composed character has the position of
    its first part, as in Hugging Face's library. If marks change places, their positions do not move along.

    Returns:
        int64 [characters], position of each character in its original text, for all texts; and the row
        splits of the composed texts.
    """
    of_composed, of_texts = (tf.strings.unicode_split(each, "UTF-8") for each in (composed, texts))
    begins, wanted = (_begins_decomposed(each.values) for each in (of_texts, of_composed))
    places = tf.searchsorted(begins, wanted, side="right", out_type=tf.int64) - 1
    return places - tf.gather(
        of_texts.row_splits, of_composed.value_rowids()
    ), of_composed.row_splits


def _begins_decomposed(characters: tf.Tensor) -> tf.Tensor:
    """Returns the starts of characters [n] among their decompositions."""
    lengths = tf.strings.length(normalized(characters, "NFD"), unit="UTF8_CHAR")
    return tf.cumsum(lengths, exclusive=True)
