r"""Compares settings of fine-tuning on several tasks, seed by seed, to choose the default recipe by.

    python tools/study_defaults.py --model minilm_l6 --data_dir ../shared/data --output_dir runs/study \
        --settings original,bias_correction --tasks sst2_500,trec --seeds 5

The settings `trainer`, `trainer_rows_32` and `trainer_by_epoch` are Hugging Face's Trainer, beside ours, and
need `--reference_python`, an environment with torch, transformers and accelerate.

A run that is in the output directory is not trained again, so that the same command, or one with more settings,
goes on. Prints what is there as a table in Markdown: the metric after the last epoch, mean and standard error over the
seeds, and seconds of training; the random number generators of two settings begin with the same seeds.
"""

import math
import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from benchmark_finetuning import first_rows, start_peer

_MODEL = flags.DEFINE_string("model", "minilm_l6", "What load() takes.")
_DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder with glue/ and classification/.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/study", "Where the runs are.")
_SETTINGS = flags.DEFINE_list("settings", ["original"], "Names in SETTINGS.")
_TASKS = flags.DEFINE_list("tasks", ["messages"], "Names in TASKS.")
_SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds from 0 on.", lower_bound=1)
_FIRST_SEED = flags.DEFINE_integer("first_seed", 0, "The first of them.", lower_bound=0)
_DTYPE = flags.DEFINE_string("dtype", "float32", "A Keras dtype policy.")
_REFERENCE_PYTHON = flags.DEFINE_string("reference_python", None, "Of the Trainer's environment.")
_TRAIN = flags.DEFINE_bool("train", True, "Whether to train what is missing.")


@dataclass(frozen=True)
class Setting:
    """What is changed of BERT's own recipe.

    Attributes:
        recipe: settings of `Recipe`.
    """

    recipe: dict[str, Any] = field(default_factory=dict)

    def train(self, task: Any, seed: int, directory: Path) -> None:
        """One run, of which the metrics are kept and the weights are not."""
        import keras

        from bert_zoo.cli.finetuning import MODEL, finetune
        from bert_zoo.presets import Recipe

        keras.utils.clear_session()
        recipe = Recipe(**self.recipe, dtype=_DTYPE.value)
        finetune(_MODEL.value, task, recipe, directory, seed=seed, export=False)
        shutil.rmtree(directory / MODEL)


@dataclass(frozen=True)
class Trainer:
    """Hugging Face's Trainer with the defaults of its TrainingArguments (transformers 5.23).

    Attributes:
        changes: settings of peers/finetune_trainer.py in place of the defaults.
    """

    changes: dict[str, Any] = field(default_factory=dict)

    def train(self, task: Any, seed: int, directory: Path) -> None:
        """One run: its metric and its seconds, from texts in memory to predictions."""
        import bert_zoo
        from bert_zoo.cli.finetuning import METRICS, write_json

        measured = task.data(task.measured[0])
        with tempfile.TemporaryDirectory() as scratch:
            bert_zoo.save(bert_zoo.load(_MODEL.value), f"{scratch}/model", format="hf")
            settings = TRAINER_DEFAULTS | self.changes
            settings |= {
                "model_dir": f"{scratch}/model",
                "scratch": scratch,
                "seed": seed,
                "num_classes": max(1, len(task.label_names)),
                "threads": int(os.environ.get("TF_NUM_INTRAOP_THREADS", os.cpu_count())),
                "bfloat16": _DTYPE.value != "float32",
                "train": first_rows(task.train, len(task.train)),
                "measured": first_rows(measured, len(measured)),
            }
            run = start_peer(_REFERENCE_PYTHON.value, "finetune_trainer.py", "finetune", settings)
        directory.mkdir(parents=True, exist_ok=True)
        last = task.metric(measured.labels, np.array(run["predictions"]))
        write_json(directory / METRICS, {"last": last, "seconds": run["seconds"]})


# What `transformers.TrainingArguments` has where nothing is said, and the tokens that ours has.
TRAINER_DEFAULTS = {
    "batch_size": 8,
    "epochs": 3,
    "learning_rate": 5e-5,
    "warmup_steps": 0,
    "weight_decay": 0.0,
    "clip_norm": 1.0,
    "epsilon": 1e-8,
    "max_length": 128,
}


def corrected(**recipe: Any) -> dict[str, Any]:
    return {"bias_correction": True, **recipe}


