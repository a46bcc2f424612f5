"""What attention heads attend to (fixed patterns and syntactic relations), and how alike heads are.

Layers and heads are counted from 0; layer 0 reads the output of the embeddings. Memory holds the maps of one
batch of sentences at a time.
Source: Clark et al. 2019 (arXiv:1906.04341) and its code, clarkkev/attention-analysis.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.data.treebanks import ParsedSentence
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.probing.attention import (
    SentenceAttention,
    attention_of_sentences,
    starts_of_words,
    words_of,
    words_of_pieces,
)
from bert_zoo.runtime.printed import table
from bert_zoo.text.numpy_words import NO_WORD

DIRECTIONS = ("dependent to head", "head to dependent")
OFFSETS = (-3, -2, -1, 1, 2, 3)
ALL, ROOT = "all", "root"
# Heads often attend to "'s" in place of the possessor, which the paper (section 4.2) counts as right.
OWNERS, CLITICS = ("poss", "nmod:poss"), ("'s", "s'")
# Offset from a token to the token that it attends to.
NEIGHBOURS = {"previous": -1, "same": 0, "next": 1}
PERIODS_AND_COMMAS = (".", ",")
# Share of uniform attention that is mixed in to keep logarithms finite, as in the original code.
ENTROPY_SMOOTHING, DIVERGENCE_SMOOTHING = 1e-4, 1e-3


# --- Fixed patterns ---


@dataclass(frozen=True)
class HeadPatterns:
    """How much heads attend to neighbours, special tokens and punctuation, and how broadly.

    Attributes:
        shares: share of attention by target, float64 [layers, heads], averaged over sentences. Targets are
            "previous", "same" and "next" token, each special token by its name, and "periods and commas". The
            attention of all tokens counts, including special tokens.
        entropy: entropy of the attention from a token, in nats, float64 [layers, heads].
        uniform_entropy: entropy of uniform attention, in nats.
        sentences: number of sentences read; those too long for the model are left out.
    """

    shares: dict[str, np.ndarray]
    entropy: np.ndarray
    uniform_entropy: float
    sentences: int

    def __str__(self) -> str:
        names = [*self.shares]
        columns = np.array([*self.shares.values(), self.entropy])
        rows = [
            (f"{layer}-{head}", *(f"{value:.2f}" for value in columns[:, layer, head]))
            for layer, head in np.ndindex(self.entropy.shape)
        ]
        return table([("head", *names, "entropy"), *rows], ">")


def head_patterns(model: ZooModel, sentences: Sequence, batch_size: int = 16) -> HeadPatterns:
    """Measures how much each head attends to neighbours, special tokens and punctuation, and how broadly.

    Source: Clark et al. 2019 (arXiv:1906.04341), sections 3.1 to 3.3; General_Analysis.ipynb.

    Args:
        model: an encoder, or a model that has one.
        sentences: texts, lists of words, or sentences from `read_treebank`.
        batch_size: sentences per step; all their attention maps are in memory.

    Raises:
        ValueError: there is no sentence that the model can read at once, or the encoder has no attention maps
            between all tokens.
    """
    preprocessor, words = encoder_of(model).preprocessor, words_of(sentences)
    tokenizer = preprocessor.tokenizer
    ids = {int(getattr(tokenizer, f"{role}_id")) for role in preprocessor.packer.layout.roles}
    special = {tokenizer.id_to_token(index): index for index in sorted(ids)}
    return _patterns(attention_of_sentences(model, words, batch_size), words, special)


def _patterns(found: Iterable[SentenceAttention], words, special: dict[str, int]) -> HeadPatterns:
    """As `head_patterns`; `special` maps the names of special tokens to their ids."""
    totals: dict[str, Any] = Counter()
    number = 0
    for sentence in found:
        number += 1
        maps, size = np.float64(sentence.maps), len(sentence.token_ids)
        marks = [
            word != NO_WORD and words[sentence.number][word] in PERIODS_AND_COMMAS
            for word in sentence.word_ids
        ]
        columns = {name: sentence.token_ids == index for name, index in special.items()}
        columns["periods and commas"] = np.array(marks)
        sums = {name: np.trace(maps, offset, -2, -1) for name, offset in NEIGHBOURS.items()}
        sums |= {name: maps[..., column].sum((-2, -1)) for name, column in columns.items()}
        for name, total in sums.items():
            totals[name] = totals[name] + total / size
        totals["entropy"] = totals["entropy"] + entropy(maps).mean(-1)
        totals["uniform"] += np.log(size)
    _check_read(number)
    uniform, broad = (totals.pop(name) / number for name in ("uniform", "entropy"))
    shares = {name: total / number for name, total in totals.items()}
    return HeadPatterns(shares, broad, float(uniform), number)


def entropy(maps: np.ndarray) -> np.ndarray:
    """Entropy in nats of the attention from each token: maps [..., tokens, tokens] -> [..., tokens]."""
    smoothed = _smoothed(maps, ENTROPY_SMOOTHING)
    return -(smoothed * np.log(smoothed)).sum(-1)


def _smoothed(maps: np.ndarray, share: float) -> np.ndarray:
    return (1 - share) * maps + share / maps.shape[-1]


def _check_read(number: int) -> None:
    if not number:
        raise ValueError(
            "There is no sentence that the model can read at once. Pass shorter sentences, or more of them."
        )


# --- Distances ---


@dataclass(frozen=True)
class HeadDistances:
    """How differently each pair of heads attends.

    Attributes:
        values: Jensen-Shannon divergence between the attention of two heads in nats, averaged over tokens: float64
            [layers, heads, layers, heads].
        sentences: number of sentences read; those too long for the model are left out.
    """

    values: np.ndarray
    sentences: int

    def coordinates(self, starts: int = 8, steps: int = 300) -> np.ndarray:
        """Places heads in the plane so that distances between points approximate `values`.

        This is metric multidimensional scaling by majorization (de Leeuw 1977).

        Args:
            starts: number of starting points: the classical solution and random ones. The best result is kept.
            steps: iterations from each start.

        Returns:
            float64 [layers, heads, 2].
        """
        layers, heads = self.values.shape[:2]
        number = layers * heads
        wanted = self.values.reshape(number, number)
        centre = np.eye(number) - 1 / number
        values, vectors = np.linalg.eigh(-centre @ wanted**2 @ centre / 2)
        classical = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
        others = np.random.default_rng(0).normal(size=(starts - 1, number, 2)) * wanted.std()
        found = [_scaled(wanted, start, steps) for start in (classical, *others)]
        best = min(found, key=lambda x: ((_apart(x) - wanted) ** 2).sum())
        return best.reshape(layers, heads, 2)


def _scaled(wanted: np.ndarray, x: np.ndarray, steps: int) -> np.ndarray:
    """Moves points x [number, 2] towards the wanted distances [number, number]."""
    for _ in range(steps):
        apart = _apart(x)
        ratio = np.divide(wanted, apart, out=np.zeros_like(apart), where=apart > 0)
        x = (np.diag(ratio.sum(1)) - ratio) @ x / len(x)
    return x


def _apart(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x[:, None] - x, axis=-1)


def head_distances(model: ZooModel, sentences: Sequence, batch_size: int = 16) -> HeadDistances:
    """Measures the Jensen-Shannon divergence between the attention of every pair of heads.

    The time grows with the square of the number of heads. A few hundred sentences are enough.
    Source: Clark et al. 2019 (arXiv:1906.04341), section 6; head_distances.py.

    Args:
        model, sentences, batch_size: as in `head_patterns`.

    Raises:
        ValueError: as in `head_patterns`.
    """
    return _distances(attention_of_sentences(model, words_of(sentences), batch_size))


def _distances(found: Iterable[SentenceAttention]) -> HeadDistances:
    total: Any = 0
    number = tokens = 0
    for sentence in found:
        number += 1
        total = total + divergences(sentence.maps)
        tokens += len(sentence.token_ids)
    _check_read(number)
    return HeadDistances(total / tokens, number)


def divergences(maps: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergences between heads, summed over tokens: [layers, heads, layers, heads].

    Args:
        maps: [layers, heads, tokens, tokens].
    """
    shape = maps.shape[:2]
    heads = _smoothed(np.float64(maps), DIVERGENCE_SMOOTHING).reshape(np.prod(shape), -1)
    negative_entropy = (heads * np.log(heads)).sum(-1)
    found = np.zeros((len(heads), len(heads)))
    for number, head in enumerate(heads):
        middle = (head + heads[number:]) / 2
        found[number, number:] = -(middle * np.log(middle)).sum(-1)
    found = np.triu(found) + np.triu(found, 1).T
    found += (negative_entropy[:, None] + negative_entropy) / 2
    return found.reshape(*shape, *shape)


