"""Classification from few labels: SetFit's training, and drawing a number of labels per class.

Source: Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts" (arXiv:2209.11055).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.texts import TextBenchmark, take
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.error_text import quoted
from bert_zoo.tasks import name_of

MAX_ITERATIONS = 1000  # of the logistic regression, which needs a few tens


class SetFitBenchmark(TextBenchmark):
    """Classification with an encoder that learns which pairs of texts belong to the same class.

    The classifier is then a logistic regression on the vectors of the training texts.

    Args:
        task: the benchmark.

    Raises:
        ValueError: the task has pairs of texts, or a class has no training text.
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
                f"{self.name} has pairs of texts, but a recipe with contrastive_pairs embeds single texts. Choose "
                "another recipe."
            )
        present = set(self.train.labels)
        if missing := [name for i, name in enumerate(self.label_names) if i not in present]:
            raise ValueError(
                f"{self.name} has no training texts with the labels {quoted(missing)}, but the logistic regression "
                "needs some for each. Add some, or remove these labels."
            )

    def load_options(self):
        return {"task": name_of("SentenceEmbedder")}

    def class_weights(self, recipe):
        if recipe.class_weight is not None or recipe.head_initializer_range is not None:
            raise ValueError(
                "class_weight and head_initializer_range have no effect with contrastive_pairs, whose classifier is a "
                "logistic regression. Leave them out."
            )
        return None

    def loss(self, recipe):
        from bert_zoo.tasks.embedding.losses import CosineRegression

        return CosineRegression()

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import column_batches

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
        """Returns a classifier on the sentence vectors."""
        from bert_zoo.tasks import Classifier

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
    """Draws pairs: each text with `number` texts of its class and `number` texts of other classes.

    Args:
        labels: class ids [N].
        number: SetFit's R.
        seed: seed of the draw.

    Returns:
        Row numbers, int [2 * number * N] each.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    rows = np.arange(len(labels))
    first, second = [], []
    for row, label in zip(rows, labels, strict=True):
        others = rows[(labels == label) & (rows != row)]
        # The only text of a class is paired with itself.
        first.append(np.full(2 * number, row))
        second.append(rng.choice(others if len(others) else [row], number))
        second.append(rng.choice(rows[labels != label], number))
    return np.concatenate(first), np.concatenate(second)


def logistic_regression(
    vectors: np.ndarray, labels: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Fits scikit-learn's logistic regression with its default regularisation.

    Returns:
        Kernel [size, classes] and bias [classes].

    Raises:
        ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError(
            "A recipe with contrastive_pairs needs scikit-learn's logistic regression: pip install scikit-learn."
        ) from error
    found = LogisticRegression(max_iter=MAX_ITERATIONS).fit(vectors.astype(np.float64), labels)
    kernel, bias = found.coef_.T, found.intercept_
    if len(bias) == 1:
        # For two classes, scikit-learn returns the logit of the second only.
        kernel, bias = (np.concatenate([-part / 2, part / 2], axis=-1) for part in (kernel, bias))
    return kernel, bias


def few_of_each_class(data: LabelledTexts, number: int, seed: int) -> LabelledTexts:
    """Draws `number` texts of each class at random.

    Raises:
        ValueError: a class has fewer texts, or texts can have several classes.
    """
    rng = np.random.default_rng(seed)
    labels = np.asarray(data.labels)
    if labels.ndim != 1 or not data.label_names:
        raise ValueError("labels_per_class needs texts with exactly one class. Leave it out.")
    rows: list[Any] = []
    for i, name in enumerate(data.label_names):
        of_class = np.flatnonzero(labels == i)
        if len(of_class) < number:
            raise ValueError(
                f"labels_per_class is {number}, but only {len(of_class)} training texts have the label {name!r}. Choose "
                "fewer."
            )
        rows += rng.choice(of_class, number, replace=False).tolist()
    rows.sort()
    lines = [data.lines[row] for row in rows] if data.lines else ()
    chosen = [data.labels[row] for row in rows]
    return LabelledTexts(take(data.texts, rows), chosen, data.label_names, lines)
