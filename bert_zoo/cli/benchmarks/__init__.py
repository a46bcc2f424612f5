"""The tasks that can be fine-tuned by name: where their data come from and how they are measured."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from bert_zoo.data import glue
from bert_zoo.error_text import nearest

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark

__all__ = ["BENCHMARKS", "DataOptions", "make_task"]


@dataclass(frozen=True)
class DataOptions:
    """Where a task's data are, as far as the task asks.

    Attributes:
        data_dir: folder with the files of a benchmark as it distributes them.
        train_file: a file of your own to train on.
        dev_file: one to measure on after each epoch; it chooses the best weights.
        test_file: one to measure on at the end, with `bert_zoo evaluate --split test`; after each epoch
            too where there is no other, which never chooses weights.
        held_out: rows (sentences, articles) of the training file that are measured instead of a
            dev_file, or below 1 their share; drawn at random, of each class its share.
        folds: parts that the training file is cut into for cross-validation, each of which is measured
            by a run that trains on the others.
        fold: the number, from 0, of the one part that is measured.
        train_rows: rows (sentences, articles) of the training file that are trained on, drawn at random,
            of each class its share; 0 for all that are not measured.
        split_seed: of the choice of rows for held_out, folds and train_rows; the same for all seeds of
            the training.
        text: the table's column of texts, by name; by number from 0 in a file without header.
        text_pair: the table's column of second texts, for a task on pairs.
        label: the table's column of labels.
        label_delimiter: what stands between the names in that column, of which a text may have any
            number: multi-label classification.
        label_columns: instead of that column, those of a table that has 1 where a label applies to a
            text and 0 where it does not; the labels are called as the columns.
        skip_unlabelled: whether a table's rows without a label are left out; otherwise they are an error.
        header: whether a table's first line names its columns, as it does by default.
        delimiter: between the fields of a CSV file, "tab" for a tab; found in the file by default.
        format: of a table: csv, tsv, quoted_tsv, json, jsonl, parquet or excel; by default what the suffix says.
        encoding: of the files; by default what their byte order mark says, UTF-8 without one.
        regression: whether a table's labels are scores, not classes.
        word_column: a tagging file's column of words, by number from 0.
        tag_column: its column of tags; -1, the last one, by default.
        beam_search: whether the end of an answer is found given its start, for the likeliest starts, and
            its own logit says whether there is one; of families that have such a head, as XLNet.
    """

    data_dir: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    held_out: float = 0
    folds: int = 0
    fold: int = 0
    train_rows: int = 0
    split_seed: int = 0
    text: str = "text"
    text_pair: str | None = None
    label: str = "label"
    label_delimiter: str | None = None
    label_columns: tuple[str, ...] = ()
    skip_unlabelled: bool = False
    header: bool = True
    delimiter: str | None = None
    format: str | None = None
    encoding: str | None = None
    regression: bool = False
    word_column: int = 0
    tag_column: int = -1
    beam_search: bool = False


FILES = (
    *("train_file", "dev_file", "test_file", "held_out", "folds", "fold", "train_rows"),
    "split_seed",
)
TAG_COLUMNS = ("word_column", "tag_column")
OF_OTHERS = {"data_dir", "beam_search", *TAG_COLUMNS}
TABLE = tuple(f.name for f in fields(DataOptions) if f.name not in OF_OTHERS)


@dataclass(frozen=True)
class Entry:
    """How a benchmark is made, without what takes long to import."""

    module: str  # of this package
    function: str  # of the module; takes `DataOptions`
    arguments: Mapping[str, Any] = field(default_factory=dict)  # what it takes besides
    reads: tuple[str, ...] = ("data_dir",)  # fields of `DataOptions` that it reads
    needs: tuple[str, ...] = ()  # those that must be given

    def make(self, options: DataOptions) -> "Benchmark":
        module = importlib.import_module(f"{__name__}.{self.module}")
        return getattr(module, self.function)(options, **self.arguments)


_FOLDER = {"needs": ("data_dir",)}

BENCHMARKS: Mapping[str, Entry] = {
    "messages": Entry("texts", "messages_benchmark", reads=()),
    **{name: Entry("texts", "glue_benchmark", {"name": name}) for name in glue.DATA_SETS},
    "trec": Entry("texts", "trec_benchmark", **_FOLDER),
    "trec_fine": Entry("texts", "trec_benchmark", {"fine": True}, **_FOLDER),
    "table": Entry("texts", "table_benchmark", reads=TABLE, needs=("train_file",)),
    "conll2000": Entry("tagging", "conll_benchmark", {"name": "conll2000"}, **_FOLDER),
    "conll2003": Entry("tagging", "conll_benchmark", {"name": "conll2003"}),
    "tagging": Entry(
        "tagging",
        "tagging_benchmark",
        reads=(*FILES, *TAG_COLUMNS, "encoding"),
        needs=("train_file",),
    ),
    **{
        f"squad_v{version[0]}": Entry(
            "questions",
            "squad_benchmark",
            {"version": version},
            reads=("data_dir", "beam_search"),
        )
        for version in ("1.1", "2.0")
    },
    "questions": Entry(
        "questions",
        "questions_benchmark",
        reads=(*FILES, "beam_search"),
        needs=("train_file",),
    ),
    "swag": Entry("choices", "swag_benchmark", **_FOLDER),
    "race": Entry("choices", "race_benchmark"),
}


def make_task(name: str, **options: Any) -> "Benchmark":
    """A benchmark by its name.

    Args:
        name: a key of `BENCHMARKS`.
        **options: fields of `DataOptions`.

    Raises:
        ValueError: there is no such task, it does not read one of the options, or needs another.
    """
    if name not in BENCHMARKS:
        raise ValueError(
            f"There is no task {name!r}; choose one of {list(BENCHMARKS)}.{nearest(name, BENCHMARKS)}"
        )
    row = BENCHMARKS[name]
    given = DataOptions(**options)
    said = [f.name for f in fields(given) if getattr(given, f.name) != f.default]
    if unread := [option for option in said if option not in row.reads]:
        raise ValueError(
            f"The task {name!r} does not read {unread}; it reads {list(row.reads)}. Leave them out."
        )
    if missing := [option for option in row.needs if option not in said]:
        raise ValueError(f"The task {name!r} needs {missing}.")
    return row.make(given)
