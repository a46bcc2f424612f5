"""Hybrid embedding (BGE-M3): a dense, a sparse and token vectors of a text from one pass."""

from dataclasses import asdict
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import SparsePooling, TokenVectors
from bert_zoo.fields import check
from bert_zoo.layers.sparse import WeightOfEachToken, largest_by_id
from bert_zoo.models.base import Interface
from bert_zoo.models.inputs import real_tokens, tokens_of
from bert_zoo.models.labels import HeadChoice
from bert_zoo.models.task_model import Use
from bert_zoo.runtime.answers import HybridVectors
from bert_zoo.runtime.sparse import HYBRID_OUTPUTS, hybrid_vectors
from bert_zoo.tasks.embedding_losses import (
    Comparison,
    EmbeddingLoss,
    ranking_losses,
    scores_of_all,
    scores_of_rows,
    without_equals,
)
from bert_zoo.tasks.late_interaction import MASK, SCORED, VECTORS, LateInteraction
from bert_zoo.tasks.list_losses import ListLoss
from bert_zoo.tasks.vectors import VectorModel
from bert_zoo.text.batches import strings
from bert_zoo.weights.formats.hybrid_directories import SPARSE, TOKENS
from bert_zoo.weights.table import hybrid_head

VECTOR, WEIGHTS, IDS = HYBRID_OUTPUTS[:3]
# Of the dense, sparse and token scores: their factors in the sum that is trained besides them, and those of their losses.
IN_SUM, OF_LOSSES = (1.0, 0.3, 1.0), (1.0, 0.1, 1.0)


@keras.saving.register_keras_serializable("bert_zoo")
class HybridRanking(EmbeddingLoss):
    """`MultipleNegativesRanking` over the dense, sparse and token scores of a hybrid model, and over their sum.

    The loss is (dense + 0.1 * sparse + tokens + sum) / 4, where the sum is dense + 0.3 * sparse + tokens. A hybrid
    model's default for `fit((queries, documents))`.
    Source: Chen et al. 2024 (arXiv:2402.03216), section 3.2, with the factors of FlagEmbedding's program.

    Args:
        scale: factor on the scores, 1 / temperature; by default that of FlagEmbedding.
        distill: whether each score also learns from the sum's distribution over the candidates (self-knowledge
            distillation).
    """

    in_batch_negatives = True
    settings = ("scale", "distill")

    def __init__(self, scale: float = 50.0, distill: bool = False, **kwargs):
        super().__init__(**kwargs)
        check("scale", scale, float, above=0)
        self.scale, self.distill = scale, distill

    def call(self, y_true, y_pred):
        """Losses [batch] of scores `y_pred` [batch, batch * (columns - 1), 3]."""
        scores = [self.scale * y_pred[..., i] for i in range(3)]
        total = sum(factor * one for factor, one in zip(IN_SUM, scores, strict=True))
        losses = [ranking_losses(y_true, one) for one in scores]
        loss = (_weighted(losses) + ranking_losses(y_true, total)) / 4
        if not self.distill:
            return loss
        teacher = ops.softmax(ops.stop_gradient(without_equals(y_true, total)))
        logits = [without_equals(y_true, one) for one in scores]
        of_teacher = [-ops.sum(teacher * ops.log_softmax(one), axis=-1) for one in logits]
        return (loss + _weighted(of_teacher) / 3) / 2


def _weighted(losses):
    return sum(factor * loss for factor, loss in zip(OF_LOSSES, losses, strict=True))


