"""Fine-tunes a checkpoint on a task's data and writes a run directory."""

import contextlib
import importlib.util
import json
import logging
import math
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras

import bert_zoo
from bert_zoo.cli.benchmarks.base import Benchmark, Measurement
from bert_zoo.cli.benchmarks.distilled import Lesson
from bert_zoo.cli.benchmarks.few_labels import set_fit
from bert_zoo.cli.program import command
from bert_zoo.cli.report import RunRecord, write_report
from bert_zoo.graph import has_tensorflow
from bert_zoo.loading.locating import RUN_CONFIG, kept_directory
from bert_zoo.loading.locating import RUN_METRICS as METRICS
from bert_zoo.loading.locating import RUN_MODEL as MODEL
from bert_zoo.models.base import ZooModel
from bert_zoo.models.replicas import is_chief
from bert_zoo.presets import Recipe
from bert_zoo.registry import Card
from bert_zoo.training.distribution import present_strategy
from bert_zoo.training.freezing import set_head_range
from bert_zoo.training.presets import compile_for_task, load_options, optimizer_for, prepare
from bert_zoo.training.resume import notes_of, restore, write_checkpoint
from bert_zoo.training.runs import (
    CHECKPOINT,
    PROGRESS,
    StopAtDivergence,
    check_goes_on,
    finished_run,
    keras_verbosity,
    read_json,
    updates_of,
    versions,
)
from bert_zoo.weights.files import remove_leftovers, write_json

log = logging.getLogger("bert_zoo")

SAVED_MODEL = "saved_model"


class Measure(keras.callbacks.Callback):
    """Measures after each epoch, keeps the best or last weights in the directory's folder `model`, and can stop early.

    Training stops after `patience` epochs without a better metric. `checkpoint_seconds` lie between checkpoints at least.
    Only a process that `writes` saves models and prints: one of several workers.
    """

    def __init__(
        self,
        task: Benchmark,
        recipe: Recipe,
        directory: Path,
        *,
        patience: int | None = None,
        checkpoint_seconds: float = 60.0,
        writes: bool = True,
    ):
        super().__init__()
        if task.keeps == "last" and patience is not None:
            raise ValueError(
                f"patience is {patience}, but {task.name} is measured on a test split, which must not choose "
                "weights. Leave patience out, or measure on a development split (dev_file or held_out)."
            )
        self.task = task
        self.recipe = recipe
        self.directory = directory
        self.writes = writes
        self.patience = patience
        self.checkpoint_seconds = checkpoint_seconds
        self._saved = time.monotonic()
        self.metrics: list[dict[str, float]] = []
        self.losses: list[float] = []
        self.kept: Measurement | None = None
        self.product: ZooModel | None = None  # the measured model of the last epoch

    def go_on(self) -> int:
        """Restores the metrics of a stopped training. Returns its number of epochs; 0 if there is none."""
        notes = notes_of(self.directory / CHECKPOINT)
        if notes:
            progress = json.loads(notes[PROGRESS])
            self.losses = progress["losses"]
            self.metrics = progress["figures"]
        return len(self.metrics)

    @property
    def stopped(self) -> bool:
        if self.patience is None or not self.metrics:
            return False
        return len(self.metrics) - self.best_epoch >= self.patience

    def on_train_begin(self, logs=None):
        self._saved = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        measurement, metrics = self.measured()
        self.losses.append(logs["loss"])
        # Later callbacks (TensorBoard) read the metrics from the logs.
        logs.update({f"val_{name}": value for name, value in metrics.items()})
        self.metrics.append(metrics)
        if self.kept_epoch == epoch:
            self.kept = measurement
        if self.writes:
            self._write(epoch, metrics)
        if self.stopped:
            self.model.stop_training = True

    def _write(self, epoch: int, metrics: dict[str, float]) -> None:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"{self.task.name} after epoch {epoch + 1}: {shown}")
        if self.kept_epoch == epoch:
            bert_zoo.save(self.product, self.directory / MODEL)
        if self.stopped:
            print(f"Stopping early: no improvement since epoch {self.best_epoch}.")
        # A checkpoint costs as much time as several updates, and epochs of small data have only a few tens.
        if time.monotonic() - self._saved >= self.checkpoint_seconds:
            progress = json.dumps({"losses": self.losses, "figures": self.metrics})
            write_checkpoint(
                self.model, self.directory / CHECKPOINT, epoch + 1, {PROGRESS: progress}
            )
            self._saved = time.monotonic()

    def measured(self) -> tuple[Measurement, dict[str, float]]:
        """The measurement of the first split, and the metrics of all."""
        measurements = {}
        self.product = self.task.product(self.model)
        for split in self.task.measured:
            data = self.task.data(split)
            predictions = self.task.predict(self.product, data, self.recipe)
            measurements[split] = self.task.measure(data, predictions)
        first = measurements[self.task.measured[0]]
        metrics = dict(first.metrics)
        for split in self.task.measured[1:]:
            metrics |= {f"{split} {n}": value for n, value in measurements[split].metrics.items()}
        return first, metrics

    @property
    def best_epoch(self) -> int:
        """The best epoch, from 1. Of equal metrics the earlier wins; NaN is the worst metric."""
        scores = [next(iter(metrics.values())) for metrics in self.metrics]
        ranked = [-math.inf if math.isnan(score) else score for score in scores]
        return ranked.index(max(ranked)) + 1

    @property
    def kept_epoch(self) -> int:
        """The kept epoch, from 0 as in Keras."""
        epoch = self.best_epoch if self.task.keeps == "best" else len(self.metrics)
        return epoch - 1


