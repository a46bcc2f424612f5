"""T5's layers: norms without means, attention without scale, and the decoder.

Source: Raffel et al. 2020 (arXiv:1910.10683), section 2.1; tensorflow/mesh
mesh_tensorflow/transformer/transformer_layers.py.
"""

from dataclasses import replace
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.attention import (
    RelativeBias,
    SelfAttention,
    at_queries,
    attention_bias,
    bias_between_documents,
    causal_bias,
    masked_score,
)
from bert_zoo.layers.backbones import Groups, Ids, TransformerBackbone
from bert_zoo.layers.block import PreNormBlock, recomputed
from bert_zoo.layers.common import (
    RMSNorm,
    at_least_one,
    at_positions,
    dense,
    float_table,
    rms_norm,
    table,
    vocabulary_logits,
    with_slots,
)


class Attention(SelfAttention):
    """Attention to the tokens of the same text or of another one. Scores are not divided by the root of the head size;
    the initial query weights are smaller instead. `relative_bias` is added to the scores; None if the bias of `call`
    has it.
    """

    def __init__(self, *arguments, relative_bias: RelativeBias | None = None, **options):
        super().__init__(*arguments, **options)
        self.relative_bias = relative_bias

    def make_projections(self, *, stddev: float, **options):
        narrow = stddev * self.head_size**-0.5
        self.query = dense(self.inner_size, "query", stddev=narrow, **options)
        self.key_value = dense(2 * self.inner_size, "key_value", stddev=stddev, **options)

    def build(self, input_shape):
        self.query.build(input_shape)
        self.key_value.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.inner_size))
        if self.relative_bias is not None:
            self.relative_bias.build(None)
        self.built = True

    def keys_values(self, x, length):
        """[batch, heads, head_size, length] and [batch, heads, length, head_size], of x [batch * length, hidden]."""
        key, value = (self._heads(part, length) for part in ops.split(self.key_value(x), 2, -1))
        return ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))

    def call(self, x, bias, positions=None, seen=None, start=None, training=None):
        """Like `SelfAttention.call`, or attends to keys and values `seen` from `keys_values`, with a bias [batch or 1,
        1 or heads, 1 or queries, keys]. `start` is the first query's number among the keys; None: as many queries as
        keys.
        """
        if self.relative_bias is not None:
            keys = ops.shape(bias)[-1]
            queries = ops.arange(keys) if start is None else start + ops.arange(ops.shape(bias)[2])
            bias = bias + self.relative_bias.at(ops.arange(keys)[None, :] - queries[:, None])[None]
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
    """Token embeddings and a `BiasedStack`; with a `decoder`, its hidden states are the `sequence_output`. It reads the
    same text shifted to the right, after the id of padding. Documents of a row need no positions, because distances
    within them are the same as in the row.
    """

    embedded_ids = ("token_ids",)

    def __init__(self, config, *, decoder: "Decoder | None" = None, **options):
        super().__init__(config, **options)
        self.decoder = decoder
        if self.compute_dtype == "float16":
            raise ValueError(
                "T5 was trained in bfloat16, and the outputs of its feed-forward layers exceed the range of "
                "float16. Load it with dtype='mixed_bfloat16', or in float32."
            )

    @property
    def inputs(self) -> dict[str, Ids]:
        inputs = super().inputs
        del inputs["position_ids"]
        return inputs

    def groups(self) -> Groups:
        groups = super().groups()
        return groups if self.decoder is None else replace(groups, top=(*groups.top, self.decoder))

    def call(self, inputs, positions=None, training=None):
        if self.decoder is None:
            return super().call(inputs, positions, training)
        if inputs.get("document_ids") is not None:
            raise ValueError(
                "The decoder reads one text per row here, but rows with document_ids hold several. Give each "
                "document a row of its own, or leave document_ids out."
            )
        outputs = super().call(inputs, None, training)
        shifted = ops.pad(
            inputs["token_ids"][:, :-1], [(0, 0), (1, 0)], constant_values=self.config.pad_id
        )
        states = self.decoder.states(
            self.embeddings(shifted, training=training),
            outputs["sequence_output"],
            source_mask=inputs.get("padding_mask"),
            training=training,
        )
        if positions is not None:
            states = at_positions(states, positions)
        return {**outputs, "sequence_output": states}


