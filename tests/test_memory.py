"""Weights are neither drawn nor kept twice, and a dropped model gives back what it held."""

import gc
import weakref

import keras
import numpy as np
import pytest
from helpers import TEXTS, load_case, load_task

import bert_zoo
from bert_zoo.models import base
from bert_zoo.weights import bind
from bert_zoo.weights.safetensors_io import SafetensorsSource, write_safetensors
from bert_zoo.weights.tensor_source import DeferredArray


@pytest.mark.parametrize(
    ("task", "options", "drawn"),
    [
        ("encoder", {}, 0),
        ("masked_lm", {}, 0),
        ("token_classification", {}, 0),
        ("embedding", {}, 0),
        # A head that is not read is drawn, once.
        ("token_classification", {"init": ("classifier",)}, 1),
    ],
)
def test_nothing_is_drawn_that_a_file_fills(task, options, drawn, monkeypatch):
    calls = []
    draw = keras.initializers.TruncatedNormal.__call__

    def counted(self, shape, *args, **kwargs):
        calls.append(shape)
        return draw(self, shape, *args, **kwargs)

    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", counted)
    load_task(task, **options)
    assert len(calls) == drawn


def test_a_new_head_is_drawn_from_the_seed():
    heads = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        head = load_task("classification", init=("classifier",)).classifier.dense.kernel
        heads.append(keras.ops.convert_to_numpy(head))
    assert np.array_equal(*heads) and heads[0].std() > 0


def test_tensors_are_read_and_written_one_at_a_time(tmp_path, monkeypatch):
    model, kept, most = load_task("classification"), weakref.WeakValueDictionary(), []

    def counting(self, *args, **kwargs):
        gc.collect()
        most.append(len(kept))
        array = np.array(read(self, *args, **kwargs))
        kept[id(array)] = array
        return array

    with monkeypatch.context() as patched:
        read = DeferredArray.__array__
        patched.setattr(DeferredArray, "__array__", counting)
        bert_zoo.save(model, tmp_path / "hf", format="hf")
    assert len(most) > 20 and max(most) <= 1
    most.clear()
    read = SafetensorsSource._read
    monkeypatch.setattr(SafetensorsSource, "_read", counting)
    bert_zoo.load(tmp_path / "hf")
    # Query, key and value are one variable.
    assert len(most) > 20 and max(most) <= 2


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (200, 300), (2, 3, 4)])
def test_copies_are_aligned_and_in_c_order(shape):
    values = np.random.default_rng(0).random(shape, np.float32)
    for each in (values, values.T):
        copy = bind.aligned_copy(each)
        assert np.array_equal(copy, each) and copy.flags.c_contiguous
        assert not copy.size or copy.ctypes.data % 64 == 0
        assert not np.shares_memory(copy, each)


def test_files_are_the_same_as_those_of_the_library(tmp_path):
    from safetensors.numpy import save_file

    tensors = {
        "b.ü": np.ones((2, 3), np.float32),
        "a": np.float32([1]),
        "e": np.zeros((0, 2), "f4"),
    }
    save_file(tensors, tmp_path / "theirs", {"format": "pt"})
    write_safetensors(tmp_path / "ours", tensors, {"format": "pt"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


# --- Models that are dropped ---------------------------------------------------------------------


def _fitted(model, tmp_path):
    model.fit(TEXTS, [0, 1, 0], verbose=0)


def _recomputing(model, tmp_path):
    bert_zoo.training.rematerialize(model)
    _fitted(model, tmp_path)


USES = {
    "loaded": lambda model, tmp_path: None,
    "called": lambda model, tmp_path: model({"token_ids": np.ones((1, 4), "int32")}),
    "predicted": lambda model, tmp_path: model.predict(TEXTS, verbose=0),
    "classified": lambda model, tmp_path: model.classify(TEXTS),
    "fitted": _fitted,
    "fitted with recomputation": _recomputing,
    "evaluated": lambda model, tmp_path: model.evaluate(TEXTS, [0, 1, 0], verbose=0),
    "saved": lambda model, tmp_path: bert_zoo.save(model, tmp_path / "saved", format="hf"),
    "exported": lambda model, tmp_path: bert_zoo.export(model, tmp_path / "exported"),
    "generating": lambda model, tmp_path: model.generate("the cat", max_new_tokens=3),
}


def _left_of(model, use) -> list[str]:
    use(model)
    variables = [*model.variables, *(model.optimizer.variables if model.optimizer else ())]
    held = [weakref.ref(part) for part in (model, *variables, *(v.value for v in variables))]
    del model, variables
    return held


@pytest.mark.parametrize("use", USES)
def test_a_dropped_model_is_gone(use, tmp_path):
    case = "gpt2/causal_lm" if use == "generating" else "classification"
    held = _left_of(load_case(case), lambda model: USES[use](model, tmp_path))
    gc.collect()
    assert not [type(part()) for part in held if part() is not None]


def test_memory_is_given_back_once_a_model_is_deleted(monkeypatch):
    sizes = []
    monkeypatch.setattr(base, "_malloc_trim", lambda: sizes.append)
    gc.collect()
    sizes.clear()
    model = load_task("classification")
    gc.collect()
    assert not sizes
    del model
    gc.collect()
    gc.collect()
    assert sizes == [0]
