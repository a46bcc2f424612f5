"""Distillation on plain text: a training beside those of pretraining, with their rows, resuming and reports."""

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
from bert_zoo.pretraining.masked import MaskedTraining, Settings
from bert_zoo.pretraining.measuring import HeldOut
from bert_zoo.pretraining.run import pretrain
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.tasks.objectives import objective_for
from bert_zoo.tasks.objectives.masking import LABELS, READ_HERE, Masking

# Full rows of a text, and BERT's masks where tokens are hidden. DistilBERT hides rare tokens more often.
ROWS, MASKING = "full_sentences", "masked_tokens"


@dataclass(frozen=True)
class DistillationSettings(Settings):
    """Those of a pretraining, and `taught`: what `config.json` says of teacher and student."""

    taught: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaughtRows:
    """From rows to what a `Distillation` reads: inputs, and the labels of each part of its losses.

    Attributes:
        parts: the parts.
        masking: what hides tokens; None for nothing.
    """

    parts: Sequence[str]
    masking: Masking | None
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
    """Text that a student is measured on; counting tokens says nothing of its losses."""

    def unigram_loss(self, counts):
        return None


class DistillationTraining(MaskedTraining):
    """A student with its teacher, and the rows of a text that it learns from.

    Arguments: as `MaskedTraining`, with a `Distillation`.
    """

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
        """Of a student that predicts masked tokens; none of others."""
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
    """Trains a student to do as its teacher does on plain text, and writes a run directory.

    The student, `model` of the directory, is an ordinary model of its family: an encoder, of the objective
    "triple" one with a head for masked tokens. A training that was stopped goes on, as
    `bert_zoo.pretraining.run.pretrain` says.

    Args:
        teacher: what `load` takes.
        text, directory: as of `pretrain`.
        student: what `load` takes, with the teacher's vocabulary; None for one that is made from the teacher.
        layers, hidden_size, num_heads: of one that is made, as `student_of` takes them.
        objective: a key of `bert_zoo.distillation.presets.TEXT_PRESETS`: "triple" (DistilBERT), "layers"
            (TinyBERT), "relations_v1" or "relations" (MiniLM, versions 1 and 2).
        options: of the objective: `layer_map`; `teacher_layer`, `relation_heads`.
        changes: of the objective's published settings, by names of `Recipe`: `total_steps` says how long it
            trains, `max_length` how many tokens a row has.
        seconds: a budget of time in place of `total_steps`.
        **run: further arguments of `pretrain`, such as `held_out` and `seed`.

    Returns:
        What `metrics.json` holds: losses before and after on text that is set aside, among others.

    Raises:
        ValueError: student, teacher, objective and options do not fit; or as `pretrain`.
    """
    if objective not in DISTILLATIONS:
        raise ValueError(f"objective is {objective!r}; it is one of {', '.join(DISTILLATIONS)}.")
    kind, preset = DISTILLATIONS[objective], TEXT_PRESETS[objective]
    if unknown := sorted({*(options or {})} - {*preset.options}):
        raise ValueError(
            f"The objective {objective!r} has no {', '.join(unknown)}. It has "
            f"{', '.join(preset.options) or 'no options'}."
        )
    if (student is None) == (layers is None):
        raise ValueError(
            "Give either a student that there is, or the number of layers of one that is made."
        )
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
