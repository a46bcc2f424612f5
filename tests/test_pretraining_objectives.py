"""Objectives against their papers' specifications, in 100,000 draws each and in a few fixed ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.objectives import OBJECTIVES, Draws, Replacement, TokenIds
from bert_zoo.objectives.replaced_tokens import sampled_tokens
from bert_zoo.registry import registry

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


def test_modernbert_chooses_twice_as_many_and_draws_any_token():
    batch = rows(np.full(ROWS, 17))
    inputs, labels = drawn("dynamic_masked_tokens_30", batch)
    chosen = chosen_of(batch, inputs, labels)
    # 0.3 * 17 = 5.1
    assert_rates(np.bincount(chosen.sum(1)), [*[1e-12] * 5, 0.9, 0.1])
    masked, other, kept = replacements(batch, inputs, chosen)
    random = 0.1 / VOCAB_SIZE
    assert_rates(
        [masked.sum(), other.sum(), kept.sum()], [0.8 + random, 0.1 - 2 * random, 0.1 + random]
    )


def test_xlm_chooses_any_token_but_the_first_and_draws_any_token():
    lengths = np.tile([3, 10, LENGTH, 17], ROWS // 4)
    batch = rows(lengths)
    inputs, labels = drawn("stream_masked_tokens", batch)
    chosen = chosen_of(batch, inputs, labels)
    assert not chosen[:, 0].any()
    for length in (3, 10, LENGTH, 17):
        found = chosen[lengths == length][:, 1:length]
        assert_rates([found.sum(), (~found).sum()], [0.15, 0.85])
        assert_rates(found.sum(0), np.ones(length - 1))
    # 0.15 * 16 = 2.4
    assert_rates(np.bincount(chosen[lengths == 17].sum(1)), [1e-12, 1e-12, 0.6, 0.4])
    masked, other, kept = replacements(batch, inputs, chosen)
    random = 0.1 / VOCAB_SIZE
    assert_rates(
        [masked.sum(), other.sum(), kept.sum()], [0.8 + random, 0.1 - 2 * random, 0.1 + random]
    )
    words = (chosen & ~batch["special"])[chosen]
    read = np.bincount(inputs["token_ids"][chosen][other & words], minlength=VOCAB_SIZE)
    ids = np.arange(VOCAB_SIZE)
    assert_rates(read[(ids < FIRST) & (ids != MASK)], np.ones(FIRST - 1))


def runs(chosen):
    """Of bool [length], [start, end] of each run of true ones, both within it."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen, [0]]).astype(int)))
    return [(start, end - 1) for start, end in edges.reshape(-1, 2).tolist()]


def words_of(batch, row):
    """The tokens of each word of a row."""
    words = []
    for place in np.flatnonzero(~batch["special"][row]).tolist():
        if batch["word_starts"][row, place] or not words:
            words.append([])
        words[-1].append(place)
    return words


def bert_number(batch, row):
    return max(1, round(0.15 * int(batch["padding_mask"][row].sum())))


def whole_words_of(batch, row, rng):
    """What the paper's program says, word by word."""
    words, chosen = words_of(batch, row), set()
    for word in rng.permutation(len(words)):
        if len(chosen) + len(words[word]) <= bert_number(batch, row):
            chosen.update(words[word])
    return chosen


def ngrams_of(batch, row, rng):
    words, chosen = words_of(batch, row), set()
    for first in rng.permutation(len(words)):
        n = rng.choice([1, 2, 3], p=np.array([6, 3, 2]) / 11)
        for shorter in range(n, 0, -1):
            tokens = [place for word in words[first : first + shorter] for place in word]
            if len(chosen) + len(tokens) <= bert_number(batch, row):
                if not chosen.intersection(tokens):
                    chosen.update(tokens)
                break
    return chosen


def windowed_ngrams_of(batch, row, rng):
    words, ngrams, begin = words_of(batch, row), [], 0
    while begin < len(words):
        n = rng.choice([1, 2, 3], p=np.array([6, 3, 2]) / 11)
        window = words[begin : begin + 6 * n]
        first = begin + rng.integers(len(window))
        ngrams += words[first : first + n]
        begin = max(begin + len(window), first + n)
    tokens = [place for word in ngrams for place in word]
    return set(tokens[: bert_number(batch, row)])


def spans_of(batch, row, rng):
    words, chosen = words_of(batch, row), set()
    tokens = [place for word in words for place in word]
    share = 0.2 * 0.8 ** np.arange(10)
    number = int(np.ceil(0.15 * len(tokens)))
    while len(chosen) < number:
        size = rng.choice(np.arange(1, 11), p=share / share.sum())
        anchor = rng.choice(tokens)
        if anchor in chosen:
            continue
        (first,) = (number for number, word in enumerate(words) if anchor in word)
        for place in (place for word in words[first : first + size] for place in word):
            if len(chosen) < number:
                chosen.add(place)
    return chosen


