"""The Beam pipeline: tokens, and BERT's features in TFRecord files, the same from every run."""

import dataclasses
import functools
import json

import numpy as np
import pytest
from helpers import assert_refused, directory_of, loaded
from keras import tree
from test_pretrain import small

import bert_zoo
from bert_zoo.cli import create_pretraining_data, pretrain
from bert_zoo.presets import BIDIRECTIONAL_ADAPTATION, ROW_ADAPTATION, STREAM_ADAPTATION, Recipe
from bert_zoo.pretraining.batches import MaskedRows
from bert_zoo.pretraining.causal import (
    BidirectionalTraining,
    RowTraining,
    StreamSettings,
    StreamTraining,
    bidirectional_lm,
)
from bert_zoo.pretraining.corpus import Corpus, files_of
from bert_zoo.pretraining.masked import (
    DenoisingTraining,
    MaskedSettings,
    MaskedTraining,
    RememberingTraining,
)
from bert_zoo.pretraining.tokens import TokenShards, shards_of, write_tokens
from bert_zoo.text import WordLevelTokenizer, WordPieceTokenizer

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


SHAPE = ("--length=32", "--max_predictions=5", "--epochs=2", "--num_shards=2")
TWO_WORKERS = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")


def run(text, output, *flags, shape=SHAPE):
    pytest.importorskip("apache_beam", reason='pip install "bert_zoo[beam]" for the pipeline')
    program = create_pretraining_data.PROGRAM
    for name in program.flags:  # what other calls have set
        program.flags[name].unparse()
    arguments = [f"--text={text}/*.txt", f"--vocabulary={text}/vocabulary", f"--output={output}"]
    program.run(create_pretraining_data.main, [*arguments, *shape, *flags])


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


@pytest.mark.slow
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
    preprocessor, _ = create_pretraining_data._reader(settings)
    for shard in range(number):
        path = folder / f"rows-{shard:05}-of-{number:05}.tfrecord"
        tokens = write_tokens(documents[shard::number], preprocessor, folder / f"work{shard}")
        create_pretraining_data._write_rows(tokens, shard, settings, path)
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


# --- Tokens ---


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in files_of(folder)}


def documents_of(text, num_shards):
    """The documents in the order in which the pipeline writes them."""
    digest = create_pretraining_data._digest
    found = {digest(document): document for document in Corpus(f"{text}/*.txt", "sentences")}
    return [found[key] for key in sorted(found, key=lambda d: (int(d[:15], 16) % num_shards, d))]


def training_of(family, vocabulary):
    """The class that trains a small model of a family, the model and settings."""
    recipe = Recipe(total_steps=2, batch_size=4, learning_rate=1e-3)
    match family:
        case "elmo":
            kind = BidirectionalTraining
            preset = dataclasses.replace(BIDIRECTIONAL_ADAPTATION, batch_size=4, num_samples=8)
            model = bidirectional_lm(loaded("elmo/encoder"), preset, vocabulary)
        case "gpt2":
            kind = RowTraining
            preset = dataclasses.replace(ROW_ADAPTATION, batch_size=4, segment_length=16)
            model = loaded("gpt2/causal_lm")
        case "transformer_xl":
            kind = StreamTraining
            preset = dataclasses.replace(STREAM_ADAPTATION, batch_size=4)
            model = bert_zoo.load("transformer_xl_nano", task="causal_lm")
        case _:
            make_model, rows = small(family)
            settings = MaskedSettings(recipe, rows, ((32, 1.0),))
            model, kind = make_model(), MaskedTraining
            if settings.goes_on:
                kind = RememberingTraining
            return (DenoisingTraining if family == "t5" else kind), model, settings
    return kind, model, StreamSettings(preset)


ALL_OBJECTIVES = (
    *("bert", "roberta", "albert", "spanbert", "electra", "xlnet", "t5"),
    *("gpt2", "transformer_xl", "elmo"),
)


