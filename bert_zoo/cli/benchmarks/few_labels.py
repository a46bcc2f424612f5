"""Classification from few labels: SetFit's training, and drawing a number of labels per class.

Source: Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts" (arXiv:2209.11055).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.texts import MultiLabelBenchmark, TextBenchmark, take
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.error_text import quoted
from bert_zoo.tasks import TASKS, name_of

MAX_ITERATIONS = 1000  # of the logistic regression, which needs a few tens


class SetFitBenchmark(TextBenchmark):
    """Classification with an encoder that learns which pairs of texts belong to the same class.

    The classifier is then a logistic regression on the vectors of the training texts. ValueError if the task has pairs of
    texts, or a class has no training text.
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
        applies = self.memberships()
        wrong = {
            "no training texts with": ~applies.any(0),
            "only training texts with": applies.all(0),
        }
        for what, of_class in wrong.items():
            if of_class.any():
                names = [
                    name for name, is_so in zip(self.label_names, of_class, strict=True) if is_so
                ]
                raise ValueError(
                    f"{self.name} has {what} the labels {quoted(names)}, but the logistic regression needs some texts "
                    "with each and some without. Add some, or remove these labels."
                )

    def memberships(self) -> np.ndarray:
        """Whether each training text has each class, bool [N, classes]."""
        return np.eye(len(self.label_names), dtype=bool)[self.train.labels]

    def load_options(self):
        return {"task": name_of("SentenceEmbedder")}

    def class_weights(self, recipe):
        """Keeps the weights for the logistic regression. The loss of pairs has none."""
        if recipe.head_initializer_range is not None:
            raise ValueError(
                "head_initializer_range has no effect with contrastive_pairs, whose classifier is a logistic "
                "regression. Leave it out."
            )
        self._weights = super().class_weights(recipe)

    def prepare(self, model):
        """The model that is trained has no classifier."""

    def loss(self, recipe):
        from bert_zoo.tasks.embedding_losses import CosineRegression

        return CosineRegression()

    def batches(self, model, recipe, seed):
        from bert_zoo.models.text_columns import column_batches

        self.batch_rows = recipe.predicted_rows
        applies = self.memberships()
        first, second = contrastive_pairs(applies, recipe.contrastive_pairs, seed)
        is_same = (applies[first] & applies[second]).any(1) | (first == second)
        batching = replace(recipe.batching(seed), group_by_length=False)
        columns = tuple(np.array(take(self.train.texts, rows), object) for rows in (first, second))
        with model.prompting(("", "")):
            return column_batches(
                model, columns, is_same.astype(np.float32), batching=batching, distinct=False
            )

    def product(self, model):
        """A classifier on the sentence vectors."""
        classifier = TASKS[self.kind](model.encoder, labels=self.label_names, reads_vectors=True)
        vectors = model.encoder.embed(self.train.texts, self.batch_rows, prompt="")
        found = self.regression(vectors)
        for variable, value in zip(classifier.classifier.dense.weights, found, strict=True):
            variable.assign(value)
        return classifier

    def regression(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kernel [size, classes] and bias [classes] of the classifier for the training texts' vectors."""
        return logistic_regression(vectors, self.train.labels, self._weights)


class SetFitOfLabelSets(SetFitBenchmark, MultiLabelBenchmark):
    """The same for texts with any number of classes: pairs share a class or none, and each class has a regression."""

    def memberships(self):
        return self.targets(self.train) > 0

    def regression(self, vectors):
        kernels, biases = [], []
        for applies in self.memberships().T:
            kernel, bias = logistic_regression(vectors, applies)
            # The logit of two classes is the difference of theirs.
            kernels.append(kernel[:, 1:] - kernel[:, :1])
            biases.append(bias[1:] - bias[:1])
        return np.concatenate(kernels, axis=1), np.concatenate(biases)


def set_fit(task: TextBenchmark) -> SetFitBenchmark:
    kind = SetFitOfLabelSets if isinstance(task, MultiLabelBenchmark) else SetFitBenchmark
    return kind(task)


def contrastive_pairs(applies: np.ndarray, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws pairs: each text with `number` (SetFit's R) texts that share a class and as many that share none.

    `applies`, bool [N, classes], says whether each text has each class. Returns row numbers, int [2 * number * N] each;
    fewer if a text shares a class with all others.
    """
    rng = np.random.default_rng(seed)
    rows = np.arange(len(applies))
    first, second = [], []
    for row in rows:
        shares = (applies & applies[row]).any(1)
        others, apart = rows[shares & (rows != row)], rows[~shares & (rows != row)]
        # A text that shares a class with no other is paired with itself.
        second.append(rng.choice(others if len(others) else [row], number))
        if len(apart):
            second.append(rng.choice(apart, number))
        first.append(np.full(number * (1 + bool(len(apart))), row))
    return np.concatenate(first), np.concatenate(second)


def logistic_regression(
    vectors: np.ndarray, labels: Sequence[int], weights: Mapping[int, float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel [size, classes] and bias [classes] of scikit-learn's logistic regression of vectors [N, size], with its
    default regularisation; ImportError if it is not installed."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError(
            "A recipe with contrastive_pairs needs scikit-learn's logistic regression: pip install scikit-learn."
        ) from error
    model = LogisticRegression(max_iter=MAX_ITERATIONS, class_weight=weights)
    found = model.fit(vectors.astype(np.float64), labels)
    kernel, bias = found.coef_.T, found.intercept_
    if len(bias) == 1:
        # For two classes, scikit-learn returns the logit of the second only.
        kernel, bias = (np.concatenate([-part / 2, part / 2], axis=-1) for part in (kernel, bias))
    return kernel, bias


def few_of_each_class(data: LabelledTexts, number: int, seed: int) -> LabelledTexts:
    """Draws `number` texts of each class at random."""
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
