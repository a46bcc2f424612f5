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
from itertools import pairwise
from math import log
from typing import Any

from bert_zoo.config import Config, Shapes, is_integer
from bert_zoo.weights.table import Head

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
# result always; erf's GELU also x; tanh's also x, x / 2, tanh and 1 + tanh; SiLU also x.
KEPT_BY_ACTIVATION = {"relu": 1, "silu": 2, "gelu": 2, "gelu_tanh": 5}
# And those in float32: the normal distribution's part below x.
KEPT_IN_FLOAT32 = {"gelu": 1}
# Gradients of the widest tensors of a block that are there at once.
GRADIENTS_AT_ONCE = 3
# Ways of training that are shown: words -> options of `training_memory`. `rematerialize` is
# gradient checkpointing.
SETTINGS = {
    policy + words: {"dtype": policy, "rematerialize": again}
    for policy in POLICIES
    for words, again in (("", False), (", rematerialized", True))
}


@dataclass(frozen=True)
class Step:
    """A training step's shapes."""

    rows: int  # texts, or choices, a batch
    length: int  # tokens a row
    predictions: int  # positions a row whose tokens are predicted, for tasks that predict tokens
    number: int  # bytes of a number that layers compute with

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    def cast_weights(self, numbers: int) -> int:
        """Bytes of the copies of float32 weights in the dtype that products compute in."""
        return 0 if self.number == FLOAT32 else numbers * self.number


@dataclass(frozen=True)
class Kept:
    """Bytes that parts of the forward pass leave for the backward pass."""

    embeddings: int  # up to the first block's input, which is among them
    block: int  # one run of a block, its output among them
    last: int  # the last run
    boundary: int  # a run's output alone
    runs: int  # how often a block runs; blocks that share weights share none of this
    head: int  # a projection onto the vocabulary
    moment: int  # the largest tensors that live for one moment only

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
    head: Head | None,
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
        head: what the task's head is; one that predicts tokens projects onto the vocabulary (masked
            tokens only: another objective's logits are not counted); others need next to nothing, and
            those that read the first token alone spare most of the last layer. None for no head.
        predictions: positions a row that they project (`mask_positions`); None for all.
        dtype: a key of `POLICIES`.
        rematerialize: whether blocks are computed anew in the backward pass (gradient checkpointing;
            `bert_zoo.training.freezing.rematerialize`).

    Raises:
        ValueError: a number is not positive, the row is too long, or the dtype is unknown.
    """
    predictions = length if predictions is None else predictions
    _check_shapes(config, batch_size, length, predictions, dtype)
    kept = kept_for_backward(config, head, Step(batch_size, length, predictions, POLICIES[dtype]))
    weights = FLOAT32 * (parameters + head_parameters(config, head))
    # Of a table; it is there twice while it is clipped.
    largest_gradient = FLOAT32 * max(rows * width for rows, width in config.shapes(1).tables)
    return TrainingMemory(
        weights=weights,
        gradients=weights,
        moments=2 * weights,
        activations=kept.total(rematerialize),
        workspace=max(kept.moment, largest_gradient),
    )


def _check_shapes(
    config: Config, batch_size: int, length: int, predictions: int, dtype: str
) -> None:
    sizes = {"batch_size": batch_size, "max_length": length, "predictions": predictions}
    for name, value in sizes.items():
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

    Arguments as `training_memory`, but for the batch size.
    """

    def needed(rows: int) -> int:
        return training_memory(config, parameters, batch_size=rows, **options).total

    return LargestBatches(
        (device, bisect.bisect_right(range(1, MOST_ROWS), USABLE * capacity, key=needed))
        for device, capacity in DEVICES.items()
    )


# --- What layers keep ---


def _norm(width: int, number: int) -> int:
    """Bytes a token: the output, and in float32 it before gamma and beta, and the scale."""
    return width * (number + FLOAT32) + FLOAT32


