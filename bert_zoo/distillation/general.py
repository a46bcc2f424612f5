"""Distillation on plain text: models of a student and its teacher, trained with the rows, resuming and reports of
pretraining."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

import bert_zoo
from bert_zoo.distillation.general_losses import (
    Insides,
    MeanOverTokens,
    attention_score_loss,
    check_can_be_read,
    cosine_loss,
    hidden_state_loss,
    read_by,
    relation_loss,
    relations,
    soft_token_loss,
)
from bert_zoo.distillation.presets import TEXT_PRESETS
from bert_zoo.distillation.students import student_of
from bert_zoo.fields import check
from bert_zoo.layers.common import at_positions, dense
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.models import Encoder, MaskedLM
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.losses import token_loss
from bert_zoo.models.task_model import Use
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.masked import MaskedSettings, MaskedTraining
from bert_zoo.pretraining.run import pretrain
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.tasks.objectives import objective_for
from bert_zoo.tasks.objectives.masking import LABELS, READ_HERE, Masking

# The part of the losses that reads labels of masked tokens; the others read all tokens.
MASKED_TOKENS = "masked_tokens"


def layer_of(layer: int | None, encoder: Encoder) -> int:
    """The number of a teacher's layer, from 1; None means the last."""
    last = encoder.backbone.groups().num_layers
    layer = last if layer is None else layer
    note = "the number of the teacher's layers"
    check("teacher_layer", layer, int, least=1, most=last, note=note)
    return layer


class Distillation(ZooModel):
    """A trainable student, a model for `student_task`, and a fixed teacher with the same vocabulary; returns losses per token.

    Called with the inputs of both, it returns a dict, part -> losses [batch, length]. The labels of a part are
    a mask; the labels of masked tokens are the original tokens. Checkpoints leave the teacher out.
    """

    task = "distillation"
    untracked = ("preprocessor", "teacher", "frozen")
    student_task = Encoder.task  # the task for which both are loaded
    hides_tokens = False  # whether rows are masked
    default_loss_weights: ClassVar[Mapping[str, float]]  # of the parts

    def __init__(self, student: ZooModel, teacher: ZooModel, **kwargs):
        vocabularies = [model.preprocessor.tokenizer.vocabulary for model in (student, teacher)]
        if vocabularies[0] != vocabularies[1]:
            sizes = [f"{len(vocabulary):,}" for vocabulary in vocabularies]
            raise ValueError(
                f"Student and teacher have different vocabularies, of {sizes[0]} and {sizes[1]} tokens. Use a "
                "student with the teacher's vocabulary, such as one made from it (--layers 3)."
            )
        super().__init__(dtype=student.dtype_policy, **kwargs)
        self.student, self.teacher = student, teacher
        self.frozen = [layer for layer in self.unread_layers() if layer.trainable]
        for layer in self.frozen:
            layer.trainable = False
        self.built = True

    def unread_layers(self) -> list[keras.layers.Layer]:
        """The student's layers that no loss reads."""
        return list(self.encoder.backbone.groups().top)

    def trained_student(self) -> ZooModel:
        """The student, with all its layers trainable again."""
        for layer in self.frozen:
            layer.trainable = True
        return self.student

    @property
    def encoder(self) -> Encoder:
        return encoder_of(self)

    def inner(self) -> ZooModel:
        return self.student

    def default_loss(self):
        return {
            part: token_loss() if part == MASKED_TOKENS else MeanOverTokens()
            for part in self.default_loss_weights
        }

    def call(self, inputs, training=None):
        taught = keras.tree.map_structure(ops.stop_gradient, self.taught(inputs))
        return self.compared(inputs, taught, training)

    def taught(self, inputs) -> Any:
        """The teacher's outputs that the losses read."""
        raise NotImplementedError

    def compared(self, inputs, taught, training) -> dict[str, Any]:
        """The student's losses against the result of `taught`."""
        raise NotImplementedError


