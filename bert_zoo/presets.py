"""Settings of trainings as data, which the pages of families publish.

Nothing here imports TensorFlow or Keras.
"""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from bert_zoo.config import Config

if TYPE_CHECKING:
    from bert_zoo.data.buckets import Batching

# How the learning rate goes on after its linear warmup; `bert_zoo.training.presets` has the classes.
SCHEDULES = ("linear", "linear_after_warmup", "constant")
OPTIMIZERS = ("adamw", "lamb")
AT_LEAST_ONE = ("epochs", "batch_size", "max_length", "steps_per_execution")


@dataclass(frozen=True)
class Recipe:
    """All that a fine-tuning depends on beside model, data and seed; by default BERT's.

    Attributes:
        epochs: passes over the data; where total_steps is given, the most there may be.
        least_updates: of the whole training: data so small that its epochs make fewer gets smaller
            batches, where `least_batch_size` allows them, and then more epochs (Zhang et al. 2021,
            arXiv:2006.05987, section 6).
        total_steps: updates of the whole training; without it, epochs say when it ends.
        batch_size: rows of one update.
        least_batch_size: rows that `for_examples` may halve `batch_size` down to; None for no fewer.
        gradient_accumulation_steps: batches that an update's rows are computed in, one after the
            other, to save memory.
        optimizer: "adamw", or "lamb" for batches of thousands of rows; see `BertLamb`.
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
        head_initializer_range: standard deviation of the randomly initialised head, in place of the
            configuration's `initializer_range`; see `set_head_range`.
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
        dtype: a Keras dtype policy, such as mixed_bfloat16, which is slower than float32 on processors
            without instructions for it.
        rematerialize: whether to train in less memory and more time: the insides of layers are computed
            again; see `rematerialize`.
        freeze_embeddings: whether the embeddings stay as they are.
        freeze_layers: layers, from the lowest, that stay as they are; see `freeze`.
        reinitialized_layers: layers, from the highest, that begin randomly initialised; see
            `reinitialize`.
        lora_rank: rank of low-rank updates (LoRA), which alone are trained then; see `add_lora`.
        lora_alpha: LoRA's scale; by default the rank.
        lora_targets: which weights LoRA updates: "attention" or "all".
    """

    epochs: int = 3
    least_updates: int = 0
    total_steps: int | None = None
    batch_size: int = 32
    least_batch_size: int | None = None
    gradient_accumulation_steps: int = 1
    optimizer: str = "adamw"
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
    head_initializer_range: float | None = None
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
    reinitialized_layers: int = 0
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lora_targets: str = "attention"

    def __post_init__(self):
        rows, accumulated = self.batch_size, self.gradient_accumulation_steps
        checks = {name: (getattr(self, name) >= 1, "at least 1") for name in AT_LEAST_ONE}
        checks |= {
            "total_steps": (
                self.total_steps is None or self.total_steps >= 1,
                "at least 1, or None",
            ),
            "least_batch_size": (
                self.least_batch_size is None or self.least_batch_size >= 1,
                "at least 1, or None",
            ),
            "optimizer": (self.optimizer in OPTIMIZERS, f"one of {', '.join(OPTIMIZERS)}"),
            "learning_rate": (self.learning_rate > 0, "above 0"),
            "head_initializer_range": (
                self.head_initializer_range is None or self.head_initializer_range > 0,
                "above 0, or None",
            ),
            "schedule": (self.schedule in SCHEDULES, f"one of {', '.join(SCHEDULES)}"),
            "warmup_proportion": (
                0 <= self.warmup_proportion < 1,
                "a part of the updates, from 0 to below 1",
            ),
            "least_updates": (self.least_updates >= 0, "a number of updates, 0 for any"),
            "warmup_steps": ((self.warmup_steps or 0) >= 0, "a number of updates, or None"),
            "gradient_accumulation_steps": (
                accumulated >= 1 and rows % accumulated == 0,
                f"a divisor of batch_size, {rows}, the rows of one update",
            ),
        }
        for name, (holds, wanted) in checks.items():
            if not holds:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be {wanted}.")

    @property
    def micro_batch_size(self) -> int:
        """Rows that are in memory at a time: what `model.fit` takes as its batch_size."""
        return self.batch_size // self.gradient_accumulation_steps

    def batching(self, seed: int) -> "Batching":
        """How a training's rows are put into batches."""
        from bert_zoo.data.buckets import Batching

        return Batching(
            self.micro_batch_size,
            tokens=self.tokens_per_batch,
            group_by_length=self.group_by_length,
            drop_remainder=self.fixed_shapes,
            seed=seed,
        )

    def for_examples(self, examples: int) -> "Recipe":
        """The recipe for data of so many examples, by `least_updates` and `least_batch_size`.

        Smaller batches come before more epochs, which take more time.
        """
        if self.least_batch_size is None or self.total_steps is not None:
            return self
        rows = self.batch_size
        while (
            self.epochs * math.ceil(examples / rows) < self.least_updates
            and rows % (2 * self.gradient_accumulation_steps) == 0
            and rows // 2 >= self.least_batch_size
        ):
            rows //= 2
        return self.replace(batch_size=rows)

    def epochs_of(self, batches_per_epoch: int) -> int:
        """Passes over data of so many batches."""
        batches = self.least_updates * self.gradient_accumulation_steps
        return max(self.epochs, math.ceil(batches / batches_per_epoch))

    def updates_of(self, batches_per_epoch: int) -> int:
        """Updates of the whole training.

        An update takes its batches across the end of an epoch; those left over at the very end
        make none, unless there is no other.
        """
        batches = batches_per_epoch * self.epochs_of(batches_per_epoch)
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


