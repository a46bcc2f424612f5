"""Attention heads: what each attends to (fixed patterns, syntactic relations), how alike they are, and which are needed.

Layers and heads are counted from 0; layer 0 reads the output of the embeddings. Memory holds the maps of one
batch of sentences at a time.
Source: Clark et al. 2019 (arXiv:1906.04341) and its code, clarkkev/attention-analysis.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_zoo.data.treebanks import ParsedSentence
from bert_zoo.fields import check
from bert_zoo.graph import tf
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.data_adapters import for_keras, num_rows, rows_of
from bert_zoo.models.direct import for_this_device, on_rows
from bert_zoo.models.graphs import in_graph, on_model
from bert_zoo.models.word_outputs import sentences_of
from bert_zoo.printing import table
from bert_zoo.text.preprocessor import NO_WORD, pack_words, word_batch

# Ways to pool the attention from a word's pieces: (maps [..., pieces, words], starts of words) -> [..., words, words].
# The paper takes the "mean"; its code takes the first piece by default.
FROM_PIECES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "mean": lambda maps, starts: (
        np.add.reduceat(maps, starts, axis=-2) / np.diff(np.append(starts, maps.shape[-2]))[:, None]
    ),
    "first": lambda maps, starts: maps[..., starts, :],
}


class AttentionMaps(NamedTuple):
    """The attention of every head within a sentence, ready for `bert_zoo.charts.attention_viewer`.

    Attributes:
        tokens: the tokens or words, including special tokens.
        maps: float32 [layers, heads, tokens, tokens]; row i holds the attention from token i and sums to 1.
    """

    tokens: tuple[str, ...]
    maps: np.ndarray


class SentenceAttention(NamedTuple):
    """The attention within one of several sentences."""

    number: int  # of the sentence
    token_ids: np.ndarray  # int32 [tokens]
    word_ids: np.ndarray  # int32 [tokens], the number of each token's word, or `NO_WORD`
    maps: np.ndarray  # float32 [layers, heads, tokens, tokens]


def attention_maps(
    model: ZooModel, sentence: str | Sequence[str], *, level: str = "tokens"
) -> AttentionMaps:
    """Returns the attention of all heads within a sentence, for example to draw it.

    Args:
        model: an encoder, or a model that has one.
        sentence: a list of words, or a text, which is split at white space and around punctuation.
        level: "tokens" or "words". The attention from a word is the mean over its pieces, the attention to a word
            the sum.

    Raises:
        ValueError: `level` is unknown, the sentence is too long for the model, or the encoder has no attention maps
            between all tokens.
    """
    check("level", level, str, choices=("tokens", "words"))
    (words,) = words_of([sentence])
    found = next(attention_of_sentences(model, [words], 1), None)
    if found is None:
        longest = encoder_of(model).preprocessor.sequence_length
        raise ValueError(
            f"The {len(words)} words of the sentence make more than {longest} tokens, the most that the model reads "
            "at once. Shorten the sentence."
        )
    name = encoder_of(model).preprocessor.tokenizer.id_to_token
    tokens = tuple(map(name, found.token_ids.tolist()))
    if level == "tokens":
        return AttentionMaps(tokens, found.maps)
    starts = starts_of_words(found.word_ids)
    names = (
        tokens[start] if word == NO_WORD else words[word]
        for start, word in zip(starts, found.word_ids[starts], strict=True)
    )
    return AttentionMaps(tuple(names), words_of_pieces(found.maps, found.word_ids))


def words_of(sentences: Iterable[Any]) -> list[list[str]]:
    """The words of texts, of lists of words, or of a treebank's sentences."""
    rows = [getattr(sentence, "words", sentence) for sentence in sentences]
    return [list(sentence.words) for sentence in sentences_of(rows)]


def words_of_pieces(
    maps: np.ndarray, word_ids: np.ndarray, from_pieces: str = "mean"
) -> np.ndarray:
    """Turns attention between pieces [..., tokens, tokens] into attention between words [..., words, words].

    `word_ids`, int [tokens], are the number of each token's word, -1 for special tokens, which count as words. The
    attention to a word is the sum over its pieces; the attention from them is pooled as `FROM_PIECES` says.
    Source: Clark et al. 2019, section 4.1; clarkkev/attention-analysis bpe_utils.py, get_word_word_attention.
    """
    check("from_pieces", from_pieces, str, choices=FROM_PIECES)
    starts = starts_of_words(word_ids)
    return FROM_PIECES[from_pieces](np.add.reduceat(maps, starts, axis=-1), starts)


def starts_of_words(word_ids: np.ndarray) -> np.ndarray:
    """Positions at which words or special tokens begin."""
    before = np.append(NO_WORD, word_ids[:-1])
    return np.flatnonzero((word_ids == NO_WORD) | (word_ids != before))


