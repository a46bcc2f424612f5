"""Distillation on plain text, with the rows, resuming and reports of pretraining."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from keras import ops

import bert_zoo
from bert_zoo.distillation.general_models import DISTILLATIONS, MASKED_TOKENS, Distillation
from bert_zoo.distillation.presets import TEXT_PRESETS
from bert_zoo.distillation.students import student_of
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.models.base import ZooModel
from bert_zoo.models.task_model import Use
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.masked import MaskedSettings, MaskedTraining
from bert_zoo.pretraining.measuring import HeldOut
from bert_zoo.pretraining.run import pretrain
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.tasks.objectives import objective_for
from bert_zoo.tasks.objectives.masking import LABELS, READ_HERE, Masking

# Full rows of text, with BERT's masking if tokens are hidden. DistilBERT's own program masks rare tokens more often.
ROWS, MASKING = "full_sentences", "masked_tokens"


@dataclass(frozen=True)
class DistillationSettings(MaskedSettings):
    """Settings of a pretraining, and `taught`: the entries of `config.json` for teacher and student."""

    taught: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaughtRows:
    """Turns rows into a `Distillation`'s inputs and the labels of each part of its losses."""

    parts: Sequence[str]
    masking: Masking | None  # hides tokens; None to hide none
    replaced: ClassVar[bool] = False

    def __call__(self, batch, draws):
        inputs, labels = batch, {}
        if self.masking is not None:
            inputs, labels = self.masking(batch, draws)
        inputs = {n: value for n, value in inputs.items() if n not in (*READ_HERE, *LABELS)}
        mask = np.float32(batch["padding_mask"])
        of_tokens = {MASKED_TOKENS: labels.get("mlm_logits")}
        return inputs, {part: of_tokens.get(part, mask) for part in self.parts}


class HeldOutRows(HeldOut):
    """Held-out text for a student, without a unigram loss, which its losses cannot be compared with."""

    def unigram_loss(self, counts):
        return None


class DistillationTraining(MaskedTraining):
    """Trains a `Distillation` on rows of text. Arguments: as `MaskedTraining`."""

    mlm_only = False
    use_of_encoder = Use(
        "feature-extraction",
        "is a small encoder distilled from a larger one, to be fine-tuned on a task",
        'print(model(model.preprocessor(["A text."]))["sequence_output"])',
        limits=("It has no head for a task: fine-tune it before use.",),
    )

    def __init__(
        self, model: Distillation, settings: DistillationSettings, text: TokenizedText, seed: int
    ):
        self.model, self.inner = model, model.student
        self.settings, self.counts = settings, text.counts
        masking = None
        if model.hides_tokens:
            masking = objective_for(model.student, MASKING, text.counts)
        else:
            self.use = self.use_of_encoder
        self.objective = TaughtRows(tuple(model.default_loss_weights), masking)
        length, _ = settings.phases[0]
        self.phases = [self.batches_of(text, length, settings.recipe.micro_batch_size, seed)]

    def about(self):
        options = TEXT_PRESETS[self.settings.objective].options
        options = {name: getattr(self.model, name) for name in options}
        about = {**super().about(), **self.settings.taught, **options}
        weights = [ops.convert_to_numpy(weight).tobytes() for weight in self.model.teacher.weights]
        return about | {
            "objective": self.settings.objective,
            "teacher_sha256": hashlib.sha256(b"".join(weights)).hexdigest(),
        }

    def held_out(self, name: str, text: TokenizedText) -> HeldOutRows:
        found = super().held_out(name, text)
        return HeldOutRows(found.name, found.batches, found.count)

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """Questions if the student predicts masked tokens, else none."""
        return super().questions(corpus) if self.model.hides_tokens else []

    def trained(self) -> ZooModel:
        return self.model.trained_student()


def distill_on_text(
    teacher: str,
    text: Sequence[str] | str,
    directory: Path | str,
    *,
    student: str | None = None,
    layers: int | Sequence[int] | None = None,
    hidden_size: int | None = None,
    num_heads: int | None = None,
    objective: str = "relations",
    options: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    **run: Any,
) -> dict[str, Any]:
    """Trains a student to imitate its teacher on plain text, and writes a run directory.

    The student, `model` in the directory, is an ordinary model of its family: an encoder, or with the
    objective "triple" a masked-language model. A training that was stopped resumes as described in
    `bert_zoo.pretraining.run.pretrain`.

    Args:
        teacher: name or directory of a model, as for `load`.
        text, directory: text files and output directory, as for `pretrain`.
        student: name or directory of a model with the teacher's vocabulary; None to make one by `student_of`.
        layers, hidden_size, num_heads: arguments of `student_of`; `layers` is required without `student`.
        objective: a key of `bert_zoo.distillation.presets.TEXT_PRESETS`: "triple" (DistilBERT), "layers"
            (TinyBERT), "relations_v1" or "relations" (MiniLM, versions 1 and 2).
        options: arguments of the objective: `layer_map` of "layers", `teacher_layer` of both "relations",
            `relation_heads` of the last.
        changes: fields of `Recipe` that replace the objective's published settings, such as `total_steps`,
            and `max_length` in tokens per row.
        seconds: time budget in place of `total_steps`.
        **run: further arguments of `pretrain`, such as `held_out` and `seed`.

    Returns:
        The contents of `metrics.json`, such as held-out losses `before` and `after`.

    Raises:
        ValueError: student, teacher, objective and options do not fit together; or as `pretrain`.
    """
    if objective not in DISTILLATIONS:
        raise ValueError(
            f"objective is {objective!r}; it must be one of {', '.join(DISTILLATIONS)}."
        )
    kind, preset = DISTILLATIONS[objective], TEXT_PRESETS[objective]
    if unknown := sorted({*(options or {})} - {*preset.options}):
        raise ValueError(
            f"The objective {objective!r} has no {', '.join(unknown)}. Its options: "
            f"{', '.join(preset.options) or 'none'}."
        )
    if (student is None) == (layers is None):
        raise ValueError("Pass either an existing student, or the number of layers of a new one.")
    recipe = preset.recipe.replace(**changes or {})
    positions = [
        open_checkpoint(name, with_weights=False).config.longest_input
        for name in (teacher, student)
        if name is not None
    ]
    sizes = {"layers": layers, "hidden size": hidden_size, "heads": num_heads}
    made = ", ".join(f"{name} {value}" for name, value in sizes.items() if value is not None)
    settings = DistillationSettings(
        recipe,
        rows=ROWS,
        phases=((min(recipe.max_length, *positions), 1.0),),
        objective=objective,
        seconds=seconds,
        taught={"teacher": str(teacher), "student": str(student or made)},
    )

    def loaded(name: str) -> ZooModel:
        return bert_zoo.load(name, task=kind.student_task, dtype=recipe.dtype)

    def make_model() -> Distillation:
        taught_by = loaded(teacher)
        learns = (
            student_of(taught_by, layers, hidden_size, num_heads)
            if student is None
            else loaded(student)
        )
        return kind(learns, taught_by, **options or {})

    name = student or f"{Path(teacher).name}, {made}"
    return pretrain(
        name, make_model, settings, text, Path(directory), kind=DistillationTraining, **run
    )
