"""The Beam pipeline: BERT's features in TFRecord files, the same from every run."""

import numpy as np
import pytest

from bert_zoo.cli import create_pretraining_data as app
from bert_zoo.text import WordPieceTokenizer

pytest.importorskip("apache_beam", reason='pip install "bert_zoo[beam]" for the pipeline')

WORDS = [f"w{i}" for i in range(50)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    documents = [
        "".join(f"{' '.join(rng.choice(WORDS, 6))}\n" for _ in range(rng.integers(3, 20)))
        for _ in range(60)
    ]
    documents[3] = documents[2]
    for number in range(3):
        (folder / f"{number}.txt").write_text("\n".join(documents[20 * number : 20 * number + 20]))
    WordPieceTokenizer([*SPECIAL, *WORDS]).save(folder / "vocabulary")
    return folder


def run(text, output, *flags):
    arguments = [f"--text={text}/*.txt", f"--vocabulary={text}/vocabulary", f"--output={output}"]
    shape = ["--length=32", "--max_predictions=5", "--epochs=2", "--num_shards=2"]
    app.PROGRAM.run(app.main, [*arguments, *shape, *flags])


def read(path):
    import tensorflow as tf

    ids, masked = (tf.io.FixedLenFeature([n], tf.int64) for n in (32, 5))
    features = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    features |= dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), masked)
    features["masked_lm_weights"] = tf.io.FixedLenFeature([5], tf.float32)
    features["next_sentence_labels"] = tf.io.FixedLenFeature([1], tf.int64)
    records = tf.data.TFRecordDataset(str(path)).batch(10_000)
    (rows,) = records.map(lambda r: tf.io.parse_example(r, features)).as_numpy_iterator()
    return rows


def test_rows_have_berts_features(text, tmp_path, capsys):
    run(text, tmp_path / "a")
    files = sorted((tmp_path / "a").iterdir())
    assert [file.name for file in files] == [f"rows-0000{i}-of-00002.tfrecord" for i in range(2)]
    output = capsys.readouterr().out
    # The duplicate is in once.
    assert "documents: 59" in output and "files: 2" in output
    rows = read(files[0])
    ids, positions = rows["input_ids"], rows["masked_lm_positions"]
    assert (ids[:, 0] == 2).all()
    assert (ids[rows["input_mask"] == 0] == 0).all()
    assert set(np.unique(rows["segment_ids"])) == {0, 1}
    lengths, asked = rows["input_mask"].sum(1), rows["masked_lm_weights"].sum(1)
    np.testing.assert_array_equal(asked, np.clip(np.rint(0.15 * lengths), 1, 5))
    is_asked = rows["masked_lm_weights"] == 1
    assert (rows["masked_lm_ids"][is_asked] >= len(SPECIAL)).all()
    assert (rows["masked_lm_ids"][~is_asked] == 0).all()
    read_there = np.take_along_axis(ids, positions, axis=1)[is_asked]
    assert 0.7 < (read_there == 4).mean() < 0.9
    assert 0.3 < rows["next_sentence_labels"].mean() < 0.8

    # Once more: what is there stays, what is not is written as it was.
    before = [file.read_bytes() for file in files]
    files[1].unlink()
    kept = files[0].stat().st_mtime_ns
    run(text, tmp_path / "a")
    assert [file.read_bytes() for file in files] == before
    assert files[0].stat().st_mtime_ns == kept
    assert "files that were there: 1" in capsys.readouterr().out


def test_errors(text, tmp_path):
    with pytest.raises(FileNotFoundError, match="No file is named by"):
        app.PROGRAM.run(
            app.main, ["--text=/no/*.txt", f"--vocabulary={text}/vocabulary", "--output=o"]
        )
    with pytest.raises(ValueError, match="objective is 'none'"):
        run(text, tmp_path, "--objective=none")
