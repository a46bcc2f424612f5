"""XLNet's question answering: ends are predicted given starts, and whether there is an answer."""

from types import MappingProxyType

import keras
from keras import ops

from bert_zoo.layers.common import FIRST, at_positions
from bert_zoo.models.base import Interface
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import BinaryCrossentropy
from bert_zoo.models.task_model import last_positions
from bert_zoo.tasks.question_answering import QuestionAnswerer
from bert_zoo.tasks.question_answering.answering import LOGITS
from bert_zoo.tasks.question_answering.beam_span import BeamSpanHead
from bert_zoo.weights.table import LAST_REAL_TOKEN

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
