"""Every wrong input gets an error that names what came, what would do, or how to go on."""

import json
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import GOLDEN, TEXTS, load_case, load_task, loaded_task, task_inputs

import bert_zoo
from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.text import tokenizer
from bert_zoo.text.tokenizer import import_tensorflow_text
from bert_zoo.training import compile_for_task
from bert_zoo.weights.formats.codec import ConfigRow

LABELS = [0, 1, 2]


@pytest.fixture(scope="module")
def classifier():
    return load_task("classification")


def batches(*columns):
    return tf.data.Dataset.from_tensor_slices(columns if len(columns) > 1 else columns[0]).batch(2)


def message_of(error: type[Exception] | tuple, run, *parts: str) -> None:
    """The error's message has all parts."""
    with pytest.raises(error) as raised:
        run()
    for part in parts:
        assert part in str(raised.value), f"{part!r} is not in: {raised.value}"


# ---------------------------------------------------------------------------------------------
# Texts
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["predict", "classify"])
@pytest.mark.parametrize(
    ("texts", "error", "parts"),
    [
        (["a", None], TypeError, ["[1] is None", "not a string", "Replace missing texts with ''"]),
        (["a", 3], TypeError, ["[1] is 3 (int)", "str()"]),
        (["a", float("nan")], TypeError, ["[1] is nan", "Replace missing texts"]),
        ([["a", "b"], ["c", "d"]], TypeError, ["[0] is ['a', 'b']", "tuple of two batches"]),
        (5, TypeError, ["5 (int)", "Texts are"]),
        (["a\ud800"], ValueError, ["[0]", "surrogate"]),
        (np.array([["a", "b"]]), ValueError, ["(1, 2)", "tuple of two batches"]),
        (("a", "b", "c"), ValueError, ["(first, second)", "3 parts"]),
        ((["a", "b"], ["c"]), ValueError, ["2 firsts and 1 seconds"]),
    ],
    ids=["none", "number", "nan", "nested", "int", "surrogate", "2d", "triple", "uneven pair"],
)
def test_what_is_not_text(verb, texts, error, parts, classifier):
    message_of(error, lambda: getattr(classifier, verb)(texts), *parts)


class Table:
    """What pandas' tables have."""

    columns = ("text", "other")


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ({"text": TEXTS}, ["is a dict"]),
        ({*TEXTS}, ["is a set", "in order"]),
        (
            Table(),
            ["Table with the columns 'text', 'other'", "table['text']", "(table['text'], tab"],
        ),
        (batches(TEXTS), ["tf.data.Dataset", "predict"]),
    ],
    ids=["dict", "set", "table", "dataset"],
)
def test_what_verbs_do_not_read(texts, parts, classifier):
    embed, tag = loaded_task("encoder").embed, loaded_task("token_classification").tag
    verbs = [
        classifier.classify,
        tag,
        lambda x: bert_zoo.similarity(x, "a", loaded_task("encoder")),
    ]
    for verb in (*verbs, embed):
        message_of(TypeError, lambda verb=verb: verb(texts), *parts)


def test_dicts_of_texts_say_how_to_pass_them(classifier):
    dataset = batches({"text": TEXTS, "label": LABELS})
    for run in (classifier.predict, classifier.fit, classifier.evaluate):
        message_of(
            TypeError, lambda run=run: run({"text": TEXTS}), "'text' holds strings", "x['text']"
        )
        message_of(TypeError, lambda run=run: run(dataset), "'text'", "(row['text'], row['label'])")
    message_of(TypeError, lambda: classifier.fit(Table(), LABELS), "table['text']")


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_batches_have_rows(size, classifier):
    encoder, tagger = loaded_task("encoder"), loaded_task("token_classification")
    for run in (
        lambda: classifier.fit(TEXTS, LABELS, batch_size=size),
        lambda: classifier.fit(task_inputs("classification"), [0, 1, 2, 0], batch_size=size),
        lambda: classifier.evaluate(TEXTS, LABELS, batch_size=size),
        lambda: classifier.predict(TEXTS, batch_size=size),
        lambda: classifier.classify(TEXTS, batch_size=size),
        lambda: encoder.embed(TEXTS, batch_size=size),
        lambda: tagger.tag(TEXTS, batch_size=size),
        lambda: loaded_task("question_answering").answer("who", "the cat", batch_size=size),
    ):
        message_of(ValueError, run, f"batch_size is {size!r}", "positive integer")
    message_of(
        ValueError,
        lambda: classifier.fit(TEXTS, LABELS, validation_batch_size=size),
        f"validation_batch_size is {size!r}",
    )


