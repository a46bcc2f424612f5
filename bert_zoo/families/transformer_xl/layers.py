"""Attention by content and by distance, over a segment and the memory before it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.attention import at_queries, attention_bias, causal_bias, shifted_to_keys
from bert_zoo.layers.backbones import PADDING, Backbone, Ids, check_memory, fits
from bert_zoo.layers.block import Block, Stack
from bert_zoo.layers.common import (
    Dropout,
    at_positions,
    dense,
    float_kernel,
    float_table,
    initializer,
)
from bert_zoo.layers.heads import cluster_tables


def distance_embedding(num_keys: int, width: int, clamp_len: int, dtype: str, ahead: int = 0):
    """Sinusoids of the distances num_keys, ..., 1, 0, -1, ..., -ahead (either may be a tensor) from a query to keys,
    [num_keys + 1 + ahead, width]: sines, then cosines (Dai et al. 2019, section 3.3). No key has the first distance;
    it fills the column that `shifted_to_keys` drops. Longer distances count as `clamp_len`, if that is positive.
    Computed in float32 throughout, as in the originals: their models were trained with float32's rounding of large
    angles.
    """
    distances = ops.cast(ops.arange(num_keys, -1 - ahead, -1), "float32")
    if clamp_len > 0:
        distances = ops.clip(distances, -float(clamp_len), float(clamp_len))
    frequencies = 1 / (10000.0 ** (ops.arange(0, width, 2, dtype="float32") / width))
    angles = distances[:, None] * frequencies[None, :]
    return ops.cast(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1), dtype)


class RelativeAttention(keras.layers.Layer):
    """Transformer-XL's attention by content and distance (Dai et al. 2019, section 3.3).

    Scores are the sum of four terms: (a) query and key, (b) query and distance, (c) the bias u and key,
    (d) the bias v and distance.
    Source: kimiyoung/transformer-xl tf/model.py, rel_multihead_attn.

    Args:
        num_heads, head_size: number of heads, and their width.
        hidden_size: width of input and output.
        dropout: rate on the attention probabilities.
        has_biases: whether the layer has its own u and v; otherwise `call` takes them.
        initializer_range: standard deviation of randomly initialised weights.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        hidden_size: int,
        *,
        dropout: float,
        has_biases: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.hidden_size = hidden_size
        self.has_biases = has_biases
        self.initializer_range = initializer_range
        self.width = num_heads * head_size
        options = {"stddev": initializer_range, "dtype": self.dtype_policy, "use_bias": False}
        self.qkv = dense(3 * self.width, "qkv", **options)
        self.position = dense(self.width, "position", **options)
        self.output_dense = dense(hidden_size, "output", **options)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.qkv.build(input_shape)
        self.position.build(input_shape)
        self.output_dense.build((None, self.width))
        if self.has_biases:
            add_biases(self)
        self.built = True

    def call(self, x, memory, distances, bias, shared_biases=None, training=None):
        """Attends from a segment to itself and to the memory.

        Args:
            x: [batch * length, hidden_size].
            memory: [batch, memory length, hidden_size], the earlier inputs.
            distances: [memory length + length + 1, hidden_size]; see `distance_embedding`.
            bias: [length, keys] or [batch, 1, length, keys], added to the scores.
            shared_biases: (u, v), each [heads, head_size], if the layer has no biases.

        Returns:
            The output [batch * length, hidden_size], and the probabilities [batch, heads, length, keys]
            before dropout.
        """
        query, key, value = self.projected(x, ops.shape(bias)[-2])
        key, value = self.after_memory(memory, key, value)
        biases = (self.content_bias, self.position_bias) if self.has_biases else shared_biases
        by_content, by_distance = self.scores(query, key, self.distance_keys(distances), biases)
        scores = by_content + shifted_to_keys(by_distance, ops.shape(key)[1]) + bias
        context, probabilities = self.attended(scores, value, training)
        return self.output_dense(ops.reshape(context, (-1, self.width))), probabilities

    def projected(self, x, length):
        """Queries, keys and values [batch, length, heads, head_size] of x [batch * length, hidden_size]."""
        heads = (-1, length, self.num_heads, self.head_size)
        return [ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1)]

    def after_memory(self, memory, key, value):
        """Keys and values of the memory, if there is one, followed by those of the segment."""
        if memory is None:
            return key, value
        old_key, old_value = self._remembered(memory)
        return ops.concatenate([old_key, key], axis=1), ops.concatenate([old_value, value], axis=1)

    def scores(self, query, key, distance_keys, biases):
        """The scores [batch, heads, length, ...] by key, and by distance.

        Args:
            query, key: [batch, length or keys, heads, head_size].
            distance_keys: [heads, head_size, distances].
            biases: (u, v), each [heads, head_size].
        """
        by_content, by_distance = (self.scaled(query, bias) for bias in biases)
        content = ops.matmul(by_content, ops.transpose(key, (0, 2, 3, 1)))
        return content, ops.matmul(by_distance, distance_keys)

    def scaled(self, query, bias):
        """Queries plus a bias [heads, head_size], scaled: [batch, heads, length, head_size]."""
        scale = 1 / math.sqrt(self.head_size)
        return ops.transpose((query + ops.cast(bias, query.dtype)) * scale, (0, 2, 1, 3))

    def attended(self, scores, value, training):
        """Weighted values [batch, length, heads, head_size], and probabilities [batch, heads, length, keys]."""
        probabilities = ops.softmax(scores)
        context = ops.matmul(
            self.dropout(probabilities, training=training), ops.transpose(value, (0, 2, 1, 3))
        )
        return ops.transpose(context, (0, 2, 1, 3)), probabilities

    def _remembered(self, memory):
        """Keys and values [batch, memory length, heads, head_size]; the memory needs no queries."""
        batch, length, _ = ops.shape(memory)
        kernel = ops.cast(float_kernel(self.qkv, self.hidden_size), memory.dtype)
        flat = ops.matmul(ops.reshape(memory, (-1, self.hidden_size)), kernel[:, self.width :])
        shape = (batch, length, self.num_heads, self.head_size)
        return (ops.reshape(part, shape) for part in ops.split(flat, 2, -1))

    def distance_keys(self, distances):
        """[distances, hidden_size] to [heads, head_size, distances]."""
        keys = ops.reshape(self.position(distances), (-1, self.num_heads, self.head_size))
        return ops.transpose(keys, (1, 2, 0))


