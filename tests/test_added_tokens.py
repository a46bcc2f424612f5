"""Added tokens: found in texts as transformers finds them, saved, and with rows in a model's tables."""

import gzip
import json
import re
from pathlib import Path

import byte_bpe_samples
import numpy as np
import pytest
import text_samples
from helpers import (
    assert_refused,
    ids_and_spans,
    ids_in_rust,
    loaded,
    refusals,
    slow_but,
    small_sentencepiece,
)

import bert_zoo
from bert_zoo.text import (
    AddedToken,
    ByteBpeTokenizer,
    WordLevelTokenizer,
    WordPieceTokenizer,
    tokenizer_from_dir,
)

GOLDEN = Path(__file__).parent / "golden" / "text"
ANSWERS = json.loads(gzip.decompress((GOLDEN / "added_tokens.json.gz").read_bytes()))
TEXTS, CASES = ANSWERS["texts"], ANSWERS["cases"]


def write_vocabulary(case: str, directory: Path) -> str:
    """Writes what the golden answers are of; gives the family."""
    config = {"added_tokens_decoder": CASES[case]["entries"]}
    if case == "roberta":
        byte_bpe_samples.write_own_files(directory)
    elif case == "xlm_roberta":
        (directory / "sentencepiece.bpe.model").write_bytes(small_sentencepiece())
    else:
        lines = "".join(f"{token}\n" for token in text_samples.latin_vocabulary())
        (directory / "vocab.txt").write_text(lines, "utf-8")
        config["do_lower_case"] = case == "uncased"
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return case if case in ("roberta", "xlm_roberta") else "bert"


@pytest.mark.parametrize("case", slow_but(CASES, "uncased", "roberta", "xlm_roberta"))
def test_ids_and_offsets_are_those_of_transformers_also_once_saved(case, tmp_path):
    family = write_vocabulary(case, tmp_path)
    tokenizer = tokenizer_from_dir(tmp_path, family)
    # Where a model's rules take a character for a blank, the reference drops a mark behind it.
    dropped = "[\u00a0\u3000]\u0301" if case == "xlm_roberta" else "(?!)"
    kept = [i for i, text in enumerate(TEXTS) if not re.search(dropped, text)]
    wanted = {name: [CASES[case][name][i] for i in kept] for name in ("ids", "offsets")}
    ids, spans = ids_and_spans(tokenizer, [TEXTS[i] for i in kept])
    assert len(kept) > 140 and ids == wanted["ids"]
    assert [[*map(list, row)] for row in spans] == wanted["offsets"]

    tokenizer.save(tmp_path / "saved")
    again = tokenizer_from_dir(tmp_path / "saved", family)
    assert again.get_config() == tokenizer.get_config()
    assert again.added_tokens == tokenizer.added_tokens
    assert again.base_vocabulary == tokenizer.base_vocabulary


@pytest.mark.parametrize("case", slow_but(["cased", "uncased", "roberta"], "cased"))
def test_in_rust_they_are_found_alike(case, tmp_path):
    pytest.importorskip("tokenizers")
    tokenizer = tokenizer_from_dir(tmp_path, write_vocabulary(case, tmp_path))
    assert ids_in_rust(tokenizer, TEXTS) == tokenizer(TEXTS).to_list() == CASES[case]["ids"]


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "co", "##vid", "##19", "##s", "a", "b"]


def test_texts_are_spelled_without_the_tokens_that_were_added():
    token = AddedToken("Covid19", single_word=True, normalized=True)
    tokenizer = WordPieceTokenizer(VOCABULARY, added_tokens=[token, "covid"])
    assert tokenizer.vocabulary == (*VOCABULARY, "Covid19", "covid")
    assert tokenizer.base_vocabulary == tuple(VOCABULARY)
    texts = ["COVID19 a", "covid19", "Covid19s", "aCovid19"]
    assert tokenizer(texts).to_list() == [[11, 9], [12, 1], [5, 6, 7, 8], [1]]
    known = WordPieceTokenizer(VOCABULARY, added_tokens=[{"content": "co", "normalized": True}])
    assert known.vocab_size == len(VOCABULARY)
    assert known(["aCo b"]).to_list() == [[9, 5, 10]]


