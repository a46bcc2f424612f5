"""Metrics that Keras does not have."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.tagging import OUTSIDE
from bert_zoo.models.losses import weights_of_labels


def total_and_count(log_probs, labels, sample_weight=None):
    """The sum of the labels' log-probabilities, and the number of labels other than -100.

    With weights (see `bert_zoo.models.losses.weights_of_labels`), the weighted sum, and the number of these
    labels whose weight is not 0.
    """
    counted = ops.not_equal(labels, IGNORED_LABEL)
    if sample_weight is not None:
        weights = weights_of_labels(ops.cast(sample_weight, "float32"), labels)
        log_probs, counted = log_probs * weights, ops.logical_and(counted, weights != 0)
    return ops.sum(log_probs), ops.sum(ops.cast(counted, "float32"))


@keras.saving.register_keras_serializable("bert_zoo")
class LabelF1(keras.metrics.F1Score):
    """`keras.metrics.F1Score` for multi-label logits, with a probability for each label above which it is predicted.

    "micro" counts the labels of all rows together, "macro" is the mean of each label's score, which is 0 if the label
    neither occurs nor is predicted.
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
        """Adds rows: 0 or 1 and logits, [batch, labels], with weights [batch] or [batch, 1]."""
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
    """Each label's weight, float32 [labels]: its row's or its own; 0 for labels that do not count."""
    weight = ops.cast(counted, "float32")
    if sample_weight is not None:
        weight *= weights_of_labels(ops.cast(sample_weight, "float32"), weight)
    return ops.reshape(weight, (-1,))


@keras.saving.register_keras_serializable("bert_zoo")
class SpanF1(keras.metrics.Metric):
    """Precision, recall and F1 of the spans that tags mark, as `bert_zoo.metrics.span_report` counts them.

    The result is a dict of `precision`, `recall` and `f1`, from 0 to 1, over the spans of all batches. A span
    is correct if its first word, last word and type are right. Labels of -100 are left out, such as those of
    words' further pieces; weights are ignored.

    Args:
        labels: names of the tags in the order of their numbers: "O", and others such as "B-PER" and "I-PER";
            see `bert_zoo.data.tagging`.
    """

    def __init__(self, labels: Sequence[str], name: str = "spans", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.labels = tuple(labels)
        names = ("correct", "predicted", "support")
        self.correct, self.predicted, self.support = (
            self.add_variable((), "zeros", name=name, dtype="float32") for name in names
        )
        # The last tag is for labels that are left out.
        prefixes, types = zip(*(tag.partition("-")[::2] for tag in (*labels, OUTSIDE)), strict=True)
        self._are_inside = np.array([prefix != OUTSIDE for prefix in prefixes])
        self._continue = np.array([prefix in ("I", "E") for prefix in prefixes])
        self._are_open = np.array([prefix in ("B", "I") for prefix in prefixes])
        self._types = np.array([sorted({*types}).index(kind) for kind in types], "int32")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: integers [batch, length].
            y_pred: scores or logits [batch, length, classes].
            sample_weight: ignored.
        """
        labels = ops.cast(y_true, "int32")
        is_counted = ops.not_equal(labels, IGNORED_LABEL)
        length = ops.shape(labels)[1]
        place = ops.arange(length, dtype="int32")
        # Counted labels side by side, then the others.
        order = ops.argsort(ops.where(is_counted, place, place + length), axis=1)

        def tags(numbers):
            numbers = ops.where(is_counted, ops.cast(numbers, "int32"), len(self.labels))
            numbers = ops.take_along_axis(numbers, ops.cast(order, "int32"), axis=1)
            return ops.pad(numbers, [[0, 0], [1, 1]], constant_values=len(self.labels))

        expected, found = self._spans(tags(labels)), self._spans(tags(ops.argmax(y_pred, -1)))
        (begins, goes_on, is_inside, kind), (other_begins, other_goes_on, _, other_kind) = (
            expected,
            found,
        )
        begins_wrongly = begins & ~(other_begins & ops.equal(kind, other_kind))
        # Whether only one of both goes on in the next word; the last tag is outside of spans.
        ends_wrongly = is_inside & ops.roll(ops.not_equal(goes_on, other_goes_on), -1, axis=1)
        wrong, begins, other_begins = (
            ops.reshape(ops.cast(flags, "int32"), (-1,))
            for flags in (begins_wrongly | ends_wrongly, begins, other_begins)
        )
        number_of_span, most = ops.cumsum(begins), ops.shape(begins)[0] + 1
        wrong_words = ops.segment_sum(wrong, number_of_span, num_segments=most)
        support = ops.cast(ops.sum(begins), "float32")
        self.support.assign_add(support)
        self.correct.assign_add(support - ops.cast(ops.sum(ops.minimum(wrong_words, 1)), "float32"))
        self.predicted.assign_add(ops.cast(ops.sum(other_begins), "float32"))

    def _spans(self, tags):
        """Whether each tag but the first begins a span, goes on with one, and is in one; and its type."""
        is_inside, continues, is_open, kind = (
            ops.take(ops.convert_to_tensor(table), tags, axis=0)
            for table in (self._are_inside, self._continue, self._are_open, self._types)
        )
        goes_on = continues[:, 1:] & is_open[:, :-1] & ops.equal(kind[:, 1:], kind[:, :-1])
        return is_inside[:, 1:] & ~goes_on, goes_on, is_inside[:, 1:], kind[:, 1:]

    def result(self):
        return {
            "precision": self.correct / ops.maximum(self.predicted, 1.0),
            "recall": self.correct / ops.maximum(self.support, 1.0),
            "f1": 2 * self.correct / ops.maximum(self.predicted + self.support, 1.0),
        }

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


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
    are ignored. `activation` is "softmax" if labels are class numbers or one-hot rows, "sigmoid" if they are rows of 0
    and 1.
    """

    def __init__(self, metric, activation: str, name: str | None = None, dtype=None):
        if isinstance(metric, dict):
            metric = keras.saving.deserialize_keras_object(metric)
        config, kind = metric.get_config(), type(metric).__name__
        # A threshold of 0 is of logits: every probability is above it.
        is_of_logits = activation == "sigmoid" and config.get("threshold") == 0
        reads_logits = is_of_logits or kind in FROM_LOGITS[activation]
        if config.get("from_logits", reads_logits) != reads_logits:
            metric = type(metric).from_config({**config, "from_logits": reads_logits})
        super().__init__(name=name or metric.name, dtype=dtype)
        self.metric, self.activation = metric, activation
        self._reads_logits = reads_logits
        options = {config.get(option) for option in ("class_id", "top_k", "multi_label")}
        self._of_class_1 = kind in OF_ONE_CLASS and all(o is None or o is False for o in options)
        self._of_class_numbers = kind in OF_CLASS_NUMBERS

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds labels, int [batch, ...] or numbers [batch, ..., classes], and logits; weights are of rows or labels."""
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
