"""Whole fine-tunings side by side, from raw text in memory to the metric: bert_zoo, Hugging Face's
Trainer and KerasHub's TextClassifier, as their users run them.

The recipe is the same for all: the same weights (the pooler's too; the classifier is fresh), batches
of 32, at most 128 tokens, dropout 0.1, AdamW with bias correction (the Trainer's) and decay off
biases and norms, warmup over a tenth of the steps, then linear decay to zero, clipping at 1.0. What
differs is how each one feeds its texts: ours in batches of similar length, the Trainer in random
batches padded to their longest, KerasHub padded to 128 all.

Every fine-tuning has a process of its own, and so pays for its own tracing or compiling. Starting
the interpreter, importing and loading weights come before the clock starts.
"""

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data import glue
from bert_zoo.data.tables import LabelledTexts

PROGRAMS = Path(__file__).parent / "references" / "peers"
RECIPE = {
    "batch_size": 32,
    "learning_rate": 5e-5,
    "max_length": 128,
    "weight_decay": 0.01,
    "clip_norm": 1.0,
    "epsilon": 1e-6,
}
WARMUP_PROPORTION = 0.1
# Classes to tell apart, and texts to learn it from.
TASKS = tuple(n for n, t in glue.DATA_SETS.items() if t.label_names and "train" in t.files)
NUM_COMPARED = 8
THREADS_OF = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


@dataclasses.dataclass(frozen=True)
class Implementation:
    """A program of `peers`, and what to expect of it."""

    title: str  # how it is called in tables
    program: str  # its file
    is_reference: bool = False  # whether it needs the environment with torch and transformers
    tolerance: float = 0.0  # how far its encoder's outputs may lie from ours
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # settings of its own


OURS = "bert_zoo"
# KerasHub's BERT has the tanh approximation of GELU, whatever the checkpoint was trained with.
_HUB = {"program": "finetune_keras_hub.py", "tolerance": 5e-3}
IMPLEMENTATIONS = {
    OURS: Implementation("bert_zoo", "finetune_bert_zoo.py"),
    "trainer": Implementation("Hugging Face Trainer", "finetune_trainer.py", True, 1e-5),
    "keras_hub": Implementation("KerasHub", options={"jit_compile": "auto"}, **_HUB),
    "keras_hub_without_xla": Implementation(
        "KerasHub, jit_compile=False", options={"jit_compile": False}, **_HUB
    ),
}


class Finetuning:
    """Fine-tunes once a call, in a new process with the next seed.

    Attributes:
        runs: what the program reported of each call, with the metrics of its predictions.
    """

    def __init__(
        self,
        implementation: Implementation,
        python: str,
        settings: dict[str, Any],
        dev: glue.GlueSplit,
        scratch: Path,
    ):
        self.implementation = implementation
        self.python = python
        self.settings = settings | implementation.options | {"scratch": str(scratch)}
        self.dev = dev
        self.runs: list[dict[str, Any]] = []

    def start(self, action: str) -> dict[str, Any]:
        """What the program says of `action`; see peers/worker.py."""
        seed = {"seed": len(self.runs)}
        return start_peer(self.python, self.implementation.program, action, self.settings | seed)

    def outputs(self) -> np.ndarray:
        """What its encoder gives for the compared texts, before training."""
        return np.array(self.start("encode")["outputs"])

    def __call__(self) -> float:
        run = self.start("finetune")
        if run["steps"] != self.settings["steps"]:
            raise RuntimeError(
                f"{self.implementation.title} took {run['steps']} steps, expected "
                f"{self.settings['steps']}: it does other work than the rest."
            )
        run["metrics"] = glue.metrics(self.dev.task, self.dev.labels, run.pop("predictions"))
        self.runs.append(run)
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in run["parts"].items())
        figures = ", ".join(f"{name} {value:.4f}" for name, value in run["metrics"].items())
        print(
            f"  {self.implementation.title}, seed {len(self.runs) - 1}: {run['seconds']:.1f} s "
            f"({parts}; of processors {run['cpu_seconds']:.1f}), {figures}, loss {run['loss']:.4f}",
            flush=True,
        )
        return run["seconds"]


