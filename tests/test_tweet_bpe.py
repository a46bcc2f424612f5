"""BERTweet's tokenizer gives transformers' ids: tweets normalised in the graph, and BPE with "@@"."""

import gzip
import json
import zlib

import numpy as np
import pytest
from helpers import ALL_GOLDEN

tf = pytest.importorskip("tensorflow")

import bert_zoo  # noqa: E402
from bert_zoo.config import ConfigError  # noqa: E402
from bert_zoo.text import TweetBpeTokenizer, TweetNormalizer, tokenizer_from_dir  # noqa: E402
from bert_zoo.text.tweets import UNKNOWN  # noqa: E402
from bert_zoo.weights.cache import MODEL_FILES  # noqa: E402

VOCABULARY = ALL_GOLDEN / "tweet_bpe"
MODELS = ALL_GOLDEN / "bertweet"
LINES = ALL_GOLDEN.parents[2] / "shared/data/text/tokenizer_texts.json.gz"
REFERENCE = json.loads(gzip.decompress((VOCABULARY / "texts.json.gz").read_bytes()))


def test_tweets_are_normalised_as_the_references():
    # A lone surrogate has no UTF-8; the reference's became "?" where it was written.
    found = [
        text.decode().replace(UNKNOWN, "?")
        for text in TweetNormalizer()(REFERENCE["texts"]).numpy()
    ]
    for text, normalized, wanted in zip(
        REFERENCE["texts"], found, REFERENCE["normalized"], strict=True
    ):
        assert normalized == wanted, text


@pytest.mark.parametrize("normalization", [True, False])
def test_ids_are_the_references(normalization):
    tokenizer = tokenizer_from_dir(VOCABULARY, "bertweet", normalization=normalization)
    found = tokenizer(REFERENCE["texts"]).to_list()
    wanted = REFERENCE["ids"][str(normalization).lower()]
    for text, ids, reference in zip(REFERENCE["texts"], found, wanted, strict=True):
        assert ids == reference, text


@pytest.mark.skipif(not LINES.is_file(), reason="needs ../shared/data/text")
def test_lines_in_388_languages_are_normalised_as_the_references():
    groups = json.loads(gzip.decompress(LINES.read_bytes()))
    lines = [*groups["udhr"], *groups["single32"], *groups["glue"][:200]]
    wanted = np.load(VOCABULARY / "checksums.npz")["normalized"]
    found = [zlib.crc32(text) & 0xFFFF for text in TweetNormalizer()(lines).numpy()]
    wrong = np.flatnonzero(np.array(found) != wanted)
    assert not wrong.size, (len(wrong), [lines[i] for i in wrong[:3]])


def test_files_are_written_and_read(tmp_path):
    assert tokenizer_from_dir(VOCABULARY, "bertweet").get_config()["normalization"]
    tokenizer = tokenizer_from_dir(VOCABULARY, "bertweet", normalization=False)
    tokenizer.save(tmp_path)
    # What a directory is made of is fetched from a hub, too.
    for path in tmp_path.iterdir():
        assert any(path.match(pattern) for pattern in MODEL_FILES), path.name
    for name in ("vocab.txt", "bpe.codes"):
        assert (tmp_path / name).read_text() == (VOCABULARY / name).read_text()
    again = tokenizer_from_dir(tmp_path, "bertweet")
    assert again.get_config() == tokenizer.get_config()
    assert again.vocabulary == tokenizer.vocabulary and again.merges == tokenizer.merges
    assert again.detokenize(again(["I'm so happy"]))[0] == b"I'm so happy"


def test_bad_files_are_named(tmp_path):
    (tmp_path / "vocab.txt").write_text("the 12\nof\n")
    with pytest.raises(FileNotFoundError, match=r"lacks bpe\.codes"):
        tokenizer_from_dir(tmp_path, "bertweet")
    (tmp_path / "bpe.codes").write_text("t h 3\n")
    with pytest.raises(ConfigError, match=r"vocab\.txt, line 2 is 'of'.*its count"):
        tokenizer_from_dir(tmp_path, "bertweet")
    with pytest.raises(ValueError, match=r"begins with <pad>, <s>.*first tokens are <s>, <pad>"):
        TweetBpeTokenizer(["<pad>", "<s>", "</s>", "<unk>", "<mask>"], [])


@pytest.mark.slow
def test_a_saved_model_reads_tweets(tmp_path):
    model = bert_zoo.load(MODELS / "encoder", task="classification", num_classes=2)
    tweets = ["@me the cat's 😂 www.x.yz", "RT @you: the dog is &lt;3"]
    wanted = model.predict(np.array(tweets, object))
    bert_zoo.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    found = served(text=tf.constant(tweets))
    np.testing.assert_allclose(found["logits"], wanted, atol=1e-5)
