"""Models of base size in several libraries: forward passes and training steps.

Each family's model stands beside transformers' class on torch, which reads the same weights. BERT's stands
beside KerasHub's too, and beside what the machine can do: the products of matrices alone, of the same
sizes, in one function that TensorFlow traced. A library's share of that is their time over its own: a step of
training has the products of the forward pass, and as many again for the gradients of each argument. All but
GPT classify tokens, so that no library can leave out a part of the last layer; dropout, AdamW and clipping
are the same.
"""

import datetime
import functools
import glob
import itertools
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
from bert_zoo.config import Config
from bert_zoo.training.optimizers import bert_adamw

# Family -> the checkpoint whose sizes are timed.
MODELS = {
    "bert": "bert_base",
    "roberta": "roberta_base",
    "albert": "albert_base",
    "distilbert": "distilbert_base_uncased",
    "mobilebert": "mobilebert_uncased",
    "electra": "electra_base",
    "mpnet": "mpnet_base",
    "xlnet": "xlnet_base",
    "xlm": "xlm_mlm_xnli15_1024",
    "deberta": "deberta_base",
    "deberta_v2": "deberta_v3_base",
    "modernbert": "modernbert_base",
    "gpt": "gpt",
    "gpt2": "gpt2",
}
# The task, and that of families whose tokens transformers does not classify; task -> its class there.
TASK, OTHER_TASKS = "token_classification", {"gpt": "classification"}
TORCH_CLASSES = {
    "token_classification": "AutoModelForTokenClassification",
    "classification": "AutoModelForSequenceClassification",
}
# The one that KerasHub's and the products of matrices alone are of, which the page has apart.
IN_DETAIL = "bert"
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
# What is shown of each family, as `Race.title` has it.
FAMILIES_WORKS = ("forward, float32", "step of training, float32")
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
import torch, transformers
torch.set_num_threads(settings["threads"])
dtype = settings["dtype"]
model = getattr(transformers, settings["auto_class"]).from_pretrained(
    settings["directory"], dtype=torch.bfloat16 if dtype == "bfloat16" else torch.float32)
mixed = dtype == "mixed_bfloat16"
precision = lambda: torch.autocast("cpu", torch.bfloat16, enabled=mixed)
ids = torch.randint(1000, 20000, (settings["batch"], settings["length"]))
mask = torch.ones_like(ids)
labels = (ids if settings["of_tokens"] else ids[:, 0]) % model.config.num_labels
if model.config.pad_token_id is None:  # some want one for several rows; none is among these ids
    model.config.pad_token_id = 0
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
    flops: int | None  # of the products of matrices, where they are among the contestants


def race_of(family: str, work: str, rows: int, length: int, directory: Path) -> Race:
    """A family's model with random weights, which are saved for torch.

    Args:
        family: a key of `MODELS`.
        work: a key of `WORKS`.
        rows, length: of the batch.
        directory: where transformers finds the model.
    """
    dtype, training = WORKS[work]
    task = OTHER_TASKS.get(family, TASK)
    ours, inputs, run = our_work(MODELS[family], task, work, rows, length)
    bert_zoo.save(ours, directory, format="hf")
    contestants, flops = {OURS: run(ours, inputs)}, None
    if family == IN_DETAIL:
        config, passes = ours.encoder.config, 3 if training else 1
        inputs["segment_ids"] = np.zeros_like(inputs["token_ids"])
        for name, jit in {HUB: "auto", HUB_WITHOUT_XLA: False}.items():
            if training or jit:
                contestants[name] = run(hub_model(dtype, config, jit), inputs)
        products, flops = products_alone(rows * length, config, dtype)
        contestants[ALONE] = lambda: [products() for _ in range(passes)]
        flops *= passes
    settings = {
        "dtype": dtype,
        "training": training,
        "directory": str(directory),
        "auto_class": TORCH_CLASSES[task],
        "of_tokens": task == TASK,
    }
    title = f"{'step of training' if training else 'forward'}, {dtype}"
    return Race(title, contestants, settings, flops)


