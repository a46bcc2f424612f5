"""Token shards: what is read is what the tokenizer gives, after a stop too."""

import json
import pickle

import numpy as np
import pytest

from bert_zoo.data import token_shards
from bert_zoo.data.corpus import Corpus
from bert_zoo.data.token_shards import (
    RECORD_TOKENS,
    TokenShards,
    write_token_shards,
)
from bert_zoo.text import Preprocessor, WordPieceTokenizer

WORDS = ["alpha", "beta", "gamma", "delta", "##s", "##ly", ".", ","]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def made(vocabulary=VOCABULARY):
    return Preprocessor(WordPieceTokenizer(vocabulary), sequence_length=16)


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


def expected(preprocessor, document):
    ids = [ids for ids in preprocessor.tokenizer(document).to_list() if ids]
    return np.concatenate(ids), np.cumsum([0, *map(len, ids[:-1])])


@pytest.mark.parametrize("shard_tokens", [500, 1 << 24])
def test_shards_hold_what_the_tokenizer_gives(tmp_path, preprocessor, shard_tokens, monkeypatch):
    documents = some_documents()
    shards = write_token_shards(
        Corpus(documents), preprocessor, tmp_path / "a", shard_tokens=shard_tokens
    )
    assert len(shards) == len(documents)
    assert (len(shards.index["shards"]) > 2) == (shard_tokens == 500)
    everything = []
    for number, document in enumerate(documents):
        ids, sentences = expected(preprocessor, document)
        found = shards.document(number)
        np.testing.assert_array_equal(found.token_ids, ids)
        np.testing.assert_array_equal(found.sentence_starts, sentences)
        continues = [VOCABULARY[i].startswith("##") for i in ids]
        np.testing.assert_array_equal(found.word_starts, ~np.array(continues))
        everything.append(ids)
    everything = np.concatenate(everything)
    assert found.token_ids.dtype == np.int32
    assert shards.num_tokens == len(everything) == shards.sentence_starts[-1]
    assert shards.num_sentences == shards.document_starts[-1] == len(shards.sentence_starts) - 1
    np.testing.assert_array_equal(shards.counts, np.bincount(everything, minlength=len(VOCABULARY)))
    assert shards.special_ids == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert shards.layout == preprocessor.packer.layout
    assert shards.index["corpus"]["duplicate_sentences"] > 0

    # Runs from anywhere, in any order, also over the ends of records.
    long = int(shards.sentence_starts[shards.document_starts[5]])
    assert shards.document(5).token_ids.size > 2 * RECORD_TOKENS
    starts, lengths = np.array([long + 2000, 0, long + 1, long]), np.array([2100, 3, 4000, 1])
    wanted = [everything[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    np.testing.assert_array_equal(shards.read(starts, lengths), np.concatenate(wanted))
    np.testing.assert_array_equal(shards.read(starts, lengths), np.concatenate(wanted))
    monkeypatch.setattr(token_shards, "KEPT_RECORDS", 0)
    bare = TokenShards(shards.directory)
    np.testing.assert_array_equal(bare.read(starts, lengths), np.concatenate(wanted))
    assert shards.read([], []).shape == (0,)
    again = pickle.loads(pickle.dumps(shards))
    np.testing.assert_array_equal(again.document(3).token_ids, shards.document(3).token_ids)
    with pytest.raises(IndexError, match="no document 60"):
        shards.document(60)


def test_a_program_that_was_stopped_goes_on(tmp_path, preprocessor):
    documents = some_documents()
    whole = write_token_shards(documents, preprocessor, tmp_path / "whole", shard_tokens=500)

    def stopped():
        yield from documents[:40]
        raise KeyboardInterrupt

    directory = tmp_path / "parts"
    # Tokens are written while documents are read: some shards are finished before the stop.
    with pytest.raises(KeyboardInterrupt):
        write_token_shards(
            stopped(), preprocessor, directory, shard_tokens=500, batch_characters=2000
        )
    finished = sorted(directory.glob("*.npz"))
    assert finished and not (directory / "index.json").exists()
    with pytest.raises(FileNotFoundError, match=r"no index\.json"):
        TokenShards(directory)
    written = [path.stat().st_mtime_ns for path in finished]
    with pytest.raises(ValueError, match="other documents"):
        write_token_shards(some_documents(seed=1), preprocessor, directory)
    write_token_shards(documents, preprocessor, directory, shard_tokens=500)
    assert [path.stat().st_mtime_ns for path in finished] == written
    names = {path.name for path in directory.iterdir()}
    assert ".lock" not in names
    assert names == {path.name for path in whole.directory.iterdir()}
    for name in names:
        if not name.endswith(".npz"):  # archives hold times
            assert (directory / name).read_bytes() == (whole.directory / name).read_bytes(), name
    # And once more, when there is nothing left to do.
    assert len(write_token_shards(documents, preprocessor, directory)) == len(documents)
    for others in (documents[:-1], [*documents, ["alpha"]]):
        with pytest.raises(ValueError, match="other documents"):
            write_token_shards(others, preprocessor, directory)


def test_another_vocabulary_is_refused(tmp_path, preprocessor):
    write_token_shards([["alpha beta."]], preprocessor, tmp_path)
    others = [
        made([*VOCABULARY[:-1], ";"]),
        Preprocessor(WordPieceTokenizer(VOCABULARY, lowercase=False), sequence_length=16),
    ]
    for other in others:
        with pytest.raises(ValueError, match="WordPieceTokenizer with 13 tokens"):
            TokenShards(tmp_path, other.tokenizer)
        with pytest.raises(ValueError, match="another vocabulary"):
            write_token_shards([["alpha beta."]], other, tmp_path)
    # How long rows are does not matter.
    TokenShards(tmp_path, preprocessor.with_options(sequence_length=8).tokenizer)


def test_text_without_tokens(tmp_path, preprocessor):
    with pytest.raises(ValueError, match="no tokens"):
        write_token_shards([["\u200e"]], preprocessor, tmp_path)


def test_index_is_readable(tmp_path, preprocessor):
    write_token_shards([["alpha beta."], ["gamma."]], preprocessor, tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    assert (index["documents"], index["sentences"], index["tokens"]) == (2, 2, 5)
