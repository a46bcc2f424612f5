"""How much memory training takes, told from a configuration alone; no TensorFlow.

What is there at the peak of a step, early in the backward pass:

* a float32 copy of every weight, of its gradient and of Adam's two moments, also under mixed
  precision, whose variables are float32;
* what the forward pass left for the backward pass, by layer: the inputs of products, attention
  probabilities, masks of dropout, what activation functions and norms are differentiated from;
* a workspace: tensors of the step that live for one moment only.

The counts per layer are those of TensorFlow's graph of a training step, where a tensor counts if an
operation of the backward pass reads it (tests/test_memory.py traces such graphs and compares). XLA
computes cheap tensors anew and needs less.
"""

import bisect
from dataclasses import dataclass, fields
from functools import singledispatch
from itertools import pairwise
from math import log
from typing import Any

from bert_zoo.config import Config, EncoderConfig, is_integer
from bert_zoo.recurrent_config import RecurrentConfig

GIB = 2**30
FLOAT32 = 4  # bytes
MASK = 1  # byte a number: dropout's masks are booleans
# Dtype policy -> bytes of a number that layers compute with.
POLICIES = {"float32": 4, "mixed_bfloat16": 2}
# Of a TPU chip, by its version; GB, not GiB. Source: Cloud TPU's system architecture pages.
TPU_CHIPS = {"v4": 32 * 10**9, "v5e": 16 * 10**9, "v5p": 95 * 10**9, "v6e": 32 * 10**9}
# Memory of common accelerators.
DEVICES = {
    "8 GiB": 8 * GIB,
    "16 GiB": 16 * GIB,
    "24 GiB": 24 * GIB,
    "80 GiB": 80 * GIB,
    "TPU v5e": TPU_CHIPS["v5e"],
}
# The rest is for the device's own programs (about 0.5 GiB on NVIDIA's), and holes between tensors.
USABLE = 0.9
MOST_ROWS = 1 << 20

# Tensors of the feed-forward layer's width that an activation and the product behind it keep: the
# result always; erf's GELU also x / 2, x / sqrt(2) and erfc; tanh's also x, x / 2, tanh and 1 + tanh; SiLU also x.
KEPT_BY_ACTIVATION = {"relu": 1, "silu": 2, "gelu": 4, "gelu_tanh": 5}
# Gradients of the widest tensors of a block that are there at once.
GRADIENTS_AT_ONCE = 3
VOCABULARY_TASKS = ("masked_lm", "pretraining")
# Tasks for which the last layer computes the first token alone (`TaskModel.reads_first_only`).
FIRST_TOKEN_TASKS = (
    "classification",
    "multi_label_classification",
    "regression",
    "multiple_choice",
)
# Ways of training that are shown: words -> options of `training_memory`. `rematerialize` is
# gradient checkpointing.
SETTINGS = {
    policy + words: {"dtype": policy, "rematerialize": again}
    for policy in POLICIES
    for words, again in (("", False), (", rematerialized", True))
}


@dataclass(frozen=True)
class Step:
    """A training step's shapes.

    Attributes:
        rows: texts, or choices, a batch.
        length: tokens a row.
        predictions: positions a row whose tokens are predicted, for tasks that predict tokens.
        number: bytes of a number that layers compute with.
    """

    rows: int
    length: int
    predictions: int
    number: int

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    def cast_weights(self, numbers: int) -> int:
        """Bytes of the copies of float32 weights in the dtype that products compute in."""
        return 0 if self.number == FLOAT32 else numbers * self.number


