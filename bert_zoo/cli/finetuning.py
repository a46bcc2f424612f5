"""Fine-tunes a checkpoint on a task's data and writes a run directory."""

import importlib.util
import logging
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras

import bert_zoo
from bert_zoo.cli.benchmarks.base import Benchmark, Measurement
from bert_zoo.cli.benchmarks.distilled import Lesson
from bert_zoo.cli.benchmarks.few_labels import set_fit
from bert_zoo.cli.program import command
from bert_zoo.cli.report import CURVE, RunRecord, card_of, draw_learning_curve, write_report
from bert_zoo.graph import has_tensorflow
from bert_zoo.loading.locating import RUN_METRICS, RUN_MODEL, kept_directory
from bert_zoo.models.base import ZooModel
from bert_zoo.models.replicas import is_chief
from bert_zoo.presets import Recipe
from bert_zoo.training.freezing import set_head_range
from bert_zoo.training.presets import compile_for_task, load_options, optimizer_for, prepare
from bert_zoo.training.runs import CHECKPOINT, Run, keras_verbosity, restore, updates_of, versions
from bert_zoo.weights.files import write_json

log = logging.getLogger("bert_zoo")

SAVED_MODEL = "saved_model"


@dataclass
class EpochProgress:
    """The progress of a training, saved in its checkpoints."""

    losses: list[float] = field(default_factory=list)  # mean training loss of each epoch
    # The metrics after each epoch. Checkpoints use this field name.
    figures: list[dict[str, float]] = field(default_factory=list)

    @property
    def step(self) -> int:
        return len(self.figures)


