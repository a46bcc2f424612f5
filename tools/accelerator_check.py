"""Checks models on this machine's accelerator and times them: prints a table, and writes a file to send in.

    pip install "bert_zoo[jax]" pytest          # in a checkout: pip install -e '.[jax]' pytest
    python tools/accelerator_check.py --output check.json
    python tools/accelerator_check.py --parts speed --reference_python torch-env/bin/python --output speed.json
    python tools/accelerator_check.py --model bert_nano --forward 4x32 --training 4x32 --rounds 1 --calls 1 \
        --product 256 --cases bert/encoder --output try.json         # in a minute or two on a CPU

Parts, all of them by default:

- exactness: a tiny checkpoint of every family, compared with what its reference computes (tests/golden): in
  float32, with the device's own products and with its most exact ones, and in 16 bits, with the fused kernel
  for attention and without, where there is one; then gradients too.
- speed: forward passes and steps of training, with dropout and without, on rows with padding: time, memory,
  and the share that the arithmetic of their products has of what the device reaches on large products.
- fit: training on strings.

`reference_python` is the interpreter of an environment with torch and transformers: the same models, with
torch.compile, scaled_dot_product_attention, autocast and a fused AdamW, in turns with ours. Times are medians
of rounds of several calls each, that wait for the device once. On Keras's TensorFlow backend
(`--backend tensorflow`) there is no kernel, and memory is that of GPUs alone.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from absl import app, flags
from timing import REFERENCE_PYTHON, Reference, duration, race, repeated, timed

TESTS = Path(__file__).resolve().parent.parent / "tests"
# Name -> dtype policy, whether products are as exact as the device has them, and the largest difference from
# the reference: of outputs up to 5, in proportion of larger ones; of gradients as a part of their largest.
# Products in TF32 or bfloat16, as devices have float32's by default, round by up to 2**-9, as bfloat16 does.
PRECISIONS = {
    "float32, exact products": ("float32", True, 1e-4),
    "float32": ("float32", False, 0.3),
    "mixed_bfloat16": ("mixed_bfloat16", False, 0.3),
    "mixed_float16": ("mixed_float16", False, 0.05),
}
# Step of training -> options of `load`.
STEPS = {
    "dropout": {},
    "no_attention_dropout": {"attention_dropout": 0.0},
    "no_dropout": {"dropout": 0.0},
}
CLASSES, GIBIBYTE = 9, 2**30
LONGEST = 15  # operations that are kept of a profile
PARTS = ("exactness", "speed", "fit")

_PARTS = flags.DEFINE_multi_enum(
    "parts", PARTS, PARTS, "What to check; may be given several times."
)
_BACKEND = flags.DEFINE_enum("backend", "jax", ["jax", "tensorflow"], "Keras's backend.")
_CASES = flags.DEFINE_list(
    "cases",
    [],
    "Directories below tests/golden, such as bert/encoder; by default one of each family.",
)
_MODEL = flags.DEFINE_string("model", "bert_base", "Whose sizes are timed: BERT's or one like it.")
_DTYPE = flags.DEFINE_string("dtype", "mixed_bfloat16", "The dtype policy that is timed.")
_FORWARD = flags.DEFINE_list(
    "forward", ["64x128", "256x128", "32x512"], "Rows and tokens of forward passes."
)
_TRAINING = flags.DEFINE_list("training", ["64x128", "32x512"], "Those of steps of training.")
_STEPS = flags.DEFINE_multi_enum(
    "steps", [*STEPS], [*STEPS], "Which steps of training; may be given several times."
)
_CALLS = flags.DEFINE_integer("calls", 20, "Calls in a round.", lower_bound=1)
_PRODUCT = flags.DEFINE_integer(
    "product", 8192, "Rows and columns of the product that tells the device's peak.", lower_bound=1
)
_PROFILE = flags.DEFINE_bool(
    "profile", False, "Whether the profiler tells what takes longest on the device, with JAX."
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Where to write the figures as JSON, after each of them."
)


@dataclass
class Program:
    """What is timed or compared.

    Attributes:
        run: computes once; what it returns is waited for, and holds the outputs.
        memory: bytes on the device of what it is given, gives and needs in between; None where unknown.
        kernels: calls of the fused kernel in it.
    """

    run: Callable[..., Any]
    memory: int | None = None
    kernels: int = 0


# --- Backends ------------------------------------------------------------------------------------


class Jax:
    def device(self) -> dict[str, Any]:
        import jax

        device = jax.devices()[0]
        return {
            "device": device.device_kind,
            "platform": device.platform,
            "jax": jax.__version__,
            "platform_version": device.client.platform_version,
        }

    def memory(self) -> dict[str, int]:
        """What the device says of its memory, since the program began; nothing of a CPU's."""
        import jax

        return jax.devices()[0].memory_stats() or {}

    @contextmanager
    def products(self, exact: bool) -> Iterator[None]:
        import jax

        with jax.default_matmul_precision("highest" if exact else None):
            yield

    def wait(self, outputs) -> None:
        import jax

        jax.block_until_ready(outputs)

    def product(self, size: int, dtype: str) -> Program:
        import jax

        left, right = jax.random.normal(jax.random.key(0), (2, size, size), dtype)
        program = self._compiled(jax.jit(lambda left, right: left @ right), left, right)
        return replace(program, run=lambda: program.run(left, right))

    def forward(self, model, inputs) -> Program:
        import jax

        def call(weights, held, inputs):
            return model.stateless_call(weights, held, inputs, training=False)[0]

        arguments = (*self._weights(model), jax.device_put(inputs))
        program = self._compiled(jax.jit(call), *arguments)
        return replace(program, run=lambda: program.run(*arguments))

    def outputs(self, model) -> Callable:
        """A function that computes a model's outputs of inputs, and says how many kernels that took."""

        def run(inputs):
            program = self.forward(model, inputs)
            return program.run(), program.kernels

        return run

    def gradient(self, model, inputs):
        """Of the outputs' squares, but for masked scores: an array for each variable that is trained."""
        import jax
        import jax.numpy as jnp

        def loss(weights, held, inputs):
            outputs = model.stateless_call(weights, held, inputs, training=True)[0]
            outputs = [x for x in jax.tree.leaves(outputs) if jnp.issubdtype(x.dtype, jnp.floating)]
            outputs = [x.astype("float32") for x in outputs]
            return sum(jnp.square(jnp.where(x > -1e9, x, 0)).mean() for x in outputs)

        return jax.jit(jax.grad(loss))(*self._weights(model), inputs)

    def step(self, model, inputs, labels) -> Program:
        """Keras's step of training, with new weights in the place of the old."""
        import jax

        from bert_zoo.private import build_for

        model.optimizer.build(model.trainable_variables)
        build_for(model, (inputs, labels))
        held = (model.optimizer.variables, model.metrics_variables)
        state = (*self._weights(model), *([v.value for v in part] for part in held))
        data = jax.device_put((inputs, labels))
        program = self._compiled(jax.jit(model.train_step, donate_argnums=0), state, data)

        def run():
            nonlocal state
            logs, state = program.run(state, data)
            return logs

        return replace(program, run=run)

    def longest(self, program: Program) -> list[tuple[str, float]]:
        """What a call has the device do, and for how many seconds: the longest first."""
        import jax

        with tempfile.TemporaryDirectory() as directory:
            with jax.profiler.trace(directory):
                self.wait(program.run())
            (file,) = Path(directory).rglob("*.xplane.pb")
            planes = [*jax.profiler.ProfileData.from_file(str(file)).planes]
        seconds: Counter[str] = Counter()
        for line in (line for plane in planes for line in plane.lines):
            # A GPU has streams, a TPU a line of operations beside one of whole programs.
            if line.name.startswith(("Stream", "XLA Ops", "tf_XLA")):
                for event in line.events:
                    seconds[event.name] += event.duration_ns / 1e9
        return seconds.most_common(LONGEST)

    def _weights(self, model) -> tuple[list, list]:
        held = (model.trainable_variables, model.non_trainable_variables)
        return tuple([variable.value for variable in part] for part in held)

    def _compiled(self, function, *arguments) -> Program:
        lowered = function.lower(*arguments)
        program = lowered.compile()
        size = program.memory_analysis()
        memory = size.argument_size_in_bytes + size.output_size_in_bytes + size.temp_size_in_bytes
        kernels = lowered.as_text().count("@__cudnn$fmha")
        return Program(program, memory - size.alias_size_in_bytes, kernels)