@pytest.mark.slow
@pytest.mark.parametrize("family", ALL_OBJECTIVES)
def test_batches_of_every_objective_are_those_of_one_machine(family, text, tmp_path):
    match family:
        case "elmo":
            vocabulary = tmp_path / "words"
            WordLevelTokenizer(["<eos>", "<unk>", *WORDS], eos_at="newlines").save(vocabulary)
        case "gpt2":
            vocabulary = directory_of("gpt2/causal_lm")
        case "transformer_xl":
            vocabulary = tmp_path / "words"
            bert_zoo.load("transformer_xl_nano").preprocessor.tokenizer.save(vocabulary)
        case _:
            vocabulary = directory_of(f"{family}/encoder")
    options = ("--rows=tokens", f"--family={family}", f"--vocabulary={vocabulary}")
    run(text, tmp_path / "shards", *options, shape=("--num_shards=3",))
    kind, model, settings = training_of(family, vocabulary)
    preprocessor = getattr(model, "words", None) or model.preprocessor
    tokenizer = preprocessor.tokenizer
    alone = write_tokens(
        documents_of(text, 3),
        preprocessor,
        tmp_path / "alone",
        rewritten=functools.partial(kind.as_tokenized, tokenizer=tokenizer),
    )
    shards = TokenShards(shards_of(files_of(tmp_path / "shards")), tokenizer, kind.reads)
    assert shards.summary["documents"] == 59
    found, wanted = (kind(model, settings, each, 7).phases[0] for each in (shards, alone))
    for number in {0, 1, found.per_epoch - 1, found.per_epoch + 1}:
        batches = (tree.flatten(batches.at(number)) for batches in (found, wanted))
        for ours, theirs in zip(*batches, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_two_workers_write_what_one_writes_without_near_duplicates(tmp_path, capsys):
    rng = np.random.default_rng(0)
    words = [[f"w{i}" for i in rng.integers(0, 50, 200)] for _ in range(300)]
    for document in words[:100]:
        copy = [*document]
        copy[rng.integers(200)] = "w0w0"
        words.append(copy)
    text = tmp_path / "text"
    text.mkdir()
    WordPieceTokenizer([*SPECIAL, *WORDS]).save(text / "vocabulary")
    for number in range(4):
        documents = ("\n".join(map(" ".join, np.array_split(d, 10))) for d in words[number::4])
        (text / f"{number}.txt").write_text("\n\n".join(documents))
    options = ("--rows=tokens", "--near_duplicates=0.8", "--num_shards=3")
    written = []
    for number, workers in enumerate(((), TWO_WORKERS)):
        run(text, tmp_path / str(number), *options, *workers, shape=())
        output = capsys.readouterr().out
        assert "near duplicates: 100\n" in output and "documents: 300\n" in output
        written.append(contents(tmp_path / str(number)))
    assert written[0] == written[1] and len(written[0]) == 3 * 6
    # With a file that is missing: near duplicates are found among all documents.
    (tmp_path / "0" / "tokens-00001-of-00003" / "index.json").unlink()
    run(text, tmp_path / "0", *options, shape=())
    assert contents(tmp_path / "0") == written[0]


def test_a_program_refuses_shards_of_another_kind_and_flags_that_shards_do_not_depend_on(
    text, tmp_path
):
    preprocessor = small("bert")[0]().preprocessor
    write_tokens([["a b", "c d"]], preprocessor, tmp_path / "tokens")
    index = tmp_path / "tokens" / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"reads": "lines"}))
    opened = functools.partial(TokenShards, [tmp_path / "tokens"], preprocessor.tokenizer)
    assert opened("lines").summary["tokens"] > 0
    assert_refused(lambda: opened("sentences"), "the lines of documents | reads the sentences")
    words = "does not depend on --length"
    assert_refused(lambda: run(text, tmp_path, "--rows=tokens", shape=("--length=32",)), words)


def test_texts_and_objectives_that_there_are_not_are_refused(text, tmp_path):
    assert_refused(lambda: run(text, tmp_path, "--text=/no/*.txt"), "No file matches")
    assert_refused(lambda: run(text, tmp_path, "--objective=none"), "objective is 'none'")
