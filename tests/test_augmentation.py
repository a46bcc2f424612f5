"""Variants of texts: other words in the place of those that may be replaced, and nothing else changed."""

import re

import numpy as np
import pytest

import bert_zoo
from bert_zoo.data import messages
from bert_zoo.distillation import augment
from bert_zoo.distillation.augmentation import FUNCTION_WORDS

TEXTS = [
    *messages.load("train")[0][:12],
    "The Film of 1999, with a GREAT story!",
    "zzqxv and hmmgrf",
    "a good [MASK]",
    "",
]
WORD = re.compile(r"\w+")


@pytest.fixture(scope="module")
def model():
    return bert_zoo.load("bert_nano", task="masked_lm")


@pytest.fixture(scope="module")
def variants(model):
    return augment(TEXTS, model, number=6)


def test_the_text_comes_first_and_all_are_distinct(variants):
    assert [found[0] for found in variants] == TEXTS
    assert all(1 <= len({*found}) == len(found) <= 7 for found in variants)
    assert np.mean([len(found) for found in variants[:12]]) > 4


def test_words_that_may_be_replaced_are_all_that_changes(variants, model):
    replaced, tokenizer = 0, model.preprocessor.tokenizer
    for text, *others in variants:
        words = WORD.findall(text)
        for other in others:
            assert WORD.sub("", other) == WORD.sub("", text)
            for before, after in zip(words, WORD.findall(other), strict=True):
                if before != after:
                    replaced += 1
                    assert re.fullmatch("[a-zA-Z]+", before)
                    assert before.lower() not in FUNCTION_WORDS
                    assert before.lower() in tokenizer.vocabulary
                    assert after in tokenizer.vocabulary and not after.startswith("##")
    assert replaced > 50
    # No word of one token, a mask already, and nothing.
    assert [len(found) for found in variants[-3:]] == [1, 1, 1]


def test_they_depend_on_the_seed_and_the_place_alone(variants, model):
    assert augment(TEXTS, model, number=6, batch_size=5) == variants
    assert augment(TEXTS[:3], model, number=6) == variants[:3]
    assert augment(TEXTS[:3], model, number=6, seed=1) != variants[:3]


@pytest.mark.parametrize(("probability", "least", "most"), [(0.2, 0.1, 0.27), (1.0, 0.8, 1.0)])
def test_as_many_words_change_as_the_probability_says(probability, least, most, model):
    text = "I want my money back"
    found = augment([text] * 300, model, number=1, probability=probability)
    changed = np.mean([found[-1].split()[3] != "money" for found in found])
    assert least < changed <= most  # the word itself may be a candidate


def test_candidates_are_those_of_the_masked_text_beside_the_whole(model):
    """As `fill_mask` has them, given the pair."""
    text = "I want my money back"
    (found,) = augment([text], model, number=400, probability=1.0, candidates=3)
    drawn = {variant.split()[3] for variant in found}
    rows = model.preprocessor((["I want my [MASK] back"], [text]))
    mask = np.argmax(np.array(rows["token_ids"][0]) == model.preprocessor.tokenizer.mask_id)
    top = np.argsort(-np.array(model(rows))[0, mask])[:3]
    words = [model.preprocessor.tokenizer.id_to_token(i) for i in top]
    assert drawn == {word for word in words if word.isalnum() and not word.startswith("##")}


def test_pairs_are_varied_on_both_sides(model):
    pairs = (["a great film", "I want my money back"], ["the story was good", "a big red house"])
    found = augment(pairs, model, number=6)
    assert [variants[0] for variants in found] == [*zip(*pairs, strict=True)]
    for variants in found:
        assert all(len({*side}) > 1 for side in zip(*variants, strict=True))


@pytest.mark.parametrize("name", ["roberta_nano", "albert_nano"])
def test_other_vocabularies_have_variants_too(name):
    model = bert_zoo.load(name, task="masked_lm")
    found = augment(TEXTS[:4], model, number=6)
    assert all(len(variants) > 2 for variants in found)
    for text, *others in found:
        assert {WORD.sub("", other) for other in others} == {WORD.sub("", text)}


def test_words_of_several_tokens_come_from_word_vectors(model, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(
        "zzqxv 1 0.1 0\nhmmgrf 0 1 0\nnearest 0.9 0.1 0\nsecond 0.8 0.4 0\nfar 0 0 1\n", "utf-8"
    )
    options = {"number": 50, "candidates": 2, "probability": 1.0}
    (found,) = augment(["zzqxv and unlisted"], model, glove=vectors, **options)
    assert {*found[1:]} == {"nearest and unlisted", "second and unlisted"}
    vectors.write_text("one 1 2\ntwo 1\n", "utf-8")
    with pytest.raises(ValueError, match=r"line 2: expected a word and 2 numbers.*'two 1'"):
        augment(["zzqxv"], model, glove=vectors)


def test_what_it_cannot_do_it_says(model):
    with pytest.raises(TypeError, match="one string; pass a list"):
        augment("a text", model)
    with pytest.raises(TypeError, match="predicts no masked tokens"):
        augment(["a text"], bert_zoo.load("bert_nano"))
    for option, value in {"number": 0, "probability": 1.5, "candidates": 0}.items():
        with pytest.raises(ValueError, match=f"{option} is {value}"):
            augment(["a text"], model, **{option: value})