class TensorFlow:
    def device(self) -> dict[str, Any]:
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
        return {
            "device": details.get("device_name", "CPU"),
            "platform": "gpu" if gpus else "cpu",
            "tensorflow": tf.__version__,
        }

    def memory(self) -> dict[str, int]:
        import tensorflow as tf

        has_gpu = bool(tf.config.list_physical_devices("GPU"))
        return tf.config.experimental.get_memory_info("GPU:0") if has_gpu else {}

    @contextmanager
    def products(self, exact: bool) -> Iterator[None]:
        import tensorflow as tf

        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(not exact)
        yield
        tf.config.experimental.enable_tensor_float_32_execution(before)

    def wait(self, outputs) -> None:
        import keras

        keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)

    def product(self, size: int, dtype: str) -> Program:
        import tensorflow as tf

        left, right = tf.unstack(tf.cast(tf.random.normal((2, size, size)), dtype))
        # Of the result a corner, so that what is waited for is not the copy to this machine's memory.
        function = tf.function(lambda: tf.matmul(left, right)[:1, :1], autograph=False)
        return Program(function)

    def forward(self, model, inputs) -> Program:
        import keras

        run = self.outputs(model)
        tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
        return Program(lambda: run(tensors)[0])

    def outputs(self, model) -> Callable:
        import tensorflow as tf

        run = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
        return lambda inputs: (run(inputs), 0)

    def step(self, model, inputs, labels) -> Program:
        return Program(lambda: model.train_on_batch(inputs, labels))

    def longest(self, program: Program) -> list[tuple[str, float]]:
        raise app.UsageError("--profile is for --backend jax.")


