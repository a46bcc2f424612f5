"""Training on several devices with Keras on JAX, for `bert_zoo.training.strategy`."""

import contextlib
import os
from dataclasses import dataclass

import keras
from keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel, TensorLayout

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
    """Sets Keras's distribution for the process.

    Args:
        kind, address: the parts of a strategy's name: "cpu" and "4" for "cpu:4".
        model_parallel: number of devices that share one copy of the model.

    Raises:
        ValueError: devices are missing, or their number does not divide.
        RuntimeError: "cpu:N" is requested after JAX has started computing.
    """
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
        return _cpus(int(address))
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


def _cpus(number: int) -> list[str]:
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
