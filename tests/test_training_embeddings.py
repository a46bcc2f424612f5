"""Sentence vectors are trained: losses of sentence-transformers, large batches in mini-batches, replicas, data of every shape."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ALL_GOLDEN,
    TEXTS,
    assert_refused,
    assert_same_variables,
    eager_steps,
    load_case,
    load_task,
    needs_minilm,
    slow_but,
    tensors_of,
    variables_of,
)

import bert_zoo
from bert_zoo.data.buckets import distinct_batches, text_numbers
from bert_zoo.embeddings import (
    BatchHardTriplet,
    CoSENT,
    CosineRegression,
    Matryoshka,
    MultipleNegativesRanking,
    PairSoftmax,
    SupervisedContrastive,
)
from bert_zoo.models import gradient_cache
from bert_zoo.serving.servable import reusable_object
from bert_zoo.tasks.vectors import fingerprints

with np.load(ALL_GOLDEN / "embedding_training.npz") as file:
    REFERENCE = dict(file)
SGD, ZERO = keras.optimizers.SGD, tf.UnconnectedGradients.ZERO
PAIRS = (TEXTS, ["it was good", "a red bird", "they saw the house"])


# --- Losses --------------------------------------------------------------------------------------

RANKING, SCORES, CLASSES = MultipleNegativesRanking, REFERENCE["scores"], REFERENCE["classes"]
LOSSES = {
    "ranking": (RANKING(), 2, None),
    "ranking_scale_5": (RANKING(scale=5), 2, None),
    "symmetric": (RANKING(symmetric=True), 2, None),
    "negatives": (RANKING(), 4, None),
    "symmetric_negatives": (RANKING(symmetric=True), 4, None),
    "cosent": (CoSENT(), 2, SCORES),
    "cosine": (CosineRegression(), 2, SCORES),
    "triplet": (BatchHardTriplet(), 1, CLASSES),
    "triplet_margin_1": (BatchHardTriplet(margin=1), 1, CLASSES),
    "softmax": (PairSoftmax(), 2, CLASSES),
    "matryoshka": (Matryoshka(RANKING(), [12, 8, 3]), 4, None),
    "matryoshka_weights": (Matryoshka(CoSENT(), [12, 8, 3], [1, 0.5, 2]), 2, SCORES),
}


def value_and_gradient(loss, vectors, labels) -> tuple[np.ndarray, np.ndarray]:
    """Of a loss as files keep it, with respect to its vectors."""
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    vectors = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        outputs = vectors
        if isinstance(loss, PairSoftmax):
            u, v = vectors[:, 0], vectors[:, 1]
            features = tf.concat([u, v, tf.abs(u - v)], axis=1)
            outputs = features @ REFERENCE["classifier"].T
        value = loss(labels, outputs)
    return value.numpy(), tape.gradient(value, vectors).numpy()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients_are_those_of_sentence_transformers(name):
    loss, columns, labels = LOSSES[name]
    vectors = REFERENCE["vectors"][:, :columns]
    if labels is None:  # texts that all differ
        labels = np.arange(vectors[..., :2].size).reshape(*vectors.shape[:2], 2)
    value, gradient = value_and_gradient(loss, vectors[:, 0] if columns == 1 else vectors, labels)
    np.testing.assert_allclose(value, REFERENCE[f"{name}/loss"], rtol=1e-6)
    expected = REFERENCE[f"{name}/gradient"].reshape(gradient.shape)
    atol = 1e-6 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(gradient, expected, atol=atol, rtol=0)


def test_the_supervised_contrastive_loss_is_the_papers():
    vectors, classes = REFERENCE["vectors"][:, 0].astype("float64"), [0, 1, 2, 1, 0, 1, 2, 3]

    def by_formula(vectors):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        similar, losses = np.exp(unit @ unit.T / 0.2), []
        for i, own in enumerate(classes):
            others = [j for j in range(len(classes)) if j != i]
            positives = [j for j in others if classes[j] == own]
            if positives:  # not of the only text of class 3
                total = similar[i, others].sum()
                losses.append(-np.mean([np.log(similar[i, j] / total) for j in positives]))
        return np.mean(losses)

    found, gradient = value_and_gradient(
        SupervisedContrastive(temperature=0.2), vectors.astype("float32"), np.array(classes)
    )
    np.testing.assert_allclose(found, by_formula(vectors), rtol=1e-6)
    step = np.zeros_like(vectors)
    step[2, 3] = 1e-5
    slope = (by_formula(vectors + step) - by_formula(vectors - step)) / 2e-5
    np.testing.assert_allclose(gradient[2, 3], slope, atol=1e-6)


def test_vectors_of_zeros_and_equal_texts_have_finite_gradients():
    vectors = REFERENCE["vectors"][:4].copy()
    vectors[1] = 0
    vectors[3] = vectors[2]
    labels = np.array([0, 1, 1, 1])
    for loss in (SupervisedContrastive(), BatchHardTriplet()):
        assert np.isfinite(value_and_gradient(loss, vectors[:, 0], labels)[1]).all()
    for loss in (CoSENT(), CosineRegression()):
        assert np.isfinite(value_and_gradient(loss, vectors[:, :2], labels / 1)[1]).all()


def test_equal_texts_are_no_negatives_as_in_the_naive_definition():
    """Of all pairs of rows: not a text that is the row's positive or anchor, nor what belongs to an equal anchor."""
    texts = [["a", "p", "n"], ["a", "q", "m"], ["b", "p", "p"], ["p", "r", "k"], ["d", "a", "q"]]
    vectors, scale = REFERENCE["vectors"][:5, :3], 20
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for i, (anchor, positive, _) in enumerate(texts):
        logits = [scale * unit[i, 0] @ unit[i, 1]]
        for j, (other, *candidates) in enumerate(texts):
            for column, text in enumerate(candidates, 1):
                is_own = (i, 1) == (j, column)
                is_shared = column == 1 and other == anchor
                if not is_own and not is_shared and text not in (anchor, positive):
                    logits.append(scale * unit[i, 0] @ unit[j, column])
        losses.append(np.log(np.exp(logits).sum()) - logits[0])
    numbers = text_numbers([*zip(*texts, strict=True)])
    labels = np.stack([numbers, numbers], axis=-1)
    found, _ = value_and_gradient(RANKING(), vectors, labels)
    np.testing.assert_allclose(found, np.mean(losses), rtol=1e-5)