def test_training_without_labels_is_refused(classifier):
    for run in (classifier.fit, classifier.evaluate):
        for x in (TEXTS, task_inputs("classification"), batches(TEXTS), iter([(TEXTS,)])):
            message_of(ValueError, lambda run=run, x=x: run(x), "There are no labels", "as y")


@pytest.mark.parametrize("texts", [[], np.array([], str), ([], [])], ids=["list", "array", "pair"])
def test_no_texts(texts, classifier):
    for run in (classifier.predict, classifier.evaluate, classifier.fit):
        message_of(ValueError, lambda run=run: run(texts), "There are no texts", "empty")


def test_no_data(classifier):
    message_of(TypeError, lambda: classifier.predict(None), "x is None", "Pass texts")


def test_empty_texts_are_special_tokens_alone(classifier):
    inputs = classifier.preprocessor(["", " \t\n"])
    assert inputs["padding_mask"].numpy().sum(1).tolist() == [2, 2]
    assert inputs["token_ids"].numpy()[:, :2].tolist() == [[2, 3], [2, 3]]  # [CLS] [SEP]
    assert np.isfinite(classifier.predict(["", "a"], verbose=0)).all()


def test_bytes_that_are_not_utf8_are_replaced(classifier):
    """As bytes.decode("utf-8", "replace"): U+FFFD, which BERT's normalisation drops."""
    tokens = classifier.preprocessor.tokenizer(
        [b"cat \xff\xfe dog", "cat \ufffd\ufffd dog", "cat dog"]
    )
    rows = tokens.to_list()
    assert rows[0] == rows[1] == rows[2]
    assert np.isfinite(classifier.predict([b"\xff", b"cat"], verbose=0)).all()


def test_text_without_vocabulary():
    model = bert_zoo.load("bert_tiny", "classification", num_classes=2, weights=None)
    message_of(
        ValueError, lambda: model.predict(["a"]), "no vocabulary", "weights=None", "preprocessor"
    )


def test_what_is_not_supported_is_said(classifier, monkeypatch):
    with monkeypatch.context() as on_torch:
        on_torch.setattr(keras.backend, "backend", lambda: "torch")
        message_of(ValueError, classifier.make_train_function, "torch backend", "KERAS_BACKEND")
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    message_of(ImportError, import_tensorflow_text, "tensorflow-text==2.")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.setattr(tokenizer, "find_spec", lambda name: None)
    message_of(ImportError, import_tensorflow_text, "TF_USE_LEGACY_KERAS is set", "Keras 3")


def test_text_where_ids_are_called_for(classifier):
    message_of(
        TypeError, lambda: classifier(["a text"]), "dict", "list", "model.preprocessor(texts)"
    )


# ---------------------------------------------------------------------------------------------
# Ids
# ---------------------------------------------------------------------------------------------


def changed(name: str, value: int, position=(1, 2)) -> dict[str, np.ndarray]:
    inputs = {key: array.copy() for key, array in task_inputs("encoder").items()}
    inputs[name][position] = value
    return inputs


WRONG_IDS = [
    ("token_ids", 120, "the size of the vocabulary"),
    ("token_ids", -1, "the size of the vocabulary"),
    ("segment_ids", 2, "the number of segments"),
    ("padding_mask", 5, "1 is a real token"),
]


@pytest.mark.parametrize(("name", "value", "what"), WRONG_IDS)
def test_ids_out_of_range_eagerly(name, value, what):
    inputs = changed(name, value)
    message_of(ValueError, lambda: loaded_task("encoder")(inputs), f"{name}[1, 2] is {value}", what)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize(("name", "value", "what"), WRONG_IDS)
def test_ids_out_of_range_in_arrays(method, name, value, what, classifier):
    inputs = changed(name, value)
    arguments = [inputs] if method == "predict" else [inputs, np.zeros(4, int)]
    message_of(
        ValueError,
        lambda: getattr(classifier, method)(*arguments),
        f"{name}[1, 2] is {value}",
        what,
    )


