"""Ids of whole words, characters and bytes, against Python's string methods, of which the original consists."""

import io
import logging
from collections import namedtuple
from random import Random

import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_refused, refusals

from bert_zoo import text
from bert_zoo.families.transformer_xl import text as transformer_xl_text

WORDS = ["<eos>", "the", "<unk>", "a", "tree", "\\", "\\1", "字", "ας", "σ", "i̇", "_", "U+0020"]
CLOSED = {"unknown_token": None, "eos_token": None}
WHITE_SPACE = [chr(code) for code in range(0x110000) if chr(code).isspace()]


def original_ids(content, vocabulary, *, lowercase=False, eos=0, unknown="<unk>", newline=None):
    """Transformer-XL's rule for a text file: its lines, each split, `eos` times <eos> after it."""
    ids = {word: index for index, word in enumerate(vocabulary)}
    rows = []
    for line in io.StringIO(content, newline=newline):
        line = line.strip().lower() if lowercase else line.strip()
        rows += [ids.get(word, ids[unknown]) for word in line.split()] + [ids["<eos>"]] * eos
    return rows


def random_texts(number, seed):
    random = Random(seed)
    letters = [*WORDS, *"ΑΣσςİıǅß.'·\u0300\u00ad\ufeff\u200b\ufffd🙂A", "\x00", "<EOS>", "K"]
    return [
        "".join(
            random.choice(WHITE_SPACE) if random.random() < 0.4 else random.choice(letters)
            for _ in range(random.randrange(12))
        )
        + random.choice(["", "", "\n", "\r\n", "\r", "\n\n"])
        for _ in range(number)
    ]


def characters(vocabulary, **options):
    return text.WordLevelTokenizer(vocabulary, unit="character", **{**CLOSED, **options})


def as_bytes(vocabulary, **options):
    return text.WordLevelTokenizer(vocabulary, unit="byte", **{**CLOSED, **options})


# --- Words ---


@pytest.mark.parametrize("lowercase", [False, True])
def test_words_are_what_pythons_split_makes_of_any_text(lowercase):
    texts = random_texts(2000, seed=1)
    ids = text.WordLevelTokenizer(WORDS, lowercase=lowercase)(texts).to_list()
    assert ids == [original_ids(t, WORDS, lowercase=lowercase, newline="") for t in texts]


@pytest.mark.parametrize("lowercase", [False, True])
def test_a_text_of_several_lines_has_the_originals_line_ends(lowercase):
    texts = [t for t in random_texts(2000, seed=2) if t]
    tokenizer = text.WordLevelTokenizer(WORDS, lowercase=lowercase, eos_at="line_ends")
    expected = [original_ids(t, WORDS, lowercase=lowercase, eos=1) for t in texts]
    assert tokenizer(texts).to_list() == expected


def test_every_white_space_of_python_separates_words_and_nothing_else_does():
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    joined = text.WordLevelTokenizer(["a", "<unk>"], eos_token=None)([f"a{chr(c)}a" for c in codes])
    split = [chr(code) for code, ids in zip(codes, joined.to_list(), strict=True) if ids == [0, 0]]
    assert split == WHITE_SPACE


@pytest.mark.parametrize(
    ("eos_at", "expected"),
    [
        # "a", "a\n", "", "\n", "a\n\na"
        ("never", [[1], [1], [], [], [1, 1]]),
        ("newlines", [[1], [1, 0], [], [0], [1, 0, 0, 1]]),
        ("line_ends", [[1, 0], [1, 0], [0], [0], [1, 0, 0, 1, 0]]),
        (
            "line_starts_and_ends",
            [[0, 1, 0], [0, 1, 0], [0, 0], [0, 0], [0, 1, 0, 0, 0, 0, 1, 0]],
        ),
    ],
)
def test_the_end_token_stands_where_eos_at_says(eos_at, expected):
    tokenizer = text.WordLevelTokenizer(["<eos>", "a"], unknown_token=None, eos_at=eos_at)
    assert tokenizer(["a", "a\n", "", "\n", "a\n\na"]).to_list() == expected


