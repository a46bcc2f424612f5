"""Minimal pairs, words in a blank and facts: what `score` and `fill_mask` say of them, and what cannot be asked."""

import numpy as np
import pytest
from helpers import assert_refused, loaded, loaded_task, refusals

import bert_zoo
from bert_zoo.data.fill_in import Cloze, MinimalPair
from bert_zoo.probing import Preferences, Recall, choose_words, judge_pairs, recall_facts

MASKED, LANGUAGE_MODEL = "bert/masked_lm", "gpt2/causal_lm"
PAIRS = [
    MinimalPair("the cat sat on a tree", "the cat sat a tree", ("verbs", "sat")),
    MinimalPair("a bird ran", "bird a ran", ("order", "article")),
    MinimalPair("they ran", "they ran ran", ("order", "twice")),
]
CHOICES = [
    Cloze("the [MASK] sat on a tree", "cat", "house", ("affirmative",)),
    Cloze("it was not a [MASK]", "house", "uncat", ("negated",)),
    Cloze("[MASK] ran to the house", "they", "tree", ("affirmative",)),
]
FACTS = [
    Cloze("the cat is a [MASK]", "bird", groups=("isa",)),
    Cloze("the city is [MASK]", "big", groups=("is",)),
    Cloze("the house is [MASK] .", "uncat", groups=("is",)),
    Cloze("the tree is [MASK]", "red", groups=("is",)),
]


def preferences(margins, groups=None) -> Preferences:
    groups = groups or [()] * len(margins)
    items = tuple(MinimalPair("a", "b", names) for names in groups)
    return Preferences(items, np.array(margins))


def filled(model, text: str) -> dict[int, float]:
    tokenizer = model.preprocessor.tokenizer
    (candidates,) = model.fill_mask(text, top_k=tokenizer.vocab_size)
    return {candidate.token_id: candidate.score for candidate in candidates}


@pytest.mark.parametrize("case", [MASKED, LANGUAGE_MODEL])
def test_margins_of_pairs_are_differences_of_scores(case):
    model = loaded(case)
    found = judge_pairs(model, PAIRS, batch_size=3)
    for pair, margin in zip(PAIRS, found.margins, strict=True):
        good, bad = (score.log_probs.sum() for score in model.score([pair.good, pair.bad]))
        assert margin == pytest.approx(good - bad, abs=1e-4)
    assert found.accuracy == np.mean(found.margins > 0)


def test_rests_of_words_are_hidden_where_it_is_asked():
    pairs = [MinimalPair("the cat sat on uncat", "the cat sat on")]
    one, other = (
        judge_pairs(loaded(MASKED), pairs, within_word=way)
        for way in ("one_by_one", "left_to_right")
    )
    assert abs(one.margins[0] - other.margins[0]) > 1e-3


def test_a_masked_model_chooses_by_the_probabilities_at_the_mask():
    model = loaded(MASKED)
    found = choose_words(model, CHOICES, batch_size=2)
    assert found.is_asked.tolist() == [True, False, True]  # "uncat" has four tokens
    for item, margin in zip(CHOICES[::2], found.margins[::2], strict=True):
        scores = filled(model, item.text)
        right, wrong = map(model.preprocessor.tokenizer.token_to_id, (item.answer, item.wrong))
        assert margin == pytest.approx(np.log(scores[right] / scores[wrong]), abs=1e-4)


def test_a_language_model_chooses_by_the_whole_sentence():
    model = loaded(LANGUAGE_MODEL)
    found = choose_words(model, CHOICES)
    assert found.is_asked.all()
    right, wrong = model.score(["it was not a house", "it was not a uncat"])
    assert found.margins[1] == pytest.approx(
        right.log_probs.sum() - wrong.log_probs.sum(), abs=1e-4
    )


def test_answers_are_ranked_in_the_vocabulary_as_fill_mask_ranks_them():
    model = loaded(MASKED)
    tokenizer = model.preprocessor.tokenizer
    found = recall_facts(model, FACTS, batch_size=2)
    assert found.is_asked.tolist() == [True, True, False, True]
    for row in (0, 1, 3):
        ids = [*filled(model, FACTS[row].text)]
        assert found.ranks[row] == 1 + ids.index(tokenizer.token_to_id(FACTS[row].answer))
        assert found.predictions[row] == tokenizer.piece(ids[0]).text
    assert found.predictions[2] is None
    assert found.chance == pytest.approx(1 / tokenizer.vocab_size)


def test_answers_are_ranked_among_candidates_of_one_token():
    model = loaded(MASKED)
    candidates = ["red", "uncat", "big", "cat", "red"]
    found = recall_facts(model, FACTS, candidates)
    assert found.is_asked.tolist() == [False, True, False, True]
    assert found.num_candidates.tolist() == [0, 3, 0, 3]
    scores = filled(model, FACTS[1].text)
    words = ("red", "big", "cat")
    order = sorted(words, key=lambda w: -scores[model.preprocessor.tokenizer.token_to_id(w)])
    assert found.ranks[1] == 1 + order.index("big") and found.predictions[1] == order[0]


