"""Documents ranked by how well they answer a query; without TensorFlow and Keras."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.error_text import shown
from bert_zoo.runtime.classifications import sigmoid
from bert_zoo.runtime.printed import Row, Rows, one_line

# Functions from logits to scores.
SCORE_ACTIVATIONS = {"sigmoid": sigmoid, "linear": np.asarray}


@dataclass(frozen=True)
class Ranked(Row):
    """A document with its score.

    Attributes:
        document: the text.
        index: its position in the given documents, from 0.
        score: higher if it answers the query better.
    """

    document: str
    index: int
    score: float

    def cells(self) -> tuple[str, ...]:
        return (f"{self.score:.3f}", str(self.index), one_line(self.document))


class Ranking(Rows):
    """A list of `Ranked`, best first, that prints as a table."""


def ranking(
    documents: Sequence[str], logits: np.ndarray, activation: str, top_k: int | None
) -> Ranking:
    """Returns the documents with the highest scores, best first; ties keep their order.

    Args:
        documents: texts.
        logits: float [documents].
        activation: one of `SCORE_ACTIVATIONS`.
        top_k: number of documents; None for all.
    """
    scores = SCORE_ACTIVATIONS[activation](np.asarray(logits, np.float32))
    # Sort by logits, because sigmoids may round to 1.
    best = np.argsort(-np.asarray(logits), kind="stable")[:top_k]
    return Ranking(Ranked(documents[i], int(i), float(scores[i])) for i in best)


def check_asked(query: str, top_k: int | None) -> None:
    """Raises ValueError unless `query` is one text, and `top_k` a positive integer or None."""
    if np.ndim(query):
        raise ValueError(
            f"query is {shown(query)}, but rank() takes one query, a text. Call it once for each query."
        )
    if top_k is not None and (not is_integer(top_k) or top_k < 1):
        raise ValueError(
            f"top_k is {top_k!r}; it must be a number of documents, at least 1, or None for all."
        )