class FineTuningRun(Run):
    """Measures after each epoch, keeps the best or last weights in the directory's folder `model`, and can stop early.

    Training stops after `patience` epochs without a better metric, or after a number of `updates`, even within an epoch.
    """

    def __init__(
        self,
        task: Benchmark,
        recipe: Recipe,
        directory: Path,
        *,
        patience: int | None = None,
        **options: Any,
    ):
        if task.keeps == "last" and patience is not None:
            raise ValueError(
                f"patience is {patience}, but {task.name} is measured on a test split, which must not choose "
                "weights. Leave patience out, or measure on a development split (dev_file or held_out)."
            )
        super().__init__(directory, EpochProgress(), **options)
        self.task, self.recipe, self.patience = task, recipe, patience
        self.updates: int | None = None
        self.kept: Measurement | None = None
        self.product: ZooModel | None = None  # the measured model of the last epoch

    @property
    def metrics(self) -> list[dict[str, float]]:
        return self.progress.figures

    @property
    def best_epoch(self) -> int:
        """The best epoch, from 1. Of equal metrics the earlier wins; NaN is the worst metric."""
        scores = [next(iter(metrics.values())) for metrics in self.metrics]
        ranked = [-math.inf if math.isnan(score) else score for score in scores]
        return ranked.index(max(ranked)) + 1

    @property
    def kept_epoch(self) -> int:
        return self.best_epoch if self.task.keeps == "best" else len(self.metrics)

    @property
    def stopped(self) -> bool:
        if self.patience is None or not self.metrics:
            return False
        return len(self.metrics) - self.best_epoch >= self.patience

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(loss := float(logs["loss"])):
            where = f"after batch {batch + 1} of epoch {len(self.metrics) + 1}"
            raise self.diverged(loss, where)
        if self.updates and updates_of(self.model) >= self.updates:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        measurement, metrics = self.measured()
        # Later callbacks (TensorBoard) read the metrics from the logs.
        logs.update({f"val_{name}": value for name, value in metrics.items()})
        self.progress.losses.append(logs["loss"])
        self.metrics.append(metrics)
        is_kept = self.kept_epoch == epoch + 1
        if is_kept:
            self.kept = measurement
        if self.writes:
            shown = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            print(f"{self.task.name} after epoch {epoch + 1}: {shown}")
            if is_kept:
                bert_zoo.save(self.product, self.directory / RUN_MODEL)
            if self.stopped:
                print(f"Stopping early: no improvement since epoch {self.best_epoch}.")
        # A checkpoint costs as much time as several updates, and epochs of small data have only a few tens.
        self.save_if_due()
        if self.stopped:
            self.model.stop_training = True

    def measured(self) -> tuple[Measurement, dict[str, float]]:
        """The measurement of the first split, and the metrics of all."""
        self.product = self.task.product(self.model)
        first, *others = self.task.measured
        measurement = self.measure(first)
        metrics = dict(measurement.metrics)
        for split in others:
            metrics |= {f"{split} {n}": value for n, value in self.measure(split).metrics.items()}
        return measurement, metrics

    def measure(self, split: str) -> Measurement:
        data = self.task.data(split)
        return self.task.measure(data, self.task.predict(self.product, data, self.recipe))

    def results(self, seconds: float) -> dict[str, Any]:
        """The content of `metrics.json`."""
        results = {
            "best": self.metrics[self.best_epoch - 1],
            "last": self.metrics[-1],
            "epochs": self.metrics,
            "kept": self.metrics[self.kept_epoch - 1],
            "loss": self.progress.losses,
            "steps": updates_of(self.model),
            "seconds": round(seconds, 1),
        }
        if baseline := self.task.baseline(self.task.data(self.task.measured[0])):
            results["baseline"] = asdict(baseline)
        return results

    def record(self, results: Mapping[str, Any], lesson: Lesson | None) -> RunRecord:
        """What the report shows."""
        if self.kept is None:
            # The kept epoch came before the stop.
            self.product = bert_zoo.load(self.directory / RUN_MODEL)
            self.kept = self.measure(self.task.measured[0])
        name, task, baseline = self.config["model"], self.task, results.get("baseline", {})
        return RunRecord(
            model=name,
            task=task.name,
            kind=task.kind,
            use=self.product.use,
            data=task.source,
            num_train=(lesson or task).num_train,
            num_measured=len(task.data(task.measured[0])),
            measured_on=task.measured[0],
            seed=self.config["seed"],
            recipe=self.config["recipe"],
            versions=self.config["versions"],
            epochs=results["epochs"],
            losses=results["loss"],
            kept_epoch=self.kept_epoch,
            steps=results["steps"],
            seconds=results["seconds"],
            labels=getattr(self.product, "labels", ()),
            confusion=self.kept.confusion,
            table=self.kept.table,
            hardest=self.kept.hardest,
            confidence=self.kept.confidence,
            parameters=self.product.count_params(),
            trainable_parameters=sum(math.prod(v.shape) for v in self.model.trainable_variables),
            checkpoint=card_of(lesson.teacher if lesson and lesson.makes_student else name),
            reads_pairs=task.reads_pairs,
            baseline=baseline.get("figures", {}),
            baseline_answer=baseline.get("answer", ""),
            teacher=lesson.record(results["kept"]) if lesson else {},
        )


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
    weights = learned.class_weights(recipe)
    stops = {"patience": patience, "checkpoint_seconds": checkpoint_seconds}
    run = FineTuningRun(task, recipe, directory, strategy=strategy, **stops)
    scope = run.strategy.scope
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
    about = {"replicas": run.strategy.num_replicas_in_sync, "versions": versions()}
    if (finished := run.begin(config, about)) is not None:
        return finished
    with scope():
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
    with scope():
        optimizer = optimizer_for(recipe, updates)
        steps = recipe.steps_per_execution
        compile_for_task(model, optimizer, loss=learned.loss(recipe), steps_per_execution=steps)
        restore(model, directory / CHECKPOINT)
    if run.resumes:
        print(f"Resuming after epoch {len(run.metrics)} of the training in {directory}.")
    if recipe.total_steps is not None:
        run.updates = updates
    run.set_model(model)
    # Keras adds its own logger last, which would print the metrics of `run` a second time.
    callbacks = [keras.callbacks.ProgbarLogger(), run]
    if run.writes:
        callbacks += tensorboard(directory / "tensorboard")
    if not run.stopped and updates_of(model) < updates:
        model.fit(
            batches,
            epochs=epochs,
            initial_epoch=len(run.metrics),
            callbacks=callbacks,
            class_weight=weights,
            verbose=keras_verbosity() if run.writes else 0,
        )
    results = run.results(time.perf_counter() - start)
    if not run.writes:
        return results
    record = run.record(results, lesson)
    draw_learning_curve(record, directory / CURVE)
    write_report(record, directory)
    if export and model.why_no_export:
        print(f"No SavedModel was written. {model.why_no_export}")
    elif export:
        export_kept(directory, task.reads_pairs)
    run.finish(results)
    return results