def test_fingerprints_know_equal_texts_by_their_ids_wherever_padding_stands():
    rows = ((7, 8, 9, 0, 0), (0, 0, 7, 8, 9), (7, 9, 8, 0, 0), (7, 8, 9, 3, 0), (1, 2, 3, 4, 5))
    ids = np.array(rows)
    mask = (ids > 0).astype(int)
    found = fingerprints({"token_ids": ids, "padding_mask": mask}).numpy()
    alone = fingerprints({"token_ids": ids[:1, :3]}).numpy()
    in_windows = fingerprints({"token_ids": ids[:, None], "padding_mask": mask[:, None]}).numpy()
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[:1], alone)
    assert np.array_equal(found, in_windows)
    assert len(np.unique(found, axis=0)) == 4
    many = np.random.default_rng(0).integers(0, 30000, (20_000, 3))
    many = np.concatenate([many, many[:, ::-1], many[:, [1, 0, 2]]])
    distinct = len(np.unique(many, axis=0))
    # Of 1.8 billion pairs some meet in 32 bits by chance: 0.4 are to be expected.
    assert len(np.unique(fingerprints({"token_ids": many}).numpy(), axis=0)) >= distinct - 5


# --- Batches without equal texts -----------------------------------------------------------------


def test_distinct_batches_are_large_wherever_texts_allow():
    """`test_shuffled_texts_have_none_twice_in_a_batch` shows which rows they have."""
    few = text_numbers([(np.arange(100) % 50).astype(str), (np.arange(100) + 50).astype(str)])
    batches = distinct_batches(few, 10, np.random.default_rng(0))
    assert [len(batch) for batch in batches[:9]] == [10] * 9


def test_distinct_batches_take_linear_time_also_where_many_rows_share_a_text(caplog):
    rows = np.arange(40_000)
    shared = np.stack([rows + 1, np.where(rows % 2, 0, rows + 50_000)], axis=1)
    start = time.process_time()
    batches = distinct_batches(shared, 64, np.random.default_rng(0))
    assert time.process_time() - start < 5  # quadratic, it took a minute
    assert len(batches) == 20_000


