"""The nine GLUE tasks and the diagnostic set: a table of tasks, a reader of their files, their metrics.

Submission files for GLUE's server are written as well.

GLUE: Wang et al., "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language
Understanding", ICLR 2019. Split names and label order are those of TensorFlow Datasets and of
Hugging Face's `glue` data set.

Nothing here imports TensorFlow, unless a task is read through `tensorflow_datasets`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.data import files

_ONE_VALIDATION_FILE = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}


@dataclass(frozen=True)
class Submission:
    """What GLUE's server wants to know of a test split.

    Attributes:
        file: the name of the file with the predictions.
        rows: how many there are.
    """

    file: str
    rows: int


@dataclass(frozen=True)
class GlueTask:
    """A GLUE task: what its files and labels look like, and how it is scored.

    Attributes:
        name: the task's name in `load_glue`, and in TensorFlow Datasets as `glue/<name>`.
        directory: the folder of its files in GLUE's distribution.
        text_columns: the one or two text columns of the TSV files.
        text_features: the names of the same texts in TensorFlow Datasets.
        label_column: the label's column; a test file may lack it, and the diagnostic set has none.
        label_names: the classes in the order of their ids; empty for a score (regression).
        file_labels: the spelling of each class in the TSV files, in the same order.
        metrics: keys of `METRICS`; the first is the one to select a model by.
        files: split name -> file name.
        submissions: test split -> what the server wants of it.
        headerless_columns: columns of the train and validation files where these have no header.
    """

    name: str
    directory: str
    text_columns: tuple[str, ...]
    text_features: tuple[str, ...]
    label_column: str
    label_names: tuple[str, ...]
    file_labels: tuple[str, ...]
    metrics: tuple[str, ...]
    files: Mapping[str, str]
    submissions: Mapping[str, Submission]
    headerless_columns: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        """Whether the label is a score (STS-B, 0 to 5) and not a class."""
        return not self.label_names

    @property
    def measured_splits(self) -> tuple[str, ...]:
        """The splits, with labels, that a trained model is measured on: for MNLI two."""
        return tuple(split for split in self.files if split.startswith("validation"))


@dataclass(frozen=True)
class GlueSplit:
    """One split of a GLUE task, in the order of GLUE's file.

    Attributes:
        task: the task's name.
        split: the split's name.
        texts: the sentences [N], or a pair of lists [N], [N] for a task on sentence pairs.
        labels: class ids or scores [N]; None where GLUE keeps them to itself (test splits).
        label_names: the classes in the order of their ids; empty for a score.
    """

    task: str
    split: str
    texts: list[str] | tuple[list[str], list[str]]
    labels: list[int] | list[float] | None
    label_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts[0] if isinstance(self.texts, tuple) else self.texts)


_SENTENCES = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")
_QUESTION_AND_SENTENCE = ("question", "sentence")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI_LABELS = ("entailment", "neutral", "contradiction")

TASKS: Mapping[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask(
            name="cola",
            directory="CoLA",
            text_columns=("sentence",),
            text_features=("sentence",),
            label_column="label",
            label_names=("unacceptable", "acceptable"),
            file_labels=("0", "1"),
            metrics=("matthews_correlation",),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("CoLA.tsv", 1063)},
            headerless_columns=("source", "label", "mark", "sentence"),
        ),
        GlueTask(
            name="sst2",
            directory="SST-2",
            text_columns=("sentence",),
            text_features=("sentence",),
            label_column="label",
            label_names=("negative", "positive"),
            file_labels=("0", "1"),
            metrics=("accuracy",),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("SST-2.tsv", 1821)},
        ),
        GlueTask(
            name="mrpc",
            directory="MRPC",
            text_columns=("#1 String", "#2 String"),
            text_features=_SENTENCES,
            label_column="Quality",
            label_names=("not_equivalent", "equivalent"),
            file_labels=("0", "1"),
            metrics=("f1", "accuracy"),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("MRPC.tsv", 1725)},
        ),
        GlueTask(
            name="stsb",
            directory="STS-B",
            text_columns=_SENTENCES,
            text_features=_SENTENCES,
            label_column="score",
            label_names=(),
            file_labels=(),
            metrics=("pearson", "spearman"),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("STS-B.tsv", 1379)},
        ),
        GlueTask(
            name="qqp",
            directory="QQP",
            text_columns=_QUESTIONS,
            text_features=_QUESTIONS,
            label_column="is_duplicate",
            label_names=("not_duplicate", "duplicate"),
            file_labels=("0", "1"),
            metrics=("f1", "accuracy"),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("QQP.tsv", 390_965)},
        ),
        GlueTask(
            name="mnli",
            directory="MNLI",
            text_columns=_SENTENCES,
            text_features=("premise", "hypothesis"),
            label_column="gold_label",
            label_names=_MNLI_LABELS,
            file_labels=_MNLI_LABELS,
            metrics=("accuracy",),
            files={
                "train": "train.tsv",
                "validation_matched": "dev_matched.tsv",
                "validation_mismatched": "dev_mismatched.tsv",
                "test_matched": "test_matched.tsv",
                "test_mismatched": "test_mismatched.tsv",
            },
            submissions={
                "test_matched": Submission("MNLI-m.tsv", 9796),
                "test_mismatched": Submission("MNLI-mm.tsv", 9847),
            },
        ),
        GlueTask(
            name="qnli",
            directory="QNLI",
            text_columns=_QUESTION_AND_SENTENCE,
            text_features=_QUESTION_AND_SENTENCE,
            label_column="label",
            label_names=_ENTAILMENT,
            file_labels=_ENTAILMENT,
            metrics=("accuracy",),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("QNLI.tsv", 5463)},
        ),
        GlueTask(
            name="rte",
            directory="RTE",
            text_columns=_SENTENCES,
            text_features=_SENTENCES,
            label_column="label",
            label_names=_ENTAILMENT,
            file_labels=_ENTAILMENT,
            metrics=("accuracy",),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("RTE.tsv", 3000)},
        ),
        GlueTask(
            name="wnli",
            directory="WNLI",
            text_columns=_SENTENCES,
            text_features=_SENTENCES,
            label_column="label",
            label_names=("not_entailment", "entailment"),
            file_labels=("0", "1"),
            metrics=("accuracy",),
            files=_ONE_VALIDATION_FILE,
            submissions={"test": Submission("WNLI.tsv", 146)},
        ),
        # The diagnostic set, for models that are trained on MNLI; GLUE keeps its labels.
        GlueTask(
            name="ax",
            directory="diagnostic",
            text_columns=_SENTENCES,
            text_features=("premise", "hypothesis"),
            label_column="",
            label_names=_MNLI_LABELS,
            file_labels=_MNLI_LABELS,
            metrics=(),
            files={"test": "diagnostic.tsv"},
            submissions={"test": Submission("AX.tsv", 1104)},
        ),
    )
}


def load_glue(task: str, split: str, data_dir: str | Path | None = None) -> GlueSplit:
    """Reads one split of a GLUE task, texts exactly as they stand in GLUE's files.

    Args:
        task: a key of `TASKS`.
        split: "train", "validation" or "test"; for MNLI "train", "validation_matched",
            "validation_mismatched", "test_matched" or "test_mismatched"; for the diagnostic set "test".
        data_dir: the folder that holds GLUE's folders (CoLA, SST-2, ...) with their TSV files.
            Without it the task is downloaded with `tensorflow_datasets`, which leaves out rows that
            it finds broken.

    Returns:
        The split, in the order of GLUE's file and with a row for every line of it.

    Raises:
        ValueError: the task or the split is unknown, or a row does not fit its file's columns.
        FileNotFoundError: `data_dir` has no such file.
        RuntimeError: the download failed.
    """
    task_row = _find_task(task)
    files.check_split(task, split, task_row.files)
    if data_dir is None:
        columns, labels = _read_tfds(task_row, split)
    else:
        columns, labels = _read_tsv(task_row, split, Path(data_dir))
    texts = columns[0] if len(columns) == 1 else (columns[0], columns[1])
    return GlueSplit(task, split, texts, labels, task_row.label_names)


def metrics(task: str, labels: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
    """Scores predictions with the metrics of a GLUE task.

    Args:
        task: a key of `TASKS`.
        labels: class ids [N], or scores [N] for STS-B.
        predictions: class ids [N] (the argmax of the logits), or scores [N] for STS-B.

    Returns:
        Metric name -> value, the one to select a model by first. A correlation or F1 that is not
        defined, as when all predictions are equal, is 0.

    Raises:
        ValueError: the task is unknown or has no public labels, the lengths differ or are 0, or a
            value cannot be a label of the task.
    """
    task_row = _find_task(task)
    if not task_row.metrics:
        raise ValueError(
            f"GLUE keeps the labels of {task}, so there is nothing to score here; glue.write_submission "
            "writes the predictions for its server."
        )
    y_true = _as_labels(task_row, labels, "labels")
    y_pred = _as_labels(task_row, predictions, "predictions")
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"There are {len(y_true)} labels and {len(y_pred)} predictions for {task}; "
            "pass one prediction for each label."
        )
    return {name: METRICS[name](y_true, y_pred) for name in task_row.metrics}


def write_submission(
    task: str, split: str, predictions: Sequence[float], directory: str | Path
) -> Path:
    """Writes the predictions for a test split as GLUE's server wants them.

    The server takes a zip of the files of all eleven test splits. Source of names and spelling:
    gluebenchmark.com/faq; nyu-mll/jiant-v1-legacy jiant/evaluate.py, GLUE_NAME_MAP and
    _write_glue_preds.

    Args:
        task: a key of `TASKS`; "ax" is the diagnostic set.
        split: a test split of the task.
        predictions: in the order of GLUE's file, class ids [N] (for "ax" those of an MNLI model), or
            scores [N] for STS-B, which are cut to the scale from 0 to 5 and to three decimals.
        directory: where the file goes; made if it does not exist.

    Returns:
        The file, such as directory/MNLI-mm.tsv: tab-separated columns `index` and `prediction`.

    Raises:
        ValueError: the task is unknown, the split is not a test split, the number of predictions is
            not that of the split, or a value cannot be a label of the task.
    """
    task_row = _find_task(task)
    if split not in task_row.submissions:
        raise ValueError(
            f"GLUE's server takes no predictions for the split {split!r} of {task}; choose one of "
            f"{list(task_row.submissions)}."
        )
    submission = task_row.submissions[split]
    values = _as_labels(task_row, predictions, "predictions")
    if len(values) != submission.rows:
        raise ValueError(
            f"There are {len(values)} predictions for {task}, split {split}, and GLUE has "
            f"{submission.rows} rows there; pass one prediction for each row, in GLUE's order."
        )
    if task_row.is_regression:
        spelled = [f"{score:.3f}" for score in np.clip(values, 0, 5)]
    else:
        spelled = [task_row.file_labels[value] for value in values]
    path = Path(directory) / submission.file
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{index}\t{label}\n" for index, label in enumerate(spelled))
    path.write_text(f"index\tprediction\n{rows}", encoding="utf-8", newline="\n")
    return path


def _find_task(name: str) -> GlueTask:
    if name not in TASKS:
        raise ValueError(f"{name!r} is not a GLUE task; choose one of {list(TASKS)}.")
    return TASKS[name]


# --- Files as GLUE distributes them ---


def _read_tsv(task: GlueTask, split: str, data_dir: Path) -> tuple[list[list[str]], list | None]:
    """Returns the text columns and the labels (None if the file has none)."""
    path = files.require_file(
        data_dir / task.directory / task.files[split],
        f"data_dir must be the folder that holds GLUE's folder {task.directory} with "
        f"{task.files[split]} in it, as GLUE distributes them; without data_dir the task is "
        "downloaded.",
    )
    rows = _rows(path)
    is_test = split.startswith("test")
    if task.headerless_columns and not is_test:
        header = task.headerless_columns
    else:
        header = next(rows, (1, ()))[1]

    wanted = task.text_columns if is_test else (*task.text_columns, task.label_column)
    missing = [name for name in wanted if name not in header]
    if missing:
        raise ValueError(
            f"{path}, line 1: the header has the columns {files.listed(header)} and lacks {missing}. Use "
            f"GLUE's own file {task.directory}/{task.files[split]}."
        )

    text_indices = [header.index(name) for name in task.text_columns]
    label_index = header.index(task.label_column) if task.label_column in header else None
    texts: list[list[str]] = [[] for _ in text_indices]
    labels = []
    for line_number, fields in rows:
        # The first download of QQP that GLUE offered has such rows; QQP-clean.zip has not.
        if len(fields) != len(header):
            raise ValueError(
                f"{path}, line {line_number}: found {len(fields)} tab-separated fields, expected "
                f"{len(header)} ({files.listed(header)}). Correct this line or download the file "
                "again."
            )
        for column, index in zip(texts, text_indices, strict=True):
            column.append(fields[index])
        if label_index is not None:
            labels.append(_parse_label(task, fields[label_index], f"{path}, line {line_number}"))
    if not texts[0]:
        raise ValueError(
            f"{path}, line 1: no row stands here or below. Download the file again, which was cut short "
            "or is another one."
            if header is task.headerless_columns
            else f"{path}, line 2: the file ends after its header. Download it again."
        )
    return texts, (None if label_index is None else labels)


def _rows(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields line number (from 1) and fields of each line.

    GLUE's quotation marks are text, so the csv module has no part in this.
    """
    for line_number, line in files.lines(path):
        yield line_number, tuple(line.split("\t"))


