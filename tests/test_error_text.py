"""What files and callers put into messages stays short."""

import pytest

from bert_zoo.error_text import listing, shown

ITSELF: list = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize("value", [None, "a\n'", b"a", 1.5, -(10**50), [1, {"a": (2,)}], {"x"}])
def test_short_values_are_shown_as_they_are(value):
    assert shown(value) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        *("x" * 10**6, b"x" * 10**6, 10**10_000, ITSELF, {"x" * 10**5: "y" * 10**5}),
        *([[["x" * 1000] * 100] * 100] * 100, {f"k{i}": [i] * 1000 for i in range(1000)}),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("limit", [50, 200])
def test_whatever_the_value_the_text_is_bounded(value, limit):
    assert 0 < len(shown(value, limit)) <= limit


def test_a_long_string_shows_where_it_begins_and_ends():
    assert shown("a" * 1000 + "z" * 1000, limit=21) == "'aaaaaaaa...zzzzzzzz'"


def test_a_list_of_names_is_bounded_in_number_and_length():
    assert listing([]) == "nothing"
    assert listing(["a", "b"]) == "a, b"
    assert listing(map(str, range(25))).endswith("18, 19 and 5 more")
    assert len(listing(["x" * 10**6] * 1000)) < 5000