def add_biases(
    layer: keras.layers.Layer, names: Sequence[str] = ("content_bias", "position_bias")
) -> None:
    """Gives a layer biases [heads, head_size], u and v by default."""
    for name in names:
        shape, start = (layer.num_heads, layer.head_size), initializer(layer.initializer_range)
        setattr(layer, name, layer.add_weight(shape=shape, initializer=start, name=name))


class AdaptiveEmbedding(keras.layers.Layer):
    """Token embeddings with a table for each cluster of tokens, projected to the model's width.

    Source: Baevski and Auli 2018 (arXiv:1809.10853), section 3; kimiyoung/transformer-xl
    tf/model.py, mask_adaptive_embedding_lookup.

    Args:
        table_sizes: rows of each table. The second table continues the numbering of the first, and so on.
        table_widths: width of each table.
        is_projected: for each table, whether it has a projection.
        hidden_size: width of the output, which is multiplied by the square root of this.
        dropout: rate on the output.
        initializer_range: standard deviation of randomly initialised tables.
        projection_initializer_range: the same for projections.
    """

    def __init__(
        self,
        table_sizes: Sequence[int],
        table_widths: Sequence[int],
        is_projected: Sequence[bool],
        hidden_size: int,
        *,
        dropout: float,
        initializer_range: float,
        projection_initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.tables = cluster_tables(
            table_sizes, table_widths, initializer_range, self.dtype_policy
        )
        self.projections = [
            dense(
                hidden_size,
                f"projection_{number}",
                stddev=projection_initializer_range,
                dtype=self.dtype_policy,
                use_bias=False,
            )
            if projected
            else None
            for number, projected in enumerate(is_projected)
        ]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, token_ids_shape):
        for each, projection in zip(self.tables, self.projections, strict=True):
            each.build()
            if projection is not None:
                projection.build((None, each.output_dim))
        self.built = True

    def call(self, token_ids, training=None):
        """Embeds int [batch, length] as [batch, length, hidden_size].

        Reads every table for every token, with clipped row numbers, and keeps the result of the token's
        own table. So shapes stay static; all tables but the first are narrow.
        """
        start, embedded = 0, None
        for each, projection in zip(self.tables, self.projections, strict=True):
            rows = each.input_dim
            found = each(ops.clip(token_ids - start, 0, rows - 1))
            if projection is not None:
                found = projection(found)
            if embedded is None:
                embedded = found
            else:
                embedded = ops.where(ops.expand_dims(token_ids >= start, -1), found, embedded)
            start += rows
        return self.dropout(embedded * math.sqrt(self.hidden_size), training=training)

    def compute_output_shape(self, token_ids_shape):
        return (*token_ids_shape, self.hidden_size)