def attention_of_sentences(
    model: ZooModel, words: list[list[str]], batch_size: int
) -> Iterator[SentenceAttention]:
    """Yields the attention within each sentence, the shortest first.

    Sentences without words and sentences that are too long for the model are left out.
    """
    check("batch_size", batch_size, int, least=1)
    encoder = encoder_of(model)
    lengths = np.array([*map(len, words)])
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = word_batch([words[row] for row in rows])
        inputs, word_ids = in_graph(encoder, _packed, batch, preprocessor=encoder.preprocessor)
        size = min(batch_size, len(order))
        maps = ops.convert_to_numpy(on_rows(encoder, _attention, inputs, size))
        if maps.shape[-1] != maps.shape[-2]:
            raise _no_maps(encoder)
        token_ids, mask, word_ids = (
            ops.convert_to_numpy(part)
            for part in (inputs["token_ids"], inputs["padding_mask"], word_ids)
        )
        for at, row in enumerate(rows):
            (real,) = mask[at].nonzero()
            if word_ids[at].max() + 1 == lengths[row]:
                of_tokens = maps[at][..., real[:, None], real]
                yield SentenceAttention(
                    int(row), token_ids[at, real], word_ids[at, real], of_tokens
                )


def _packed(model, words, *, preprocessor):
    # The caller detects truncated sentences itself.
    reader = for_this_device(preprocessor.with_options(report_truncation=False))
    packed = pack_words(words, reader)
    return packed.inputs, packed.word_ids


def _attention(encoder, inputs):
    """float32 [batch, layers, heads, length, length]."""
    attentions = encoder(inputs, internals=True, training=False)["attentions"]
    if not attentions:
        raise _no_maps(encoder)
    return ops.cast(ops.stack(attentions, axis=1), "float32")


def _no_maps(encoder) -> ValueError:
    return ValueError(
        f"An encoder of the family {encoder.family} has no attention maps between all tokens: it has no attention "
        "heads, or they see only windows of the text, or also a memory. Choose a family in which every token attends "
        "to all others, such as BERT."
    )


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
    """Jensen-Shannon divergences between heads, summed over tokens: [layers, heads, tokens, tokens] -> [layers,
    heads, layers, heads]."""
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
        best = (float(found.max()), int(layer), int(head), DIRECTIONS[direction])
        offset = self.offsets[offsets.argmax()]
        return BestHead(label, int(self.counts[at]), *best, offset, float(offsets.max()))

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
    """The other word that each word attends to most, and the one that attends to it most: attention between words
    [..., words, words], without special tokens -> int64 [2, ..., words]."""
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


# --- Pruning: which heads a task needs ---
# Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?" (arXiv:1905.10650), section 4.


def head_importance(model: ZooModel, x, y=None) -> np.ndarray:
    """Measures how sensitive the loss is to the output of each attention head.

    The importance of a head is the absolute derivative of the loss with respect to a factor on the head's output,
    averaged over examples; then each layer's vector of importances is scaled to length 1. Layers that share their weights, as in ALBERT, count as one layer. For a model with a decoder, only the encoder's heads count.

    Args:
        model: a model with a loss. It is not changed.
        x, y: labelled examples, as in `evaluate`. Each example is one step; each batch of a tf.data.Dataset counts as
            one example.

    Returns:
        float64 [layers, heads].

    Raises:
        ValueError: the model has no loss or no heads that can be pruned, or there are no examples.

    Source: Michel et al. 2019 (arXiv:1905.10650), section 4.1.
    """
    if not model.compiled:
        raise ValueError(
            f"This model, of task {model.task!r}, has no loss, so the importance of its heads is undefined. Load "
            "a checkpoint with a trained head, and pass its task to `load`."
        )
    layers = attention_layers(model)
    total, number = np.zeros((len(layers), layers[0].num_heads)), 0
    for number, example in enumerate(_examples(model, x, y), 1):
        # On JAX, a TensorFlow pipeline yields TensorFlow's tensors.
        example = keras.tree.map_structure(np.asarray, example)
        if number == 1:
            # Losses of several outputs create variables on the first call, which a graph must not do.
            _loss(model, *example)
        total += ops.convert_to_numpy(on_model(model, _derivatives, *example))
    if not number:
        raise ValueError("There are no examples: x is empty.")
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    return np.divide(total, lengths, out=np.zeros_like(total), where=lengths > 0)


def prune_heads(model: ZooModel, heads: Iterable[tuple[int, int]]) -> None:
    """Removes attention heads from a model, in place and for good: their outputs become zeros.

    The heads' rows in the output projection are set to zero, so the model keeps its shape and its speed. In layers
    that share their weights, a head is pruned from all of them.

    Args:
        model: a model with attention.
        heads: pairs of layer and head, counted from 0.

    Raises:
        ValueError: there is no such head, or the model's heads cannot be pruned.
    """
    layers = attention_layers(model)
    kept = [np.ones(layer.num_heads) for layer in layers]
    for layer, head in heads:
        if not (0 <= layer < len(layers) and 0 <= head < layers[layer].num_heads):
            raise ValueError(
                f"There is no head {(layer, head)!r}: layers are numbered 0 to {len(layers) - 1}, heads 0 to "
                f"{layers[0].num_heads - 1}."
            )
        kept[layer][head] = 0
    for layer, mask in zip(layers, kept, strict=True):
        kernel = layer.output_dense.kernel
        rows = np.repeat(mask, layer.head_size)[:, None]
        kernel.assign(kernel.value * ops.cast(rows, kernel.dtype))


