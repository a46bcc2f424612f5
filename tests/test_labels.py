"""Labels as people have them train and measure as class numbers do."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import TEXTS, load_task

import bert_zoo
from bert_zoo.models.labels import LabelRange, label_arrays, label_names, labels_in_graph

NAMES = ["negative", "neutral", "positive"]
NUMBERS = [2, 0, 1]


def batches(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(2)


@pytest.fixture(scope="module")
def classifier():
    return load_task("classification", labels=NAMES, dropout=0.0)


class Column:
    """What pandas has: a column that is indexed by what is not its rows' numbers."""

    def __init__(self, values):
        self.values = np.array(values, object)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __getitem__(self, key):
        raise KeyError(key)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def to_numpy(self):
        return self.values


SPELLINGS = {
    "numbers": NUMBERS,
    "names": [NAMES[i] for i in NUMBERS],
    "bytes": np.array([NAMES[i].encode() for i in NUMBERS]),
    "objects": np.array([NAMES[i] for i in NUMBERS], object),
    "objects that are numbers": np.array(NUMBERS, object),
    "a column": Column([NAMES[i] for i in NUMBERS]),
    "floats": np.array(NUMBERS, "float32"),
    "one-hot rows": np.eye(3)[NUMBERS],
    "one-hot rows of bools": np.eye(3, dtype=bool)[NUMBERS],
    "a column of one": np.array(NUMBERS)[:, None],
    "a tensor": tf.constant([NAMES[i] for i in NUMBERS]),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_labels_of_every_kind_are_read_as_numbers(spelling, classifier):
    labels = SPELLINGS[spelling]
    assert label_arrays(classifier, TEXTS, labels).tolist() == NUMBERS
    if not isinstance(labels, Column):
        tensor = tf.convert_to_tensor(np.asarray(labels).tolist())
        assert labels_in_graph(classifier, TEXTS, tensor).numpy().tolist() == NUMBERS


def test_bools_are_the_classes_0_and_1(classifier):
    for bools in ([True, False, True], np.array([True, False, True], object)):
        assert label_arrays(classifier, TEXTS, bools).tolist() == [1, 0, 1]
    assert labels_in_graph(classifier, TEXTS, tf.constant([True, False])).numpy().tolist() == [1, 0]


def test_labels_of_every_kind_measure_alike(classifier):
    wanted = classifier.evaluate(TEXTS, NUMBERS, verbose=0)
    ids = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS).items()}
    names = [NAMES[i] for i in NUMBERS]
    for given in (
        classifier.evaluate(TEXTS, names, verbose=0),
        classifier.evaluate(ids, names, verbose=0),
        classifier.evaluate(batches(TEXTS, names), verbose=0),
        classifier.evaluate(batches(ids, np.eye(3)[NUMBERS]), verbose=0),
        classifier.evaluate(batches(TEXTS, [[number] for number in NUMBERS]), verbose=0),
    ):
        np.testing.assert_allclose(given, wanted, rtol=1e-5)


def test_names_train_and_validate():
    model = load_task("classification", labels=NAMES)
    names = [NAMES[i] for i in NUMBERS]
    for data in (
        {"x": Column(TEXTS), "y": Column(names), "validation_split": 0.34},
        {"x": batches(TEXTS, names, [1.0, 2.0, 0.5]), "validation_data": (TEXTS, names)},
    ):
        history = model.fit(**data, verbose=0).history
        assert all(np.isfinite(values).all() for values in history.values())


def test_unknown_names_are_said_with_the_nearest(classifier):
    with pytest.raises(ValueError, match=r"label\[1\] is 'Positiv'.*'neutral'.*mean 'positive'\?"):
        classifier.fit(TEXTS, ["positive", "Positiv", "neutral"], verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)neutral.*not:.*Positiv"):
        labels_in_graph(classifier, TEXTS, tf.constant(["positive", "Positiv", "neutral"]))


def test_names_for_classes_without_names_say_how_to_give_them():
    nameless = LabelRange(2, "the number of labels", names=label_names(2, None))
    for labels, example in (
        (["no", "yes", "no"], r"labels=\['no', 'yes'\]"),
        (["no", "yes", "maybe"], r"labels=\[\.\.\.\]"),
    ):
        with pytest.raises(ValueError, match=rf"label\[0\] is 'no'.*no names yet.*{example}"):
            nameless.numbers(np.array(labels), "label")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)no names yet.*labels=.*no"):
            nameless.numbers_in_graph(tf.constant(labels), "label")
    assert nameless.numbers(np.array(["LABEL_1", "LABEL_0"]), "label").tolist() == [1, 0]


@pytest.mark.parametrize(
    "rows", [[[1, 0, 0], [0, 1, 1], [0, 0, 1]], [[1, 0, 0], [0, 0, 0], [1, 0, 0]]]
)
def test_rows_that_are_not_one_hot_are_refused(rows, classifier):
    for labels in (rows, np.array(rows, "float32")):
        with pytest.raises(ValueError, match=r"label\[1\] is \[0.*one-hot"):
            classifier.fit(TEXTS, labels, verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="one-hot"):
        labels_in_graph(classifier, TEXTS, tf.constant(rows))


def test_predict_does_not_read_labels_as_second_texts(classifier):
    names = [NAMES[i] for i in NUMBERS]
    dataset = batches(TEXTS, names)
    with pytest.raises(ValueError, match=r"names of this model's labels.*lambda text, label: text"):
        classifier.predict(dataset, verbose=0)
    wanted = classifier.predict((TEXTS, names), verbose=0)
    for pairs in (
        dataset.map(lambda first, second: ((first, second),)),
        batches(TEXTS, ["other", names[1], names[2]]),
    ):
        given = classifier.predict(pairs, verbose=0)
        np.testing.assert_allclose(given[1:], wanted[1:], atol=1e-5)


@pytest.mark.parametrize(
    "labels",
    [
        {"positive": 1, "negative": 0},
        {1: "positive", 0: "negative"},
        {"positive": np.int64(1), "negative": np.int64(0)},
        np.array(["negative", "positive"]),
    ],
    ids=["name to number", "number to name", "numpy numbers", "array"],
)
def test_names_keep_the_numbers_that_a_dict_gives_them(labels):
    model = bert_zoo.load("bert_tiny", "classification", weights=None, labels=labels)
    assert model.labels == ("negative", "positive")


def test_another_order_of_a_trained_heads_names_is_said(tmp_path, caplog):
    bert_zoo.save(load_task("classification", labels=NAMES), tmp_path)
    assert bert_zoo.load(tmp_path).labels == tuple(NAMES)
    assert "order" not in caplog.text
    assert bert_zoo.load(tmp_path, labels=NAMES[::-1]).labels == tuple(NAMES[::-1])
    assert "in this order" in caplog.text
