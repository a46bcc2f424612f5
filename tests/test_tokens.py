"""Tokenized texts: what is read is what the tokenizer gives, after a stop too."""

import errno
import json
import os
import pickle
import re

import numpy as np
import pytest
from helpers import assert_refused

from bert_zoo.pretraining import tokens
from bert_zoo.pretraining.batches import BatchesInTurn, StreamRowBatches
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.tokens import TokenizedText, TokenShards, shards_of, write_tokens
from bert_zoo.text import Preprocessor, WordPieceTokenizer
from bert_zoo.weights.files import DiskFullError

WORDS = ["alpha", "beta", "gamma", "delta", "##s", "##ly", ".", ","]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def made(vocabulary=VOCABULARY, **options):
    return Preprocessor(WordPieceTokenizer(vocabulary, **options), sequence_length=16)


@pytest.fixture(scope="module")
def preprocessor():
    return made()


def some_documents(number=60, seed=0):
    """Documents of 1 to 8 sentences; one of them is long, one has a sentence without tokens."""
    rng = np.random.default_rng(seed)

    def sentence():
        words = rng.choice(["alpha", "betas", "gammaly", "delta", "alphas"], rng.integers(1, 12))
        return f"{' '.join(words)}."

    documents = [[sentence() for _ in range(rng.integers(1, 9))] for _ in range(number)]
    documents[5] = [sentence() for _ in range(900)]
    documents[7].insert(1, "\u200e")
    return documents


