"""Predicts with a model that `bert_zoo finetune` trained.

bert_zoo predict --run runs/minilm_l6-messages "Where is my parcel?"
echo "Where is my parcel?" | bert_zoo predict --run runs/minilm_l6-messages
bert_zoo predict --run runs/minilm_l6-rte --second "It rained." "It poured all day."
bert_zoo predict --run runs/minilm_l6-tags "Rockwell said the agreement calls for it ."
bert_zoo predict --run runs/minilm_l6-squad --context passage.txt "Who wrote it?"
bert_zoo predict --run runs/bert_nano "The capital of France is [MASK]."
bert_zoo predict --run runs/minilm_l6-pairs "a query" "one document" "another one"

To predict a whole table (CSV, TSV, JSON, JSON Lines, Parquet) and write a table (CSV, TSV, JSON Lines) that
keeps all other columns:

bert_zoo predict --run runs/tickets --file tickets.csv --text message --output predictions.csv

For questions, --text names the column of questions and --text_pair the column of contexts.
"""

import csv
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from bert_zoo.cli import program
from bert_zoo.cli.benchmarks import DataOptions
from bert_zoo.cli.benchmarks.questions import THRESHOLD
from bert_zoo.cli.program import Program
from bert_zoo.data.tables import TextRow, text_rows
from bert_zoo.error_text import quoted
from bert_zoo.weights.files import replacing

ROWS_AT_ONCE = 1024

Record = dict[str, Any]


def predict_file(model: Any, rows: Iterable[TextRow], output: str | Path, **options: Any) -> int:
    """Writes a model's predictions for the rows of a table, and returns their number.

    The file appears once it is complete. Memory does not grow with the number of rows. A row has one text, or two for a
    pair; for questions, the question and its context. Their other values are written after the texts, named "input_..."
    if a prediction has their name. The suffix of `output` decides the format: CSV, TSV or JSON Lines. Options are as for
    `ZooModel.prediction_rows`.
    """
    output, written = check_output(output), 0
    with (
        replacing(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
        tqdm(predicted_rows(model, rows, **options), unit=" rows", disable=None) as progress,
    ):
        write = WRITERS[output.suffix.lower()](file)
        for row in progress:
            write(*row)
            written += 1
    return written


def predicted_rows(
    model: Any, rows: Iterable[TextRow], **options: Any
) -> Iterator[tuple[Record, Record]]:
    """Yields each row's own values and its predictions, as `predict_file` writes them."""
    rows = iter(rows)
    names = (*dict(model.interface.texts), "text_pair")
    while part := list(islice(rows, ROWS_AT_ONCE)):
        columns = map(list, zip(*(row.texts for row in part), strict=True))
        answers = model.prediction_rows(*columns, **options)
        for row, answer in zip(part, answers, strict=True):
            texts = dict(zip(names, row.texts, strict=False))
            yield texts | _renamed(row.others, {*texts, *answer}), answer


def _renamed(others: Record, taken: Collection[str]) -> Record:
    """A table's own columns, under other names than the texts and predictions."""
    return {f"input_{n}" if n in taken else n: value for n, value in others.items()}


def check_output(output: str | Path) -> Path:
    """The path of a file; ValueError if its suffix is unknown."""
    output = Path(output)
    if output.suffix.lower() not in WRITERS:
        raise ValueError(
            f"output is {str(output)!r}, but the format is chosen by its suffix. Use one of {', '.join(WRITERS)}."
        )
    return output


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


# The format of a table.
TABLE_FIELDS = ("text", "text_pair", "delimiter", "format", "header", "encoding")

PROGRAM = Program(__doc__, required=("run",), takes_arguments=True)
_RUN = PROGRAM.string("run", None, "The run directory.", check=program.run)
_SECOND = PROGRAM.string("second", None, "The second text of every pair, for tasks on pairs.")
_CONTEXT = PROGRAM.string(
    "context", None, "File of the text to search for answers.", check=program.exists
)
_FILE = PROGRAM.string(
    "file", None, "A table of texts, instead of arguments.", check=program.exists
)
_OUTPUT = PROGRAM.string("output", None, "The file for its predictions: .csv, .tsv or .jsonl.")
_ALL_SCORES = PROGRAM.bool("all_scores", False, "Also write the probability of every class.")
_BATCH_SIZE = PROGRAM.integer("batch_size", 32, "Texts per step.")
PROGRAM.groups = {
    "Main flags": ("run", "second", "context"),
    "Tables": (
        *("file", "output", "all_scores", "batch_size"),
        *PROGRAM.define_fields(DataOptions, TABLE_FIELDS),
    ),
}


def main(arguments: list[str]) -> None:
    if (_FILE.value is None) != (_OUTPUT.value is None):
        raise ValueError(
            "Give --file, a table of texts, and --output, a file for predictions, together."
        )
    if _FILE.value is not None and arguments:
        raise ValueError(
            f"Give texts as arguments or as a --file, not both; the arguments are {arguments[:3]}."
        )
    texts = arguments
    if _FILE.value is None and not texts:
        texts = [line.rstrip("\n") for line in sys.stdin]
        if not texts:
            raise ValueError(
                "Give texts as arguments, one per line on standard input, or as a table with --file."
            )
    PROGRAM.check()
    if _FILE.value is not None:
        check_output(_OUTPUT.value)
        next(table_rows(), None)  # an error if a column is missing
    from bert_zoo.cli import finetuning
    from bert_zoo.loading.locating import kept_metrics

    directory = Path(_RUN.value)
    model = finetuning.kept_model(directory)
    threshold = kept_metrics(directory).get(THRESHOLD)
    if _FILE.value is None:
        print(answer(model, texts, threshold))
        return
    options = {"all_scores": _ALL_SCORES.value, "batch_size": _BATCH_SIZE.value}
    written = predict_file(
        model, table_rows(), _OUTPUT.value, no_answer_threshold=threshold, **options
    )
    print(f"Wrote {written:,} rows to {_OUTPUT.value}.")


def table_rows() -> Iterator[TextRow]:
    return text_rows(_FILE.value, **PROGRAM.given(DataOptions))


def answer(model: Any, texts: list[str], no_answer_threshold: float | None) -> Any:
    """A model's predictions for texts, to print."""
    second = None if _SECOND.value is None else [_SECOND.value] * len(texts)
    path = _CONTEXT.value
    context = None if path is None else Path(path).read_text(encoding="utf-8")
    return model.printed_predictions(
        texts, second, context=context, no_answer_threshold=no_answer_threshold
    )