BACKENDS = {"jax": Jax, "tensorflow": TensorFlow}


# --- The check -----------------------------------------------------------------------------------


@dataclass
class Check:
    """What was found so far.

    Attributes:
        backend: of Keras.
        found: what is written.
        failed: what is wrong, a line for each.
    """

    backend: Any
    found: dict[str, Any]
    failed: list[str] = field(default_factory=list)

    def add(self, part: str, row: dict[str, Any]) -> None:
        """Keeps a row, in the file too: a machine may be taken away at any time."""
        self.found.setdefault(part, []).append(row)
        if _OUTPUT.value:
            text = json.dumps(self.found, indent=2) + "\n"
            Path(_OUTPUT.value).write_text(text, encoding="utf-8")


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    os.environ["KERAS_BACKEND"] = _BACKEND.value
    # Memory as it is needed, so that there is some for torch's process too.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(TESTS))
    import keras

    import bert_zoo

    backend = BACKENDS[_BACKEND.value]()
    versions = {"keras": keras.__version__, "bert_zoo": bert_zoo.__version__}
    about = {**backend.device(), **versions, "python": sys.version.split()[0]}
    print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    check = Check(backend, {"about": about, "arguments": sys.argv[1:]})
    for part in dict.fromkeys(_PARTS.value):
        {"exactness": check_exactness, "speed": check_speed, "fit": check_fit}[part](check)
    if check.failed:
        print("\nWRONG:", *check.failed, sep="\n  ")
        sys.exit(1)


# --- Exactness -----------------------------------------------------------------------------------


