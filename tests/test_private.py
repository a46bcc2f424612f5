"""Private parts of Keras and TensorFlow are there and mean what bert_zoo takes them for.

Where a new version of either fails here, the test's name says which part of bert_zoo/private.py to mend.
"""

import ast
import gc
import inspect
import sys
import types
import weakref
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_zoo
from bert_zoo import private

VERSIONS = f"Keras {keras.__version__}, TensorFlow {tf.__version__}"


def small_model() -> keras.Model:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def replaced_and_called() -> list[tuple[str, str]]:
    return [
        (owner, name)
        for table in (private.REPLACED, private.CALLED)
        for owner, names in table.items()
        for name in names
    ]


@pytest.mark.parametrize(("owner", "name"), replaced_and_called())
def test_a_private_method_is_still_there(owner, name):
    module, _, cls = owner.removeprefix("keras.").rpartition(".")
    parent = getattr(getattr(keras, module) if module else keras, cls)
    assert hasattr(parent, name), f"{owner}.{name} is gone from {VERSIONS}"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_maybe_symbolic_build", "iterator data_batch"),
        ("_symbolic_build", "data_batch"),
        ("_make_function", "step_function"),
    ],
)
def test_a_method_of_the_trainer_takes_what_it_took(name, arguments):
    found = inspect.signature(getattr(keras.Model, name)).parameters
    assert set(arguments.split()) <= set(found), f"{name} takes {list(found)} in {VERSIONS}"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_all_reduce_sum_gradients", "grads_and_vars"),
        ("_backend_apply_gradients", "grads trainable_variables"),
        ("_backend_update_step", "grads trainable_variables learning_rate"),
        ("_distributed_tf_update_step", "distribution grads_and_vars learning_rate"),
        ("_get_current_learning_rate", ""),
        ("_clip_gradients", "grads"),
        ("_apply_weight_decay", "variables"),
        ("_get_variable_index", "variable"),
        ("_use_weight_decay", "variable"),
    ],
)
def test_a_method_of_the_optimizer_takes_what_it_took(name, arguments):
    found = " ".join(inspect.signature(getattr(keras.optimizers.AdamW, name)).parameters)
    assert found == f"self {arguments}".strip(), f"{name} takes {found} in {VERSIONS}"


@pytest.mark.parametrize("name", private.REPLACED["keras.optimizers.AdamW"])
def test_keras_still_calls_what_the_optimizer_replaces(name):
    classes = keras.optimizers.AdamW.__mro__
    source = "".join(inspect.getsource(cls) for cls in classes if cls is not object)
    assert f".{name}" in source, f"nothing calls {name} in {VERSIONS}"


OF_ADAM = "_momentums _velocities _iterations _learning_rate _accumulated_gradients".split()
OF_SGD = ["_model_variables_moving_average"]


def test_attributes_of_the_optimizer_are_there():
    for optimizer, names in (
        (keras.optimizers.AdamW(gradient_accumulation_steps=2), OF_ADAM),
        (keras.optimizers.SGD(use_ema=True), OF_SGD),
    ):
        optimizer.build([keras.Variable([1.0], name="v")])
        missing = [name for name in names if not hasattr(optimizer, name)]
        assert not missing, f"gone from {VERSIONS}"


def test_children_all_layers_and_own_variables():
    inner = keras.layers.Dense(2)
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Dropout(0.5)])
    assert inner in private.children(model) and model not in private.children(model)
    assert private.all_layers(model)[0] is model and inner in private.all_layers(model)
    assert private.own_variables(inner) == inner.weights
    assert private.own_variables(model) == []


def test_set_mask():
    x, mask = tf.ones([1, 3, 2]), tf.constant([[True, False, True]])
    private.set_mask(x, mask)
    assert np.array_equal(keras.layers.Dropout(0.1)(x)._keras_mask, mask)
    private.set_mask(x, None)
    assert getattr(keras.layers.Dropout(0.1)(x), "_keras_mask", None) is None


def test_declaring():
    """A variable is there at once with its shape, and its value, name and scope are those of any other."""
    usual, declared, dropped = (keras.layers.Dense(2, name=name) for name in "abc")
    usual.build((None, 3))
    with private.declaring():
        declared.build((None, 3))
        assert declared.kernel.shape == (3, 2) and declared.kernel._value is None
    assert declared.kernel.path == "b/kernel" and declared.bias.numpy().tolist() == [0, 0]
    assert declared.kernel.value.name == usual.kernel.value.name.replace("a/", "b/")
    with private.declaring(made=False):
        dropped.build((None, 3))
    with pytest.raises(ArithmeticError), private.declaring():
        keras.layers.Dense(2).build((None, 3))
        raise ArithmeticError
    with keras.StatelessScope():  # what is left over would be made at its end
        pass
    assert dropped.kernel._value is None


def test_is_in_loop():
    found = []

    @tf.function
    def counted():
        found.append(private.is_in_loop())
        return tf.while_loop(
            lambda i: i < 2, lambda i: found.append(private.is_in_loop()) or i + 1, [0]
        )

    counted()
    assert found == [False, True] and not private.is_in_loop()


def test_numpy_function():
    def doubled(value):
        return 2 * value

    @tf.autograph.experimental.do_not_convert
    def in_graph(value):
        return private.numpy_function(held(), [value], tf.int64)

    held = weakref.ref(doubled)
    dataset = tf.data.Dataset.range(3).map(in_graph)
    del doubled
    gc.collect()
    assert [*dataset.as_numpy_iterator()] == [0, 2, 4]
    del dataset
    gc.collect()
    assert held() is None


