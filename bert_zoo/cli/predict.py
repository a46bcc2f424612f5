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

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import checks
from bert_zoo.cli.benchmarks import DataOptions
from bert_zoo.cli.program import Program

if TYPE_CHECKING:
    from bert_zoo.data.tables import TextRow

# The format of a table.
TABLE_FIELDS = ("text", "text_pair", "delimiter", "format", "header", "encoding")

PROGRAM = Program(__doc__, required=("run",), takes_arguments=True)
_RUN = PROGRAM.string("run", None, "The run directory.", check=checks.run)
_SECOND = PROGRAM.string("second", None, "The second text of every pair, for tasks on pairs.")
_CONTEXT = PROGRAM.string(
    "context", None, "File of the text to search for answers.", check=checks.exists
)
_FILE = PROGRAM.string("file", None, "A table of texts, instead of arguments.", check=checks.exists)
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
        from bert_zoo.cli.prediction_files import check_output

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


def table_rows() -> Iterator["TextRow"]:
    """Yields the texts of the rows of --file."""
    from bert_zoo.data.tables import text_rows

    return text_rows(_FILE.value, **PROGRAM.given(DataOptions))


def predict_table(model: Any, metrics: dict[str, float]) -> None:
    """Writes predictions for the rows of --file."""
    from bert_zoo.cli.benchmarks.questions import THRESHOLD
    from bert_zoo.cli.prediction_files import predict_file

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
    """Returns a model's predictions for texts, to print."""
    from bert_zoo import tasks
    from bert_zoo.cli.prediction_files import pair_scores

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
    """Ranks documents for a query, best first."""
    from bert_zoo.cli.prediction_files import pair_scores
    from bert_zoo.runtime.rankings import ranking

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
