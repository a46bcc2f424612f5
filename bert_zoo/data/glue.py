"""The nine GLUE tasks and the diagnostic set: files, metrics and submissions.

GLUE: Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
Understanding", ICLR 2019. Split names and label order are those of TensorFlow Datasets and of
Hugging Face's `glue` data set.

Only downloads through `tensorflow_datasets` import TensorFlow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data import files
from bert_zoo.data.tables import LabelledTexts, read_table
from bert_zoo.fields import check
from bert_zoo.metrics.labels import accuracy, binary_f1, pearson, spearman

_FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}


@dataclass(frozen=True)
class GlueDataSet:
    """Files, labels and metrics of a GLUE task."""

    name: str  # in `load_glue`, and in TensorFlow Datasets as `glue/<name>`
    directory: str  # folder of its files in GLUE's distribution
    text_columns: tuple[str, ...]  # one or two columns of the TSV files
    label_names: tuple[str, ...]  # classes in the order of their ids; empty for a score
    # Prediction file that GLUE's server takes for each test split -> its number of rows.
    submissions: Mapping[str, int]
    metrics: tuple[str, ...] = ("accuracy",)  # keys of `METRICS`; the first selects a model
    label_column: str = "label"  # test files and the diagnostic set lack it
    spells_labels: bool = False  # whether files contain names of classes instead of 0 and 1
    text_features: tuple[str, ...] = ()  # names in TensorFlow Datasets; by default `text_columns`
    files: Mapping[str, str] = field(default_factory=lambda: _FILES)  # split -> file name
    # Argument of `read_table` -> column number in train and validation files without header.
    headerless: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        """Whether the label is a score (STS-B, 0 to 5) and not a class."""
        return not self.label_names

    @property
    def file_labels(self) -> tuple[str, ...]:
        """Spelling of the classes in the TSV files."""
        return self.label_names if self.spells_labels else ("0", "1")[: len(self.label_names)]

    @property
    def features(self) -> tuple[str, ...]:
        return self.text_features or self.text_columns

    @property
    def measured_splits(self) -> tuple[str, ...]:
        """Labelled splits to measure a trained model on; MNLI has two."""
        return tuple(split for split in self.files if split.startswith("validation"))

    @property
    def test_splits(self) -> dict[str, tuple[str, int]]:
        """Test split -> prediction file and its number of rows."""
        splits = [split for split in self.files if split.startswith("test")]
        return dict(zip(splits, self.submissions.items(), strict=True))


@dataclass(frozen=True)
class GlueSplit(LabelledTexts):
    """One split of a GLUE task, in the order of GLUE's file; test splits have no labels."""

    task: str = ""
    split: str = ""


_PAIR, _PREMISE = ("sentence1", "sentence2"), ("premise", "hypothesis")
_ENTAILMENT = ("entailment", "not_entailment")
# Classes of natural language inference, for MNLI and the data sets that its models are measured on.
NLI_LABELS = ("entailment", "neutral", "contradiction")
_MNLI_FILES = {
    "train": "train.tsv",
    **{f"validation_{kind}": f"dev_{kind}.tsv" for kind in ("matched", "mismatched")},
    **{f"test_{kind}": f"test_{kind}.tsv" for kind in ("matched", "mismatched")},
}