def start_peer(python: str, program: str, action: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Runs a program of `peers` to its end, in a process of its own.

    Args:
        python: the interpreter of its environment.
        program: its file's name.
        action: what peers/worker.py takes, "encode" or "finetune".
        settings: what the program reads, with `threads` and an existing directory `scratch`.

    Raises:
        RuntimeError: the program failed.
    """
    file = Path(settings["scratch"], "settings.json")
    file.write_text(json.dumps(settings), encoding="utf-8")
    threads = dict.fromkeys(THREADS_OF, str(settings["threads"]))
    finished = subprocess.run(
        [python, str(PROGRAMS / program), action, str(file)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | threads,
    )
    if finished.returncode:
        raise RuntimeError(
            f"{program} stopped with code {finished.returncode}; see its messages above."
        )
    # Libraries print too, but before.
    return json.loads(finished.stdout.splitlines()[-1])


def prepare(
    peers: Sequence[str],
    *,
    task: str,
    glue_dir: str,
    num_rows: int,
    epochs: int,
    threads: int,
    model_dir: str,
    reference_python: str | None,
    scratch: Path,
) -> dict[str, Finetuning]:
    """Makes ours and its peers ready to run on the same texts.

    Args:
        peers: keys of `IMPLEMENTATIONS`.
        task: one of `TASKS`.
        glue_dir: folder with GLUE's folders.
        num_rows: texts to train on, the first of the file; 0 takes all.
        epochs: passes over them.
        threads: of every implementation.
        model_dir: Hugging Face directory of the encoder.
        reference_python: Python with torch, transformers and accelerate.
        scratch: an empty directory.

    Returns:
        Title -> fine-tuning, ours first.
    """
    train = glue.load_glue(task, "train", glue_dir)
    dev = glue.load_glue(task, glue.DATA_SETS[task].measured_splits[0], glue_dir)
    num_rows = min(num_rows or len(train), len(train))
    steps = math.ceil(num_rows / RECIPE["batch_size"]) * epochs
    settings = RECIPE | {
        "model_dir": model_dir,
        "num_classes": len(train.label_names),
        "threads": threads,
        "epochs": epochs,
        "steps": steps,
        "warmup_steps": math.ceil(steps * WARMUP_PROPORTION),
        "train": first_rows(train, num_rows),
        "measured": first_rows(dev, len(dev)),
        "compared": first_rows(dev, NUM_COMPARED)["columns"],
    }
    finetunings = {}
    for name in (OURS, *peers):
        implementation = IMPLEMENTATIONS[name]
        python = sys.executable
        if implementation.is_reference:
            if not reference_python:
                raise ValueError(
                    f"{implementation.title} needs --reference_python, the interpreter of an "
                    "environment with torch, transformers and accelerate. Leave it out otherwise: "
                    "--peers keras_hub."
                )
            python = reference_python
        finetunings[implementation.title] = Finetuning(
            implementation, python, settings, dev, scratch
        )
    return finetunings


def first_rows(split: LabelledTexts, number: int) -> dict[str, list]:
    """Labelled texts as the programs of `peers` take them."""
    columns = split.texts if isinstance(split.texts, tuple) else (split.texts,)
    return {
        "columns": [column[:number] for column in columns],
        "labels": split.labels[:number],
    }


def check_equal(finetunings: dict[str, Finetuning]) -> dict[str, float]:
    """Compares the encoders before training and prints how far each lies from ours.

    Returns:
        Title -> largest absolute difference of hidden states and pooled outputs.

    Raises:
        RuntimeError: a difference is above the implementation's tolerance.
    """
    outputs = {title: finetuning.outputs() for title, finetuning in finetunings.items()}
    ours, *others = outputs
    print(f"\nThe encoder before training, {NUM_COMPARED} texts, largest difference from {ours}:")
    differences = {}
    for title in others:
        differences[title] = float(np.abs(outputs[title] - outputs[ours]).max())
        tolerance = finetunings[title].implementation.tolerance
        print(f"  {title:<34}{differences[title]:.1e}   (allowed {tolerance:.0e})", flush=True)
        if not differences[title] <= tolerance:
            raise RuntimeError(
                f"{title} and {ours} differ by {differences[title]:.1e}, above {tolerance:.0e}: "
                "they would not train the same model. Check weights and token ids."
            )
    return differences
