"""Which attention heads a task needs, and what its score loses without the others.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?" (arXiv:1905.10650), section 4.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.data_adapters import num_rows, rows_of
from bert_zoo.models.graphs import on_model
from bert_zoo.runtime.printed import table


def head_importance(model: ZooModel, x, y=None) -> np.ndarray:
    """How much the loss would change if a head's output did: float64 [layers, heads].

    The absolute derivative of the loss to a factor of the head's output, at 1; mean over examples, divided by
    the length of a layer's vector of these (section 4.1). Where layers share their weights, as ALBERT's do, they
    are one layer here. Of models with a decoder, heads are the encoder's.

    Args:
        model: a model with a loss, as `fit` trains it; it stays as it is.
        x, y: labelled examples, as `evaluate` takes them. Each is one step; of a tf.data.Dataset, each
            batch counts as one example.

    Raises:
        ValueError: a model without a loss, or whose heads cannot be told apart.
    """
    if not model.compiled:
        raise ValueError(
            f"This model, of task {model.task!r}, has no loss, and a head's importance is its effect on that. Load "
            "a checkpoint that was trained for a task."
        )
    layers = attention_layers(model)
    total, number = np.zeros((len(layers), layers[0].num_heads)), 0
    for number, example in enumerate(_examples(model, x, y), 1):
        # Of TensorFlow's pipelines on JAX, too.
        example = keras.tree.map_structure(np.asarray, example)
        if number == 1:
            # Losses of several outputs make variables at the first call, which a graph must not.
            _loss(model, *example)
        total += ops.convert_to_numpy(on_model(model, _derivatives, *example))
    if not number:
        raise ValueError("There are no examples: x is empty.")
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    return np.divide(total, lengths, out=np.zeros_like(total), where=lengths > 0)


def prune_heads(model: ZooModel, heads: Iterable[tuple[int, int]]) -> None:
    """Has attention heads give zeros, in place; what is saved afterwards is without them.

    Their rows of the kernel behind all heads become zeros, so that the model keeps its shape and its time. Where
    layers share their weights, a head is pruned in all of them.

    Args:
        model: any model of the zoo with attention.
        heads: the layer and the number of each, from 0.

    Raises:
        ValueError: there is no such head, or heads cannot be told apart.
    """
    layers = attention_layers(model)
    kept = [np.ones(layer.num_heads) for layer in layers]
    for layer, head in heads:
        if not (0 <= layer < len(layers) and 0 <= head < layers[layer].num_heads):
            raise ValueError(
                f"There is no head {(layer, head)!r}: layers are 0 to {len(layers) - 1}, and heads 0 to "
                f"{layers[0].num_heads - 1}."
            )
        kept[layer][head] = 0
    for layer, mask in zip(layers, kept, strict=True):
        kernel = layer.output_dense.kernel
        rows = np.repeat(mask, layer.head_size)[:, None]
        kernel.assign(kernel.value * ops.cast(rows, kernel.dtype))


@dataclass(frozen=True)
class PruningCurve:
    """A model's scores with fewer and fewer heads.

    Attributes:
        heads: the layer and the number of every head, those first that are pruned first.
        pruned: int64 [steps], how many of them were pruned.
        scores: what `evaluate` gives, by name: float64 [steps].
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
    """What `evaluate` gives with ever more of the least important heads pruned (section 4.2).

    Args:
        model: a model with a loss; it has all of its heads again in the end.
        x, y: labelled examples, as `evaluate` takes them.
        importance: [layers, heads], as of `head_importance`; random numbers show what any order would lose.
        fractions: which part of all heads is pruned in each step, ascending.
        batch_size: examples a step.

    Raises:
        ValueError: as `prune_heads`.
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
    """The self-attention of each of the encoder's blocks, with `num_heads`, `head_size` and `output_dense`.

    Raises:
        ValueError: an encoder whose blocks have none, or kernels that are quantized or have LoRA.
    """
    encoder = encoder_of(model)
    blocks = getattr(encoder.backbone.groups().stack, "blocks", ())
    layers = [getattr(block, "attention", None) for block in blocks]
    dense = [getattr(layer, "output_dense", None) for layer in layers]
    if not dense or None in dense:
        raise ValueError(
            f"The encoder, of the family {encoder.family}, has no attention heads to prune. Choose a Transformer."
        )
    if any(layer.quantization_mode or layer.lora_enabled for layer in dense):
        raise ValueError(
            "The kernels of attention are quantized or have LoRA, so that heads cannot be zeroed. Save the model, "
            "which takes LoRA in, and load it again without quantization."
        )
    return layers


def _examples(model: ZooModel, x, y) -> Iterator[tuple]:
    """Batches of one example: inputs, labels and perhaps weights."""
    data = model.training_arguments(x, y, batch_size=1)
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
    """float [layers, heads]: absolute derivatives of the loss to a factor of each head's output.

    Such a factor scales the head's rows of the kernel that reads it.
    """
    layers = attention_layers(model)
    kernels = [layer.output_dense.kernel for layer in layers]
    values = [ops.convert_to_tensor(kernel.value) for kernel in kernels]
    # JAX's values in the scope around this one, which the scope below hides.
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