class TripleDistillation(Distillation):
    """DistilBERT's losses: the teacher's predictions of all tokens, the masked tokens, cosines of hidden states.

    Source: Sanh et al. 2019 (arXiv:1910.01108); huggingface/transformers research_projects/distillation.
    """

    student_task = MaskedLM.task
    hides_tokens = True
    default_loss_weights: ClassVar = {"soft_tokens": 5.0, MASKED_TOKENS: 2.0, "cosine": 1.0}
    temperature = 2.0

    def __init__(self, student: MaskedLM, teacher: MaskedLM, **kwargs):
        for model, role in ((student, "student"), (teacher, "teacher")):
            if not isinstance(model, MaskedLM):
                raise ValueError(
                    f"The {role} predicts no masked tokens, which the triple loss needs. Use a checkpoint "
                    "from bert_zoo.list_models(provides='masked_lm'), or another objective."
                )
        super().__init__(student, teacher, **kwargs)
        widths = [model.encoder.config.hidden_size for model in (student, teacher)]
        if widths[0] != widths[1]:
            raise ValueError(
                f"The student's hidden size is {widths[0]} and the teacher's {widths[1]}. They must be equal, as "
                "the triple loss compares hidden states. Choose objective='layers' or 'relations', or a "
                "student of the teacher's width."
            )

    def taught(self, inputs):
        return _predicted(self.teacher, inputs, training=False)

    def compared(self, inputs, taught, training):
        states, logits = _predicted(self.student, inputs, training)
        return {
            "soft_tokens": soft_token_loss(logits, taught[1], self.temperature),
            MASKED_TOKENS: at_positions(logits, inputs["mask_positions"]),
            "cosine": cosine_loss(states, taught[0]),
        }


def _predicted(model: MaskedLM, inputs, training) -> tuple[Any, Any]:
    """Last hidden states [batch, length, hidden] and logits of all tokens [batch, length, vocabulary]."""
    read = read_by(model.encoder, inputs)
    encoded = model.encoder.unmasked(read, internals=True, training=training)
    return encoded["sequence_output"], model.head_outputs(encoded, read, training)


class AttentionDistillation(Distillation):
    """Base of objectives that compare queries, keys or values."""

    compares_heads = False  # one by one, so that both encoders need the same number

    def __init__(self, student: Encoder, teacher: Encoder, **kwargs):
        check_can_be_read(student, "student")
        check_can_be_read(teacher, "teacher")
        super().__init__(student, teacher, **kwargs)
        heads = [model.config.num_heads for model in (student, teacher)]
        if self.compares_heads and heads[0] != heads[1]:
            raise ValueError(
                f"The student has {heads[0]} heads and the teacher {heads[1]}. This objective compares heads "
                "one by one. Use a student with the teacher's number, or objective='relations'."
            )

    @property
    def num_layers(self) -> int:
        return self.student.backbone.groups().num_layers


