"""Rows for pretraining: every token where its scheme puts it, whatever the batch.

Every token of the text occurs once in it, so that a row's tokens tell where they come from.
"""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from bert_zoo.families.xlm.cards import Translations
from bert_zoo.families.xlnet.cards import StreamedPairs
from bert_zoo.pretraining import rows as rows_module
from bert_zoo.pretraining.rows import (
    DocSentences,
    EpochPlan,
    FullSentences,
    JoinedDocuments,
    PackedDocuments,
    PackedExamples,
    SentencePairs,
    epoch_rows,
)
from bert_zoo.pretraining.tokens import TokenizedText, write_tokens
from bert_zoo.tasks.objectives import SpanCorruption
from bert_zoo.text import Preprocessor, WordPieceTokenizer
from bert_zoo.text.numpy_packing import BERT, PLAIN, ROBERTA, Layout

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, _, CLS, SEP, _ = range(5)
FIRST = len(SPECIAL)
XLNET = Layout("A sep cls:2", "A sep B:1 sep:1 cls:2", padding_side="left", padding_segment=3)
WITH_SPECIAL = [FullSentences(16), DocSentences(16), PackedDocuments(16)]
SINGLE = [*WITH_SPECIAL, PackedExamples(16, objective=SpanCorruption()), JoinedDocuments(16)]
PAIRS = [SentencePairs("next_sentence", 32), SentencePairs("sentence_order", 32)]


def shards_of(tmp_path_factory, lengths, layout=BERT):
    """Documents given by the lengths of their sentences, tokenized, and their preprocessor."""
    number = sum(map(sum, lengths))
    words = [f"##w{i}" if i % 5 == 2 else f"w{i}" for i in range(number)]
    # Continuations are tokens of a vocabulary whose words are single tokens, so they are never met by
    # the tokenizer: they are written as words, and renamed in what begins a word.
    plain = [word.removeprefix("##") for word in words]
    tokenizer = WordPieceTokenizer([*SPECIAL, *plain, "##z"])
    preprocessor = Preprocessor(tokenizer, sequence_length=16, layout=layout, padding="fixed")
    left, documents = iter(plain), []
    for document in lengths:
        documents.append([" ".join(next(left) for _ in range(n)) for n in document])
    directory = tmp_path_factory.mktemp("tokens")
    write_tokens(documents, preprocessor, directory)
    written = TokenizedText(directory)
    written.begins_word[[FIRST + i for i, word in enumerate(words) if word.startswith("##")]] = (
        False
    )
    return written, preprocessor


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(0)
    lengths = [rng.integers(1, 8, rng.integers(1, 15)).tolist() for _ in range(60)]
    lengths[7] = [3, 50, 2]  # longer than a row
    lengths[8] = [40]
    return shards_of(tmp_path_factory, lengths)


def rows_of(written, scheme, seed=0, epoch=0, batch_size=7):
    """The whole epoch as one batch, as wide as the scheme."""
    batches = list(epoch_rows(written, scheme, seed, epoch, batch_size=batch_size))
    return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}


def texts_of(rows, i):
    """The places in the text of a row's tokens, cut at special tokens."""
    ids = rows["token_ids"][i][rows["padding_mask"][i] == 1]
    parts = np.split(ids, np.flatnonzero(ids < FIRST))
    parts = [part[part >= FIRST] - FIRST for part in parts]
    return [part for part in parts if len(part)]


@pytest.mark.parametrize("scheme", SINGLE, ids=repr)
def test_every_token_is_in_one_row(text, scheme):
    written, _ = text
    for epoch in range(2):
        plan = EpochPlan(written, scheme, 3, epoch)
        rows = plan.batch(np.arange(plan.num_rows))
        tokens = rows["token_ids"][~rows["special"]]
        np.testing.assert_array_equal(np.sort(tokens) - FIRST, np.arange(written.num_tokens))
        assert plan.num_tokens == written.num_tokens
        np.testing.assert_array_equal(rows["padding_mask"].sum(1), plan.lengths[plan.order])
        np.testing.assert_array_equal(rows["special"], rows["token_ids"] < FIRST)
    first, second = (rows_of(written, scheme, 3, epoch)["token_ids"] for epoch in (0, 1))
    assert first.shape != second.shape or (first != second).any()


