"""`distill`: trains a model in memory on the outputs of another one."""

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
