"""Zero-shot classification: scores of transformers' pipeline, and what is refused."""

import pytest
from helpers import loaded

LABELS = ["dog", "the city", "red"]
TEXTS = ["the cat sat on the house", "a dog"]
# transformers 5.24: pipeline("zero-shot-classification", model="tests/golden/roberta/classification")(
#     TEXTS, LABELS, multi_label=..., hypothesis_template="it is {}")
EXPECTED = {
    False: [(0.287936, 0.486297, 0.225767), (0.554925, 0.176740, 0.268336)],
    True: [(0.300410, 0.324632, 0.177556), (0.206532, 0.077058, 0.149298)],
}


@pytest.mark.parametrize(("multi_label", "labels"), [(False, LABELS), (True, "dog, the city,red")])
def test_scores_are_those_of_transformers(multi_label, labels):
    model = loaded("roberta/classification")
    found = model.zero_shot(TEXTS, labels, hypothesis="it is {}", multi_label=multi_label)
    for row, scores in zip(found, EXPECTED[multi_label], strict=True):
        assert row.scores == pytest.approx(dict(zip(LABELS, scores, strict=True)), abs=1e-5)
    if multi_label:
        assert [row.labels for row in found] == [{}, {}]  # none is above 0.5
    else:
        assert [row.label for row in found] == ["the city", "dog"]


def test_a_text_that_is_too_long_is_cut_and_the_hypothesis_is_not(caplog):
    model = loaded("roberta/classification")
    long, _ = model.zero_shot(["a dog " * 200, "a dog " * 10], LABELS, hypothesis="it is {}")
    assert "were truncated" in caplog.text
    assert len(set(long.scores.values())) == len(LABELS)


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("bert/classification", {}, r"'entailment'.*roberta_large_mnli"),
        ("roberta/classification", {"labels": []}, r"labels is \[\]"),
        ("roberta/classification", {"labels": ["a", "a"]}, "duplicate"),
        ("roberta/classification", {"hypothesis": "it is"}, r"hypothesis is 'it is'.*\{\}"),
        ("roberta/classification", {"top_k": 0}, "top_k is 0"),
    ],
)
def test_what_does_not_fit_is_refused(case, options, message):
    with pytest.raises(ValueError, match=message):
        loaded(case).zero_shot(TEXTS, **{"labels": LABELS} | options)