@dataclass(frozen=True)
class Preset:
    """A published recipe."""

    # "<family>/<benchmark>", or another word where a family has several for one benchmark.
    name: str
    tasks: tuple[str, ...]  # what `load` calls the tasks that it is for
    recipe: Recipe  # the settings
    source: str  # where they are published
    benchmark: str = ""  # the data that they are for; "" where they are for any
    # Whether it is for a model of this configuration.
    fits: Callable[[Config], bool] = lambda config: True
    # Setting -> the values that the publication chose among on the dev set.
    grid: Mapping[str, tuple] = field(default_factory=dict)
    note: str = ""  # what else to know

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    def candidates(self) -> Iterator[Recipe]:
        """Every recipe of the grid; the preset's own where there is none."""
        for values in product(*self.grid.values()):
            yield self.recipe.replace(**dict(zip(self.grid, values, strict=True)))


# Rows that go on where those of the batch before ended, for a model with a memory.
STREAMED = "streamed_pairs"
# What a row of pretraining is; `bert_zoo.data.pretraining_rows` has the schemes.
ROWS = (
    *("next_sentence", "sentence_order", "full_sentences", "doc_sentences", "packed_documents"),
    STREAMED,
    *("languages", "translations"),
)
PAIRS = ROWS[:2]
# Of a text in several languages.
MULTILINGUAL = ROWS[-2:]
PRETRAINING_SIZES = ("nano", "mini", "small", "base", "large")


@dataclass(frozen=True)
class PretrainingSize:
    """A model to pretrain.

    Attributes:
        config: fields of the family's configuration, `vocab_size` of a vocabulary that is made.
        changes: settings in place of the preset's, by names of `Recipe`.
        phases: as in `PretrainingPreset`; empty for the preset's.
        objective: a key of `bert_zoo.objectives.OBJECTIVES`; empty for the family's.
        starts_from_frequencies: whether the head for masked tokens begins with how often each token
            occurs in the text.
    """

    config: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    phases: tuple[tuple[int, float], ...] = ()
    objective: str = ""
    starts_from_frequencies: bool = False


