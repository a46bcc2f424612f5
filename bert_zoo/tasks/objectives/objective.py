"""Pretraining objectives: their base class, their random numbers, models with several heads, sentence pairs."""

import hashlib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import class_loss, token_loss
from bert_zoo.models.task_model import TaskModel

# Random numbers by counter, so that masks do not depend on batches, workers and platforms.
# The step of SplitMix64's counter and the factors of its output function.
STEP = np.uint64(0x9E3779B97F4A7C15)
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SHIFTS = tuple(map(np.uint64, (30, 27, 31)))
MASK = 2**64 - 1


class Draws:
    """Random numbers for the rows of a batch, which depend only on seed, epoch and row number.

    Draws with different names are independent. A shorter draw is the beginning of a longer one with the
    same name, so padding changes no mask.

    Args:
        seed, epoch: integers.
        rows: int [batch], the rows' numbers in the epoch.

    Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators" (SplitMix64).
    """

    def __init__(self, seed: int, epoch: int, rows: np.ndarray):
        key = np.zeros(1, np.uint64)
        for part in (seed, epoch):
            key = _mixed(key + STEP + np.uint64(int(part) & MASK))
        self._keys = _mixed(key + STEP + np.asarray(rows).astype(np.int64).view(np.uint64))

    def bits(self, name: str, *shape: int) -> np.ndarray:
        """Draws uint64 [batch, *shape] of uniformly random bits.

        Args:
            name: name of the draw, unique for each use of the same `Draws`.
            shape: shape of a row's numbers.
        """
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        keys = _mixed(self._keys ^ np.uint64(int.from_bytes(digest, "little")))
        steps = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * STEP
        return _mixed(keys[:, None] + steps).reshape(-1, *shape)

    def uniform(self, name: str, *shape: int) -> np.ndarray:
        """Draws float64 [batch, *shape], uniform in [0, 1), multiples of 2**-53."""
        return (self.bits(name, *shape) >> np.uint64(11)) * 2.0**-53

    def integers(self, name: str, below: int, *shape: int) -> np.ndarray:
        """Draws int64 [batch, *shape], uniform in [0, below), for `below` up to 2**53."""
        return (self.uniform(name, *shape) * below).astype(np.int64)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """SplitMix64's output function, in place."""
    for shift, factor in zip(SHIFTS, FACTORS, strict=False):
        numbers ^= numbers >> shift
        numbers *= factor
    numbers ^= numbers >> SHIFTS[-1]
    return numbers


Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a model reads of a text in pretraining, and what it must predict."""

    tokens: Any = None  # the vocabulary, `TokenIds` or `SentinelIds`; see `for_tokens`

    def for_tokens(self, tokens: Any) -> Self:
        return replace(self, tokens=tokens)

    def for_tokenizer(self, tokenizer: Any, counts: np.ndarray | None = None) -> Self:
        """The objective for a tokenizer's vocabulary; ValueError if it lacks a token that the objective needs.

        `counts`, int [vocab_size], are for objectives that draw random tokens by their frequency in the corpus.
        """
        raise NotImplementedError

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, Any]:
        """Inputs and labels of a batch of rows with the random numbers `draws`."""
        raise NotImplementedError

    def check_vocabulary(self) -> None:
        """Raises ValueError if the objective has no vocabulary."""
        if self.tokens is None:
            raise ValueError(
                f"This {type(self).__name__} has no vocabulary. Call "
                "objective.for_tokenizer(model.preprocessor.tokenizer) first, and use its result."
            )


@dataclass(frozen=True)
class Prediction:
    """A prediction in pretraining, with its head and its loss."""

    output: str  # name of the logits
    weight = 1.0
    # As in `ZooModel.positions_read`.
    reads: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Further inputs of the head that select which logits are computed.
    selects: tuple[str, ...] = ()
    loss = staticmethod(token_loss)

    def head(self, model: "ObjectiveModel", name: str) -> keras.layers.Layer:
        """The head, not built yet."""
        raise NotImplementedError

    def logits(self, head, model: "ObjectiveModel", encoded, inputs) -> Any:
        """Logits from the encoder's outputs and the model's inputs; None if an input is missing."""
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

    `generator` is a backbone that shares the encoder's tables and has the head for masked tokens, or None if the
    encoder has this head.
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
        if (
            not given
            or None in itertools.chain([length], *shapes)
            or sum(map(math.prod, shapes)) >= length
        ):
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


@dataclass(frozen=True)
class SentencePrediction(Prediction):
    """Predicts whether the second text follows the first (BERT), or whether they are in order (ALBERT).

    Logits [batch, 2] come from the pooled first token, for rows of single documents, which
    `bert_zoo.pretraining.rows.SentencePairs` makes.
    """

    classes: str = ""  # what the two classes mean
    loss = staticmethod(class_loss)

    def head(self, model, name):
        # The originals have no dropout before this layer.
        return model.output_head(2, name, dropout=0.0)

    def logits(self, head, model, encoded, inputs):
        pooled = encoded.get("pooled_output")
        return None if pooled is None else head(pooled)

    def label_range(self, model, inputs):
        return LabelRange(2, self.classes)