# --- Relations ---


class BestHead(NamedTuple):
    """The attention head that best predicts a relation, and the best fixed offset for comparison.

    Attributes:
        label: the relation.
        count: number of words with this label.
        accuracy: share of these words for which the attention head is right.
        layer: number of the layer, from 0.
        head: number of the attention head in the layer, from 0.
        direction: "dependent to head" or "head to dependent": how attention is read (see `HeadRelations`).
        offset: the best fixed distance from a word to its syntactic head.
        offset_accuracy: share of the words for which this distance is right.
    """

    label: str
    count: int
    accuracy: float
    layer: int
    head: int
    direction: str
    offset: int
    offset_accuracy: float


@dataclass(frozen=True)
class HeadRelations:
    """How often the word that an attention head attends to most is the syntactic head.

    Attributes:
        labels: "all", then the relations (or other labels of words), the most frequent first.
        counts: int64 [labels]: number of words.
        accuracy: float64 [directions, layers, heads, labels]. Direction 0 takes the word that a dependent attends to
            most as its syntactic head, direction 1 the word that attends to it most (`DIRECTIONS`).
        offsets: fixed distances from a dependent to its head.
        offset_accuracy: float64 [offsets, labels]: how often each offset is right.
        sentences: number of sentences read; those too long for the model are left out.
    """

    labels: tuple[str, ...]
    counts: np.ndarray
    accuracy: np.ndarray
    offsets: tuple[int, ...]
    offset_accuracy: np.ndarray
    sentences: int

    def best(self, label: str) -> BestHead:
        """Returns the best head of a label and its best offset; raises ValueError for a label that no word has."""
        if label not in self.labels:
            raise ValueError(
                f"No word has the label {label!r}; expected one of {', '.join(self.labels)}."
            )
        at = self.labels.index(label)
        found, offsets = self.accuracy[..., at], self.offset_accuracy[:, at]
        direction, layer, head = np.unravel_index(found.argmax(), found.shape)
        return BestHead(
            label,
            int(self.counts[at]),
            float(found.max()),
            int(layer),
            int(head),
            DIRECTIONS[direction],
            self.offsets[offsets.argmax()],
            float(offsets.max()),
        )

    def best_heads(self, least: int = 100) -> list[BestHead]:
        """Returns the best head of each label that `least` or more words have, except "root"."""
        return [
            self.best(label)
            for label, count in zip(self.labels, self.counts, strict=True)
            if count >= least and label != ROOT
        ]

    def __str__(self) -> str:
        rows = [
            (
                best.label,
                str(best.count),
                f"{best.accuracy:.1%}",
                f"{best.layer}-{best.head}",
                f"{best.offset_accuracy:.1%}",
                f"{best.offset:+d}",
                best.direction,
            )
            for best in self.best_heads()
        ]
        header = ("label", "words", "accuracy", "head", "offset accuracy", "offset", "direction")
        return table([header, *rows], ">")


