"""The tasks that can be fine-tuned by name: where their data come from and how they are measured."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.data import glue, messages, nli, superglue
from bert_zoo.data.choices import load_race, load_swag
from bert_zoo.data.mrqa import load_mrqa
from bert_zoo.data.squad import load_squad
from bert_zoo.data.tables import LabelledTexts, read_trec
from bert_zoo.data.tagging import load_conll
from bert_zoo.error_text import nearest
from bert_zoo.presets import setting

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark

__all__ = ["BENCHMARKS", "TASK_NAMES", "DataOptions", "make_task"]


@dataclass(frozen=True)
class DataOptions:
    """Where a task's data are, as far as the task asks."""

    data_dir: str | None = setting(None, "Folder with a benchmark's own files.")
    train_file: str | None = setting(None, "A file of your own to train on.")
    dev_file: str | None = setting(None, "A file to choose the best epoch's weights by.")
    test_file: str | None = setting(
        None,
        "A file for `bert_zoo evaluate --split test`; without another file, also measured after each "
        "epoch, but it never chooses weights.",
    )
    held_out: float = setting(
        0,
        "Rows (sentences, articles) of train_file to measure on, or below 1 their share; in place of a "
        "dev_file, drawn at random, of each class its share.",
    )
    train_rows: int = setting(
        0,
        "Rows (sentences, articles) of the training file to train on; 0 for all that are not measured. "
        "Drawn at random, of each class its share.",
    )
    labels_per_class: int = setting(
        0, "Training rows of each class, drawn at random by split_seed; 0 for all.", least=0
    )
    split_seed: int = setting(
        0, "Seed of held_out, train_rows and labels_per_class, whatever --seeds says."
    )
    text: str = setting("text", "The table's column of texts; without header its number from 0.")
    text_pair: str | None = setting(
        None, "The table's column of second texts, for a task on pairs."
    )
    label: str = setting("label", "The table's column of labels.")
    label_delimiter: str | None = setting(
        None,
        "What separates the labels of a text in that column, for any number of them (multi-label).",
    )
    label_columns: tuple[str, ...] = setting(
        (),
        "Columns in place of label, each named as a label that applies (1) to a text or not (0).",
    )
    columns: tuple[str, ...] = setting(
        (),
        "The table's columns of texts that are read apart, in place of those that the task names; for triplets any "
        "number of columns of negatives, for reranking a query with its right document before others.",
    )
    prompts: tuple[str, ...] = setting(
        (),
        "The model's prompt for each of these columns, by name, as in query,passage; the last one counts for all "
        "that follow.",
    )
    skip_unlabelled: bool = setting(
        False, "Whether rows without a label are left out; else an error."
    )
    header: bool = setting(True, "Whether a table's first line names its columns.")
    delimiter: str | None = setting(None, 'Between fields, or "tab"; found in the file if not set.')
    format: str | None = setting(
        None, "Of a table, by default as its suffix: csv, tsv, json, jsonl, parquet."
    )
    encoding: str | None = setting(
        None, "Of the files; by default their byte order mark's, or UTF-8."
    )
    source_column: str = setting("source", "The column of what a model of text to text reads.")
    target_column: str = setting("target", "The column of what it is to write.")
    text_metric: str = setting(
        "exact_match", "What chooses the best epoch's weights: exact_match, bleu or rouge."
    )
    mixing_limit: int = setting(
        2**19, "Of several tasks as text, the most rows that one counts with; the paper's K."
    )
    mixing_temperature: float = setting(
        1.0,
        "Of several tasks as text: their shares are those of their rows, to the power of 1 / temperature.",
    )
    regression: bool = setting(False, "Whether a table's labels are scores, not classes.")
    word_column: int = setting(0, "A tagging file's column of words, by number from 0.")
    tag_column: int = setting(-1, "A tagging file's column of tags; -1 is the last one.")
    languages: tuple[str, ...] = setting(
        ("en",), "Of XNLI's training data: en is MNLI itself, others its translations."
    )
    data_sets: tuple[str, ...] = setting(
        (), "MRQA's data sets by name, as in NewsQA,TriviaQA; all of a split if not set."
    )
    beam_search: bool = setting(
        False,
        "Whether an answer's end is found given its start, for the likeliest starts; of XLNet's head.",
    )


