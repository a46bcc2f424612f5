"""Training: the optimizer of the original, data of every kind, stopping and going on."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    CHOICES,
    GOLDEN,
    PAIRS,
    TEXTS,
    assert_same,
    load_task,
    loaded_task,
    task_inputs,
    tensors_of,
    variables_of,
)
from keras import ops

import bert_zoo
from bert_zoo.models.data_adapters import keras_arguments
from bert_zoo.models.metrics import OfLogits
from bert_zoo.private import metrics_given
from bert_zoo.training import (
    AveragedSGD,
    BertAdamW,
    TokenAccuracy,
    WarmupLinearDecay,
    bert_adamw,
    compile_for_task,
)
from bert_zoo.training.optimizers import UNDECAYED
from bert_zoo.weights.bind import named_variables

# Of ten float32 steps against float64, and of kernels that round 1 - 0.999 to float32.
TOLERANCE = 2e-5


def eager(task: str):
    """A model that trains without graphs: tracing one takes longer than a few steps."""
    model = load_task(task, dropout=0.0)
    model.run_eagerly = True
    return model


# ---------------------------------------------------------------------------------------------
# The optimizer
# ---------------------------------------------------------------------------------------------


class GoogleAdamW:
    """A transcription of google-research/bert optimization.py into NumPy, in float64."""

    def __init__(self, rate, weight_decay=0.01, clip_norm=1.0):
        self.rate, self.weight_decay, self.clip_norm = rate, weight_decay, clip_norm
        self.m, self.v, self.step = {}, {}, 0

    def apply(self, values, gradients):
        norm = np.sqrt(sum(np.sum(g**2) for g in gradients.values()))
        scale = self.clip_norm / max(norm, self.clip_norm)
        rate = self.rate(self.step)
        for name, gradient in gradients.items():
            gradient = gradient * scale
            self.m[name] = 0.9 * self.m.get(name, 0) + 0.1 * gradient
            self.v[name] = 0.999 * self.v.get(name, 0) + 0.001 * gradient**2
            update = self.m[name] / (np.sqrt(self.v[name]) + 1e-6)
            if not any(word in name for word in ("LayerNorm", "layer_norm", "bias")):
                update = update + self.weight_decay * values[name]
            values[name] = values[name] - rate * update
        self.step += 1


def google_rate(step: int, peak=1e-2, total=12, warmup=3) -> float:
    return peak * step / warmup if step < warmup else peak * (1 - step / total)


def test_optimizer_equals_the_original_over_ten_steps():
    """A table with tokens used twice and many times, a kernel, a bias and a norm, under clipping."""
    rng = np.random.default_rng(0)
    table = keras.layers.Embedding(11, 4, name="table")
    norm = keras.layers.LayerNormalization(name="LayerNorm")
    kernel = keras.layers.Dense(3, name="dense")
    model = keras.Sequential([table, norm, kernel])
    model.build((None, 5))
    names = {
        "table": table.embeddings,
        "LayerNorm/gamma": norm.gamma,
        "LayerNorm/beta": norm.beta,
        "dense/kernel": kernel.kernel,
        "dense/bias": kernel.bias,
    }
    for variable in names.values():
        variable.assign(rng.standard_normal(variable.shape))
    values = {name: v.numpy().astype("float64") for name, v in names.items()}
    optimizer = bert_adamw(1e-2, total_steps=12, warmup_proportion=0.25)
    original = GoogleAdamW(google_rate)
    clipped = 0
    for _ in range(10):
        ids = rng.integers(0, 4, (6, 5))  # rows 4 to 10 are never used, the others several times
        target = rng.standard_normal((6, 5, 3)).astype("float32")
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(ids) - target) ** 2) / 20
        gradients = tape.gradient(loss, [v.value for v in names.values()])
        assert isinstance(gradients[0], tf.IndexedSlices)
        dense = {
            name: tf.convert_to_tensor(g).numpy().astype("float64")
            for name, g in zip(names, gradients, strict=True)
        }
        clipped += np.sqrt(sum(np.sum(g**2) for g in dense.values())) > 1
        optimizer.apply(gradients, list(names.values()))
        original.apply(values, dense)
        for name, variable in names.items():
            np.testing.assert_allclose(variable.numpy(), values[name], atol=TOLERANCE, err_msg=name)
    assert clipped >= 5


def test_training_by_the_recipe_equals_the_reference_step_by_step(tmp_path):
    """Transformers' model and torch's AdamW: the same losses, and every weight after the last."""
    with np.load(GOLDEN / "classification" / "training.npz") as file:
        reference = dict(file)
    model = load_task("classification", dropout=0.0)
    steps, names = len(reference["losses"]), ("token_ids", "segment_ids", "padding_mask")
    compile_for_task(model, bert_adamw(1e-3, total_steps=steps))
    losses = []
    for *inputs, labels in zip(*(reference[name] for name in (*names, "labels")), strict=True):
        model.reset_metrics()  # Keras before 3.15 gives the mean over all batches until then
        losses.append(model.train_on_batch(dict(zip(names, inputs, strict=True)), labels)[0])
    np.testing.assert_allclose(losses, reference["losses"], atol=TOLERANCE)
    bert_zoo.save(model, tmp_path / "trained", format="hf")
    trained = tensors_of(tmp_path / "trained")
    before = tensors_of(GOLDEN / "classification")
    weights = {n.removeprefix("weight/"): v for n, v in reference.items() if n[:7] == "weight/"}
    assert trained.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(trained[name], value, atol=TOLERANCE, err_msg=name)
        # A key's bias adds the same to all scores of a query: its gradient is zero.
        if not name.endswith("key.bias"):
            assert np.abs(value - before[name]).max() > 100 * TOLERANCE, name


@pytest.mark.parametrize("saved", [False, True])
def test_decay_leaves_biases_and_norms_of_real_models_alone(saved, tmp_path):
    """Keras saves an optimizer without what `exclude_from_weight_decay` was told."""
    model = load_task("classification", dropout=0.0)
    if saved:
        model.optimizer.build(model.trainable_variables)
        model.save(tmp_path / "model.keras")
        model = keras.saving.load_model(tmp_path / "model.keras")
    model.optimizer.learning_rate = 1.0
    before = {path: value.copy() for path, value in variables_of(model).items()}
    zeros = [tf.zeros(v.shape) for v in model.trainable_variables]
    model.optimizer.apply(zeros, model.trainable_variables)
    kinds = {False: 0, True: 0}
    for path, value in variables_of(model).items():
        decayed = path.rsplit("/", 1)[-1] not in UNDECAYED
        kinds[decayed] += 1
        expected = before[path] * (0.99 if decayed else 1.0)
        np.testing.assert_allclose(value, expected, rtol=1e-6, err_msg=path)
    assert kinds[False] > 20 and kinds[True] > 15


def run_steps(optimizer, steps: int = 5) -> np.ndarray:
    variable = keras.Variable(np.linspace(-1, 1, 12).reshape(3, 4).astype("float32"), name="kernel")
    rng = np.random.default_rng(1)
    for _ in range(steps):
        optimizer.apply([ops.convert_to_tensor(rng.standard_normal((3, 4), "float32"))], [variable])
    return ops.convert_to_numpy(variable)


@pytest.mark.parametrize("fused", [False, True])
def test_bias_correction_gives_kerass_adamw(fused, monkeypatch):
    """TensorFlow's fused update and the plain one are the same to it, corrected or not."""
    options = {"learning_rate": 0.1, "weight_decay": 0.01, "epsilon": 1e-6}
    uncorrected = run_steps(BertAdamW(**options))
    monkeypatch.setattr(
        "bert_zoo.training.optimizers._is_on_one_device_of_tensorflow", lambda: fused
    )
    ours = run_steps(BertAdamW(bias_correction=True, **options))
    theirs = run_steps(keras.optimizers.AdamW(**options))
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)
    np.testing.assert_allclose(run_steps(BertAdamW(**options)), uncorrected, atol=TOLERANCE)
    assert np.abs(uncorrected - theirs).max() > 0.01


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (keras.optimizers.AdamW, {"global_clipnorm": 0.5}),
        (BertAdamW, {"bias_correction": True, "global_clipnorm": 0.5}),
    ],
)
def test_the_first_step_is_adams_also_of_rows_that_many_tokens_read(make, options):
    rate, epsilon = 1e-2, 1e-3
    model, inputs = eager("classification"), task_inputs("classification")
    labels = np.arange(len(inputs["token_ids"])) % 2
    optimizer = make(rate, weight_decay=0.0, epsilon=epsilon, **options)
    model.compile(optimizer, model.loss, run_eagerly=True)
    paths = {id(variable): path for path, variable in named_variables(model).items()}
    variables, before = model.trainable_variables, variables_of(model)
    with tf.GradientTape() as tape:
        loss = model.compute_loss(inputs, labels, model(inputs, training=True))
    found = tape.gradient(loss, [variable.value for variable in variables])
    gradients = [np.float64(0 if g is None else tf.convert_to_tensor(g)) for g in found]
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients))
    model.train_on_batch(inputs, labels)
    after = variables_of(model)
    for variable, gradient in zip(variables, gradients, strict=True):
        gradient = gradient * min(1, 0.5 / norm)
        moments = 0.1 * gradient, np.sqrt(0.001) * np.abs(gradient)
        change = rate * np.sqrt(0.001) / 0.1 * moments[0] / (moments[1] + epsilon)
        path = paths[id(variable)]
        np.testing.assert_allclose(before[path] - after[path], change, atol=2e-6, err_msg=path)


