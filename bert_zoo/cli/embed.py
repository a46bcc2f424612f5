"""Computes sentence vectors.

bert_zoo embed "How do I get my money back?" "I would like a refund."
bert_zoo embed --model bge_small --output vectors.npy < sentences.txt
bert_zoo embed --text sentences.txt --output vectors.npy
bert_zoo embed --text articles.jsonl --column title --prompt "query: " --output titles.npy

Pass texts as arguments, one per line on standard input, or as a file: its
lines, or a column of a table (CSV, TSV, JSON Lines, Parquet), with or without
gzip. Vectors are printed as JSON Lines, each with its text, or written to a
NumPy file. With --text and --output, repeat the command to resume a stopped
run.
"""

import json
import logging
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bert_zoo.cli import checks
from bert_zoo.cli.benchmarks import DataOptions
from bert_zoo.cli.program import Program

log = logging.getLogger(__name__)

PROGRAM = Program(
    __doc__,
    takes_arguments=True,
    on_interrupt="Stopped. With --text and --output, run the same command to resume.",
)
_MODEL = PROGRAM.string(
    "model", "minilm_l6", "A name from `bert_zoo list`, or a directory.", check=checks.model
)
_TEXT = PROGRAM.string("text", None, "A file of texts, instead of arguments.")
_COLUMN = PROGRAM.string(
    "column", None, 'The text column, if the file is a table; by default "text".'
)
_OUTPUT = PROGRAM.string("output", None, "A .npy file to write: float32 [texts, hidden].")
_PROMPT = PROGRAM.string(
    "prompt",
    None,
    "Prompt to put before each text: the name of one of the model's prompts, or a text.",
)
_BATCH_SIZE = PROGRAM.integer("batch_size", 32, "Texts per step.", lower_bound=1)
# The format of a table.
PROGRAM.define_fields(DataOptions, ("delimiter", "format", "header", "encoding"))


def main(arguments: list[str]) -> None:
    output = Path(_OUTPUT.value) if _OUTPUT.value else None
    if output is not None and output.suffix != ".npy":
        raise ValueError(f"--output is {output}. Name a NumPy file, such as vectors.npy.")
    PROGRAM.check()
    total = made_from = None
    if _TEXT.value is not None:
        if arguments:
            raise ValueError(
                f"Give texts as arguments or as the file --text, not both; the arguments are {arguments[:3]}."
            )
        total, made_from = checked_number(), origin()
        texts = texts_of_file()
    else:
        texts = iter(arguments or (line.rstrip("\n") for line in sys.stdin))
    first = list(islice(texts, 1))
    if not first:
        raise ValueError(
            "Give texts as arguments, one per line on standard input, or as a file with --text."
        )
    texts = chain(first, texts)

    model = loaded_model()
    embed = partial(model.embed, batch_size=_BATCH_SIZE.value, prompt=_PROMPT.value)
    from bert_zoo.cli.vector_files import TEXTS_AT_ONCE, write_vectors
    from bert_zoo.models.cut_texts import warning_of_cut_texts

    with warning_of_cut_texts(model, [], pooled=True):
        if output is not None:
            shape = write_vectors(embed, texts, output, total=total, made_from=made_from)
            print("Wrote {:,} vectors of {} numbers to {}.".format(*shape, output))
            return
        while some := list(islice(texts, TEXTS_AT_ONCE)):
            for text, vector in zip(some, embed(some).tolist(), strict=True):
                print(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))


def texts_of_file() -> Iterator[str]:
    from bert_zoo.cli.vector_files import texts_of

    how = PROGRAM.given(DataOptions)
    how.pop("text")
    return texts_of(_TEXT.value, _COLUMN.value, **how)


def checked_number() -> int:
    """Counts the file's texts. Reading all of them shows errors in the file before hours of work."""
    number = empty = 0
    for text in texts_of_file():
        number, empty = number + 1, empty + (not text.strip())
    if empty:
        log.warning(
            "Of the %s texts in %s, %s are empty.", f"{number:,}", _TEXT.value, f"{empty:,}"
        )
    return number


def origin() -> dict[str, Any]:
    """Returns what the file's vectors depend on: model, text, options and prompt."""
    model, stat = Path(_MODEL.value), Path(_TEXT.value).stat()
    return {
        "model": [_MODEL.value, *sorted(file.stat().st_mtime_ns for file in model.glob("**/*"))],
        "text": [str(Path(_TEXT.value).resolve()), stat.st_size, stat.st_mtime_ns],
        "read": [_COLUMN.value, PROGRAM.given(DataOptions)],
        "prompt": _PROMPT.value,
    }


def loaded_model() -> Any:
    import bert_zoo

    model = bert_zoo.load(_MODEL.value)
    if not hasattr(model, "embed"):
        raise ValueError(
            f"{_MODEL.value} is a model of task {model.task!r}, which gives no sentence vectors. "
            "`bert_zoo list --provides embedding` lists models that do."
        )
    return model
