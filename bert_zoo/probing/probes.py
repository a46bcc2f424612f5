"""Classifiers on the layers of a frozen encoder, trained side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from bert_zoo.layers.scalar_mix import ScalarMix
from bert_zoo.probing.labelled import Inputs, Labelled
from bert_zoo.probing.vectors import LayerVectors

# The words of a span are projected to this size before attention pools them (Tenney et al. 2019,
# arXiv:1905.06316, section 3.1).
SPAN_SIZE = 256
# Minimum number of steps between two comparisons on the validation split. With few examples, these are
# several passes over the training split.
_STEPS = 20
_ITEMS_AT_ONCE = 512
# Number of items that the mean and deviation of vectors are computed from, and the smallest divisor.
_SAMPLE, _EPSILON = 1024, 1e-4


@dataclass(frozen=True)
class ProbeSettings:
    """The shape of probes and their training, by Adam with a learning rate that falls linearly to 0.

    Each probe keeps the weights of the epoch with the lowest loss on the validation split.

    Attributes:
        hidden_size: units of the one hidden layer, with ReLU; None for a linear probe.
        dropout: dropout rate of the hidden layer.
        epochs: evaluations on the validation split. Between two of them lies one pass over the training split, or
            several if a pass has fewer than 20 steps.
        batch_size: items per step: words, sentences or spans.
        learning_rate: learning rate of the first step.
    """

    hidden_size: int | None = None
    dropout: float = 0.0
    epochs: int = 5
    batch_size: int = 256
    learning_rate: float = 5e-3

    def __post_init__(self):
        for name in ("hidden_size", "epochs", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1.")


@dataclass(frozen=True)
class Measured:
    """The loss and score of probes on some items."""

    bits: np.ndarray  # float64 [probes]: the sum of -log2 of the probabilities of the items' labels
    scores: np.ndarray  # float64 [probes]: accuracy; micro-F1 where items have sets of labels


class Probes(keras.Model):
    """Probes with separate parameters, trained together on the sum of their losses.

    Args:
        reads: the layers that each probe reads; it mixes several.
        sizes: the size of each layer's vectors.
        sample: float [rows, sum of sizes], a sample of the vectors. Its mean and deviation standardise all
            vectors, so that one learning rate suits all layers; what a probe can learn stays the same.
        labelled: the items to classify.
        settings: settings of the probes.
        seed: seed of the initial parameters and of dropout.
    """

    def __init__(
        self,
        reads: Sequence[Sequence[int]],
        sizes: Sequence[int],
        sample: np.ndarray,
        labelled: Labelled,
        settings: ProbeSettings,
        seed: int,
    ):
        super().__init__()
        self.boundaries = np.cumsum(sizes)[:-1].tolist()
        mean = sample.mean(axis=0, dtype=np.float64)
        # Not `std`, which makes a float64 copy.
        variance = np.einsum("ij,ij->j", sample, sample, dtype=np.float64) / len(sample) - mean**2
        self.mean = mean.astype(np.float32)
        self.deviation = np.sqrt(np.maximum(variance, _EPSILON**2)).astype(np.float32)
        self.has_label_sets = labelled.has_label_sets
        rng = np.random.default_rng(seed)
        self.probes = [Probe(layers, labelled, settings, rng) for layers in reads]

    def call(self, inputs: Inputs, training=None):
        """Maps the inputs from `Labelled.inputs` to logits [items, probes, classes]."""
        slots = []
        for slot in range(sum(name.startswith("vectors") for name in inputs)):
            vectors = ops.cast(inputs[f"vectors_{slot}"], "float32")
            layers = ops.split((vectors - self.mean) / self.deviation, self.boundaries, axis=-1)
            slots.append((layers, inputs.get(f"members_{slot}")))
        return ops.stack([probe(slots, training=training) for probe in self.probes], axis=1)

    def losses_of(self, targets, logits):
        """Cross-entropy of each item in nats, [items, probes]; for sets of labels, summed over the classes."""
        targets = ops.convert_to_tensor(targets)[:, None]
        if self.has_label_sets:
            targets = ops.broadcast_to(ops.cast(targets, logits.dtype), ops.shape(logits))
            return ops.sum(ops.binary_crossentropy(targets, logits, from_logits=True), axis=-1)
        targets = ops.broadcast_to(targets, ops.shape(logits)[:2])
        return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.sum(ops.mean(self.losses_of(y, y_pred), axis=0))


class Probe(keras.layers.Layer):
    """A classifier on the vectors of one layer, or of a mixture of layers."""

    def __init__(
        self,
        layers: Sequence[int],
        labelled: Labelled,
        settings: ProbeSettings,
        rng: np.random.Generator,
    ):
        super().__init__()
        self.layers = layers
        self.mix = ScalarMix(len(layers)) if len(layers) > 1 else None
        slots = labelled.spans.shape[1] if labelled.pooling == "attention" else 0
        self.pools = [SpanPooling(rng) for _ in range(slots)]

        def dense(size, activation=None):
            return keras.layers.Dense(size, activation, kernel_initializer=_initializer(rng))

        hidden = [] if settings.hidden_size is None else [dense(settings.hidden_size, "relu")]
        if hidden and settings.dropout:
            hidden.append(keras.layers.Dropout(settings.dropout, seed=_seed(rng)))
        self.classifier = keras.Sequential([*hidden, dense(len(labelled.label_names))])

    def call(self, slots, training=None):
        found = []
        for slot, (vectors, members) in enumerate(slots):
            read = [vectors[layer] for layer in self.layers]
            x = read[0] if self.mix is None else self.mix(read, training=training)
            found.append(self.pools[slot](x, members) if self.pools else x)
        return self.classifier(ops.concatenate(found, axis=-1), training=training)


class SpanPooling(keras.layers.Layer):
    """Projects the words of a span and sums them by attention weights (Lee et al. 2017, arXiv:1707.07045)."""

    def __init__(self, rng: np.random.Generator):
        super().__init__()
        self.projection = keras.layers.Dense(SPAN_SIZE, kernel_initializer=_initializer(rng))
        self.attention = keras.layers.Dense(1, kernel_initializer=_initializer(rng))

    def call(self, words, members):
        """Maps words [rows, size] and members, bool [spans, rows], to [spans, SPAN_SIZE]."""
        projected = self.projection(words)
        scores = ops.where(members, ops.squeeze(self.attention(projected), -1)[None], -1e9)
        return ops.matmul(ops.softmax(scores, axis=-1), projected)


def _initializer(rng: np.random.Generator) -> keras.initializers.Initializer:
    return keras.initializers.GlorotUniform(seed=_seed(rng))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def train(
    reads: Sequence[Sequence[int]],
    vectors: LayerVectors,
    labelled: Labelled,
    training: np.ndarray,
    validation: np.ndarray,
    settings: ProbeSettings,
    seed: int,
) -> Probes:
    """Trains probes, and returns each with its weights from the best epoch.

    Args:
        reads: the layers that each probe reads.
        vectors: the vectors of all layers.
        labelled: the items.
        training, validation: int arrays: numbers of the items to train on, and to choose the best epoch by.
        settings: settings of the probes and their training.
        seed: seed of the parameters and of the order of the items.
    """
    rng = np.random.default_rng(seed)
    sample = labelled.inputs(vectors, np.sort(rng.permutation(training)[:_SAMPLE]))["vectors_0"]
    probes = Probes(reads, vectors.sizes, sample, labelled, settings, seed)
    batches = -(-len(training) // settings.batch_size)
    # Passes over the training split between two evaluations on the validation split.
    passes = -(-_STEPS // batches)
    steps = settings.epochs * passes * batches
    schedule = keras.optimizers.schedules.PolynomialDecay(settings.learning_rate, steps, 0.0)
    # With XLA, TensorFlow would compile again for every shape. JAX needs compilation.
    on_tensorflow = keras.backend.backend() == "tensorflow"
    jit_compile = False if on_tensorflow else "auto"
    probes.compile(keras.optimizers.Adam(schedule), jit_compile=jit_compile)

    least = np.full(len(reads), np.inf)
    best = [None] * len(reads)
    for _ in range(settings.epochs):
        for _ in range(passes):
            for items in _batches(rng.permutation(training), settings.batch_size):
                probes.train_on_batch(labelled.inputs(vectors, items), labelled.targets[items])
        bits = measure(probes, vectors, labelled, validation).bits
        for number in np.flatnonzero(bits < least):
            least[number] = bits[number]
            best[number] = probes.probes[number].get_weights()
    for probe, weights in zip(probes.probes, best, strict=True):
        probe.set_weights(weights)
    return probes


def measure(
    probes: Probes, vectors: LayerVectors, labelled: Labelled, items: np.ndarray
) -> Measured:
    """Measures the loss and score of probes on some of the items."""
    nats = right = given = 0.0
    for some in _batches(items, _ITEMS_AT_ONCE):
        targets = labelled.targets[some]
        logits = ops.convert_to_numpy(probes.predict_on_batch(labelled.inputs(vectors, some)))
        losses = ops.convert_to_numpy(probes.losses_of(targets, logits))
        nats = nats + losses.sum(axis=0, dtype=np.float64)
        if labelled.has_label_sets:
            answers = logits > 0
            right = right + 2 * (answers & targets[:, None]).sum(axis=(0, 2))
            given = given + answers.sum(axis=(0, 2)) + targets.sum()
        else:
            right = right + (logits.argmax(axis=-1) == targets[:, None]).sum(axis=0)
            given = given + len(some)
    return Measured(nats / np.log(2), right / np.maximum(given, 1))


def _batches(items: np.ndarray, size: int) -> Iterator[np.ndarray]:
    # Sorted, so that they are read in the order of the file.
    return (np.sort(items[start : start + size]) for start in range(0, len(items), size))