@pytest.mark.parametrize(("name", "value", "what"), WRONG_IDS)
def test_ids_out_of_range_in_tf_data(name, value, what, classifier):
    dataset = batches(changed(name, value))
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        classifier.predict(dataset, verbose=0)
    assert (
        name in str(raised.value) and what in str(raised.value) and str(value) in str(raised.value)
    )


def test_mask_positions_out_of_range():
    model, inputs = loaded_task("masked_lm"), task_inputs("masked_lm")
    inputs["mask_positions"] = np.full((4, 2), 16, "int32")
    message_of(
        ValueError, lambda: model(inputs), "mask_positions[0, 0] is 16", "length of the input"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="mask_positions must lie in"):
        model.predict(batches(inputs), verbose=0)


def too_long() -> dict[str, np.ndarray]:
    return {"token_ids": np.full((2, 41), 5, "int32")}


def test_rows_longer_than_the_positions(classifier):
    parts = ("41 tokens", "40 positions", "max_length=40")
    message_of(ValueError, lambda: loaded_task("encoder")(too_long()), *parts)
    message_of(ValueError, lambda: classifier.fit(too_long(), np.zeros(2, int), verbose=0), *parts)
    message_of(ValueError, lambda: classifier.predict(too_long(), verbose=0), *parts)


def test_rows_longer_than_the_positions_in_tf_data(classifier):
    rows = tf.data.Dataset.from_generator(
        lambda: iter([too_long()]),
        output_signature={"token_ids": tf.TensorSpec([None, None], "int32")},
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="40 positions"):
        classifier.predict(rows, verbose=0)


@pytest.mark.parametrize(
    ("change", "error", "parts"),
    [
        ({"input_ids": np.zeros((4, 16), int)}, ValueError, ["input_ids", "token_ids"]),
        ({"token_ids": None}, ValueError, ["missing: ['token_ids']"]),
        (
            {"segment_ids": np.zeros((4, 15), int)},
            ValueError,
            ["segment_ids", "(4, 15)", "(4, 16)"],
        ),
        ({"token_ids": np.zeros(16, int)}, ValueError, ["[batch, length]", "(16,)", ".batch(32)"]),
        ({"token_ids": np.zeros((4, 16))}, TypeError, ["token_ids must be integers", "float"]),
        ({"token_ids": keras.Input((16,))}, TypeError, ["token_ids must be integers", "float"]),
    ],
    ids=["unknown", "missing", "shape", "rank", "float", "symbol"],
)
def test_wrong_dicts(change, error, parts):
    inputs = {**task_inputs("encoder"), **change}
    inputs = {name: value for name, value in inputs.items() if value is not None}
    message_of(error, lambda: loaded_task("encoder")(inputs), *parts)


def test_wrong_dicts_in_fit(classifier):
    inputs = task_inputs("encoder")
    inputs["input_ids"] = inputs.pop("token_ids")
    labels = np.zeros(4, int)
    parts = ("unknown here: ['input_ids']", "missing: ['token_ids']")
    message_of(ValueError, lambda: classifier.fit(inputs, labels, verbose=0), *parts)
    message_of(ValueError, lambda: classifier.fit(batches(inputs, labels), verbose=0), *parts)


@pytest.mark.parametrize("shape", [(0, 16), (4, 0)])
def test_empty_ids(shape, classifier):
    inputs = {"token_ids": np.zeros(shape, "int32")}
    message_of(ValueError, lambda: classifier.predict(inputs), "token_ids is empty", str(shape))


def test_rows_without_ids(classifier):
    inputs = {"token_ids": np.zeros((4, 0), "int32")}
    message_of(ValueError, lambda: classifier(inputs), "token_ids is empty", "(4, 0)")


def test_no_rows_give_no_rows(classifier):
    assert classifier({"token_ids": np.zeros((0, 16), "int32")}).shape == (0, 3)


def test_a_mended_mistake_is_forgotten():
    model, inputs = load_task("classification"), task_inputs("classification")
    labels = np.array([2, 1, 1, 0])
    wrong = {**inputs, "input_ids": inputs["token_ids"]}
    message_of(ValueError, lambda: model.fit(wrong, labels, verbose=0), "['input_ids']")
    model.fit(inputs, labels, verbose=0)


