"""Ids equal those of the reference tokenizers: on written and random texts, every code point, and real texts.

The answers are in tests/golden/text, where tools/references wrote them; of many texts only their checksums.
"""

import functools
import gzip
import json
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import byte_bpe_samples
import numpy as np
import pytest
import text_samples
from helpers import ALL_GOLDEN, ids_in_rust, slow_but, small_sentencepiece
from text_samples import NUM_PAGES, checksum, group_checksums

from bert_zoo.registry import registry
from bert_zoo.text import (
    ByteBpeTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    tokenizer_from_dir,
)

GOLDEN = ALL_GOLDEN / "text"
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared/data"
VOCABULARIES = SHARED_DATA / "vocab"
Answers = Iterable[tuple[list[str], object, Callable[[list], object]]]


@functools.cache
def golden(name: str) -> dict:
    return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))


def each(rows: list) -> list:
    return rows


def by_page(rows: list) -> list[int]:
    return [checksum([row]) for row in rows]


def of_corpora(wanted: dict[str, int]) -> Answers:
    corpora = dict(text_samples.corpora(SHARED_DATA))
    assert corpora.keys() == wanted.keys()
    return [(texts, wanted[name], checksum) for name, texts in corpora.items()]


def wordpiece(configuration: str):
    references, options = golden("references"), text_samples.CONFIGURATIONS[configuration]
    random, written = (references[kind][configuration] for kind in ("random", "written"))
    return WordPieceTokenizer(text_samples.stress_vocabulary(), **options), [
        (text_samples.WRITTEN_TEXTS, written, each),
        (text_samples.random_texts(), random, group_checksums),
    ]


def wordpiece_released(vocabulary: str):
    tokenizer = tokenizer_from_dir(VOCABULARIES / vocabulary)
    return tokenizer, of_corpora(golden("references")["corpora"][vocabulary])


def byte_bpe(configuration: str, kind: str = "own"):
    wanted, options = golden("byte_bpe")[kind], byte_bpe_samples.CONFIGURATIONS[configuration]
    answers = [
        (byte_bpe_samples.WRITTEN, wanted[configuration]["written"], each),
        (byte_bpe_samples.random_texts(), wanted[configuration]["random"], group_checksums),
    ]
    if kind == "own":
        return ByteBpeTokenizer(*byte_bpe_samples.own_vocabulary(), **options), answers
    answers += of_corpora(wanted[configuration]["corpora"])
    answers.append((byte_bpe_samples.long_texts(), wanted[configuration]["long"], checksum))
    if not options["add_prefix_space"]:
        answers.append((["Hello world!"], [[31414, 232, 328]], each))  # fairseq's own example
    return tokenizer_from_dir(VOCABULARIES / "roberta", "roberta", **options), answers


def byte_bpe_pages(configuration: str):
    tokenizer, _ = byte_bpe(configuration)
    pages = [byte_bpe_samples.page_text(page) for page in range(NUM_PAGES)]
    return tokenizer, [(pages, golden("byte_bpe")["own"]["pages"], by_page)]


def sentencepiece(name: str):
    """A tokenizer of a family, and the answers of all but the pages."""
    scheme = registry().families[name.removesuffix("_cased")].text.options["scheme"]
    model = VOCABULARIES / "albert" / "spiece.model"
    if name in ("camembert", "xlm_roberta"):
        content = small_sentencepiece()
    elif name == "xlnet":
        content = text_samples.with_xlnet_tokens(model.read_bytes())
    else:
        content = model.read_bytes()
    options = {"lowercase": False} if name == "albert_cased" else {}
    wanted = pieces_of(name)
    return SentencePieceTokenizer(content, scheme, **options), [
        (golden("sentencepiece")["texts"], wanted["written"], each),
        (text_samples.random_texts(), wanted["random"], group_checksums),
        *(of_corpora(wanted["corpora"]) if SHARED_DATA.is_dir() else ()),
    ]


def pieces_of(name: str) -> dict:
    return golden(name) if name in ("camembert", "xlnet") else golden("sentencepiece")[name]


def sentencepiece_pages(name: str, pages: range):
    texts = [text_samples.page_text(page) for page in pages]
    wanted = [pieces_of(name)["pages"][page] for page in pages]
    return sentencepiece(name)[0], [(texts, wanted, by_page)]


def ids_checksums(rows: list) -> list[int]:
    return [zlib.crc32(np.array(ids, "<i4").tobytes()) & 0xFFFF for ids in rows]


def lines() -> list[str]:
    """In 388 languages, and of films."""
    groups = dict(text_samples.corpora(SHARED_DATA))
    return [*groups["udhr"], *groups["single32"], *groups["glue"][:200]]


def word_bpe(name: str, real: bool = False):
    language, _, cased = name.partition(" ")
    options = {"language": language, "lowercase": cased != "cased"}
    tokenizer = tokenizer_from_dir(ALL_GOLDEN / "word_bpe", "xlm", **options)
    if real:
        wanted = np.load(ALL_GOLDEN / "word_bpe" / "checksums.npz")[name].tolist()
        return tokenizer, [(lines(), wanted, ids_checksums)]
    found = json.loads((ALL_GOLDEN / "word_bpe" / "ids.json").read_text())
    # Of texts with special tokens the reference's own words say nothing.
    pairs = zip(found["texts"], found["ids"][name], strict=True)
    texts, ids = zip(*(pair for pair in pairs if "<special1>" not in pair[0]), strict=True)
    answers = [([*texts], [*ids], each)]
    if language == "en":
        with_special = found["ids"]["with special tokens" + " cased" * bool(cased)]
        answers.append((found["texts"], with_special, each))
    return tokenizer, answers