@keras.saving.register_keras_serializable("bert_zoo")
class HybridEmbedder(LateInteraction):
    """Turns a text into a dense vector, weights of its tokens and a vector of each token, in one pass (BGE-M3).

    Returns a dict: `embedding` [batch, size]; `token_weights` float32 [batch, length], never negative, and
    `weighted_ids` int32 [batch, length], from which a text's sparse vector has the largest weight of each id; `vectors`
    and `vector_mask` as `LateInteraction`, whose inputs it takes.

    Called with a tuple of input dicts, one for each column of texts, it returns one tensor [batch, columns, 1 + length,
    width], which `read_by_loss` takes apart.

    Source: Chen et al. 2024 (arXiv:2402.03216), section 3.2; FlagEmbedding's EncoderOnlyEmbedderM3Model.

    Args:
        encoder, token_vectors: as in `LateInteraction`.
        sparse_pooling: which tokens have no weight, a `bert_zoo.config.SparsePooling` with `of_tokens`, or a dict of its
            fields.
    """

    task = "hybrid_embedding"
    use = Use(
        "sentence-similarity",
        "turns texts into dense, sparse and token vectors at once, by which documents are found that answer a query",
        "model.embed({texts})",
    )
    interface = Interface(HYBRID_OUTPUTS, row_outputs=(VECTOR,), pairs=False, marks=(SCORED,))
    traced_settings = ("token_vectors", "sparse_pooling")
    token_head = staticmethod(hybrid_head)
    similarity = "hybrid"
    runtime_verb = "embed_hybrid"

    def __init__(
        self,
        encoder,
        token_vectors: TokenVectors | dict[str, Any] = TOKENS,
        sparse_pooling: SparsePooling | dict[str, Any] = SPARSE,
        **kwargs,
    ):
        if isinstance(sparse_pooling, dict):
            sparse_pooling = SparsePooling(**sparse_pooling)
        self.sparse_pooling = sparse_pooling
        super().__init__(encoder, token_vectors, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        arguments = super().head_arguments(head)
        sparse = head.sparse_pooling
        return arguments | {
            "token_vectors": head.token_vectors or TOKENS,
            "sparse_pooling": sparse if sparse is not None and sparse.of_tokens else SPARSE,
        }

    def add_head(self, config):
        super().add_head(config)
        self.token_weights = WeightOfEachToken(
            self.sparse_pooling.skipped_ids, dtype=self.dtype_policy, name=WEIGHTS
        )

    def head_outputs(self, encoded, inputs, training=None):
        states, ids = encoded["sequence_output"], tokens_of(inputs)
        return {
            VECTOR: self.encoder.sentence_vectors(states, inputs),
            WEIGHTS: self.token_weights(states, ids, real_tokens(inputs)),
            IDS: ops.cast(ids, "int32"),
            **super().head_outputs(encoded, inputs, training),
        }

    # --- Training ---

    def read_column(self, role, rows, training=None):
        """[rows, 1 + length, width]: the dense vector, then of each token its vector, weight, id and mask."""
        outputs = VectorModel.read_column(self, role, rows, training)
        dense, vectors = (ops.cast(outputs[name], "float32") for name in (VECTOR, VECTORS))
        width = max(dense.shape[-1], vectors.shape[-1])
        of_tokens = (outputs[name] for name in (WEIGHTS, IDS, MASK))
        tokens = [
            ops.pad(vectors, [[0, 0], [0, 0], [0, width - vectors.shape[-1]]]),
            # float32 holds the ids of vocabularies of up to 2^24 tokens exactly.
            *(ops.cast(value, "float32")[..., None] for value in of_tokens),
        ]
        first = ops.pad(dense, [[0, 0], [0, width + 3 - dense.shape[-1]]])
        return ops.concatenate([first[:, None], ops.concatenate(tokens, axis=-1)], axis=1)

    def loss_for(self, columns: int, labels):
        return (
            HybridRanking() if columns > 1 and labels is None else super().loss_for(columns, labels)
        )

    def read_by_loss(self, vectors):
        """The three scores, [batch, batch * (columns - 1), 3], or their mean for losses of each row's documents."""
        loss = self.loss_in_use
        if isinstance(loss, HybridRanking):
            return ops.stack([scores_of_all(*kind) for kind in self._kinds(vectors)], axis=-1)
        if isinstance(loss, ListLoss):
            return sum(scores_of_rows(*kind) for kind in self._kinds(vectors)) / 3
        raise ValueError(
            f"{type(loss).__name__} compares texts by one kind of vectors, but the model has three. Compile with "
            "HybridRanking, ListwiseSoftmax, MarginMSE or DistillKL."
        )

    def _kinds(self, columns):
        """Dense, sparse and token vectors [batch, columns, ...] and how each is compared."""
        dense, vectors = columns[..., 0, :-3], columns[..., 1:, :-3]
        weights, ids, mask = (columns[..., 1:, i] for i in (-3, -2, -1))
        sparse = largest_by_id(weights, ids, self.encoder.config.vocab_size)
        # MaxSim of queries divided by the number of their vectors is the mean over these.
        lengths = ops.maximum(ops.sum(mask[:, :1], axis=-1), 1.0)[..., None, None]
        vectors = ops.concatenate([vectors[:, :1] / lengths, vectors[:, 1:]], axis=1)
        tokens = ops.concatenate([vectors, mask[..., None]], axis=-1)
        product, match = (Comparison(how, self.has_static_shapes) for how in ("dot", "maxsim"))
        return [(dense, product), (sparse, product), (tokens, match)]

    # --- Use ---

    def embed(
        self, texts, batch_size: int = 32, prompt: str | None = None, role: str | None = None
    ) -> HybridVectors:
        """Computes vectors of all three kinds; arguments are as for `LateInteraction`.

        Returns:
            `HybridVectors` with `dense` float32 [texts, size], `sparse`, SciPy's CSR array float32 [texts, vocabulary],
            and `tokens`, of each text float32 [tokens, size]. `bert_zoo.similarity` and
            `bert_zoo.embeddings.search` compare all three or one of them.

        Raises:
            ImportError: SciPy is not installed.
        """
        texts = strings(texts)
        rows = self.token_outputs(texts or [""], batch_size, prompt, role)
        return hybrid_vectors(rows, self.encoder.config.vocab_size)[: len(texts)]

    def scores_of_pairs(self, queries, documents):
        """Means of the three scores."""
        dense = np.einsum("ij,ij->i", queries.dense, documents.dense)
        sparse = np.asarray(queries.sparse.multiply(documents.sparse).sum(axis=1))
        tokens = super().scores_of_pairs(queries.tokens, documents.tokens)
        numbers = np.float32([max(len(query), 1) for query in queries.tokens])
        return (dense + sparse + tokens / numbers) / 3

    def get_config(self):
        return {**super().get_config(), "sparse_pooling": asdict(self.sparse_pooling)}
