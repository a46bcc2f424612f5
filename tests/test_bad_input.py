"""Every wrong input gets an error that names what came, what would do, or how to go on.

A table holds calls, errors and words of their messages, with " | " between words.
"""

import json
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    GOLDEN,
    TEXTS,
    assert_refused,
    load_case,
    load_task,
    loaded_task,
    refusals,
    task_inputs,
)

import bert_zoo
from bert_zoo.config import EncoderConfig
from bert_zoo.text import tokenizer
from bert_zoo.text.tokenizer import import_tensorflow_text
from bert_zoo.training import compile_for_task
from bert_zoo.weights.formats.codec import ConfigRow

LABELS = [0, 1, 2]
NAN, INFINITE = float("nan"), float("inf")
IN_GRAPH = tf.errors.InvalidArgumentError


@pytest.fixture(scope="module")
def classifier():
    return load_task("classification")


def batches(*columns):
    return tf.data.Dataset.from_tensor_slices(columns if len(columns) > 1 else columns[0]).batch(2)


def refused(call, words: str) -> None:
    assert_refused(call, words, (TypeError, ValueError, OSError, ImportError, IN_GRAPH))


def rows(*table):
    """Cases, each called by the words of its message."""
    return [pytest.param(*row, id=row[-1]) for row in table]


class Table:
    """What pandas' tables have."""

    columns = ("text", "other")


# --- Texts ---


@pytest.mark.parametrize("verb", ["predict", "classify"])
@pytest.mark.parametrize(
    ("texts", "words"),
    rows(
        (["a", None], "[1] is None | not a string | Replace missing texts with ''"),
        (["a", 3], "[1] is 3 (int) | str()"),
        (["a", NAN], "[1] is nan | Replace missing texts"),
        ([["a", "b"], ["c", "d"]], "[0] is ['a', 'b'] | tuple of two batches"),
        (5, "5 (int) | Texts are"),
        (["a\ud800"], "[0] | surrogate"),
        (np.array([["a", "b"]]), "(1, 2) | tuple of two batches"),
        (("a", "b", "c"), "(first, second) | 3 parts"),
        ((["a", "b"], ["c"]), "2 first and 1 second texts"),
    ),
)
def test_what_is_not_text(verb, texts, words, classifier):
    refused(lambda: getattr(classifier, verb)(texts), words)


@pytest.mark.parametrize(
    ("texts", "words"),
    rows(
        ({"text": TEXTS}, "is a dict"),
        ({*TEXTS}, "is a set | in order"),
        (Table(), "Table with the columns 'text', 'other' | table['text'] | (table['text'], tab"),
        (batches(TEXTS), "tf.data.Dataset | predict"),
    ),
)
def test_what_verbs_do_not_read(texts, words, classifier):
    encoder = loaded_task("encoder")
    for run in (
        lambda: classifier.classify(texts),
        lambda: encoder.embed(texts),
        lambda: loaded_task("token_classification").tag(texts),
        lambda: bert_zoo.similarity(texts, "a", encoder),
    ):
        refused(run, words)


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_batches_have_rows(size, classifier):
    for run in (
        lambda: classifier.fit(TEXTS, LABELS, batch_size=size),
        lambda: classifier.fit(task_inputs("classification"), [0, 1, 2, 0], batch_size=size),
        lambda: classifier.evaluate(TEXTS, LABELS, batch_size=size),
        lambda: classifier.predict(TEXTS, batch_size=size),
        lambda: classifier.classify(TEXTS, batch_size=size),
        lambda: classifier.fit(TEXTS, LABELS, validation_batch_size=size),
        lambda: loaded_task("encoder").embed(TEXTS, batch_size=size),
        lambda: loaded_task("token_classification").tag(TEXTS, batch_size=size),
        lambda: loaded_task("question_answering").answer("who", "the cat", batch_size=size),
    ):
        refused(run, f"batch_size is {size!r} | whole number of at least 1")


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_data_that_no_method_takes(method, classifier):
    run = getattr(classifier, method)
    if method != "predict":
        for texts in ([], np.array([], str), ([], [])):
            refused(lambda: run(texts), "There are no texts | empty")  # noqa: B023
    labelled = batches({"text": TEXTS, "label": LABELS})
    refused(lambda: run({"text": TEXTS}), "'text' has strings | x['text']")
    refused(lambda: run(labelled), "'text' | (row['text'], row['label'])")
    refused(lambda: run(None), "x is None | Pass texts")
    if method != "predict":
        ids = task_inputs("classification")
        for x in (TEXTS, ids, batches(TEXTS), iter([(ids,)])):
            refused(lambda: run(x), "There are no labels | as y")  # noqa: B023