def head_relations(
    model: ZooModel,
    treebank: Sequence[ParsedSentence],
    *,
    labels: Sequence[Sequence[str]] | None = None,
    from_pieces: str = "mean",
    batch_size: int = 16,
) -> HeadRelations:
    """Measures how often an attention head attends most, of all other words, to the syntactic head of a word.

    As in the original code, offsets that point out of the sentence give its last word or the root, and the
    prediction for "'s" counts for a possessor that it follows.
    Source: Clark et al. 2019 (arXiv:1906.04341), section 4.2; Syntax_Analysis.ipynb.

    Args:
        model: an encoder, or a model that has one.
        treebank: sentences from `read_treebank`.
        labels: for each sentence a label for each word, to count by. By default its relation or, if the treebank
            has none, its part of speech. Words without a head get the label "root".
        from_pieces: how to pool the attention from a word's pieces: "mean", as in the paper, or "first".
        batch_size: as in `head_patterns`.

    Raises:
        ValueError: the labels do not match the words, `from_pieces` is unknown, or as in `head_patterns`.
    """
    if labels is None:
        labels = [s.tags if s.relations is None else s.relations for s in treebank]
    words = words_of(treebank)
    if [*map(len, labels)] != [*map(len, words)]:
        raise ValueError(
            f"labels has {len(labels)} sentences and {sum(map(len, labels))} words, but the treebank has {len(words)} and "
            f"{sum(map(len, words))}. Pass one label for each word."
        )
    labels = [
        [label if head else ROOT for label, head in zip(of_words, s.heads, strict=True)]
        for of_words, s in zip(labels, treebank, strict=True)
    ]
    return _relations(
        attention_of_sentences(model, words, batch_size), treebank, labels, from_pieces
    )