@dataclass(frozen=True)
class PretrainingPreset:
    """How models of a family are pretrained from nothing.

    Attributes:
        rows: one of `ROWS`.
        recipe: the settings; `total_steps` are all updates, and `max_length` is said by `phases`.
        phases: tokens of a row, and the share of the updates (or of the time) with rows of that
            length; one after the other.
        sizes: name, one of `PRETRAINING_SIZES` -> the model.
        vocabulary: kind of a vocabulary that is made of the text: "wordpiece", "byte_bpe",
            "byte_bpe_bracketed", "word_bpe", "sentencepiece", "sentencepiece_cased" or
            "sentencepiece_plain".
        lowercase: whether texts are lower-cased by it.
        source: where the settings are published.
    """

    rows: str
    recipe: Recipe
    phases: tuple[tuple[int, float], ...]
    sizes: Mapping[str, PretrainingSize]
    vocabulary: str
    lowercase: bool
    source: str

    def __post_init__(self):
        for phases in (self.phases, *(size.phases for size in self.sizes.values())):
            if phases and abs(sum(share for _, share in phases) - 1) > 1e-9:
                raise ValueError(f"phases are {phases}; their shares must add up to 1.")

    def of_size(self, size: str) -> tuple["PretrainingPreset", PretrainingSize]:
        """The preset with a size's settings, and the size.

        Raises:
            ValueError: there is no such size.
        """
        if size not in self.sizes:
            raise ValueError(f"size is {size!r}; it is one of {', '.join(self.sizes)}.")
        chosen = self.sizes[size]
        recipe = self.recipe.replace(**chosen.changes)
        return replace(self, recipe=recipe, phases=chosen.phases or self.phases), chosen


# On going on with a checkpoint, on texts of a domain: Gururangan et al. 2020 (arXiv:2004.10964), appendix
# B, have this rate for 256 rows and Adam's second moment; rows are fewer here, for small texts.
ADAPTATION = Recipe(
    batch_size=64,
    learning_rate=1e-4,
    schedule="linear_after_warmup",
    warmup_proportion=0.06,
    betas=(0.9, 0.98),
    max_length=128,
)
# Of sizes below the papers': settings of our own, for texts of some megabytes and a few cores.
# docs/pretraining.md has what they were chosen by.
SMALL_SCALE = {
    "optimizer": "adamw",
    "batch_size": 128,
    "total_steps": 20_000,
    "warmup_steps": 1_000,
    "learning_rate": 1e-3,
    "clip_norm": 1.0,
}


@dataclass(frozen=True)
class Reading:
    """How a stream is read when it is evaluated; fields without a comment are the configuration's."""

    segment_length: int  # tokens of a row in one step
    mem_len: int
    clamp_len: int = -1
    same_length: bool = True
    batch_size: int = 10  # rows a step

    @property
    def settings(self) -> dict[str, Any]:
        """What of it the encoder's configuration holds."""
        return {name: getattr(self, name) for name in ("mem_len", "clamp_len", "same_length")}


@dataclass(frozen=True)
class LanguageModelPreset:
    """A language model and its training; fields without a comment are `language_model_adam`'s."""

    name: str  # what it is chosen by
    family: str  # of the model
    config: Mapping[str, Any]  # of the family's configuration; `vocab_size` is the vocabulary's
    unit: str  # what a token of the text is: "word", "character", "byte" or "subword"
    batch_size: int  # rows a step
    segment_length: int  # tokens of a row in one step; training's memory is `mem_len` of `config`
    total_steps: int
    evaluation: Reading  # how the paper read the test set
    size: str = ""  # what `bert_zoo pretrain` calls it, one of `PRETRAINING_SIZES`; "" for none
    vocab_size: int | None = None  # the most tokens of a vocabulary that is made here; None for all
    learning_rate: float = 2.5e-4
    warmup_steps: int = 0
    floor: float = 0.004
    clip_norm: float = 0.25
    space_token: str | None = None  # what stands for a space among characters

    @property
    def warmup_proportion(self) -> float:
        """The part of the training in which the learning rate rises."""
        return self.warmup_steps / self.total_steps

    def with_steps(self, total_steps: int) -> "LanguageModelPreset":
        """The same for a training of another length, of which the same part warms up."""
        warmup = round(total_steps * self.warmup_proportion)
        return replace(self, total_steps=total_steps, warmup_steps=warmup)


# On going on with a language model: settings of our own.
STREAM_ADAPTATION = LanguageModelPreset(
    name="adaptation",
    family="",
    config={},
    unit="word",
    batch_size=32,
    segment_length=64,
    total_steps=1_000,
    evaluation=Reading(64, 64),
    learning_rate=1e-4,
    warmup_steps=60,
)
# The same for those whose positions end: rows are as long as there are positions.
ROW_ADAPTATION = replace(
    STREAM_ADAPTATION, unit="subword", batch_size=8, learning_rate=5e-5, clip_norm=1.0
)