@dataclass(frozen=True)
class PruningCurve:
    """The scores of a model as more and more heads are pruned.

    Attributes:
        heads: pairs of layer and head, in the order of pruning.
        pruned: int64 [steps]: number of heads pruned.
        scores: the results of `evaluate` by name, float64 [steps] each.
    """

    heads: tuple[tuple[int, int], ...]
    pruned: np.ndarray
    scores: dict[str, np.ndarray]

    def __str__(self) -> str:
        columns = np.array([*self.scores.values()])
        rows = [
            (f"{number}", f"{number / len(self.heads):.0%}", *(f"{score:.4f}" for score in scores))
            for number, scores in zip(self.pruned, columns.T, strict=True)
        ]
        return table([("pruned", "of all", *self.scores), *rows], ">")


def pruning_curve(
    model: ZooModel,
    x,
    y=None,
    *,
    importance: np.ndarray,
    fractions: Sequence[float] = tuple(np.arange(10) / 10),
    batch_size: int = 32,
) -> PruningCurve:
    """Evaluates a model as more and more of its least important heads are pruned.

    Args:
        model: a model with a loss. It has all its heads again afterwards.
        x, y: labelled examples, as in `evaluate`.
        importance: float [layers, heads], as from `head_importance`; random numbers give a baseline.
        fractions: ascending shares of all heads to prune, one evaluation each.
        batch_size: examples per step.

    Raises:
        ValueError: as in `prune_heads`.

    Source: Michel et al. 2019 (arXiv:1905.10650), section 4.2.
    """
    order = np.argsort(importance, axis=None, kind="stable")
    places = np.stack(np.unravel_index(order, importance.shape), -1)
    heads = tuple(map(tuple, places.tolist()))
    pruned = np.array([round(fraction * len(heads)) for fraction in fractions])
    kernels = [layer.output_dense.kernel for layer in attention_layers(model)]
    before = [ops.convert_to_numpy(kernel) for kernel in kernels]
    found = []
    try:
        for number in pruned:
            prune_heads(model, heads[:number])
            found.append(model.evaluate(x, y, batch_size, verbose=0, return_dict=True))
    finally:
        for kernel, value in zip(kernels, before, strict=True):
            kernel.assign(value)
    scores = {name: np.array([each[name] for each in found], np.float64) for name in found[0]}
    return PruningCurve(heads, pruned, scores)


def attention_layers(model: ZooModel) -> list[keras.layers.Layer]:
    """The self-attention of each encoder block, with `num_heads`, `head_size` and `output_dense`; ValueError if
    there is none, or its kernels are quantized or have LoRA."""
    encoder = encoder_of(model)
    blocks = getattr(encoder.backbone.groups().stack, "blocks", ())
    layers = [getattr(block, "attention", None) for block in blocks]
    dense = [getattr(layer, "output_dense", None) for layer in layers]
    if not dense or None in dense:
        raise ValueError(
            f"An encoder of the family {encoder.family} has no attention heads to prune. Choose a Transformer."
        )
    if any(layer.quantization_mode or layer.lora_enabled for layer in dense):
        raise ValueError(
            "The attention kernels are quantized or have LoRA, so heads cannot be set to zero. Save the model, which "
            "merges LoRA, and load it again without quantization."
        )
    return layers


def _examples(model: ZooModel, x, y) -> Iterator[tuple]:
    """Yields batches of one example: inputs, labels and, if given, weights."""
    data = for_keras(model.training_arguments(x, y, batch_size=1))
    given = data["x"]
    if "y" in data:
        columns = tuple(
            part for part in (given, data["y"], data["sample_weight"]) if part is not None
        )
        yield from (rows_of(columns, slice(row, row + 1)) for row in range(num_rows(given)))
    elif isinstance(given, keras.utils.PyDataset):
        yield from (given[number] for number in range(given.num_batches))
    else:
        yield from given


def _loss(model, inputs, labels=None, weights=None):
    outputs = model(inputs, training=False)
    return model.compute_loss(inputs, labels, outputs, weights, training=False)


def _derivatives(model, *example) -> Any:
    """Absolute derivatives of the loss with respect to a factor on each head's output, float [layers, heads].

    Such a factor scales the head's rows in the output projection.
    """
    layers = attention_layers(model)
    kernels = [layer.output_dense.kernel for layer in layers]
    values = [ops.convert_to_tensor(kernel.value) for kernel in kernels]
    # On JAX, the scope below would hide the values of the scope around this function.
    given = [(variable, variable.value) for variable in model.variables]

    def loss(values):
        with keras.StatelessScope([*given, *zip(kernels, values, strict=True)]):
            return _loss(model, *example)

    gradients = _gradients(loss, values)
    return ops.stack(
        [
            ops.abs(ops.sum(ops.reshape(value * gradient, (layer.num_heads, -1)), axis=1))
            for layer, value, gradient in zip(layers, values, gradients, strict=True)
        ]
    )


def _gradients(function, values: list) -> list:
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(function)(values)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(values)
        result = function(values)
    return tape.gradient(result, values, unconnected_gradients="zero")
