"""What a language model prefers: minimal pairs, words in a blank, facts.

Masked language models score words by their probability at a mask, and sentences by pseudo-log-likelihood. Causal
language models score sentences by their probability. Nothing is trained.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Self

import numpy as np
from tqdm import tqdm

from bert_zoo.data.fill_in import BLANK, Cloze, MinimalPair
from bert_zoo.printing import table
from bert_zoo.tasks.causal_lm import CausalLM
from bert_zoo.tasks.masked_lm import Blank, FillsMasks, Gap, Spelling, log_probs_at
from bert_zoo.tasks.presets import TextScore
from bert_zoo.text.preprocessor import unknown_id


@dataclass(frozen=True, eq=False)
class _Answers:
    """A model's answers to items; prints as a table by group."""

    items: tuple[MinimalPair | Cloze, ...]

    @property
    def is_asked(self) -> np.ndarray:
        """bool [items]: False where a word is not a single token of a masked language model, both choices are the same
        to the model, or one choice has more unknown tokens than the other."""
        raise NotImplementedError

    @property
    def chance(self) -> float:
        """The result of guessing, for the first column of the table."""
        raise NotImplementedError

    def numbers(self) -> dict[str, float]:
        """The columns of the table; NaN if no item was asked."""
        raise NotImplementedError

    def take(self, rows: Sequence[int]) -> Self:
        """Returns the answers to some of the items."""
        rows = np.asarray(rows, np.int64)
        arrays = {name: v[rows] for name, v in vars(self).items() if isinstance(v, np.ndarray)}
        return replace(self, items=tuple(self.items[row] for row in rows), **arrays)

    def by_group(self, depth: int = 1) -> dict[str, Self]:
        """Returns the answers by the first `depth` of the items' groups, sorted by name."""
        rows: dict[str, list[int]] = {}
        for row, item in enumerate(self.items):
            rows.setdefault(" / ".join(item.groups[:depth]), []).append(row)
        return {name: self.take(rows[name]) for name in sorted(rows)}

    def table(self, depth: int = 1) -> str:
        """Formats the numbers by group, with the counts of items asked and not asked."""
        groups = self.by_group(depth) if any(item.groups for item in self.items) else {}
        rows = [(*self.numbers(), "asked", "not asked", "group")]
        for name, answers in [*groups.items(), ("all", self)]:
            asked = int(answers.is_asked.sum())
            numbers = (f"{number:.3f}" for number in answers.numbers().values())
            rows.append((*numbers, str(asked), str(len(answers.items) - asked), name))
        rows.append((f"{self.chance:.3f}", *[""] * (len(rows[0]) - 2), "guessing"))
        return table(rows, ">")

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True, eq=False)
class Preferences(_Answers):
    """Which of two choices a model finds likelier.

    Attributes:
        items: the items.
        margins: float64 [items]: log-probability of the right choice minus that of the wrong one; NaN for items that
            the model cannot be asked.
    """

    margins: np.ndarray

    @property
    def is_asked(self) -> np.ndarray:
        return ~np.isnan(self.margins)

    @property
    def accuracy(self) -> float:
        """The share of the items asked in which the right choice is likelier; ties count as wrong."""
        return _mean(self.margins[self.is_asked] > 0)

    @property
    def chance(self) -> float:
        return 0.5

    def numbers(self) -> dict[str, float]:
        return {"accuracy": self.accuracy}


@dataclass(frozen=True, eq=False)
class Recall(_Answers):
    """The rank of each answer among all candidates.

    Attributes:
        items: the items.
        ranks: int64 [items]: 1 if the answer is the likeliest candidate; 0 for items that the model cannot be asked.
        num_candidates: int64 [items]: number of candidates; 0 for items that the model cannot be asked.
        predictions: object [items]: the likeliest candidate; None for items that the model cannot be asked.
    """

    ranks: np.ndarray
    num_candidates: np.ndarray
    predictions: np.ndarray

    @property
    def is_asked(self) -> np.ndarray:
        return self.ranks > 0

    def precision_at(self, k: int) -> float:
        """Returns the share of the items asked whose answer is among the `k` likeliest candidates."""
        return _mean(self.ranks[self.is_asked] <= k)

    @property
    def mean_reciprocal_rank(self) -> float:
        """The mean of 1 / rank over the items asked."""
        return _mean(1 / self.ranks[self.is_asked])

    @property
    def chance(self) -> float:
        return _mean(1 / self.num_candidates[self.is_asked])

    def numbers(self) -> dict[str, float]:
        at = {f"P@{k}": self.precision_at(k) for k in (1, 10)}
        return {**at, "MRR": self.mean_reciprocal_rank}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def judge_pairs(
    model, pairs: Iterable[MinimalPair], *, batch_size: int = 32, within_word: str = "one_by_one"
) -> Preferences:
    """Judges which sentence of each minimal pair is likelier as a whole.

    `judge_pairs(model, read_minimal_pairs("blimp/data"))` runs BLiMP.

    Args:
        model: a masked or causal language model.
        pairs: minimal pairs, as from `bert_zoo.data.fill_in.read_minimal_pairs`.
        batch_size: as in the model's `score`.
        within_word: as in a masked language model's `score`; causal language models ignore it.

    Raises:
        TypeError: the model has no language-model head.

    Source: Warstadt et al. 2020 (arXiv:1912.00582), section 4; pseudo-log-likelihoods of masked models: Salazar
    et al. 2020 (arXiv:1910.14659), section 4.
    """
    pairs = tuple(pairs)
    options = {"within_word": within_word} if _is_masked(model) else {}
    sentences = [(pair.good, pair.bad) for pair in pairs]
    return Preferences(pairs, _margins(model, sentences, batch_size, **options))