def sentence_edges(written):
    return set(written.sentence_starts.tolist()), set(
        written.sentence_starts[written.document_starts].tolist()
    )


def test_full_sentences(text):
    written, _ = text
    sentences, documents = sentence_edges(written)
    rows = rows_of(written, FullSentences(16))
    crossing = 0
    for i in range(len(rows["row"])):
        runs = texts_of(rows, i)
        crossing += len(runs) > 1
        for before, after in pairwise(runs):
            # A document ends where a separator stands, and another begins.
            assert before[-1] + 1 in documents
            assert after[0] in documents
        for run in runs:
            np.testing.assert_array_equal(np.diff(run), 1)
            assert not documents & set((run[1:]).tolist())
        length = rows["padding_mask"][i].sum()
        # No more than what the next sentence needs is left free.
        if length < 16 and runs[-1][-1] + 1 in sentences - documents:
            end = runs[-1][-1] + 1
            following = min(s for s in sentences if s > end)
            assert length + min(following - end, 14) > 16
    assert crossing > 10
    # The parts in which an epoch is planned make no difference.
    sizes = rows_module.SECTION
    try:
        rows_module.SECTION = 20
        again = rows_of(written, FullSentences(16))
    finally:
        rows_module.SECTION = sizes
    # Rows are the same; the order is drawn after them.
    np.testing.assert_array_equal(again["token_ids"], rows["token_ids"])


@pytest.mark.parametrize("section", [20, 1 << 18])
def test_doc_sentences(text, section, monkeypatch):
    monkeypatch.setattr(rows_module, "SECTION", section)
    written, _ = text
    sentences, documents = sentence_edges(written)
    rows = rows_of(written, DocSentences(16))
    for i in range(len(rows["row"])):
        (run,) = texts_of(rows, i)
        assert not documents & set(run[1:].tolist())
        # Whole sentences, but for those that no row can hold.
        for place, is_edge in ((run[0], run[0] in sentences), (run[-1], run[-1] + 1 in sentences)):
            number = np.searchsorted(written.sentence_starts, place, "right") - 1
            length = written.sentence_starts[number + 1] - written.sentence_starts[number]
            assert is_edge or length > 14


@pytest.mark.parametrize(
    "layout", [BERT, ROBERTA, XLNET, PLAIN], ids=["bert", "roberta", "xlnet", "plain"]
)
def test_rows_are_laid_out_as_the_preprocessor_does(tmp_path_factory, layout):
    import tensorflow as tf

    written, preprocessor = shards_of(tmp_path_factory, [[3, 4, 5, 4]] * 6, layout)
    pairs = [SentencePairs(length=16), SentencePairs("sentence_order", 16)] if layout.pair else []
    for scheme in (DocSentences(16), *pairs):
        rows = rows_of(written, scheme)
        parts = [texts_of(rows, i) for i in range(len(rows["row"]))]
        segments = [tf.ragged.constant([p[k] + FIRST for p in parts]) for k in range(len(parts[0]))]
        packed = preprocessor.pack(segments)
        assert {"token_ids", "padding_mask"} <= packed.keys() <= rows.keys()
        for name, values in packed.items():
            np.testing.assert_array_equal(rows[name], values, err_msg=name)
            assert rows[name].dtype == np.int32
    for scheme in SINGLE:
        rows = rows_of(written, scheme)
        tokens = rows["token_ids"][~rows["special"]]
        np.testing.assert_array_equal(np.sort(tokens) - FIRST, np.arange(written.num_tokens))
    if not layout.pair:
        with pytest.raises(ValueError, match="rows have one"):
            EpochPlan(written, SentencePairs(length=16), 0, 0)


