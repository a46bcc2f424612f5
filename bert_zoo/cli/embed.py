"""Computes vectors of texts.

bert_zoo embed "How do I get my money back?" "I would like a refund."
bert_zoo embed --model bge_small --output vectors.npy < sentences.txt
bert_zoo embed --text sentences.txt --output vectors.npy
bert_zoo embed --text articles.jsonl --column title --prompt "query: " --output titles.npy
bert_zoo embed --model e5_small --role document --text articles.jsonl --output articles.npy

Pass texts as arguments, one per line on standard input, or as a file: its
lines, or a column of a table (CSV, TSV, JSON Lines, Parquet), with or without
gzip. Vectors are printed as JSON Lines, each with its text: one vector, the
weights of tokens for a sparse model, or the vectors of tokens for a
late-interaction model. One vector a text can be written to a NumPy file. With --text and --output, repeat the command to resume a stopped
run.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bert_zoo.cli.benchmarks import DataOptions
from bert_zoo.cli.program import Program
from bert_zoo.config import ROLES
from bert_zoo.data import files, tables
from bert_zoo.data.files import RowFile
from bert_zoo.embeddings.stages import is_sparse, is_tokens

log = logging.getLogger(__name__)

# Texts that are embedded together. A stopped run resumes after a whole number of such parts, so its vectors
# equal those of an uninterrupted run to the bit.
TEXTS_AT_ONCE = 1024


def texts_of(path: str | Path, column: str | None = None, **how: Any) -> Iterator[str]:
    """Yields the texts of a file: its lines, or a column of a table, by default "text".

    The suffix before ".gz", or an option of `read_table` in `how`, makes it a table; ValueError if an option for
    tables is given for another file.
    """
    path = Path(path)
    name = path.with_suffix("") if files.is_gzip(path) else path
    by_suffix = tables.SUFFIXES.get(name.suffix.lower())
    if by_suffix is None and not {"format", "delimiter"} & set(how):
        if column is not None or "header" in how:
            raise ValueError(
                f"{path} does not have a table's suffix, so it is read line by line, but column and header are for "
                f"tables. If it is a table, set format to one of {list(tables.FORMATS)}."
            )
        return (text for _, text in files.lines(path, how.get("encoding")))
    if files.is_gzip(path) and "delimiter" not in how:
        how.setdefault("format", by_suffix)
    advice = " Name the column with --column."
    rows = tables.text_rows(path, column or "text", advice=advice, **how)
    return (row.texts[0] for row in rows)


def write_vectors(
    embed: Callable[[list[str]], np.ndarray],
    texts: Iterable[str],
    output: Path,
    *,
    total: int | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> tuple[int, int]:
    """Writes the vectors of texts, at least one, to a .npy file, which appears once it is complete; returns its shape.

    `embed` maps texts to float32 [texts, size]. Memory does not grow with the number of texts, of which there may be
    `total`. `made_from` is everything the vectors depend on. A stopped run resumes if this is unchanged; with None,
    every run starts anew.
    """
    tag = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    partial = output.with_name(f".{output.name}.{tag}.partial")
    for other in output.parent.glob(f".{output.name}.*.partial"):
        if other != partial:
            other.unlink()
    texts = iter(texts)
    with RowFile(output, total, part=partial, resume=made_from is not None) as file:
        if file.done:
            print(f"Resuming after {file.done:,} texts, whose vectors are in {partial}.")
        skipped = sum(1 for _ in islice(texts, file.done))
        with tqdm(total=total, initial=skipped, unit=" texts", disable=None) as progress:
            while some := list(islice(texts, TEXTS_AT_ONCE)):
                file.append(embed(some).astype("<f4", copy=False))
                progress.update(len(some))
    return file.done, file.size


PROGRAM = Program(
    __doc__,
    takes_arguments=True,
    on_interrupt="Stopped. With --text and --output, run the same command to resume.",
)
_MODEL = PROGRAM.model(default="minilm_l6")
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
_ROLE = PROGRAM.enum(
    "role",
    None,
    ROLES,
    "What the texts are in a search; the model puts its prompt for it before them.",
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
    embed = partial(
        model.embed, batch_size=_BATCH_SIZE.value, prompt=_PROMPT.value, role=_ROLE.value
    )
    from bert_zoo.models.long_texts import warning_of_cut_texts

    with warning_of_cut_texts(model, [], pooled=True):
        if output is not None:
            shape = write_vectors(
                partial(one_vector_each, embed), texts, output, total=total, made_from=made_from
            )
            print("Wrote {:,} vectors of {} numbers to {}.".format(*shape, output))
            return
        while some := list(islice(texts, TEXTS_AT_ONCE)):
            for text, found in zip(some, readable(embed(some), model), strict=True):
                print(json.dumps({"text": text, **found}, ensure_ascii=False))


def readable(vectors: Any, model: Any) -> Iterator[dict[str, Any]]:
    """Yields each text's vector, its weights by token (largest first), or its token vectors, for JSON."""
    if is_sparse(vectors):
        name_of = model.preprocessor.tokenizer.id_to_token
        for start, end in pairwise(vectors.indptr):
            entries = zip(vectors.indices[start:end], vectors.data[start:end], strict=True)
            ranked = sorted(entries, key=lambda entry: -entry[1])
            yield {"weights": {name_of(int(index)): float(weight) for index, weight in ranked}}
        return
    name = "vectors" if is_tokens(vectors) else "vector"
    yield from ({name: vector.tolist()} for vector in vectors)


def one_vector_each(embed: Callable[[list[str]], Any], texts: list[str]) -> np.ndarray:
    vectors = embed(texts)
    if is_sparse(vectors) or is_tokens(vectors):
        raise ValueError(
            f"{_MODEL.value} does not make one vector for each text, as a NumPy file has. Leave --output out to print "
            "what it makes, or write it in Python with bert_zoo.embeddings.write_documents."
        )
    return vectors


def texts_of_file() -> Iterator[str]:
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
    """What the file's vectors depend on: model, text, options and prompt."""
    model, stat = Path(_MODEL.value), Path(_TEXT.value).stat()
    return {
        "model": [_MODEL.value, *sorted(file.stat().st_mtime_ns for file in model.glob("**/*"))],
        "text": [str(Path(_TEXT.value).resolve()), stat.st_size, stat.st_mtime_ns],
        "read": [_COLUMN.value, PROGRAM.given(DataOptions)],
        "prompt": [_PROMPT.value, _ROLE.value],
    }


def loaded_model() -> Any:
    import bert_zoo

    model = bert_zoo.load(_MODEL.value)
    if not hasattr(model, "embed"):
        raise ValueError(
            f"{_MODEL.value} is a model of task {model.task!r}, which gives no vectors of texts. "
            "`bert_zoo list --provides embedding` lists models that do."
        )
    return model