def kept_for_backward(config: Config, head: Head | None, step: Step) -> Kept:
    """What the forward pass leaves for the backward pass."""
    shapes, number = config.shapes(step.length), step.number
    rate, attention_rate = config.hidden_dropout, config.attention_dropout
    hidden, attended, keys = shapes.hidden, shapes.attended, shapes.memory + step.length
    scores, distances = shapes.heads * (shapes.keys or keys), shapes.distances * number

    embedded = shapes.normed and _norm(shapes.normed, number)
    embedded += sum(shapes.embedded) * number + MASK * bool(rate) * shapes.embeddings_dropped

    # A token's queries, and what the heads hand to the output product.
    per_query = (shapes.queries + 1) * attended * number
    # The softmax, and where there is dropout its result and mask.
    per_query += scores * (2 * number + MASK if attention_rate else number)
    # A gate keeps itself and its product with the activation's result.
    kept_inside = KEPT_BY_ACTIVATION[config.activation] + 2 * shapes.gated
    intermediate = shapes.feed_forwards * shapes.intermediate
    per_query += kept_inside * intermediate * number
    per_query += KEPT_IN_FLOAT32.get(config.activation, 0) * intermediate * FLOAT32
    inside, per_token = shapes.bottleneck, 0
    if inside:
        # What scales read and give: of the block, of attention and of feed-forward layers.
        per_query += 2 * (hidden + (1 + shapes.feed_forwards) * inside) * number
        per_query += MASK * bool(rate) * hidden
        # Of all tokens: what two scales read, and what queries and keys are made of.
        per_token = 3 * inside * number
    else:
        per_query += 2 * _norm(hidden, number) + MASK * bool(rate) * 2 * hidden
    if shapes.drops_within_feed_forward and rate:
        per_query += shapes.intermediate * (number + MASK)
    # A layer's memory, the old and the new.
    memories = 2 * step.rows * shapes.memory * hidden * number
    # Keys and values, of the memory too. All rows share the keys of distances.
    shared = round(shapes.key_copies * 2 * step.rows * keys * attended * number)
    shared += distances * attended + memories
    kernels = (4 + bool(distances)) * hidden * attended + 3 * inside * attended
    kernels += (2 + shapes.gated) * (inside or hidden) * intermediate
    shared += step.cast_weights(kernels) + step.tokens * per_token

    queries_of_last = step.tokens
    first_only = head is not None and head.reads_first_only and config.classifier_pooling == "cls"
    if head is not None and (first_only or head.summary == "last_real"):
        queries_of_last = step.rows
    elif head is not None and head.predicts_tokens:
        queries_of_last = step.rows * step.predictions
    kept_by_head, logits = _head(config, shapes, head, step)
    widest = max(shapes.intermediate, scores)
    return Kept(
        embeddings=step.tokens * embedded + distances * hidden,
        block=shared + step.tokens * per_query,
        last=shared + queries_of_last * per_query,
        boundary=step.tokens * hidden * number + memories,
        runs=shapes.runs,
        head=kept_by_head,
        moment=max(step.tokens * GRADIENTS_AT_ONCE * widest * number, logits),
    )


def _head(config: Config, shapes: Shapes, head: Head | None, step: Step) -> tuple[int, int]:
    """What a projection onto the vocabulary keeps, and its logits, in bytes; zeros without one."""
    if shapes.clusters and not (head is not None and head.classifies):
        return _adaptive_softmax(config, shapes, step)
    if head is None or not head.predicts_tokens:
        return 0, 0
    hidden, table, number = config.hidden_size, head.projection_width(config), step.number
    gathered = hidden * number if step.predictions < step.length else 0
    transform = 0
    if not head.projects_directly or head.has("prediction_head/dense"):
        transform = (KEPT_BY_ACTIVATION[config.activation] - 1) * table * number
        transform += KEPT_IN_FLOAT32.get(config.activation, 0) * table * FLOAT32
        transform += _norm(table, number)
    # Cross-entropy makes the logits' gradient while it reads the logits; both are float32.
    logits = config.vocab_size * FLOAT32
    rows = step.rows * step.predictions
    transposed_table = config.vocab_size * table * number
    kept = rows * (gathered + transform + logits) + transposed_table
    return kept + step.cast_weights(hidden * table), rows * logits


def _adaptive_softmax(config: Config, shapes: Shapes, step: Step) -> tuple[int, int]:
    """The same for the softmax of a recurrent language model.

    Only labels of a rare cluster are scored against its tokens. How many there are depends on the
    text; by Zipf's law, the part of a text that are tokens of ranks a to b of n is about
    log(b / a) / log(n), with the first rank counted as one.
    """
    bounds, number = shapes.clusters, step.number
    scored = float(bounds[1] + len(bounds) - 2)
    for start, end in pairwise(bounds[1:]):
        scored += (end - start) * log(end / start) / log(bounds[-1])
    logits = int(step.tokens * scored * FLOAT32)
    tables = sum(rows * width for rows, width in shapes.tables)
    # The head's input, and what a projection makes of it; the last width embedded is `hidden`.
    inputs = (shapes.hidden + sum(shapes.embedded[:-1][:1])) * number
    inputs += MASK * bool(config.hidden_dropout) * shapes.hidden
    return logits + tables * number + step.tokens * inputs, logits


# --- Weights ---


def head_parameters(config: Config, head: Head | None) -> int:
    """Weights that a head adds to the encoder, where they are many."""
    if head is None or not head.predicts_tokens:
        return 0
    width = head.projection_width(config)
    transform = 0 if head.projects_directly else width * (config.hidden_size + 3)
    if head.has("prediction_head/dense"):
        transform = width * (config.hidden_size + 1)
    own = width - config.table_width * config.tie_word_embeddings
    return transform + config.vocab_size * own + config.vocab_size