@pytest.mark.parametrize("eos_at", ["newlines", "line_ends"])
def test_lines_give_the_ids_of_the_whole(eos_at):
    content = "the tree \n\n a\r\na\rtree\n"
    tokenizer = text.WordLevelTokenizer(WORDS, eos_at=eos_at)
    by_line = tokenizer(list(io.StringIO(content, newline=""))).flat_values
    assert by_line.numpy().tolist() == tokenizer([content]).to_list()[0]
    assert by_line.numpy().tolist() == original_ids(content, WORDS, eos=1)


def test_an_end_token_of_any_spelling_is_written_as_it_is():
    tokenizer = text.WordLevelTokenizer(
        ["a", "\\0", "\\\\"], eos_token="\\0", unknown_token="\\\\", eos_at="newlines"
    )
    assert tokenizer(["a\nb"]).to_list() == [[0, 1, 2]]


def test_a_special_tokens_spelling_in_a_text_is_that_token():
    assert text.WordLevelTokenizer(WORDS)(["<eos> <unk> <UNK>"]).to_list() == [[0, 2, 2]]
    assert text.WordLevelTokenizer(WORDS, lowercase=True)(["<EOS>"]).to_list() == [[0]]


# --- Characters and bytes ---


def test_characters_are_unicode_characters_and_space_has_its_token():
    tokenizer = characters(["_", "a", "🙂", "\n", "e", "\u0301"], space_token="_")
    assert tokenizer(["a 🙂", "", "e\u0301_\n"]).to_list() == [[1, 0, 2], [], [4, 5, 0, 3]]


@pytest.mark.parametrize("lowercase", [False, True])
def test_characters_are_those_of_pythons_string(lowercase):
    texts = random_texts(1000, seed=3)
    lowered = [t.lower() if lowercase else t for t in texts]
    vocabulary = ["<unk>", *dict.fromkeys("".join(lowered))][:40]
    tokenizer = characters(vocabulary, lowercase=lowercase, unknown_token="<unk>")
    ids = {char: index for index, char in enumerate(vocabulary)}
    assert tokenizer(texts).to_list() == [[ids.get(c, 0) for c in t] for t in lowered]


# --- Tokens that the vocabulary lacks ---


@pytest.mark.parametrize(
    ("tokenizer", "bad", "named"),
    [
        (lambda: text.WordLevelTokenizer(["a"], **CLOSED), "a zebra b", r"\[zebra\]"),
        (lambda: characters(["a", "🙂"]), "azb", r"\[z\] \[code point\] \[122\]"),
        (lambda: characters(["a"]), "a\n", r"\[code point\] \[10\]"),
        (lambda: as_bytes(["97"]), "az", r"\[byte\] \[122\]"),
    ],
)
def test_without_an_unknown_token_the_missing_token_is_named_in_a_graph_too(tokenizer, bad, named):
    tokenizer = tokenizer()
    with pytest.raises(tf.errors.InvalidArgumentError, match=named):
        tokenizer(["a", bad])
    dataset = tf.data.Dataset.from_tensor_slices(["a", bad]).batch(2).map(tokenizer)
    with pytest.raises(tf.errors.InvalidArgumentError, match=named):
        list(dataset)
    assert tokenizer(["a"]).to_list() == [[0]]


def test_with_an_unknown_token_they_are_that_token():
    assert characters(["a", "<unk>"], unknown_token="<unk>")(["aé🙂"]).to_list() == [[0, 1, 1]]
    assert as_bytes(["97", "<unk>"], unknown_token="<unk>")(["aé"]).to_list() == [[0, 1, 1]]


# --- Back to text, attributes, refusals ---


def test_words_come_back_with_blanks_and_lines():
    tokenizer = text.WordLevelTokenizer(WORDS, eos_at="newlines")
    content = "the tree\n\na <unk> \\1\n"
    ids = tokenizer([content, "a"])
    assert [row.decode() for row in tokenizer.detokenize(ids).numpy()] == [content, "a"]


