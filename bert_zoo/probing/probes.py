"""Classifiers on the layers of a frozen encoder, trained side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.data.edges import Edge
from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check_fields, setting
from bert_zoo.layers.heads import ScalarMix
from bert_zoo.probing.vectors import LayerCurve, LayerVectors, table_by_layer

# The words of a span are projected to this size before attention pools them (Tenney et al. 2019,
# arXiv:1905.06316, section 3.1).
SPAN_SIZE = 256
# Minimum number of steps between two comparisons on the validation split. With few examples, these are
# several passes over the training split.
_STEPS = 20
_ITEMS_AT_ONCE = 512
# Number of items that the mean and deviation of vectors are computed from, and the smallest divisor.
_SAMPLE, _EPSILON = 1024, 1e-4


# --- Labelled items of sentences (words, whole sentences, spans and pairs of spans) and their splits ---

SPLITS = ("train", "validation", "test")
# The number of rows is padded to a multiple of this, so that few shapes are compiled.
_ROWS = 256

Inputs = dict[str, np.ndarray]


def sentence_splits(splits: Sequence[str] | None, num_sentences: int) -> np.ndarray:
    """The split of each sentence, one of `SPLITS`. By default the ninth of every ten sentences is "validation", the
    tenth "test" and the others "train"."""
    if splits is None:
        splits = [SPLITS[max(0, number % 10 - 7)] for number in range(num_sentences)]
    _check_length("splits", splits, num_sentences)
    if unknown := sorted(set(splits) - set(SPLITS)):
        raise ValueError(f"splits contains {quoted(unknown)}; expected values from {list(SPLITS)}.")
    return np.asarray(splits)


@dataclass(frozen=True)
class Labelled:
    """Items with labels; an item is a range of words or a pair of ranges."""

    # int64 [items, 1 or 2, 2]: the first row of vectors of each range, and the row after its last.
    spans: np.ndarray
    sentences: np.ndarray  # int64 [items]: the number of each item's sentence
    # Class ids, int64 [items]; or bool [items, classes] if an item may have any number of labels.
    targets: np.ndarray
    label_names: tuple[Any, ...]  # the sorted labels; a label's position is its class id
    # How the vectors of an item's words become one: "mean", or trained "attention".
    pooling: str = "mean"

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def has_label_sets(self) -> bool:
        return self.targets.ndim == 2

    def inputs(self, vectors: LayerVectors, items: np.ndarray) -> Inputs:
        """A probe's inputs for some items: arrays for span 0 and, for pairs, span 1.

        With mean pooling: "vectors_0", float [items, sum of the layers' sizes]. With attention:
        "vectors_0", float16 [rows, sum of sizes], and "members_0", bool [items, rows]: which
        rows are words of the span.
        """
        found = {}
        for slot, spans in enumerate(self.spans[items].transpose(1, 0, 2)):
            starts, stops = spans.T
            lengths = stops - starts
            if self.pooling == "attention":
                rows = np.concatenate([np.arange(start, stop) for start, stop in spans])
                padding = -len(rows) % _ROWS
                members = np.zeros((len(items), len(rows) + padding), bool)
                members[np.repeat(np.arange(len(items)), lengths), np.arange(len(rows))] = True
                rows = np.append(rows, np.repeat(rows[:1], padding))
                found |= {f"vectors_{slot}": vectors.array[rows], f"members_{slot}": members}
            elif lengths.max() == 1:
                found[f"vectors_{slot}"] = vectors.array[starts]
            else:
                # One span at a time, because all their words together may not fit in memory.
                found[f"vectors_{slot}"] = np.stack(
                    [vectors.array[start:stop].mean(0, np.float32) for start, stop in spans]
                )
        return found

    def split(self, splits: Sequence[str] | None, num_sentences: int) -> dict[str, np.ndarray]:
        """The numbers of the items in each of `SPLITS`, int64; ValueError if there are none."""
        of_item = sentence_splits(splits, num_sentences)[self.sentences]
        found = {name: np.flatnonzero(of_item == name) for name in SPLITS}
        for name, items in found.items():
            if not len(items):
                raise ValueError(
                    f"There are no labelled items in the split {name!r}. Pass more sentences, or pass splits to "
                    "assign sentences to 'train', 'validation' and 'test'."
                )
        return found

    def with_one_label(self) -> "Labelled":
        """With class ids as targets; ValueError if an item does not have exactly one label."""
        if not self.has_label_sets:
            return self
        counts = self.targets.sum(1)
        if (counts != 1).any():
            raise ValueError(
                f"An item has {counts[counts != 1][0]} labels; expected exactly one. Choose one of them."
            )
        return replace(self, targets=self.targets.argmax(1))

    def with_control_labels(self, sentences: Sequence[Sequence[str]], seed: int) -> "Labelled":
        """A control task: every word type gets a random label, the same wherever it occurs.

        Labels are drawn with the frequencies of the task's labels (Hewitt and Liang 2019, arXiv:1909.03368,
        section 2). A probe can only memorise them, so word types that occur in the test split alone bound
        its accuracy.
        """
        starts, stops = self.spans[:, 0].T
        if self.has_label_sets or (stops - starts > 1).any():
            raise ValueError(
                "A control task labels word types. Pass control=True only with labels of words."
            )
        words = list(chain.from_iterable(sentences))
        # In the order of the text, which is the same in every process.
        types = {word: number for number, word in enumerate(dict.fromkeys(words))}
        drawn = np.random.default_rng(seed).choice(self.targets, size=len(types))
        return replace(self, targets=drawn[[types[words[row]] for row in starts]])


def labelled_items(vectors: LayerVectors, labels: Sequence[Any]) -> Labelled:
    """Labels of words (None for those to leave out), edges (`bert_zoo.data.edges.Edge`) or whole sentences, as
    strings or integers, as `Labelled` items."""
    _check_length("labels", labels, len(vectors))
    if any(isinstance(label, str | int | np.integer) for label in labels):
        return _labelled_sentences(vectors, labels)
    if any(isinstance(label, Edge) for label in chain.from_iterable(labels)):
        return _labelled_edges(vectors, labels)
    return _labelled_words(vectors, labels)


def _labelled_sentences(vectors: LayerVectors, labels: Sequence[Any]) -> Labelled:
    names, ids = _ids(labels)
    spans = np.stack([vectors.splits[:-1], vectors.splits[1:]], axis=-1)
    return Labelled(spans[:, None], np.arange(len(labels)), ids, names)


def _labelled_words(vectors: LayerVectors, labels: Sequence[Sequence[Any]]) -> Labelled:
    for number, (words, given) in enumerate(zip(vectors.sentences, labels, strict=True)):
        _check_length(f"labels[{number}]", given, len(words), "words")
    flat = list(chain.from_iterable(labels))
    rows = np.array([row for row, label in enumerate(flat) if label is not None], np.int64)
    names, ids = _ids([flat[row] for row in rows])
    sentences = np.searchsorted(vectors.splits, rows, side="right") - 1
    return Labelled(np.stack([rows, rows + 1], axis=-1)[:, None], sentences, ids, names)


def _labelled_edges(vectors: LayerVectors, labels: Sequence[Sequence[Edge]]) -> Labelled:
    edges = [(number, edge) for number, some in enumerate(labels) for edge in some]
    are_pairs = edges[0][1].span2 is not None
    spans = []
    for number, edge in edges:
        parts = [edge.span1] if edge.span2 is None else [edge.span1, edge.span2]
        if (len(parts) == 2) != are_pairs:
            raise ValueError(
                f"labels[{number}] has {shown(edge)} among edges of {1 + are_pairs} span(s). Probe edges of "
                "one span and edges of two spans separately."
            )
        length = len(vectors.sentences[number])
        if not all(0 <= start < stop <= length for start, stop in parts):
            raise ValueError(
                f"labels[{number}] has {shown(edge)}, but its sentence has {length} words. Pass labels of the "
                "sentences that the vectors were computed from."
            )
        spans.append(vectors.splits[number] + np.array(parts))
    names = tuple(sorted(set(chain.from_iterable(edge.labels for _, edge in edges))))
    column = {name: i for i, name in enumerate(names)}
    targets = np.zeros((len(edges), len(names)), bool)
    for row, (_, edge) in enumerate(edges):
        targets[row, [column[label] for label in edge.labels]] = True
    sentences = np.array([number for number, _ in edges])
    return Labelled(np.array(spans), sentences, targets, names, "attention")


def _ids(labels: Sequence[Any]) -> tuple[tuple[Any, ...], np.ndarray]:
    names = tuple(sorted(set(labels)))
    numbers = {name: i for i, name in enumerate(names)}
    return names, np.array([numbers[label] for label in labels], np.int64)


def _check_length(name: str, values: Sequence[Any], count: int, of: str = "sentences") -> None:
    if len(values) != count:
        raise ValueError(
            f"{name} has {len(values)} entries for {count} {of}; expected one entry each."
        )


@dataclass(frozen=True)
class ProbeSettings:
    """The shape of probes and their training, by Adam with a learning rate that falls linearly to 0.

    Each probe keeps the weights of the epoch with the lowest loss on the validation split.
    """

    # Units of the one hidden layer, with ReLU; None for a linear probe.
    hidden_size: int | None = setting(None, least=1)
    dropout: float = setting(0.0, least=0, below=1)  # dropout rate of the hidden layer
    # Evaluations on the validation split. Between two of them lies one pass over the training split, or several if
    # a pass has fewer than 20 steps.
    epochs: int = setting(5, least=1)
    batch_size: int = setting(256, least=1)  # items per step: words, sentences or spans
    learning_rate: float = 5e-3  # learning rate of the first step

    def __post_init__(self):
        check_fields(self)


@dataclass(frozen=True)
class Measured:
    """The loss and score of probes on some items."""

    bits: np.ndarray  # float64 [probes]: the sum of -log2 of the probabilities of the items' labels
    scores: np.ndarray  # float64 [probes]: accuracy; micro-F1 where items have sets of labels


class Probes(keras.Model):
    """Probes with separate parameters, trained together on the sum of their losses.

    Each of `reads` names the layers that a probe reads; it mixes several. `sizes` are those of the layers' vectors. The
    mean and deviation of `sample`, float [rows, sum of sizes], standardise all vectors, so that one learning rate suits
    all layers; what a probe can learn stays the same.
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
        """Inputs from `Labelled.inputs` -> logits [items, probes, classes]."""
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
        """Words [rows, size] and members, bool [spans, rows] -> [spans, SPAN_SIZE]."""
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
    """Trains probes of the layers that each `reads`; each keeps its weights from the best epoch on the validation
    items."""
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