@pytest.mark.parametrize(
    ("name", "specified"),
    [
        ("whole_words", whole_words_of),
        ("ngrams", ngrams_of),
        ("windowed_ngrams", windowed_ngrams_of),
        ("spans", spans_of),
    ],
)
def test_words_are_chosen_as_the_papers_programs_do(name, specified):
    # One row a hundred thousand times; its words are the same as in the specification's.
    length = 40
    one = rows([length - 3], length=length, seed=1)
    batch = {key: np.repeat(value, ROWS, axis=0) for key, value in one.items()}
    batch["row"] = np.arange(ROWS)
    chosen = chosen_of(batch, *drawn(name, batch))
    rng, wanted = np.random.default_rng(0), np.zeros((3000, length), bool)
    for row in wanted:
        row[[*specified(one, 0, rng)]] = True
    sizes = [[len(runs(row)) for row in found] for found in (chosen[:20000], wanted)]
    longest = [
        [max(e - s for s, e in runs(row)) for row in found] for found in (chosen[:20000], wanted)
    ]
    for found, expected in (
        (chosen.sum(0), wanted.sum(0)),  # of each token
        (np.bincount(chosen.sum(1), minlength=9), np.bincount(wanted.sum(1), minlength=9)),
        [np.bincount(numbers, minlength=12) for numbers in sizes],
        [np.bincount(numbers, minlength=12) for numbers in longest],
    ):
        first, second = found / found.sum(), expected / expected.sum()
        # Tokens of a word are chosen together, so that their counts vary more.
        bound = 7 * np.sqrt(second * (1 - second) / expected.sum() + 1e-9) + 1e-3
        assert (np.abs(first - second) < bound).all(), (first, second)


def test_whole_words_are_whole_and_fill_the_row():
    batch = rows(np.arange(ROWS) % (LENGTH - 2) + 3)
    inputs, labels = drawn("whole_words", batch)
    chosen = chosen_of(batch, inputs, labels)
    for row in range(0, ROWS, 50):
        left = bert_number(batch, row) - chosen[row].sum()
        assert left >= 0
        for word in words_of(batch, row):
            taken = chosen[row, word]
            assert taken.all() or (not taken.any() and len(word) > left)
    # Each token by itself.
    in_word = np.zeros_like(chosen)
    in_word[:, 1:] = ~batch["word_starts"][:, 1:] & ~batch["special"][:, :-1]
    second = (chosen & in_word)[:, 1:]
    read = inputs["token_ids"]
    both = (read[:, 1:] == MASK)[second] & (read[:, :-1] == MASK)[second]
    assert_rates([both.sum(), (~both).sum()], [0.64 + 0.17 / VOCAB_SIZE, 0.36])


