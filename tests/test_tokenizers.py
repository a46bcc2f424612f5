"""What all tokenizers share: texts in any form, anywhere in TensorFlow, files, pieces, and messages."""

import gzip
import json
import threading
from functools import cache
from random import Random

import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, directory_of

from bert_zoo import text
from bert_zoo.families.bertweet.text import TweetBpeTokenizer
from bert_zoo.registry import registry
from bert_zoo.text.byte_bpe import ALPHABET
from bert_zoo.weights.cache import MODEL_FILES

XLM_ROBERTA = registry().families["xlm_roberta"].text.options["scheme"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["hello", "world", "un", "##aff", "##able", "é", "e", "!", "中", "hé", "##llo"]
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("'", "s")]
NO_NAMES = {"unknown_token": None, "eos_token": None}


def wordpiece(vocabulary=(*SPECIAL, *PIECES), **options):
    return text.WordPieceTokenizer(vocabulary, **options)


def byte_vocabulary(*more: str) -> list[str]:
    alphabet = sorted(ALPHABET, key=ALPHABET.__getitem__)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    return [*special, *alphabet, *("".join(pair) for pair in MERGES), *more]


def byte_bpe(vocabulary=None, merges=MERGES, **options):
    vocabulary = byte_vocabulary() if vocabulary is None else vocabulary
    return text.ByteBpeTokenizer(vocabulary, merges, source="here/merges.txt", **options)


def sentencepiece(**options):
    model = gzip.decompress((ALL_GOLDEN / "text" / "xlm_roberta_small.model.gz").read_bytes())
    return text.SentencePieceTokenizer(model, XLM_ROBERTA, **options)


def words(vocabulary=("<eos>", "<unk>", "hello", "world", "é"), **options):
    return text.WordLevelTokenizer(vocabulary, **options)


# Kind -> the family whose files it has, and what makes one.
KINDS = {
    "wordpiece": ("bert", wordpiece),
    "byte_bpe": ("roberta", byte_bpe),
    "sentencepiece": ("xlm_roberta", sentencepiece),
    "char_bpe": ("gpt", lambda: text.tokenizer_from_dir(directory_of("gpt/causal_lm"), "gpt")),
    "word_bpe": ("xlm", lambda: text.tokenizer_from_dir(ALL_GOLDEN / "word_bpe", "xlm")),
    "tweet_bpe": (
        "bertweet",
        lambda: text.tokenizer_from_dir(ALL_GOLDEN / "tweet_bpe", "bertweet"),
    ),
    "words": ("transformer_xl", lambda: words(lowercase=True, eos_at="newlines")),
    "characters": (
        "transformer_xl",
        lambda: words([*"_helo wrdé!", "<unk>"], unit="character", space_token="_", eos_token=None),
    ),
    "bytes": (
        "transformer_xl",
        lambda: words([*map(str, range(128)), "<unk>"], unit="byte", eos_token=None),
    ),
}
TEXTS = ["hello world!", "", "HÉLLO 中 the cat's", "unaffable", "\ufffd", " \u3000", "e\u0301"]
made = cache(lambda kind: KINDS[kind][1]())


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def texts_of(tokenizer) -> list[str]:
    """With its special tokens among them."""
    names = [name for name in ("mask_id", "unk_id", "sep_id") if hasattr(tokenizer, name)]
    special = [tokenizer.id_to_token(getattr(tokenizer, name)) for name in names]
    return [*TEXTS, *(f"hello {token}world" for token in special)]


# --- Where texts come from ---


def test_texts_may_be_lists_arrays_tensors_and_bytes(kind):
    tokenizer = made(kind)
    texts = texts_of(tokenizer)
    wanted = [tokenizer(each).to_list()[0] for each in texts]  # a string is a batch of one
    assert any(wanted)
    for batch in (
        texts,
        tuple(texts),
        np.array(texts),
        np.array(texts, object),
        tf.constant(texts),
        [each.encode() for each in texts],
    ):
        ids = tokenizer(batch)
        assert ids.dtype == tf.int32 and ids.shape.rank == 2
        assert ids.to_list() == tokenizer.tokenize(batch).to_list() == wanted
    for empty in ([], tf.constant([], tf.string)):
        assert tokenizer(empty).to_list() == []
    assert tokenizer(["", ""]).to_list() == [[], []]


