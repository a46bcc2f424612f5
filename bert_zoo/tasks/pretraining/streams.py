"""Pretraining on streams, with a memory from batch to batch."""

from typing import Any

import keras

from bert_zoo.tasks.objectives.model import ObjectiveModel
from bert_zoo.tasks.pretraining import Pretraining
from bert_zoo.tasks.streams import StatefulModel


@keras.saving.register_keras_serializable("bert_zoo")
class StatefulObjectives(StatefulModel):
    """Hidden tokens that are predicted with the memory of what stands before their row, as XLNet's.

    Data are (inputs, labels) of rows that go on from batch to batch (`Scheme.in_order`), with `starts_stream`.

    Args:
        model: a `MaskedLM` or `Pretraining` whose encoder has a memory; it holds all that is trained.
        batch_size, evaluation_batch_size: as of `StatefulModel`.

    Raises:
        ValueError: an encoder without a memory.

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
        encoded = self.model.encoder(self.model.encoder_inputs(inputs), training=training)
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
