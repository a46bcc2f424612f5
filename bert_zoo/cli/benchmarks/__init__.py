"""The tasks that can be fine-tuned by name: where their data come from and how they are measured."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from bert_zoo.data import glue
from bert_zoo.error_text import nearest
from bert_zoo.presets import setting

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark

__all__ = ["BENCHMARKS", "DataOptions", "make_task"]


@dataclass(frozen=True)
class DataOptions:
    """Where a task's data are, as far as the task asks."""

    data_dir: str | None = setting(None, "Folder with a benchmark's files, as it distributes them.")
    train_file: str | None = setting(None, "A file of your own to train on.")
    dev_file: str | None = setting(None, "A file to choose the best epoch's weights by.")
    test_file: str | None = setting(
        None,
        "A file for `bert_zoo evaluate --split test`; without another file, also measured after each "
        "epoch, but it never chooses weights.",
    )
    held_out: float = setting(
        0,
        "Rows (sentences, articles) of the training file to measure on, in place of a dev_file, or "
        "below 1 their share; drawn at random, of each class its share.",
    )
    folds: int = setting(
        0,
        "Parts of the training file for cross-validation; each is measured by a run on the others.",
    )
    fold: int = setting(0, "The number of the one part to measure, from 0.")
    train_rows: int = setting(
        0,
        "Rows (sentences, articles) of the training file to train on; 0 for all that are not measured. "
        "Drawn at random, of each class its share.",
    )
    split_seed: int = setting(0, "Seed of held_out, folds and train_rows, whatever --seeds says.")
    text: str = setting("text", "The table's column of texts; without header its number from 0.")
    text_pair: str | None = setting(
        None, "The table's column of second texts, for a task on pairs."
    )
    label: str = setting("label", "The table's column of labels.")
    label_delimiter: str | None = setting(
        None,
        "What separates labels in that column, of which a text may have any number (multi-label).",
    )
    label_columns: tuple[str, ...] = setting(
        (),
        "Columns in place of label, each named as a label that applies (1) to a text or not (0).",
    )
    skip_unlabelled: bool = setting(
        False, "Whether rows without a label are left out; else an error."
    )
    header: bool = setting(True, "Whether a table's first line names its columns.")
    delimiter: str | None = setting(None, 'Between fields, or "tab"; found in the file if not set.')
    format: str | None = setting(
        None,
        "Of a table, by default as its suffix: csv, tsv, quoted_tsv, json, jsonl, parquet, excel.",
    )
    encoding: str | None = setting(
        None, "Of the files; by default their byte order mark's, or UTF-8."
    )
    regression: bool = setting(False, "Whether a table's labels are scores, not classes.")
    word_column: int = setting(0, "A tagging file's column of words, by number from 0.")
    tag_column: int = setting(-1, "A tagging file's column of tags; -1 is the last one.")
    beam_search: bool = setting(
        False,
        "Whether an answer's end is found given its start, for the likeliest starts; of XLNet's head.",
    )


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
