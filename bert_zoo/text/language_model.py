"""From texts to a language model's inputs: rows of tokens, and labels for scoring them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.text.batches import text_batch
from bert_zoo.text.layout import PLAIN
from bert_zoo.text.preprocessor import TextPreprocessor, with_batch_size


class LanguageModelPreprocessor(TextPreprocessor):
    """Tokenizes texts for a language model, in the graph, without adding special tokens.

    Args:
        tokenizer: what texts are read with.
        sequence_length: the most tokens a row may have; the others are cut off its end.
        report_truncation: as for Preprocessor.
        **packing: further keyword arguments of Packer: padding, bucket. Padding has the id 0 where
            the vocabulary has no token for it; the mask tells.

    Raises:
        ValueError: an option outside its range.
    """

    default_layout = PLAIN

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts, as the tokenizer takes them, into a model's inputs.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `padding_mask`, 1 where a token is.

        Raises:
            TypeError, ValueError: something that is not a batch of texts; a pair is a TypeError.
        """
        texts = _single_texts(texts)
        (tokens,) = self.packer.checked(self.tokenizer(texts))
        inputs, _ = self._rows([tokens], [tokens.row_lengths()])
        return with_batch_size(inputs, texts)

    @tf.autograph.experimental.do_not_convert
    def scored(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts into inputs and the token that each position has to predict.

        With an end token, which stands before a text as before any line, every token of the text is
        a label: the inputs are <eos> and the tokens without the last. (A tokenizer that puts <eos>
        before lines has it there already.) Without one, the first token is only an input.

        Takes and raises what a call does.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `labels`, -100 where there is none;
            `padding_mask`, 1 where a token is. At most `sequence_length` tokens a row are labels.
        """
        texts = _single_texts(texts)
        tokens = self.tokenizer(texts)
        if hasattr(self.tokenizer, "eos_id") and self.tokenizer.eos_at != "line_starts_and_ends":
            eos = tf.fill([tokens.nrows(), 1], self.tokenizer.eos_id)
            tokens = tf.concat([eos, tokens], axis=1)
        (tokens,) = self.packer.checked(tokens)
        lengths = tf.maximum(tokens.row_lengths() - 1, 0)
        inputs, (positions,) = self._rows([tokens], [lengths])
        # The token at each index + 1.
        following = tf.concat([tokens.values[1:], [IGNORED_LABEL]], 0)
        labels = positions.gather(following, otherwise=IGNORED_LABEL)
        return with_batch_size({**inputs, "labels": labels}, texts)


def _single_texts(texts: Any) -> tf.Tensor:
    if isinstance(texts, tuple):
        raise TypeError(
            f"Got a tuple of {len(texts)}, which is a pair of batches elsewhere; a language model "
            "reads single texts. Pass a batch as a list, and join what belongs together."
        )
    return text_batch(texts)