def test_schedule_warms_up_and_falls_on_the_unshifted_line():
    schedule = WarmupLinearDecay(1e-3, total_steps=100, warmup_steps=10)
    expected = {0: 0, 1: 1e-4, 5: 5e-4, 9: 9e-4, 10: 9e-4, 50: 5e-4, 99: 1e-5, 100: 0, 150: 0}
    for step, rate in expected.items():
        np.testing.assert_allclose(schedule(step), rate, atol=1e-9, err_msg=str(step))
    np.testing.assert_allclose(WarmupLinearDecay(1.0, 10, 0)(0), 1.0)


def test_sgd_averages_weights_from_where_losses_stall():
    optimizer, variable = AveragedSGD(1.0, patience=2, weight_decay=None), keras.Variable([0.0])
    optimizer.build([variable])
    (average,) = optimizer._model_variables_moving_average
    # 2.6 is the first above one more than two before it.
    losses = [3.0, 2.0, 2.5, 2.9, 2.6, 2.4, 2.3]
    for number in range(1, len(losses) + 1):
        optimizer.apply([ops.ones(1)])
        assert float(variable[0]) == -number
        assert float(average[0]) == pytest.approx(-number if number < 6 else -(6 + number) / 2)
        optimizer.average_if_stalled(losses[:number])
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is AveragedSGD and again.get_config() == optimizer.get_config()
    optimizer.finalize_variable_values([variable])
    assert float(variable[0]) == -6.5