def test_rows_of_ids_of_different_lengths(classifier):
    inputs = {"token_ids": [[2, 5, 3], [2, 3]]}
    message_of(
        ValueError, lambda: classifier.predict(inputs), "token_ids", "different lengths", "Pad"
    )


def test_multiple_choice_shapes():
    model = loaded_task("multiple_choice")
    message_of(
        ValueError, lambda: model(task_inputs("encoder")), "[batch, choices, length]", "(4, 16)"
    )
    message_of(TypeError, lambda: model.predict(TEXTS), "pair (prompts, choices)")
    message_of(
        ValueError,
        lambda: model.predict((["a", "b"], [["c"], ["d", "e"]])),
        "same number of choices",
    )


# ---------------------------------------------------------------------------------------------
# Labels
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "error", "parts"),
    [
        ([0, 1, 3], ValueError, ["[2] is 3", "[0, 3)", "number of labels"]),
        ([0, -1, 2], ValueError, ["[1] is -1", "[0, 3)"]),
        ([0, -100, 2], ValueError, ["[1] is -100", "[0, 3)"]),
        ([0.0, 1.5, 2.0], ValueError, ["[1] is 1.5", "integers from 0 to 2", "'neutral'"]),
        ([0, float("nan"), 1], ValueError, ["[1] is nan", "Drop rows without a label"]),
        (["no", "yes", "no"], ValueError, ["[0] is 'no'", "'negative', 'neutral', 'positive'"]),
        ([0, None, 1], TypeError, ["[1] is None", "Drop rows without a label"]),
        ([0, 1], ValueError, ["y has 2 rows and x has 3"]),
        ([[0, 1], [1, 0], [1, 1]], ValueError, ["[batch]", "(3, 2)"]),
        ({"a": [0, 1, 2]}, ValueError, ["one array", "['a']"]),
    ],
    ids=[
        "high",
        "low",
        "ignored",
        "float",
        "nan",
        "names",
        "none",
        "rows",
        "shape",
        "dict",
    ],
)
def test_wrong_class_labels(labels, error, parts, classifier):
    message_of(error, lambda: classifier.fit(TEXTS, labels, verbose=0), *parts)
    message_of(error, lambda: classifier.evaluate(TEXTS, labels, verbose=0), *parts)


def test_wrong_labels_beside_ids(classifier):
    inputs = task_inputs("classification")
    message_of(
        ValueError, lambda: classifier.fit(inputs, np.array([0, 1, 2, 3])), "[3] is 3", "[0, 3)"
    )


def test_wrong_labels_for_validation(classifier):
    message_of(
        ValueError,
        lambda: classifier.fit(TEXTS, LABELS, validation_data=(TEXTS, [0, 1, 9]), verbose=0),
        "[2] is 9",
    )


def test_wrong_labels_in_tf_data(classifier):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)must lie in \[0, 3\).*These.*7"):
        classifier.fit(batches(TEXTS, [0, 1, 7]), verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)integers from 0 to 2.*1\.5"):
        classifier.fit(batches(TEXTS, [0.0, 1.5, 2.0]), verbose=0)
    pairs = batches(TEXTS, [[0, 1], [1, 0], [1, 1]])
    message_of(ValueError, lambda: classifier.fit(pairs, verbose=0), "[batch]", "(None, 2)")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_to_regress_must_be_finite(bad):
    model = load_task("regression")
    labels = [1.0, bad, 0.5]
    message_of(ValueError, lambda: model.fit(TEXTS, labels, verbose=0), "label[1] is", "finite")
    with pytest.raises(tf.errors.InvalidArgumentError, match="finite"):
        model.fit(batches(TEXTS, labels), verbose=0)
    message_of(
        TypeError, lambda: model.fit(TEXTS, ["1", "2", "3"], verbose=0), "must be numbers", "'1'"
    )


def test_answers_lie_in_the_input():
    model, inputs = load_task("question_answering"), task_inputs("encoder")
    labels = {"start_logits": np.array([0, 1, 2, 16]), "end_logits": np.zeros(4, int)}
    message_of(
        ValueError, lambda: model.fit(inputs, labels, verbose=0), "start_logits label[3] is 16"
    )
    del labels["start_logits"]
    message_of(
        ValueError,
        lambda: model.fit(inputs, labels, verbose=0),
        "dict of ['end_logits', 'start_logits']",
        "['end_logits']",
    )
    message_of(
        ValueError, lambda: model.fit(inputs, np.zeros(4, int), verbose=0), "a dict of", "ndarray"
    )


