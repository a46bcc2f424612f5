"""Losses over the scores of documents, equal to sentence-transformers' losses.

They train rerankers, whose scores are logits, and models of vectors, whose scores are similarities of the query
with its documents. Scores are [batch, documents] for lists and [batch, 1] for pairs. Labels of unlabelled lists
are not read.
"""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from bert_zoo.fields import check
from bert_zoo.models.labels import LabelScores, finite_numbers
from bert_zoo.models.losses import BatchMean


class ListLoss(BatchMean, keras.losses.Loss):
    """A loss per row, averaged over the rows of the whole batch."""

    takes_labels: bool | None = True

    def labelled(self, y_true):
        return ops.ones((ops.shape(y_true)[0],), "float32")


@keras.saving.register_keras_serializable("bert_zoo")
class ListwiseSoftmax(ListLoss):
    """Cross-entropy of choosing the first document, which is the right one, among a query's documents.

    Logits are [batch, documents]. Labels are not read.
    Source: Gao et al. 2021 (arXiv:2101.08751), section 3; sentence-transformers' cross-encoder
    MultipleNegativesRankingLoss without documents of other rows and without activation.

    Args:
        scale: factor on the logits.

    Raises:
        ValueError: when called, if a query has only one document.
    """

    takes_labels = False
    settings = ("scale",)

    def __init__(self, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, y_true, y_pred):
        return -ops.log_softmax(self.scale * _listed(y_pred))[:, 0]


@keras.saving.register_keras_serializable("bert_zoo")
class MarginMSE(ListLoss):
    """Mean squared difference between a teacher's margins and the model's.

    A margin is the first document's score minus another document's. Logits are [batch, documents]. Labels are
    the teacher's scores, [batch, documents], or its margins, [batch, documents - 1]. Since the model's scores
    are logits, the teacher's should be logits too.
    Source: Hofstätter et al. 2020 (arXiv:2010.02666), section 4.1; sentence-transformers' cross-encoder
    MarginMSELoss.

    Raises:
        ValueError: when called, if a query has only one document.
    """

    def call(self, y_true, y_pred):
        if y_true.shape[-1] == y_pred.shape[-1]:
            y_true = _margins(y_true)
        return ops.mean(ops.square(_margins(_listed(y_pred)) - y_true), axis=-1)


@keras.saving.register_keras_serializable("bert_zoo")
class DistillKL(ListLoss):
    """Kullback-Leibler divergence of the model's distribution over a query's documents from a teacher's.

    A distribution is the softmax of scores / temperature, and the loss is multiplied by temperature ** 2, so that
    the gradient keeps its size. Logits are [batch, documents], labels the teacher's scores of the same shape.
    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2; sentence-transformers' DistillKLDivLoss.

    Args:
        temperature: divisor of the model's and the teacher's scores.

    Raises:
        ValueError: `temperature` is not positive; when called, if a query has only one document, or labels have
            another shape.
    """

    settings = ("temperature",)

    def __init__(self, temperature: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        check("temperature", temperature, float, above=0)
        self.temperature = temperature

    def call(self, y_true, y_pred):
        if y_true.shape[-1] != y_pred.shape[-1]:
            raise ValueError(
                f"DistillKL needs a teacher's score for each of the {y_pred.shape[-1]} documents of a query; the "
                f"labels have the shape {tuple(y_true.shape)}. For margins, compile with MarginMSE."
            )
        of_model = ops.log_softmax(_listed(y_pred) / self.temperature)
        of_teacher = ops.log_softmax(ops.cast(y_true, "float32") / self.temperature)
        divergence = ops.sum(ops.exp(of_teacher) * (of_teacher - of_model), axis=-1)
        return self.temperature**2 * divergence


@keras.saving.register_keras_serializable("bert_zoo")
class LossByShape(ListLoss):
    """Binary cross-entropy for pairs, `ListwiseSoftmax` for lists without labels, else `MarginMSE`."""

    takes_labels = None  # either

    def call(self, y_true, y_pred):
        if y_pred.shape[-1] == 1:
            y_true = ops.reshape(y_true, (-1, 1))
            return keras.losses.binary_crossentropy(y_true, y_pred, from_logits=True)
        loss = MarginMSE() if y_true.shape[-1] else ListwiseSoftmax()
        return loss.call(y_true, y_pred)


def _listed(logits):
    """Logits in float32, checked to be of lists."""
    if logits.shape[-1] == 1:
        raise ValueError(
            "This loss compares several documents of a query, and each query has only one. Pass lists: (queries, "
            "positives, negatives, ...). For pairs with labels, compile without a loss."
        )
    return ops.cast(logits, "float32")


def _margins(scores):
    return scores[:, :1] - scores[:, 1:]


def check_labels(loss, labels) -> None:
    """Raises ValueError if a loss over lists takes labels and there are none (None), or the other way round."""
    takes_labels = getattr(loss, "takes_labels", True)
    if labels is None and takes_labels:
        raise ValueError(
            f"The model is compiled with {loss!r}, which needs labels, but y is None. Pass a number for each "
            "document, or compile without a loss."
        )
    if labels is not None and takes_labels is False:
        raise ValueError(
            f"{type(loss).__name__} takes the first document as the right one and reads no labels. Leave y out. "
            "To learn from a teacher's scores, compile with MarginMSE or DistillKL."
        )


@dataclass(frozen=True, kw_only=True)
class ListScores(LabelScores):
    """Valid labels of lists: a number for each document, or for each but the first."""

    documents: int  # per query

    def numbers(self, labels: Any, title: str):
        """Finite numbers [batch, documents] or [batch, documents - 1]; [batch] for one margin per row."""
        labels = finite_numbers(labels, title)
        if len(labels.shape) == 1:
            labels = labels[:, None]
        if labels.shape[-1] not in (self.documents, self.documents - 1):
            raise ValueError(
                f"{title}s have the shape {tuple(labels.shape)}. For {self.documents} documents, a teacher's scores are "
                f"[batch, {self.documents}], and margins of the first over the others [batch, {self.documents - 1}]."
            )
        return labels
