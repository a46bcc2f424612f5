"""SuperGLUE's eight tasks and two diagnostic sets: files, metrics and submissions.

SuperGLUE: Wang et al., "SuperGLUE: A Stickier Benchmark for General-Purpose Language Understanding
Systems", NeurIPS 2019 (arXiv:1905.00537). Texts are composed as in its baselines; metrics and submissions
follow its toolkit, nyu-mll/jiant-v1-legacy (jiant/tasks/qa.py, tasks.py, evaluate.py). The baselines read
WiC and WSC from vectors of marked words. Here both are texts: WiC has its word before the first sentence,
and WSC has * around the noun and # around the pronoun, as in T5 (arXiv:1910.10683).

Only downloads through `tensorflow_datasets` import TensorFlow.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bert_zoo.data import files
from bert_zoo.data.choices import ChoiceSplit
from bert_zoo.data.tables import LabelledTexts
from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.json_files import as_object, member
from bert_zoo.metrics.labels import accuracy, binary_f1, macro_f1, pearson
from bert_zoo.metrics.squad import exact_match, token_f1

_FILES = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}
_BOOL = ("False", "True")
_ENTAILMENT = ("entailment", "not_entailment")
_PREMISE = ("{premise}", "{hypothesis}")

Record = Mapping[str, Any]
Rows = Callable[[Record, str], Iterator[Record]]


@dataclass(frozen=True)
class SuperGlueSplit(LabelledTexts):
    """One split of a task, in the order of its file; labels are None if they are not public."""

    task: str = ""
    # `idx` of each row [N]: one number; for MultiRC paragraph, question and answer; for ReCoRD passage,
    # query and the entity's number in sorted order.
    indices: list[tuple[int, ...]] = field(default_factory=list)
    # For ReCoRD, the entity in the query's gap [N], and the right entities for it [N]; for WSC as text, the
    # noun [N].
    entities: list[str] = field(default_factory=list)
    right: list[tuple[str, ...]] = field(default_factory=list)


def load_superglue(
    task: str, split: str, data_dir: str | Path | None = None, *, as_text: bool = False
) -> SuperGlueSplit | ChoiceSplit:
    """Reads one split of a SuperGLUE task.

    Args:
        task: "boolq", "cb", "copa", "multirc", "record", "rte", "wic", "wsc", or a diagnostic set, "axb" or
            "axg".
        split: "train", "validation" or "test"; for the diagnostic sets "test".
        data_dir: folder that contains SuperGLUE's folders (BoolQ, CB, ...) with their .jsonl files.
            Without it, `tensorflow_datasets` downloads the task; rows are then ordered by `idx`.
        as_text: whether to return single texts as T5 reads them (`AS_TEXT`), with one row per query of ReCoRD.

    Returns:
        Texts or pairs with labels, one row per answer of MultiRC and per entity of ReCoRD; for COPA
        prompts with two choices.

    Raises:
        ValueError: the task or split is unknown, or a line does not have SuperGLUE's form. Names file and line.
        FileNotFoundError: `data_dir` does not contain the file.
        RuntimeError: the download failed.
    """
    files.check_known("SuperGLUE has no task", task, DATA_SETS)
    of_task = (AS_TEXT if as_text else DATA_SETS)[task]
    files.check_known(f"{task} has no split", split, of_task.files)
    records = _downloaded(of_task, split) if data_dir is None else _read(of_task, split, data_dir)
    columns: list[list[str]] = [[] for _ in of_task.texts]
    labels, indices, entities, right = [], [], [], []
    for place, record in records:
        for row in of_task.rows(record, place):
            for column, text in zip(columns, of_task.texts, strict=True):
                column.append(text.format_map(_Fields(row, place)))
            labels.append((place, row.get("label")))
            indices.append(of_task.index_of(row, place))
            if "entity" in row:
                entities.append(row["entity"])
                right.append(row.get("answers", ()))
    ids = _label_ids(of_task, labels, may_be_hidden=split == "test")
    if of_task.is_choice:
        prompts, *choices = columns
        names = [str(index) for (index,) in indices]
        return ChoiceSplit(names, prompts, [list(row) for row in zip(*choices, strict=True)], ids)
    texts = columns[0] if len(columns) == 1 else tuple(columns)
    return SuperGlueSplit(texts, ids, of_task.label_names, (), 0, task, indices, entities, right)


class _Fields:
    """The texts of a record, checked on access."""

    def __init__(self, record: Record, place: str):
        self.record, self.place = record, place

    def __getitem__(self, name: str) -> str:
        return files.text_member(self.record, name, self.place)


def _label_ids(
    of_task: "SuperGlueTask", labels: Sequence[tuple[str, Any]], may_be_hidden: bool
) -> list[int] | None:
    """Ids of (place, label) pairs; None if all labels are hidden."""
    if may_be_hidden and all(label in (None, -1) for _, label in labels):
        return None
    names = of_task.label_names
    # Booleans and numbers are ids; files spell the names of other classes.
    ids = {name: i for i, name in enumerate(names)} | {i: i for i in range(len(names))}
    for place, label in labels:
        if not isinstance(label, str | int) or label not in ids:
            raise ValueError(
                f"{place}: the label is {shown(label)}; it must be one of {list(names)} or its number."
            )
    return [ids[label] for _, label in labels]


def _read(of_task: "SuperGlueTask", split: str, data_dir: str | Path) -> list[tuple[str, Record]]:
    """Place and record of each row, in tensorflow_datasets' form."""
    path = files.require_file(
        Path(data_dir) / of_task.directory / of_task.files[split],
        advice=f"data_dir must contain SuperGLUE's folder {of_task.directory}. Without data_dir the task "
        "is downloaded.",
    )
    records = [
        (place, record)
        for place, value in files.json_lines(path)
        for record in of_task.flat(as_object(value, place), place)
    ]
    if not records:
        raise ValueError(f"{path} has no rows. Check that this is the right file.")
    return records


