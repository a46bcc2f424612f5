"""Training on several devices: one call, for TensorFlow's strategies and for Keras on JAX."""

import json
import os
import re
from collections.abc import Callable
from typing import Any

import keras

from bert_zoo.layers.replicas import num_replicas

NAME = re.compile(r"auto|one|cpu:[1-9]\d*|mirrored|multi_worker|tpu(:.*)?")
# What Colab, Kaggle and Cloud TPU machines say where their TPU is.
TPU_VARIABLES = ("TPU_NAME", "COLAB_TPU_ADDR", "KAGGLE_TPU_NAME")


def strategy(name: str = "auto", *, model_parallel: int = 1):
    """Connects to devices and gives the strategy to build and compile a model under.

        strategy = bert_zoo.training.strategy("tpu")
        with strategy.scope():
            model = bert_zoo.load("albert_base", task="classification", num_classes=2)
        model.fit(texts, labels, batch_size=256)

    A batch is always that of all replicas together: `strategy.num_replicas_in_sync` of them share
    256 rows here. bert_zoo's losses are means over the whole batch, gradients are summed before they
    are clipped, and last batches count by their rows, so that any number of replicas trains as one
    device does.

    Args:
        name: "one", the device that the backend takes by itself; "cpu:4", four logical devices of this
            machine's processor, to try things; "mirrored", all its GPUs; "multi_worker", the processes
            that the environment names, for TensorFlow in TF_CONFIG, for JAX in
            KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID; "tpu", the TPU of this
            machine or (TensorFlow) the one that its environment names, and "tpu:NAME" another;
            "auto", the first of tpu, multi_worker and mirrored that there is, or else one.
        model_parallel: devices that share one copy of the model's weights and optimizer; with Keras on
            JAX alone.

    Returns:
        A tf.distribute.Strategy; on JAX, where Keras's distribution is set for the process, an
        object with the same `scope` and `num_replicas_in_sync`.

    Raises:
        ValueError: an unknown name; devices or settings that are not there.
        RuntimeError: "cpu:N" after the backend has begun to compute.
    """
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no strategy; there are auto, one, cpu:N, mirrored, multi_worker, tpu, tpu:NAME."
        )
    kind, _, address = name.partition(":")
    if model_parallel < 1:
        raise ValueError(
            f"model_parallel is {model_parallel}; it is a number of devices, at least 1."
        )
    if keras.backend.backend() == "jax":
        from bert_zoo.training import jax_distribution

        return jax_distribution.make(kind, address, model_parallel)
    if model_parallel > 1:
        raise ValueError(
            f"model_parallel is {model_parallel}: Keras divides models on JAX alone. Set the environment "
            "variable KERAS_BACKEND=jax."
        )
    return MAKERS[_at_hand() if kind == "auto" else kind](address)


def present_strategy():
    """What `strategy` gave, where it holds."""
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
                f"cpu:{number} divides the processor, and TensorFlow has used it already. Ask for the "
                "strategy before anything else: before models are loaded and tensors made."
            ) from error
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(number)])


def _mirrored(_: str):
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        raise ValueError(
            "There is no GPU to mirror on. Leave the strategy out, or try things with cpu:2."
        )
    return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])


def _multi_worker(_: str):
    import tensorflow as tf

    if not _num_workers():
        raise ValueError(
            "Several workers are named by the environment variable TF_CONFIG, which says nothing: "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, with '
            "an index of its own in each process."
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _num_workers() -> int:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return len(cluster.get("worker", ())) + len(cluster.get("chief", ()))


def _tpu(address: str):
    import tensorflow as tf

    try:
        # An empty name finds the TPU that the environment names; "local" is that of a TPU machine.
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
            "with TensorFlow for TPUs (tensorflow-tpu); Colab's TPUs are reached through Keras's JAX "
            "backend."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


# Each is given the part of a name after its colon.
MAKERS: dict[str, Callable[[str], Any]] = {
    "one": _one,
    "cpu": _cpus,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}
