"""A model's outputs for the words of sentences, computed from its outputs for word pieces."""

from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from bert_zoo.config import HeadSpec
from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.direct import for_this_device, on_rows
from bert_zoo.models.graphs import in_graph
from bert_zoo.runtime.answers import Sentence, sentence_of
from bert_zoo.text.columns import as_list
from bert_zoo.text.numpy_packing import Tokens, row_splits_that_fit
from bert_zoo.text.preprocessor import (
    NO_WORD,
    has_rows_of_words,
    pack_pieces,
    pack_word_pieces,
    word_batch,
    word_pieces,
)


class WordVectors(NamedTuple):
    """The words of a text and their vectors, float32 [words, size]."""

    words: tuple[str, ...]
    vectors: np.ndarray


# Functions that pool the vectors of a word's pieces: (vectors [pieces, size], starts of words, ends of words)
# -> [words, size].
POOLINGS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "mean": lambda x, starts, ends: np.add.reduceat(x, starts) / (ends - starts)[:, None],
    "first": lambda x, starts, ends: x[starts],
    "last": lambda x, starts, ends: x[ends - 1],
}


def sentences_of(texts) -> list[Sentence]:
    """Raw texts or lists of words as sentences of words."""
    from bert_zoo.text.batches import strings

    if isinstance(texts, Iterator):
        texts = [*texts]
    if has_rows_of_words(texts):
        texts = word_batch(texts).to_list() if hasattr(texts, "numpy") else as_list(texts)
    else:
        texts = strings(texts)
    return [*map(sentence_of, texts)]


def word_vectors(
    encoder, words: list[list[str]], batch_size: int, spec: HeadSpec, pooling: str
) -> list[np.ndarray]:
    """For each sentence of words, vectors float32 [words, size]; see `Encoder.embed_words`."""
    check("pooling", pooling, str, choices=POOLINGS)

    def pooled(values, starts):
        ends = np.append(starts[1:], len(values))[: len(starts)]
        return POOLINGS[pooling](values, starts, ends)

    return outputs_of_words(encoder, words, batch_size, _layers, pooled, spec=spec)


def _layers(model, inputs, *, spec: HeadSpec):
    """The selected layers, side by side or as their mean, float32 [batch, length, size]."""
    states = model(inputs, internals=True, training=False)["hidden_states"]
    read = [ops.cast(states[number], "float32") for number in spec.layers_read(len(states))]
    return sum(read) / len(read) if spec.mixes else ops.concatenate(read, axis=-1)


def outputs_of_words(
    model,
    sentences: Any,
    batch_size: int,
    function: Callable[..., Any],
    pooled: Callable[[np.ndarray, np.ndarray], np.ndarray],
    **options: Hashable,
) -> list[np.ndarray]:
    """Runs a function of the model on words: for each sentence float32 [words, size].

    Sentences that are too long for the model are read in several rows, cut between words, so that every
    word gets an output.

    Args:
        sentences: sentences of words; see `bert_zoo.text.preprocessor.word_batch`.
        function: (model, inputs, **options) -> [batch, length, ...]; traceable.
        pooled: (outputs of pieces [pieces, ...], index of each word's first piece) -> [words, size].
    """
    # Ragged tensors have no len.
    if not (sentences.shape[0] if hasattr(sentences, "shape") else len(sentences)):
        return []
    sentences, preprocessor = word_batch(sentences), model.preprocessor
    budget = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    read = _rows_in_graph if has_tensorflow else _rows_in_numpy
    lengths, sentence_splits, packed = read(model, sentences, for_this_device(preprocessor))
    splits = row_splits_that_fit(lengths, sentence_splits, budget)
    # Rows of similar length need little padding.
    ends = np.append(0, lengths.cumsum())
    order = np.argsort(np.diff(ends[splits]), kind="stable")
    found = None
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        inputs, word_ids = packed(splits, rows)
        size = batch_size if len(order) > batch_size else len(rows)
        outputs = on_rows(model, function, inputs, size, **options)
        is_piece = np.asarray(word_ids) != NO_WORD
        at = np.concatenate([np.arange(splits[row], splits[row + 1]) for row in rows])
        # A word that is too long for a row is cut.
        kept = np.minimum(lengths[at], budget)
        values = ops.convert_to_numpy(outputs)[: len(rows)][is_piece]
        values = pooled(values, np.cumsum(kept) - kept)
        if found is None:
            found = np.zeros((splits[-1], values.shape[-1]), np.float32)
        found[at] = values
    return np.split(found, sentence_splits[1:-1])


# --- Reading sentences [batch, (words)]. Both functions return the number of pieces of each word, the row splits
# of sentences, and a function from row splits and the numbers of some rows to inputs and each token's word.


def _rows_in_numpy(model, sentences, preprocessor):
    pieces = preprocessor.reader.words([*chain.from_iterable(sentences)])
    before = np.append(0, pieces.lengths.cumsum())

    def packed(splits, rows):
        words = [np.arange(splits[row], splits[row + 1]) for row in rows]
        ids = [pieces.ids[before[splits[row]] : before[splits[row + 1]]] for row in rows]
        tokens = Tokens(np.concatenate(ids), pieces.lengths[np.concatenate(words)])
        return pack_word_pieces(tokens, np.array([*map(len, words)]), preprocessor)

    return pieces.lengths, np.cumsum([0, *map(len, sentences)]), packed


def _rows_in_graph(model, sentences, preprocessor):
    pieces = in_graph(model, pieces_of_words, sentences, preprocessor=preprocessor)

    def packed(splits, rows):
        return in_graph(model, _packed, pieces, splits, rows, preprocessor=preprocessor)

    return pieces.row_lengths().numpy(), sentences.row_splits.numpy(), packed


def _packed(model, pieces, splits, rows, *, preprocessor):
    """Rows with the words from `splits[i]` to `splits[i + 1]`, whose pieces are [words, (pieces)]."""
    import tensorflow as tf

    pieces = tf.RaggedTensor.from_row_splits(pieces, splits, validate=False)
    return pack_pieces(tf.gather(pieces, rows), preprocessor)


def pieces_of_words(model, words, *, preprocessor):
    """The pieces of sentences' words, int32 [words, (pieces)]; traceable, on TensorFlow."""
    return word_pieces(words, preprocessor.tokenizer).values
