"""The tasks of `bert_zoo finetune --task`: where their data come from and how they are measured."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from bert_zoo.cli.benchmarks import entities, questions, retrieval, tagging, text_to_text, texts
from bert_zoo.cli.benchmarks.base import Benchmark
from bert_zoo.data import glue, messages, nli, superglue
from bert_zoo.data.choices import load_race, load_swag
from bert_zoo.data.mrqa import load_mrqa
from bert_zoo.data.on_disk import LARGE
from bert_zoo.data.squad import load_squad
from bert_zoo.data.tables import LabelledTexts, read_trec
from bert_zoo.data.tagging import load_conll
from bert_zoo.error_text import nearest
from bert_zoo.fields import setting

log = logging.getLogger("bert_zoo")

__all__ = ["BENCHMARKS", "TASK_NAMES", "DataOptions", "make_task", "read_files"]


@dataclass(frozen=True)
class DataOptions:
    """Where a task's data are and how they are read. Each task reads only some of these options."""

    data_dir: str | None = setting(None, "Folder with a benchmark's original files.")
    train_file: str | None = setting(None, "Your own file to train on.")
    dev_file: str | None = setting(None, "A file to choose the best epoch on.")
    test_file: str | None = setting(
        None,
        "A file for `bert_zoo evaluate --split test`. Without dev_file or held_out, it is measured after each "
        "epoch, but it never chooses the weights.",
    )
    held_out: float = setting(
        0,
        "Number of rows of train_file to set aside to measure on, or, below 1, their fraction. They replace a "
        "dev_file and are drawn at random, in proportion from each class. Tagging counts sentences, questions count articles.",
    )
    train_rows: int = setting(
        0,
        "Rows of train_file to train on; 0 for all that are not held out. They are counted like held_out and "
        "drawn at random, in proportion from each class.",
    )
    labels_per_class: int = setting(
        0, "Training rows per class, drawn at random by split_seed; 0 for all.", least=0
    )
    split_seed: int = setting(
        0, "Seed for held_out, train_rows and labels_per_class, independent of --seeds."
    )
    text: str = setting("text", "The table's text column; without a header, its number from 0.")
    text_pair: str | None = setting(None, "The column of second texts, for tasks on text pairs.")
    label: str = setting("label", "The table's label column.")
    label_delimiter: str | None = setting(
        None,
        "Separator between labels in the label column, if a text can have any number of them (multi-label).",
    )
    label_columns: tuple[str, ...] = setting(
        (),
        "Label columns, instead of label: one per label, with 1 if the label applies and 0 if not.",
    )
    columns: tuple[str, ...] = setting(
        (),
        "The text columns, instead of the task's default names. For triplets there can be several columns of "
        "negatives; for reranking, the query and its right document come before the others.",
    )
    prompts: tuple[str, ...] = setting(
        (),
        "The model's prompt for each of these columns, by name, as in query,passage; further columns use the last "
        "one.",
    )
    vectors: str | None = setting(
        None,
        f"Kind of vectors to train for texts that are compared: {', '.join(retrieval.KINDS)}; by default the model's "
        "own.",
        choices=tuple(retrieval.KINDS),
    )
    skip_unlabelled: bool = setting(
        False, "Whether to skip rows without a label instead of stopping with an error."
    )
    header: bool = setting(True, "Whether the table's first line holds column names.")
    delimiter: str | None = setting(
        None, 'Separator between fields, or "tab"; detected if not set.'
    )
    format: str | None = setting(
        None,
        "Format of a table: csv, tsv, json, jsonl, parquet or tfrecord. By default its suffix decides.",
    )
    encoding: str | None = setting(
        None, "Encoding of the files. By default their byte order mark decides, else UTF-8."
    )
    token_dir: str | None = setting(
        None,
        "Folder for texts and tokens of train_file instead of memory, for several runs and processes; by default, "
        f"from {LARGE >> 20} MiB on, bert_zoo's cache.",
    )
    source_column: str = setting("source", "The column of input texts, for text to text.")
    target_column: str = setting("target", "The column of output texts, for text to text.")
    text_metric: str = setting(
        "exact_match", "Metric that chooses the best epoch: exact_match, bleu or rouge."
    )
    mixing_limit: int = setting(
        2**19, "Maximum number of rows that a task counts in a mixture of tasks; the paper's K."
    )
    mixing_temperature: float = setting(
        1.0,
        "Temperature of a mixture of tasks, whose shares are their numbers of rows to the power 1 / temperature.",
    )
    regression: bool = setting(False, "Whether the table's labels are scores instead of classes.")
    word_column: int = setting(0, "The word column of a tagging file in columns, by number from 0.")
    tag_column: int = setting(-1, "Its tag column; -1 is the last one.")
    languages: tuple[str, ...] = setting(
        ("en",), "Languages of XNLI's training data; en is MNLI itself, others its translations."
    )
    data_sets: tuple[str, ...] = setting(
        (), "MRQA's data sets by name, as in NewsQA,TriviaQA. By default all of a split."
    )
    beam_search: bool = setting(
        False,
        "Whether to predict an answer's end from each of its likeliest starts, as XLNet's head does.",
    )

    @property
    def layout(self) -> dict[str, Any]:
        """How a table is read, as for `bert_zoo.data.tables.Table`."""
        return {name: getattr(self, name) for name in LAYOUT}


