"""BERTweet's tokenizer gives transformers' ids: tweets normalised in the graph, and BPE with "@@"."""

import gzip
import json
import zlib

import numpy as np
import pytest
from helpers import ALL_GOLDEN

tf = pytest.importorskip("tensorflow")


from bert_zoo.families.bertweet.text import UNKNOWN, TweetNormalizer  # noqa: E402

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


@pytest.mark.skipif(not LINES.is_file(), reason="needs ../shared/data/text")
def test_lines_in_388_languages_are_normalised_as_the_references():
    groups = json.loads(gzip.decompress(LINES.read_bytes()))
    lines = [*groups["udhr"], *groups["single32"], *groups["glue"][:200]]
    wanted = np.load(VOCABULARY / "checksums.npz")["normalized"]
    found = [zlib.crc32(text) & 0xFFFF for text in TweetNormalizer()(lines).numpy()]
    wrong = np.flatnonzero(np.array(found) != wanted)
    assert not wrong.size, (len(wrong), [lines[i] for i in wrong[:3]])
