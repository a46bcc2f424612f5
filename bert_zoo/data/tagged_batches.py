"""Training batches of tagged words."""

import tensorflow as tf

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.buckets import Batches, Batching, RowOrder
from bert_zoo.data.tagging import TaggedSplit
from bert_zoo.data.token_table import token_table
from bert_zoo.text.preprocessor import Preprocessor
from bert_zoo.text.words import pack_words, token_labels


def tagged_batches(split: TaggedSplit, preprocessor: Preprocessor, batching: Batching) -> Batches:
    """Batches to train a `TokenClassifier` on; sentences are tokenized once.

    Args:
        split: with labels.
        preprocessor: of the model; it cuts sentences that are too long, with its word on the log.
        batching: its rows are sentences.

    Returns:
        Batches of (inputs, labels), int32 [batch, width] each: a word's label stands on its first
        piece, and -100 on other tokens.

    Raises:
        ValueError: the split has no labels.
    """
    if split.labels is None:
        raise ValueError("The split has words without tags, which nothing can be learned from.")
    words, labels = (
        tf.ragged.constant(rows, dtype, ragged_rank=1, row_splits_dtype=tf.int64)
        for rows, dtype in ((split.words, tf.string), (split.labels, tf.int32))
    )

    def packed(numbers, words, labels):
        sentences = pack_words(words, preprocessor)
        return {**sentences.inputs, "labels": token_labels(labels, sentences, words)}

    table = token_table(
        preprocessor.packer, (words, labels), packed, padding={"labels": IGNORED_LABEL}
    )

    def batch(numbers):
        inputs = table.padded([*table.tokens], numbers)
        return inputs, inputs.pop("labels")

    return Batches.of(RowOrder(table.padded_lengths, batching), batch)
