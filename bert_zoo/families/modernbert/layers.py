"""Rotary positions: queries and keys are rotated by angles that grow with their positions."""

import functools
import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_zoo.layers.attention import (
    SelfAttention,
    at_queries,
    attended_in_blocks,
    attention_bias,
    bias_between_documents,
    joined,
    out_of_blocks,
    some_at_a_time,
    window_bias,
    window_bias_in_blocks,
)
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.common import Activation, at_positions, dense, norm
from bert_zoo.layers.embeddings import positions_in_documents


def rotations(position_ids, head_size: int, theta: float, dtype: str):
    """Cosines and sines of the angles of positions int [batch or 1, length]: [batch or 1, length, 1, head_size / 2]
    each. Wavelengths grow from 2 pi positions to almost `theta` times that. Computed in float32, because bfloat16
    cannot distinguish positions above 256. Source: Su et al. 2021 (arXiv:2104.09864), section 3.4.2.
    """
    exponents = np.arange(0, head_size, 2, dtype=np.float32) / np.float32(head_size)
    frequencies = np.float32(1) / np.float32(theta) ** exponents
    angles = ops.expand_dims(ops.cast(position_ids, "float32"), (2, 3)) * frequencies
    return ops.cast(ops.cos(angles), dtype), ops.cast(ops.sin(angles), dtype)


def rotated(x, cosines, sines):
    """Rotates heads [batch, length, heads, head_size]: dimension i of a head pairs with i + head_size / 2."""
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate(
        [first * cosines - second * sines, second * cosines + first * sines], axis=-1
    )


# The kinds of attention: to all tokens, and within a window.
GLOBAL, LOCAL = "global", "local"


class WindowView(NamedTuple):
    """The inputs of one kind of attention besides the hidden states: the results of `rotations`, and a bias of scores,
    [batch, 1, 1 or length, length] or, if rows are cut into blocks that see themselves and their two neighbours,
    [batch, 1, blocks, block, 3 * block].
    """

    cosines: Any
    sines: Any
    bias: Any


class RotaryAttention(SelfAttention):
    """Self-attention whose queries and keys are rotated by their positions (ModernBERT).

    For attention within a window, rows may be cut into blocks of half a window. What a token sees then
    lies in its own block and the two next to it, so time and memory grow linearly with the length.

    Args:
        num_heads, hidden_size, **options: as in `SelfAttention`. `dropout` also applies to the output.
        view: the kind of attention, `GLOBAL` or `LOCAL`.
    """

    def __init__(self, num_heads: int, hidden_size: int, *, view: str, **options):
        super().__init__(num_heads, hidden_size, **options)
        self.view = view

    def call(self, x, views, positions=None, training=None):
        """Attends within each row of the batch.

        Args:
            x, positions: as in `SelfAttention.call`.
            views: a `View` for each kind of attention, by its name.

        Returns:
            The output and the probabilities as in `SelfAttention.call`. If rows are cut into blocks and
            there are no `positions`, probabilities are [batch, heads, blocks, block, 3 * block].
        """
        cosines, sines, bias = views[self.view]
        heads = (-1, ops.shape(cosines)[1], self.num_heads, self.head_size)
        query, key, value = (ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1))
        scale = 1 / math.sqrt(self.head_size)
        query, key = rotated(query, cosines * scale, sines * scale), rotated(key, cosines, sines)
        attend = self._attend_in_blocks if len(bias.shape) == 5 else self._attend
        context, probabilities = attend(query, key, value, bias, positions, training)
        context = self.output_dense(ops.reshape(context, (-1, self.hidden_size)))
        return self.dropout(context, training=training), probabilities

    def _attend(self, query, key, value, bias, positions, training):
        """The queries' weighted values, from heads [batch, length, heads, head_size], and probabilities."""
        if positions is not None:
            query = at_positions(query, positions)
            bias = bias if bias.shape[2] == 1 else at_queries(bias, positions)
        by_head = ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))
        weighted = []
        for part, seen in some_at_a_time(query, bias):
            context = self.fused(part, key, value, seen, training)
            part = ops.transpose(part, (0, 2, 1, 3))
            weighted.append(self.weighted(part, *by_head, seen, training, context))
        contexts, probabilities = zip(*weighted, strict=True)
        return joined(contexts, axis=1), joined(probabilities, axis=2)

    def _attend_in_blocks(self, query, key, value, bias, positions, training):
        """The same block by block; computes all tokens, even with `positions`."""
        dropout = functools.partial(self.dropout, training=training)
        context, probabilities = attended_in_blocks(query, key, value, bias, dropout)
        if positions is None:
            return context, probabilities
        shown = out_of_blocks(probabilities, ops.shape(query)[1], positions)
        return at_positions(context, positions), shown