def check_exactness(check: Check) -> None:
    print(f"\n{'largest differences':<60}{'kernels':>8}{'outputs':>11}{'gradient':>11}")
    for case in _CASES.value or one_a_family():
        for precision, (policy, exact, tolerance) in PRECISIONS.items():
            for has_kernel in (True, False):
                with check.backend.products(exact), attention_kernel(has_kernel):
                    row = {"case": case, "precision": precision}
                    # Without the kernel only what had it.
                    try:
                        row |= compared(check.backend, case, policy, with_gradient=not has_kernel)
                    except ValueError as error:
                        if "range of float16" not in str(error):
                            raise
                        print(f"{case}, {precision}: {error}", flush=True)  # T5 refuses it
                        break
                show(row)
                for what in ("outputs", "gradient"):
                    # Not `>`, which NaN never is.
                    if not row.get(what, 0) <= tolerance:
                        wrong = (
                            f"{case}, {precision}, {what}: {row[what]:.2g}, not {tolerance} at most"
                        )
                        check.failed.append(wrong)
                check.add("exactness", row)
                if not row["kernels"]:
                    break


def show(row: dict[str, Any]) -> None:
    gradient = f"{row['gradient']:11.2g}" if "gradient" in row else ""
    name = f"{row['case']}, {row['precision']}"
    print(f"{name:<60}{row['kernels']:>8}{row['outputs']:11.2g}{gradient}", flush=True)


def one_a_family() -> list[str]:
    """A golden case of each family: its encoder, or what it has in its place."""
    from helpers import ONE_A_TASK, family_of, task_of

    found = {}
    for case in sorted(ONE_A_TASK, key=lambda case: task_of(case) != "encoder"):
        found.setdefault(family_of(case), case)
    return sorted(found.values())


@contextmanager
def attention_kernel(is_on: bool) -> Iterator[None]:
    """Attention with the fused kernel where there is one, or without."""
    import keras

    was_off = keras.config.is_flash_attention_enabled() is False
    set_to = {
        True: keras.config.enable_flash_attention,
        False: keras.config.disable_flash_attention,
    }
    set_to[is_on]()
    yield
    set_to[not was_off]()


def compared(backend, case: str, policy: str, with_gradient: bool) -> dict[str, Any]:
    """The kernels that a golden case runs, and how far its outputs are from the reference's.

    Of what has kernels, or `with_gradient`, also how far the gradient is from that of float32 without them, as
    a part of its largest number.
    """
    import numpy as np
    from helpers import CASES, arrays, beside_reference, carried, load_case, steps_of

    io, model, kernels = arrays(case), load_case(case, dtype=policy, dropout=0.0), 0
    run = backend.outputs(model)

    def counted(inputs):
        nonlocal kernels
        outputs, kernels = run(inputs)
        return outputs

    outputs = carried(counted, steps_of(case))
    if "init" in CASES[case]:
        outputs = [{name: of[name] for name in of if name in io} for of in outputs]
    differences = [relative(value, wanted) for _, value, wanted in beside_reference(outputs, io)]
    row = {"kernels": kernels, "outputs": float(np.max(differences))}
    if kernels or with_gradient:
        row["gradient"] = gradient_difference(backend, case, model)
    return row


def relative(value, wanted) -> float:
    """The largest difference, in proportion where there are numbers above 5; masked ones are -1e30."""
    import numpy as np

    of_tokens = wanted > -1e9
    difference = np.abs(value.astype("float32") - wanted)[of_tokens].max()
    return float(difference / max(1, np.abs(wanted[of_tokens]).max() / 5))


def gradient_difference(backend, case: str, model) -> float:
    import numpy as np
    from helpers import load_case, steps_of

    inputs = steps_of(case)[0]
    found = [*map(np.asarray, backend.gradient(model, inputs))]
    with backend.products(exact=True), attention_kernel(False):
        exact = backend.gradient(load_case(case, dropout=0.0), inputs)
    exact = [*map(np.asarray, exact)]
    largest = max(np.abs(part).max() for part in exact)
    differences = [np.abs(a - b).max() for a, b in zip(found, exact, strict=True)]
    return float(np.max(differences) / largest)


