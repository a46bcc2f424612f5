import functools
import json
import logging
import random
import re
from itertools import pairwise
from pathlib import Path

import byte_bpe_samples as samples
import pytest
import tensorflow as tf
from helpers import assert_refused, ids_and_spans, in_rust

from bert_zoo.text import preprocessor_from_dir
from bert_zoo.text.byte_bpe import ALPHABET, ByteBpeTokenizer
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import DeferredPreprocessor, TextFormat, framed
from bert_zoo.text.numpy_packing import Layout, Reader
from bert_zoo.text.preprocessor import word_pieces
from bert_zoo.text.vocabulary_files import read_bpe, read_vocabulary_and_merges

ROOT = Path(__file__).resolve().parent.parent
BYTES = sorted(ALPHABET, key=ALPHABET.__getitem__)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("'", "s")]


def with_bytes(merges, *more):
    return [*SPECIAL, *BYTES, *dict.fromkeys(a + b for a, b in merges), *more]


@pytest.fixture(scope="module")
def small():
    return ByteBpeTokenizer(with_bytes(MERGES), MERGES)


own_vocabulary = functools.cache(samples.own_vocabulary)


@pytest.fixture(scope="module")
def own():
    return {
        name: ByteBpeTokenizer(*own_vocabulary(), **options)
        for name, options in samples.CONFIGURATIONS.items()
    }


def tokens_of(tokenizer, texts):
    return [[tokenizer.id_to_token(i) for i in row] for row in tokenizer(texts).to_list()]


# --- Ids equal the reference's ---


def merged_one_by_one(piece, merges):
    """The rule itself: the first merge of the list, at its leftmost place, until there is none."""
    rank = {pair: number for number, pair in enumerate(merges)}
    while True:
        pairs = list(pairwise(piece))
        best = min(range(len(pairs)), key=lambda i: rank.get(pairs[i], len(rank)), default=None)
        if best is None or pairs[best] not in rank:
            return piece
        piece = [*piece[:best], piece[best] + piece[best + 1], *piece[best + 2 :]]


def test_rounds_of_merges_end_where_one_merge_after_the_other_does():
    """With random lists, in which merges compete far more than in trained ones."""
    draw = random.Random(9)
    for _ in range(2):
        tokens, merges = list("abc"), []
        for _ in range(60):
            pair = (draw.choice(tokens), draw.choice(tokens))
            if pair not in merges and len("".join(pair)) < 9:
                # All merges that make a token come before those that use it.
                if "".join(pair) in {part for merge in merges for part in merge}:
                    continue
                merges.append(pair)
                tokens = list(dict.fromkeys([*tokens, "".join(pair)]))
        tokenizer = ByteBpeTokenizer(with_bytes(merges), merges)
        words = ["".join(draw.choices("abc", k=draw.randint(1, 40))) for _ in range(150)]
        words += [char * length for char in "abc" for length in range(1, 30)]
        wanted = [merged_one_by_one(list(word), merges) for word in words]
        assert tokens_of(tokenizer, words) == wanted


def test_lists_made_from_a_vocabulary_are_followed_too():
    """They have all pairs that make a token, also those that a later merge makes a part of."""
    draw = random.Random(4)
    for _ in range(3):
        tokens = dict.fromkeys("abc")
        while len(tokens) < 60:
            token = draw.choice([*tokens]) + draw.choice([*tokens])
            tokens |= {token: None} if len(token) < 9 else {}
        tokens = [*"abc", *draw.sample([*tokens][3:], len(tokens) - 3)]
        splits = [(token[:i], token[i:]) for token in tokens for i in range(1, len(token))]
        merges = [pair for pair in splits if {*pair} <= {*tokens}]
        vocabulary = [*SPECIAL, *BYTES, *dict.fromkeys(a + b for a, b in merges)]
        merges = [pair for pair in merges if {*pair} <= {*vocabulary}]
        tokenizer = ByteBpeTokenizer(vocabulary, merges)
        words = ["".join(draw.choices("abc", k=draw.randint(1, 60))) for _ in range(300)]
        words += [char * length for char in "abc" for length in range(1, 40)]
        wanted = [merged_one_by_one(list(word), merges) for word in words]
        assert tokens_of(tokenizer, words) == wanted


def test_a_token_that_merges_do_not_arrive_at_is_not_used_unless_it_is_a_piece_and_merges_are_ignored():
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]
    tokenizer = ByteBpeTokenizer(with_bytes(merges, "xyz"), merges)
    assert tokens_of(tokenizer, ["abc", "xyz"]) == [["a", "bc"], ["x", "y", "z"]]
    ignoring = tokenizer.with_options(ignore_merges=True)
    assert tokens_of(ignoring, ["abc", "xyz", "xyzabc"]) == [["abc"], ["xyz"], [*"xyza", "bc"]]


