import gzip
import json
import logging
from pathlib import Path
from random import Random

import pytest
import tensorflow as tf
import text_samples
from helpers import assert_refused, slow_but

from bert_zoo import text
from bert_zoo.text import wordpiece
from bert_zoo.text.normalizer import build_rules, split_words

ROOT = Path(__file__).resolve().parent.parent
REFERENCES = ROOT / "tests" / "golden" / "text" / "references.json.gz"

SMALL_VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "un", "##aff", "##able"),
    *("é", "e", "!", "中", "hé", "##llo"),
]


@pytest.fixture(scope="module")
def references():
    return json.loads(gzip.decompress(REFERENCES.read_bytes()))


@pytest.fixture(scope="module")
def small():
    return text.WordPieceTokenizer(SMALL_VOCABULARY)


# --- Ids equal the reference's ---


# The planes above the first two hold ideographs and little else.
PAGES = [
    pytest.param(slice(0, 128), id="planes 0 and 1"),
    pytest.param(slice(128, None), id="planes 2 to 16", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("pages", PAGES)
@pytest.mark.parametrize(
    "configuration",
    slow_but(("uncased", "cased", "uncased_with_accents", "cased_without_accents"), "uncased"),
)
def test_every_code_point_in_every_context_gives_the_references_words(
    configuration, pages, references
):
    options = dict(text_samples.CONFIGURATIONS[configuration])
    if options["strip_accents"] is None:
        options["strip_accents"] = options["lowercase"]
    rules = build_rules(**options)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def words_of(texts):
        words = tf.strings.unicode_encode(split_words(texts, rules)[0], "UTF-8")
        return tf.strings.reduce_join(words, axis=1, separator="\n")

    numbers = range(text_samples.NUM_PAGES)[pages]
    texts = [text_samples.page_text(page) for page in numbers]
    found = [
        text_samples.checksum([words.decode()])
        for start in range(0, len(texts), 64)
        for words in words_of(texts[start : start + 64]).numpy()
    ]
    expected = references["pages"][configuration][pages]
    of_pages = zip(numbers, found, expected, strict=True)
    different = [hex(page * text_samples.PAGE) for page, ours, theirs in of_pages if ours != theirs]
    assert different == [], "pages of code points on which words differ from the reference's"


def greedy_pieces(word, vocabulary):
    """Longest match first, as the WordPiece paper's pseudo-code says it."""
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if prefix + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def test_ascii_rows_get_the_same_ids_as_on_the_general_path():
    """Also with tokens that hold punctuation or are a lone "##", which no text can match."""
    random = Random(3)
    alphabet = "abAB#'.[ "
    for _ in range(3):
        pieces = {"".join(random.choices("ab#'.[", k=random.randint(1, 4))) for _ in range(60)}
        tokens = pieces | {"##" + piece for piece in pieces} | {"##"}
        vocabulary = [*SMALL_VOCABULARY[:5], *sorted(tokens)]
        tokenizer = text.WordPieceTokenizer(vocabulary, max_word_length=6)
        rows = ["".join(random.choices(alphabet, k=random.randint(0, 40))) for _ in range(100)]
        general = tf.constant([row + "\u0301" for row in rows])  # a mark that is dropped
        assert tokenizer(rows).to_list() == tokenizer(general).to_list()


def test_words_are_spelled_by_greedy_longest_match():
    random = Random(5)
    for _ in range(2):
        pieces = {"".join(random.choices("abc", k=random.randint(1, 5))) for _ in range(12)}
        tokens = sorted(pieces | {"##" + p[: random.randint(1, 3)] for p in pieces})
        tokenizer = text.WordPieceTokenizer([*SMALL_VOCABULARY[:5], *tokens])
        words = ["".join(random.choices("abc", k=random.randint(1, 12))) for _ in range(200)]
        got = [[tokenizer.id_to_token(i) for i in row] for row in tokenizer(words).to_list()]
        assert got == [greedy_pieces(word, tokenizer.vocabulary) for word in words]


def test_overlong_words_are_unknown_by_characters_not_bytes():
    tokenizer = text.WordPieceTokenizer([*SMALL_VOCABULARY, "##é", "##e"], lowercase=False)
    unknown = [tokenizer.unk_id]
    rows = tokenizer(["é" * 100, "é" * 101, "e" * 100, "e" * 101]).to_list()
    assert [len(row) for row in rows] == [100, 1, 100, 1]
    assert rows[1] == rows[3] == unknown
    longer = text.WordPieceTokenizer([*SMALL_VOCABULARY, "##e"], max_word_length=200)
    assert [len(row) for row in longer(["e" * 200, "e" * 201]).to_list()] == [200, 1]


# --- Vocabulary, detokenize, files ---


def test_detokenize_joins_pieces_and_leaves_the_frame_out(small):
    ids = tf.ragged.constant([[2, 7, 8, 9, 12, 3, 0], [], [4, 1]])
    assert small.detokenize(ids).numpy().tolist() == [b"unaffable !", b"", b"[MASK] [UNK]"]
    assert small.detokenize([[2, 5, 3, 0]]).numpy().tolist() == [b"hello"]


def test_added_tokens_are_found_inside_words_before_lower_casing():
    vocabulary = [*SMALL_VOCABULARY, "<Tag>", "[E1]"]
    tokenizer = text.WordPieceTokenizer(vocabulary, added_tokens=["<Tag>", "[E1]"])
    assert tokenizer(["hello<Tag>world", "<tag>", "é[E1]!"]).to_list() == [
        [5, 16, 6],
        [1, 1, 1],
        [11, 17, 12],
    ]


def write_directory(directory, vocabulary=SMALL_VOCABULARY, **files):
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), "utf-8")
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return directory


