"""Distillation for a task: a teacher's outputs, the losses of its student, and `distill`."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_zoo.distillation.students import principal_components
from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check
from bert_zoo.layers.heads import normalized
from bert_zoo.models.base import ZooModel
from bert_zoo.models.losses import BatchMean
from bert_zoo.training.presets import compile_for_task
from bert_zoo.training.runs import kept_outputs

BATCH_SIZE = 64
# Number of rows from which principal components are computed.
COMPONENT_ROWS = 20_000
TINY = 1e-12


def teacher_answers(
    teacher: ZooModel,
    texts: Any,
    path: str | os.PathLike,
    *,
    batch_size: int = BATCH_SIZE,
    answer: Callable[[Any], np.ndarray] | None = None,
    counts: Sequence[int] | None = None,
    about: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Computes a teacher's outputs for texts and keeps them in a file.

    Call it again to resume an interrupted pass, with the same result to the byte, or to open a finished file.

    Args:
        teacher: a trained model.
        texts: [N] strings or lists of words, or a pair of lists of strings.
        path: a NumPy file, `.npy`. A `.json` next to it records progress, teacher and texts.
        batch_size: texts per step.
        answer: part of the texts -> float [its rows, size]; by default the teacher's `answers_as_teacher`.
        counts: [N], output rows per text; by default one.
        about: names and values of anything else that the outputs depend on.

    Returns:
        float32 [rows, size], a read-only memory map.

    Raises:
        ValueError: the file belongs to another teacher or other texts, or an output is not finite.
    """
    if answer is None:

        def answer(some):
            return teacher.answers_as_teacher(some, batch_size)

    return kept_outputs(
        teacher,
        texts,
        Path(path),
        answer,
        batch_size=batch_size,
        counts=counts,
        about=about,
        title="Teacher",
    )