class RotaryBackbone(TransformerBackbone):
    """Token embeddings and blocks with rotary positions, global or within a window (ModernBERT).

    Source: Warner et al. 2024 (ModernBERT, arXiv:2412.13663), section 2.1.

    Args:
        config: a configuration with `reach`, `global_rope_theta`, `local_rope_theta` and
            `attends_in_blocks`, such as `ModernBertConfig`.
        embeddings, stack: as in `TransformerBackbone`; embeddings read only `token_ids`, and blocks a
            `View` for each kind of attention.
    """

    def embedded(self, inputs, training):
        embedded = self.embeddings(inputs["token_ids"], training=training)
        mask = inputs.get("padding_mask")
        mask = ops.ones_like(inputs["token_ids"]) if mask is None else mask
        return embedded, self.views(inputs, mask, keras.backend.standardize_dtype(embedded.dtype))

    def views(self, inputs, mask, dtype: str) -> dict[str, WindowView]:
        """A `View` for each kind of attention, for rows with a mask [batch, length]."""
        config, documents = self.config, inputs.get("document_ids")
        positions = inputs.get("position_ids")
        if positions is None and documents is not None:
            positions = positions_in_documents(documents)
        elif positions is None:
            positions = ops.expand_dims(ops.arange(ops.shape(mask)[1], dtype="int32"), 0)
        head_size = config.hidden_size // config.num_heads
        thetas = {GLOBAL: config.global_rope_theta, LOCAL: config.local_rope_theta}
        in_blocks = mask.shape[1] is None or config.attends_in_blocks(mask.shape[1])
        local = window_bias_in_blocks if in_blocks else window_bias
        bias = attention_bias(mask, dtype)
        if documents is not None:
            bias = ops.minimum(bias, bias_between_documents(documents, dtype))
        biases = {GLOBAL: bias, LOCAL: local(mask, documents, config.reach, dtype)}
        return {
            view: WindowView(*rotations(positions, head_size, theta, dtype), biases[view])
            for view, theta in thetas.items()
        }

    def token_head(self, **options):
        return super().token_head(use_bias=self.config.decoder_bias, **options)

    def shown_attentions(self, attentions, length):
        shown = [a if len(a.shape) == 4 else out_of_blocks(a, length, None) for a in attentions]
        return {"attentions": shown}


class PredictionHead(keras.layers.Layer):
    """A dense layer, an activation and a norm before the head of every task. Fine-tuning therefore starts from the
    layer that was pretrained on masked tokens. Source: Warner et al. 2024 (ModernBERT, arXiv:2412.13663);
    ModernBertPredictionHead of transformers.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        activation: str,
        epsilon: float,
        use_bias: bool,
        norm_bias: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.dense = dense(
            hidden_size, "dense", stddev=initializer_range, use_bias=use_bias, dtype=dtype
        )
        self.activation = Activation(activation, dtype=dtype, name="activation")
        self.norm = norm("norm", epsilon=epsilon, use_bias=norm_bias, dtype=dtype)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.norm.build(input_shape)
        self.built = True

    def call(self, x):
        return self.norm(self.activation(self.dense(x)))
