"""Runs a model on texts in memory, batch by batch, without a tf.data pipeline.

Building and tracing a pipeline at each call takes ten times as long as a short text. Here one graph, which is
traced once, turns texts into ids and outputs; see `bert_zoo.models.graphs`.
"""

import itertools
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow
from bert_zoo.models.data_adapters import (
    DEFAULT_BATCH_SIZE,
    has_no_rows,
    input_length,
    num_rows,
    rows_of,
    text_rows,
)
from bert_zoo.models.graphs import in_graph, on_model
from bert_zoo.models.text_rows import for_this_device, with_few_lengths
from bert_zoo.private import strategy_of


def outputs_of_texts(
    model,
    function: Callable[..., Any],
    texts: Any,
    batch_size: int | None = None,
    *,
    per_token: bool = False,
    reader: Any = None,
    role: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Hashable,
) -> Any:
    """Runs a function of the model on texts: NumPy arrays [texts, ...] in the structure of the function's outputs.

    Batches have texts of similar length, to save padding, and outputs are returned in the order of the
    texts. With `per_token`, batches are in that order, too, and padded to the longest text of all.

    Args:
        function: (model, its input dict, **options) -> tensors [batch, ...] in any structure; see
            `in_graph`.
        per_token: whether outputs have the length of the input, [batch, length, ...].
        reader: turns texts into inputs; by default the model's `text_reader`.
        role: for a model with `column_inputs`, the role of the texts, which already have their prompt.
        progress: function that is called after each step with the numbers of finished and of all steps.
    """
    if batch_size is not None:
        check("batch_size", batch_size, int, least=1)
    if has_no_rows(texts):
        # The outputs of one row have the shape of none.
        one = ([""], [[""]] if model.ids_rank > 2 else [""]) if isinstance(texts, tuple) else [""]
        reading = {"per_token": per_token, "reader": reader, "role": role}
        outputs = outputs_of_texts(model, function, one, **reading, **options)
        return keras.tree.map_structure(lambda part: part[:0], outputs)
    rows = text_rows(model, texts)
    batch_size = batch_size or DEFAULT_BATCH_SIZE
    numbers = batches_of(rows, batch_size, in_order=per_token)
    batches = [rows_of(rows, of_batch) for of_batch in numbers] if len(numbers) > 1 else [rows]
    reader = with_few_lengths(reader or model.text_reader)
    reading = {"preprocessor": reader, "per_token": per_token, "role": role}
    size = batch_size
    if len(numbers) == 1:  # the smallest power of 2 with room for its rows
        size = min(size, 1 << (len(numbers[0]) - 1).bit_length())
    steps = {"size": size, "reading": reading}
    length = np.int32(0)
    if per_token and len(batches) > 1:
        lengths = (in_graph(model, input_length, b, preprocessor=reader) for b in batches)
        length = np.int32(max(map(int, lengths)))
    outputs = []
    for batch in batches:
        outputs.append(read_and_run(model, _read, function, batch, length, **steps, **options))
        # The previous step's outputs, as a GPU may still be working on this step.
        outputs[-2:-1] = map(_as_arrays, outputs[-2:-1])
        if progress:
            progress(len(outputs), len(batches))
    outputs[-1] = _as_arrays(outputs[-1])
    order = np.argsort(np.concatenate(numbers))
    if len(outputs) == 1:
        return keras.tree.map_structure(lambda part: part[: len(order)], outputs[0])
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts)[order], *outputs)


def batches_of(rows, batch_size: int, in_order: bool = False) -> list[np.ndarray]:
    """The numbers of each batch's rows, which have similar lengths unless they are `in_order`."""
    order = np.arange(num_rows(rows))
    if not in_order and len(order) > batch_size:
        order = np.argsort(sum(map(_sizes, keras.tree.flatten(rows))), kind="stable")
    return np.split(order, range(batch_size, len(order), batch_size))