@pytest.mark.parametrize("fragment", [b"caf\xe9", b"\xed\xa0\x80", b"\xf0\x9f"])
def test_bytes_that_are_not_utf8_count_as_replacement_characters(kind, fragment):
    if kind == "bytes":
        return
    tokenizer, random = made(kind), Random(11)
    fragments = [fragment, b"\xff\xfe", b"\xc0\x80", "é中".encode(), b" ", b"a", b"\x80", b"1,"]
    fragments += [b"\xf3\xf3\xb0\x80\x80", b"'s", b"[MASK]", b"<mask>", b"<s>", b"@a"]
    raw = [b"".join(random.choices(fragments, k=random.randint(1, 8))) for _ in range(500)]
    decoded = [row.decode("utf-8", "replace") for row in raw]
    assert tokenizer(raw).to_list() == tokenizer(decoded).to_list()


def test_it_runs_in_functions_maps_threads_and_savedmodels(kind, tmp_path):
    tokenizer = KINDS[kind][1]()
    texts = texts_of(tokenizer) * 5
    found = {}

    def run(number):
        found[number] = tokenizer(texts).to_list()

    threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = made(kind)(texts).to_list()
    assert [*found.values()] == [wanted] * 4

    batches = tf.data.Dataset.from_tensor_slices(texts).batch(7)
    rows = [row for ids in batches.map(tokenizer, num_parallel_calls=4) for row in ids.to_list()]
    assert rows == wanted
    module = tf.Module()
    module.tokenizer = tokenizer
    module.serve = tf.function(tokenizer.__call__, [tf.TensorSpec([None], tf.string)])
    assert module.serve(tf.constant(texts)).to_list() == wanted
    tf.saved_model.save(module, str(tmp_path))
    assert not [*(tmp_path / "assets").glob("*")]
    assert tf.saved_model.load(str(tmp_path)).serve(tf.constant(texts)).to_list() == wanted


# --- Vocabulary, text, files ---


def test_ids_and_tokens_are_looked_up_and_joined(kind):
    tokenizer = made(kind)
    size = tokenizer.vocab_size
    assert len(tokenizer.vocabulary) == size
    assert [tokenizer.token_to_id(token) for token in tokenizer.vocabulary] == [*range(size)]
    assert tokenizer.id_to_token(size - 1) == tokenizer.vocabulary[-1]
    for index in (-1, size):
        with pytest.raises(ValueError, match=f"id {index} is outside"):
            tokenizer.id_to_token(index)
    with pytest.raises(ValueError, match=r"lacks.*'nope'"):
        tokenizer.token_to_id("nope")
    with pytest.raises(tf.errors.InvalidArgumentError, match="99999"):
        tokenizer.detokenize([[99999]])
    with pytest.raises(ValueError, match="batch dimension"):
        tokenizer.detokenize([1, 2])


def test_a_saved_tokenizer_is_read_back_equal(kind, tmp_path):
    family, _ = KINDS[kind]
    tokenizer = made(kind)
    config = tokenizer.get_config()
    assert json.loads(json.dumps(config)) == config
    tokenizer.save(tmp_path)
    # What a directory is made of is fetched from a hub, too.
    for path in tmp_path.iterdir():
        assert any(path.match(pattern) for pattern in MODEL_FILES), path.name
    again = text.tokenizer_from_dir(tmp_path, family)
    assert (again.get_config(), again.vocabulary) == (config, tokenizer.vocabulary)
    assert getattr(again, "merges", None) == getattr(tokenizer, "merges", None)
    texts = texts_of(tokenizer)
    assert again(texts).to_list() == tokenizer(texts).to_list()


