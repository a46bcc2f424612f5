"""Pseudo-log-likelihoods of texts: transformers' numbers, whatever the batch, and nothing silent."""

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN, ONE_A_TASK, TEXTS, TOLERANCE, family_of, loaded, slow_but, task_of

# One forward pass of transformers a token.
GOLDEN = json.loads((ALL_GOLDEN / "pseudo_log_likelihood.json").read_text())
WAYS = [(c, w) for c, found in GOLDEN["cases"].items() for w in found if w != "token_ids"]
FAMILIES = [family_of(case) for case in ONE_A_TASK if task_of(case) == "masked_lm"]
FAMILIES.remove("xlnet")  # where a token sees itself unless mask_positions are given


@pytest.mark.parametrize(("case", "within_word"), WAYS)
def test_numbers_are_those_of_transformers(case, within_word):
    found = loaded(case).score(GOLDEN["texts"], within_word=within_word)
    wanted = GOLDEN["cases"][case]
    tokenizer = loaded(case).preprocessor.tokenizer
    for row, ids, log_probs in zip(found, wanted["token_ids"], wanted[within_word], strict=True):
        assert row.tokens == tuple(map(tokenizer.id_to_token, ids))
        np.testing.assert_allclose(row.log_probs, log_probs, rtol=0, atol=TOLERANCE)
        assert row.perplexity == pytest.approx(np.exp(-np.mean(log_probs)), rel=1e-5)


@pytest.mark.parametrize("family", slow_but(FAMILIES, "bert"))
def test_each_family_predicts_a_token_as_from_logits_of_all_tokens(family):
    model = loaded(f"{family}/masked_lm")
    tokenizer = model.preprocessor.tokenizer
    (row,) = model.score("the cat")
    *others, last = map(tokenizer.token_to_id, row.tokens)
    inputs = model.preprocessor.pack([tf.ragged.constant([[*others, tokenizer.mask_id]], tf.int32)])
    (at_mask,) = np.asarray(model(inputs))[np.asarray(inputs["token_ids"]) == tokenizer.mask_id]
    np.testing.assert_allclose(
        row.log_probs[-1], tf.nn.log_softmax(at_mask)[last], rtol=0, atol=TOLERANCE
    )


def test_a_text_has_the_same_score_in_any_batch():
    model = loaded("bert/masked_lm")
    one, all_ = (model.score(TEXTS, batch_size=size) for size in (1, 64))
    for a, b in zip(one, all_, strict=True):
        assert a.text == b.text
        np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)


def test_hiding_the_rest_of_a_word_changes_only_tokens_before_its_end():
    model = loaded("bert/masked_lm")
    one, other = (
        model.score("the uncat", within_word=way)[0] for way in ("one_by_one", "left_to_right")
    )
    assert one.tokens == ("the", "u", "##n", "##c", "##a", "##t")
    is_same = np.isclose(one.log_probs, other.log_probs, atol=1e-6)
    assert is_same.tolist() == [True, False, False, False, False, True]


def test_tokens_of_long_texts_are_read_in_the_window_around_them():
    model = loaded("bert/masked_lm")  # reads 38 tokens beside special ones
    words = ("the cat sat on a tree and saw big red house in city " * 4).split()
    (row,) = model.score(" ".join(words))
    assert len(row.tokens) == len(words) == 52
    for position, start in ((3, 0), (25, 6), (50, 14)):
        (window,) = model.score(" ".join(words[start : start + 38]))
        np.testing.assert_allclose(
            row.log_probs[position], window.log_probs[position - start], atol=1e-5
        )


def test_models_with_further_objectives_score_too():
    model = loaded("pretraining")
    (row,) = model.score("the cat sat")
    hidden = model.preprocessor("the [MASK] sat")
    logits = np.asarray(model(hidden)["mlm_logits"])[0, 2].astype(np.float64)
    cat = model.preprocessor.tokenizer.token_to_id("cat")
    log_prob = logits[cat] - np.log(np.exp(logits).sum())
    np.testing.assert_allclose(row.log_probs[1], log_prob, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "texts", "options", "message"),
    [
        ("bert", ["a", " "], {}, r"texts\[1\] is ' ', which has no token"),
        ("bert", "a", {"batch_size": 0}, "batch_size is 0"),
        (
            "bert",
            "a",
            {"within_word": "l2r"},
            r"within_word is 'l2r'; it must be one of \['one_by_one'",
        ),
        ("xlnet", "a", {"within_word": "left_to_right"}, "second stream. Leave within_word out"),
    ],
)
def test_what_cannot_be_scored_raises(case, texts, options, message):
    with pytest.raises(ValueError, match=message):
        loaded(f"{case}/masked_lm").score(texts, **options)
