"""The head that predicts an answer's end given its start."""

import keras
from keras import ops

from bert_zoo.layers.common import at_positions, dense, float_kernel, norm
from bert_zoo.layers.dropout import Dropout

# Logit of tokens at which no answer may start or end.
MASKED = -1e30


class BeamSpanHead(keras.layers.Layer):
    """Predicts an answer's start, its end for each of several starts, and whether there is an answer.

    Source: Yang et al. 2019 (XLNet, arXiv:1906.08237); zihangdai/xlnet function_builder.py,
    get_qa_outputs.

    Args:
        hidden_size: hidden size of the encoder and of the layers before the outputs.
        num_starts: number of most probable starts for which ends are predicted, if no starts are given.
        dropout: dropout rate before the logit of no answer.
        epsilon: epsilon of the layer norm.
        initializer_range: standard deviation of initial weights.
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
        """Predicts spans.

        Args:
            x: token vectors [batch, length, hidden].
            allowed: where an answer may start and end, bool [batch, length].
            summary: vector of the token that summarises the text and means no answer, [batch, hidden].
            starts: starts of answers, int [batch, starts]; by default the most probable ones.

        Returns:
            Log-probabilities of starts, float32 [batch, length], and of ends given each start, [batch,
            length, starts]; the starts, int [batch, starts]; and the log-odds of no answer, float32 [batch, 1].
        """
        start_logits = self._log_probabilities(self.start(x), allowed)
        if starts is None:
            # top_k would fail for rows with fewer tokens.
            starts = ops.argsort(-start_logits, axis=1)[:, : self.num_starts]
        starts = ops.cast(starts, "int32")
        # The layer over [token; start] in two halves, because the half of tokens is the same for all starts.
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
