"""`distill`: a model in memory taught by another one, on strings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_zoo.distillation.answers import vectors_of_size
from bert_zoo.distillation.losses import VectorLoss, targets_of, taught_loss
from bert_zoo.error_text import quoted
from bert_zoo.models.base import ZooModel
from bert_zoo.training.compiling import compile_for_task


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
    """Trains a student on what its teacher says of texts, mixed with labels where there are any.

    `bert_zoo distill` does the same on files, in runs that go on after a stop.

    Args:
        teacher: a trained model of classes, numbers or sentence vectors.
        student: a model of the same task; it is compiled anew.
        texts: [N] strings, or a pair of such.
        labels: [N], as `fit` takes them in a list; None, or a None among them, where the teacher alone knows.
        temperature, hard_weight: of `bert_zoo.distillation.losses.TaughtLoss`.
        match: "cross_entropy" or "squared_error" of logits; of vectors "squared_error" or "cosine". By default
            the first of them that there is.
        optimizer: BERT's AdamW at a constant 5e-5 by default.
        batch_size: texts a step, of teacher and student.
        **fit: further arguments of `fit`, such as `epochs`.

    Returns:
        Keras's `History`.

    Raises:
        ValueError: the models do not fit to each other, or the labels to them.
    """
    if (
        teacher.task != student.task
        or teacher.labels != student.labels
        or teacher.outputs_per_token
    ):
        raise ValueError(
            f"The teacher is of task {teacher.task!r} with the classes {quoted(teacher.labels)}, and the student of "
            f"{student.task!r} with {quoted(student.labels)}. They must be the same, and of whole texts: load the "
            "student with task= and labels=teacher.labels. Words and answers, `bert_zoo distill` teaches."
        )
    loss = taught_loss(student.taught_by, match, temperature, hard_weight)
    answers = np.asarray(teacher.answers_as_teacher(texts, batch_size))
    if isinstance(loss, VectorLoss):
        if labels is not None:
            raise ValueError("Vectors are learned from the teacher's alone. Leave labels out.")
        targets = vectors_of_size(answers, student.encoder.vector_size)
        labels = ()
    elif labels is not None and len(labels) != len(answers):
        raise ValueError(
            f"There are {len(answers)} texts and {len(labels)} labels; give one for each."
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
