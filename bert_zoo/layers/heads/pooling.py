"""From token vectors to one vector a sentence."""

from keras import ops

from bert_zoo.config import Pooling


def _mean(x, mask):
    # sentence-transformers' floor keeps a row of padding alone at 0.
    return ops.sum(x * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1e-9)


def _max(x, mask):
    # sentence-transformers' value for padding, which a row of padding alone shows.
    return ops.max(ops.where(mask > 0, x, -1e9), axis=1)


# Over real tokens: ([batch, length, hidden], mask [batch, length, 1]) -> [batch, hidden].
MODES = {"mean": _mean, "max": _max}


def pool(sequence_output, padding_mask, pooling: Pooling):
    """Pools [batch, length, hidden] to float32 [batch, hidden].

    Source: Reimers and Gurevych 2019 (arXiv:1908.10084), section 3.

    Args:
        sequence_output: the encoder's last hidden state.
        padding_mask: [batch, length], 1 for real tokens; None stands for all real.
        pooling: mode, and whether to scale to length 1.
    """
    # In float32 also under mixed precision: a mean over 512 bfloat16 numbers loses digits.
    x = ops.cast(sequence_output, "float32")
    if pooling.mode == "cls":
        x = x[:, 0]
    else:
        mask = ops.ones_like(x[:, :, :1])
        if padding_mask is not None:
            mask = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)
        x = MODES[pooling.mode](x, mask)
    return normalized(x) if pooling.normalize else x


def normalized(x):
    """Vectors scaled to length 1."""
    norm = ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))
    return x / ops.maximum(norm, 1e-12)
