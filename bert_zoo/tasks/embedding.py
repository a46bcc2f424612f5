"""Sentence embedding: one vector per text."""

import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo import private
from bert_zoo.config import DOCUMENT, ROLES
from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.models.base import Interface, encoder_of
from bert_zoo.models.data_adapters import with_prompt
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.replicas import in_scope_of
from bert_zoo.models.task_model import Use
from bert_zoo.tasks.embedding_losses import PairSoftmax
from bert_zoo.tasks.vectors import VectorModel, class_names, kind_of
from bert_zoo.tasks.zero_shot import classified_by_name, cosine_scores

log = logging.getLogger("bert_zoo")


class PairClasses(LabelRange):
    """Allows ids or names of the pair classifier's classes."""

    def is_read_by(self, loss) -> bool:
        return True


@keras.saving.register_keras_serializable("bert_zoo")
class SentenceEmbedder(VectorModel):
    """Turns texts into sentence vectors, pooled and normalised as the checkpoint's card says.

    Returns vectors [batch, size]. Called with a tuple of input dicts, one for each column of texts, it
    returns [batch, columns, size], which the losses read.

    Args:
        encoder: as in `TaskModel`.
        pair_classes: number or names of the classes of the pair classifier, which the loss `PairSoftmax`
            trains; 0 for no classifier.
        query_encoder: an encoder of its own for queries, such as a table of token vectors; None if queries and
            documents are read alike. Its vectors have the size of the other's.
        default_role: the role of texts that `embed` gets without one.
    """

    task = "embedding"
    verbs = ("embed", "classify")
    peft_task = "FEATURE_EXTRACTION"
    taught_by = "vectors"
    use = Use(
        "sentence-similarity",
        "turns texts into vectors whose cosine similarity shows how similar their meanings are",
        "model.embed({texts})",
    )
    pools_windows = True
    if_untrained = "was not trained for sentence vectors: texts with similar meanings may have different vectors"
    interface = Interface(("embedding",))
    # As in sentence-transformers, however the finished vectors are compared.
    ranked_by = "cosine"

    def __init__(
        self,
        encoder,
        pair_classes: int | Sequence[str] = 0,
        query_encoder: Encoder | dict[str, Any] | None = None,
        default_role: str = DOCUMENT,
        **kwargs,
    ):
        super().__init__(encoder, **kwargs)
        self.query_encoder: Encoder | None = None
        self.default_role = DOCUMENT
        if query_encoder is not None:
            self.add_query_encoder(query_encoder, default_role)
        self.pair_classifier: keras.layers.Layer | None = None
        self._pair_names: tuple[str, ...] = ()
        if pair_classes:
            are_named = not isinstance(pair_classes, int)
            names = tuple(pair_classes) if are_named else ()
            self._add_pair_classifier(len(names) or pair_classes, names)

    @property
    def similarity(self) -> str:
        return self.encoder.pooling.similarity

    # --- Queries with an encoder of their own ---

    def add_query_encoder(self, encoder: Encoder | dict[str, Any], default_role: str) -> None:
        """Has queries read by another encoder; arguments as for the class.

        Raises:
            ValueError: its vectors have another size, or the role is unknown.
        """
        check("default_role", default_role, str, choices=ROLES)
        if isinstance(encoder, dict):
            encoder = keras.saving.deserialize_keras_object(encoder)
        encoder = encoder_of(encoder)
        sizes = encoder.vector_size, self.encoder.vector_size
        if len({*sizes}) > 1:
            raise ValueError(
                f"The vectors of queries have {sizes[0]} numbers, and those of documents {sizes[1]}; they cannot be "
                "compared. Choose encoders whose vectors have one size."
            )
        with private.adding_layers(self):
            self.query_encoder = encoder
        self.default_role = default_role

    @property
    def reads_roles(self) -> bool:
        return self.query_encoder is not None

    def read_column(self, role: str, rows, training=None):
        if role == DOCUMENT or self.query_encoder is None:
            return super().read_column(role, rows, training)
        states = self.query_encoder(rows, training=training)["sequence_output"]
        return self.query_encoder.sentence_vectors(states, rows)

    def reader_of_role(self, role: str, preprocessor):
        if role == DOCUMENT or self.query_encoder is None:
            return preprocessor
        return self.query_encoder.text_reader

    def served_of_role(self, role: str, texts, run, preprocessor):
        texts = with_prompt(self.encoder.prompts.text(role=role), texts)
        reader = self.reader_of_role(role, preprocessor).with_options(report_truncation=False)
        return {"embedding": self.read_column(role, reader(texts))}

    @property
    def reads_first_only(self) -> bool:
        return self.encoder.pooling.reads_first_only

    def head_outputs(self, encoded, inputs, training=None):
        return self.encoder.sentence_vectors(encoded["sequence_output"], inputs)

    def window_outputs(self, inputs, training=None):
        return self.encoder.window_outputs(inputs, training)

    def from_pooled(self, outputs):
        return self.encoder.from_pooled(outputs)

    # --- Training on classes of pairs ---

    def loss_for(self, columns, labels):
        if columns == 2 and labels is not None and kind_of(labels) != "f":
            return PairSoftmax()
        return super().loss_for(columns, labels)

    def labels_for_loss(self, y, labels):
        if not isinstance(self.loss_in_use, PairSoftmax):
            return super().labels_for_loss(y, labels)
        if self.pair_classifier is None:
            self._prepare_pair_classifier(labels)
        return y

    def label_ranges(self, inputs):
        is_used = self.compiled and isinstance(self.loss_in_use, PairSoftmax)
        if not is_used or self.pair_classifier is None:
            return super().label_ranges(inputs)
        units = self.pair_classifier.units
        return {"": PairClasses(units, "the number of classes of pairs", names=self._pair_names)}

    def read_by_loss(self, vectors):
        if not isinstance(self.loss_in_use, PairSoftmax):
            return super().read_by_loss(vectors)
        u, v = vectors[:, 0], vectors[:, 1]
        features = ops.concatenate([u, v, ops.abs(u - v)], axis=-1)
        return ops.cast(self.pair_classifier(features), "float32")

    def _prepare_pair_classifier(self, labels) -> None:
        number, names = self.loss_in_use.num_classes, ()
        if is_of_tensorflow(labels) and number is None:
            raise ValueError(
                "The number of classes of pairs cannot be read from a tf.data.Dataset. Compile with "
                "loss=bert_zoo.embeddings.PairSoftmax(num_classes=3)."
            )
        if not is_of_tensorflow(labels):
            names = class_names(labels)
            if names and number not in (None, len(names)):
                raise ValueError(
                    f"num_classes is {number}, but the labels have the classes {names}."
                )
            number = number or len(names) or max(2, int(np.max(labels)) + 1)
        if self.optimizer.built:
            raise ValueError(
                "The optimizer was built for a model without a pair classifier. Compile the model again before "
                "you train it on classes of pairs."
            )
        log.info(
            "A pair classifier, %d classes from (u, v, abs(u - v)), is randomly initialised for the training. "
            "Saved and exported models leave it out.",
            number,
        )
        self._add_pair_classifier(number, names)

    def _add_pair_classifier(self, classes: int, names: tuple[str, ...] = ()) -> None:
        width = 3 * self.encoder.vector_size
        with private.adding_layers(self), in_scope_of(self):
            self.pair_classifier = keras.layers.Dense(
                classes, name="pair_classifier", dtype=self.dtype_policy
            )
            self.pair_classifier.build((None, width))
        self._pair_names = names

    def get_config(self):
        classifier = self.pair_classifier
        classes = list(self._pair_names) or (0 if classifier is None else classifier.units)
        config = {**super().get_config(), "pair_classes": classes}
        if self.query_encoder is None:
            return config
        queries = keras.saving.serialize_keras_object(self.query_encoder)
        return config | {"query_encoder": queries, "default_role": self.default_role}

    # --- Use ---

    def served_variables(self):
        classifier = self.pair_classifier
        left_out = set() if classifier is None else {id(v) for v in classifier.variables}
        return [v for v in super().served_variables() if id(v) not in left_out]

    def portable_verb(self):
        if self.query_encoder is not None:
            raise ValueError(
                "A file of ONNX or LiteRT holds one encoder, and this model has another one for queries. Export "
                "model.encoder and model.query_encoder."
            )
        return super().portable_verb() | {"include_prompt": self.encoder.pooling.include_prompt}

    def embed(
        self,
        texts,
        batch_size: int = 32,
        prompt: str | None = None,
        truncate_dim: int | None = None,
        role: str | None = None,
    ):
        """Computes sentence vectors, NumPy float32 [texts, size]; see `Encoder.embed`."""
        if self.query_encoder is None or (role or self.default_role) == DOCUMENT:
            return self.encoder.embed(texts, batch_size, prompt, truncate_dim, role)
        before = self.encoder.prompts.text(prompt, role)
        return self.query_encoder.embed(texts, batch_size, before, truncate_dim)

    def classify(
        self,
        texts: str | Sequence[str],
        labels: Sequence[str] | str,
        *,
        template: str = "{}",
        top_k: int | None = None,
        batch_size: int = 32,
    ):
        """Finds the label whose vector is most similar to that of each text, without training.

        Texts and labels are read alike, with the model's default prompt. The scores of a text's labels are the softmax
        of 20 times their cosines; their order says more than their size. A model for natural language inference
        judges instead whether a text entails a sentence with its label (`Classifier.classify`).

        Args:
            texts: a text or several.
            labels: names of the classes, or sentences that describe them: a list, or a string with commas.
            template: a sentence with {} in place of the label; by default the label alone.
            top_k: how many of the most similar labels to list for each text; by default one.
            batch_size: number of texts per step.

        Returns:
            A list of `Classification(text, label, score, scores, top)`, which prints as a table.

        Raises:
            ValueError: an argument is invalid, or there is only one label.
        """
        return classified_by_name(self, texts, labels, template, top_k=top_k, batch_size=batch_size)

    def scores_by_name(self, texts, sentences, multi_label: bool, batch_size: int = 32):
        if len(sentences) == 1:
            raise ValueError(
                f'Scores compare labels, but there is only one: {shown(sentences[0])}. Name another, such as "something '
                'else", or take the cosine: bert_zoo.similarity(texts, labels, model=model).'
            )
        vectors = self.embed(texts, batch_size), self.embed(sentences, batch_size)
        return ops.convert_to_numpy(cosine_scores(*vectors)["scores"])

    def served_by_name(self, texts, sentences, run):
        return cosine_scores(run(texts)["embedding"], run(sentences)["embedding"])

    @property
    def roles_of_pairs(self):
        return ROLES if self.reads_roles else (None, None)

    def scores_of_pairs(self, queries, documents):
        """Cosines; zero vectors are similar to nothing."""
        lengths = np.linalg.norm(queries, axis=1) * np.linalg.norm(documents, axis=1)
        products = np.einsum("ij,ij->i", queries, documents)
        return products / np.where(lengths == 0, 1, lengths)

    def answers_as_teacher(self, texts, batch_size: int = 32):
        return self.embed(texts, batch_size)