def test_empty_texts_are_special_tokens_alone(classifier):
    inputs = classifier.preprocessor(["", " \t\n"])
    assert inputs["padding_mask"].numpy().sum(1).tolist() == [2, 2]
    assert inputs["token_ids"].numpy()[:, :2].tolist() == [[2, 3], [2, 3]]  # [CLS] [SEP]
    assert np.isfinite(classifier.predict(["", "a"], verbose=0)).all()


def test_bytes_that_are_not_utf8_are_replaced(classifier):
    """As bytes.decode("utf-8", "replace"): U+FFFD, which BERT's normalisation drops."""
    texts = [b"cat \xff\xfe dog", "cat \ufffd\ufffd dog", "cat dog"]
    first, second, third = classifier.preprocessor.tokenizer(texts).to_list()
    assert first == second == third
    assert np.isfinite(classifier.predict([b"\xff", b"cat"], verbose=0)).all()


def test_what_is_not_supported_is_said(classifier, monkeypatch):
    with monkeypatch.context() as on_torch:
        on_torch.setattr(keras.backend, "backend", lambda: "torch")
        refused(classifier.make_train_function, "torch backend | KERAS_BACKEND")
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    refused(import_tensorflow_text, "tensorflow-text==2.")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.setattr(tokenizer, "find_spec", lambda name: None)
    refused(import_tensorflow_text, "TF_USE_LEGACY_KERAS is set | Keras 3")


# --- Ids ---


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("token_ids", 120, "the size of the vocabulary"),
        ("token_ids", -1, "the size of the vocabulary"),
        ("segment_ids", 2, "the number of segments"),
        ("padding_mask", 5, "1 is a real token"),
    ],
)
def test_ids_out_of_range(name, value, what, classifier):
    inputs = {key: array.copy() for key, array in task_inputs("encoder").items()}
    inputs[name][1, 2] = value
    for run in (
        lambda: loaded_task("encoder")(inputs),
        lambda: classifier.fit(inputs, np.zeros(4, int)),
        lambda: classifier.evaluate(inputs, np.zeros(4, int)),
        lambda: classifier.predict(inputs),
    ):
        refused(run, f"{name}[1, 2] is {value} | {what}")
    dataset = batches(inputs)
    refused(lambda: classifier.predict(dataset), f"{name} | {what} | {value}")


def changed(task: str = "encoder", **values):
    """A task's inputs with other values, without those that are None."""
    inputs = {**task_inputs(task), **values}
    return {name: value for name, value in inputs.items() if value is not None}


def too_long() -> dict[str, np.ndarray]:
    return {"token_ids": np.full((2, 41), 5, "int32")}


def of_unknown_length():
    specs = {"token_ids": tf.TensorSpec([None, None], "int32")}
    return tf.data.Dataset.from_generator(lambda: iter([too_long()]), output_signature=specs)


def masked():
    return changed("masked_lm", mask_positions=np.full((4, 2), 16, "int32"))


LENGTHS = "41 tokens | 40 positions | max_length=40"
UNKNOWN = "unknown here: ['input_ids'] | missing: ['token_ids']"
BY_ANOTHER_NAME = {"input_ids": np.zeros((4, 16), int), "token_ids": None}
FOUR = np.zeros(4, int)


