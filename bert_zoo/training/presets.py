"""The fine-tuning settings of the papers and of the programs that came with them, as data."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from bert_zoo.config import Config
from bert_zoo.data.buckets import Batching
from bert_zoo.models.base import ZooModel
from bert_zoo.training.freezing import freeze, rematerialize
from bert_zoo.training.lora import add_lora
from bert_zoo.training.optimizers import (
    BertAdamW,
    WarmupLinearDecay,
    WarmupThenConstant,
    WarmupThenLinearDecay,
)

# Name -> how the learning rate goes on after its linear warmup.
SCHEDULES = {
    "linear": WarmupLinearDecay,
    "linear_after_warmup": WarmupThenLinearDecay,
    "constant": WarmupThenConstant,
}
AT_LEAST_ONE = (
    "epochs",
    "batch_size",
    "gradient_accumulation_steps",
    "max_length",
    "steps_per_execution",
)


@dataclass(frozen=True)
class Recipe:
    """All that a fine-tuning depends on beside model, data and seed; by default BERT's.

    Attributes:
        epochs: passes over the data; where total_steps is given, the most there may be.
        total_steps: updates of the whole training; without it, epochs say when it ends.
        batch_size: rows of one update.
        gradient_accumulation_steps: batches that an update's rows are computed in, one after the
            other, to save memory.
        learning_rate: the highest, at the end of warmup.
        schedule: "linear" is BERT's, which falls from step 0; "linear_after_warmup" falls from the end
            of warmup; "constant" does not fall.
        warmup_proportion: part of all updates in which the learning rate rises.
        warmup_steps: updates in which it rises, in place of a proportion.
        weight_decay: decoupled, as in AdamW.
        decay_all: whether biases and norms decay too.
        betas: the two decay rates of Adam's moments.
        epsilon: of Adam, added to the root of the second moment.
        bias_correction: whether Adam corrects its moments for their start at zero, which BERT's does not.
        clip_norm: bound on the norm of the gradients; None for none.
        clip_each: whether the bound is on each variable's gradient alone.
        layer_decay: factor of the learning rate from a layer to the one below; see `BertAdamW`.
        max_length: tokens that a text, a pair or a window is cut to.
        stride: of question answering: tokens from the start of one window to the next.
        max_question_length: of question answering: tokens that a question is cut to.
        dropout: in place of all of the checkpoint's rates.
        class_weight: what each class counts in the training loss: "balanced", or by name as in
            "no=1,yes=5" or a mapping; see `class_weights`. Measured losses have no weights.
        group_by_length: whether a batch holds texts of similar length, which saves padding.
        bucket: multiple that lengths of batches are padded to; by default what suits the device, see
            `device_bucket`.
        tokens_per_batch: padded tokens that are in memory at a time, at most: fewer rows where they
            are long; batch_size stays the most rows.
        fixed_shapes: whether all batches have one shape, max_length tokens and no fewer rows, as
            TPUs and XLA want them.
        steps_per_execution: batches that the backend trains on before it answers, which TPUs gain by.
        dtype: a Keras dtype policy, such as mixed_bfloat16.
        rematerialize: whether to train in less memory and more time: the insides of layers are computed
            again; see `rematerialize`.
        freeze_embeddings: whether the embeddings stay as they are.
        freeze_layers: layers, from the lowest, that stay as they are; see `freeze`.
        lora_rank: rank of low-rank updates (LoRA), which alone are trained then; see `add_lora`.
        lora_alpha: LoRA's scale; by default the rank.
        lora_targets: which weights LoRA updates: "attention" or "all".
    """

    epochs: int = 3
    total_steps: int | None = None
    batch_size: int = 32
    gradient_accumulation_steps: int = 1
    learning_rate: float = 5e-5
    schedule: str = "linear"
    warmup_proportion: float = 0.1
    warmup_steps: int | None = None
    weight_decay: float = 0.01
    decay_all: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    bias_correction: bool = False
    clip_norm: float | None = 1.0
    clip_each: bool = False
    layer_decay: float | None = None
    max_length: int = 128
    stride: int = 128
    max_question_length: int = 64
    dropout: float | None = None
    class_weight: str | Mapping[str, float] | None = None
    group_by_length: bool = True
    bucket: int | None = None
    tokens_per_batch: int | None = None
    fixed_shapes: bool = False
    steps_per_execution: int = 1
    dtype: str = "float32"
    rematerialize: bool = False
    freeze_embeddings: bool = False
    freeze_layers: int = 0
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lora_targets: str = "attention"

    def __post_init__(self):
        for name in AT_LEAST_ONE:
            _check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        _check(
            "total_steps",
            self.total_steps,
            self.total_steps is None or self.total_steps >= 1,
            "at least 1, or None",
        )
        _check("learning_rate", self.learning_rate, self.learning_rate > 0, "above 0")
        _check(
            "schedule", self.schedule, self.schedule in SCHEDULES, f"one of {', '.join(SCHEDULES)}"
        )
        _check(
            "warmup_proportion",
            self.warmup_proportion,
            0 <= self.warmup_proportion < 1,
            "a part of the updates, from 0 to below 1",
        )
        _check(
            "warmup_steps",
            self.warmup_steps,
            self.warmup_steps is None or self.warmup_steps >= 0,
            "a number of updates, or None",
        )
        _check(
            "gradient_accumulation_steps",
            self.gradient_accumulation_steps,
            self.batch_size % self.gradient_accumulation_steps == 0,
            f"a divisor of batch_size, {self.batch_size}, the rows of one update",
        )

    @property
    def micro_batch_size(self) -> int:
        """Rows that are in memory at a time: what `model.fit` takes as its batch_size."""
        return self.batch_size // self.gradient_accumulation_steps

    def batching(self, seed: int) -> Batching:
        """How a training's rows are put into batches."""
        return Batching(
            self.micro_batch_size,
            tokens=self.tokens_per_batch,
            group_by_length=self.group_by_length,
            drop_remainder=self.fixed_shapes,
            seed=seed,
        )

    def updates_of(self, batches_per_epoch: int) -> int:
        """Updates of the whole training.

        An update takes its batches across the end of an epoch; those left over at the very end
        make none, unless there is no other.
        """
        batches = batches_per_epoch * self.epochs
        updates = max(1, batches // self.gradient_accumulation_steps)
        return updates if self.total_steps is None else min(updates, self.total_steps)

    def warmup_of(self, total_steps: int) -> int:
        """Updates that warm up in a training of so many.

        Warmup that is told in updates shrinks in proportion where a training is shorter than the
        `total_steps` that it was told with.
        """
        if self.warmup_steps is None:
            return int(total_steps * self.warmup_proportion)
        told = max(self.total_steps or total_steps, total_steps)
        return min(self.warmup_steps * total_steps // told, total_steps)

    def replace(self, **changes: Any) -> "Recipe":
        """The recipe with other settings.

        Raises:
            TypeError: there is no such setting; the message gives the nearest ones.
        """
        known = [setting.name for setting in fields(self)]
        for name in changes:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=3, cutoff=0)
                raise TypeError(f"A recipe has no {name!r}. The nearest are {', '.join(nearest)}.")
        return replace(self, **changes)


def _check(name: str, value: Any, holds: bool, wanted: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}; it must be {wanted}.")


def optimizer_for(recipe: Recipe, total_steps: int) -> BertAdamW:
    """The optimizer of a recipe, with its schedule.

    Args:
        recipe: the settings.
        total_steps: updates of the whole training, as `recipe.updates_of` counts them.
    """
    warmup = recipe.warmup_of(total_steps)
    clipping = "clipnorm" if recipe.clip_each else "global_clipnorm"
    accumulated = recipe.gradient_accumulation_steps
    return BertAdamW(
        SCHEDULES[recipe.schedule](recipe.learning_rate, total_steps, warmup),
        bias_correction=recipe.bias_correction,
        layer_decay=recipe.layer_decay,
        decay_all=recipe.decay_all,
        weight_decay=recipe.weight_decay,
        beta_1=recipe.betas[0],
        beta_2=recipe.betas[1],
        epsilon=recipe.epsilon,
        gradient_accumulation_steps=accumulated if accumulated > 1 else None,
        **{clipping: recipe.clip_norm},
    )


def prepare(model: ZooModel, recipe: Recipe) -> None:
    """Freezes, adds LoRA and rematerializes as a recipe says; call it between `load` and compiling."""
    if recipe.freeze_embeddings or recipe.freeze_layers:
        freeze(model, embeddings=recipe.freeze_embeddings, layers=recipe.freeze_layers)
    if recipe.lora_rank is not None:
        add_lora(model, recipe.lora_rank, recipe.lora_alpha, recipe.lora_targets)
    if recipe.rematerialize:
        rematerialize(model)


def load_options(recipe: Recipe) -> dict[str, Any]:
    """The arguments of `load` that a recipe says."""
    return {
        "max_length": recipe.max_length,
        "dtype": recipe.dtype,
        "dropout": recipe.dropout,
        "padding": "fixed" if recipe.fixed_shapes else "longest",
    }


@dataclass(frozen=True)
class Preset:
    """A published recipe.

    Attributes:
        name: "<family>/<benchmark>", or another word where a family has several for one benchmark.
        tasks: what `load` calls the tasks that it is for.
        recipe: the settings.
        source: where they are published.
        benchmark: the data that they are for; "" where they are for any.
        fits: whether it is for a model of this configuration.
        grid: setting -> the values that the publication chose among on the dev set.
        note: what else to know.
    """

    name: str
    tasks: tuple[str, ...]
    recipe: Recipe
    source: str
    benchmark: str = ""
    fits: Callable[[Config], bool] = lambda config: True
    grid: Mapping[str, tuple] = field(default_factory=dict)
    note: str = ""

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    def candidates(self) -> Iterator[Recipe]:
        """Every recipe of the grid; the preset's own where there is none."""
        for values in product(*self.grid.values()):
            yield self.recipe.replace(**dict(zip(self.grid, values, strict=True)))


SENTENCES = ("classification", "multi_label_classification", "regression")
WORDS = ("token_classification",)
ANSWERS = ("question_answering",)
CHOICES = ("multiple_choice",)


def is_miniature(config: Config) -> bool:
    """Whether a configuration has the width of a released miniature below BERT-base's."""
    return config.hidden_size in (128, 256, 512)


def is_large(config: Config) -> bool:
    return config.hidden_size >= 1024


BERT_GRID = {
    "batch_size": (16, 32),
    "learning_rate": (5e-5, 3e-5, 2e-5),
    "epochs": (2, 3, 4),
}
BERT_SQUAD = Recipe(epochs=2, batch_size=12, learning_rate=3e-5, max_length=384)
BERT = (
    Preset(
        "bert/glue",
        (*SENTENCES, *WORDS),
        Recipe(),
        "google-research/bert run_classifier.py, README.md; grid: Devlin et al. 2018, appendix A.3",
        grid=BERT_GRID,
    ),
    Preset(
        "bert/miniatures",
        (*SENTENCES, *WORDS),
        Recipe(epochs=4, learning_rate=1e-4),
        "google-research/bert README.md, which chooses from the grid for each task",
        fits=is_miniature,
        grid={
            "batch_size": (8, 16, 32, 64, 128),
            "learning_rate": (3e-4, 1e-4, 5e-5, 3e-5),
        },
        note="The middle of the grid.",
    ),
    Preset(
        "bert/mrpc",
        SENTENCES,
        Recipe(learning_rate=2e-5),
        "google-research/bert README.md",
        benchmark="mrpc",
    ),
    Preset(
        "bert/squad",
        ANSWERS,
        BERT_SQUAD,
        "google-research/bert README.md, run_squad.py",
        fits=lambda config: not is_large(config),
    ),
    Preset(
        "bert/squad_large",
        ANSWERS,
        BERT_SQUAD.replace(batch_size=24),
        "google-research/bert README.md, run_squad.py",
        fits=is_large,
    ),
    Preset(
        "bert/swag",
        CHOICES,
        Recipe(batch_size=16, learning_rate=2e-5),
        "Devlin et al. 2018, section 4.4",
    ),
    Preset(
        "bert/race",
        CHOICES,
        Recipe(max_length=512),
        "NoviScl/BERT-RACE, a third party's, which reports 65.0 for BERT-base",
        benchmark="race",
    ),
)

# fairseq's optimizer: bias correction, decay of everything, no clipping.
ROBERTA_RECIPE = Recipe(
    epochs=10,
    learning_rate=1e-5,
    schedule="linear_after_warmup",
    warmup_proportion=0.06,
    weight_decay=0.1,
    decay_all=True,
    betas=(0.9, 0.98),
    bias_correction=True,
    clip_norm=None,
    max_length=512,
)
# Task -> rows an update, learning rate, updates, warmup.
ROBERTA_GLUE = {
    "cola": (16, 1e-5, 5336, 320),
    "mnli": (32, 1e-5, 123873, 7432),
    "mrpc": (16, 1e-5, 2296, 137),
    "qnli": (32, 1e-5, 33112, 1986),
    "qqp": (32, 1e-5, 113272, 28318),
    "rte": (16, 2e-5, 2036, 122),
    "sst2": (32, 1e-5, 20935, 1256),
    "stsb": (16, 2e-5, 3598, 214),
}
ROBERTA = (
    Preset(
        "roberta/glue",
        (*SENTENCES, *WORDS),
        ROBERTA_RECIPE,
        "Liu et al. 2019 (arXiv:1907.11692), table 10",
        grid={"batch_size": (16, 32), "learning_rate": (1e-5, 2e-5, 3e-5)},
    ),
    *(
        Preset(
            f"roberta/{benchmark}",
            SENTENCES,
            ROBERTA_RECIPE.replace(
                batch_size=rows, learning_rate=rate, total_steps=updates, warmup_steps=warmup
            ),
            "fairseq examples/roberta/config/finetuning, examples/roberta/README.glue.md",
            benchmark=benchmark,
            note="Tested there with RoBERTa-large.",
        )
        for benchmark, (rows, rate, updates, warmup) in ROBERTA_GLUE.items()
    ),
    Preset(
        "roberta/squad",
        ANSWERS,
        ROBERTA_RECIPE.replace(epochs=2, batch_size=48, learning_rate=1.5e-5, weight_decay=0.01),
        "Liu et al. 2019 (arXiv:1907.11692), table 10",
        note="The paper does not say how windows overlap; BERT's stride stands in.",
    ),
    Preset(
        "roberta/race",
        CHOICES,
        ROBERTA_RECIPE.replace(
            epochs=5, batch_size=16, weight_decay=0.01, schedule="constant", warmup_proportion=0.0
        ),
        "fairseq examples/roberta/README.race.md",
    ),
)

# Task -> warmup, learning rate, updates, rows an update.
ALBERT_GLUE = {
    "cola": (320, 1e-5, 5336, 16),
    "mnli": (1000, 3e-5, 10000, 128),
    "mrpc": (200, 2e-5, 800, 32),
    "qnli": (1986, 1e-5, 33112, 32),
    "qqp": (1000, 5e-5, 14000, 128),
    "rte": (200, 3e-5, 800, 32),
    "sst2": (1256, 1e-5, 20935, 32),
    "stsb": (214, 2e-5, 3598, 16),
}
# The updates say how long a training is: no number of passes is to cut it short.
ANY_EPOCHS = 1000
ALBERT = (
    Preset(
        "albert/glue",
        (*SENTENCES, *WORDS),
        Recipe(learning_rate=2e-5, max_length=512),
        "google-research/albert run_glue.sh, whose rates run from 1e-5 to 5e-5; epochs are BERT's",
        grid={"batch_size": (16, 32, 128), "learning_rate": (1e-5, 2e-5, 3e-5, 5e-5)},
        note="Google publishes updates for each task of GLUE alone, which say nothing of other data.",
    ),
    *(
        Preset(
            f"albert/{benchmark}",
            SENTENCES,
            Recipe(
                epochs=ANY_EPOCHS,
                total_steps=updates,
                warmup_steps=warmup,
                batch_size=rows,
                learning_rate=rate,
                max_length=512,
            ),
            "google-research/albert run_glue.sh",
            benchmark=benchmark,
        )
        for benchmark, (warmup, rate, updates, rows) in ALBERT_GLUE.items()
    ),
    Preset(
        "albert/squad",
        ANSWERS,
        Recipe(epochs=2, batch_size=48, max_length=384),
        "google-research/albert README.md",
    ),
    Preset(
        "albert/race",
        CHOICES,
        Recipe(
            epochs=ANY_EPOCHS,
            total_steps=12000,
            warmup_steps=1000,
            learning_rate=1e-5,
            max_length=512,
        ),
        "google-research/albert README.md, run_race.py",
        note="Version 2 diverges with dropout in the encoder; its configuration has none.",
    ),
)

# BertAdam clips each gradient alone, and its rate falls from the end of warmup.
SPANBERT_RECIPE = Recipe(learning_rate=2e-5, schedule="linear_after_warmup", clip_each=True)
SPANBERT = (
    Preset(
        "spanbert/rte",
        (*SENTENCES, *WORDS),
        SPANBERT_RECIPE.replace(epochs=10),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="Its one published setting for GLUE, and TACRED's too. Query, key and value are one "
        "gradient here, and three there.",
    ),
    Preset(
        "spanbert/squad",
        ANSWERS,
        SPANBERT_RECIPE.replace(epochs=4, max_length=512),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="Query, key and value are one gradient here, and three there.",
    ),
    Preset(
        "spanbert/swag",
        CHOICES,
        SPANBERT_RECIPE.replace(batch_size=16),
        "Devlin et al. 2018, section 4.4, with SpanBERT's optimizer",
    ),
)

PRESETS: dict[str, Preset] = {
    preset.name: preset for preset in (*BERT, *ROBERTA, *ALBERT, *SPANBERT)
}
# Families of the same architecture as another, whose own publications give no recipe for our tasks.
STAND_INS = {"xlm_roberta": "roberta"}


def preset(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ValueError: there is none; the message gives the nearest names.
    """
    if name not in PRESETS:
        nearest = difflib.get_close_matches(name, PRESETS, n=3, cutoff=0)
        raise ValueError(
            f"There is no preset {name!r}. The nearest are {', '.join(nearest)}; "
            "bert_zoo.training.presets.PRESETS lists all of them."
        )
    return PRESETS[name]


def presets_for(family: str, task: str | None = None) -> list[Preset]:
    """The presets of a family, or of the one that stands in for it.

    Args:
        family: such as "bert".
        task: what `load` calls it; None for all.
    """
    family = STAND_INS.get(family, family)
    return [p for p in PRESETS.values() if p.family == family and task in (None, *p.tasks)]


def default_preset(family: str, config: Config, task: str, benchmark: str = "") -> Preset:
    """What to train a model with where nothing else is said.

    Args:
        family: such as "bert".
        config: of the encoder.
        task: what `load` calls it.
        benchmark: the name of the data, such as "rte". Where there is no preset for it, or none is
            given, the preset for any data is taken that fits the model's size best.

    Raises:
        ValueError: there is no preset for models of this family and task.
    """
    fitting = [p for p in presets_for(family, task) if p.fits(config)]
    benchmark = benchmark.lower().replace("-", "")
    found = [p for p in fitting if benchmark and p.benchmark == benchmark]
    # A preset for one size comes after that for all.
    found = found or [p for p in fitting if not p.benchmark][-1:]
    if not found:
        raise ValueError(
            f"There is no preset for task {task!r} of the family {family}. Make a Recipe of your own. "
            f"Presets are {', '.join(PRESETS)}."
        )
    return found[0]