class StopAfter(keras.callbacks.Callback):
    """Ends training after a number of updates, even within an epoch."""

    def __init__(self, updates: int):
        super().__init__()
        self.updates = updates

    def on_train_batch_end(self, batch, logs=None):
        if updates_of(self.model) >= self.updates:
            self.model.stop_training = True


def finetune(
    name: str,
    task: Benchmark,
    recipe: Recipe,
    directory: Path,
    *,
    seed: int = 0,
    export: bool = True,
    patience: int | None = None,
    checkpoint_seconds: float = 60.0,
    data: Mapping[str, Any] | None = None,
    strategy: Any = None,
    lesson: Lesson | None = None,
) -> dict[str, Any]:
    """Fine-tunes a checkpoint and writes a run directory. Returns the content of `metrics.json`.

    Called again with the same settings and directory, it resumes a stopped training after the epoch of the
    last checkpoint, with the same losses as without the stop. For a finished run it only returns the metrics: those of
    the best, the last and every epoch, the training loss, the number of updates, and the seconds of this call.

    The directory holds `config.json`, `metrics.json`, the kept model (`model`, a bert_zoo directory with a
    card), a report (`report.html`), the learning curve (`tensorboard`, and `learning_curve.png` if
    matplotlib is installed), and, with `export`, the kept model as a SavedModel (`saved_model`).

    The seed is that of randomly initialised weights, order and dropout. `data` are the arguments of `make_task`, from
    which `bert_zoo evaluate` finds the data again. The strategy's replicas share the recipe's batches; of several workers
    only the chief writes the directory. A `lesson` is a teacher's predictions, to learn from instead of the labels.

    Raises:
        ValueError: the directory holds a run with other settings or data.
        TrainingDiverged: the loss is infinite or NaN.
    """
    keras.utils.set_random_seed(seed)
    task.check_settings(recipe)
    if recipe.contrastive_pairs:
        task = set_fit(task)
    learned = lesson or task
    rows, recipe = recipe.batch_size, recipe.for_examples(learned.num_train)
    strategy = strategy or present_strategy()
    writes = is_chief(strategy)
    stops = {"patience": patience, "checkpoint_seconds": checkpoint_seconds}
    measure = Measure(task, recipe, directory, **stops, writes=writes)
    config = {
        "model": name,
        "task": task.name,
        "data": dict(data or {}),
        "examples": task.fingerprint(),
        "seed": seed,
        "recipe": asdict(recipe),
    }
    if lesson is not None:
        config["lesson"] = lesson.about()
    if writes:
        remove_leftovers(directory)
    if (finished := finished_run(directory, config)) is not None:
        return finished
    weights = learned.class_weights(recipe)
    epochs_before = measure.go_on()
    if epochs_before:
        check_goes_on(directory, config)
    elif writes:
        directory.mkdir(parents=True, exist_ok=True)
        about = {"replicas": strategy.num_replicas_in_sync, "versions": versions()}
        write_json(directory / RUN_CONFIG, config | about)
    with strategy.scope():
        model = bert_zoo.load(name, **learned.load_options(), **load_options(recipe))
        prepare(model, recipe)
        if recipe.head_initializer_range is not None:
            set_head_range(model, learned.heads, recipe.head_initializer_range)
        learned.prepare(model)
    bucket = recipe.bucket or device_bucket()
    model.preprocessor = model.preprocessor.with_options(bucket=bucket)
    start = time.perf_counter()
    batches = learned.batches(model, recipe, seed)
    epochs = recipe.epochs_of(batches.order.per_epoch)
    updates = recipe.updates_of(batches.order.per_epoch)
    more = [f"{recipe.batch_size} rows per update"] if recipe.batch_size < rows else []
    more += [f"{epochs} epochs"] if epochs > recipe.epochs else []
    if more:
        print(
            f"Using {' and '.join(more)} to reach at least {recipe.least_updates} updates (--least_updates)."
        )
    with strategy.scope():
        optimizer = optimizer_for(recipe, updates)
        steps = recipe.steps_per_execution
        compile_for_task(model, optimizer, loss=learned.loss(recipe), steps_per_execution=steps)
        restore(model, directory / CHECKPOINT)
    if epochs_before:
        print(f"Resuming after epoch {epochs_before} of the training in {directory}.")

    # Keras adds its own logger last, which would print the metrics of `measure` a second time.
    callbacks = [keras.callbacks.ProgbarLogger(), measure, StopAtDivergence()]
    if recipe.total_steps is not None:
        callbacks.append(StopAfter(updates))
    if writes:
        callbacks += tensorboard(directory / "tensorboard")
    if not measure.stopped and updates_of(model) < updates:
        model.fit(
            batches,
            epochs=epochs,
            initial_epoch=epochs_before,
            callbacks=callbacks,
            class_weight=weights,
            verbose=keras_verbosity() if writes else 0,
        )
    results = {
        "best": measure.metrics[measure.best_epoch - 1],
        "last": measure.metrics[-1],
        "epochs": measure.metrics,
        "kept": measure.metrics[measure.kept_epoch],
        "loss": measure.losses,
        "steps": updates_of(model),
        "seconds": round(time.perf_counter() - start, 1),
    }
    measured = task.data(task.measured[0])
    if baseline := task.baseline(measured):
        results["baseline"] = asdict(baseline)
    if not writes:
        return results
    draw_learning_curve(
        results, f"{name} on {task.name} ({task.measured[0]})", directory / "learning_curve.png"
    )
    if measure.kept is None:
        # The kept epoch came before the stop.
        measure.product = bert_zoo.load(directory / MODEL)
        measure.kept = task.measure(measured, task.predict(measure.product, measured, recipe))
    record = run_record(name, task, recipe, model, measure, results, seed, lesson)
    write_report(record, directory)
    if export and keras.backend.backend() != "tensorflow":
        print(
            "No SavedModel was written, because that needs Keras on TensorFlow"
            + ("" if has_tensorflow else ' (pip install "bert_zoo[tensorflow]")')
            + f". To write it: KERAS_BACKEND=tensorflow {command('export')} --model {directory / MODEL} "
            + f"--output {directory / SAVED_MODEL}{' --pairs' if task.reads_pairs else ''}"
        )
    elif export:
        kept = bert_zoo.load(directory / MODEL)
        bert_zoo.export(kept, directory / SAVED_MODEL, pairs=task.reads_pairs)
    # Written last, because metrics mark a finished run.
    write_json(directory / METRICS, results)
    if (directory / CHECKPOINT).is_dir():
        shutil.rmtree(directory / CHECKPOINT)
    return results


