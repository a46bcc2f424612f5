"""Losses for rerankers over pairs or lists of documents, equal to sentence-transformers' losses.

Logits are [batch, documents] for lists and [batch, 1] for pairs. Labels of unlabelled lists are [batch, 0].
"""

import keras
from keras import ops

from bert_zoo.models.losses import BatchMean


class RerankingLoss(BatchMean, keras.losses.Loss):
    """A loss per row, averaged over the rows of the whole batch."""

    def labelled(self, y_true):
        return ops.ones((ops.shape(y_true)[0],), "float32")


@keras.saving.register_keras_serializable("bert_zoo")
class ListwiseSoftmax(RerankingLoss):
    """Cross-entropy of choosing the first document, which is the right one, among a query's documents.

    Logits are [batch, documents]. Labels are not read.
    Source: Gao et al. 2021 (arXiv:2101.08751), section 3; sentence-transformers' cross-encoder
    MultipleNegativesRankingLoss without documents of other rows and without activation.

    Args:
        scale: factor on the logits.

    Raises:
        ValueError: when called, if a query has only one document.
    """

    def __init__(self, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, y_true, y_pred):
        return -ops.log_softmax(self.scale * _listed(y_pred))[:, 0]

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable("bert_zoo")
class MarginMSE(RerankingLoss):
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
class LossByShape(RerankingLoss):
    """Binary cross-entropy for pairs, `ListwiseSoftmax` for lists without labels, else `MarginMSE`."""

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
            "positives, negatives, ...). For pairs with labels, use the default loss, binary cross-entropy."
        )
    return ops.cast(logits, "float32")


def _margins(scores):
    return scores[:, :1] - scores[:, 1:]