# ---------------------------------------------------------------------------------------------
# Data of every kind
# ---------------------------------------------------------------------------------------------

LABELS = [0, 1, 2]


def text_dataset(*columns):
    return tf.data.Dataset.from_tensor_slices(columns if len(columns) > 1 else columns[0]).batch(2)


@pytest.fixture(scope="module")
def classifier():
    """One model for all kinds of data, so that the tokenizer is traced once."""
    return eager("classification")


def test_predict_gives_the_same_on_every_kind(classifier):
    expected = classifier(classifier.preprocessor(TEXTS))
    for x in (np.array(TEXTS), text_dataset(TEXTS)):
        assert_same(classifier.predict(x, verbose=0), expected, 1e-5)
    expected = classifier(classifier.preprocessor(PAIRS))
    for x in (PAIRS, text_dataset(PAIRS, LABELS)):
        assert_same(classifier.predict(x, verbose=0), expected, 1e-5)


def test_dicts_of_ids_equal_text(classifier):
    ids = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS).items()}
    loss, *_ = classifier.evaluate(TEXTS, LABELS, verbose=0)
    lists = {name: value.tolist() for name, value in ids.items()}
    datasets = text_dataset(ids, LABELS)
    for arguments in ({"x": ids, "y": LABELS}, {"x": lists, "y": LABELS}, {"x": datasets}):
        arguments = {k: np.array(v) if k == "y" else v for k, v in arguments.items()}
        np.testing.assert_allclose(classifier.evaluate(**arguments, verbose=0)[0], loss, rtol=1e-5)
    classifier.fit(ids, np.array(LABELS), verbose=0)
    classifier.fit(datasets, verbose=0)


