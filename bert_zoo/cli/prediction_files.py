"""`bert_zoo predict --file`: a table of texts to a table of predictions, a part of it at a time."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from bert_zoo import tasks
from bert_zoo.cli.benchmarks.embeddings import row_cosines
from bert_zoo.models.base import ZooModel
from bert_zoo.runtime.rankings import SCORE_ACTIVATIONS
from bert_zoo.weights.files import replacing

ROWS_AT_ONCE = 1024

Record = dict[str, Any]


def predict_file(
    model: ZooModel,
    rows: Iterable[tuple[str, ...]],
    output: str | Path,
    *,
    all_scores: bool = False,
    no_answer_threshold: float | None = None,
    batch_size: int = 32,
) -> int:
    """Writes what a model says of the rows of a table.

    The file appears when all of it is written. Memory does not grow with the number of rows.

    Args:
        model: of a task with a verb for texts.
        rows: the text of each row, or the two of a pair; of questions, the question and its context.
        output: the file: CSV, TSV or JSON Lines, by its suffix.
        all_scores: whether every class has a column with its probability.
        no_answer_threshold: as for `answer`.
        batch_size: texts a step.

    Returns:
        How many rows were written.

    Raises:
        ValueError: a file of this suffix is not written, or the task has no such verb.
    """
    output = Path(output)
    if output.suffix.lower() not in WRITERS:
        raise ValueError(
            f"output is {str(output)!r}; its suffix says how it is written: {', '.join(WRITERS)}."
        )
    write, written, rows = WRITERS[output.suffix.lower()], 0, iter(rows)
    with (
        replacing(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
        tqdm(unit=" rows", disable=None) as progress,
    ):
        while part := list(islice(rows, ROWS_AT_ONCE)):
            columns = tuple(map(list, zip(*part, strict=True)))
            answers = _answers(model, columns, all_scores, no_answer_threshold, batch_size)
            names = ("question", "context") if _asks(model) else ("text", "text_pair")
            records = [
                dict(zip(names, texts, strict=False)) | answer
                for texts, answer in zip(part, answers, strict=True)
            ]
            write(file, records)
            written += len(part)
            progress.update(len(part))
    return written


def _asks(model: ZooModel) -> bool:
    return isinstance(model, tasks.QuestionAnswerer)


def _answers(
    model: ZooModel,
    columns: tuple[list[str], ...],
    all_scores: bool,
    no_answer_threshold: float | None,
    batch_size: int,
) -> Iterator[Record]:
    """What the model's verb says of each row, with names of columns."""
    texts = columns if len(columns) > 1 else columns[0]
    match model:
        case tasks.MultiLabelClassifier():
            for row in model.classify(texts, batch_size):
                yield {"labels": [*row.labels], **_scores(row, all_scores)}
        case tasks.Classifier():
            for row in model.classify(texts, batch_size):
                yield {"label": row.label, "score": row.score, **_scores(row, all_scores)}
        case tasks.Regressor():
            for score in model.predict(texts, batch_size=batch_size, verbose=0)[:, 0]:
                yield {"score": float(score)}
        case tasks.TokenClassifier():
            for row in model.tag(texts, batch_size=batch_size):
                words = {"words": [word.text for word in row.words], "tags": row.labels}
                yield words | {"spans": [asdict(span) for span in row.spans or ()]}
        case tasks.QuestionAnswerer():
            options = {"no_answer_threshold": no_answer_threshold, "batch_size": batch_size}
            for row in model.answer(*columns, **options):
                yield {"answer": row.text, "score": row.score, "start": row.start, "end": row.end}
        case tasks.TextToText() if len(columns) == 1:
            for text in model.generate(texts, batch_size=batch_size):
                yield {"generated_text": text}
        case tasks.SentenceEmbedder() | tasks.Reranker() if len(columns) == 2:
            for score in pair_scores(model, *columns, batch_size):
                yield {"score": float(score)}
        case _:
            raise ValueError(f"A model of task {model.task!r} gives no table of answers.")


def pair_scores(
    model: ZooModel, first: Sequence[str], second: Sequence[str], batch_size: int = 32
) -> np.ndarray:
    """The cosine of each row's two texts, or a reranker's score of a query and a document, [N]."""
    first, second = list(first), list(second)
    if isinstance(model, tasks.SentenceEmbedder):
        return row_cosines(*(model.embed(texts, batch_size) for texts in (first, second)))
    logits = model.predict((first, second), batch_size=batch_size, verbose=0)[:, 0]
    return SCORE_ACTIVATIONS[model.score_activation](logits)


def _scores(row: Any, all_scores: bool) -> Record:
    """A column for each class, whose name cannot be that of another column."""
    return {f"score_{label}": score for label, score in row.scores.items()} if all_scores else {}


# --- Files: each function writes some records; all of a file have the same columns ---


def _separated(file: TextIO, records: list[Record], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    if file.tell() == 0:
        writer.writerow(records[0])
    writer.writerows(map(_cell, record.values()) for record in records)


def _cell(value: Any) -> Any:
    """A value of a table without lists."""
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return value


def _json_lines(file: TextIO, records: list[Record]) -> None:
    file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


WRITERS: Mapping[str, Callable[[TextIO, list[Record]], None]] = {
    ".csv": partial(_separated, delimiter=","),
    ".tsv": partial(_separated, delimiter="\t"),
    ".jsonl": _json_lines,
}
