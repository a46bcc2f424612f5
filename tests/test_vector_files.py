"""Files of vectors that `bert_zoo embed` writes: streamed, and gone on with by a run after one that ended."""

import contextlib
import gzip
import os

import numpy as np
import pytest
from helpers import assert_refused
from scipy.sparse import csr_array

from bert_zoo.embeddings import text_files
from bert_zoo.embeddings.text_files import TextFiles
from bert_zoo.embeddings.vector_files import FILES, write_vectors

TEXTS = [str(number) for number in range(50)]
ORIGIN = {"model": "m", "text": "t"}


@pytest.fixture(autouse=True)
def _parts_of_four(monkeypatch):
    monkeypatch.setattr(text_files, "TEXTS_AT_ONCE", 4)


# Name of a file -> the vectors that stand in it, of float32 [texts, size].
KINDS = {
    "vectors.npy": np.asarray,
    "vectors.npz": csr_array,
    "vectors": lambda vectors: [*vectors[:, None]],
}


class Embedding:
    """Makes vectors of numbers, up to a text that it fails at."""

    def __init__(self, fails_at: str | None = None, kind=np.asarray):
        self.fails_at, self.seen, self.kind = fails_at, [], kind

    def __call__(self, texts):
        if self.fails_at in texts:
            raise KeyboardInterrupt
        self.seen += texts
        return self.kind(np.array([[float(text), 1, 2] for text in texts], "float32"))


def texts_of(path, column=None, **how):
    return [text for _, text in TextFiles([path], column, how=how)]


def expected():
    return np.array([[number, 1, 2] for number in range(50)], "float32")


def test_vectors_are_written_part_by_part(tmp_path):
    output = tmp_path / "vectors.npy"
    assert write_vectors(Embedding(), iter(TEXTS), output) == (50, 3)
    assert (np.load(output) == expected()).all()
    assert os.listdir(tmp_path) == ["vectors.npy"]


@pytest.mark.parametrize("name", KINDS)
def test_a_run_goes_on_where_the_last_one_ended(name, tmp_path):
    output = tmp_path / name
    for fails_at, begins_at in (("0", None), ("17", 0), ("41", 16), (None, 40)):
        embed = Embedding(fails_at, KINDS[name])
        stops = pytest.raises(KeyboardInterrupt) if fails_at else contextlib.nullcontext()
        with stops:
            write_vectors(embed, TEXTS, output, total=50, made_from=ORIGIN)
        assert output.exists() == (fails_at is None)
        assert embed.seen[:1] == ([] if begins_at is None else [str(begins_at)])
        if fails_at == "17":
            # Killed while it wrote: a part that is not whole.
            (partial,) = tmp_path.glob(".*")
            damaged = {".npy": partial, ".npz": partial / ".1.npz.tmp", "": partial / "vectors.npy"}
            with damaged[output.suffix].open("ab") as file:
                file.write(b"1234567")
    read = FILES[output.suffix][1](output)
    rows = read.toarray() if output.suffix == ".npz" else [np.ravel(row) for row in read]
    np.testing.assert_array_equal(rows, expected())
    assert os.listdir(tmp_path) == [name]


def test_vectors_of_something_else_are_not_gone_on_with(tmp_path):
    output = tmp_path / "vectors.npy"
    for made_from in (ORIGIN, ORIGIN | {"prompt": "query: "}, None):
        with pytest.raises(KeyboardInterrupt):
            write_vectors(embed := Embedding("17"), TEXTS, output, made_from=made_from)
        assert embed.seen[0] == "0"
    write_vectors(embed := Embedding(), TEXTS, output)
    assert embed.seen == TEXTS
    assert os.listdir(tmp_path) == ["vectors.npy"]


def test_texts_are_lines_or_a_column_packed_or_not(tmp_path):
    (tmp_path / "lines.txt").write_text("a, b\n\nc")
    (tmp_path / "table.csv").write_text('text,n\n"a, b",1\n,2\nc,3\n')
    (tmp_path / "semicolons").write_text("n;title\n1;a, b\n2;\n3;c\n")
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as file:
        file.write('{"text": "a, b"}\n{"text": ""}\n{"text": "c"}\n')
    with gzip.open(tmp_path / "lines.gz", "wt") as file:
        file.write("a, b\n\nc\n")
    for name in ("lines.txt", "table.csv", "packed.jsonl.gz", "lines.gz"):
        assert texts_of(tmp_path / name) == ["a, b", "", "c"], name
    words = "lines.txt does not have a table | set format to one of"
    assert_refused(lambda: texts_of(tmp_path / "lines.txt", "title"), words)
    assert texts_of(tmp_path / "semicolons", "title", delimiter=";") == ["a, b", "", "c"]