@pytest.mark.parametrize("kind", ["texts", "tf.data", "ids"])
def test_validation(kind, classifier):
    ids = {name: value.numpy() for name, value in classifier.preprocessor(TEXTS).items()}
    validation = {
        "texts": {"validation_data": (PAIRS, LABELS)},
        "tf.data": {"validation_data": text_dataset(TEXTS, LABELS)},
        "ids": {"validation_data": (ids, np.array(LABELS))},
    }[kind]
    history = classifier.fit(TEXTS, LABELS, verbose=0, **validation).history
    assert set(history) == {"accuracy", "loss", "val_accuracy", "val_loss"}


def test_validation_split_takes_the_last_rows():
    model = eager("classification")
    inputs, labels = task_inputs("classification"), np.array([2, 1, 1, 0])
    history = model.fit(inputs, labels, validation_split=0.25, verbose=0).history
    last = {name: value[3:] for name, value in inputs.items()}
    loss, *_ = model.evaluate(last, labels[3:], verbose=0)
    np.testing.assert_allclose(history["val_loss"][0], loss, rtol=1e-4)


def test_predictions_per_token_over_batches_of_different_lengths():
    model = eager("question_answering")
    long = " ".join(["the big red house"] * 6)
    pairs = (["a cat", "a bird", "a tree"], ["it ran", long, "not very good"])
    outputs = model.predict(pairs, batch_size=1, verbose=0)
    together = model(model.preprocessor(pairs))
    lengths = model.preprocessor(pairs)["padding_mask"].numpy().sum(1)
    assert len(set(lengths)) == 3
    for name, value in together.items():
        for row, length in enumerate(lengths):
            found, wanted = outputs[name][row, :length], value[row, :length]
            np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=name)


def test_multiple_choice_takes_prompts_and_choices():
    model, labels = eager("multiple_choice"), [0, 1, 0]
    dataset = tf.data.Dataset.from_tensor_slices((CHOICES, labels)).batch(2)
    model.fit(dataset, verbose=0)
    np.testing.assert_allclose(
        model.evaluate(dataset, verbose=0)[1], model.evaluate(CHOICES, labels, verbose=0)[1]
    )
    prompt, choice = CHOICES[0][1], CHOICES[1][1][0]
    alone = model.predict(([prompt], [[choice]]), verbose=0)
    logits = model.predict(CHOICES, verbose=0)
    assert logits.shape == (3, 2)
    np.testing.assert_allclose(alone[0, 0], logits[1, 0], atol=1e-5)


def test_ignored_labels_teach_nothing():
    model = eager("token_classification")
    inputs = task_inputs("token_classification")
    random = np.random.default_rng(0).integers(0, 5, inputs["token_ids"].shape)
    labels = np.where(inputs["padding_mask"] == 1, random, -100)
    loss, *_ = model.evaluate(inputs, labels, verbose=0)
    kept = labels != -100
    logits = model.predict(inputs, verbose=0)[kept]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[kept], logits)
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-4)


# ---------------------------------------------------------------------------------------------
# Reproducing, stopping and going on
# ---------------------------------------------------------------------------------------------


def test_a_pass_over_data_does_not_wait_for_the_tuner_of_tf_data(classifier):
    in_memory = keras_arguments(classifier, TEXTS, LABELS)["x"].epoch()
    given = keras_arguments(classifier, text_dataset(TEXTS, LABELS))["x"]
    assert in_memory.options().autotune.enabled is given.options().autotune.enabled is False


def traces_of(model, step: str, monkeypatch) -> list:
    """Returns a list that grows with each call of a step, which graphs call where they are traced."""
    traces, original = [], getattr(type(model), step)
    counted = lambda self, data: traces.append(1) or original(self, data)  # noqa: E731
    monkeypatch.setattr(type(model), step, counted)
    return traces