class RecurrentBlock(Block):
    """Relative attention and feed-forward layer, each with residual sum and layer norm.

    Source: Dai et al. 2019, section 3.2; kimiyoung/transformer-xl tf/model.py; with `pre_lnorm`,
    pytorch/mem_transformer.py.

    Args:
        attention: a `RelativeAttention`.
        feed_forward, epsilon, dropout: as in `bert_zoo.layers.PostNormBlock`.
        pre_lnorm: whether the norms come before the sublayers instead of after them.
    """

    def __init__(self, attention, feed_forward, *, pre_lnorm: bool, **kwargs):
        super().__init__(attention, feed_forward, **kwargs)
        self.pre_lnorm = pre_lnorm

    def call(self, x, memory, distances, bias, shared_biases=None, training=None):
        """Runs the block; arguments and results as in `RelativeAttention.call`."""

        def attend(x, memory):
            return self.attention(x, memory, distances, bias, shared_biases, training=training)

        if self.pre_lnorm:
            attended, probabilities = attend(self.attention_norm(x), self.attention_norm(memory))
            x = x + self.dropout(attended, training=training)
            fed = self.feed_forward(self.output_norm(x), training=training)
            return x + self.dropout(fed, training=training), probabilities
        attended, probabilities = attend(x, memory)
        x = self.attention_norm(x + self.dropout(attended, training=training))
        fed = self.feed_forward(x, training=training)
        return self.output_norm(x + self.dropout(fed, training=training)), probabilities


