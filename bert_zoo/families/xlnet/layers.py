"""XLNet's two streams through one stack: one knows the tokens, the other predicts them.

Source: Yang et al. 2019 (arXiv:1906.08237), section 2.3.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from bert_zoo.families.transformer_xl.layers import (
    RecurrentBackbone,
    RecurrentStack,
    RelativeAttention,
    add_biases,
    distance_embedding,
)
from bert_zoo.layers.attention import attention_bias, masked_score, shifted_to_keys
from bert_zoo.layers.backbones import Ids
from bert_zoo.layers.common import Dropout, float_table, initializer, table


class StreamView(NamedTuple):
    """Which keys, of the memory and of the segment itself, the tokens of a segment attend to."""

    content: Any  # [batch, 1, length, keys], added to the scores; each token sees itself
    targets: Any  # the same for the second stream, which predicts the token of each place
    # bool [batch, 1, length, keys]: a key of another segment; None: no segments
    is_apart: Any = None
    mapping: Any = None  # [batch, targets, length], 1 at a target's place; None: no second stream
    backwards: Any = None  # int [batch], 1 for rows given last to first; None if there are none


def of_tokens_and_targets(x, length):
    """x [batch, length + targets, ...] as [batch, length, ...] and [batch, targets, ...]."""
    batch, places, *whole = ops.shape(x)
    # As in `shifted_to_keys`, indices would have a slow gradient, and -1 as a size another meaning in ONNX.
    return tuple(
        ops.slice(x, (0, begin, *[0] * len(whole)), (batch, size, *whole))
        for begin, size in ((0, length), (length, places - length))
    )


class TwoStreamAttention(RelativeAttention):
    """XLNet's relative attention to both sides and by segment, for one stream or two over the same keys.

    Adds a term to Transformer-XL's four that depends on whether query and key are in the same segment (Yang
    et al. 2019, section 2.5). Queries of the second stream have the places of tokens that they do not read
    (section 2.3).
    Source: zihangdai/xlnet modeling.py, two_stream_rel_attn and rel_attn_core.

    Arguments as in `RelativeAttention`, except `has_biases`: the layer has its own biases.
    """

    def __init__(self, num_heads: int, head_size: int, hidden_size: int, **options):
        super().__init__(num_heads, head_size, hidden_size, has_biases=True, **options)

    def build(self, input_shape):
        super().build(input_shape)
        add_biases(self, ["segment_bias"])
        self.segment_embedding = self.add_weight(
            shape=(2, self.num_heads, self.head_size),
            initializer=initializer(self.initializer_range),
            name="segment_embedding",
        )

    def call(self, x, memory, distances, view: StreamView, shared_biases=None, training=None):
        """Attends from a segment and, with a second stream, from targets.

        Args:
            x: [batch * (length + targets), hidden_size]; in each row, targets follow the tokens.
            memory: [batch, memory length, hidden_size], the earlier inputs; None for no memory.
            distances: [keys + length, hidden_size], for the distances keys, ..., 1, 0, -1, ..., 1 - length.
                If the view has `backwards`, [2, keys + length, hidden_size], the second with signs reversed.
            view: what is seen.
            shared_biases: not used.

        Returns:
            The output, in the shape of x, and the tokens' probabilities [batch, heads, length, keys] before
            dropout.
        """
        length = ops.shape(view.content)[-2]
        mapping = view.mapping
        rows = length if mapping is None else length + ops.shape(mapping)[1]
        query, key, value = self.projected(x, rows)
        if mapping is not None:
            parts = (of_tokens_and_targets(part, length) for part in (query, key, value))
            (query, at_targets), (key, _), (value, _) = parts
        if view.backwards is None:
            distance_keys = self.distance_keys(distances)
        else:
            both = ops.stack([self.distance_keys(distances[way]) for way in (0, 1)])
            distance_keys = ops.take(both, view.backwards, axis=0)
        keys = (*self.after_memory(memory, key, value), distance_keys)
        context, probabilities = self._read(query, *keys, view.content, view.is_apart, training)
        if mapping is not None:
            mapping = ops.cast(mapping, query.dtype)
            in_place = ops.einsum("bpl,bpnd->blnd", mapping, at_targets)
            read, _ = self._read(in_place, *keys, view.targets, view.is_apart, training)
            read = ops.einsum("bpl,blnd->bpnd", mapping, read)
            context = ops.concatenate([context, read], axis=1)
        return self.output_dense(ops.reshape(context, (-1, self.width))), probabilities

    def _read(self, query, key, value, distance_keys, bias, is_apart, training):
        biases = (self.content_bias, self.position_bias)
        by_content, by_distance = self.scores(query, key, distance_keys, biases)
        scores = by_content + shifted_to_keys(by_distance, ops.shape(key)[1]) + bias
        if is_apart is not None:
            segments = ops.transpose(ops.cast(self.segment_embedding, query.dtype), (1, 2, 0))
            by_segment = ops.matmul(self.scaled(query, self.segment_bias), segments)
            same, apart = ops.split(by_segment, 2, axis=-1)
            scores = scores + ops.where(is_apart, apart, same)
        return self.attended(scores, value, training)


class TwoStreamStack(RecurrentStack):
    """A `RecurrentStack` whose blocks see both sides (XLNet).

    Arguments as in `RecurrentStack`, without `has_biases` and `span`. `dropout` also applies to the last
    output.
    """

    def __init__(self, blocks, hidden_size: int, **options):
        super().__init__(blocks, hidden_size, has_biases=False, span=None, **options)

    def call(self, x, memory, view: StreamView, training=None):
        """Runs the stack on a segment.

        Args:
            x: [batch, length + targets, hidden_size].
            memory: for each block [batch, memory length, hidden_size] or None.
            view: a `View`.

        Returns:
            As `RecurrentStack.call`.
        """
        length, num_keys = ops.shape(view.content)[-2:]
        dtype = keras.backend.standardize_dtype(x.dtype)
        distances = distance_embedding(
            num_keys, self.hidden_size, self.clamp_len, dtype, ahead=length - 1
        )
        if view.backwards is not None:
            sines, cosines = ops.split(distances, 2, axis=-1)
            distances = ops.stack([distances, ops.concatenate([-sines, cosines], axis=-1)])
        (*lower, last), attentions = self.run_blocks(x, memory, distances, view, training)
        return [*lower, self.dropout(last, training=training)], attentions


class StreamEmbeddings(keras.layers.Layer):
    """Token embeddings, and one vector with which every target starts (XLNet).

    Args:
        vocab_size, hidden_size: rows and width of the token table.
        dropout: rate on the output.
        initializer_range: standard deviation of randomly initialised weights.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.token_embedding = table(
            vocab_size,
            hidden_size,
            "token_embedding",
            stddev=initializer_range,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, token_ids_shape):
        self.token_embedding.build()
        self.mask_embedding = self.add_weight(
            shape=(self.hidden_size,),
            initializer=initializer(self.initializer_range),
            name="mask_embedding",
        )
        self.built = True

    def call(self, token_ids, targets: int = 0, training=None):
        """Embeds int [batch, length], followed by `targets` vectors: [batch, length + targets, hidden_size].

        `targets` is their number, which may be a tensor.
        """
        x = self.token_embedding(token_ids)
        if not (isinstance(targets, int) and targets == 0):
            shape = (ops.shape(token_ids)[0], targets, self.hidden_size)
            x = ops.concatenate(
                [x, ops.broadcast_to(ops.cast(self.mask_embedding, x.dtype), shape)], axis=1
            )
        return self.dropout(x, training=training)

    def compute_output_shape(self, token_ids_shape):
        return (*token_ids_shape, self.hidden_size)