LAYOUT = ("header", "delimiter", "format", "encoding")
FILES = ("train_file", "dev_file", "test_file", "held_out", "train_rows", "split_seed")
FEW = ("labels_per_class", "split_seed")
TAG_COLUMNS = ("word_column", "tag_column")
VECTORS = ("prompts", "vectors")
TEXT_COLUMNS = ("source_column", "target_column", "text_metric")
MIXING = ("mixing_limit", "mixing_temperature")
OF_OTHERS = {
    "data_dir",
    "beam_search",
    "columns",
    "prompts",
    "vectors",
    "languages",
    "data_sets",
    *TAG_COLUMNS,
    *TEXT_COLUMNS,
    *MIXING,
}
TABLE = tuple(f.name for f in fields(DataOptions) if f.name not in OF_OTHERS)


@dataclass(frozen=True)
class Entry:
    """How to make a benchmark, and where its data come from."""

    benchmark: Callable[..., Benchmark]  # a class, or a function of `DataOptions`
    # (Options, split) -> data, for a class; None for a function.
    load: Callable[[DataOptions, str], Any] | None = None
    source: str = ""  # a phrase that says where the data come from
    measured: tuple[str, ...] = ("validation",)  # as for `Benchmark`
    # Further arguments of the class or function.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ("data_dir",)  # fields of `DataOptions` that it reads
    needs: tuple[str, ...] = ()  # required fields of `DataOptions`

    def make(self, name: str, options: DataOptions) -> Benchmark:
        if self.load is None:
            return self.benchmark(options, **self.arguments)
        own = {"beam_search": options.beam_search} if "beam_search" in self.reads else {}
        about = {"measured": self.measured, "source": self.source, **self.arguments, **own}
        return self.benchmark(name, partial(self.load, options), **about)


def _glue(name: str, data_set: glue.GlueDataSet) -> Entry:
    def write(split: str, data: Any, predictions: Any, directory: Path) -> Path:
        answers = predictions if data_set.is_regression else predictions.argmax(axis=-1)
        return glue.write_submission(name, split, answers, directory)

    labels = {} if data_set.is_regression else {"label_names": data_set.label_names}
    return Entry(
        texts.ScoreBenchmark if data_set.is_regression else texts.TextBenchmark,
        lambda options, split: glue.load_glue(name, split, options.data_dir),
        "GLUE (Wang et al. 2019)",
        data_set.measured_splits,
        {"metric": partial(glue.metrics, name), "write_official": write, **labels},
        reads=("data_dir",) if data_set.is_regression else ("data_dir", *FEW),
    )


def _trec(options: DataOptions, split: str, *, fine: bool) -> LabelledTexts:
    train, path = (Path(options.data_dir) / f"trec_{name}.txt" for name in ("train", split))
    # The test file does not have all fine classes.
    names = None if split == "train" else read_trec(train, fine=fine).label_names
    return read_trec(path, fine=fine, label_names=names)


def _squad(version: str) -> Entry:
    return Entry(
        questions.QuestionBenchmark,
        lambda options, split: load_squad(version, split, options.data_dir),
        f"SQuAD {version} (Rajpurkar et al. 2016, 2018)",
        arguments={"allows_no_answer": version == "2.0"},
        reads=("data_dir", "beam_search"),
    )


def _superglue(name: str, *, as_text: bool = False) -> Entry:
    data_set = (superglue.AS_TEXT if as_text else superglue.DATA_SETS)[name]
    of_texts = {"metric": superglue.metrics, "label_names": data_set.label_names}
    is_grouped = as_text or not data_set.has_candidates
    maker = texts.GroupedBenchmark if is_grouped else texts.CandidateBenchmark
    return Entry(
        texts.ChoiceBenchmark if data_set.is_choice else maker,
        lambda options, split: superglue.load_superglue(
            name, split, options.data_dir, as_text=as_text
        ),
        "SuperGLUE (Wang et al. 2019)",
        arguments={
            "write_official": lambda split, *written: superglue.write_submission(name, *written),
            **({} if data_set.is_choice else of_texts),
        },
    )


