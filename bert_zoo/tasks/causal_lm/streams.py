"""Language models that keep their memory between the steps of `fit` and `evaluate`."""

from typing import Any

import keras

from bert_zoo.models.metrics import PredictionQuality, total_and_count
from bert_zoo.models.replicas import added_losses
from bert_zoo.tasks.causal_lm import CausalLM
from bert_zoo.tasks.streams import StatefulModel


@keras.saving.register_keras_serializable("bert_zoo")
class StatefulLM(StatefulModel):
    """Trains and evaluates a recurrent language model on streams of segments.

    `fit`, `evaluate` and `predict` take datasets of dicts, as `bert_zoo.pretraining.streams.segments` makes
    them: `token_ids` and `labels` int [batch, length], and `starts_stream` int [batch]; see `StatefulModel`.
    `predict` returns the labels' log-probabilities in nats, float32 [steps * batch, length], step by step.

    Args:
        language_model: a `CausalLM` with a recurrent encoder. It holds all weights.
        batch_size, evaluation_batch_size: as in `StatefulModel`.

    Raises:
        ValueError: the language model has a fixed number of positions.
    """

    task = CausalLM.task
    default_optimizer = CausalLM.default_optimizer
    held_as = "language_model"
    reads = ("token_ids", "labels")
    source = "bert_zoo.pretraining.streams.segments(token_ids, batch_size, segment_length)"

    def __init__(
        self,
        language_model: CausalLM | dict[str, Any],
        batch_size: int,
        evaluation_batch_size: int | None = None,
        **kwargs,
    ):
        if isinstance(language_model, dict):
            language_model = keras.saving.deserialize_keras_object(language_model)
        if not language_model.always_gives_state:
            raise ValueError(
                f"A model of the family {language_model.encoder.family} has a fixed number of positions, so it "
                "cannot continue a stream. Call fit and evaluate of the language model itself."
            )
        super().__init__(language_model, batch_size, evaluation_batch_size, **kwargs)
        self.quality = PredictionQuality()
        self.built = True

    def step(self, inputs, training):
        outputs = self.language_model(inputs, training=training)
        return outputs["log_probs"], outputs

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The mean negative log-probability of the labels; see `CausalLM.compute_loss`."""
        added = added_losses(self)
        return self.language_model.mean_loss(x, y, {"log_probs": y_pred}, sample_weight) + added

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.quality.update_state(*total_and_count(y_pred, x["labels"]))
        return self.get_metrics_result()
