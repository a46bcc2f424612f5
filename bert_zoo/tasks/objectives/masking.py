"""Objectives with masked tokens: chosen one by one, as whole words, or as n-grams."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.fields import check_fields, setting
from bert_zoo.tasks.objectives.objective import Arrays, Draws, Objective, Prediction

DISTRIBUTIONS = ("uniform", "corpus")


@dataclass(frozen=True, kw_only=True)
class TokenIds:
    """The ids that objectives of masked tokens need.

    Attributes:
        mask_id: id of the mask token.
        vocab_size: number of ids.
        counts: int [vocab_size], how often each token occurs in the corpus; None if unknown.

    Raises:
        ValueError: `counts` has another shape.
    """

    mask_id: int
    vocab_size: int
    counts: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        if self.counts is not None and np.shape(self.counts) != (self.vocab_size,):
            raise ValueError(
                f"counts has shape {np.shape(self.counts)}; it must be [{self.vocab_size}], one count per id."
            )

    @classmethod
    def of(cls, tokenizer, counts: np.ndarray | None = None) -> Self:
        """The ids of a tokenizer; ValueError if it has no mask token."""
        mask_id = getattr(tokenizer, "mask_id", None)
        if mask_id is None:
            raise ValueError(
                f"The {type(tokenizer).__name__} has no mask token to hide tokens. Use a model of masked "
                "tokens, such as bert_base."
            )
        return cls(mask_id=mask_id, vocab_size=tokenizer.vocab_size, counts=counts)


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """Replaces chosen tokens by the mask or by random tokens; the rest stay as they are.

    Attributes:
        mask: probability of the mask.
        random: probability of a random token.
        distribution: of random tokens: "uniform" over the vocabulary, or "corpus", by their frequency
            in the corpus.
        excluded_ids: ids that are never random tokens.

    Raises:
        ValueError: an attribute outside its range.
    """

    mask: float = setting(0.8, least=0, most=1)
    random: float = setting(0.1, least=0, most=1)
    distribution: str = setting("uniform", choices=DISTRIBUTIONS)
    excluded_ids: tuple[int, ...] = ()

    def __post_init__(self):
        check_fields(self)
        if self.mask + self.random > 1:
            raise ValueError(
                f"mask is {self.mask} and random {self.random}; their sum must be at most 1."
            )

    def __call__(
        self,
        token_ids: np.ndarray,
        draws: Draws,
        tokens: TokenIds,
        groups: np.ndarray | None = None,
    ) -> np.ndarray:
        """Returns what the model reads in place of chosen tokens.

        Args:
            token_ids: int [batch, predictions], the chosen tokens.
            draws: the random numbers of their rows.
            tokens: the vocabulary.
            groups: int [batch, predictions], the span of each token, from 0. Tokens of a span share one
                choice between mask, random and unchanged; by default each token has its own.

        Returns:
            int32 [batch, predictions].

        Raises:
            ValueError: `distribution` is "corpus", and the vocabulary has no counts.
        """
        predictions = token_ids.shape[1]
        choice = draws.uniform("replacement", predictions)
        if groups is not None:
            choice = np.take_along_axis(choice, groups, axis=1)
        replaced = np.where(choice < self.mask, tokens.mask_id, token_ids).astype(np.int32)
        if self.random:
            is_random = (self.mask <= choice) & (choice < self.mask + self.random)
            replaced[is_random] = self._random_ids(draws, tokens, predictions)[is_random]
        return replaced

    def _random_ids(self, draws: Draws, tokens: TokenIds, predictions: int) -> np.ndarray:
        """Random tokens for all positions, int64 [batch, predictions]."""
        if self.distribution == "uniform":
            number = tokens.vocab_size - len(self.excluded_ids)
            drawn = draws.integers("random token", number, predictions)
            for excluded in sorted(self.excluded_ids):
                drawn += drawn >= excluded
            return drawn
        if tokens.counts is None:
            raise ValueError(
                "Random tokens are drawn by their frequency in the corpus, but there are no counts. Pass "
                "TokenIds(counts=...), or choose distribution='uniform'."
            )
        counts = np.array(tokens.counts, np.int64)
        counts[list(self.excluded_ids)] = 0
        sums = np.cumsum(counts)
        drawn = draws.integers("random token", int(sums[-1]), predictions)
        return np.searchsorted(sums, drawn, side="right")


# Names in a batch that are labels -> their logits.
LABELS = {"next_sentence": "nsp_logits", "sentence_order": "sop_logits"}
# Names in a batch that objectives read and models do not.
READ_HERE = ("row", "special", "word_starts")
# The bits of a key with its position in the row, so that all keys of a row differ.
PLACE = np.uint64(2**20 - 1)


@dataclass(frozen=True, kw_only=True)
class Masking(Objective):
    """Base class of objectives that choose tokens, hide them, and have an encoder predict them.

    Subclasses: `MaskedTokens` and its variants, `WholeWords`, `NGrams`, `Spans`, `Permutations`.

    Attributes:
        rate: share of a row's tokens to choose, counting special tokens.
        max_predictions: number of predictions in every row, and so the most tokens chosen in a row.
            None for the rate times the batch's row length (19 at 128 tokens, 77 at 512).
        replacement: what the model reads in place of the chosen tokens.
        replaced: whether a discriminator reads a generator's samples there (a class variable).
    """

    rate: float = setting(0.15, above=0, below=1)
    max_predictions: int | None = setting(None, least=1)
    replacement: Replacement = Replacement()
    tokens: TokenIds | None = None
    replaced: ClassVar[bool] = False

    def __post_init__(self):
        check_fields(self)

    def for_tokenizer(self, tokenizer, counts=None):
        return self.for_tokens(TokenIds.of(tokenizer, counts))

    def __call__(self, batch: Mapping[str, np.ndarray], draws: Draws) -> tuple[Arrays, Arrays]:
        """Hides tokens of a batch and returns the model's inputs and labels.

        Args:
            batch: arrays [batch, length]: int `token_ids`, the original ones; int `padding_mask`; bool
                `special`, true for special tokens and padding; bool `word_starts`, for objectives of
                words. Also `next_sentence` or `sentence_order`, int [batch], if there are such labels.
                Other arrays are passed on to the model.
            draws: the random numbers of the rows.

        Returns:
            The model's inputs, with `token_ids` int32 [batch, length] as the model reads them, and
            `mask_positions` int32 [batch, predictions], ascending, then 0. And the labels by logits:
            `mlm_logits` int32 [batch, predictions], the chosen tokens, then -100; `nsp_logits` or
            `sop_logits`, int [batch].

        Raises:
            ValueError: the objective has no vocabulary; call `for_tokenizer` first.
        """
        self.check_vocabulary()
        whole = np.asarray(batch["token_ids"], np.int32)
        chosen = self.choose(batch, draws)
        rows, columns, numbers = numbered(chosen)
        positions = np.zeros((len(whole), self.predictions(whole.shape[1])), np.int32)
        positions[rows, numbers] = columns
        original = np.take_along_axis(whole, positions, axis=1)
        replaced = self.replacement(original, draws, self.tokens, self.groups(chosen, positions))
        token_ids = whole.copy()
        token_ids[rows, columns] = replaced[rows, numbers]
        wanted = np.full_like(positions, IGNORED_LABEL)
        wanted[rows, numbers] = original[rows, numbers]
        passed = {n: v for n, v in batch.items() if n not in (*READ_HERE, *LABELS)}
        inputs = {**passed, "token_ids": token_ids, "mask_positions": positions}
        labels = {"mlm_logits": wanted}
        labels |= {logits: np.asarray(batch[n]) for n, logits in LABELS.items() if n in batch}
        more_inputs, more_labels = self.of_chosen(batch, chosen, draws)
        return inputs | more_inputs, labels | more_labels

    def predictions(self, length: int) -> int:
        """The number of predictions in each row of `length` tokens."""
        return self.max_predictions or max(1, round(self.rate * length))

    def numbers(self, batch: Mapping[str, np.ndarray], draws: Draws) -> np.ndarray:
        """How many tokens to choose in each row, int64 [batch]."""
        wanted = np.maximum(1, np.rint(self.rate * np.count_nonzero(batch["padding_mask"], axis=1)))
        return np.minimum(wanted.astype(np.int64), self.predictions(batch["token_ids"].shape[1]))

    def choose(self, batch: Mapping[str, np.ndarray], draws: Draws) -> np.ndarray:
        """The chosen tokens, bool [batch, length], at most `numbers` in each row."""
        raise NotImplementedError

    def groups(self, chosen: np.ndarray, positions: np.ndarray) -> np.ndarray | None:
        """The span of each prediction, int [batch, predictions], replaced as one; None if each token is alone."""
        return None

    def of_chosen(
        self, batch: Mapping[str, np.ndarray], chosen: np.ndarray, draws: Draws
    ) -> tuple[Arrays, Arrays]:
        return {}, {}


def shuffled(there: np.ndarray, draws: Draws, name: str) -> np.ndarray:
    """Keys in random order, uint64 [batch, length]; positions that are not `there` come last.

    All keys of a row differ, since the bits of `PLACE` are the position.
    """
    keys = draws.bits(name, there.shape[1])
    keys[~there] = np.iinfo(np.uint64).max
    keys &= ~PLACE
    keys |= np.arange(there.shape[1], dtype=np.uint64)
    return keys


def numbered(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, column and number in its row (from 0) of each true value of bool [batch, length]."""
    rows, columns = np.nonzero(chosen)
    counts = np.bincount(rows, minlength=len(chosen))
    return rows, columns, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


