"""Losses that are the same on one and on many devices: averages over the labels of the whole batch.

Keras 3.15 averages on each replica and then over replicas. If replicas have different numbers of labels,
because tokens without a label are left out or the last rows do not divide, that is a different loss with a
different gradient.
"""

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.fields import check
from bert_zoo.layers.common import over_replicas
from bert_zoo.private import set_mask


def weights_of_labels(weights, labels):
    """Weights with as many axes as labels. A row's weight, [rows] or [rows, 1], belongs to all of its labels."""
    shape, of_labels = tuple(weights.shape), tuple(labels.shape)
    rank = len(of_labels)
    sizes = zip(shape, (*of_labels, *[1] * len(shape)), strict=False)
    # An axis of no labels is that of `bert_zoo.models.labels.no_labels`.
    if any(size not in (None, 1, wanted) for size, wanted in sizes if wanted):
        raise ValueError(
            f"sample_weight has the shape {shape}, and the labels {of_labels}. Pass one number per row, [rows] or "
            "[rows, 1], or one per label."
        )
    more = [1] * (rank - len(shape))
    if isinstance(weights, np.ndarray):
        return weights.reshape(*shape[:rank], *more)
    return ops.reshape(weights, (*ops.shape(weights)[:rank], *more))


class BatchMean:
    """Mixin for Keras losses with the reduction "mean": one mean over the labels of all replicas.

    Weights multiply the losses of their labels. A weight of 0 leaves labels out: they do not count in the
    mean. (Keras counts them, so that a batch with more of them has a lower loss.) It is not divided by the
    sum of the weights, with which the weights of batches of one row would change nothing.
    """

    # Whether it reads a teacher's outputs, which are not checked like labels and not measured by metrics of labels.
    reads_targets = False
    settings: tuple[str, ...] = ()  # attributes that are arguments of the class, for `get_config`

    def get_config(self):
        return super().get_config() | {name: getattr(self, name) for name in self.settings}

    def labelled(self, y_true):
        """1 for each label in the mean, 0 for others; float32 with the axes of the labels."""
        return ops.ones_like(y_true, dtype="float32")

    def __call__(self, y_true, y_pred, sample_weight=None):
        labelled = self.labelled(y_true)
        number = counted = ops.sum(labelled)
        if sample_weight is not None:
            sample_weight = weights_of_labels(sample_weight, labelled)
            counted = ops.sum(labelled * ops.cast(ops.not_equal(sample_weight, 0), "float32"))
        mean = super().__call__(y_true, y_pred, sample_weight)
        # Without labels, both the mean and its share are 0.
        share = ops.divide_no_nan(number, over_replicas(counted, "MEAN"))
        return mean * ops.cast(share, mean.dtype)


@keras.saving.register_keras_serializable("bert_zoo")
class Crossentropy(BatchMean, keras.losses.SparseCategoricalCrossentropy):
    """`keras.losses.SparseCategoricalCrossentropy` over the labels of the whole batch."""

    def labelled(self, y_true):
        if self.ignore_class is None:
            return super().labelled(y_true)
        return ops.cast(ops.not_equal(y_true, self.ignore_class), "float32")


def class_loss() -> Crossentropy:
    """Cross-entropy of logits, with one label per row."""
    return Crossentropy(from_logits=True)


def token_loss() -> Crossentropy:
    """Cross-entropy of logits over the positions whose label is not -100."""
    return Crossentropy(from_logits=True, ignore_class=IGNORED_LABEL)


@keras.saving.register_keras_serializable("bert_zoo")
class TokenCrossentropy(Crossentropy):
    """Cross-entropy over the positions whose label is not -100, optionally with T5's z-loss.

    Labels are integers [batch, ...], predictions logits [batch, ..., classes].

    Args:
        z_loss: factor of the squared logarithm of softmax's denominator, which keeps logits from
            drifting; T5 was trained with 1e-4. `evaluate` includes the term.
        **kwargs: as for `keras.losses.SparseCategoricalCrossentropy`.

    Raises:
        ValueError: `z_loss` is negative or infinite.

    Source: Mesh TensorFlow, mesh_tensorflow/layers.py, softmax_cross_entropy_with_logits.
    """

    settings = ("z_loss",)

    def __init__(self, z_loss: float = 0.0, **kwargs):
        super().__init__(**{"from_logits": True, "ignore_class": IGNORED_LABEL, **kwargs})
        check("z_loss", z_loss, float, least=0)
        self.z_loss = z_loss

    def call(self, y_true, y_pred):
        labels, logits = ops.cast(y_true, "int32"), ops.cast(y_pred, "float32")
        log_z = ops.logsumexp(logits, axis=-1)
        wanted = ops.take_along_axis(logits, ops.maximum(labels, 0)[..., None], axis=-1)[..., 0]
        values = log_z - wanted + self.z_loss * ops.square(log_z)
        # Keras takes the mean over the positions of the mask.
        set_mask(values, ops.not_equal(labels, self.ignore_class))
        return values


@keras.saving.register_keras_serializable("bert_zoo")
class BinaryCrossentropy(BatchMean, keras.losses.BinaryCrossentropy):
    """`keras.losses.BinaryCrossentropy` over the rows and labels of the whole batch."""

    def labelled(self, y_true):
        # A row's loss is the mean over its classes.
        return super().labelled(y_true[:, :1] if len(y_true.shape) > 1 else y_true)


@keras.saving.register_keras_serializable("bert_zoo")
class ReplacedTokenLoss(BatchMean, keras.losses.Loss):
    """Binary cross-entropy of logits over the tokens whose label is 0 or 1 and not -100.

    Source: google-research/electra run_pretraining.py, _get_discriminator_output.
    """

    def labelled(self, y_true):
        return ops.cast(ops.not_equal(y_true, IGNORED_LABEL), "float32")

    def call(self, y_true, y_pred):
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.cast(y_pred, "float32")
        values = ops.softplus(y_pred) - y_pred * ops.cast(y_true, "float32")
        set_mask(values, ops.not_equal(y_true, IGNORED_LABEL))
        return values


@keras.saving.register_keras_serializable("bert_zoo")
class SquaredError(BatchMean, keras.losses.MeanSquaredError):
    """`keras.losses.MeanSquaredError` over the rows of the whole batch."""
