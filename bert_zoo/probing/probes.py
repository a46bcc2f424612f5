"""Classifiers on the layers of a frozen encoder, all trained in one pass over the vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from bert_zoo.layers.scalar_mix import ScalarMix
from bert_zoo.probing.labelled import Inputs, Labelled
from bert_zoo.probing.vectors import LayerVectors

# Into how many dimensions the words of a span are projected before attention pools them (Tenney et al.
# 2019, arXiv:1905.06316, section 3.1).
SPAN_SIZE = 256
# After at least so many steps probes are compared on the validation split: a few examples are gone
# through several times until then.
_STEPS = 20
_ITEMS_AT_ONCE = 512
# Items by which vectors are standardised, and the least deviation that is divided by.
_SAMPLE, _EPSILON = 1024, 1e-4


@dataclass(frozen=True)
class ProbeSettings:
    """What probes are and how they are trained: with Adam, whose learning rate falls linearly to 0.

    Of its epochs each probe keeps the one with the least loss on the validation split.

    Attributes:
        hidden_size: the width of one hidden layer with ReLU; None for a linear probe.
        dropout: its rate on the hidden layer.
        epochs: how often the training split is gone through.
        batch_size: items a step: words, sentences or spans.
        learning_rate: the first step's.
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
    """How well probes do on some items."""

    bits: np.ndarray  # float64 [probes]: the sum of -log2 of the probabilities of the items' labels
    scores: np.ndarray  # float64 [probes]: accuracy; micro-F1 where items have sets of labels


class Probes(keras.Model):
    """Probes with parameters of their own, whose losses are added.

    Args:
        reads: for each probe the layers that it reads; several are mixed.
        sizes: the width of each layer.
        sample: float [rows, sum of the sizes], some of the vectors. All are standardised by its mean and
            deviation, so that one learning rate suits all layers; what a probe can learn stays the same.
        labelled: what is classified.
        settings: of the probes.
        seed: of their parameters and dropout.
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
        """Inputs of `Labelled.inputs` to logits [items, probes, classes]."""
        slots = []
        for slot in range(sum(name.startswith("vectors") for name in inputs)):
            vectors = ops.cast(inputs[f"vectors_{slot}"], "float32")
            layers = ops.split((vectors - self.mean) / self.deviation, self.boundaries, axis=-1)
            slots.append((layers, inputs.get(f"members_{slot}")))
        return ops.stack([probe(slots, training=training) for probe in self.probes], axis=1)

    def losses_of(self, targets, logits):
        """The natural logarithm of 1 / the probability of each item's labels, [items, probes]."""
        targets = ops.convert_to_tensor(targets)[:, None]
        if self.has_label_sets:
            targets = ops.broadcast_to(ops.cast(targets, logits.dtype), ops.shape(logits))
            return ops.sum(ops.binary_crossentropy(targets, logits, from_logits=True), axis=-1)
        targets = ops.broadcast_to(targets, ops.shape(logits)[:2])
        return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.sum(ops.mean(self.losses_of(y, y_pred), axis=0))


class Probe(keras.layers.Layer):
    """A classifier of items by the vectors of one layer or of a mixture of layers."""

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
    """The words of a span, projected, summed with weights of their own (Lee et al. 2017, arXiv:1707.07045)."""

    def __init__(self, rng: np.random.Generator):
        super().__init__()
        self.projection = keras.layers.Dense(SPAN_SIZE, kernel_initializer=_initializer(rng))
        self.attention = keras.layers.Dense(1, kernel_initializer=_initializer(rng))

    def call(self, words, members):
        """Words [rows, size] and which of them are a span's, bool [spans, rows], to [spans, SPAN_SIZE]."""
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
    """Probes trained on some items, each as it was when it did best on others.

    Args:
        reads: for each probe the layers that it reads.
        vectors: of the layers.
        labelled: the items.
        training, validation: int [...]: the numbers of the items to train with, and to choose an epoch by.
        settings: of probes and training.
        seed: of their parameters and of the order of the items.
    """
    rng = np.random.default_rng(seed)
    sample = labelled.inputs(vectors, np.sort(rng.permutation(training)[:_SAMPLE]))["vectors_0"]
    probes = Probes(reads, vectors.sizes, sample, labelled, settings, seed)
    batches = -(-len(training) // settings.batch_size)
    # What is gone through between two looks at the validation split.
    passes = -(-_STEPS // batches)
    steps = settings.epochs * passes * batches
    schedule = keras.optimizers.schedules.PolynomialDecay(settings.learning_rate, steps, 0.0)
    # On TensorFlow, XLA would compile anew for every shape; JAX needs it.
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
    """How well probes do on some of the items."""
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
    # In their order on disk, as they are read from there.
    return (np.sort(items[start : start + size]) for start in range(0, len(items), size))
