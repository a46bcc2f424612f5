"""Rows to pretrain on, composed from a tokenized text epoch by epoch.

A scheme such as `SentencePairs` plans an epoch: the runs of tokens in each row, which depend only on the seed
and the epoch. Rows are numbered, and each can be composed on its own. So workers can divide an epoch in any
way, and training can resume in the middle of one. Plans are made for a part of the documents at a time,
without reading tokens. Nothing here needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_zoo.data.rows import (
    RUN,
    SECOND,
    RowScheme,
    Runs,
    Template,
    around,
    cut,
    followed,
    ranges,
    separator,
)
from bert_zoo.fields import check
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.text.numpy_packing import Layout

if TYPE_CHECKING:
    from bert_zoo.tasks.objectives.denoising import Denoising


# Number of sentences to plan together, to limit memory.
SECTION = 1 << 18

Batch = dict[str, np.ndarray]


@dataclass(frozen=True)
class FullSentences(RowScheme):
    """Whole sentences up to the full length, across document boundaries: RoBERTa's FULL-SENTENCES.

    A row is a single text, with a separator token where a document ends within it. Each epoch has the
    documents in a different order. A sentence that is longer than a row is divided.

    Source: Liu et al. 2019, section 4.2.
    """

    length: int = 512  # tokens per row, including special tokens

    def plan(self, text: TokenizedText, rng: np.random.Generator) -> Iterator[Runs]:
        most = self.length - text.layout.specials(1)
        separators = len(separator(text.layout))
        left = _DocumentSentences.none()
        for section in _sections(text, rng.permutation(text.num_documents), most):
            sentences = left.followed_by(section)
            # A document's first sentence also needs a separator, unless it begins a row.
            begins = separators * sentences.begins_document
            before = np.concatenate([[0], np.cumsum(sentences.lengths + begins)])
            end = np.searchsorted(before, before[:-1] + begins + most, side="right") - 1
            rows = followed(end)
            # The last row may continue in the next section.
            last = rows.pop()
            left = sentences.part(last, len(end))
            if rows:
                yield _cut_at_documents(sentences.part(0, last), np.array(rows))
        yield _cut_at_documents(left, np.zeros(1, np.int64))

    def template(self, layout: Layout) -> Template:
        before, after = around(layout)
        between = separator(layout)
        return Template(
            only=(before, after),
            first=(before, []),
            middle=(between, []),
            last=(between, after),
        )


@dataclass(frozen=True)
class DocSentences(RowScheme):
    """Whole sentences of one document up to the full length: RoBERTa's DOC-SENTENCES, SpanBERT's blocks.

    A row is a single text. The last row of a document may be shorter. A sentence that is longer than a row
    is divided (SpanBERT's original drops it).

    Source: Liu et al. 2019, section 4.2; Joshi et al. 2020, section 3.3.
    """

    length: int = 512  # tokens per row, including special tokens

    def plan(self, text: TokenizedText, rng: np.random.Generator) -> Iterator[Runs]:
        most = self.length - text.layout.specials(1)
        for sentences in _sections(text, np.arange(text.num_documents), most):
            before = sentences.before
            end = np.searchsorted(before, before[:-1] + most, side="right") - 1
            end = np.minimum(end, sentences.document_ends)
            rows = np.array(followed(end))
            lengths = before[end[rows]] - before[rows]
            yield Runs(np.arange(len(rows)), sentences.starts[rows], lengths)

    def template(self, layout: Layout) -> Template:
        return Template(only=around(layout))


@dataclass(frozen=True)
class PackedDocuments(RowScheme):
    """Several documents side by side in rows of full length, each independent of the others.

    Each document has its own special tokens, number (`document_ids`) and positions (`position_ids`). A
    document that is longer than a row is divided. Documents and remainders that are shorter go to the row in
    which they leave the least room. Each epoch has the documents in a different order.

    Source: the best-fit packing of Krell et al. 2021, arXiv:2107.02027.
    """

    length: int = 512  # tokens per row, including special tokens

    def plan(self, text: TokenizedText, rng: np.random.Generator) -> Iterator[Runs]:
        specials = sum(map(len, self.template(text.layout).only))
        starts, lengths = cut(*_documents(text, rng), self.length - specials)
        room = self.room(lengths + specials)
        rows = _best_fit(room, self.length, int(room.min()))
        by_row = np.argsort(rows, kind="stable")
        yield Runs(rows[by_row], starts[by_row], lengths[by_row])

    def room(self, sizes: np.ndarray) -> np.ndarray:
        """The room in a row for documents of `sizes` tokens with special tokens, int64 [documents]."""
        return sizes

    def template(self, layout: Layout) -> Template:
        alone = around(layout)
        return Template(only=alone, first=alone, middle=alone, last=alone, numbered=True)


@dataclass(frozen=True)
class PackedExamples(PackedDocuments):
    """Several documents side by side in rows for an encoder and a decoder, each an independent text.

    Like `PackedDocuments`, but without special tokens, which the objective adds. The objective's inputs and
    targets for a row are no longer than for a single text of `length` tokens, as `Denoising.raw_length` returns it.
    """

    objective: Denoising = field(kw_only=True)  # divides a text between encoder and decoder

    def room(self, sizes: np.ndarray) -> np.ndarray:
        parts = sizes, *self.objective.sizes(sizes)
        whole = self.length, *self.objective.sizes(np.int64(self.length))
        # The largest share of text, inputs or targets, rounded up, so that all three fit.
        shares = [-(-self.length * part // most) for part, most in zip(parts, whole, strict=True)]
        return np.max(shares, axis=0)

    def template(self, layout: Layout) -> Template:
        return Template(numbered=True)


@dataclass(frozen=True)
class JoinedDocuments(RowScheme):
    """Documents one after another, cut into rows of the same length, as for T5.

    Nothing separates the documents, and rows have no special tokens. Each epoch has the documents in a
    different order. Its last row may be shorter.

    Source: google-research/text-to-text-transfer-transformer t5/data/preprocessors.py,
    reduce_concat_tokens and split_tokens, which joins 128 documents at a time.
    """

    length: int = 568  # tokens per row, as `Denoising.raw_length` returns it

    def plan(self, text: TokenizedText, rng: np.random.Generator) -> Iterator[Runs]:
        starts, lengths = _documents(text, rng)
        ends = np.cumsum(lengths)
        # A run begins where a document or a row begins.
        begins = np.union1d(ends - lengths, np.arange(0, ends[-1], self.length))
        document = np.searchsorted(ends, begins, side="right")
        starts = starts[document] + begins - (ends - lengths)[document]
        yield Runs(begins // self.length, starts, np.diff(begins, append=ends[-1]))

    def template(self, layout: Layout) -> Template:
        return Template()


@dataclass(frozen=True)
class SentencePairs(RowScheme):
    """Pairs of texts of whole sentences, labelled for BERT's next sentence or ALBERT's sentence order.

    Sentences of a document are collected until they fill a row, and divided in two at random. For
    "next_sentence", half of the rows get sentences of another document as second text (label 1); the
    sentences that these replace begin the next row. For "sentence_order", the two texts are exchanged in
    half of the rows (label 1). If there is only one sentence, the second text comes from another document
    in both cases (label 1). If a pair is too long, tokens are removed from the longer text, from its
    start or end at random.

    Source: google-research/bert and google-research/albert create_pretraining_data.py.
    """

    label: str = "next_sentence"  # also the key of the labels in a batch
    length: int = 128  # tokens per row, including special tokens
    short_rows: float = 0.1  # share of the documents whose rows are only filled to a random length

    def __post_init__(self):
        check("label", self.label, str, choices=("next_sentence", "sentence_order"))

    def plan(self, text: TokenizedText, rng: np.random.Generator) -> Iterator[Runs]:
        if text.num_documents < 2:
            raise ValueError(
                "The text is a single document, but pairs need sentences of other documents. Check that blank "
                "lines separate documents, or choose another scheme, such as FullSentences."
            )
        most = self.length - text.layout.specials(2)
        first_document = 0
        for sentences in _sections(text, np.arange(text.num_documents), most):
            yield self._pairs(text, rng, sentences, first_document, most)
            first_document += sentences.begins_document.sum()

    def _pairs(
        self,
        text: TokenizedText,
        rng: np.random.Generator,
        sentences: _DocumentSentences,
        first_document: int,
        most: int,
    ) -> Runs:
        before, number = sentences.before, len(sentences.starts)
        document = np.cumsum(sentences.begins_document) - 1
        is_short = rng.random(document[-1] + 1) < self.short_rows
        short = rng.integers(2, most, len(is_short), endpoint=True)
        target = np.where(is_short, short, most)[document]
        # For every sentence: the row that would begin there.
        end = np.searchsorted(before, before[:-1] + target)
        end = np.minimum(end, sentences.document_ends)
        begin = np.arange(number)
        is_single = end - begin == 1
        # The sentence with which the second text begins.
        middle = begin + 1 + np.floor(rng.random(number) * (end - begin - 1)).astype(np.int64)
        chosen = rng.random(number) < 0.5
        is_next = self.label == "next_sentence"
        is_random = is_single | chosen if is_next else is_single

        rows = np.array(followed(np.where(is_random, middle, end)))
        middle, end, label = middle[rows], end[rows], (is_single | chosen)[rows]
        is_random, is_single = is_random[rows], is_single[rows]
        starts = np.stack(
            [sentences.starts[rows], sentences.starts[np.minimum(middle, number - 1)]]
        )
        lengths = np.stack([before[middle] - before[rows], before[end] - before[middle]])
        r = np.flatnonzero(is_random)
        starts[1, r], lengths[1, r] = _random_sentences(
            text, rng, document[rows[r]] + first_document, target[rows[r]] - lengths[0, r]
        )
        if not is_next:
            swapped = label & ~is_single
            starts, lengths = (np.where(swapped, a[::-1], a) for a in (starts, lengths))
        kept_first = np.minimum(lengths[0], np.maximum(most - lengths[1], -(-most // 2)))
        kept = np.stack([kept_first, np.minimum(lengths[1], most - kept_first)])
        starts += rng.binomial(lengths - kept, 0.5)
        pairs = np.repeat(np.arange(len(rows)), 2)
        return Runs(pairs, starts.T.ravel(), kept.T.ravel(), label.astype(np.int32))

    def template(self, layout: Layout) -> Template:
        parts = layout.parts(2)
        a, b = (number for number, part in enumerate(parts) if part.is_text)
        return Template(
            first=(parts[:a], []),
            last=(parts[a + 1 : b], parts[b + 1 :]),
            segments=(parts[a].segment, parts[b].segment),
        )


class EpochPlan:
    """The rows of one epoch, which another seed or epoch composes and orders differently.

    Attributes:
        order: int64 [rows], each row's place in the plan; a random order, unless the scheme's rows are in
            order.
        lengths: int64 [rows], number of tokens at each place in the plan, including special tokens.
        num_tokens: number of tokens in all rows, without special tokens. It equals the text's if the
            scheme puts every token in exactly one row.
    """

    def __init__(self, text: TokenizedText, scheme: RowScheme, seed: int, epoch: int):
        self.text, self.scheme = text, scheme
        self._template = scheme.template(text.layout)
        if scheme.length <= text.layout.most_specials:
            raise ValueError(
                f"length is {scheme.length}; it must be larger, as rows have up to {text.layout.most_specials} "
                "special tokens and need room for others."
            )
        rng = np.random.default_rng([seed, epoch])
        runs, number = [], 0
        for part in scheme.plan(text, rng):
            runs.append(part._replace(rows=part.rows + number))
            number = int(runs[-1].rows[-1]) + 1
        rows, self._starts, lengths, self._labels, kinds, self._languages, self._backwards = (
            np.concatenate([getattr(part, name) for part in runs]) for name in Runs._fields
        )
        self._lengths = lengths.astype(np.int32)
        self.num_rows = number
        # Where each row's runs begin, and where those of the last row end.
        self._splits = np.searchsorted(rows, np.arange(number + 1))
        self.order = np.arange(number) if scheme.in_order else rng.permutation(number)
        self.num_tokens = int(lengths.sum())
        self._kinds = kinds if len(kinds) else self._template.kinds(self._splits)
        specials = (self._template.ids(text.special_ids) >= 0).sum(1)
        self.lengths = np.add.reduceat(lengths + specials[self._kinds], self._splits[:-1])

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Composes rows by number, padded to the scheme's length.

        Returns:
            - `token_ids`, `padding_mask` (1 for tokens) int32 [batch, width], and `segment_ids` if the
              layout has segments;
            - `row` int64 [batch], numbers of the rows;
            - `special` bool [batch, width], true for special tokens and padding;
            - `word_starts` bool [batch, width], true for the first tokens of words and of runs;
            - for `PackedDocuments`, `document_ids` (from 1; 0 for padding) and `position_ids` int32
              [batch, width];
            - for `SentencePairs`, its label int32 [batch];
            - for schemes with languages, `language_ids` and `position_ids` int32 [batch, width];
            - for schemes that reverse their runs, `reads_backwards` int32 [batch], and
              `starts_stream` int32 [batch], 1 for rows of the first batch.
        """
        numbers = np.asarray(numbers, np.int64)
        width = self.scheme.length
        layout, special_ids = self.text.layout, self.text.special_ids
        rows = self.order[numbers]
        first, counts = self._splits[rows], np.diff(self._splits)[rows]
        runs = np.repeat(first, counts) + ranges(counts)
        starts, run_lengths, kinds = self._starts[runs], self._lengths[runs], self._kinds[runs]

        # Slots: special tokens and runs, in order.
        ids = self._template.ids(special_ids)[kinds]
        is_run = ids == RUN
        lengths = np.where(is_run, run_lengths[:, None], ids >= 0)
        per_run = lengths.sum(1)
        row_of_run = np.repeat(np.arange(len(numbers)), counts)
        row_lengths = np.bincount(row_of_run, per_run, len(numbers)).astype(np.int64)
        lengths = lengths.ravel()

        # Tokens of all rows, one row after another.
        tokens = np.repeat(ids.ravel(), lengths)
        special = tokens >= 0
        read = self.text.read(starts, run_lengths)
        first_tokens = (np.cumsum(lengths) - lengths)[is_run.ravel()]
        if len(self._backwards):
            backwards = self._backwards[runs]
            begins = np.cumsum(run_lengths) - run_lengths
            turned = (2 * begins + run_lengths - 1).repeat(run_lengths) - np.arange(len(read))
            read = read[np.where(backwards.repeat(run_lengths), turned, np.arange(len(read)))]
            first_tokens = first_tokens + backwards * (run_lengths - 1)
        tokens[~special] = read
        word_starts = self.text.begins_word[tokens]
        word_starts[first_tokens] = True
        word_starts &= ~special

        place = np.arange(width)
        is_token = place < row_lengths[:, None]
        if layout.padding_side == "left":
            is_token = is_token[:, ::-1]

        def laid_out(values: np.ndarray, padding: int, dtype: type = np.int32) -> np.ndarray:
            rows = np.full((len(numbers), width), padding, dtype)
            rows[is_token] = values
            return rows

        batch = {
            "token_ids": laid_out(tokens, special_ids["pad"]),
            "padding_mask": is_token.astype(np.int32),
            "row": numbers,
            "special": laid_out(special, True, bool),
            "word_starts": laid_out(word_starts, False, bool),
        }
        if layout.segments:
            segments = np.repeat(self._template.segments_of_slots()[kinds].ravel(), lengths)
            batch["segment_ids"] = laid_out(segments, layout.padding_segment)
        if self._template.numbered:
            document = np.arange(len(runs)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
            batch["document_ids"] = laid_out(np.repeat(document, per_run), 0)
            batch["position_ids"] = laid_out(ranges(per_run), 0)
        if len(self._languages):
            batch["language_ids"] = laid_out(np.repeat(self._languages[runs], per_run), 0)
            # For each run, the number of its row's tokens that its positions do not count.
            left_out = (np.cumsum(per_run) - per_run) * (kinds == SECOND)
            row_starts = np.repeat(np.cumsum(row_lengths) - row_lengths, counts)
            left_out -= row_starts * (kinds == SECOND)
            batch["position_ids"] = laid_out(ranges(row_lengths) - np.repeat(left_out, per_run), 0)
        if len(self._backwards):
            batch["reads_backwards"] = self._backwards[first].astype(np.int32)
            batch["starts_stream"] = (numbers < self.scheme.batch_size).astype(np.int32)
        if len(self._labels):
            batch[self.scheme.label] = self._labels[rows]
        return batch


def epoch_rows(
    text: TokenizedText, scheme: RowScheme, seed: int, epoch: int, *, batch_size: int
) -> Iterator[Batch]:
    """Yields the batches of an epoch (see `EpochPlan.batch`). The last one may have fewer rows."""
    plan = EpochPlan(text, scheme, seed, epoch)
    for start in range(0, plan.num_rows, batch_size):
        yield plan.batch(np.arange(start, min(start + batch_size, plan.num_rows)))


# --- Sentences as plans see them ---


class _DocumentSentences(NamedTuple):
    """Sentences of several documents, one document after another."""

    starts: np.ndarray  # int64 [sentences], position of each one's first token among all tokens
    lengths: np.ndarray  # int64 [sentences], number of tokens in each
    begins_document: np.ndarray  # bool [sentences]

    @classmethod
    def none(cls) -> _DocumentSentences:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))

    def part(self, first: int, end: int) -> _DocumentSentences:
        return _DocumentSentences(*(values[first:end] for values in self))

    def followed_by(self, others: _DocumentSentences) -> _DocumentSentences:
        return _DocumentSentences(*map(np.concatenate, zip(self, others, strict=True)))

    @property
    def before(self) -> np.ndarray:
        """The number of tokens before each sentence, then of all: int64 [sentences + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def document_ends(self) -> np.ndarray:
        """For each sentence where the next document begins, int64 [sentences]."""
        begins = np.append(np.flatnonzero(self.begins_document), len(self.starts))
        return begins[np.cumsum(self.begins_document)]


def _sections(text: TokenizedText, order: np.ndarray, most: int) -> Iterator[_DocumentSentences]:
    """Yields the sentences of the documents in `order`, some documents at a time, in pieces up to `most`."""
    first = text.document_starts[order]
    counts = text.document_starts[order + 1] - first
    section = np.cumsum(counts) // SECTION
    for some in np.split(np.arange(len(order)), np.flatnonzero(np.diff(section)) + 1):
        sentences = np.repeat(first[some], counts[some]) + ranges(counts[some])
        starts = text.sentence_starts[sentences]
        lengths = text.sentence_starts[sentences + 1] - starts
        begins = ranges(counts[some]) == 0
        pieces = -(-lengths // most)
        yield _DocumentSentences(
            *cut(starts, lengths, most), np.repeat(begins, pieces) & (ranges(pieces) == 0)
        )


def _documents(text: TokenizedText, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The start and the number of tokens of each document, in a random order."""
    order = rng.permutation(text.num_documents)
    starts = text.sentence_starts[text.document_starts[order]]
    return starts, text.sentence_starts[text.document_starts[order + 1]] - starts


