"""XLM's tokenizer gives transformers' ids: Moses' words, and BPE with "</w>"."""

import functools
import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, slow_but
from offset_samples import mark_texts
from text_samples import WRITTEN_TEXTS, random_texts

from bert_zoo import load
from bert_zoo.config import ConfigError
from bert_zoo.families.xlm.text import MosesWords, WordBpeTokenizer
from bert_zoo.text import tokenizer_from_dir
from bert_zoo.text.byte_bpe import WordMerger

VOCABULARY = ALL_GOLDEN / "word_bpe"
REFERENCE = json.loads((VOCABULARY / "ids.json").read_text())


def tokenizer_of(name: str, **options) -> WordBpeTokenizer:
    language, _, cased = name.partition(" ")
    options = {"language": language, "lowercase": cased != "cased", **options}
    return tokenizer_from_dir(VOCABULARY, "xlm", **options)


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


# --- Which characters tokens stand for ---

# By hand: words, and where one is more than in other case of what it stands for, that before it.
SPANS = {
    "en": {
        "Mr. O'Neil&amp;co. can't.": ["mr. o 'neil & amp ; co. can 't ."],
        "``Hi'', he said…": [("``", '"'), "hi", ("''", '"'), ", he said", ("…", "...")],
        "He left”. So?": ["he left", ("”.", "."), ("”.", '"'), "so ?"],
        "Cafe\u0301 ÉTÉ ﬁn ℡": ["cafe", ("ÉTÉ", "ete"), "ﬁn ℡"],
        "İs ΟΔΟΣ": [("İs", "is"), "οδος"],
        "日本（東京）は１。 ": [
            *("日 本", ("（", "("), "東 京", ("）", ")"), ("は１", "は1"), ("。", "."))
        ],
        "ไทย ไม่ใช่": ["ไทย ไม ใช"],
        "3\u00a0000 a\u200b\tb": [("3\u00a0000", "3.000"), ("a\u200b\tb", "ab")],
        "1,000, e.g. 5-6 -- wait....": ["1,000 , e.g. 5-6 -- wait ...."],
        "\r\n A\u00a0%": ["a %"],
    },
    "de": {
        "„Nein,“ sagte er.": [("„", '"'), "nein", (",“", '"'), (",“", ","), "sagte er ."],
        'Er kam." Dann, d.h. 3\u00a0000 €': [
            *("er kam", ('."', '"'), ('."', "."), "dann , d.h."),
            *(("3\u00a0000", "3,000"), "€"),
        ],
    },
    "fr cased": {
        "L’été «\u00a0chaud » !": [("L’", "L'"), "été", ("«", '"'), "chaud", ("»", '"'), "!"]
    },
    "ko": {
        "각 좋다.": [("각", "\u1100\u1161\u11a8"), ("좋다", "\u110c\u1169\u11c2\u1103\u1161"), "."]
    },
}


@pytest.mark.parametrize("name", slow_but(SPANS, "en"))
def test_words_stand_for_what_they_were_in_the_text(name):
    language, _, cased = name.partition(" ")
    texts = [*SPANS[name]]
    words, spans = MosesWords(language, lowercase=not cased).with_spans(tf.constant(texts))
    lengths = tf.strings.length(words.values, unit="UTF8_CHAR").numpy()
    assert lengths.sum() == len(spans)
    behind = lengths.cumsum()
    starts, ends = spans.numpy()[behind - lengths, 0], spans.numpy()[behind - 1, 1]
    found = [[] for _ in texts]
    for row, word, start, end in zip(
        words.value_rowids(), words.values.numpy(), starts, ends, strict=True
    ):
        was, word = texts[row][start:end], word.decode()
        found[row].append(word if word.lower() == was.lower() else (was, word))
    for text, wanted, result in zip(texts, SPANS[name].values(), found, strict=True):
        split = [item.split() if isinstance(item, str) else [item] for item in wanted]
        assert result == [*itertools.chain(*split)], text


@functools.cache
def many_texts() -> list[str]:
    found = [*REFERENCE["texts"], *WRITTEN_TEXTS, *mark_texts(300), *random_texts(300)]
    # What the rules look for, in any order.
    rng = np.random.default_rng(7)
    signs = "\"'`.,:;?!()%<5a\u00e9「」“”‘’„«»—–…。， \u00a0\r\t\u3000\u200b"
    parts = [*signs, *"'' nº ºC S <special1>".split()]
    return found + ["".join(rng.choice(parts, rng.integers(2, 14))) for _ in range(600)]


