"""Between texts and token ids, in graphs that are traced once."""

from collections.abc import Iterable

import numpy as np

from bert_zoo.models.graphs import in_graph


def tokenized(model, texts) -> list[np.ndarray]:
    """The ids of each text of a string tensor [batch], int32 [tokens]."""
    ids, splits = in_graph(model, _tokenize, texts, preprocessor=model.preprocessor)
    return np.split(ids.numpy(), splits.numpy()[1:-1])


def detokenized(model, rows: Iterable[np.ndarray]) -> list[bytes]:
    """The text of each row of ids."""
    rows = list(rows)
    ids, lengths = np.concatenate(rows).astype("int32"), np.array([len(row) for row in rows])
    return list(in_graph(model, _detokenize, ids, lengths, preprocessor=model.preprocessor).numpy())


def _tokenize(model, texts, *, preprocessor):
    tokens = preprocessor.tokenizer(texts)
    return tokens.values, tokens.row_splits


def _detokenize(model, ids, lengths, *, preprocessor):
    import tensorflow as tf

    return preprocessor.tokenizer.detokenize(tf.RaggedTensor.from_row_lengths(ids, lengths))