SERIALIZED = {
    "added_tokens": [],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": False,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 50,
        "vocab": {token: index for index, token in enumerate(SMALL_VOCABULARY)},
    },
}


def test_tokenizer_json_is_followed_and_tokenizer_config_goes_before_it(tmp_path):
    write_directory(tmp_path, tokenizer=SERIALIZED, tokenizer_config={"do_lower_case": False})
    config = text.tokenizer_from_dir(tmp_path).get_config()
    wanted = {"lowercase": False, "split_cjk": False, "max_word_length": 50}
    assert config == config | wanted
    assert text.tokenizer_from_dir(tmp_path, lowercase=True).get_config()["lowercase"]


def test_tokenizer_json_alone_is_enough(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(SERIALIZED), "utf-8")
    assert text.tokenizer_from_dir(tmp_path)(["Hello"]).to_list() == [[5]]


def added(content, index, **switches):
    off = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    return {"content": content, "id": index, "special": False, **off, **switches}


def test_added_tokens_of_a_directory_extend_its_vocabulary(tmp_path):
    extended = {**SERIALIZED, "added_tokens": [added("<e>", 16), added("[MASK]", 4)]}
    tokenizer = text.tokenizer_from_dir(write_directory(tmp_path, tokenizer=extended))
    assert tokenizer(["hello<e>"]).to_list() == [[5, 16]]
    assert tokenizer.get_config()["added_tokens"] == ["<e>"]


def changed(part, key, value):
    return {part: {**SERIALIZED[part], key: value}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (changed("normalizer", "clean_text", False), "normalizer.clean_text=False"),
        (changed("normalizer", "type", "NFKC"), "normalizer.type='NFKC'"),
        (changed("pre_tokenizer", "type", "Whitespace"), "pre_tokenizer.type='Whitespace'"),
        (changed("model", "type", "BPE"), "model.type='BPE'"),
        (changed("model", "continuing_subword_prefix", "@@"), "continuing_subword_prefix='@@'"),
        ({"added_tokens": [added("", 16)]}, "has no 'content'"),
        ({"added_tokens": [added("<e>", 16, lstrip="yes")]}, "lstrip is 'yes'"),
        ({"added_tokens": [added("\u0301", 16, normalized=True)]}, "leaves nothing"),
        ({"added_tokens": [added("<e>", 18)]}, "gap"),
        ({"added_tokens": [added("<e>", 5)]}, "'hello'"),
    ],
)
def test_a_tokenizer_json_that_cannot_be_followed_is_refused(changes, words, tmp_path):
    write_directory(tmp_path, tokenizer={**SERIALIZED, **changes})
    assert_refused(lambda: text.tokenizer_from_dir(tmp_path), words)


# Google's Chinese vocabulary, of texts in lower case, has <S>.
@pytest.mark.parametrize(("token", "cased"), [("paris", False), ("Paris", True), ("<S>", False)])
def test_a_bare_vocabulary_is_judged_by_its_words_capitals_and_that_is_said(
    tmp_path, caplog, token, cased
):
    write_directory(tmp_path, [*SMALL_VOCABULARY, token])
    with caplog.at_level(logging.WARNING):
        assert text.tokenizer_from_dir(tmp_path).get_config()["lowercase"] is not cased
    assert f"Pass lowercase={cased}" in caplog.text
    caplog.clear()
    assert text.tokenizer_from_dir(tmp_path, lowercase=cased).get_config()["lowercase"] is cased
    assert caplog.text == ""


def test_never_split_is_said_to_be_ignored(tmp_path, caplog):
    write_directory(tmp_path, tokenizer_config={"do_lower_case": True, "never_split": ["hello"]})
    with caplog.at_level(logging.INFO):
        text.tokenizer_from_dir(tmp_path)
    assert "never_split=['hello']" in caplog.text


# --- Bad input ---


def test_a_broken_tensorflow_text_is_named_with_the_way_out(monkeypatch):
    def fail(name):
        raise tf.errors.NotFoundError(None, None, "undefined symbol: _ZN")

    monkeypatch.setattr(wordpiece.importlib, "import_module", fail)
    with pytest.raises(ImportError, match=r"undefined symbol.*text#1541.*pip install"):
        wordpiece.WordPieceTokenizer(SMALL_VOCABULARY)