def test_tokens_are_what_the_tokenizer_gives(tmp_path, preprocessor):
    documents = some_documents()
    written = write_tokens(Corpus(documents), preprocessor, tmp_path)
    assert len(written) == len(documents)
    everything = []
    for number, document in enumerate(documents):
        ids = [ids for ids in preprocessor.tokenizer(document).to_list() if ids]
        found = written.document(number)
        np.testing.assert_array_equal(found.sentence_starts, np.cumsum([0, *map(len, ids[:-1])]))
        np.testing.assert_array_equal(found.token_ids, np.concatenate(ids))
        continues = [VOCABULARY[i].startswith("##") for i in found.token_ids]
        np.testing.assert_array_equal(found.word_starts, ~np.array(continues))
        everything.append(np.concatenate(ids))
    everything = np.concatenate(everything)
    assert (found.token_ids.dtype, written.stream().dtype) == (np.int32, np.uint16)
    np.testing.assert_array_equal(written.stream(), everything)
    assert written.num_tokens == len(everything) == written.sentence_starts[-1]
    assert written.num_sentences == written.document_starts[-1] == len(written.sentence_starts) - 1
    np.testing.assert_array_equal(written.counts, np.bincount(everything, minlength=13))
    assert written.special_ids == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert written.layout == preprocessor.packer.layout
    assert written.index["corpus"]["duplicate_sentences"] > 0
    starts, lengths = np.array([2000, 0, 1, 2000]), np.array([2100, 3, 4000, 1])
    wanted = [everything[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    for each in (written, pickle.loads(pickle.dumps(written))):
        np.testing.assert_array_equal(each.read(starts, lengths), np.concatenate(wanted))
    assert written.read([], []).shape == (0,)
    with pytest.raises(IndexError, match="no document 60"):
        written.document(60)


def test_a_program_that_was_stopped_writes_the_same_files(tmp_path, preprocessor):
    documents = some_documents()
    whole = write_tokens(documents, preprocessor, tmp_path / "whole")

    def stopped():
        yield from documents[:40]
        raise KeyboardInterrupt

    directory = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        write_tokens(stopped(), preprocessor, directory)
    with pytest.raises(FileNotFoundError, match=r"no index\.json"):
        TokenizedText(directory)
    (directory / "tokens.bin").write_bytes(b"of a killed process")
    write_tokens(documents, preprocessor, directory)
    names = {path.name for path in directory.iterdir()}
    assert names == {path.name for path in whole.directory.iterdir()} > {"index.json"}
    assert ".lock" not in names
    for name in names:
        assert (directory / name).read_bytes() == (whole.directory / name).read_bytes(), name
    # Once more, when there is nothing left to do.
    assert len(write_tokens(documents, preprocessor, directory)) == len(documents)
    for others in (documents[:-1], [*documents, ["alpha"]]):
        with pytest.raises(ValueError, match="other documents"):
            write_tokens(others, preprocessor, directory)


def test_another_vocabulary_is_refused(tmp_path, preprocessor):
    write_tokens([["alpha beta."], ["gamma."]], preprocessor, tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    assert (index["documents"], index["sentences"], index["tokens"]) == (2, 2, 5)
    for other in (made([*VOCABULARY[:-1], ";"]), made(lowercase=False)):
        with pytest.raises(ValueError, match="WordPieceTokenizer with 13 tokens"):
            TokenizedText(tmp_path, other.tokenizer)
        with pytest.raises(ValueError, match="another vocabulary"):
            write_tokens([["alpha beta."]], other, tmp_path)
    # How long rows are does not matter.
    TokenizedText(tmp_path, preprocessor.with_options(sequence_length=8).tokenizer)


@pytest.mark.parametrize(
    "name", ["tokens.bin", "sentences.bin", "documents.bin", "counts.npy", "begins_word.npy"]
)
def test_a_damaged_file_is_refused_with_its_name_and_the_next_step(tmp_path, preprocessor, name):
    documents = some_documents(10)
    write_tokens(documents, preprocessor, tmp_path)
    path, remedy = tmp_path / name, rf"Delete the directory .*{tmp_path.name} to tokenize"
    content = path.read_bytes()
    changes = [content[: len(content) // 2], b"", content[:-1], content * 2]
    if name.endswith("npy"):
        np.save(path, np.zeros(12))
        changes.append(path.read_bytes())
    for changed in changes:
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=rf"{re.escape(str(path))} .*{remedy}"):
            TokenizedText(tmp_path)
        with pytest.raises(ValueError, match=remedy):
            write_tokens(documents, preprocessor, tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=name):
        TokenizedText(tmp_path)
    path.write_bytes(content)
    index = tmp_path / "index.json"
    for changed in (index.read_bytes()[:99], b"", b"{}"):
        index.write_bytes(changed)
        with pytest.raises(ValueError, match=r"index\.json"):
            TokenizedText(tmp_path)


def test_a_full_disk_is_said_with_the_files_name(tmp_path, preprocessor, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(DiskFullError, match=r"tokens\.bin"):
        patched.setattr(os, "fsync", full)
        write_tokens(some_documents(), preprocessor, tmp_path)
    assert len(write_tokens(some_documents(), preprocessor, tmp_path)) == 60


def test_text_without_tokens(tmp_path, preprocessor):
    with pytest.raises(ValueError, match="no tokens"):
        write_tokens([["\u200e"]], preprocessor, tmp_path)


def test_shards_are_one_text_of_which_groups_are_read(tmp_path, preprocessor, monkeypatch):
    documents = some_documents()
    whole = write_tokens(documents, preprocessor, tmp_path / "whole")
    for number in range(6):
        some = documents[10 * number : 10 * number + 10]
        write_tokens(some, preprocessor, tmp_path / "shards" / f"{number}")
    folders = shards_of((tmp_path / "shards").rglob("*"))
    shards = TokenShards(folders, preprocessor.tokenizer, "sentences")
    text = shards.part(5, (1,))
    assert (len(text), text.num_tokens) == (60, whole.num_tokens)
    for name in ("document_starts", "sentence_starts", "counts", "begins_word"):
        np.testing.assert_array_equal(getattr(text, name), getattr(whole, name))
    np.testing.assert_array_equal(text.stream(), whole.stream())
    assert shards.summary["documents"] == 60 and shards.part(0) is shards.part(9)

    monkeypatch.setattr(tokens, "GROUP_TOKENS", whole.num_tokens // 3 + 1)
    shards = TokenShards(folders, preprocessor.tokenizer, "sentences")
    passes = [[shards.part(3 * epoch + part, (7,)) for part in range(3)] for epoch in range(4)]
    for parts in passes:
        assert [len(part) for part in parts] == [20] * 3
        read = np.concatenate([part.stream() for part in parts])
        np.testing.assert_array_equal(np.sort(read), np.sort(whole.stream()))
    assert len({tuple(part.num_tokens for part in parts) for parts in passes}) > 1

    # Batches of the parts follow each other, and resuming needs only those that are left.
    def rows(number):
        return StreamRowBatches(shards.part(number, (7,)).stream(), 4, 10, seed=7)

    batches, sizes = BatchesInTurn(rows), [rows(number).per_epoch for number in range(4)]
    found = [batches.at(number)["token_ids"] for number in range(sum(sizes))]
    assert batches.starts == [0, *np.cumsum(sizes)]
    wanted = [rows(n).at(n * size + i) for n, size in enumerate(sizes) for i in range(size)]
    np.testing.assert_array_equal(found, [batch["token_ids"] for batch in wanted])

    write_tokens(documents, made([*VOCABULARY, "epsilon"]), folders[0].parent / "other")
    others = shards_of((tmp_path / "shards").rglob("*"))
    assert_refused(
        lambda: TokenShards(others, preprocessor.tokenizer, "sentences"),
        "other has tokens of another vocabulary",
    )
    assert_refused(lambda: shards_of([tmp_path]), "no folder has a file index.json")
