"""Compiles training and inference of a model for a TPU, on a machine that has none.

    python tools/tpu_check.py --model albert_base --task classification --batch 32 --length 128
    python tools/tpu_check.py --model bert_large --task masked_lm --batch 64 --backend tensorflow

It prints what the compiler says each step takes of a chip's memory, its arithmetic, and whether it
fits. Needs `pip install bert_zoo[tpu-check]`: JAX and libtpu, whose compiler runs on any processor. A
model without released weights here is compiled with random ones; numbers do not depend on them.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from absl import app, flags

_MODEL = flags.DEFINE_string("model", "albert_base", "A name of bert_zoo.list_models().")
_TASK = flags.DEFINE_string("task", "classification", "A task that load() takes.")
_BATCH = flags.DEFINE_integer("batch", 32, "Rows on a chip.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens a row.", lower_bound=1)
_TOPOLOGY = flags.DEFINE_string(
    "topology", "v5e:2x2", "Chips to compile for, as libtpu names them."
)
_BACKEND = flags.DEFINE_enum("backend", "jax", ["jax", "tensorflow"], "Keras's backend.")
_DTYPE = flags.DEFINE_string("dtype", "mixed_bfloat16", "A Keras dtype policy.")
_STEPS = flags.DEFINE_list("steps", ["train", "predict"], "Which of train and predict to compile.")
_REMATERIALIZE = flags.DEFINE_bool("rematerialize", False, "Train in less memory and more time.")

# Memory of a chip, in bytes, by the beginning of a topology's name. Source: Cloud TPU's system
# architecture pages, one for each version.
CHIP_MEMORY = {"v5e": 16e9, "v5p": 95e9, "v6e": 32e9, "v4": 32e9}
GIGABYTE = 1e9
NUM_CHOICES = 2


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of one step on one chip.

    Attributes:
        arguments: bytes of weights, optimizer and batch.
        temporaries: bytes that the step needs on top.
        operations: floating-point operations.
        seconds: of compiling.
    """

    arguments: float
    temporaries: float
    operations: float
    seconds: float

    @property
    def total(self) -> float:
        return self.arguments + self.temporaries


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    memory = memory_of(_TOPOLOGY.value)
    # Before Keras is imported; the only devices that run anything are this machine's processors.
    os.environ |= {"KERAS_BACKEND": _BACKEND.value, "JAX_PLATFORMS": "cpu"}
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    # libtpu lets one process at a time have a TPU; there is none to have.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    model = fresh_model()
    device = chip(_TOPOLOGY.value)
    compile_step = {"jax": compile_with_jax, "tensorflow": compile_with_tensorflow}[_BACKEND.value]
    print(
        f"{_MODEL.value} for {_TASK.value}, {_BATCH.value} rows of {_LENGTH.value} tokens, "
        f"{_DTYPE.value}, Keras on {_BACKEND.value}, one chip of {_TOPOLOGY.value}:"
    )
    for step in _STEPS.value:
        found = compile_step(model, step, device)
        verdict = "fits" if found.total <= memory else "DOES NOT FIT"
        print(
            f"  {step:<8} arguments {found.arguments / GIGABYTE:.2f} GB, temporaries "
            f"{found.temporaries / GIGABYTE:.2f} GB: {verdict} in {memory / GIGABYTE:.0f} GB; "
            f"{found.operations / 1e12:.2f} TFLOP; compiled in {found.seconds:.0f} s",
            flush=True,
        )


def memory_of(topology: str) -> float:
    kind = topology.partition(":")[0]
    if kind not in CHIP_MEMORY:
        raise app.UsageError(
            f"The topology {topology!r} is of no known chip; {', '.join(CHIP_MEMORY)} are known, as in "
            "v5e:2x2."
        )
    return CHIP_MEMORY[kind]