def test_a_model_that_is_compiled_for_one_of_its_objectives_takes_its_labels_alone():
    model, inputs = load_task("pretraining"), task_inputs("pretraining")
    shape = model.predict(inputs, verbose=0)["mlm_logits"].shape[:2]
    labels = {"mlm_logits": np.full(shape, 7)}
    message_of(
        ValueError,
        lambda: model.evaluate(inputs, labels, verbose=0),
        "['mlm_logits', 'nsp_logits']",
    )
    model.compile(loss={"mlm_logits": model.default_loss()["mlm_logits"]})
    assert np.isfinite(model.evaluate(inputs, labels, verbose=0))
    message_of(
        ValueError,
        lambda: model.evaluate(inputs, {**labels, "nsp_logits": np.zeros(4, int)}, verbose=0),
        "['mlm_logits']",
    )


def test_choices_exist():
    model, inputs = load_task("multiple_choice"), task_inputs("multiple_choice")
    labels = np.array([0, 3])
    message_of(ValueError, lambda: model.fit(inputs, labels), "label[1] is 3", "number of choices")


def test_tokens_to_predict_are_in_the_vocabulary():
    model, inputs = load_task("masked_lm"), task_inputs("masked_lm")
    labels = np.full((4, 16), -100)
    labels[1, 3] = 120
    message_of(ValueError, lambda: model.fit(inputs, labels), "label[1, 3] is 120", "vocabulary")
    labels[1, 3] = -99
    message_of(ValueError, lambda: model.fit(inputs, labels), "label[1, 3] is -99")


def test_another_loss_takes_other_labels():
    model, inputs = load_task("classification"), task_inputs("classification")
    model.compile("sgd", tf.keras.losses.CategoricalCrossentropy(from_logits=True))
    model.fit(inputs, np.full((4, 3), 1 / 3, "float32"), verbose=0)
    compile_for_task(model)
    message_of(
        ValueError,
        lambda: model.fit(inputs, np.full((4, 3), 1 / 3)),
        "[0] is [0.3",
        "one-hot",
        "CategoricalCrossentropy(from_logits=True)",
    )


# ---------------------------------------------------------------------------------------------
# Data sets
# ---------------------------------------------------------------------------------------------


def test_unbatched_datasets(classifier):
    texts = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))
    message_of(ValueError, lambda: classifier.fit(texts), "single texts", "dataset.batch(32)")
    ids = tf.data.Dataset.from_tensor_slices(task_inputs("encoder"))
    message_of(ValueError, lambda: classifier.predict(ids), "single rows", "dataset.batch(32)")


def test_datasets_of_something_else(classifier):
    message_of(TypeError, lambda: classifier.predict(batches([1.0, 2.0])), "float32", "dict of ids")
    four = tf.data.Dataset.from_tensors((TEXTS, LABELS, [1.0] * 3, [0] * 3))
    message_of(ValueError, lambda: classifier.fit(four), "(x, y, sample_weight)", "4 parts")


def test_labels_beside_a_dataset(classifier):
    message_of(
        ValueError, lambda: classifier.fit(batches(TEXTS), LABELS), "labels", "leave y", "tf.data"
    )


@pytest.mark.parametrize("split", [1.0, -0.5, 2])
def test_validation_split_is_a_part(split, classifier):
    message_of(
        ValueError,
        lambda: classifier.fit(TEXTS, LABELS, validation_split=split),
        str(split),
        "0 and 1",
    )


def test_validation_split_of_a_dataset(classifier):
    message_of(
        ValueError,
        lambda: classifier.fit(batches(TEXTS, LABELS), validation_split=0.5),
        "validation_data",
    )