@dataclass(frozen=True, kw_only=True)
class MaskedTokens(Masking):
    """BERT's masked tokens: a fixed share of a row's tokens, rounded, at least one, and no special tokens.

    Call it with a batch of rows and their `Draws`; `Masking` describes both and the result.

    Attributes:
        rate: share of a row's tokens to choose, counting special tokens.
        max_predictions: number of predictions in every row, and so the most tokens chosen in a row;
            None for the rate times the row length.
        replacement: what the model reads in place of the chosen tokens.

    Raises:
        ValueError: an attribute outside its range.
    Source: Devlin et al. 2018 (arXiv:1810.04805), appendix A.1; google-research/bert
    create_pretraining_data.py.
    """

    def eligible(self, batch):
        """The tokens that may be chosen, bool [batch, length]."""
        return ~batch["special"]

    def choose(self, batch, draws):
        eligible, numbers = self.eligible(batch), self.numbers(batch, draws)[:, None]
        keys = shuffled(eligible, draws, "tokens")
        last = np.take_along_axis(np.sort(keys, axis=1), np.maximum(numbers - 1, 0), axis=1)
        return (keys <= last) & eligible & (numbers > 0)


@dataclass(frozen=True, kw_only=True)
class DynamicMaskedTokens(MaskedTokens):
    """RoBERTa's masked tokens: special tokens may be chosen, and their number is rounded at random.

    The probability of rounding up is the fractional part, so short rows keep the rate on average. `<s>`,
    `<pad>`, `</s>` and `<unk>` (ids 0 to 3) are never random replacements. Attributes are those of `MaskedTokens`.

    Source: Liu et al. 2019 (arXiv:1907.11692), section 4.1; fairseq data/mask_tokens_dataset.py.
    """

    replacement: Replacement = Replacement(excluded_ids=(0, 1, 2, 3))

    def eligible(self, batch):
        return batch["padding_mask"] != 0

    def predictions(self, length):
        return self.max_predictions or math.ceil(self.rate * length)

    def numbers(self, batch, draws):
        wanted = self.rate * np.count_nonzero(self.eligible(batch), axis=1)
        wanted = (wanted + draws.uniform("number", 1)[:, 0]).astype(np.int64)
        return np.minimum(wanted, self.predictions(batch["token_ids"].shape[1]))


