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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from tqdm import tqdm

from bert_zoo import tasks
from bert_zoo.cli import program
from bert_zoo.cli.benchmarks import DataOptions
from bert_zoo.cli.benchmarks.embeddings import row_cosines
from bert_zoo.cli.program import Program
from bert_zoo.data.tables import TextRow, text_rows
from bert_zoo.error_text import quoted
from bert_zoo.runtime.answers import SCORE_ACTIVATIONS, ranking
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
    """Writes a model's predictions for the rows of a table, and returns their number.

    The file appears once it is complete. Memory does not grow with the number of rows. A row has one text, or two for a
    pair; for questions, the question and its context. Their other values are written after the texts, named "input_..."
    if a prediction has their name. The suffix of `output` decides the format: CSV, TSV or JSON Lines.
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
            asks = isinstance(model, tasks.QuestionAnswerer)
            names = ("question", "context") if asks else ("text", "text_pair")
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
    """The path of a file; ValueError if its suffix is unknown."""
    output = Path(output)
    if output.suffix.lower() not in WRITERS:
        raise ValueError(
            f"output is {str(output)!r}, but the format is chosen by its suffix. Use one of {', '.join(WRITERS)}."
        )
    return output


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
    """The cosine of each row's two texts, or a reranker's score of query and document, [N]."""
    first, second = list(first), list(second)
    if isinstance(model, tasks.SentenceEmbedder):
        return row_cosines(*(model.embed(texts, batch_size) for texts in (first, second)))
    logits = model.predict((first, second), batch_size=batch_size, verbose=0)[:, 0]
    return SCORE_ACTIVATIONS[model.score_activation](logits)


def _scores(row: Any, all_scores: bool) -> Record:
    """A column per class, with a prefix that keeps it apart from other columns."""
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
    metrics = kept_metrics(directory)
    if _FILE.value is None:
        print(answer(model, texts, metrics))
    else:
        predict_table(model, metrics)


def table_rows() -> Iterator[TextRow]:
    return text_rows(_FILE.value, **PROGRAM.given(DataOptions))


def predict_table(model: Any, metrics: dict[str, float]) -> None:
    from bert_zoo.cli.benchmarks.questions import THRESHOLD

    written = predict_file(
        model,
        table_rows(),
        _OUTPUT.value,
        all_scores=_ALL_SCORES.value,
        no_answer_threshold=metrics.get(THRESHOLD),
        batch_size=_BATCH_SIZE.value,
    )
    print(f"Wrote {written:,} rows to {_OUTPUT.value}.")


def answer(model: Any, texts: list[str], metrics: dict[str, float]) -> Any:
    """A model's predictions for texts, to print."""
    rows = texts if _SECOND.value is None else (texts, [_SECOND.value] * len(texts))
    match model:
        case tasks.Classifier():
            return model.classify(rows)
        case tasks.Regressor():
            scores = model.predict(rows, verbose=0)[:, 0]
            return "\n".join(f"{s:.3f}  {text}" for s, text in zip(scores, texts, strict=True))
        case tasks.TokenClassifier():
            return model.tag(texts)
        case tasks.MultipleChoice():
            return chosen(model, *texts)
        case tasks.QuestionAnswerer():
            return answers(model, texts, metrics)
        case tasks.SentenceEmbedder() | tasks.Reranker() if _SECOND.value is not None:
            scores = pair_scores(model, *rows)
            return "\n".join(f"{s:.3f}  {text}" for s, text in zip(scores, texts, strict=True))
        case tasks.SentenceEmbedder() | tasks.Reranker():
            return ranked(model, *texts)
        case tasks.MaskedLM() | tasks.Pretraining():
            return "\n\n".join(f"{text}\n{model.fill_mask(text)}" for text in texts)
        case tasks.TextToText():
            return "\n".join(model.generate(texts))
        case tasks.CausalLM():
            return "\n\n".join(model.generate(text) for text in texts)
    raise ValueError(
        f"The run's task is {model.task!r}, which `bert_zoo predict` does not support. Use bert_zoo.load in Python."
    )


def chosen(model: Any, prompt: str, *choices: str) -> str:
    if len(choices) < 2:
        raise ValueError("Give a prompt and at least two choices.")
    return choices[model.predict(([prompt], [choices]), verbose=0)[0].argmax()]


def ranked(model: Any, query: str, *documents: str) -> Any:
    if not documents:
        raise ValueError("Give a query and the documents to rank, or a second text with --second.")
    scores = pair_scores(model, [query] * len(documents), documents)
    return ranking(documents, scores, "linear", top_k=None)


def answers(model: Any, questions: list[str], metrics: dict[str, float]) -> Any:
    if _CONTEXT.value is None:
        raise ValueError("Name the file to search for answers with --context.")
    from bert_zoo.cli.benchmarks.questions import THRESHOLD

    context = Path(_CONTEXT.value).read_text(encoding="utf-8")
    contexts = [context] * len(questions)
    return model.answer(questions, contexts, no_answer_threshold=metrics.get(THRESHOLD))