LAYOUT = ("header", "delimiter", "format", "encoding")
FILES = ("train_file", "dev_file", "test_file", "held_out", "train_rows", "split_seed")
FEW = ("labels_per_class", "split_seed")
TAG_COLUMNS = ("word_column", "tag_column")
TEXT_COLUMNS = ("source_column", "target_column", "text_metric")
MIXING = ("mixing_limit", "mixing_temperature")
OF_OTHERS = {
    "data_dir",
    "beam_search",
    "columns",
    "prompts",
    "languages",
    "data_sets",
    *TAG_COLUMNS,
    *TEXT_COLUMNS,
    *MIXING,
}
TABLE = tuple(f.name for f in fields(DataOptions) if f.name not in OF_OTHERS)


@dataclass(frozen=True)
class Entry:
    """A benchmark: what makes it, without what takes long to import, and where its data are from.

    Attributes:
        made_by: a module of this package and, in it, the class, or a function of `DataOptions`.
        load: (options, split) -> data, of a class; None for a function.
        source: a clause on where the data is from.
        measured: as of `Benchmark`.
        arguments: further ones of the class or function.
        reads: fields of `DataOptions` that it reads.
        needs: those that must be given.
    """

    made_by: str
    load: Callable[[DataOptions, str], Any] | None = None
    source: str = ""
    measured: tuple[str, ...] = ("validation",)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ("data_dir",)
    needs: tuple[str, ...] = ()

    def make(self, name: str, options: DataOptions) -> "Benchmark":
        module, _, maker = self.made_by.partition(".")
        make = getattr(importlib.import_module(f"{__name__}.{module}"), maker)
        if self.load is None:
            return make(options, **self.arguments)
        own = {"beam_search": options.beam_search} if "beam_search" in self.reads else {}
        about = {"measured": self.measured, "source": self.source, **self.arguments, **own}
        return make(name, partial(self.load, options), **about)


def _glue(name: str, data_set: glue.GlueDataSet) -> Entry:
    return Entry(
        "texts.ScoreBenchmark" if data_set.is_regression else "texts.TextBenchmark",
        lambda options, split: glue.load_glue(name, split, options.data_dir),
        "GLUE (Wang et al. 2019)",
        data_set.measured_splits,
        {
            "metric": partial(glue.metrics, name),
            "label_names": data_set.label_names,
            "write_official": partial(glue.write_submission, name),
        },
        reads=("data_dir",) if data_set.is_regression else ("data_dir", *FEW),
    )


def _trec(options: DataOptions, split: str, *, fine: bool) -> LabelledTexts:
    train, path = (Path(options.data_dir) / f"trec_{name}.txt" for name in ("train", split))
    # The test file lacks some of the fine classes.
    names = None if split == "train" else read_trec(train, fine=fine).label_names
    return read_trec(path, fine=fine, label_names=names)


def _squad(version: str) -> Entry:
    return Entry(
        "questions.QuestionBenchmark",
        lambda options, split: load_squad(version, split, options.data_dir),
        f"SQuAD {version} (Rajpurkar et al. 2016, 2018)",
        arguments={"allows_no_answer": version == "2.0"},
        reads=("data_dir", "beam_search"),
    )


def _superglue(name: str, data_set: superglue.SuperGlueTask) -> Entry:
    write = partial(superglue.write_submission, name)
    of_texts = {"metric": superglue.metrics, "label_names": data_set.label_names}
    maker = "texts.CandidateBenchmark" if data_set.has_candidates else "texts.GroupedBenchmark"
    return Entry(
        "choices.ChoiceBenchmark" if data_set.is_choice else maker,
        lambda options, split: superglue.load_superglue(name, split, options.data_dir),
        "SuperGLUE (Wang et al. 2019)",
        arguments={"write_official": write} | ({} if data_set.is_choice else of_texts),
    )


