"""From texts to the inputs of a language model with a memory."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from bert_zoo.text.layout import PLAIN
from bert_zoo.text.preprocessor import TextPreprocessor, single_texts, with_batch_size


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
        texts = single_texts(texts)
        (tokens,) = self.packer.checked(self.tokenizer(texts))
        inputs, _ = self._rows([tokens], [tokens.row_lengths()])
        return with_batch_size(inputs, texts)
