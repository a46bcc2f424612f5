"""Objectives for an encoder that reads a part of a text and a decoder that writes a part.
Source: Raffel et al. 2020 (arXiv:1910.10683), section 3.3; google-research/text-to-text-transfer-transformer
t5/data/preprocessors.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.rows import ranges
from bert_zoo.fields import check_fields, setting
from bert_zoo.tasks.objectives.objective import Arrays, Draws, Objective


@dataclass(frozen=True, kw_only=True)
class SentinelIds:
    """The ids that objectives for an encoder and a decoder need.

    Attributes:
        sentinel_ids: tokens that replace hidden spans, in the order of the spans.
        eos_id: token at the end of the encoder's and of the decoder's text.
        pad_id: padding, and the first token that the decoder reads.
        vocab_size: number of ids.
    """

    sentinel_ids: tuple[int, ...] = field(repr=False)
    eos_id: int
    pad_id: int
    vocab_size: int

    @classmethod
    def of(cls, tokenizer) -> Self:
        """The ids of a tokenizer; ValueError if it has no sentinels."""
        if not tokenizer.sentinel_ids:
            raise ValueError(
                f"The {type(tokenizer).__name__} has no sentinel tokens to replace hidden spans. Use a model "
                "with an encoder and a decoder, or choose an objective of masked tokens."
            )
        return cls(
            sentinel_ids=tokenizer.sentinel_ids,
            eos_id=tokenizer.eos_id,
            pad_id=tokenizer.pad_id,
            vocab_size=tokenizer.vocab_size,
        )


class Examples(NamedTuple):
    """The texts of a batch, concatenated, without special tokens and padding."""

    is_token: np.ndarray  # bool [batch, length], positions of the tokens
    token_ids: np.ndarray  # int32 [tokens]
    lengths: np.ndarray  # int64 [examples], number of tokens of each text, at least 1
    rows: np.ndarray  # int64 [examples], row of each text, ascending

    @classmethod
    def of(cls, batch: Mapping[str, np.ndarray]) -> Self:
        is_token = ~batch["special"]
        rows, columns = np.nonzero(is_token)
        documents = np.asarray(batch.get("document_ids", is_token))[rows, columns]
        begins = np.ones(len(rows), bool)
        begins[1:] = (np.diff(rows) != 0) | (documents[1:] != documents[:-1])
        firsts = np.flatnonzero(begins)
        token_ids = np.asarray(batch["token_ids"], np.int32)[rows, columns]
        return cls(is_token, token_ids, np.diff(firsts, append=len(rows)), rows[firsts])

    @property
    def of_token(self) -> np.ndarray:
        """The text of each token, int64 [tokens]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def bits(self, draws: Draws, name: str) -> np.ndarray:
        """uint64 [tokens], as `Draws.bits`."""
        return draws.bits(name, self.is_token.shape[1])[self.is_token]

    def uniform(self, draws: Draws, name: str) -> np.ndarray:
        """float64 [tokens], as `Draws.uniform`."""
        return draws.uniform(name, self.is_token.shape[1])[self.is_token]


class NoisedPart(NamedTuple):
    """The tokens that the encoder reads, or the decoder writes, in place of the tokens of `Examples`."""

    token_ids: np.ndarray  # integers [tokens]
    is_kept: np.ndarray  # bool [tokens], false where nothing remains