def _downloaded(of_task: "SuperGlueTask", split: str) -> list[tuple[str, Record]]:
    name = f"super_glue/{of_task.name}"
    folder = f"the folder that contains SuperGLUE's folder {of_task.directory}"
    examples = [_plain(example) for example in files.download(name, split, folder)]
    examples.sort(key=lambda example: of_task.index_of(example, name))
    return [(f"{name}, {split}, idx {example['idx']}", example) for example in examples]


def _plain(value: Any) -> Any:
    """Converts a value of tensorflow_datasets to JSON's types."""
    match value:
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case np.ndarray():
            return _plain(value.tolist())
        case list():
            return [_plain(each) for each in value]
        case bytes():
            return value.decode("utf-8")
        case np.integer():
            return int(value)
    return value


# --- From a line of a file to flat records in tensorflow_datasets' form ---


def _as_it_is(record: Record, place: str) -> Iterator[Record]:
    yield record


def _answers_of_questions(record: Record, place: str) -> Iterator[Record]:
    passage = member(record, "passage", dict, place)
    for question in member(passage, "questions", list, place):
        for answer in member(question, "answers", list, place):
            names = {"paragraph": record, "question": question, "answer": answer}
            yield {
                "paragraph": passage.get("text"),
                "question": question.get("question"),
                "answer": files.text_member(answer, "text", place),
                "label": answer.get("label"),
                "idx": {name: member(part, "idx", int, place) for name, part in names.items()},
            }


def _queries(record: Record, place: str) -> Iterator[Record]:
    passage = member(record, "passage", dict, place)
    text = files.text_member(passage, "text", place)
    spans = member(passage, "entities", list, place)
    # `end` is the position of the last character.
    ends = [[member(span, name, int, place) for name in ("start", "end")] for span in spans]
    entities = {text[start : end + 1] for start, end in ends}
    for query in member(record, "qas", list, place):
        answers = {files.text_member(answer, "text", place) for answer in query.get("answers", ())}
        yield {
            "passage": text,
            "query": query.get("query"),
            "entities": sorted(entities),
            "answers": sorted(answers),
            "idx": {
                "passage": member(record, "idx", int, place),
                "query": member(query, "idx", int, place),
            },
        }


def _target(record: Record, place: str) -> Iterator[Record]:
    yield {**record, **member(record, "target", dict, place)}


# --- From a flat record to a model's rows ---


