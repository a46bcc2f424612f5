"""The stack of today's encoders: BERT's with rotary positions or ALiBi, gated layers, windows and shared keys.

A configuration, `bert_zoo.families.encoder_stack.StackConfig`, says what a family has of these.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_zoo.layers.attention import (
    SelfAttention,
    at_queries,
    attended_in_blocks,
    joined,
    out_of_blocks,
    some_at_a_time,
    window_bias,
    window_bias_in_blocks,
)
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.block import Block, FeedForward, PostNormBlock, PreNormBlock, Stack
from bert_zoo.layers.common import at_positions, dense, norm, rms_norm
from bert_zoo.layers.embeddings import TokenEmbeddings, token_positions
from bert_zoo.layers.heads import Pooler

NORMS = {"layer": norm, "rms": rms_norm}


def frequencies(head_size: int, theta: float, factor: float = 1.0, kept_in: str = "float32"):
    """The angles float32 [head_size / 2] by which rotary positions turn pairs of numbers from one token to the next,
    with the digits that the type `kept_in` has. Wavelengths grow from 2 pi `factor` positions to almost `theta` times
    that.
    """
    exponents = np.arange(0, head_size, 2, dtype=np.float32) / np.float32(head_size)
    found = np.float32(1) / np.float32(theta) ** exponents / np.float32(factor)
    return found.astype(kept_in).astype(np.float32)


def rotations(position_ids, head_size: int, theta: float, dtype: str, *scaling):
    """Cosines and sines of the angles of positions int [batch or 1, length]: [batch or 1, length, 1, head_size / 2]
    each; `theta` and `scaling` are those of `frequencies`. Computed in float32, because bfloat16 cannot distinguish
    positions above 256. Source: Su et al. 2021 (arXiv:2104.09864), section 3.4.2.
    """
    turns = frequencies(head_size, theta, *scaling)
    angles = ops.expand_dims(ops.cast(position_ids, "float32"), (2, 3)) * turns
    return ops.cast(ops.cos(angles), dtype), ops.cast(ops.sin(angles), dtype)


def rotated(x, cosines, sines):
    """Rotates heads [batch, length, heads, head_size]: dimension i of a head pairs with i + head_size / 2."""
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate(
        [first * cosines - second * sines, second * cosines + first * sines], axis=-1
    )


def alibi_slopes(num_heads: int) -> np.ndarray:
    """By how much scores fall with each token of distance, a number per head [heads]: a geometric sequence, with the
    numbers halfway between its next ones if heads are no power of two. Source: Press et al. 2022 (ALiBi,
    arXiv:2108.12409), section 3; ofirpress/attention_with_linear_biases fairseq/models/transformer.py, get_slopes.
    """
    whole = 2 ** int(math.log2(num_heads))
    slopes = [2 ** (-8 * i / whole) for i in range(1, whole + 1)]
    between = [2 ** (-4 * i / whole) for i in range(1, 2 * whole, 2)]
    return np.array((slopes + between)[:num_heads], np.float32)


# The kinds of attention: to all tokens, and within a window.
GLOBAL, LOCAL = "global", "local"


class View(NamedTuple):
    """The inputs of one kind of attention besides the hidden states: a bias of scores, [batch, 1, 1 or length, length]
    or, if rows are cut into blocks that see themselves and their two neighbours, [batch, 1, blocks, block, 3 * block];
    positions int [batch or 1, length]; and the results of `rotations`, unless scores fall with distance.
    """

    bias: Any
    positions: Any
    cosines: Any = None
    sines: Any = None


class StackAttention(SelfAttention):
    """Self-attention that knows positions: queries and keys are rotated by them, or scores fall with distance.

    For attention within a window, rows may be cut into blocks of half a window. What a token sees then
    lies in its own block and the two next to it, so time and memory grow linearly with the length.

    Args:
        config: a `StackConfig`. Its heads of keys and values are each shared by as many consecutive heads
            of queries (Ainslie et al. 2023, arXiv:2305.13245).
        view: the kind of attention, `GLOBAL` or `LOCAL`.
        **options: as in any layer.
    """

    def __init__(self, config: Any, view: str, **options):
        self.widths = config.widths_of_heads
        super().__init__(
            config.num_heads,
            config.hidden_size,
            head_size=config.width_of_head,
            dropout=config.attention_dropout,
            initializer_range=config.initializer_range,
            output_range=config.output_range,
            use_bias=config.attention_bias,
            output_bias=config.attention_output_bias,
            **options,
        )
        self.config, self.view = config, view
        is_alibi = config.positions == "alibi"
        self.slopes = alibi_slopes(config.num_heads)[:, None, None] if is_alibi else None
        epsilon = config.layer_norm_epsilon if config.query_norm else None
        options = {"epsilon": epsilon, "dtype": self.dtype_policy}
        self.query_norm, self.key_norm = norm("query_norm", **options), norm("key_norm", **options)

    def make_projections(self, **options):
        self.qkv = dense(sum(self.widths), "qkv", **options)

    def build(self, input_shape):
        super().build(input_shape)
        if self.query_norm is not None:
            self.query_norm.build((None, self.widths[0]))
            self.key_norm.build((None, self.widths[1]))

    def call(self, x, views, positions=None, training=None):
        """Attends within each row of the batch.

        Args:
            x, positions: as in `SelfAttention.call`.
            views: a `View` for each kind of attention, by its name.

        Returns:
            The output and the probabilities as in `SelfAttention.call`. If rows are cut into blocks and
            there are no `positions`, probabilities are [batch, heads, blocks, block, 3 * block].
        """
        view = views[self.view]
        query, key, value = self.heads(x, view, training)
        attend = self._attend_in_blocks if len(view.bias.shape) == 5 else self._attend
        context, probabilities = attend(query, key, value, view, positions, training)
        context = self.output_dense(ops.reshape(context, (-1, self.inner_size)))
        if self.config.drops_attention_output:
            context = self.dropout(context, training=training)
        return context, probabilities

    def heads(self, x, view: View, training):
        """Scaled queries, keys and values [batch, length, heads, head_size] with their positions in them."""
        is_shared = self.config.num_key_heads < self.num_heads
        cuts = [self.widths[0], sum(self.widths[:2])] if is_shared else 3
        query, key, value = ops.split(self.qkv(x), cuts, -1)
        if self.query_norm is not None:
            query = self.query_norm(query, training=training)
            key = self.key_norm(key, training=training)
        length, size = ops.shape(view.positions)[1], self.head_size
        query, key, value = (
            ops.reshape(part, (-1, length, width // size, size))
            for part, width in zip((query, key, value), self.widths, strict=True)
        )
        if view.cosines is None:
            query = query * self.scale
        else:
            query = rotated(query, view.cosines * self.scale, view.sines * self.scale)
            key = rotated(key, view.cosines, view.sines)
        if is_shared:
            times = self.num_heads // self.config.num_key_heads
            key, value = ops.repeat(key, times, axis=2), ops.repeat(value, times, axis=2)
        return query, key, value

    def _attend(self, query, key, value, view: View, positions, training):
        """The queries' weighted values, from heads [batch, length, heads, head_size], and probabilities."""
        bias, places = view.bias, None if self.slopes is None else view.positions
        if positions is not None:
            query = at_positions(query, positions)
            bias = bias if bias.shape[2] == 1 else at_queries(bias, positions)
            places = None if places is None else at_positions(places, positions)
        by_head = ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))
        weighted = []
        for part, seen, own in some_at_a_time(query, bias, places):
            if places is not None:
                distances = ops.abs(ops.expand_dims(own, 2) - ops.expand_dims(view.positions, 1))
                falls = self.slopes * ops.expand_dims(ops.cast(distances, "float32"), 1)
                seen = seen - ops.cast(falls, seen.dtype)
            context = self.fused(part, key, value, seen, training)
            part = ops.transpose(part, (0, 2, 1, 3))
            weighted.append(self.weighted(part, *by_head, seen, training, context))
        contexts, probabilities = zip(*weighted, strict=True)
        return joined(contexts, axis=1), joined(probabilities, axis=2)

    def _attend_in_blocks(self, query, key, value, view: View, positions, training):
        """The same block by block; computes all tokens, even with `positions`."""
        dropout = functools.partial(self.dropout, training=training)
        context, probabilities = attended_in_blocks(query, key, value, view.bias, dropout)
        if positions is None:
            return context, probabilities
        shown = out_of_blocks(probabilities, ops.shape(query)[1], positions)
        return at_positions(context, positions), shown


