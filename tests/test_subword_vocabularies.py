"""Trained vocabularies: the tokenizers in the graph read them, with the ids of the libraries."""

import functools
import re
from pathlib import Path

import pytest
from helpers import assert_refused

from bert_zoo.cli import build_vocabulary
from bert_zoo.pretraining import vocabularies
from bert_zoo.pretraining.vocabularies import train_vocabulary
from bert_zoo.text import tokenizer_from_dir

tokenizers = pytest.importorskip("tokenizers")
sentencepiece = pytest.importorskip("sentencepiece")

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
SAMPLES = [
    "A tokenizer's vocabulary, of 1,234 pieces; won't it?",
    "Ünïcode: Ångström – naïve café… 中文 and 😀",
    "  spaces\tand tabs ",
    "zzzzqqqq",
    "",
]


@pytest.fixture(scope="module")
def texts():
    lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").split("\n")]
    # A special token that a text spells out is one token to ours, and text to the libraries.
    return [line for line in lines if line.strip() and not re.search(r"\[[A-Z]+\]|</?\w+>", line)]


def wordpiece(directory, lowercase):
    library = tokenizers.Tokenizer(
        tokenizers.models.WordPiece.from_file(str(directory / "vocab.txt"), unk_token="[UNK]")
    )
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return lambda text: library.encode(text).ids


def byte_bpe(directory, lowercase):
    files = (str(directory / name) for name in ("vocab.json", "merges.txt"))
    library = tokenizers.ByteLevelBPETokenizer(*files)
    return lambda text: library.encode(text).ids


def model(name="spiece.model", before=lambda text, lowercase: text):
    def library(directory, lowercase):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / name))
        return lambda text: processor.encode(before(text, lowercase))

    return library


def as_albert(text, lowercase):
    return vocabularies._without_accents(text) if lowercase else text


def as_xlnet(text, lowercase):
    return vocabularies._without_marks(text.replace("``", '"').replace("''", '"'))


@pytest.mark.parametrize(
    "kind, family, library, lowercase",
    [
        ("wordpiece", "bert", wordpiece, True),
        ("wordpiece", "bert", wordpiece, False),
        ("byte_bpe", "roberta", byte_bpe, False),
        ("byte_bpe_bracketed", "deberta", byte_bpe, False),
        ("sentencepiece", "albert", model(before=as_albert), True),
        ("sentencepiece", "albert", model(before=as_albert), False),
        ("sentencepiece_cased", "xlnet", model(before=as_xlnet), False),
        ("sentencepiece_plain", "deberta_v2", model("spm.model"), False),
        ("sentencepiece_sentinels", "t5", model(), False),
    ],
)
def test_ids_are_those_of_the_library(texts, tmp_path, kind, family, library, lowercase):
    tokens = train_vocabulary(texts, kind, tmp_path, vocab_size=800, lowercase=lowercase)
    tokenizer = tokenizer_from_dir(tmp_path, family)
    assert list(tokenizer.vocabulary) == tokens
    assert len(tokens) == 800
    roles = {f"{role}_id" for role in ("pad", "sep", *(["cls", "mask"] if family != "t5" else []))}
    assert len({getattr(tokenizer, role) for role in roles}) == len(roles)
    encode = library(tmp_path, lowercase)
    some = [*SAMPLES, *texts[::20]]
    if kind.startswith("sentencepiece"):
        # ALBERT's code cuts off a comma behind a number, which the library does not; and versions of the
        # library differ in which of several equal segmentations they take: of "000", and of a table's
        # rule, "|---|---:|", whose pieces are the same in another order.
        some = [re.sub(r"\d+,?|[^\w\s]{4,}", "", text) for text in some]
    for text, ids in zip(some, tokenizer(some).to_list(), strict=True):
        assert ids == encode(text), text
    # A vocabulary of this text knows it: hardly a token is unknown.
    flat = [i for row in tokenizer(texts).to_list() for i in row]
    assert flat.count(tokenizer.unk_id) < 0.01 * len(flat)


def test_a_mask_stands_for_a_word_with_the_space_before_it(texts, tmp_path):
    train_vocabulary(texts, "byte_bpe", tmp_path, vocab_size=800)
    tokenizer = tokenizer_from_dir(tmp_path, "roberta")
    before, mask, after = tokenizer(["the", "<mask>", " of"]).to_list()
    assert tokenizer(["the <mask> of"]).to_list() == [before + mask + after]


def test_errors(texts, tmp_path):
    for kind, options, words in (
        ("bpe", {"vocab_size": 300}, "kind is 'bpe'"),
        ("byte_bpe", {"vocab_size": 300, "lowercase": True}, "does not change texts"),
        ("sentencepiece", {"vocab_size": 90_000}, "cannot make a vocabulary of 90,000 tokens"),
    ):
        assert_refused(functools.partial(train_vocabulary, texts, kind, tmp_path, **options), words)


def test_the_program(tmp_path, capsys):
    arguments = [f"--output={tmp_path}", "--kind=wordpiece", "--vocab_size=500", "--lowercase"]
    build_vocabulary.PROGRAM.run(build_vocabulary.main, [*arguments, *map(str, PAGES)])
    output = capsys.readouterr().out
    assert "Wrote 500 tokens" in output and "sentences" in output
    assert tokenizer_from_dir(tmp_path, "bert").get_config()["lowercase"]