def choose_words(model, items: Iterable[Cloze], *, batch_size: int = 32) -> Preferences:
    """Judges whether the right one of two words is likelier in a blank, for example to test agreement or negation.

    A masked language model compares both words at a mask, where each must be a single token. A causal language model
    compares the sentences with the words filled in.

    Args:
        model: a masked or causal language model.
        items: texts with `answer` and `wrong`, as from `bert_zoo.data.fill_in.read_cloze`.
        batch_size: texts per step.

    Raises:
        TypeError: the model has no language-model head.
        ValueError: an item has no wrong word.

    Source: Goldberg 2019 (arXiv:1901.05287), section 3; negation: Ettinger 2020 (arXiv:1907.13528), section 4.3.
    """
    items = tuple(items)
    for number, item in enumerate(items):
        if item.wrong is None:
            raise ValueError(
                f"items[{number}], {item.text!r}, has no wrong word. Pass wrong=, or rank the answer among "
                "all words with recall_facts."
            )
    if not _is_masked(model):
        sentences = [(item.filled(item.answer), item.filled(item.wrong)) for item in items]
        return Preferences(items, _margins(model, sentences, batch_size))
    asking = _Asking(model)
    ids = [[asking.id_of(item, word) for word in (item.answer, item.wrong)] for item in items]
    wanted = {row: pair for row, pair in enumerate(ids) if None not in pair and pair[0] != pair[1]}
    margins = np.full(len(items), np.nan)
    for row, (right, wrong) in asking.log_probs(items, wanted, batch_size):
        margins[row] = np.float64(right) - wrong
    return Preferences(items, margins)


def recall_facts(
    model,
    facts: Iterable[Cloze],
    candidates: Sequence[str] | None = None,
    *,
    batch_size: int = 32,
) -> Recall:
    """Ranks the answers to texts with a blank among all candidates.

    A masked language model ranks words at a mask, by default its whole vocabulary. A causal language model ranks the
    sentences with each candidate filled in, by default the answers of the same relation (the first of `groups`), and
    leaves out candidates with unknown words. So compare the two only on the same `candidates`. LAMA's figures are
    means over relations: `np.mean([relation.precision_at(1) for relation in recall.by_group().values()])`.

    Args:
        model: a masked or causal language model.
        facts: texts with `answer`, as from `bert_zoo.data.fill_in.read_facts`.
        candidates: the words to rank. A masked language model leaves out words that are not a single token. Items
            whose answer is not among the candidates are not asked.
        batch_size: texts per step.

    Raises:
        TypeError: the model has no language-model head.
        ValueError: none of the candidates is a single token.

    Source: Petroni et al. 2019 (arXiv:1909.01066), section 4.
    """
    items = tuple(facts)
    rank = _ranks_at_masks if _is_masked(model) else _ranks_of_sentences
    recall = Recall(
        items,
        ranks=np.zeros(len(items), np.int64),
        num_candidates=np.zeros(len(items), np.int64),
        predictions=np.full(len(items), None),
    )
    for row, answer, words, log_probs in rank(model, items, candidates, batch_size):
        recall.ranks[row] = 1 + np.count_nonzero(log_probs > log_probs[answer])
        recall.num_candidates[row] = len(log_probs)
        recall.predictions[row] = words[int(log_probs.argmax())]
    return recall


# For each item that can be asked: its number, the answer's position among the candidates, the candidates, and
# their log-probabilities [candidates].
_Ranking = Iterator[tuple[int, int, Sequence[str], np.ndarray]]


