"""Objectives of pretraining in tf.data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_zoo.objectives.draws import Draws
from bert_zoo.objectives.masking import Masking

# Lengths that an objective is tried with where batches differ in theirs.
LENGTHS = (64, 128)


def hide_tokens(objective: Masking, seed: int, epoch: int | tf.Tensor = 0) -> Callable:
    """What maps a tf.data of batches of rows to one of inputs and labels.

    The objective runs in NumPy, in any number of parallel calls: masks depend on seed, epoch and row.

    Args:
        objective: with its vocabulary.
        seed: of its draws.
        epoch: an integer, perhaps int64 [].

    Returns:
        A function from a batch as `Masking.__call__` takes it, of tensors, to (inputs, labels), with
        shapes as static as the batch's: `dataset.map(hide_tokens(objective, seed, epoch))`.
    """

    def transform(batch: Mapping[str, tf.Tensor]):
        names = sorted(batch)
        specs = _specs(objective, batch)

        def run(epoch: np.ndarray, *values: np.ndarray):
            rows = dict(zip(names, values, strict=True))
            return objective(rows, Draws(seed, int(epoch), rows["row"]))

        return run_numpy(run, [tf.cast(epoch, tf.int64), *(batch[name] for name in names)], specs)

    return transform


def run_numpy(function: Callable, values: Sequence[Any], specs: Any) -> Any:
    """What a function of NumPy arrays gives, within a graph, with the shapes of `specs`.

    Args:
        function: from arrays, one a value, to a structure like that of `specs`.
        values: tensors.
        specs: a structure of TensorSpecs.
    """

    def flat(*arrays: np.ndarray) -> list[np.ndarray]:
        return tf.nest.flatten(function(*arrays))

    results = tf.numpy_function(flat, values, [spec.dtype for spec in tf.nest.flatten(specs)])
    for result, spec in zip(results, tf.nest.flatten(specs), strict=True):
        result.set_shape(spec.shape)
    return tf.nest.pack_sequence_as(specs, results)


def _specs(objective: Masking, batch: Mapping[str, tf.Tensor]):
    """TensorSpecs of the inputs and labels that the objective gives for a batch."""
    rows, length = batch["token_ids"].shape

    def result_of(length: int):
        def like(tensor: tf.Tensor) -> np.ndarray:
            shape = [1, length, *tensor.shape[2:]][: tensor.shape.rank]
            return np.zeros(shape, tensor.dtype.as_numpy_dtype)

        tried = {name: like(tensor) for name, tensor in batch.items()}
        tried["special"] = np.ones((1, length), bool)
        return objective(tried, Draws(0, 0, tried["row"]))

    def spec(*results: np.ndarray) -> tf.TensorSpec:
        first, second = (result.shape[1:] for result in results)
        sizes = (a if a == b else None for a, b in zip(first, second, strict=True))
        return tf.TensorSpec([rows, *sizes], results[0].dtype)

    return tf.nest.map_structure(
        spec, *(result_of(tried) for tried in (LENGTHS if length is None else (length, length)))
    )