# --- The first step of a real model --------------------------------------------------------------


def stored(model) -> dict[str, np.ndarray]:
    """Its weights under Hugging Face's names, in torch's layout."""
    from bert_zoo.registry import registry
    from bert_zoo.weights.bind import to_stored

    family, config = registry().families[model.encoder.family], model.encoder.config
    bindings = family.plan("hf", config).bindings(model.task, config.pooler)
    tensors = to_stored(variables_of(model), bindings)
    return {name.removeprefix("bert."): np.asarray(value) for name, value in tensors.items()}


@needs_minilm
@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_the_first_step_of_minilm_is_that_of_sentence_transformers():
    model = bert_zoo.load("minilm_l6", "embedding", dropout=0.0)
    model.compile(SGD(1.0))
    before = stored(model)
    columns = tuple(REFERENCE[name].tolist() for name in ("anchors", "positives"))
    history = model.fit(columns, verbose=0).history
    np.testing.assert_allclose(history["loss"], REFERENCE["step/loss"], atol=1e-5)
    after = stored(model)
    for key in [key for key in REFERENCE if key.startswith("step/") and key != "step/loss"]:
        name, change = key.partition("/")[2], REFERENCE[key]
        found = (after[name] - before[name])[: len(change)]
        np.testing.assert_allclose(found, change, atol=1e-5, err_msg=name)


# --- Mini-batches --------------------------------------------------------------------------------


def columns_of(case: str = "encoder", rows: int = 5) -> tuple[dict, dict]:
    """Two columns of ids of different lengths, some rows padded on the family's side."""
    rng, columns = np.random.default_rng(0), []
    is_left = case.startswith("xlnet")
    for length in (7, 5):
        ids = rng.integers(5, 80, (rows, length)).astype("int32")
        sizes = rng.integers(2, length + 1, rows)
        mask = (np.arange(length) < sizes[:, None]).astype("int32")
        mask = mask[:, ::-1].copy() if is_left else mask
        columns.append({"token_ids": ids * mask, "padding_mask": mask})
    return tuple(columns)


