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
    """Dense layer, activation and norm, then a projection onto the vocabulary.

    The projection uses the encoder's token table (tied) or a table of its own.
    Source: google-research/bert run_pretraining.py, get_masked_lm_output.

    Args:
        vocab_size: number of logits.
        width: width of the dense layer and of the projection's input.
        activation: the dense layer's activation; None for nothing but the projection.
        epsilon: number that the layer norm adds to the variance.
        tied: whether the projection is the token table that `call` is given.
        table_width: width of the head's own table, if that is only part of the projection; by default
            `width`.
        use_bias: whether the logits have a bias.
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
        use_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.width = width
        self.use_bias, self.bias = use_bias, None
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
        if self.use_bias:
            self.bias = self.add_weight(shape=(self.vocab_size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, sequence_output, token_table, mask_positions=None):
        """Predicts tokens.

        Args:
            sequence_output: [batch, length, hidden].
            token_table: [vocab_size, width]; ignored if the head is untied.
            mask_positions: int [batch, predictions], the only positions to predict; None for all.

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
        """The table that `call` projects onto, [vocab_size, width]."""
        return token_table if self.decoder is None else float_table(self.decoder)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.vocab_size)
