"""The head that finds where an answer ends given where it starts."""

import keras
from keras import ops

from bert_zoo.layers.common import at_positions, dense, float_kernel, norm
from bert_zoo.layers.dropout import Dropout

# Of what no answer may start or end at.
MASKED = -1e30


class BeamSpanHead(keras.layers.Layer):
    """Where an answer starts, where it ends given each of some starts, and whether there is one.

    Source: Yang et al. 2019 (XLNet, arXiv:1906.08237); zihangdai/xlnet function_builder.py,
    get_qa_outputs.

    Args:
        hidden_size: of the encoder and of the layers below ends and answerability.
        num_starts: the likeliest starts whose ends are looked for, where none are given.
        dropout: rate before the logit of no answer.
        epsilon: of the layer norm.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        num_starts: int,
        dropout: float,
        epsilon: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_starts = num_starts
        own = {"stddev": initializer_range, "dtype": self.dtype_policy}
        precise = {"stddev": initializer_range, "dtype": "float32"}
        self.start = dense(1, "start", **precise)
        self.end_transform = dense(hidden_size, "end_transform", **own)
        self.end_norm = norm("end_norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.end = dense(1, "end", **precise)
        self.no_answer_transform = dense(hidden_size, "no_answer_transform", **own)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.no_answer = dense(1, "no_answer", use_bias=False, **precise)

    def build(self, input_shape):
        for layer in (self.start, self.end_norm, self.end, self.no_answer):
            layer.build((None, self.hidden_size))
        for layer in (self.end_transform, self.no_answer_transform):
            layer.build((None, 2 * self.hidden_size))
        self.built = True

    def call(self, x, allowed, summary, starts=None, training=None):
        """Finds spans.

        Args:
            x: [batch, length, hidden].
            allowed: bool [batch, length], where an answer may start and end.
            summary: [batch, hidden], the token that stands for the text, and for no answer.
            starts: int [batch, starts], where answers start; the likeliest starts by default.

        Returns:
            float32 log-probabilities of starts [batch, length], and of ends [batch, length, starts]
            given each of `starts`; int [batch, starts], these; and float32 [batch, 1], the log-odds
            that there is no answer.
        """
        start_logits = self._log_probabilities(self.start(x), allowed)
        if starts is None:
            # Not top_k, which a row with fewer tokens has not.
            starts = ops.argsort(-start_logits, axis=1)[:, : self.num_starts]
        starts = ops.cast(starts, "int32")
        # The layer over [token; start], by its two halves: tokens are the same for all starts.
        kernel = float_kernel(self.end_transform, 2 * x.shape[-1])
        of_token, of_start = ops.split(ops.cast(kernel, x.dtype), 2)
        tokens = ops.expand_dims(ops.matmul(x, of_token), 2)
        given = ops.expand_dims(ops.matmul(at_positions(x, starts), of_start), 1)
        ends = ops.tanh(tokens + given + ops.cast(self.end_transform.bias, x.dtype))
        ends = self.end(self.end_norm(ends, training=training))
        end_logits = self._log_probabilities(ends, ops.expand_dims(allowed, 2))

        weights = ops.cast(ops.expand_dims(ops.exp(start_logits), 1), x.dtype)
        expected_start = ops.squeeze(ops.matmul(weights, x), 1)
        answer = ops.concatenate([expected_start, summary], axis=-1)
        answer = self.dropout(ops.tanh(self.no_answer_transform(answer)), training=training)
        return start_logits, end_logits, starts, self.no_answer(answer)

    @staticmethod
    def _log_probabilities(logits, allowed):
        """[batch, length, ..., 1] to [batch, length, ...]."""
        logits = ops.where(allowed, ops.squeeze(logits, -1), MASKED)
        return ops.log_softmax(logits, axis=1)
