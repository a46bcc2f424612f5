"""XLNet's question answering: ends are predicted given starts, and whether there is an answer."""

from types import MappingProxyType

import keras
from keras import ops

from bert_zoo.layers.common import FIRST, Dropout, at_positions, dense, float_kernel, norm
from bert_zoo.models.base import Interface
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import BinaryCrossentropy
from bert_zoo.models.task_model import last_positions
from bert_zoo.tasks.question_answering import LOGITS, QuestionAnswerer
from bert_zoo.weights.table import LAST_REAL_TOKEN

# Logit of tokens at which no answer may start or end.
MASKED = -1e30


class BeamSpanHead(keras.layers.Layer):
    """Predicts an answer's start, its end for each of several starts, and whether there is an answer.

    Ends are predicted for the `num_starts` most probable starts, if no starts are given; `dropout` is before the
    logit of no answer.

    Source: Yang et al. 2019 (XLNet, arXiv:1906.08237); zihangdai/xlnet function_builder.py,
    get_qa_outputs.
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


NO_ANSWER, STARTS = "no_answer_logits", "start_positions"
# As in zihangdai/xlnet, run_squad.py (start_n_top).
NUM_STARTS = 5


@keras.saving.register_keras_serializable("bert_zoo")
class BeamQuestionAnswerer(QuestionAnswerer):
    """Predicts where an answer starts, where it ends given the start, and whether there is one.

    Returns a dict of float32 values:

    * `start_logits` [batch, length], log-probabilities of starts;
    * `start_positions` [batch, 5], the five likeliest starts;
    * `end_logits` [batch, length, 5], log-probabilities of ends given each of these starts;
    * `no_answer_logits` [batch, 1], the log-odds that there is no answer.

    With `start_positions` [batch] among the inputs, `end_logits` are [batch, length], given that start, and
    `start_positions` is not an output. With `context_mask` [batch, length], answers start and end in the
    context, or at the token that means no answer.

    `fit`, `evaluate` and `answer` take the same data as in `QuestionAnswerer`. To train on rows of ids,
    add `start_positions` to the inputs and pass labels [batch]: `start_logits` (the same positions),
    `end_logits`, and `no_answer_logits` (1 for no answer).

    Source: Yang et al. 2019 (arXiv:1906.08237); zihangdai/xlnet function_builder.py, get_qa_outputs, and
    run_squad.py. The latter considers five ends for each start; here all ends are considered.
    """

    task = "beam_question_answering"
    columns_read = ("context_mask",)
    positions_read = MappingProxyType({"context_mask": ()})
    default_loss_weights = dict.fromkeys((*LOGITS, NO_ANSWER), 0.5)
    interface = Interface(
        (*LOGITS, STARTS, NO_ANSWER),
        row_outputs=(STARTS, NO_ANSWER),
        texts=QuestionAnswerer.interface.texts,
        pairs=False,
    )

    def add_head(self, config):
        self.span = BeamSpanHead(
            config.hidden_size,
            num_starts=NUM_STARTS,
            epsilon=config.layer_norm_epsilon,
            name="span",
            **self.stored_head.output(config),
            **self.layer_options,
        )

    def encoder_inputs(self, inputs):
        read = super().encoder_inputs(inputs)
        return {name: value for name, value in read.items() if name != STARTS}

    def head_outputs(self, encoded, inputs, training=None):
        x, start = encoded["sequence_output"], inputs.get(STARTS)
        is_last = self.stored_head.summary(self.encoder.config) == LAST_REAL_TOKEN
        place = last_positions(self.encoder_inputs(inputs)) if is_last else FIRST
        allowed = self._allowed(inputs, ops.shape(x)[1], place if is_last else 0)
        given = None if start is None else ops.expand_dims(start, 1)
        starts, ends, positions, no_answer = self.span(
            x, allowed, at_positions(x, place)[:, 0], given, training=training
        )
        outputs = {"start_logits": starts, "end_logits": ends, NO_ANSWER: no_answer}
        if start is None:
            return {**outputs, STARTS: positions}
        return {**outputs, "end_logits": ops.squeeze(ends, 2)}

    @staticmethod
    def _allowed(inputs, length, place):
        """Bool [batch, length], where an answer may start and end; `place`, the summary's, means no answer."""
        mask = inputs.get("context_mask", inputs.get("padding_mask"))
        if mask is None:
            mask = ops.ones_like(inputs["token_ids"])
        means_no_answer = ops.equal(ops.arange(length, dtype="int32"), place)
        return ops.logical_or(ops.cast(mask, "bool"), means_no_answer)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if STARTS in y_pred:
            raise ValueError(
                "This task is trained to find the end of an answer given its start. Add start_positions "
                "[batch] to the inputs, or pass (questions, contexts) with answers."
            )
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def default_loss(self):
        return {**super().default_loss(), NO_ANSWER: BinaryCrossentropy(from_logits=True)}

    def label_ranges(self, inputs):
        return {**super().label_ranges(inputs), NO_ANSWER: LabelRange(2, "1 for no answer")}

    def as_trained(self, inputs, labels, no_answer):
        start = labels["start_logits"]
        is_none = (start == no_answer).astype("int32")
        return {**inputs, STARTS: start}, {**labels, NO_ANSWER: is_none}

    def of_window(self, outputs, padding):
        starts = outputs[STARTS].astype(int) - padding
        return {"starts": starts, "no_answer_odds": float(outputs[NO_ANSWER][0])}

    def portable_verb(self):
        return {}
