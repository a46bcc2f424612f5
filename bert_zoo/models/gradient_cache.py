"""Large batches in little memory: mini-batches of rows run forwards and backwards one after the other.

A contrastive loss needs all vectors of a batch, but no intermediate results. So each mini-batch is computed
twice: once for its vectors, and again, with the same dropout, when the loss's gradient for them is known.
Source: Gao et al. 2021 (arXiv:2101.06983), GradCache.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import keras
from keras import ops

from bert_zoo import private


def with_mask(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs [rows, length] with `padding_mask` among them."""
    rows = {name: ops.convert_to_tensor(value) for name, value in rows.items()}
    return {"padding_mask": ops.ones_like(next(iter(rows.values()))), **rows}


def longest_first(rows: Mapping[str, Any]):
    """Inputs [rows, length] sorted by number of tokens, and the indices that restore the order."""
    lengths = ops.sum(ops.cast(rows["padding_mask"], "int32"), axis=1)
    order = ops.argsort(-lengths)
    return {name: ops.take(value, order, axis=0) for name, value in rows.items()}, ops.argsort(
        order
    )


def trimmed(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs [rows, length] without the columns that are padding in all rows; on TensorFlow."""
    import tensorflow as tf

    used = tf.reduce_any(rows["padding_mask"] > 0, axis=0)
    # A model reads at least one token, even if there are no rows.
    kept = tf.where(used | (tf.range(tf.size(used)) == 0))[:, 0]
    return {name: tf.gather(value, kept, axis=1) for name, value in rows.items()}


def at_least_one(rows: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs [rows, length]; a replica of TensorFlow without rows gets a row of the id 0."""
    import tensorflow as tf

    missing = tf.maximum(1 - tf.shape(rows["padding_mask"])[0], 0)
    return {
        name: tf.pad(value, [[0, missing], [0, 0]], constant_values=int(name == "padding_mask"))
        for name, value in rows.items()
    }


def traced_once(run):
    """The function as a TensorFlow function, so that it is traced once for several calls in a graph."""
    import tensorflow as tf

    # Each replica would need its own function.
    if not tf.inside_function() or tf.distribute.has_strategy():
        return run
    return tf.function(run, autograph=False)


def widened(vectors, number):
    """Token vectors [rows, tokens, size] with zeros for so many more tokens; vectors of texts [rows, size] unchanged."""
    return ops.pad(vectors, [[0, 0], [0, number], [0, 0]]) if len(vectors.shape) > 2 else vectors


def read_wide(read, rows: Mapping[str, Any], length):
    """`read(rows)` with zeros for the tokens that rows of this length would have more."""
    return widened(read(rows), length - ops.shape(rows["padding_mask"])[1])


def in_groups_by_length(run, rows: Mapping[str, Any], number: int):
    """`run(rows)`, [rows, size] or [rows, tokens, size], computed in groups of rows of similar length with little
    padding.

    On TensorFlow, with shapes that may be unknown in the graph. If they are known, no group is empty.
    """
    import tensorflow as tf

    rows, back = longest_first(with_mask(rows))
    total, length = tf.unstack(tf.shape(rows["padding_mask"]))
    number = min(number, back.shape[0] or number)
    bounds = [total * i // number for i in range(number + 1)]
    groups = [
        read_wide(run, trimmed({name: value[start:end] for name, value in rows.items()}), length)
        for start, end in pairwise(bounds)
    ]
    return tf.gather(tf.concat(groups, axis=0), back)


def in_mini_batches(model: keras.Model, read, rows: Mapping[str, Any], size: int, *, trims: bool):
    """`read(rows)`, float32 [rows, size] or [rows, tokens, size], holding what is computed of `size` rows, int
    [rows, length], at a time; `read` is a function that uses the model's variables alone.

    Same results and gradients as at once, but for the masks of dropout, which are drawn for each mini-batch. `trims` is
    whether each mini-batch loses the padding that it does not need; shapes are dynamic then.
    """
    trainable, constant = model.trainable_variables, model.non_trainable_variables
    weights = {id(weight) for weight in model.weights}
    seeds = [index for index, variable in enumerate(constant) if id(variable) not in weights]
    # `value` alone is, on TensorFlow, a thing that changes with the variable.
    before = [ops.stop_gradient(variable.value) for variable in constant]
    rows, back = longest_first(with_mask(rows))
    if not back.shape[0]:  # unknown, or none
        rows = at_least_one(rows)
    number, length = ops.shape(rows["padding_mask"])
    chunks = -(-number // size)
    # Repeats the shortest row to the end of the last mini-batch.
    places = ops.minimum(ops.arange(chunks * size), number - 1)
    rows = {
        name: ops.reshape(ops.take(value, places, axis=0), (chunks, size, ops.shape(value)[1]))
        for name, value in rows.items()
    }

    def run(values, states, mini_batch):
        """The vectors of a mini-batch, and the states of dropout after it; a pure function."""
        given = list(before)
        for index, state in zip(seeds, states, strict=True):
            given[index] = state
        mapping = [*zip(trainable, values, strict=True), *zip(constant, given, strict=True)]
        with keras.StatelessScope(mapping) as scope:
            vectors = ops.cast(read_wide(read, mini_batch, length), "float32")
        return vectors, [scope.get_current_value(constant[index]) for index in seeds]

    values, states = [v.value for v in trainable], [before[index] for index in seeds]
    if keras.backend.backend() == "tensorflow":
        vectors, states = _on_tensorflow(run, values, states, rows, trims=trims)
    else:
        vectors, states = _on_jax(run, values, states, rows)
    for index, state in zip(seeds, states, strict=True):
        constant[index].assign(state)
    vectors = ops.reshape(vectors, (-1, *ops.shape(vectors)[2:]))
    return ops.take(vectors, back, axis=0)


def _on_jax(run, values, states, rows):
    import jax

    def step(states, mini_batch):
        vectors, states = run(values, states, mini_batch)
        return states, vectors

    states, vectors = jax.lax.scan(jax.checkpoint(step), states, rows)
    return vectors, states


def _on_tensorflow(run, values, states, rows, *, trims: bool):
    """Runs loops whose steps reuse memory. TensorFlow's own gradient would keep the memory of every step."""
    import tensorflow as tf

    chunks = tf.shape(next(iter(rows.values())))[0]
    states_after: list[Any] = []
    shapes: list[list[int | None]] = []

    def mini_batch(number):
        found = {name: value[number] for name, value in rows.items()}
        return trimmed(found) if trims else found

    def over_mini_batches(step, found):
        """Runs `step(number, found, states)` for each mini-batch, starting with the first states."""

        def body(number, found, states):
            return number + 1, *step(number, found, states)

        _, found, after = tf.while_loop(
            lambda number, found, states: number < chunks,
            body,
            (tf.constant(0), found, list(states)),
            parallel_iterations=1,
        )
        return found, after

    @private.custom_gradient
    def vectors_of(*values):
        # Watched tensors would be kept.
        constants = [tf.stop_gradient(value) for value in values]

        def forward(number, array, states):
            vectors, states = run(constants, states, mini_batch(number))
            shapes.append([None, None, *vectors.shape[1:]])
            return array.write(number, vectors), states

        static = next(iter(rows.values())).shape
        array = tf.TensorArray(tf.float32, size=static[0] or chunks, infer_shape=False)
        array, after = over_mini_batches(forward, array)
        states_after.extend(after)

        def gradient(upstream):
            def backward(number, totals, states):
                with tf.GradientTape() as tape:
                    tape.watch(constants)
                    vectors, states = run(constants, states, mini_batch(number))
                found = tape.gradient(
                    vectors, constants, upstream[number], tf.UnconnectedGradients.ZERO
                )
                totals = [t + tf.convert_to_tensor(f) for t, f in zip(totals, found, strict=True)]
                return totals, states

            totals, _ = over_mini_batches(backward, [tf.zeros_like(value) for value in constants])
            return totals

        return tf.ensure_shape(array.stack(), shapes[0]), gradient

    vectors = vectors_of(*values)
    return vectors, states_after
