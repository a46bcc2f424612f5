"""BERT base in three libraries, beside what the machine can do: forward passes and training steps.

What the machine can do is the products of matrices alone, of the same sizes, in one function that
TensorFlow traced. A library's share of that is their time over its own: a step of training has the
products of the forward pass, and as many again for the gradients of each argument. All classify tokens, so that no
library can leave out a part of the last layer; dropout, AdamW and clipping are the same.
"""

import datetime
import functools
import glob
import platform
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark_pretraining
import keras
import keras_hub
import numpy as np
import tensorflow as tf

import bert_zoo
from bert_zoo.training.optimizers import bert_adamw

# Name -> dtype, and whether it is a step of training, which nobody takes in pure bfloat16.
WORKS = {
    "forward_float32": ("float32", False),
    "forward_mixed_bfloat16": ("mixed_bfloat16", False),
    "forward_bfloat16": ("bfloat16", False),
    "step_float32": ("float32", True),
    "step_mixed_bfloat16": ("mixed_bfloat16", True),
}
OURS, ALONE, TORCH = "bert_zoo", "products alone", "torch"
HUB, HUB_WITHOUT_XLA = "KerasHub", "KerasHub, without XLA"
CLASSES = 9
# Runs of a profile.
PROFILED = 3
# Parts of the names of operations -> what they do; the first that fits counts.
KINDS = {
    "MatMul": "products of matrices, with what is fused to them",
    "Softmax": "softmax",
    "Adam": "Adam",
    "Random": "random numbers of dropout",
    "Cast": "casts",
    **dict.fromkeys(("Transpose", "Concat", "Split", "Gather", "Pack"), "copies in another order"),
    **dict.fromkeys(("Mean", "Sum", "BiasAddGrad", "L2Loss"), "sums and means"),
}
OTHERS = "element by element"
# Where the part of the page begins that is written by hand.
BY_HAND = "## What was tried"

TORCH_PROGRAM = """
import contextlib, torch
from transformers import BertConfig, BertForTokenClassification
torch.set_num_threads(settings["threads"])
dtype = settings["dtype"]
model = BertForTokenClassification(BertConfig(
    vocab_size=settings["vocabulary"], hidden_size=settings["hidden"],
    num_hidden_layers=settings["layers"], num_attention_heads=settings["heads"],
    intermediate_size=settings["intermediate"], num_labels=settings["classes"]))
if dtype == "bfloat16":
    model = model.to(torch.bfloat16)
mixed = dtype == "mixed_bfloat16"
precision = lambda: torch.autocast("cpu", torch.bfloat16, enabled=mixed)
ids = torch.randint(1000, 20000, (settings["batch"], settings["length"]))
mask = torch.ones_like(ids)
labels = ids % settings["classes"]
if settings["training"]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, eps=1e-6, weight_decay=0.01)
    def work():
        with precision():
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
else:
    model.eval()
    def work():
        with torch.no_grad(), precision():
            model(input_ids=ids, attention_mask=mask)
"""


@dataclass(frozen=True)
class Race:
    """The same work by several, ours first."""

    title: str
    contestants: dict[str, Callable[[], object]]
    torch: dict[str, Any]  # settings of `TORCH_PROGRAM`
    flops: int  # of the products of matrices


def race_of(work: str, rows: int, length: int, sizes: dict[str, int]) -> Race:
    """Ours and KerasHub's models, with random weights.

    Args:
        work: a key of `WORKS`.
        rows, length: of the batch.
        sizes: as `benchmark.BASE`.
    """
    dtype, training = WORKS[work]
    ids = np.random.default_rng(0).integers(1000, 20000, (rows, length), "int32")
    inputs = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    ours = bert_zoo.load(
        "bert_base",
        task="token_classification",
        labels=[str(number) for number in range(CLASSES)],
        weights=None,
        dtype=dtype,
    )
    hub, hub_without_xla = hub_model(dtype, sizes), None
    if training:
        ours.compile(optimizer=bert_adamw(1e-5, bias_correction=True), loss=ours.default_loss())
        hub_without_xla = hub_model(dtype, sizes)
        for model, jit in ((hub, "auto"), (hub_without_xla, False)):
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(benchmark_pretraining.keras_adamw(), loss=loss, jit_compile=jit)
    models = {OURS: ours, HUB: hub, HUB_WITHOUT_XLA: hub_without_xla}
    run = functools.partial(step, labels=ids % CLASSES) if training else forward
    contestants = {name: run(model, inputs) for name, model in models.items() if model is not None}
    products, flops = products_alone(rows * length, sizes, dtype)
    passes = 3 if training else 1
    contestants[ALONE] = lambda: [products() for _ in range(passes)]
    settings = {"dtype": dtype, "training": training, "classes": CLASSES}
    title = f"{'step of training' if training else 'forward'}, {dtype}"
    return Race(title, contestants, settings, flops * passes)