# Kind -> a token, what it reads as, and whether it goes on with what is before it and after it.
READ_AS = {
    "wordpiece": [("##aff", "aff", True, None), ("un", "un", None, None)],
    "byte_bpe": [("Ġhello", "hello", False, None), ("hello", "hello", True, None)],
    "sentencepiece": [
        ("▁and", "and", False, None),
        ("s", "s", True, None),
        ("▁", "▁", False, None),
    ],
    "char_bpe": [("a</w>", "a", None, False), ("a", "a", None, True)],
    "word_bpe": [("m</w>", "m", None, False), ("m", "m", None, True)],
    "tweet_bpe": [("m@@", "m", None, True), ("m", "m", None, False)],
    "words": [("hello", "hello", None, None)],
    "characters": [("h", "h", None, None)],
    "bytes": [("60", "60", None, None)],
}


def test_tokens_read_without_the_vocabularys_marks(kind):
    tokenizer = made(kind)
    for token, *wanted in READ_AS[kind]:
        assert [*tokenizer.piece(tokenizer.token_to_id(token))] == wanted
    read = [tokenizer.piece(index).text for index in range(tokenizer.vocab_size)]
    assert all(read)
    for mark in filter(None, tokenizer.marks):
        assert not [text for text in read if mark in text and text != mark]


# --- What is refused ---

# What is no text in a list, test_bad_input.py has.
BAD_TEXTS = [
    (None, TypeError, r"None \(NoneType\)"),
    (np.array([1, 2]), TypeError, r"texts\[0\] is .*1"),
    (tf.constant([1]), TypeError, "int32"),
    (tf.constant("a"), ValueError, r"scalar.*\.batch\(\)"),
    (tf.constant([["a"]]), ValueError, r"\(1, 1\)"),
    (tf.ragged.constant([["a"]]), TypeError, "RaggedTensor"),
]


@pytest.mark.parametrize(("batch", "error", "message"), BAD_TEXTS)
def test_what_is_not_a_batch_of_texts_is_refused_with_its_value(batch, error, message):
    for kind in ("wordpiece", "sentencepiece"):
        with pytest.raises(error, match=message):
            made(kind)(batch)


def characters(vocabulary, **options):
    return words(vocabulary, unit="character", **{**NO_NAMES, **options})


def as_bytes(vocabulary, **options):
    return words(vocabulary, unit="byte", **NO_NAMES, **options)


