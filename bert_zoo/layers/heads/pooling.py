"""From token vectors to one vector a sentence."""

from keras import ops

from bert_zoo.config import Pooling


def _first(x, mask):
    # Not by argmax, which Keras makes of an operation that LiteRT lacks.
    is_first = ops.cast(ops.equal(ops.cumsum(mask, axis=1), 1), x.dtype)
    return ops.sum(x * mask * is_first, axis=1)


def _max(x, mask):
    # The value for padding is what a row of padding alone shows; as `initial` it lets a batch be empty.
    return ops.max(ops.where(mask > 0, x, -1e9), axis=1, initial=-1e9)


def _mean(x, mask):
    # sentence-transformers' floor keeps a row of padding alone at 0.
    return ops.sum(x * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1e-9)


def _mean_sqrt_len(x, mask):
    return ops.sum(x * mask, axis=1) / ops.sqrt(ops.maximum(ops.sum(mask, axis=1), 1e-9))


def _last(x, mask):
    is_last = ops.equal(ops.cumsum(mask, axis=1), ops.sum(mask, axis=1, keepdims=True))
    return ops.sum(x * mask * ops.cast(is_last, x.dtype), axis=1)


# Over tokens that count: ([batch, length, hidden], mask [batch, length, 1]) -> [batch, hidden].
MODES = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "lasttoken": _last,
}


# What a head reads side by side, where it reads more than a token or the mean.
CONCATENATED_POOLING = Pooling(("lasttoken", "max", "mean"), normalize=False)


def pool(sequence_output, padding_mask, pooling: Pooling, prompt_mask=None):
    """Pools [batch, length, hidden] to float32 [batch, hidden], or as wide as all modes together.

    Source: Reimers and Gurevych 2019 (arXiv:1908.10084), section 3; the Pooling of sentence-transformers.

    Args:
        sequence_output: the encoder's last hidden state.
        padding_mask: [batch, length], 1 for real tokens; None stands for all real.
        pooling: only its modes are read.
        prompt_mask: [batch, length], 0 for tokens that are read and do not count; None for none.
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
            # A prompt that does not count leaves the others their weights.
            return _mean(x, mask * ops.cumsum(real, axis=1))
        return MODES[mode](x, mask)

    vectors = [pooled(mode) for mode in pooling.modes]
    return vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)


def finished(vectors, pooling: Pooling):
    """What is done with vectors [batch, size] last: scaled to length 1, then cut, as `pooling` says.

    Raises:
        ValueError: they are shorter than they are to be cut to.
    """
    check_size(pooling, vectors.shape[-1])
    if pooling.normalize:
        vectors = normalized(vectors)
    return vectors[:, : pooling.truncate_dim]


def check_size(pooling: Pooling, size: int) -> None:
    """Raises ValueError where vectors are shorter than they are to be cut to."""
    if (pooling.truncate_dim or 0) > size:
        raise ValueError(
            f"truncate_dim is {pooling.truncate_dim}, and the model's vectors have {size} numbers. "
            "Pass fewer, or None for all."
        )


def normalized(x):
    """Vectors scaled to length 1."""
    squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
    # Below the root, of whose gradient at 0 a vector of zeros would make NaN.
    return x / ops.sqrt(ops.maximum(squared, 1e-24))
