"""`bert_zoo predict --file`: predictions for a table of texts, one part at a time."""

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from tqdm import tqdm

from bert_zoo import tasks
from bert_zoo.cli.benchmarks.embeddings import row_cosines
from bert_zoo.data.tables import TextRow
from bert_zoo.error_text import quoted
from bert_zoo.runtime.rankings import SCORE_ACTIVATIONS
from bert_zoo.weights.files import replacing

if TYPE_CHECKING:
    from bert_zoo.models.base import ZooModel

ROWS_AT_ONCE = 1024

Record = dict[str, Any]


def predict_file(
    model: "ZooModel",
    rows: Iterable[TextRow],
    output: str | Path,
    *,
    all_scores: bool = False,
    no_answer_threshold: float | None = None,
    batch_size: int = 32,
) -> int:
    """Writes a model's predictions for the rows of a table.

    The file appears once it is complete. Memory does not grow with the number of rows.

    Args:
        model: a model whose task predicts from texts.
        rows: one text per row, or two for a pair; for questions, the question and its context. Their other
            values are written after the texts, named "input_..." if a prediction has their name.
        output: the file. Its suffix decides the format: CSV, TSV or JSON Lines.
        all_scores: whether to write a column with the probability of each class.
        no_answer_threshold: as for `answer`.
        batch_size: texts per step.

    Returns:
        The number of rows written.

    Raises:
        ValueError: the suffix is unknown, or the task does not predict from such rows.
    """
    output = check_output(output)
    written, rows = 0, iter(rows)
    with (
        replacing(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
        tqdm(unit=" rows", disable=None) as progress,
    ):
        write = WRITERS[output.suffix.lower()](file)
        while part := list(islice(rows, ROWS_AT_ONCE)):
            columns = tuple(map(list, zip(*(row.texts for row in part), strict=True)))
            answers = _answers(model, columns, all_scores, no_answer_threshold, batch_size)
            names = ("question", "context") if _asks(model) else ("text", "text_pair")
            for row, answer in zip(part, answers, strict=True):
                texts = dict(zip(names, row.texts, strict=False))
                write(texts | _renamed(row.others, {*texts, *answer}), answer)
            written += len(part)
            progress.update(len(part))
    return written


def _renamed(others: Record, taken: Collection[str]) -> Record:
    """A table's own columns, under other names than the texts and predictions."""
    return {f"input_{n}" if n in taken else n: value for n, value in others.items()}


def check_output(output: str | Path) -> Path:
    """Returns the path of a file; raises ValueError if its suffix is unknown."""
    output = Path(output)
    if output.suffix.lower() not in WRITERS:
        raise ValueError(
            f"output is {str(output)!r}, but the format is chosen by its suffix. Use one of {', '.join(WRITERS)}."
        )
    return output


def _asks(model: "ZooModel") -> bool:
    return isinstance(model, tasks.QuestionAnswerer)


def _answers(
    model: "ZooModel",
    columns: tuple[list[str], ...],
    all_scores: bool,
    no_answer_threshold: float | None,
    batch_size: int,
) -> Iterator[Record]:
    """Yields the prediction for each row: column -> value."""
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
            for text in model.generate(texts, batch_size=batch_size, num_return_sequences=1):
                yield {"generated_text": text}
        case tasks.SentenceEmbedder() | tasks.Reranker() if len(columns) == 2:
            for score in pair_scores(model, *columns, batch_size):
                yield {"score": float(score)}
        case _:
            which = "pairs of texts" if len(columns) > 1 else "single texts"
            raise ValueError(
                f"A model of task {model.task!r} cannot predict a table of {which}. Check --text_pair."
            )


def pair_scores(
    model: "ZooModel", first: Sequence[str], second: Sequence[str], batch_size: int = 32
) -> np.ndarray:
    """Returns the cosine of each row's two texts, or a reranker's score of query and document, [N]."""
    first, second = list(first), list(second)
    if isinstance(model, tasks.SentenceEmbedder):
        return row_cosines(*(model.embed(texts, batch_size) for texts in (first, second)))
    logits = model.predict((first, second), batch_size=batch_size, verbose=0)[:, 0]
    return SCORE_ACTIVATIONS[model.score_activation](logits)


def _scores(row: Any, all_scores: bool) -> Record:
    """Returns a column per class, with a prefix that keeps it apart from other columns."""
    return {f"score_{label}": score for label, score in row.scores.items()} if all_scores else {}


# --- Writers of rows: functions of a row's own values and of its predictions ---

_Write = Callable[[Record, Record], None]


def _separated(file: TextIO, delimiter: str) -> _Write:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    columns: list[str] = []

    def write(given: Record, predicted: Record) -> None:
        if not columns:
            columns.extend(given)
            writer.writerow([*given, *predicted])
        if more := [name for name in given if name not in columns]:
            raise ValueError(
                f"A row has the columns {quoted(more)}, which the first row does not have. Write them as JSON "
                "Lines: --output FILE.jsonl."
            )
        rounded = (f"{v:.6f}" if isinstance(v, float) else v for v in predicted.values())
        writer.writerow(map(_cell, chain((given.get(name) for name in columns), rounded)))

    return write


def _cell(value: Any) -> Any:
    """Formats a value for CSV and TSV."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _json_lines(file: TextIO) -> _Write:
    def write(given: Record, predicted: Record) -> None:
        # Parquet has dates and other values that JSON does not know.
        file.write(json.dumps(given | predicted, ensure_ascii=False, default=str) + "\n")

    return write


WRITERS: Mapping[str, Callable[[TextIO], _Write]] = {
    ".csv": partial(_separated, delimiter=","),
    ".tsv": partial(_separated, delimiter="\t"),
    ".jsonl": _json_lines,
}