def test_characters_and_bytes_come_back():
    tokenizer = characters(["_", "a", "é", "<eos>"], space_token="_", eos_token="<eos>")
    assert tokenizer.detokenize([[1, 0, 2, 3, 1]]).numpy()[0].decode() == "a é\na"
    bytes_ = as_bytes(["195", "169", "0", "<eos>"], eos_token="<eos>")
    assert bytes_.detokenize([[0, 1, 2, 3]]).numpy()[0] == "é\0\n".encode()
    assert bytes_.detokenize([[0]]).numpy()[0] == b"\xc3"


# --- Vocabulary directories ---

INVISIBLE = ["\n", "\r", " ", "\t", "\u2028", "\x00", "\x85", "\ufeff", "\u0301", "U", "+", "é"]


@pytest.mark.parametrize(
    ("vocabulary", "options"),
    [
        (WORDS, {"lowercase": True, "eos_at": "newlines"}),
        (WORDS, {"eos_token": None}),
        # White space at which Python 2 did not split.
        (["<eos>", "<unk>", "10\xa0km", "\u3000", "a\x85b\u2028"], {}),
        (["<eos>", *INVISIBLE, "🙂"], {"unit": "character", **CLOSED, "eos_token": "<eos>"}),
        (["_", "a"], {"unit": "character", "space_token": "_", **CLOSED}),
        (["60", "32", "<unk>"], {"unit": "byte", "eos_token": None}),
    ],
)
def test_a_saved_directory_gives_the_same_tokenizer(vocabulary, options, tmp_path):
    saved = text.WordLevelTokenizer(vocabulary, **options)
    saved.save(tmp_path)
    read = text.tokenizer_from_dir(tmp_path, "transformer_xl")
    assert read.vocabulary == saved.vocabulary
    assert read.get_config() == saved.get_config()