@dataclass(frozen=True)
class Kept:
    """Bytes that parts of the forward pass leave for the backward pass.

    Attributes:
        embeddings: up to the first block's input, which is among them.
        block: of one run of a block, its output among them.
        last: of the last run.
        boundary: of a run's output alone.
        runs: how often a block runs; blocks that share weights share none of this.
        head: of a projection onto the vocabulary.
        moment: of the largest tensors that live for one moment only.
    """

    embeddings: int
    block: int
    last: int
    boundary: int
    runs: int
    head: int
    moment: int

    def total(self, rematerialize: bool) -> int:
        """All of it; where they are rematerialized, blocks keep their outputs alone."""
        blocks = (self.runs - 1) * self.block + self.last
        if rematerialize:
            # Two: the one that is computed anew, and the one above, whose gradients are under way.
            blocks = min(blocks, self.runs * self.boundary + 2 * self.block)
        return self.embeddings + blocks + self.head


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that a training step needs at its peak, by part; prints as GiB."""

    weights: int
    gradients: int
    moments: int
    activations: int
    workspace: int

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        parts = (f"{f.name} {getattr(self, f.name) / GIB:.2f}" for f in fields(self))
        return f"{self.total / GIB:.2f} GiB ({', '.join(parts)})"


def training_memory(
    config: Config,
    parameters: int,
    *,
    batch_size: int,
    length: int,
    task: str = "classification",
    predictions: int | None = None,
    dtype: str = "float32",
    rematerialize: bool = False,
) -> TrainingMemory:
    """Estimates the memory of a training step with Adam.

    Args:
        config: of the encoder.
        parameters: trained weights of the encoder, of a language model with its softmax.
        batch_size: rows a step.
        length: tokens a row.
        task: "masked_lm" and "pretraining" project onto the vocabulary (masked tokens only: another
            objective's logits are not counted); other heads need next to nothing, and those that
            read the first token alone spare most of the last layer.
        predictions: positions a row that they project (`mask_positions`); None for all.
        dtype: a key of `POLICIES`.
        rematerialize: whether blocks are computed anew in the backward pass (gradient checkpointing;
            `bert_zoo.training.freezing.rematerialize`).

    Raises:
        ValueError: a number is not positive, the row is too long, or the dtype is unknown.
    """
    predictions = length if predictions is None else predictions
    _check_shapes(config, batch_size, length, predictions, dtype)
    kept = kept_for_backward(config, task, Step(batch_size, length, predictions, POLICIES[dtype]))
    weights = FLOAT32 * (parameters + head_parameters(config, task))
    return TrainingMemory(
        weights=weights,
        gradients=weights,
        moments=2 * weights,
        activations=kept.total(rematerialize),
        workspace=max(kept.moment, largest_gradient(config)),
    )


def _check_shapes(
    config: Config, batch_size: int, length: int, predictions: int, dtype: str
) -> None:
    for name, value in (
        ("batch_size", batch_size),
        ("max_length", length),
        ("predictions", predictions),
    ):
        if not is_integer(value) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a positive integer.")
    if length > config.longest_input:
        raise ValueError(
            f"max_length is {length} and this model has {config.longest_input} positions; ask for "
            "no more tokens than those."
        )
    if predictions > length:
        raise ValueError(f"predictions is {predictions}; a row has {length} tokens to predict.")
    if dtype not in POLICIES:
        raise ValueError(f"dtype is {dtype!r}; memory is estimated for {', '.join(POLICIES)}.")


class LargestBatches(dict):
    """Device -> the most rows a step that fit into it, 0 where none does; prints as one line."""

    def __str__(self) -> str:
        return ", ".join(f"{device} {rows:,}" for device, rows in self.items())


def largest_batches(config: Config, parameters: int, **options: Any) -> LargestBatches:
    """The largest batch for each of `DEVICES`, of whose memory `USABLE` is counted on.

    Args:
        config, parameters: as `training_memory`.
        **options: its other arguments, but for the batch size.
    """

    def needed(rows: int) -> int:
        return training_memory(config, parameters, batch_size=rows, **options).total

    return LargestBatches(
        (device, bisect.bisect_right(range(1, MOST_ROWS), USABLE * capacity, key=needed))
        for device, capacity in DEVICES.items()
    )


# --- What layers keep ---


def _norm(width: int, number: int) -> int:
    """Bytes a token: the output, and in float32 whatever is computed in, the input and its scale."""
    return width * (number + 2 * FLOAT32)


def _dropped(width: int, rate: float) -> int:
    """Numbers a token that dropout has a mask for."""
    return width if rate else 0


def _probabilities(heads: int, keys: int, rate: float, number: int) -> int:
    """Bytes a query token: the softmax, and where there is dropout its result."""
    return heads * keys * (2 * number if rate else number)


@singledispatch
def kept_for_backward(config: Config, task: str, step: Step) -> Kept:
    """What the forward pass leaves for the backward pass."""
    raise NotImplementedError(f"Nobody has counted what {type(config).__name__}'s layers keep.")


@kept_for_backward.register
def _(config: EncoderConfig, task: str, step: Step) -> Kept:
    hidden, table, number = config.hidden_size, config.table_width, step.number
    embeddings = _norm(table, number) + MASK * _dropped(table, config.hidden_dropout)
    if table != hidden:
        embeddings += hidden * number
    keys_and_values = 2 * hidden * number
    # Queries, and what the heads hand to the output product.
    attention = 2 * hidden * number + _probabilities(
        config.num_heads, step.length, config.attention_dropout, number
    )
    feed_forward = KEPT_BY_ACTIVATION[config.activation] * config.intermediate_size * number
    norms = 2 * _norm(hidden, number)
    dropped = _dropped(2 * hidden, config.hidden_dropout)
    dropped += _dropped(config.num_heads * step.length, config.attention_dropout)
    per_query = attention + feed_forward + norms + MASK * dropped
    kernels = 4 * hidden**2 + 2 * hidden * config.intermediate_size

    def block(queries: int) -> int:
        kept = step.tokens * keys_and_values + queries * per_query
        return kept + step.cast_weights(kernels)

    widest = max(config.intermediate_size, config.num_heads * step.length)
    moment = step.tokens * GRADIENTS_AT_ONCE * widest * number
    head = 0
    if task in VOCABULARY_TASKS:
        head, logits = _vocabulary_head(config, step)
        moment = max(moment, logits)
    return Kept(
        embeddings=step.tokens * embeddings,
        block=block(step.tokens),
        last=block(step.rows if task in FIRST_TOKEN_TASKS else step.tokens),
        boundary=step.tokens * hidden * number,
        runs=sum(map(len, config.blocks_of_layers)),
        head=head,
        moment=moment,
    )


def _vocabulary_head(config: EncoderConfig, step: Step) -> tuple[int, int]:
    """What a masked-language-model head keeps, and its logits, in bytes."""
    hidden, table, number = config.hidden_size, config.table_width, step.number
    gathered = hidden * number if step.predictions < step.length else 0
    transform = (KEPT_BY_ACTIVATION[config.activation] - 1) * table * number + _norm(table, number)
    # Cross-entropy makes the logits' gradient while it reads the logits; both are float32.
    logits = config.vocab_size * FLOAT32
    rows = step.rows * step.predictions
    transposed_table = config.vocab_size * table * number
    kept = rows * (gathered + transform + logits) + transposed_table
    return kept + step.cast_weights(hidden * table), rows * logits


@kept_for_backward.register
def _(config: RecurrentConfig, task: str, step: Step) -> Kept:
    hidden, number = config.hidden_size, step.number
    attended = config.num_heads * config.head_size
    keys = config.mem_len + step.length
    rate = config.hidden_dropout
    projected = sum(_projected_widths(config))
    embeddings = (projected + hidden) * number + MASK * _dropped(hidden, rate)
    # Queries with u and with v, what goes to the output product; keys and values also of the memory.
    attention = 3 * attended * number + _probabilities(
        config.num_heads, keys, config.attention_dropout, number
    )
    keys_and_values = 2 * step.rows * keys * attended * number
    # All rows share the keys of distances, of which there is one more than of positions.
    distances = (keys + 1) * number
    # Dropout behind the activation keeps its result beside that of the activation.
    feed_forward = config.intermediate_size * number * KEPT_BY_ACTIVATION[config.activation]
    feed_forward += _dropped(config.intermediate_size, rate) * number
    norms = 2 * _norm(hidden, number)
    dropped = _dropped(2 * hidden + config.intermediate_size, rate)
    dropped += _dropped(config.num_heads * keys, config.attention_dropout)
    per_token = attention + feed_forward + norms + MASK * dropped
    # A layer's memory, the old and the new.
    memories = 2 * step.rows * config.mem_len * hidden * number
    kernels = 5 * hidden * attended + 2 * hidden * config.intermediate_size
    widest = max(config.intermediate_size, config.num_heads * keys)
    head, logits = _adaptive_softmax(config, step)
    block = step.tokens * per_token + keys_and_values + distances * attended + memories
    block += step.cast_weights(kernels)
    return Kept(
        embeddings=step.tokens * embeddings + distances * hidden,
        block=block,
        last=block,
        boundary=step.tokens * hidden * number + memories,
        runs=config.num_layers,
        head=head,
        moment=max(step.tokens * GRADIENTS_AT_ONCE * widest * number, logits),
    )


def _adaptive_softmax(config: RecurrentConfig, step: Step) -> tuple[int, int]:
    """What the softmax of a recurrent language model keeps, and its logits, in bytes.

    Only labels of a rare cluster are scored against its symbols. How many there are is the text's
    matter; by Zipf's law, the part of a text that are symbols of ranks a to b of n is about
    log(b / a) / log(n), with the first rank counted as one.
    """
    bounds, number = config.cluster_bounds, step.number
    symbols = float(bounds[1] + len(bounds) - 2)
    for start, end in pairwise(bounds[1:]):
        symbols += (end - start) * log(end / start) / log(bounds[-1])
    logits = int(step.tokens * symbols * FLOAT32)
    tables = sum(
        rows * width for rows, width in zip(config.table_sizes, config.table_widths, strict=True)
    )
    # The head's input, and what a projection makes of it.
    inputs = (config.hidden_size + sum(_projected_widths(config)[:1])) * number
    inputs += MASK * _dropped(config.hidden_size, config.hidden_dropout)
    return logits + tables * number + step.tokens * inputs, logits


def _projected_widths(config: RecurrentConfig) -> list[int]:
    """Widths of the tables that a projection leads from and to."""
    widths = zip(config.table_widths, config.is_projected, strict=True)
    return [width for width, projected in widths if projected]


# --- Weights ---


def head_parameters(config: Config, task: str) -> int:
    """Weights that a head for the task adds to the encoder, where they are many."""
    if task not in VOCABULARY_TASKS:
        return 0
    table = config.table_width
    transform = table * (config.hidden_size + 3)
    decoder = 0 if config.tie_word_embeddings else config.vocab_size * table
    return transform + decoder + config.vocab_size


@singledispatch
def largest_gradient(config: Config) -> int:
    """Bytes of the largest table's gradient, which is there twice while it is clipped."""
    raise NotImplementedError(f"Nobody has counted the tables of {type(config).__name__}.")


@largest_gradient.register
def _(config: EncoderConfig) -> int:
    return FLOAT32 * config.vocab_size * config.table_width


@largest_gradient.register
def _(config: RecurrentConfig) -> int:
    tables = zip(config.table_sizes, config.table_widths, strict=True)
    return FLOAT32 * max(rows * width for rows, width in tables)
