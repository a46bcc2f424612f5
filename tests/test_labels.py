"""Labels as people have them train and measure as class numbers do."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import CHOICES, TEXTS, assert_refused, load_task, loaded_task, refusals

import bert_zoo
from bert_zoo.data.batches import text_batches
from bert_zoo.data.buckets import Batching
from bert_zoo.models import Classifier, Regressor
from bert_zoo.models.data_adapters import (
    balanced_class_weight,
    split_rows,
    warn_of_untrained_classes,
)
from bert_zoo.models.labels import (
    LabelRange,
    checked_labels,
    class_weight_table,
    class_weights_of,
    label_arrays,
    label_names,
    read_class_weight,
)
from bert_zoo.models.task_model import LabelledModel
from bert_zoo.tasks import TASKS
from bert_zoo.training import compile_for_task

NAMES = ["negative", "neutral", "positive"]
NUMBERS = [2, 0, 1]
ERRORS = (TypeError, ValueError, tf.errors.InvalidArgumentError)


def batches(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(2)


@pytest.fixture(scope="module")
def classifier():
    model = load_task("classification", labels=NAMES, dropout=0.0)
    model.run_eagerly = True  # tracing a graph takes longer than a few steps without one
    return model


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
        assert checked_labels(classifier, TEXTS, tensor).numpy().tolist() == NUMBERS


def test_bools_are_the_classes_0_and_1(classifier):
    for bools in ([True, False, True], np.array([True, False, True], object)):
        assert label_arrays(classifier, TEXTS, bools).tolist() == [1, 0, 1]
    assert checked_labels(classifier, TEXTS, tf.constant([True, False])).numpy().tolist() == [1, 0]


def test_names_train_and_validate(classifier):
    names = [NAMES[i] for i in NUMBERS]
    for data in (
        {"x": Column(TEXTS), "y": Column(names), "validation_split": 0.34},
        {"x": batches(TEXTS, names, [1.0, 2.0, 0.5]), "validation_data": (TEXTS, names)},
        {"x": batches(ids_of(classifier), np.eye(3)[NUMBERS]), "validation_data": (TEXTS, NUMBERS)},
    ):
        history = classifier.fit(**data, verbose=0).history
        assert all(np.isfinite(values).all() for values in history.values())
    wanted = classifier.evaluate(TEXTS, NUMBERS, verbose=0)
    for data in ((TEXTS, names), (batches(TEXTS, names),)):
        np.testing.assert_allclose(classifier.evaluate(*data, verbose=0), wanted, rtol=1e-5)


def test_names_for_classes_without_names_say_how_to_give_them():
    nameless = LabelRange(2, "the number of labels", names=label_names(2, None))
    two, three = ["no", "yes", "no"], ["no", "yes", "maybe"]
    for labels, words in (
        (np.array(two), "label[0] is 'no' | no names yet | labels=['no', 'yes']"),
        (np.array(three), "label[0] is 'no' | no names yet | labels=[...]"),
        (tf.constant(two), "no names yet | labels="),
    ):
        assert_refused(lambda: nameless.numbers(labels, "label"), words, ERRORS)  # noqa: B023
    assert nameless.numbers(np.array(["LABEL_1", "LABEL_0"]), "label").tolist() == [1, 0]


# ---------------------------------------------------------------------------------------------
# Tables and missing labels
# ---------------------------------------------------------------------------------------------


def test_columns_of_tables_are_told_by_name(classifier):
    pd = pytest.importorskip("pandas")
    by_alphabet = pd.get_dummies(pd.Series([NAMES[i] for i in NUMBERS]))[sorted(NAMES)[::-1]]
    by_number = pd.DataFrame(np.eye(3)[NUMBERS])[[2, 0, 1]]
    one_column = pd.DataFrame({"label": [NAMES[i] for i in NUMBERS]}, index=[7, 8, 9])
    for table in (by_alphabet, by_number, one_column):
        assert label_arrays(classifier, TEXTS, table).tolist() == NUMBERS
    (_, first), (texts, last) = split_rows(0.34, TEXTS, by_alphabet)
    assert label_arrays(classifier, texts, last).tolist() == NUMBERS[len(first) :]
    for other in (
        by_alphabet.rename(columns={"positive": "good"}),
        by_alphabet[["positive"]],  # as get_dummies(drop_first=True) leaves of two classes
        by_alphabet[["positive", "neutral"]],
        by_alphabet[["positive", "neutral", "neutral"]],
    ):
        with pytest.raises(ValueError, match=r"columns \['.*one column for each class, of \['neg"):
            label_arrays(classifier, TEXTS, other)
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(by_alphabet, preserve_index=False)
    assert label_arrays(classifier, TEXTS, arrow).tolist() == NUMBERS


def test_columns_of_soft_and_several_labels_are_told_by_name(classifier):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"neutral": [1, 0, 0], "positive": [0, 1, 1], "negative": [1, 0, 0]})
    wanted = [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
    many = load_task("multi_label_classification", labels=NAMES, init=("classifier",))
    assert label_arrays(many, TEXTS, rows).tolist() == wanted
    lists = pd.DataFrame({"labels": [["negative", "neutral"], ["positive"], {"positive"}]})
    assert label_arrays(many, TEXTS, lists).tolist() == wanted
    many.thresholds = pd.Series({"positive": 0.9, "neutral": 0.5, "negative": 0.1})
    assert many.thresholds == (0.1, 0.5, 0.9)
    soft = load_task("classification", labels=NAMES)
    soft.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True))
    assert label_arrays(soft, TEXTS, rows).tolist() == wanted


def test_choices_in_the_columns_of_a_table_are_read_row_by_row():
    pd, (prompts, choices) = pytest.importorskip("pandas"), CHOICES
    table = pd.DataFrame(choices, columns=["ending0", "ending1"])
    model = loaded_task("multiple_choice")
    found = model.as_text_rows((pd.Series(prompts), table))[1].numpy().tolist()
    assert found == [[text.encode() for text in row] for row in choices]


def test_a_class_called_nan_takes_no_missing_labels():
    pd = pytest.importorskip("pandas")
    model = load_task("classification", labels=["nan", "yes", "no"])
    assert label_arrays(model, TEXTS, ["nan", "yes", "nan"]).tolist() == [0, 1, 0]
    for missing in (None, np.nan, pd.NA):
        for labels in (
            ["yes", missing, "no"],
            pd.Series(["yes", missing, "no"]),
            pd.Series(["yes", missing, "no"], dtype="category"),
            pd.Series([1, missing, 2], dtype="Int64"),
            pd.DataFrame({"label": ["yes", missing, "no"]}),
        ):
            with pytest.raises((TypeError, ValueError), match=r"label\[1\].*Drop rows without"):
                label_arrays(model, TEXTS, labels)
    many = load_task(
        "multi_label_classification", labels=["nan", "yes", "no"], init=("classifier",)
    )
    with pytest.raises(ValueError, match=r"label\[0\]\[1\] is nan.*Drop rows"):
        label_arrays(many, TEXTS, [["yes", np.nan], [], []])


def test_a_single_class_is_refused(tmp_path):
    words = "learns nothing | labels=['no', 'yes'] | multi_label_classification"
    for options in ({"num_classes": 1}, {"num_labels": 1}, {"labels": ["spam"]}):
        assert_refused(lambda: load_task("classification", **options), words)  # noqa: B023
        load_task("multi_label_classification", **options, init=("classifier",))
    model = Classifier(loaded_task("encoder"), labels=["spam"])
    compile_for_task(model)
    assert_refused(lambda: model.fit(TEXTS, [0, 0, 0], verbose=0), words)
    assert_refused(lambda: model.evaluate(batches(TEXTS, ["spam"] * 3), verbose=0), words)


def test_a_regression_model_has_one_label_a_text():
    pd = pytest.importorskip("pandas")
    model = load_task("regression")
    two, scores = np.zeros((3, 2), "float32"), [1, 2, 3]
    table = pd.DataFrame({"score": scores})
    found = [
        model.evaluate(TEXTS, y, verbose=0) for y in (scores, [[score] for score in scores], table)
    ]
    np.testing.assert_allclose(found, [found[0]] * 3)
    for call, words in (
        (lambda: model.fit(TEXTS, two), "shape (3, 2) | Pass one column | multi_label"),
        (lambda: model.fit(batches(TEXTS, two)), "shape (None, 2) | Pass one column"),
        (lambda: model.fit(TEXTS, table.assign(other=1)), "['score', 'other'] | Pass one column"),
        (
            lambda: model.fit(TEXTS, pd.Series([1, pd.NA, 3], dtype="Float64")),
            "label[1] is nan | Drop rows",
        ),
    ):
        assert_refused(call, words)


@pytest.mark.parametrize("format", ["bert_zoo", "hf"])
def test_the_number_of_a_regression_keeps_its_name(tmp_path, format):
    model = load_task("regression", labels=["similarity"])
    assert Regressor.from_config(model.get_config()).score_name == "similarity"
    bert_zoo.save(model, tmp_path, format=format)
    if format == "hf":
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["id2label"] == {"0": "similarity"} and config["label2id"] == {"similarity": 0}
    assert bert_zoo.load(tmp_path, "regression").score_name == "similarity"
    assert bert_zoo.load(tmp_path, "regression", labels=["other"]).score_name == "other"
    assert bert_zoo.load(tmp_path, "regression", init=("classifier",)).score_name is None
    with pytest.raises(ValueError, match="'regression' has no classes to name"):
        bert_zoo.load(tmp_path, "regression", labels=["a", "b"])


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


# ---------------------------------------------------------------------------------------------
# Weights of classes
# ---------------------------------------------------------------------------------------------


def test_class_weights_by_name_and_number_weigh_rows(classifier):
    weights = {"positive": 2.0, "neutral": np.float32(0.5)}
    names, of_rows = [NAMES[i] for i in NUMBERS], np.array([2.0, 1.0, 0.5])
    ids = ids_of(classifier)
    start = classifier.get_weights()
    found = []
    rows = text_batches(TEXTS, NUMBERS, classifier.preprocessor, Batching(32, shuffle=False))
    for data in (
        {"x": TEXTS, "y": NUMBERS, "sample_weight": of_rows},
        {"x": rows, "class_weight": weights},
        {"x": TEXTS, "y": names, "class_weight": weights},
        {"x": ids, "y": NUMBERS, "class_weight": {2: 2, 1: 0.5}},
    ):
        classifier.set_weights(start)
        found.append(classifier.fit(**data, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(found, [found[0]] * len(found), rtol=1e-5)


def test_class_weights_weigh_tokens():
    table = class_weight_table({"O": 0.5, 2: 3.0}, ("O", "B", "I"))
    wanted = [[0.5, 3.0, 0.5], [1.0, 0.5, 0.5]]
    labels = np.array([[0, 2, -100], [1, 0, 0]])
    assert class_weights_of(labels, table).tolist() == wanted
    assert class_weights_of(tf.constant(labels), table).numpy().tolist() == wanted


def test_balanced_weights_are_those_of_scikit_learn():
    """Of rows as of tokens, by the labels of the training part."""
    weights = pytest.importorskip("sklearn.utils.class_weight")
    wanted = weights.compute_class_weight("balanced", classes=np.arange(3), y=[0, 0, 2, 1, 0, 2])
    of_rows, of_words = loaded_task("classification"), loaded_task("token_classification")
    labels = [of_rows.labels[i] for i in (0, 0, 2, 1, 0, 2)]
    for data in ((TEXTS * 2, labels), (TEXTS * 2, np.eye(3)[[0, 0, 2, 1, 0, 2]])):
        found = balanced_class_weight(of_rows, *data)
        np.testing.assert_allclose([*found.values()], wanted)
    tags = [[0, 0, 2], [1, 0, -100, 2]]
    found = balanced_class_weight(of_words, [["a"] * 3, ["a"] * 4], tags)
    assert [*found.values()] == [*wanted, 1.0, 1.0]


@pytest.mark.slow
def test_classes_are_balanced_in_fit(classifier):
    weights = dict(zip(NAMES, (2.0, 2.0, 0.5), strict=True))
    start, found = classifier.get_weights(), []
    for class_weight in ("balanced", weights):
        classifier.set_weights(start)
        data = {"x": TEXTS * 2, "y": [2, 0, 1, 2, 2, 2], "class_weight": class_weight}
        found.append(classifier.fit(**data, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(*found)


def test_classes_of_the_validation_part_alone_are_named(classifier, caplog):
    words, tags = [["a", "b"]] * 4, [["O", "O"], ["B-PER", "O"], ["O", "O"], ["B-LOC", "O"]]
    many = [{"toxic"}, set(), {"toxic"}, {"insult"}]
    for model, x, y, missing in (
        (classifier, TEXTS + TEXTS[:1], [NAMES[i] for i in (0, 1, 1, 2)], "'positive'"),
        (classifier, TEXTS + TEXTS[:1], [2, 0, 1, 2], None),
        (loaded_task("token_classification"), words, tags, "'B-LOC'"),
        (loaded_task("multi_label_classification"), TEXTS + TEXTS[:1], many, "'insult'"),
    ):
        caplog.clear()
        (*training, _), validation = split_rows(0.25, x, y, None)
        warn_of_untrained_classes(model, training, validation[:2])
        assert len(caplog.messages) == (missing is not None)
        if missing:
            assert f"no label of the classes [{missing}], which the model" in caplog.text
    caplog.clear()
    classifier.fit(TEXTS, [0, 1, 2], validation_split=0.3, verbose=0)
    assert "no label of the classes ['positive']" in caplog.text


@pytest.mark.usefixtures("eager")
def test_one_logit_is_trained_as_in_tensorflows_tutorial():
    model = load_task("multi_label_classification", num_classes=1, init=("classifier",))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    accuracy = keras.metrics.BinaryAccuracy(threshold=0.0)
    model.compile(keras.optimizers.Adam(1e-2), loss, metrics=[accuracy])
    y, logits = np.array([0, 1, 1]), model.predict(TEXTS, verbose=0)
    assert logits.shape == (3, 1)
    found = model.evaluate(TEXTS, y, verbose=0)
    wanted = [float(loss(y[:, None], logits)), ((logits[:, 0] > 0) == y).mean()]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for labels in (y, y[:, None], y.astype(bool)):
        np.testing.assert_allclose(model.evaluate(TEXTS, labels, verbose=0), found)
    np.testing.assert_allclose(model.evaluate(batches(TEXTS, y), verbose=0), found, rtol=1e-5)
    losses = model.fit(TEXTS, y, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


# ---------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------


def fit(model, y=NUMBERS, x=TEXTS, **options):
    return model.fit(x, y, **options, verbose=0)


def ids_of(model) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in model.preprocessor(TEXTS).items()}


def graph(model, labels):
    return checked_labels(model, TEXTS, tf.constant(labels))


NAN, MISSPELT = float("nan"), ["positive", "Positiv", "neutral"]
TWO_ONES, NO_ONE = [[1, 0, 0], [0, 1, 1], [0, 0, 1]], [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
# A weight that is no number, in every kind of data.
WEIGHTS, BAD = np.array([1.0, NAN, 0.5]), "sample_weight[1] is nan"


def evaluated(model, x=TEXTS, weights=WEIGHTS, method: str = "evaluate"):
    return getattr(model, method)(x, NUMBERS, sample_weight=weights, verbose=0)


@refusals(
    (lambda m: fit(m, MISSPELT), "label[1] is 'Positiv' | 'neutral' | mean 'positive'?"),
    (lambda m: graph(m, MISSPELT), "neutral | not: | Positiv"),
    (lambda m: fit(m, TWO_ONES), "label[1] is [0 | one-hot"),
    (lambda m: fit(m, np.array(NO_ONE, "float32")), "label[1] is [0 | one-hot"),
    (lambda m: graph(m, TWO_ONES), "one-hot"),
    (lambda m: graph(m, NO_ONE), "one-hot"),
    (lambda m: fit(m, class_weight={"positiv": 1.0}), "class_weight[0] is 'positiv' | 'positive'"),
    (lambda m: fit(m, class_weight={3: 1.0}), "class_weight[0] is 3, outside of [0, 3)"),
    (lambda m: fit(m, class_weight={"positive": -1}), "class_weight['positive'] is -1"),
    (lambda m: fit(m, class_weight={"positive": "2"}), "class_weight['positive'] is '2'"),
    (lambda m: fit(m, class_weight=[1.0, 2.0, 3.0]), "a dict of weights by class"),
    (lambda m: fit(m, class_weight="balancd"), "class_weight is 'balancd' | 'balanced'"),
    (
        lambda m: fit(m, None, batches(TEXTS, NUMBERS), class_weight="balanced"),
        "which is read batch by batch. Count them",
    ),
    (lambda m: fit(m, sample_weight=np.ones(3), class_weight={0: 2.0}), "both given"),
    (evaluated, BAD),
    (lambda m: evaluated(m, method="fit"), BAD),
    (lambda m: evaluated(m, ids_of(m)), BAD),
    (lambda m: m.evaluate(iter([(ids_of(m), np.array(NUMBERS), WEIGHTS)])), BAD),
    (lambda m: m.evaluate(batches(TEXTS, NUMBERS, WEIGHTS)), "sample_weights must be finite"),
    (lambda m: m.evaluate(batches(ids_of(m), NUMBERS, WEIGHTS)), "sample_weights must be finite"),
    (lambda m: evaluated(m, weights=[1.0, np.inf, 0.5]), "sample_weight[1] is inf"),
    (lambda m: evaluated(m, weights=np.array([1.0, None, 0.5], object)), "sample_weight"),
    (
        lambda m: evaluated(m, weights=np.array([1.0, "1", 0.5], object)),
        "sample_weights must be nu",
    ),
    (
        lambda m: loaded_task("question_answering").fit(
            (TEXTS, TEXTS), [None] * 3, sample_weight=WEIGHTS
        ),
        BAD,
    ),
)
def test_labels_and_weights_that_teach_nothing_are_refused(call, words, classifier):
    assert_refused(lambda: call(classifier), words, ERRORS)


def test_weights_that_are_missing_in_a_table_are_refused(classifier):
    pd = pytest.importorskip("pandas")
    weights = pd.Series([1.0, pd.NA, 0.5], dtype=object)
    assert_refused(lambda: evaluated(classifier, weights=weights), "sample_weight")


WITH_CLASSES = {task for task, kind in TASKS.items() if issubclass(kind, LabelledModel)}
TRAINED = {task for task, kind in TASKS.items() if kind.default_optimizer is not None}


@pytest.mark.parametrize("task", sorted(TRAINED - WITH_CLASSES))
def test_class_weights_of_a_task_without_classes_are_refused(task):
    """Before the data are read."""
    model = SimpleNamespace(labels=(), task=task, default_optimizer=TASKS[task].default_optimizer)
    for class_weight in ({0: 2.0}, "balanced"):
        with pytest.raises(ValueError, match=f"'{task}' has no classes. Pass sample_weight"):
            read_class_weight(model, class_weight)


def test_two_logits_with_one_label_for_both_are_refused():
    """Keras would compare each logit with the row's one label."""
    model = load_task("classification", labels=["no", "yes"], init=("classifier",))
    for loss in (keras.losses.BinaryCrossentropy(from_logits=True), "binary_crossentropy"):
        model.compile("sgd", loss)
        for y in ([0, 1, 1], [[0], [1], [1]]):
            with pytest.raises(ValueError, match=r"each of the 2 logits.*one logit, load"):
                model.evaluate(TEXTS, y, verbose=0)


