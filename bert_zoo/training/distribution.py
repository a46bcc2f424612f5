"""`strategy`: training on several devices, with TensorFlow's strategies or Keras on JAX."""

import json
import os
from collections.abc import Callable
from typing import Any

import keras

from bert_zoo.layers.replicas import num_replicas
from bert_zoo.presets import check_strategy

# Variables in which Colab, Kaggle and Cloud TPU machines name their TPU.
TPU_VARIABLES = ("TPU_NAME", "COLAB_TPU_ADDR", "KAGGLE_TPU_NAME")


def strategy(name: str = "auto", *, model_parallel: int = 1):
    """Connects to devices and returns the strategy under which to load and compile a model.

        strategy = bert_zoo.training.strategy("tpu")
        with strategy.scope():
            model = bert_zoo.load("albert_base", task="classification", num_classes=2)
        model.fit(texts, labels, batch_size=256)

    `batch_size` is the total over all replicas: here, `strategy.num_replicas_in_sync` devices share 256
    rows. Losses are means over the whole batch, gradients are summed before clipping, and smaller last
    batches count by their rows. So any number of replicas trains like a single device.

    Args:
        name: the devices.
            "one": the backend's default device.
            "cpu:4": four logical devices on this machine's processor, for tests.
            "mirrored": all GPUs of this machine.
            "multi_worker": the processes that the environment names, for TensorFlow in TF_CONFIG, for
            JAX in KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID.
            "tpu": this machine's TPU or, on TensorFlow, the one that the environment names.
            "tpu:NAME": another TPU (TensorFlow only).
            "auto": the first available one of tpu, multi_worker and mirrored, else one.
        model_parallel: number of devices that share one copy of the weights and optimizer state; only
            with Keras on JAX.

    Returns:
        A tf.distribute.Strategy. On JAX, Keras's distribution is set for the process, and the result
        is an object with the same `scope` and `num_replicas_in_sync`.

    Raises:
        ValueError: the name is unknown, or devices or settings are missing.
        RuntimeError: "cpu:N" is requested after the backend has started computing.
    """
    check_strategy(name)
    kind, _, address = name.partition(":")
    if model_parallel < 1:
        raise ValueError(
            f"model_parallel is {model_parallel}; it must be a number of devices, at least 1."
        )
    if keras.backend.backend() == "jax":
        from bert_zoo.training import jax_distribution

        return jax_distribution.make(kind, address, model_parallel)
    if model_parallel > 1:
        raise ValueError(
            f"model_parallel is {model_parallel}, but Keras divides models only on JAX. Set the environment "
            "variable KERAS_BACKEND=jax."
        )
    return MAKERS[_at_hand() if kind == "auto" else kind](address)


def present_strategy():
    """Returns the strategy of the current scope."""
    if keras.backend.backend() == "jax":
        from bert_zoo.training.jax_distribution import Devices

        return Devices(num_replicas())
    return _one("")


def _at_hand() -> str:
    import tensorflow as tf

    if any(os.environ.get(variable) for variable in TPU_VARIABLES):
        return "tpu"
    if _num_workers() > 1:
        return "multi_worker"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one"


def _one(_: str):
    import tensorflow as tf

    return tf.distribute.get_strategy()


def _cpus(count: str):
    import tensorflow as tf

    number = int(count)
    processor = tf.config.list_physical_devices("CPU")[0]
    found = tf.config.get_logical_device_configuration(processor)
    if len(found or ()) < number:
        try:
            tf.config.set_logical_device_configuration(
                processor, [tf.config.LogicalDeviceConfiguration()] * number
            )
        except RuntimeError as error:
            raise RuntimeError(
                f"cpu:{number} divides the processor, but TensorFlow is already using it. Call strategy() "
                "first, before loading models or making tensors."
            ) from error
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(number)])


def _mirrored(_: str):
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        raise ValueError(
            "There is no GPU to mirror on. Leave the strategy out, or use cpu:2 for tests."
        )
    return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])


def _multi_worker(_: str):
    import tensorflow as tf

    if not _num_workers():
        raise ValueError(
            "The environment variable TF_CONFIG names no workers. Set it in each process, with the "
            'process\'s own index: {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
            '"index": 0}}.'
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _num_workers() -> int:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return len(cluster.get("worker", ())) + len(cluster.get("chief", ()))


def _tpu(address: str):
    import tensorflow as tf

    try:
        # An empty name finds the TPU that the environment names; "local" is a TPU machine's own.
        named = address or any(os.environ.get(variable) for variable in TPU_VARIABLES)
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address if named else "local"
        )
        if resolver.get_master():
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        which = f" {address!r}" if address else ""
        raise ValueError(
            f"TensorFlow finds no TPU{which} ({type(error).__name__}: {error}). It needs a TPU runtime "
            "with TensorFlow for TPUs (tensorflow-tpu). For Colab's TPUs, use Keras's JAX backend."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


# Kind -> a function of the part of the name after its colon.
MAKERS: dict[str, Callable[[str], Any]] = {
    "one": _one,
    "cpu": _cpus,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}
