"""Reranking: a cross-encoder reads query and document together and scores how well they match."""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.fields import check
from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import keras_arguments
from bert_zoo.models.labels import HeadChoice, LabelScores
from bert_zoo.models.task_model import ScoringModel, SentenceModel, Use
from bert_zoo.models.text_columns import are_columns, column_arguments, split_element
from bert_zoo.runtime.answers import SCORE_ACTIVATIONS, Ranking, check_asked, ranking
from bert_zoo.tasks.list_losses import ListScores, LossByShape, check_labels

log = logging.getLogger("bert_zoo")


@keras.saving.register_keras_serializable("bert_zoo")
class Reranker(ScoringModel, SentenceModel):
    """Scores how well documents answer a query. A cross-encoder, which reads both texts together.

    Takes pairs (queries, documents) and returns logits [batch, 1]. Called with a tuple of input dicts of
    equal length, one for each document of a query, it returns logits [batch, documents].

    Args:
        encoder: as in `TaskModel`.
        score_activation: how `rank` turns logits into scores: "sigmoid", or "linear" for the logit itself.
    """

    task = "reranking"
    verbs = ("rank",)
    peft_task = "SEQ_CLS"
    taught_by = "score"
    use = Use(
        "text-ranking",
        "scores how well a document answers a query",
        'model.rank("A query.", ["A document.", "Another one."])',
    )
    problem_type = "regression"  # transformers' type for a head with one logit
    num_outputs = 1
    scores_pairs = True
    pools_windows = False
    reads_columns = True
    shared_columns = 1  # the queries
    interface = Interface(texts=(("text", 1), ("text_pair", 1)), pairs=False)

    def __init__(self, encoder, score_activation: str = "sigmoid", **kwargs):
        check("score_activation", score_activation, str, choices=SCORE_ACTIVATIONS)
        self.score_activation = score_activation
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        if head.num_logits not in (None, cls.num_outputs, 2):
            raise ValueError(
                f"The head of {head.checkpoint} has {head.num_logits} logits, but a reranker has one, how well the "
                "document answers the query, or two, for no and yes. Load it with task='classification' for the "
                "probabilities of its classes, or pass init=('classifier',) to train a new head."
            )
        if head.num_logits == 2:
            log.warning(
                "The head of %s has two logits. It is loaded as one, the difference, so that scores are the "
                "probability of its second class%s.",
                head.checkpoint,
                f", {head.stored_labels[1]!r}" if head.stored_labels else "",
            )
        arguments = super().head_arguments(head)
        if head.score_activation is not None:
            arguments["score_activation"] = head.score_activation
        return arguments

    def call(self, inputs, training=None):
        if isinstance(inputs, Mapping):
            return super().call(inputs, training)
        rows = {name: ops.concatenate([pairs[name] for pairs in inputs]) for name in inputs[0]}
        logits = super().call(rows, training)
        return ops.transpose(ops.reshape(logits, (len(inputs), -1)))

    # --- Training ---

    def default_loss(self):
        return LossByShape()

    def fit(self, x=None, y=None, *args, **kwargs):
        """Trains with a loss that depends on the data; other arguments are as in Keras.

        | data | default loss |
        |---|---|
        | `(queries, documents)`, labels 0 and 1, or scores in between | binary cross-entropy |
        | `(queries, positives, negatives, ...)` | `ListwiseSoftmax` |
        | the same with a teacher's scores [batch, documents] or margins [batch, documents - 1] | `MarginMSE` |

        To use another loss, pass it to `compile`: a loss of `bert_zoo.embeddings`, or any Keras loss of
        logits, which are [batch, 1] for pairs and [batch, documents] for lists.

        Args:
            x: a tuple of columns of strings; a dict of ids of pairs, or for lists a tuple of such dicts, one
                for each document of a query; or a tf.data.Dataset of batches of these, with labels.
            y: numbers, see the table.
        """
        return super().fit(x, y, *args, **kwargs)

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        columns, labels, _ = split_element(x, y, sample_weight)
        if not _are_lists(columns):
            return keras_arguments(self, x, y, sample_weight, labelled=True, **options)
        check_labels(self.loss, labels)
        return column_arguments(self, x, y, sample_weight, **options)

    def columns_to_inputs(self, columns, preprocessor):
        """An input dict of pairs for each column of documents, all of one length; traceable."""
        from bert_zoo.data.batches import concat, split, tile

        queries, *documents = columns
        number = len(documents)
        pairs = preprocessor((tile(queries, [number]), concat(documents, axis=0)))
        divided = {name: split(ids, number) for name, ids in pairs.items()}
        return tuple({name: ids[i] for name, ids in divided.items()} for i in range(number))

    def label_ranges(self, inputs) -> dict[str, Any]:
        if _are_lists(inputs):
            of_texts = not isinstance(inputs[0], Mapping)  # then the first column has the queries
            return {"": ListScores(documents=len(inputs) - of_texts)}
        return {
            "": LabelScores(are_probabilities=isinstance(getattr(self, "loss", None), LossByShape))
        }

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if y is None:
            y = ops.zeros((ops.shape(y_pred)[0], 0))
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    # --- Use ---

    def as_text_rows(self, x):
        if not isinstance(x, tuple):
            raise TypeError(
                "A reranker reads pairs of texts: pass a tuple (queries, documents), where document i belongs "
                f"to query i; got {type(x).__name__}."
            )
        return super().as_text_rows(x)

    def rank(self, query: str, documents, top_k: int | None = 10, batch_size: int = 32) -> Ranking:
        """Ranks documents by how well they answer a query.

        Args:
            query: a text.
            documents: texts.
            top_k: how many of the best documents to return; None for all.
            batch_size: number of documents per step.

        Returns:
            A list of `Ranked(document, index, score)`, best first, that prints as a table.

        Raises:
            ValueError: `query` is not one text, or `top_k` not a positive integer.
        """
        from bert_zoo.text.batches import strings

        check_asked(query, top_k)
        documents = strings(documents)
        pairs = ([query] * len(documents), documents)
        logits = self.predict(pairs, batch_size=batch_size, verbose=0)
        return ranking(documents, logits[:, 0], self.score_activation, top_k)

    def row_scores(self, texts, second, batch_size: int = 32) -> np.ndarray:
        """The score of each pair of query and document, [N]."""
        logits = self.predict((texts, second), batch_size=batch_size, verbose=0)
        return SCORE_ACTIVATIONS[self.score_activation](logits[:, 0])

    def portable_verb(self):
        return {"verb": "rank", "score_activation": self.score_activation}

    def served_answers(self, outputs):
        score = outputs["logits"][:, 0]
        return {"score": keras.activations.get(self.score_activation)(score)}

    def get_config(self):
        return {**super().get_config(), "score_activation": self.score_activation}


def _are_lists(x) -> bool:
    """Whether each row is a query with several documents, in columns of texts or of ids of pairs."""
    return are_columns(x) and (len(x) > 2 or isinstance(x[0], Mapping))