@refusals(
    (lambda m: m(["a text"]), "dict | list | model.preprocessor(texts)"),
    (lambda m: m(changed(**BY_ANOTHER_NAME)), UNKNOWN),
    (lambda m: m.fit(changed(**BY_ANOTHER_NAME), FOUR), UNKNOWN),
    (lambda m: m.fit(batches(changed(**BY_ANOTHER_NAME), FOUR)), UNKNOWN),
    (
        lambda m: m(changed(segment_ids=np.zeros((4, 15), int))),
        "segment_ids | (4, 15) | (4, 16)",
    ),
    (lambda m: m(changed(token_ids=np.zeros(16, int))), "[batch, length] | (16,) | .batch(32)"),
    (lambda m: m(changed(token_ids=np.zeros((4, 16)))), "token_ids must be integers | float"),
    (lambda m: m(changed(token_ids=keras.Input((16,)))), "token_ids must be integers | float"),
    (
        lambda m: m.predict({"token_ids": [[2, 5, 3], [2, 3]]}),
        "token_ids | different lengths | Pad",
    ),
    (
        lambda m: m.predict({"token_ids": np.zeros((0, 16), "int32")}),
        "token_ids is empty | (0, 16)",
    ),
    (lambda m: m({"token_ids": np.zeros((4, 0), "int32")}), "token_ids is empty | (4, 0)"),
    (lambda m: m(too_long()), LENGTHS),
    (lambda m: m.fit(too_long(), np.zeros(2, int)), LENGTHS),
    (lambda m: m.predict(too_long()), LENGTHS),
    (lambda m: m.predict(of_unknown_length()), "40 positions"),
    (
        lambda m: loaded_task("masked_lm")(masked()),
        "mask_positions[0, 0] is 16 | length of the input",
    ),
    (
        lambda m: loaded_task("masked_lm").predict(batches(masked())),
        "mask_positions must lie in",
    ),
    (
        lambda m: loaded_task("multiple_choice")(task_inputs("encoder")),
        "[batch, choices, length] | (4, 16)",
    ),
    (lambda m: loaded_task("multiple_choice").predict(TEXTS), "pair (prompts, choices)"),
    (
        lambda m: loaded_task("multiple_choice").predict((["a", "b"], [["c"], ["d", "e"]])),
        "same number of choices",
    ),
    # Data sets.
    (
        lambda m: m.fit(tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))),
        "single texts | dataset.batch(32)",
    ),
    (
        lambda m: m.predict(tf.data.Dataset.from_tensor_slices(task_inputs("encoder"))),
        "single rows | dataset.batch(32)",
    ),
    (lambda m: m.predict(batches([1.0, 2.0])), "float32 | dict of ids"),
    (
        lambda m: m.fit(tf.data.Dataset.from_tensors((TEXTS, LABELS, [1.0] * 3, [0] * 3))),
        "(x, y, sample_weight) | 4 parts",
    ),
    (lambda m: m.fit(batches(TEXTS), LABELS), "labels | leave y | tf.data"),
    (lambda m: m.fit(Table(), LABELS), "table['text']"),
    (lambda m: m.fit(TEXTS, LABELS, validation_split=1.0), "1.0 | above 0 and below 1"),
    (lambda m: m.fit(TEXTS, LABELS, validation_split=-0.5), "-0.5 | above 0 and below 1"),
    (lambda m: m.fit(batches(TEXTS, LABELS), validation_split=0.5), "validation_data"),
    # Models.
    (
        lambda m: bert_zoo.load("bert_tiny", "classification", num_classes=2, weights=None).predict(
            ["a"]
        ),
        "no vocabulary | weights=None | preprocessor",
    ),
    (
        lambda m: bert_zoo.load(GOLDEN / "encoder").fit(["a"], ["b"]),
        "'encoder' | model.compile(",
    ),
    (
        lambda m: bert_zoo.load(GOLDEN / "encoder", "embedding").fit(["a"]),
        "without labels | (anchors, positives)",
    ),
)
def test_what_no_model_reads(call, words, classifier):
    refused(lambda: call(classifier), words)


def test_no_rows_give_no_rows(classifier):
    assert classifier({"token_ids": np.zeros((0, 16), "int32")}).shape == (0, 3)


@pytest.mark.usefixtures("eager")
def test_a_mended_mistake_is_forgotten():
    model, inputs = load_task("classification"), task_inputs("classification")
    labels = np.array([2, 1, 1, 0])
    wrong = {**inputs, "input_ids": inputs["token_ids"]}
    refused(lambda: model.fit(wrong, labels, verbose=0), "['input_ids']")
    model.fit(inputs, labels, verbose=0)