def test_many_tokens_may_overlap_and_the_leftmost_and_longest_is_found():
    words = [f"w{number}" for number in range(300)]
    tokenizer = WordPieceTokenizer(
        VOCABULARY, added_tokens=[*words, "ab", "bcd", "abcd", "cdefg", "aaa", "aa"]
    )
    wanted = {
        "w299w29w2": ["w299", "w29", "w2"],
        "abcd": ["abcd"],
        "ab": ["ab"],
        "xbcdefg": ["[UNK]", "bcd", "[UNK]"],
        "abcdefg": ["abcd", "[UNK]"],
        "aaaaa": ["aaa", "aa"],
        "A a": ["a", "a"],
    }
    rows = tokenizer([*wanted]).to_list()
    assert [[*map(tokenizer.id_to_token, row)] for row in rows] == [*wanted.values()]


def test_special_tokens_are_cut_out_of_byte_bpe_wherever_they_overlap():
    vocabulary, merges = byte_bpe_samples.own_vocabulary()
    tokenizer = ByteBpeTokenizer(vocabulary, merges, added_tokens=["<a|", "|b>", " x", "<mask>2"])
    shown = [tokenizer.id_to_token(i) for i in tokenizer(["<a|b> x <mask>2"]).to_list()[0]]
    assert shown == ["<a|", "b", ">", " x", "Ġ", "<mask>2"]


GROWN = ["bert/masked_lm", "roberta/masked_lm", "electra/classification"]


@pytest.mark.parametrize("case", slow_but(GROWN, "bert/masked_lm"))
def test_a_models_tables_grow_by_the_mean_of_the_pieces(case, tmp_path):
    model = loaded(case)
    texts = ["the cat Covid19 sat", "<e1>", "the cat"]
    before = model.preprocessor(texts)
    grown = bert_zoo.add_tokens(model, ["Covid19", {"content": "<e1>", "special": True}])
    assert type(grown) is type(model) and grown.compiled == model.compiled
    old, new = model.preprocessor.tokenizer, grown.preprocessor.tokenizer
    token = new.token_to_id("Covid19")
    assert new.vocab_size == old.vocab_size + 2 and token == old.vocab_size

    pieces = old(["Covid19"]).to_list()[0]
    tables = [np.asarray(m.encoder.backbone.token_table) for m in (model, grown)]
    np.testing.assert_allclose(tables[1][token], tables[0][pieces].mean(0), atol=1e-6)
    np.testing.assert_array_equal(tables[1][: old.vocab_size], tables[0][: old.vocab_size])
    # What has no new token is read as before; a head over the vocabulary has one more logit a token.
    unchanged = {name: value[2:] for name, value in before.items()}
    outputs, wanted = np.asarray(grown(unchanged)), np.asarray(model(unchanged))
    np.testing.assert_allclose(outputs[..., : wanted.shape[-1]], wanted, atol=1e-5)

    inputs = grown.preprocessor(texts)
    found = np.asarray(inputs["token_ids"])
    assert (found[0] == token).any() and (found[1] == token + 1).any()
    outputs = np.asarray(grown(inputs))
    for form in ("bert_zoo", "hf"):
        bert_zoo.save(grown, tmp_path / form, format=form)
        again = bert_zoo.load(tmp_path / form, task=model.task)
        assert again.preprocessor.tokenizer.get_config() == new.get_config()
        np.testing.assert_allclose(np.asarray(again(again.preprocessor(texts))), outputs, atol=1e-6)


def add(tokens, **options):
    return lambda: bert_zoo.add_tokens(loaded("bert/masked_lm"), tokens, **options)


@refusals(
    (add("covid"), "one string; pass a list"),
    (add([]), "empty"),
    (add([3]), "added token 3"),
    (add(["a"], rows="zeros"), "one of ['mean', 'random']"),
    (
        lambda: WordLevelTokenizer(["<unk>", "<eos>", "a"]).with_added_tokens(["b"]),
        "Extend its vocabulary",
    ),
)
def test_tokens_that_cannot_be_added_are_refused(call, words):
    assert_refused(call, words)
