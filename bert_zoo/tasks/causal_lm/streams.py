"""Language models that remember, between the steps of `fit` and `evaluate`, what they have read."""

from typing import Any

import keras
from keras import ops

from bert_zoo.models.base import ZooModel
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.models.metrics import PredictionQuality, total_and_count
from bert_zoo.models.replicas import own_rows, rows_of_all, sharing_replicas
from bert_zoo.tasks.causal_lm import CausalLM


class StreamMemory(keras.layers.Layer):
    """The state of a batch of streams, as variables that no optimizer touches.

    Each replica holds the state of the whole batch and reads its own rows of it, so that files of it
    are the same for any number of replicas. `initial` is the state of streams that begin, one row for
    all of them.
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
        """The state before the next segment; `initial` where `starts_stream`, int [batch], is 1."""
        goes_on = ops.equal(starts_stream, 0)

        def of_rows(variable, row):
            # A value, because JAX takes no Keras variables here.
            kept = own_rows(variable.value)
            return ops.where(ops.reshape(goes_on, (-1, *[1] * (len(row.shape) - 1))), kept, row)

        rows = map(of_rows, self.memory, keras.tree.flatten(initial))
        return keras.tree.pack_sequence_as(initial, list(rows))

    def write(self, state: dict[str, Any]) -> None:
        """Keeps what the model gave back."""
        for variable, value in zip(self.memory, keras.tree.flatten(state), strict=True):
            variable.assign(rows_of_all(value))


@keras.saving.register_keras_serializable("bert_zoo")
class StatefulLM(ZooModel):
    """A recurrent language model for `fit`, `evaluate` and `predict` on streams of segments.

    Data are datasets of dicts as `bert_zoo.data.language_modelling.segments` makes them: `token_ids`
    and `labels` int [batch, length], where row r of each batch goes on where row r of the batch before
    ended, and `starts_stream` int [batch], 1 where it does not. The memory is part of the model's
    weights, so that a checkpoint holds it. Training and evaluation have memories of their own.

    `predict` gives the labels' log-probabilities [steps * batch, length], one step's rows after the
    other's.

    Args:
        language_model: a `CausalLM` with a recurrent encoder; it holds all that is trained.
        batch_size: rows of a batch in `fit`, on all replicas together.
        evaluation_batch_size: rows of a batch in `evaluate` and `predict`; as in `fit` by default.

    Raises:
        ValueError: rows that do not divide among the replicas of the strategy (TensorFlow).
    """

    task = CausalLM.task
    default_optimizer = CausalLM.default_optimizer
    outputs_per_token = True

    def __init__(
        self,
        language_model: CausalLM | dict[str, Any],
        batch_size: int,
        evaluation_batch_size: int | None = None,
        **kwargs,
    ):
        if evaluation_batch_size is None:
            evaluation_batch_size = batch_size
        for size in (batch_size, evaluation_batch_size):
            check_batch_size(size)
            if size % sharing_replicas():
                raise ValueError(
                    f"A batch of {size} streams does not divide among {sharing_replicas()} replicas. "
                    "Give StatefulLM batch sizes that do."
                )
        if isinstance(language_model, dict):
            language_model = keras.saving.deserialize_keras_object(language_model)
        if not language_model.always_gives_state:
            raise ValueError(
                f"A model of the family {language_model.encoder.family} has positions for one row alone, "
                "and cannot go on with a stream. Call fit and evaluate of the language model itself."
            )
        kwargs.setdefault("dtype", language_model.dtype_policy)
        super().__init__(**kwargs)
        self.language_model = language_model
        initial = language_model.initial_memory(1)
        self.training_memory = StreamMemory(initial, batch_size, name="training_memory")
        self.evaluation_memory = StreamMemory(
            initial, evaluation_batch_size, name="evaluation_memory"
        )
        self.quality = PredictionQuality()
        self.built = True

    def call(self, inputs, training=None):
        memory = self.training_memory if training else self.evaluation_memory
        self._check(inputs, memory.batch_size)
        model = self.language_model
        segment = {name: inputs[name] for name in ("token_ids", "labels")}
        state = memory.read(inputs["starts_stream"], model.initial_memory(1))
        outputs = model(segment | state, training=training)
        memory.write({name: outputs[name] for name in state})
        return outputs["log_probs"]

    def _check(self, inputs, batch_size: int) -> None:
        missing = {"token_ids", "labels", "starts_stream"} - set(inputs)
        if missing:
            raise ValueError(
                f"A stateful language model reads segments of streams, and {sorted(missing)} is "
                "missing. bert_zoo.data.language_modelling.segments(token_ids, batch_size, "
                "segment_length) makes them."
            )
        rows = inputs["token_ids"].shape[0]
        if rows is None:  # across workers, where TensorFlow divides a batch and forgets its size
            return
        rows *= sharing_replicas()
        if rows != batch_size:
            raise ValueError(
                f"The batch has {rows} rows and this memory {batch_size}. Make StatefulLM with the "
                "batch sizes of your data: StatefulLM(model, batch_size, evaluation_batch_size)."
            )

    def inner(self) -> CausalLM:
        return self.language_model

    def id_limits(self) -> dict[str, tuple[int, str]]:
        starts = (2, "1 where a stream begins and 0 where it goes on")
        return {**super().id_limits(), "starts_stream": starts}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Mean negative log-probability of the labels, in nats."""
        outputs = {"log_probs": y_pred}
        return self.language_model.compute_loss(x, y, outputs, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.quality.update_state(*total_and_count(y_pred, x["labels"]))
        return self.get_metrics_result()

    def get_config(self):
        return {
            **super().get_config(),
            "language_model": keras.saving.serialize_keras_object(self.language_model),
            "batch_size": self.training_memory.batch_size,
            "evaluation_batch_size": self.evaluation_memory.batch_size,
        }
