"""Vectors in numbered parts: written by several processes, whole or not at all, and read again."""

import gzip
import json
import os

import numpy as np
import pytest
from helpers import assert_refused
from scipy.sparse import csr_array

from bert_zoo.embeddings import VectorForm, read_vectors, search, text_files
from bert_zoo.embeddings.parts import Parts
from bert_zoo.embeddings.text_files import TextFiles

VECTORS = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
# Kind -> vectors of rows.
KINDS = {
    "dense": lambda rows: VECTORS[rows],
    "sparse": lambda rows: csr_array(np.maximum(VECTORS[rows], 0)),
    "tokens": lambda rows: [VECTORS[row : row + 1 + row % 3] for row in rows],
}


class Embedding:
    """Makes vectors of numbers, up to a text that it fails at."""

    def __init__(self, kind="dense", fails_at=None):
        self.kind, self.fails_at, self.seen = kind, fails_at, []

    def __call__(self, texts):
        if self.fails_at in texts:
            raise KeyboardInterrupt
        self.seen += texts
        return KINDS[self.kind](np.array([*map(int, texts)]))


@pytest.fixture(autouse=True)
def _chunks_of_four(monkeypatch):
    monkeypatch.setattr(text_files, "TEXTS_AT_ONCE", 4)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(20)))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": str(number)}) + "\n" for number in range(20, 50))
    return TextFiles([tmp_path / "a.txt", tmp_path / "b.jsonl.gz"])


def write(directory, texts, embed, shard=(1, 1), made_from=None, **options):
    made_from = made_from or {"model": "m"}
    first, options = Embedding(embed.kind), {"num_parts": 5} | options
    parts = Parts.planned(directory, texts, lambda: first, made_from, **options)
    return parts.write(parts.missing(*shard), texts, embed)


def as_rows(vectors):
    if hasattr(vectors, "toarray"):
        vectors = vectors.toarray()
    return [vectors[row] for row in range(len(vectors))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_what_was_written_is_read(kind, dtype, suffix, texts, tmp_path):
    options = {"dtype": dtype, "suffix": suffix}
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    if (kind, dtype) == ("sparse", "int8") or (kind != "dense" and suffix == ".npy"):
        with pytest.raises(ValueError, match=r"dtype of sparse vectors|one vector a text"):
            write(tmp_path / "v", texts, Embedding(kind), **options)
        return
    assert write(tmp_path / "v", texts, Embedding(kind), **options) == 50
    stored = read_vectors(tmp_path / "v", decoded=True)
    assert stored.ranges is None
    tolerance = {"float32": 0, "float16": 2e-3, "int8": np.ptp(VECTORS, axis=0).max() / 255}[dtype]
    wanted = as_rows(KINDS[kind](np.arange(50)))
    for read, row in zip(as_rows(stored.vectors), wanted, strict=True):
        np.testing.assert_allclose(read, row, atol=tolerance)
    ids = [f"{texts.paths[0]}:{row + 1}" for row in range(20)]
    assert [*stored.ids[:]] == ids + [f"{texts.paths[1]}:{row + 1}" for row in range(30)]
    assert stored.ids[[[3], [-50]]].tolist() == [[ids[3]], [ids[0]]]
    # Two of the parts, with 10 texts each, as they are stored.
    stored = read_vectors(tmp_path / "v", parts=[1, 3])
    rows = np.r_[10:20, 30:40]
    queries = Embedding(kind)(["12", "35"])
    exact = search(queries, KINDS[kind](rows), 1).indices.tolist()
    assert search(queries, stored, 1).indices.tolist() == exact
    assert search(queries, stored.vectors, 1, ranges=stored.ranges).indices.tolist() == exact
    if kind != "sparse":
        again = search(queries, KINDS[kind](rows), 1, rescore_with=stored)
        assert again.indices.tolist() == exact
    assert kind == "sparse" or str(as_rows(stored.vectors)[0].dtype) in (dtype, "float32")


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_shards_and_resumed_runs_write_the_parts_of_one_run(suffix, texts, tmp_path):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    options = {"dtype": "int8", "suffix": suffix}
    write(tmp_path / "one", texts, Embedding(), **options)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "many", texts, Embedding(fails_at="17"), (1, 2), **options)
    names = sorted(os.listdir(tmp_path / "many"))
    assert names[:1] == ["manifest.json"] and names[-1] == f"part-00000-of-00005{suffix}"
    # Killed while it wrote.
    (tmp_path / "many" / f".part-00001-of-00005{suffix}.abc123.tmp").write_text("1234567")
    assert write(tmp_path / "many", texts, resumed := Embedding(), (1, 2), **options) == 10
    assert resumed.seen == [*map(str, range(10, 20))]
    with pytest.raises(ValueError, match=r"lacks the parts \[2, 3, 4\] of 5"):
        read_vectors(tmp_path / "many")
    # The middle part is written before the others of its shard.
    (tmp_path / "many" / f"part-00003-of-00005{suffix}").touch()
    write(tmp_path / "many", texts, Embedding(), (2, 2), **options)
    (tmp_path / "many" / f"part-00003-of-00005{suffix}").unlink()
    assert write(tmp_path / "many", texts, resumed := Embedding(), **options) == 10
    assert resumed.seen == [*map(str, range(30, 40))]
    assert write(tmp_path / "many", texts, Embedding(fails_at="0"), **options) == 0
    assert sorted(os.listdir(tmp_path / "one")) == sorted(os.listdir(tmp_path / "many"))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "many" / path.name).read_bytes(), path.name


