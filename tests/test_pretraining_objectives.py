"""Objectives against their papers' specifications, in tens of thousands of draws each and in a few fixed ones."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, loaded
from keras import ops, random

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import OBJECTIVES, Draws, Replacement, TokenIds, objective_for, show
from bert_zoo.tasks.objectives.masking import Masking
from bert_zoo.tasks.objectives.replaced_tokens import sampled_tokens

GOLDEN = Path(__file__).parent / "golden" / "pretraining_objectives.json"
CLS, SEP, MASK, FIRST = 1, 2, 3, 5  # FIRST: of the ids that are words
VOCAB_SIZE = 40
COUNTS = np.where(np.arange(VOCAB_SIZE) < FIRST, 0, np.arange(VOCAB_SIZE) + 1)
TOKENS = TokenIds(mask_id=MASK, vocab_size=VOCAB_SIZE, counts=COUNTS)
ROWS, LENGTH = 30_000, 24
# test_denoising.py has the others.
MASKING = [name for name, objective in OBJECTIVES.items() if isinstance(objective, Masking)]


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


# Objective -> part of the tokens, whether special tokens are chosen, whether a row's first token is,
# and ids that are no random tokens.
SINGLE_TOKENS = {
    "masked_tokens": (0.15, False, False, 0),
    "dynamic_masked_tokens": (0.15, True, True, 4),
    "dynamic_masked_tokens_30": (0.3, True, True, 0),
    "stream_masked_tokens": (0.15, True, False, 0),
}


@pytest.mark.parametrize("name", SINGLE_TOKENS)
def test_single_tokens_are_chosen_and_replaced_as_their_papers_say(name):
    rate, takes_special, takes_first, excluded = SINGLE_TOKENS[name]
    lengths = np.tile([3, 10, 17, LENGTH], ROWS // 4)
    batch = rows(lengths)
    inputs, labels = drawn(name, batch)
    chosen = chosen_of(batch, inputs, labels)
    for length in (3, 10, 17, LENGTH):
        of_length = chosen[lengths == length]
        first, end = (not takes_first, length) if takes_special else (1, length - 1)
        assert not of_length[:, :first].any() and not of_length[:, end:].any()
        # Each token as likely as another.
        assert_rates(of_length.sum(0)[first:end], np.ones(end - first))
        numbers = np.bincount(of_length.sum(1), minlength=9)
        if takes_special:  # rounded up as often as the fraction says
            wanted = rate * (end - first)
            shares = np.full(9, 1e-12)
            shares[int(wanted) : int(wanted) + 2] += 1 - wanted % 1, wanted % 1
            assert_rates(numbers, shares)
        else:
            assert numbers[max(1, round(rate * length))] == ROWS // 4
    words = chosen & ~batch["special"]
    masked, other, kept = replacements(batch, inputs, words)
    # A random token may be the one that was there, or the mask.
    same, mask = 0.1 / (VOCAB_SIZE - excluded), 0 if excluded else 0.1 / VOCAB_SIZE
    assert_rates(
        [masked.sum(), other.sum(), kept.sum()], [0.8 + mask, 0.1 - mask - same, 0.1 + same]
    )
    read = np.bincount(inputs["token_ids"][words][other], minlength=VOCAB_SIZE)
    specials = read[[n for n in range(FIRST) if n >= excluded and n != MASK]]
    assert not read[:excluded].any()
    assert_rates(specials, np.ones(len(specials)))


def test_bert_asks_for_no_more_than_the_most_predictions():
    batch = rows([24, 10, 3])
    inputs, labels = drawn("masked_tokens", batch, rate=0.5, max_predictions=8)
    assert inputs["mask_positions"].shape == (3, 8)
    assert chosen_of(batch, inputs, labels).sum(1).tolist() == [8, 5, 1]


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
    # One row many times; its words are the same as in the specification's.
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
        batch = rows(np.full(10_000, length), length=length)
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
    of_model = "document_ids mask_positions padding_mask segment_ids token_ids"
    assert sorted(inputs) == of_model.split() and sorted(labels) == ["mlm_logits", "nsp_logits"]
    assert labels["nsp_logits"].tolist() == [0, 1]


@pytest.mark.parametrize("name", MASKING)
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


@pytest.mark.parametrize("name", sorted(n for n in MASKING if "dynamic" not in n))
def test_a_row_without_words_asks_for_nothing(name):
    batch = rows([2, 12])
    chosen = chosen_of(batch, *drawn(name, batch))
    assert chosen.any(1).tolist() == [False, True]
    nothing = rows([2, 2])
    assert not chosen_of(nothing, *drawn(name, nothing)).any()


def golden_of(name):
    results = drawn(name, rows([LENGTH, 17, 9], numbers=[0, 1, 2**33]), seed=12345, epoch=1)
    return {key: value.tolist() for result in results for key, value in result.items()}


@pytest.mark.parametrize("name", MASKING)
def test_fixed_seeds_give_what_they_gave(name):
    assert golden_of(name) == json.loads(GOLDEN.read_text())[name]


def test_samples_of_a_generator_are_as_likely_as_it_says():
    chances = np.array([0.5, 0.25, 0.15, 0.1, 0.0])
    logits = np.log(chances + 1e-30) + np.array([[3.0], [-2.0]])
    logits = np.broadcast_to(logits[:, None], (2, ROWS // 2, 5)).astype("float32")
    found = ops.convert_to_numpy(sampled_tokens(logits, random.SeedGenerator(1)))
    for row in found:
        assert_rates(np.bincount(row, minlength=5), chances)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("bert/masked_lm", "masked_tokens"),
        ("roberta/masked_lm", "dynamic_masked_tokens"),
        ("modernbert/masked_lm", "dynamic_masked_tokens_30"),
        ("neobert/masked_lm", "dynamic_masks_20"),
        ("albert/masked_lm", "ngrams"),
        ("spanbert/pretraining", "spans"),
        ("electra/discriminator", "replaced_tokens"),
        ("deberta/masked_lm", "windowed_ngrams"),
        ("deberta_v2/encoder_convolution", "windowed_ngrams"),
        ("deberta_v2/pretraining", "replaced_masks"),
    ],
)
def test_a_familys_objective_is_shown_for_a_text(case, name, capsys):
    model = loaded(case)
    wanted = OBJECTIVES[name]
    if name == "spans":
        wanted = replace(wanted, targets=model.encoder.config.span_targets)
    tokenizer = model.preprocessor.tokenizer
    assert objective_for(model) == wanted.for_tokens(TokenIds.of(tokenizer))
    drawn = show(model, "the cat sat on the tree, and she saw the big red house", seed=3)
    printed = capsys.readouterr().out
    assert printed == f"{drawn}\n"
    assert re.match("[1-9][0-9]* of [1-9][0-9]* tokens are predicted", printed)
    # In columns: the label stands below its token.
    text, _, asked = printed.splitlines()[2:5]
    for word in asked.split()[1:]:
        assert text[asked.index(f" {word}") :].startswith(f" {word}")
    assert ("next to it" in printed) == (name == "spans")
    assert ("generator's samples" in printed) == name.startswith("replaced")
    assert "reads" in show(model, ("the cat", "sat on"), "whole_words")


def test_every_family_that_is_pretrained_with_hidden_tokens_names_its_objective():
    for family in registry().families.values():
        named = {family.pretraining_of(family.config(one)) for one in family.checkpoints}
        if "masked_lm" in family.heads or family.pretraining_preset:
            assert named <= set(OBJECTIVES), family.name
        else:
            assert named == {""}, family.name


def test_tokens_begin_words_as_their_vocabularies_say():
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
    batch, draws = rows([9]), Draws(0, 0, [0])
    unknown = OBJECTIVES["masked_tokens"].for_tokens(TokenIds(mask_id=MASK, vocab_size=VOCAB_SIZE))
    corpus = replace(unknown, replacement=Replacement(distribution="corpus"))
    for call, words in (
        (lambda: OBJECTIVES["masked_tokens"](batch, draws), "for_tokenizer"),
        (lambda: corpus(batch, draws), "counts"),
        (lambda: replace(corpus, rate=1.5), "rate is 1.5"),
        (lambda: TokenIds.of(object()), "no mask"),
        (lambda: show(loaded("bert/masked_lm"), "the cat", "spanz"), "masked_tokens"),
    ):
        assert_refused(call, words)


if __name__ == "__main__":  # writes the fixed draws
    lines = [f"{json.dumps(name)}: {json.dumps(golden_of(name))}" for name in MASKING]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
