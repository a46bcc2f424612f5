"""Classes from few labels: SetFit's way of training, and the draw of so many labels a class.

Source: Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts" (arXiv:2209.11055).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.texts import TextBenchmark, take
from bert_zoo.data.batches import column_batches
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.error_text import quoted
from bert_zoo.tasks import Classifier, SentenceEmbedder
from bert_zoo.tasks.embedding.losses import CosineRegression

MAX_ITERATIONS = 1000  # of the logistic regression; it takes a few tens


class SetFitBenchmark(TextBenchmark):
    """A classification whose encoder learns from pairs of texts which are of one class, and which are not.

    Its classifier is then a logistic regression on the vectors of the training texts.

    Args:
        task: the data.

    Raises:
        ValueError: they are pairs of texts, or have no text of some class to train on.
    """

    def __init__(self, task: TextBenchmark):
        super().__init__(
            task.name,
            task.data,
            measured=task.measured,
            source=task.source,
            metric=task.metric,
            label_names=task.label_names,
            write_official=task.write_official,
            remarks=task.remarks,
        )
        if task.reads_pairs:
            raise ValueError(
                f"{self.name} is of pairs of texts, and the recipe's vectors are of single ones. Choose another "
                "recipe."
            )
        present = set(self.train.labels)
        if missing := [name for i, name in enumerate(self.label_names) if i not in present]:
            raise ValueError(
                f"No training text of {self.name} has one of the labels {quoted(missing)}, and the logistic "
                "regression needs some of each."
            )

    def load_options(self):
        return {"task": SentenceEmbedder.task}

    def class_weights(self, recipe):
        if recipe.class_weight is not None or recipe.head_initializer_range is not None:
            raise ValueError(
                "class_weight and head_initializer_range are for classifiers that are trained by updates, and here "
                "a logistic regression follows them. Leave them out."
            )
        return None

    def loss(self, recipe):
        return CosineRegression()

    def batches(self, model, recipe, seed):
        self.batch_rows = recipe.predicted_rows
        first, second = contrastive_pairs(self.train.labels, recipe.contrastive_pairs, seed)
        labels = np.asarray(self.train.labels)
        return column_batches(
            [take(self.train.texts, rows) for rows in (first, second)],
            (labels[first] == labels[second]).astype(np.float32),
            model.preprocessor,
            replace(recipe.batching(seed), group_by_length=False),
            distinct=False,
        )

    def product(self, model):
        """A classifier of the sentence vectors."""
        classifier = Classifier(model.encoder, labels=self.label_names, reads_vectors=True)
        texts, labels = self.train.texts, self.train.labels
        vectors = model.encoder.embed(texts, self.batch_rows, prompt="")
        for variable, value in zip(
            classifier.classifier.dense.weights, logistic_regression(vectors, labels), strict=True
        ):
            variable.assign(value)
        return classifier


def contrastive_pairs(
    labels: Sequence[int], number: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of texts, of each text `number` with one of its class and as many with one of another.

    Args:
        labels: class ids [N].
        number: SetFit's R.
        seed: of what is drawn.

    Returns:
        Row numbers, int [2 * number * N] each.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    rows = np.arange(len(labels))
    first, second = [], []
    for row, label in zip(rows, labels, strict=True):
        others = rows[(labels == label) & (rows != row)]
        # A class of one text has no other pair than with itself.
        first.append(np.full(2 * number, row))
        second.append(rng.choice(others if len(others) else [row], number))
        second.append(rng.choice(rows[labels != label], number))
    return np.concatenate(first), np.concatenate(second)


def logistic_regression(
    vectors: np.ndarray, labels: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel [size, classes] and bias [classes] of scikit-learn's, with its own regularisation.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError(
            "The recipe ends in scikit-learn's logistic regression: pip install scikit-learn."
        ) from error
    found = LogisticRegression(max_iter=MAX_ITERATIONS).fit(vectors.astype(np.float64), labels)
    kernel, bias = found.coef_.T, found.intercept_
    if len(bias) == 1:
        # Of two classes, the logit of the second.
        kernel, bias = (np.concatenate([-part / 2, part / 2], axis=-1) for part in (kernel, bias))
    return kernel, bias


def few_of_each_class(data: LabelledTexts, number: int, seed: int) -> LabelledTexts:
    """So many texts of each class, drawn at random.

    Raises:
        ValueError: a class has fewer, or a text may have several.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(data.labels)
    if labels.ndim != 1 or not data.label_names:
        raise ValueError("labels_per_class is for texts with one class each. Leave it out.")
    rows: list[Any] = []
    for i, name in enumerate(data.label_names):
        of_class = np.flatnonzero(labels == i)
        if len(of_class) < number:
            raise ValueError(
                f"labels_per_class is {number}, and {len(of_class)} training texts have the label {name!r}. Ask for "
                "fewer."
            )
        rows += rng.choice(of_class, number, replace=False).tolist()
    rows.sort()
    lines = [data.lines[row] for row in rows] if data.lines else ()
    chosen = [data.labels[row] for row in rows]
    return LabelledTexts(take(data.texts, rows), chosen, data.label_names, lines)
