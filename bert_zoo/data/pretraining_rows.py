"""Rows to pretrain on, from token shards: which tokens share a row, epoch by epoch.

A scheme such as `SentencePairs` plans an epoch: runs of tokens for each row, which depend on the seed and
the epoch alone. Rows are numbered, and any of them can be composed by itself, so that workers share an
epoch as they like and training goes on in the middle of it. Plans are made for a part of the documents
at a time, without reading a token; nothing here needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_zoo.data.buckets import Batching, RowOrder
from bert_zoo.data.token_shards import TokenShards, ranges
from bert_zoo.text.layout import Layout

# Sentences that are planned together, so that memory is bounded.
SECTION = 1 << 18
# Rows of batches of similar lengths are padded to a multiple of this.
BUCKET = 8
# Stands in templates for a run of tokens, and for nothing.
_RUN, _NONE = -1, -2
# Kinds of runs, by their place among a template's.
_FIRST, _MIDDLE, _SECOND = 1, 2, 4

Batch = dict[str, np.ndarray]


class Runs(NamedTuple):
    """Runs of tokens of rows, some rows after others.

    Attributes:
        rows: int64 [runs], the row of each, rising.
        starts: int64 [runs], the place of its first token among all tokens.
        lengths: int64 [runs], its tokens.
        labels: int32 [rows] for schemes with a label, else of no size.
        kinds: int8 [runs], where in the template each stands, for schemes whose rows do not tell it; else
            of no size.
        languages: int32 [runs], for schemes with languages, else of no size.
        backwards: bool [runs], whether a run's tokens stand last to first, for schemes with such runs,
            else of no size.
    """

    rows: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray = np.zeros(0, np.int32)
    kinds: np.ndarray = np.zeros(0, np.int8)
    languages: np.ndarray = np.zeros(0, np.int32)
    backwards: np.ndarray = np.zeros(0, bool)


@dataclass(frozen=True)
class FullSentences:
    """Whole sentences up to the full length, on over the ends of documents: RoBERTa's FULL-SENTENCES.

    A row is a single text; a separator token stands where a document ends within it. Documents come in
    another order in each epoch. A sentence that is longer than a row is cut.

    Attributes:
        length: tokens of a row, special ones among them.

    Source: Liu et al. 2019, section 4.2.
    """

    length: int = 512

    def plan(self, shards: TokenShards, rng: np.random.Generator) -> Iterator[Runs]:
        most = self.length - shards.layout.specials(1)
        separator = len(_separator(shards.layout))
        left = _Sentences.none()
        for section in _sections(shards, rng.permutation(shards.num_documents), most):
            sentences = left.followed_by(section)
            # A document's first sentence takes its separator too, but not where it begins a row.
            begins = separator * sentences.begins_document
            before = np.concatenate([[0], np.cumsum(sentences.lengths + begins)])
            end = np.searchsorted(before, before[:-1] + begins + most, side="right") - 1
            rows = _followed(end)
            # The last row may go on in the next section.
            last = rows.pop()
            left = sentences.part(last, len(end))
            if rows:
                yield _cut_at_documents(sentences.part(0, last), np.array(rows))
        yield _cut_at_documents(left, np.zeros(1, np.int64))

    def template(self, layout: Layout) -> _Template:
        before, after = _around(layout)
        between = _separator(layout)
        return _Template(
            only=(before, after),
            first=(before, []),
            middle=(between, []),
            last=(between, after),
        )


@dataclass(frozen=True)
class DocSentences:
    """Whole sentences of one document up to the full length: RoBERTa's DOC-SENTENCES, SpanBERT's blocks.

    A row is a single text, shorter than the others at a document's end. A sentence that is longer than
    a row is cut (SpanBERT's original drops it).

    Attributes:
        length: tokens of a row, special ones among them.

    Source: Liu et al. 2019, section 4.2; Joshi et al. 2020, section 3.3.
    """

    length: int = 512

    def plan(self, shards: TokenShards, rng: np.random.Generator) -> Iterator[Runs]:
        most = self.length - shards.layout.specials(1)
        for sentences in _sections(shards, np.arange(shards.num_documents), most):
            before = sentences.before
            end = np.searchsorted(before, before[:-1] + most, side="right") - 1
            end = np.minimum(end, sentences.document_ends)
            rows = np.array(_followed(end))
            lengths = before[end[rows]] - before[rows]
            yield Runs(np.arange(len(rows)), sentences.starts[rows], lengths)

    def template(self, layout: Layout) -> _Template:
        return _Template(only=_around(layout))


@dataclass(frozen=True)
class PackedDocuments:
    """Several documents side by side in rows of full length, each as if it stood alone.

    Each has its own special tokens, number (`document_ids`) and positions (`position_ids`). Documents
    that are longer than a row are cut at its length; what is shorter goes to the row in which it leaves
    the least room, documents being met in another order in each epoch.

    Attributes:
        length: tokens of a row, special ones among them.

    Source: Krell et al. 2021, arXiv:2107.02027, whose best fit this is.
    """

    length: int = 512

    def plan(self, shards: TokenShards, rng: np.random.Generator) -> Iterator[Runs]:
        specials = shards.layout.specials(1)
        most = self.length - specials
        order = rng.permutation(shards.num_documents)
        starts = shards.sentence_starts[shards.document_starts[order]]
        lengths = shards.sentence_starts[shards.document_starts[order + 1]] - starts
        starts, lengths = _cut(starts, lengths, most)
        rows = _best_fit(lengths + specials, self.length, specials + 1)
        by_row = np.argsort(rows, kind="stable")
        yield Runs(rows[by_row], starts[by_row], lengths[by_row])

    def template(self, layout: Layout) -> _Template:
        around = _around(layout)
        return _Template(only=around, first=around, middle=around, last=around, numbered=True)


@dataclass(frozen=True)
class SentencePairs:
    """Two texts of whole sentences, and whether the second belongs there: as BERT and ALBERT have it.

    Sentences of a document are collected until they fill a row, and divided in two at random. For
    "next_sentence" the second part is in half of the rows replaced by sentences of another document
    (label 1), and those that it stood for begin the next row. For "sentence_order" the two are
    exchanged in half of the rows (label 1). Where there is but one sentence, the second text comes
    from another document in both (label 1). Pairs that are too long lose tokens of the longer text, at
    its front or end at random.

    Attributes:
        label: "next_sentence" or "sentence_order", the name under which a batch has it.
        length: tokens of a row, special ones among them.
        short_rows: share of the documents whose rows are filled to a random length only.

    Source: google-research/bert and google-research/albert create_pretraining_data.py.
    """

    label: str = "next_sentence"
    length: int = 128
    short_rows: float = 0.1

    def __post_init__(self):
        if self.label not in ("next_sentence", "sentence_order"):
            raise ValueError(
                f"label is {self.label!r}; choose 'next_sentence' or 'sentence_order'."
            )

    def plan(self, shards: TokenShards, rng: np.random.Generator) -> Iterator[Runs]:
        if shards.num_documents < 2:
            raise ValueError(
                "There is one document only, and pairs need sentences of others. Check that blank "
                "lines stand between documents, or choose another scheme, such as FullSentences."
            )
        most = self.length - shards.layout.specials(2)
        first_document = 0
        for sentences in _sections(shards, np.arange(shards.num_documents), most):
            yield self._pairs(shards, rng, sentences, first_document, most)
            first_document += sentences.begins_document.sum()

    def _pairs(
        self,
        shards: TokenShards,
        rng: np.random.Generator,
        sentences: _Sentences,
        first_document: int,
        most: int,
    ) -> Runs:
        before, number = sentences.before, len(sentences.starts)
        document = np.cumsum(sentences.begins_document) - 1
        is_short = rng.random(document[-1] + 1) < self.short_rows
        short = rng.integers(2, most, len(is_short), endpoint=True)
        target = np.where(is_short, short, most)[document]
        # For every sentence: what the row would be if it began there.
        end = np.searchsorted(before, before[:-1] + target)
        end = np.minimum(end, sentences.document_ends)
        begin = np.arange(number)
        is_single = end - begin == 1
        # Of the sentences but the last, how many belong to the first text.
        middle = begin + 1 + np.floor(rng.random(number) * (end - begin - 1)).astype(np.int64)
        chosen = rng.random(number) < 0.5
        is_next = self.label == "next_sentence"
        is_random = is_single | chosen if is_next else is_single

        rows = np.array(_followed(np.where(is_random, middle, end)))
        middle, end, label = middle[rows], end[rows], (is_single | chosen)[rows]
        is_random, is_single = is_random[rows], is_single[rows]
        starts = np.stack(
            [sentences.starts[rows], sentences.starts[np.minimum(middle, number - 1)]]
        )
        lengths = np.stack([before[middle] - before[rows], before[end] - before[middle]])
        r = np.flatnonzero(is_random)
        starts[1, r], lengths[1, r] = _random_sentences(
            shards, rng, document[rows[r]] + first_document, target[rows[r]] - lengths[0, r]
        )
        if not is_next:
            swapped = label & ~is_single
            starts, lengths = (np.where(swapped, a[::-1], a) for a in (starts, lengths))
        kept_first = np.minimum(lengths[0], np.maximum(most - lengths[1], -(-most // 2)))
        kept = np.stack([kept_first, np.minimum(lengths[1], most - kept_first)])
        starts += rng.binomial(lengths - kept, 0.5)
        pairs = np.repeat(np.arange(len(rows)), 2)
        return Runs(pairs, starts.T.ravel(), kept.T.ravel(), label.astype(np.int32))

    def template(self, layout: Layout) -> _Template:
        parts = layout.parts(2)
        a, b = (number for number, part in enumerate(parts) if part.is_text)
        return _Template(
            first=(parts[:a], []),
            last=(parts[a + 1 : b], parts[b + 1 :]),
            segments=(parts[a].segment, parts[b].segment),
        )


@dataclass(frozen=True)
class Translations:
    """Rows of one language, and rows of a sentence with its translation: XLM's.

    Every document of the text is a sentence in each of the languages, in their order. In a row of one
    language sentences of documents in random order follow each other, a separator between them, up to the
    full length. With `pairs`, there is beside those a row for each document, of two of its sentences in
    different languages, drawn at random, each with special tokens of its own; positions start again with
    the second. Pairs that are too long lose the end of the longer text.

    Attributes:
        length: tokens of a row, special ones among them.
        languages: the number that each language has in `language_ids`.
        pairs: whether there are rows with translations.

    Source: Lample and Conneau 2019 (arXiv:1901.07291), sections 3.3 and 3.5; facebookresearch/XLM
    xlm/trainer.py, generate_batch, and xlm/utils.py, concat_batches.
    """

    length: int = 256
    languages: tuple[int, ...] = (0, 1)
    pairs: bool = True

    def plan(self, shards: TokenShards, rng: np.random.Generator) -> Iterator[Runs]:
        number, documents = len(self.languages), shards.num_documents
        if len(shards.sentence_starts) != number * documents + 1:
            raise ValueError(
                f"The text has {len(shards.sentence_starts) - 1:,} sentences with tokens in {documents:,} "
                f"documents; each must have one in each of {number} languages. Take lines out that have no "
                "translation."
            )
        for place, language in enumerate(self.languages):
            sentences = rng.permutation(documents) * number + place
            yield self._stream(shards, sentences, language)
        if self.pairs:
            yield self._translated(shards, rng)

    def _stream(self, shards: TokenShards, sentences: np.ndarray, language: int) -> Runs:
        specials = shards.layout.specials(1)
        separator = len(_separator(shards.layout))
        starts = shards.sentence_starts[sentences]
        lengths = shards.sentence_starts[sentences + 1] - starts
        starts, lengths = _cut(starts, lengths, self.length - specials)
        before = np.concatenate([[0], np.cumsum(lengths + separator)])
        # The last sentence's separator is its row's end.
        most = self.length - specials + separator
        end = np.searchsorted(before, before[:-1] + most, side="right") - 1
        begins = np.zeros(len(starts), bool)
        begins[_followed(end)] = True
        kinds = np.where(begins, _FIRST, _MIDDLE).astype(np.int8)
        languages = np.full(len(starts), language, np.int32)
        return Runs(np.cumsum(begins) - 1, starts, lengths, kinds=kinds, languages=languages)

    def _translated(self, shards: TokenShards, rng: np.random.Generator) -> Runs:
        number, documents = len(self.languages), shards.num_documents
        first = rng.integers(number, size=documents)
        second = (first + rng.integers(1, number, size=documents)) % number
        place = np.stack([first, second], axis=1)
        sentences = np.arange(documents)[:, None] * number + place
        starts = shards.sentence_starts[sentences]
        lengths = shards.sentence_starts[sentences + 1] - starts
        room = self.length - 2 * shards.layout.specials(1)
        kept = np.minimum(
            lengths, np.maximum(room - lengths[:, ::-1], [room - room // 2, room // 2])
        )
        return Runs(
            np.repeat(np.arange(documents), 2),
            starts.ravel(),
            kept.ravel(),
            kinds=np.tile(np.array([_FIRST, _SECOND], np.int8), documents),
            languages=np.array(self.languages, np.int32)[place.ravel()],
        )

    def template(self, layout: Layout) -> _Template:
        around = _around(layout)
        after = around[1]
        return _Template(
            only=around, first=around, middle=([], after), last=([], after), second=around
        )


@dataclass(frozen=True)
class StreamedPairs:
    """Rows that go on where those of the batch before ended, for a model with a memory: XLNet's.

    The text, its documents one behind the other, is cut into equal streams, one for each row of a batch;
    with `both_directions` into half as many, each of which is also read from its end to its beginning
    (`reads_backwards`). A row's first half is the stream's, and the next batch goes on behind it. Then
    come two texts: whole sentences that follow in the stream, and those behind them, or in half of
    the rows sentences from anywhere in it. They lose the end of the longer text where they are too long.

    Attributes:
        length: tokens of a row, special ones among them.
        batch_size: rows, of which batches are made in their order.
        both_directions: whether half of the rows are read backwards.

    Source: Yang et al. 2019 (arXiv:1906.08237), sections 2.4 to 3.1; zihangdai/xlnet data_utils.py,
    create_tfrecords and _split_a_and_b.
    """

    length: int = 512
    batch_size: int = 32
    both_directions: bool = True

    def __post_init__(self):
        if self.both_directions and self.batch_size % 2:
            raise ValueError(
                f"batch_size is {self.batch_size}, and half of the rows are read backwards: make it even."
            )

    @property
    def reused(self) -> int:
        """Tokens of a row that the next batch goes on behind: what a memory keeps of it."""
        return self.length // 2

    def plan(self, shards: TokenShards, rng: np.random.Generator) -> Iterator[Runs]:
        tokens, ways = int(shards.sentence_starts[-1]), 1 + self.both_directions
        streams = self.batch_size // ways
        size, room = tokens // streams, self.length - self.reused - shards.layout.specials(2)
        if size < self.length or room < 2:
            raise ValueError(
                f"The text has {tokens:,} tokens, and {streams} streams with rows of {self.length} tokens "
                "take as many each, and rows room for two texts. Lower batch_size, or bring more text."
            )
        begins = np.arange((size - self.length) // self.reused + 1) * self.reused
        starts = np.empty((len(begins), self.batch_size, 3), np.int64)
        lengths = np.empty_like(starts)
        for stream in range(self.batch_size):
            is_backwards, first = stream >= streams, stream % streams * size
            inside = np.searchsorted(shards.sentence_starts, [first, first + size], side="right")
            bounds = shards.sentence_starts[inside[0] : inside[1]] - first
            bounds = bounds[bounds < size]
            bounds = size - bounds[::-1] if is_backwards else bounds
            pairs = self._pairs(begins + self.reused, bounds, size, room, rng)
            at = np.stack([begins, begins + self.reused, pairs[1]], axis=1)
            lengths[:, stream] = np.stack([np.full_like(begins, self.reused), *pairs[::2]], axis=1)
            starts[:, stream] = first + at
            if is_backwards:
                starts[:, stream] = first + size - at - lengths[:, stream]
        rows = np.arange(len(begins) * self.batch_size).repeat(3)
        backwards = np.arange(self.batch_size).repeat(3) >= streams
        yield Runs(rows, starts.ravel(), lengths.ravel(), backwards=np.tile(backwards, len(begins)))

    @staticmethod
    def _pairs(begins, bounds, size: int, room: int, rng) -> tuple[np.ndarray, ...]:
        """The tokens of first texts, where second ones begin in the stream, and their tokens.

        Args:
            begins: int64 [rows], where in the stream the first texts begin.
            bounds: int64 [n], where sentences do, but for the stream's first.
            size, room: tokens of the stream, and of both texts together.
            rng: draws.
        """
        draws = rng.random((3, len(begins)))
        ends = np.append(bounds, size)
        low = np.searchsorted(bounds, begins, side="right")
        high = np.searchsorted(bounds, begins + room, side="left")
        # The first text ends with one of the sentences that leave room, if any does.
        chosen = low + (draws[0] * (high - low)).astype(np.int64)
        is_alone = high <= low
        first_end = np.where(is_alone, ends[high], ends[chosen])
        # A second text from anywhere: whole sentences around as many tokens as there is room for.
        wanted = np.maximum(1, room - (first_end - begins))
        inside = (draws[1] * (size - wanted)).astype(np.int64)
        start = np.append(0, bounds)[np.searchsorted(bounds, inside, side="right")]
        end = ends[np.searchsorted(bounds, inside + wanted, side="left")]
        end = np.maximum(np.minimum(end, size - 1), inside + wanted)
        is_random = is_alone | (draws[2] < 0.5)
        start, end = np.where(is_random, start, first_end), np.where(is_random, end, ends[high])
        first, second = first_end - begins, end - start
        kept = np.minimum(first, np.maximum(room - second, -(-room // 2)))
        return kept, start, np.minimum(second, room - kept)

    def template(self, layout: Layout) -> _Template:
        parts = layout.parts(2)
        a, b = (number for number, part in enumerate(parts) if part.is_text)
        return _Template(
            first=(parts[:a], []),
            middle=([], parts[a + 1 : b]),
            last=([], parts[b + 1 :]),
            segments=(parts[a].segment, parts[b].segment),
        )


Scheme = (
    FullSentences | DocSentences | PackedDocuments | SentencePairs | Translations | StreamedPairs
)


class EpochPlan:
    """The rows of one epoch.

    Args:
        shards: the text.
        scheme: what a row is, such as `FullSentences(128)`.
        seed: of the plan, at least 0.
        epoch: from 0; another epoch has other rows, in another order.

    Attributes:
        num_rows: how many there are.
        order: int64 [rows], the place in the plan of the row with each number; a random order, but for
            `StreamedPairs`.
        lengths: int64 [rows], the tokens of each place in the plan, special ones among them.
        num_tokens: tokens of all rows, without special ones. Where the scheme puts every token of the
            text in one row, it is the text's number.

    Raises:
        ValueError: a length that is too small for the layout, or a text that does not suit the scheme.
    """

    def __init__(self, shards: TokenShards, scheme: Scheme, seed: int, epoch: int):
        self.shards, self.scheme = shards, scheme
        self._template = scheme.template(shards.layout)
        if scheme.length <= shards.layout.most_specials:
            raise ValueError(
                f"length is {scheme.length}; rows have up to {shards.layout.most_specials} special "
                "tokens and need room for others."
            )
        rng = np.random.default_rng([seed, epoch])
        runs, number = [], 0
        for part in scheme.plan(shards, rng):
            runs.append(part._replace(rows=part.rows + number))
            number = int(runs[-1].rows[-1]) + 1
        rows, self._starts, lengths, self._labels, kinds, self._languages, self._backwards = (
            np.concatenate([getattr(part, name) for part in runs]) for name in Runs._fields
        )
        self._lengths = lengths.astype(np.int32)
        self.num_rows = number
        # Where each row's runs begin, and where the last one's end.
        self._splits = np.searchsorted(rows, np.arange(number + 1))
        is_in_order = isinstance(scheme, StreamedPairs)
        self.order = np.arange(number) if is_in_order else rng.permutation(number)
        self.num_tokens = int(lengths.sum())
        self._kinds = kinds if len(kinds) else self._template.kinds(self._splits)
        specials = (self._template.ids(shards.special_ids) >= 0).sum(1)
        self.lengths = np.add.reduceat(lengths + specials[self._kinds], self._splits[:-1])

    def batch(self, numbers: Sequence[int], width: int | None = None) -> Batch:
        """Composes rows.

        Args:
            numbers: of the rows, [batch], each at least 0 and below `num_rows`.
            width: what rows are padded to; by default the scheme's length.

        Returns:
            - `token_ids`, `padding_mask` (1 for tokens) int32 [batch, width], and `segment_ids` where
              the layout has segments;
            - `row` int64 [batch], the numbers;
            - `special` bool [batch, width], special tokens and padding;
            - `word_starts` bool [batch, width], the first tokens of words and of runs;
            - for `PackedDocuments`, `document_ids` (from 1; 0 for padding) and `position_ids` int32
              [batch, width];
            - for `SentencePairs`, its label int32 [batch];
            - for `Translations`, `language_ids` and `position_ids` int32 [batch, width];
            - for `StreamedPairs`, `reads_backwards` int32 [batch], and `starts_stream` int32 [batch], 1
              for rows of the first batch.
        """
        numbers = np.asarray(numbers, np.int64)
        width = self.scheme.length if width is None else width
        layout, special_ids = self.shards.layout, self.shards.special_ids
        rows = self.order[numbers]
        first, counts = self._splits[rows], np.diff(self._splits)[rows]
        runs = np.repeat(first, counts) + ranges(counts)
        starts, run_lengths, kinds = self._starts[runs], self._lengths[runs], self._kinds[runs]

        # Slots: what comes one behind the other, special tokens and runs.
        ids = self._template.ids(special_ids)[kinds]
        is_run = ids == _RUN
        lengths = np.where(is_run, run_lengths[:, None], ids >= 0)
        per_run = lengths.sum(1)
        row_of_run = np.repeat(np.arange(len(numbers)), counts)
        row_lengths = np.bincount(row_of_run, per_run, len(numbers)).astype(np.int64)
        lengths = lengths.ravel()

        # Tokens of all rows, one behind the other.
        tokens = np.repeat(ids.ravel(), lengths)
        special = tokens >= 0
        read = self.shards.read(starts, run_lengths)
        first_tokens = (np.cumsum(lengths) - lengths)[is_run.ravel()]
        if len(self._backwards):
            backwards = self._backwards[runs]
            begins = np.cumsum(run_lengths) - run_lengths
            turned = (2 * begins + run_lengths - 1).repeat(run_lengths) - np.arange(len(read))
            read = read[np.where(backwards.repeat(run_lengths), turned, np.arange(len(read)))]
            first_tokens = first_tokens + backwards * (run_lengths - 1)
        tokens[~special] = read
        word_starts = self.shards.begins_word[tokens]
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
            # Of each run, how many of its row's tokens its positions leave out.
            left_out = (np.cumsum(per_run) - per_run) * (kinds == _SECOND)
            row_starts = np.repeat(np.cumsum(row_lengths) - row_lengths, counts)
            left_out -= row_starts * (kinds == _SECOND)
            batch["position_ids"] = laid_out(ranges(row_lengths) - np.repeat(left_out, per_run), 0)
        if len(self._backwards):
            batch["reads_backwards"] = self._backwards[first].astype(np.int32)
            batch["starts_stream"] = (numbers < self.scheme.batch_size).astype(np.int32)
        if len(self._labels):
            batch[self.scheme.label] = self._labels[rows]
        return batch


def epoch_rows(
    shards: TokenShards,
    scheme: Scheme,
    seed: int,
    epoch: int,
    *,
    batch_size: int,
    start_row: int = 0,
    group_by_length: bool = False,
    drop_remainder: bool = False,
) -> Iterator[Batch]:
    """The batches of an epoch, see `EpochPlan.batch`.

    Args:
        shards, scheme, seed, epoch: as for `EpochPlan`.
        batch_size: rows a batch; the last one may have fewer.
        start_row: the rows before it are left out, for going on with an epoch that was stopped; a
            multiple of `batch_size`.
        group_by_length: rows of similar length share a batch, which is as wide as its longest row,
            rounded up to a multiple of 8: less padding where rows differ, as those of `DocSentences`.
        drop_remainder: leave out the rows that fill no batch.
    """
    plan = EpochPlan(shards, scheme, seed, epoch)
    if group_by_length:
        batching = Batching(batch_size, seed=seed, drop_remainder=drop_remainder)
        plan.order = np.concatenate(RowOrder(plan.lengths, batching).batches(epoch))
    end = len(plan.order) - (len(plan.order) % batch_size if drop_remainder else 0)
    for start in range(start_row, end, batch_size):
        numbers = np.arange(start, min(start + batch_size, end))
        width = None
        if group_by_length:
            longest = plan.lengths[plan.order[numbers]].max()
            width = min(-(-int(longest) // BUCKET) * BUCKET, scheme.length)
        yield plan.batch(numbers, width)


# --- Sentences as plans see them ---


class _Sentences(NamedTuple):
    """Sentences of several documents, the documents one after the other.

    Attributes:
        starts: int64 [sentences], the place of each one's first token among all tokens.
        lengths: int64 [sentences], its tokens.
        begins_document: bool [sentences], whether it is the first of its document.
    """

    starts: np.ndarray
    lengths: np.ndarray
    begins_document: np.ndarray

    @classmethod
    def none(cls) -> _Sentences:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))

    def part(self, first: int, end: int) -> _Sentences:
        return _Sentences(*(values[first:end] for values in self))

    def followed_by(self, others: _Sentences) -> _Sentences:
        return _Sentences(*map(np.concatenate, zip(self, others, strict=True)))

    @property
    def before(self) -> np.ndarray:
        """Tokens before each sentence and, at the end, of all: int64 [sentences + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def document_ends(self) -> np.ndarray:
        """For each sentence, where the next document begins: int64 [sentences]."""
        begins = np.append(np.flatnonzero(self.begins_document), len(self.starts))
        return begins[np.cumsum(self.begins_document)]


def _sections(shards: TokenShards, order: np.ndarray, most: int) -> Iterator[_Sentences]:
    """The sentences of the documents in an order, some documents at a time; none longer than `most`."""
    first = shards.document_starts[order]
    counts = shards.document_starts[order + 1] - first
    section = np.cumsum(counts) // SECTION
    for some in np.split(np.arange(len(order)), np.flatnonzero(np.diff(section)) + 1):
        sentences = np.repeat(first[some], counts[some]) + ranges(counts[some])
        starts = shards.sentence_starts[sentences]
        lengths = shards.sentence_starts[sentences + 1] - starts
        begins = ranges(counts[some]) == 0
        pieces = -(-lengths // most)
        yield _Sentences(
            *_cut(starts, lengths, most), np.repeat(begins, pieces) & (ranges(pieces) == 0)
        )


def _cut(starts: np.ndarray, lengths: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Runs of at most so many tokens that are the given ones together."""
    counts = -(-lengths // most)
    places = ranges(counts) * most
    return np.repeat(starts, counts) + places, np.minimum(np.repeat(lengths, counts) - places, most)


def _followed(following: np.ndarray) -> list[int]:
    """0, what follows it, what follows that, and so on to the end."""
    following, found, place = following.tolist(), [], 0
    while place < len(following):
        found.append(place)
        place = following[place]
    return found


def _cut_at_documents(sentences: _Sentences, rows: np.ndarray) -> Runs:
    """The runs of rows that begin at these sentences; a run ends with its document."""
    begins_row = np.zeros(len(sentences.starts), bool)
    begins_row[rows] = True
    runs = np.flatnonzero(begins_row | sentences.begins_document)
    lengths = np.add.reduceat(sentences.lengths, runs)
    return Runs((np.cumsum(begins_row) - 1)[runs], sentences.starts[runs], lengths)


def _best_fit(sizes: np.ndarray, length: int, smallest: int) -> np.ndarray:
    """The row of each size: the fullest one that has room, or a new one."""
    rows_with_room: list[list[int]] = [[] for _ in range(length + 1)]
    # A bit for each room that a row has.
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
    shards: TokenShards, rng: np.random.Generator, documents: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sentences of other documents, from a random one on until they have so many tokens, if there are.

    Args:
        documents: int64 [n], from none of which the sentences may be.
        tokens: int64 [n].

    Returns:
        int64 [n], where they start among all tokens; int64 [n], how many tokens they have.
    """
    other = np.floor(rng.random(len(documents)) * (shards.num_documents - 1)).astype(np.int64)
    other += other >= documents
    first, end = shards.document_starts[other], shards.document_starts[other + 1]
    sentence = first + np.floor(rng.random(len(other)) * (end - first)).astype(np.int64)
    starts = shards.sentence_starts[sentence]
    # The end of the first sentence that brings them to that number.
    last = np.searchsorted(shards.sentence_starts, starts + np.maximum(tokens, 1))
    return starts, shards.sentence_starts[np.minimum(last, end)] - starts


# --- Special tokens around runs ---


@dataclass(frozen=True)
class _Template:
    """Which special tokens stand before and after a run, by where in its row it stands.

    Attributes:
        only, first, middle, last: pairs of lists of special tokens as (role, segment).
        second: of the second of two texts that each have positions of their own.
        segments: of the tokens of first and of last runs.
        numbered: whether each run is a document of its own, with positions that start again.
    """

    only: tuple[Sequence, Sequence] = ((), ())
    first: tuple[Sequence, Sequence] = ((), ())
    middle: tuple[Sequence, Sequence] = ((), ())
    last: tuple[Sequence, Sequence] = ((), ())
    second: tuple[Sequence, Sequence] = ((), ())
    segments: tuple[int, int] = (0, 0)
    numbered: bool = False

    def _slots(self) -> list[list[tuple[str, int]]]:
        """For each kind of run as many slots before the run as after it, empty ones among them."""
        kinds = (self.only, self.first, self.middle, self.last, self.second)
        width = max(len(part) for kind in kinds for part in kind)
        none = [("", 0)]
        segments = (*self.segments[:1] * 3, *self.segments[1:] * 2)
        return [
            none * (width - len(before))
            + [*before, ("run", segment), *after]
            + none * (width - len(after))
            for (before, after), segment in zip(kinds, segments, strict=True)
        ]

    def ids(self, special_ids: dict[str, int]) -> np.ndarray:
        """int64 [kinds, slots], the ids of special tokens."""
        named = {**special_ids, "run": _RUN, "": _NONE}
        return np.array([[named[role] for role, _ in slots] for slots in self._slots()])

    def segments_of_slots(self) -> np.ndarray:
        """int32 [kinds, slots]."""
        return np.array([[segment for _, segment in slots] for slots in self._slots()], np.int32)

    @staticmethod
    def kinds(splits: np.ndarray) -> np.ndarray:
        """0 for the only run of a row, 1 for the first, 2 for one in the middle, 3 for the last."""
        kinds = np.full(splits[-1], 2, np.int8)
        kinds[splits[:-1]] = 1
        kinds[splits[1:] - 1] = 3
        kinds[splits[:-1][np.diff(splits) == 1]] = 0
        return kinds


def _separator(layout: Layout) -> list[tuple[str, int]]:
    """What stands between documents that share a row."""
    return [("sep", 0)] if "sep" in layout.roles else []


def _around(layout: Layout) -> tuple[list, list]:
    """The special tokens before and after a single text, as (role, segment)."""
    parts = layout.parts(1)
    text = next(number for number, part in enumerate(parts) if part.is_text)
    return parts[:text], parts[text + 1 :]