def fresh_model():
    """The compiled model, with the variables of optimizer and metrics."""
    import bert_zoo
    from bert_zoo.training import rematerialize

    model = bert_zoo.load(_MODEL.value, _TASK.value, weights=None, dtype=_DTYPE.value)
    if _REMATERIALIZE.value:
        rematerialize(model)
    model.optimizer.build(model.trainable_variables)
    model._symbolic_build(data_batch=batch(model, keras_tensor))
    return model


def keras_tensor(shape: tuple[int, ...]):
    import keras

    return keras.KerasTensor(shape, "int32")


def batch(model, make: Callable[[tuple[int, ...]], Any]) -> tuple:
    """(inputs, labels) of a batch, or (inputs,) where labels are inputs; `make` gets shapes."""
    rows = (_BATCH.value, _LENGTH.value)
    if model.task == "causal_lm":
        return ({"token_ids": make(rows), "labels": make(rows)},)
    shape = (rows[0], NUM_CHOICES, rows[1]) if model.task == "multiple_choice" else rows
    inputs = {"token_ids": make(shape), "padding_mask": make(shape)}
    ranges = model.label_ranges(inputs) or {"": None}  # regression has numbers for labels
    labels = {
        name: make(rows if label_range and label_range.per_token else rows[:1])
        for name, label_range in ranges.items()
    }
    return inputs, labels.get("", labels)


def chip(topology: str):
    """A device of a topology, for which JAX can compile and not run."""
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]


def compile_with_jax(model, step: str, device) -> Compiled:
    import jax

    sharding = jax.sharding.SingleDeviceSharding(device)

    def on_chip(value):
        return jax.ShapeDtypeStruct(tuple(value.shape), str(value.dtype), sharding=sharding)

    def state(*parts):
        return tuple([on_chip(variable.value) for variable in part] for part in parts)

    weights = (model.trainable_variables, model.non_trainable_variables)
    data = batch(model, lambda shape: jax.ShapeDtypeStruct(shape, "int32", sharding=sharding))
    if step == "train":
        held = state(*weights, model.optimizer.variables, model.metrics_variables)
        # As Keras does: new weights take the place of the old.
        function = jax.jit(model.train_step, donate_argnums=0)
    else:
        held, data = state(*weights), data[:1]
        function = jax.jit(model.predict_step)
    start = time.perf_counter()
    executable = function.lower(held, data).compile()
    return figures(executable.memory_analysis(), executable.cost_analysis(), start)


def compile_with_tensorflow(model, step: str, device) -> Compiled:
    """TensorFlow's own graph, through XLA's text: what TPUStrategy compiles on a TPU."""
    import jax
    import tensorflow as tf
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jaxlib import xla_client

    inputs, *labels = batch(model, lambda shape: tf.zeros(shape, tf.int32))
    if step == "train":
        function = tf.function(
            lambda inputs, *labels: model.train_step((inputs, *labels)), jit_compile=True
        )
        arguments = (inputs, *labels)
    else:
        function = tf.function(lambda inputs: model(inputs, training=False), jit_compile=True)
        arguments = (inputs,)
    start = time.perf_counter()
    hlo = function.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
    text = xla_client._xla.mlir.hlo_to_stablehlo(hlo)
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        without_copies(module)
        options = jax._src.compiler.get_compile_options(num_replicas=1, num_partitions=1)
        executable = device.client.compile(
            module,
            executable_devices=xla_client.DeviceList((device,)),
            compile_options=options,
        )
    return figures(executable.get_compiled_memory_stats(), executable.cost_analysis(), start)


def without_copies(module) -> None:
    """Replaces each mhlo.copy, which StableHLO does not know, by what it copies."""
    found = []

    def visit(operation):
        from jax._src.lib.mlir import ir

        if operation.name == "mhlo.copy":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in found:
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()


def figures(memory, cost: dict[str, float], start: float) -> Compiled:
    # Results that take an argument's place are counted with it.
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return Compiled(
        arguments=memory.argument_size_in_bytes,
        temporaries=memory.temp_size_in_bytes + results + memory.generated_code_size_in_bytes,
        operations=cost["flops"],
        seconds=time.perf_counter() - start,
    )


if __name__ == "__main__":
    app.run(main)