# --- Which layers a task draws on: probes on weighted mixtures of layers ---


@dataclass(frozen=True)
class LayerMixes:
    """The weights and scores of probes on trained mixtures of layers.

    Attributes:
        weights: the weight of each layer in the mixture of all layers; weights sum to 1.
        cumulative: at layer l, the score of a probe that mixes layers 0 to l: accuracy, or micro-F1 for edges.
    """

    weights: LayerCurve
    cumulative: LayerCurve

    @property
    def centre_of_gravity(self) -> np.ndarray:
        """The mean layer, weighted by `weights`: float64 [runs] (Tenney et al. 2019, arXiv:1905.05950, equation 2)."""
        return self.weights.values @ np.arange(len(self.weights.mean))

    @property
    def expected_layer(self) -> np.ndarray:
        """The mean layer, weighted by how much each layer adds to the score: float64 [runs] (equation 4 there).

        NaN if the mixture of all layers scores as layer 0 alone does.
        """
        gains = np.diff(self.cumulative.values, axis=1)
        total = gains.sum(axis=1)
        moments = gains @ np.arange(1, gains.shape[1] + 1)
        return np.divide(moments, total, out=np.full_like(total, np.nan), where=total != 0)

    def __str__(self) -> str:
        return (
            f"{table_by_layer([self.weights, self.cumulative])}\n"
            f"Centre of gravity {self.centre_of_gravity.mean():.2f}, "
            f"expected layer {self.expected_layer.mean():.2f}."
        )