def _cut_at_documents(sentences: _DocumentSentences, rows: np.ndarray) -> Runs:
    """The runs of rows that begin at these sentences; a run ends with its document."""
    begins_row = np.zeros(len(sentences.starts), bool)
    begins_row[rows] = True
    runs = np.flatnonzero(begins_row | sentences.begins_document)
    lengths = np.add.reduceat(sentences.lengths, runs)
    return Runs((np.cumsum(begins_row) - 1)[runs], sentences.starts[runs], lengths)


def _best_fit(sizes: np.ndarray, length: int, smallest: int) -> np.ndarray:
    """The row for each size: the fullest row with enough room, or a new one."""
    rows_with_room: list[list[int]] = [[] for _ in range(length + 1)]
    # A bit for each amount of room that some row has.
    rooms, number, found = 0, 0, []
    for size in sizes.tolist():
        fitting = rooms >> size
        if fitting:
            room = size + (fitting & -fitting).bit_length() - 1
            row = rows_with_room[room].pop()
            if not rows_with_room[room]:
                rooms ^= 1 << room
        else:
            row, room = number, length
            number += 1
        room -= size
        if room >= smallest:
            rows_with_room[room].append(row)
            rooms |= 1 << room
        found.append(row)
    return np.array(found)


def _random_sentences(
    text: TokenizedText, rng: np.random.Generator, documents: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws sentences of documents other than `documents`, int64 [n], up to `tokens` int64 [n] if there are enough.

    Returns their starts among all tokens and their numbers of tokens, int64 [n] each.
    """
    other = np.floor(rng.random(len(documents)) * (text.num_documents - 1)).astype(np.int64)
    other += other >= documents
    first, end = text.document_starts[other], text.document_starts[other + 1]
    sentence = first + np.floor(rng.random(len(other)) * (end - first)).astype(np.int64)
    starts = text.sentence_starts[sentence]
    # The end of the sentence that reaches this number.
    last = np.searchsorted(text.sentence_starts, starts + np.maximum(tokens, 1))
    return starts, text.sentence_starts[np.minimum(last, end)] - starts
