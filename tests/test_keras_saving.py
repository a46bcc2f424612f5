"""`.keras` files: whole models, text included, back in a process that has only imported bert_zoo."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    COVER,
    TEXTS,
    arrays,
    assert_refused,
    assert_same,
    assert_same_variables,
    inputs_of,
    load_case,
    load_task,
    loaded_task,
    task_inputs,
)

import bert_zoo
from bert_zoo.tasks import TASKS
from bert_zoo.training import bert_adamw, compile_for_task
from bert_zoo.training.runs import restore, write_checkpoint
from bert_zoo.weights.bind import named_variables

# Run in a process of its own, where nothing of ours is registered with Keras but by the import.
RELOAD = """
import sys
import bert_zoo, keras, numpy as np
registered = set(keras.saving.get_custom_objects())
assert set(sys.argv[4:]) <= registered, set(sys.argv[4:]) - registered
model = keras.saving.load_model(sys.argv[1])
texts = np.load(sys.argv[2]).tolist()
np.save(sys.argv[3], model(model.preprocessor(texts)))
"""


def test_models_come_back_in_a_process_that_imports_bert_zoo_alone(tmp_path):
    """One that reads texts; the classes of all tasks are registered there."""
    model = load_task("classification", max_length=24)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "texts.npy", TEXTS)
    files = [tmp_path / name for name in ("model.keras", "texts.npy", "found.npy")]
    names = map(keras.saving.get_registered_name, TASKS.values())
    subprocess.run([sys.executable, "-c", RELOAD, *files, *names], check=True, timeout=300)
    expected = model(model.preprocessor(TEXTS))
    assert_same(np.load(tmp_path / "found.npy"), expected, 1e-6)


@pytest.mark.parametrize("name", ["model.h5", "MODEL.H5", "model.hdf5"])
def test_files_that_keras_could_not_load_are_not_written(name, tmp_path):
    words = "cannot load | 'model.keras' | save_weights"
    assert_refused(lambda: loaded_task("classification").save(tmp_path / name), words)
    assert not [*tmp_path.iterdir()]


def test_weights_alone_come_back(tmp_path):
    model, other = (load_task("classification", init=("classifier",)) for _ in range(2))
    model.save_weights(tmp_path / "a.weights.h5")
    other.load_weights(tmp_path / "a.weights.h5")
    assert_same_variables(other, model)
    assert_refused(lambda: model.save_weights(tmp_path / "a.h5"), "weights.h5")


@pytest.mark.usefixtures("eager")
def test_trained_model_comes_back_with_weights_and_optimizer(tmp_path):
    model = load_task("classification")
    compile_for_task(model, bert_adamw(1e-3, total_steps=20, weight_decay=0.03))
    labels = np.array([2, 1, 1, 0])
    model.fit(task_inputs("classification"), labels, epochs=2, batch_size=2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_same_variables(again, model)
    assert again.labels == model.labels
    assert again.optimizer.get_config() == model.optimizer.get_config()
    assert_same(again.optimizer.variables, model.optimizer.variables)
    assert len(again.optimizer.variables) > 80 and int(again.optimizer.iterations) == 4
    again.fit(task_inputs("classification"), labels, verbose=0)


@pytest.mark.filterwarnings("error:Skipping variable loading")
def test_an_optimizer_that_was_never_used_comes_back_without_a_warning(tmp_path):
    path = tmp_path / "a.keras"
    inner = load_task("classification")
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    outer = keras.Model(ids, keras.layers.Dense(1)(inner({"token_ids": ids})))
    outer.compile("adam", "mse")
    outer.fit(np.ones((2, 4), "int32"), np.zeros((2, 1)), verbose=0)
    for model in (inner, outer):
        model.save(path)
        again = keras.models.load_model(path)
        assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
    assert outer.optimizer.built and not inner.optimizer.built


def test_mixed_precision_comes_back(tmp_path):
    model = load_task("classification", dtype="mixed_bfloat16")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.dtype_policy.name == again.encoder.dtype_policy.name == "mixed_bfloat16"
    assert_same(again(task_inputs("classification")), model(task_inputs("classification")))


@keras.saving.register_keras_serializable("bert_zoo_tests")
class OwnModel(keras.Model):
    """As a user writes it: a head that is built by the first call."""

    def __init__(self, inner, reader=None, **kwargs):
        super().__init__(**kwargs)
        self.inner, self.reader = inner, reader
        self.head = keras.layers.Dense(2)

    def call(self, inputs, padding_mask=None, training=None):
        if self.reader is not None:
            inputs = self.reader(inputs)
        elif not isinstance(inputs, dict):
            inputs = {"token_ids": inputs, "padding_mask": padding_mask}
        outputs = self.inner(inputs, training=training)
        return self.head(outputs if self.reader is None else outputs["sequence_output"][:, 0])

    def get_config(self):
        parts = {name: getattr(self, name) for name in ("inner", "reader")}
        parts = {name: keras.saving.serialize_keras_object(part) for name, part in parts.items()}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(cls, config):
        for name in ("inner", "reader"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)


@pytest.mark.parametrize("kind", ["ids", "keywords", "texts"])
def test_a_users_own_model_keeps_its_head(kind, tmp_path):
    inner, reader = (
        load_case("albert/encoder" if kind == "texts" else "albert/classification"),
        None,
    )
    if kind == "texts":
        inputs, reader = {"inputs": tf.constant(TEXTS)}, bert_zoo.layers.Preprocessor(inner)
    elif kind == "keywords":
        inputs = {"inputs": np.array([[1, 2, 3]]), "padding_mask": np.array([[1, 1, 0]])}
    else:
        inputs = {"inputs": inputs_of(arrays("albert/classification"))}
    model = OwnModel(inner, reader)
    expected = model(**inputs)
    model.save(tmp_path / "model.keras")
    assert_same(keras.saving.load_model(tmp_path / "model.keras")(**inputs), expected)


# --- tf.train.Checkpoint -------------------------------------------------------------------------


def assert_checkpoint_holds(variables, path: Path, **objects) -> None:
    """A checkpoint of objects brings each variable back, whatever its value is by then."""
    checkpoint = tf.train.Checkpoint(**objects)
    written, before = checkpoint.save(path), [keras.ops.convert_to_numpy(v) for v in variables]
    for variable in variables:
        variable.assign(variable + 1)
    checkpoint.restore(written).assert_consumed()
    for variable, value in zip(variables, before, strict=True):
        assert np.array_equal(variable, value), variable.path


@pytest.mark.parametrize("case", COVER)
def test_a_tensorflow_checkpoint_holds_every_variable(case, tmp_path):
    model = load_case(case)
    assert_checkpoint_holds(model.variables, tmp_path / "model", model=model)


def test_a_tensorflow_checkpoint_holds_the_optimizer_and_a_functional_model(tmp_path):
    ids = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    vectors = load_case("albert/encoder")(ids)["sequence_output"]
    model = keras.Model(ids, keras.layers.Dense(2)(vectors))
    model.compile(bert_adamw(1e-3, total_steps=20, weight_decay=0.03), "mse")
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    assert_checkpoint_holds(variables, tmp_path / "model", model=model, optimizer=model.optimizer)


# --- Names ---------------------------------------------------------------------------------------


def test_models_of_one_task_stand_in_one_functional_model(tmp_path):
    models = [load_case("albert/classification") for _ in range(2)]
    models.append(load_case("albert/classification", model_name="third"))
    named = {model.name for model in models} | {model.encoder.name for model in models}
    assert len(named) == 6 and models[2].name == "third"
    ids = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    ensemble = keras.Model(ids, keras.layers.Average()([model(ids) for model in models]))
    keras.Model(ids, [model.encoder(ids)["sequence_output"] for model in models])
    inputs = {"token_ids": np.array([[2, 5, 3]])}
    assert_same(ensemble(inputs), models[0](inputs), 1e-6)
    ensemble.save(tmp_path / "ensemble.keras")
    assert_same(keras.saving.load_model(tmp_path / "ensemble.keras")(inputs), ensemble(inputs))


def test_no_file_depends_on_a_models_name(tmp_path):
    model = load_case("albert/classification", model_name="first")
    bert_zoo.save(model, tmp_path / "directory")
    assert_same_variables(bert_zoo.load(tmp_path / "directory", model_name="other"), model)
    model.optimizer.build(model.trainable_variables)
    write_checkpoint(model, tmp_path / "training", 7)
    other = load_case("albert/classification", model_name="other")
    for variable in other.variables:
        variable.assign(variable + 1)
    assert restore(other, tmp_path / "training") == 7
    assert_same_variables(other, model)


# --- Quantized models ----------------------------------------------------------------------------


def test_a_quantized_model_is_used_and_comes_back(tmp_path):
    model = load_task("embedding")
    before = model.embed(TEXTS)
    model.quantize("int8")
    vectors = model.embed(TEXTS)
    cosines = np.sum(vectors * before, axis=1)
    assert cosines.min() > 0.999 and not np.array_equal(vectors, before)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.encoder.stack.blocks[0].attention.qkv.quantization_mode == "int8"
    assert_same(again.embed(TEXTS), vectors, 1e-6)
    for call, words in (
        (lambda: bert_zoo.save(model, tmp_path / "a"), "is quantized | before model.quantize"),
        (lambda: bert_zoo.export(model, tmp_path / "a", format="litert"), "LiteRT"),
        (lambda: load_case("albert/encoder").quantize("int4"), "mode is 'int4' | 'int8'"),
        (lambda: load_case("albert/encoder").quantize("float8"), "mode is 'float8' | 'int8'"),
    ):
        assert_refused(call, words)


# --- Copies --------------------------------------------------------------------------------------


def test_clones_keep_the_vocabulary():
    model = load_case("albert/classification")
    texts = keras.Input((), dtype="string")
    outer = keras.Model(texts, model(bert_zoo.layers.Preprocessor(model)(texts)))
    expected = model.predict(TEXTS, verbose=0)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert_same(clone.predict(TEXTS, verbose=0), expected)
    for clone in (keras.models.clone_model(outer), keras.Model.from_config(outer.get_config())):
        clone.set_weights(outer.get_weights())
        assert_same(clone(tf.constant(TEXTS)), expected, 1e-5)


def test_a_model_of_json_has_no_vocabulary_and_says_so():
    model = load_case("albert/classification")
    again = keras.models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    ids = {"token_ids": np.array([[2, 5, 3]])}
    assert_same(again(ids), model(ids))
    assert_refused(lambda: again.predict(TEXTS), "no vocabulary | to_json")
    again.preprocessor = model.preprocessor
    assert_same(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


@pytest.mark.parametrize(
    "case", ["bert/encoder", "roberta/encoder", "albert/encoder", "bertweet/encoder"]
)
def test_preprocessors_are_pickled_and_copied(case):
    preprocessor = load_case(case, max_length=12).preprocessor
    copied = copy.deepcopy(pickle.loads(pickle.dumps(preprocessor)))
    assert_same(copied(TEXTS), preprocessor(TEXTS))
    assert copied.get_config() == preprocessor.get_config()


def test_what_is_frozen_stays_frozen(tmp_path):
    model = load_task("classification")
    model.encoder.trainable = False
    model.encoder.pooler.trainable = True
    trained = [path for path, v in named_variables(model).items() if v.trainable]
    assert {path.split("/")[0] for path in trained} == {"encoder", "classifier"}
    model.save(tmp_path / "model.keras")
    for again in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(model),
        type(model).from_config(model.get_config()),
    ):
        assert not again.encoder.trainable and again.encoder.pooler.trainable
        assert not again.encoder.stack.trainable
        assert [path for path, v in named_variables(again).items() if v.trainable] == trained
        again.encoder.trainable = True
        assert all(variable.trainable for variable in named_variables(again).values())
    model.trainable = False
    assert not keras.models.clone_model(model).trainable_variables