class EncoderStack(TransformerBackbone):
    """Embeddings, blocks, and optionally a final norm and a pooler, as a `StackConfig` describes them.

    A family with layers of its own overrides `make_embeddings`, `block_class` or `embedded`.
    """

    def __init__(self, config: Any, dtype: Any):
        pooler, final_norm = None, None
        options = {"initializer_range": config.initializer_range, "dtype": dtype}
        norms = {"epsilon": config.layer_norm_epsilon, "use_bias": config.norm_bias, "dtype": dtype}
        if config.final_norm:
            final_norm = NORMS[config.norm]("final_norm", **norms)
        if config.pooler:
            pooler = Pooler(config.hidden_size, name="pooler", **options)
        blocks = [self.make_block(config, i, options) for i in range(config.num_layers)]
        super().__init__(
            config,
            embeddings=self.make_embeddings(config, options),
            stack=Stack(blocks, config.hidden_size, dtype=dtype, name="stack"),
            final_norm=final_norm,
            pooler=pooler,
            dtype=dtype,
        )

    def make_embeddings(self, config: Any, options: dict) -> keras.layers.Layer:
        """The lowest layer; `options` are `initializer_range` and `dtype`."""
        return TokenEmbeddings(
            config.vocab_size,
            config.table_width,
            longest_input=config.longest_input,
            epsilon=config.layer_norm_epsilon if config.embeddings_norm else None,
            norm_bias=config.norm_bias,
            dropout=config.hidden_dropout,
            num_segments=config.num_segments,
            name="embeddings",
            projected_size=config.hidden_size if config.table_width != config.hidden_size else 0,
            **options,
        )

    @staticmethod
    def block_class(config: Any) -> Callable[..., Block]:
        return PreNormBlock if config.norm_before else PostNormBlock

    def make_block(self, config: Any, i: int, options: dict) -> Block:
        """Block `i`; `options` as in `make_embeddings`."""
        dtype, view = options["dtype"], GLOBAL if config.is_global(i) else LOCAL
        feed_forward = FeedForward(
            config.intermediate_size,
            config.hidden_size,
            activation=config.activation,
            gated=config.gated,
            inner_dropout=config.inner_dropout,
            use_bias=config.mlp_bias,
            output_bias=config.mlp_output_bias,
            output_range=config.output_range,
            name="feed_forward",
            **options,
        )
        return self.block_class(config)(
            StackAttention(config, view, dtype=dtype, name="attention"),
            feed_forward,
            epsilon=config.layer_norm_epsilon,
            dropout=config.residual_dropout,
            norm_bias=config.norm_bias,
            norm_first=i > 0 or config.norm_first,
            make_norm=NORMS[config.norm],
            dtype=dtype,
            name=f"layer_{i}",
        )

    def embedded(self, inputs, training):
        """Embeddings [batch, length, hidden], and a `View` for each kind of attention."""
        embedded, bias = super().embedded(inputs, training)
        dtype = keras.backend.standardize_dtype(bias.dtype)
        config, ids, documents = self.config, inputs["token_ids"], inputs.get("document_ids")
        positions = token_positions(ids, inputs.get("position_ids"), documents)
        if config.positions == "alibi":
            return embedded, {GLOBAL: View(bias, positions + ops.zeros_like(ids))}
        kinds = {GLOBAL: (bias, config.rope_theta)}
        if config.reach is not None:
            length, mask = ids.shape[1], inputs.get("padding_mask")
            mask = ops.ones_like(ids) if mask is None else mask
            in_blocks = length is None or length > config.fewest_blocks * config.reach
            local = window_bias_in_blocks if in_blocks else window_bias
            kinds[LOCAL] = local(mask, documents, config.reach, dtype), config.local_rope_theta
        scaling = config.rope_factor, config.rope_kept_in
        return embedded, {
            kind: View(
                bias, positions, *rotations(positions, config.width_of_head, theta, dtype, *scaling)
            )
            for kind, (bias, theta) in kinds.items()
        }

    def token_head(self, **options):
        return super().token_head(use_bias=self.config.decoder_bias, **options)

    def shown_attentions(self, attentions, length):
        shown = [a if len(a.shape) == 4 else out_of_blocks(a, length, None) for a in attentions]
        return {"attentions": shown}
