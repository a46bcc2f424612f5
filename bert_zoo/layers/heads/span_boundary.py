"""SpanBERT's head: the tokens of a span from the two tokens around it."""

import keras
from keras import ops

from bert_zoo.layers.common import (
    Activation,
    at_positions,
    dense,
    norm,
    table,
    vocabulary_logits,
)


class SpanBoundaryHead(keras.layers.Layer):
    """Predicts each token of a span from the outputs left and right of it and its position in the span.

    Two dense layers, each with activation and norm, over [left; right; position], then a projection
    onto the encoder's token table with its own bias.
    Source: Joshi et al. 2020 (arXiv:1907.10529), section 3.2; facebookresearch/SpanBERT
    pretraining/fairseq/models/pair_bert.py.

    Args:
        vocab_size: logits.
        hidden_size: of the encoder and of both dense layers.
        max_targets: tokens of a span that are predicted; later ones are not.
        position_size: width of the table of positions in the span.
        activation: as the encoder's.
        epsilon: of the layer norms.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        activation: str,
        epsilon: float,
        initializer_range: float,
        max_targets: int,
        position_size: int = 200,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")
        options = {"stddev": initializer_range, "dtype": self.dtype_policy}
        self.target_position = table(max_targets, position_size, "target_position", **options)
        self.first, self.second = (dense(hidden_size, n, **options) for n in ("first", "second"))
        self.first_norm = norm("first_norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.second_norm = norm("second_norm", epsilon=epsilon, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.target_position.build()
        self.first.build((None, 2 * self.hidden_size + self.target_position.output_dim))
        self.second.build((None, self.hidden_size))
        for layer in (self.first_norm, self.second_norm):
            layer.build((None, self.hidden_size))
        self.bias = self.add_weight(shape=(self.vocab_size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, sequence_output, token_table, span_boundaries, span_tokens=None):
        """Predicts the tokens of spans.

        Args:
            sequence_output: [batch, length, hidden].
            token_table: [vocab_size, hidden].
            span_boundaries: int [batch, spans, 2]: the positions just left and just right of each
                span; (0, 0) for none, whose predictions mean nothing.
            span_tokens: int [batch, predictions]: the tokens that are predicted, token i of span s as
                s * max_targets + i; by default the first max_targets of every span.

        Returns:
            float32 logits [batch, predictions, vocab_size]; by default [batch, spans, max_targets,
            vocab_size].
        """
        targets, hidden = self.target_position.input_dim, self.hidden_size
        spans = ops.shape(span_boundaries)[1]
        pairs = ops.reshape(span_boundaries, (-1, 2 * spans))
        boundaries = at_positions(sequence_output, pairs)
        boundaries = ops.reshape(boundaries, (-1, spans, 2 * hidden))
        every = ops.expand_dims(ops.arange(spans * targets, dtype="int32"), 0)
        tokens = every if span_tokens is None else span_tokens
        boundaries = at_positions(boundaries, tokens // targets)
        positions = self.target_position(tokens % targets)
        size = (*ops.shape(boundaries)[:2], positions.shape[-1])
        x = ops.concatenate([boundaries, ops.broadcast_to(positions, size)], axis=-1)
        x = self.first_norm(self.activation(self.first(x)))
        x = self.second_norm(self.activation(self.second(x)))
        logits = vocabulary_logits(x, token_table, self.bias)
        if span_tokens is not None:
            return logits
        return ops.reshape(logits, (-1, spans, targets, self.vocab_size))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], None, self.target_position.input_dim, self.vocab_size)