class LayerDistillation(AttentionDistillation):
    """TinyBERT's losses: attention scores and hidden states of every layer, and the embeddings.

    If the widths differ, one projection, shared by all layers, maps the student's hidden states. It is
    trained with the student and then discarded. `layer_map` is the teacher's layer, from 1, for each of the student's;
    by default evenly spaced layers, up to the last. Both encoders have the same number of heads.

    Source: Jiao et al. 2020 (arXiv:1909.10351); huawei-noah/Pretrained-Language-Model TinyBERT,
    general_distill.py, which sums the losses of layers.
    """

    compares_heads = True
    default_loss_weights: ClassVar = {"attention_scores": 1.0, "hidden_states": 1.0}

    def __init__(
        self,
        student: Encoder,
        teacher: Encoder,
        *,
        layer_map: Sequence[int] | None = None,
        **kwargs,
    ):
        super().__init__(student, teacher, **kwargs)
        self.layer_map = self._checked(layer_map)
        config, width = student.config, teacher.config.hidden_size
        self.projection = None
        if config.hidden_size != width:
            self.projection = dense(
                width, "projection", stddev=config.initializer_range, dtype=self.dtype_policy
            )
            self.projection.build((None, None, config.hidden_size))

    def _checked(self, layer_map: Sequence[int] | None) -> tuple[int, ...]:
        layers, taught = self.num_layers, self.teacher.backbone.groups().num_layers
        if layer_map is None:
            if taught % layers:
                raise ValueError(
                    f"The teacher's number of layers, {taught}, is not a multiple of the student's, {layers}. "
                    f"Pass layer_map, {layers} numbers from 1 to {taught}: the teacher's layer for each."
                )
            return tuple(range(taught // layers, taught + 1, taught // layers))
        if len(layer_map) != layers:
            raise ValueError(
                f"layer_map is {tuple(layer_map)}; it must have {layers} numbers, one per layer of the student."
            )
        return tuple(layer_of(layer, self.teacher) for layer in layer_map)

    def taught(self, inputs):
        insides = Insides(self.teacher, inputs, max(self.layer_map), training=False)
        return (
            [insides.scores(layer) for layer in self.layer_map],
            [insides.states[layer] for layer in (0, *self.layer_map)],
        )

    def compared(self, inputs, taught, training):
        scores, states = taught
        insides = Insides(self.student, inputs, self.num_layers, training)
        mask = inputs["padding_mask"]
        return {
            "attention_scores": sum(
                attention_score_loss(insides.scores(layer), wanted, mask)
                for layer, wanted in enumerate(scores, 1)
            ),
            "hidden_states": sum(
                hidden_state_loss(self._projected(state), wanted)
                for state, wanted in zip(insides.states, states, strict=True)
            ),
        }

    def _projected(self, state):
        return state if self.projection is None else self.projection(state)


class LastLayerDistillation(AttentionDistillation):
    """Base of objectives that compare one layer of the teacher, by default the last, with the student's last.

    Nothing above the student's last queries, keys and values is computed or trained.
    """

    def __init__(
        self, student: Encoder, teacher: Encoder, *, teacher_layer: int | None = None, **kwargs
    ):
        super().__init__(student, teacher, **kwargs)
        self.teacher_layer = layer_of(teacher_layer, teacher)

    def unread_layers(self):
        unread = super().unread_layers()
        below, above = self.encoder.backbone.groups().blocks_around(self.num_layers - 1)
        for number in above - below:
            block = self.encoder.backbone.stack.blocks[number]
            unread += [block.attention.output_dense, block.attention_norm]
            unread += [block.feed_forward, block.output_norm]
        return unread

    def taught(self, inputs):
        return self.scores(self.teacher, self.teacher_layer, inputs, training=False)

    def compared(self, inputs, taught, training):
        found = self.scores(self.student, self.num_layers, inputs, training)
        mask = inputs["padding_mask"]
        return {part: relation_loss(found[part], taught[part], mask) for part in found}

    def scores(self, encoder: Encoder, layer: int, inputs, training) -> dict[str, Any]:
        """Part -> scores of a layer, [batch, heads, length, length]."""
        insides = Insides(encoder, inputs, layer - 1, training)
        return self.relations_of(insides, layer)

    def relations_of(self, insides: Insides, layer: int) -> dict[str, Any]:
        raise NotImplementedError


class ValueRelationDistillation(LastLayerDistillation):
    """MiniLM's losses, version 1: attention distributions and relations of values, for equal numbers of heads.

    Source: Wang et al. 2020 (arXiv:2002.10957).
    """

    compares_heads = True
    default_loss_weights: ClassVar = {"attention": 1.0, "value_relations": 1.0}

    def relations_of(self, insides, layer):
        query, key, value = insides.projections(layer)
        heads = insides.block(layer).attention.num_heads
        return {
            "attention": relations(query, key, heads),
            "value_relations": relations(value, value, heads),
        }


class RelationDistillation(LastLayerDistillation):
    """MiniLM's losses, version 2: relations of queries, of keys and of values, for any numbers of heads.

    The paper uses the last layer of base models, layer 21 of BERT-large, and layer 19 of RoBERTa-large and XLM-R-large.
    `relation_heads` is the number of parts into which vectors are divided; by default 48 as in the paper (which uses 64
    for large models), or the next smaller number that divides both widths.

    Source: Wang et al. 2021 (arXiv:2012.15828).
    """

    default_loss_weights: ClassVar = {"queries": 1.0, "keys": 1.0, "values": 1.0}
    PAPERS_HEADS = 48

    def __init__(
        self, student: Encoder, teacher: Encoder, *, relation_heads: int | None = None, **kwargs
    ):
        super().__init__(student, teacher, **kwargs)
        width = math.gcd(student.config.hidden_size, teacher.config.hidden_size)
        divisors = [n for n in range(1, width + 1) if width % n == 0]
        if relation_heads is None:
            relation_heads = max(n for n in divisors if n <= self.PAPERS_HEADS)
        if relation_heads not in divisors:
            raise ValueError(
                f"relation_heads is {relation_heads!r}; it must divide the hidden sizes of student and teacher, "
                f"{student.config.hidden_size} and {teacher.config.hidden_size}. Choose one of "
                f"{', '.join(map(str, divisors))}."
            )
        self.relation_heads = relation_heads

    def relations_of(self, insides, layer):
        vectors = zip(self.default_loss_weights, insides.projections(layer), strict=True)
        return {part: relations(x, x, self.relation_heads) for part, x in vectors}


# Keys of `bert_zoo.distillation.presets.TEXT_PRESETS` -> class; options are its arguments and attributes.
DISTILLATIONS: dict[str, type[Distillation]] = {
    "triple": TripleDistillation,
    "layers": LayerDistillation,
    "relations_v1": ValueRelationDistillation,
    "relations": RelationDistillation,
}


# --- Training ---

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


class DistillationTraining(MaskedTraining):
    """Trains a `Distillation` on rows of text. Arguments: as `MaskedTraining`."""

    mlm_only = False
    compares_with_unigrams = False
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
    check("objective", objective, str, choices=DISTILLATIONS)
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
