"""Losses of rerankers: of pairs, and of lists of documents for a query, as sentence-transformers has them.

Logits are [batch, documents], of pairs [batch, 1]. Lists without labels have labels of [batch, 0].
"""

import keras
from keras import ops

from bert_zoo.models.losses import BatchMean


class RerankingLoss(BatchMean, keras.losses.Loss):
    """A loss a row, averaged over the rows of the whole batch."""

    def num_labels(self, y_true):
        return ops.cast(ops.shape(y_true)[0], "float32")


@keras.saving.register_keras_serializable("bert_zoo")
class ListwiseSoftmax(RerankingLoss):
    """Cross-entropy over the documents of a query, of which the first is the right one.

    Source: Gao et al. 2021 (arXiv:2101.08751), section 3; sentence-transformers'
    MultipleNegativesRankingLoss of cross-encoders with the documents of the row alone and no activation.

    Args:
        scale: what logits are multiplied by.
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
    """Mean squared difference of a teacher's margins and the model's.

    A margin is the first document's score less another one's. Labels are a teacher's scores, [batch,
    documents], or its margins, [batch, documents - 1]. They are compared with logits: a teacher's scores
    are best logits too.
    Source: Hofstätter et al. 2020 (arXiv:2010.02666), section 4.1; sentence-transformers' MarginMSELoss of
    cross-encoders.
    """

    def call(self, y_true, y_pred):
        if y_true.shape[-1] == y_pred.shape[-1]:
            y_true = _margins(y_true)
        return ops.mean(ops.square(_margins(_listed(y_pred)) - y_true), axis=-1)


@keras.saving.register_keras_serializable("bert_zoo")
class LossByShape(RerankingLoss):
    """Binary cross-entropy of pairs, `ListwiseSoftmax` of lists without labels, else `MarginMSE`."""

    def call(self, y_true, y_pred):
        if y_pred.shape[-1] == 1:
            y_true = ops.reshape(y_true, (-1, 1))
            return keras.losses.binary_crossentropy(y_true, y_pred, from_logits=True)
        loss = MarginMSE() if y_true.shape[-1] else ListwiseSoftmax()
        return loss.call(y_true, y_pred)


def _listed(logits):
    """Logits of lists, in float32."""
    if logits.shape[-1] == 1:
        raise ValueError(
            "This loss compares the documents of a query, and there is one for each. Pass lists, (queries, "
            "positives, negatives, ...); of pairs with labels, the loss is by default binary cross-entropy."
        )
    return ops.cast(logits, "float32")


def _margins(scores):
    return scores[:, :1] - scores[:, 1:]
