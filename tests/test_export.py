"""SavedModels answer as the models do, stand alone, and can be trained on."""

import json
import shutil
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    PAIRS,
    TEXTS,
    assert_refused,
    assert_same,
    load_case,
    load_task,
    loaded_task,
    memoized_exports,
    run_program,
    task_inputs,
)

import bert_zoo
from bert_zoo.models import graphs
from bert_zoo.serving import HUB_NAMES
from bert_zoo.serving.servable import outputs_of_texts
from bert_zoo.text import Preprocessor

TOLERANCE = 1e-5
TEXT_INPUTS = {
    "question_answering": ("question", "context"),
    "multiple_choice": ("text", "choices"),
}
LABELS = np.array([0, 1, 2])


def named(model, outputs) -> dict:
    """A model's outputs under the names that signatures give them."""
    if isinstance(outputs, dict):
        return outputs
    return {"embedding" if model.task == "embedding" else "logits": outputs}


def under_hub_names(ids) -> dict:
    return {theirs: tf.constant(ids[name]) for name, theirs in HUB_NAMES.items()}


def serve(reloaded, **texts) -> dict:
    inputs = {name: tf.constant(column) for name, column in texts.items()}
    return reloaded.signatures["serving_default"](**inputs)


def assert_holds(served: dict, expected: dict) -> None:
    assert_same({name: served[name] for name in expected}, expected, TOLERANCE)


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """task -> (model, directory, reloaded), exported once."""
    return memoized_exports(load_task, tmp_path_factory)


@pytest.fixture
def classifier_directory(exports, tmp_path):
    """A classifier's SavedModel that a test may train."""
    _, directory, _ = exports("classification")
    return directory


# --- Signatures ----------------------------------------------------------------------------------


def test_serving_default_takes_pairs_where_asked(tmp_path):
    model = load_task("classification")
    bert_zoo.export(model, tmp_path, pairs=True)
    served = serve(tf.saved_model.load(str(tmp_path)), text=PAIRS[0], text_pair=PAIRS[1])
    assert_holds(served, {"logits": model(model.preprocessor(PAIRS))})


def test_answers_are_cut_from_contexts_of_any_length(exports):
    model, _, reloaded = exports("question_answering")
    contexts = [" ".join(TEXTS), " ".join(TEXTS * 12), "a big  red É house, in the\u3000city "]
    questions = ["the cat", "what did she see in the big red house", ""]
    served = serve(reloaded, question=questions, context=contexts)
    answers = model.answer(questions, contexts, float("inf"))
    assert [text.decode() for text in served["answer"].numpy()] == [a.text for a in answers]
    for name in ("start", "end"):
        assert served[name].numpy().tolist() == [getattr(a, name) for a in answers]
    for name in ("score", "no_answer_score"):
        expected = [getattr(a, name) for a in answers]
        np.testing.assert_allclose(served[name], expected, atol=TOLERANCE)
    windows = np.bincount(served["example"])
    assert len(windows) == 3 and windows[1] > windows[0]
    assert {len(served[name]) for name in ("start_logits", "end_logits", "tokens")} == {
        sum(windows)
    }
    # What the rows show of a context, put together, is all of it.
    shown = served["context_mask"].numpy()[served["example"].numpy() == 1]
    last_row = served["first_token"].numpy()[sum(windows[:2]) - 1] + shown[-1].sum()
    assert last_row == model.preprocessor.tokenizer(contexts[1:2]).row_lengths()[0]


