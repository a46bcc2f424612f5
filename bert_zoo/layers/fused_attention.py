"""Attention in one kernel, which keeps no probabilities, where Keras has one: with JAX on a GPU."""

import keras
from keras import ops

from bert_zoo import private


def fused_context(query, key, value, bias):
    """The values, weighted by the softmax of the scores, without dropout.

    `keras.config.disable_flash_attention()` turns it off.

    Args:
        query, key, value, bias: as of `SelfAttention.attended`.

    Returns:
        [batch, heads, queries, head_size]; None where there is no kernel: on TensorFlow, on CPUs and
        TPUs, in float32, for a model divided over devices, a bias of every head, and an odd number of
        queries or keys.
    """
    if keras.config.is_flash_attention_enabled() is False or not _is_whole_on_gpu():
        return None
    queries, keys = query.shape[2], key.shape[3]
    # A bias of every head is learned, and some versions of JAX have the kernel's gradient of it for a
    # batch of one alone (jax#30593). Any gradient is for even lengths, which Keras 3.15 does not ask.
    if bias.shape[1] != 1 or queries % 2 or keys % 2:
        return None
    query, value = (ops.transpose(part, (0, 2, 1, 3)) for part in (query, value))
    key = ops.transpose(key, (0, 3, 1, 2))
    # Nor does the kernel take a bias that is the same for all queries (jax#28974).
    bias = ops.broadcast_to(bias, (bias.shape[0], 1, queries, keys))
    if not private.has_fused_attention(query, key, value, bias):
        return None
    context = ops.dot_product_attention(query, key, value, bias=bias, scale=1.0)
    return ops.transpose(context, (0, 2, 1, 3))


def _is_whole_on_gpu() -> bool:
    """Whether JAX computes a model on GPUs, on each of them all heads of its rows."""
    if keras.backend.backend() != "jax":
        return False
    distribution = keras.distribution.distribution()
    # The kernel refuses queries and keys that are divided in different ways, which is XLA's choice.
    if isinstance(distribution, keras.distribution.ModelParallel):
        return False
    # Not on TPUs, where Keras 3.15 does not pass the bias on to its kernel (docs/performance.md); nor with
    # a strategy such as cpu:2 beside a GPU, which Keras would find.
    if distribution is not None:
        return distribution.device_mesh.devices[0].startswith("gpu")
    return keras.distribution.list_devices()[0].startswith("gpu")
