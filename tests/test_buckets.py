"""Grouped batches hold every row once an epoch, with little padding, in changing company."""

import numpy as np
import pytest

from bert_zoo.data.buckets import grouped_batches

ROWS, BATCH_SIZE = 997, 8
RNG = np.random.default_rng(0)
TEXTS = [f"{i} " + "x" * int(n) for i, n in enumerate(RNG.integers(0, 400, ROWS))]


def epoch(dataset) -> list[tuple[list[str], list[int]]]:
    return [
        ([t.decode() for t in texts.numpy()], labels.numpy().tolist()) for texts, labels in dataset
    ]


@pytest.fixture(scope="module")
def dataset():
    return grouped_batches(TEXTS, list(range(ROWS)), BATCH_SIZE)


def test_every_row_comes_once_with_its_label(dataset):
    batches = epoch(dataset)
    labels = [label for _, batch in batches for label in batch]
    assert sorted(labels) == list(range(ROWS))
    assert all(
        text == TEXTS[label]
        for texts, batch in batches
        for text, label in zip(texts, batch, strict=True)
    )
    assert len(batches) == dataset.cardinality().numpy() == -(-ROWS // BATCH_SIZE)


def test_padding_shrinks_to_a_fraction_of_random_batches(dataset):
    def padding(batches) -> int:
        return sum(max(map(len, texts)) * len(texts) - sum(map(len, texts)) for texts, _ in batches)

    random = [(TEXTS[i : i + BATCH_SIZE], None) for i in range(0, ROWS, BATCH_SIZE)]
    assert padding(epoch(dataset)) < 0.3 * padding(random)


@pytest.mark.parametrize("rows", [1, 7, 40, ROWS])
def test_epochs_differ_in_order_and_company_also_for_few_rows(rows):
    dataset = grouped_batches(TEXTS[:rows], list(range(rows)), BATCH_SIZE)
    first, second = ([tuple(sorted(labels)) for _, labels in epoch(dataset)] for _ in range(2))
    assert sorted(label for batch in first for label in batch) == list(range(rows))
    if rows > BATCH_SIZE:
        assert set(first) != set(second)


def test_pairs_stay_together():
    seconds = [f"second {i}" for i in range(ROWS)]
    for (first, second), labels in grouped_batches((TEXTS, seconds), list(range(ROWS)), BATCH_SIZE):
        assert [t.decode() for t in first.numpy()] == [TEXTS[i] for i in labels.numpy()]
        assert [t.decode() for t in second.numpy()] == [seconds[i] for i in labels.numpy()]
