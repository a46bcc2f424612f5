"""Transformer blocks, their feed-forward sublayer, recomputation, and stacks of them."""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from bert_zoo.layers.common import (
    Activation,
    Dropout,
    at_positions,
    build_all,
    dense,
    in_rows,
    norm,
    number_of,
)


class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between them (Vaswani et al. 2017, section 3.3).

    With `gated`, the first layer is twice as wide: one half goes through the activation and is multiplied
    by the other half (Shazeer 2020, arXiv:2002.05202).

    Args:
        intermediate_size: width between the two layers.
        hidden_size: width of input and output.
        activation: a name in `bert_zoo.config.ACTIVATIONS`.
        initializer_range: standard deviation of randomly initialised weights.
        inner_dropout: rate after the activation.
        gated: whether the layer is gated.
        use_bias: whether the dense layers have biases.
        output_bias: the same for the second layer; by default `use_bias`.
        output_range: as `initializer_range`, for the second layer; the same by default.
        activates_output: whether the activation also follows the second layer.
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        *,
        activation: str,
        initializer_range: float,
        inner_dropout: float = 0.0,
        gated: bool = False,
        use_bias: bool = True,
        output_bias: bool | None = None,
        output_range: float | None = None,
        activates_output: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.activates_output = activates_output
        self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")
        self.intermediate_size = intermediate_size
        self.gated = gated
        self.intermediate = dense(
            (1 + gated) * intermediate_size,
            "intermediate",
            stddev=initializer_range,
            use_bias=use_bias,
            dtype=self.dtype_policy,
        )
        self.output_dense = dense(
            hidden_size,
            "output",
            stddev=output_range or initializer_range,
            use_bias=use_bias if output_bias is None else output_bias,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(inner_dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.intermediate.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate_size))
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] to the same shape."""
        inner = self.intermediate(x)
        inner, *gate = ops.split(inner, 2, axis=-1) if self.gated else [inner]
        inner = self.activation(inner, training=training)
        inner = inner * gate[0] if gate else inner
        output = self.output_dense(self.dropout(inner, training=training))
        return self.activation(output) if self.activates_output else output


class Block(keras.layers.Layer):
    """The parts of a block, whose order subclasses define: attention (x, ...) -> (output, probabilities), feed-forward
    layer x -> output, two norms made by `make_norm` (arguments as `common.norm`), and dropout on both outputs.
    Without `norm_first`, attention has no norm: the first block of a stack may read embeddings that are normalised
    already.
    """

    def __init__(
        self,
        attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        *,
        epsilon: float,
        dropout: float,
        norm_bias: bool = True,
        norm_first: bool = True,
        make_norm: Callable[..., keras.layers.Layer] = norm,
        **kwargs,
    ):
        super().__init__(**kwargs)
        options = {"epsilon": epsilon, "use_bias": norm_bias, "dtype": self.dtype_policy}
        self.attention = attention
        self.attention_norm = make_norm("attention_norm", **options) if norm_first else None
        self.feed_forward = feed_forward
        self.output_norm = make_norm("output_norm", **options)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        norms = (self.attention_norm, self.output_norm)
        build_all(input_shape, self.attention, self.feed_forward, *norms)
        self.built = True


class PostNormBlock(Block):
    """Attention and feed-forward layer, each followed by dropout, residual sum and layer norm.

    Source: google-research/bert modeling.py, transformer_model.

    Args:
        attention: a layer (x, bias) -> (output, probabilities), such as `SelfAttention`.
        feed_forward: a layer x -> output, such as `FeedForward`.
        epsilon: number that both layer norms add to the variance.
        dropout: rate on both sublayers' outputs.
        norm_bias, norm_first, make_norm: see `bert_zoo.layers.block.Block`.
    """

    def call(self, x, bias, positions=None, training=None, **options):
        """Runs the block; arguments and results are those of the attention's `call`.

        Args:
            x: [batch * length, hidden_size].
            bias, positions: as in `SelfAttention.call`.
            **options: more arguments of the attention.

        Returns:
            The output [batch * length or number, hidden_size], the probabilities, and further results
            of the attention.
        """
        attended, *others = self.attention(
            x, bias, positions=positions, training=training, **options
        )
        x = residual(x, attended, positions)
        x = self.attention_norm(x + self.dropout(attended, training=training))
        x = self.output_norm(x + self.dropout(self.feed_forward(x), training=training))
        return x, *others


class PreNormBlock(Block):
    """Layer norm, attention, dropout and residual sum; then the same with the feed-forward layer.

    Source: Radford et al. 2019, section 2.3; openai/gpt-2 src/model.py, block. Arguments as in
    `PostNormBlock`.
    """

    def call(self, x, bias, positions=None, training=None, **options):
        """Runs the block; arguments and results as in `PostNormBlock.call`."""
        normed = x if self.attention_norm is None else self.attention_norm(x)
        attended, *others = self.attention(
            normed, bias, positions=positions, training=training, **options
        )
        x = residual(x, attended, positions)
        x = x + self.dropout(attended, training=training)
        fed = self.feed_forward(self.output_norm(x))
        return x + self.dropout(fed, training=training), *others


def residual(x, attended, positions):
    """The tokens of x [batch * length, hidden] at `positions`, in the shape of `attended` [tokens, hidden]."""
    if positions is None:
        return x
    rows = in_rows(x, ops.shape(attended)[0] // number_of(positions))
    return ops.reshape(at_positions(rows, positions), (-1, x.shape[-1]))


def recomputed(layer: keras.layers.Layer, *args, **options: bool):
    """`layer(*args, **options)[0]`, whose intermediate results are recomputed for the gradient. Only the inputs
    (tensors, variables, None, or sequences of these) are kept: less memory and about a third more time (Chen et al.
    2016, arXiv:1604.06174).
    """
    # `keras.remat` of Keras 3.15 runs the layer twice. Dropout would then draw twice: on TensorFlow the
    # gradient would use other masks than the loss, and on JAX the state would leak out of its function.
    # So the function is pure: it takes the states before the call and returns how far they moved, as
    # floats, which work on both backends.
    trainable, constant = layer.trainable_variables, layer.non_trainable_variables
    weights = {id(weight) for weight in layer.weights}
    seeds = [index for index, v in enumerate(constant) if id(v) not in weights]
    # On TensorFlow, `value` alone would change with the variable.
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


class Stack(keras.layers.Layer):
    """Runs layers one after the other. Layers may share their blocks (ALBERT, section 3.1).

    Args:
        blocks: layers (x, bias) -> (x, probabilities).
        hidden_size: width of x.
        blocks_of_layers: for each layer, the numbers of the blocks that it runs; by default each layer
            has one block of its own.

    Attributes:
        rematerialize: whether training keeps only the inputs of blocks and recomputes the rest for the
            gradient; there are then no attention probabilities.
    """

    def __init__(
        self,
        blocks: Sequence[keras.layers.Layer],
        hidden_size: int,
        *,
        blocks_of_layers: Sequence[Sequence[int]] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.blocks = list(blocks)
        self.hidden_size = hidden_size
        if blocks_of_layers is None:
            blocks_of_layers = ((number,) for number in range(len(self.blocks)))
        self.blocks_of_layers = tuple(blocks_of_layers)
        self.rematerialize = False

    def build(self, input_shape):
        build_all((None, self.hidden_size), *self.blocks)
        self.built = True

    def call(self, x, bias, positions=None, training=None):
        """Runs the stack.

        Args:
            x: [batch, length, hidden_size].
            bias: [batch, 1, 1 or length, length], added to the attention scores.
            positions: int [batch, number] or `FIRST`: the last block computes only these tokens, which
                saves most of its work. None for all.

        Returns:
            A list of hidden states [batch, length, hidden_size], the input first, one more than layers;
            and a list of attention probabilities [batch, heads, length, length], one for each run of a
            block. With `positions`, the last ones are [batch, number, hidden_size] and
            [batch, heads, number, length].
        """
        length = ops.shape(x)[1]
        hidden_states, attentions = [x], []
        x = ops.reshape(x, (-1, self.hidden_size))
        last = len(self.blocks_of_layers) - 1
        for layer, numbers in enumerate(self.blocks_of_layers):
            for run, number in enumerate(numbers):
                ends = layer == last and run == len(numbers) - 1
                x, *probabilities = self.run(
                    self.blocks[number],
                    x,
                    bias,
                    positions=positions if ends else None,
                    training=training,
                )
                attentions += probabilities
            is_whole = layer < last or positions is None
            tokens = length if is_whole else number_of(positions)
            hidden_states.append(ops.reshape(x, (-1, tokens, self.hidden_size)))
        return hidden_states, attentions

    def run(self, block: keras.layers.Layer, *inputs, training, **options) -> tuple:
        """A block's output and its attention probabilities, or only its output if it is recomputed."""
        if self.rematerialize and training:
            return (recomputed(block, *inputs, training=training, **options),)
        return block(*inputs, training=training, **options)

    def compute_output_shape(self, input_shape, *shapes, **more_shapes):
        # What summary() shows: the last hidden state.
        return input_shape
