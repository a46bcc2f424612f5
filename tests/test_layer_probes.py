"""Probes of layers: words, spans and sentences, all layers in one pass, with their controls."""

import re

import numpy as np
import pytest
from keras import ops

from bert_zoo.data.edges import Edge
from bert_zoo.probing import (
    LayerCurve,
    LayerMixes,
    LayerVectors,
    description_lengths,
    mix_layers,
    probe_layers,
)
from bert_zoo.probing import probes as probes_module
from bert_zoo.probing.probes import (
    Measured,
    Probes,
    ProbeSettings,
    labelled_items,
    measure,
    train,
)

SIZES = (6, 4, 4)
RNG = np.random.default_rng(0)
WORDS = [f"w{number}" for number in range(12)]
# Layer 0 has noise, layer 1 the word's class, layer 2 that of the word before it.
SENTENCES = [list(RNG.choice(WORDS, size=RNG.integers(3, 8))) for _ in range(60)]
CLASSES = [[int(word[1:]) % 3 for word in words] for words in SENTENCES]
BEFORE = [[0, *classes[:-1]] for classes in CLASSES]
QUICK = {"batch_size": 64, "epochs": 3, "learning_rate": 0.05}


def told_by(noise, *classes):
    rows = [noise.normal(size=(sum(map(len, SENTENCES)), SIZES[0]))]
    for given in classes:
        one_hot = np.eye(4)[np.concatenate(given)]
        rows.append(one_hot + noise.normal(size=one_hot.shape, scale=0.1))
    return np.concatenate(rows, axis=1).astype(np.float16)


VECTORS = LayerVectors(SENTENCES, SIZES, told_by(np.random.default_rng(1), CLASSES, BEFORE))


def test_a_layers_probe_finds_what_is_in_it():
    names = [["abc"[number] for number in row] for row in CLASSES]
    found = probe_layers(VECTORS, names, seeds=(0, 1), **QUICK)
    noise, classes, before = found.score.mean
    assert classes == 1 and noise < 0.7 and before < 0.7
    assert found.score.values.shape == (2, 3) and found.control is None
    assert found.num_train + found.num_test < VECTORS.num_words


def test_a_hidden_layer_finds_what_is_in_another_layer():
    in_order = probe_layers(VECTORS, BEFORE, hidden_size=8, dropout=0.1, **QUICK)
    assert in_order.score.best_layer == 2 and in_order.score.mean[2] > 0.95


def test_layers_trained_together_are_as_each_trained_alone():
    words, settings = labelled_items(VECTORS, CLASSES), ProbeSettings(**QUICK)
    parts = words.split(None, len(VECTORS))

    def bits(reads):
        probes = train(reads, VECTORS, words, parts["train"], parts["validation"], settings, 3)
        return measure(probes, VECTORS, words, parts["test"]).bits

    together, alone = bits([[1], [0]]), bits([[1]])
    np.testing.assert_allclose(together[0], alone[0], rtol=1e-4)
    assert together[1] > 3 * together[0]


def test_bits_and_scores_are_those_of_the_formulas():
    words = labelled_items(VECTORS, CLASSES)
    probes = Probes([[0], [1]], SIZES, VECTORS.array, words, ProbeSettings(), seed=0)
    items = np.arange(0, len(words), 3)
    measured = measure(probes, VECTORS, words, items)
    x = VECTORS.array.astype(np.float64)
    x = (x - x.mean(0)) / x.std(0)
    for number, columns in enumerate((slice(0, 6), slice(6, 10))):
        kernel, bias = map(ops.convert_to_numpy, probes.probes[number].get_weights())
        logits = x[items, columns] @ kernel + bias
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        right = words.targets[items]
        bits = -np.log2(shares[np.arange(len(items)), right]).sum()
        np.testing.assert_allclose(measured.bits[number], bits, rtol=1e-5)
        assert measured.scores[number] == np.mean(logits.argmax(1) == right)


