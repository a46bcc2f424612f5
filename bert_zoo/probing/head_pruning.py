"""Which attention heads a task needs, and how its score falls as heads are pruned.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?" (arXiv:1905.10650), section 4.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.data_adapters import for_keras, num_rows, rows_of
from bert_zoo.models.graphs import on_model
from bert_zoo.runtime.answers import table


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
    places = np.stack(np.unravel_index(order, importance.shape), -1).tolist()
    heads = tuple((layer, head) for layer, head in places)
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
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(values)
        result = function(values)
    return tape.gradient(result, values, unconnected_gradients="zero")
