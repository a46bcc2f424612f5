"""Compiles training and inference of a model for a TPU, on a machine that has none.

    python tools/tpu_check.py --model albert_base --task classification --batch 32 --length 128
    python tools/tpu_check.py --model bert_large --task masked_lm --batch 64 --backend tensorflow
    python tools/tpu_check.py --model electra_base --task pretraining --batch 64 --packed

It prints what the compiler says each step takes of a chip's memory, its arithmetic, and whether it
fits. Steps of `masked_lm` and `pretraining` are those of `bert_zoo pretrain`: the inputs and labels of an
objective, a fixed number of predictions a row, and for `pretraining` the optimizer of the family's recipe. Needs `pip install bert_zoo[tpu-check]`: JAX and libtpu, whose compiler runs on any processor. A
model without released weights here is compiled with random ones; numbers do not depend on them.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from absl import app, flags

# Of a chip, by its version; GB, not GiB. Source: Cloud TPU's system architecture pages.
MEMORY = {"v4": 32, "v5e": 16, "v5p": 95, "v6e": 32}

_MODEL = flags.DEFINE_string("model", "albert_base", "A name of bert_zoo.list_models().")
_TASK = flags.DEFINE_string("task", "classification", "A task that load() takes.")
_BATCH = flags.DEFINE_integer("batch", 32, "Rows on a chip.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens a row.", lower_bound=1)
_TOPOLOGY = flags.DEFINE_string(
    "topology", "v5e:2x2", "Chips to compile for, as libtpu names them."
)
flags.register_validator(
    "topology",
    lambda topology: topology.partition(":")[0] in MEMORY,
    f"It begins with a known chip ({', '.join(MEMORY)}), as in v5e:2x2.",
)
_BACKEND = flags.DEFINE_enum("backend", "jax", ["jax", "tensorflow"], "Keras's backend.")
_DTYPE = flags.DEFINE_string("dtype", "mixed_bfloat16", "A Keras dtype policy.")
_STEPS = flags.DEFINE_list("steps", ["train", "predict"], "Which of train and predict to compile.")
_PACKED = flags.DEFINE_bool(
    "packed", False, "Of masked_lm and pretraining: rows of several documents (document_ids)."
)
_REMATERIALIZE = flags.DEFINE_bool("rematerialize", False, "Train in less memory and more time.")

GIGABYTE = 1e9
NUM_CHOICES = 2


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of one step on one chip."""

    arguments: float  # bytes of weights, optimizer and batch
    temporaries: float  # bytes that the step needs on top
    operations: float  # floating-point operations


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    # Before Keras is imported; the only devices that run anything are this machine's processors.
    os.environ |= {"KERAS_BACKEND": _BACKEND.value, "JAX_PLATFORMS": "cpu"}
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    # libtpu lets one process at a time have a TPU; there is none to have.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    model = fresh_model()
    device = chip(_TOPOLOGY.value)
    more = ", packed" * _PACKED.value + ", rematerialized" * _REMATERIALIZE.value
    print(
        f"{_MODEL.value} for {_TASK.value}, rows of {_LENGTH.value} tokens, {_DTYPE.value}{more}, "
        f"Keras on {_BACKEND.value}, one chip of {_TOPOLOGY.value}:",
        flush=True,
    )
    for step in _STEPS.value:
        tried(model, step, _BATCH.value, device)


def tried(model, step: str, rows: int, device) -> None:
    """Compiles a step and prints what the compiler says."""
    memory = MEMORY[_TOPOLOGY.value.partition(":")[0]]
    compile_step = {"jax": compile_with_jax, "tensorflow": compile_with_tensorflow}[_BACKEND.value]
    start = time.perf_counter()
    label = f"  {step:<8} {rows:4} rows:"
    try:
        found = compile_step(model, step, rows, device)
    except Exception as error:
        # XLA's errors have no class that tells this one from others.
        if "RESOURCE_EXHAUSTED" not in str(error) and "Ran out of memory" not in str(error):
            raise
        print(f"{label} the compiler refuses it: {str(error).splitlines()[0]}", flush=True)
        return
    verdict = "fits" if found.arguments + found.temporaries <= memory * GIGABYTE else "DOES NOT FIT"
    print(
        f"{label} arguments {found.arguments / GIGABYTE:.2f} GB, temporaries "
        f"{found.temporaries / GIGABYTE:.2f} GB: {verdict} in {memory} GB; "
        f"{found.operations / 1e12:.2f} TFLOP; compiled in {time.perf_counter() - start:.0f} s",
        flush=True,
    )


def fresh_model():
    """The compiled model, with the variables of optimizer and metrics."""
    import bert_zoo
    from bert_zoo.private import build_for
    from bert_zoo.training import rematerialize

    model = bert_zoo.load(_MODEL.value, _TASK.value, weights=None, dtype=_DTYPE.value)
    if is_pretrained(model):
        compile_for_pretraining(model)
    elif _PACKED.value:
        raise app.UsageError("--packed is for --task masked_lm and --task pretraining.")
    if _REMATERIALIZE.value:
        rematerialize(model)
    model.optimizer.build(model.trainable_variables)
    build_for(model, batch(model, _BATCH.value, keras_tensor))
    return model


def is_pretrained(model) -> bool:
    """Whether the model's steps are those of `bert_zoo pretrain`."""
    from bert_zoo.tasks.objectives.objective import ObjectiveModel

    return isinstance(model, ObjectiveModel)


