"""Attention in one kernel, which keeps no probabilities, where Keras has one: with JAX on a GPU."""

import keras
from keras import ops

from bert_zoo import private


def has_kernels() -> bool:
    """Whether attention may be computed by a kernel here at all: on GPUs with JAX, unless it is turned off.

    `keras.config.disable_flash_attention()` turns it off.
    """
    return keras.config.is_flash_attention_enabled() is not False and _is_whole_on_gpu()


def fused_context(query, key, value, bias, scale: float = 1.0):
    """The values, weighted by the softmax of the scores, without dropout.

    Args:
        query, key, value: [batch, length, heads, head_size], as the kernel reads and writes them.
        bias: [batch, 1 or heads, 1 or queries, keys], added to the scores.
        scale: factor of the scores, before that.

    Returns:
        [batch, queries, heads, head_size]; None where there is no kernel: on TensorFlow, on CPUs and
        TPUs, in float32, for a model divided over devices, a bias of every head, and an odd number of
        queries or keys.
    """
    if not has_kernels():
        return None
    queries, keys = query.shape[1], key.shape[1]
    # A bias of every head is learned, and some versions of JAX have the kernel's gradient of it for a
    # batch of one alone (jax#30593). Any gradient is for even lengths, which Keras 3.15 does not ask.
    if bias.shape[1] != 1 or queries % 2 or keys % 2:
        return None
    # Nor does the kernel take a bias that is the same for all queries (jax#28974).
    bias = ops.broadcast_to(bias, (bias.shape[0], 1, queries, keys))
    if not private.has_fused_attention(query, key, value, bias):
        return None
    return ops.dot_product_attention(query, key, value, bias=bias, scale=scale)


def _is_whole_on_gpu() -> bool:
    """Whether JAX computes a model on GPUs, on each of them all heads of its rows."""
    if keras.backend.backend() != "jax":
        return False
    distribution = keras.distribution.distribution()
    # The kernel refuses queries and keys that are divided in different ways, which is XLA's choice.
    if isinstance(distribution, keras.distribution.ModelParallel):
        return False
    # Not on TPUs, where Keras 3.15 does not pass the bias on to its kernel (docs/measured/gpu.md); nor with
    # a strategy such as cpu:2 beside a GPU, which Keras would find.
    if distribution is not None:
        return distribution.device_mesh.devices[0].startswith("gpu")
    return keras.distribution.list_devices()[0].startswith("gpu")