@pytest.mark.parametrize(
    "task",
    [
        "classification",
        pytest.param("multiple_choice", marks=pytest.mark.slow),
        "question_answering",
    ],
)
def test_a_large_request_goes_through_the_model_in_chunks(task, monkeypatch):
    model = loaded_task(task)
    long_text = " ".join(TEXTS * 3)
    texts, most = {
        "classification": ([*TEXTS * 7, long_text, *TEXTS * 5], 200),
        "multiple_choice": (([*TEXTS * 2, long_text], [["no", "a film"]] * 7), 80),
        "question_answering": ((["the cat", "it"], ["it was good", long_text * 9]), 200),
    }[task]
    sizes = []

    def call(inputs, training):
        tf.numpy_function(sizes.append, [tf.size(inputs["input_word_ids"])], [])
        ids = {name: inputs[theirs] for name, theirs in HUB_NAMES.items()}
        return named(model, model(ids, training=training))

    def served() -> dict:
        sizes.clear()
        serve = tf.function(partial(outputs_of_texts, model, call, model.preprocessor))
        return serve(tuple(map(tf.constant, texts if isinstance(texts, tuple) else (texts,))))

    whole = served()
    assert len(sizes) == 1
    # A single row may be longer than a chunk.
    monkeypatch.setattr(graphs, "TOKENS_A_CHUNK", most)
    in_chunks = served()
    assert len(sizes) > 2 and max(sizes) <= most
    if task == "classification":  # the short ones are not padded to the long one
        assert sum(sizes) < 35 * 24
    strings = {name for name, value in whole.items() if value.dtype == tf.string}
    assert all(np.array_equal(in_chunks.pop(name), whole.pop(name)) for name in strings)
    assert_same(in_chunks, whole, 1e-6)


def test_a_context_without_text_has_no_answer(exports):
    model, _, reloaded = exports("question_answering")
    contexts = ["", "it was good"]
    served = serve(reloaded, question=["the cat", "the cat"], context=contexts)
    for threshold in (0.0, float("inf"), None):
        first, second = model.answer("the cat", contexts, threshold)
        assert (first.text, first.start, first.score) == ("", None, 1.0)
        assert first.no_answer_score == (None if threshold is None else float("inf"))
        alone = model.answer("the cat", contexts[1], threshold)
        assert (second.text, second.start) == (alone.text, alone.start)
        blank = model.answer("the cat", " \n", threshold)
        assert str(blank) == "no answer  (the context has no text)"
    assert served["answer"][0] == b"" and served["answer"][1] != b""
    assert served["start"][0] == served["end"][0] == -1
    assert served["score"][0] == 0 and served["no_answer_score"][0] == float("inf")


def test_bytes_that_are_not_utf8_count_as_the_replacement_character(exports):
    model, _, reloaded = exports("question_answering")
    context = b"the \xff cat \xc3 sat on a tree"
    served = serve(reloaded, question=["it"], context=[context])
    text = context.decode("utf-8", "replace")
    start, end = served["start"][0], served["end"][0]
    assert served["answer"][0].numpy().decode() == text[start:end]
    assert text[start:end] == model.answer("it", text, float("inf")).text


def test_a_tokenizer_that_cannot_tell_places_serves_no_answers(tmp_path):
    class Words:
        cls_id, sep_id, pad_id, vocabulary = 0, 1, 2, ("a", "b", "c")

        def __call__(self, texts):
            return tf.RaggedTensor.from_row_splits(tf.zeros_like(texts, tf.int32), [0, 1])

    model = load_task("question_answering")
    model.preprocessor = Preprocessor(Words(), sequence_length=20)
    words = "Words has no method tokenize_with_offsets"
    assert_refused(lambda: bert_zoo.export(model, tmp_path / "saved_model"), words)
    assert not (tmp_path / "saved_model").exists()


@pytest.mark.slow
def test_mask_positions_select_logits(exports):
    model, _, reloaded = exports("masked_lm")
    ids = task_inputs("masked_lm")
    ids["mask_positions"] = np.tile(np.array([[1, 3]], np.int32), (len(ids["token_ids"]), 1))
    served = reloaded.signatures["mask_positions"](**{n: tf.constant(v) for n, v in ids.items()})
    assert_holds(served, named(model, model(ids)))


def test_batch_and_length_are_free(exports):
    model, _, reloaded = exports("classification")
    for texts in (["a"], ["", "the cat"], [" ".join(TEXTS)] * 5):
        served = serve(reloaded, text=texts)
        assert_holds(served, {"logits": model(model.preprocessor(texts))})


