"""Fine-tuning a checkpoint on labelled texts: from its name to a run directory."""

import importlib.util
import json
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

import bert_zoo
from bert_zoo.data import glue, messages
from bert_zoo.data.buckets import grouped_batches
from bert_zoo.models.base import ZooModel
from bert_zoo.training.optimizers import bert_adamw
from bert_zoo.training.recipes import compile_for_task

log = logging.getLogger("bert_zoo")

Texts = list[str] | tuple[list[str], list[str]]


@dataclass(frozen=True)
class Recipe:
    """BERT's fine-tuning recipe (Devlin et al. 2018, appendix A.3).

    Attributes:
        epochs, batch_size: passes over the data and rows a step.
        learning_rate: the peak.
        warmup_proportion: part of all steps that warms up.
        weight_decay: off biases and norms.
        max_length: tokens a text, or a pair, is cut to.
        bias_correction: see `BertAdamW`.
        group_by_length: whether a batch holds texts of similar length, which saves padding.
        dtype: a Keras dtype policy.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup_proportion: float = 0.1
    weight_decay: float = 0.01
    max_length: int = 128
    bias_correction: bool = False
    group_by_length: bool = True
    dtype: str = "float32"


@dataclass(frozen=True)
class TextTask:
    """Labelled texts to train on and to measure on.

    Attributes:
        name: for titles and files.
        train: texts and labels to train on.
        measured: texts and labels to measure on after every epoch.
        measured_on: what these are, "validation" or "test".
        label_names: of the classes; empty for a score.
        metric: (labels, predictions) -> figures, the first of which says which epoch is best.
    """

    name: str
    train: tuple[Texts, Sequence[float]]
    measured: tuple[Texts, Sequence[float]]
    measured_on: str
    label_names: tuple[str, ...]
    metric: Callable[[Sequence[float], np.ndarray], dict[str, float]]

    @property
    def keeps(self) -> str:
        """Which epoch's weights are kept: "best", or "last" where a test split would choose them."""
        return "last" if self.measured_on == "test" else "best"

    @property
    def num_train(self) -> int:
        return len(self.train[1])


def messages_task() -> TextTask:
    """The data set that ships with the package, measured on its test split."""
    return TextTask(
        "messages",
        messages.load("train"),
        messages.load("test"),
        "test",
        messages.LABELS,
        lambda labels, predictions: {"accuracy": float(np.mean(np.asarray(labels) == predictions))},
    )


def glue_task(name: str, data_dir: str | None = None) -> TextTask:
    """A GLUE task, from its TSV files or TensorFlow Datasets, measured on its development set."""
    validation = "validation_matched" if name == "mnli" else "validation"
    train, dev = (glue.load_glue(name, split, data_dir) for split in ("train", validation))
    return TextTask(
        name,
        (train.texts, train.labels),
        (dev.texts, dev.labels),
        "validation",
        tuple(train.label_names),
        lambda labels, predictions: glue.metrics(name, labels, predictions),
    )


class Measure(keras.callbacks.Callback):
    """Measures after each epoch, keeps the best or last weights, and remembers the figures.

    Args:
        task: what to predict and compare with.
        directory: where the model is kept.
        batch_size: texts a step.
    """

    def __init__(self, task: TextTask, directory: Path, batch_size: int):
        super().__init__()
        self.task = task
        self.directory = directory
        self.batch_size = batch_size
        self.figures: list[dict[str, float]] = []

    def on_epoch_end(self, epoch, logs=None):
        texts, labels = self.task.measured
        predictions = predict_labels(self.model, texts, self.batch_size)
        figures = self.task.metric(labels, predictions)
        self.figures.append(figures)
        # Callbacks after this one (TensorBoard) see the figures too.
        logs.update({f"val_{name}": value for name, value in figures.items()})
        shown = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        print(f"\n{self.task.name} after epoch {epoch + 1}: {shown}")
        if self.kept_epoch == epoch:
            bert_zoo.save(self.model, self.directory)

    @property
    def best_epoch(self) -> int:
        scores = [next(iter(figures.values())) for figures in self.figures]
        return int(np.argmax(scores))

    @property
    def kept_epoch(self) -> int:
        return self.best_epoch if self.task.keeps == "best" else len(self.figures) - 1


def predict_labels(model: ZooModel, texts: Texts, batch_size: int) -> np.ndarray:
    """Class ids [N], or scores [N] of a regression."""
    outputs = model.predict(texts, batch_size=batch_size, verbose=0)
    return outputs[:, 0] if model.task == "regression" else outputs.argmax(axis=-1)