def _gaps_filled(record: Record, place: str) -> Iterator[Record]:
    """Yields a row with each entity in the gap of a query."""
    query, answers = files.text_member(record, "query", place), tuple(record["answers"])
    if "@placeholder" not in query:
        raise ValueError(f"{place}: the query {shown(query)} has no '@placeholder'.")
    if not record["entities"]:
        raise ValueError(f"{place}: the passage has no entities, so no query can be answered.")
    for number, entity in enumerate(record["entities"]):
        yield {
            "passage": record["passage"],
            "filled": query.replace("@placeholder", entity),
            "entity": entity,
            "answers": answers,
            "label": entity in answers if answers else None,
            "idx": {**record["idx"], "entity": number},
        }


_MARKS = {"span1": "*", "span2": "#"}
_ASKED = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


def _question_asked(record: Record, place: str) -> Iterator[Record]:
    kind = record.get("question")
    check(f"{place}: the question", kind, str, choices=_ASKED)
    yield {**record, "asked": _ASKED[kind]}


def _without_markup(record: Record, place: str) -> Iterator[Record]:
    paragraph = files.text_member(record, "paragraph", place)
    yield {**record, "paragraph": re.sub("</?b>", "", paragraph.replace("<br>", " "))}


def _query_as_it_is(record: Record, place: str) -> Iterator[Record]:
    """A query with all entities; the highlights of the news article become sentences of the passage."""
    passage = re.sub(r"(?<=[.?!\"'])\n@highlight\n", " ", record["passage"])
    answers = tuple(record["answers"])
    yield {
        **record,
        "passage": passage.replace("\n@highlight\n", ". "),
        "entities": ", ".join(record["entities"]),
        "entity": "",
        "answers": answers,
        "label": True if answers else None,
    }


def _pronoun_marked(record: Record, place: str) -> Iterator[Record]:
    text = files.text_member(record, "text", place)
    start, end = _span(record, text, "span2", place)
    marked = f"{text[:start]}*{text[start:end]}*{text[end:]}"
    yield {**record, "marked": marked, "entity": files.text_member(record, "span1_text", place)}


def _spans_marked(record: Record, place: str) -> Iterator[Record]:
    text = files.text_member(record, "text", place)
    spans = [(*_span(record, text, name, place), mark) for name, mark in _MARKS.items()]
    for start, end, mark in sorted(spans, reverse=True):
        text = f"{text[:start]}{mark} {text[start:end]} {mark}{text[end:]}"
    yield {**record, "marked": text}


def _span(record: Record, text: str, name: str, place: str) -> tuple[int, int]:
    """Start and end of a span in characters; the file's index counts words separated by white space.

    Some spans differ from the text in case or white space, or cover only parts of its words.
    """
    span = files.text_member(record, f"{name}_text", place)
    parts = span.split()
    first = member(record, f"{name}_index", int, place)
    words = list(re.finditer(r"\S+", text))
    if not (parts and 0 <= first <= len(words) - len(parts)):
        raise ValueError(
            f"{place}: {name} is {shown(span)} from word {first}, but the text has {len(words)} words."
        )
    start, end = words[first].start(), words[first + len(parts) - 1].end()
    spelled = r"\s+".join(map(re.escape, parts))
    found = [m.span() for m in re.finditer(rf"(?<!\w){spelled}(?!\w)", text, re.IGNORECASE)]
    return min(found, key=lambda at: abs(at[0] - start), default=(start, end))


# --- Metrics of a split and logits [N, classes], from 0 to 1 ---


