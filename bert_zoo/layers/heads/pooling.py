"""Pooling of token vectors to sentence vectors."""

from keras import ops

from bert_zoo.config import Pooling


def _first(x, mask):
    # Not argmax, for which Keras uses an operation that LiteRT lacks.
    is_first = ops.cast(ops.equal(ops.cumsum(mask, axis=1), 1), x.dtype)
    return ops.sum(x * mask * is_first, axis=1)


def _max(x, mask):
    # A row of nothing but padding gets this value; as `initial` it allows empty batches.
    return ops.max(ops.where(mask > 0, x, -1e9), axis=1, initial=-1e9)


def _mean(x, mask):
    # sentence-transformers' lower bound: a row of nothing but padding stays 0.
    return ops.sum(x * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1e-9)


def _mean_sqrt_len(x, mask):
    return ops.sum(x * mask, axis=1) / ops.sqrt(ops.maximum(ops.sum(mask, axis=1), 1e-9))


def _last(x, mask):
    is_last = ops.equal(ops.cumsum(mask, axis=1), ops.sum(mask, axis=1, keepdims=True))
    return ops.sum(x * mask * ops.cast(is_last, x.dtype), axis=1)


# Functions (x [batch, length, hidden], mask [batch, length, 1]) -> [batch, hidden].
MODES = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "lasttoken": _last,
}


# The poolings that the head "concatenated" reads side by side.
CONCATENATED_POOLING = Pooling(("lasttoken", "max", "mean"), normalize=False)


def pool(sequence_output, padding_mask, pooling: Pooling, prompt_mask=None):
    """Pools [batch, length, hidden] to float32 [batch, hidden], or as wide as all modes together.

    Source: Reimers and Gurevych 2019 (arXiv:1908.10084), section 3; the Pooling of sentence-transformers.

    Args:
        sequence_output: the encoder's last hidden state.
        padding_mask: [batch, length], 1 for real tokens; None if all are real.
        pooling: the `Pooling` whose modes to use.
        prompt_mask: [batch, length], 0 for real tokens that are not pooled; None for none.
    """
    # In float32 also under mixed precision: a mean over 512 bfloat16 numbers loses digits.
    x = ops.cast(sequence_output, "float32")
    if pooling.reads_first_only:
        return x[:, 0]
    real = ops.ones_like(x[:, :, :1])
    if padding_mask is not None:
        real = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)
    mask = real
    if prompt_mask is not None:
        mask = real * ops.expand_dims(ops.cast(prompt_mask, "float32"), -1)

    def pooled(mode: str):
        if mode == "weightedmean":
            # A prompt that is not pooled does not change the other tokens' weights.
            return _mean(x, mask * ops.cumsum(real, axis=1))
        return MODES[mode](x, mask)

    vectors = [pooled(mode) for mode in pooling.modes]
    return vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)


def finished(vectors, pooling: Pooling):
    """Vectors [batch, size] normalised and then truncated, as `pooling` says.

    Raises:
        ValueError: vectors are shorter than `truncate_dim`.
    """
    check_size(pooling, vectors.shape[-1])
    if pooling.normalize:
        vectors = normalized(vectors)
    return vectors[:, : pooling.truncate_dim]


def check_size(pooling: Pooling, size: int) -> None:
    """Raises ValueError if vectors of this size are shorter than `truncate_dim`."""
    if (pooling.truncate_dim or 0) > size:
        raise ValueError(
            f"truncate_dim is {pooling.truncate_dim}, but the model's vectors have {size} numbers. "
            "Pass a smaller number, or None for all."
        )


def normalized(x):
    """Vectors scaled to length 1."""
    squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
    # The bound is below the root, whose gradient at 0 would make NaN of a vector of zeros.
    return x / ops.sqrt(ops.maximum(squared, 1e-24))