def our_work(
    name: str, task: str, work: str, rows: int, length: int
) -> tuple[keras.Model, dict[str, np.ndarray], Callable]:
    """A model of ours with random weights, a batch, and what makes of a model and a batch what is timed.

    Args:
        name, task: as `bert_zoo.load` takes them.
        work: a key of `WORKS`.
        rows, length: of the batch.
    """
    dtype, training = WORKS[work]
    labels = [str(number) for number in range(CLASSES)]
    model = bert_zoo.load(name, task=task, labels=labels, weights=None, dtype=dtype)
    ids = np.random.default_rng(0).integers(1000, 20000, (rows, length), "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    if not training:
        return model, inputs, forward
    model.compile(optimizer=bert_adamw(1e-5, bias_correction=True), loss=model.default_loss())
    answers = (ids if task == TASK else ids[:, 0]) % CLASSES
    return model, inputs, functools.partial(step, labels=answers)


def hub_model(dtype: str, config: Config, jit: str | bool) -> keras.Model:
    """KerasHub's BERT of a configuration's sizes, which classifies tokens.

    Args:
        jit: whether steps of training are compiled by XLA; as Keras's `compile` takes it.
    """
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        dtype=dtype,
    )
    x = keras.layers.Dropout(0.1, dtype=dtype)(backbone.output["sequence_output"])
    model = keras.Model(backbone.input, keras.layers.Dense(CLASSES, dtype="float32")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(benchmark_pretraining.keras_adamw(), loss=loss, jit_compile=jit)
    return model


def step(model, inputs, labels) -> Callable[[], object]:
    return lambda: model.train_on_batch(inputs, labels)


def forward(model, inputs) -> Callable[[], object]:
    run = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return lambda: run(tensors).numpy()


def products_alone(tokens: int, config: Config, dtype: str) -> tuple[Callable[[], object], int]:
    """A forward pass's products of matrices, without attention's, and their operations."""
    hidden, inner = config.hidden_size, config.intermediate_size
    dtype = "float32" if dtype == "float32" else "bfloat16"
    shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden)]
    shapes *= config.num_layers
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
    family: str,
    race: Race,
    seconds: dict[str, dict],
    threads: int,
    reference_python: str | None,
) -> dict[str, Any]:
    """What the page shows of a race, as JSON."""
    versions = [f"{each.__name__} {each.__version__}" for each in (tf, keras, keras_hub)]
    if reference_python:
        command = "import torch, transformers as t; print('torch', torch.__version__, 'transformers', t.__version__)"
        printed = subprocess.run([reference_python, "-c", command], capture_output=True, text=True)
        versions.append(printed.stdout.strip())
    found = {
        "family": family,
        "work": race.title,
        "threads": threads,
        "contestants": {
            name: {key: figures[key] for key in ("seconds", "median", "ratio", "ratios")}
            for name, figures in seconds.items()
        },
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "versions": ", ".join(versions),
    }
    if race.flops is not None:
        found["gigaflops"] = race.flops / seconds[ALONE]["median"] / 1e9
        found["profile"] = profile(race.contestants[OURS])
    return found


def page(parts: list[dict[str, Any]], rows: int, length: int, before: str) -> str:
    """docs/performance.md.

    Args:
        parts: what `part` gives.
        before: the page as it was, of which the part that is written by hand stays.
    """
    detailed = [each for each in parts if each["family"] == IN_DETAIL]
    other_tasks = (f"`{MODELS[family]}`: {task}" for family, task in OTHER_TASKS.items())
    lines = [
        "# How fast models are",
        "",
        "Written by `python tools/benchmark.py --what modelling --families "
        f"{','.join(dict.fromkeys(each['family'] for each in parts))}`: models of base size, {rows} rows of "
        f"{length} tokens, tokens classified ({', '.join(other_tasks)}). Medians, "
        "with ours as many times as fast and the spread of that over interleaved rounds. torch computes "
        "`mixed_bfloat16` under `autocast`.",
        "",
        "## Beside transformers, by family",
        "",
        "float32, the same random weights in both; each attends as `from_pretrained` has it.",
        "",
        f"| model | threads | rounds | forward: {OURS} | {TORCH} | step of training: {OURS} | {TORCH} |",
        "|---|---:|---:|---|---|---|---|",
    ]
    for family, name in MODELS.items():
        found = {each["work"]: each for each in parts if each["family"] == family != IN_DETAIL}
        if found:
            one = next(iter(found.values()))
            rounds = len(one["contestants"][OURS]["seconds"])
            cells = [f"`{name}`", str(one["threads"]), str(rounds)]
            for work, contestant in itertools.product(FAMILIES_WORKS, (OURS, TORCH)):
                times = found[work]["contestants"] if work in found else {}
                cells.append(_cell(times[contestant], contestant) if contestant in times else "")
            lines.append(f"| {' | '.join(cells)} |")
    of = sorted({f"{each['date']}: {each['processor']}; {each['versions']}" for each in parts})
    lines += ["", *(f"Measured {each}." for each in of), "", "## BERT beside the machine", ""]
    lines += [
        "The percentage is what the products of matrices alone, without attention's, take of the time: three "
        "times those of a forward pass for a step of training.",
        "",
        f"| work | threads | {ALONE} | {OURS} | {HUB} | {HUB_WITHOUT_XLA} | {TORCH} |",
        "|---|---:|---|---|---|---|---|",
    ]
    for each in detailed:
        contestants = each["contestants"]
        alone = contestants[ALONE]["median"]
        cells = [each["work"], str(each["threads"])]
        cells.append(f"{alone:.2f} s, {each['gigaflops']:.0f} GFLOP/s")
        for name in (OURS, HUB, HUB_WITHOUT_XLA, TORCH):
            cells.append(_cell(contestants[name], name, alone) if name in contestants else "")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Where the time goes", ""]
    lines += [
        "Seconds within TensorFlow's operations of one call of our BERT, by its profiler; on several "
        "threads they overlap.",
        "",
        f"| kind | {' | '.join(each['work'] for each in detailed)} |",
        f"|---{'|---' * len(detailed)}|",
    ]
    kinds = dict.fromkeys(kind for each in detailed for kind in each["profile"])
    for kind in kinds:
        cells = [f"{each['profile'].get(kind, 0):.3f}" for each in detailed]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    by_hand = before[before.index(BY_HAND) :] if BY_HAND in before else f"{BY_HAND}\n"
    return "\n".join([*lines, "", by_hand])


def _cell(figures: dict[str, Any], name: str, alone: float | None = None) -> str:
    text = f"{figures['median']:.2f} s" + (f", {alone / figures['median']:.0%}" if alone else "")
    if name == OURS:
        return text
    low, high = min(figures["ratios"]), max(figures["ratios"])
    return f"{text} ({figures['ratio']:.2f}x, {low:.2f}–{high:.2f})"
