"""XLM's tokenizer gives transformers' ids: Moses' words, and BPE with "</w>"."""

import gzip
import json
import zlib

import numpy as np
import pytest
from helpers import ALL_GOLDEN, slow_but

tf = pytest.importorskip("tensorflow")

from bert_zoo.text import WordBpeTokenizer, tokenizer_from_dir  # noqa: E402
from bert_zoo.text.word_bpe import WordMerger  # noqa: E402

VOCABULARY = ALL_GOLDEN / "word_bpe"
TEXTS = ALL_GOLDEN.parents[2] / "shared/data/text/tokenizer_texts.json.gz"
REFERENCE = json.loads((VOCABULARY / "ids.json").read_text())


def tokenizer_of(name: str, **options) -> WordBpeTokenizer:
    language, _, cased = name.partition(" ")
    options = {"language": language, "lowercase": cased != "cased", **options}
    return tokenizer_from_dir(VOCABULARY, "xlm", **options)


NAMES = [name for name in REFERENCE["ids"] if not name.startswith("with")]


@pytest.mark.parametrize("name", slow_but(NAMES, "en", "fr cased"))
def test_ids_are_the_references(name):
    # Of texts with special tokens the reference's own words say nothing.
    pairs = zip(REFERENCE["texts"], REFERENCE["ids"][name], strict=True)
    texts, wanted = zip(*(pair for pair in pairs if "<special1>" not in pair[0]), strict=True)
    found = tokenizer_of(name)(list(texts)).to_list()
    for text, ids, reference in zip(texts, found, wanted, strict=True):
        assert ids == reference, text


@pytest.mark.parametrize("cased", ["", " cased"])
def test_special_tokens_are_found_in_texts(cased):
    found = tokenizer_of("en" + cased)(REFERENCE["texts"]).to_list()
    assert found == REFERENCE["ids"]["with special tokens" + cased]


@pytest.mark.parametrize("name", slow_but(np.load(VOCABULARY / "checksums.npz").files, "de"))
@pytest.mark.skipif(not TEXTS.is_file(), reason="needs ../shared/data/text")
def test_ids_of_lines_in_388_languages_are_the_references(name):
    groups = json.loads(gzip.decompress(TEXTS.read_bytes()))
    lines = [*groups["udhr"], *groups["single32"], *groups["glue"][:200]]
    wanted = np.load(VOCABULARY / "checksums.npz")[name]
    found = [
        zlib.crc32(np.array(ids, "<i4").tobytes()) & 0xFFFF
        for ids in tokenizer_of(name)(lines).to_list()
    ]
    wrong = np.flatnonzero(np.array(found) != wanted)
    assert not wrong.size, (len(wrong), [lines[i] for i in wrong[:3]])


def test_merges_in_any_order_are_followed():
    # "ab c" makes what an earlier merge uses: no merge is safe.
    merges = [("abc", "d</w>"), ("a", "b"), ("ab", "c"), ("b", "b")]
    tokens = ["a", "b", "c", "ab", "abc", "abcd</w>", "d</w>", "b</w>", "bb"]
    merger = WordMerger({token: index for index, token in enumerate(tokens)}, merges, 0)
    names = [[tokens[i] for i in ids] for ids in merger(tf.constant(["abcd", "bbbb"])).to_list()]
    assert names == [["abcd</w>"], ["bb", "b", "b</w>"]]


def test_words_of_other_libraries_are_asked_for():
    for language, library in (("zh", "rjieba"), ("ja", "Mykytea"), ("th", "pythainlp")):
        with pytest.raises(ValueError, match=rf"{library}.*pretokenized=True"):
            tokenizer_of(language)
        assert tokenizer_of(language, pretokenized=True)(["a b"]).row_lengths()[0] == 2


def test_languages_are_the_models():
    languages = {"de": 0, "en": 1}
    tokenizer = tokenizer_of("de", languages=languages)
    assert tokenizer.language_id == 0 and tokenizer.in_language("en").language_id == 1
    with pytest.raises(ValueError, match=r"language is 'fr'.*de, en"):
        tokenizer.in_language("fr")


def test_files_are_written_and_read(tmp_path):
    tokenizer = tokenizer_of("fr cased", languages={"en": 0, "fr": 1})
    tokenizer.save(tmp_path)
    again = tokenizer_from_dir(tmp_path, "xlm")
    assert again.get_config() == tokenizer.get_config()
    assert again(["L'été"]).to_list() == tokenizer(["L'été"]).to_list()
    assert tokenizer.detokenize(tokenizer(["oui et non"]))[0] == b"oui et non"