@pytest.mark.parametrize("scheme", [*SINGLE, *PAIRS], ids=repr)
def test_rows_do_not_depend_on_batches(text, scheme):
    written, _ = text
    rows = rows_of(written, scheme, batch_size=7)
    number = len(rows["row"])
    np.testing.assert_array_equal(rows["row"], np.arange(number))
    plan = EpochPlan(pickle.loads(pickle.dumps(written)), scheme, 0, 0)
    some = np.random.default_rng(0).permutation(number)[:9]
    plan.text.begins_word[:] = written.begins_word
    for name, values in plan.batch(some).items():
        np.testing.assert_array_equal(values, rows[name][some], err_msg=name)
    others = rows_of(written, scheme, seed=1)
    assert (
        others["token_ids"].shape != rows["token_ids"].shape
        or (others["token_ids"] != rows["token_ids"]).any()
    )


def test_words_start(text):
    written, _ = text
    for scheme in (*WITH_SPECIAL, *PAIRS):
        rows = rows_of(written, scheme)
        assert not rows["word_starts"][rows["special"]].any()
        starts = written.begins_word[rows["token_ids"]] & ~rows["special"]
        # A run begins with a word, or with the rest of one.
        first = ~rows["special"] & np.pad(rows["special"], ((0, 0), (1, 0)))[:, :-1]
        np.testing.assert_array_equal(rows["word_starts"], starts | first)
        assert (first & ~starts).any()


def test_packed_documents(text):
    written, _ = text
    plan = EpochPlan(written, PackedDocuments(64), 0, 0)
    rows = plan.batch(np.arange(plan.num_rows))
    assert plan.lengths.mean() > 0.85 * 64
    several = 0
    for i in range(plan.num_rows):
        numbers, ids = rows["document_ids"][i], rows["token_ids"][i]
        length = rows["padding_mask"][i].sum()
        assert (numbers[length:] == 0).all() and (numbers[:length] > 0).all()
        several += numbers.max() > 1
        for number in range(1, numbers.max() + 1):
            (places,) = np.nonzero(numbers == number)
            np.testing.assert_array_equal(np.diff(places), 1)
            np.testing.assert_array_equal(rows["position_ids"][i][places], np.arange(len(places)))
            assert ids[places[0]] == CLS and ids[places[-1]] == SEP
            run = ids[places[1:-1]]
            np.testing.assert_array_equal(np.diff(run), 1)
    assert several > plan.num_rows / 3
    assert rows["document_ids"].dtype == rows["position_ids"].dtype == np.int32


def test_joined_documents_fill_all_rows_but_the_last(text):
    written, _ = text
    _, documents = sentence_edges(written)
    plan = EpochPlan(written, JoinedDocuments(50), 0, 0)
    *full, last = plan.lengths
    assert set(full) == {50} and 0 < last <= 50
    rows = plan.batch(np.argsort(plan.order))
    stream = rows["token_ids"][~rows["special"]] - FIRST
    begins = np.flatnonzero(np.diff(stream, prepend=-2) != 1)
    # Documents follow one another in another order, each from its beginning to its end.
    assert set(stream[begins].tolist()) <= documents
    assert len(begins) > 50 and "document_ids" not in rows


@pytest.fixture(scope="module")
def even(tmp_path_factory):
    """Sentences of five tokens, so that rows of 3 + 25 tokens are filled exactly."""
    rng = np.random.default_rng(1)
    return shards_of(tmp_path_factory, [[5] * int(rng.integers(1, 40)) for _ in range(120)])[0]


def document_of(written, place):
    sentence = np.searchsorted(written.sentence_starts, place, "right") - 1
    return np.searchsorted(written.document_starts, sentence, "right") - 1