# --- Labels ---


@pytest.mark.parametrize(
    ("labels", "words"),
    rows(
        ([0, 1, 3], "[2] is 3 | [0, 3) | number of labels"),
        ([0, -1, 2], "[1] is -1 | [0, 3)"),
        ([0, -100, 2], "[1] is -100 | [0, 3)"),
        ([0.0, 1.5, 2.0], "[1] is 1.5 | integers from 0 to 2 | 'neutral'"),
        ([0, NAN, 1], "[1] is nan | Drop rows without a label"),
        (["no", "yes", "no"], "[0] is 'no' | 'negative', 'neutral', 'positive'"),
        ([0, None, 1], "[1] is None | Drop rows without a label"),
        ([0, 1], "y has 2 rows and x has 3"),
        ([[0, 1], [1, 0], [1, 1]], "[batch] | (3, 2)"),
        ({"a": [0, 1, 2]}, "one array | ['a']"),
    ),
)
@pytest.mark.usefixtures("eager")
def test_wrong_class_labels(labels, words, classifier):
    refused(lambda: classifier.fit(TEXTS, labels, verbose=0), words)
    refused(lambda: classifier.evaluate(TEXTS, labels, verbose=0), words)


def tokens(value: int) -> np.ndarray:
    labels = np.full((4, 16), -100)
    labels[1, 3] = value
    return labels


ENDS = {"end_logits": FOUR}


@pytest.mark.parametrize(
    ("task", "x", "y", "words"),
    rows(
        ("classification", None, np.arange(4), "[3] is 3 | [0, 3)"),
        ("classification", batches(TEXTS, [7, 1, 0]), None, "must lie in [0, 3) | 7"),
        ("classification", batches(TEXTS, [1.5, 0.0, 2.0]), None, "integers from 0 to 2 | 1.5"),
        ("classification", batches(TEXTS, [[0, 1], [1, 0], [1, 1]]), None, "[batch] | (None, 2)"),
        ("regression", TEXTS, [1.0, NAN, 0.5], "label[1] is | finite"),
        ("regression", TEXTS, [1.0, INFINITE, 0.5], "label[1] is | finite"),
        ("regression", batches(TEXTS, [NAN, 1.0, 0.5]), None, "finite"),
        ("regression", TEXTS, ["1", "2", "3"], "must be numbers | '1'"),
        (
            "question_answering",
            None,
            {"start_logits": np.array([0, 1, 2, 16]), **ENDS},
            "start_logits label[3] is 16",
        ),
        (
            "question_answering",
            None,
            ENDS,
            "dict of ['end_logits', 'start_logits'] | ['end_logits']",
        ),
        ("question_answering", None, FOUR, "a dict of | ndarray"),
        ("multiple_choice", None, np.array([0, 3]), "label[1] is 3 | number of choices"),
        ("masked_lm", None, tokens(120), "label[1, 3] is 120 | vocabulary"),
        ("masked_lm", None, tokens(-99), "label[1, 3] is -99"),
    ),
)
@pytest.mark.usefixtures("eager")
def test_wrong_labels_of_a_task(task, x, y, words):
    of_four_rows = "encoder" if task == "question_answering" else task
    inputs = task_inputs(of_four_rows) if x is None else x
    labels = () if y is None else (y,)
    # What a graph finds wrong may come after a batch that is right, and other tests share the loaded model.
    model = (load_task if isinstance(x, tf.data.Dataset) else loaded_task)(task)
    refused(lambda: model.fit(inputs, *labels, verbose=0), words)


@pytest.mark.usefixtures("eager")
def test_wrong_labels_for_validation(classifier):
    validation = {"validation_data": (TEXTS, [0, 1, 9])}
    refused(lambda: classifier.fit(TEXTS, LABELS, **validation), "[2] is 9")