def _parse_label(task: GlueTask, text: str, where: str) -> int | float:
    if task.is_regression:
        try:
            score = float(text)
        except ValueError:
            score = float("nan")
        if not 0 <= score <= 5:
            raise ValueError(
                f"{where}: the score is {files.shown(text)}, expected a number from 0 to 5."
            )
        return score
    if text not in task.file_labels:
        raise ValueError(
            f"{where}: the label is {files.shown(text)}, expected one of {list(task.file_labels)}."
        )
    return task.file_labels.index(text)


# --- TensorFlow Datasets ---


def _read_tfds(task: GlueTask, split: str) -> tuple[list[list[str]], list | None]:
    """Returns the text columns and the labels (None if all of them are hidden)."""
    examples = sorted(_download(task, split), key=lambda example: int(example["idx"]))
    texts = [
        [example[feature].decode("utf-8") for example in examples] for feature in task.text_features
    ]
    to_number = float if task.is_regression else int
    labels = [to_number(example["label"]) for example in examples]
    # GLUE keeps the labels of its test splits; tensorflow_datasets writes -1 in their place.
    return texts, (None if split.startswith("test") and set(labels) == {-1} else labels)


def _download(task: GlueTask, split: str) -> list[dict[str, Any]]:
    return files.download(
        f"glue/{task.name}",
        split,
        instead=f"Download GLUE's {task.directory} folder by other means and pass the folder that "
        "holds it as data_dir (--data_dir on the command line).",
    )


