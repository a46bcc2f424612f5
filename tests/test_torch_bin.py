"""PyTorch files are read exactly, lazily, and without running anything that is in them."""

import io
import logging
import pickle
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused

from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.sources import open_weights

GOLDEN = Path(__file__).parent / "golden" / "torch_bin"
FILES = ("zip.bin", "stream.bin", "nested.bin", "protocol_4.bin")


@pytest.fixture(scope="module")
def expected():
    with np.load(GOLDEN / "expected.npz") as arrays:
        return dict(arrays)


# --- files made here -----------------------------------------------------------------------------


REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def literal(value) -> bytes:
    """The instructions that push a plain value."""
    return pickle.dumps(value, 2)[2:-1]


def tensor_literal(shape=(2,), strides=(1,), offset=0, length=2, key="0", view=b"") -> bytes:
    """The instructions that push a tensor; `view` pushes what a stream's reference to a storage ends with."""
    storage = literal("storage") + b"ctorch\nFloatStorage\n" + literal(key) + literal("cpu")
    storage = b"(" + storage + literal(length) + view + b"tQ"
    place = literal(offset) + literal(shape) + literal(strides)
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return REBUILD + b"(" + storage + place + hooks + b"tR"


def tensor_pickle(more=b"", **tensor) -> bytes:
    """What torch.save writes for {"w": tensor}; `more` pushes further keys and values."""
    return b"\x80\x02}(" + literal("w") + tensor_literal(**tensor) + more + b"u."


def archive(pickled: bytes, storage: bytes = bytes(8), order: bytes = b"little") -> bytes:
    members = {"data.pkl": pickled, "byteorder": order, "data/0": storage}
    return zipped({f"archive/{name}": content for name, content in members.items()})