@dataclass(frozen=True, kw_only=True)
class StreamMaskedTokens(DynamicMaskedTokens):
    """XLM's masked tokens: any token except a row's first; random tokens come from the whole vocabulary.

    In rows with translations, the model can use each text to predict hidden tokens of the other. Attributes
    are those of `MaskedTokens`.

    Source: Lample and Conneau 2019 (arXiv:1901.07291), sections 3.3 and 3.5; facebookresearch/XLM
    xlm/trainer.py, mask_out.
    """

    replacement: Replacement = Replacement()

    def eligible(self, batch):
        eligible = super().eligible(batch)
        eligible[:, 0] = False
        return eligible


class MaskedTokenPrediction(Prediction):
    """Predicts masked tokens: logits [batch, length, vocabulary], or only at `mask_positions`.

    They come from the generator, or from the encoder's second stream, if there is one.
    """

    def head(self, model, name):
        stored = model.stored_head
        activation = stored.activation or model.encoder.config.activation
        return model.mask_reader.token_head(
            activation=None if stored.projects_directly else activation,
            name=name,
            **model.layer_options,
        )

    def reader(self, model):
        return model.mask_reader

    def reads_all(self, inputs):
        return inputs.get("mask_positions") is None

    def logits(self, head, model, encoded, inputs):
        return head(*self.read(head, model, encoded, inputs))

    def read(self, head, model, encoded, inputs) -> tuple:
        """The arguments of the head's call."""
        if "query_output" in encoded:
            return encoded["query_output"], model.token_table
        positions, reader = model.positions(inputs, "mask_positions"), model.mask_reader
        read = {n: inputs[n] for n in reader.inputs if inputs.get(n) is not None}
        if reader.decodes_masks:
            encoded = encoded if model.generator is None else reader(read)
            states = reader.masked_states(encoded, read, head, positions)
            return states, reader.token_table
        if model.generator is None:
            return model.prepared(encoded["sequence_output"]), model.token_table, positions
        return reader(read, positions=positions)["sequence_output"], model.token_table


