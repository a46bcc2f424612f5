"""The masked-language-model head."""

import keras
from keras import ops

from bert_zoo.layers.common import (
    Activation,
    dense,
    float_table,
    norm,
    table,
    vocabulary_logits,
)


class MaskedLMHead(keras.layers.Layer):
    """Dense, activation, norm, and a projection onto the vocabulary with its own bias, or that alone.

    The projection reads the encoder's token table (tied), or a table of its own.
    Source: google-research/bert run_pretraining.py, get_masked_lm_output.

    Args:
        vocab_size: logits.
        width: of the transform and of what it is projected onto.
        table_width: of a table of the head's own, where that is not all of it; `width` by default.
        activation: as the encoder's; None where there is nothing before the projection.
        epsilon: of the layer norm.
        tied: whether the projection is the token table that `call` is given.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        activation: str | None,
        epsilon: float,
        tied: bool,
        initializer_range: float,
        table_width: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.width = width
        self.transform = None
        if activation is not None:
            self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")
            self.transform = dense(
                self.width, "transform", stddev=initializer_range, dtype=self.dtype_policy
            )
            self.norm = norm("norm", epsilon=epsilon, dtype=self.dtype_policy)
        options = {"stddev": initializer_range, "dtype": self.dtype_policy}
        self.decoder = (
            None if tied else table(vocab_size, table_width or width, "decoder", **options)
        )

    def build(self, input_shape):
        if self.transform is not None:
            self.transform.build(input_shape)
            self.norm.build((*input_shape[:-1], self.width))
        if self.decoder is not None:
            self.decoder.build()
        self.bias = self.add_weight(shape=(self.vocab_size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, sequence_output, token_table, mask_positions=None):
        """Predicts tokens.

        Args:
            sequence_output: [batch, length, hidden].
            token_table: [vocab_size, width]; not read where the head is untied.
            mask_positions: int [batch, predictions]; only these positions are projected.

        Returns:
            float32 logits [batch, length or predictions, vocab_size].
        """
        x = sequence_output
        if mask_positions is not None:
            x = ops.take_along_axis(x, ops.expand_dims(mask_positions, -1), axis=1)
        shape = (-1, ops.shape(x)[1], self.vocab_size)
        x = ops.reshape(x, (-1, ops.shape(x)[-1]))
        if self.transform is not None:
            x = self.norm(self.activation(self.transform(x)))
        return ops.reshape(vocabulary_logits(x, self.projection(token_table), self.bias), shape)

    def projection(self, token_table):
        """What `call` projects onto, [vocab_size, width]."""
        return token_table if self.decoder is None else float_table(self.decoder)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.vocab_size)