@pytest.mark.parametrize("task", ["classification", "token_classification", "question_answering"])
def test_an_empty_batch_gives_empty_outputs(task, exports):
    _, _, reloaded = exports(task)
    names = TEXT_INPUTS.get(task, ("text",))
    served = serve(reloaded, **dict.fromkeys(names, tf.zeros([0], tf.string)))
    assert {value.shape[0] for value in served.values()} == {0}


def test_ids_outside_the_tables_and_rows_too_long_are_errors(exports):
    model, _, reloaded = exports("classification")
    ids = {name: tf.constant(value) for name, value in task_inputs("classification").items()}
    too_large = {**ids, "token_ids": ids["token_ids"] + model.encoder.config.vocab_size}
    too_long = {name: tf.tile(value, [1, 9]) for name, value in ids.items()}
    for given, words in (
        (too_large, "size of the vocabulary"),
        (too_long, "positions of this model"),
    ):
        call = partial(reloaded.signatures["tokens"], **given)
        assert_refused(call, words, tf.errors.InvalidArgumentError)


# --- TF-Hub's interface --------------------------------------------------------------------------


def test_without_a_pooler_the_default_is_the_sentence_vector(exports):
    model, _, reloaded = exports("token_classification")
    ids = task_inputs("token_classification")
    outputs = reloaded(under_hub_names(ids))
    assert "pooled_output" not in outputs
    mask = ids["padding_mask"][..., None].astype("float32")
    mean = (outputs["sequence_output"] * mask).numpy().sum(1) / mask.sum(1)
    assert (model.encoder.pooling.mode, model.encoder.pooling.normalize) == ("mean", True)
    expected = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    np.testing.assert_allclose(outputs["default"], expected, atol=TOLERANCE)


def test_it_is_the_encoder_beside_its_task(exports):
    model, _, reloaded = exports("classification")
    ids = task_inputs("classification")
    outputs = reloaded(under_hub_names(ids))
    encoder = load_case("classification", "encoder", output_hidden_states=True)
    expected = encoder(ids)
    assert_same(outputs["encoder_outputs"], expected.pop("hidden_states")[1:], TOLERANCE)
    assert_holds(outputs, expected)
    assert np.array_equal(outputs["default"], outputs["pooled_output"])
    # The export leaves the model as it was.
    assert set(model.encoder(ids)) == {"sequence_output", "pooled_output"}


def test_variables_are_the_models(exports):
    model, _, reloaded = exports("classification")
    assert len(reloaded.trainable_variables) == len(model.trainable_variables)
    for theirs, ours in zip(reloaded.trainable_variables, model.trainable_variables, strict=True):
        assert isinstance(theirs, tf.Variable) and theirs.trainable
        assert np.array_equal(theirs, ours.value)
    listed = {id(variable) for variable in reloaded.variables}
    assert {id(variable) for variable in reloaded.trainable_variables} <= listed
    assert list(reloaded.regularization_losses) == []


def test_dropout_is_drawn_anew_in_training_alone(exports):
    _, _, reloaded = exports("classification")
    inputs = reloaded.preprocessor(TEXTS)
    first, second = (reloaded(inputs, training=True)["logits"].numpy() for _ in range(2))
    assert not np.allclose(first, second)
    assert np.array_equal(reloaded(inputs, training=False)["logits"], reloaded(inputs)["logits"])


def test_gradients_are_the_models(exports):
    model, _, reloaded = exports("classification")
    ids = task_inputs("classification")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(reloaded(under_hub_names(ids))["logits"] ** 2)
    theirs = tape.gradient(loss, list(reloaded.trainable_variables))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(ids) ** 2)
    ours = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(a), tf.convert_to_tensor(b), atol=1e-5)