DATA_SETS: Mapping[str, GlueDataSet] = {
    row.name: row
    for row in (
        GlueDataSet(
            "cola", "CoLA", ("sentence",), ("unacceptable", "acceptable"), {"CoLA.tsv": 1063},
            metrics=("matthews_correlation",),
            headerless={"text": 3, "label": 1},
        ),
        GlueDataSet("sst2", "SST-2", ("sentence",), ("negative", "positive"), {"SST-2.tsv": 1821}),
        GlueDataSet(
            "mrpc", "MRPC", ("#1 String", "#2 String"), ("not_equivalent", "equivalent"),
            {"MRPC.tsv": 1725}, metrics=("f1", "accuracy"), label_column="Quality", text_features=_PAIR,
        ),
        GlueDataSet(
            "stsb", "STS-B", _PAIR, (), {"STS-B.tsv": 1379},
            metrics=("pearson", "spearman"), label_column="score",
        ),
        GlueDataSet(
            "qqp", "QQP", ("question1", "question2"), ("not_duplicate", "duplicate"),
            {"QQP.tsv": 390_965}, metrics=("f1", "accuracy"), label_column="is_duplicate",
        ),
        GlueDataSet(
            "mnli", "MNLI", _PAIR, NLI_LABELS, {"MNLI-m.tsv": 9796, "MNLI-mm.tsv": 9847}, files=_MNLI_FILES,
            label_column="gold_label", spells_labels=True, text_features=_PREMISE,
        ),
        GlueDataSet(
            "qnli", "QNLI", ("question", "sentence"), _ENTAILMENT, {"QNLI.tsv": 5463}, spells_labels=True,
        ),
        GlueDataSet("rte", "RTE", _PAIR, _ENTAILMENT, {"RTE.tsv": 3000}, spells_labels=True),
        GlueDataSet("wnli", "WNLI", _PAIR, _ENTAILMENT[::-1], {"WNLI.tsv": 146}),
        # The diagnostic set, for models trained on MNLI; its labels are not public.
        GlueDataSet(
            "ax", "diagnostic", _PAIR, NLI_LABELS, {"AX.tsv": 1104}, files={"test": "diagnostic.tsv"},
            metrics=(), spells_labels=True, text_features=_PREMISE,
        ),
    )
}  # fmt: skip

# T5's input (Raffel et al. 2020, arXiv:1910.10683, appendix D; t5/data/glue_utils.py): features in alphabetical
# order; the diagnostic set has MNLI's prefix. T5 answers with the names of classes.
AS_TEXT: Mapping[str, str] = {
    row.name: " ".join([prefix, *(f"{name}: {{{name}}}" for name in sorted(row.features))])
    for row in DATA_SETS.values()
    for prefix in ["mnli" if row.name == "ax" else row.name]
}


def load_glue(task: str, split: str, data_dir: str | Path | None = None) -> GlueSplit:
    """Reads one split of a GLUE task without changing its texts.

    Args:
        task: "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli" or "ax" (diagnostic).
        split: "train", "validation" or "test"; for MNLI "train", "validation_matched",
            "validation_mismatched", "test_matched" or "test_mismatched"; for the diagnostic set "test".
        data_dir: folder that contains GLUE's folders (CoLA, SST-2, ...) with their TSV files.
            Without it, `tensorflow_datasets` downloads the task, without rows that it considers broken.

    Returns:
        Texts and class ids (scores for STS-B), with a row for every line of GLUE's file, in order. Test
        splits have no labels.

    Raises:
        ValueError: the task or split is unknown, or a row does not match the file's columns.
        FileNotFoundError: `data_dir` does not contain the file.
        RuntimeError: the download failed.
    """
    row = _find_data_set(task)
    files.check_known(f"{task} has no split", split, row.files)
    texts, labels = (
        _downloaded(row, split) if data_dir is None else _read(row, split, Path(data_dir))
    )
    return GlueSplit(texts, labels, row.label_names, task=task, split=split)


def metrics(task: str, labels: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
    """Scores predictions [N] (class ids, the argmax of the logits; scores for STS-B) with the task's metrics.

    The first metric selects a model. Undefined correlations and F1 are 0, as when all predictions are equal.

    Raises:
        ValueError: the task is unknown or has no public labels, the lengths differ or are 0, or a value cannot be
            a label of the task.
    """
    row = _find_data_set(task)
    if not row.metrics:
        raise ValueError(
            f"The labels of {task} are not public. Write the predictions for GLUE's server with "
            "glue.write_submission."
        )
    y_true = _checked(row, labels, "labels")
    y_pred = _checked(row, predictions, "predictions")
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"There are {len(y_true)} labels and {len(y_pred)} predictions for {task}; "
            "pass one prediction for each label."
        )
    return {name: METRICS[name](y_true, y_pred) for name in row.metrics}


