"""Training settings that families publish.

Nothing here imports TensorFlow or Keras.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from bert_zoo.config import HEAD_KINDS, Config, HeadSpec
from bert_zoo.fields import check, check_fields, setting

if TYPE_CHECKING:
    from bert_zoo.data.buckets import Batching
    from bert_zoo.data.rows import RowScheme

# Learning rate schedules; `bert_zoo.training.presets` has the classes.
SCHEDULES = ("linear", "linear_after_warmup", "constant", "inverse_sqrt", "slanted_triangular")
OPTIMIZERS = ("adamw", "lamb", "adafactor")
# Names of `bert_zoo.training.strategy`.
STRATEGY = re.compile(r"auto|one|cpu:[1-9]\d*|mirrored|multi_worker|tpu(:.*)?")


def check_strategy(name: str) -> None:
    if not STRATEGY.fullmatch(name):
        raise ValueError(
            f"There is no strategy {name!r}; choose auto, one, cpu:N, mirrored, multi_worker, tpu or tpu:NAME."
        )


# Settings for training the encoder.
OF_ENCODERS = (
    *("layer_decay", "freeze_embeddings", "freeze_layers", "reinitialized_layers", "lora_rank"),
    *("gradual_unfreezing", "rematerialize"),
)


@dataclass(frozen=True)
class Recipe:
    """The settings of a fine-tuning, except model, data and seed. The defaults are BERT's.

    Settings are keyword arguments with the names of flags of `bert_zoo finetune`, whose `--helpfull` explains them.

    Raises:
        ValueError: a setting is outside its limits, or two settings contradict each other.
    """

    epochs: int = setting(3, "Passes over the data; a maximum if total_steps is set.", least=1)
    least_updates: int = setting(
        0,
        "Minimum number of updates; for small data, first the batch size is halved, down to "
        "least_batch_size, then epochs are added (Zhang et al. 2021, arXiv:2006.05987, section 6).",
        least=0,
    )
    total_steps: int | None = setting(
        None, "Number of updates; if not set, epochs decide.", least=1
    )
    batch_size: int = setting(32, "Rows per update.", least=1)
    least_batch_size: int | None = setting(
        None,
        "Minimum to which least_updates may halve batch_size; if not set, it stays.",
        least=1,
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Number of smaller batches that an update's rows are split into, to save memory.",
        least=1,
    )
    optimizer: str = setting(
        "adamw",
        "One of adamw, lamb, adafactor; lamb is for batches of thousands of rows (BertLamb), adafactor is "
        "T5's (Adafactor).",
        choices=OPTIMIZERS,
    )
    learning_rate: float = setting(5e-5, "The peak, at the end of warmup.", above=0)
    schedule: str = setting(
        "linear",
        "One of linear, linear_after_warmup, constant, inverse_sqrt, slanted_triangular; linear is BERT's, whose "
        "line falls from step 0, linear_after_warmup falls from the end of warmup, inverse_sqrt is T5's, which "
        "stays at the peak during warmup, slanted_triangular is ULMFiT's, which starts and ends at a 32nd of the "
        "peak.",
        choices=SCHEDULES,
    )
    warmup_proportion: float = setting(
        0.1, "Fraction of all updates in which the learning rate rises.", least=0, below=1
    )
    warmup_steps: int | None = setting(
        None, "Number of warmup updates, instead of warmup_proportion.", least=0
    )
    weight_decay: float = setting(0.01, "Decoupled weight decay, as in AdamW.")
    decay_all: bool = setting(False, "Whether biases and norms decay too.")
    betas: tuple[float, float] = setting((0.9, 0.999), "Decay rates of Adam's two moments.")
    epsilon: float = setting(1e-6, "Added to the square root of Adam's second moment.")
    bias_correction: bool = setting(
        False, "Whether Adam corrects the bias of its moments; BERT's does not."
    )
    clip_norm: float | None = setting(
        1.0, "Maximum global norm of the gradients; no clipping if not set."
    )
    clip_each: bool = setting(False, "Whether each variable's gradient is clipped separately.")
    layer_decay: float | None = setting(
        None, "Factor of the learning rate from each layer to the one below; see BertAdamW."
    )
    max_length: int = setting(128, "Maximum tokens of a text, pair or window.", least=1)
    stride: int | None = setting(
        None,
        "In question answering, tokens from one window's start to the next; by default 128, or the length minus "
        "384 for windows of more than 512 tokens.",
    )
    max_question_length: int = setting(64, "Maximum number of tokens of a question.")
    dropout: float | None = setting(None, "Replaces all dropout rates of the checkpoint.")
    attention_dropout: float | None = setting(
        None,
        "Dropout rate on attention probabilities, which overrides dropout; with 0, training on a GPU can use "
        "a kernel that does not store the probabilities.",
        least=0,
        below=1,
    )
    features: str | int | None = setting(
        None,
        "Freezes the encoder and trains a head on these of its layers: mix, top, concat4, 3, ...; see load.",
    )
    head: str | None = setting(
        None,
        "Head on the encoder: linear, concatenated or bilstm; by default the family's own, see load.",
        choices=HEAD_KINDS,
    )
    head_size: int | None = setting(
        None,
        "Units of a bilstm head in each direction; by default the encoder's hidden size.",
        least=1,
    )
    head_initializer_range: float | None = setting(
        None,
        "Standard deviation of a randomly initialised head's weights; by default the configuration's "
        "initializer_range. See set_head_range.",
        above=0,
    )
    class_weight: str | Mapping[str, float] | None = setting(
        None,
        'Weights of the classes in the training loss: "balanced", or by name, as in "no=1,yes=5" or a '
        "mapping; see class_weights. Evaluation is not weighted.",
    )
    group_by_length: bool = setting(True, "Whether batches contain texts of similar length.")
    bucket: int | None = setting(
        None,
        "Lengths are padded to a multiple of this; by default what suits the device (device_bucket).",
    )
    tokens_per_batch: int | None = setting(
        None,
        "Maximum number of padded tokens in memory; batches of long texts get fewer rows.",
    )
    fixed_shapes: bool = setting(
        False,
        "Whether all batches have the same shape (max_length tokens, all rows), for TPUs and XLA.",
    )
    steps_per_execution: int = setting(
        1, "Batches per call of the compiled training function; more help on TPUs.", least=1
    )
    dtype: str = setting(
        "float32",
        "A Keras dtype policy, such as mixed_bfloat16; slow on processors without instructions for it.",
    )
    rematerialize: bool = setting(
        False,
        "Whether activations are recomputed for the gradients, which saves memory and costs time.",
    )
    freeze_embeddings: bool = setting(False, "Whether the embeddings are frozen.")
    freeze_layers: int = setting(0, "Number of frozen layers, from the lowest; see freeze.")
    gradual_unfreezing: bool = setting(
        False,
        "Whether only the head is trained in the first epoch, and each further epoch adds the next lower layer, "
        "the embeddings last (ULMFiT); see BertAdamW.",
    )
    reinitialized_layers: int = setting(
        0, "Number of layers, from the highest, that are randomly initialised before training."
    )
    lora_rank: int | None = setting(
        None,
        "Rank of low-rank updates (LoRA); if set, only these, pooler and head are trained, see add_lora.",
    )
    lora_alpha: float | None = setting(None, "LoRA's scale; by default the rank.")
    lora_targets: str = setting("attention", "Kernels that LoRA updates: attention or all.")
    loss: str | None = setting(
        None,
        "For pairs of texts with scores: cosine_regression instead of a ranking loss.",
        choices=("cosine_regression",),
    )
    symmetric: bool = setting(
        False, "Whether positives must also find their anchors, in pairs and triplets of texts."
    )
    matryoshka: tuple[int, ...] = setting(
        (), "Dimensions to which sentence vectors can be cut; their first numbers are trained too."
    )
    sparsity: tuple[float, ...] = setting(
        (),
        "For sparse vectors: the factor of the penalty on documents' weights and, after a comma, on queries' (Splade); by "
        "default 3e-5,5e-5.",
    )
    mini_batch_size: int | None = setting(
        None,
        "Texts in memory at a time, in losses that compare all rows of a batch; takes a third more time.",
        least=1,
    )
    contrastive_pairs: int = setting(
        0,
        "Positive pairs, and as many negative ones, that each text is trained in; the classifier is then a "
        "logistic regression on sentence vectors (SetFit).",
        least=0,
    )

    def __post_init__(self):
        check_fields(self)
        rows, accumulated = self.batch_size, self.gradient_accumulation_steps
        if rows % accumulated:
            raise ValueError(
                f"gradient_accumulation_steps is {accumulated}; it must be a divisor of batch_size, {rows}."
            )
        if self.optimizer == "adafactor" and (
            self.weight_decay or self.layer_decay or self.gradual_unfreezing
        ):
            raise ValueError(
                f"weight_decay is {self.weight_decay}, layer_decay is {self.layer_decay} and gradual_unfreezing is "
                f"{self.gradual_unfreezing}, but the optimizer adafactor supports none of them. Set them to 0, "
                "None and False."
            )
        HeadSpec.asked(self.features, self.head, self.head_size)
        if self.features is not None:
            trains = [name for name in OF_ENCODERS if getattr(self, name) != getattr(Recipe, name)]
            if trains:
                raise ValueError(
                    f"features is {self.features!r}, which freezes the encoder, but {trains} are about its "
                    "training. Leave them out."
                )

    @property
    def micro_batch_size(self) -> int:
        """Rows in memory at a time, and the batch_size of `model.fit`."""
        return self.batch_size // self.gradient_accumulation_steps

    @property
    def predicted_rows(self) -> int:
        """Rows per batch of predictions: four times those of training, as no activations are kept."""
        rows = self.micro_batch_size
        if self.tokens_per_batch is not None:
            rows = min(rows, max(self.tokens_per_batch // self.max_length, 1))
        return 4 * rows

    def batching(self, seed: int) -> "Batching":
        from bert_zoo.data.buckets import Batching

        return Batching(
            self.micro_batch_size,
            tokens=self.tokens_per_batch,
            group_by_length=self.group_by_length,
            drop_remainder=self.fixed_shapes,
            seed=seed,
        )

    def for_examples(self, examples: int) -> "Recipe":
        """Returns the recipe with a batch size that suits the number of examples.

        The batch size is halved, down to `least_batch_size`, until `epochs` passes make `least_updates` updates.
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
        """Returns the number of updates after which `gradual_unfreezing` adds a layer; None without it."""
        if not self.gradual_unfreezing or total_steps is None:
            return None
        return max(1, total_steps // self.epochs)

    def epochs_of(self, batches_per_epoch: int) -> int:
        """Returns the number of epochs over this many batches, with `least_updates` applied."""
        batches = self.least_updates * self.gradient_accumulation_steps
        return max(self.epochs, math.ceil(batches / batches_per_epoch))

    def updates_of(self, batches_per_epoch: int) -> int:
        """Returns the number of updates of the whole training.

        Accumulation continues across epochs. Batches left over at the end make no update, unless it
        would be the only one.
        """
        batches = batches_per_epoch * self.epochs_of(batches_per_epoch)
        updates = max(1, batches // self.gradient_accumulation_steps)
        return updates if self.total_steps is None else min(updates, self.total_steps)

    def warmup_of(self, total_steps: int) -> int:
        """Returns the number of warmup updates in a training of `total_steps` updates.

        `warmup_steps` shrinks in proportion if the training is shorter than the recipe's `total_steps`.
        """
        if self.warmup_steps is None:
            return int(total_steps * self.warmup_proportion)
        planned = max(self.total_steps or total_steps, total_steps)
        return min(self.warmup_steps * total_steps // planned, total_steps)

    def replace(self, **changes: Any) -> "Recipe":
        """Returns the recipe with other settings.

        Raises:
            TypeError: a setting is unknown; the message suggests the nearest ones.
        """
        known = [each.name for each in fields(self)]
        for name in changes:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=3, cutoff=0)
                raise TypeError(f"A recipe has no {name!r}. The nearest are {', '.join(nearest)}.")
        return replace(self, **changes)


@dataclass(frozen=True)
class Preset:
    """A published recipe for some tasks of a family.

    Attributes:
        name: `<family>/<benchmark>`, or another word if a family has several for one benchmark; for a
            method that suits any family, the method's name.
        tasks: its tasks, named as for `load`.
        recipe: the settings.
        source: where they are published.
        benchmark: the data set; "" for any.
        fits: (configuration) -> whether the preset is meant for such models.
        grid: setting -> the values among which the publication chose on the dev set.
        note: what else users should know.
        is_default: whether `default_preset` may choose it.
    """

    name: str
    tasks: tuple[str, ...]
    recipe: Recipe
    source: str
    benchmark: str = ""
    fits: Callable[[Config], bool] = lambda config: True
    grid: Mapping[str, tuple] = field(default_factory=dict)
    note: str = ""
    is_default: bool = True

    @property
    def family(self) -> str:
        """The first part of the name."""
        return self.name.split("/")[0]

    def candidates(self) -> Iterator[Recipe]:
        """Yields every recipe of the grid, or only the preset's own without a grid."""
        for values in product(*self.grid.values()):
            yield self.recipe.replace(**dict(zip(self.grid, values, strict=True)))


# ULMFiT's last stage (Howard and Ruder 2018, sections 3.2 and 3.3): a slanted triangular schedule, rates
# divided by 2.6 from layer to layer, gradual unfreezing from the top, a head on three poolings.
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

# Kinds of pretraining rows; `bert_zoo.pretraining.rows` has the schemes. Families may have further ones.
ROWS = (
    *("next_sentence", "sentence_order", "full_sentences", "doc_sentences"),
    *("packed_documents", "joined_documents"),
)
PAIRS = ROWS[:2]
PRETRAINING_SIZES = ("nano", "mini", "small", "base", "large")


@dataclass(frozen=True)
class PretrainingSize:
    """The size of a model to pretrain."""

    # Fields of the family's configuration; `vocab_size` is the size of a new vocabulary.
    config: Mapping[str, Any]
    # Settings of `Recipe` that replace the preset's.
    changes: Mapping[str, Any] = field(default_factory=dict)
    phases: tuple[tuple[int, float], ...] = ()  # as in `PretrainingPreset`; empty for the preset's
    objective: str = ""  # a key of `bert_zoo.tasks.objectives.OBJECTIVES`; "" for the family's
    # Whether the bias of the head for masked tokens starts as the log frequencies of the tokens.
    starts_from_frequencies: bool = False


@dataclass(frozen=True)
class OwnRows:
    """A kind of pretraining rows that only one family has."""

    name: str  # its name for `PretrainingPreset.rows` and --rows
    # (Tokens per row, rows per batch, language numbers) -> a `bert_zoo.data.rows.RowScheme`.
    scheme: Callable[[int, int, tuple[int, ...]], "RowScheme"]
    multilingual: bool = False  # whether the text has several languages


@dataclass(frozen=True)
class PretrainingPreset:
    """How models of a family are pretrained from scratch.

    Attributes:
        rows: one of `bert_zoo.presets.ROWS`, or the name of one of `own_rows`.
        recipe: the settings. `total_steps` counts all updates; `phases` replaces `max_length`.
        phases: consecutive phases, each with the tokens per row and its fraction of the updates (or of
            the time). The fractions add up to 1.
        sizes: the models, by size: "nano", "mini", "small", "base" or "large".
        vocabulary: the kind of a new vocabulary: "wordpiece", "byte_bpe", "byte_bpe_bracketed",
            "word_bpe", "sentencepiece", "sentencepiece_cased", "sentencepiece_plain" or
            "sentencepiece_sentinels".
        lowercase: whether the vocabulary lower-cases texts.
        source: where the settings are published.
        own_rows: kinds of rows that only this family has.

    Raises:
        ValueError: the fractions of `phases` do not add up to 1.
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
                raise ValueError(f"phases are {phases}; their fractions must add up to 1.")

    def of_size(self, size: str) -> tuple["PretrainingPreset", PretrainingSize]:
        """Returns the preset with a size's settings, and the size.

        Raises:
            ValueError: the size is unknown.
        """
        check("size", size, str, choices=self.sizes)
        chosen = self.sizes[size]
        recipe = self.recipe.replace(**chosen.changes)
        return replace(self, recipe=recipe, phases=chosen.phases or self.phases), chosen


# For continued pretraining on texts of a domain. Gururangan et al. 2020 (arXiv:2004.10964), appendix B,
# use this rate and these betas with 256 rows; there are fewer rows here, for small texts.
ADAPTATION = Recipe(
    batch_size=64,
    learning_rate=1e-4,
    schedule="linear_after_warmup",
    warmup_proportion=0.06,
    betas=(0.9, 0.98),
    max_length=128,
)
# Our own settings for sizes below the papers', for texts of some megabytes and a few cores. Chosen with
# bert_nano's shape on 18 MB of text, by the mean loss of masked tokens after 300 updates of 128 rows of 32 tokens:
# 6.39 with an initializer range of 0.05, a head that starts from token frequencies and a rate of 1e-3; 6.42 at 5e-4,
# 6.43 with dropout of 0.1, 6.49 with bias correction, 6.90 with a head of zeros. Rows of 64 or 128 tokens, or a range
# of 0.02, stay at the unigram loss of 6.9. Later positions are learned only late and at a high rate, so 70 % of the
# updates have rows of 32 tokens, and the others 64 and 128.
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
    """How a stream is read in evaluation; fields without a comment are the configuration's."""

    segment_length: int  # tokens per row in one step
    mem_len: int = 0
    clamp_len: int = -1
    same_length: bool = True
    batch_size: int = 10  # rows per step

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of the encoder's configuration."""
        return {name: getattr(self, name) for name in ("mem_len", "clamp_len", "same_length")}


@dataclass(frozen=True)
class LanguageModelPreset:
    """A language model and its training; fields without a comment are `language_model_adam`'s."""

    name: str
    family: str
    config: Mapping[str, Any]  # fields of the family's configuration, without `vocab_size`
    unit: str  # kind of token: "word", "character", "byte" or "subword"
    batch_size: int  # rows per step
    segment_length: int  # tokens per row in one step; training's memory is `mem_len` of `config`
    total_steps: int
    evaluation: Reading  # how the paper read the test set
    size: str = ""  # its name for `bert_zoo pretrain`, one of `PRETRAINING_SIZES`; "" for none
    vocab_size: int | None = None  # maximum size of a new vocabulary; None for all tokens
    learning_rate: float = 2.5e-4
    warmup_steps: int = 0
    floor: float = 0.004
    clip_norm: float = 0.25
    space_token: str | None = None  # the token for a space, if tokens are characters
    # Whether an encoder of words' characters is trained in both directions, with a softmax over words.
    bidirectional: bool = False
    num_samples: int = 0  # words per step that its softmax is trained on; 0 for all
    measurements: int = 5  # number of evaluations on held-out text during training
    # If not 0, `AveragedSGD` with this patience (in measurements) and a constant rate replaces Adam.
    patience: int = 0

    @property
    def warmup_proportion(self) -> float:
        """The fraction of the training in which the learning rate rises."""
        return self.warmup_steps / self.total_steps

    def with_steps(self, total_steps: int) -> "LanguageModelPreset":
        """Returns the preset for another number of steps, with the same warmup proportion."""
        warmup = round(total_steps * self.warmup_proportion)
        return replace(self, total_steps=total_steps, warmup_steps=warmup)


# Our own settings for continuing to train a language model.
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
# The same for models with a limited number of positions, which is the length of their rows.
ROW_ADAPTATION = replace(
    STREAM_ADAPTATION, unit="subword", batch_size=8, learning_rate=5e-5, clip_norm=1.0
)
# The same for bidirectional encoders, with a new softmax over the text's words.
BIDIRECTIONAL_ADAPTATION = replace(
    STREAM_ADAPTATION, segment_length=20, vocab_size=20_000, bidirectional=True, num_samples=2_048
)