def test_next_sentences(even):
    labels, first_shares = [], []
    for epoch in range(20):
        rows = rows_of(even, SentencePairs(length=28, short_rows=0), 0, epoch)
        spans = {}
        for i, label in enumerate(rows["next_sentence"]):
            a, b = texts_of(rows, i)
            ids = rows["token_ids"][i]
            length = rows["padding_mask"][i].sum()
            np.testing.assert_array_equal(
                np.flatnonzero(ids[:length] < FIRST), [0, len(a) + 1, length - 1]
            )
            np.testing.assert_array_equal(rows["segment_ids"][i][: length], [0] * (len(a) + 2) + [1] * (len(b) + 1))  # fmt: skip
            same = document_of(even, a[0]) == document_of(even, b[0])
            assert same == (label == 0)
            if label == 0:
                assert b[0] == a[-1] + 1
            # From where the row took its sentences, and where the next one has to begin.
            spans[a[0]] = (b if label == 0 else a)[-1] + 1
            end = even.sentence_starts[even.document_starts[document_of(even, a[0]) + 1]]
            if end - a[0] >= 25:
                labels.append(label)
                first_shares.append(len(a) // 5)
        # Unused sentences are put back: rows follow each other without a gap in each document.
        for start, end in zip(*(even.sentence_starts[even.document_starts[i:][: len(even)]] for i in (0, 1)), strict=True):  # fmt: skip
            place = start
            while place < end:
                place = spans.pop(place)
            assert place == end
        assert not spans
    assert 0.45 < np.mean(labels) < 0.55
    # The first text has 1 to 4 of 5 sentences, each as often.
    shares = np.bincount(first_shares, minlength=6)[1:] / len(first_shares)
    np.testing.assert_allclose(shares, [0.25] * 4 + [0], atol=0.05)


def test_sentence_order(even):
    labels = []
    for epoch in range(10):
        rows = rows_of(even, SentencePairs("sentence_order", 28, short_rows=0), 0, epoch)
        for i, label in enumerate(rows["sentence_order"]):
            a, b = texts_of(rows, i)
            if document_of(even, a[0]) != document_of(even, b[0]):
                assert label == 1 and len(a) == 5  # a sentence that was left alone
                continue
            before, after = (b, a) if label else (a, b)
            assert after[0] == before[-1] + 1
            labels.append(label)
        # Nothing is put back.
        alone = sum(document_of(even, a[0]) != document_of(even, b[0]) for a, b in (texts_of(rows, i) for i in range(len(rows["row"]))))  # fmt: skip
        inside = sum(len(a) + len(b) for a, b in (texts_of(rows, i) for i in range(len(rows["row"]))) if document_of(even, a[0]) == document_of(even, b[0]))  # fmt: skip
        assert inside + 5 * alone == even.num_tokens
    assert 0.45 < np.mean(labels) < 0.55


def test_pairs_that_are_too_long_are_cut(text):
    written, _ = text
    cut_front = cut_end = 0
    for epoch in range(10):
        rows = rows_of(written, SentencePairs(length=20), 0, epoch)
        assert rows["padding_mask"].sum(1).max() == 20
        for i in range(len(rows["row"])):
            a, b = texts_of(rows, i)
            for run in (a, b):
                np.testing.assert_array_equal(np.diff(run), 1)
            if len(a) + len(b) == 17:
                cut_front += a[0] not in written.sentence_starts
                cut_end += b[-1] + 1 not in written.sentence_starts
    assert cut_front > 20 and cut_end > 20


def test_some_rows_are_short(even):
    lengths = EpochPlan(even, SentencePairs(length=103, short_rows=1), 0, 0).lengths
    whole = EpochPlan(even, SentencePairs(length=103, short_rows=0), 0, 0).lengths
    assert len(lengths) > 1.3 * len(whole)
    assert len(set(lengths.tolist())) > 10


def test_errors(text, tmp_path_factory):
    written, _ = text
    with pytest.raises(ValueError, match="length is 3"):
        EpochPlan(written, FullSentences(3), 0, 0)
    with pytest.raises(ValueError, match="label is 'order'"):
        SentencePairs("order")
    alone, _ = shards_of(tmp_path_factory, [[3, 4]])
    with pytest.raises(ValueError, match="single document"):
        EpochPlan(alone, SentencePairs(), 0, 0)
    assert EpochPlan(alone, FullSentences(16), 0, 0).num_rows == 1


# --- Several languages ---


@pytest.fixture(scope="module")
def translated(tmp_path_factory):
    """Documents of a sentence in each of three languages; and their lengths, [documents, 3]."""
    lengths = np.random.default_rng(1).integers(1, 14, (50, 3))
    return shards_of(tmp_path_factory, lengths.tolist())[0], lengths


def test_rows_of_one_language_hold_every_sentence_of_it(translated):
    written, lengths = translated
    plan = EpochPlan(written, Translations(24, (4, 7, 9), pairs=False), 0, 0)
    rows = plan.batch(np.arange(plan.num_rows))
    sentence_of = np.repeat(np.arange(150), lengths.ravel())
    found = []
    for i in range(plan.num_rows):
        real = rows["padding_mask"][i] == 1
        (language,) = set(rows["language_ids"][i][real])
        assert rows["token_ids"][i][0] == CLS and rows["token_ids"][i][real][-1] == SEP
        np.testing.assert_array_equal(rows["position_ids"][i][real], np.arange(real.sum()))
        for part in texts_of(rows, i):
            (sentence,) = set(sentence_of[part])
            assert len(part) == lengths.ravel()[sentence]
            assert (4, 7, 9)[sentence % 3] == language
            found.append(sentence)
    assert sorted(found) == list(range(150))
    # Full ones: the next sentence did not fit.
    assert rows["padding_mask"].sum(1).mean() > 16


def test_rows_of_translations_are_two_languages_with_positions_of_their_own(translated):
    written, lengths = translated
    scheme = Translations(20, (4, 7, 9))
    drawn = []
    for epoch in range(6):
        plan = EpochPlan(written, scheme, 0, epoch)
        rows = plan.batch(np.arange(plan.num_rows))
        pairs = [
            i
            for i in range(plan.num_rows)
            if len({*rows["language_ids"][i][rows["padding_mask"][i] == 1]}) == 2
        ]
        assert len(pairs) == 50
        for i in pairs:
            real = rows["padding_mask"][i] == 1
            first, second = texts_of(rows, i)
            at = len(first) + 2
            wanted = [CLS, *(first + FIRST), SEP, CLS, *(second + FIRST), SEP]
            np.testing.assert_array_equal(rows["token_ids"][i][real], wanted)
            positions = [*range(at), *range(len(second) + 2)]
            np.testing.assert_array_equal(rows["position_ids"][i][real], positions)
            document = np.searchsorted(np.cumsum(lengths.sum(1)), first[0], side="right")
            assert document == np.searchsorted(np.cumsum(lengths.sum(1)), second[0], side="right")
            languages = rows["language_ids"][i]
            assert len({*languages[:at]}) == 1 and len({*languages[at : real.sum()]}) == 1
            drawn.append((languages[0], languages[at]))
            wholes = lengths[document][[(4, 7, 9).index(language) for language in drawn[-1]]]
            # Cut where both are too long together, the longer one first.
            assert len(first) + len(second) == min(wholes.sum(), 16)
            assert len(first) >= min(wholes[0], 8) and len(second) >= min(wholes[1], 8)
    counts = [drawn.count((a, b)) for a in (4, 7, 9) for b in (4, 7, 9) if a != b]
    assert sum(counts) == 300 and min(counts) > 30


def test_a_document_without_a_translation_is_refused(tmp_path_factory):
    written, _ = shards_of(tmp_path_factory, [[3, 4], [2], [5, 1]])
    with pytest.raises(ValueError, match="5 sentences with tokens in 3 documents"):
        EpochPlan(written, Translations(24), 0, 0)


# --- Rows that go on where those of the batch before ended -----------------------------------------


def originals_pair(bounds, size: int, begin: int, room: int, draws):
    """zihangdai/xlnet data_utils.py, _split_a_and_b, with its draws given: begin and end of both texts."""
    end, cuts = begin + 1, []
    while end < size:
        if end in bounds:
            if end - begin >= room:
                break
            cuts.append(end)
        end += 1
    if not cuts or draws[2] < 0.5:
        first_end = cuts[int(draws[0] * len(cuts))] if cuts else end
        wanted = max(1, room - (first_end - begin))
        second = int(draws[1] * (size - wanted))
        second_end = second + wanted
        while second > 0 and second not in bounds:
            second -= 1
        while second_end < size - 1 and second_end not in bounds:
            second_end += 1
    else:
        first_end = cuts[int(draws[0] * len(cuts))]
        second, second_end = first_end, end
    while first_end - begin + second_end - second > room:
        if first_end - begin > second_end - second:
            first_end -= 1
        else:
            second_end -= 1
    return first_end - begin, second, second_end - second


def test_two_texts_of_a_row_are_the_originals():
    generator = np.random.default_rng(0)
    for size, most in ((400, 9), (400, 60), (90, 200)):
        bounds = np.cumsum(generator.integers(1, most, size))
        bounds = bounds[bounds < size]
        begins, room = np.arange(8, size - 24, 5), 21
        seed = int(generator.integers(1 << 30))
        draws = np.random.default_rng(seed).random((3, len(begins)))
        found = StreamedPairs._pairs(begins, bounds, size, room, np.random.default_rng(seed))
        edges = set(bounds.tolist())
        expected = [
            originals_pair(edges, size, begin, room, draws[:, i]) for i, begin in enumerate(begins)
        ]
        np.testing.assert_array_equal(np.stack(found, axis=1), expected)


def test_streams_go_on_in_both_directions(tmp_path_factory):
    rng = np.random.default_rng(1)
    lengths = [rng.integers(1, 8, rng.integers(1, 15)).tolist() for _ in range(60)]
    written, _ = shards_of(tmp_path_factory, lengths, XLNET)
    scheme = StreamedPairs(24, batch_size=6)
    plan = EpochPlan(written, scheme, 3, 0)
    rows = plan.batch(np.arange(plan.num_rows))
    size, number = written.num_tokens // 3, plan.num_rows // 6
    assert number == (size - 24) // 12 + 1 > 10
    assert rows["padding_mask"].all()
    assert rows["starts_stream"].tolist() == [1] * 6 + [0] * 6 * (number - 1)
    ids, backwards = rows["token_ids"] - FIRST, rows["reads_backwards"] == 1
    assert backwards.reshape(-1, 6).tolist() == [[False] * 3 + [True] * 3] * number
    steps = np.where(backwards, -1, 1)[:, None]
    np.testing.assert_array_equal(np.diff(ids[:, :12]), np.broadcast_to(steps, (6 * number, 11)))
    # The next batch's row goes on behind the first half; a row's first text does too.
    np.testing.assert_array_equal(ids[6:, 0], ids[:-6, 11] + steps[6:, 0])
    np.testing.assert_array_equal(ids[:, 12], ids[:, 11] + steps[:, 0])
    begins = [0, size, 2 * size, size - 1, 2 * size - 1, 3 * size - 1]
    assert ids[:6, 0].tolist() == begins
    follows = 0
    for row, (first, second) in enumerate(texts_of(rows, i)[:2] for i in range(len(ids))):
        assert rows["segment_ids"][row].tolist() == [0] * (len(first) + 1) + [1] * (
            len(second) + 1
        ) + [2]
        assert set(np.diff(first)) == set(np.diff(second)) | {steps[row, 0]} == {steps[row, 0]}
        follows += second[0] == first[-1] + steps[row, 0]
        words = written.begins_word[rows["token_ids"][row]]
        assert (rows["word_starts"][row] >= words & ~rows["special"][row]).all()
    assert 0.1 < follows / len(ids) < 0.8
    again = EpochPlan(written, scheme, 3, 1).batch(np.arange(plan.num_rows))
    np.testing.assert_array_equal(again["token_ids"][:, :12], rows["token_ids"][:, :12])
    assert (again["token_ids"] != rows["token_ids"]).any()
    some = np.array([7, 2, 40])
    for name, values in EpochPlan(written, scheme, 3, 0).batch(some).items():
        np.testing.assert_array_equal(values, rows[name][some], err_msg=name)
    with pytest.raises(ValueError, match="make it even"):
        StreamedPairs(24, batch_size=5)
    with pytest.raises(ValueError, match=r"Lower batch_size or use more text"):
        EpochPlan(written, StreamedPairs(512, batch_size=16), 0, 0)