# ---------------------------------------------------------------------------------------------
# Batches that Python code makes
# ---------------------------------------------------------------------------------------------


class Ids(keras.utils.PyDataset):
    """Batches of ids of other lengths and numbers of rows."""

    texts = ((TEXTS[:2], [NAMES[2], NAMES[0]]), (TEXTS[2:], np.array([1])))
    passes = 0

    def __init__(self, preprocessor):
        super().__init__()
        self.preprocessor = preprocessor

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        texts, labels = self.texts[index]
        ids = self.preprocessor(texts)
        return {name: value.numpy() for name, value in ids.items()}, labels

    def on_epoch_end(self):
        self.passes += 1


def test_generators_and_pydatasets_of_ids_are_read_as_arrays_are(classifier):
    ids, weights = Ids(classifier.preprocessor), {"positive": 2.0, "neutral": 0.5}
    in_memory, generated = {"x": TEXTS, "y": NUMBERS, "batch_size": 2}, map(ids.__getitem__, (0, 1))
    rate, found = float(classifier.optimizer.learning_rate), []
    classifier.optimizer.learning_rate = 0.0
    for data in (in_memory, {"x": ids}, {"x": generated}):
        history = classifier.fit(**data, class_weight=weights, shuffle=False, verbose=0).history
        found.append(history["loss"])
    classifier.optimizer.learning_rate = rate
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-5)
    assert ids.passes
    for given, words in (
        ([Ids.texts[0]], "has list, but | Dataset.from_generator"),
        ([], "already used up"),
        ([({"token_ids": np.array([[2, 5, 300]])}, [0])], "token_ids[0, 2] is 300"),
        ([(ids[1][0], ["no"])], "label | is 'no'"),
    ):
        assert_refused(lambda: classifier.fit(iter(given), verbose=0), words)  # noqa: B023


# ---------------------------------------------------------------------------------------------
# Texts of every kind in answers
# ---------------------------------------------------------------------------------------------


def test_printed_results_show_texts_whatever_they_came_as(classifier):
    encoded = [text.encode() for text in TEXTS]
    wanted = str(classifier.classify(TEXTS))
    for texts in (encoded, np.array(TEXTS), tf.constant(TEXTS), iter(TEXTS), Column(TEXTS)):
        assert str(classifier.classify(texts)) == wanted
    assert [row.text for row in classifier.classify((encoded, np.array(TEXTS)))] == [
        (text, text) for text in TEXTS
    ]
    tagger = loaded_task("token_classification")
    wanted = tagger.tag(TEXTS[:1])
    for texts in (encoded[0], encoded[:1], tf.constant(TEXTS[:1]), iter(TEXTS[:1])):
        assert tagger.tag(texts) == wanted
    assert tagger.tag(tf.constant([["the", "cat"]])) == tagger.tag([["the", "cat"]])