def test_the_preprocessor_is_callable_and_works_in_two_steps(exports):
    model, _, reloaded = exports("classification")
    ours, theirs = model.preprocessor, reloaded.preprocessor
    assert_same(theirs(TEXTS), under_hub_names(ours(TEXTS)))
    assert_same(theirs(PAIRS), under_hub_names(ours(PAIRS)))
    first, second = (theirs.tokenize(tf.constant(texts)) for texts in PAIRS)
    assert first.to_list() == ours.tokenizer(PAIRS[0]).to_list()
    for length in (6, 20):
        packed = theirs.bert_pack_inputs([first, second], seq_length=length)
        assert_same(packed, ours.bert_pack_inputs([first, second], length))
    assert theirs.bert_pack_inputs([first])["input_mask"].shape == (3, ours.sequence_length)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least 3"):
        theirs.bert_pack_inputs([first], seq_length=2)
    (batch,) = tf.data.Dataset.from_tensors(TEXTS).map(theirs)
    assert_same(batch, under_hub_names(ours(TEXTS)))


def test_it_serves_and_trains_in_plain_tensorflow(classifier_directory, exports):
    model, _, _ = exports("classification")
    program = """
import importlib.util, json, pathlib, sys
sys.modules["bert_zoo"] = sys.modules["keras"] = sys.modules["tf_keras"] = None  # not importable
import tensorflow as tf

# tensorflow_text's ops as TensorFlow Serving has them: its Python part would import Keras.
(package,) = importlib.util.find_spec("tensorflow_text").submodule_search_locations
for library in pathlib.Path(package).glob("python/ops/*.so"):
    tf.load_op_library(str(library))

texts, labels = json.loads(sys.argv[2])
reloaded = tf.saved_model.load(sys.argv[1])
serve = reloaded.signatures["serving_default"]
served = serve(text=tf.constant(texts))["logits"].numpy().tolist()
inputs, variables = reloaded.preprocessor(texts), list(reloaded.trainable_variables)

def loss_of(training):
    logits = reloaded(inputs, training=training)["logits"]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

losses = [float(loss_of(False))]
for _ in range(40):
    with tf.GradientTape() as tape:
        loss = loss_of(True)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        # Small steps: with dropout, 20 of 0.003 learned hardly anything now and then.
        variable.assign_sub(0.001 * tf.sign(tf.convert_to_tensor(gradient)))
losses.append(float(loss_of(False)))
print(json.dumps([served, losses]))
"""
    done = run_program("-c", program, classifier_directory, json.dumps([TEXTS, LABELS.tolist()]))
    served, losses = json.loads(done.splitlines()[-1])
    expected = model(model.preprocessor(TEXTS))
    assert_same({"logits": np.array(served)}, {"logits": expected}, TOLERANCE)
    assert losses[-1] < 0.5 * losses[0]


# --- What is exported ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ids_alone(exports, tmp_path_factory):
    """A model without vocabulary in mixed precision, exported over an earlier SavedModel."""
    folder = tmp_path_factory.mktemp("ids")
    _, earlier, _ = exports("classification")
    shutil.copytree(earlier, folder / "saved_model")
    # Of killed processes that wrote to this directory and to another one.
    for leftover in (".saved_model.0f.tmp", ".saved_model.2.0f.tmp"):
        (folder / leftover).mkdir()
    model = load_task("classification", dtype="mixed_bfloat16", weights=None, num_classes=2)
    model.preprocessor = None
    with pytest.raises(ValueError, match="text=False"):
        bert_zoo.export(model, folder / "saved_model")
    bert_zoo.export(model, folder / "saved_model", text=False)
    return model, folder, tf.saved_model.load(str(folder / "saved_model"))


def test_mixed_precision_serves_float32(ids_alone):
    model, _, reloaded = ids_alone
    outputs = reloaded(under_hub_names(task_inputs("classification")))
    assert {v.dtype for v in tf.nest.flatten(outputs)} == {tf.float32}
    expected = model(task_inputs("classification"))
    np.testing.assert_allclose(outputs["logits"], expected, atol=0.05)


def test_a_model_without_vocabulary_is_exported_on_request(ids_alone):
    _, _, reloaded = ids_alone
    assert set(reloaded.signatures) == {"tokens", "serving_default"}
    assert not hasattr(reloaded, "preprocessor")


def test_an_earlier_export_is_replaced(ids_alone):
    model, folder, reloaded = ids_alone
    assert np.array_equal(reloaded.trainable_variables[-2], model.trainable_variables[-2].value)
    assert {entry.name for entry in folder.iterdir()} == {"saved_model", ".saved_model.2.0f.tmp"}