@pytest.mark.usefixtures("eager")
def test_a_model_that_is_compiled_for_one_of_its_objectives_takes_its_labels_alone():
    model, inputs = load_task("pretraining"), task_inputs("pretraining")
    shape = model.predict(inputs, verbose=0)["mlm_logits"].shape[:2]
    labels = {"mlm_logits": np.full(shape, 7)}
    refused(lambda: model.evaluate(inputs, labels), "['mlm_logits', 'nsp_logits']")
    model.compile(loss={"mlm_logits": model.default_loss()["mlm_logits"]})
    assert np.isfinite(model.evaluate(inputs, labels, verbose=0))
    both = {**labels, "nsp_logits": FOUR}
    refused(lambda: model.evaluate(inputs, both), "['mlm_logits']")


@pytest.mark.usefixtures("eager")
def test_another_loss_takes_other_labels():
    model, inputs = load_task("classification"), task_inputs("classification")
    model.compile("sgd", tf.keras.losses.CategoricalCrossentropy(from_logits=True))
    model.fit(inputs, np.full((4, 3), 1 / 3, "float32"), verbose=0)
    compile_for_task(model)
    words = "[0] is [0.3 | one-hot | CategoricalCrossentropy(from_logits=True)"
    refused(lambda: model.fit(inputs, np.full((4, 3), 1 / 3)), words)


# --- load ---

CLASSIFIER = {"task": "classification"}


@pytest.mark.parametrize(
    ("options", "words"),
    rows(
        ({"task": "clasification"}, "'clasification' | classification | masked_lm"),
        ({"task": "ner"}, "'ner' | 'token_classification'"),
        ({"task": "text-classification"}, "'text-classification' | 'classification'"),
        ({"task": "Question Answering"}, "'Question Answering' | 'question_answering'"),
        ({"weights": "x"}, "weights is 'x' | ['pretrained'], or None"),
        ({"weights": True}, "weights is True"),
        ({"dtype": "bfloat61"}, "bfloat61 | mixed_bfloat16"),
        ({"max_length": 41}, "max_length is 41 | from 3 to 40"),
        ({"max_length": 0}, "max_length is 0 | from 3 to 40"),
        ({"max_length": "20"}, "max_length is '20'"),
        ({"max_length": 12.5}, "max_length is 12.5"),
        ({"padding": "max"}, "padding is 'max' | ['longest', 'fixed']"),
        ({"dropout": 1.0}, "hidden_dropout is 1.0 | below 1"),
        ({"dropout": "0.1"}, "hidden_dropout is '0.1'"),
        ({"attention_dropout": 1.0}, "attention_dropout is 1.0 | below 1"),
        ({"activation": "prelu"}, "activation is 'prelu' | gelu_tanh"),
        ({**CLASSIFIER, "num_classes": 0}, "num_classes is 0"),
        ({**CLASSIFIER, "num_classes": 2.5}, "num_classes is 2.5"),
        ({**CLASSIFIER, "num_classes": "2"}, "num_classes is '2'"),
        ({**CLASSIFIER, "labels": ["a", "a"]}, "different | 'a'"),
        ({**CLASSIFIER, "labels": "ab"}, "labels | 'ab'"),
        ({**CLASSIFIER, "labels": 3}, "labels is 3 (int) | list"),
        ({**CLASSIFIER, "labels": {"b", "a"}}, "a set | no order | labels=['a', 'b']"),
        ({**CLASSIFIER, "labels": {"a": 1, "b": 2}}, "number the names from 0 | {'a': 1, 'b': 2}"),
        ({**CLASSIFIER, "labels": {"a": 0, "b": 0}}, "number the names from 0"),
        ({**CLASSIFIER, "labels": ["a", "b"], "num_classes": 3}, "num_classes is 3 | 2 labels"),
        ({"task": "regression", "num_classes": 2}, "num_classes | regression"),
        ({"task": "embedding", "output_attentions": True}, "for task='encoder'"),
        ({"max_len": 20}, "max_len is max_length here"),
        ({"n_classes": 3, "lr": 1}, "lr is an argument of model.compile | num_classes here"),
        ({"max_lenght": 20}, "no argument max_lenght | Did you mean 'max_length'"),
        ({**CLASSIFIER, "labels": ["a"]}, "task='multi_label_classification'"),
    ),
)
def test_wrong_options(options, words):
    refused(lambda: load_case("encoder", **{"task": "encoder", **options}), words)


