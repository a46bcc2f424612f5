"""Log-probabilities of tokens at a masked position, in batches of texts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Self

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from bert_zoo.graph import has_tensorflow
from bert_zoo.models.direct import for_this_device, on_rows
from bert_zoo.models.graphs import in_graph
from bert_zoo.text.reading import Tokens


class Blank(NamedTuple):
    """A text with one masked token to predict."""

    token_ids: np.ndarray  # int32 [tokens], without special tokens, with the mask at `position`
    position: int  # position of the token to predict

    def window(self, size: int) -> Self:
        """Returns at most `size` tokens around the one to predict."""
        start = max(0, min(self.position - size // 2, len(self.token_ids) - size))
        return type(self)(self.token_ids[start : start + size], self.position - start)


def log_probs_at(
    model, blanks: Iterable[Blank], wanted: Iterable[Sequence[int]], batch_size: int, total: int
) -> Iterator[np.ndarray]:
    """Yields log-probabilities of tokens at the positions of blanks, batch by batch.

    For texts longer than the model's limit, a window around the blank is read.

    Args:
        model: a model trained on masked tokens.
        blanks: texts with a blank; sort them by length to avoid padding.
        wanted: ids of the requested tokens, the same number for each blank.
        batch_size: blanks per step.
        total: number of blanks, for the progress bar.

    Yields:
        float32 [batch, requested tokens].
    """
    preprocessor = model.preprocessor
    size = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    pairs = zip(blanks, wanted, strict=True)
    with tqdm(total=total, desc="Masked texts", disable=None) as progress:
        while batch := [*islice(pairs, batch_size)]:
            windows = [blank.window(size) for blank, _ in batch]
            lengths = np.array([len(window.token_ids) for window in windows])
            is_blank = np.zeros(lengths.sum(), np.int32)
            is_blank[np.cumsum(lengths) - lengths + [window.position for window in windows]] = 1
            ids = np.concatenate([window.token_ids for window in windows])
            asked = np.array([ids for _, ids in batch], np.int32)
            yield _log_probs(model, batch_size, ids, is_blank, lengths, asked)
            progress.update(len(batch))


def _log_probs(model, batch_size: int, *tensors: np.ndarray) -> np.ndarray:
    if keras.backend.backend() == "tensorflow":
        found = in_graph(model, _read_and_predict, *tensors, preprocessor=model.preprocessor)
        return ops.convert_to_numpy(found)
    inputs = in_graph(model, _read, *tensors, preprocessor=model.preprocessor)
    return ops.convert_to_numpy(on_rows(model, _predict, inputs, batch_size))[: len(tensors[-1])]


def _read_and_predict(model, *tensors, preprocessor):
    return _predict(model, _read(model, *tensors, preprocessor=preprocessor))


def _read(model, ids, is_blank, lengths, wanted, *, preprocessor):
    """Returns model inputs with `is_blank`, int32 [batch, length], 1 at the blank, and `wanted`."""
    preprocessor = for_this_device(preprocessor)
    if has_tensorflow:
        import tensorflow as tf

        tokens = tf.RaggedTensor.from_row_lengths(ids, lengths)
    else:
        tokens = Tokens(ids, lengths)
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    return {**inputs, "is_blank": positions.gather(is_blank), "wanted": wanted}


def _predict(model, inputs):
    """Returns log-probabilities of the requested tokens, float32 [batch, requested tokens]."""
    inputs = dict(inputs)
    is_blank, wanted = inputs.pop("is_blank"), inputs.pop("wanted")
    inputs["mask_positions"] = ops.cast(ops.argmax(is_blank, axis=1), "int32")[:, None]
    outputs = model(inputs, training=False)
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    log_probs = ops.log_softmax(ops.cast(logits[:, 0], "float32"))
    return ops.take_along_axis(log_probs, wanted, axis=1)