def compile_for_pretraining(model) -> None:
    """With the losses of what rows have labels for; all heads together, by the family's recipe."""
    from bert_zoo.pretraining.masked import compile_for
    from bert_zoo.training.presets import optimizer_for

    optimizer, preset = model.optimizer, model.family.pretraining_preset
    if model.task == "pretraining" and preset is not None:
        optimizer = optimizer_for(preset.recipe, preset.recipe.total_steps)
    objective, (_, labels) = objective_and_row(model)
    compile_for(model, optimizer, objective, labels)


def objective_and_row(model) -> tuple[Any, tuple[dict[str, Any], Any]]:
    """What hides tokens, and the inputs and labels that it makes of a row."""
    import numpy as np

    from bert_zoo.presets import PAIRS
    from bert_zoo.tasks.objectives import OBJECTIVES, Draws, TokenIds

    size, all_heads = model.encoder.config.vocab_size, model.task == "pretraining"
    own = model.family.pretraining_of(model.encoder.config)
    objective = OBJECTIVES[own if all_heads else "masked_tokens"]
    counts = np.ones(size, np.int64)
    objective = objective.for_tokens(TokenIds(mask_id=0, vocab_size=size, counts=counts))
    ones, row = np.ones((1, _LENGTH.value), np.int32), np.zeros(1, np.int64)
    special = np.zeros(ones.shape, bool)
    special[:, [0, -1]] = True
    rows = {"token_ids": ones, "padding_mask": ones, "row": row}
    rows |= {"special": special, "word_starts": ~special}
    if "segment_ids" in model.encoder.backbone.inputs:
        rows["segment_ids"] = 0 * ones
    preset = model.family.pretraining_preset
    if _PACKED.value:
        rows["document_ids"] = ones
    elif all_heads and preset is not None and preset.rows in PAIRS:
        rows[preset.rows] = np.zeros(1, np.int32)
    inputs, labels = objective(rows, Draws(0, 0, row))
    return objective, (inputs, labels if all_heads else labels["mlm_logits"])


def keras_tensor(shape: tuple[int, ...]):
    import keras

    return keras.KerasTensor(shape, "int32")


def batch(model, rows: int, make: Callable[[tuple[int, ...]], Any]) -> tuple:
    """(inputs, labels) of a batch, or (inputs,) where labels are inputs; `make` gets shapes."""
    import keras

    if is_pretrained(model):
        _, row = objective_and_row(model)
        return keras.tree.map_structure(lambda array: make((rows, *array.shape[1:])), row)
    tokens = (rows, _LENGTH.value)
    if model.task == "causal_lm":
        return ({"token_ids": make(tokens), "labels": make(tokens)},)
    shape = (rows, NUM_CHOICES, tokens[1]) if model.task == "multiple_choice" else tokens
    inputs = {"token_ids": make(shape), "padding_mask": make(shape)}
    labels = {
        name: make(tokens if getattr(label_range, "per_token", False) else (rows,))
        for name, label_range in model.label_ranges(inputs).items()
    }
    return inputs, labels.get("", labels)


def chip(topology: str):
    """A device of a topology, for which JAX can compile and not run."""
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]


def compile_with_jax(model, step: str, rows: int, device) -> Compiled:
    import jax

    sharding = jax.sharding.SingleDeviceSharding(device)

    def on_chip(value):
        return jax.ShapeDtypeStruct(tuple(value.shape), str(value.dtype), sharding=sharding)

    def state(*parts):
        return tuple([on_chip(variable.value) for variable in part] for part in parts)

    weights = (model.trainable_variables, model.non_trainable_variables)
    data = batch(model, rows, lambda shape: jax.ShapeDtypeStruct(shape, "int32", sharding=sharding))
    if step == "train":
        held = state(*weights, model.optimizer.variables, model.metrics_variables)
        # As Keras does: new weights take the place of the old.
        function = jax.jit(model.train_step, donate_argnums=0)
    else:
        held, data = state(*weights), data[:1]
        function = jax.jit(model.predict_step)
    executable = function.lower(held, data).compile()
    return figures(executable.memory_analysis(), executable.cost_analysis())


def compile_with_tensorflow(model, step: str, rows: int, device) -> Compiled:
    """TensorFlow's own graph, through XLA's text: what TPUStrategy compiles on a TPU."""
    import jax
    import tensorflow as tf
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jaxlib import xla_client

    inputs, *labels = batch(model, rows, lambda shape: tf.zeros(shape, tf.int32))
    if step == "train":
        function = tf.function(
            lambda inputs, *labels: model.train_step((inputs, *labels)), jit_compile=True
        )
        arguments = (inputs, *labels)
    else:
        function = tf.function(lambda inputs: model(inputs, training=False), jit_compile=True)
        arguments = (inputs,)
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
    return figures(executable.get_compiled_memory_stats(), executable.cost_analysis())


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


def figures(memory, cost: dict[str, float]) -> Compiled:
    # Results that take an argument's place are counted with it.
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return Compiled(
        arguments=memory.argument_size_in_bytes,
        temporaries=memory.temp_size_in_bytes + results + memory.generated_code_size_in_bytes,
        operations=cost["flops"],
    )


if __name__ == "__main__":
    app.run(main)