# ---------------------------------------------------------------------------------------------
# load
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "parts"),
    [
        ({"task": "clasification"}, ValueError, ["'clasification'", "classification", "masked_lm"]),
        ({"weights": "x"}, ValueError, ["weights is 'x'", "'pretrained' or None"]),
        ({"weights": True}, ValueError, ["weights is True"]),
        ({"dtype": "bfloat61"}, ValueError, ["bfloat61", "mixed_bfloat16"]),
        ({"max_length": 41}, ValueError, ["max_length is 41", "from 3 to 40"]),
        ({"max_length": 0}, ValueError, ["max_length is 0", "from 3 to 40"]),
        ({"max_length": -1}, ValueError, ["max_length is -1"]),
        ({"max_length": "20"}, ValueError, ["max_length is '20'"]),
        ({"max_length": 12.5}, ValueError, ["max_length is 12.5"]),
        ({"padding": "max"}, ValueError, ["padding is 'max'", "'longest' or 'fixed'"]),
        ({"dropout": 1.0}, ConfigError, ["hidden_dropout is 1.0", "below 1"]),
        ({"dropout": "0.1"}, ConfigError, ["hidden_dropout is '0.1'"]),
        ({"activation": "mish"}, ConfigError, ["activation is 'mish'", "gelu_tanh"]),
        ({"task": "classification", "num_classes": 0}, ValueError, ["num_classes is 0"]),
        ({"task": "classification", "num_classes": 2.5}, ValueError, ["num_classes is 2.5"]),
        ({"task": "classification", "num_classes": "2"}, ValueError, ["num_classes is '2'"]),
        ({"task": "classification", "labels": ["a", "a"]}, ValueError, ["different", "'a'"]),
        ({"task": "classification", "labels": "ab"}, ValueError, ["labels", "'ab'"]),
        ({"task": "classification", "labels": 3}, ValueError, ["labels is 3 (int)", "list"]),
        (
            {"task": "classification", "labels": {"b", "a"}},
            ValueError,
            ["a set", "no order", "labels=['a', 'b']"],
        ),
        (
            {"task": "classification", "labels": {"a": 1, "b": 2}},
            ValueError,
            ["from 0 on", "{'a': 1, 'b': 2}"],
        ),
        ({"task": "classification", "labels": {"a": 0, "b": 0}}, ValueError, ["from 0 on"]),
        (
            {"task": "classification", "labels": ["a", "b"], "num_classes": 3},
            ValueError,
            ["num_classes is 3", "2 labels"],
        ),
        ({"task": "regression", "num_classes": 2}, ValueError, ["num_classes", "regression"]),
        ({"task": "embedding", "output_attentions": True}, ValueError, ["bare encoder"]),
    ],
)
def test_wrong_options(options, error, parts):
    message_of(error, lambda: load_case("encoder", **{"task": "encoder", **options}), *parts)


def test_missing_directories_and_files(tmp_path):
    message_of(
        FileNotFoundError, lambda: bert_zoo.load(tmp_path / "no"), "no directory", "list_models"
    )
    (tmp_path / "readme.txt").touch()
    message_of(FileNotFoundError, lambda: bert_zoo.load(tmp_path), "bert_config.json", "readme.txt")
    shutil.copy(GOLDEN / "encoder" / "config.json", tmp_path)
    message_of(
        FileNotFoundError, lambda: bert_zoo.load(tmp_path), "model.safetensors", "readme.txt"
    )
    shutil.copy(GOLDEN / "encoder" / "model.safetensors", tmp_path)
    model = bert_zoo.load(tmp_path)
    message_of(FileNotFoundError, lambda: model.preprocessor, "vocab.txt", "readme.txt")


def test_unknown_names():
    message_of(
        ValueError,
        lambda: bert_zoo.load("bert-base-uncased"),
        "'bert-base-uncased'",
        "'bert_base_uncased'",
        "list_models()",
        "hf://",
    )
    message_of(TypeError, lambda: bert_zoo.load(None), "None", "string")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("ner", "token_classification"),
        ("text-classification", "classification"),
        ("Question Answering", "question_answering"),
        ("masked_ml", "masked_lm"),
    ],
)
def test_what_others_call_a_task_answers_with_its_name(word, meant):
    message_of(ValueError, lambda: bert_zoo.load("bert_nano", word), repr(word), f"{meant!r}")


def test_a_model_without_a_loss_says_so_before_it_reads_its_data():
    model = bert_zoo.load(GOLDEN / "encoder", "embedding")
    message_of(ValueError, lambda: model.fit(["a"], ["b"]), "'embedding'", "model.compile(")