def test_a_training_step_is_traced_once(monkeypatch):
    model = load_task("classification")
    compile_for_task(model, bert_adamw())
    traces = traces_of(model, "train_step", monkeypatch)
    model.fit(["the cat", "a dog sat", "big"], np.zeros(3, int), batch_size=2, epochs=2, verbose=0)
    assert len(traces) == 1


def test_prediction_is_traced_once_for_all_lengths(monkeypatch):
    model = load_task("classification")
    texts = ["the cat", "a dog sat", "big", "the big dog sat on a mat", "a"]
    expected = [model.predict([text], verbose=0)[0] for text in texts]
    model.make_predict_function(force=True)
    traces = traces_of(model, "predict_step", monkeypatch)
    logits = model.predict(text_dataset(texts), verbose=0)
    assert len(traces) == 1
    np.testing.assert_allclose(logits, expected, atol=1e-5)


# ---------------------------------------------------------------------------------------------
# What compile is given
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metrics", [None, ["accuracy"]])
def test_a_perfect_tagger_is_right_everywhere_whatever_is_padding(metrics):
    model = load_task("token_classification", dropout=0.0)
    if metrics:
        model.compile("adam", model.loss, metrics=metrics)
    model.run_eagerly = True
    inputs = task_inputs("token_classification")
    perfect = model.predict(inputs, verbose=0).argmax(-1)
    labels = np.where(inputs["padding_mask"] == 1, perfect, -100)
    assert (labels == -100).any()
    assert model.evaluate(inputs, labels, verbose=0)[1] == 1.0
    labelled_padding = np.where(labels == -100, (perfect + 1) % 5, labels)
    assert model.evaluate(inputs, labelled_padding, verbose=0)[1] == 1.0
    labels[0, 1] = (labels[0, 1] + 1) % 5
    wanted = 1 - 1 / (labels != -100).sum()
    np.testing.assert_allclose(model.evaluate(inputs, labels, verbose=0)[1], wanted, rtol=1e-6)


def test_token_accuracy_is_a_mean_over_labels_and_takes_weights():
    metric = TokenAccuracy()
    scores = np.eye(3, dtype="float32")
    metric.update_state([[0, 1, -100]], scores[[[0, 2, 2]]])
    metric.update_state([[1], [2]], scores[[[1], [2]]], sample_weight=[0.5, 1.0])
    np.testing.assert_allclose(metric.result(), (1 + 0.5 + 1) / (2 + 1.5))


def test_tf_data_without_ranks_is_refused_with_what_to_do():
    known = tf.data.Dataset.from_tensors((TEXTS, LABELS))
    forgotten = known.map(lambda *parts: tf.py_function(lambda *p: p, parts, ["string", "int32"]))
    with pytest.raises(ValueError, match=r"how many axes.*set_shape.*output_signature"):
        keras_arguments(loaded_task("classification"), forgotten, labelled=True)


