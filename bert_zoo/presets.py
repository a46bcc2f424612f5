"""Settings of trainings as data, which the pages of families publish.

Nothing here imports TensorFlow or Keras.
"""

import difflib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from bert_zoo.config import HEAD_KINDS, Config, HeadSpec

if TYPE_CHECKING:
    from bert_zoo.data.buckets import Batching
    from bert_zoo.data.rows import Scheme

# How the learning rate goes on after its linear warmup; `bert_zoo.training.presets` has the classes.
SCHEDULES = ("linear", "linear_after_warmup", "constant", "inverse_sqrt", "slanted_triangular")
OPTIMIZERS = ("adamw", "lamb", "adafactor")
# Limit of a setting -> whether a value keeps to it, and how it is called.
LIMITS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "least": (operator.ge, "at least"),
    "above": (operator.gt, "above"),
    "below": (operator.lt, "below"),
    "choices": (lambda value, choices: value in choices, "one of"),
}


def setting(default: Any, text: str, **limits: Any) -> Any:
    """A field of a dataclass of settings.

    Args:
        default: its value if none is given.
        text: what it means; `--help` shows it up to the first ";" or ".", `--helpfull` all of it.
        **limits: what it may be: `least`, `above`, `below` or `choices`; None may be anything.
    """
    return field(default=default, metadata={"help": text, "limits": limits})


def check_limits(settings: Any) -> None:
    """Raises ValueError for a field that is outside of its limits."""
    for each in fields(settings):
        value, limits = getattr(settings, each.name), each.metadata["limits"]
        for limit, bound in limits.items():
            holds, wanted = LIMITS[limit]
            if value is not None and not holds(value, bound):
                shown = ", ".join(bound) if limit == "choices" else bound
                or_none = ", or None" if each.default is None else ""
                raise ValueError(f"{each.name} is {value!r}; it must be {wanted} {shown}{or_none}.")


# Settings that say how an encoder is trained.
OF_ENCODERS = (
    *("layer_decay", "freeze_embeddings", "freeze_layers", "reinitialized_layers", "lora_rank"),
    *("gradual_unfreezing", "rematerialize"),
)


