"""Large NumPy files: whole under their name or not there, resumed by their parts, and checked when opened."""

import errno
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from helpers import assert_refused

from bert_zoo.data.files import RowFile, open_array
from bert_zoo.embeddings import int8_ranges, quantization, to_binary, to_int8
from bert_zoo.weights.files import DiskFullError

VECTORS = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")
BLOCKS = [VECTORS[start : start + 8] for start in range(0, 50, 8)]


def opened(path, shape=(50, 3), dtype="float32"):
    return open_array(path, shape, dtype, "Make it again.")


class Stop(Exception):
    """Stands for any reason to stop."""


def write(path, blocks=BLOCKS, stops_after=None, **options):
    """Writes the blocks that are missing, up to one to stop before; returns their number."""
    options = {"rows": 50, "resume": True} | options
    with RowFile(path, **options) as file:
        missing = blocks[-(-file.done // len(blocks[0])) :]
        for block in missing[:stops_after]:
            file.append(block)
        if stops_after is not None:
            raise Stop
    return len(missing)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("rows", [50, None])
def test_a_file_is_there_once_it_is_whole_and_a_stopped_one_is_continued(tmp_path, dtype, rows):
    path, blocks = tmp_path / "a.npy", [block.astype(dtype) for block in BLOCKS]
    for stops_after in (0, 2, 3):
        with pytest.raises(Stop):
            write(path, blocks, stops_after, rows=rows)
        assert not path.exists()
    # As if it was killed within a block, whose rows its header does not count.
    with (tmp_path / "a.npy.part").open("r+b") as part:
        part.seek(0, os.SEEK_END)
        part.write(b"12345")
    assert write(path, blocks, rows=rows) == 2
    np.testing.assert_array_equal(opened(path, dtype=dtype), VECTORS.astype(dtype))
    np.testing.assert_array_equal(np.load(path), VECTORS.astype(dtype))
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("how", ["killed", "an error"])
def test_a_file_that_is_not_resumed_is_written_anew_and_its_last_version_stays(tmp_path, how):
    path = tmp_path / "a.npy"
    path.write_bytes(b"the last version")
    program = (
        "import os, sys; from pathlib import Path\n"
        "import numpy as np; from bert_zoo.embeddings import quantization\n"
        "quantization.BLOCK_ROWS, encoded = 8, []\n"
        "class Rows:\n"
        "    def __len__(self): return 50\n"
        "    def __getitem__(self, rows):\n"
        "        if rows.start >= 24: os.kill(os.getpid(), 9)\n"
        "        return np.ones((8, 3), 'float32')\n"
        "quantization.to_binary(Rows(), Path(sys.argv[1]))\n"
    )
    if how == "killed":
        ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert (tmp_path / "a.npy.part").exists()
    else:
        with pytest.raises(Stop):
            write(path, stops_after=3, resume=False)
        assert os.listdir(tmp_path) == ["a.npy"]
    assert path.read_bytes() == b"the last version"
    np.testing.assert_array_equal(to_binary(VECTORS, path), to_binary(VECTORS))
    assert os.listdir(tmp_path) == ["a.npy"]


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def cannot_reserve(*_):
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def test_a_full_disk_is_said_before_anything_is_computed_in_vain(tmp_path, monkeypatch):
    path, ranges = tmp_path / "a.npy", int8_ranges(VECTORS)
    monkeypatch.setattr(quantization, "BLOCK_ROWS", 8)
    words = "no room for | a.npy, because the disk is full: | of its 278 bytes | bytes are free"
    nothing = shutil.disk_usage(tmp_path)._replace(free=200)
    for module, name, replacement in (
        (os, "posix_fallocate", no_room),
        (shutil, "disk_usage", lambda _: nothing),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, replacement, raising=False)
            assert_refused(lambda: to_int8(VECTORS, ranges, path), words, DiskFullError)
        assert not os.listdir(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", cannot_reserve, raising=False)
    np.testing.assert_array_equal(to_int8(VECTORS, ranges, path), to_int8(VECTORS, ranges))
    monkeypatch.delattr(os, "posix_fallocate")
    np.testing.assert_array_equal(to_int8(VECTORS, ranges, path), to_int8(VECTORS, ranges))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve space")
def test_room_for_all_rows_is_reserved_with_the_first(tmp_path):
    with pytest.raises(Stop):
        write(tmp_path / "a.npy", stops_after=1)
    assert (tmp_path / "a.npy.part").stat().st_size == 128 + VECTORS.nbytes


def test_a_disk_that_fills_up_later_leaves_the_rows_before(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    with (
        pytest.raises(DiskFullError, match=r"a\.npy, because"),
        monkeypatch.context() as patched,
        RowFile(path, 50, resume=True) as file,
    ):
        file.append(BLOCKS[0])
        patched.setattr(os, "fsync", no_room)
        file.append(BLOCKS[1])
    assert write(path) == len(BLOCKS) - 1
    np.testing.assert_array_equal(opened(path), VECTORS)


def damaged(content: bytes):
    """Names and contents of files that are not what was written."""
    yield "emptied", b""
    yield "cut within the header", content[:40]
    yield "cut after the header", content[:128]
    yield "half", content[: len(content) // 2]
    yield "a byte short", content[:-1]
    yield "a byte longer", content + b"\0"
    yield "no NumPy file", b"x" * len(content)
    yield "a wrong length", content.replace(b"(50, 3)", b"(9" + b"9" * 20 + b", 3)", 1)


def test_a_damaged_file_is_refused_with_its_name_and_the_next_step(tmp_path):
    path = tmp_path / "a.npy"
    write(path)
    for name, content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.npy is damaged: .*\. Make it again\.$"):
            opened(path)
            pytest.fail(name)
    for values in (VECTORS[1:], VECTORS.T, VECTORS.astype(np.float64), VECTORS[:, :, None]):
        np.save(path, values)
        assert_refused(lambda: opened(path), "a.npy has | expected float32 of the shape (50, 3)")
    assert_refused(lambda: opened(tmp_path / "b.npy"), "b.npy")


@pytest.mark.parametrize("length", [40, 128, 200])
def test_a_part_that_was_cut_is_refused(tmp_path, length):
    with pytest.raises(Stop):
        write(tmp_path / "a.npy", stops_after=3)
    os.truncate(tmp_path / "a.npy.part", length)
    words = "a.npy.part is damaged | Delete | part to begin again"
    assert_refused(lambda: write(tmp_path / "a.npy"), words)
