"""T5's layers: norms without means, attention without scale, and the decoder.

Source: Raffel et al. 2020 (arXiv:1910.10683), section 2.1; tensorflow/mesh
mesh_tensorflow/transformer/transformer_layers.py.
"""

from typing import Any

import keras
from keras import ops

from bert_zoo.layers.attention import (
    SelfAttention,
    at_queries,
    attention_bias,
    bias_between_documents,
    causal_bias,
    masked_score,
)
from bert_zoo.layers.backbones import Ids, TransformerBackbone
from bert_zoo.layers.block import PreNormBlock
from bert_zoo.layers.common import (
    at_least_one,
    at_positions,
    dense,
    float_table,
    table,
    vocabulary_logits,
)
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.recomputation import recomputed
from bert_zoo.layers.relative_bias import RelativeBias


class RMSNorm(keras.layers.Layer):
    """Features divided by the root of their mean square, and scaled (Zhang and Sennrich 2019).

    Args:
        epsilon: added to the mean square.
        dropout: rate on the output.
    """

    def __init__(self, epsilon: float, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.gamma = self.add_weight(shape=input_shape[-1:], initializer="ones", name="gamma")
        self.built = True

    def call(self, x, training=None):
        dtype = keras.backend.standardize_dtype(x.dtype)
        precise = ops.cast(x, keras.backend.result_type(dtype, "float32"))
        mean_square = ops.mean(ops.square(precise), axis=-1, keepdims=True)
        normed = precise * ops.rsqrt(mean_square + self.epsilon)
        normed = ops.cast(normed * ops.cast(self.gamma, normed.dtype), dtype)
        return self.dropout(normed, training=training)


def rms_norm(name: str, *, use_bias: bool, **options) -> RMSNorm:
    """What `bert_zoo.layers.block.Block` takes as `make_norm`; it has no bias."""
    return RMSNorm(name=name, **options)


class Attention(SelfAttention):
    """Attention of tokens to those of their text or of another one.

    Scores are not divided by the root of the heads' width; queries begin smaller instead.

    Args: as `SelfAttention`.
    """

    def make_projections(self, *, stddev: float, **options):
        narrow = stddev * self.head_size**-0.5
        self.query = dense(self.inner_size, "query", stddev=narrow, **options)
        self.key_value = dense(2 * self.inner_size, "key_value", stddev=stddev, **options)

    def build(self, input_shape):
        self.query.build(input_shape)
        self.key_value.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.inner_size))
        self.built = True

    def keys_values(self, x, length):
        """What tokens x [batch * length, hidden_size] show to queries.

        Returns:
            Keys [batch, heads, head_size, length] and values [batch, heads, length, head_size].
        """
        key, value = (self._heads(part, length) for part in ops.split(self.key_value(x), 2, -1))
        return ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))

    def call(self, x, bias, positions=None, seen=None, training=None):
        """As `SelfAttention.call`, or of other keys than those of x.

        Args:
            x, positions: as there.
            bias: [batch or, of other keys, 1; 1 or heads, 1 or queries, keys], added to the scores.
            seen: keys and values, as `keys_values` gives them; None for those of x.
        """
        if seen is None:
            length = ops.shape(bias)[-1]
            seen = self.keys_values(x, length)
        else:
            length = at_least_one(ops.shape(x)[0] // at_least_one(ops.shape(seen[0])[0]))
        query = self._heads(self.query(x), length)
        if positions is not None:
            query, bias = at_positions(query, positions), at_queries(bias, positions)
        query = ops.transpose(query, (0, 2, 1, 3))
        return self.attended(query, *seen, bias, training)

    def _heads(self, x, length):
        """[batch * length, inner_size] to [batch, length, heads, head_size]."""
        return ops.reshape(x, (-1, length, self.num_heads, self.head_size))


class T5Backbone(TransformerBackbone):
    """Token embeddings and a `BiasedStack`, which tells where tokens stand.

    Documents of a row need no positions, as distances between their tokens are those in the row.

    Args: as `TransformerBackbone`.

    Raises:
        ValueError: it is to compute in float16.
    """

    embedded_ids = ("token_ids",)

    def __init__(self, config, **options):
        super().__init__(config, **options)
        if self.compute_dtype == "float16":
            raise ValueError(
                "T5 was trained in bfloat16, and what its feed-forward layers add exceeds the range of "
                "float16. Load it with dtype='mixed_bfloat16', or in float32."
            )

    @property
    def inputs(self) -> dict[str, Ids]:
        inputs = super().inputs
        del inputs["position_ids"]
        return inputs


# --- The decoder ---------------------------------------------------------------------------------


class DecoderBlock(PreNormBlock):
    """A `PreNormBlock` that also attends to an encoder's text, between the two sublayers of its parent.

    Args:
        attention, feed_forward, **options: as of `PreNormBlock`.
        cross_attention: an `Attention`, to the encoder's outputs.
        epsilon, make_norm: of the norms.
    """

    def __init__(self, attention, feed_forward, cross_attention, *, epsilon, **options):
        super().__init__(attention, feed_forward, epsilon=epsilon, make_norm=rms_norm, **options)
        self.cross_attention = cross_attention
        self.cross_norm = RMSNorm(epsilon, dtype=self.dtype_policy, name="cross_norm")

    def build(self, input_shape):
        self.cross_attention.build(input_shape)
        self.cross_norm.build(input_shape)
        super().build(input_shape)

    def call(self, x, bias, source, source_bias, memory=None, start=None, training=None):
        """One layer, of tokens that follow those in memory.

        Args:
            x: [batch * length, hidden_size].
            bias: [batch or 1, heads, length, keys], added to the scores of their own text.
            source, source_bias: what `cross_attention.keys_values` gives of the encoder's outputs, and
                what is added to their scores, [batch, 1, 1, source length].
            memory: keys and values of earlier tokens, with free slots, see `Decoder`; None for none.
            start: int32 scalar, the first slot that x takes.

        Returns:
            [batch * length, hidden_size], and keys and values of all tokens.
        """
        normed = self.attention_norm(x)
        keys, values = self.attention.keys_values(normed, ops.shape(bias)[2])
        if memory is not None:
            keys = ops.slice_update(memory[0], (0, 0, 0, start), keys)
            values = ops.slice_update(memory[1], (0, 0, start, 0), values)
        attended, _ = self.attention(normed, bias, seen=(keys, values), training=training)
        x = x + self.dropout(attended, training=training)
        normed = self.cross_norm(x)
        crossed, _ = self.cross_attention(normed, source_bias, seen=source, training=training)
        x = x + self.dropout(crossed, training=training)
        fed = self.feed_forward(self.output_norm(x))
        return x + self.dropout(fed, training=training), (keys, values)


class Decoder(keras.layers.Layer):
    """From tokens of a target, and an encoder's outputs, to the logits of the tokens that follow.

    A call reads whole targets. Generation goes on token by token: `source` computes once what all steps
    read of the encoder's outputs; `initial_memory` makes slots for the keys and values of a number of
    tokens; `step` reads some tokens more, whose slots begin at `start`, and gives the memory with theirs
    in it. Shapes in and out are the same, so that one compiled step serves all of a text. All rows of a
    target begin at slot 0: padding stands after their tokens.

    Args:
        blocks: `DecoderBlock`s.
        relative_bias: a causal `RelativeBias`.
        final_norm: a layer over the last hidden states.
        vocab_size, hidden_size: of the logits, and of what the decoder reads.
        tied: whether logits are by the encoder's token table; else by a table of its own.
        scale: factor of the last hidden states before that.
        initializer_range: of that table.

    Attributes:
        rematerialize: as of `Stack`.
    """

    def __init__(
        self,
        blocks,
        relative_bias: RelativeBias,
        final_norm,
        *,
        vocab_size: int,
        hidden_size: int,
        tied: bool,
        scale: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.blocks = list(blocks)
        self.relative_bias = relative_bias
        self.final_norm = final_norm
        self.hidden_size = hidden_size
        self.scale = scale
        self.rematerialize = False
        self.logits = None
        if not tied:
            options = {"stddev": initializer_range, "dtype": self.dtype_policy}
            self.logits = table(vocab_size, hidden_size, "logits", **options)

    def build(self, input_shape):
        for layer in (*self.blocks, self.relative_bias, self.final_norm):
            layer.build((None, self.hidden_size))
        if self.logits is not None:
            self.logits.build()
        self.built = True

    def source(self, encoded) -> list[tuple[Any, Any]]:
        """Keys and values of the encoder's outputs [batch, source length, hidden], for each block."""
        length = ops.shape(encoded)[1]
        tokens = ops.reshape(encoded, (-1, self.hidden_size))
        return [block.cross_attention.keys_values(tokens, length) for block in self.blocks]

    def initial_memory(self, batch_size: int, slots: int) -> list[tuple[Any, Any]]:
        """Keys [batch, heads, head_size, slots] and values [batch, heads, slots, head_size] of no tokens yet,
        for each block."""
        attention = self.blocks[0].attention
        rows, size = (batch_size, attention.num_heads), attention.head_size
        return [
            tuple(
                ops.zeros((*rows, *shape), self.compute_dtype)
                for shape in ((size, slots), (slots, size))
            )
            for _ in self.blocks
        ]

    def call(
        self,
        x,
        encoded,
        token_table,
        *,
        padding_mask=None,
        source_mask=None,
        document_ids=None,
        source_document_ids=None,
        training=None,
    ):
        """Logits after each token of whole targets.

        Args:
            x: embeddings of the targets' tokens, shifted to the right [batch, length, hidden].
            encoded: the encoder's outputs [batch, source length, hidden].
            token_table: the encoder's table [vocab_size, hidden].
            padding_mask, source_mask: int [batch, length] and [batch, source length], 1 for real tokens; all
                are by default.
            document_ids, source_document_ids: of rows of several targets, which of them, and of their
                sources, each token is of, from 1 on.

        Returns:
            float32 [batch, length, vocab_size].
        """
        dtype = keras.backend.standardize_dtype(x.dtype)
        padding_mask = ops.ones_like(x[..., 0]) if padding_mask is None else padding_mask
        length = ops.shape(x)[1]
        causal = causal_bias(length, length, None, dtype)
        bias = ops.minimum(attention_bias(padding_mask, dtype), causal)
        source_mask = ops.ones_like(encoded[..., 0]) if source_mask is None else source_mask
        source_bias = attention_bias(source_mask, dtype)
        if document_ids is not None:
            bias = ops.minimum(bias, bias_between_documents(document_ids, dtype))
            apart = bias_between_documents(document_ids, dtype, source_document_ids)
            source_bias = ops.minimum(source_bias, apart)
        bias = bias + self.relative_bias(x)
        logits, _ = self._run(
            x, bias, self.source(encoded), source_bias, token_table, training=training
        )
        return logits

    def step(self, x, source, source_mask, token_table, memory, start):
        """Logits after each of some tokens more, and the memory with them.

        Args:
            x: embeddings of tokens [batch, number, hidden].
            source: what `source` gave.
            source_mask: int [batch, source length], 1 for real tokens.
            token_table: as of `call`.
            memory: what `initial_memory` or the step before gave.
            start: int32 scalar, how many tokens are in it. Where too few slots are left, logits are no
                numbers.

        Returns:
            float32 [batch, number, vocab_size], and the new memory.
        """
        dtype = keras.backend.standardize_dtype(x.dtype)
        length, slots = ops.shape(x)[1], ops.shape(memory[0][0])[3]
        queries = start + ops.arange(length, dtype="int32")
        offsets = ops.arange(slots, dtype="int32")[None, :] - queries[:, None]
        later = ops.cast(offsets > 0, dtype) * masked_score(dtype)
        bias = (self.relative_bias.at(offsets) + later)[None]
        # Or tokens would take the place of others, in silence.
        bias = ops.where(start + length > slots, float("nan"), bias)
        source_bias = attention_bias(source_mask, dtype)
        return self._run(x, bias, source, source_bias, token_table, memory, start)

    def _run(
        self, x, bias, source, source_bias, token_table, memory=None, start=None, training=None
    ):
        """Logits, and the keys and values of all tokens for each block."""
        length = ops.shape(x)[1]
        x = ops.reshape(x, (-1, self.hidden_size))
        memory = [None] * len(self.blocks) if memory is None else memory
        seen = []
        for block, of_source, of_block in zip(self.blocks, source, memory, strict=True):
            inputs = (x, bias, of_source, source_bias)
            if self.rematerialize and training:
                x = recomputed(block, *inputs, training=training)
                continue
            options = {"memory": of_block, "start": start, "training": training}
            x, keys_values = block(*inputs, **options)
            seen.append(keys_values)
        x = self.final_norm(x, training=training) * self.scale
        token_table = token_table if self.logits is None else float_table(self.logits)
        logits = vocabulary_logits(x, token_table)
        return ops.reshape(logits, (-1, length, logits.shape[-1])), seen