@dataclass(frozen=True)
class Recipe:
    """All settings of a fine-tuning beside model, data and seed; by default BERT's."""

    epochs: int = setting(3, "Passes over the data; the most, where total_steps is given.", least=1)
    least_updates: int = setting(
        0,
        "The fewest updates of the whole training; for small data, first batches get smaller, down to "
        "least_batch_size, then epochs are added (Zhang et al. 2021, arXiv:2006.05987, section 6).",
        least=0,
    )
    total_steps: int | None = setting(None, "Updates of the training; else epochs end it.", least=1)
    batch_size: int = setting(32, "Rows of one update.", least=1)
    least_batch_size: int | None = setting(
        None,
        "How far least_updates may halve batch_size; if not set, not at all.",
        least=1,
    )
    gradient_accumulation_steps: int = setting(
        1, "Batches that an update's rows are computed in, one after the other, to save memory."
    )
    optimizer: str = setting(
        "adamw",
        "One of adamw, lamb, adafactor; lamb is for batches of thousands of rows, see BertLamb; adafactor is "
        "T5's, see Adafactor.",
        choices=OPTIMIZERS,
    )
    learning_rate: float = setting(5e-5, "The highest one, at the end of warmup.", above=0)
    schedule: str = setting(
        "linear",
        "One of linear, linear_after_warmup, constant, inverse_sqrt, slanted_triangular; linear is BERT's, which "
        "falls from step 0, linear_after_warmup falls from the end of warmup, inverse_sqrt is T5's, which stays at "
        "the highest rate during warmup, slanted_triangular is ULMFiT's, from and to a 32nd of the highest rate.",
        choices=SCHEDULES,
    )
    warmup_proportion: float = setting(
        0.1, "Share of all updates in which the learning rate rises.", least=0, below=1
    )
    warmup_steps: int | None = setting(None, "Updates of warmup, in place of a share.", least=0)
    weight_decay: float = setting(0.01, "Decoupled, as in AdamW.")
    decay_all: bool = setting(False, "Whether biases and norms decay too.")
    betas: tuple[float, float] = setting((0.9, 0.999), "The decay rates of Adam's two moments.")
    epsilon: float = setting(1e-6, "Added to the root of Adam's second moment.")
    bias_correction: bool = setting(
        False, "Whether Adam corrects its moments for their start at zero; BERT's does not."
    )
    clip_norm: float | None = setting(1.0, "Bound on the norm of the gradients; none if not set.")
    clip_each: bool = setting(False, "Whether the bound is on each variable's gradient alone.")
    layer_decay: float | None = setting(
        None, "Factor of the learning rate from a layer to the one below; see BertAdamW."
    )
    max_length: int = setting(128, "Tokens that a text, pair or window is cut to.", least=1)
    stride: int | None = setting(
        None,
        "Of question answering, tokens from one window's start to the next; by default 128, of windows of "
        "more than 512 tokens all but 384.",
    )
    max_question_length: int = setting(64, "Tokens that a question is cut to.")
    dropout: float | None = setting(None, "Rate in place of all of the checkpoint's rates.")
    attention_dropout: float | None = setting(
        None,
        "Rate on attention's probabilities, in place of dropout and the checkpoint's; with 0, training "
        "on a GPU may take a kernel that keeps none of them.",
        least=0,
        below=1,
    )
    features: str | None = setting(
        None,
        "Layers of the encoder that the head reads, which is then all that is trained: mix, top, concat4, 3, ...; "
        "see load.",
    )
    head: str | None = setting(
        None,
        "What stands on the encoder: linear, concatenated or bilstm; by default the family's own head; see load.",
        choices=HEAD_KINDS,
    )
    head_size: int | None = setting(
        None, "Size of a bilstm in each direction; by default the encoder's hidden size.", least=1
    )
    head_initializer_range: float | None = setting(
        None,
        "Standard deviation of the randomly initialised head; by default the configuration's "
        "initializer_range. See set_head_range.",
        above=0,
    )
    class_weight: str | Mapping[str, float] | None = setting(
        None,
        'What each class counts in the training loss: "balanced", or by name, as in "no=1,yes=5" or a '
        "mapping; see class_weights. Measured losses have no weights.",
    )
    group_by_length: bool = setting(True, "Whether texts of a batch are of similar length.")
    bucket: int | None = setting(
        None,
        "Multiple that lengths are padded to; by default what suits the device (device_bucket).",
    )
    tokens_per_batch: int | None = setting(
        None,
        "The most padded tokens in memory at a time; a batch of long texts has fewer rows.",
    )
    fixed_shapes: bool = setting(
        False,
        "Whether all batches have one shape (max_length tokens, all rows), for TPUs and XLA.",
    )
    steps_per_execution: int = setting(
        1, "Batches that the backend trains on before it answers; more help on TPUs.", least=1
    )
    dtype: str = setting(
        "float32",
        "A Keras dtype policy, such as mixed_bfloat16; slow on processors without instructions for it.",
    )
    rematerialize: bool = setting(
        False,
        "Whether the insides of layers are computed again, for less memory and more time.",
    )
    freeze_embeddings: bool = setting(False, "Whether the embeddings are not trained.")
    freeze_layers: int = setting(0, "The lowest layers that are not trained; see freeze.")
    gradual_unfreezing: bool = setting(
        False,
        "Whether the head alone is trained in the first epoch, and in each further one the next layer below too, "
        "the embeddings last (ULMFiT); see BertAdamW.",
    )
    reinitialized_layers: int = setting(0, "The highest layers that begin randomly initialised.")
    lora_rank: int | None = setting(
        None, "Rank of low-rank updates (LoRA); if set, nothing else is trained, see add_lora."
    )
    lora_alpha: float | None = setting(None, "LoRA's scale; by default the rank.")
    lora_targets: str = setting("attention", "Weights that LoRA updates: attention or all.")
    loss: str | None = setting(
        None,
        "Of pairs of texts with scores, cosine_regression in place of a loss of their order.",
        choices=("cosine_regression",),
    )
    symmetric: bool = setting(
        False, "Whether anchors are sought by their positives too, in pairs and triplets of texts."
    )
    matryoshka: tuple[int, ...] = setting(
        (), "Dimensions of sentence vectors whose first ones alone are trained too."
    )
    mini_batch_size: int | None = setting(
        None,
        "Texts that are in memory at a time, of a batch whose rows are all compared; takes a third more time.",
        least=1,
    )
    contrastive_pairs: int = setting(
        0,
        "Pairs of its class, and as many of others, that each text is trained in; the classifier is then a "
        "logistic regression on sentence vectors (SetFit).",
        least=0,
    )

    def __post_init__(self):
        check_limits(self)
        rows, accumulated = self.batch_size, self.gradient_accumulation_steps
        if accumulated < 1 or rows % accumulated:
            raise ValueError(
                f"gradient_accumulation_steps is {accumulated}; it must be a divisor of batch_size, "
                f"{rows}, the rows of one update."
            )
        if self.optimizer == "adafactor" and (
            self.weight_decay or self.layer_decay or self.gradual_unfreezing
        ):
            raise ValueError(
                f"weight_decay is {self.weight_decay} and layer_decay {self.layer_decay}, gradual_unfreezing is "
                f"{self.gradual_unfreezing}, and the optimizer adafactor has none of these. Set them to 0, None "
                "and False."
            )
        HeadSpec.asked(self.features, self.head, self.head_size)
        if self.features is not None:
            trains = [name for name in OF_ENCODERS if getattr(self, name) != getattr(Recipe, name)]
            if trains:
                raise ValueError(
                    f"features is {self.features!r}, with which the encoder is not trained, and {trains} are "
                    "about its training. Leave them out."
                )

    @property
    def micro_batch_size(self) -> int:
        """Rows that are in memory at a time: what `model.fit` takes as its batch_size."""
        return self.batch_size // self.gradient_accumulation_steps

    @property
    def predicted_rows(self) -> int:
        """Rows that are predicted at a time: several times those of training, as nothing is kept."""
        rows = self.micro_batch_size
        if self.tokens_per_batch is not None:
            rows = min(rows, max(self.tokens_per_batch // self.max_length, 1))
        return 4 * rows

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
        """The recipe for data of this size, by `least_updates` and `least_batch_size`.

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

    def updates_per_group(self, total_steps: int | None) -> int | None:
        """Updates after which `gradual_unfreezing` trains the next group; None for all from the start."""
        if not self.gradual_unfreezing or total_steps is None:
            return None
        return max(1, total_steps // self.epochs)

    def epochs_of(self, batches_per_epoch: int) -> int:
        """Passes over data with this number of batches."""
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
        """Updates of warmup in a training of `total_steps` updates.

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
        known = [each.name for each in fields(self)]
        for name in changes:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=3, cutoff=0)
                raise TypeError(f"A recipe has no {name!r}. The nearest are {', '.join(nearest)}.")
        return replace(self, **changes)


@dataclass(frozen=True)
class Preset:
    """A published recipe."""

    # "<family>/<benchmark>", or another word where a family has several for one benchmark; of a way of training
    # any family, what it is called.
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
    is_default: bool = True  # whether it may be chosen where none is named

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    def candidates(self) -> Iterator[Recipe]:
        """Every recipe of the grid; the preset's own where there is none."""
        for values in product(*self.grid.values()):
            yield self.recipe.replace(**dict(zip(self.grid, values, strict=True)))


# ULMFiT's last stage (Howard and Ruder 2018, sections 3.2 and 3.3): a slanted triangle, rates that fall by 2.6
# from a layer to the one below, layers unfrozen from the top, a head that reads three poolings.
ULMFIT = Recipe(
    epochs=15,
    schedule="slanted_triangular",
    learning_rate=1e-3,
    layer_decay=1 / 2.6,
    gradual_unfreezing=True,
    head="concatenated",
    bias_correction=True,
    weight_decay=1e-6,
)

# What a row of pretraining is; `bert_zoo.pretraining.rows` has the schemes. Families may have further ones.
ROWS = (
    *("next_sentence", "sentence_order", "full_sentences", "doc_sentences"),
    *("packed_documents", "joined_documents"),
)
PAIRS = ROWS[:2]
PRETRAINING_SIZES = ("nano", "mini", "small", "base", "large")


@dataclass(frozen=True)
class PretrainingSize:
    """A model to pretrain.

    Attributes:
        config: fields of the family's configuration, `vocab_size` of a vocabulary that is made.
        changes: settings in place of the preset's, by names of `Recipe`.
        phases: as in `PretrainingPreset`; empty for the preset's.
        objective: a key of `bert_zoo.tasks.objectives.OBJECTIVES`; empty for the family's.
        starts_from_frequencies: whether the head for masked tokens begins with how often each token
            occurs in the text.
    """

    config: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    phases: tuple[tuple[int, float], ...] = ()
    objective: str = ""
    starts_from_frequencies: bool = False


@dataclass(frozen=True)
class OwnRows:
    """Rows of pretraining that one family alone has.

    Attributes:
        name: what `rows` of a preset and --rows call them.
        scheme: makes the `bert_zoo.data.rows.Scheme`, from the tokens of a row, the rows of a batch and the
            numbers of the text's languages.
        multilingual: whether they are of a text in several languages.
    """

    name: str
    scheme: Callable[[int, int, tuple[int, ...]], "Scheme"]
    multilingual: bool = False


@dataclass(frozen=True)
class PretrainingPreset:
    """How models of a family are pretrained from nothing.

    Attributes:
        rows: one of `ROWS`, or the name of one of `own_rows`.
        recipe: the settings; `total_steps` are all updates, and `max_length` is said by `phases`.
        phases: tokens of a row, and the share of the updates (or of the time) with rows of that
            length; one after the other.
        sizes: name, one of `PRETRAINING_SIZES` -> the model.
        vocabulary: kind of a vocabulary that is made of the text: "wordpiece", "byte_bpe",
            "byte_bpe_bracketed", "word_bpe", "sentencepiece", "sentencepiece_cased",
            "sentencepiece_plain" or "sentencepiece_sentinels".
        lowercase: whether texts are lower-cased by it.
        source: where the settings are published.
        own_rows: rows that this family alone has.
    """

    rows: str
    recipe: Recipe
    phases: tuple[tuple[int, float], ...]
    sizes: Mapping[str, PretrainingSize]
    vocabulary: str
    lowercase: bool
    source: str
    own_rows: Sequence[OwnRows] = ()

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
# Chosen on bert_nano's shape and 18 MB of text, by the mean loss of masked tokens after 300 updates of 128 rows of
# 32 tokens: 6.39 with initial weights of 0.05, a head that begins with token frequencies and a rate of 1e-3;
# 6.42 at 5e-4, 6.43 with dropout of 0.1, 6.49 with bias correction, 6.90 with a head of zeros. Rows of 64 or 128
# tokens, or initial weights of 0.02, stay at the unigram loss of 6.9. Positions that short rows lack are learned
# only later and at a high rate, so 70 % of the updates have rows of 32, and the others 64 and 128.
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
    mem_len: int = 0
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
    # Whether an encoder of words' characters is trained in both directions, by a softmax of words.
    bidirectional: bool = False
    num_samples: int = 0  # words that its softmax is trained on in a step; 0 for all
    measurements: int = 5  # of held-out text in the course of the training
    # Of these, as of `AveragedSGD`, which then trains in place of Adam, at one rate; 0 for Adam.
    patience: int = 0

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
# The same for encoders of both directions, with a new softmax of the text's words.
BIDIRECTIONAL_ADAPTATION = replace(
    STREAM_ADAPTATION, segment_length=20, vocab_size=20_000, bidirectional=True, num_samples=2_048
)
