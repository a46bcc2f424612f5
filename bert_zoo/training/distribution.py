"""`strategy`: training on several devices, with TensorFlow's strategies or Keras on JAX."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
from keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel, TensorLayout

from bert_zoo.fields import check
from bert_zoo.layers.common import num_replicas
from bert_zoo.presets import check_strategy

# -------------------------------------------------------------------------------------------------
# Training on several devices with Keras on JAX, for `bert_zoo.training.strategy`.
# -------------------------------------------------------------------------------------------------

BATCH, MODEL = "batch", "model"

# How a model is divided (Shoeybi et al. 2019, arXiv:1909.08053, section 3). The first product of a layer
# is divided by outputs and the second by inputs, so that devices synchronize once for both. Tables are
# divided by columns, because the number of tokens often does not divide. All families use the same
# layers, so these ends of paths cover all of them. Other variables are replicated.
LAYOUTS: dict[str, tuple[str | None, ...]] = {
    r"(token_embedding|embeddings/table_\d+)/embeddings": (None, MODEL),
    r"attention/(qkv|query_key|(query|key|value|key_value)(_global)?|position.*)/kernel": (
        None,
        MODEL,
    ),
    r"attention/(qkv|query_key|(query|key|value|key_value)(_global)?|position_.*)/bias": (MODEL,),
    r"attention/output/kernel": (MODEL, None),
    r"feed_forward(_\d+)?/intermediate/kernel": (None, MODEL),
    r"feed_forward(_\d+)?/intermediate/bias": (MODEL,),
    r"feed_forward(_\d+)?/output/kernel": (MODEL, None),
    # LSTMs.
    r"layer_\d+/((forward|backward)/|recurrent_)?kernel": (None, MODEL),
    r"layer_\d+/(forward|backward)/projection": (MODEL, None),
}


@dataclass(frozen=True)
class Devices:
    """What `bert_zoo.training.strategy` returns on JAX, with the interface of a tf.distribute.Strategy."""

    num_replicas_in_sync: int  # number of parts that a batch is divided into

    def scope(self) -> contextlib.AbstractContextManager:
        """Does nothing: Keras's distribution is set for the whole process."""
        return contextlib.nullcontext()


class _WholeBatches:
    """Mixin for Keras distributions: models divide batches themselves (`divided_rows`).

    Keras 3.15 uses the first batch's layout for the whole epoch, which fails if the last batch does not
    divide. So every process reads complete batches; ids are small.
    """

    def get_data_layout(self, data_shape):
        return TensorLayout([None] * len(data_shape), self.device_mesh)


class WholeBatchDataParallel(_WholeBatches, DataParallel):
    """`keras.distribution.DataParallel` for batches of any number of rows."""


class WholeBatchModelParallel(_WholeBatches, ModelParallel):
    """`keras.distribution.ModelParallel` for such batches; variables that do not divide are replicated."""

    def get_variable_layout(self, variable):
        layout = super().get_variable_layout(variable)
        size = dict(zip(self.device_mesh.axis_names, self.device_mesh.shape, strict=True))
        divides = all(
            axis is None or length % size[axis] == 0
            for axis, length in zip(layout.axes, variable.shape, strict=True)
        )
        return layout if divides else TensorLayout([None] * len(variable.shape), self.device_mesh)


def make(kind: str, address: str, model_parallel: int) -> Devices:
    """Sets Keras's distribution for the process, of `kind` "cpu" and `address` "4" for "cpu:4"."""
    _keep_tensorflow_off_accelerators()
    devices = _devices(kind, address)
    if len(devices) % model_parallel:
        raise ValueError(
            f"model_parallel is {model_parallel}, but the number of devices is {len(devices)}. Choose a divisor "
            "of it."
        )
    replicas = len(devices) // model_parallel
    # Every process reads complete batches.
    options = {"auto_shard_dataset": False}
    if len(devices) == 1:
        distribution = None
    elif model_parallel == 1:
        distribution = WholeBatchDataParallel(devices=devices, **options)
    else:
        mesh = DeviceMesh((replicas, model_parallel), (BATCH, MODEL), devices)
        layouts = LayoutMap(mesh)
        for path, axes in LAYOUTS.items():
            layouts[f".*{path}"] = TensorLayout(axes, mesh)
        distribution = WholeBatchModelParallel(layout_map=layouts, batch_dim_name=BATCH, **options)
    keras.distribution.set_distribution(distribution)
    return Devices(replicas)


def _devices(kind: str, address: str) -> list[str]:
    import jax

    if kind == "cpu":
        return _jax_cpus(int(address))
    if kind == "one":
        return keras.distribution.list_devices()[:1]
    several = os.environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES")
    if kind == "multi_worker" or (kind == "auto" and several):
        _join_processes()
    if kind in ("auto", "multi_worker"):
        return keras.distribution.list_devices()
    if address:
        raise ValueError(
            f"JAX only uses its own machine's TPU, and cannot connect to {address!r}. Run on that machine "
            "with the strategy tpu."
        )
    platform = {"mirrored": "gpu", "tpu": "tpu"}[kind]
    if jax.default_backend() != platform:
        raise ValueError(
            f"JAX finds no {platform.upper()}: it runs on {jax.default_backend()}. Leave the strategy "
            "out, or use cpu:2 for tests."
        )
    return keras.distribution.list_devices()


def _join_processes() -> None:
    try:
        # Reads KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID; without them JAX looks
        # for a TPU pod.
        keras.distribution.initialize()
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"JAX finds no processes to train with ({error}). Outside a TPU pod, set "
            "KERAS_DISTRIBUTION_JOB_ADDRESSES (host:port,host:port), KERAS_DISTRIBUTION_NUM_PROCESSES and, "
            "in each process, its own KERAS_DISTRIBUTION_PROCESS_ID."
        ) from error


def _jax_cpus(number: int) -> list[str]:
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError as error:
        if len(keras.distribution.list_devices("cpu")) < number:
            raise RuntimeError(
                f"cpu:{number} divides the processor, but JAX is already using it. Call strategy() first, "
                "before loading models or making arrays."
            ) from error
    return keras.distribution.list_devices("cpu")[:number]


def _keep_tensorflow_off_accelerators() -> None:
    """Hides GPUs from TensorFlow, which only tokenizes here but would take all of their memory."""
    # A RuntimeError means that TensorFlow has already started: too late.
    with contextlib.suppress(ImportError, RuntimeError):
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")


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
    check("model_parallel", model_parallel, int, least=1)
    if keras.backend.backend() == "jax":
        return make(kind, address, model_parallel)
    if model_parallel > 1:
        raise ValueError(
            f"model_parallel is {model_parallel}, but Keras divides models only on JAX. Set the environment "
            "variable KERAS_BACKEND=jax."
        )
    return MAKERS[_available() if kind == "auto" else kind](address)


def present_strategy():
    """The strategy of the current scope."""
    if keras.backend.backend() == "jax":
        return Devices(num_replicas())
    return _one("")


def _available() -> str:
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