_FOLDER = {"needs": ("data_dir",)}


def _conll(name: str, **more: Any) -> Entry:
    return Entry(
        tagging.TaggingBenchmark,
        lambda options, split: load_conll(name, split, options.data_dir),
        f"the shared task of CoNLL-{name[-4:]}",
        **_FOLDER,
        **more,
    )


# TREC has no development split, so the last epoch's weights are kept.
_TREC = {
    "source": "TREC's questions (Li and Roth 2002)",
    "measured": ("test",),
    "reads": ("data_dir", *FEW),
    **_FOLDER,
}
_OWN = {"needs": ("train_file",)}


def _columns(maker: Callable[..., Benchmark], *more: str, **arguments: Any) -> Entry:
    reads = (*FILES, *LAYOUT, "columns", "token_dir", *more)
    return Entry(maker, arguments=arguments, reads=reads, **_OWN)


BENCHMARKS: Mapping[str, Entry] = {
    "messages": Entry(
        texts.TextBenchmark,
        lambda options, split: LabelledTexts(*messages.load(split), messages.LABELS),
        "the messages that ship with bert_zoo",
        measured=("test",),
        reads=FEW,
    ),
    **{name: _glue(name, data_set) for name, data_set in glue.DATA_SETS.items()},
    **{
        # GLUE has the same RTE pairs in its own files.
        "superglue_rte" if name in glue.DATA_SETS else name: _superglue(name)
        for name in superglue.DATA_SETS
    },
    "snli": Entry(
        texts.TextBenchmark,
        lambda options, split: nli.load_snli(split, options.data_dir),
        "SNLI (Bowman et al. 2015)",
        arguments={"label_names": glue.NLI_LABELS},
        reads=("data_dir", *FEW),
    ),
    "xnli": Entry(
        texts.GroupedBenchmark,
        lambda options, split: nli.load_xnli(split, options.data_dir, options.languages),
        "XNLI (Conneau et al. 2018)",
        arguments={"label_names": glue.NLI_LABELS, "metric": nli.accuracies},
        reads=("data_dir", "languages", *FEW),
    ),
    "trec": Entry(texts.TextBenchmark, partial(_trec, fine=False), **_TREC),
    "trec_fine": Entry(texts.TextBenchmark, partial(_trec, fine=True), **_TREC),
    "table": Entry(texts.table_benchmark, reads=TABLE, **_OWN),
    "pairs": _columns(retrieval.pairs_benchmark, *VECTORS),
    "triplets": _columns(
        retrieval.pairs_benchmark, *VECTORS, columns=("anchor", "positive", "negative")
    ),
    "scores": _columns(retrieval.scores_benchmark, *VECTORS, "label"),
    "reranking": _columns(retrieval.reranking_benchmark, "label"),
    "beir": Entry(retrieval.beir_benchmark, reads=("data_dir", *VECTORS), **_FOLDER),
    "conll2000": _conll("conll2000", measured=("test",)),
    "conll2003": _conll("conll2003"),
    "text": Entry(text_to_text.table_benchmark, reads=(*FILES, *LAYOUT, *TEXT_COLUMNS), **_OWN),
    "tagging": Entry(tagging.tagging_benchmark, reads=(*FILES, *TAG_COLUMNS, "encoding"), **_OWN),
    "entities": Entry(entities.entity_benchmark, reads=(*FILES, "encoding"), **_OWN),
    "squad_v1": _squad("1.1"),
    "squad_v2": _squad("2.0"),
    "mrqa": Entry(
        questions.QuestionBenchmark,
        lambda options, split: load_mrqa(split, options.data_dir, options.data_sets),
        "MRQA 2019 (Fisch et al. 2019)",
        arguments={"allows_no_answer": False},
        reads=("data_dir", "data_sets", "beam_search"),
        **_FOLDER,
    ),
    "questions": Entry(questions.questions_benchmark, reads=(*FILES, "beam_search"), **_OWN),
    "swag": Entry(
        texts.ChoiceBenchmark,
        lambda options, split: load_swag(split, options.data_dir),
        "SWAG (Zellers et al. 2018)",
        **_FOLDER,
    ),
    "race": Entry(
        texts.ChoiceBenchmark,
        lambda options, split: load_race(split, "all", options.data_dir).as_choices(),
        "RACE (Lai et al. 2017)",
        **_FOLDER,
    ),
}