class RecurrentStack(Stack):
    """Runs blocks one after the other, each with a memory of its earlier inputs.

    Args:
        blocks: `RecurrentBlock`s.
        hidden_size: width of x.
        num_heads, head_size: shape of the biases u and v.
        has_biases: whether the stack has u and v, shared by all blocks, and the blocks have none.
        clamp_len: longer distances count as this; not limited if it is not positive.
        span: maximum number of keys that a token sees, itself included; None for all.
        dropout: rate on the embedding of distances.
        initializer_range: standard deviation of randomly initialised biases.
    """

    def __init__(
        self,
        blocks: Sequence[RecurrentBlock],
        hidden_size: int,
        *,
        num_heads: int,
        head_size: int,
        has_biases: bool,
        clamp_len: int,
        span: int | None,
        dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(blocks, hidden_size, **kwargs)
        self.num_heads = num_heads
        self.head_size = head_size
        self.has_biases = has_biases
        self.clamp_len = clamp_len
        self.span = span
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        if self.has_biases:
            add_biases(self)
        super().build(input_shape)

    def call(self, x, memory, keys_mask=None, training=None):
        """Runs the stack over a segment.

        Args:
            x: [batch, length, hidden_size].
            memory: for each block [batch, memory length, hidden_size].
            keys_mask: [batch, memory length + length], 1 for keys that may be seen; None for all.

        Returns:
            A list of hidden states [batch, length, hidden_size], the input first, one more than blocks; and
            a list of attention probabilities [batch, heads, length, memory length + length], one for each
            block.
        """
        length = ops.shape(x)[1]
        num_keys = ops.shape(memory[0])[1] + length
        dtype = keras.backend.standardize_dtype(x.dtype)
        bias = causal_bias(length, num_keys, self.span, dtype)
        if keys_mask is not None:
            absent = attention_bias(keys_mask, dtype)
            # float16 has no room for the sum of two.
            bias = ops.minimum(bias, absent)
        distances = distance_embedding(num_keys, self.hidden_size, self.clamp_len, dtype)
        return self.run_blocks(x, memory, distances, bias, training)

    def run_blocks(self, x, memory, distances, bias, training):
        """As `call`, with the further arguments of `RelativeAttention.call`; a memory may be None."""
        length, dtype = ops.shape(x)[1], keras.backend.standardize_dtype(x.dtype)
        distances = self.dropout(distances, training=training)
        shared = (self.content_bias, self.position_bias) if self.has_biases else None
        hidden_states, attentions = [x], []
        flat = ops.reshape(x, (-1, self.hidden_size))
        for block, remembered in zip(self.blocks, memory, strict=True):
            if remembered is not None:
                remembered = ops.cast(remembered, dtype)
            inputs = (flat, remembered, distances, bias, shared)
            flat, *probabilities = self.run(block, *inputs, training=training)
            attentions += probabilities
            hidden_states.append(ops.reshape(flat, (-1, length, self.hidden_size)))
        return hidden_states, attentions


def updated_memory(old, new, mem_len: int):
    """The last `mem_len` (or all) of old and new, [batch, length, ...] each, without gradients."""
    joined = ops.concatenate([ops.cast(old, new.dtype), new], axis=1)
    return ops.stop_gradient(joined[:, -mem_len:] if mem_len else joined[:, :0])


class RecurrentBackbone(Backbone):
    """Embeddings and a stack of blocks with a memory of earlier segments (Transformer-XL).

    Besides `token_ids` and `padding_mask`, it takes

    * `memory`: for each layer [batch, memory length, hidden], as the previous call returned it. If it is
      missing, the configuration's `memory_start` applies: `mem_len` rows of zeros that are attended to, or
      an empty memory.
    * `memory_mask` int [batch, memory length]: 1 for occupied positions of the memory.

    Padding is never attended to, not even from memory. The call also returns the new `memory` of `mem_len`
    positions, through which no gradient flows, and a `memory_mask` if there was a mask or if memory starts
    empty. With a memory of `mem_len`, input and output shapes are the same, so one compiled step serves
    texts of any length. `positions` save no time here, because the memory needs every token.

    Args:
        config: the configuration.
        embeddings: a layer token_ids -> [batch, length, hidden].
        stack: a `RecurrentStack`.
    """

    state = ("memory", "memory_mask")

    @property
    def inputs(self) -> dict[str, Ids]:
        return {**super().inputs, "memory_mask": Ids(2, PADDING)}

    @property
    def token_table(self):
        """The clusters' tables, and for each cluster the kernel of its projection or None."""
        config, tables = self.config, self.embeddings.tables
        kernels = [
            None if layer is None else float_kernel(layer, each.output_dim)
            for each, layer in zip(tables, self.embeddings.projections, strict=True)
        ]
        of_clusters = [kernels[config.table_of(c)] for c in range(len(config.cluster_sizes))]
        return [*map(float_table, tables)], of_clusters

    def initial_state(self, batch_size: int, tokens: int | None = None) -> dict[str, Any]:
        config = self.config
        shape = (batch_size, config.mem_len, config.hidden_size)
        holds = ops.zeros if config.memory_start == "empty" else ops.ones
        return {
            "memory": [ops.zeros(shape, self.compute_dtype) for _ in range(config.num_layers)],
            "memory_mask": holds(shape[:2], "int32"),
        }

    def call(self, inputs, positions=None, training=None):
        memory, masks = self.past(inputs)
        keys_mask = None if masks is None else ops.concatenate(masks, axis=1)
        embedded = self.embeddings(inputs["token_ids"], training=training)
        hidden_states, attentions = self.stack(embedded, memory, keys_mask, training=training)
        outputs = self.outputs(hidden_states, attentions, positions)
        return outputs | self.next_state(hidden_states, memory, masks)

    def past(self, inputs) -> tuple[list, list | None]:
        """The memory, and the masks of memory and tokens; None instead of masks if everything is seen."""
        token_ids, padding_mask = inputs["token_ids"], inputs.get("padding_mask")
        memory, memory_mask = (inputs.get(name) for name in RecurrentBackbone.state)
        starts_empty = self.config.memory_start == "empty"
        if memory is None:
            if memory_mask is not None:
                raise ValueError(
                    "There is a memory_mask, but no memory. Pass both, as the model returned them, or neither."
                )
            start = self.initial_state(ops.shape(token_ids)[0])
            memory = start["memory"]
            memory_mask = start["memory_mask"] if starts_empty else None
        self._check_memory(memory, memory_mask, token_ids)
        if not starts_empty and memory_mask is None and padding_mask is None:
            return memory, None
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory[0])[:2], "int32")
        if padding_mask is None:
            padding_mask = ops.ones_like(token_ids)
        return memory, [memory_mask, padding_mask]

    def next_state(self, hidden_states, memory, masks, kept: int = 0) -> dict[str, Any]:
        """The new `state`, from the first `kept` tokens, or from all tokens for 0."""
        mem_len = self.config.mem_len

        def updated(old, new):
            return updated_memory(old, new[:, :kept] if kept else new, mem_len)

        state = {"memory": [updated(*pair) for pair in zip(memory, hidden_states, strict=False)]}
        if masks is not None:
            state["memory_mask"] = updated(*masks)
        return {name: value for name, value in state.items() if name in self.state}

    def outputs(self, hidden_states, attentions, positions) -> dict[str, Any]:
        """The other outputs of a call; the last layer's only at `positions`, if there are any."""
        if positions is not None:
            hidden_states = [*hidden_states[:-1], at_positions(hidden_states[-1], positions)]
            attentions = [*attentions[:-1], at_queries(attentions[-1], positions)]
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def state_after(self, token_ids, lengths, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state after the first tokens of each row.

        Args:
            token_ids: int [batch, length]; later tokens are ignored.
            lengths: int [batch], the number of tokens to read in each row.
            state: the state before them, as `initial_state` returns it.
        """
        # Not `call`, whose memory would end with the padding.
        memory, keys_mask = state["memory"], ops.ones_like(token_ids)
        keys_mask = ops.concatenate([state["memory_mask"], keys_mask], axis=1)
        embedded = self.embeddings(token_ids, training=False)
        hidden_states, _ = self.stack(embedded, memory, keys_mask, training=False)
        kept = lengths[:, None] + ops.arange(self.config.mem_len)[None, :]

        def updated(old, new):
            joined = ops.concatenate([ops.cast(old, new.dtype), new], axis=1)
            return ops.take_along_axis(joined, kept[:, :, None], axis=1)

        return {
            "memory": [updated(old, new) for old, new in zip(memory, hidden_states, strict=False)],
            "memory_mask": ops.take_along_axis(keys_mask, kept, axis=1),
        }

    def _check_memory(self, memory, memory_mask, token_ids) -> None:
        length = memory[0].shape[1] if isinstance(memory, Sequence) and memory else None
        wanted = (token_ids.shape[0], length, self.config.hidden_size)
        each = "for each layer, [batch, memory length, hidden size]"
        check_memory(memory, [wanted] * self.config.num_layers, each)
        if memory_mask is not None and not fits(memory_mask.shape, wanted[:2]):
            raise ValueError(
                f"memory_mask has shape {tuple(memory_mask.shape)}; it must be {wanted[:2]}, as the memory."
            )
