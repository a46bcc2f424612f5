"""Letters and accents composed (Unicode's NFC) before texts are tokenized."""

from __future__ import annotations

from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8
from bert_zoo.text.offsets import at_origins
from bert_zoo.text.tokenizer import TokenizeFunction, import_tensorflow_text, traced_once
from bert_zoo.text.unicode_tables import re2_class

# Hugging Face's library has an older Unicode than ICU, which moves marks and joins letters that are none
# there. Between two of these, which are no characters, such a mark stays by itself.
_GUARD = "\ufdd0"
# No character below U+0300 composes with another.
_COMPOSED = r"[\x{0}-\x{2ff}]*"


class Composition:
    """Texts in NFC; bytes that are not UTF-8 count as U+FFFD."""

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
    """Texts [n], UTF-8, in the NFC of Hugging Face's library."""
    younger = f"([{re2_class('composition/younger')}])"
    guarded = tf.strings.regex_replace(texts, younger, rf"{_GUARD}\1{_GUARD}")
    composed = normalized(guarded, "NFC")
    return tf.strings.regex_replace(composed, f"{_GUARD}{younger}{_GUARD}", r"\1")


def normalized(texts: tf.Tensor, form: str) -> tf.Tensor:
    """Texts [n], UTF-8, in one of Unicode's normalization forms."""
    return import_tensorflow_text().normalize_utf8(texts, form)


def origins(composed: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """From the characters of composed texts [batch] to those of the texts that they were.

    Both decompose to the same characters, which are counted. A composed one counts for the first that it
    is made of, as in Hugging Face's library; where marks change places, so do their origins.

    Returns:
        int64 [characters], of all texts, the places in their own; and where the texts begin among them.
    """
    of_composed, of_texts = (tf.strings.unicode_split(each, "UTF-8") for each in (composed, texts))
    begins, wanted = (_begins_decomposed(each.values) for each in (of_texts, of_composed))
    places = tf.searchsorted(begins, wanted, side="right", out_type=tf.int64) - 1
    return places - tf.gather(
        of_texts.row_splits, of_composed.value_rowids()
    ), of_composed.row_splits


def _begins_decomposed(characters: tf.Tensor) -> tf.Tensor:
    """Where characters [n] begin among those that they decompose to."""
    lengths = tf.strings.length(normalized(characters, "NFD"), unit="UTF8_CHAR")
    return tf.cumsum(lengths, exclusive=True)
