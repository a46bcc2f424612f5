"""The Beam pipeline: BERT's features in TFRecord files, the same from every run."""

import json

import numpy as np
import pytest
from helpers import assert_refused

import bert_zoo
from bert_zoo.cli import create_pretraining_data, pretrain
from bert_zoo.pretraining.batches import MaskedRows
from bert_zoo.text import WordPieceTokenizer

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
    pytest.importorskip("apache_beam", reason='pip install "bert_zoo[beam]" for the pipeline')
    arguments = [f"--text={text}/*.txt", f"--vocabulary={text}/vocabulary", f"--output={output}"]
    shape = ["--length=32", "--max_predictions=5", "--epochs=2", "--num_shards=2"]
    create_pretraining_data.PROGRAM.run(create_pretraining_data.main, [*arguments, *shape, *flags])


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
    assert "existing files: 1" in capsys.readouterr().out


def write_shards(text, folder, family="bert", rows="next_sentence", number=4):
    """What the pipeline writes, by the function that writes a shard of it."""
    folder.mkdir()
    settings = create_pretraining_data.ShardSettings(
        f"{text}/vocabulary", family, str(folder), rows, "masked_tokens", 32, 5, 0.1, 2, 1, number
    )
    documents = [
        d
        for path in sorted(text.glob("*.txt"))
        for d in create_pretraining_data._corpus(path, "sentences")
    ]
    for shard in range(number):
        path = folder / f"rows-{shard:05}-of-{number:05}.tfrecord"
        create_pretraining_data._write_rows(
            documents[shard::number], shard, settings, folder / f"work{shard}", path
        )
    return sorted(folder.glob("*.tfrecord"))


def test_rows_that_were_written_are_read_as_they_were(text, tmp_path):
    files = write_shards(text, tmp_path / "rows")
    rows = MaskedRows(files)
    assert (rows.length, rows.predictions) == (32, 5)
    written = [read(path) for path in files]
    assert rows.num_rows == sum(len(each["input_ids"]) for each in written) > 100
    first = len(written[0]["input_ids"])
    found = rows.read([first + 1, 0])
    for name, ours in (("input_ids", "token_ids"), ("masked_lm_positions", "mask_positions")):
        np.testing.assert_array_equal(found[ours], [written[1][name][1], written[0][name][0]])
    used = written[0]["masked_lm_weights"][0] > 0
    wanted = np.where(used, written[0]["masked_lm_ids"][0], -100)
    np.testing.assert_array_equal(found["mlm_logits"][1], wanted)
    labels = [each["next_sentence_labels"] for each in written]
    assert found["pair_label"].tolist() == [labels[1][1, 0], labels[0][0, 0]]
    counts = rows.counts(55, range(5))
    assert counts[:5].sum() == 0 and (counts[5:] > 0).all()
    with files[0].open("ab") as file:
        file.write(b"\1\0\0")
    assert_refused(lambda: MaskedRows(files), "not a complete TFRecord file")
    assert_refused(lambda: rows.counts(20, ()), "the vocabulary has only 20 tokens")


@pytest.mark.parametrize("family, rows", [("bert", "next_sentence"), ("electra", "doc_sentences")])
@pytest.mark.usefixtures("eager")
def test_pretrain_reads_what_the_pipeline_writes(family, rows, text, tmp_path, capsys):
    write_shards(text, tmp_path / "rows", family, rows)
    options = [f"--text={tmp_path}/rows/*.tfrecord", "--form=masked_rows", f"--recipe={family}"]
    options += ["--steps=6", "--batch_size=8", "--held_out=0.25", f"--output_dir={tmp_path}/run"]
    for name in pretrain.PROGRAM.flags:  # what other tests have set
        pretrain.PROGRAM.flags[name].unparse()
    words = "Name its directory with --vocabulary"
    assert_refused(lambda: pretrain.PROGRAM.run(pretrain.main, options), words)
    pretrain.PROGRAM.run(pretrain.main, [*options, f"--vocabulary={text}/vocabulary"])
    assert "After: held out" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    named = {"bert": "nsp", "electra": "discriminator"}[family]
    assert f"held out {named}_logits_loss" in metrics["after"]
    assert metrics["after"] != metrics["before"] and metrics["unigram loss"] < np.log(55)
    assert bert_zoo.load(tmp_path / "run").task == "pretraining"
    assert "SHA-256" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_texts_and_objectives_that_there_are_not_are_refused(text, tmp_path):
    assert_refused(lambda: run(text, tmp_path, "--text=/no/*.txt"), "There is no file")
    assert_refused(lambda: run(text, tmp_path, "--objective=none"), "objective is 'none'")
