"""What a mask may stand for: the model's own probabilities, ranked, readable, and nothing silent."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import ONE_A_TASK, family_of, loaded, slow_but, task_of

FAMILIES = [family_of(case) for case in ONE_A_TASK if task_of(case) == "masked_lm"]


def model_of(family: str, task: str = "masked_lm"):
    return loaded(f"{family}/masked_lm", task)


def mask_of(model) -> str:
    tokenizer = model.preprocessor.tokenizer
    return tokenizer.vocabulary[tokenizer.mask_id]


def softmax_at_masks(model, parts: list[str]) -> np.ndarray:
    """Probabilities [masks, vocabulary] of parts of a text with masks between, all places projected."""
    tokenizer = model.preprocessor.tokenizer
    rows = tokenizer(parts).to_list()
    inner = rows[0] + [i for row in rows[1:] for i in (tokenizer.mask_id, *row)]
    inputs = model.preprocessor.pack([tf.ragged.constant([inner], tf.int32)])
    is_mask = inputs["token_ids"][0] == tokenizer.mask_id
    return tf.nn.softmax(model(inputs)[0]).numpy()[is_mask]


# A place of XLNet's sees itself unless mask_positions are given, and so is no reference.
OTHERS = [family for family in FAMILIES if family != "xlnet"]


@pytest.mark.parametrize("family", slow_but(OTHERS, "bert", "roberta", "albert"))
def test_candidates_are_the_likeliest_tokens_of_a_direct_softmax(family):
    model = model_of(family)
    mask = mask_of(model)
    filled = model.fill_mask(f"the cat{mask} in the{mask}", top_k=7)
    wanted = softmax_at_masks(model, ["the cat", " in the", ""])
    assert len(filled) == len(wanted) == 2
    for candidates, row in zip(filled, wanted, strict=True):
        np.testing.assert_allclose([c.score for c in candidates], np.sort(row)[:-8:-1], atol=1e-6)
        np.testing.assert_allclose([row[c.token_id] for c in candidates], np.sort(row)[:-8:-1])


def test_each_candidate_stands_in_its_text_and_other_masks_stay():
    first, second = model_of("bert").fill_mask("The [MASK] sat on [MASK].", top_k=120)
    for candidate in first + second:
        assert candidate.text[candidate.start :].startswith(candidate.token)
    by_token = {c.token: c for c in first}
    assert by_token["dog"].text == "The dog sat on [MASK]."
    assert next(c for c in second if c.token == "dog").text == "The [MASK] sat on dog."
    assert by_token["able"].text == "Theable sat on [MASK]."  # "##able" goes on with the word


@pytest.mark.parametrize(
    ("family", "before", "spelling", "token", "text"),
    [
        ("bert", "a red ", "##ing", "ing", "a reding"),
        ("bert", "a red", "dog", "dog", "a red dog"),
        ("bert", "(", "dog", "dog", "(dog"),
        ("roberta", "a red", "Ġbird", "bird", "a red bird"),
        ("albert", "a red ", "▁not", "not", "a red not"),
        ("albert", "a red ", "n", "n", "a redn"),
        ("albert", "", "▁not", "not", "not"),
    ],
)
def test_tokens_read_without_marks_and_join_as_they_are_meant(
    family, before, spelling, token, text
):
    model = model_of(family)
    ((candidate,),) = model.fill_mask(before + mask_of(model), targets=spelling)
    assert (candidate.token, candidate.text) == (token, text)


@pytest.mark.parametrize(
    ("family", "text", "spelling", "filled"),
    [
        ("bertweet", "the cat {} the dog", "m@@", "the cat mthe dog"),
        ("bertweet", "the cat {} the dog", "m", "the cat m the dog"),
        ("bertweet", "cat{}dog", "m", "cat m dog"),
        ("xlm", "the cat {} the dog", "m", "the cat mthe dog"),
        ("xlm", "the cat {} the dog", "m</w>", "the cat m the dog"),
    ],
)
def test_marks_behind_tokens_are_not_shown_and_join_what_follows(family, text, spelling, filled):
    model = model_of(family)
    tokenizer = model.preprocessor.tokenizer
    (candidates,) = model.fill_mask(text.format(mask_of(model)), top_k=tokenizer.vocab_size)
    found = {candidate.token_id: candidate for candidate in candidates}
    candidate = found[tokenizer.token_to_id(spelling)]
    assert (candidate.token, candidate.text) == ("m", filled)
    (named,) = model.fill_mask(text.format(mask_of(model)), targets=["m"])
    wanted = {"bertweet": "m", "xlm": "m</w>"}[family]
    assert named[0].token_id == tokenizer.token_to_id(wanted)


def test_targets_are_ranked_all_with_their_probabilities_in_the_vocabulary():
    model = model_of("bert")
    targets = ["dog", "CAT", "bird", "tree", "river", "house", "cat"]
    (candidates,) = model.fill_mask("the [MASK] sat", targets=targets, top_k=2)
    assert {c.token for c in candidates} == {"dog", "cat", "bird", "tree", "river", "house"}
    scores = [c.score for c in candidates]
    assert scores == sorted(scores, reverse=True)
    (row,) = softmax_at_masks(model, ["the", "sat"])
    np.testing.assert_allclose(scores, [row[c.token_id] for c in candidates], atol=1e-6)


def test_pretraining_models_fill_masks_too():
    text = "the [MASK] sat"
    model = loaded("pretraining")
    (candidates,) = model.fill_mask(text, top_k=1)
    outputs = model(model.preprocessor([text]))["mlm_logits"]
    assert candidates[0].token_id == int(np.argmax(outputs[0, 2]))


def test_prints_a_table_for_each_mask():
    filled = model_of("bert").fill_mask("the [MASK] sat on [MASK]", top_k=3)
    lines = str(filled).splitlines()
    assert lines[0] == "Mask 1 of 2" and lines[5] == "Mask 2 of 2" and len(lines) == 9
    best = filled[0][0]
    assert lines[1].split() == [best.token, f"{best.score:.3f}", *best.text.split()]
    assert repr(filled) == str(filled)


def test_long_texts_are_shown_around_the_candidate():
    model = model_of("bert")
    text = "the big red house of the day and the [MASK] in the small blue city by the big red river"
    shown = str(model.fill_mask(text, targets="dog"))
    assert "…" in shown and " dog in" in shown and "river" not in shown


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("the cat", {}, ValueError, r"'the cat' has no mask. Write \[MASK\]"),
        (["the [MASK]"], {}, TypeError, "single text"),
        ("[MASK] " + "big " * 60, {}, ValueError, "61 tokens, but this model reads only 38"),
        ("[MASK]", {"targets": "uncat"}, ValueError, r"'uncat' is not a single token.*'u', '##n'"),
        ("[MASK]", {"targets": "東"}, ValueError, r"'東' is not a single token.*\[UNK\]"),
        ("[MASK]", {"targets": []}, ValueError, r"targets is \[\]"),
        ("[MASK]", {"targets": ["a", ""]}, ValueError, "targets is"),
        ("[MASK]", {"targets": [3]}, ValueError, r"targets is \[3\]"),
        ("[MASK]", {"top_k": 0}, ValueError, "top_k is 0"),
        ("[MASK]", {"top_k": 121}, ValueError, "top_k is 121.*120"),
    ],
)
def test_what_cannot_be_filled_raises(text, options, error, message):
    with pytest.raises(error, match=message):
        model_of("bert").fill_mask(text, **options)