@dataclass(frozen=True, kw_only=True)
class Denoising(Objective):
    """Base class of objectives where an encoder reads a part of a text and a decoder writes a part.

    Both parts end with EOS. Subclasses: `SpanCorruption`, `PrefixLanguageModel`, `WholeTexts`.

    Attributes:
        tokens: the vocabulary's ids; see `for_tokenizer`.

    Source: Raffel et al. 2020 (arXiv:1910.10683), section 3.3.
    """

    tokens: SentinelIds | None = None

    def for_tokenizer(self, tokenizer, counts=None):
        return self.for_tokens(SentinelIds.of(tokenizer))

    def sizes(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The most tokens of encoder and decoder, including EOS, for texts of these lengths."""
        return lengths + 1, lengths + 1

    def raw_length(self, inputs: int) -> int:
        """Returns the length of the longest text for which the encoder reads at most `inputs` tokens.

        Raises:
            ValueError: not even a text of one token fits.

        Source: `random_spans_helper` of t5/data/preprocessors.py.
        """
        lengths = np.arange(1, 2 * max(inputs, 1))
        fitting = lengths[self.sizes(lengths)[0] <= inputs]
        if not len(fitting):
            raise ValueError(
                f"Rows of {inputs} tokens have no room for a text and its end token. Choose longer rows."
            )
        return int(fitting[-1])

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, np.ndarray]:
        """Returns the inputs and labels of a batch.

        Args:
            batch: arrays [batch, length]: int `token_ids`; bool `special`, true for special tokens and
                padding, which are dropped. Each row is one text, or each document if there is int
                `document_ids`, as from `PackedDocuments`.
            draws: the random numbers of the rows.

        Returns:
            The model's inputs, int32: `token_ids` and `padding_mask` [batch, inputs]; `decoder_token_ids`
            (the targets shifted right, with the padding's id at the start of each text) and
            `decoder_padding_mask` [batch, targets]. If rows have several texts, also `document_ids` and
            `decoder_document_ids`, from 1, and 0 for padding. The widths `inputs` and `targets` are
            `sizes(length)`. And the labels, int32 [batch, targets], -100 for padding.

        Raises:
            ValueError: the objective has no vocabulary, or texts do not fit into rows of these widths.
        """
        self.check_vocabulary()
        examples = Examples.of(batch)
        widths = map(int, self.sizes(np.int64(examples.is_token.shape[1])))
        (read, documents), (written, of_decoder) = (
            self._laid_out(examples, part, width)
            for part, width in zip(self.parts(examples, draws), widths, strict=True)
        )
        pad_id = self.tokens.pad_id
        before = np.pad(written, ((0, 0), (1, 0)), constant_values=pad_id)[:, :-1]
        begins = np.diff(of_decoder, axis=1, prepend=0) != 0
        inputs = {
            "token_ids": read,
            "padding_mask": np.minimum(documents, 1),
            "decoder_token_ids": np.where(begins, np.int32(pad_id), before),
            "decoder_padding_mask": np.minimum(of_decoder, 1),
        }
        if "document_ids" in batch:
            inputs |= {"document_ids": documents, "decoder_document_ids": of_decoder}
        return inputs, np.where(of_decoder > 0, written, np.int32(IGNORED_LABEL))

    def parts(self, examples: Examples, draws: Draws) -> tuple[NoisedPart, NoisedPart]:
        """The parts that the encoder reads and the decoder writes, without EOS."""
        raise NotImplementedError

    def _laid_out(
        self, examples: Examples, part: NoisedPart, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """A part of all texts in rows, and the number of each token's text in its row, from 1, or 0 for padding.

        Both are int32 [batch, width].
        """
        number = len(examples.lengths)
        sizes = np.bincount(examples.of_token[part.is_kept], minlength=number) + 1
        in_row = np.bincount(examples.rows, sizes, len(examples.is_token)).astype(np.int64)
        if (most := int(in_row.max(initial=0))) > width:
            raise ValueError(
                f"The texts of a row need {most} tokens, but rows of this objective have {width}. Compose "
                "rows with bert_zoo.pretraining.rows.PackedExamples."
            )
        is_eos = np.zeros(sizes.sum(), bool)
        is_eos[np.cumsum(sizes) - 1] = True
        ids = np.full(len(is_eos), self.tokens.eos_id, np.int32)
        ids[~is_eos] = part.token_ids[part.is_kept]
        in_place = np.arange(width) < in_row[:, None]
        of_row = ranges(np.bincount(examples.rows, minlength=len(in_row))) + 1
        rows = np.full(in_place.shape, self.tokens.pad_id, np.int32)
        documents = np.zeros(in_place.shape, np.int32)
        rows[in_place], documents[in_place] = ids, np.repeat(of_row, sizes)
        return rows, documents


@dataclass(frozen=True, kw_only=True)
class SpanCorruption(Denoising):
    """T5's span corruption: random spans are hidden from the encoder, and the decoder writes them.

    The encoder reads one sentinel in place of each hidden span. The decoder writes each sentinel followed by
    its span. The numbers of hidden tokens and of spans depend only on the text's length, and are rounded half
    to even. Hidden tokens and other tokens are divided into spans uniformly at random. A text begins with a
    span that is not hidden and ends with a hidden one. Nothing is hidden in a text of one token.

    Attributes:
        rate: share of a text's tokens to hide, at most 0.5.
        mean_length: average length of a span in tokens.

    Raises:
        ValueError: an attribute outside its range.

    Source: `random_spans_noise_mask`, `noise_span_to_unique_sentinel` of t5/data/preprocessors.py.
    """

    rate: float = setting(0.15, above=0, most=0.5)
    mean_length: float = setting(3.0, least=1, note="the length of the shortest span")

    def __post_init__(self):
        check_fields(self)

    def sizes(self, lengths):
        hidden, spans = self.counts(lengths)
        return lengths - hidden + spans + 1, hidden + spans + 1

    def counts(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of hidden tokens and of spans for texts of these lengths."""
        # In float32, as in the original: float64 rounds some lengths, such as 190, the other way.
        hidden = np.rint(np.asarray(lengths, np.float32) * np.float32(self.rate)).astype(np.int64)
        hidden = np.minimum(np.maximum(hidden, 1), lengths - 1)
        spans = np.rint(hidden / self.mean_length).astype(np.int64)
        return hidden, np.minimum(np.maximum(spans, 1), lengths - hidden)

    def parts(self, examples, draws):
        hidden, spans = self.counts(examples.lengths)
        sentinels = np.array(self.tokens.sentinel_ids, np.int32)
        if (most := int(spans.max(initial=0))) > len(sentinels):
            raise ValueError(
                f"A text of {examples.lengths[spans.argmax()]} tokens has {most} hidden spans, but the "
                f"vocabulary has {len(sentinels)} sentinels. Choose shorter rows or a larger mean_length."
            )
        left = examples.lengths - hidden
        keys = examples.bits(draws, "spans")
        is_last = ranges(examples.lengths) >= left[examples.of_token]
        # Sizes of each span that is not hidden, and of the hidden span after it.
        sizes = np.stack(
            [
                compositions(left, spans, keys[~is_last]),
                compositions(hidden, spans, keys[is_last]),
            ],
            axis=1,
        )
        is_hidden = np.repeat(np.arange(sizes.size) % 2 == 1, sizes.ravel())
        sentinel = np.repeat(sentinels[ranges(spans)], sizes.sum(1))
        begins = np.zeros((2, len(is_hidden)), bool)
        starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        begins[0, starts[:, 0]] = True
        begins[1, starts[:, 1][sizes[:, 1] > 0]] = True
        return tuple(
            NoisedPart(np.where(begin, sentinel, examples.token_ids), begin | is_kept)
            for begin, is_kept in ((begins[1], ~is_hidden), (begins[0], is_hidden))
        )


@dataclass(frozen=True, kw_only=True)
class PrefixLanguageModel(Denoising):
    """Prefix language modelling: the encoder reads the beginning of a text, and the decoder writes the rest.

    The beginning has from one token to all but one, each length with the same probability.

    Source: `random_prefix_noise_mask` of t5/data/preprocessors.py.
    """

    def parts(self, examples, draws):
        firsts = np.cumsum(examples.lengths) - examples.lengths
        most = examples.lengths - 1
        share = examples.uniform(draws, "prefix")[firsts]
        # In a text of one token, the decoder writes everything.
        prefix = np.minimum(1 + (share * most).astype(np.int64), most)
        is_read = ranges(examples.lengths) < prefix[examples.of_token]
        return NoisedPart(examples.token_ids, is_read), NoisedPart(examples.token_ids, ~is_read)


@dataclass(frozen=True, kw_only=True)
class WholeTexts(Denoising):
    """Hides tokens one by one, and the decoder writes the whole text (BERT-style; MASS-style with `random=0`).

    Attributes:
        rate: probability that a token is hidden.
        random: probability that a hidden token is replaced by a random one, which may be a sentinel. The
            other hidden tokens become the first sentinel.
        reserved: number of first ids that are never random tokens: padding, EOS and the unknown token.

    Raises:
        ValueError: a probability outside its range.

    Source: objectives/iid_15_r10s90_f.gin and iid_15_m_f.gin of t5/models/gin.
    """

    rate: float = setting(0.15, above=0, below=1)
    random: float = setting(0.1, least=0, most=1)
    reserved: int = 3

    def __post_init__(self):
        check_fields(self)

    def parts(self, examples, draws):
        is_hidden = examples.uniform(draws, "tokens") < self.rate
        is_random = examples.uniform(draws, "replacement") < self.random
        number = self.tokens.vocab_size - self.reserved
        drawn = examples.uniform(draws, "random token") * number + self.reserved
        replaced = np.where(is_random, drawn.astype(np.int32), self.tokens.sentinel_ids[0])
        every = np.ones(len(is_hidden), bool)
        read = np.where(is_hidden, replaced, examples.token_ids)
        return NoisedPart(read, every), NoisedPart(examples.token_ids, every)


def compositions(items: np.ndarray, parts: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Divides `items`, int64 [numbers], into positive parts, int64 [sum of parts], each division equally likely.

    Args:
        parts: int64 [numbers], number of parts of each, from 1 to its items; the parts of 0 are 0.
        keys: uint64 [sum of items], random.
    """
    owners = np.repeat(np.arange(len(items)), items)
    firsts = (np.cumsum(items) - items)[owners]
    places = np.arange(len(owners)) - firsts
    # Parts begin at the first item, whose key is the lowest, and at random others.
    order = np.lexsort((np.where(places == 0, np.uint64(0), keys), owners))
    begins = np.zeros(len(owners), bool)
    begins[order[places < parts[owners]]] = True
    part = np.cumsum(begins)
    part += (np.cumsum(parts) - parts)[owners] - part[firsts]
    return np.bincount(part, minlength=parts.sum())