def rewritten(tmp_path, name: str = "config.json", **changes):
    for file in (GOLDEN / "encoder").iterdir():
        shutil.copy(file, tmp_path)
    config = json.loads((tmp_path / name).read_text()) | changes
    (tmp_path / name).write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"hidden_sise": 3}, ["hidden_sise (= 3) is not known", "config.json"]),
        ({"hidden_act": "mish"}, ["hidden_act is 'mish'", "gelu_new"]),
        ({"position_embedding_type": "relative_key"}, ["'relative_key'", "['absolute']"]),
        ({"is_decoder": True}, ["is_decoder is True"]),
        ({"hidden_size": 33}, ["hidden_size 33", "num_heads 4"]),
        ({"hidden_size": "32"}, ["hidden_size is '32'", "positive integer"]),
        ({"num_hidden_layers": 0}, ["num_layers is 0"]),
        ({"layer_norm_eps": 0}, ["layer_norm_epsilon is 0"]),
        ({"model_type": "llama"}, ["'llama'", "'bert'"]),
        ({"id2label": {"0": "a", "2": "b"}}, ["id2label", "0, 1, 2"]),
        ({"pruned_heads": {"1": [2]}}, ["pruned_heads"]),
    ],
)
def test_wrong_configurations(changes, parts, tmp_path):
    directory = rewritten(tmp_path, **changes)
    message_of(ConfigError, lambda: bert_zoo.load(directory), *parts)


def test_all_that_is_wrong_with_a_configuration_is_said_at_once(tmp_path):
    directory = rewritten(tmp_path, hidden_act="mish", extra=1, is_decoder=True)
    message_of(ConfigError, lambda: bert_zoo.load(directory), "mish", "extra", "is_decoder")


def test_missing_configuration_keys(tmp_path):
    (rewritten(tmp_path) / "config.json").write_text('{"vocab_size": 120}')
    message_of(ConfigError, lambda: bert_zoo.load(tmp_path), "hidden_size", "num_hidden_layers")


@pytest.mark.parametrize("content", ["{", "[1, 2]", "\ufeff{}"])
def test_configuration_that_is_no_json_object(content, tmp_path):
    (rewritten(tmp_path) / "config.json").write_text(content, encoding="utf-8")
    message_of(ConfigError, lambda: bert_zoo.load(tmp_path), "config.json", "JSON")


def test_bert_zoo_directory_of_another_version(tmp_path):
    bert_zoo.save(loaded_task("encoder"), tmp_path)
    path = tmp_path / "bert_zoo.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"format_version": 99}))
    message_of(ConfigError, lambda: bert_zoo.load(tmp_path), "99", "reads format 1")
    path.write_text(json.dumps(config | {"family": "llama"}))
    message_of(ConfigError, lambda: bert_zoo.load(tmp_path), "'llama'", "'bert'")
    path.write_text(json.dumps(config | {"config": config["config"] | {"magic": 1}}))
    message_of(ConfigError, lambda: bert_zoo.load(tmp_path), "['magic']", "hidden_size")
    path.write_text(json.dumps(config | {"task": "translation"}))
    message_of(ValueError, lambda: bert_zoo.load(tmp_path), "'translation'", "classification")


def test_encoder_config_names_every_problem():
    message_of(
        ConfigError,
        lambda: EncoderConfig(vocab_size=0, num_layers=True, activation="tanh", embedding_size=-1),
        "vocab_size is 0",
        "num_layers is True",
        "'tanh'",
        "embedding_size is -1",
    )


def test_a_model_without_vocabulary_can_be_given_one(tmp_path):
    """As its own message advises; Keras 3.15 reads what is there first, which is nothing."""
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    (directory / "vocab.txt").unlink()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).unlink(missing_ok=True)
    given = bert_zoo.load(GOLDEN / "encoder").preprocessor
    for model in (bert_zoo.load(directory), load_task("encoder")):
        model.preprocessor = given
        assert model.preprocessor is given
        assert "token_ids" in model.preprocessor(["the cat"])


def test_a_value_that_a_format_cannot_say_is_named():
    row = ConfigRow("activation", "hidden_act", {"gelu": "gelu_approximate"})
    message_of(
        ConfigError,
        lambda: row.encode("gelu"),
        "activation is 'gelu'",
        "hidden_act",
        "another format",
    )