_FOLDER = {"needs": ("data_dir",)}


def _conll(name: str, **more: Any) -> Entry:
    return Entry(
        "tagging.TaggingBenchmark",
        lambda options, split: load_conll(name, split, options.data_dir),
        f"the shared task of CoNLL-{name[-4:]}",
        **_FOLDER,
        **more,
    )


# Without a development split, so that the last epoch's weights are kept.
_TREC = {
    "source": "TREC's questions (Li and Roth 2002)",
    "measured": ("test",),
    "reads": ("data_dir", *FEW),
    **_FOLDER,
}
_OWN = {"needs": ("train_file",)}


def _columns(maker: str, *more: str) -> Entry:
    """A table of rows of several texts."""
    return Entry(maker, reads=(*FILES, *LAYOUT, "columns", *more), **_OWN)


BENCHMARKS: Mapping[str, Entry] = {
    "messages": Entry(
        "texts.TextBenchmark",
        lambda options, split: LabelledTexts(*messages.load(split), messages.LABELS),
        "the messages that ship with bert_zoo",
        measured=("test",),
        reads=FEW,
    ),
    **{name: _glue(name, data_set) for name, data_set in glue.DATA_SETS.items()},
    **{
        # GLUE has the same pairs of RTE in files of its own.
        "superglue_rte" if name in glue.DATA_SETS else name: _superglue(name, data_set)
        for name, data_set in superglue.DATA_SETS.items()
    },
    "snli": Entry(
        "texts.TextBenchmark",
        lambda options, split: nli.load_snli(split, options.data_dir),
        "SNLI (Bowman et al. 2015)",
        arguments={"label_names": glue.NLI_LABELS},
        reads=("data_dir", *FEW),
    ),
    "xnli": Entry(
        "texts.GroupedBenchmark",
        lambda options, split: nli.load_xnli(split, options.data_dir, options.languages),
        "XNLI (Conneau et al. 2018)",
        arguments={"label_names": glue.NLI_LABELS, "metric": nli.accuracies},
        reads=("data_dir", "languages", *FEW),
    ),
    "trec": Entry("texts.TextBenchmark", partial(_trec, fine=False), **_TREC),
    "trec_fine": Entry("texts.TextBenchmark", partial(_trec, fine=True), **_TREC),
    "table": Entry("texts.table_benchmark", reads=TABLE, **_OWN),
    "pairs": _columns("embeddings.pairs_benchmark", "prompts"),
    "triplets": _columns("embeddings.triplets_benchmark", "prompts"),
    "scores": _columns("embeddings.scores_benchmark", "prompts", "label"),
    "reranking": _columns("reranking.reranking_benchmark", "label"),
    "beir": Entry("embeddings.beir_benchmark", reads=("data_dir", "prompts"), **_FOLDER),
    "conll2000": _conll("conll2000", measured=("test",)),
    "conll2003": _conll("conll2003"),
    "text": Entry("text_to_text.table_benchmark", reads=(*FILES, *LAYOUT, *TEXT_COLUMNS), **_OWN),
    "tagging": Entry("tagging.tagging_benchmark", reads=(*FILES, *TAG_COLUMNS, "encoding"), **_OWN),
    "squad_v1": _squad("1.1"),
    "squad_v2": _squad("2.0"),
    "mrqa": Entry(
        "questions.QuestionBenchmark",
        lambda options, split: load_mrqa(split, options.data_dir, options.data_sets),
        "MRQA 2019 (Fisch et al. 2019)",
        arguments={"allows_no_answer": False},
        reads=("data_dir", "data_sets", "beam_search"),
        **_FOLDER,
    ),
    "questions": Entry("questions.questions_benchmark", reads=(*FILES, "beam_search"), **_OWN),
    "swag": Entry(
        "choices.ChoiceBenchmark",
        lambda options, split: load_swag(split, options.data_dir),
        "SWAG (Zellers et al. 2018)",
        **_FOLDER,
    ),
    "race": Entry(
        "choices.ChoiceBenchmark",
        lambda options, split: load_race(split, "all", options.data_dir).as_choices(),
        "RACE (Lai et al. 2017)",
        **_FOLDER,
    ),
}