class TwoStreamBackbone(RecurrentBackbone):
    """A recurrent backbone that sees both sides and can predict tokens in any order (XLNet).

    Besides the inputs of `RecurrentBackbone`, it takes

    * `segment_ids` int [batch, length]: attention only knows whether two tokens are in the same segment.
      Without them this term is left out. The memory counts as segment 0.
    * `perm_mask` int [batch, length, length]: 1 at [i, j] if token i must not see token j.
      Every token sees itself.
    * `target_mapping` int [batch, targets, length]: 1 at the place of each target (a row of zeros for
      none). The call then also returns `query_output` [batch, targets, hidden], from a second stream that
      starts with the same vector for every target and sees a target's own token only if `perm_mask` allows.
    * `reads_backwards` int [batch]: 1 for a row whose tokens, and those in its memory, are given last to
      first. Its distances change sign, so they are those in the text (the original's bi_data).

    There is a memory only if the configuration has a `mem_len`. It keeps the first `reuse_len` tokens of a
    segment, or all for 0.

    Source: zihangdai/xlnet modeling.py, transformer_xl.
    """

    has_second_stream = True

    @property
    def state(self):
        return super().state if self.config.mem_len else ()

    @property
    def inputs(self) -> dict[str, Ids]:
        pairs, targets = ("batch", "length", "length"), ("batch", "targets", "length")
        inputs = super().inputs
        if not self.config.mem_len:
            del inputs["memory_mask"]
        return {
            **inputs,
            "segment_ids": Ids(self.config.most_segments, "the number of segments"),
            "perm_mask": Ids(2, "1 hides a token from another, and 0 does not", axes=pairs),
            "target_mapping": Ids(2, "1 is the place of a target", axes=targets),
            "reads_backwards": Ids(2, "1 is a row given last to first", axes=("batch",)),
        }

    @property
    def token_table(self):
        return float_table(self.embeddings.token_embedding)

    def call(self, inputs, positions=None, training=None):
        token_ids, mapping = inputs["token_ids"], inputs.get("target_mapping")
        length, targets = ops.shape(token_ids)[1], 0 if mapping is None else ops.shape(mapping)[1]
        embedded = self.embeddings(token_ids, targets=targets, training=training)
        if self.config.mem_len:
            memory, masks = self.past(inputs)
        else:
            mask = inputs.get("padding_mask")
            masks = [ops.ones_like(token_ids) if mask is None else mask]
            memory = [None] * self.config.num_layers
        view = self.view(inputs, masks, embedded.dtype)
        hidden_states, attentions = self.stack(embedded, memory, view, training=training)
        outputs = {}
        if mapping is not None:
            parts = [of_tokens_and_targets(x, length) for x in hidden_states]
            outputs["query_output"] = parts[-1][1]
            hidden_states = [at_tokens for at_tokens, _ in parts]
        outputs |= self.outputs(hidden_states, attentions, positions)
        if self.config.mem_len:
            outputs |= self.next_state(hidden_states, memory, masks, self.config.reuse_len)
        return outputs

    def inputs_for_targets(self, inputs, positions):
        """A second stream at the positions, whose tokens are hidden from all others.

        An order that `inputs` give stays.
        """
        length = ops.shape(inputs["token_ids"])[1]
        positions = ops.cast(ops.convert_to_tensor(positions), "int32")
        # A 0 after another position means none.
        is_first = ops.equal(ops.arange(ops.shape(positions)[1]), 0)[None, :]
        is_target = ops.cast(ops.logical_or(positions > 0, is_first), "int32")
        # Not one_hot, whose int64 neither LiteRT's converter nor ONNX Runtime takes; None in an index,
        # see `attention_bias`.
        is_place = ops.equal(ops.expand_dims(positions, 2), ops.arange(length, dtype="int32"))
        mapping = ops.cast(is_place, "int32") * ops.expand_dims(is_target, 2)
        hidden = ops.broadcast_to(
            ops.max(mapping, axis=1, keepdims=True), (ops.shape(mapping)[0], length, length)
        )
        return {"target_mapping": mapping, "perm_mask": hidden}

    def view(self, inputs, masks, dtype) -> StreamView:
        """The `View` of tokens; `masks` has the memory's mask, if there is a memory, and the tokens'."""
        dtype = keras.backend.standardize_dtype(dtype)
        *of_memory, padding_mask = masks
        length = ops.shape(padding_mask)[1]
        keys_mask = ops.concatenate(masks, axis=1) if of_memory else padding_mask
        num_keys = ops.shape(keys_mask)[1]
        hidden = attention_bias(keys_mask, dtype)
        if "perm_mask" in inputs:
            hiding = ops.cast(inputs["perm_mask"], dtype) * masked_score(dtype)
            if of_memory:
                seen = ops.zeros((ops.shape(hiding)[0], length, num_keys - length), dtype)
                hiding = ops.concatenate([seen, hiding], axis=2)
            # float16 has no room for the sum of two.
            hidden = ops.minimum(hidden, ops.expand_dims(hiding, 1))
        positions = ops.arange(num_keys) - (num_keys - length)
        is_own = ops.equal(ops.expand_dims(positions, 0), ops.expand_dims(ops.arange(length), 1))
        hidden = ops.broadcast_to(hidden, (ops.shape(hidden)[0], 1, length, num_keys))
        content = ops.where(is_own, ops.zeros_like(hidden), hidden)
        is_apart, segment_ids = None, inputs.get("segment_ids")
        if segment_ids is not None:
            of_keys = segment_ids
            if of_memory:
                of_keys = ops.concatenate([ops.zeros_like(of_memory[0]), segment_ids], axis=1)
            is_apart = ops.not_equal(
                ops.expand_dims(segment_ids, (1, 3)), ops.expand_dims(of_keys, (1, 2))
            )
        mapping, backwards = (inputs.get(n) for n in ("target_mapping", "reads_backwards"))
        return StreamView(content, hidden, is_apart, mapping, backwards)
