"""Ranks of what tf.data yields without one, as every `tf.py_function` does: those that the task has."""

from collections.abc import Mapping
from typing import Any


def with_ranks(model, dataset, unpack):
    """A dataset in which every tensor has a rank, as far as the task says what it is.

    Args:
        model: a `ZooModel`.
        dataset: of x, (x, y) or (x, y, sample_weight), of texts or of ids.
        unpack: splits an element into these.
    """
    import tensorflow as tf

    shapes = (getattr(spec, "shape", None) for spec in tf.nest.flatten(dataset.element_spec))
    if not any(isinstance(shape, tf.TensorShape) and shape.rank is None for shape in shapes):
        return dataset

    # AutoGraph has nothing to convert here.
    @tf.autograph.experimental.do_not_convert
    def ranked(*element):
        x, *others = unpack(element if len(element) > 1 else element[0])
        known = _map(lambda name, part: _with_rank(part, _input_rank(model, name), name), x)
        ranges = model.label_ranges(known)

        def with_label_rank(name: str, part):
            # A model without a task has no labels of its own.
            rank = getattr(ranges.get(name), "rank", None if model.default_optimizer is None else 1)
            return _with_rank(part, rank, "labels")

        if others:
            others[0] = _map(with_label_rank, others[0])
        others[1:] = [
            _map(lambda _, part: _with_rank(part, 1, "sample_weight"), o) for o in others[1:]
        ]
        return (known, *others) if len(element) > 1 else known

    return dataset.map(ranked, num_parallel_calls=tf.data.AUTOTUNE)


def _map(function, value: Any) -> Any:
    """`function(name, part)` of a dict's, of a pair's ("0" and "1") or of the only ("") tensors."""
    if isinstance(value, Mapping):
        return {name: function(name, part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(function(str(number), part) for number, part in enumerate(value))
    return function("", value)


def _input_rank(model, name: str) -> int | None:
    if name in ("", "0", "1"):
        texts = model.interface.texts
        # Of a pair of texts a model may be served one.
        return dict(enumerate(rank for _, rank in texts)).get(int(name or 0), 1)
    if name in model.state:
        return None
    axes = model.positions_read.get(name)
    return model.ids_rank if axes is None else 2 + len(axes)


def _with_rank(tensor, rank: int | None, name: str):
    import tensorflow as tf

    if rank is None or not isinstance(tensor, tf.Tensor) or tensor.shape.rank is not None:
        return tensor
    message = (
        f"The dataset does not say how many axes {name or 'texts'} have, which should be {rank}. Call "
        "set_shape on what py_function returns, and batch single rows, dataset.batch(32). Their shape:"
    )
    fits = tf.debugging.Assert(tf.equal(tf.rank(tensor), rank), [message, tf.shape(tensor)])
    with tf.control_dependencies([fits]):
        tensor = tf.identity(tensor)
    tensor.set_shape([None] * rank)
    return tensor