ONE_SEGMENT = "type_vocab_size_1"


def test_one_segment_has_no_pairs(tmp_path):
    bert_zoo.export(load_case(ONE_SEGMENT), tmp_path)
    assert "pairs" not in tf.saved_model.load(str(tmp_path)).signatures


@pytest.mark.parametrize(
    ("make", "options", "error", "words"),
    [
        (keras.Sequential, {}, TypeError, "Sequential"),
        (
            lambda: loaded_task("question_answering"),
            {"pairs": True},
            ValueError,
            "question_answering",
        ),
        (lambda: load_case(ONE_SEGMENT), {"pairs": True}, ValueError, "reads single texts"),
        (lambda: loaded_task("classification"), {"to": "gs://bucket/a"}, ValueError, "gs://bucket"),
        (lambda: loaded_task("classification"), {"to": __file__}, FileExistsError, "is a file"),
    ],
)
def test_what_cannot_be_exported_is_named(make, options, error, words, tmp_path):
    to = options.get("to", tmp_path)
    options = {name: value for name, value in options.items() if name != "to"}
    assert_refused(lambda: bert_zoo.export(make(), to, **options), words, error)


def test_other_backends_have_no_saved_models(tmp_path, monkeypatch):
    model = loaded_task("classification")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for write in (partial(bert_zoo.export, model), bert_zoo.layers.SavedModelLayer):
        assert_refused(partial(write, tmp_path), "jax", RuntimeError)


@pytest.mark.parametrize("foreign", ["thesis.txt", "assets.extra"])
def test_other_files_are_never_replaced(tmp_path, foreign):
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / foreign).write_text("precious")
    export = partial(bert_zoo.export, loaded_task("classification"), tmp_path)
    assert_refused(export, foreign, FileExistsError)
    assert (tmp_path / foreign).read_text() == "precious"


def test_a_failed_export_leaves_the_earlier_one(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        Path(args[1]).mkdir()
        raise OSError("No space left on device")

    directory = tmp_path / "saved_model"
    directory.mkdir()
    (directory / "saved_model.pb").write_text("earlier")
    monkeypatch.setattr(tf.saved_model, "save", fail)
    export = partial(bert_zoo.export, loaded_task("classification"), directory, text=False)
    assert_refused(export, "No space", OSError)
    assert (directory / "saved_model.pb").read_text() == "earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved_model"]


# --- SavedModelLayer -----------------------------------------------------------------------------


def outer_model(directory, **options) -> tuple[keras.Model, keras.layers.Layer]:
    """A new head on a SavedModel."""
    layer = bert_zoo.layers.SavedModelLayer(directory, **options)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in HUB_NAMES.values()}
    logits = keras.layers.Dense(3, name="head")(layer(inputs)["pooled_output"])
    model = keras.Model(inputs, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-3), loss, jit_compile=False)
    return model, layer


def numpy_inputs(layer) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in layer.preprocessor(TEXTS).items()}


def values_of(variables) -> list[np.ndarray]:
    return [variable.numpy() for variable in variables]


def losses_around_fit(model, inputs, epochs: int) -> tuple[float, float]:
    """The loss without dropout, before and after training."""
    before = model.evaluate(inputs, LABELS, verbose=0)
    model.fit(inputs, LABELS, epochs=epochs, verbose=0)
    return before, model.evaluate(inputs, LABELS, verbose=0)


def changed(before, after) -> list[bool]:
    return [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]


def test_the_layer_gives_the_models_outputs_and_masks(exports):
    model, directory, _ = exports("classification")
    layer = bert_zoo.layers.SavedModelLayer(directory)
    ids = model.preprocessor(TEXTS)
    expected = {"logits": model(ids)}
    for inputs in (under_hub_names(ids), dict(ids), tf.constant(TEXTS), TEXTS, np.array(TEXTS)):
        outputs = layer(inputs)
        assert_holds(outputs, expected)
        for x in (outputs["sequence_output"], *outputs["encoder_outputs"]):
            assert np.array_equal(x._keras_mask, ids["padding_mask"])
        assert not hasattr(outputs["logits"], "_keras_mask")
    one = {"token_ids": ids["token_ids"][:1]}
    assert_holds(layer(one), {"logits": model(one)})