def run_record(
    name: str,
    task: Benchmark,
    recipe: Recipe,
    model: ZooModel,
    measure: Measure,
    results: Mapping[str, Any],
    seed: int,
    lesson: Lesson | None = None,
) -> RunRecord:
    baseline = results.get("baseline", {})
    return RunRecord(
        model=name,
        task=task.name,
        kind=task.kind,
        use=measure.product.use,
        data=task.source,
        num_train=(lesson or task).num_train,
        num_measured=len(task.data(task.measured[0])),
        measured_on=task.measured[0],
        seed=seed,
        recipe=asdict(recipe),
        versions=versions(),
        epochs=results["epochs"],
        losses=results["loss"],
        kept_epoch=measure.kept_epoch + 1,
        steps=results["steps"],
        seconds=results["seconds"],
        labels=getattr(measure.product, "labels", ()),
        confusion=measure.kept.confusion,
        table=measure.kept.table,
        hardest=measure.kept.hardest,
        parameters=measure.product.count_params(),
        trainable_parameters=sum(math.prod(v.shape) for v in model.trainable_variables),
        checkpoint=card_of(lesson.teacher if lesson and lesson.makes_student else name),
        reads_pairs=task.reads_pairs,
        baseline=baseline.get("figures", {}),
        baseline_answer=baseline.get("answer", ""),
        teacher=lesson.record(results["kept"]) if lesson else {},
    )


