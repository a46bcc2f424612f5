"""Block-sparse attention, BigBird's backbone, and the layers before its heads."""

import functools
import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bigbird.random_blocks import (
    fewest_blocks,
    first_blocks,
    is_of_paper,
    paper_blocks,
    random_blocks,
)
from bert_zoo.layers.attention import SelfAttention, in_blocks, masked_score
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.block import FeedForward
from bert_zoo.layers.common import Activation, Dropout, at_positions, dense, norm
from bert_zoo.layers.embeddings import Embeddings


class BlockView(NamedTuple):
    """The mask and documents of the tokens of rows or blocks, which attention needs."""

    mask: Any  # int [..., tokens], 1 for real tokens
    # int [..., tokens], the number of each token's document; None if each row is one document
    documents: Any = None

    def map(self, function, *arguments) -> "BlockView":
        return BlockView(*(part if part is None else function(part, *arguments) for part in self))


class Attended(NamedTuple):
    """The inputs of a layer's probabilities, which are quadratic in the length and computed only on demand."""

    query: Any  # [batch, length, heads, head_size]
    key: Any
    view: BlockView


class SparseAttention(SelfAttention):
    """Self-attention of blocks to a few blocks: the first and the last, their neighbours and random ones. The first and
    the last block attend to everything, the others to five blocks and the random ones, so time and memory grow
    linearly with the length. A random block that is attended to anyway counts twice. Rows that are hardly longer
    than this get full attention, and only there dropout acts on probabilities. The length of the batch alone decides
    which rows those are. In rows of several documents, tokens attend only to their own document, within these
    blocks. The layer's number determines its random blocks. Source: Zaheer et al. 2020 (arXiv:2007.14062), section
    2; google-research/bigbird bigbird/core/attention.py, bigbird_block_sparse_attention.
    """

    def __init__(self, layer: int, config: EncoderConfig, **options):
        self.config = config
        self.layer = layer
        super().__init__(
            config.num_heads, config.hidden_size, dropout=config.attention_dropout, **options
        )

    def make_projections(self, **options):
        super().make_projections(**{**options, "use_bias": self.config.use_bias})

    def call(self, x, view: BlockView, positions=None, training=None):
        """Like `SelfAttention.call`, with a `BlockView` instead of the bias. For all tokens (without `positions`) it
        returns an `Attended` instead of probabilities; `probabilities` computes them from it.
        """
        length = ops.shape(view.mask)[1]
        heads = (-1, length, self.num_heads, self.head_size)
        query, key, value = (ops.reshape(part, heads) for part in ops.split(self.qkv(x), 3, -1))
        if positions is None:
            context = self._by_length(
                length,
                lambda: self._from_all(query, key, value, view, view, training)[0],
                lambda: self._in_blocks(query, key, value, view),
            )
            shown = Attended(query, key, view)
        else:
            query, seen_from = at_positions(query, positions), view.map(at_positions, positions)
            counts = self._bias_of_counts(length, positions, query.dtype)
            context, shown = self._by_length(
                length,
                lambda: self._from_all(query, key, value, seen_from, view, training),
                lambda: self._from_all(query, key, value, seen_from, view, False, counts),
            )
        return self.output_dense(ops.reshape(context, (-1, self.hidden_size))), shown

    def _by_length(self, length, short, long):
        """Returns one of two functions' results; a graph with an unknown length chooses at run time."""
        is_short = length <= self.config.most_seen_by_all
        if isinstance(is_short, bool):
            return short() if is_short else long()
        return ops.cond(is_short, short, long)

    # Attention to all keys: in short rows, and from a few tokens of long rows

    def _from_all(
        self, query, key, value, seen_from: BlockView, view: BlockView, training, counts=None
    ):
        """The context [batch, queries, heads, head_size], and the probabilities of all keys. `counts` is a bias for
        long rows, from the number of times that each block is attended to.
        """
        bias = ops.expand_dims(hidden(seen_from, view, query.dtype), 1)
        bias = bias if counts is None else bias + counts
        context, probabilities = self.context_at(query, key, value, bias, training)
        if counts is None:
            return context, probabilities
        real = ops.cast(ops.expand_dims(seen_from.mask, (1, 3)), probabilities.dtype)
        return of_real(context, seen_from), probabilities * real

    def probabilities(self, attended: Attended):
        """Computes probabilities [batch, heads, length, length] from the result of `call`."""
        query, key, view = attended
        length = ops.shape(key)[1]

        def of_blocks():
            places = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
            counts = self._bias_of_counts(length, places, query.dtype)
            return self._from_all(query, key, key, view, view, False, counts)[1]

        return self._by_length(
            length, lambda: self._from_all(query, key, key, view, view, False)[1], of_blocks
        )

    def _bias_of_counts(self, length, positions, dtype: str):
        """The log of how often tokens of long rows attend to each key, [batch or 1, heads or 1, tokens, length]."""
        if isinstance(positions, slice):  # these attend to everything
            return ops.zeros((1, 1, 1, 1), dtype)
        blocks = self._number_of_blocks(length)
        seen = self._seen_blocks(blocks)
        counts = ops.sum(ops.one_hot(seen, blocks, dtype="float32"), axis=2)
        counts = ops.pad(counts, [[0, 0], [1, 1], [0, 0]], constant_values=1.0)
        counts = ops.take(counts, positions // self.config.block_size, axis=1)
        bias = ops.where(counts > 0, ops.log(ops.maximum(counts, 1.0)), masked_score(dtype))
        bias = ops.repeat(ops.cast(bias, dtype), self.config.block_size, axis=-1)
        return ops.transpose(bias[..., :length], (1, 0, 2, 3))

    def _number_of_blocks(self, length):
        # If the length is unknown, both branches are traced, so short rows need as many as long ones.
        size = self.config.block_size
        blocks, fewest = (length + size - 1) // size, fewest_blocks(self.config.num_random_blocks)
        return max(blocks, fewest) if isinstance(blocks, int) else ops.maximum(blocks, fewest)

    # Attention block by block: in long rows

    def _in_blocks(self, query, key, value, view: BlockView):
        """Returns the context of all tokens, [batch, length, heads, head_size]."""
        size, length = self.config.block_size, ops.shape(key)[1]
        query = query * (1 / math.sqrt(self.head_size))
        # Each head of each row is a lane: [lanes, blocks, size, head_size], and ids [lanes, blocks, size].
        query, key, value = (self._by_head(part) for part in (query, key, value))
        ids = view.map(lambda part: ops.repeat(in_blocks(part, size), self.num_heads, axis=0))
        lanes, blocks = ops.shape(key)[:2]
        seen = ops.tile(self._seen_blocks(blocks), (lanes // self.num_heads, 1, 1))
        of_lanes = ops.reshape(ops.arange(lanes, dtype="int32"), (-1, 1, 1)) * blocks
        rows = ops.maximum(seen, 0) + of_lanes  # numbers among the blocks of all lanes

        def of_seen(part):
            """The blocks that each block attends to, [lanes, blocks - 2, tokens, ...]."""
            flat = ops.reshape(part, (-1, math.prod(part.shape[2:])))
            taken = ops.take(flat, rows, axis=0)
            return ops.reshape(taken, (lanes, blocks - 2, seen.shape[2] * size, *part.shape[3:]))

        keys = ids.map(of_seen)
        is_seen = ops.repeat(ops.cast(seen >= 0, keys.mask.dtype), size, axis=-1)
        keys = keys._replace(mask=keys.mask * is_seen)
        bias = hidden(ids.map(lambda part: part[:, 1:-1]), keys, key.dtype)
        # Not ops.einsum, with which ONNX Runtime 1.32 crashes on a batch without rows.
        scores = ops.matmul(query[:, 1:-1], ops.swapaxes(of_seen(key), -1, -2)) + bias
        middle = ops.matmul(ops.softmax(scores), of_seen(value))

        # Not -1, with which ONNX does not accept a batch without rows.
        everything = ids.map(ops.reshape, (lanes, blocks * size))
        whole = (lanes, blocks * size, self.head_size)
        key, value = (ops.reshape(part, whole) for part in (key, value))
        bias = hidden(ids.map(joined_ends), everything, key.dtype)
        scores = ops.matmul(joined_ends(query), ops.swapaxes(key, -1, -2)) + bias
        ends = ops.matmul(ops.softmax(scores), value)
        first, last = ops.split(ops.expand_dims(ends, 1), 2, axis=2)
        context = ops.concatenate([first, middle, last], axis=1)
        context = ops.reshape(context, (-1, self.num_heads, blocks * size, self.head_size))
        return of_real(ops.transpose(context, (0, 2, 1, 3))[:, :length], view)

    def _by_head(self, part):
        """Reshapes [batch, length, heads, head_size] to [lanes, blocks, size, head_size], with batch * heads lanes."""
        part = ops.transpose(in_blocks(part, self.config.block_size), (0, 3, 1, 2, 4))
        return ops.reshape(part, (-1, ops.shape(part)[2], *part.shape[3:]))

    def _seen_blocks(self, blocks):
        """The blocks that the inner blocks attend to, int32 [heads, blocks - 2, 5 + number]: the first block, the block
        itself and its neighbours (-1 if that is the first or the last block), the last block and random ones.
        """
        own = ops.reshape(ops.arange(1, blocks - 1, dtype="int32"), (1, -1, 1))
        before, after = ops.where(own > 1, own - 1, -1), ops.where(own < blocks - 2, own + 1, -1)
        fixed = ops.concatenate([0 * own, before, own, after, 0 * own + blocks - 1], axis=-1)
        fixed = ops.broadcast_to(fixed, (self.num_heads, *ops.shape(fixed)[1:]))
        return ops.concatenate([fixed, self._random_blocks(blocks)], axis=-1)

    def _random_blocks(self, blocks):
        """The random blocks, int32 [heads, blocks - 2, number]; `blocks` may be a tensor."""
        config = self.config
        number = config.num_random_blocks
        if not config.has_random_blocks:
            return ops.zeros((self.num_heads, blocks - 2, number), "int32")
        if isinstance(blocks, int):
            table = random_blocks(self.layer, self.num_heads, config.block_size, number, blocks)
            return ops.convert_to_tensor(table)
        # In both kinds of tables, a longer row's table begins with a shorter row's.
        most = self._number_of_blocks(config.longest_input)
        table = ops.convert_to_tensor(first_blocks(self.layer, self.num_heads, number, most))
        of_paper = [n for n in range(most + 1) if is_of_paper(config.block_size, number, n)]
        if of_paper:
            paper = paper_blocks(self.layer, self.num_heads, config.block_size, number)
            rows = [[0, 0], [0, max(0, most - 2 - paper.shape[1])], [0, 0]]
            paper = ops.convert_to_tensor(np.pad(paper, rows)[:, : most - 2])
            is_of_paper_here = functools.reduce(ops.logical_or, [blocks == n for n in of_paper])
            table = ops.where(is_of_paper_here, paper, table)
        return table[:, : blocks - 2]


def joined_ends(blocks):
    """Concatenates the first and the last of blocks [lanes, blocks, size, ...] to [lanes, 2 * size, ...]."""
    return ops.concatenate([blocks[:, 0], blocks[:, -1]], axis=1)


def hidden(queries: BlockView, keys: BlockView, dtype: str):
    """A bias [..., 1 or queries, keys] that hides padding and other documents."""
    seen = ops.expand_dims(ops.cast(keys.mask, "bool"), -2)
    if keys.documents is not None:
        own = ops.expand_dims(queries.documents, -1)
        seen = ops.logical_and(seen, ops.equal(own, ops.expand_dims(keys.documents, -2)))
    return (1 - ops.cast(seen, dtype)) * masked_score(dtype)


def of_real(context, view: BlockView):
    """Sets the context [batch, tokens, heads, head_size] to zero at padding, as in the original."""
    return context * ops.cast(ops.expand_dims(view.mask, (2, 3)), context.dtype)


class SparseEmbeddings(Embeddings):
    """`Embeddings` with dropout before the norm; `rescales_tokens` multiplies token vectors by the square root of their
    width. Source: google-research/bigbird bigbird/core/utils.py, EmbeddingLayer.
    """

    def __init__(self, *arguments, rescales_tokens: bool, **options):
        super().__init__(*arguments, **options)
        self.rescales_tokens = rescales_tokens

    def embedded_tokens(self, token_ids, document_ids):
        x = super().embedded_tokens(token_ids, document_ids)
        return x * math.sqrt(self.hidden_size) if self.rescales_tokens else x

    def normed(self, x, training):
        return self.norm(self.dropout(x, training=training))


class SparseBackbone(TransformerBackbone):
    def embedded(self, inputs, training):
        embedded = self.embeddings(*map(inputs.get, self.embedded_ids), training=training)
        mask, documents = inputs.get("padding_mask"), inputs.get("document_ids")
        mask = ops.ones_like(inputs["token_ids"]) if mask is None else mask
        if documents is not None:
            mask = mask * ops.cast(documents > 0, mask.dtype)
        return embedded, BlockView(mask, documents)

    def shown_attentions(self, attentions, length):
        layers = (block.attention for block in self.stack.blocks)
        shown = [
            layer.probabilities(attended) if isinstance(attended, Attended) else attended
            for layer, attended in zip(layers, attentions, strict=True)
        ]
        return super().shown_attentions(shown, length)


class DenseLayer(keras.layers.Layer):
    """Dropout, a dense layer and an activation: [..., hidden_size] to the same shape."""

    def __init__(
        self,
        hidden_size: int,
        *,
        activation: str,
        dropout: float,
        initializer_range: float,
        **options,
    ):
        super().__init__(**options)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.dense = dense(hidden_size, "dense", stddev=initializer_range, dtype=self.dtype_policy)
        self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.built = True

    def call(self, x, training=None):
        return self.activation(self.dense(self.dropout(x, training=training)), training=training)


class FeedForwardBlock(FeedForward):
    """Dropout, then a feed-forward layer with residual connection and norm, like the second half of a block: [...,
    hidden_size] to the same shape. Source: transformers' BigBirdForQuestionAnsweringHead, used by the TriviaQA
    checkpoint.
    """

    def __init__(self, *arguments, epsilon: float, dropout: float, **options):
        super().__init__(*arguments, **options)
        self.around = Dropout(dropout, dtype=self.dtype_policy, name="around")
        self.norm = norm("norm", epsilon=epsilon, dtype=self.dtype_policy)

    def build(self, input_shape):
        super().build(input_shape)
        self.norm.build(input_shape)

    def call(self, x, training=None):
        fed = super().call(self.around(x, training=training), training=training)
        return self.norm(x + self.around(fed, training=training))