def _sizes(texts) -> np.ndarray:
    """The length in bytes or characters of each string [batch], or of the longest one [batch, choices]."""
    if isinstance(texts, np.ndarray):
        lengths = np.vectorize(len, otypes=[int])(texts)
    else:
        import tensorflow as tf

        lengths = tf.strings.length(texts).numpy()
    return lengths.reshape(len(texts), -1).max(axis=1)


def read_and_run(
    model,
    read: Callable[..., Any],
    run: Callable[..., Any],
    *tensors: Any,
    size: int,
    reading: Mapping[str, Hashable],
    **options: Hashable,
) -> Any:
    """`run(model, read(model, *tensors, **reading), **options)`, perhaps with extra rows, up to `size`.

    It is one graph on TensorFlow; on other backends, reading is a graph of its own.
    """
    if keras.backend.backend() == "tensorflow":
        steps = {"read": read, "run": run, "reading": tuple(reading.items())}
        return in_graph(model, _read_and_run, *tensors, **steps, **options)
    return on_rows(model, run, in_graph(model, read, *tensors, **reading), size, **options)


def _read_and_run(model, *tensors, read, run, reading, **options):
    return run(model, read(model, *tensors, **dict(reading)), **options)


def on_rows(model, function, inputs: Mapping[str, Any], size: int, **options: Hashable):
    """`on_model(model, function, inputs, **options)`; on JAX the last row is repeated up to `size` rows.

    JAX compiles for each number of rows.
    """
    if keras.backend.backend() != "tensorflow":
        number = len(next(iter(inputs.values())))
        rows = np.minimum(np.arange(size), number - 1)
        inputs = {name: np.asarray(value)[rows] for name, value in inputs.items()}
    return on_model(model, function, inputs, **options)


def _read(model, texts, length, *, preprocessor, per_token: bool, role: str | None):
    """A batch's inputs; with `per_token`, at least `length` tokens long."""
    read = model.texts_to_inputs if role is None else partial(model.column_inputs, role)
    if per_token:
        return preprocessor.widened(read(texts, preprocessor), length)
    return read(texts, for_this_device(preprocessor))


def _as_arrays(outputs):
    return keras.tree.map_structure(ops.convert_to_numpy, outputs)


def runs_alone(model) -> bool:
    """Whether a step of `predict` is just a call of the model: on one device, without XLA."""
    if keras.backend.backend() != "tensorflow":
        return keras.distribution.distribution() is None
    return strategy_of(model) is None and not (model.compiled and model.jit_compile)


def predict_texts(model, texts, batch_size: int | None, verbose: int | str) -> Any:
    """`model.predict` of texts, with Keras's progress bar if `verbose` asks for it."""
    progress = None
    if verbose:
        verbose = 1 if verbose == "auto" else verbose
        bar = keras.utils.Progbar(None, verbose=verbose, unit_name="step")

        def progress(done: int, steps: int) -> None:
            bar.target = steps
            bar.update(done, finalize=done == steps)

    options = {"per_token": model.outputs_per_token, "progress": progress}
    return outputs_of_texts(model, _predicted, texts, batch_size, **options)


def _predicted(model, inputs):
    if keras.backend.backend() == "jax":  # its `predict_step` also takes the weights
        return model(inputs, training=False)
    return model.predict_step((inputs,))


def tokenized(model, texts) -> list[np.ndarray]:
    """The ids of each text, int32 [tokens], from a string tensor or array [batch]."""
    if not has_tensorflow:
        return [*map(np.int32, model.preprocessor.tokenize(texts))]
    ids, splits = in_graph(model, _tokenize, texts, preprocessor=model.preprocessor)
    ids = ids.numpy()
    return [ids[start:end] for start, end in itertools.pairwise(splits.numpy())]


def _tokenize(model, texts, *, preprocessor):
    tokens = preprocessor.tokenizer(texts)
    return tokens.values, tokens.row_splits