def vectors_of_size(vectors: np.ndarray, size: int) -> np.ndarray:
    """Projects a teacher's vectors [rows, width] to a student's size, float32 [rows, size].

    The projection onto principal components is rescaled to the vectors' lengths.
    Source: sentence-transformers' model_distillation.py.
    """
    width = vectors.shape[1]
    if size > width:
        raise ValueError(
            f"The student's vectors have {size} numbers, and its teacher's {width}. Choose a student with "
            f"at most {width}."
        )
    if size == width:
        return np.asarray(vectors)
    some = vectors[:: max(1, len(vectors) // COMPONENT_ROWS)]
    found = vectors @ principal_components(some, size).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1) / np.maximum(np.linalg.norm(found, axis=1), TINY)
    return found * lengths[:, None]


# Values of a target's last column.
UNKNOWN, TAUGHT, LABELLED = 0, 1, 2


def _cross_entropy(targets, logits):
    """Cross-entropy with class probabilities, [..., classes] to [...]."""
    return -ops.sum(targets * ops.log_softmax(logits), axis=-1)


def _binary_cross_entropy(targets, logits):
    """Mean over independent classes, [..., classes] to [...]."""
    return ops.mean(ops.softplus(logits) - targets * logits, axis=-1)


def _squared_error(targets, outputs, temperature=1.0):
    """Mean over classes, or of a single number, [..., size] to [...]."""
    return ops.mean(ops.square(targets - outputs), axis=-1)


def _soft_cross_entropy(teacher, student, temperature):
    soft = ops.softmax(teacher / temperature)
    return temperature**2 * _cross_entropy(soft, student / temperature)


def _soft_binary_cross_entropy(teacher, student, temperature):
    soft = ops.sigmoid(teacher / temperature)
    return temperature**2 * _binary_cross_entropy(soft, student / temperature)


class _Kind(NamedTuple):
    soft: Callable  # (teacher's outputs, student's, temperature) [..., size] -> [...]
    hard: Callable  # (labels, student's) -> [...]


KINDS: Mapping[str, _Kind] = {
    "cross_entropy": _Kind(_soft_cross_entropy, _cross_entropy),
    "squared_error": _Kind(_squared_error, _cross_entropy),
    "binary": _Kind(_soft_binary_cross_entropy, _binary_cross_entropy),
    "binary_squared_error": _Kind(_squared_error, _binary_cross_entropy),
    "score": _Kind(_squared_error, _squared_error),
}
# A model's `taught_by` -> value of `match`, the default first -> kind of `TaughtLoss`, or None for `VectorLoss`.
MATCHES: Mapping[str, Mapping[str, str | None]] = {
    "cross_entropy": {"cross_entropy": "cross_entropy", "squared_error": "squared_error"},
    "binary": {"cross_entropy": "binary", "squared_error": "binary_squared_error"},
    "score": {"squared_error": "score"},
    "vectors": {"squared_error": None, "cosine": None},
}


@keras.saving.register_keras_serializable("bert_zoo")
class TaughtLoss(BatchMean, keras.losses.Loss):
    """Loss against a teacher's outputs and labels: (1 - w) · soft + w · hard, averaged over rows with a target.

    Targets are float32 [..., 2 * size + 1], as `targets_of` makes them: the teacher's outputs (logits or a
    score), labels (one-hot, multi-hot or a score), and a number that says what is known: 0 nothing (padding,
    later pieces of words), 1 only the teacher's outputs (then w is 0), 2 both.

    | kind | soft | hard |
    |---|---|---|
    | cross_entropy | T² · cross-entropy of softmax(student / T) with softmax(teacher / T) | cross-entropy |
    | squared_error | mean over classes of (teacher - student)² of logits | cross-entropy |
    | binary | T² · mean over classes of sigmoid cross-entropy at T | sigmoid cross-entropy |
    | binary_squared_error | as squared_error | sigmoid cross-entropy |
    | score | (teacher - student)² | squared error |

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2; for squared errors of logits, Ba and Caruana 2014
    (arXiv:1312.6184), equation 1.

    Args:
        kind: a row of the table.
        temperature: T, divisor of both models' logits.
        hard_weight: w of rows with a label, from 0 to 1.

    Raises:
        ValueError: an argument is outside its range.
    """

    reads_targets = True
    settings = ("kind", "temperature", "hard_weight")

    def __init__(
        self,
        kind: str = "cross_entropy",
        temperature: float = 1.0,
        hard_weight: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check("kind", kind, str, choices=KINDS)
        check("temperature", temperature, float, above=0)
        check("hard_weight", hard_weight, float, least=0, most=1)
        self.kind, self.temperature, self.hard_weight = kind, temperature, hard_weight

    def labelled(self, y_true):
        return ops.cast(y_true[..., -1] > UNKNOWN, "float32")

    def call(self, y_true, y_pred):
        student = ops.cast(y_pred, "float32")
        size = ops.shape(student)[-1]
        teacher, labels, known = y_true[..., :size], y_true[..., size:-1], y_true[..., -1]
        kind = KINDS[self.kind]
        weight = ops.where(known >= LABELLED, self.hard_weight, 0.0)
        soft = kind.soft(teacher, student, self.temperature)
        values = (1 - weight) * soft + weight * kind.hard(labels, student)
        # Keras divides by the number of all rows.
        scale = ops.cast(ops.size(known), "float32") / ops.maximum(
            ops.sum(self.labelled(y_true)), 1.0
        )
        return ops.where(known > UNKNOWN, values * scale, 0.0)


@keras.saving.register_keras_serializable("bert_zoo")
class VectorLoss(BatchMean, keras.losses.Loss):
    """Distance between a student's sentence vectors and its teacher's, both [batch, size].

    Args:
        match: "squared_error", the squared Euclidean distance; or "cosine", 1 minus the cosine.
    """

    reads_targets = True
    settings = ("match",)

    def __init__(self, match: str = "squared_error", **kwargs):
        super().__init__(**kwargs)
        self.match = match

    def labelled(self, y_true):
        return super().labelled(y_true[:, 0])

    def call(self, y_true, y_pred):
        if self.match == "cosine":
            return 1 - ops.sum(normalized(y_true) * normalized(y_pred), axis=-1)
        return ops.sum(ops.square(y_true - y_pred), axis=-1)


def taught_loss(
    taught_by: str | None,
    match: str | None = None,
    temperature: float = 2.0,
    hard_weight: float = 0.5,
) -> keras.losses.Loss:
    """The loss of a student whose attribute is `taught_by`; `match` is one of its `MATCHES`, the first by default."""
    ways = MATCHES.get(taught_by, {})
    match = match or next(iter(ways), None)
    if match not in ways:
        raise ValueError(
            f"match is {match!r}; for models of this task it must be {' or '.join(ways)}."
            if ways
            else "Models of this task cannot learn from a teacher."
        )
    kind = ways[match]
    return VectorLoss(match) if kind is None else TaughtLoss(kind, temperature, hard_weight)


def targets_of(
    answers: np.ndarray, labels: np.ndarray | None = None, rows: Sequence[int] | None = None
) -> np.ndarray:
    """Makes targets for `TaughtLoss` from a teacher's outputs and labels.

    Args:
        answers: the teacher's outputs (logits or scores), [rows, size].
        labels: [labelled, size], one-hot, multi-hot or scores; None for none.
        rows: indices [labelled] of rows with labels; by default the first rows.

    Returns:
        float32 [rows, 2 * size + 1]: outputs, labels, and 2 for rows with a label, 1 for others.

    Raises:
        ValueError: labels and outputs differ in size.
    """
    number, size = answers.shape
    targets = np.zeros((number, 2 * size + 1), np.float32)
    targets[:, :size] = answers
    targets[:, -1] = TAUGHT
    if labels is not None:
        if labels.shape[1:] != (size,):
            raise ValueError(
                f"Labels have the shape {labels.shape}, and the teacher's answers {answers.shape}; both must have "
                f"one number per class. The first label is {shown(labels[:1].tolist())}."
            )
        rows = slice(len(labels)) if rows is None else rows
        targets[rows, size:-1] = labels
        targets[rows, -1] = LABELLED
    return targets


def distill(
    teacher: ZooModel,
    student: ZooModel,
    texts: Any,
    labels: Sequence[Any] | None = None,
    *,
    temperature: float = 2.0,
    hard_weight: float = 0.5,
    match: str | None = None,
    optimizer: Any = None,
    batch_size: int = 32,
    **fit: Any,
) -> Any:
    """Trains a student on its teacher's outputs for texts, mixed with labels if there are any.

    `bert_zoo distill` does the same on files, in runs that can be resumed.

    Args:
        teacher: a trained model for classes, numbers or sentence vectors.
        student: a model for the same task; it is compiled again.
        texts: strings [N], or a pair of lists of strings.
        labels: a list [N], as for `fit`, with None for texts without a label; or None for no labels at all.
        temperature, hard_weight: as for `bert_zoo.distillation.TaughtLoss`.
        match: "cross_entropy" (default for classes) or "squared_error" of logits; "squared_error" of numbers;
            "squared_error" (default) or "cosine" of vectors.
        optimizer: by default BERT's AdamW with a constant learning rate of 5e-5.
        batch_size: texts per step, for teacher and student.
        **fit: further arguments of `fit`, such as `epochs`.

    Returns:
        Keras's `History`.

    Raises:
        ValueError: tasks or classes of the models differ, their outputs are per token, the labels do not fit, or
            `match` does not suit the task.
    """
    if (
        teacher.task != student.task
        or teacher.labels != student.labels
        or teacher.outputs_per_token
    ):
        raise ValueError(
            f"The teacher's task is {teacher.task!r} with classes {quoted(teacher.labels)}, the student's "
            f"{student.task!r} with {quoted(student.labels)}. They must be equal and for whole texts: load the "
            "student with task= and labels=teacher.labels. For tags and answers, use `bert_zoo distill`."
        )
    loss = taught_loss(student.taught_by, match, temperature, hard_weight)
    answers = np.asarray(teacher.answers_as_teacher(texts, batch_size))
    if isinstance(loss, VectorLoss):
        if labels is not None:
            raise ValueError(
                "Students for vectors learn only from the teacher's vectors. Leave labels out."
            )
        targets = vectors_of_size(answers, student.encoder.vector_size)
        labels = ()
    elif labels is not None and len(labels) != len(answers):
        raise ValueError(
            f"There are {len(answers)} texts and {len(labels)} labels; pass one label for each text."
        )
    else:
        targets = targets_of(answers)
    rows = [i for i, label in enumerate(labels or ()) if label is not None]
    if rows:
        numbers = student.label_ranges(())[""].numbers([labels[i] for i in rows], "label")
        # Class numbers, rows of 0 and 1, or scores.
        if student.taught_by == "cross_entropy":
            numbers = np.eye(student.num_classes)[numbers]
        targets = targets_of(answers, numbers.reshape(len(rows), -1), rows)
    compile_for_task(student, optimizer, loss=loss)
    return student.fit(texts, targets, batch_size=batch_size, **fit)