HARD = [*"'sSſtTrReEvVlLmMdD \t\n\r!a1²½é\u0301日\u3000\u00a0\u2028", "\r\n", "  ", "!!", "123"]


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("gpt_2", ["It", "'", "S", " (", "x", ")", "\n\n ", " 12345", "a"]),
        ("digits", ["It", "'", "S", " (", "x", ")", "\n\n  ", *"12345", "a"]),
        ("gpt_4", ["It", "'S", " (", "x", ")\n\n", " ", " ", "123", "45", "a"]),
        ("qwen2", ["It", "'S", " (", "x", ")\n\n", " ", " ", *"12345", "a"]),
    ],
)
def test_patterns_split_texts_as_the_library(pattern, pieces):
    tokenizers = pytest.importorskip("tokenizers")
    draw = random.Random(5)
    text = "It'S (x)\n\n  12345a"
    # Each piece is a token, so tokens show how texts were split.
    vocabulary, merges = own_vocabulary()
    tokenizer = ByteBpeTokenizer(vocabulary, merges, pattern=pattern, ignore_merges=True)
    split = tokenizers.Tokenizer.from_str(json.dumps(framed(tokenizer))).pre_tokenizer
    found = [text[start:end] for _, (start, end) in split.pre_tokenize_str(text)]
    assert found == pieces
    texts = [*samples.WRITTEN, *samples.random_texts(800), text]
    texts += ["".join(draw.choices(HARD, k=draw.randrange(14))) for _ in range(3000)]
    texts += [bytes.decode(b"\xff \xe2\x28'\xa1s 12", errors="replace")]
    ids = tokenizer(texts).to_list()
    rust = in_rust(tokenizer)
    assert [row.ids for row in rust.encode_batch(texts, add_special_tokens=False)] == ids
    some = texts[:600]
    found, spans = ids_and_spans(tokenizer, some)
    wanted = rust.encode_batch(some, add_special_tokens=False)
    assert found == ids[:600] and spans == [row.offsets for row in wanted]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["digits", "gpt_4"])
def test_patterns_know_every_character(pattern):
    pytest.importorskip("tokenizers")
    tokenizer = ByteBpeTokenizer(*own_vocabulary(), pattern=pattern, ignore_merges=True)
    texts = [samples.page_text(page) for page in range(samples.text_samples.NUM_PAGES)]
    for start in range(0, len(texts), 50):
        some = texts[start : start + 50]
        wanted = in_rust(tokenizer).encode_batch_fast(some, add_special_tokens=False)
        assert tokenizer(some).to_list() == [row.ids for row in wanted]


# --- Special tokens ---


def test_the_mask_takes_the_white_space_before_it_unless_told_not_to(small):
    assert tokens_of(small, ["a \u3000<mask> b"]) == [["a", "<mask>", "Ġ", "b"]]
    bare = ByteBpeTokenizer(with_bytes(MERGES), MERGES, lstrip_mask=False)
    assert tokens_of(bare, ["a <mask> b"]) == [["a", "Ġ", "<mask>", "Ġ", "b"]]


def test_added_tokens_are_found_inside_words_the_longest_first():
    added = ["<e>", "<e>2", "é!", "a\\1"]
    tokenizer = ByteBpeTokenizer(with_bytes(MERGES, *added), MERGES, added_tokens=[*added, "<s>"])
    assert tokens_of(tokenizer, ["hello<e>2<e>x<s>", "éé!a\\1"]) == [
        ["hello", "<e>2", "<e>", "x", "<s>"],
        ["Ã", "©", "é!", "a\\1"],
    ]
    assert tokenizer.get_config()["added_tokens"] == added


COMPOSED = [
    "a  b   c      d        e         f",
    "cafe\u0301 the  cat caf\u00e9 \u212b\u2126\u037e\u1fef",
    "e\u0301  [MASK]the [MASK]  bird|||EMAIL_ADDRESS|||  [unused0][unused1] [CLS] x",
    "  [MASK] y",
    "\u0301 [SEP]\u0301 e   \u0301a",
    "\u0958 \u1100\u1161\u11a8 o\u0302\u0301 a\u0323\u0302<\u0338",
    "plain words",
    "",
]


@pytest.fixture(scope="module")
def modernbert():
    directory = ROOT / "tests" / "golden" / "modernbert" / "encoder"
    return preprocessor_from_dir(directory, "modernbert", sequence_length=40).tokenizer


