"""Models for pretraining: several heads on one encoder, or on two."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import ops

from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import token_loss
from bert_zoo.models.task_model import TaskModel


@dataclass(frozen=True)
class Prediction:
    """A prediction in pretraining, with its head and its loss.

    Attributes:
        output: name of the logits.
        weight: weight of the loss.
        reads: as in `ZooModel.positions_read`.
        selects: further inputs of the head that select which logits are computed.
        loss: function that makes the loss.
    """

    output: str
    weight = 1.0
    reads: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    selects: tuple[str, ...] = ()
    loss = staticmethod(token_loss)

    def head(self, model: "ObjectiveModel", name: str) -> keras.layers.Layer:
        """Makes the head, without building it."""
        raise NotImplementedError

    def logits(self, head, model: "ObjectiveModel", encoded, inputs) -> Any:
        """Computes logits from the encoder's outputs and the model's inputs; None if an input is missing."""
        raise NotImplementedError

    def reader(self, model: "ObjectiveModel") -> Any:
        """The backbone whose hidden states the head reads."""
        return model.encoder

    def reads_all(self, inputs) -> bool:
        """Whether the head reads the last hidden states of other tokens than those in `reads`."""
        return False

    def label_range(self, model: "ObjectiveModel", inputs: Mapping[str, Any]) -> LabelRange:
        """The range of labels, for these inputs of the model."""
        size = model.encoder.config.vocab_size
        return LabelRange(size, "the size of the vocabulary", ("batch", "length"))


class ObjectiveModel(TaskModel):
    """An encoder with pretraining heads, each an attribute with the name of its objective.

    Attributes:
        generator: a backbone that shares the encoder's tables and has the head for masked tokens; None
            if the encoder has this head.
    """

    outputs_per_token = True
    predicts_tokens = True
    generator = None

    @property
    def objectives(self) -> dict[str, Prediction]:
        raise NotImplementedError

    @property
    def positions_read(self) -> dict[str, tuple[int, ...]]:
        return {n: axes for o in self.objectives.values() for n, axes in o.reads.items()}

    def add_head(self, config):
        self.add_prediction_head()
        for name, objective in self.objectives.items():
            setattr(self, name, objective.head(self, name))

    def build(self, input_shape):
        if self.prediction_head is not None:
            self.prediction_head.build((None, None, self.encoder.config.hidden_size))
        for name, objective in self.objectives.items():
            per_token = objective.label_range(self, {}).per_token
            shape = (None, None) if per_token else (None,)
            getattr(self, name).build((*shape, objective.reader(self).config.hidden_size))
        self.built = True

    def head_limits(self, inputs):
        limits = super().head_limits(inputs)
        if "span_tokens" in inputs and "span_boundaries" in inputs:
            targets = self.encoder.config.span_targets
            spans = ops.shape(inputs["span_boundaries"])[1]
            limits["span_tokens"] = (spans * targets, f"{targets} tokens of each span")
        return limits

    @property
    def mask_reader(self):
        """The backbone that masked tokens are predicted from."""
        return self.encoder.backbone if self.generator is None else self.generator

    @property
    def token_table(self):
        return self.encoder.backbone.token_table

    def encoder_inputs(self, inputs):
        read, positions = super().encoder_inputs(inputs), self.positions(inputs, "mask_positions")
        selects = {name for o in self.objectives.values() for name in o.selects}
        read = {name: value for name, value in read.items() if name not in selects}
        if positions is None or not self.encoder.backbone.has_second_stream:
            return read
        return {**self.encoder.backbone.inputs_for_targets(read, positions), **read}

    def positions(self, inputs, name: str):
        """An input of positions, int32, checked against the length; None if it is not given."""
        if inputs.get(name) is None:
            return None
        positions, length = as_ids(name, inputs[name]), inputs["token_ids"].shape[1]
        if length is not None:
            check_range(name, positions, length, "the length of the input")
        return positions

    def outputs_of_rows(self, inputs, training=None):
        read = self.encoder_inputs(inputs)
        if self.decodes_masks:
            encoded = self.encoder.unmasked(read, internals=True, training=training)
            return self.head_outputs(encoded, inputs, training)
        positions = self.positions_to_compute(inputs)
        if positions is None:
            return super().outputs_of_rows(inputs, training)
        side_by_side = ops.concatenate(
            [ops.reshape(p, (-1, math.prod(p.shape[1:]))) for p in positions.values()], axis=1
        )
        encoded = self.encoder.unmasked(read, positions=side_by_side, training=training)
        # Heads now find these tokens at other positions.
        places, start = {}, 0
        for name, of_input in positions.items():
            shape = (1, *of_input.shape[1:])
            end = start + math.prod(shape)
            places[name] = ops.reshape(ops.arange(start, end, dtype="int32"), shape)
            start = end
        return self.head_outputs(encoded, {**inputs, **places}, training)

    @property
    def decodes_masks(self) -> bool:
        """Whether the head for masked tokens reads the encoder's hidden states below the last."""
        return self.generator is None and self.encoder.backbone.decodes_masks

    def positions_to_compute(self, inputs) -> dict[str, Any] | None:
        """The inputs of `positions_read`, if heads read only these and they are fewer than the tokens.

        None otherwise, or if the encoder has a second stream.
        """
        if self.encoder.backbone.has_second_stream or any(
            objective.reads_all(inputs) for objective in self.objectives.values()
        ):
            return None
        given = {name: self.positions(inputs, name) for name in self.positions_read}
        given = {name: value for name, value in given.items() if value is not None}
        shapes, length = [value.shape[1:] for value in given.values()], inputs["token_ids"].shape[1]
        if None in itertools.chain([length], *shapes) or sum(map(math.prod, shapes)) >= length:
            return None
        return given

    def head_outputs(self, encoded, inputs, training=None):
        logits = {
            objective.output: objective.logits(getattr(self, name), self, encoded, inputs)
            for name, objective in self.objectives.items()
        }
        return {name: value for name, value in logits.items() if value is not None}

    def label_ranges(self, inputs) -> dict[str, LabelRange]:
        return {o.output: o.label_range(self, inputs) for o in self.objectives.values()}

    def default_loss(self):
        return {o.output: o.loss() for o in self.objectives.values()}

    @property
    def default_loss_weights(self) -> dict[str, float]:
        return {o.output: o.weight for o in self.objectives.values()}