def test_invisible_characters_stand_in_vocab_txt_as_code_points(tmp_path):
    characters(["a", "\n", "\u2028", "é"]).save(tmp_path)
    assert (tmp_path / "vocab.txt").read_bytes().decode() == "a\nU+000A\nU+2028\né\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["<eos>", "a", "tree"], {"unit": "word", "eos_at": "newlines", "unknown_token": None}),
        (["<S>", "a", "<UNK>"], {"unit": "word", "eos_at": "never", "unknown_token": "<UNK>"}),
        (["_", "e", "t"], {"unit": "character", "space_token": "_", "eos_token": None}),
        (["_", "e", "U+0020"], {"unit": "character", "space_token": None}),
        (["32", "101"], {"unit": "byte", "eos_token": None}),
        (["32", "1999"], {"unit": "word"}),
    ],
)
def test_a_directory_without_a_config_is_read_by_its_tokens(lines, expected, tmp_path, caplog):
    if lines[0] == "<S>":
        lines = [*lines, "tree"]
    (tmp_path / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with caplog.at_level(logging.INFO, "bert_zoo"):
        config = text.tokenizer_from_dir(tmp_path, "transformer_xl").get_config()
    assert expected.items() <= config.items()
    assert f"unit={config['unit']!r}" in caplog.text


def test_options_of_a_call_go_before_the_files(tmp_path):
    text.WordLevelTokenizer(WORDS).save(tmp_path)
    tokenizer = text.tokenizer_from_dir(tmp_path, "transformer_xl", eos_at="line_ends")
    assert tokenizer(["a"]).to_list() == [[3, 0]]


@pytest.mark.parametrize("name", ["vocab.pkl", "vocab.bin", "cache.pkl", "cache.pt"])
@pytest.mark.parametrize(
    ("symbols", "tokens", "expected"),
    [
        (["<eos>", "the", "<unk>"], ("<eos>", "<unk>"), {"unit": "word", "eos_at": "newlines"}),
        (["_", "e"], (None, None), {"unit": "character", "space_token": "_", "lowercase": True}),
        (["32", "101"], (None, None), {"unit": "byte", "lowercase": False}),
    ],
)
def test_the_originals_pickled_vocabularies_are_read(
    name, symbols, tokens, expected, tmp_path, monkeypatch
):
    found = namedtuple("Found", "tokens lowercase eos_token unknown_token")
    monkeypatch.setattr(
        transformer_xl_text,
        "read_pickled_vocabulary",
        lambda path: found(symbols, path.name == name, *tokens),
    )
    (tmp_path / name).touch()
    tokenizer = text.tokenizer_from_dir(tmp_path, "transformer_xl")
    assert expected.items() <= tokenizer.get_config().items()
    assert tokenizer.vocabulary == tuple(symbols)


# --- Preprocessing ---


def preprocessor(vocabulary=("<eos>", "a", "b", "c"), eos_token="<eos>", eos_at="never", **options):
    tokenizer = text.WordLevelTokenizer(
        vocabulary, unknown_token=None, eos_token=eos_token, eos_at=eos_at
    )
    return text.LanguageModelPreprocessor(tokenizer, **{"sequence_length": 4, **options})


def plain(rows):
    assert {value.dtype for value in rows.values()} == {tf.int32}
    return {name: value.numpy().tolist() for name, value in rows.items()}


def test_rows_have_the_tokens_alone_and_are_padded_on_the_right():
    assert plain(preprocessor(bucket=1)(["a b c", "", "b"])) == {
        "token_ids": [[1, 2, 3], [0, 0, 0], [2, 0, 0]],
        "padding_mask": [[1, 1, 1], [0, 0, 0], [1, 0, 0]],
    }


@pytest.mark.parametrize(
    ("options", "texts", "token_ids", "labels"),
    [
        (
            {},
            ["a b c", "", "b"],
            [[0, 1, 2], [0, 0, 0], [0, 0, 0]],
            [[1, 2, 3], [-100, -100, -100], [2, -100, -100]],
        ),
        (
            {"vocabulary": ("a", "b", "c"), "eos_token": None},
            ["a b c", "", "b"],
            [[0, 1], [0, 0], [0, 0]],
            [[1, 2], [-100, -100], [-100, -100]],
        ),
        ({"eos_at": "line_starts_and_ends"}, ["a b"], [[0, 1, 2]], [[1, 2, 0]]),
    ],
    ids=["end token", "no end token", "end token at the start"],
)
def test_scoring_predicts_what_follows_a_token(options, texts, token_ids, labels):
    mask = [[int(label != -100) for label in row] for row in labels]
    wanted = {"token_ids": token_ids, "labels": labels, "padding_mask": mask}
    assert plain(preprocessor(bucket=1, **options).scored(texts)) == wanted


def test_padding_is_the_padding_token_where_there_is_one():
    prepare = preprocessor(bucket=1)
    prepare.tokenizer.pad_id = 3
    assert prepare.with_options()(["a", "a b"])["token_ids"].numpy().tolist() == [[1, 3], [1, 2]]


@refusals(
    (lambda: preprocessor()((["a"], ["b"])), "reads single texts"),
    (lambda: preprocessor().scored((["a"], ["b"])), "reads single texts"),
    (lambda: characters(["a", "U+0041"], eos_token="U+0041").save("not written"), "Rename"),
)
def test_pairs_and_tokens_that_read_as_code_points_are_refused(call, words):
    assert_refused(call, words)


def test_it_runs_in_tf_data_with_a_static_shape_where_padding_is_fixed():
    prepare = preprocessor(padding="fixed")
    texts = ["a b", "c", "a b c a b", ""]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2, drop_remainder=True)
    for function in (prepare, prepare.scored):
        mapped = dataset.map(function)
        assert mapped.element_spec["token_ids"].shape == (2, 4)
        rows = np.concatenate([batch["token_ids"] for batch in mapped])
        np.testing.assert_array_equal(rows, function(texts)["token_ids"])


def test_a_directory_gives_the_familys_preprocessor(tmp_path):
    text.WordLevelTokenizer(WORDS).save(tmp_path)
    prepare = text.preprocessor_from_dir(
        tmp_path,
        "transformer_xl",
        sequence_length=8,
        padding="fixed",
        tokenizer_options={"eos_at": "line_ends"},
    )
    assert isinstance(prepare, text.LanguageModelPreprocessor)
    assert prepare(["a"])["token_ids"].numpy().tolist() == [[3, 0, 0, 0, 0, 0, 0, 0]]
    assert prepare.tokenize(["a"]).to_list() == [[3, 0]]
