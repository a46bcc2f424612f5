"""Reranking: how well a document answers a query, by a cross-encoder that reads both together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from bert_zoo.models.base import Interface
from bert_zoo.models.data_adapters import keras_arguments
from bert_zoo.models.head_arguments import Asked, Told
from bert_zoo.models.labels import LabelScores, finite_numbers
from bert_zoo.models.task_model import SentenceModel, Use
from bert_zoo.models.text_columns import are_columns, column_arguments, split_element
from bert_zoo.runtime.rankings import SCORE_ACTIVATIONS, Ranking, check_top_k, ranking
from bert_zoo.tasks.reranking.losses import ListwiseSoftmax, LossByShape


@keras.saving.register_keras_serializable("bert_zoo")
class Reranker(SentenceModel):
    """Logits [batch, 1] of pairs of a query and a document, over the first token.

    Called with a tuple of input dicts of one length, for each document of a query its pairs, it gives
    [batch, documents].

    Args:
        encoder: as in `TaskModel`.
        score_activation: what makes scores of logits: "sigmoid" or "linear", for the logit itself.
    """

    task = "reranking"
    peft_task = "SEQ_CLS"
    taught_by = "score"
    use = Use(
        "text-ranking",
        "scores how well a document answers a query",
        'model.rank("A query.", ["A document.", "Another one."])',
    )
    problem_type = "regression"  # as transformers takes a head of one logit
    num_outputs = 1
    pools_windows = False
    reads_columns = True
    shared_columns = 1  # the queries
    interface = Interface(texts=(("text", 1), ("text_pair", 1)), pairs=False)

    def __init__(self, encoder, score_activation: str = "sigmoid", **kwargs):
        if score_activation not in SCORE_ACTIVATIONS:
            raise ValueError(
                f"score_activation is {score_activation!r}; it is one of {[*SCORE_ACTIVATIONS]}."
            )
        self.score_activation = score_activation
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, asked: Asked, told: Told) -> dict[str, Any]:
        if told.num_logits not in (None, cls.num_outputs):
            raise ValueError(
                f"The head of {told.name} has {told.num_logits} logits, and a reranker has one: how well the "
                "document answers the query. To train one, pass init=('classifier',)."
            )
        arguments = super().head_arguments(asked, told)
        if told.score_activation is not None:
            arguments["score_activation"] = told.score_activation
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
        """Trains by the shape of the data; other arguments are as in Keras.

        | data | loss by default |
        |---|---|
        | `(queries, documents)`, labels of 0 and 1, or scores between them | binary cross-entropy |
        | `(queries, positives, negatives, ...)` | `ListwiseSoftmax` |
        | the same, a teacher's scores [batch, documents] or margins [batch, documents - 1] | `MarginMSE` |

        Another one is given to `compile`: a loss of `bert_zoo.embeddings`, or any of Keras over logits, of
        pairs [batch, 1], of lists [batch, documents].

        Args:
            x: strings in a tuple of columns; a dict of ids of pairs, or for lists a tuple of them, one for
                each document of a query; or a tf.data.Dataset of batches of these, with labels.
            y: numbers, as the table says.
        """
        return super().fit(x, y, *args, **kwargs)

    def training_arguments(self, x, y=None, sample_weight=None, **options):
        columns, labels, _ = split_element(x, y, sample_weight)
        if not _are_lists(columns):
            return keras_arguments(self, x, y, sample_weight, labelled=True, **options)
        if labels is None and not isinstance(self.loss, ListwiseSoftmax | LossByShape):
            raise ValueError(
                f"The model is compiled with {self.loss!r}, which reads labels, and y is None. Pass a number for each "
                "document, or leave loss out."
            )
        if labels is not None and isinstance(self.loss, ListwiseSoftmax):
            raise ValueError(
                "ListwiseSoftmax takes the first document for the right one, and reads no labels. Leave y out; "
                "from a teacher's scores MarginMSE learns."
            )
        return column_arguments(self, x, y, sample_weight, **options)

    def columns_to_inputs(self, columns, preprocessor):
        """Queries and columns of documents to an input dict of pairs a column, of one length; traceable."""
        from bert_zoo.data.arrays import concat, split, tile

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

    # --- What it gives ---

    def as_text_rows(self, x):
        if not isinstance(x, tuple):
            raise TypeError(
                "A reranker reads pairs of texts: pass (queries, documents), of which row i of one belongs "
                f"to row i of the other; got {type(x).__name__}."
            )
        return super().as_text_rows(x)

    def rank(self, query: str, documents, top_k: int | None = 10, batch_size: int = 32) -> Ranking:
        """The documents that answer a query best.

        Args:
            query: a text.
            documents: texts.
            top_k: how many of the best are given; None for all.
            batch_size: pairs of the query with a document a step.

        Returns:
            A list of `Ranked(document, index, score)`, best first, that prints as a table.
        """
        from bert_zoo.text.batches import strings

        check_top_k(top_k)
        documents = strings(documents)
        pairs = ([query] * len(documents), documents)
        logits = self.predict(pairs, batch_size=batch_size, verbose=0)
        return ranking(documents, logits[:, 0], self.score_activation, top_k)

    def portable_verb(self):
        return {"verb": "rank", "score_activation": self.score_activation}

    def served_answers(self, outputs):
        score = outputs["logits"][:, 0]
        return {"score": keras.activations.get(self.score_activation)(score)}

    def get_config(self):
        return {**super().get_config(), "score_activation": self.score_activation}


def _are_lists(x) -> bool:
    """Whether data are rows of a query with several documents, as columns of texts or of ids of pairs."""
    return are_columns(x) and (len(x) > 2 or isinstance(x[0], Mapping))


@dataclass(frozen=True, kw_only=True)
class ListScores(LabelScores):
    """What the labels of lists may be: numbers of each document, or of each but the first.

    Attributes:
        documents: of a query.
    """

    documents: int

    def numbers(self, labels: Any, title: str):
        """Finite numbers [batch, documents] or [batch, documents - 1]; of one margin a row, also [batch]."""
        labels = finite_numbers(labels, title)
        if len(labels.shape) == 1:
            labels = labels[:, None]
        if labels.shape[-1] not in (self.documents, self.documents - 1):
            raise ValueError(
                f"{title}s have the shape {tuple(labels.shape)}. A teacher's scores of {self.documents} documents are "
                f"[batch, {self.documents}], its margins between the first and the others [batch, {self.documents - 1}]."
            )
        return labels
