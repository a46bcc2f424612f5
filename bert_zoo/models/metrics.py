"""Metrics that Keras does not have."""

import math
from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.config import IGNORED_LABEL


def total_and_count(log_probs, labels):
    """The sum of the labels' log-probabilities, and the number of labels other than -100."""
    counted = ops.cast(ops.not_equal(labels, IGNORED_LABEL), "float32")
    return ops.sum(log_probs), ops.sum(counted)


@keras.saving.register_keras_serializable("bert_zoo")
class LabelF1(keras.metrics.F1Score):
    """`keras.metrics.F1Score` for multi-label logits.

    Args:
        thresholds: for each label, the probability above which it is predicted.
        average: as in Keras; "micro" counts the labels of all rows together, "macro" is the mean of each
            label's score, which is 0 if the label neither occurs nor is predicted.
        name: by default "micro_f1", "macro_f1", ...
    """

    def __init__(
        self,
        thresholds: Sequence[float],
        average: str = "micro",
        name: str | None = None,
        dtype=None,
    ):
        # `update_state` below passes it 0 or 1.
        super().__init__(average, threshold=0.5, name=name or f"{average}_f1", dtype=dtype)
        self.thresholds = tuple(thresholds)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds rows.

        Args:
            y_true: 0 or 1, [batch, labels].
            y_pred: logits [batch, labels].
            sample_weight: weights of rows, [batch] or [batch, 1].
        """
        probabilities = ops.sigmoid(ops.cast(y_pred, self.dtype))
        predicted = probabilities > ops.convert_to_tensor(self.thresholds, self.dtype)
        if sample_weight is not None:
            sample_weight = ops.reshape(ops.cast(sample_weight, self.dtype), (-1,))
        super().update_state(y_true, ops.cast(predicted, self.dtype), sample_weight)

    def get_config(self):
        config = super().get_config()
        del config["threshold"]
        return {**config, "thresholds": list(self.thresholds)}


@keras.saving.register_keras_serializable("bert_zoo")
class TokenAccuracy(keras.metrics.SparseCategoricalAccuracy):
    """The fraction of labels whose class has the highest score. Labels of -100 are left out.

    The mean is over the labels of all batches, so long batches count more than short ones.
    """

    def __init__(self, name: str = "accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: integers [batch, ...].
            y_pred: scores or logits [batch, ..., classes].
            sample_weight: weights of rows [batch] or of labels [batch, ...].
        """
        labels = ops.convert_to_tensor(y_true)
        weight = _weights(ops.not_equal(labels, IGNORED_LABEL), sample_weight)
        scores = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
        # Flat: Keras's means of rows would weigh batches of other lengths differently.
        return super().update_state(ops.reshape(labels, (-1,)), scores, weight)


def _weights(counted, sample_weight):
    """Returns each label's weight, float32 [labels]: its row's or its own; 0 for labels that do not count."""
    weight = ops.cast(counted, "float32")
    if sample_weight is not None:
        given = ops.cast(sample_weight, "float32")
        missing = len(weight.shape) - len(given.shape)
        weight = weight * ops.reshape(given, (*ops.shape(given), *[1] * missing))
    return ops.reshape(weight, (-1,))


# Keras's metrics that read probabilities of one class, of all classes, or with labels as class numbers.
OF_ONE_CLASS = set(
    """
    AUC BinaryAccuracy BinaryCrossentropy BinaryIoU FalseNegatives FalsePositives Precision
    PrecisionAtRecall Recall RecallAtPrecision SensitivityAtSpecificity SpecificityAtSensitivity
    TrueNegatives TruePositives""".split()
)
OF_ALL_CLASSES = set(
    """
    CategoricalAccuracy CategoricalCrossentropy F1Score FBetaScore OneHotIoU OneHotMeanIoU
    TopKCategoricalAccuracy""".split()
)
OF_CLASS_NUMBERS = {"SparseCategoricalCrossentropy"}
# For each activation, the metrics that can read logits exactly, with an option.
FROM_LOGITS = {
    "softmax": {"CategoricalCrossentropy", "SparseCategoricalCrossentropy"},
    "sigmoid": {"BinaryCrossentropy"},
}


@keras.saving.register_keras_serializable("bert_zoo")
class OfLogits(keras.metrics.Metric):
    """Applies a Keras metric that reads probabilities to logits, with class numbers or rows as labels.

    With two classes, metrics of one class such as `Precision` and `AUC` measure class 1, as in
    scikit-learn; with more classes, each against the rest, as Keras does with one-hot rows. Labels of -100
    are ignored.

    Args:
        metric: a metric of one of the classes listed above.
        activation: "softmax" if labels are class numbers or one-hot rows, "sigmoid" if they are rows of 0
            and 1.
    """

    def __init__(self, metric, activation: str, name: str | None = None, dtype=None):
        if isinstance(metric, dict):
            metric = keras.saving.deserialize_keras_object(metric)
        config, kind = metric.get_config(), type(metric).__name__
        reads_logits = kind in FROM_LOGITS[activation]
        if config.get("from_logits", reads_logits) != reads_logits:
            metric = type(metric).from_config({**config, "from_logits": reads_logits})
        super().__init__(name=name or metric.name, dtype=dtype)
        self.metric, self.activation = metric, activation
        self._reads_logits = reads_logits
        options = {config.get(option) for option in ("class_id", "top_k", "multi_label")}
        self._of_class_1 = kind in OF_ONE_CLASS and all(o is None or o is False for o in options)
        self._of_class_numbers = kind in OF_CLASS_NUMBERS

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: integers [batch, ...], or numbers [batch, ..., classes].
            y_pred: logits [batch, ..., classes].
            sample_weight: weights of rows [batch] or of labels [batch, ...].
        """
        logits, labels = ops.cast(y_pred, "float32"), ops.convert_to_tensor(y_true)
        values = logits if self._reads_logits else getattr(ops, self.activation)(logits)
        are_rows = len(labels.shape) == len(logits.shape)
        counted = ops.ones_like(labels[..., 0]) if are_rows else labels != IGNORED_LABEL
        weight = _weights(counted, sample_weight)
        values = ops.reshape(values, (-1, ops.shape(values)[-1]))
        if are_rows:
            rows = ops.reshape(ops.cast(labels, "float32"), ops.shape(values))
            numbers = ops.argmax(rows, -1)
        else:
            numbers = ops.maximum(ops.reshape(ops.cast(labels, "int32"), (-1,)), 0)
            rows = ops.cast(numbers[:, None] == ops.arange(ops.shape(values)[-1]), "float32")
        if self._of_class_numbers:
            self.metric.update_state(numbers, values, weight)
        elif self.activation == "softmax" and self._of_class_1 and logits.shape[-1] == 2:
            self.metric.update_state(rows[:, 1], values[:, 1], weight)
        else:
            self.metric.update_state(rows, values, weight)

    def result(self):
        return self.metric.result()

    def reset_state(self):
        self.metric.reset_state()

    def get_config(self):
        metric = keras.saving.serialize_keras_object(self.metric)
        return {**super().get_config(), "metric": metric, "activation": self.activation}


@keras.saving.register_keras_serializable("bert_zoo")
class PredictionQuality(keras.metrics.Metric):
    """The quality of a language model's predictions, as a mean over tokens and not over batches.

    The result is a dict of `perplexity`, e to the mean negative log-probability, and `bits`, the mean in
    bits per token (bits per character for a model of characters).
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