def test_normalised_texts_and_their_tokens_give_the_references_ids_and_offsets(
    modernbert, tmp_path
):
    tokenizers = pytest.importorskip("tokenizers")
    file = ROOT / "tests" / "golden" / "modernbert" / "encoder" / "tokenizer.json"
    reference, rust = tokenizers.Tokenizer.from_file(str(file)), in_rust(modernbert)
    generator = random.Random(0)
    parts = [*"ae. \n\t1<", "  ", "   ", "      ", "the", "[MASK]", "[CLS]", "[unused0]", "\u00e9"]
    parts += ["\u0301", "\u0323", "\u0338", "|||EMAIL_ADDRESS|||", "\uac00", "\u11a8", "\u212b"]
    drawn = ["".join(generator.choices(parts, k=generator.randrange(25))) for _ in range(300)]
    texts = [*COMPOSED, *samples.WRITTEN, *drawn]
    ids = modernbert(texts).to_list()
    for other in (reference, rust):
        found = other.encode_batch(texts, add_special_tokens=False)
        assert [encoding.ids for encoding in found] == ids
    found, spans = ids_and_spans(modernbert, texts)
    assert found == ids
    # Marks that change places take others' in the reference.
    kept = [i for i, text in enumerate(texts) if not re.search("[\u0301\u0323\u0338]{2}", text)]
    wanted = rust.encode_batch(texts, add_special_tokens=False)
    assert len(kept) > 200 and [spans[i] for i in kept] == [wanted[i].offsets for i in kept]

    modernbert.save(tmp_path)
    again = preprocessor_from_dir(tmp_path, "modernbert", sequence_length=40).tokenizer
    assert again.get_config() == modernbert.get_config() and again(texts).to_list() == ids
    written = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for pair in (("the cat",), ("the cat", "a  bird")):
        assert written.encode(*pair).ids == reference.encode(*pair).ids


# --- Vocabulary, detokenize, files ---


def test_detokenize_gives_back_every_text_and_leaves_the_frame_out(own, small):
    texts = [text for text in samples.random_texts(2000) if "<" not in text]
    back = [row.decode() for row in own["released"].detokenize(own["released"](texts)).numpy()]
    assert back == texts
    hello, half = small.token_to_id("hello"), small.token_to_id("Ã")
    ids = [[0, hello, 4, 2, 1], [0, half, 3, 2, 1]]
    assert [row.decode() for row in small.detokenize(ids).numpy()] == ["hello<mask>", "\ufffd<unk>"]


def test_a_saved_tokenizer_is_written_as_hugging_faces(tmp_path):
    options = {"add_prefix_space": True, "lstrip_mask": False, "padding_token": "<p>"}
    vocabulary = with_bytes(MERGES, "<e>", "<p>")
    ByteBpeTokenizer(vocabulary, MERGES, added_tokens=["<e>"], **options).save(tmp_path)
    read = read_vocabulary_and_merges(VocabularyFiles(tmp_path))
    assert read == (vocabulary, MERGES)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["add_prefix_space"] and config["pad_token"] == "<p>"
    entries = config["added_tokens_decoder"].values()
    assert {entry["content"]: entry["lstrip"] for entry in entries} == dict.fromkeys(
        ["<unk>", "<p>", "<s>", "</s>", "<mask>", "<e>"], False
    )


def serialized(merges):
    vocabulary = {token: index for index, token in enumerate(with_bytes(MERGES))}
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }


@pytest.mark.parametrize("as_strings", [True, False])
def test_tokenizer_json_alone_is_enough(tmp_path, as_strings):
    merges = [" ".join(pair) if as_strings else list(pair) for pair in MERGES]
    (tmp_path / "tokenizer.json").write_text(json.dumps(serialized(merges)))
    assert read_vocabulary_and_merges(VocabularyFiles(tmp_path)) == (with_bytes(MERGES), MERGES)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"type": "WordPiece"}}, "model.type='WordPiece'"),
        ({"model": {"type": "BPE", "dropout": 0.1}}, "model.dropout=0.1"),
        ({"normalizer": {"type": "NFKC"}}, "normalizer={'type': 'NFKC'}"),
        ({"pre_tokenizer": {"type": "Split"}}, "pre_tokenizer=[{'type': 'Split'}]"),
        ({"pre_tokenizer": None}, "pre_tokenizer"),
    ],
)
def test_a_tokenizer_json_of_another_kind_is_refused(changes, words, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(serialized([]) | changes))
    assert_refused(lambda: read_vocabulary_and_merges(VocabularyFiles(tmp_path)), words)


def test_bytes_without_a_token_are_left_out_and_named(caplog):
    """As tokenizers does where a model has no unknown token: what stands around them meets."""
    vocabulary = [token for token in with_bytes(MERGES) if token not in ("Ã", "©")]
    with caplog.at_level(logging.WARNING):
        tokenizer = ByteBpeTokenizer(vocabulary, MERGES, source="here")
    assert all(part in caplog.text for part in ("here lacks", "byte 0xc3 ('Ã')", "byte 0xa9"))
    assert tokenizer(["heéllo", "hello", "é", ""]).to_list() == [
        *tokenizer(["hello"] * 2).to_list(),
        [],
        [],
    ]