def test_control_labels_go_by_word_type_and_are_drawn_as_the_tasks_are():
    words = labelled_items(VECTORS, [[0 if label else None for label in row] for row in CLASSES])
    assert len(words) == sum(map(np.count_nonzero, CLASSES))
    many = [[f"w{number}"] for number in range(3000)]
    vectors = LayerVectors(many, (1,), np.zeros((3000, 1), np.float16))
    task = labelled_items(
        vectors, [["rare" if number % 10 == 0 else "usual"] for number in range(3000)]
    )
    drawn = task.with_control_labels(many, seed=0).targets
    assert abs(np.mean(task.label_names.index("rare") == drawn) - 0.1) < 0.02
    control = labelled_items(VECTORS, CLASSES).with_control_labels(SENTENCES, seed=1).targets
    of_type = {word: set() for word in WORDS}
    for word, target in zip(np.concatenate(SENTENCES), control, strict=True):
        of_type[word].add(int(target))
    assert all(len(targets) == 1 for targets in of_type.values())
    assert (
        control != labelled_items(VECTORS, CLASSES).with_control_labels(SENTENCES, 2).targets
    ).any()


def test_selectivity_is_what_the_control_leaves():
    found = probe_layers(VECTORS, CLASSES, control=True, **QUICK)
    np.testing.assert_array_equal(
        found.selectivity.values, found.score.values - found.control.values
    )
    # Layer 1 knows the class of a word and not the word.
    assert found.selectivity.mean[1] > 0.2
    assert "selectivity" in str(found) and f"{found.majority:.3f}" in str(found)


def test_sentences_are_the_mean_of_their_words():
    starts = VECTORS.splits[:-1]
    labels = ["long" if len(words) > 4 else "short" for words in SENTENCES]
    task = labelled_items(VECTORS, labels)
    means = task.inputs(VECTORS, np.array([0, 7]))["vectors_0"]
    for row, sentence in enumerate((0, 7)):
        rows = slice(starts[sentence], starts[sentence + 1])
        np.testing.assert_allclose(means[row], VECTORS.array[rows].astype(float).mean(0), rtol=1e-5)
    assert probe_layers(VECTORS, labels, **QUICK).score.name == "accuracy"


def edges_of(sentence, pairs):
    """The last word of a span, or those of two spans, are told by their classes."""
    classes = CLASSES[sentence]
    if not pairs:
        return [
            Edge((0, 2), None, (f"c{classes[1]}",)),
            Edge((2, 3), None, (f"c{classes[2]}", "one")),
        ]
    same = "same" if classes[0] == classes[2] else "other"
    return [Edge((0, 1), (2, 3), (same,))]


@pytest.mark.parametrize("pairs", [False, True])
def test_spans_and_pairs_of_spans_are_told_by_attention_over_their_words(pairs):
    edges = [edges_of(number, pairs) for number in range(len(SENTENCES))]
    found = probe_layers(VECTORS, edges, hidden_size=32, epochs=12, batch_size=16)
    assert found.score.name == "micro-F1"
    assert found.score.mean[1] > max(found.majority, found.score.mean[0]) + 0.05


def test_a_span_is_pooled_over_its_own_words_alone():
    edges = [[Edge((1, 3), None, ("a",))], *([] for _ in SENTENCES[1:])]
    task = labelled_items(VECTORS, edges)
    probes = Probes([[0]], SIZES, VECTORS.array, task, ProbeSettings(), seed=0)
    inputs = task.inputs(VECTORS, np.array([0]))
    before = ops.convert_to_numpy(probes(inputs))
    inputs["vectors_0"][~inputs["members_0"][0]] = 7
    np.testing.assert_array_equal(ops.convert_to_numpy(probes(inputs)), before)
    inputs["vectors_0"][1] += 1
    assert (ops.convert_to_numpy(probes(inputs)) != before).all()