def test_ngrams_are_of_one_to_three_words_as_often_as_one_to_its_number():
    # Three tokens are asked for, in rows so long that n-grams hardly ever meet.
    batch = rows(np.full(ROWS // 20, 500), length=500)
    batch["word_starts"] = ~batch["special"]
    inputs, labels = drawn("ngrams", batch, max_predictions=3)
    chosen = chosen_of(batch, inputs, labels)
    assert (chosen.sum(1) == 3).all()
    found = [[end - start + 1 for start, end in runs(row)] for row in chosen]
    kinds = [sizes.count(1) for sizes in found]
    # A row is 3; 1 + 2 or 2 + 1, shortened from 3 too; or 1 + 1 + 1.
    one, two, three = np.array([6, 3, 2]) / 11
    assert_rates(
        np.bincount(kinds, minlength=4)[[0, 1, 3]],
        [three, one * (two + three) + two, one * one],
    )


def test_albert_asks_for_what_the_rate_gives_and_at_most_twenty_tokens():
    """So rows of 32 have five predictions, and not the twenty that those of 512 have."""
    assert [OBJECTIVES["ngrams"].predictions(length) for length in (32, 128, 512)] == [5, 19, 20]
    assert OBJECTIVES["windowed_ngrams"].predictions(512) == 77


def test_spans_boundaries_predict_what_is_between_them():
    lengths = np.arange(2000) % (LENGTH * 2 - 8) + 8
    batch = rows(lengths, length=2 * LENGTH)
    inputs, labels = drawn("spans", batch, targets=3)
    chosen = chosen_of(batch, inputs, labels)
    np.testing.assert_array_equal(chosen.sum(1), np.ceil(0.15 * (lengths - 2)))
    assert inputs["span_boundaries"].shape == (2000, 6, 2)
    assert inputs["span_tokens"].shape == labels["sbo_logits"].shape == (2000, 8)
    assert {inputs[n].dtype for n in ("span_boundaries", "span_tokens")} == {
        labels["sbo_logits"].dtype
    }
    assert labels["sbo_logits"].dtype == np.int32
    for row, length in enumerate(lengths):
        spans = [(s, e) for s, e in runs(chosen[row]) if s > 1 and e < length - 2]
        wanted = [[s - 1, e + 1] for s, e in spans]
        wanted += [[0, 0]] * (6 - len(spans))
        assert inputs["span_boundaries"][row].tolist() == wanted
        asked = [
            (3 * i + n, s + n) for i, (s, e) in enumerate(spans) for n in range(min(3, e - s + 1))
        ]
        tokens, wanted = inputs["span_tokens"][row], labels["sbo_logits"][row]
        assert tokens.tolist() == [token for token, _ in asked] + [0] * (8 - len(asked))
        assert wanted[: len(asked)].tolist() == [batch["token_ids"][row, at] for _, at in asked]
        assert (wanted[len(asked) :] == IGNORED_LABEL).all()


def test_hardly_any_row_has_more_spans_than_are_asked_for():
    for length in (24, 128):
        batch = rows(np.full(ROWS // 10, length), length=length)
        batch["word_starts"] = ~batch["special"]  # the shortest spans
        chosen = chosen_of(batch, *drawn("spans", batch))
        spans = OBJECTIVES["spans"].spans(length)
        assert np.mean([len(runs(row)) > spans for row in chosen]) < 5e-4


def test_spans_are_replaced_as_wholes_by_tokens_of_the_corpus():
    batch = rows(np.full(ROWS, LENGTH))
    inputs, labels = drawn("spans", batch)
    chosen = chosen_of(batch, inputs, labels)
    kinds = np.stack(replacements(batch, inputs, chosen), axis=1)
    is_kind = np.zeros((*chosen.shape, 3), bool)
    is_kind[chosen] = kinds
    found = []
    for row in range(20000):
        for start, end in runs(chosen[row]):
            masked, other, kept = is_kind[row, start : end + 1].sum(0)
            size = end - start + 1
            # A random token may be the one that was there.
            found.append("mask" if masked == size else "keep" if kept == size else "random")
            assert found[-1] == "random" or not other
            assert found[-1] != "random" or not masked
    same = np.sum((COUNTS / COUNTS.sum()) / (VOCAB_SIZE - FIRST))
    assert_rates([found.count("mask"), len(found) - found.count("mask")], [0.8, 0.2])
    assert abs(found.count("random") / len(found) - 0.1) < 0.1 * same + 0.01
    random = np.bincount(inputs["token_ids"][is_kind[..., 1]], minlength=VOCAB_SIZE)
    # Those that were there are not counted; each is as likely.
    assert_rates(random, COUNTS)


def test_electra_hides_or_keeps():
    batch = rows(np.full(ROWS, LENGTH))
    for name, number in (("replaced_tokens", 4), ("replaced_tokens_large", 6)):
        inputs, labels = drawn(name, batch)
        chosen = chosen_of(batch, inputs, labels)
        assert (chosen.sum(1) == number).all() and inputs["mask_positions"].shape[1] == number
        masked, other, kept = replacements(batch, inputs, chosen)
        assert_rates([masked.sum(), kept.sum()], [0.85, 0.15])
        assert not other.any() and not chosen[batch["special"]].any()
    assert OBJECTIVES["replaced_tokens"].predictions(512) == 79
    inputs, labels = drawn("replaced_masks", batch)
    chosen = chosen_of(batch, inputs, labels)
    masked, *_ = replacements(batch, inputs, chosen)
    assert masked.sum() == chosen.sum() == 4 * ROWS


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


@pytest.mark.parametrize("name", sorted(n for n in OBJECTIVES if "dynamic" not in n))
def test_a_row_without_words_asks_for_nothing(name):
    batch = rows([2, 12])
    chosen = chosen_of(batch, *drawn(name, batch))
    assert chosen.any(1).tolist() == [False, True]
    nothing = rows([2, 2])
    assert not chosen_of(nothing, *drawn(name, nothing)).any()


def golden_of(name):
    results = drawn(name, rows([LENGTH, 17, 9], numbers=[0, 1, 2**33]), seed=12345, epoch=1)
    return {key: value.tolist() for result in results for key, value in result.items()}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_fixed_seeds_give_what_they_gave(name):
    assert golden_of(name) == json.loads(GOLDEN.read_text())[name]


def test_samples_of_a_generator_are_as_likely_as_it_says():
    from keras import ops, random

    chances = np.array([0.5, 0.25, 0.15, 0.1, 0.0])
    logits = np.log(chances + 1e-30) + np.array([[3.0], [-2.0]])
    logits = np.broadcast_to(logits[:, None], (2, ROWS // 2, 5)).astype("float32")
    found = ops.convert_to_numpy(sampled_tokens(logits, random.SeedGenerator(1)))
    for row in found:
        assert_rates(np.bincount(row, minlength=5), chances)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("length", [LENGTH, None])
def test_tf_data_gives_the_same_with_static_shapes(name, length):
    tf = pytest.importorskip("tensorflow")
    from bert_zoo.training.hidden_tokens import hide_tokens

    objective = OBJECTIVES[name].for_tokens(TOKENS)
    batch = rows(np.arange(12) + 6)
    batch["next_sentence"] = np.arange(12, dtype=np.int32) % 2
    whole = objective(batch, Draws(5, 2, batch["row"]))
    data = tf.data.Dataset.from_tensor_slices(batch).batch(4, drop_remainder=length is not None)
    if length is None:
        spec = {
            key: tf.TensorSpec([None, *[None] * (len(value.shape) - 1)], value.dtype)
            for key, value in batch.items()
        }
        data = tf.data.Dataset.from_generator(lambda: iter(data_list), output_signature=spec)
        data_list = [part(batch, slice(i, i + 4)) for i in (0, 4, 8)]
    data = data.map(hide_tokens(objective, 5, tf.constant(2)), num_parallel_calls=2)
    for number, results in enumerate(data):
        for result, wanted in zip(results, whole, strict=True):
            assert sorted(result) == sorted(wanted)
            for key, value in result.items():
                np.testing.assert_array_equal(value, wanted[key][4 * number : 4 * number + 4])
    for result, wanted in zip(data.element_spec, whole, strict=True):
        for key, spec in result.items():
            if length is None:
                assert spec.shape.rank == wanted[key].ndim
            else:
                assert spec.shape == (4, *wanted[key].shape[1:])
            assert spec.dtype.as_numpy_dtype == wanted[key].dtype


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("bert/masked_lm", "masked_tokens"),
        ("roberta/masked_lm", "dynamic_masked_tokens"),
        ("modernbert/masked_lm", "dynamic_masked_tokens_30"),
        ("albert/masked_lm", "ngrams"),
        ("spanbert/pretraining", "spans"),
        ("electra/discriminator", "replaced_tokens"),
        ("deberta/masked_lm", "windowed_ngrams"),
        ("deberta_v2/encoder_convolution", "windowed_ngrams"),
        ("deberta_v2/pretraining", "replaced_masks"),
    ],
)
def test_a_familys_objective_is_shown_for_a_text(case, name, capsys):
    from helpers import loaded

    from bert_zoo.objectives import objective_for, show

    model = loaded(case)
    wanted = OBJECTIVES[name]
    if name == "spans":
        wanted = replace(wanted, targets=model.encoder.config.span_targets)
    tokenizer = model.preprocessor.tokenizer
    assert objective_for(model) == wanted.for_tokens(TokenIds.of(tokenizer))
    drawn = show(model, "the cat sat on the tree, and she saw the big red house", seed=3)
    printed = capsys.readouterr().out
    assert printed == f"{drawn}\n"
    number = len(drawn.asked) - drawn.asked.count(None)
    assert number and f"{number} of {len(drawn.tokens)} tokens are asked for" in printed
    for token, read, asked in zip(drawn.tokens, drawn.reads, drawn.asked, strict=True):
        assert asked == token if asked else read == token
    # In columns: what is asked for stands below its token.
    text, _, asked = printed.splitlines()[2:5]
    for word in asked.split()[1:]:
        assert text[asked.index(f" {word}") :].startswith(f" {word}")
    assert bool(drawn.spans) == (name == "spans") and drawn.replaced == name.startswith("replaced")
    assert show(model, ("the cat", "sat on"), "whole_words").reads
    with pytest.raises(ValueError, match="masked_tokens"):
        show(model, "the cat", "spanz")


def test_every_family_with_a_mask_names_its_objective():
    for family in registry().families.values():
        named = {family.pretraining_of(family.config(one)) for one in family.checkpoints}
        if "masked_lm" in family.heads:
            assert named <= set(OBJECTIVES), family.name
        else:
            assert named == {""}, family.name


def test_tokens_begin_words_as_their_vocabularies_say():
    pytest.importorskip("tensorflow")
    from helpers import loaded

    for case, tokens, wanted in (
        ("bert/masked_lm", "a ##s . [SEP]", [True, False, True, True]),
        ("roberta/masked_lm", "Ġthe s .", [True, False, False]),
        ("albert/masked_lm", "▁the s .", [True, False, True]),
        ("deberta/masked_lm", "Ġthe s .", [True, False, True]),
        ("deberta_v2/masked_lm", "▁the s .", [True, False, True]),
    ):
        tokenizer = loaded(case).preprocessor.tokenizer
        ids = [tokenizer.token_to_id(token) for token in tokens.split()]
        assert tokenizer.word_starts[ids].tolist() == wanted
        assert tokenizer.word_starts.shape == (tokenizer.vocab_size,)


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