# The default at this width for other numbers of layers, with the head as BERT has it.
BERTS_HEAD = corrected(learning_rate=1e-4, least_updates=150)
WIDE_HEAD = corrected(learning_rate=1e-4, head_initializer_range=0.2)
SMALLER_BATCHES = WIDE_HEAD | {"least_updates": 90, "least_batch_size": 8}
SETTINGS = {
    "original": Setting(),
    "original_rate_1e-4": Setting({"learning_rate": 1e-4}),
    "original_rate_2e-4": Setting({"learning_rate": 2e-4}),
    "original_rate_1e-4_rows_16": Setting({"learning_rate": 1e-4, "batch_size": 16}),
    "bias_correction": Setting(corrected()),
    "rate_1e-4": Setting(corrected(learning_rate=1e-4)),
    "rate_1e-4_rows_16": Setting(corrected(learning_rate=1e-4, batch_size=16)),
    "bias_correction_rows_8": Setting(corrected(batch_size=8)),
    "rate_1e-4_rows_16_any_length": Setting(
        corrected(learning_rate=1e-4, batch_size=16, group_by_length=False)
    ),
    "rate_1e-4_rows_8": Setting(corrected(learning_rate=1e-4, batch_size=8)),
    "rate_1e-4_epochs_8": Setting(corrected(learning_rate=1e-4, epochs=8)),
    "rate_2e-4": Setting(corrected(learning_rate=2e-4)),
    "rate_3e-4": Setting(corrected(learning_rate=3e-4)),
    "rate_2e-4_rows_16": Setting(corrected(learning_rate=2e-4, batch_size=16)),
    "rate_2e-4_epochs_5": Setting(corrected(learning_rate=2e-4, epochs=5)),
    "rate_2e-4_layer_decay_0.8": Setting(corrected(learning_rate=2e-4, layer_decay=0.8)),
    "rate_2e-4_new_layer": Setting(corrected(learning_rate=2e-4, reinitialized_layers=1)),
    "head_0.02": Setting(BERTS_HEAD),
    "head_0.02_any_length": Setting(BERTS_HEAD | {"group_by_length": False}),
    # The default of classifiers.
    "minilm": Setting(SMALLER_BATCHES),
    # The default of scores.
    "minilm_scores": Setting(BERTS_HEAD | {"batch_size": 16, "epochs": 4}),
    "wide_head_rows_8": Setting(WIDE_HEAD | {"least_updates": 90, "batch_size": 8}),
    "wide_head_rows_16": Setting(WIDE_HEAD | {"least_updates": 90, "batch_size": 16}),
    "wide_head_rows_32": Setting(WIDE_HEAD | {"least_updates": 100}),
    "wide_head_rate_2e-4": Setting(SMALLER_BATCHES | {"learning_rate": 2e-4}),
    "head_0.06": Setting(SMALLER_BATCHES | {"head_initializer_range": 0.06}),
    "head_0.4": Setting(SMALLER_BATCHES | {"head_initializer_range": 0.4}),
    "trainer": Trainer(),
    "trainer_by_epoch": Trainer({"by_epoch": True}),
    "trainer_rows_32": Trainer({"batch_size": 32}),
}


@dataclass(frozen=True)
class Data:
    """A task's data: the arguments of `make_task`, with paths below the folder of the data."""

    options: dict[str, Any]
    paths: dict[str, str] = field(default_factory=dict)

    def task(self, folder: Path) -> Any:
        from bert_zoo.cli.benchmarks import make_task

        return make_task(
            **self.options, **{name: str(folder / path) for name, path in self.paths.items()}
        )


def sst2(rows: int) -> Data:
    files = {"train_file": "glue/SST-2/train.tsv", "dev_file": "glue/SST-2/dev.tsv"}
    return Data({"name": "table", "text": "sentence", "train_rows": rows}, files)


TASKS = {
    "messages": Data({"name": "messages"}),
    "sst2_100": sst2(100),
    "sst2_500": sst2(500),
    "sst2_6000": sst2(6_000),
    "sst2": sst2(0),
    "trec": Data({"name": "trec"}, {"data_dir": "classification"}),
    "cola": Data({"name": "cola"}, {"data_dir": "glue"}),
    "stsb": Data({"name": "stsb"}, {"data_dir": "glue"}),
    "rte": Data({"name": "rte"}, {"data_dir": "glue"}),
}


@dataclass(frozen=True)
class Cell:
    """The runs of a setting on a task."""

    values: Sequence[float]
    seconds: float

    def __str__(self) -> str:
        mean = f"{statistics.mean(self.values):.3f}"
        if len(self.values) > 1:
            error = statistics.stdev(self.values) / math.sqrt(len(self.values))
            mean += f" ± {error:.3f}"
        return f"{mean}, {self.seconds:.0f} s ({len(self.values)})"


def cell(directories: Sequence[Path]) -> Cell | None:
    """What finished runs measured; None where there are none."""
    from bert_zoo.cli.finetuning import METRICS, read_json

    runs = [read_json(d / METRICS) for d in directories if (d / METRICS).is_file()]
    if not runs:
        return None
    metric = next(iter(runs[0]["last"]))
    values = [run["last"][metric] for run in runs]
    return Cell(values, statistics.median(run["seconds"] for run in runs))


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    trainers = [name for name in _SETTINGS.value if isinstance(SETTINGS.get(name), Trainer)]
    if _TRAIN.value and trainers and not _REFERENCE_PYTHON.value:
        raise app.UsageError(
            f"{', '.join(trainers)} needs --reference_python, the interpreter of an environment with "
            "torch, transformers and accelerate."
        )
    output = Path(_OUTPUT_DIR.value)
    seeds = range(_FIRST_SEED.value, _FIRST_SEED.value + _SEEDS.value)
    if _TRAIN.value:
        from bert_zoo.cli.finetuning import METRICS

        for seed in seeds:
            for task in _TASKS.value:
                for setting in _SETTINGS.value:
                    directory = output / setting / task / f"seed_{seed}"
                    if not (directory / METRICS).is_file():
                        print(f"{setting} on {task}, seed {seed}", flush=True)
                        data = TASKS[task].task(Path(_DATA_DIR.value))
                        SETTINGS[setting].train(data, seed, directory)
    print("| setting | " + " | ".join(_TASKS.value) + " |")
    print("|---" * (1 + len(_TASKS.value)) + "|")
    for setting in _SETTINGS.value:
        cells = [cell(sorted((output / setting / task).glob("seed_*"))) for task in _TASKS.value]
        print(f"| {setting} | " + " | ".join(str(c or "") for c in cells) + " |")


if __name__ == "__main__":
    app.run(main)