def mix_layers(
    vectors: LayerVectors,
    labels: Sequence[Any],
    *,
    splits: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> LayerMixes:
    """Trains a probe on a mixture of all layers, and for each layer a probe on a mixture of the layers up to it.

    The weights of a mixture are a softmax, and equal at first. Tenney et al.'s edge probes
    have hidden_size=256.

    Args:
        vectors, labels, splits, seeds, settings: as in `probe_layers`.

    Raises:
        ValueError: as in `probe_layers`, or the layers differ in size and cannot be mixed.
    """
    if len({*vectors.sizes}) > 1:
        raise ValueError(
            f"The layers have sizes {list(vectors.sizes)}, and only layers of one size can be mixed. Use "
            "probe_layers, which probes each layer alone."
        )
    chosen, given = ProbeSettings(**settings), labelled_items(vectors, labels)
    parts = given.split(splits, len(vectors))
    reads = [range(layer + 1) for layer in range(vectors.num_layers)]
    weights, scores = [], []
    for seed in seeds:
        probes = train(reads, vectors, given, parts["train"], parts["validation"], chosen, seed)
        weights.append(ops.convert_to_numpy(ops.softmax(probes.probes[-1].mix.scalars)))
        scores.append(measure(probes, vectors, given, parts["test"]).scores)
    name = "micro-F1" if given.has_label_sets else "accuracy"
    return LayerMixes(
        LayerCurve("weight", np.array(weights)), LayerCurve(f"{name} up to it", np.array(scores))
    )


# --- Probes of words, spans and sentences at each layer, with control tasks ---


@dataclass(frozen=True)
class LayerProbes:
    """The scores of each layer's probe on the test split.

    Attributes:
        score: accuracy, or micro-F1 for edges, which may have several labels.
        majority: the score of always predicting the most frequent label of the training split.
        control: the accuracy on random labels by word type; None if it was not requested.
        num_train: number of labelled items in the training split.
        num_test: number of labelled items in the test split.
    """

    score: LayerCurve
    majority: float
    control: LayerCurve | None
    num_train: int
    num_test: int

    @property
    def selectivity(self) -> LayerCurve | None:
        """Accuracy minus the control task's accuracy (Hewitt and Liang 2019, arXiv:1909.03368)."""
        if self.control is None:
            return None
        return LayerCurve("selectivity", self.score.values - self.control.values)

    def __str__(self) -> str:
        curves = [self.score, self.control, self.selectivity]
        return (
            f"{table_by_layer([curve for curve in curves if curve is not None])}\n"
            f"Always guessing the most frequent label: {self.majority:.3f}. "
            f"Trained on {self.num_train:,} items, tested on {self.num_test:,}."
        )


def probe_layers(
    vectors: LayerVectors,
    labels: Sequence[Any],
    *,
    splits: Sequence[str] | None = None,
    control: bool = False,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> LayerProbes:
    """Trains a probe on each layer, all layers side by side, and scores them on the test split.

    Args:
        vectors: vectors from `compute_vectors`.
        labels: for each sentence either a label; or a label for each word, with None for words to leave out; or
            edges (`bert_zoo.data.edges.Edge`): spans or pairs of spans, pooled by attention and with any number
            of labels (Tenney et al. 2019, arXiv:1905.06316). A labelled sentence is the mean of its words' vectors.
        splits: "train", "validation" or "test" for each sentence. By default the ninth and tenth of every ten
            sentences are for validation and test.
        control: also trains probes on random labels by word type (Hewitt and Liang 2019, arXiv:1909.03368).
            This needs labels of words.
        seeds: seeds of the runs, one each.
        settings: hidden_size=None (linear, else the units of one hidden layer), dropout=0.0, epochs=5,
            batch_size=256, learning_rate=5e-3 (`ProbeSettings`).

    Raises:
        ValueError: labels or splits do not match the sentences, a split has no labelled items, or `control` is
            true for labels of sentences or edges.
    """
    chosen, given = ProbeSettings(**settings), labelled_items(vectors, labels)
    parts = given.split(splits, len(vectors))
    reads = [[layer] for layer in range(vectors.num_layers)]

    def scores(what: Labelled, seed: int) -> np.ndarray:
        probes = train(reads, vectors, what, parts["train"], parts["validation"], chosen, seed)
        return measure(probes, vectors, what, parts["test"]).scores

    name = "micro-F1" if given.has_label_sets else "accuracy"
    controls = None
    if control:
        values = [
            scores(given.with_control_labels(vectors.sentences, seed), seed) for seed in seeds
        ]
        controls = LayerCurve("control accuracy", np.array(values))
    return LayerProbes(
        LayerCurve(name, np.array([scores(given, seed) for seed in seeds])),
        _majority(given, parts["train"], parts["test"]),
        controls,
        len(parts["train"]),
        len(parts["test"]),
    )


def _majority(what: Labelled, training: np.ndarray, test: np.ndarray) -> float:
    """The score on the test items of always predicting the training items' most frequent label."""
    if not what.has_label_sets:
        most = np.bincount(what.targets[training]).argmax()
        return float(np.mean(what.targets[test] == most))
    present = what.targets[test]
    right = present[:, what.targets[training].sum(axis=0).argmax()].sum()
    return float(2 * right / (len(test) + present.sum()))


# --- Minimum description length: how many bits a task's labels take, given a layer's vectors ---

# The share of the training sentences that has been sent after each portion (Voita and Titov 2020,
# arXiv:2003.12298, section 2.2.2).
FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class DescriptionLengths:
    """The lengths of online codes of the labels, for every layer.

    Attributes:
        bits: the length of each layer's code.
        uniform_bits: the length of a code in which all labels are equally likely: items * log2(classes).
        control: the lengths for random labels by word type; None if they were not requested.
    """

    bits: LayerCurve
    uniform_bits: float
    control: "DescriptionLengths | None" = None

    @property
    def compression(self) -> LayerCurve:
        """How many times shorter than the uniform code each layer's code is."""
        return LayerCurve("compression", self.uniform_bits / self.bits.values)

    def __str__(self) -> str:
        named = [("", self)] if self.control is None else [("", self), ("control ", self.control)]
        curves = [
            LayerCurve(prefix + curve.name, curve.values)
            for prefix, lengths in named
            for curve in (LayerCurve("kbit", lengths.bits.values / 1000), lengths.compression)
        ]
        return table_by_layer(curves)


def description_lengths(
    vectors: LayerVectors,
    labels: Sequence[Any],
    *,
    splits: Sequence[str] | None = None,
    control: bool = False,
    seeds: Sequence[int] = (0,),
    **settings: Any,
) -> DescriptionLengths:
    """Measures the length of an online code of the training split's labels, for every layer.

    A uniform code sends the first labels. Then a probe, trained on everything sent so far, encodes the next
    portion, which is about as long as all before it (Voita and Titov 2020, arXiv:2003.12298). A short code
    means that little data is enough to find the labels in a layer. As in the original, each probe keeps the
    epoch with the lowest loss on the validation split, and sentences are shuffled.

    Args:
        vectors, labels, splits, control, seeds, settings: as in `probe_layers`. Every edge must have one label.

    Raises:
        ValueError: as in `probe_layers`, or an edge does not have exactly one label.
    """
    chosen, given = ProbeSettings(**settings), labelled_items(vectors, labels).with_one_label()
    parts = given.split(splits, len(vectors))
    reads = [[layer] for layer in range(vectors.num_layers)]

    def bits(what: Labelled, seed: int) -> np.ndarray:
        first, *portions = _portions(what, parts["train"], seed)
        sent, length = first, len(first) * np.log2(len(what.label_names))
        for portion in portions:
            probes = train(reads, vectors, what, sent, parts["validation"], chosen, seed)
            length = length + measure(probes, vectors, what, portion).bits
            sent = np.concatenate([sent, portion])
        return length

    def lengths(drawn: Sequence[Labelled], control: DescriptionLengths | None = None):
        values = [bits(what, seed) for what, seed in zip(drawn, seeds, strict=True)]
        uniform = len(parts["train"]) * float(np.log2(len(given.label_names)))
        return DescriptionLengths(LayerCurve("bits", np.array(values)), uniform, control)

    controls = None
    if control:
        controls = lengths([given.with_control_labels(vectors.sentences, seed) for seed in seeds])
    return lengths([given] * len(seeds), controls)


def _portions(what: Labelled, training: np.ndarray, seed: int) -> list[np.ndarray]:
    """Row numbers of the training items, in portions that end at `FRACTIONS` of the shuffled sentences."""
    sentences = np.unique(what.sentences[training])
    shuffled = np.random.default_rng(seed).permutation(sentences)
    ends = np.unique([max(1, int(fraction * len(shuffled))) for fraction in FRACTIONS])
    return [
        training[np.isin(what.sentences[training], some)] for some in np.split(shuffled, ends[:-1])
    ]