# --- Rows as in tokenizer.json ---


def llama(directory, post_processor, **config):
    """Writes the files of a tokenizer like Llama 3's."""
    vocabulary, merges = own_vocabulary()
    named = dict.fromkeys(("unknown_token", "padding_token", "cls_token", "sep_token"))
    added = [{"content": f"<|{name}|>", "special": True} for name in ("begin", "end", "m")]
    tokenizer = ByteBpeTokenizer(
        vocabulary[:-1],
        merges,
        **named,
        mask_token="<|m|>",
        pattern="gpt_4",
        ignore_merges=True,
        added_tokens=added,
        lstrip_mask=False,
    )
    content = {**tokenizer.serialized(), "post_processor": post_processor}
    (directory / "tokenizer.json").write_text(json.dumps(content))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def template(single, pair):
    def parts(text):
        for part in text.split():
            name, _, segment = part.partition(":")
            kind = "Sequence" if name in "AB" else "SpecialToken"
            yield {kind: {"id": name, "type_id": int(segment or 0)}}

    size = len(own_vocabulary()[0]) - 1
    ids = {"<|begin|>": size, "<|end|>": size + 1}
    return {
        "type": "TemplateProcessing",
        "single": [*parts(single)],
        "pair": [*parts(pair)],
        "special_tokens": {
            token: {"id": token, "ids": [index], "tokens": [token]} for token, index in ids.items()
        },
    }


LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
FORM = TextFormat(read_bpe, layout=Layout(pair="cls A sep B sep", segments=False))


@pytest.mark.parametrize(
    ("single", "pair", "layout"),
    [
        ("<|begin|> A", "<|begin|> A <|begin|>:1 B:1", ("cls A", "cls A cls:1 B:1")),
        (
            "<|begin|> A <|end|>",
            "<|begin|> A <|end|> <|begin|>:1 B:1 <|end|>:1",
            ("cls A sep", "cls A sep cls:1 B:1 sep:1"),
        ),
        ("A <|end|>", "A <|end|> B <|end|>", ("A sep", "A sep B sep")),
        ("", "", ("A", "A B")),
    ],
)
def test_the_file_says_which_ends_rows_have(single, pair, layout, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    step = {"type": "Sequence", "processors": [LEVEL, template(single, pair)]} if single else LEVEL
    llama(tmp_path, step, pad_token="<|end|>", eos_token="<|end|>", mask_token="<|m|>")
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    read = DeferredPreprocessor(tmp_path, FORM, sequence_length=99).make()
    assert (read.packer.layout.single, read.packer.layout.pair) == layout
    assert read.packer.pad_id == reference.token_to_id("<|end|>")
    read.save_vocabulary(tmp_path / "again")
    again = DeferredPreprocessor(tmp_path / "again", FORM, sequence_length=99).make()
    for made in (read, again):
        for texts in (["It'S 12345 <|m|>a"], ["a  b\n\n", "the end"]):
            packed = made(tuple([text] for text in texts) if len(texts) > 1 else texts)
            ids = reference.encode(*texts).ids
            assert packed["token_ids"][0, : len(ids)].numpy().tolist() == ids
            assert int(packed["padding_mask"].numpy().sum()) == len(ids)


@pytest.mark.parametrize(
    ("post_processor", "words"),
    [
        ({"type": "RobertaProcessing"}, "type='RobertaProcessing'"),
        (
            template("<|begin|> A <|end|> <|m|>", "A B"),
            "rows may begin with one and have one other",
        ),
        (template("B <|end|>", "A B"), "is no template for a row of 1"),
    ],
)
def test_rows_that_cannot_be_composed_are_refused(post_processor, words, tmp_path):
    llama(tmp_path, post_processor)
    assert_refused(lambda: DeferredPreprocessor(tmp_path, FORM, sequence_length=99), words)


def test_words_of_modern_patterns_have_a_blank_before_them(tmp_path):
    pytest.importorskip("tokenizers")
    llama(tmp_path, template("<|begin|> A <|end|>", "A B"))
    tokenizer = DeferredPreprocessor(tmp_path, FORM, sequence_length=99).make().tokenizer
    words = ["the", "cat's", "12", "(x)", "a<|m|>b"]
    in_graph = word_pieces(tf.ragged.constant([words]), tokenizer).to_list()[0]
    reader = Reader(in_rust(tokenizer), unk_id=None, blank_before_words=True)
    assert in_graph == reader.words(words).rows()
    assert tokenizer.id_to_token(in_graph[0][0]) == "Ġthe"
