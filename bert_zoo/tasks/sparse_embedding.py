"""Sparse embedding: a weight for each token of the vocabulary per text (SPLADE), or for each unit of an autoencoder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import DOCUMENT, QUERY, SparsePooling
from bert_zoo.fields import check
from bert_zoo.layers.sparse import (
    SparseAutoencoder,
    TokenWeights,
    WeightOfEachToken,
    largest_by_id,
    sparse_vectors,
)
from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import with_prompt
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.inputs import real_tokens, tokens_of
from bert_zoo.models.labels import HeadChoice
from bert_zoo.models.long_texts import warning_of_cut_texts, with_callback
from bert_zoo.models.task_model import Use
from bert_zoo.runtime.sparse import SparseTerms, explained, sparse_vectors_of
from bert_zoo.tasks.embedding_losses import Comparison
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.objectives.table import PREDICTIONS
from bert_zoo.tasks.sparse_losses import CSRLoss, SparseLoss, Splade
from bert_zoo.tasks.vectors import VectorModel
from bert_zoo.text.batches import strings
from bert_zoo.weights.table import AUTOENCODER, AUTOENCODER_HEAD, QUERY_WEIGHTS, WEIGHT_HEAD

if TYPE_CHECKING:
    from scipy.sparse import csr_array

log = logging.getLogger("bert_zoo")

# Name of the head for masked tokens.
HEAD = "masked_lm"
# Factors of `Splade` for documents and queries where the user names no loss; those of sentence-transformers' examples.
DEFAULT_WEIGHTS = (3e-5, 5e-5)


@keras.saving.register_keras_serializable("bert_zoo")
class SparseEmbedder(VectorModel, ObjectiveModel):
    """Turns texts into sparse vectors, with a weight for each token of the vocabulary that suits the text (SPLADE).

    Returns vectors float32 [batch, vocabulary], never negative. Called with a tuple of input dicts, one for each
    column of texts, it returns [batch, columns, vocabulary], which the losses read.

    With an autoencoder (CSR), vectors are [batch, units], made of sentence vectors. A tuple of input dicts gives these
    sentence vectors, [batch, columns, size], since `CSRLoss` compares them with what the autoencoder makes of them.

    Args:
        encoder: as in `TaskModel`.
        sparse_pooling: how the logits of a text's tokens become its vector; a `SparsePooling`, or a dict of its fields.

    Attributes:
        query_weights: the layer with the weights of queries' tokens, if `sparse_pooling.static_queries`; else None.
        autoencoder: the `bert_zoo.layers.sparse.SparseAutoencoder`, if `sparse_pooling.autoencoder`; else None.

    Source: Formal et al. 2021 (arXiv:2109.10086); without an encoder for queries: Geng et al. 2024 (arXiv:2411.04403).
    """

    task = "sparse_embedding"
    verbs = ("embed", "explain")
    use = Use(
        "feature-extraction",
        "turns texts into sparse vectors, whose dot product shows how well a document answers a query",
        "model.embed({texts})",
    )
    takes_sparse_pooling = True
    outputs_per_token = False
    positions_read = MappingProxyType({})
    default_loss_weights = None
    similarity = "dot"
    runtime_verb = "embed_sparse"
    if_untrained = (
        "was not trained for sparse vectors: they are not sparse, and their products mean little"
    )
    interface = Interface(("embedding",))

    def __init__(
        self,
        encoder,
        sparse_pooling: SparsePooling | Mapping[str, Any] = SparsePooling(),  # noqa: B008 (frozen)
        **kwargs,
    ):
        if isinstance(sparse_pooling, Mapping):
            sparse_pooling = SparsePooling(**sparse_pooling)
        self.sparse_pooling = sparse_pooling
        self._has_said_role = False
        self._step = None
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        arguments = super().head_arguments(head)
        return arguments | {"sparse_pooling": head.sparse_pooling or SparsePooling()}

    @property
    def family(self):
        family, made = super().family, self.sparse_pooling
        if made.autoencoder is not None:
            return family.with_head(self.task, AUTOENCODER_HEAD)
        return family.with_head(self.task, WEIGHT_HEAD) if made.of_tokens else family

    @property
    def objectives(self):
        made = self.sparse_pooling
        return {} if made.of_tokens or made.autoencoder else {HEAD: PREDICTIONS[HEAD]}

    @property
    def reads_first_only(self) -> bool:
        return self.autoencoder is not None and self.encoder.pooling.reads_first_only

    def add_head(self, config):
        super().add_head(config)
        self.autoencoder = None
        if self.sparse_pooling.autoencoder is not None:
            settings = self.sparse_pooling.autoencoder.of_vectors(self.encoder.vector_size)
            self.sparse_pooling = replace(self.sparse_pooling, autoencoder=settings)
            self.autoencoder = SparseAutoencoder(settings, name=AUTOENCODER)
        self.token_weights = None
        if self.sparse_pooling.of_tokens:
            self.token_weights = WeightOfEachToken(
                self.sparse_pooling.skipped_ids, dtype=self.dtype_policy, name="token_weights"
            )
        self.query_dims, self.document_dims = map(
            keras.metrics.Mean, ("query_dims", "document_dims")
        )
        self.query_weights = None
        if self.sparse_pooling.static_queries:
            self.query_weights = TokenWeights(config.vocab_size, name=QUERY_WEIGHTS)

    def build(self, input_shape):
        super().build(input_shape)
        if self.autoencoder is not None:
            self.autoencoder.build((None, self.encoder.vector_size))
        if self.query_weights is not None:
            self.query_weights.build()
        if self.token_weights is not None:
            self.token_weights.build((None, None, self.width_read))

    @property
    def reads_roles(self) -> bool:
        return self.sparse_pooling.static_queries

    def read_column(self, role: str, rows, training=None):
        if role == QUERY and self.query_weights is not None:
            return self.query_weights(rows["token_ids"], real_tokens(rows))
        if self.autoencoder is not None:
            positions = self.positions_of(rows)
            encoded = self.encoder.unmasked(rows, positions=positions, training=training)
            return self.encoder.sentence_vectors(encoded["sequence_output"], rows)
        return super().read_column(role, rows, training)

    def sparse(self, columns):
        """The sparse vectors of columns as a call returns them."""
        return columns if self.autoencoder is None else self.autoencoder(columns)

    def reader_of_role(self, role: str, preprocessor):
        if role == DOCUMENT or self.query_weights is None:
            return preprocessor
        # Special tokens are no words of the text.
        layout = replace(preprocessor.packer.layout, single="A", pair="")
        return preprocessor.with_options(layout=layout)

    def head_outputs(self, encoded, inputs, training=None):
        if self.autoencoder is not None:
            states = encoded["sequence_output"]
            return self.autoencoder(self.encoder.sentence_vectors(states, inputs))
        if self.token_weights is not None:
            ids = tokens_of(inputs)
            weights = self.token_weights(encoded["sequence_output"], ids, real_tokens(inputs))
            return largest_by_id(weights, ids, self.encoder.config.vocab_size)
        head = self.masked_lm
        states, table, *_ = PREDICTIONS[HEAD].read(head, self, encoded, inputs)
        return sparse_vectors(
            *(head, states, table, real_tokens(inputs), self.sparse_pooling),
            sparse_gradient=bool(training) and not self.has_static_shapes,
        )

    def get_config(self):
        return {**super().get_config(), "sparse_pooling": asdict(self.sparse_pooling)}

    # --- Training ---

    def loss_for(self, columns: int, labels):
        loss = super().loss_for(columns, labels)
        if columns == 1:
            return loss
        if self.autoencoder is not None:
            log.info("The autoencoder learns by CSRLoss(loss).")
            return CSRLoss(loss)
        log.info("The vectors are made sparse by Splade(loss, %g, %g).", *DEFAULT_WEIGHTS)
        return Splade(loss, *DEFAULT_WEIGHTS)

    @property
    def loss_in_use(self):
        loss = super().loss_in_use
        return loss.loss if isinstance(loss, SparseLoss) else loss

    @property
    def sparse_loss(self) -> SparseLoss | None:
        """The loss around the one in use, if there is one."""
        loss = super().loss_in_use
        return loss if isinstance(loss, SparseLoss) else None

    def fit(self, x=None, y=None, *args, **kwargs):
        """As for sentence vectors, with losses of dot products; default losses stand in `Splade`, or `CSRLoss`.

        Besides the loss it reports how many weights the vectors of queries and documents have, `query_dims` and
        `document_dims`.
        """
        begin = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: self._begin_schedule(begin.params)
        )
        kwargs["callbacks"] = with_callback(kwargs.get("callbacks"), begin)
        if self.compiled and getattr(self.sparse_loss, "warmup_steps", 0) is None:
            self.train_function = None  # which holds the length of the last training
        return super().fit(x, y, *args, **kwargs)

    def _begin_schedule(self, training: Mapping[str, Any]) -> None:
        splade = self.sparse_loss
        if not isinstance(splade, Splade) or splade.warmup_steps is not None:
            return
        if not training.get("steps"):
            raise ValueError(
                "The number of steps is unknown, of which a third is the default for Splade's warmup_steps. Pass "
                "warmup_steps to Splade, or steps_per_epoch to fit()."
            )
        splade.default_warmup = max(training["steps"] * training["epochs"] // 3, 1)

    def read_by_loss(self, vectors):
        loss = self.sparse_loss
        if loss is not None:
            loss.comparison = Comparison(self.ranked_by, self.has_static_shapes)
        if isinstance(loss, CSRLoss):
            loss.autoencoder = self.autoencoder
        elif len(vectors.shape) > 2:
            vectors = self.sparse(vectors)
        return super().read_by_loss(vectors) if loss is None else vectors

    def train_step(self, *arguments):
        if keras.backend.backend() == "jax":
            # Keras passes the optimizer's variables along; the first one counts steps.
            (_, _, (self._step, *_), _), _ = arguments
        return super().train_step(*arguments)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self.sparse_loss is not None:
            on_jax = keras.backend.backend() == "jax"
            step = self._step if on_jax else self.optimizer.iterations
            self.sparse_loss.step = step if training else None
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        vectors = self.sparse(y_pred) if len(y_pred.shape) > 2 else y_pred
        active = ops.sum(ops.cast(ops.greater(vectors, 0), "float32"), axis=-1)
        if len(active.shape) > 1:
            self.query_dims.update_state(active[:, 0])
            active = active[:, 1:]
        self.document_dims.update_state(active)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    # --- Use ---

    def embed(
        self,
        texts,
        batch_size: int = 32,
        prompt: str | None = None,
        max_active_dims: int | None = None,
        role: str | None = None,
    ) -> csr_array:
        """Computes sparse vectors.

        Args:
            texts, batch_size, prompt: as for `Encoder.embed`.
            max_active_dims: how many of a vector's largest weights to keep; by default as the model says, else all.
            role: "query" for texts that search, "document" for texts to be found. It chooses the model's prompt for
                them, in place of `prompt`, and for a model with static queries what makes the vector; the default
                is then "document".

        Returns:
            `scipy.sparse.csr_array`, float32 [texts, vocabulary] or [texts, units], with sorted indices and without
            stored zeros.

        Raises:
            ValueError: there are a prompt and a role, or one that does not exist.
            ImportError: SciPy is not installed.
        """
        check("max_active_dims", max_active_dims, int | None, least=1)
        before = self.encoder.prompts.text(prompt, role)
        if role is None and self.reads_roles and not self._has_said_role:
            self._has_said_role = True
            log.info(
                "The model reads queries and documents differently. Texts are read as documents; pass role='query' "
                "for queries. (Shown once.)"
            )
        role, most = role or DOCUMENT, max_active_dims or self.sparse_pooling.max_active_dims

        def vectors_of(some: list[str]) -> np.ndarray:
            some = with_prompt(before, np.array(some, object))
            return outputs_of_texts(self, _of_role, some, batch_size, role=role, of_role=role)

        texts = strings(texts)
        with warning_of_cut_texts(self, texts):
            return sparse_vectors_of(texts, vectors_of, batch_size, most)

    def explain(self, text: str, second: str | None = None, top_k: int | None = 20) -> SparseTerms:
        """Lists the tokens of a text's vector with their weights.

        With a second text, a document, the first one is a query, and the tokens are those that both have; the
        products of their weights add up to the score.

        Args:
            text: a text.
            second: a document to explain the score of.
            top_k: number of tokens; None for all.

        Returns:
            A list of `SparseTerm(token, weight, of_each)`, largest weight first, that prints as a table. Tokens are
            written as in the vocabulary ("##ing"), and units of an autoencoder by their numbers ("#17").

        Raises:
            TypeError: a text is not a string.
        """
        for each in (text, second):
            if not isinstance(each, str | None):
                raise TypeError(
                    f"explain takes single texts; got {each!r} ({type(each).__name__})."
                )
        asked = [(text, None)] if second is None else [(text, QUERY), (second, DOCUMENT)]
        rows = [self.embed([each], role=role) for each, role in asked]
        names = self._names(self.preprocessor, rows[0].shape[1])
        return explained(rows, names.__getitem__, top_k)

    def _names(self, preprocessor, size: int) -> list[str]:
        """What the numbers of a vector belong to: tokens, or units by their numbers."""
        if self.autoencoder is not None:
            return [f"#{unit}" for unit in range(size)]
        vocabulary = [*preprocessor.tokenizer.vocabulary]
        # The token table may be larger than the vocabulary.
        return vocabulary + [""] * (size - len(vocabulary))

    def scores_of_pairs(self, queries, documents):
        return np.asarray(queries.multiply(documents).sum(axis=1))

    def portable_verb(self):
        table = self.query_weights
        return super().portable_verb() | {
            "max_active_dims": self.sparse_pooling.max_active_dims,
            "query_weights": [] if table is None else np.asarray(table.weight, float).tolist(),
        }

    def served_of_texts(self, texts, run, preprocessor):
        return self._entries(super().served_of_texts(texts, run, preprocessor), preprocessor)

    def served_of_role(self, role: str, texts, run, preprocessor):
        texts = with_prompt(self.encoder.prompts.text(role=role), texts)
        vectors = self.read_column(role, self.column_inputs(role, texts, preprocessor))
        return self._entries({"embedding": vectors}, preprocessor)

    def _entries(self, outputs, preprocessor):
        """The entries of vectors and not the zeros: `indices` and `values` [batch, active], largest value first, and
        `tokens` (or names of units); the value 0 and the token "" fill the rows of texts with fewer entries than others."""
        import tensorflow as tf

        vectors = outputs["embedding"]
        active = tf.reduce_max(tf.math.count_nonzero(vectors, axis=1, dtype=tf.int32))
        most = self.sparse_pooling.max_active_dims or vectors.shape[1]
        values, indices = tf.math.top_k(vectors, tf.clip_by_value(active, 1, most))
        names = tf.constant(self._names(preprocessor, vectors.shape[1]))
        tokens = tf.where(values > 0, tf.gather(names, indices), "")
        return {"indices": indices, "values": values, "tokens": tokens}


def _of_role(model, inputs, *, of_role: str):
    if model.reads_roles:
        return model.read_column(of_role, inputs)
    return model(inputs, training=False)
