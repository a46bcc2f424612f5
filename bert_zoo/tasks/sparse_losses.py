"""Losses that make vectors sparse, equal to sentence-transformers' SpladeLoss and CSRLoss."""

import keras
from keras import ops

from bert_zoo.fields import check
from bert_zoo.tasks.embedding_losses import EmbeddingLoss, LossAround, PairSoftmax, scores_of_rows
from bert_zoo.tasks.list_losses import ListLoss


class SparseLoss(LossAround):
    """What sparse vectors add to another loss, over vectors [batch, columns, size], queries first, or over scores.

    Labels are the other loss's. `step` is the number of steps done, which the model sets; None in an evaluation.
    """

    def __init__(self, loss: keras.losses.Loss, **kwargs):
        super().__init__(loss, **kwargs)
        is_known = isinstance(loss, EmbeddingLoss | ListLoss)
        if not is_known or isinstance(loss, PairSoftmax | SparseLoss):
            raise ValueError(
                f"{type(self).__name__} needs a loss over vectors or over scores of documents; got {loss!r}. Pass, for "
                "example, bert_zoo.embeddings.MultipleNegativesRanking()."
            )
        self.step = None

    def labelled(self, y_true):
        return self.loss.labelled(y_true)

    def of_vectors(self, y_true, vectors):
        """The other loss of sparse vectors."""
        if isinstance(self.loss, ListLoss):
            return self.loss.call(y_true, scores_of_rows(vectors, self.comparison))
        self.loss.comparison = self.comparison
        return self.loss.call(y_true, vectors)


@keras.saving.register_keras_serializable("bert_zoo")
class CSRLoss(SparseLoss):
    """Another loss of the sparse vectors of an autoencoder, and how badly these make sentence vectors again.

    The loss is gamma * loss + error of the `k` largest units + error of 4 `k` units / 8 + beta * error of dead units;
    see `bert_zoo.layers.sparse.SparseAutoencoder.reconstructed`. Columns are taken one after the other.
    Sources: Wen et al. 2025 (arXiv:2503.01776), section 3; sentence-transformers' CSRLoss.

    Args:
        loss: a loss over vectors, such as `MultipleNegativesRanking`, or over scores, such as `MarginMSE`.
        beta: factor of the dead units' error.
        gamma: factor of the other loss.

    Raises:
        ValueError: a number is negative, or `loss` is of another kind; when called, the model has no autoencoder.
    """

    settings = ("beta", "gamma")

    def __init__(self, loss: keras.losses.Loss, beta: float = 0.1, gamma: float = 1.0, **kwargs):
        super().__init__(loss, **kwargs)
        check("beta", beta, float, least=0)
        check("gamma", gamma, float, least=0)
        self.beta, self.gamma, self.autoencoder = beta, gamma, None

    def call(self, y_true, y_pred):
        if self.autoencoder is None:
            raise ValueError("This model has no autoencoder; compile with another loss.")
        reconstructed, training = self.autoencoder.reconstructed, self.step is not None
        found = [reconstructed(y_pred[:, i], training) for i in range(y_pred.shape[1])]
        vectors, *errors = zip(*found, strict=True)
        kept, more, dead = (sum(error) / len(found) for error in errors)
        loss = self.of_vectors(y_true, ops.stack(vectors, axis=1))
        return self.gamma * loss + kept + more / 8 + self.beta * dead


@keras.saving.register_keras_serializable("bert_zoo")
class Splade(SparseLoss):
    """Another loss, and a penalty on weights that many texts have: sum over tokens of (mean weight in the batch)^2.

    The penalty is how many products a search takes for each pair of texts ("FLOPS"). Its factors grow with the
    square of the step, until `warmup_steps`: at full size from the start, they would make all weights 0.
    Sources: Paria et al. 2020 (arXiv:2004.05665), section 3; Formal et al. 2021 (arXiv:2107.05720), section 3.2;
    sentence-transformers' SpladeLoss and its callback; the threshold: Shen et al. 2025 (arXiv:2504.14839).

    Args:
        loss: a loss over vectors, such as `MultipleNegativesRanking`, or over scores, such as `MarginMSE`. Suitable
            factors depend on it and on the size of the batch.
        document_weight: factor of the penalty on the documents, all columns but the first taken together.
        query_weight: factor of the penalty on the queries; None for no penalty.
        document_only: whether all columns are documents, for texts that have no roles.
        threshold: vectors with at most so many weights count as zeros in the penalty; None for no threshold.
        warmup_steps: number of steps in which the factors grow; by default a third of the steps of `fit`.

    Raises:
        ValueError: a number is outside its range, or `loss` is of another kind, or there is a `query_weight` with
            `document_only`.
    """

    settings = ("document_weight", "query_weight", "document_only", "threshold", "warmup_steps")

    def __init__(
        self,
        loss: keras.losses.Loss,
        document_weight: float,
        query_weight: float | None = None,
        document_only: bool = False,
        threshold: int | None = None,
        warmup_steps: int | None = None,
        **kwargs,
    ):
        super().__init__(loss, **kwargs)
        check("document_weight", document_weight, float, least=0)
        check("query_weight", query_weight, float | None, least=0)
        check("threshold", threshold, int | None, least=0)
        check("warmup_steps", warmup_steps, int | None, least=1)
        if document_only and query_weight is not None:
            raise ValueError(
                f"query_weight is {query_weight}, but with document_only all texts are documents. Leave one out."
            )
        self.threshold, self.warmup_steps = threshold, warmup_steps
        self.document_weight, self.query_weight = document_weight, query_weight
        self.document_only = document_only
        # The default for `warmup_steps`, which the model sets. Without a step, the factors have their full size.
        self.default_warmup = None

    def call(self, y_true, y_pred):
        documents = y_pred if self.document_only else y_pred[:, 1:]
        documents = ops.reshape(documents, (-1, y_pred.shape[-1]))
        penalty = self.document_weight * self._flops(documents)
        if self.query_weight is not None:
            penalty = penalty + self.query_weight * self._flops(y_pred[:, 0])
        return self.of_vectors(y_true, y_pred) + self.growth() * penalty

    def growth(self):
        """The share of the factors that has been reached, from 0 to 1."""
        warmup = self.warmup_steps or self.default_warmup
        if self.step is None or warmup is None:
            return 1.0
        return ops.square(ops.minimum(ops.cast(self.step, "float32") / warmup, 1.0))

    def _flops(self, vectors):
        if self.threshold is not None:
            active = ops.sum(ops.cast(ops.not_equal(vectors, 0), "int32"), axis=1, keepdims=True)
            vectors = ops.where(active > self.threshold, vectors, 0.0)
        return ops.sum(ops.square(ops.mean(vectors, axis=0)))
