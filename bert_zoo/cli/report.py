"""Reports of runs: an HTML page of results, a model card and a picture of the learning curve.

Importing it imports neither TensorFlow nor Keras.
"""

import contextlib
import logging
import math
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
from huggingface_hub import EvalResult, ModelCardData
from markupsafe import Markup, escape

import bert_zoo
from bert_zoo.charts import STYLE, AttentionViewer, Chart, line_chart
from bert_zoo.charts.confidence import coverage_curve, reliability_diagram
from bert_zoo.loading.locating import RUN_CONFIG, RUN_MODEL
from bert_zoo.metrics.confidence import NUM_BINS, Confidence
from bert_zoo.metrics.errors import HardExample, most_confused, used_labels
from bert_zoo.presets import Recipe
from bert_zoo.printing import number
from bert_zoo.registry import HUB_LICENCES, Card

if TYPE_CHECKING:
    from bert_zoo.models.task_model import Use
    from bert_zoo.pretraining.run import PretrainingRun

log = logging.getLogger("bert_zoo")


# --- Settings and durations in words, for pages and cards ---

MINUTE, HOUR = 60, 3600


def setting(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def settings(values: Mapping[str, Any]) -> dict[str, str]:
    return {words(name): setting(value) for name, value in values.items()}


def split_settings(recipe: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a fine-tuning that differ from their defaults, and the others."""
    defaults, changed = settings(asdict(Recipe())), settings(recipe)
    others = {name: changed.pop(name) for name in [*changed] if defaults.get(name) == changed[name]}
    return changed, others


def words(name: str) -> str:
    return name.replace("_", " ")


def duration(seconds: float) -> str:
    """Formats a duration in its one or two largest units."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


SOURCE = re.compile(r"hf://([^@\s]+)")


def front_matter(
    name: str,
    use: "Use",
    base: Iterable[str],
    results: Iterable[tuple[str, str, float]],
    *,
    licence: str | None = None,
    split: str | None = None,
    dataset_type: str | None = None,
) -> str:
    """The YAML head of a card, as Hugging Face's hub reads it (https://huggingface.co/docs/hub/model-cards).

    Of `base`, names and sources of the checkpoint that it was trained from, the card names the first source on the hub.
    `results` are (data set, the hub's name of a metric, value); values that are not finite are left out. The base's
    licence also applies to this model; "" if it is not known, None to leave it out. `dataset_type` is the hub's name of
    the data set; its own name by default.
    """
    on_hub = next((found[1] for source in base if (found := SOURCE.match(source))), None)
    hub_licence = None
    if licence is not None:
        hub_licence = HUB_LICENCES.get(licence, "other" if licence else "unknown")
    measured: Sequence[EvalResult] = [
        EvalResult(
            task_type=use.pipeline,
            dataset_type=dataset_type or data,
            dataset_name=data,
            dataset_split=split,
            metric_type=metric,
            metric_value=round(float(value), 4),
        )
        for data, metric, value in results
        if math.isfinite(value)
    ]
    return ModelCardData(
        license=hub_licence,
        license_name=licence if hub_licence == "other" else None,
        base_model=on_hub,
        base_model_relation="finetune" if on_hub else None,
        library_name="bert_zoo",
        pipeline_tag=use.pipeline,
        tags=["bert_zoo", "keras", use.pipeline],
        metrics=list(dict.fromkeys(result.metric_type for result in measured)) or None,
        model_name=name,
        eval_results=measured or None,
    ).to_yaml()


# The name of the loss on the measured split.
LOSS = "loss"
# A metric -> its name on Hugging Face's hub. Other metrics appear only in the text of the card.
HUB_METRICS = {
    **{name: name for name in ("accuracy", "f1", "precision", "recall", "matthews_correlation")},
    "exact": "exact_match",
    "exact_match": "exact_match",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
NONCOMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Answers to labelled texts, compared with their labels."""

    kind: str  # what `load` calls the task
    num_measured: int
    labels: Sequence[str]  # names of the classes; empty if the task has none
    # Counts [truth, prediction] in the order of `labels`; None if the task has none.
    confusion: np.ndarray | None
    # Metrics by label or by type: rows of column -> value. The first column has the name.
    table: Sequence[Mapping[str, Any]]
    hardest: Sequence[HardExample]  # worst first
    # The scores of the answers; None if the task has no classes.
    confidence: Confidence | None = None
    # "validation" or "test", or another split's name; empty if the user chose the examples.
    measured_on: str = ""

    @property
    def columns(self) -> list[str]:
        """The columns of `table`. A row may lack some, for example spans without a score."""
        return list(dict.fromkeys(name for row in self.table for name in row))

    @property
    def charts(self) -> dict[str, Chart]:
        """Heading -> chart of how far scores can be trusted; empty if the task has no classes."""
        if self.confidence is None:
            return {}
        return {
            "right answers by score": reliability_diagram(self.confidence),
            "right answers by texts answered": coverage_curve(self.confidence),
        }


@dataclass(frozen=True, kw_only=True)
class RunRecord(Results):
    """A fine-tuning run: its data, its settings and its results."""

    model: str  # name or directory of the checkpoint that was fine-tuned
    task: str  # name of the benchmark, such as "sst2"
    use: "Use"  # what a model of this task is for
    data: str  # a sentence on the training data and its source
    num_train: int
    seed: int
    recipe: Mapping[str, Any]  # setting -> value
    versions: Mapping[str, str]
    # The metrics after each epoch, under the same names. The first one decides which epoch is best.
    epochs: Sequence[Mapping[str, float]]
    losses: Sequence[float]  # mean training loss of each epoch
    kept_epoch: int  # the epoch whose weights are kept, counted from 1
    steps: int
    seconds: float  # of training, including measurements between epochs
    parameters: int
    trainable_parameters: int
    # The card from `bert_zoo.describe`; empty if `model` is not a registered name.
    checkpoint: Card
    reads_pairs: bool = False  # whether an example is two texts
    # Metrics of answers given without reading the text, under the names in `epochs`.
    baseline: Mapping[str, float] = field(default_factory=dict)
    baseline_answer: str = ""  # those answers, such as "always 'no'"
    # Of a student: its teacher, the teacher's score and the settings of the distillation, by name.
    teacher: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> Mapping[str, float]:
        """The metrics of the kept model, the deciding one first."""
        return {name: self.epochs[self.kept_epoch - 1][name] for name in self.epochs[0]}

    def by_epoch(self, name: str) -> list[float]:
        return [metrics[name] for metrics in self.epochs]

    @property
    def diverged(self) -> list[int]:
        """The epochs whose training loss is infinite or NaN."""
        return [n for n, loss in enumerate(self.losses, start=1) if not math.isfinite(loss)]

    def named(self, name: str) -> str:
        """A metric's readable name. The loss is named after its split."""
        return f"{self.measured_on} loss" if name == LOSS else words(name)

    @property
    def licence(self) -> str:
        """The checkpoint's licence; empty if it is not known."""
        return self.checkpoint.get("licence", "")

    @property
    def licence_warning(self) -> str:
        """The warning for a model trained from a non-commercial checkpoint; else empty."""
        if not forbids_commerce(self.licence):
            return ""
        return (
            f"Not for commercial use. The licence of the base checkpoint {self.model}, {self.licence}, "
            "also applies to models trained from it."
        )

    @property
    def caution(self) -> str:
        """The warning that choosing the epoch flatters the metrics; empty if it cannot."""
        chosen = self.kept_epoch < len(self.epochs)
        if len(self.epochs) == 1 or (self.measured_on.startswith("test") and not chosen):
            return ""
        return (
            f"The kept epoch was chosen by its {words(next(iter(self.epochs[0])))} on the same "
            f"{self.measured_on} examples, so expect slightly lower figures on new data."
        )

    def front_matter(self) -> str:
        results = [
            (self.task, HUB_METRICS[name], value)
            for name, value in self.kept.items()
            if name in HUB_METRICS
        ]
        name = f"{self.model} on {self.task}"
        base = [self.model, *self.checkpoint.get("sources", ())]
        return front_matter(
            name, self.use, base, results, licence=self.licence, split=self.measured_on
        )


def forbids_commerce(licence: str) -> bool:
    return NONCOMMERCIAL.search(licence) is not None


# --- Templates of pages and model cards ---

TEMPLATES = Path(__file__).parent / "templates"
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
MARKDOWN = re.compile(r"([\\`*\[\]|#])")


def write(template: str, path: str | PathLike, **values: Any) -> None:
    """Fills a template of this package with values and writes it to a file."""
    text = ENVIRONMENT.get_template(template).render(values)
    # Characters that UTF-8 cannot encode, such as lone surrogates, become numeric references.
    Path(path).write_text(text, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


def linked(text: str) -> Markup:
    """Turns arXiv numbers in a text into links, for a page."""
    return Markup(ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">\g<0></a>', str(escape(text))))


def plain(value: str) -> str:
    """A text as one line, escaped for Markdown."""
    line = " ".join(value.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", line)


def plain_linked(text: str) -> str:
    """Turns arXiv numbers in a text into links, for a card."""
    return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", plain(text))


def row(*cells: Any) -> str:
    return f"| {' | '.join(plain(number(cell)) for cell in cells)} |"


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=jinja2.select_autoescape(["html"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    each.__name__: each
    for each in (duration, linked, number, plain, plain_linked, setting, settings, words)
}
ENVIRONMENT.filters |= {
    "named": lambda name, run: run.named(name),
    "of": lambda name, row: row.get(name),
}
ENVIRONMENT.globals |= {
    each.__name__: each for each in (line_chart, most_confused, row, split_settings, used_labels)
}
ENVIRONMENT.globals |= {"STYLE": STYLE, "NUM_BINS": NUM_BINS}


# The fields of a run's configuration and of its recipe that are shown, if the run has them.
TRAINING = (
    *("teacher", "student", "objective", "layer_map", "teacher_layer", "relation_heads"),
    *("rows", "phases", "memory", "cutoffs", "dtype", "seed"),
)
SETTINGS = (
    *("total_steps", "batch_size", "gradient_accumulation_steps", "optimizer", "learning_rate"),
    *("schedule", "warmup_proportion", "warmup_steps", "floor", "weight_decay", "decay_all"),
    *("betas", "epsilon", "bias_correction", "clip_norm", "steps_per_execution", "dtype"),
)
# Endings of the names of total losses.
MAIN_LOSSES = (" out loss", " text loss")


@dataclass(frozen=True)
class PretrainingRecord:
    """A pretraining and its results on held-out text."""

    name: str  # the checkpoint or recipe that was trained
    use: "Use"  # the task's description
    # The card of the checkpoint that was trained further, or of the teacher; empty if it is not known, None if the
    # model was randomly initialised.
    base: Card | None
    # The contents of the run's `config.json` and `metrics.json`.
    config: Mapping[str, Any]
    results: Mapping[str, Any]
    # File name of the picture of the losses, next to the model's card; None if there is none.
    curve: str | None = None

    @property
    def teacher(self) -> str | None:
        """The teacher of a distillation; None for a pretraining."""
        return self.config.get("teacher")

    @property
    def how(self) -> str:
        """The kind of training, to follow the name."""
        return f"distilled from {self.teacher}" if self.teacher else "pretrained"

    @property
    def main_losses(self) -> dict[str, float]:
        after = self.results["after"]
        return {name: value for name, value in after.items() if name.endswith(MAIN_LOSSES)}

    @property
    def measured(self) -> list[str]:
        """Names of the losses on text that was not used for training."""
        return [name for name in self.results["measured"][-1] if name.endswith(" loss")]

    def by_step(self, name: str) -> dict[int, float]:
        """Step -> loss, including step 0."""
        rows = self.results["measured"]
        return {0: self.results["before"][name]} | {r["step"]: r[name] for r in rows if name in r}

    @property
    def unigram(self) -> dict[str, float]:
        """The unigram model's loss, by the name of the loss that it compares with."""
        several = "held out mlm_logits_loss"
        name = several if several in self.results["before"] else "held out loss"
        loss = self.results["unigram loss"]
        return {} if loss is None else {name: loss}

    @property
    def training(self) -> dict[str, Any]:
        return {name: self.config[name] for name in TRAINING if name in self.config}

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe's settings. A run with a budget of time shows it in place of the number of steps."""
        values, seconds = self.config["recipe"], self.config["seconds"]
        recipe = {name: values[name] for name in SETTINGS if name in values}
        if seconds:
            recipe = {"time budget": duration(seconds)} | recipe
            recipe.pop("total_steps", None)
        return recipe

    def front_matter(self) -> str:
        results = [(n.removesuffix(" loss"), "loss", v) for n, v in self.main_losses.items()]
        origin = self.teacher or self.name
        base = [] if self.base is None else [origin, *self.base.get("sources", ())]
        return front_matter(
            f"{self.name}, {self.how}", self.use, base, results, dataset_type="text"
        )


ATTENTION = "attention.html"


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    title: str  # its heading
    text: str = ""  # what was measured and how, in a few sentences
    # Heading -> chart from `bert_zoo.charts`; empty charts are left out.
    charts: Mapping[str, Markup] = field(default_factory=dict)
    # Caption -> rows of column -> value. The first row must have all columns; the first column names the row.
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def write_probing_report(
    path: Path,
    title: str,
    sections: Sequence[Section],
    *,
    text: str = "",
    attention: AttentionViewer | None = None,
) -> None:
    """Writes the report of probes, one HTML file with a text below its title, and the page of attention maps in the
    same folder. Heat maps link their cells to it with `link="attention.html#layer={row}&head={column}"`."""
    write(
        "probed.html",
        path,
        title=title,
        text=text,
        sections=sections,
        attention=attention and ATTENTION,
    )
    if attention:
        path.with_name(ATTENTION).write_text(attention, encoding="utf-8", newline="\n")


# --- Files of a run ---

CURVE = "learning_curve.png"


def card_of(name: str) -> Card:
    """The card of a checkpoint, or of the checkpoint that a run started from; empty if unknown."""
    from bert_zoo.training.runs import read_json

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


def write_report(run: RunRecord | PretrainingRecord, directory: Path) -> None:
    """Writes a run's page (`report.html`) and its model's card (`model/README.md`)."""
    template = "pretrained" if isinstance(run, PretrainingRecord) else "finetuned"
    write(f"{template}.html", directory / "report.html", run=run)
    write(f"{template}.md", directory / RUN_MODEL / "README.md", run=run)


def write_pretraining_report(run: "PretrainingRun") -> None:
    """Writes the report of a finished pretraining, with its learning curve also in the model's directory."""
    results, path = run.results, run.directory / CURVE

    def plot(axes):
        rows = results["measured"]
        losses = [row.get("loss", math.nan) for row in rows]
        axes.plot([row["step"] for row in rows], losses, ":", label="training")
        for metric in (name for name in rows[-1] if name.endswith(" loss")):
            found = [(0, results["before"][metric])]
            found += [(row["step"], row[metric]) for row in rows if metric in row]
            axes.plot(*zip(*found, strict=True), label=metric)
        axes.set(xlabel="step", ylabel="loss")

    draw(path, (6, 3.5), plot)
    if has_curve := path.is_file():
        shutil.copy(path, run.directory / RUN_MODEL)
    origin = run.config.get("teacher", run.name if run.goes_on else None)
    base, shown = origin and card_of(origin), CURVE if has_curve else None
    record = PretrainingRecord(run.name, run.use, base, run.config, results, shown)
    write_report(record, run.directory)


def draw_learning_curve(run: RunRecord, path: Path) -> None:
    epochs = range(1, len(run.losses) + 1)

    def plot(loss_axes, metric_axes):
        loss_axes.figure.suptitle(f"{run.model} on {run.task} ({run.measured_on})")
        loss_axes.plot(epochs, run.losses, "o-", color="tab:gray", label="training")
        for name in run.epochs[0]:
            axes, label = (loss_axes, "measured") if name == LOSS else (metric_axes, name)
            axes.plot(epochs, run.by_epoch(name), "o-", label=label)
        loss_axes.set(title="loss", xlabel="epoch", xticks=epochs, ylim=(0, None))
        metric_axes.set(title="measured", xlabel="epoch", xticks=epochs)

    draw(path, (7, 3), plot, columns=2)


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