def test_parts_of_other_settings_are_refused(texts, tmp_path):
    npy, directory = {"suffix": ".npy"}, tmp_path / "v"
    write(directory, texts, Embedding(), **npy)
    said = "v has vectors that were made otherwise: prompt was None and is now 'q' | Name another"
    made_from = {"model": "m", "prompt": "q"}
    assert_refused(lambda: write(directory, texts, Embedding(), made_from=made_from, **npy), said)
    said = "made otherwise: num_parts was 5 and is now 6"
    assert_refused(lambda: write(directory, texts, Embedding(), num_parts=6, **npy), said)
    said = "num_parts is 60, and there are 50 texts"
    assert_refused(lambda: write(tmp_path / "w", texts, Embedding(), num_parts=60, **npy), said)
    texts.paths[0].write_text("0\n")
    assert_refused(lambda: write(directory, texts, Embedding(), **npy), "made otherwise: text was")
    (directory / "manifest.json").unlink()
    said = "v has parts, but no manifest.json | Name another directory"
    assert_refused(lambda: write(directory, texts, Embedding(), **npy), said)


def test_ids_are_those_of_a_column_or_row_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("key,text\nx,1\ny,2\n")
    (tmp_path / "b.jsonl").write_text('{"key": 7, "text": "1"}\n{"key": null, "text": "2"}\n')
    (tmp_path / "c.jsonl").write_text('{"key": 7, "text": "1"}\n{"key": 9, "text": "2"}\n')
    for name, column, ids in (
        ("a.csv", "key", ["x", "y"]),
        ("a.csv", None, [0, 1]),
        ("c.jsonl", "key", [7, 9]),
    ):
        texts, directory = TextFiles([tmp_path / name], None, column), tmp_path / f"{name}{column}"
        write(directory, texts, Embedding(), num_parts=2, suffix=".npy")
        assert read_vectors(directory).ids[:].tolist() == ids
    said = "b.jsonl, line 2: the id in column 'key' is None | Correct the row"
    assert_refused(lambda: [*TextFiles([tmp_path / "b.jsonl"], None, "key")], said)


def test_numbers_that_a_type_cannot_hold_are_refused():
    form = VectorForm.of(np.ones((1, 2), np.float32), "float16")
    assert_refused(lambda: form.encoded(np.float32([[1e5, 0]])), "must be finite as float16")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_pipeline_writes_the_vectors_of_the_model(kind, tmp_path, monkeypatch):
    beam = pytest.importorskip("apache_beam", reason='pip install "bert_zoo[beam]"')
    from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

    import bert_zoo
    from bert_zoo.data import messages
    from bert_zoo.embeddings.beam import EmbeddingHandler, WriteVectors

    tasks = {"dense": "embedding", "sparse": "sparse_embedding", "tokens": "late_interaction"}
    name = str(tmp_path / "model")
    bert_zoo.save(bert_zoo.load("bert_nano", tasks[kind]), name)
    model, texts = bert_zoo.load(name), messages.load("test")[0]
    wanted = model.embed(texts)
    handler = KeyedModelHandler(EmbeddingHandler(name, texts_at_once=64))
    write = WriteVectors(str(tmp_path / "v"), VectorForm.of(wanted), num_parts=3, ids="int64")
    with beam.Pipeline("DirectRunner") as pipeline:
        _ = pipeline | beam.Create([*enumerate(texts)]) | RunInference(handler) | write
    stored = read_vectors(tmp_path / "v")
    assert sorted(stored.ids[:]) == [*range(len(texts))]
    for read, id in zip(as_rows(stored.vectors), stored.ids[:], strict=True):
        row = as_rows(wanted[id : id + 1])[0]
        np.testing.assert_allclose(read, row, rtol=1e-4, atol=1e-5)
