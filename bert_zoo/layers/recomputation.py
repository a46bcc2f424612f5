"""Training a layer without storing what it computes: gradients compute it a second time."""

import keras
from keras import ops


def recomputed(layer: keras.layers.Layer, *args, **options: bool):
    """The first output of a layer; what it takes to get there is not held until the gradient.

    Same results and gradients as `layer(*args, **options)[0]`, with less memory and about a
    third more time (Chen et al. 2016, arXiv:1604.06174). Only the layer's inputs are held.

    Args:
        layer: built; returns a tuple.
        *args: tensors, variables, None, or sequences of these.
        **options: passed on, such as `training`.
    """
    # `keras.remat` of Keras 3.15 runs the layer twice. Dropout would then draw twice, so that
    # gradients would be those of other masks than the loss (TensorFlow), or its state would leave
    # the function that it belongs to (JAX). So the function is made pure: states come in as they
    # were before, and how far they have moved comes out, as floats, which both backends can bear.
    trainable, constant = layer.trainable_variables, layer.non_trainable_variables
    weights = {id(weight) for weight in layer.weights}
    seeds = [index for index, v in enumerate(constant) if id(v) not in weights]
    # `value` alone is, on TensorFlow, a thing that changes with the variable.
    before = [ops.stop_gradient(variable.value) for variable in constant]
    leaves = [
        leaf.value if isinstance(leaf, keras.Variable) else leaf
        for leaf in keras.tree.flatten(args)
    ]

    def run(*tensors):
        values, inputs = tensors[: len(trainable)], iter(tensors[len(trainable) :])
        given = [None if leaf is None else next(inputs) for leaf in leaves]
        outputs, after = layer.stateless_call(
            list(values),
            before,
            *keras.tree.pack_sequence_as(args, given),
            **options,
        )
        moved = [ops.cast(after[index] - before[index], "float32") for index in seeds]
        return (outputs[0], *moved)

    values = [variable.value for variable in trainable]
    output, *moved = keras.remat(run)(*values, *(leaf for leaf in leaves if leaf is not None))
    for index, steps in zip(seeds, moved, strict=True):
        constant[index].assign(before[index] + ops.cast(steps, before[index].dtype))
    return output