def write_submission(
    task: str, split: str, predictions: Sequence[float], directory: str | Path
) -> Path:
    """Writes the predictions for a test split in the format of GLUE's server.

    The server takes a zip of the files of all eleven test splits. Source of names and spelling:
    gluebenchmark.com/faq; nyu-mll/jiant-v1-legacy jiant/evaluate.py, GLUE_NAME_MAP and
    _write_glue_preds.

    Args:
        task: as for `load_glue`.
        split: a test split of the task.
        predictions: in the order of GLUE's file: class ids [N] (for "ax" from an MNLI model), or scores [N]
            for STS-B, which are clipped to 0 to 5 and rounded to three decimals.
        directory: where to write; created if missing.

    Returns:
        Path of the file, such as directory/MNLI-mm.tsv, with tab-separated columns `index` and `prediction`.

    Raises:
        ValueError: the task is unknown, the split is not a test split or has another number of rows, or a
            value cannot be a label of the task.
    """
    row = _find_data_set(task)
    files.check_known(f"GLUE's server takes no predictions for {task} of", split, row.test_splits)
    name, number = row.test_splits[split]
    values = _checked(row, predictions, "predictions")
    if len(values) != number:
        raise ValueError(
            f"There are {len(values)} predictions for {task}, split {split}, but GLUE has "
            f"{number} rows there. Pass one prediction for each row, in GLUE's order."
        )
    if row.is_regression:
        spelled = [f"{score:.3f}" for score in np.clip(values, 0, 5)]
    else:
        spelled = [row.file_labels[value] for value in values]
    path = Path(directory) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{index}\t{label}\n" for index, label in enumerate(spelled))
    path.write_text(f"index\tprediction\n{lines}", encoding="utf-8", newline="\n")
    return path


def _find_data_set(task: str) -> GlueDataSet:
    files.check_known("GLUE has no task", task, DATA_SETS)
    return DATA_SETS[task]


def _read(row: GlueDataSet, split: str, data_dir: Path) -> tuple[Any, list | None]:
    """Texts and labels of a file as GLUE distributes it; labels are None in test splits."""
    file = row.files[split]
    path = files.require_file(
        data_dir / row.directory / file,
        advice=f"data_dir must contain GLUE's folder {row.directory} with {file}, as GLUE distributes them. "
        "Without data_dir the task is downloaded.",
    )
    is_test = split.startswith("test")
    columns = dict(zip(("text", "text_pair"), row.text_columns, strict=False))
    columns["label"] = None if is_test else row.label_column
    table = read_table(
        path,
        # GLUE's quotation marks are text.
        format="tsv",
        **(columns if is_test else columns | row.headerless),
        label_names=row.file_labels,
        regression=row.is_regression,
        header=is_test or not row.headerless,
    )
    if row.is_regression and not is_test:
        for line, score in zip(table.lines, table.labels, strict=True):
            check(f"{path}, line {line}: the score", score, float, least=0, most=5)
    return table.texts, table.labels


def _downloaded(row: GlueDataSet, split: str) -> tuple[Any, list | None]:
    """Texts and labels from tensorflow_datasets; labels are None if all of them are hidden."""
    folder = f"the folder that contains GLUE's folder {row.directory}"
    examples = files.download(f"glue/{row.name}", split, folder)
    examples.sort(key=lambda example: int(example["idx"]))
    texts = [files.decoded(example[feature] for example in examples) for feature in row.features]
    to_number = float if row.is_regression else int
    labels = [to_number(example["label"]) for example in examples]
    # Test labels are not public; tensorflow_datasets has -1 instead.
    is_hidden = split.startswith("test") and set(labels) == {-1}
    return texts[0] if len(texts) == 1 else tuple(texts), None if is_hidden else labels


# --- Metrics ---


def _checked(row: GlueDataSet, values: Sequence[float], what: str) -> np.ndarray:
    """Labels or predictions as an array [N], checked to be labels of the task."""
    array = np.asarray(values)
    what = f"The {what} for {row.name}"
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{what} have the shape {array.shape}; it must be [N] with N of at least 1. Take the argmax of "
            "class logits, and squeeze scores."
        )
    if row.is_regression:
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise ValueError(f"{what} contain values that are not finite.")
        return array
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{what} have the type {array.dtype}; they must be integers. Take the argmax of class logits."
        )
    last = len(row.label_names) - 1
    if array.min() < 0 or array.max() > last:
        raise ValueError(
            f"{what} range from {array.min()} to {array.max()}; class ids are from 0 to {last}."
        )
    return array.astype(np.int64)


METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": binary_f1,
    "matthews_correlation": pearson,
    "pearson": pearson,
    "spearman": spearman,
}