def test_metrics_of_probabilities_read_logits_as_scikit_learn_does():
    sklearn = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    metrics = keras.metrics
    weights = random.uniform(0.5, 2, 200).astype("float32")

    def measured(metric, activation, labels, logits):
        metric = OfLogits(metric, activation)
        metric = OfLogits.from_config(metric.get_config())  # as a saved model has it
        for part in (slice(None, 80), slice(80, None)):
            metric.update_state(labels[part], logits[part], weights[part])
        return np.array(metric.result())

    options, exact = {"sample_weight": weights}, 1e-5
    labels, logits = random.integers(0, 2, 200), random.normal(size=(200, 2)).astype("float32")
    chosen, of_1 = logits.argmax(1), logits[:, 1] - logits[:, 0]
    precision, roc_auc = sklearn.precision_score, sklearn.roc_auc_score
    for metric, wanted, tolerance in (
        (metrics.Precision(), precision(labels, chosen, **options), exact),
        (metrics.Precision(class_id=0), precision(labels, chosen, pos_label=0, **options), exact),
        (metrics.F1Score(), sklearn.f1_score(labels, chosen, average=None, **options), exact),
        (metrics.AUC(from_logits=True), roc_auc(labels, of_1, **options), 5e-3),
    ):
        for given in (labels, np.eye(2)[labels]):
            found = measured(metric, "softmax", given, logits)
            np.testing.assert_allclose(found, wanted, atol=tolerance)

    labels, logits = random.integers(0, 3, 200), random.normal(size=(200, 3)).astype("float32")
    chosen, rows, several = logits.argmax(1), np.eye(3)[labels], random.integers(0, 2, (200, 3))
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    loss, auc = sklearn.log_loss(labels, share, **options), {"average": "macro", **options}
    recall = sklearn.recall_score(several, logits > 0, average="micro", **options)
    for metric, activation, of, wanted, tolerance in (
        (metrics.SparseCategoricalCrossentropy(), "softmax", labels, loss, exact),
        (metrics.CategoricalCrossentropy(), "softmax", labels, loss, exact),
        (metrics.AUC(multi_label=True), "softmax", labels, roc_auc(rows, share, **auc), 5e-3),
        (metrics.Recall(), "sigmoid", several, recall, exact),
    ):
        found = measured(metric, activation, of, logits)
        np.testing.assert_allclose(found, wanted, atol=tolerance)

    tokens, of_tokens = np.where(weights > 1.2, labels, -100), logits.reshape(20, 10, 3)
    metric = OfLogits(metrics.F1Score(average="macro"), "softmax")
    metric.update_state(tokens.reshape(20, 10), of_tokens)
    wanted = sklearn.f1_score(labels[weights > 1.2], chosen[weights > 1.2], average="macro")
    np.testing.assert_allclose(metric.result(), wanted, atol=exact)


def test_models_measure_by_names_of_metrics_as_by_their_loss(classifier, tmp_path):
    names = ["sparse_categorical_crossentropy", "AUC", "precision", keras.metrics.Precision]
    loss = classifier.loss
    recall = keras.metrics.Recall(name="found")
    classifier.compile("adam", loss, metrics=[*names, recall, "accuracy"], run_eagerly=True)
    found = classifier.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["sparse_categorical_crossentropy"], found["loss"], rtol=1e-5)
    assert {"AUC", "precision", "found", "accuracy"} < set(found)
    np.testing.assert_allclose(found["found"], recall.result())
    classifier.save(tmp_path / "model.keras")
    *again, _ = metrics_given(keras.saving.load_model(tmp_path / "model.keras"))
    assert [metric.name for metric in again] == [*names[:3], "Precision", "found"]
    classifier.compile("adam", loss, metrics=["accuracy"])


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy(from_logits=True)"),
        ("categorical_crossentropy", "CategoricalCrossentropy(from_logits=True)"),
        (keras.losses.binary_crossentropy, "BinaryCrossentropy(from_logits=True)"),
        (keras.losses.CategoricalFocalCrossentropy(), "CategoricalFocalCrossentropy(from_logits"),
        (keras.losses.SparseCategoricalCrossentropy(), "SparseCategoricalCrossentropy(from_logits"),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), None),
        ("mse", None),
    ],
)
def test_losses_that_take_logits_as_probabilities_are_said(loss, wanted, classifier, caplog):
    trained_with = classifier.loss
    classifier.compile("adam", loss)
    classifier.compile("adam", trained_with, metrics=["accuracy"])
    assert f"keras.losses.{wanted}" in caplog.text if wanted else not caplog.text


@pytest.mark.parametrize(
    ("optimizer", "bound"),
    [
        (lambda: keras.optimizers.Adam(global_clipnorm=1.0), "global_clipnorm=1.0"),
        (lambda: keras.optimizers.SGD(clipvalue=0.5), "SGD with clipvalue=0.5"),
        (keras.optimizers.Adam, None),
        (bert_adamw, None),
    ],
)
def test_clipping_on_each_replica_is_said(optimizer, bound, classifier, caplog, monkeypatch):
    strategy = classifier.distribute_strategy
    classifier.compile(optimizer(), classifier.loss, metrics=["accuracy"])
    assert not caplog.text, "on one device all optimizers clip alike"
    monkeypatch.setattr(type(strategy), "num_replicas_in_sync", 2)
    classifier.compile(optimizer(), classifier.loss, metrics=["accuracy"])
    assert bound in caplog.text and "bert_adamw" in caplog.text if bound else not caplog.text