def test_missing_directories_and_files(tmp_path):
    def load():
        return bert_zoo.load(tmp_path)

    words = "no directory | list_models"
    refused(lambda: bert_zoo.load(tmp_path / "no"), words)
    (tmp_path / "readme.txt").touch()
    refused(load, "bert_config.json | readme.txt")
    shutil.copy(GOLDEN / "encoder" / "config.json", tmp_path)
    refused(load, "model.safetensors | readme.txt")
    shutil.copy(GOLDEN / "encoder" / "model.safetensors", tmp_path)
    refused(lambda: load().preprocessor, "vocab.txt | readme.txt")


def test_unknown_names():
    name, words = "bert-base-uncased", "'bert_base_uncased' | list_models() | hf://"
    refused(lambda: bert_zoo.load(name), f"{name!r} | {words}")
    refused(lambda: bert_zoo.load(None), "None | string")


@pytest.mark.parametrize(
    ("content", "words"),
    rows(
        ({"hidden_sise": 3}, "hidden_sise (= 3) is not known | config.json"),
        ({"hidden_act": "prelu"}, "hidden_act is 'prelu' | gelu_new"),
        ({"position_embedding_type": "relative_key"}, "'relative_key' | ['absolute']"),
        ({"hidden_size": 33}, "hidden_size 33 | num_heads 4"),
        ({"model_type": "llama"}, "'llama' | 'bert'"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label | 0, 1, 2"),
        ({"pruned_heads": {"1": [2]}}, "pruned_heads"),
        (
            {"quantization_config": {"quant_method": "gptq"}},
            "'gptq' | not supported | dequantize()",
        ),
        ({"compression_config": {"format": "fp8"}}, "'fp8' | not supported"),
        ('{"vocab_size": 120}', "hidden_size | num_hidden_layers"),
        *((content, "config.json | JSON") for content in ("{", "[1, 2]", "\ufeff{}")),
        # All that is wrong is said at once.
        ({"hidden_act": "prelu", "extra": 1, "is_decoder": True}, "prelu | extra | is_decoder"),
    ),
)
def test_wrong_configurations(content, words, tmp_path):
    """Changes of a right one, or what else its file may hold."""
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    path = directory / "config.json"
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content)
    path.write_text(content, encoding="utf-8")
    refused(lambda: bert_zoo.load(directory), words)


def test_bert_zoo_directory_of_another_version(tmp_path):
    bert_zoo.save(loaded_task("encoder"), tmp_path)
    path = tmp_path / "bert_zoo.json"
    config = json.loads(path.read_text())
    for changes, words in (
        ({"format_version": 99}, "99 | reads format 1"),
        ({"family": "llama"}, "'llama' | 'bert'"),
        ({"config": config["config"] | {"magic": 1}}, "['magic'] | hidden_size"),
        ({"task": "translation"}, "'translation' | classification"),
    ):
        path.write_text(json.dumps(config | changes))
        refused(lambda: bert_zoo.load(tmp_path), words)


def test_configurations_name_every_problem():
    wrong = {"vocab_size": 0, "num_layers": True, "activation": "prelu", "embedding_size": -1}
    words = "vocab_size is 0 | num_layers is True | 'prelu' | embedding_size is -1"
    refused(lambda: EncoderConfig(**wrong), words)
    row = ConfigRow("activation", "hidden_act", {"gelu": "gelu_approximate"})
    words = "activation is 'gelu' | hidden_act | another format"
    refused(lambda: row.encode("gelu"), words)


def test_a_model_without_vocabulary_can_be_given_one(tmp_path):
    """As its own message advises; Keras 3.15 reads what is there first, which is nothing."""
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (directory / name).unlink(missing_ok=True)
    given = bert_zoo.load(GOLDEN / "encoder").preprocessor
    for model in (bert_zoo.load(directory), load_task("encoder")):
        model.preprocessor = given
        assert model.preprocessor is given
        assert "token_ids" in model.preprocessor(["the cat"])
