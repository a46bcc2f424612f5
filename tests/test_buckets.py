"""Batches hold every row once an epoch, with little padding, in changing company."""

import numpy as np
import pytest

from bert_zoo.data.buckets import Batches, Batching, RowOrder, Rows

ROWS, BATCH_SIZE = 997, 8
LENGTHS = np.random.default_rng(0).integers(1, 400, ROWS)


def order(rows: int = ROWS, **options) -> RowOrder:
    return RowOrder(LENGTHS[:rows], Batching(**{"batch_size": BATCH_SIZE, "seed": 1, **options}))


def padding(batches) -> int:
    return sum(LENGTHS[b].max() * len(b) - LENGTHS[b].sum() for b in batches)


@pytest.mark.parametrize("options", [{}, {"group_by_length": False}, {"tokens": 1000}])
def test_every_row_comes_once_in_every_epoch(options):
    for epoch in range(2):
        rows = np.concatenate(order(**options).batches(epoch))
        assert sorted(rows) == list(range(ROWS))


def test_grouping_shrinks_padding_to_a_fraction():
    assert padding(order().batches(0)) < 0.3 * padding(order(group_by_length=False).batches(0))


@pytest.mark.parametrize("rows", [1, 7, 40, ROWS])
def test_epochs_differ_in_order_and_company_also_for_few_rows(rows):
    first, second = (
        [tuple(sorted(batch)) for batch in order(rows).batches(epoch)] for epoch in range(2)
    )
    assert sorted(row for batch in first for row in batch) == list(range(rows))
    if rows > BATCH_SIZE:
        assert set(first) != set(second)


def test_batches_by_tokens_hold_no_more_than_that_and_are_full():
    batches = order(batch_size=64, tokens=1000).batches(0)
    sizes = [LENGTHS[batch].max() * len(batch) for batch in batches]
    assert max(sizes) <= 1000 and np.median(sizes) > 700
    assert max(map(len, batches)) > 2 * min(map(len, batches))
    with pytest.raises(
        ValueError, match=f"A row has {LENGTHS.max()} tokens, but a batch at most 100"
    ):
        order(tokens=100)


def test_a_seed_repeats_the_order_of_every_epoch():
    def epochs(seed: int) -> list[list[list[int]]]:
        dataset = order(seed=seed).dataset()
        return [[batch.numpy().tolist() for batch in dataset] for _ in range(2)]

    first = epochs(1)
    assert first[0] != first[1]
    assert epochs(1) == first
    assert epochs(2) != first
    assert [batch.tolist() for batch in order().batches(1)] == first[1]


def test_a_training_that_goes_on_gets_the_epochs_that_it_has_not_seen():
    resumed = order()
    resumed.epoch = 5
    expected = [batch.tolist() for batch in order().batches(5)]
    assert [batch.numpy().tolist() for batch in resumed.dataset()] == expected


@pytest.mark.parametrize("options", [{}, {"tokens": 1000}, {"drop_remainder": True}])
def test_batches_by_number_are_those_of_the_epochs_one_after_another(options):
    asked, planned = order(**options), order(**options)
    expected = [batch.tolist() for epoch in range(3) for batch in planned.batches(epoch)]
    # Keras looks at the first one before it begins.
    assert asked.at(0).tolist() == asked.at(0).tolist() == expected[0]
    assert [asked.at(number).tolist() for number in range(len(expected))] == expected
    asked.epoch = 1
    assert asked.at(2).tolist() == expected[planned.per_epoch + 2]


def test_without_remainder_all_batches_are_full_and_other_rows_are_left_out_each_epoch():
    full = order(drop_remainder=True)
    dataset = full.dataset()
    assert dataset.element_spec.shape == (BATCH_SIZE,)
    epochs = [[number for batch in dataset for number in batch.numpy()] for _ in range(2)]
    left_out = [set(range(ROWS)) - set(epoch) for epoch in epochs]
    assert all(len(rows) == ROWS % BATCH_SIZE for rows in left_out)
    assert left_out[0] != left_out[1]
    assert dataset.cardinality() == full.per_epoch == ROWS // BATCH_SIZE


def test_impossible_batches_are_refused():
    for options, message in (
        ({"batch_size": 0}, "batch_size is 0; it must be a whole number of at least 1"),
        ({"tokens": 0}, "tokens is 0; it must be a whole number of at least 1"),
        ({"tokens": 9, "drop_remainder": True}, "Leave one of them out"),
    ):
        with pytest.raises(ValueError, match=message):
            Batching(**options)


def test_inputs_of_one_number_a_row_have_one_axis():
    def gather(numbers):
        return {"token_ids": np.ones((len(numbers), 5)), "start_positions": numbers}, numbers

    specs = Batches(Rows(LENGTHS, gather), order()).specs()
    assert specs[0]["start_positions"].shape.as_list() == specs[1].shape.as_list() == [None]
    assert specs[0]["token_ids"].shape.as_list() == [None, None]
