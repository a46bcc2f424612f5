"""Attention within windows: blocks of tokens, their neighbours and the bias of scores.

Rows are cut into blocks of half a window. A token's window then lies in its own block and the two next to
it, so time and memory grow linearly with the length.
"""

import numpy as np
from keras import ops

from bert_zoo.layers.attention import at_queries, masked_score
from bert_zoo.layers.common import at_positions

# In longer rows, this many queries at a time attend to all tokens: the scores between 8,192 tokens take
# 3 GB in float32 with twelve heads.
QUERIES_AT_ONCE = 1024


def in_blocks(x, size: int, with_ends: bool = False):
    """Cuts [batch, length, ...] into blocks [batch, blocks, size, ...], padded with zeros.

    With `with_ends` there is one more block of zeros at each end, for the neighbours of the outer blocks.
    """
    length = ops.shape(x)[1]
    # Not -length % size: tf2onnx 1.17 rounds quotients of integers towards zero.
    blocks = (length + size - 1) // size
    ends = size if with_ends else 0
    widths = [[0, 0], [ends, ends + blocks * size - length], *([0, 0] for _ in x.shape[2:])]
    padded = ops.pad(x, widths)
    return ops.reshape(padded, (-1, ops.shape(padded)[1] // size, size, *x.shape[2:]))


def with_neighbours(blocks, axis: int, first=None):
    """Joins each block [batch, ..., blocks + 2, ...] (third axis; content on `axis`) with its two neighbours: two
    blocks fewer. `first` is put before every block; its third axis has size 1.
    """
    parts = [blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]]
    if first is not None:
        shape = [*ops.shape(first)[:2], ops.shape(parts[0])[2], *first.shape[3:]]
        parts.insert(0, ops.broadcast_to(first, shape))
    return ops.concatenate(parts, axis=axis)


def attended_in_blocks(query, key, value, bias, dropout, first=None):
    """Attends from heads [batch, length, heads, head_size] (queries scaled) to their own block and its two neighbours.
    `bias` is [batch, 1, blocks, block, keys]; `first` has more keys and values [batch, number, heads, head_size],
    which every query sees before those of its blocks; `dropout` is a function of the probabilities. Returns the
    weighted values in the queries' shape, and the probabilities [batch, heads, blocks, block, keys] before dropout.
    """
    length, size = ops.shape(query)[1], bias.shape[3]
    query = ops.transpose(in_blocks(query, size), (0, 3, 1, 2, 4))
    key, value = (in_blocks(part, size, with_ends=True) for part in (key, value))
    keys = values = None
    if first is not None:
        keys, values = (ops.expand_dims(part, 1) for part in first)
        keys = ops.transpose(keys, (0, 3, 1, 4, 2))
        values = ops.transpose(values, (0, 3, 1, 2, 4))
    key = with_neighbours(ops.transpose(key, (0, 3, 1, 4, 2)), axis=-1, first=keys)
    value = with_neighbours(ops.transpose(value, (0, 3, 1, 2, 4)), axis=-2, first=values)
    probabilities = ops.softmax(ops.matmul(query, key) + bias)
    context = ops.transpose(ops.matmul(dropout(probabilities), value), (0, 2, 3, 1, 4))
    context = ops.reshape(context, (-1, ops.shape(context)[1] * size, *context.shape[3:]))
    return context[:, :length], probabilities


def window_bias(mask, document_ids, reach: int, dtype: str):
    """A bias [batch, 1, length, length] that hides padding, other documents and tokens further than `reach` away.
    `mask` is int [batch, length], 1 for tokens; so are `document_ids`, None if each row is one document.
    """
    places = ops.arange(ops.shape(mask)[1])
    offsets = ops.expand_dims(places, 0) - ops.expand_dims(places, 1)
    seen = ops.logical_and(ops.abs(offsets) <= reach, ops.cast(ops.expand_dims(mask, 1), "bool"))
    if document_ids is not None:
        same = ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))
        seen = ops.logical_and(seen, same)
    return hidden_by(seen, dtype)


def window_bias_in_blocks(mask, document_ids, reach: int, dtype: str):
    """As `window_bias`, for blocks of `reach` tokens: [batch, 1, blocks, reach, 3 * reach]."""

    def keys(ids):
        """[batch, blocks, 1, 3 * reach]."""
        blocks = ops.expand_dims(in_blocks(ids, reach, with_ends=True), 1)
        return ops.transpose(with_neighbours(blocks, axis=-1), (0, 2, 1, 3))

    offsets = np.arange(3 * reach) - reach - np.arange(reach)[:, None]  # from query to key
    near = ops.convert_to_tensor(np.abs(offsets) <= reach)
    seen = ops.logical_and(near, ops.cast(keys(mask), "bool"))
    if document_ids is not None:
        queries = ops.expand_dims(in_blocks(document_ids, reach), 3)
        seen = ops.logical_and(seen, ops.equal(queries, keys(document_ids)))
    return hidden_by(seen, dtype)


def hidden_by(seen, dtype: str):
    """A bias for all heads, [batch, 1, ...], from a mask of what is seen, bool [batch, ...]."""
    # Not None in an index; see `attention_bias`.
    return ops.expand_dims((1 - ops.cast(seen, dtype)) * masked_score(dtype), 1)


def out_of_blocks(probabilities, length, positions):
    """Turns probabilities [batch, heads, blocks, block, 3 * block] into [batch, heads, queries, length], for all
    queries or those at `positions` (see `at_positions`).
    """
    batch, heads, blocks = ops.shape(probabilities)[:3]
    size = probabilities.shape[-1] // 3
    rows = ops.reshape(probabilities, (-1, heads, blocks * size, 3 * size))[:, :, :length]
    queries = ops.broadcast_to(ops.arange(length, dtype="int32")[None], (batch, length))
    if positions is not None:
        rows, queries = at_queries(rows, positions), at_positions(queries, positions)
    keys = ops.arange(length, dtype="int32") - ((queries // size - 1) * size)[:, None, :, None]
    is_there = ops.logical_and(keys >= 0, keys < 3 * size)
    shape = (*ops.shape(rows)[:3], length)
    found = ops.take_along_axis(rows, ops.broadcast_to(ops.clip(keys, 0, 3 * size - 1), shape), -1)
    return ops.where(is_there, found, 0)


def some_at_a_time(query, bias) -> list[tuple]:
    """Queries [batch, length, heads, head_size] and their bias; long rows in parts."""
    length = query.shape[1]
    if length is None or length <= QUERIES_AT_ONCE:
        return [(query, bias)]
    parts = (slice(i, i + QUERIES_AT_ONCE) for i in range(0, length, QUERIES_AT_ONCE))
    return [(query[:, p], bias if bias.shape[2] == 1 else bias[:, :, p]) for p in parts]


def joined(parts, axis: int):
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=axis)
