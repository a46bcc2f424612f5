"""Objectives against their papers' specifications, in 100,000 draws each and in a few fixed ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.objectives import OBJECTIVES, Draws, Replacement, TokenIds

GOLDEN = Path(__file__).parent / "golden" / "pretraining_objectives.json"
CLS, SEP, MASK, FIRST = 1, 2, 3, 5  # FIRST: of the ids that are words
VOCAB_SIZE = 40
COUNTS = np.where(np.arange(VOCAB_SIZE) < FIRST, 0, np.arange(VOCAB_SIZE) + 1)
TOKENS = TokenIds(mask_id=MASK, vocab_size=VOCAB_SIZE, counts=COUNTS)
ROWS, LENGTH = 100_000, 24


def rows(lengths, *, length=LENGTH, numbers=None, seed=0):
    """A batch of rows [CLS] tokens [SEP] of so many tokens each; a word has one to three of them."""
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths)[:, None]
    at = np.arange(length)
    special = (at == 0) | (at >= lengths - 1)
    token_ids = rng.integers(FIRST, VOCAB_SIZE, (len(lengths), length))
    token_ids = np.where(special, np.where(at == lengths - 1, SEP, 0), token_ids)
    token_ids[:, 0] = CLS
    word_starts = rng.random(token_ids.shape) < 0.6
    word_starts[:, 1] = True
    return {
        "token_ids": token_ids.astype(np.int32),
        "padding_mask": (at < lengths).astype(np.int32),
        "segment_ids": np.zeros_like(token_ids, np.int32),
        "row": np.arange(len(lengths)) if numbers is None else np.asarray(numbers),
        "special": special,
        "word_starts": word_starts & ~special,
    }


def part(batch, kept):
    return {name: value[kept] for name, value in batch.items()}


def drawn(name, batch, *, seed=0, epoch=0, **changes):
    objective = replace(OBJECTIVES[name].for_tokens(TOKENS), **changes)
    return objective(batch, Draws(seed, epoch, batch["row"]))


def chosen_of(batch, inputs, labels):
    """bool [batch, length], after a check of all that every objective promises."""
    positions, wanted = inputs["mask_positions"], labels["mlm_logits"]
    used = wanted != IGNORED_LABEL
    assert positions.dtype == wanted.dtype == inputs["token_ids"].dtype == np.int32
    # Used ones come first, in order; the others are 0.
    assert (np.diff(used.astype(int), axis=1) <= 0).all()
    assert (np.diff(positions, axis=1)[used[:, 1:]] > 0).all() and not positions[~used].any()
    original = np.take_along_axis(batch["token_ids"], positions, axis=1)
    np.testing.assert_array_equal(wanted, np.where(used, original, IGNORED_LABEL))
    chosen = np.zeros(batch["token_ids"].shape, bool)
    chosen[np.nonzero(used)[0], positions[used]] = True
    same = inputs["token_ids"] == batch["token_ids"]
    assert same[~chosen].all() and not (chosen & (batch["padding_mask"] == 0)).any()
    return chosen


def assert_rates(found, expected):
    """Counts [outcomes] against their probabilities: within 5 standard deviations each."""
    expected = np.asarray(expected, float) / np.sum(expected)
    total = np.sum(found)
    bound = 5 * np.sqrt(total * expected * (1 - expected)) + 1e-9
    assert (np.abs(found - total * expected) <= bound).all(), (found / total, expected)


def assert_fits(found, expected):
    """Counts of independent outcomes against their probabilities, by chi-square."""
    expected = np.asarray(expected, float) / np.sum(expected) * np.sum(found)
    statistic = np.sum((found - expected) ** 2 / expected)
    freedom = len(expected) - 1
    assert statistic < freedom + 6 * np.sqrt(2 * freedom) + 10, statistic


def replacements(batch, inputs, chosen):
    """How many of the chosen tokens became the mask, another token, themselves."""
    read, original = inputs["token_ids"][chosen], batch["token_ids"][chosen]
    masked, kept = read == MASK, read == original
    return masked, ~masked & ~kept, kept


def test_draws_are_uniform_and_independent():
    draws = Draws(7, 1, np.arange(ROWS))
    uniform = draws.uniform("one", 2)
    assert uniform.min() >= 0 and uniform.max() < 1
    assert_fits(np.bincount((uniform * 20).astype(int).ravel()), np.ones(20))
    pairs = [
        uniform.T,
        (uniform[:, 0], draws.uniform("two", 1)[:, 0]),
        (uniform[1:, 0], uniform[:-1, 0]),
        (uniform[:, 0], Draws(7, 2, np.arange(ROWS)).uniform("one", 1)[:, 0]),
        (uniform[:, 0], Draws(8, 1, np.arange(ROWS)).uniform("one", 1)[:, 0]),
    ]
    for first, second in pairs:
        cells = (first * 8).astype(int) * 8 + (second * 8).astype(int)
        assert_fits(np.bincount(cells), np.ones(64))
    bits = draws.bits("bits", 1)[:, 0]
    ones = [np.count_nonzero(bits >> np.uint64(bit) & np.uint64(1)) for bit in range(64)]
    assert np.abs(np.array(ones) - ROWS / 2).max() < 5 * np.sqrt(ROWS) / 2
    assert_fits(np.bincount(draws.integers("n", 7, 3).ravel()), np.ones(7))


def test_draws_depend_on_seed_epoch_row_and_name_alone():
    whole = Draws(-1, 3, [5, 2**40, -9]).bits("name", 4, 2)
    assert whole.shape == (3, 4, 2)
    np.testing.assert_array_equal(Draws(-1, 3, [2**40]).bits("name", 4, 2), whole[1:2])
    np.testing.assert_array_equal(Draws(-1, 3, [5, 2**40, -9]).bits("name", 2, 2), whole[:, :2])
    # Once computed, these stay: masks of a run that goes on are those that it began with.
    found = Draws(12345, 2, [0, 1]).bits("tokens", 2).tolist()
    assert found == [
        [14648147530422728938, 4373368064179679428],
        [10304727001677057749, 10589085177720906071],
    ]


def test_bert_chooses_a_rounded_number_of_tokens_and_no_special_ones():
    lengths = np.arange(ROWS) % (LENGTH - 2) + 3
    batch = rows(lengths)
    inputs, labels = drawn("masked_tokens", batch)
    chosen = chosen_of(batch, inputs, labels)
    assert inputs["mask_positions"].shape == (ROWS, 4)
    assert not chosen[batch["special"]].any()
    wanted = [max(1, round(0.15 * length)) for length in lengths]
    np.testing.assert_array_equal(chosen.sum(1), wanted)
    for length in (3, 10, 24):
        assert_rates(chosen[lengths == length].sum(0)[1 : length - 1], np.ones(length - 2))
    masked, other, kept = replacements(batch, inputs, chosen)
    # A random token may be the one that was there, or the mask.
    assert_rates(
        [masked.sum(), other.sum(), kept.sum()],
        [0.8 + 0.1 / VOCAB_SIZE, 0.1 - 0.2 / VOCAB_SIZE, 0.1 + 0.1 / VOCAB_SIZE],
    )
    # Special tokens are among the vocabulary.
    read = np.bincount(inputs["token_ids"][chosen][other], minlength=VOCAB_SIZE)
    ids = np.arange(VOCAB_SIZE)
    assert_rates(read[(ids < FIRST) & (ids != MASK)], np.ones(FIRST - 1))


def test_bert_asks_for_no_more_than_the_most_predictions():
    batch = rows([24, 10, 3])
    inputs, labels = drawn("masked_tokens", batch, rate=0.5, max_predictions=8)
    assert inputs["mask_positions"].shape == (3, 8)
    assert chosen_of(batch, inputs, labels).sum(1).tolist() == [8, 5, 1]


def test_roberta_chooses_special_tokens_too_and_a_number_that_varies():
    batch = rows(np.full(ROWS, 17))
    inputs, labels = drawn("dynamic_masked_tokens", batch)
    chosen = chosen_of(batch, inputs, labels)
    # 0.15 * 17 = 2.55
    assert_rates(np.bincount(chosen.sum(1)), [1e-12, 1e-12, 0.45, 0.55])
    assert_rates(chosen.sum(0)[:17], np.ones(17))
    masked, other, kept = replacements(batch, inputs, chosen)
    random = 0.1 / (VOCAB_SIZE - 4)
    words = 15 / 17  # which a random token can be
    assert_rates(
        [masked.sum(), other.sum(), kept.sum()],
        [0.8, 0.1 - random * words, 0.1 + random * words],
    )
    read = np.bincount(inputs["token_ids"][chosen & ~batch["special"]], minlength=VOCAB_SIZE)
    assert read[[0, 1, 2]].tolist() == [0, 0, 0]


def test_what_no_objective_reads_is_passed_on():
    batch = rows([8, 9]) | {
        "next_sentence": np.array([0, 1], np.int32),
        "document_ids": np.ones((2, LENGTH), np.int32),
    }
    inputs, labels = drawn("masked_tokens", batch)
    assert sorted(inputs) == [
        "document_ids",
        "mask_positions",
        "padding_mask",
        "segment_ids",
        "token_ids",
    ]
    assert sorted(labels) == ["mlm_logits", "nsp_logits"]
    assert labels["nsp_logits"].tolist() == [0, 1]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_row_is_masked_alike_in_every_batch(name):
    batch = rows(np.arange(64) % 20 + 5, numbers=np.arange(64) + 10**10)
    inputs, labels = drawn(name, batch, seed=3, epoch=2)
    order = np.random.default_rng(0).permutation(64)[:40]
    for result, whole in zip(
        drawn(name, part(batch, order), seed=3, epoch=2), (inputs, labels), strict=True
    ):
        for key, value in result.items():
            np.testing.assert_array_equal(value, whole[key][order])
    # Nor does padding matter.
    wide = {n: v if v.ndim == 1 else np.pad(v, ((0, 0), (0, 8))) for n, v in batch.items()}
    wide["special"][:, LENGTH:] = True
    chosen = chosen_of(batch, inputs, labels)
    found = drawn(name, wide, seed=3, epoch=2)
    np.testing.assert_array_equal(found[0]["token_ids"][:, :LENGTH], inputs["token_ids"])
    np.testing.assert_array_equal(chosen_of(wide, *found)[:, :LENGTH], chosen)
    for changes in ({"seed": 4, "epoch": 2}, {"seed": 3, "epoch": 3}):
        other = drawn(name, batch, **changes)[0]["mask_positions"]
        assert not np.array_equal(other, inputs["mask_positions"])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_row_without_words_asks_for_nothing(name):
    batch = rows([2, 12])
    inputs, labels = drawn(name, batch, special_tokens=False)
    chosen = chosen_of(batch, inputs, labels)
    assert chosen.sum(1)[0] == 0


def golden_of(name):
    results = drawn(name, rows([LENGTH, 17, 9], numbers=[0, 1, 2**33]), seed=12345, epoch=1)
    return {key: value.tolist() for result in results for key, value in result.items()}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_fixed_seeds_give_what_they_gave(name):
    assert golden_of(name) == json.loads(GOLDEN.read_text())[name]


def test_errors_say_what_to_do():
    batch = rows([9])
    with pytest.raises(ValueError, match="for_tokens"):
        OBJECTIVES["masked_tokens"](batch, Draws(0, 0, [0]))
    unknown = TokenIds(mask_id=MASK, vocab_size=VOCAB_SIZE)
    corpus = replace(
        OBJECTIVES["masked_tokens"].for_tokens(unknown),
        replacement=Replacement(distribution="corpus"),
    )
    with pytest.raises(ValueError, match="counts"):
        corpus(batch, Draws(0, 0, [0]))
    with pytest.raises(ValueError, match=r"rate is 1\.5"):
        replace(corpus, rate=1.5)
    with pytest.raises(ValueError, match="no mask"):
        TokenIds.of(object())


if __name__ == "__main__":  # writes the fixed draws
    lines = [f"{json.dumps(name)}: {json.dumps(golden_of(name))}" for name in OBJECTIVES]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
