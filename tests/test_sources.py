"""Weight files are found, checked as a whole when opened, and read one tensor at a time."""

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_refused, run_program, save_tf1
from safetensors.numpy import save_file
from test_torch_bin import tensor_pickle, write_archive

from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.safetensors_io import SafetensorsSource, rounded_to_int8, write_safetensors
from bert_zoo.weights.sources import open_weights
from bert_zoo.weights.tensor_source import TensorSource

NUMBERS = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"
W = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a.bias": np.ones(3, np.float32)}


def write(path, tensors=W, metadata=None):
    save_file(dict(tensors), path, metadata)


# --- safetensors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", NUMBERS.split())
def test_half_precision_is_widened_and_all_else_kept(stored, tmp_path):
    given = "float32" if "float16" in stored else stored
    dtype = np.dtype(getattr(ml_dtypes, stored, stored))
    values = np.arange(6).reshape(2, 3).astype(dtype)
    scalar, empty = np.ones((), dtype), np.ones((0, 4), dtype)
    save_file({"v": values, "s": scalar, "e": empty}, tmp_path / "model.safetensors")
    source = open_weights(tmp_path)
    for key, array in {"v": values, "s": scalar, "e": empty}.items():
        assert source.shape(key) == source[key].shape == array.shape
        assert source[key].dtype == given
        np.testing.assert_array_equal(source[key], array.astype(given))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_half_precision_number_is_widened_exactly(dtype, tmp_path):
    numbers = np.arange(2**16, dtype=np.uint16).view(dtype)
    save_file({"v": numbers}, tmp_path / "model.safetensors")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(open_weights(tmp_path)["v"], numbers.astype(np.float32))


def test_matrices_rounded_to_int8_are_read_as_the_nearest_multiples_of_their_rows_scales(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 300)) * 10.0 ** np.arange(-3, 2)[:, None]
    tensors = {"m": rows.astype(np.float32), "zero": np.zeros((2, 3), np.float32), **W}
    path = tmp_path / "model.safetensors"
    write_safetensors(path, *rounded_to_int8(tensors, {"format": "bert_zoo"}))
    assert path.stat().st_size < 1500 * 1.5
    source = open_weights(path)
    assert {key: source.shape(key) for key in source} == {k: v.shape for k, v in tensors.items()}
    for key, values in tensors.items():
        assert source[key].dtype == np.float32
        half_a_step = np.abs(values).max(axis=-1, keepdims=True) / 127 / 2
        assert (np.abs(source[key] - values) <= half_a_step * 1.0001 * (values.ndim == 2)).all()


def test_a_safetensors_file_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    write(path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(WeightsError, match=r"model\.safetensors.*download it again"):
            open_weights(tmp_path)


def test_a_file_that_shrinks_after_it_was_opened_is_noticed(tmp_path):
    path = tmp_path / "model.safetensors"
    write(path)
    source = open_weights(path)
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(WeightsError, match="shorter"):
        dict(source)


HEADER = b'{"%s":{"dtype":"%s","shape":[%s],"data_offsets":[0,%d]}}'


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (HEADER % (b"w", b"F8_E4M3", b"2", 2), "'w': 'F8_E4M3' | dequantize()"),
        (HEADER % (b"w", b"F32", b"0,%d" % 2**63, 0), "which is too large for an array"),
        (HEADER % (b"w", b"F32", b"1," * 40 + b"1", 4), "too large for an array"),
        (HEADER % (b"w" * 10**6, b"F4", b"0", 0), "safetensors"),
        (None, "git lfs pull"),
    ],
    ids=["eight bits", "shape", "axes", "name", "pointer"],
)
def test_a_header_that_says_what_cannot_be_is_refused_in_few_words(header, words, tmp_path):
    path = tmp_path / "model.safetensors"
    if header is None:
        path.write_text("version https://git-lfs.github.com/spec/v1\n")
    else:
        size = int(header.rpartition(b",")[2].rstrip(b"]}"))
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with pytest.raises(WeightsError) as error:
        open_weights(tmp_path)
    assert len(str(error.value)) < 1000
    assert all(word in str(error.value) for word in words.split(" | "))
    header = b'{"__metadata__":null}'
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    assert open_weights(tmp_path).metadata == {}


def test_only_the_asked_tensor_is_read(tmp_path, monkeypatch):
    write(tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"the same weights, not read")
    reads = []
    read = SafetensorsSource._read
    monkeypatch.setattr(
        SafetensorsSource, "_read", lambda self, key: reads.append(key) or read(self, key)
    )
    source = open_weights(str(tmp_path))
    assert isinstance(source, TensorSource)
    assert set(source) == set(W) and len(source) == 2 and source.keys() == W.keys()
    assert "a.bias" in source and "b" not in source and source.shape("a.weight") == (2, 3)
    for ask in (source.shape, source.__getitem__):
        assert_refused(lambda: ask("b"), "model.safetensors has no tensor named 'b'", KeyError)  # noqa: B023
    assert reads == []
    np.testing.assert_array_equal(source["a.bias"], W["a.bias"])
    assert reads == ["a.bias"]