def test_micro_f1_counts_all_labels():
    edges = [edges_of(number, False) for number in range(len(SENTENCES))]
    task = labelled_items(VECTORS, edges)
    probes = Probes([[1]], SIZES, VECTORS.array, task, ProbeSettings(), seed=0)
    items = np.arange(len(task))
    answers = ops.convert_to_numpy(probes(task.inputs(VECTORS, items)))[:, 0] > 0
    expected = 2 * (answers & task.targets).sum() / (answers.sum() + task.targets.sum())
    assert measure(probes, VECTORS, task, items).scores[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (CLASSES[:-1], {}, "labels has 59 entries for 60 sentences"),
        ([[0], *CLASSES[1:]], {}, f"labels[0] has 1 entries for {len(SENTENCES[0])} words"),
        (CLASSES, {"splits": ["train"] * 60}, "no labelled items in the split 'validation'"),
        (CLASSES, {"splits": ["dev"] * 60}, "splits contains ['dev']"),
        (CLASSES, {"hidden_size": 0}, "hidden_size is 0"),
        (["a"] * 60, {"control": True}, "A control task labels word types"),
        ([[Edge((0, 9), None, ("a",))]] * 60, {}, f"but its sentence has {len(SENTENCES[0])} words"),
        ([edges_of(i, i > 0) for i in range(60)], {}, "Probe edges of one span and edges of two spans"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(labels, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        probe_layers(VECTORS, labels, **options)


# --- Description lengths ---


def test_a_code_sends_each_portion_by_what_was_learnt_from_those_before(monkeypatch):
    calls = []

    def trained(reads, vectors, what, training, validation, settings, seed):
        calls.append(training)
        return None

    def measured(probes, vectors, what, items):
        calls.append(items)
        return Measured(np.full(len(SIZES), 0.5 * len(items)), None)

    monkeypatch.setattr(probes_module, "train", trained)
    monkeypatch.setattr(probes_module, "measure", measured)
    found = description_lengths(VECTORS, CLASSES, seeds=(5,))
    task = labelled_items(VECTORS, CLASSES)
    training = task.split(None, len(VECTORS))["train"]
    sent, portions = calls[::2], calls[1::2]
    # 48 sentences: after 1, 3 (0.0625), 6, 12, 24 and 48 of them.
    of = [len(np.unique(task.sentences[items])) for items in sent]
    assert of == [1, 3, 6, 12, 24]
    for before, portion, after in zip(sent, portions, [*sent[1:], training], strict=True):
        assert set(after) == {*before, *portion} and not {*before} & {*portion}
    first = len(sent[0])
    expected = first * np.log2(3) + 0.5 * (len(training) - first)
    np.testing.assert_allclose(found.bits.values, [[expected] * 3])
    assert found.uniform_bits == pytest.approx(len(training) * np.log2(3))
    np.testing.assert_allclose(found.compression.values, found.uniform_bits / found.bits.values)


def test_a_layer_that_tells_the_labels_needs_few_bits(monkeypatch):
    monkeypatch.setattr(probes_module, "FRACTIONS", (0.25, 1.0))
    found = description_lengths(VECTORS, CLASSES, control=True, **QUICK)
    assert found.compression.best_layer == 1
    assert found.compression.mean[1] > 2 > found.compression.mean[0]
    assert found.control.compression.mean[1] < found.compression.mean[1]
    assert found.control.uniform_bits == found.uniform_bits
    assert "control compression" in str(found)


def test_codes_are_of_one_label_each():
    edges = [edges_of(number, False) for number in range(len(SENTENCES))]
    with pytest.raises(ValueError, match="An item has 2 labels; expected exactly one"):
        description_lengths(VECTORS, edges)
    pairs = labelled_items(VECTORS, [edges_of(number, True) for number in range(len(SENTENCES))])
    one = pairs.with_one_label()
    assert not one.has_label_sets and (np.eye(2, dtype=bool)[one.targets] == pairs.targets).all()


# --- Mixtures ---


def test_a_mixture_draws_on_the_layer_that_has_the_labels():
    size = SIZES[1]
    array = np.concatenate([VECTORS.array[:, :size], VECTORS.array[:, SIZES[0] :]], axis=1)
    vectors = LayerVectors(SENTENCES, (size, size, size), array)
    found = mix_layers(vectors, BEFORE, batch_size=32, epochs=6, learning_rate=0.05)
    np.testing.assert_allclose(found.weights.values.sum(), 1, rtol=1e-5)
    assert found.weights.best_layer == 2
    # Layer 2 alone adds something.
    assert found.cumulative.mean[2] > 0.9 > found.cumulative.mean[1] + 0.1
    assert found.expected_layer[0] > 1.5 and found.centre_of_gravity[0] > 1.2
    with pytest.raises(ValueError, match=re.escape("The layers have sizes [6, 4, 4]")):
        mix_layers(VECTORS, BEFORE)


def test_where_the_weights_and_the_gains_have_their_centre():
    mixes = LayerMixes(
        LayerCurve("weight", [[0.2, 0.3, 0.5], [1, 0, 0]]),
        LayerCurve("accuracy up to it", [[0.5, 0.6, 0.9], [0.5, 0.5, 0.5]]),
    )
    np.testing.assert_allclose(mixes.centre_of_gravity, [1.3, 0])
    np.testing.assert_allclose(mixes.expected_layer, [(1 * 0.1 + 2 * 0.3) / 0.4, np.nan])