class DecoderBlock(PreNormBlock):
    """T5's decoder block: self-attention, attention to the encoder's outputs, and feed-forward layer.

    Each sublayer has a norm before it and a residual sum after it.

    Args:
        attention, feed_forward, **options: as in `PreNormBlock`.
        cross_attention: an `Attention` to the encoder's outputs.
        epsilon: number that the norms add to the mean square.
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
        """Runs the block on tokens that follow those in memory.

        Args:
            x: [batch * length, hidden_size].
            bias: [batch or 1, 1 or heads, length, keys], added to the scores of self-attention.
            source: keys and values of the encoder's outputs, from `cross_attention.keys_values`.
            source_bias: [batch, 1, 1 or length, source length], added to their scores.
            memory: keys and values of earlier tokens, with free slots; None for none. See `Decoder`.
            start: int32 scalar, the first slot for the tokens of x.

        Returns:
            The output [batch * length, hidden_size], and keys and values of all tokens.
        """
        normed = self.attention_norm(x)
        keys, values = self.attention.keys_values(normed, ops.shape(bias)[2])
        if memory is not None:
            keys = with_slots(memory[0], keys, start, axis=3)
            values = with_slots(memory[1], values, start, axis=2)
        attended, _ = self.attention(
            normed, bias, seen=(keys, values), start=start, training=training
        )
        x = x + self.dropout(attended, training=training)
        normed = self.cross_norm(x)
        crossed, _ = self.cross_attention(normed, source_bias, seen=source, training=training)
        x = x + self.dropout(crossed, training=training)
        fed = self.feed_forward(self.output_norm(x))
        return x + self.dropout(fed, training=training), (keys, values)


class Decoder(keras.layers.Layer):
    """T5's decoder: from a target's tokens and the encoder's outputs to the logits of the next tokens.

    A call reads whole targets. To generate token by token, compute the encoder's keys and values once with
    `source`, make slots for the target's keys and values with `initial_memory`, and call `step` with the
    next tokens and the number of the first free slot; it returns the logits and the new memory. Shapes
    stay the same, so one compiled step serves the whole text. All targets start at slot 0, and padding
    follows their tokens.

    Args:
        blocks: `DecoderBlock`s.
        relative_bias: a causal `RelativeBias`; None if the blocks have their own.
        final_norm: a layer applied to the last hidden states.
        vocab_size: number of logits.
        hidden_size: width of the hidden states.
        tied: whether to project onto the encoder's token table instead of a table of its own.
        scale: factor of the last hidden states before the projection.
        initializer_range: standard deviation of the decoder's own randomly initialised table.

    Attributes:
        rematerialize: as in `Stack`.
    """

    def __init__(
        self,
        blocks,
        relative_bias: RelativeBias | None,
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
        for layer in (*self.blocks, self.final_norm):
            layer.build((None, self.hidden_size))
        if self.relative_bias is not None:
            self.relative_bias.build(None)
        if self.logits is not None:
            self.logits.build()
        self.built = True

    def source(self, encoded) -> list[tuple[Any, Any]]:
        """For each block, keys and values of the encoder's outputs [batch, source length, hidden]."""
        length = ops.shape(encoded)[1]
        tokens = ops.reshape(encoded, (-1, self.hidden_size))
        return [block.cross_attention.keys_values(tokens, length) for block in self.blocks]

    def initial_memory(self, batch_size: int, slots: int) -> list[tuple[Any, Any]]:
        """For each block, empty slots for keys [batch, heads, head_size, slots] and values
        [batch, heads, slots, head_size]."""
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
            token_table: the encoder's token table [vocab_size, hidden].
            padding_mask, source_mask: int [batch, length] and [batch, source length], 1 for real tokens; by
                default all are real.
            document_ids, source_document_ids: for rows of several targets and sources, the number of each
                token's target or source, from 1.

        Returns:
            float32 [batch, length, vocab_size].
        """
        states = self.states(
            x,
            encoded,
            padding_mask=padding_mask,
            source_mask=source_mask,
            document_ids=document_ids,
            source_document_ids=source_document_ids,
            training=training,
        )
        return self._logits(states, token_table)

    def states(
        self,
        x,
        encoded,
        *,
        padding_mask=None,
        source_mask=None,
        document_ids=None,
        source_document_ids=None,
        training=None,
    ):
        """The last hidden states [batch, length, hidden] of whole targets; arguments as in `call`."""
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
        if self.relative_bias is not None:
            bias = bias + self.relative_bias(x)
        states, _ = self._run(x, bias, self.source(encoded), source_bias, training=training)
        return states

    def step(self, x, source, source_mask, token_table, memory, start):
        """Logits after each of the next tokens, and the memory with these tokens.

        Args:
            x: embeddings of the next tokens [batch, number, hidden].
            source: the result of the method `source`.
            source_mask: int [batch, source length], 1 for real tokens.
            token_table: as in `call`.
            memory: the memory from `initial_memory` or the previous step.
            start: int32 scalar, the number of tokens in memory. If too few slots are left, logits are NaN.

        Returns:
            float32 [batch, number, vocab_size], and the new memory.
        """
        dtype = keras.backend.standardize_dtype(x.dtype)
        length, slots = ops.shape(x)[1], ops.shape(memory[0][0])[3]
        queries = start + ops.arange(length, dtype="int32")
        offsets = ops.arange(slots, dtype="int32")[None, :] - queries[:, None]
        later = ops.cast(offsets > 0, dtype) * masked_score(dtype)
        if self.relative_bias is not None:
            later = self.relative_bias.at(offsets) + later
        bias = ops.reshape(later, (1, -1, length, slots))
        # Otherwise tokens would silently overwrite others.
        bias = ops.where(start + length > slots, float("nan"), bias)
        source_bias = attention_bias(source_mask, dtype)
        states, memory = self._run(x, bias, source, source_bias, memory, start)
        return self._logits(states, token_table), memory

    def _run(self, x, bias, source, source_bias, memory=None, start=None, training=None):
        """The last hidden states, and for each block the keys and values of all tokens."""
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
        x = self.final_norm(x, training=training)
        return ops.reshape(x, (-1, length, self.hidden_size)), seen

    def _logits(self, states, token_table):
        """The logits of hidden states [batch, length, hidden]."""
        length = ops.shape(states)[1]
        token_table = token_table if self.logits is None else float_table(self.logits)
        x = ops.reshape(states, (-1, self.hidden_size)) * self.scale
        logits = vocabulary_logits(x, token_table)
        return ops.reshape(logits, (-1, length, logits.shape[-1]))