@pytest.mark.parametrize(("name", "mark"), [("roberta_nano", "Ġ"), ("albert_nano", "▁")])
def test_words_after_a_space_are_the_tokens_that_begin_words(name, mark):
    model = bert_zoo.load(name, task="masked_lm")
    tokenizer = model.preprocessor.tokenizer
    found = choose_words(model, [Cloze("The women in the room [MASK] very good.", "were", "was")])
    scores = filled(
        model, f"The women in the room {tokenizer.id_to_token(tokenizer.mask_id)} very good."
    )
    right, wrong = (scores[tokenizer.token_to_id(mark + word)] for word in ("were", "was"))
    assert found.margins[0] == pytest.approx(np.log(right / wrong), abs=1e-4)


def test_words_that_a_model_reads_alike_cannot_be_asked_for():
    pairs = [MinimalPair("the cat sat", "The cat sat"), MinimalPair("the cat sat", "the 東 sat")]
    found = judge_pairs(loaded(MASKED), pairs)
    assert not found.is_asked.any()
    assert "all" in str(found) and np.isnan(found.accuracy)
    same = Cloze("the [MASK]", "cat", "CAT")
    assert not choose_words(loaded(MASKED), [same]).is_asked.any()


def test_a_language_model_ranks_the_answers_of_the_same_relation():
    model = loaded(LANGUAGE_MODEL)
    found = recall_facts(model, FACTS)
    assert found.num_candidates.tolist() == [1, 3, 3, 3]
    words = ["big", "uncat", "red"]
    totals = [score.log_probs.sum() for score in model.score([f"the city is {w}" for w in words])]
    assert found.predictions[1] == words[int(np.argmax(totals))]
    assert found.ranks[1] == 1 + sum(total > totals[0] for total in totals)


def test_accuracy_is_over_what_was_asked_and_a_tie_is_wrong():
    found = preferences([1.0, 0.0, np.nan, -2.0, 3.0])
    assert found.accuracy == 0.5
    assert np.isnan(preferences([np.nan]).accuracy)


def test_answers_are_told_by_phenomenon_and_by_paradigm():
    groups = [("order", "b"), ("agreement", "a"), ("order", "c"), ("order", "b")]
    found = preferences([1.0, -1.0, np.nan, -3.0], groups)
    accuracies = {name: each.accuracy for name, each in found.by_group().items()}
    assert accuracies == {"agreement": 0.0, "order": 0.5}
    assert [*found.by_group(2)] == ["agreement / a", "order / b", "order / c"]
    assert [line.split() for line in str(found).splitlines()] == [
        ["accuracy", "asked", "not", "asked", "group"],
        ["0.000", "1", "0", "agreement"],
        ["0.500", "2", "1", "order"],
        ["0.333", "3", "1", "all"],
        ["0.500", "guessing"],
    ]


def test_precision_and_reciprocal_rank_are_over_what_was_asked():
    found = Recall(
        tuple(FACTS), np.array([1, 4, 0, 20]), np.array([50, 50, 0, 25]), np.full(4, None)
    )
    assert found.precision_at(1) == pytest.approx(1 / 3)
    assert found.precision_at(10) == pytest.approx(2 / 3)
    assert found.mean_reciprocal_rank == pytest.approx((1 + 1 / 4 + 1 / 20) / 3)
    assert found.chance == pytest.approx((1 / 50 + 1 / 50 + 1 / 25) / 3)
    assert found.by_group()["is"].precision_at(1) == 0
    assert "P@1   P@10    MRR  asked  not asked" in str(found)


@refusals(
    (
        lambda: judge_pairs(loaded_task("classification"), PAIRS),
        "A Classifier has no language-model head. Load the checkpoint with task='masked_lm'",
    ),
    (lambda: choose_words(loaded(MASKED), FACTS), "items[0] | has no wrong word"),
    (
        lambda: recall_facts(loaded(MASKED), FACTS, ["uncat"]),
        "None of the 1 candidates is a single token",
    ),
)
def test_what_cannot_be_asked_raises(call, words):
    assert_refused(call, words)


def test_words_unknown_to_a_language_model_of_words_cannot_be_asked_for():
    model = bert_zoo.load("transformer_xl_nano", task="causal_lm")
    pairs = [
        MinimalPair("He was here .", "He were here ."),
        MinimalPair("He was here .", "He qzxv here ."),
        MinimalPair("He qzxv here .", "He qzxw here ."),
    ]
    assert judge_pairs(model, pairs).is_asked.tolist() == [True, False, False]
    facts = [Cloze("He [MASK] here .", word) for word in ("was", "were", "qzxv")]
    found = recall_facts(model, facts)
    assert found.num_candidates.tolist() == [2, 2, 0]
    assert sorted(found.ranks) == [0, 1, 2]
