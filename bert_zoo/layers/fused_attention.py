"""Attention in one fused kernel, which keeps no probabilities. Keras has one for JAX on a GPU."""

import keras
from keras import ops

from bert_zoo import private


def has_kernels() -> bool:
    """Whether fused kernels are available: with JAX on GPUs.

    `keras.config.disable_flash_attention()` turns them off.
    """
    return keras.config.is_flash_attention_enabled() is not False and _is_whole_on_gpu()


def fused_context(query, key, value, bias, scale: float = 1.0):
    """The values, weighted by the softmax of the scores, without dropout.

    Args:
        query, key, value: [batch, length, heads, head_size], as the kernel reads and writes them.
        bias: [batch, 1 or heads, 1 or queries, keys], added to the scores.
        scale: factor of the scores before the bias is added.

    Returns:
        [batch, queries, heads, head_size]; None if there is no kernel: on TensorFlow, on CPUs and TPUs,
        in float32, for a model divided over devices, for a bias per head, and for an odd number of queries
        or keys.
    """
    if not has_kernels():
        return None
    queries, keys = query.shape[1], key.shape[1]
    # A bias per head is learned, and some versions of JAX have the kernel's gradient for it only for a
    # batch of one (jax#30593). All gradients need even lengths, which Keras 3.15 does not check.
    if bias.shape[1] != 1 or queries % 2 or keys % 2:
        return None
    # Nor does the kernel take a bias that is the same for all queries (jax#28974).
    bias = ops.broadcast_to(bias, (bias.shape[0], 1, queries, keys))
    if not private.has_fused_attention(query, key, value, bias):
        return None
    return ops.dot_product_attention(query, key, value, bias=bias, scale=scale)


def _is_whole_on_gpu() -> bool:
    """Whether JAX computes on GPUs, with all heads of a row on the same GPU."""
    if keras.backend.backend() != "jax":
        return False
    distribution = keras.distribution.distribution()
    # The kernel refuses queries and keys that are divided differently, and XLA chooses how.
    if isinstance(distribution, keras.distribution.ModelParallel):
        return False
    # Not on TPUs, where Keras 3.15 does not pass the bias to its kernel (docs/measured/gpu.md), nor with a
    # strategy on CPUs in a machine with a GPU, which Keras would find.
    if distribution is not None:
        return distribution.device_mesh.devices[0].startswith("gpu")
    return keras.distribution.list_devices()[0].startswith("gpu")
