"""Texts and tokens of training files that are kept on disk instead of in memory."""

import threading

import keras
import numpy as np
import pytest

import bert_zoo
from bert_zoo.cli.benchmarks import make_task
from bert_zoo.data import on_disk
from bert_zoo.data.tables import read_columns, read_table
from bert_zoo.presets import Recipe

# Some have line ends and characters of several bytes, one is empty, and each row has other texts.
TEXTS = [f"a dog\nsat é {'on a tree ' * (i % 5)}{i}" if i else "" for i in range(150)]
ROWS = "".join(
    f'"{text}","{TEXTS[-i - 1]}",{("yes", "no")[i % 2]},{"x;y"[: i % 4]},{i / 150}\n'
    for i, text in enumerate(TEXTS)
)
TASKS = {
    "classes": {"name": "table"},
    "pairs": {"name": "table", "text_pair": "positive"},
    "label sets": {"name": "table", "label": "labels", "label_delimiter": ";"},
    "scores": {"name": "table", "label": "score", "regression": True},
    "vectors": {"name": "pairs", "columns": ("text", "positive")},
    "lists": {"name": "reranking", "columns": ("text", "positive", "text"), "label": "score"},
}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("text,positive,label,labels,score\n" + ROWS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def models():
    return {}


@pytest.mark.parametrize("name", TASKS)
def test_batches_and_fingerprints_are_those_of_texts_in_memory(
    name, table, tmp_path, monkeypatch, models
):
    monkeypatch.setattr(on_disk, "PART", 1000)
    about = {"train_file": str(table), "held_out": 20, **TASKS[name]}
    kept, stored = make_task(**about), make_task(**about, token_dir=str(tmp_path / "tokens"))
    assert stored.fingerprint() == kept.fingerprint()
    assert list(stored.remarks()) == list(kept.remarks())
    if kept.kind not in models:
        models[kept.kind] = bert_zoo.load("bert_nano", **kept.load_options())
    model, recipe = models[kept.kind], Recipe(batch_size=8, max_length=16)
    expected, *found = (
        task.batches(model, recipe, seed=0)
        # The second time, the tokens are there.
        for task in (kept, stored, stored)
    )
    assert [*(tmp_path / "tokens").glob("*/part-000002")]
    for batches in found:
        for number in (0, 1, 30):
            keras.tree.map_structure(
                np.testing.assert_array_equal, batches.at(number), expected.at(number)
            )


def test_processes_that_share_a_folder_make_each_part_once(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "PART", 100)
    texts = on_disk.StoredTexts(tmp_path)
    for number in range(100):
        texts.append(str(number))
    made = []

    def read(first, end):
        made.append(first)
        ids = np.array([*map(int, texts[first:end])])
        return [on_disk.TokensOfRows({"ids": ids}, {}, np.ones(end - first, int))]

    found = []

    def process():
        made_by = on_disk.tables_in_parts([texts], "", read, sample=0)
        found.append(made_by[0].tokens["ids"].of_rows(np.arange(100)).values.tolist())

    texts.rows  # noqa: B018 (threads share it, processes do not)
    threads = [threading.Thread(target=process) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[*range(100)]] * 2
    parts = [first for first in made if first]
    assert len(parts) == len(set(parts)) > 1


def test_a_damaged_part_is_named(tmp_path):
    texts = on_disk.StoredTexts(tmp_path)
    texts.append("one")

    def read(first, end):
        return [on_disk.TokensOfRows({"ids": np.arange(end - first)}, {}, np.ones(1, int))]

    on_disk.tables_in_parts([texts], "", read, sample=1)
    (path,) = tmp_path.glob("*/part-000000/*ids.npy")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"ids\.npy is damaged .* to tokenize the texts again"):
        on_disk.tables_in_parts([texts], "", read, sample=1)


def test_large_files_are_kept_in_the_cache(table, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(on_disk, "LARGE", 1000)
    monkeypatch.setenv("BERT_ZOO_CACHE", str(tmp_path / "cache"))
    task = make_task("table", train_file=str(table), held_out=20)
    assert task.train.texts.folder == tmp_path / "cache" / "tokens"
    assert "kept in" in caplog.text


def test_texts_in_a_file_are_those_in_memory(table, tmp_path):
    stored = read_table(table, folder=tmp_path).texts
    assert list(stored) == TEXTS and list(stored[3:7]) == TEXTS[3:7] and stored[-1] == TEXTS[-1]
    assert list(stored.take([5, 2])) == [TEXTS[5], TEXTS[2]]
    assert stored.take([5, 2]).digest() != stored.take([2, 5]).digest()


def test_a_tfrecord_is_read_as_its_csv(table, tmp_path):
    tf = pytest.importorskip("tensorflow")
    data = read_table(table, text_pair="positive")
    path = tmp_path / "train.tfrecord"
    kinds = {str: ("bytes_list", tf.train.BytesList), float: ("float_list", tf.train.FloatList)}

    def feature(*values):
        name, kind = kinds[type(values[0])]
        values = [v.encode() if isinstance(v, str) else v for v in values]
        return tf.train.Feature(**{name: kind(value=values)})

    with tf.io.TFRecordWriter(str(path)) as writer:
        for *pair, label in zip(*data.texts, data.labels, strict=True):
            named = {"text": pair[0], "positive": pair[1], "label": data.label_names[label]}
            features = {name: feature(value) for name, value in named.items()}
            features |= {"both": feature(*pair), "score": feature(label / 2)}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    assert read_table(path, text_pair="positive") == data
    assert read_columns(path, ["both"], "score").columns == data.texts
    assert read_columns(path, ["both"], "score").labels == [label / 2 for label in data.labels]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="ends within record 150"):
        read_table(path)
