"""Metrics that Keras does not have."""

import math

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL


def total_and_count(log_probs, labels):
    """The sum of the labels' log-probabilities, and how many labels there are beside -100."""
    counted = ops.cast(ops.not_equal(labels, IGNORED_LABEL), "float32")
    return ops.sum(log_probs), ops.sum(counted)


@keras.saving.register_keras_serializable("bert_zoo")
class PredictionQuality(keras.metrics.Metric):
    """How well a language model predicts, as a mean over tokens and not over batches.

    Its result is a dict: `perplexity`, e to the mean negative log-probability, and `bits`, the same
    in bits a token: for a model of characters, bits per character.
    """

    def __init__(self, name: str = "quality", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_variable((), "zeros", name="total", dtype="float32")
        self.count = self.add_variable((), "zeros", name="count", dtype="float32")

    def update_state(self, total, count):
        """Adds the sum of `count` log-probabilities, in nats."""
        self.total.assign_add(ops.cast(total, "float32"))
        self.count.assign_add(ops.cast(count, "float32"))

    def result(self):
        nats = -self.total / ops.maximum(self.count, 1.0)
        return {"perplexity": ops.exp(nats), "bits": nats / math.log(2)}