OFFSET_NAMES = ("en", "de", "fr cased", "ro", "ko cased", "xx")


@pytest.mark.parametrize("name", slow_but(OFFSET_NAMES, "de"))
def test_offsets_are_of_what_becomes_the_token(name):
    tokenizer, texts = tokenizer_of(name), many_texts()
    ids, starts, ends = (column.to_list() for column in tokenizer.tokenize_with_offsets(texts))
    assert ids == tokenizer(texts).to_list()
    found = set()
    for text, of_text, *spans in zip(texts, ids, starts, ends, strict=True):
        spans = np.array(spans)
        assert (np.diff(spans) >= 0).all() and (spans[0] < spans[1]).all(), text
        assert not spans.size or (spans.min() >= 0 and spans.max() <= len(text)), text
        slices = [text[start:end] for start, end in spans.T]
        found |= {*zip(slices, map(tokenizer.id_to_token, of_text), strict=True)}
    slices, tokens = zip(*sorted(found), strict=True)
    language, _, cased = name.partition(" ")
    words = MosesWords(language, lowercase=not cased)(tf.constant(slices))
    normalized = tf.strings.reduce_join(words, axis=1).numpy()
    for was, becomes, token in zip(slices, normalized, tokens, strict=True):
        token = token.removesuffix("</w>")
        if token in ("<s>", "</s>", "<pad>") or token.startswith("<special"):
            assert was == token
        elif was.isspace():  # between digits
            assert token in ".,"
        elif token != "<unk>":
            assert token.replace("ς", "σ") in becomes.decode().replace("ς", "σ"), (was, token)


@pytest.mark.slow
def test_words_that_were_found_before_have_offsets():
    tokenizer = tokenizer_of("zh", pretokenized=True)
    text = " 我 喜欢\u3000THE <special1>cat"
    ids, starts, ends = (column.to_list()[0] for column in tokenizer.tokenize_with_offsets(text))
    assert ids == tokenizer(text).to_list()[0]
    found = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    assert found == "".join(text.split())


# --- The files of the authors' program -----------------------------------------------------------

PROGRAM = ALL_GOLDEN / "xlm" / "program"
PROGRAM_TEXTS = ["The cat's bird, and the DOG is on it!", "Thé <special1> sat... 29", ""]


def test_the_programs_files_read_as_hugging_faces():
    twin = ALL_GOLDEN / "xlm" / "masked_lm_translation"
    found, wanted = (tokenizer_from_dir(path, "xlm", language="de") for path in (PROGRAM, twin))
    assert (found.vocabulary, found.merges) == (wanted.vocabulary, wanted.merges)
    assert found.get_config() == wanted.get_config()
    assert found(PROGRAM_TEXTS).to_list() == wanted(PROGRAM_TEXTS).to_list()


def test_words_with_capitals_mean_that_case_is_kept(tmp_path):
    content = (PROGRAM / "mlm_defren.pth").read_bytes()
    word = b"X\x03\x00\x00\x00"  # a string of three letters
    assert content.count(word + b"the") == 1  # told once, and remembered
    (tmp_path / "best.pth").write_bytes(content.replace(word + b"the", word + b"The"))
    shutil.copy(PROGRAM / "codes_defren", tmp_path / "codes")
    assert not tokenizer_from_dir(tmp_path, "xlm").get_config()["lowercase"]
    assert tokenizer_from_dir(tmp_path, "xlm", lowercase=True).get_config()["lowercase"]


def test_a_program_file_without_merges_or_words_is_named(tmp_path):
    shutil.copy(PROGRAM / "mlm_defren.pth", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"merges of mlm_defren.pth .* such as codes_en"):
        tokenizer_from_dir(tmp_path, "xlm")
    shutil.copy(ALL_GOLDEN / "torch_bin" / "zip.bin", tmp_path / "mlm_defren.pth")
    with pytest.raises(ConfigError, match=r"no entries params and dico_id2word. bert_zoo reads"):
        load(tmp_path)