def export_kept(directory: Path, pairs: bool) -> None:
    """Writes a run's kept model as a SavedModel, or prints how to."""
    model, output = directory / RUN_MODEL, directory / SAVED_MODEL
    if keras.backend.backend() == "tensorflow":
        bert_zoo.export(bert_zoo.load(model), output, pairs=pairs)
        return
    print(
        "No SavedModel was written, because that needs Keras on TensorFlow"
        + ("" if has_tensorflow else ' (pip install "bert_zoo[tensorflow]")')
        + f". To write it: KERAS_BACKEND=tensorflow {command('export')} --model {model} "
        + f"--output {output}{' --pairs' if pairs else ''}"
    )


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


def kept_model(directory: Path) -> ZooModel:
    """The model of a run directory; FileNotFoundError if it holds none (`kept_directory`)."""
    return bert_zoo.load(kept_directory(directory))


def train(
    models: Mapping[int, str], task: Benchmark, recipe: Recipe, output: Path, **options: Any
) -> None:
    """Fine-tunes a model for each seed and prints the results; with several seeds each has a subdirectory. `options`
    are those of `finetune`."""
    runs = []
    for seed, name in models.items():
        directory = output / f"seed_{seed}" if len(models) > 1 else output
        number = f"{(options.get('lesson') or task).num_train:,} examples"
        print(f"Fine-tuning {name} on {task.name}: {number}, seed {seed}.")
        runs.append(finetune(name, task, recipe, directory, seed=seed, **options))
    if not is_chief(options["strategy"]):
        return
    print_summary(task, runs, output)
    model = kept_model(directory)
    print("\n" + task.show(model, task.data(task.measured[0]), runs[-1]["kept"]))
    print(f"\nThe run is in {output}, with a report: {directory / 'report.html'}")
    print(f"Try it: {command('predict')} --run {directory} {task.question}")
    print(f"In a browser: {command('demo')} {directory}")


def print_summary(task: Benchmark, runs: Sequence[dict[str, Any]], output: Path) -> None:
    """Prints the kept epoch's metrics over all seeds, and writes them if there are several seeds."""
    summary = summarize(runs)
    if len(runs) > 1:
        write_json(output / RUN_METRICS, summary)
    print(f"\n{task.name}, {task.measured[0]} split, {len(runs)} run{'s'[: len(runs) > 1]}:")
    for name, values in summary.items():
        # An epoch chosen on a test set is not a valid result.
        if isinstance(values, dict) and name.startswith(("last", task.keeps)):
            spread = f" ± {values['sd']:.4f}" if len(runs) > 1 else ""
            which, metric = name.split(" ", maxsplit=1)
            line = f"  {f'{metric}, {which} epoch':<34} {values['mean']:.4f}{spread}"
            beaten = [run["baseline"]["figures"].get(metric) for run in runs if "baseline" in run]
            if beaten and beaten[0] is not None:
                answer = runs[0]["baseline"]["answer"]
                line += f"   ({answer}: {sum(beaten) / len(beaten):.4f})"
            print(line)
    print(f"  {'seconds of training':<34} {', '.join(map(str, summary['seconds']))}")


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