# What makes a tokenizer, of which arguments, and words of the message.
BAD_VOCABULARIES = [
    (wordpiece, ([],), {}, "empty"),
    (wordpiece, ([*SPECIAL, *PIECES, "world"],), {}, "'world' twice, as ids 6 and 16"),
    (wordpiece, ([*SPECIAL, *PIECES, ""],), {}, r"vocabulary\[16\]"),
    (wordpiece, ([*SPECIAL, *PIECES, 3],), {}, r"vocabulary\[16\] is 3"),
    (wordpiece, (SPECIAL[:4],), {}, r"mask token '\[MASK\]'"),
    (wordpiece, ([*SPECIAL, *PIECES, "x" * 300],), {}, "cannot compile"),
    (wordpiece, (), {"max_word_length": 0}, "max_word_length is 0"),
    (wordpiece, (), {"added_tokens": [3]}, "The added token 3"),
    (wordpiece, (), {"added_tokens": [{"content": "<e>", "strip": True}]}, "The added token"),
    (wordpiece, (), {"added_tokens": [{"lstrip": True}]}, "The added token"),
    (byte_bpe, ([],), {}, "empty"),
    (byte_bpe, (byte_vocabulary("hello"),), {}, "'hello' twice"),
    (byte_bpe, ([t for t in byte_vocabulary() if t != "<mask>"],), {}, "mask token '<mask>'"),
    (byte_bpe, (), {"normalization": "NFD"}, "normalization is 'NFD'"),
    # Merges that do not fit are named with their source.
    (
        byte_bpe,
        (None, [("h", "e"), ("x", "yz")]),
        {},
        r"the merges of here/merges\.txt.*merge 1, \('x', 'yz'\), needs \['yz', 'xyz'\]",
    ),
    (byte_bpe, (None, [("h", "e", "l")]), {}, r"merge 0 is \('h', 'e', 'l'\), not two tokens"),
    (byte_bpe, (None, [("h", "e"), ("h", "e")]), {}, r"\('h', 'e'\) comes more than once"),
    (byte_bpe, (), {"pattern": "gpt3"}, "pattern is 'gpt3'; choose one of"),
    (byte_bpe, (None, [("x", str(i)) for i in range(9)]), {}, r"not in the vocabulary and 4 more"),
    (
        TweetBpeTokenizer,
        (["<pad>", "<s>", "</s>", "<unk>", "<mask>"], []),
        {},
        r"begins with <pad>, <s>.*first tokens, <s>, <pad>",
    ),
    (words, (["a"],), {}, "lacks unknown_token='<unk>'.*unknown_token=None"),
    (words, (["a"],), {"unknown_token": None}, "lacks eos_token='<eos>'"),
    (words, (["a"],), {"unit": "letter", **NO_NAMES}, "unit is 'letter'.*'word'"),
    (words, (), {"eos_at": "ends"}, "eos_at is 'ends'.*line_ends"),
    (words, (["a"],), {"eos_at": "newlines", **NO_NAMES}, "need unit='word' and an eos_token"),
    (words, (["a", "_"],), {"space_token": "_", **NO_NAMES}, "Only unit='character' has one"),
    (words, (["a", "b c"],), NO_NAMES, r"vocabulary\[1\] is 'b c'.*white space"),
    (characters, (["a"],), {"eos_at": "newlines"}, "Line ends need"),
    (characters, (["a"],), {"space_token": "_"}, "lacks space_token='_'"),
    (characters, (["ab"],), {}, r"vocabulary\[0\] is 'ab'.*one character"),
    (as_bytes, (["97"],), {"lowercase": True}, "Bytes have no case"),
    (as_bytes, (["256"],), {}, "'256'.*0 to 255"),
    (as_bytes, (["097"],), {}, "'097'.*0 to 255"),
]


@pytest.mark.parametrize(("make", "arguments", "options", "message"), BAD_VOCABULARIES)
def test_a_vocabulary_that_cannot_be_followed_is_refused(make, arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(*arguments, **options)


# Family, files, and words of the message.
BAD_FILES = [
    ("nope", {}, r"'nope'.*'bert'.*'roberta'"),
    ("bert", {}, r"neither vocab\.txt"),
    ("bert", {"tokenizer_config.json": "{"}, "neither vocab|not JSON"),
    ("roberta", {}, r"neither vocab\.json"),
    ("roberta", {"vocab.json": "{"}, r"vocab\.json, line 1: this is not JSON"),
    ("roberta", {"vocab.json": "[]"}, r"vocab\.json is \[\]; it must be a JSON object"),
    ("roberta", {"vocab.json": '{"a": 0, "b": 0}'}, "gives 'a' and 'b' the same id 0"),
    ("roberta", {"vocab.json": '{"a": 0, "b": 2}'}, r"has 2 tokens.*none has id 1"),
    ("xlm_roberta", {}, r"one SentencePiece model, \*\.model, or tokenizer\.json"),
    ("gpt", {}, r"neither vocab\.json"),
    ("xlm", {"vocab.json": "{}"}, r"lacks merges\.txt"),
    ("bertweet", {"vocab.txt": "the 12\n"}, r"lacks bpe\.codes"),
    (
        "bertweet",
        {"vocab.txt": "the 12\nof\n", "bpe.codes": "t h 3\n"},
        r"vocab\.txt, line 2 is 'of'.*its count",
    ),
    (
        "transformer_xl",
        {},
        r"none of vocab\.txt, vocab\.pkl, vocab\.bin, cache\.pkl, data/cache\.pkl, cache\.pt",
    ),
]


@pytest.mark.parametrize(("family", "files", "message"), BAD_FILES)
def test_a_directory_that_cannot_be_read_is_refused_by_its_files(family, files, message, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    if family == "roberta" and files:
        (tmp_path / "merges.txt").write_text("a b\n")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        text.tokenizer_from_dir(tmp_path, family)
