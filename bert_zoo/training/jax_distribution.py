"""Training on several devices with Keras on JAX: `bert_zoo.training.strategy` there."""

import contextlib
import os
from dataclasses import dataclass

import keras
from keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel, TensorLayout

BATCH, MODEL = "batch", "model"

# Where a model is divided (Shoeybi et al. 2019, arXiv:1909.08053, section 3): the first product of a
# layer by its outputs and the second by its inputs, so that devices meet once for both; tables by their
# columns, whose number divides where that of tokens does not. All families are made of the same layers,
# and so these ends of paths are those of all. Other variables are everywhere.
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
    # Of LSTMs.
    r"layer_\d+/((forward|backward)/|recurrent_)?kernel": (None, MODEL),
    r"layer_\d+/(forward|backward)/projection": (MODEL, None),
}


@dataclass(frozen=True)
class Devices:
    """What `bert_zoo.training.strategy` gives on JAX, in the place of a tf.distribute.Strategy."""

    num_replicas_in_sync: int  # parts that a batch is divided into

    def scope(self) -> contextlib.AbstractContextManager:
        """Does nothing: Keras's distribution holds for the process, because `fit` asks for it."""
        return contextlib.nullcontext()


class _WholeBatches:
    """Mixin of a Keras distribution that leaves it to models to divide batches (`divided_rows`).

    Keras 3.15 lays every batch of an epoch out as the first one, which fails for a last one whose rows
    do not divide. So batches arrive whole, and every process reads all of them: ids are small.
    """

    def get_data_layout(self, data_shape):
        return TensorLayout([None] * len(data_shape), self.device_mesh)


class WholeBatchDataParallel(_WholeBatches, DataParallel):
    """`keras.distribution.DataParallel` for batches of any number of rows."""


class WholeBatchModelParallel(_WholeBatches, ModelParallel):
    """`keras.distribution.ModelParallel` likewise; a variable that does not divide is everywhere."""

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
        kind, address: the name of a strategy, "cpu" and "4" of "cpu:4".
        model_parallel: devices that share one copy of the model.

    Raises:
        ValueError: devices that are not there, or cannot be divided so.
        RuntimeError: "cpu:N" after JAX has begun to compute.
    """
    _keep_tensorflow_off_accelerators()
    devices = _devices(kind, address)
    if len(devices) % model_parallel:
        raise ValueError(
            f"model_parallel is {model_parallel}, which {len(devices)} devices cannot be divided by. "
            "Choose a divisor of their number."
        )
    replicas = len(devices) // model_parallel
    # Every process reads whole batches.
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
            f"JAX has the TPU of its own machine and reaches none by name, such as {address!r}. Run on "
            "that machine with the strategy tpu."
        )
    platform = {"mirrored": "gpu", "tpu": "tpu"}[kind]
    if jax.default_backend() != platform:
        raise ValueError(
            f"JAX finds no {platform.upper()}: it runs on {jax.default_backend()}. Leave the strategy "
            "out, or try things with cpu:2."
        )
    return keras.distribution.list_devices()


def _join_processes() -> None:
    try:
        # Reads KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID; without them JAX asks
        # the machines of a TPU pod.
        keras.distribution.initialize()
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"JAX finds no processes to train with ({error}). On machines that are no TPU pod, name "
            "them in KERAS_DISTRIBUTION_JOB_ADDRESSES (host:port,host:port), their number in "
            "KERAS_DISTRIBUTION_NUM_PROCESSES, and each one's in KERAS_DISTRIBUTION_PROCESS_ID."
        ) from error


def _cpus(number: int) -> list[str]:
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError as error:
        if len(keras.distribution.list_devices("cpu")) < number:
            raise RuntimeError(
                f"cpu:{number} divides the processor, and JAX has used it already. Ask for the strategy "
                "before anything else: before models are loaded and arrays made."
            ) from error
    return keras.distribution.list_devices("cpu")[:number]


def _keep_tensorflow_off_accelerators() -> None:
    """TensorFlow, which tokenizes here, would take the whole memory of JAX's GPUs."""
    # A RuntimeError says that it has begun to compute: too late.
    with contextlib.suppress(ImportError, RuntimeError):
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
