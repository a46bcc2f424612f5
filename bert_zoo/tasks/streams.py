"""Models with a memory that lasts from one step of `fit` and `evaluate` to the next."""

from typing import Any

import keras
from keras import ops

from bert_zoo.fields import check
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.replicas import own_rows, rows_of_all, sharing_replicas


class StreamMemory(keras.layers.Layer):
    """The state of a batch of streams, in non-trainable variables; `initial` is a new stream's, one row.

    Each replica holds the state of the whole batch and reads its own rows, so checkpoints do not depend on
    the number of replicas.
    """

    def __init__(self, initial: dict[str, Any], batch_size: int, **kwargs):
        super().__init__(trainable=False, **kwargs)
        self.batch_size = batch_size
        self.memory = [
            self.add_weight(
                shape=(batch_size, *row.shape[1:]),
                initializer="zeros",
                dtype=keras.backend.standardize_dtype(row.dtype),
                name="_".join(map(str, path)),
            )
            for path, row in keras.tree.flatten_with_path(initial)
        ]
        self.built = True

    def read(self, starts_stream, initial: dict[str, Any]) -> dict[str, Any]:
        """The state before the next segment: `initial` if `starts_stream`, int [batch], is 1."""
        goes_on = ops.equal(starts_stream, 0)

        def of_rows(variable, row):
            # `value`, because JAX does not accept Keras variables here.
            kept = own_rows(variable.value)
            return ops.where(ops.reshape(goes_on, (-1, *[1] * (len(row.shape) - 1))), kept, row)

        rows = map(of_rows, self.memory, keras.tree.flatten(initial))
        return keras.tree.pack_sequence_as(initial, list(rows))

    def write(self, state: dict[str, Any]) -> None:
        for variable, value in zip(self.memory, keras.tree.flatten(state), strict=True):
            variable.assign(rows_of_all(value))


class StatefulModel(ZooModel):
    """A model with a recurrent encoder, for `fit`, `evaluate` and `predict` on streams.

    Row r of each batch continues row r of the previous batch, unless `starts_stream`, int [batch], is 1. The
    memory is part of the model's weights, so checkpoints include it. Training and evaluation have separate
    memories.

    Args:
        model: the model to train, kept in the attribute named by `held_as`.
        batch_size: rows per batch in `fit`, on all replicas together.
        evaluation_batch_size: rows per batch in `evaluate` and `predict`; by default as in `fit`.

    Raises:
        ValueError: the replicas of the strategy cannot share the rows evenly (TensorFlow).
    """

    outputs_per_token = True
    held_as: str
    # Names of a batch's inputs, and the function that makes batches, for messages.
    reads: tuple[str, ...]
    source: str

    def __init__(
        self,
        model: ZooModel,
        batch_size: int,
        evaluation_batch_size: int | None = None,
        **kwargs,
    ):
        if evaluation_batch_size is None:
            evaluation_batch_size = batch_size
        for size in (batch_size, evaluation_batch_size):
            check("batch_size", size, int, least=1)
            if size % sharing_replicas():
                raise ValueError(
                    f"A batch of {size} streams cannot be split evenly across {sharing_replicas()} replicas. Give "
                    f"{type(self).__name__} a multiple of {sharing_replicas()}."
                )
        kwargs.setdefault("dtype", model.dtype_policy)
        super().__init__(**kwargs)
        setattr(self, self.held_as, model)
        initial = self.initial_state()
        self.training_memory = StreamMemory(initial, batch_size, name="training_memory")
        self.evaluation_memory = StreamMemory(
            initial, evaluation_batch_size, name="evaluation_memory"
        )

    def inner(self) -> ZooModel:
        return getattr(self, self.held_as)

    def initial_state(self) -> dict[str, Any]:
        """The state of a new stream, one row."""
        return encoder_of(self).initial_memory(1)

    def call(self, inputs, training=None):
        memory = self.training_memory if training else self.evaluation_memory
        self._check(inputs, memory.batch_size)
        state = memory.read(inputs["starts_stream"], self.initial_state())
        rows = {name: value for name, value in inputs.items() if name != "starts_stream"}
        outputs, new = self.step(rows | state, training)
        memory.write({name: new[name] for name in state})
        return outputs

    def step(self, inputs, training) -> tuple[Any, dict[str, Any]]:
        """The outputs for a batch and its previous state, and a dict with the new state."""
        raise NotImplementedError

    def _check(self, inputs, batch_size: int) -> None:
        missing = {*self.reads, "starts_stream"} - set(inputs)
        if missing:
            raise ValueError(
                f"A {type(self).__name__} reads segments of streams, but {sorted(missing)} is missing. Make batches "
                f"with {self.source}."
            )
        rows = inputs["starts_stream"].shape[0]
        if rows is None:  # across workers, TensorFlow splits a batch and loses its static size
            return
        rows *= sharing_replicas()
        if rows != batch_size:
            name = type(self).__name__
            raise ValueError(
                f"The batch has {rows} rows, but the memory has {batch_size}. Create {name} with the batch sizes of "
                f"your data: {name}(model, batch_size, evaluation_batch_size)."
            )

    def id_limits(self) -> dict[str, tuple[int, str]]:
        starts = (2, "1 where a stream begins, 0 where it continues")
        return {**super().id_limits(), "starts_stream": starts}

    def get_config(self):
        return {
            **super().get_config(),
            self.held_as: keras.saving.serialize_keras_object(self.inner()),
            "batch_size": self.training_memory.batch_size,
            "evaluation_batch_size": self.evaluation_memory.batch_size,
        }