# --- Speed ---------------------------------------------------------------------------------------

_TORCH = """
import json, numpy as np, torch, transformers
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("high")
model = transformers.AutoModelForTokenClassification.from_pretrained(
    settings["directory"], attn_implementation="sdpa").to(device)
data = np.load(settings["data"])
batch = {theirs: torch.from_numpy(data[ours]).long().to(device) for ours, theirs in
    dict(token_ids="input_ids", padding_mask="attention_mask", labels="labels").items()}
labels = batch.pop("labels")
compiled = torch.compile(model)
mixed = torch.autocast(device, getattr(torch, settings["autocast"] or "bfloat16"),
    enabled=settings["autocast"] is not None)
if settings["training"]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, eps=1e-6, weight_decay=.01, fused=device == "cuda")
    def call():
        with mixed:
            loss = compiled(**batch, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
else:
    model.eval()
    def call():
        with torch.no_grad(), mixed:
            compiled(**batch)
def work():
    for _ in range(settings["calls"]):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
        open(settings["memory"], "w").write(str(torch.cuda.max_memory_allocated()))
"""
# Policy -> what torch computes in, of float32 weights; None for float32.
AUTOCAST = {"float32": None, "mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}


def check_speed(check: Check) -> None:
    import bert_zoo

    peak = measured_peak(check)
    labels = [str(number) for number in range(CLASSES)]
    works = [("forward", {}, shape) for shape in _FORWARD.value]
    works += [(f"step, {name}", STEPS[name], s) for s in _TRAINING.value for name in _STEPS.value]
    for work, options, shape in works:
        rows, length = map(int, shape.split("x"))
        options = {"weights": None, "dtype": _DTYPE.value, "labels": labels, **options}
        model = bert_zoo.load(_MODEL.value, "token_classification", **options)
        inputs, answers = batch_for(model.encoder.config, rows, length)
        row = raced(check, model, work, shape, (inputs, answers))
        # Of a step, gradients take twice the products of the forward pass.
        done = (1 if work == "forward" else 3) * operations(model.encoder.config, rows, length)
        row["flops"] = done / row["seconds"]
        row["share_of_peak"] = row["flops"] / peak
        check.add("speed", row)
    print(f"\n{_MODEL.value}, {_DTYPE.value}")
    for row in check.found["speed"]:
        memory = f"{row['memory'] / GIBIBYTE:.2f} GiB" if row["memory"] else ""
        theirs = (
            f"  torch.compile {duration(row['torch'])} ({row['ratio']:.2f}x)"
            if "torch" in row
            else ""
        )
        print(
            f"  {row['work'] + ', ' + row['shape']:<40}{duration(row['seconds']):>10}{memory:>11}"
            f"{row['kernels']:>4} kernels{row['share_of_peak']:>6.0%} of the peak{theirs}"
        )


def measured_peak(check: Check) -> float:
    """Operations a second of a large product, in the policy's type."""
    import keras

    size, dtype = _PRODUCT.value, keras.DTypePolicy(_DTYPE.value).compute_dtype
    program = check.backend.product(size, dtype)
    seconds = medians(
        f"a product of {size}x{size}, {dtype}", {"bert_zoo": timed_calls(check, program)}
    )
    peak = 2 * size**3 / seconds["bert_zoo"]
    print(f"  {peak / 1e12:.2f} TFLOP/s")
    check.add("peak", {"product": size, "dtype": dtype, "flops": peak})
    return peak


def medians(title: str, contestants: dict[str, Callable[[], float]]) -> dict[str, float]:
    return {name: result["median"] for name, result in race(title, contestants).items()}


def timed_calls(check: Check, program: Program) -> Callable[[], float]:
    """A function that gives the seconds of a call, of several that are waited for together."""
    calls = _CALLS.value
    run = repeated(program.run, calls)
    return timed(lambda: check.backend.wait(run()[-1]), 1 / calls)


def raced(check: Check, model, work: str, shape: str, data: tuple[dict, Any]) -> dict[str, Any]:
    """What is found of a model's work, beside torch's where there is one."""
    import numpy as np

    import bert_zoo

    inputs, answers = data
    backend, training = check.backend, work != "forward"
    program = backend.step(model, inputs, answers) if training else backend.forward(model, inputs)
    contestants = {"bert_zoo": timed_calls(check, program)}
    row = {"work": work, "shape": shape, "memory": program.memory, "kernels": program.kernels}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "memory"
        if REFERENCE_PYTHON.value:
            bert_zoo.save(model, Path(scratch) / "model", format="hf")
            np.savez(Path(scratch) / "data.npz", labels=answers, **inputs)
            contestants["torch.compile"] = Reference(
                "torch.compile",
                _TORCH,
                _CALLS.value,
                directory=str(Path(scratch) / "model"),
                data=str(Path(scratch) / "data.npz"),
                memory=str(file),
                training=training,
                autocast=AUTOCAST[_DTYPE.value],
            )
        found = medians(f"{work}, {shape}", contestants)
        if file.is_file():
            row["torch_memory"] = int(file.read_text())
    row |= {"seconds": found["bert_zoo"], "device_memory": backend.memory()}
    if _PROFILE.value:
        row["longest"] = backend.longest(program)
        for name, seconds in row["longest"]:
            print(f"    {1000 * seconds:9.3f} ms  {name}")
    if "torch.compile" in found:
        row |= {"torch": found["torch.compile"], "ratio": found["torch.compile"] / row["seconds"]}
    return row


def batch_for(config, rows: int, length: int) -> tuple[dict[str, Any], Any]:
    """Ids of texts from half of the length to all of it, with padding, and a class for each token."""
    import numpy as np

    rng = np.random.default_rng(0)
    ids = rng.integers(
        min(1000, config.vocab_size // 2), config.vocab_size, (rows, length), "int32"
    )
    lengths = rng.integers((length + 1) // 2, length + 1, (rows, 1))
    lengths[0] = length
    mask = (np.arange(length) < lengths).astype("int32")
    return {"token_ids": ids * mask, "padding_mask": mask}, ids % CLASSES


def operations(config, rows: int, length: int) -> int:
    """Floating-point operations of a forward pass's products in the layers, attention's among them."""
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = config.num_layers * (4 * hidden**2 + 2 * hidden * inner)
    attention = config.num_layers * 2 * length * hidden
    return 2 * rows * length * (weights + attention)


# --- Training on strings -------------------------------------------------------------------------


def check_fit(check: Check) -> None:
    """Seconds of epochs on the messages that come with the package: the first one compiles.

    The vocabulary is `bert_nano`'s, which comes with the package too; sizes are the model's.
    """
    import time

    import numpy as np

    import bert_zoo
    from bert_zoo.data import messages
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.models import Encoder
    from bert_zoo.tasks import Classifier
    from bert_zoo.training import compile_for_task

    nano = bert_zoo.load("bert_nano", "encoder", max_length=64)
    opened = open_checkpoint(_MODEL.value, with_weights=False, task=Classifier.task)
    config = opened.config.with_pooler(True).replace(vocab_size=nano.config.vocab_size)
    encoder = Encoder(
        config, opened.family.name, preprocessor=nano.preprocessor, dtype=_DTYPE.value
    )
    model = Classifier(encoder, labels=messages.LABELS)
    compile_for_task(model)
    texts, labels = messages.load("train")
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model.fit(texts, np.array(labels), batch_size=32, verbose=0)
        seconds.append(time.perf_counter() - start)
    row = {
        "texts": len(texts),
        "seconds": seconds,
        "texts_per_second": len(texts) / min(seconds[1:]),
    }
    print(
        f"\nfit, {len(texts)} messages, 32 a batch: the first epoch {seconds[0]:.1f} s, "
        f"later ones {row['texts_per_second']:,.0f} texts/s"
    )
    check.add("fit", row)


if __name__ == "__main__":
    app.run(main)