def test_the_layer_has_the_models_parameters(exports):
    model, directory, _ = exports("classification")
    layer = bert_zoo.layers.SavedModelLayer(directory)
    assert layer.count_params() == model.count_params()
    for name in ("path", "name"):
        found, wanted = ([getattr(v, name) for v in of.trainable_weights] for of in (layer, model))
        assert found == wanted


@pytest.mark.slow
def test_berts_optimizer_trains_the_layer_and_spares_its_biases(classifier_directory):
    from bert_zoo.training import bert_adamw

    model, layer = outer_model(classifier_directory)
    optimizer = bert_adamw(1e-3)
    model.compile(optimizer, model.loss, jit_compile=False)
    before_loss, after_loss = losses_around_fit(model, numpy_inputs(layer), epochs=10)
    assert after_loss < before_loss
    decayed = {v.name for v in layer.trainable_weights if optimizer._use_weight_decay(v)}
    assert decayed == {"kernel", "embeddings"}


@pytest.mark.parametrize("how", ["constructor", "attribute"])
def test_a_frozen_layer_stays_and_runs_without_dropout(classifier_directory, how):
    model, layer = outer_model(classifier_directory, trainable=how == "attribute")
    if how == "attribute":
        layer.trainable = False
        model.compile("adam", model.loss, jit_compile=False)
    assert layer.trainable_weights == [] and len(model.trainable_weights) == 2
    before = values_of(layer.saved_model.trainable_variables)
    model.fit(numpy_inputs(layer), LABELS, epochs=2, verbose=0)
    assert not any(changed(before, values_of(layer.saved_model.trainable_variables)))
    first, second = (layer(numpy_inputs(layer), training=True)["default"] for _ in range(2))
    assert np.array_equal(first, second)


def test_fit_trains_the_layer_and_a_keras_file_brings_back_what_was_learned(
    classifier_directory, tmp_path
):
    model, layer = outer_model(classifier_directory)
    inputs = numpy_inputs(layer)
    start = values_of(layer.saved_model.trainable_variables)
    before_loss, after_loss = losses_around_fit(model, inputs, epochs=20)
    assert after_loss < 0.5 * before_loss
    moved = changed(start, values_of(layer.saved_model.trainable_variables))
    # The inner classifier is not on the way to the loss.
    assert np.mean(moved) > 0.9
    assert model.count_params() == layer.count_params() + 3 * (32 + 1)
    expected = model.predict(inputs, verbose=0)
    path = tmp_path / "outer.keras"
    model.save(path)
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.models.load_model(path)
    reloaded = keras.models.load_model(path, safe_mode=False)
    np.testing.assert_allclose(reloaded.predict(inputs, verbose=0), expected, atol=TOLERANCE)
    # And goes on learning.
    before = values_of(reloaded.trainable_weights)
    reloaded.fit(inputs, LABELS, verbose=0)
    assert np.mean(changed(before, values_of(reloaded.trainable_weights))) > 0.9


def test_the_layer_names_what_is_wrong(tmp_path, classifier_directory):
    signatures_alone, ids = tf.Module(), tf.zeros([1, 4], tf.int32)
    signatures_alone.f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([], tf.int32)])
    tf.saved_model.save(signatures_alone, str(tmp_path / "other"))
    make = bert_zoo.layers.SavedModelLayer
    layer = make(classifier_directory)
    for call, words in (
        (lambda: make(tmp_path), tmp_path.name),
        (lambda: make(tmp_path / "other"), "TFSMLayer"),
        (lambda: layer(ids), "preprocessor"),
        (lambda: layer({"input_ids": ids}), "input_word_ids"),
        (lambda: layer({"input_mask": ids}), "input_word_ids"),
        (lambda: layer({"token_ids": ids, "input_word_ids": ids}), "input_word_ids"),
    ):
        assert_refused(call, words)
