"""Objectives of an encoder and a decoder: nothing is lost, and all is as likely as it should be."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from helpers import loaded
from test_pretraining_objectives import assert_fits, assert_rates
from test_pretraining_rows import FIRST, shards_of

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.pretraining.batches import PretrainingBatches
from bert_zoo.pretraining.rows import JoinedDocuments, PackedExamples
from bert_zoo.tasks.objectives import OBJECTIVES, Draws, SentinelIds, SpanCorruption, show
from bert_zoo.tasks.objectives.denoising import Denoising
from bert_zoo.text import tokenizer_from_dir
from bert_zoo.text.word_level import WordLevelTokenizer

NAMES = [name for name, objective in OBJECTIVES.items() if isinstance(objective, Denoising)]
PAD, EOS, VOCAB_SIZE = 0, 1, 32100
SENTINELS = range(32099, 31999, -1)
TOKENS = SentinelIds(sentinel_ids=tuple(SENTINELS), eos_id=EOS, pad_id=PAD, vocab_size=VOCAB_SIZE)


def rows(lengths, *, numbers=None, documents=None):
    """Rows of so many tokens each, all different."""
    lengths = np.asarray(lengths)[:, None]
    at = np.arange(lengths.max())
    batch = {
        "token_ids": np.where(at < lengths, at + 10, PAD),
        "special": at >= lengths,
        "row": np.arange(len(lengths)) if numbers is None else np.asarray(numbers),
    }
    return batch if documents is None else {**batch, "document_ids": np.asarray(documents)}


def drawn(name, batch, *, seed=0, epoch=0, **changes):
    objective = replace(OBJECTIVES[name].for_tokens(TOKENS), **changes)
    return objective(batch, Draws(seed, epoch, batch["row"]))


def texts_of(inputs, labels):
    """For each text: what is read and what is written, lists; after a check of what is true of all."""
    decoder, mask = inputs["decoder_token_ids"], inputs["decoder_padding_mask"]
    assert {a.dtype for a in (*inputs.values(), labels)} == {np.dtype(np.int32)}
    np.testing.assert_array_equal(labels != IGNORED_LABEL, mask == 1)
    documents = inputs.get("document_ids", inputs["padding_mask"])
    of_decoder = inputs.get("decoder_document_ids", mask)
    np.testing.assert_array_equal(documents > 0, inputs["padding_mask"] == 1)
    assert not inputs["token_ids"][documents == 0].any() and not decoder[mask == 0].any()
    texts = []
    for row in range(len(labels)):
        for number in range(1, documents[row].max() + 1):
            read = inputs["token_ids"][row][documents[row] == number].tolist()
            written = labels[row][of_decoder[row] == number].tolist()
            assert [PAD, *written[:-1]] == decoder[row][of_decoder[row] == number].tolist()
            assert read.pop() == written.pop() == EOS
            texts.append((read, written))
    return texts


def spans_of(ids):
    """What stands before the first sentinel and after each, and the sentinels."""
    found, sentinels = [[]], []
    for token in ids:
        if token in SENTINELS:
            found.append([])
            sentinels.append(token)
        else:
            found[-1].append(token)
    return found, sentinels


def restored(read, written):
    """The text that span corruption took apart, and whether each token was hidden."""
    (left, sentinels), (hidden, between) = spans_of(read), spans_of(written)
    assert sentinels == [*SENTINELS][: len(sentinels)] and between[: len(sentinels)] == sentinels
    assert not hidden.pop(0) and not (left.pop() if sentinels else [])
    pairs = list(zip(left, hidden, strict=True))
    text = [token for pair in pairs for span in pair for token in span]
    mask = [bool(i) for pair in pairs for i, span in enumerate(pair) for _ in span]
    return text, mask


def test_spans_put_together_are_the_text():
    lengths = np.arange(2, 200)
    for length, (read, written) in zip(
        lengths, texts_of(*drawn("span_corruption", rows(lengths))), strict=True
    ):
        text, mask = restored(read, written)
        assert text == [*range(10, 10 + length)]
        assert not mask[0] and mask[-1]
    # Nothing can be hidden of a single token.
    (single,) = texts_of(*drawn("span_corruption", rows([1])))
    assert single == ([10], [SENTINELS[0]])


@pytest.mark.parametrize(
    ("length", "hidden", "spans"),
    # Half to even: 4.5, 7.5 and 10.5 tokens; 190 tokens are 28.500002 in float32.
    [
        (2, 1, 1),
        (29, 4, 1),
        (30, 4, 1),
        (34, 5, 2),
        (50, 8, 3),
        (70, 10, 3),
        (190, 29, 10),
        (568, 85, 28),
    ],
)
def test_numbers_of_tokens_and_spans_are_the_originals(length, hidden, spans):
    ((read, written),) = texts_of(*drawn("span_corruption", rows([length])))
    _, mask = restored(read, written)
    assert sum(mask) == hidden
    assert len(spans_of(read)[1]) == len(spans_of(written)[1]) == spans
    if spans == 1:
        assert mask == [False] * (length - hidden) + [True] * hidden


@pytest.mark.parametrize(
    ("inputs", "raw", "targets"),
    [(128, 141, 29), (256, 284, 58), (512, 568, 114), (1024, 1137, 229)],
)
def test_raw_lengths_leave_no_padding(inputs, raw, targets):
    objective = OBJECTIVES["span_corruption"]
    assert objective.raw_length(inputs) == raw
    many = replace(TOKENS, sentinel_ids=tuple(SENTINELS) * 2)
    found, _ = objective.for_tokens(many)(rows([raw, raw]), Draws(0, 0, [0, 1]))
    assert found["token_ids"].shape == (2, inputs) and found["padding_mask"].all()
    assert found["decoder_token_ids"].shape == (2, targets) and found["decoder_padding_mask"].all()


def masks(length, count):
    """bool [count, length], what span corruption hides, by the tokens that are still read."""
    inputs, _ = drawn("span_corruption", rows(np.full(count, length)))
    is_read = np.zeros((count, length), bool)
    places = inputs["token_ids"] - 10
    row, at = np.nonzero((places >= 0) & (places < length))
    is_read[row, places[row, at]] = True
    return ~is_read


def test_all_masks_are_equally_likely():
    # 36 tokens: 5 hidden in 2 spans, 4 ways; 31 others in 2 spans, 30 ways; independent.
    hidden = masks(36, 100_000)
    assert (hidden.sum(1) == 5).all()
    starts = hidden & ~np.pad(hidden, ((0, 0), (1, 0)))[:, :-1]
    assert (starts.sum(1) == 2).all()
    kinds, counts = np.unique(np.packbits(hidden, axis=1), axis=0, return_counts=True)
    assert len(kinds) == 4 * 30
    assert_fits(counts, np.ones(len(kinds)))


def test_compositions_of_three_spans_are_uniform():
    # 50 tokens: 8 (7.5 to even) hidden in 3 spans, 21 ways; 42 others, 820 ways.
    hidden = masks(50, 40_000)
    starts = hidden & ~np.pad(hidden, ((0, 0), (1, 0)))[:, :-1]
    first = np.nonzero(starts)[1].reshape(-1, 3)
    ends = np.nonzero(hidden & ~np.pad(hidden, ((0, 0), (0, 1)))[:, 1:])[1].reshape(-1, 3) + 1
    before = np.pad(ends, ((0, 0), (1, 0)))[:, :-1]
    for lengths, total in ((ends - first, 8), (first - before, 42)):
        assert (lengths > 0).all() and (lengths.sum(1) == total).all()
        cuts = np.cumsum(lengths, axis=1)[:, :2]
        ways = list(combinations(range(1, total), 2))
        codes = [a * total + b for a, b in ways]
        found = np.bincount(cuts[:, 0] * total + cuts[:, 1], minlength=total * total)
        assert found[codes].sum() == len(hidden)
        assert_fits(found[codes], np.ones(len(ways)))


def test_a_prefix_has_any_number_of_tokens():
    count, length = 30_000, 20
    inputs, labels = drawn("prefix_lm", rows(np.full(count, length)))
    prefix = inputs["padding_mask"].sum(1) - 1
    assert_fits(np.bincount(prefix, minlength=length)[1:], np.ones(length - 1))
    some = slice(200)
    for read, written in texts_of({n: v[some] for n, v in inputs.items()}, labels[some]):
        assert read + written == [*range(10, 10 + length)]


@pytest.mark.parametrize(("name", "random"), [("bert_style", 0.1), ("mass_style", 0.0)])
def test_whole_texts_are_written(name, random):
    batch = rows(np.full(20_000, 20))
    inputs, labels = drawn(name, batch)
    read, original = inputs["token_ids"][:, :-1], batch["token_ids"]
    np.testing.assert_array_equal(labels, np.pad(original, ((0, 0), (0, 1)), constant_values=EOS))
    is_sentinel = read == SENTINELS[0]
    changed = np.count_nonzero(~is_sentinel & (read != original))
    # A random token is the first sentinel, or the token itself, once in 32,097 times.
    same = random / (VOCAB_SIZE - 3)
    outcomes = [0.15 * (1 - random + same), 0.15 * (random - 2 * same)]
    found = [np.count_nonzero(is_sentinel), changed]
    assert_rates([*found, original.size - sum(found)], [*outcomes, 1 - sum(outcomes)])
    drawn_ids = read[~is_sentinel & (read != original)]
    assert not random or (drawn_ids.min() >= 3 and drawn_ids.max() > 30_000)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_drawn_alike_in_every_batch(name):
    lengths = np.arange(64) % 20 + 30
    batch = rows(lengths, numbers=np.arange(64) + 10**10)
    whole = drawn(name, batch, seed=3, epoch=2)
    order = np.random.default_rng(0).permutation(64)[:40]
    some = {n: v[order] for n, v in batch.items()}
    # Nor does padding matter.
    wide = {n: v if v.ndim == 1 else np.pad(v, ((0, 0), (0, 8))) for n, v in some.items()}
    wide["special"][:, -8:] = True
    texts = texts_of(*whole)
    for other in (some, wide):
        assert texts_of(*drawn(name, other, seed=3, epoch=2)) == [texts[i] for i in order]
    for changes in ({"seed": 4, "epoch": 2}, {"seed": 3, "epoch": 3}):
        assert texts_of(*drawn(name, batch, **changes)) != texts


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rng = np.random.default_rng(0)
    lengths = [rng.integers(1, 9, rng.integers(1, 15)).tolist() for _ in range(120)]
    return shards_of(tmp_path_factory, [*lengths, [1], [200]])[0]


@pytest.mark.parametrize("name", NAMES)
def test_packed_rows_hold_every_text_once(name, written):
    objective = OBJECTIVES[name].for_tokens(TOKENS)
    scheme = PackedExamples(objective.raw_length(64), objective=objective)
    batches = PretrainingBatches(written, scheme, objective, 4, seed=1)
    found, filled = [], []
    for number in range(batches.per_epoch):
        inputs, labels = batches.at(number)
        assert inputs["token_ids"].shape == (4, 64)
        filled += [inputs["padding_mask"].mean(), inputs["decoder_padding_mask"].mean()]
        found += texts_of(inputs, labels)
    if name == "span_corruption":
        text = [token for pair in found for token in restored(*pair)[0]]
    else:
        text = [
            t for read, target in found for t in (read + target if name == "prefix_lm" else target)
        ]
    # What fills no batch is left out at the end.
    assert len({*text}) == len(text) > 0.9 * written.num_tokens
    assert {*text} <= {*range(FIRST, FIRST + written.num_tokens)}
    assert np.mean(filled) > (0.4 if name == "prefix_lm" else 0.8)


def test_joined_documents_make_rows_without_padding(written):
    objective = OBJECTIVES["span_corruption"].for_tokens(TOKENS)
    scheme = JoinedDocuments(objective.raw_length(64))
    batches = PretrainingBatches(written, scheme, objective, 2, seed=1)
    inputs = [batches.at(number)[0] for number in range(batches.per_epoch)]
    paddings = [
        (1 - i["padding_mask"]).sum() + (1 - i["decoder_padding_mask"]).sum() for i in inputs
    ]
    # In the last row of the epoch alone.
    assert np.count_nonzero(paddings) <= 1 and "document_ids" not in inputs[0]
    assert batches.tokens == pytest.approx(2 * scheme.length, rel=0.05)


def vocabulary(tokens):
    return WordLevelTokenizer(tokens, unknown_token=None, eos_token=None)


def test_sentinels_are_found_by_their_names():
    tokenizer = tokenizer_from_dir(Path(__file__).parent / "golden/t5/text_to_text", "t5")
    found = SentinelIds.of(tokenizer)
    names = [tokenizer.id_to_token(index) for index in found.sentinel_ids]
    assert names == [f"<extra_id_{number}>" for number in range(5)]
    assert (found.eos_id, found.pad_id, found.vocab_size) == (1, 0, 95)
    assert vocabulary(["▁<extra_id_1>", "a", "▁<extra_id_0>"]).sentinel_ids == (2, 0)


def test_an_objective_of_spans_is_shown_for_a_text(capsys):
    model = loaded("bert/masked_lm")
    tokenizer = model.preprocessor.tokenizer
    tokens = SentinelIds(
        sentinel_ids=(1, 2), eos_id=tokenizer.sep_id, pad_id=tokenizer.pad_id, vocab_size=9
    )

    class Given(SpanCorruption):
        def for_tokenizer(self, *_):
            return self.for_tokens(tokens)

    text = "the cat sat on the tree, and she saw the big red house"
    printed = show(model, text, Given(), seed=3)
    assert capsys.readouterr().out == f"{printed}\n"
    assert "tokens, and the decoder writes" in printed
    title, reads, writes = printed.split("\n\n")[1:]
    assert title.startswith("text    the cat")
    assert reads.startswith("reads   the") and writes.startswith("writes  ")
    assert reads.endswith("[SEP]") and writes.endswith("[SEP]")


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="for_tokenizer"):
        OBJECTIVES["span_corruption"](rows([9]), Draws(0, 0, [0]))
    with pytest.raises(ValueError, match="has no sentinel tokens"):
        OBJECTIVES["span_corruption"].for_tokenizer(vocabulary(["<pad>", "</s>"]))
    with pytest.raises(ValueError, match=r"2200 tokens has 110 hidden spans, .* 100 sentinels"):
        drawn("span_corruption", rows([2200]))
    with pytest.raises(ValueError, match=r"rate is 0\.7"):
        drawn("span_corruption", rows([9]), rate=0.7)
    with pytest.raises(ValueError, match=r"mean_length is 0\.5"):
        drawn("span_corruption", rows([9]), mean_length=0.5)
    with pytest.raises(ValueError, match="random is 2; it must be a number from 0 to 1"):
        drawn("bert_style", rows([9]), random=2)
    with pytest.raises(ValueError, match="Choose longer rows"):
        OBJECTIVES["span_corruption"].raw_length(1)
    with pytest.raises(ValueError, match="PackedExamples"):
        drawn("span_corruption", rows([12], documents=[[1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]]))
