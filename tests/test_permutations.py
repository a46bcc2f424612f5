"""XLNet's objective against the arithmetic of its original code, written out token by token."""

import numpy as np
import pytest

from bert_zoo.tasks.objectives import Draws, Permutations, TokenIds

LENGTH = 64
TOKENS = TokenIds(mask_id=6, vocab_size=100)
OBJECTIVE = Permutations().for_tokens(TOKENS)


def rows_of(number: int, length: int = LENGTH, padded: bool = False) -> dict[str, np.ndarray]:
    """Rows that end in `<sep>`, `<cls>`, with one more `<sep>`; every third token begins no word."""
    rng = np.random.default_rng(number)
    token_ids = rng.integers(9, 100, (number, length), "int32")
    special = np.zeros((number, length), bool)
    special[:, -2:] = special[:, 3 * length // 4] = True
    padding_mask = np.ones((number, length), "int32")
    if padded:
        padding_mask[: number // 2, : length // 3] = 0
        special |= padding_mask == 0
    word_starts = (rng.random((number, length)) < 0.7) & ~special
    return {
        "row": np.arange(number),
        "token_ids": token_ids,
        "padding_mask": padding_mask,
        "special": special,
        "word_starts": word_starts,
    }


def original_mask(starts, goal: int, sizes, places) -> set[int]:
    """zihangdai/xlnet data_utils.py, _sample_mask, with its draws given: the tokens of whole spans."""
    length, at, drawn = len(starts), 0, set()
    for size, place in zip(sizes, places, strict=True):
        if at >= length or len(drawn) >= goal:
            break
        size = min(size, goal - len(drawn))
        context = size * 6
        before = int(place * context)
        first = at + before
        while first < length and not starts[first]:
            first += 1
        if first >= length or first + size >= length:
            break
        drawn |= set(range(first, first + size))
        at = first + size + context - before
    return drawn


def test_spans_are_those_of_the_original():
    batch, number = rows_of(200), 200
    draws = Draws(0, 0, batch["row"])
    chosen = OBJECTIVE.choose(batch, draws)
    half = LENGTH // 2
    goals = (6, 5)  # of 64 // 6 = 11 (rounded), the first half has the odd one
    assert OBJECTIVE.predictions(LENGTH) == sum(goals)
    whole_spans = 0
    for part, goal in enumerate(goals):
        sizes = OBJECTIVE._sizes(draws.uniform(f"part {part}: sizes", goal))
        places = draws.uniform(f"part {part}: places", goal)
        columns = np.s_[part * half : (part + 1) * half]
        for row in range(number):
            spans = original_mask(batch["word_starts"][row, columns], goal, sizes[row], places[row])
            special = set(np.flatnonzero(batch["special"][row, columns]))
            found = set(np.flatnonzero(chosen[row, columns]))
            assert spans - special <= found and len(found) <= goal
            # What spans leave over is made up for by single tokens, some of them special ones.
            assert len(found) == goal or special
            whole_spans += len(spans)
    assert whole_spans > 0.5 * number * sum(goals)


def original_order(special, chosen, index) -> np.ndarray:
    """_local_perm for one part: `index` is its shuffled order."""
    length = len(special)
    hidden = np.zeros((length, length), bool)
    for i in range(length):
        for j in range(length):
            late_i, late_j = chosen[i] or special[i], chosen[j] or special[j]
            of_i, of_j = (index[i] if late_i else -1), (index[j] if late_j else -1)
            of_i += not chosen[i]
            hidden[i, j] = late_j and of_i <= of_j
    return hidden


@pytest.mark.parametrize("padded", [False, True])
def test_orders_are_those_of_the_original(padded):
    batch = rows_of(8, 24, padded)
    inputs, labels = OBJECTIVE(batch, Draws(3, 1, batch["row"]))
    used = labels["mlm_logits"] != -100
    assert (used.sum(1) > 0).all()
    for row in range(8):
        chosen = np.zeros(24, bool)
        chosen[inputs["mask_positions"][row][used[row]]] = True
        hidden = inputs["perm_mask"][row].astype(bool)
        first = int(np.argmax(batch["padding_mask"][row]))
        middle = (first + 24) // 2
        assert hidden[first:middle, middle:].all() and not hidden[middle:, first:middle].any()
        for part in (np.s_[first:middle], np.s_[middle:]):
            special, late = batch["special"][row, part], chosen[part] | batch["special"][row, part]
            own = hidden[part, part]
            # The order, read off who of the late ones sees how many of them.
            seen = (~own[:, late]).sum(1)
            index = np.full(len(own), -1)
            index[late] = seen[late] - special[late]
            assert sorted(index[late]) == [*range(late.sum())]
            np.testing.assert_array_equal(own, original_order(special, chosen[part], index))


def test_tokens_stay_and_labels_are_theirs():
    batch = rows_of(20)
    inputs, labels = OBJECTIVE(batch, Draws(0, 0, batch["row"]))
    np.testing.assert_array_equal(inputs["token_ids"], batch["token_ids"])
    at = np.take_along_axis(batch["token_ids"], inputs["mask_positions"], 1)
    used = labels["mlm_logits"] != -100
    np.testing.assert_array_equal(labels["mlm_logits"][used], at[used])
    assert not np.take_along_axis(batch["special"], inputs["mask_positions"], 1)[used].any()


def test_statistics_over_a_hundred_thousand_spans():
    """Sizes in proportion to 1/n; a sixth of the tokens; orders without a favourite."""
    number, length = 10_000, 128
    batch = rows_of(number, length)
    batch["special"][:] = False
    batch["word_starts"][:] = True
    draws = Draws(5, 0, batch["row"])
    sizes = OBJECTIVE._sizes(draws.uniform("part 0: sizes", 11))
    assert sizes.size > 100_000
    wanted = 1 / np.arange(1, 6) / (137 / 60)
    found = np.bincount(sizes.ravel(), minlength=6)[1:] / sizes.size
    np.testing.assert_allclose(found, wanted, atol=5 * 0.5 / np.sqrt(sizes.size))
    chosen = OBJECTIVE.choose(batch, draws)
    assert (chosen.sum(1) == OBJECTIVE.predictions(length)).all()
    assert OBJECTIVE.predictions(512) == 85
    # Spans begin with any column of their context, which is six times as long: places repeat in each.
    rate = chosen.mean(0)
    assert rate[:60].max() < 0.25 and rate[64:124].max() < 0.25 and rate[:5].min() > 0.1
    few = {name: values[:500] for name, values in batch.items()}
    hidden = OBJECTIVE.hidden(few, chosen[:500], Draws(5, 0, few["row"]))
    # Of two targets of a part one sees the other, either with probability a half.
    both = chosen[:500, :64, None] & chosen[:500, None, :64]
    both &= ~np.eye(64, dtype=bool)
    seen = hidden[:, :64, :64]
    assert (seen ^ seen.transpose(0, 2, 1))[both].all()
    upper = np.triu(both)
    assert abs(seen[upper].mean() - 0.5) < 5 * 0.5 / np.sqrt(500)


def test_draws_do_not_depend_on_the_batch():
    whole = rows_of(6)
    part = {name: values[2:4] for name, values in whole.items()}
    of_whole, _ = OBJECTIVE(whole, Draws(1, 2, whole["row"]))
    of_part, _ = OBJECTIVE(part, Draws(1, 2, part["row"]))
    for name, values in of_part.items():
        np.testing.assert_array_equal(values, of_whole[name][2:4])


def test_settings_are_checked():
    with pytest.raises(ValueError, match="parts is 0"):
        Permutations(parts=0)