def test_strategies():
    assert private.strategy_of(small_model()) is None and not private.is_multi_worker(None)
    assert private.merges_replicas() is False
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    assert not private.is_multi_worker(strategy)
    with strategy.scope():
        assert private.strategy_of(small_model()) is strategy
        assert private.merges_replicas() in (True, False)


def test_set_loss_tracker():
    model, tracker = small_model(), keras.metrics.Mean(name="loss")
    private.set_loss_tracker(model, tracker)
    loss = model.evaluate(tf.ones([4, 3]), tf.ones([4, 2]), verbose=0)[0]
    assert float(tracker.result()) == loss and tracker in model.metrics


def test_spec_for_one_replica():
    seen = []

    class Looks(keras.Sequential):
        def _maybe_symbolic_build(self, iterator=None, data_batch=None):
            seen.append(private.spec_for_one_replica(iterator))
            super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        model = Looks([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse")
    model.fit(tf.ones([4, 3]), tf.ones([4, 2]), verbose=0)
    inputs, labels = seen[0][:2]
    assert (inputs.shape[1:], labels.shape[1:]) == ((3,), (2,))


def test_build_for_and_metrics_given():
    model = small_model()
    assert private.metrics_given(model) == ["mae"]
    assert private.metrics_given(keras.Sequential([keras.Input((3,))])) is None
    private.build_for(model, (keras.KerasTensor((4, 3)), keras.KerasTensor((4, 2))))
    assert model.optimizer.built and private.metrics_given(model) == ["mae"]


def test_is_loading_safely(tmp_path):
    seen = []

    class Tells(keras.layers.Dense):
        @classmethod
        def from_config(cls, config):
            seen.append(private.is_loading_safely())
            return super().from_config(config)

    keras.Sequential([keras.Input((3,)), Tells(2)]).save(tmp_path / "a.keras")
    for safe_mode in (True, False):
        keras.models.load_model(tmp_path / "a.keras", {"Tells": Tells}, safe_mode=safe_mode)
    assert seen == [True, False]


def test_runs_for_shapes():
    seen = []

    class Tells(keras.layers.Layer):
        def call(self, inputs):
            seen.append(private.runs_for_shapes())
            return inputs

    Tells()(keras.Input((3,)))
    Tells()(tf.ones([1, 3]))
    assert seen == [True, False]


class Counted(keras.Model):
    """A model whose steps are counted for it alone."""

    def _make_function(self, *args, **kwargs):
        return private.count_traces_alone(super()._make_function(*args, **kwargs))

    def call(self, x):
        return x


def test_count_traces_alone(monkeypatch):
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    warned = []
    monkeypatch.setattr(polymorphic_function.logging, "warning", lambda *said: warned.append(said))
    x = tf.ones((4, 1))
    for _ in range(6):
        model = Counted()
        model.compile("sgd", "mse")
        model.evaluate(x, x, verbose=0)
        private.count_traces_alone(tf.function(lambda x: x))(x)
    assert not warned
    graph = private.count_traces_alone(tf.function(lambda x: x))
    for size in range(6):
        graph(tf.ones(size))
    assert warned, "one function that is traced again and again is still said"


def test_lasting_sentencepiece():
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    source = inspect.getsource(sentencepiece_tokenizer)
    for part in ("def _create_resource", "self._model", "self._name", "sentencepiece_op"):
        assert part in source, f"{part} is gone from tensorflow_text"


def test_onnx_optimizers():
    pytest.importorskip("tf2onnx")
    assert "remove_back_to_back" in private.onnx_optimizers()


def test_is_being_imported():
    assert not private.is_being_imported(sys.modules["json"])
    module = types.ModuleType("half")
    module.__spec__ = types.SimpleNamespace(_initializing=True)
    assert private.is_being_imported(module)


def test_no_other_module_touches_private_parts():
    """Attributes that begin with an underscore and that no class of ours has."""
    files = sorted(Path(bert_zoo.__file__).parent.rglob("*.py"))
    trees = [(file.name, ast.parse(file.read_text(encoding="utf-8"))) for file in files]
    nodes = [(file, node) for file, tree in trees for node in ast.walk(tree)]
    known = {"_asdict", "_replace", "_fields"}  # of named tuples, public in spite of the underscore
    known |= {name for _, name in replaced_and_called()} | {*OF_ADAM, *OF_SGD}
    # Of Python's unpickler in Python, whose opcodes weights/restricted_pickle.py replaces.
    known |= {"_Unpickler", "_unframer"}
    for _, node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            known.add(node.id if isinstance(node, ast.Name) else node.attr)
    elsewhere = ("keras.src", "tensorflow.python", "tensorflow_text.p")

    def touched(node) -> str | None:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(elsewhere):
            return node.module
        is_private = isinstance(node, ast.Attribute) and node.attr.startswith("_")
        if is_private and (not node.attr.startswith("__") or node.attr == "__internal__"):
            return None if node.attr in known else node.attr
        return None

    others = [(file, node) for file, node in nodes if file != "private.py"]
    found = [f"{file}:{node.lineno} {touched(node)}" for file, node in others if touched(node)]
    assert not found
