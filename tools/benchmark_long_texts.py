"""Time and memory of a model with windows of attention, by the length of texts, beside Hugging Face's.

    python tools/benchmark_long_texts.py --reference_python reference-env/bin/python
    python tools/benchmark_long_texts.py --lengths 128,192,256,384,512 --batch_size 8

`modernbert_base` with random weights encodes random tokens, forward. Beside it stand the same with every
window as a mask over all tokens, and transformers' class on torch, where `reference_python` is an
interpreter that has both. Each runs in a process of its own, in turn, round after round. Memory is what
a process takes at its peak while it encodes, beyond what it had before, with weights and libraries.
"""

import json
import statistics
import subprocess
import sys
import textwrap

from absl import app, flags

_REFERENCE_PYTHON = flags.DEFINE_string("reference_python", None, "With transformers and torch.")
_LENGTHS = flags.DEFINE_list("lengths", ["512", "2048", "8192"], "Tokens a row.")
_BATCH = flags.DEFINE_integer("batch_size", 1, "Rows.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Timed rounds.", lower_bound=1)
_WARMUP = flags.DEFINE_integer("warmup", 1, "Rounds before them.", lower_bound=0)
_MASKS = flags.DEFINE_bool("masks", True, "Whether windows as masks are measured too.")
_THREADS = flags.DEFINE_integer("threads", 2, "Of every implementation.", lower_bound=1)
_LAYERS = flags.DEFINE_integer("layers", 22, "Of the model.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", None, "Where to write the figures as JSON.")

OURS = """
import numpy as np
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
from bert_zoo.models.encoder import Encoder
from bert_zoo.registry import registry
family, checkpoint = registry().resolve("modernbert_base")
config = family.config(checkpoint).replace(num_layers=settings["layers"])
if settings["masks"]:
    type(config).fewest_blocks = 1 << 30
model = Encoder(config, family.name)
run = tf.function(lambda inputs: model(inputs)["sequence_output"], autograph=False)
def encode(ids):
    run({"token_ids": tf.constant(ids, tf.int32)}).numpy()
"""
TORCH = """
import torch
from transformers import ModernBertConfig, ModernBertModel
torch.set_num_threads(settings["threads"])
model = ModernBertModel(ModernBertConfig(num_hidden_layers=settings["layers"])).eval()
def encode(ids):
    with torch.no_grad():
        model(input_ids=torch.tensor(ids)).last_hidden_state.numpy()
"""
# What a child does: for each length that it is told, seconds and bytes.
SERVE = """
import random, sys, time
def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
for line in sys.stdin:
    rows, length = map(int, line.split())
    ids = [[random.randrange(2, 50_000) for _ in range(length)] for _ in range(rows)]
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before, start = status("VmRSS"), time.perf_counter()
    encode(ids)
    seconds = time.perf_counter() - start
    print("answer", seconds, status("VmHWM") - before, flush=True)
"""


class Child:
    """An implementation in a process of its own."""

    def __init__(self, python: str, code: str, **settings):
        program = f"settings = {settings!r}\n{textwrap.dedent(code)}\n{SERVE}"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([python, "-c", program], **pipes)

    def __call__(self, rows: int, length: int) -> tuple[float, float]:
        """Seconds and bytes of encoding so many rows."""
        self.process.stdin.write(f"{rows} {length}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer"):
                _, seconds, size = line.split()
                return float(seconds), float(size)
        raise RuntimeError(f"A process stopped with code {self.process.wait()}.")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def children() -> dict[str, Child]:
    options = {"threads": _THREADS.value, "layers": _LAYERS.value}
    made = {"bert_zoo": Child(sys.executable, OURS, masks=False, **options)}
    if _MASKS.value:
        made["bert_zoo, windows as masks"] = Child(sys.executable, OURS, masks=True, **options)
    if _REFERENCE_PYTHON.value:
        made["transformers (torch)"] = Child(_REFERENCE_PYTHON.value, TORCH, **options)
    return made


def measure(length: int) -> dict[str, dict[str, list[float]]]:
    """name -> seconds and bytes of each round; a process for each, which holds no other length's memory."""
    contestants = children()
    found = {name: {"seconds": [], "bytes": []} for name in contestants}
    for number in range(_WARMUP.value + _ROUNDS.value):
        for name, child in contestants.items():
            seconds, size = child(_BATCH.value, length)
            # Memory that the first round took is not given back to the system.
            found[name]["bytes"].append(size)
            if number >= _WARMUP.value:
                found[name]["seconds"].append(seconds)
    for child in contestants.values():
        child.close()
    return found


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    results = {"arguments": sys.argv[1:]}
    for length in map(int, _LENGTHS.value):
        results[length] = measure(length)
        print(f"\n{_BATCH.value} x {length:,} tokens")
        ours = results[length]["bert_zoo"]["seconds"]
        for name, of in results[length].items():
            ratios = [theirs / our for theirs, our in zip(of["seconds"], ours, strict=True)]
            print(
                f"  {name:<28}{statistics.median(of['seconds']):>9.3f} s"
                f"{max(of['bytes']) / 2**20:>9,.0f} MiB   "
                f"ours is {statistics.median(ratios):.2f}x as fast "
                f"({min(ratios):.2f}–{max(ratios):.2f})",
                flush=True,
            )
    if _OUTPUT.value:
        with open(_OUTPUT.value, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    app.run(main)
