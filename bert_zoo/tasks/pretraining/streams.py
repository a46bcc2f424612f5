"""Pretraining on streams, with a memory across batches."""

from typing import Any

import keras

from bert_zoo.tasks.objectives.model import ObjectiveModel
from bert_zoo.tasks.pretraining import Pretraining
from bert_zoo.tasks.streams import StatefulModel


@keras.saving.register_keras_serializable("bert_zoo")
class StatefulObjectives(StatefulModel):
    """Prediction of masked tokens with a memory of the text before each row, as in XLNet.

    Data are (inputs, labels) of rows that continue from batch to batch (`Scheme.in_order`), with
    `starts_stream`.

    Args:
        model: a `MaskedLM` or `Pretraining` model whose encoder has a memory. It holds all trained weights.
        batch_size, evaluation_batch_size: as for `StatefulModel`.

    Raises:
        ValueError: the encoder has no memory.

    Source: zihangdai/xlnet function_builder.py, two_stream_loss.
    """

    task = Pretraining.task
    default_optimizer = Pretraining.default_optimizer
    held_as = "model"
    reads = ("token_ids",)
    source = "bert_zoo.pretraining.batches.PretrainingBatches, with rows in order,"

    def __init__(self, model: ObjectiveModel | dict[str, Any], batch_size: int, *sizes, **kwargs):
        if isinstance(model, dict):
            model = keras.saving.deserialize_keras_object(model)
        if not model.encoder.state:
            raise ValueError(
                f"The encoder has no memory: its mem_len is {getattr(model.encoder.config, 'mem_len', 0)}. "
                "Load a model of a family that has one, with mem_len=384."
            )
        super().__init__(model, batch_size, *sizes, **kwargs)
        self.built = True

    def step(self, inputs, training):
        encoded = self.model.encoder.unmasked(self.model.encoder_inputs(inputs), training=training)
        return self.model.head_outputs(encoded, inputs, training), encoded

    @property
    def positions_read(self):
        return self.model.positions_read

    def label_ranges(self, inputs):
        return self.model.label_ranges(inputs)

    def default_loss(self):
        return self.model.default_loss()

    @property
    def default_loss_weights(self):
        return self.model.default_loss_weights