def loss_and_gradients(model, columns, run=None):
    """Of the ranking loss over the columns' vectors [rows, columns, size], and these."""
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        vectors = (run or (lambda columns: model(columns, training=True)))(columns)
        loss = model.compute_loss(x=columns, y_pred=vectors)
    gradients = tape.gradient(loss, variables, unconnected_gradients=ZERO)
    return vectors.numpy(), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def assert_same_step(found, expected, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(found[0], expected[0], atol=atol)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        bound = atol * max(1, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, atol=bound)


def ranked(case: str = "encoder", **options):
    model = load_case(case, "embedding", **options)
    model.compile(SGD(0.1), MultipleNegativesRanking(), run_eagerly=True)
    return model


def column_by_column(model):
    return lambda columns: tf.stack([model(rows, training=True) for rows in columns], 1)


@pytest.mark.filterwarnings("error:You are using a softmax")
@pytest.mark.parametrize(("case", "rows"), [("encoder", 5), ("xlnet/encoder", 5), ("encoder", 2)])
def test_mini_batches_give_the_vectors_and_gradients_of_the_batch(case, rows):
    model, columns = ranked(case, dropout=0.0), columns_of(case, rows)
    expected = loss_and_gradients(model, columns, column_by_column(model))
    assert_same_step(loss_and_gradients(model, columns), expected)  # groups of like length
    if rows == 5:
        model.mini_batch_size = 2
        graph = tf.function(lambda columns: model(columns, training=True))
        assert_same_step(loss_and_gradients(model, columns, graph), expected)


def states(model) -> list:
    weights = {id(weight) for weight in model.weights}
    return [v for v in model.non_trainable_variables if id(v) not in weights]


def test_dropout_is_that_of_the_same_mini_batches_in_a_loop():
    model, columns = ranked(dropout=0.3), columns_of()
    start = [np.array(state) for state in states(model)]
    assert start

    def loop(columns):
        found = []
        for rows in columns:
            rows, back = gradient_cache.longest_first(rows)
            # The last mini-batch is filled up with the shortest row.
            parts = [
                {name: tf.gather(value, places) for name, value in rows.items()}
                for places in ([0, 1], [2, 3], [4, 4])
            ]
            vectors = [model(gradient_cache.trimmed(part), training=True) for part in parts]
            found.append(tf.gather(tf.concat(vectors, 0), back))
        return tf.stack(found, axis=1)

    expected = loss_and_gradients(model, columns, loop)
    end = [np.array(state) for state in states(model)]
    assert not np.array_equal(end, start)
    for state, value in zip(states(model), start, strict=True):
        state.assign(value)
    model.mini_batch_size = 2
    assert_same_step(loss_and_gradients(model, columns), expected)
    assert np.array_equal([np.array(state) for state in states(model)], end)


@pytest.mark.parametrize("way", slow_but(["graph", "xla", "mixed_bfloat16"]))
def test_mini_batches_train_in_graphs_as_the_batch_does(way):
    dtype = {"dtype": way} if way == "mixed_bfloat16" else {}
    weights = []
    for size in (None, 2):
        model = load_task("embedding", dropout=0.0, **dtype)
        model.compile(SGD(0.1), MultipleNegativesRanking(), jit_compile=way == "xla")
        model.fit(columns_of(), verbose=0, mini_batch_size=size, epochs=2)
        weights.append(variables_of(model))
    for path, value in weights[0].items():
        atol = 1e-2 if dtype else 1e-5
        np.testing.assert_allclose(weights[1][path], value, atol=atol, err_msg=path)


# --- Data ----------------------------------------------------------------------------------------

IDS = columns_of(rows=4)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("x", "y", "loss"),
    [
        (IDS, None, MultipleNegativesRanking),
        ((*IDS, IDS[0]), None, MultipleNegativesRanking),
        (IDS, [0.0, 0.5, 1.0, 3.0], CoSENT),
        (IDS[0], [0, 1, 0, 1], SupervisedContrastive),
        (IDS[0], ["a", "b", "a", "b"], SupervisedContrastive),
        (IDS, [0, 1, 2, 0], PairSoftmax),
        (IDS, ["no", "yes", "no", "maybe"], PairSoftmax),
    ],
)
def test_the_shape_of_the_data_chooses_the_loss(x, y, loss):
    model = load_task("embedding", dropout=0.0)
    y = np.array(y) if y is not None else None
    history = model.fit(x, y, validation_data=(x, y), verbose=0).history
    assert type(model.loss_in_use) is loss
    assert np.isfinite([history["loss"], history["val_loss"]]).all()


@pytest.mark.usefixtures("eager")
@pytest.mark.slow
def test_texts_in_memory_and_in_a_dataset_train_as_their_ids_do(caplog):
    model = load_task("embedding", dropout=0.0, max_length=6)
    model.compile(SGD(0.1))
    start, results = model.get_weights(), []
    ids = tuple({n: np.array(v) for n, v in model.preprocessor(t).items()} for t in PAIRS)
    dataset = tf.data.Dataset.from_tensor_slices(PAIRS).batch(3)
    model.preprocessor.report._said.clear()
    for data in (PAIRS, dataset, ids):
        model.set_weights(start)
        results.append(model.fit(data, validation_data=data, verbose=0).history)
    for found in results[1:]:
        np.testing.assert_allclose(found["loss"], results[0]["loss"], atol=1e-5)
        np.testing.assert_allclose(found["val_loss"], results[0]["val_loss"], atol=1e-5)
    (said,) = [message for message in caplog.messages if "6 tokens" in message]
    assert said.startswith("2 of the 6 texts exceed") and "long_texts=" in said
    assert "Pairs are always cut" not in said


@pytest.mark.parametrize("name", LOSSES)
def test_losses_that_compare_rows_learn_nothing_from_one(name):
    loss, columns, labels = LOSSES[name]
    shape = {"softmax": (1, 3)}.get(name, (1, 16) if columns == 1 else (1, columns, 16))
    vectors = tf.Variable(np.random.default_rng(0).normal(size=shape), dtype="float32")
    y = np.arange(2 * columns).reshape(1, columns, 2) if labels is None else labels[:1]
    with tf.GradientTape() as tape:
        found = tf.reduce_sum(loss.call(tf.constant(y), vectors))
    gradient = tape.gradient(found, vectors)
    assert loss.learns_from_one_row(columns) == (
        gradient is not None and np.abs(gradient).max() > 1e-6
    )