def hub_backbone(dtype: str, sizes: dict[str, int]) -> keras.Model:
    """KerasHub's BERT of the sizes."""
    return keras_hub.models.BertBackbone(
        vocabulary_size=sizes["vocabulary"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        hidden_dim=sizes["hidden"],
        intermediate_dim=sizes["intermediate"],
        dtype=dtype,
    )


def hub_model(dtype: str, sizes: dict[str, int]) -> keras.Model:
    backbone = hub_backbone(dtype, sizes)
    x = keras.layers.Dropout(0.1, dtype=dtype)(backbone.output["sequence_output"])
    return keras.Model(backbone.input, keras.layers.Dense(CLASSES, dtype="float32")(x))


def step(model, inputs, labels) -> Callable[[], object]:
    return lambda: model.train_on_batch(inputs, labels)


def forward(model, inputs) -> Callable[[], object]:
    run = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return lambda: run(tensors).numpy()


def products_alone(
    tokens: int, sizes: dict[str, int], dtype: str
) -> tuple[Callable[[], object], int]:
    """A forward pass's products of matrices, without attention's, and their operations."""
    hidden, inner = sizes["hidden"], sizes["intermediate"]
    dtype = "float32" if dtype == "float32" else "bfloat16"
    shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden)]
    shapes *= sizes["layers"]
    weights = [tf.cast(tf.random.normal(shape), dtype) for shape in shapes]
    given = {size: tf.cast(tf.random.normal((tokens, size)), dtype) for size in (hidden, inner)}

    @tf.function(autograph=False)
    def run(given, weights):
        results = [tf.matmul(given[weight.shape[0]], weight) for weight in weights]
        # Something of each, so that none is left out.
        return tf.add_n([tf.cast(result[0, 0], "float32") for result in results])

    flops = sum(2 * tokens * height * width for height, width in shapes)
    return lambda: run(given, weights).numpy(), flops


def profile(work: Callable[[], object]) -> dict[str, float]:
    """Kind of operations -> seconds within them, a call; they overlap where there are several threads."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    seconds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        with tf.profiler.experimental.Profile(directory, options):
            for _ in range(PROFILED):
                work()
        for file in glob.glob(f"{directory}/**/*.xplane.pb", recursive=True):
            space = xplane_pb2.XSpace.FromString(Path(file).read_bytes())
            for plane in space.planes:
                for event in (event for line in plane.lines for event in line.events):
                    # Operations have their type as a second name; what runs them has none.
                    operation = plane.event_metadata[event.metadata_id].display_name
                    if operation:
                        kinds = (kind for part, kind in KINDS.items() if part in operation)
                        seconds[next(kinds, OTHERS)] += event.duration_ps / 1e12 / PROFILED
    return dict(seconds.most_common())


def processor() -> str:
    """The processor by name, and what it has for products of matrices."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    described = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    has = [flag for flag in wanted if flag in described.get("flags", "").split()]
    return f"{described.get('model name', platform.processor())} ({', '.join(has)})"


def part(
    race: Race, seconds: dict[str, dict], profiled: dict[str, float], reference_python: str | None
) -> dict[str, Any]:
    """What the page shows of a race, as JSON."""
    versions = [f"{each.__name__} {each.__version__}" for each in (tf, keras, keras_hub)]
    if reference_python:
        command = "import torch, transformers as t; print('torch', torch.__version__, 'transformers', t.__version__)"
        printed = subprocess.run([reference_python, "-c", command], capture_output=True, text=True)
        versions.append(printed.stdout.strip())
    return {
        "work": race.title,
        "contestants": {
            name: {key: figures[key] for key in ("seconds", "median", "ratio", "ratios")}
            for name, figures in seconds.items()
        },
        "gigaflops": race.flops / seconds[ALONE]["median"] / 1e9,
        "profile": profiled,
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "versions": ", ".join(versions),
    }


def page(parts: list[dict[str, Any]], rows: int, length: int, before: str) -> str:
    """docs/performance.md.

    Args:
        parts: what `part` gives.
        before: the page as it was, of which the part that is written by hand stays.
    """
    lines = [
        "# How fast models are",
        "",
        f"Written by `python tools/benchmark.py --what modelling`: BERT base, {rows} rows of {length} tokens, "
        "tokens classified, on two cores of a machine that had other work too. Medians, with ours as many "
        "times as fast and the spread of that over interleaved rounds; the percentage is what the products "
        "of matrices alone, without attention's, take of the time: three times those of a forward pass for "
        "a step of training. torch computes `mixed_bfloat16` under `autocast`.",
        "",
        f"| work | {ALONE} | {OURS} | {HUB} | {HUB_WITHOUT_XLA} | {TORCH} |",
        "|---|---|---|---|---|---|",
    ]
    for each in parts:
        contestants = each["contestants"]
        alone = contestants[ALONE]["median"]
        cells = [each["work"], f"{alone:.2f} s, {each['gigaflops']:.0f} GFLOP/s"]
        for name in (OURS, HUB, HUB_WITHOUT_XLA, TORCH):
            cells.append(_cell(contestants[name], alone, name) if name in contestants else "")
        lines.append(f"| {' | '.join(cells)} |")
    of = sorted({f"{each['date']}: {each['processor']}; {each['versions']}" for each in parts})
    lines += ["", *(f"Measured {each}." for each in of), "", "## Where the time goes", ""]
    lines += [
        "Seconds within TensorFlow's operations of one call of ours, by its profiler; on two threads they "
        "overlap.",
        "",
        f"| kind | {' | '.join(each['work'] for each in parts)} |",
        f"|---{'|---' * len(parts)}|",
    ]
    kinds = dict.fromkeys(kind for each in parts for kind in each["profile"])
    for kind in kinds:
        cells = [f"{each['profile'].get(kind, 0):.3f}" for each in parts]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    by_hand = before[before.index(BY_HAND) :] if BY_HAND in before else f"{BY_HAND}\n"
    return "\n".join([*lines, "", by_hand])


def _cell(figures: dict[str, Any], alone: float, name: str) -> str:
    text = f"{figures['median']:.2f} s, {alone / figures['median']:.0%}"
    if name == OURS:
        return text
    low, high = min(figures["ratios"]), max(figures["ratios"])
    return f"{text} ({figures['ratio']:.2f}x, {low:.2f}–{high:.2f})"