def _ranks_at_masks(
    model, items: Sequence[Cloze], candidates: Sequence[str] | None, batch_size: int
) -> _Ranking:
    asking = _Asking(model)
    # A candidate's token depends on the text before the blank, so one item of each kind is enough.
    kinds = {asking.gap(item): item for item in items}
    if candidates is None:
        vocabulary = range(model.preprocessor.tokenizer.vocab_size)
        words = [model.preprocessor.tokenizer.piece(token_id).text for token_id in vocabulary]
        ids = dict.fromkeys(kinds, np.array(vocabulary))
    else:
        words = [
            word
            for word in dict.fromkeys(candidates)
            if all(asking.id_of(item, word) is not None for item in kinds.values())
        ]
        if not words:
            raise ValueError(
                f"None of the {len(candidates)} candidates is a single token of this model's vocabulary. Choose "
                "more common words, or do not pass candidates."
            )
        ids = {
            kind: np.array([asking.id_of(item, word) for word in words])
            for kind, item in kinds.items()
        }
    answers, wanted = {}, {}
    for row, item in enumerate(items):
        of_item = ids[asking.gap(item)]
        places = np.flatnonzero(of_item == asking.id_of(item, item.answer))
        if len(places):
            answers[row], wanted[row] = int(places[0]), of_item
    for row, log_probs in asking.log_probs(items, wanted, batch_size):
        yield row, answers[row], words, log_probs


def _ranks_of_sentences(
    model, items: Sequence[Cloze], candidates: Sequence[str] | None, batch_size: int
) -> _Ranking:
    of_relation: dict[tuple[str, ...], list[str]] = {}
    for item in items:
        of_relation.setdefault(item.groups[:1], []).append(item.answer)
    for row, item in enumerate(tqdm(items, "Facts", disable=None)):
        words = [*dict.fromkeys(of_relation[item.groups[:1]] if candidates is None else candidates)]
        scores = model.score([item.filled(word) for word in words], batch_size)
        unknown = _num_unknown(model, scores)
        known = [i for i, number in enumerate(unknown) if number == min(unknown)]
        words = [words[i] for i in known]
        if item.answer in words:
            yield row, words.index(item.answer), words, _totals(scores)[known]


class _Asking:
    """Asks a masked language model for the words in blanks."""

    def __init__(self, model):
        self._model, self._spelling = model, Spelling(model)
        self._id_in = cache(self._spelling.id_in)

    def gap(self, item: Cloze) -> Gap:
        """The item's blank, with just as much of the text around it as decides between tokens."""
        before = item.text.partition(BLANK)[0]
        return Gap(" " if before[-1:].isspace() else "", "")

    def id_of(self, item: Cloze, word: str) -> int | None:
        """None if the word is not a single token in the blank of the item."""
        token_id = self._id_in(self.gap(item), word)
        return None if isinstance(token_id, list) else token_id

    def log_probs(
        self, items: Sequence[Cloze], wanted: Mapping[int, Sequence[int]], batch_size: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the number of each item in `wanted` and the log-probabilities of its wanted tokens."""
        blanks = {row: self._blank(items[row].text) for row in wanted}
        order = sorted(blanks, key=lambda row: len(blanks[row].token_ids))
        pairs = (map(each.get, order) for each in (blanks, wanted))
        batches = log_probs_at(self._model, *pairs, batch_size, total=len(order))
        yield from zip(order, chain.from_iterable(batches), strict=True)

    def _blank(self, text: str) -> Blank:
        ids = self._spelling.read(text.replace(BLANK, self._spelling.mask))
        return Blank(ids, int(np.argmax(ids == self._spelling.tokenizer.mask_id)))


def _is_masked(model) -> bool:
    if not isinstance(model, FillsMasks | CausalLM):
        raise TypeError(
            f"A {type(model).__name__} has no language-model head. Load the checkpoint with task='masked_lm' or "
            "task='causal_lm'; bert_zoo.describe shows which of them it provides."
        )
    return isinstance(model, FillsMasks)


def _margins(
    model, sentences: Iterable[tuple[str, str]], batch_size: int, **options: str
) -> np.ndarray:
    """Log-probability of the first sentence of each pair minus that of the second, float64 [pairs].

    NaN if both have the same tokens, or one has more unknown tokens: an unknown token covers any rare word, so it is
    too likely.
    """
    scores = model.score([text for pair in sentences for text in pair], batch_size, **options)
    firsts, seconds = scores[::2], scores[1::2]
    margins = _totals(firsts) - _totals(seconds)
    margins[
        [first.tokens == second.tokens for first, second in zip(firsts, seconds, strict=True)]
    ] = np.nan
    margins[_num_unknown(model, firsts) != _num_unknown(model, seconds)] = np.nan
    return margins


def _num_unknown(model, scores: Iterable[TextScore]) -> np.ndarray:
    """Unknown tokens of each text, int64 [texts]."""
    tokenizer = model.preprocessor.tokenizer
    unk_id = unknown_id(tokenizer)
    token = None if unk_id is None else tokenizer.id_to_token(unk_id)
    return np.array([score.tokens.count(token) for score in scores], np.int64)


def _totals(scores: Iterable[TextScore]) -> np.ndarray:
    """The log-probability of each text, float64 [texts]."""
    return np.array([score.log_probs.sum(dtype=np.float64) for score in scores])