class Words(NamedTuple):
    """The words of rows, numbered from 0 in each row, without special tokens, after which a word begins."""

    # Int [batch, length], the word of each token; meaningless for special tokens.
    of_token: np.ndarray
    starts: np.ndarray  # int [batch, words], the first token of each word
    lengths: np.ndarray  # int [batch, words], its number of tokens; 0 if a row has fewer words

    @classmethod
    def of(cls, batch: Mapping[str, np.ndarray]) -> Self:
        special = batch["special"]
        is_start = batch["word_starts"].copy()
        is_start[:, 1:] |= special[:, :-1]
        is_start[:, 0] = True
        is_start &= ~special
        of_token = np.cumsum(is_start, axis=1) - 1
        rows, columns, numbers = numbered(is_start)
        most = int(numbers.max(initial=0)) + 1
        starts = np.zeros((len(special), most), np.int64)
        starts[rows, numbers] = columns
        of_any = of_token + most * np.arange(len(special))[:, None]
        lengths = np.bincount(of_any[~special], minlength=starts.size).reshape(starts.shape)
        return cls(of_token, starts, lengths)

    def tokens(self, words: np.ndarray, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The tokens of chosen words: bool [batch, length] from bool [batch, words]."""
        return np.take_along_axis(words, np.maximum(self.of_token, 0), axis=1) & ~batch["special"]


@dataclass(frozen=True, kw_only=True)
class WholeWords(Masking):
    """BERT's whole word masking: chooses words in random order, and skips words that no longer fit.

    A word no longer fits if it has more tokens than are left to choose. Each token is replaced
    independently. Needs `word_starts`. Attributes are those of `MaskedTokens`.

    Source: google-research/bert create_pretraining_data.py, --do_whole_word_mask.
    """

    def choose(self, batch, draws):
        words = Words.of(batch)
        keys = np.sort(shuffled(words.lengths > 0, draws, "words"), axis=1)
        order = (keys & PLACE).astype(np.int64)
        # One step takes the next word of every row.
        lengths = np.ascontiguousarray(np.take_along_axis(words.lengths, order, axis=1).T)
        left = self.numbers(batch, draws)
        taken = np.zeros(lengths.shape, bool)
        for step, length in enumerate(lengths):
            taken[step] = length <= left
            left = left - length * taken[step]
            if not left.any():
                break
        chosen = np.zeros(order.shape, bool)
        np.put_along_axis(chosen, order, taken.T, axis=1)
        return words.tokens(chosen, batch)


@dataclass(frozen=True, kw_only=True)
class NGrams(Masking):
    """ALBERT's n-grams: hides one to `longest` words in sequence, n words with probability in proportion to 1/n.

    N-grams begin at words in random order. An n-gram with more tokens than are left to choose is
    shortened, and one that overlaps chosen words is skipped. N-grams may continue after a special token.
    Each token is replaced independently. Needs `word_starts`.

    Attributes:
        rate: as in `MaskedTokens`.
        replacement: as in `MaskedTokens`.
        max_predictions: as in `MaskedTokens`, but at most 20 if None.
        longest: words of the longest n-gram.

    Raises:
        ValueError: an attribute outside its range.

    Source: Lan et al. 2019 (arXiv:1909.11942), section 4.1; google-research/albert
    create_pretraining_data.py.
    """

    longest: int = setting(3, least=1)
    # The limit of ALBERT's program, also for rows of 512 tokens.
    most: ClassVar[float] = 20

    def predictions(self, length):
        return self.max_predictions or min(self.most, super().predictions(length))

    def choose(self, batch, draws):
        words = Words.of(batch)
        rows, most = words.lengths.shape
        keys = np.sort(shuffled(words.lengths > 0, draws, "words"), axis=1)
        order = np.ascontiguousarray((keys & PLACE).astype(np.int64).T)
        wanted = np.ascontiguousarray(self._lengths(draws, most).T)
        left = self.numbers(batch, draws)
        # After the last word come empty ones, so that n-grams end with the row.
        beyond = most + self.longest
        before = np.zeros((rows, beyond + 1), np.int64)
        before[:, 1 : most + 1] = words.lengths
        before = np.cumsum(before, axis=1).ravel()
        chosen = np.zeros(rows * beyond, bool)
        n = np.arange(1, self.longest + 1)[:, None]
        row = np.arange(rows)
        for first, number in zip(order, wanted, strict=True):
            # One n-gram per row: [longest, rows] for its lengths, or for its words.
            at = first + row * (beyond + 1)
            sizes = before[at + n] - before[at]
            number = np.minimum(number, np.count_nonzero(sizes <= left, axis=0))
            its_words = first + row * beyond + n - 1
            is_in = n <= number
            is_free = ~(chosen[its_words] & is_in).any(axis=0)
            is_in &= is_free
            chosen[its_words[is_in]] = True
            left = left - np.max(sizes * is_in, axis=0)
            if not left.any():
                break
        return words.tokens(chosen.reshape(rows, beyond), batch)

    def _lengths(self, draws, number: int) -> np.ndarray:
        """The lengths of n-grams in words, int64 [batch, number]."""
        sums = np.cumsum(1 / np.arange(1, self.longest + 1))
        drawn = draws.uniform("n-gram lengths", number) * sums[-1]
        return 1 + np.searchsorted(sums[:-1], drawn, side="right")


@dataclass(frozen=True, kw_only=True)
class WindowedNGrams(NGrams):
    """DeBERTa's n-grams: hides one n-gram in each window of words.

    The window of an n-gram of n words has n * int(1 / rate) words: with 15%, six per word. The n-gram
    begins at any of them, and the next window begins after both. Only the row's first chosen tokens are
    hidden, up to its number of predictions, so the last word may be hidden in part, and the end of a row
    is hidden less often. Each token is replaced independently. Needs `word_starts`.

    Attributes are those of `NGrams`, without the limit of 20 predictions.
    Source: He et al. 2020 (arXiv:2006.03654), appendix A; microsoft/DeBERTa
    DeBERTa/apps/tasks/mlm_task.py, NGramMaskGenerator. Unlike here, it always hides the last word as a
    whole, and never hides an unknown token or a mask token of the text itself.
    """

    most = math.inf

    def choose(self, batch, draws):
        words = Words.of(batch)
        rows, most = words.lengths.shape
        counts = np.count_nonzero(words.lengths, axis=1)
        window = int(1 / self.rate)
        number = math.ceil(most / window)
        lengths, places = self._lengths(draws, number), draws.uniform("n-gram places", number)
        # 1 where an n-gram begins and -1 after its end; n-grams do not overlap.
        edges = np.zeros((rows, most + 1), np.int64)
        row = np.arange(rows)
        begins = np.zeros(rows, np.int64)
        for length, place in zip(lengths.T, places.T, strict=True):
            # One window per row, which is empty after the last word.
            size = np.minimum(length * window, counts - begins)
            first = begins + (place * size).astype(np.int64)
            end = np.minimum(first + length, counts)
            edges[row, first] += 1
            edges[row, end] -= 1
            begins = np.maximum(begins + size, end)
        chosen = words.tokens(np.cumsum(edges, axis=1)[:, :-1] > 0, batch)
        return chosen & (np.cumsum(chosen, axis=1) <= self.numbers(batch, draws)[:, None])
