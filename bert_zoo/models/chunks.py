"""Runs a model on chunks of rows, so that memory does not grow with their number."""

from collections.abc import Callable, Mapping
from typing import Any

# Including padding: 16 rows of 512. A base model's attention then takes 200 MB per float32 matrix.
TOKENS_A_CHUNK = 8192
# Widths of chunks are multiples of this, as those of batches are by default.
BUCKET = 8


def in_chunks(
    run: Callable[[dict[str, Any]], Any], ids: Mapping[str, Any], *, by_length: bool
) -> Any:
    """`run(ids)`, computed in chunks of rows, one after the other; traceable, on TensorFlow.

    A chunk has at most TOKENS_A_CHUNK tokens, padding included; a single row may have more.

    Args:
        run: function from ids to tensors [rows, ...], in any structure; the result for a row must not
            depend on other rows.
        ids: int [rows, width] or [rows, several, width], including `padding_mask`, padded on the right;
            character ids have another axis.
        by_length: whether to group rows of similar length and cut their common padding, so that one long
            row does not make all rows long. For outputs without an axis of tokens.
    """
    import tensorflow as tf

    ids = {name: tf.convert_to_tensor(value) for name, value in ids.items()}
    mask = ids["padding_mask"]
    shape = tf.shape(mask)
    number, width, parts = shape[0], shape[-1], tf.reduce_prod(shape[1:-1])
    order = tf.range(number)
    if by_length:
        in_row = tf.range(1, mask.shape.rank)
        ends = tf.where(mask > 0, tf.range(1, width + 1), 0)
        lengths = tf.reduce_max(ends, axis=in_row)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def chunk(start):
        """The ids of the rows from place `start` of `order` on, and their number."""
        chunk_width = width
        if by_length:
            longest = tf.reduce_max(tf.gather(lengths, order[start : start + 1]))
            longest = -(-tf.maximum(longest, 1) // BUCKET) * BUCKET
            chunk_width = tf.minimum(longest, width)
        size = tf.maximum(TOKENS_A_CHUNK // tf.maximum(chunk_width * parts, 1), 1)
        rows = order[start : start + size]
        return {name: cut(tf.gather(value, rows), chunk_width) for name, value in ids.items()}, size

    def cut(value, chunk_width):
        characters = (slice(None),) * (value.shape.rank - mask.shape.rank)
        return value[(..., slice(chunk_width), *characters)]

    run_all = _one_by_one if tf.executing_eagerly() else _in_a_loop
    outputs = run_all(run, chunk, number)
    if by_length:
        back = tf.math.invert_permutation(order)
        outputs = tf.nest.map_structure(lambda value: tf.gather(value, back), outputs)
    return outputs


def _one_by_one(run, chunk, number):
    import tensorflow as tf

    inputs, start = chunk(0)
    chunks = [run(inputs)]
    while start < number:
        inputs, size = chunk(start)
        chunks.append(run(inputs))
        start += size
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *chunks)


def _in_a_loop(run, chunk, number):
    import tensorflow as tf

    inputs, _ = chunk(0)
    specs = tf.nest.map_structure(
        lambda value: tf.TensorSpec([None, *value.shape[1:-1], None], value.dtype), inputs
    )
    traced = tf.function(lambda ids: run(ids), autograph=False).get_concrete_function(specs)
    specs = tf.nest.flatten(traced.structured_outputs)
    shapes = [[None, *spec.shape[1:]] for spec in specs]
    options = {"size": 0, "dynamic_size": True, "infer_shape": False}
    arrays = [
        tf.TensorArray(spec.dtype, element_shape=shape, **options)
        for spec, shape in zip(specs, shapes, strict=True)
    ]

    def body(start, number_of_chunk, arrays):
        inputs, size = chunk(start)
        outputs = tf.nest.flatten(traced(inputs))
        pairs = zip(arrays, outputs, strict=True)
        return start + size, number_of_chunk + 1, [a.write(number_of_chunk, o) for a, o in pairs]

    # An empty batch runs once, to get empty outputs. Parallel iterations would take the memory of several
    # chunks.
    _, _, arrays = tf.while_loop(
        lambda start, number_of_chunk, arrays: (start < number) | (number_of_chunk == 0),
        body,
        (0, 0, arrays),
        parallel_iterations=1,
    )
    outputs = [
        tf.ensure_shape(array.concat(), shape) for array, shape in zip(arrays, shapes, strict=True)
    ]
    return tf.nest.pack_sequence_as(traced.structured_outputs, outputs)