# --- Metrics ---


def _as_labels(task: GlueTask, values: Sequence[float], what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"The {what} for {task.name} have the shape {array.shape}, expected [N] with N of at "
            "least 1. Take the argmax of class logits, and squeeze scores."
        )
    if task.is_regression:
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise ValueError(f"The {what} for {task.name} hold values that are not finite.")
        return array
    num_classes = len(task.label_names)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"The {what} for {task.name} are of type {array.dtype}, expected integer class ids. "
            "Take the argmax of class logits."
        )
    if array.min() < 0 or array.max() >= num_classes:
        raise ValueError(
            f"The {what} for {task.name} range from {array.min()} to {array.max()}, expected class "
            f"ids from 0 to {num_classes - 1}."
        )
    return array.astype(np.int64)


def _accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.mean(labels == predictions))


def _f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1: 2 TP / (2 TP + FP + FN)."""
    true_positives = np.sum((labels == 1) & (predictions == 1))
    positives = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * true_positives / positives) if positives else 0.0


def _pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson's correlation; of two binary variables it is Matthews' correlation."""
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    x = labels - labels.mean()
    y = predictions - predictions.mean()
    return float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1, 1))


def _spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    return _pearson(_ranks(labels), _ranks(predictions))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share the mean of the ranks that they take up."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    return (last_ranks - (counts - 1) / 2)[inverse]


METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews_correlation": _pearson,
    "pearson": _pearson,
    "spearman": _spearman,
}