def zipped(members: dict[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def write_archive(path: Path, pickled: bytes, storage: bytes, order: bytes = b"little") -> None:
    path.write_bytes(archive(pickled, storage, order))


def stream(pickled: bytes, keys=("0",), storages: bytes = b"") -> bytes:
    """A file of the older kind; without keys, one that ends with its pickle."""
    return stream_head() + pickled + (pickle.dumps([*keys], 2) + storages if keys else b"")


def stream_head() -> bytes:
    return b"".join(
        pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    )


# --- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_tensor_is_what_torch_saved(name, expected):
    source = open_weights(GOLDEN / name)
    assert sorted(source) == sorted(expected)
    for key, values in expected.items():
        assert source.shape(key) == values.shape
        assert source[key].dtype == values.dtype
        assert source[key].flags.c_contiguous
        np.testing.assert_array_equal(source[key], values)


def test_reading_needs_no_torch():
    assert "torch" not in sys.modules


def test_what_lies_beside_the_state_dict_is_logged(caplog):
    with caplog.at_level(logging.INFO):
        open_weights(GOLDEN / "nested.bin")
    assert "not weights: epoch, best, optimizer" in caplog.text


def test_big_endian_archives_are_byteswapped(tmp_path):
    write_archive(tmp_path / "a.bin", tensor_pickle(), np.array([1.5, -2], ">f4").tobytes(), b"big")
    np.testing.assert_array_equal(open_weights(tmp_path / "a.bin")["w"], [1.5, -2])


# --- damaged -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zip.bin", "stream.bin"])
def test_a_file_cut_anywhere_is_refused(name, tmp_path):
    content = (GOLDEN / name).read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        (tmp_path / "a.bin").write_bytes(content[:length])
        with pytest.raises(WeightsError, match=r"a\.bin"):
            open_weights(tmp_path / "a.bin")


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.parametrize("name", ["zip.bin", "stream.bin"])
def test_a_changed_byte_gives_a_clear_error_or_none(name, tmp_path):
    content = (GOLDEN / name).read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for position in random.integers(len(content), size=300):
        damaged = bytearray(content)
        damaged[position] ^= 1 << random.integers(8)
        (tmp_path / "a.bin").write_bytes(damaged)
        try:
            source = open_weights(tmp_path / "a.bin")
            for key in source:
                source[key]
        except WeightsError:
            refused += 1
    assert refused > 30


def test_a_damaged_storage_is_found_by_its_checksum(tmp_path, expected):
    content = (GOLDEN / "zip.bin").read_bytes()
    damaged = content.replace(expected["double"].tobytes(), bytes(16))
    assert damaged != content
    (tmp_path / "a.bin").write_bytes(damaged)
    source = open_weights(tmp_path / "a.bin")
    source["embeddings.weight"]
    with pytest.raises(WeightsError, match=r"double.*checksum"):
        source["double"]


OF_STREAM = tensor_pickle(view=literal(None))
TWO, THREE = ((n).to_bytes(8, "little") for n in (2, 3))
INNER = tensor_pickle()[2:-1]
OF_BOTH = b"\x80\x02}(" + literal("model") + INNER + literal("state_dict") + INNER + b"u."
COUNTS = {"epoch": 3, "model": {"a": 1}}
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"
# Views that leave or repeat their storage.
VIEWS = [
    {"shape": (3,), "strides": (1,)},
    {"shape": (2,), "strides": (2,)},
    {"shape": (1,), "strides": (1,), "offset": 2},
    {"shape": (1000, 1000), "strides": (0, 0)},
    {"shape": (-1,), "strides": (1,)},
    {"shape": (2,), "strides": (-1,)},
    {"shape": (1,), "strides": (1,), "offset": -1},
    {"shape": (2,), "strides": (1, 1)},
    {"shape": (True,), "strides": (1,)},
    {"shape": (2**62, 4), "strides": (0, 0)},
    {"shape": (1,) * 40, "strides": (1,) * 40},
]
REFUSED = [
    (b"", "empty"),
    (LFS, "git lfs pull"),
    (b"<html>Not found</html>", "not a file that torch.save wrote"),
    (pickle.dumps({"a": 1}, 2), "not a file that torch.save wrote"),
    (zipped({"archive/weights": b"0" * 100}), "no data.pkl"),
    (zipped({"archive/data.pkl": b"0" * 100}, zipfile.ZIP_DEFLATED), "compressed"),
    # As where bytes were lost: zipfile moves all places forward by what is missing.
    (archive(tensor_pickle())[:4] + archive(tensor_pickle())[40:], "not a complete zip archive"),
    (stream(OF_STREAM, "0", THREE + bytes(8)), "has 3 elements, but its tensors say 2"),
    (stream(OF_STREAM, "0", TWO + bytes(9)), "1 bytes after its last tensor"),
    (stream(OF_STREAM, "0", TWO + bytes(7)), "ends in the middle"),
    (stream(OF_STREAM, "1"), "does not match its tensors"),
    (stream(tensor_pickle(view=literal(("7", 0, 1))), ()), "views of storages"),
    *((archive(tensor_pickle(length=2, **view)), "cannot be read") for view in VIEWS),
    # What is no dict of named tensors.
    (archive(tensor_pickle(length=3)), "8 bytes, but 12 were expected"),
    (archive(tensor_pickle(key="1")), "no storage '1', which its tensor w needs"),
    (archive(pickle.dumps([1, 2], 2)), "a value of type list, but a dict"),
    (archive(pickle.dumps({}, 2)), "It holds: nothing"),
    (archive(pickle.dumps(COUNTS, 2)), "'epoch': a value of type int, 'model': a dict of 1"),
    (
        archive(tensor_pickle(more=literal("step") + literal(7.5))),
        "'step': a value of type float",
    ),
    (archive(OF_BOTH), "exactly one of its entries state_dict, model"),
    (archive(tensor_pickle(), order=b"middle"), "byte order b'middle'"),
]


@pytest.mark.parametrize(("content", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_no_whole_file_of_named_tensors_is_refused(content, words, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(content)
    assert_refused(lambda: open_weights(tmp_path), words, WeightsError)


def test_a_stream_whose_parts_agree_is_read(tmp_path):
    (tmp_path / "a.bin").write_bytes(stream(OF_STREAM, "0", TWO + bytes(8)))
    assert open_weights(tmp_path / "a.bin").shape("w") == (2,)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (0, 2), (2, 0)])
def test_the_stride_of_a_dimension_that_has_no_second_element_is_of_no_account(shape, tmp_path):
    huge = tuple(2**62 if size != 2 or 0 in shape else 1 for size in shape)
    write_archive(
        tmp_path / "a.bin", tensor_pickle(shape=shape, strides=huge), np.float32([1, 2]).tobytes()
    )
    source = open_weights(tmp_path / "a.bin")
    np.testing.assert_array_equal(source["w"], np.float32([1, 2])[: np.prod(shape)].reshape(shape))


# --- fairseq's arguments -------------------------------------------------------------------------


def test_fairseqs_arguments_are_read_as_a_plain_dict():
    file = GOLDEN.parent / "roberta" / "fairseq_old" / "model.pt"
    arguments = open_weights(file).arguments
    assert type(arguments) is dict
    assert (arguments["arch"], arguments["encoder_layers"]) == ("roberta_base", 2)
    assert open_weights(GOLDEN / "zip.bin").arguments == {}


def test_fairseqs_newer_configuration_is_read_as_its_arguments(tmp_path):
    cfg = {
        "task": {"_name": "masked_lm"},
        "model": {"_name": "roberta_base", "encoder_layers": 2},
        "optimizer": {"_name": "adam"},
    }
    inner = tensor_pickle()[2:-1]
    pickled = b"\x80\x02}(" + literal("model") + inner + literal("cfg") + literal(cfg) + b"u."
    write_archive(tmp_path / "model.pt", pickled, bytes(8))
    assert open_weights(tmp_path / "model.pt").arguments == {
        "_name": "roberta_base",
        "arch": "roberta_base",
        "task": "masked_lm",
        "encoder_layers": 2,
    }


def test_what_a_training_left_beside_weights_stays_unread(tmp_path):
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01)tb"
    pairs = b"}(U\x02deU\x02en\x86K\x01u"
    beside = literal("probs") + array + literal("para_dataset") + pairs
    pickled = b"\x80\x02}(" + literal("model") + tensor_pickle()[2:-1] + beside + b"u."
    write_archive(tmp_path / "a.pth", pickled, bytes(8))
    assert list(open_weights(tmp_path)) == ["w"]


def test_names_of_a_data_parallel_state_dict_are_kept(tmp_path):
    pickled = tensor_pickle().replace(literal("w"), literal("module.layers.0.w"))
    write_archive(tmp_path / "a.pt", pickled, bytes(8))
    assert list(open_weights(tmp_path / "a.pt")) == ["module.layers.0.w"]


MODEL = b"cmem_transformer\nMemTransformerLM\n"


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_pickled_module_is_refused_with_advice(is_stream, tmp_path):
    """Transformer-XL's program saves such files; streams hold the text of its classes besides."""
    path = tmp_path / "model.pt"
    text = b"(" + literal("module") + MODEL + literal("model.py") + literal("1 / 0\n") + b"tQ"
    pickled = b"\x80\x02" + (text if is_stream else MODEL) + b")\x81}(" + b"ub."
    if is_stream:
        path.write_bytes(stream_head() + pickled + pickle.dumps([], 2))
    else:
        write_archive(path, pickled, bytes(8))
    with pytest.raises(WeightsError, match=r"MemTransformerLM, which is not allowed.*state_dict"):
        open_weights(path)


# --- what a state dict is ------------------------------------------------------------------------


# --- hostile -------------------------------------------------------------------------------------


class Runs:
    """Unpickled freely, it writes a file."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return eval, (f"open({str(self.marker)!r}, 'w').close()",)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_runs_code_is_refused_without_running_it(protocol, tmp_path):
    hostile = pickle.dumps({"w": Runs(tmp_path / "marker")}, protocol)
    write_archive(tmp_path / "zip.bin", hostile, b"")
    (tmp_path / "stream.bin").write_bytes(stream_head() + hostile)
    for name in ("zip.bin", "stream.bin"):
        with pytest.raises(WeightsError, match=r"refused.*builtin\w*\.eval.*safetensors"):
            open_weights(tmp_path / name)
    assert not (tmp_path / "marker").exists()
    pickle.loads(hostile)
    assert (tmp_path / "marker").exists(), "the pickle of this test must be a hostile one"


@pytest.mark.parametrize("part", range(3))
def test_no_pickle_of_a_stream_runs_code(part, tmp_path):
    parts = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {})]
    parts[part] = pickle.dumps(Runs(tmp_path / "marker"), 2)
    (tmp_path / "a.bin").write_bytes(b"".join(parts) + pickle.dumps({}, 2) + pickle.dumps([], 2))
    with pytest.raises(WeightsError):
        open_weights(tmp_path / "a.bin")
    assert not (tmp_path / "marker").exists()


NUMBERS = [b"J" + number.to_bytes(4, "little") for number in range(10_000)]
# Pushed once and remembered: 50 kB in the file.
MANY_PAIRS = b"](" + b"".join(number + b"N\x86" for number in NUMBERS) + b"eq\x00"
MANY_ENTRIES = b"}(" + b"".join(number + b"N" for number in NUMBERS) + b"uq\x00"
OVER_AND_OVER = {
    "OrderedDict": MANY_PAIRS + b"ccollections\nOrderedDict\nq\x01" + b"h\x01h\x00\x85R" * 2000,
    "BUILD": MANY_ENTRIES + b"cargparse\nNamespace\nq\x01" + b"h\x01)\x81h\x00b" * 2000,
}

# Name -> the instructions between the pickle's first and its last, and why they are refused.
HOSTILE = {
    "set an attribute of an allowed function": (REBUILD + b"}U\x01aK\x01sb", "the state of"),
    "set a slot of an allowed function": (REBUILD + b"N}U\x01aK\x01s\x86b", "the state of"),
    "make an object": (b"ccollections\nOrderedDict\n)\x81", "not a plain record"),
    "make a record of something": (b"cargparse\nNamespace\nK\x01\x85\x81", "not a plain record"),
    "call a record": (b"cargparse\nNamespace\n)R", "not a function"),
    "set a list as a record's state": (b"cargparse\nNamespace\n)\x81]b", "the state of"),
    **{
        f"find {name}": (f"c{name}\n".encode(), "refused.*" + name.replace("\n", r"\."))
        for name in ("argparse\nArgumentParser", "torch\nload", "torch._utils\n_rebuild_qtensor")
    },
    "call a string": (b"U\x01a)R", "not a function"),
    "reserve a huge memo": (b"}r\xff\xff\xff\x7f", "It holds: nothing"),
    "reserve a huge array": (b"\x96" + (2**40).to_bytes(8, "little"), "the instruction BYTEARRAY8"),
    "announce a huge string": (b"X\xff\xff\xff\x7fabc", "cannot be read"),
    "hash a tuple of 2**60 leaves": (
        b"}(U\x01aq\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"K\x01u",
        "is the key of a dict",
    ),
    "add a tuple of 2**60 leaves to a set": (
        b"\x8f(U\x01aq\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"\x90",
        "is the key of a dict",
    ),
    "print a tuple of 2**60 leaves": (
        b"U\x01aq\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"(h\x00NNNNtQ",
        "not a reference to a storage",
    ),
    "take from an empty stack": (b"R", "IndexError"),
    "recall what was never kept": (b"h\x07", "cannot be read"),
    **{
        f"copy a list by {name} over and over": (program, "copies the same values again and again")
        for name, program in OVER_AND_OVER.items()
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_are_refused_quickly(name, tmp_path):
    program, message = HOSTILE[name]
    write_archive(tmp_path / "a.bin", b"\x80\x02" + program + b".", b"")
    tracemalloc.start()
    try:
        with pytest.raises(WeightsError, match=message):
            open_weights(tmp_path / "a.bin")
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