def finetune(
    name: str,
    task: TextTask,
    recipe: Recipe,
    directory: Path,
    *,
    seed: int = 0,
    export: bool = True,
) -> dict[str, Any]:
    """Fine-tunes a checkpoint and writes a run directory.

    The directory holds `config.json`, `metrics.json`, the model that was kept (`model`, a bert_zoo
    directory), the learning curve (`tensorboard`, and `learning_curve.png` where matplotlib is
    installed), and the kept model as a SavedModel (`saved_model`).

    Args:
        name: what `load` takes.
        task: the data.
        recipe: how to train.
        directory: made if it does not exist.
        seed: of fresh weights, order and dropout.
        export: whether to write the SavedModel.

    Returns:
        What `metrics.json` holds: the figures of the best and of the last epoch, of every epoch,
        the training loss, steps and seconds.
    """
    keras.utils.set_random_seed(seed)
    directory.mkdir(parents=True, exist_ok=True)
    write_json(
        directory / "config.json",
        {
            "model": name,
            "task": task.name,
            "seed": seed,
            "recipe": asdict(recipe),
            "versions": {"bert_zoo": bert_zoo.__version__, "keras": keras.__version__},
        },
    )
    if task.label_names:
        kind = {"task": "classification", "labels": task.label_names}
    else:
        kind = {"task": "regression"}
    model = bert_zoo.load(
        name, **kind, init=("classifier",), max_length=recipe.max_length, dtype=recipe.dtype
    )
    steps = -(-task.num_train // recipe.batch_size) * recipe.epochs
    compile_for_task(
        model,
        bert_adamw(
            recipe.learning_rate,
            total_steps=steps,
            warmup_proportion=recipe.warmup_proportion,
            weight_decay=recipe.weight_decay,
            bias_correction=recipe.bias_correction,
        ),
    )
    measure = Measure(task, directory / "model", recipe.batch_size)
    start = time.perf_counter()
    if recipe.group_by_length:
        data = {"x": grouped_batches(*task.train, recipe.batch_size)}
    else:
        data = {"x": task.train[0], "y": task.train[1], "batch_size": recipe.batch_size}
    history = model.fit(
        **data, epochs=recipe.epochs, callbacks=[measure, *tensorboard(directory / "tensorboard")]
    )
    seconds = time.perf_counter() - start
    results = {
        "best": measure.figures[measure.best_epoch],
        "last": measure.figures[-1],
        "epochs": measure.figures,
        "loss": history.history["loss"],
        "steps": steps,
        "seconds": round(seconds, 1),
    }
    write_json(directory / "metrics.json", results)
    title = f"{name} on {task.name} ({task.measured_on})"
    draw_learning_curve(results, title, directory / "learning_curve.png")
    if export:
        kept = bert_zoo.load(directory / "model")
        reads_pairs = isinstance(task.train[0], tuple)
        bert_zoo.export(kept, directory / "saved_model", pairs=reads_pairs)
    return results


def tensorboard(directory: Path) -> list[keras.callbacks.Callback]:
    """The callback that writes curves for TensorBoard, where it is installed."""
    if importlib.util.find_spec("tensorboard") is None:
        log.warning("No TensorBoard files are written: tensorboard is not installed.")
        return []
    return [keras.callbacks.TensorBoard(directory)]


def write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def new_figure(otherwise: str, width: float, height: float):
    """A matplotlib figure; where it is not installed, None, and the log says `otherwise`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        log.warning("%s: matplotlib is not installed.", otherwise)
        return None
    return Figure(figsize=(width, height), layout="constrained")


def draw_learning_curve(results: dict[str, Any], title: str, path: Path) -> None:
    """Draws loss and figures by epoch; without matplotlib, one log line says so."""
    figure = new_figure("No learning curve is drawn", 7, 3)
    if figure is None:
        return
    epochs = range(1, len(results["loss"]) + 1)
    loss_axes, figure_axes = figure.subplots(1, 2)
    loss_axes.plot(epochs, results["loss"], "o-", color="tab:gray")
    loss_axes.set(title="training loss", xlabel="epoch", xticks=epochs, ylim=(0, None))
    for name in results["best"]:
        figure_axes.plot(epochs, [f[name] for f in results["epochs"]], "o-", label=name)
    figure_axes.set(title="measured", xlabel="epoch", xticks=epochs)
    figure_axes.legend()
    for axes in (loss_axes, figure_axes):
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)


def summarize(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation over seeds, of the last epoch and of the best one."""
    summary: dict[str, Any] = {"seeds": len(runs)}
    for which in ("last", "best"):
        for name in runs[0][which]:
            values = [run[which][name] for run in runs]
            summary[f"{which} {name}"] = {
                "mean": statistics.mean(values),
                "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
                "values": values,
            }
    summary["seconds"] = [run["seconds"] for run in runs]
    return summary