# What a benchmark is called that a model of text to text learns, after which comes the name of one or several.
TEXT_PREFIX = "text:"

# For people.
TASK_NAMES = f"{', '.join(BENCHMARKS)}, or text:NAME,... as text"


def _glue_as_text(name: str, data_set: glue.GlueDataSet) -> tuple[Entry, str, dict[str, Any]]:
    kind = "ScoresAsText" if data_set.is_regression else "AsText"
    arguments = {"source": glue.AS_TEXT[name], "features": data_set.features}
    return BENCHMARKS[name], kind, arguments


def _superglue_as_text(name: str, kind: str = "AsText") -> tuple[Entry, str, dict[str, Any]]:
    data_set = superglue.AS_TEXT[name]
    entry = Entry(
        "texts.GroupedBenchmark",
        lambda options, split: superglue.load_superglue(
            name, split, options.data_dir, as_text=True
        ),
        "SuperGLUE (Wang et al. 2019)",
        arguments={
            "metric": superglue.metrics,
            "label_names": data_set.label_names,
            "write_official": partial(superglue.write_submission, name),
        },
    )
    return entry, kind, {}


# Name -> what makes the benchmark, a class of `text_to_text`, and its arguments.
TEXT_BENCHMARKS: Mapping[str, tuple[Entry, str, Mapping[str, Any]]] = {
    **{name: _glue_as_text(name, data_set) for name, data_set in glue.DATA_SETS.items()},
    **{
        "superglue_rte" if name in glue.DATA_SETS else name: _superglue_as_text(name)
        for name in superglue.AS_TEXT
    },
    "wsc": _superglue_as_text("wsc", "NounsAsText"),
    "record": _superglue_as_text("record", "EntitiesAsText"),
    "squad_v1": (BENCHMARKS["squad_v1"], "AnswersAsText", {}),
}


def _entry(name: str) -> Entry:
    """What makes a benchmark."""
    if not name.startswith(TEXT_PREFIX):
        _check_known("There is no task", name, BENCHMARKS)
        return BENCHMARKS[name]
    names = name.removeprefix(TEXT_PREFIX).split(",")
    for each in names:
        _check_known("There is no task as text", each, TEXT_BENCHMARKS)
    forms = {each: TEXT_BENCHMARKS[each] for each in names}
    return Entry("text_to_text.as_text", reads=("data_dir", *MIXING), arguments={"forms": forms})


def _check_known(problem: str, name: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise ValueError(f"{problem} {name!r}; choose one of {list(known)}.{nearest(name, known)}")


def make_task(name: str, **options: Any) -> "Benchmark":
    """A benchmark by its name.

    Args:
        name: a key of `BENCHMARKS`; or "text:" and a key of `TEXT_BENCHMARKS`, or several with commas between
            them, for a model that writes texts.
        **options: fields of `DataOptions`.

    Raises:
        ValueError: there is no such task, it does not read one of the options, or needs another.
    """
    row = _entry(name)
    given = DataOptions(**options)
    said = [f.name for f in fields(given) if getattr(given, f.name) != f.default]
    if unread := [option for option in said if option not in row.reads]:
        raise ValueError(
            f"The task {name!r} does not read {unread}; it reads {list(row.reads)}. Leave them out."
        )
    if missing := [option for option in row.needs if option not in said]:
        raise ValueError(f"The task {name!r} needs {missing}.")
    task = row.make(name, given)
    if given.labels_per_class:
        task.data = cache(partial(_of_few_labels, task.data, given))
    return task


def _of_few_labels(read: Callable[[str], Any], options: DataOptions, split: str) -> Any:
    """A split, of the training texts few."""
    from bert_zoo.cli.benchmarks.few_labels import few_of_each_class

    data = read(split)
    if split != "train":
        return data
    return few_of_each_class(data, options.labels_per_class, options.split_seed)