def tweet_bpe(normalization: str):
    found = json.loads(gzip.decompress((ALL_GOLDEN / "tweet_bpe/texts.json.gz").read_bytes()))
    options = {"normalization": normalization == "true"}
    tokenizer = tokenizer_from_dir(ALL_GOLDEN / "tweet_bpe", "bertweet", **options)
    return tokenizer, [(found["texts"], found["ids"][normalization], each)]


ONE_AND_TWO, OTHER_PLANES = (
    range(128),
    range(128, NUM_PAGES),
)  # the latter hold ideographs above all
BYTE_BPE, SCHEMES = [*byte_bpe_samples.CONFIGURATIONS], ["albert", "albert_cased", "xlm_roberta"]
LANGUAGES = json.loads((ALL_GOLDEN / "word_bpe" / "ids.json").read_text())["ids"]
LANGUAGES = [name for name in LANGUAGES if not name.startswith("with")]
REAL = np.load(ALL_GOLDEN / "word_bpe" / "checksums.npz").files
CASES = {
    **{f"wordpiece {n}": (wordpiece, n) for n in text_samples.CONFIGURATIONS},
    **{f"wordpiece {n}": (wordpiece_released, n) for n in ("bert_uncased", "bert_cased")},
    **{f"byte_bpe {n}": (byte_bpe, n) for n in BYTE_BPE},
    **{f"byte_bpe {n}, released": (byte_bpe, n, "real") for n in BYTE_BPE},
    "byte_bpe pages": (byte_bpe_pages, "released"),
    **{f"sentencepiece {n}": (sentencepiece, n) for n in (*SCHEMES, "xlnet", "camembert")},
    **{
        f"sentencepiece {n} {pages}": (sentencepiece_pages, n, pages)
        for n in (*SCHEMES, "xlnet", "camembert")
        for pages in (ONE_AND_TWO, OTHER_PLANES)
    },
    **{f"word_bpe {n}": (word_bpe, n) for n in LANGUAGES},
    **{f"word_bpe {n}, real": (word_bpe, n, True) for n in REAL},
    **{f"tweet_bpe {n}": (tweet_bpe, n) for n in ("true", "false")},
}
# Minutes together, and shown by the others.
SLOW = {
    *("byte_bpe pages", "tweet_bpe false"),
    *("wordpiece cased_without_accents", "wordpiece bert_uncased", "wordpiece bert_cased"),
    *(f"sentencepiece {n}" for n in ("camembert", "albert_cased", "xlnet")),
    *(f"byte_bpe {n}, released" for n in BYTE_BPE if n != "released"),
    *(f"sentencepiece {n} {ONE_AND_TWO}" for n in ("albert_cased", "xlnet")),
    *(name for name in CASES if str(OTHER_PLANES) in name or "camembert range" in name),
    *(f"word_bpe {n}" for n in LANGUAGES if n not in ("en", "fr cased")),
    *(f"word_bpe {n}, real" for n in REAL if n != "de"),
}


def made(name: str):
    make, *arguments = CASES[name]
    try:
        return make(*arguments)
    except FileNotFoundError as error:
        if SHARED_DATA.is_dir():
            raise
        pytest.skip(f"needs ../shared/data: {error}")


@pytest.mark.parametrize("name", slow_but(CASES, *(name for name in CASES if name not in SLOW)))
def test_ids_are_the_references(name):
    tokenizer, answers = made(name)
    for texts, wanted, digest in answers:
        batches = (texts[start : start + 1000] for start in range(0, len(texts), 1000))
        found = digest([row for batch in batches for row in tokenizer(batch).to_list()])
        if digest is each:
            for text, row, reference in zip(texts, found, wanted, strict=True):
                assert row == reference, text
        elif isinstance(wanted, list):
            wrong = [i for i, x, y in zip(range(len(found)), found, wanted, strict=True) if x != y]
            assert not wrong, f"{len(wrong)} of {len(found)} differ, the first ones {wrong[:5]}"
        assert found == wanted


IN_RUST = [n for n in CASES if n.startswith(("wordpiece", "byte_bpe")) and "pages" not in n]


@pytest.mark.parametrize(
    "name",
    slow_but(
        [*IN_RUST, "sentencepiece xlm_roberta"],
        "wordpiece uncased",
        "byte_bpe released",
        "sentencepiece xlm_roberta",
    ),
)
def test_the_library_in_rust_gives_the_same_ids_but_for_what_the_tokenizer_says(name):
    pytest.importorskip("tokenizers")
    tokenizer, answers = made(name)
    texts = [text for texts, *_ in answers for text in texts[:2000]]
    pairs = zip(texts, ids_in_rust(tokenizer, texts), tokenizer(texts).to_list(), strict=True)
    different = [text for text, ours, theirs in pairs if ours != theirs]
    # Long runs of a letter, and marks that are read together with what precedes them.
    assert not [text for text in different if text.isascii() and "x" * 50 not in text]
    assert len(different) <= (0.03 * len(texts) if tokenizer.rust_differences else 0)
    assert bool(tokenizer.rust_differences) == name.startswith("sentencepiece")


def test_the_written_texts_test_more_than_unknown_tokens():
    rows = golden("references")["written"]["uncased"]
    assert len({index for row in rows for index in row}) > 100
    for name in SCHEMES:
        assert len({index for row in pieces_of(name)["written"] for index in row}) > 150