@pytest.mark.usefixtures("eager")
def test_batches_of_one_row_are_read_where_rows_have_negatives_or_others_follow(caplog):
    model = load_task("embedding", dropout=0.0)
    model.fit((*PAIRS, TEXTS[::-1]), batch_size=1, verbose=0)
    assert "learns nothing" not in caplog.text
    model.fit(PAIRS, batch_size=2, verbose=0)
    assert "compares the rows of a batch, and learns nothing from the last" in caplog.text


def dataset(*columns, batch: int = 2):
    return tf.data.Dataset.from_tensor_slices(columns).batch(batch)


WEIGHTS, LAST = np.ones(3), tuple(column[:1] for column in PAIRS)
ALONE = "learns nothing from batches of one row"


# What `fit` is given, and the loss and the method instead of it.
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"x": None}, "x is NoneType. Pass texts"),
        ({"x": iter([IDS])}, "Pass texts, dicts of ids, or a tf.data.Dataset"),
        ({"x": TEXTS}, "Single texts without labels"),
        ({"x": TEXTS, "y": [0.5, 1.0, 0.0]}, "No loss fits rows of 1 texts with scores"),
        ({"x": (*PAIRS, TEXTS), "y": [0, 1, 1]}, "No loss fits rows of 3 texts with classes"),
        ({"x": (TEXTS, TEXTS[:2])}, "at least one; they have [3, 2] rows"),
        ({"x": PAIRS, "y": [0.5, 1.0]}, "y has 2 rows and x has 3"),
        ({"x": PAIRS, "y": [0.5, np.nan, 1.0]}, "label[1] is nan; it must be finite"),
        ({"x": PAIRS, "y": np.ones((3, 2))}, "one label per row | [batch] | (3, 2)"),
        ({"x": PAIRS, "y": [0, 1, -1]}, "label[2] is -1; it must lie in [0, 2)"),
        ({"x": PAIRS, "y": [0, 1, 2], "loss": PairSoftmax(2)}, "label[2] is 2; it must lie in"),
        ({"x": PAIRS, "y": ["a", "b", "c"], "loss": PairSoftmax(2)}, "num_classes is 2, but"),
        ({"x": dataset(PAIRS, [0, 1, 2])}, "number of classes of pairs | from a tf.data.Dataset"),
        ({"x": PAIRS, "loss": CoSENT()}, "CoSENT needs labels, but there are none"),
        ({"x": PAIRS, "loss": PairSoftmax(2)}, "PairSoftmax needs labels, but there are none"),
        ({"x": PAIRS, "y": WEIGHTS, "loss": RANKING()}, "NegativesRanking takes no labels"),
        ({"x": TEXTS, "loss": RANKING()}, "needs two texts or more per row, but there are 1"),
        ({"x": (*PAIRS, TEXTS), "y": WEIGHTS, "loss": CoSENT()}, "two texts per row | are 3"),
        ({"x": PAIRS, "y": [0, 1, 1], "loss": BatchHardTriplet()}, "needs a single text per row"),
        ({"x": PAIRS, "y": [0, 2.5, 5], "loss": CosineRegression()}, "score is 5, but CosineRegr"),
        ({"x": dataset(PAIRS, [0.0, 5.0, 1.0]), "loss": CosineRegression()}, "example scores / 5"),
        ({"x": PAIRS, "prompts": ["query"]}, "There are 1 prompts and 2 columns of texts"),
        ({"x": PAIRS, "prompts": "query"}, "prompts is 'query'; it must be a list"),
        ({"x": IDS, "prompts": ["a", "b"]}, "prompts go before texts, but the data are ids"),
        ({"x": IDS, "mini_batch_size": 0}, "mini_batch_size is 0"),
        ({"x": IDS, "validation_data": (IDS, WEIGHTS)}, "NegativesRanking, but | for CoSENT"),
        ({"x": IDS, "y": np.ones(4), "sample_weight": np.ones(4)}, "rows cannot have weights"),
        ({"x": IDS, "loss": Matryoshka(RANKING(), [64, 8])}, "is (64, 8); | from 1 to 32"),
        ({"x": PAIRS, "batch_size": 1}, ALONE),
        ({"x": PAIRS, "y": [0.1, 0.5, 0.2], "batch_size": 1}, ALONE),
        ({"x": TEXTS, "y": [0, 1, 1], "batch_size": 1, "method": "evaluate"}, ALONE),
        ({"x": LAST}, ALONE),
        ({"x": dataset(PAIRS, batch=1)}, ALONE),
        ({"x": dataset(PAIRS, batch=1), "method": "evaluate"}, ALONE),
        ({"x": IDS, "batch_size": 1}, ALONE),
    ],
)
@pytest.mark.usefixtures("eager")
def test_what_cannot_be_trained_on_is_refused(options, words):
    model, options = load_task("embedding"), {"loss": None, "method": "fit", **options}
    run, loss = getattr(model, options.pop("method")), options.pop("loss")
    if loss is not None:
        model.compile(SGD(0.1), loss)
    error = (ValueError, TypeError, tf.errors.InvalidArgumentError)
    assert_refused(lambda: run(**options, verbose=0), words, error)


