"""Attention with rotary positions, to all tokens or within a window, and the backbone that has both."""

import functools
import math
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_zoo.families.modernbert.rotary import rotated, rotations
from bert_zoo.layers.attention import (
    SelfAttention,
    at_queries,
    attention_bias,
    bias_between_documents,
)
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.common import at_positions
from bert_zoo.layers.embeddings import positions_in_documents
from bert_zoo.layers.windows import (
    attended_in_blocks,
    joined,
    out_of_blocks,
    some_at_a_time,
    window_bias,
    window_bias_in_blocks,
)

# What blocks attend to, by the names that their attention is made with.
GLOBAL, LOCAL = "global", "local"


class View(NamedTuple):
    """What attention of a kind reads beside the hidden states.

    The bias of scores is [batch, 1, 1 or length, length] or, where rows are cut into blocks and each
    block sees itself and its two neighbours, [batch, 1, blocks, block, 3 * block].
    """

    cosines: Any
    sines: Any
    bias: Any


class RotaryAttention(SelfAttention):
    """Self-attention whose queries and keys are turned by their positions.

    Within a window, rows may be cut into blocks of half a window: what a token sees lies in its own
    block and the two beside it, so that time and memory grow with the length and not with its square.

    Args:
        num_heads, hidden_size, dropout, options: as of `SelfAttention`; there is dropout on the output
            too.
        view: what it attends to, `GLOBAL` or `LOCAL`.
    """

    def __init__(self, num_heads: int, hidden_size: int, *, view: str, **options):
        super().__init__(num_heads, hidden_size, **options)
        self.view = view

    def call(self, x, views, positions=None, training=None):
        """As `SelfAttention.call`, with a `View` for each kind.

        Of blocks, probabilities [batch, heads, blocks, block, 3 * block] are those that the bias is for;
        at `positions` they are those of all keys.
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
        """Heads [batch, length, heads, head_size] to those of the queries, and probabilities."""
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
        """The same, block by block; whatever the positions, of all tokens."""
        dropout = functools.partial(self.dropout, training=training)
        context, probabilities = attended_in_blocks(query, key, value, bias, dropout)
        if positions is None:
            return context, probabilities
        shown = out_of_blocks(probabilities, ops.shape(query)[1], positions)
        return at_positions(context, positions), shown


class RotaryBackbone(TransformerBackbone):
    """Token embeddings and blocks that attend to all tokens or to those near by, with rotary positions.

    Source: Warner et al. 2024 (ModernBERT, arXiv:2412.13663), section 2.1.

    Args:
        config: sizes and choices, with `reach`, `global_rope_theta`, `local_rope_theta` and
            `attends_in_blocks`.
        embeddings, stack: as of `TransformerBackbone`; embeddings read `token_ids` alone, and blocks
            a `View` for each kind of attention.
    """

    def embedded(self, inputs, training):
        embedded = self.embeddings(inputs["token_ids"], training=training)
        mask = inputs.get("padding_mask")
        mask = ops.ones_like(inputs["token_ids"]) if mask is None else mask
        return embedded, self.views(inputs, mask, keras.backend.standardize_dtype(embedded.dtype))

    def views(self, inputs, mask, dtype: str) -> dict[str, View]:
        """What each kind of attention reads, of rows with a mask [batch, length]."""
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
            view: View(*rotations(positions, head_size, theta, dtype), biases[view])
            for view, theta in thetas.items()
        }

    def shown_attentions(self, attentions, length):
        shown = [a if len(a.shape) == 4 else out_of_blocks(a, length, None) for a in attentions]
        return {"attentions": shown}