# --- writing -------------------------------------------------------------------------------------


def test_arrays_are_written_by_their_values_whatever_their_memory(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensors = {
        "transposed": values.T,
        "strided": values[::2, 1::2],
        "reversed": values[::-1],
        "big_endian": values.astype(">f4"),
        "broadcast": np.broadcast_to(np.float32(3), (2, 2)),
        "scalar": np.array(7),
    }
    write_safetensors(tmp_path / "x.safetensors", tensors, {"format": "bert_zoo"})
    source = open_weights(tmp_path / "x.safetensors")
    assert source.metadata == {"format": "bert_zoo"} and set(source) == set(tensors)
    for key, array in tensors.items():
        assert source.shape(key) == array.shape
        np.testing.assert_array_equal(source[key], array)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x.safetensors"
    write_safetensors(path, W, {})
    before = path.read_bytes()
    with pytest.raises(Exception, match="object"):
        write_safetensors(path, {"w": np.array([None])}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# --- shards --------------------------------------------------------------------------------------


def write_shards(directory, shards, weight_map=None):
    """Writes shards and their index, which may be any text."""
    for name, tensors in shards.items():
        write(directory / name, tensors)
    if weight_map is None:
        weight_map = {key: name for name, tensors in shards.items() for key in tensors}
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    if isinstance(weight_map, str):
        index = weight_map
    (directory / "model.safetensors.index.json").write_text(index)


ONE = {"a": np.ones((2, 3), np.float32)}
TWO = {"b": np.zeros(4, np.float32)}
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def test_shards_read_as_one(tmp_path):
    write_shards(tmp_path, {FIRST: ONE, SECOND: TWO})
    for place in (tmp_path, tmp_path / "model.safetensors.index.json"):
        source = open_weights(place)
        assert list(source) == ["a", "b"] and source.shape("b") == (4,)
        np.testing.assert_array_equal(source["a"], ONE["a"])
    of_torch = tmp_path / "torch"
    of_torch.mkdir()
    write_archive(of_torch / "part.bin", tensor_pickle(), np.array([1, 2], "<f4").tobytes())
    (of_torch / "pytorch_model.bin.index.json").write_text('{"weight_map": {"w": "part.bin"}}')
    np.testing.assert_array_equal(open_weights(of_torch)["w"], [1, 2])


SAME_PLACE = "only files in the same directory"


@pytest.mark.parametrize(
    ("shards", "weight_map", "words"),
    [
        ({FIRST: ONE}, {"a": FIRST, "b": SECOND}, f"missing in its directory: {SECOND}"),
        ({FIRST: ONE}, {"a": FIRST, "c": FIRST}, "the index names: c ("),
        ({FIRST: ONE | TWO}, {"a": FIRST}, "not in the index: b"),
        ({FIRST: ONE, SECOND: ONE | TWO}, {"a": FIRST, "b": SECOND}, "more than one file: a"),
        ({FIRST: ONE, SECOND: TWO}, {"a": SECOND, "b": SECOND}, "names: a ("),
        ({}, {"a": "../x.safetensors"}, SAME_PLACE),
        ({}, {"a": "/x.safetensors"}, SAME_PLACE),
        ({}, {"a": 3}, "weight_map: a is 3; it must be a string"),
        ({}, {}, "is empty"),
        ({}, [], "must be an object"),
        *(({}, content, "not a shard index") for content in ("", "{}", "[1]", "\x00", "[" * 10**5)),
    ],
)
def test_an_index_that_does_not_match_its_shards_is_refused(shards, weight_map, words, tmp_path):
    write_shards(tmp_path, shards, weight_map)
    assert_refused(lambda: open_weights(tmp_path), words)


# --- finding -------------------------------------------------------------------------------------


SEVERAL = (
    "model.safetensors, model.safetensors.index.json",
    "model.safetensors, bert_model.ckpt.index",
    "pytorch_model.bin, pytorch_model.bin.index.json",
    "model.ckpt-1.index, model.ckpt-2.index",
)


@pytest.mark.parametrize(
    ("files", "opened", "words"),
    [
        *((files.split(", "), "", f"several checkpoints: {files}") for files in SEVERAL),
        ([], "", "Looked for: model.safetensors | Found: nothing"),
        (["weights.msgpack"], "", "*.ckpt.index | Found: weights.msgpack"),
        ([], "nothing", "neither a directory, nor a file, nor the prefix"),
        (["weights.msgpack"], "weights.msgpack", "weights.msgpack does not have a known ending"),
    ],
)
def test_what_is_not_one_checkpoint_is_refused(files, opened, words, tmp_path):
    for name in files:
        (tmp_path / name).touch()
    assert_refused(lambda: open_weights(tmp_path / opened), words)


# --- TensorFlow 1 --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Prefix of a checkpoint with a variable, its optimizer slots and a counter."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        kernel = np.arange(6, dtype=np.float32).reshape(2, 3)
        v1.get_variable("bert/pooler/dense/kernel", initializer=kernel)
        v1.get_variable("bert/pooler/dense/kernel/adam_m", initializer=-kernel)
        v1.get_variable("half", initializer=tf.constant([1.5, -2.0], tf.bfloat16))
        v1.get_variable("global_step", initializer=np.int64(3))
        session.run(v1.global_variables_initializer())
        prefix = str(tmp_path_factory.mktemp("tf1") / "bert_model.ckpt")
        return v1.train.Saver().save(session, prefix, write_meta_graph=False)


def test_a_tf1_checkpoint_is_read_by_directory_prefix_and_index(checkpoint):
    for place in (os.path.dirname(checkpoint), checkpoint, checkpoint + ".index"):
        source = open_weights(place)
        assert source.location == checkpoint
        assert list(source) == [
            "bert/pooler/dense/kernel",
            "bert/pooler/dense/kernel/adam_m",
            "global_step",
            "half",
        ]
        assert source.shape("bert/pooler/dense/kernel") == (2, 3)
        kernel = source["bert/pooler/dense/kernel"]
        np.testing.assert_array_equal(kernel, [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(source["half"], np.array([1.5, -2], np.float32))
        assert source["half"].dtype == np.float32
        assert source["global_step"] == 3 and source["global_step"].dtype == np.int64


def copy_checkpoint(checkpoint, directory, **changes):
    for suffix in (".index", ".data-00000-of-00001"):
        with open(checkpoint + suffix, "rb") as file:
            content = changes.get(suffix[1:5], lambda content: content)(file.read())
        if content is not None:
            (directory / f"model.ckpt-7{suffix}").write_bytes(content)


def test_a_checkpoint_may_lie_in_a_folder_called_model(checkpoint, tmp_path):
    (tmp_path / "model").mkdir()
    copy_checkpoint(checkpoint, tmp_path / "model")
    assert len(open_weights(tmp_path)) == len(open_weights(checkpoint))


def test_a_checkpoint_without_its_data_is_refused_when_opened(checkpoint, tmp_path):
    copy_checkpoint(checkpoint, tmp_path, data=lambda content: None)
    words = "incomplete. Of model.ckpt-7.data | exist: none"
    assert_refused(lambda: open_weights(tmp_path), words)
    (tmp_path / "model.ckpt-7.data-00001-of-00002").touch()
    assert_refused(lambda: open_weights(tmp_path), "exist: 00001-of-00002")


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("inde", lambda content: content[:-20]),
        ("data", lambda content: content[:-8]),
        ("data", lambda content: bytes(len(content))),
    ],
)
def test_a_damaged_tf1_checkpoint_is_refused(part, damage, checkpoint, tmp_path):
    copy_checkpoint(checkpoint, tmp_path, **{part: damage})
    assert_refused(lambda: dict(open_weights(tmp_path)), "checkpoint | cannot be read")


def test_variables_of_a_tf2_checkpoint_have_their_own_names(tmp_path):
    named = tf.Variable([1.0], name="dense/kernel")
    twins = [tf.Variable([2.0], name="twin"), tf.Variable([3.0], name="twin")]
    tf.train.Checkpoint(a=named, b=twins[0], c=twins[1]).write(str(tmp_path / "model.ckpt-1"))
    source = open_weights(tmp_path)
    values = {key: source[key].tolist() for key in source}
    path = "/.ATTRIBUTES/VARIABLE_VALUE"
    assert values == {"dense/kernel": [1.0], f"b{path}": [2.0], f"c{path}": [3.0]}


def test_a_tf1_checkpoint_needs_no_tensorflow():
    prefix = Path(__file__).parent / "golden/transformer_xl/tf1_lm1b/model.ckpt-1"
    run_program(
        "-c",
        "import sys; sys.modules['tensorflow'] = None\n"
        "from bert_zoo.weights.sources import open_weights\n"
        "assert all(tensor.size for tensor in open_weights(sys.argv[1]).values())",
        prefix,
    )


def test_every_type_of_number_is_read_from_a_tf1_checkpoint(tmp_path):
    tensors = {name: tf.cast([[0, 1, 2]], name) for name in NUMBERS.split()}
    stored = {**tensors, "empty": tf.zeros((0, 3)), "text": tf.constant("a")}
    save_tf1(tmp_path / "model.ckpt-1", stored)
    source = open_weights(tmp_path)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(source[name], tensor.numpy().astype(source[name].dtype))
        assert source[name].dtype == ("float32" if "float16" in name else name)
    assert source["empty"].shape == (0, 3)
    with pytest.raises(WeightsError, match=r"text in .* is not a tensor of numbers"):
        source["text"]


def test_a_variable_in_parts_is_refused(tmp_path):
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "model.ckpt-1"),
        tensor_names=["w", "w"],
        shape_and_slices=["4 2 0,3:-", "4 2 3,1:-"],
        tensors=[np.ones((3, 2), "float32"), np.ones((1, 2), "float32")],
    )
    with pytest.raises(WeightsError, match="stored in parts"):
        open_weights(tmp_path)