# Prefix of the names of one or more benchmarks that a text-to-text model learns.
TEXT_PREFIX = "text:"


def _named(entries: Mapping[str, Any]) -> str:
    """The names of benchmarks, those of the user's own files first."""
    own = [
        name
        for name, entry in entries.items()
        if isinstance(entry, Entry) and entry.needs == ("train_file",)
    ]
    others = ", ".join(name for name in entries if name not in own)
    if not own:
        return f"Choose one of {others}"
    return f"For your own {own[0]}: {own[0]}; for other files of yours: {', '.join(own[1:])}; for a benchmark: {others}"


# For messages.
TASK_NAMES = f"{_named(BENCHMARKS)}; text:NAME for text to text"


# Name -> the benchmark's entry, and what makes it a benchmark of text to text.
TEXT_BENCHMARKS: Mapping[str, tuple[Entry, Callable[[Benchmark], text_to_text.AsText]]] = {
    **{
        name: (
            BENCHMARKS[name],
            partial(
                text_to_text.ScoresAsText if data_set.is_regression else text_to_text.AsText,
                template=glue.AS_TEXT[name],
                features=data_set.features,
            ),
        )
        for name, data_set in glue.DATA_SETS.items()
    },
    **{
        "superglue_rte" if name in glue.DATA_SETS else name: (
            _superglue(name, as_text=True),
            {"wsc": text_to_text.NounsAsText, "record": text_to_text.EntitiesAsText}.get(
                name, text_to_text.AsText
            ),
        )
        for name in superglue.AS_TEXT
    },
    "squad_v1": (BENCHMARKS["squad_v1"], text_to_text.AnswersAsText),
}


def _entry(name: str) -> Entry:
    if not name.startswith(TEXT_PREFIX):
        _check_known("There is no task", name, BENCHMARKS)
        return BENCHMARKS[name]
    names = name.removeprefix(TEXT_PREFIX).split(",")
    for each in names:
        _check_known("There is no text-to-text task", each, TEXT_BENCHMARKS)
    forms = {each: TEXT_BENCHMARKS[each] for each in names}
    return Entry(text_to_text.as_text, reads=("data_dir", *MIXING), arguments={"forms": forms})


def _check_known(problem: str, name: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise ValueError(f"{problem} {name!r}.{nearest(name, known)} {_named(known)}.")


def make_task(name: str, **options: Any) -> Benchmark:
    """Makes a benchmark with the given `DataOptions`; ValueError if it does not read one, or needs another one.

    `name` is a key of `BENCHMARKS`; or, for a text-to-text model, "text:" and one or more keys of `TEXT_BENCHMARKS`,
    separated by commas.
    """
    row = _entry(name)
    given = DataOptions(**options)
    said = [f.name for f in fields(given) if getattr(given, f.name) != f.default]
    if unread := [option for option in said if option not in row.reads]:
        raise ValueError(
            f"The task {name!r} does not read {_as_flags(unread)}. Leave that out; it reads {_as_flags(row.reads)}."
        )
    if missing := [option for option in row.needs if option not in said]:
        raise ValueError(
            f"The task {name!r} needs {_as_flags(missing)}. Add it, for example --{missing[0]} PATH."
        )
    task = row.make(name, given)
    if given.labels_per_class:
        task.data = cache(partial(_of_few_labels, task.data, given))
    return task


def _as_flags(options: Sequence[str]) -> str:
    return ", ".join(f"--{option}" for option in options)


def read_files(task: Benchmark, options: Mapping[str, Any], *splits: str) -> None:
    """Reads a task's files, by default for training, so that a mistake in them is found before TensorFlow is imported.

    Data that the options name no files for may be downloaded, which needs TensorFlow, so they are read later.
    """
    train = options.get("train_file")
    in_memory = train and "token_dir" not in _entry(options["name"]).reads
    if in_memory and (size := Path(train).stat().st_size) >= LARGE:
        message = "%s has %d MiB and is read into memory: the task %s keeps no texts on disk."
        log.warning(message, train, size >> 20, options["name"])
    if train or options.get("data_dir"):
        for split in splits or ("train", *task.measured):
            task.data(split)


def _of_few_labels(read: Callable[[str], Any], options: DataOptions, split: str) -> Any:
    """Reads a split; of the training split, `labels_per_class` texts of each class."""
    from bert_zoo.cli.benchmarks.few_labels import few_of_each_class

    data = read(split)
    if split != "train":
        return data
    return few_of_each_class(data, options.labels_per_class, options.split_seed)
