"""The steps of an LSTM with projection and clipping, with an explicit gradient.

XLA cannot compile the gradient that TensorFlow derives for a loop. Here the gradient is a loop of its own, without the
parts that need no order: gradients of kernels are one product after all steps.
"""

import keras
from keras import ops

from bert_zoo import private


def recurrence(
    products,
    kernel,
    projection,
    mask,
    output,
    cell,
    *,
    cell_clip: float,
    projection_clip: float,
):
    """Computes an LSTM's outputs from the products of its inputs.

    With z = products[t] + output kernel, split into i, j, f and o, a step is

        cell = clip(sigmoid(f + 1) cell + sigmoid(i) tanh(j))
        output = clip(sigmoid(o) tanh(cell) projection)

    Args:
        products: [length, batch, 4 * cells], products of inputs and their kernel, plus the bias.
        kernel: [outputs, 4 * cells], the kernel of outputs.
        projection: [cells, outputs], or None; then outputs are not clipped either.
        mask: [length, batch, 1]; 0 leaves the state unchanged.
        output, cell: the initial state, [batch, outputs] and [batch, cells].
        cell_clip, projection_clip: bounds on cells and projected outputs; 0: no bound.

    Returns:
        All outputs, [length, batch, outputs]; then the last output and the last cell, without gradients.
    """
    clips = (cell_clip, projection_clip if projection is not None else 0.0)
    has_projection = projection is not None
    weights = (kernel, projection) if has_projection else (kernel,)

    @private.custom_gradient
    def function(products, mask, output, cell, *weights):
        def step(state, inputs):
            product, there = inputs
            found = _step(product, *state, weights, clips)
            state = tuple(old + there * (new - old) for old, new in zip(state, found, strict=True))
            return state, state

        _, (outputs, cells) = _scan(step, (output, cell), (products, mask))

        def gradient(*upstream):
            of_outputs = keras.tree.flatten(upstream)[0]
            before = [
                ops.concatenate([first[None], later[:-1]])
                for first, later in ((output, outputs), (cell, cells))
            ]
            return _gradient(of_outputs, products, mask, *before, weights, clips)

        return (outputs, outputs[-1], cells[-1]), gradient

    outputs, *state = function(products, mask, output, cell, *weights)
    return outputs, *map(ops.stop_gradient, state)


def _scan(step, state, sequences, *, reverse: bool = False):
    """`ops.scan` of several sequences; in Keras 3.15 it takes only one if the length is unknown."""
    length = sequences[0].shape[0]
    numbers = ops.arange(ops.shape(sequences[0])[0], dtype="int32")

    def numbered(state, number):
        return step(state, [sequence[number] for sequence in sequences])

    return ops.scan(numbered, state, numbers, length=length, reverse=reverse)


def _gates(z):
    i, j, f, o = ops.split(z, 4, axis=-1)
    return ops.sigmoid(i), ops.tanh(j), ops.sigmoid(f + 1.0), ops.sigmoid(o)


def _clipped(x, bound: float):
    return ops.clip(x, -bound, bound) if bound else x


def _step(product, output, cell, weights, clips):
    i, j, f, o = _gates(product + ops.matmul(output, weights[0]))
    cell = _clipped(f * cell + i * j, clips[0])
    output = o * ops.tanh(cell)
    return _clipped(ops.matmul(output, weights[1]) if len(weights) > 1 else output, clips[1]), cell


def _gradient(of_outputs, products, mask, output, cell, weights, clips):
    """Gradients of `recurrence`'s arguments, from outputs' gradients and the states before each step."""
    kernel, *projections = weights
    dtype = keras.backend.standardize_dtype(products.dtype)

    def product(x, weight):
        """One product for all steps."""
        return ops.reshape(ops.matmul(_flat(x), weight), (*ops.shape(x)[:-1], weight.shape[-1]))

    def within(x, bound: float):
        """1 where clipping does not change x, else 0."""
        return ops.cast(ops.abs(x) <= bound, dtype) if bound else ops.ones_like(x)

    i, j, f, o = _gates(products + product(output, kernel))
    unclipped = f * cell + i * j
    squashed = ops.tanh(_clipped(unclipped, clips[0]))
    whole = o * squashed
    out_within = mask * within(product(whole, projections[0]) if projections else whole, clips[1])
    # Factors of the gradients of a step's output and cell, named after the target and the source.
    cell_by_output = o * (1 - ops.square(squashed))
    o_by_output = squashed * o * (1 - o)
    of_cell = within(unclipped, clips[0])
    i_by_cell, j_by_cell = j * i * (1 - i), i * (1 - ops.square(j))
    f_by_cell = cell * f * (1 - f)
    factors = (cell_by_output, o_by_output, of_cell, i_by_cell, j_by_cell, f_by_cell, f)

    def step(state, inputs):
        of_output, of_state, *_ = state
        upstream, there, is_within, by_output, to_o, is_free, to_i, to_j, to_f, keeps = inputs
        of_output = of_output + upstream
        of_projected = of_output * is_within
        whole = (
            ops.matmul(of_projected, ops.transpose(projections[0])) if projections else of_projected
        )
        of_cell = (there * of_state + whole * by_output) * is_free
        of_z = ops.concatenate([of_cell * to_i, of_cell * to_j, of_cell * to_f, whole * to_o], -1)
        state = (
            (1 - there) * of_output + ops.matmul(of_z, ops.transpose(kernel)),
            (1 - there) * of_state + of_cell * keeps,
            of_z,
            of_projected,
        )
        return state, state

    begin = tuple(ops.zeros_like(x[0]) for x in (output, cell, products, output))
    inputs = (of_outputs, mask, out_within, *factors)
    (of_first, of_first_cell, *_), (_, _, of_z, of_projected) = _scan(
        step, begin, inputs, reverse=True
    )
    of_weights = [ops.matmul(ops.transpose(_flat(output)), _flat(of_z))]
    if projections:
        of_weights.append(ops.matmul(ops.transpose(_flat(whole)), _flat(of_projected)))
    return of_z, ops.zeros_like(mask), of_first, of_first_cell, *of_weights


def _flat(x):
    return ops.reshape(x, (-1, x.shape[-1]))
