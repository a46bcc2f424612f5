"""Which loss fits which data, and classes of texts as numbers."""

import numpy as np

from bert_zoo.models.inputs import is_of_tensorflow
from bert_zoo.tasks.embedding.losses import (
    CoSENT,
    EmbeddingLoss,
    MultipleNegativesRanking,
    PairSoftmax,
    SupervisedContrastive,
)
from bert_zoo.text.columns import as_list


def loss_of_data(columns: int, labels) -> EmbeddingLoss:
    """The loss for rows of so many texts with such labels.

    Args:
        columns: texts of a row.
        labels: an array, a list, or a dataset's spec of them; None for none. Floats are scores; integers
            and names are classes.

    Raises:
        ValueError: no loss fits.
    """
    if labels is None:
        if columns > 1:
            return MultipleNegativesRanking()
        raise ValueError(
            "Single texts without labels say nothing about vectors. Pass pairs of texts that belong together, "
            "fit((anchors, positives)); pairs with scores or classes; or texts with classes, as y."
        )
    are_scores = kind_of(labels) == "f"
    if columns == 2:
        return CoSENT() if are_scores else PairSoftmax()
    if columns == 1 and not are_scores:
        return SupervisedContrastive()
    raise ValueError(
        f"No loss fits rows of {columns} texts with {'scores' if are_scores else 'classes'} as labels. "
        "Scores and classes are of pairs, (a, b), classes of single texts too; rows of anchor, positive and "
        "negatives have no labels. Compile with a loss of your own for others."
    )


def kind_of(labels) -> str:
    """The kind of labels' dtype, as NumPy abbreviates it: "f" for floats."""
    of_tensorflow = getattr(getattr(labels, "dtype", None), "as_numpy_dtype", None)
    dtype = of_tensorflow or np.asarray(as_list(labels)).dtype
    return np.dtype(dtype).kind


def class_numbers(labels):
    """Names of classes in memory as their numbers among all names, sorted; other labels as arrays."""
    if labels is None or is_of_tensorflow(labels):
        return labels
    array = np.asarray(as_list(labels))
    if array.dtype.kind not in "USOT":
        return array
    return np.unique(array.astype(str), return_inverse=True)[1].astype(np.int32)


def check_cosines(scores) -> None:
    """Raises ValueError where scores in memory are no cosines."""
    if isinstance(scores, np.ndarray) and np.any(np.abs(scores) > 1):
        raise ValueError(
            f"Scores go up to {np.abs(scores).max():g}, and CosineRegression compares them with cosines, from -1 "
            "to 1. Scale them, such as scores / 5 for those of STS-B; CoSENT takes scores of any scale."
        )