def card_of(name: str) -> Card:
    """The card of a checkpoint, or of the checkpoint that a run started from; empty if unknown."""
    if name.startswith("hf://"):
        return Card()
    if not Path(name).exists():
        return bert_zoo.describe(name)
    for folder in (Path(name), Path(name).parent):
        config = read_json(folder / RUN_CONFIG) if (folder / RUN_CONFIG).is_file() else {}
        # Hugging Face's config.json has no recipe. For a distillation on text, the student is described
        # in words, so the teacher counts.
        base = config.get("teacher", config.get("model"))
        if "recipe" in config and base != name:
            with contextlib.suppress(ValueError):  # a path relative to another folder, or deleted
                return card_of(base)
    return Card()


def device_bucket() -> int:
    """The best multiple to pad the lengths of batches to.

    On a CPU, time grows with every token: one thread trains minilm_l6 on 32 rows of 13, 14, 15 and 16
    tokens in 458, 499, 530 and 542 ms a step. Larger multiples would pad short texts (14 tokens or fewer in
    SST-2 and CoLA) by a quarter. The tensor cores of GPUs need multiples of 8. JAX compiles a step for each
    length.
    """
    if keras.backend.backend() == "jax":
        return 32
    import tensorflow as tf

    return 8 if tf.config.list_physical_devices("GPU") else 1


def tensorboard(directory: Path) -> list[keras.callbacks.Callback]:
    """The TensorBoard callback, if TensorBoard and TensorFlow are installed."""
    if not (has_tensorflow and importlib.util.find_spec("tensorboard")):
        missing = "tensorboard" if has_tensorflow else "TensorFlow, whose writer Keras uses,"
        log.warning("Not writing TensorBoard files: %s is not installed.", missing)
        return []
    return [keras.callbacks.TensorBoard(directory)]


def draw(
    path: Path, size: tuple[float, float], plot: Callable[..., None], columns: int = 1
) -> None:
    """Draws a PNG of `size` inches, by a function of axes side by side, or logs that matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        log.warning("Not drawing %s: matplotlib is not installed.", path.name)
        return
    figure = Figure(figsize=size, layout="constrained")
    charts = figure.subplots(1, columns, squeeze=False)[0]
    plot(*charts)
    for axes in charts:
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=150)


def draw_learning_curve(results: Mapping[str, Any], title: str, path: Path) -> None:
    epochs, measured = range(1, len(results["loss"]) + 1), results["epochs"]

    def plot(loss_axes, metric_axes):
        loss_axes.figure.suptitle(title)
        loss_axes.plot(epochs, results["loss"], "o-", color="tab:gray", label="training")
        for name in results["best"]:
            axes, label = (loss_axes, "measured") if name == "loss" else (metric_axes, name)
            axes.plot(epochs, [metrics[name] for metrics in measured], "o-", label=label)
        loss_axes.set(title="loss", xlabel="epoch", xticks=epochs, ylim=(0, None))
        metric_axes.set(title="measured", xlabel="epoch", xticks=epochs)

    draw(path, (7, 3), plot, columns=2)


def summarize(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation over seeds, for the last and the best epoch."""
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


def kept_model(directory: Path) -> ZooModel:
    """The model of a run directory; FileNotFoundError if it holds none (`kept_directory`)."""
    return bert_zoo.load(kept_directory(directory))