def test_mini_batches_of_windows_are_refused():
    model = load_task("embedding", long_texts="mean")
    with pytest.raises(ValueError, match="mini-batches do not work with long texts in windows"):
        model.mini_batch_size = 2


def test_empty_and_equal_texts_and_a_frequent_one_are_said(caplog):
    model = load_task("embedding")
    anchors = [f"{i} cats" for i in range(40)]
    model._choose_loss(2, None)
    same = [*anchors[:1], " ", *["no"] * 38]
    model.training_arguments((anchors, same), batch_size=20, shuffle=True)
    assert "1 of 40 rows have an empty text, the first is row 1." in caplog.messages
    assert "1 of 40 rows have the same text in two columns, the first is row 0." in caplog.messages
    assert "The same text occurs in 38 of 40 rows." in caplog.text
    assert "with 1.1 rows on average instead of 20" in caplog.text


def test_shuffled_texts_have_none_twice_in_a_batch():
    model, random, orders = load_task("embedding"), np.random.default_rng(0), []
    columns = [[f"text {number}" for number in random.integers(0, 30, 100)] for _ in range(2)]
    data = model.training_arguments(tuple(columns), batch_size=5, shuffle=True)["x"]
    for epoch in range(2):
        batches = [*data.order.batches(epoch)]
        assert sorted(np.concatenate(batches)) == list(range(100))
        for rows in batches:
            texts = [text for row in rows for text in {columns[0][row], columns[1][row]}]
            assert 0 < len(rows) <= 5 and len(set(texts)) == len(texts)
        orders.append([[*rows] for rows in batches])
    assert orders[0] != orders[1]


# --- Saved models, adapters, other options -------------------------------------------------------


@pytest.fixture(scope="module")
def pair_trained():
    model = load_task("embedding", dropout=0.0)
    with eager_steps():
        model.fit(IDS, np.array(["no", "yes", "no", "maybe"]), verbose=0)
    return model


def test_a_classifier_of_pairs_is_said_and_stays_out_of_files(pair_trained, tmp_path):
    assert pair_trained.pair_classifier.units == 3
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(pair_trained, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt, "embedding")
        assert again.pair_classifier is None
        assert not [n for n in tensors_of(tmp_path / fmt) if "pair" in n]
        for path, value in variables_of(again).items():
            assert np.array_equal(value, variables_of(pair_trained)[path]), path
    held = {variable.name for variable in reusable_object(pair_trained, None).variables}
    own = {variable.value.name for variable in pair_trained.pair_classifier.variables}
    assert len(own) == 2 and not held & own


@pytest.mark.usefixtures("eager")
def test_a_keras_file_goes_on_training(pair_trained, tmp_path, caplog):
    pair_trained.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_same_variables(again, pair_trained)
    labels = np.array(["maybe", "maybe", "no", "yes"])
    losses = [
        model.fit(IDS, labels, shuffle=False, verbose=0).history["loss"]
        for model in (again, pair_trained)
    ]
    np.testing.assert_allclose(*losses, atol=1e-5)
    with pytest.raises(ValueError, match=r"label\[0\] is 'perhaps'"):
        again.evaluate(IDS, np.array(["perhaps"] * 4), verbose=0)
