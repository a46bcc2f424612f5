import json
import logging
import random
import re
from itertools import pairwise
from pathlib import Path

import byte_bpe_samples as samples
import pytest
from helpers import assert_refused, ids_and_spans, in_rust

from bert_zoo.text import preprocessor_from_dir
from bert_zoo.text.byte_bpe import ALPHABET, ByteBpeTokenizer
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.vocabulary_files import read_vocabulary_and_merges

ROOT = Path(__file__).resolve().parent.parent
BYTES = sorted(ALPHABET, key=ALPHABET.__getitem__)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("'", "s")]


def with_bytes(merges, *more):
    return [*SPECIAL, *BYTES, *dict.fromkeys(a + b for a, b in merges), *more]


@pytest.fixture(scope="module")
def small():
    return ByteBpeTokenizer(with_bytes(MERGES), MERGES)


@pytest.fixture(scope="module")
def own():
    return {
        name: ByteBpeTokenizer(*samples.own_vocabulary(), **options)
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


def test_a_token_that_merges_do_not_arrive_at_is_not_used():
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]
    tokenizer = ByteBpeTokenizer(with_bytes(merges, "xyz"), merges)
    assert tokens_of(tokenizer, ["abc", "xyz"]) == [["a", "bc"], ["x", "y", "z"]]


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
        ({"pre_tokenizer": {"type": "Split"}}, "pre_tokenizer.type='Split'"),
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