def _relations(
    found: Iterable[SentenceAttention], treebank, labels, from_pieces: str
) -> HeadRelations:
    """As `head_relations`, with the labels of all words."""
    names = (ALL, *dict.fromkeys(chain.from_iterable(labels)))
    column = {name: number for number, name in enumerate(names)}
    by_heads: Any = 0
    by_offsets, counts = np.zeros((len(OFFSETS), len(names))), np.zeros(len(names), np.int64)
    number = 0
    for sentence in found:
        number += 1
        parsed, size = treebank[sentence.number], len(labels[sentence.number])
        is_label = np.zeros((size, len(names)))
        is_label[:, 0] = 1
        is_label[np.arange(size), [column[label] for label in labels[sentence.number]]] = 1
        counts += is_label.sum(0).astype(np.int64)
        is_word = sentence.word_ids[starts_of_words(sentence.word_ids)] != NO_WORD
        maps = words_of_pieces(sentence.maps, sentence.word_ids, from_pieces)
        attended = most_attended(maps[..., is_word, :][..., is_word])
        ends = np.clip(np.arange(size) + np.array(OFFSETS)[:, None], -1, size - 1)
        by_heads = by_heads + _hits(attended, parsed, labels[sentence.number]) @ is_label
        by_offsets += _hits(ends, parsed, labels[sentence.number]) @ is_label
    _check_read(number)
    # Labels that occur only in sentences that were left out have no words.
    kept = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    counts = counts[kept]
    return HeadRelations(
        tuple(names[at] for at in kept),
        counts,
        by_heads[..., kept] / counts,
        OFFSETS,
        by_offsets[:, kept] / counts,
        number,
    )


def most_attended(maps: np.ndarray) -> np.ndarray:
    """Returns for each word the other word that it attends to most, and the one that attends to it most.

    Args:
        maps: attention between words, [..., words, words], without special tokens.

    Returns:
        int64 [2, ..., words].
    """
    others = maps * (1 - np.eye(maps.shape[-1], dtype=maps.dtype))
    return np.stack([others.argmax(-1), others.argmax(-2)])


def _hits(found: np.ndarray, parsed: ParsedSentence, labels: Sequence[str]) -> np.ndarray:
    """Whether the words found for each word, counted from 0, are the heads: bool [..., words]."""
    heads = np.array(parsed.heads)
    hits = found + 1 == heads
    for at, after in enumerate(parsed.words[1:]):
        if labels[at] in OWNERS and after in CLITICS:
            # As in the original code, not if the possessor's own prediction is the last word.
            answers = found[..., at] + 1 < len(heads)
            hits[..., at] = np.where(answers, found[..., at + 1] + 1 == heads[at], hits[..., at])
    return hits