def metrics(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    """Scores logits with the official metrics of their task.

    Args:
        data: a split with labels, from `load_superglue`, of any task but COPA.
        logits: [N, classes], in the order of `data`.

    Returns:
        Metric name -> value, at most 1. The first metric is the one to select models by.
    """
    return DATA_SETS[data.task].metric(data, np.asarray(logits))


def _accuracy(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    return {"accuracy": accuracy(data.labels, logits.argmax(-1))}


def _macro_f1(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    return {"f1": macro_f1(data.labels, logits.argmax(-1)), **_accuracy(data, logits)}


def _f1_of_answers(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    """F1 of true answers, and the share of questions with only right predictions."""
    labels, answers = np.asarray(data.labels), logits.argmax(-1)
    exact = [np.array_equal(labels[rows], answers[rows]) for rows in _groups(data)]
    return {"f1a": binary_f1(labels, answers), "exact_match": fmean(exact)}


def _f1_of_entities(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    """SQuAD's F1 and exact match of each query's likeliest entity, against the best-matching right one."""
    chosen = [(data.entities[row], data.right[row]) for row in _chosen(data, logits)]
    scores = {"f1": token_f1, "exact_match": exact_match}
    return {
        name: fmean(
            max(float(score(entity, answer)) for answer in right) for entity, right in chosen
        )
        for name, score in scores.items()
    }


def _correlation(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    return {"matthews_correlation": pearson(np.asarray(data.labels), logits.argmax(-1))}


def _gender_parity(data: SuperGlueSplit, logits: np.ndarray) -> dict[str, float]:
    """Accuracy, and the share of pairs of adjacent rows with equal answers."""
    answers = logits.argmax(-1)
    return {**_accuracy(data, logits), "gender_parity": accuracy(answers[::2], answers[1::2])}


def _groups(data: SuperGlueSplit) -> list[list[int]]:
    """The rows of each question or query."""
    rows = groupby(range(len(data)), key=lambda row: data.indices[row][:2])
    return [list(group) for _, group in rows]


def _chosen(data: SuperGlueSplit, logits: np.ndarray) -> list[int]:
    """The row of each query's likeliest entity; the first one if several are equal."""
    margins = logits[:, 1] - logits[:, 0]
    return [rows[int(margins[rows].argmax())] for rows in _groups(data)]


# --- Submissions ---


def write_submission(
    task: str, data: SuperGlueSplit | ChoiceSplit, logits: np.ndarray, directory: str | Path
) -> Path:
    """Writes the predictions for a test split in the format of SuperGLUE's server.

    The server takes a zip of the files of all tasks.
    Source of names and spelling: nyu-mll/jiant-v1-legacy jiant/evaluate.py, SUPERGLUE_NAME_MAP.

    Args:
        task: as for `load_superglue`.
        data: the split, from `load_superglue`.
        logits: [N, classes], for COPA [N, choices], in the order of `data`.
        directory: where to write; created if missing.

    Returns:
        Path of the file, such as directory/BoolQ.jsonl.
    """
    of_task = DATA_SETS[task]
    path = Path(directory) / f"{of_task.directory}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = of_task.lines(of_task, data, np.asarray(logits))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def _by_row(
    of_task: "SuperGlueTask", data: SuperGlueSplit | ChoiceSplit, logits: np.ndarray
) -> Iterator[Record]:
    is_choice = isinstance(data, ChoiceSplit)
    indices = data.ids if is_choice else [index for (index,) in data.indices]
    spelled = of_task.submitted or of_task.label_names
    for index, answer in zip(indices, logits.argmax(-1), strict=True):
        yield {"idx": int(index), "label": spelled[answer]}


def _by_paragraph(
    of_task: "SuperGlueTask", data: SuperGlueSplit, logits: np.ndarray
) -> Iterator[Record]:
    labels = logits.argmax(-1).tolist()
    questions = [
        (data.indices[rows[0]], [{"idx": data.indices[i][2], "label": labels[i]} for i in rows])
        for rows in _groups(data)
    ]
    for paragraph, group in groupby(questions, key=lambda question: question[0][0]):
        answered = [{"idx": index[1], "answers": answers} for index, answers in group]
        yield {"idx": paragraph, "passage": {"questions": answered}}


def _by_query(
    of_task: "SuperGlueTask", data: SuperGlueSplit, logits: np.ndarray
) -> Iterator[Record]:
    for row in _chosen(data, logits):
        yield {"idx": data.indices[row][1], "label": data.entities[row]}


@dataclass(frozen=True)
class SuperGlueTask:
    """Files, texts, metrics and submissions of a task."""

    name: str  # here, and in TensorFlow Datasets as `super_glue/<name>`
    directory: str  # folder of its files, and name of its submission
    texts: tuple[str, ...]  # templates over a row's fields; for a choice: prompt, choices
    label_names: tuple[str, ...] = _BOOL  # classes in the order of their ids
    submitted: tuple[str | int, ...] = ()  # spelling in a submission, if it is not `label_names`
    metric: Callable[[SuperGlueSplit, np.ndarray], dict[str, float]] = _accuracy
    flat: Rows = _as_it_is
    rows: Rows = _as_it_is
    index: tuple[str, ...] = ()  # parts of `idx`, if it is not a number
    lines: Callable[..., Iterator[Record]] = _by_row  # makes the lines of a submission
    files: Mapping[str, str] = field(default_factory=lambda: _FILES)  # split -> file name
    is_choice: bool = False

    @property
    def has_candidates(self) -> bool:
        """Whether one row per query is chosen."""
        return self.lines is _by_query

    def index_of(self, record: Record, place: str) -> tuple[int, ...]:
        if not self.index:
            return (member(record, "idx", int, place),)
        return tuple(record["idx"][name] for name in self.index if name in record["idx"])


def _diagnostic(name: str, directory: str, texts: tuple[str, ...], metric: Any) -> SuperGlueTask:
    """A diagnostic set, for models trained on RTE."""
    return SuperGlueTask(
        name, directory, texts, _ENTAILMENT, metric=metric, files={"test": f"{directory}.jsonl"}
    )


DATA_SETS: Mapping[str, SuperGlueTask] = {
    row.name: row
    for row in (
        SuperGlueTask("boolq", "BoolQ", ("{passage}", "{question}"), submitted=("false", "true")),
        SuperGlueTask(
            "cb", "CB", _PREMISE, ("entailment", "contradiction", "neutral"), metric=_macro_f1
        ),
        SuperGlueTask(
            "copa", "COPA", ("{premise} {asked}", "{choice1}", "{choice2}"), ("choice1", "choice2"),
            (0, 1), rows=_question_asked, is_choice=True,
        ),
        SuperGlueTask(
            "multirc", "MultiRC", ("{paragraph}", "{question} {answer}"), metric=_f1_of_answers,
            flat=_answers_of_questions, index=("paragraph", "question", "answer"), lines=_by_paragraph,
        ),
        SuperGlueTask(
            "record", "ReCoRD", ("{passage}", "{filled}"), metric=_f1_of_entities, flat=_queries,
            rows=_gaps_filled, index=("passage", "query", "entity"), lines=_by_query,
        ),
        SuperGlueTask("rte", "RTE", _PREMISE, _ENTAILMENT),
        SuperGlueTask(
            "wic", "WiC", ("{word}: {sentence1}", "{sentence2}"), submitted=("false", "true")
        ),
        SuperGlueTask("wsc", "WSC", ("{marked}",), flat=_target, rows=_spans_marked),
        _diagnostic("axb", "AX-b", ("{sentence1}", "{sentence2}"), _correlation),
        _diagnostic("axg", "AX-g", _PREMISE, _gender_parity),
    )
}  # fmt: skip


def _as_text(name: str, source: str, **changes: Any) -> SuperGlueTask:
    return replace(DATA_SETS[name], texts=(source,), is_choice=False, **changes)


# T5's input (Raffel et al. 2020, arXiv:1910.10683, appendix D; t5/data/glue_utils.py): features mostly in
# alphabetical order; the diagnostic sets have RTE's prefix. Answers are `label_names`, for ReCoRD an entity,
# for WSC the noun that the pronoun between * refers to.
AS_TEXT: Mapping[str, SuperGlueTask] = {
    row.name: row
    for row in (
        _as_text("boolq", "boolq passage: {passage} question: {question}"),
        _as_text("cb", "cb hypothesis: {hypothesis} premise: {premise}"),
        _as_text(
            "copa", "copa choice1: {choice1} choice2: {choice2} premise: {premise} question: {question}"
        ),
        _as_text(
            "multirc", "multirc question: {question} answer: {answer} paragraph: {paragraph}",
            rows=_without_markup,
        ),
        _as_text(
            "record", "record query: {query} entities: {entities} passage: {passage}",
            rows=_query_as_it_is,
        ),
        _as_text("rte", "rte hypothesis: {hypothesis} premise: {premise}"),
        _as_text("wic", "wic sentence1: {sentence1} sentence2: {sentence2} word: {word}"),
        _as_text("wsc", "wsc: {marked}", rows=_pronoun_marked),
        _as_text("axb", "rte hypothesis: {sentence2} premise: {sentence1}"),
        _as_text("axg", "rte hypothesis: {hypothesis} premise: {premise}"),
    )
}  # fmt: skip
