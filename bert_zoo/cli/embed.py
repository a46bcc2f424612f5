"""Computes vectors of texts.

bert_zoo embed "How do I get my money back?" "I would like a refund."
bert_zoo embed --model bge_small --output vectors.npy < sentences.txt
bert_zoo embed --text articles.jsonl --column title --prompt "query: " --output titles.npy
bert_zoo embed --model e5_small --role document --text articles.jsonl --output articles.npy
bert_zoo embed --model e5_small --text articles.txt --engine qdrant --output articles.jsonl

Pass texts as arguments, one per line on standard input, or as a file: its
lines, or a column of a table (CSV, TSV, JSON Lines, Parquet), with or without
gzip. Vectors are printed as JSON Lines, each with its text, or written to
--output. With --text and --output, repeat the command to resume a stopped run.
"""

import hashlib
import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
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
from bert_zoo.embeddings.engines import ENGINES, write_documents
from bert_zoo.embeddings.stages import is_hybrid, is_sparse, is_tokens
from bert_zoo.embeddings.token_index import TokenIndex
from bert_zoo.weights.files import replacing

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


class SparseFile(AbstractContextManager):
    """Like `RowFile`, for sparse vectors in SciPy's format; until the end, each block is a file in `part`."""

    def __init__(self, path: Path, rows: int | None = None, *, part: Path, resume: bool):
        self.path, self.part, self.resume = path, part, resume
        part.mkdir(exist_ok=True)
        self.done = max((int(block.stem) for block in part.glob("*.npz")), default=0)

    def append(self, block: Any) -> None:
        self.done += block.shape[0]
        save_sparse(self.part / f"{self.done:012}.npz", block)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            from scipy.sparse import vstack

            blocks = map(read_sparse, sorted(self.part.glob("*.npz")))
            vectors = vstack([*blocks], format="csr")
            self.size = vectors.shape[1]
            save_sparse(self.path, vectors)
        if kind is None or not self.resume:
            shutil.rmtree(self.part)


def save_sparse(path: Path, vectors: Any) -> None:
    from scipy.sparse import save_npz

    with replacing(path) as temporary, temporary.open("wb") as file:
        save_npz(file, vectors)


def read_sparse(path: Path) -> Any:
    from scipy.sparse import load_npz

    return load_npz(path)


class TokenFiles(AbstractContextManager):
    """Like `RowFile`, for token vectors in a `TokenIndex` of float16."""

    def __init__(self, path: Path, rows: int | None = None, *, part: Path, resume: bool):
        self.path, self.part, self.resume = path, part, resume
        is_begun = (part / "lengths.npy").exists()
        self.index = TokenIndex.open(part) if is_begun else TokenIndex(directory=part)
        self.done = len(self.index)

    def append(self, block: list[np.ndarray]) -> None:
        self.index.append(block)
        self.done = len(self.index)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        self.size = self.index.vectors.shape[1]
        del self.index  # Windows does not rename files that are mapped.
        if kind is None:
            self.part.rename(self.path)
        elif not self.resume:
            shutil.rmtree(self.part)


# Suffix of a file of vectors -> what writes it, and what reads it.
FILES = {
    ".npy": (RowFile, partial(np.load, mmap_mode="r")),
    ".npz": (SparseFile, read_sparse),
    "": (TokenFiles, TokenIndex.open),
}
NAMES = (
    "Name a file that ends in .npy for one vector a text, in .npz for sparse vectors, or a new directory, without a "
    "suffix, for token vectors."
)


def suffix_of(vectors: Any) -> str:
    if is_hybrid(vectors):
        raise ValueError(
            "The model gives three kinds of vectors of a text, and --output holds one kind. Leave --output out, or save "
            "the model that bert_zoo.load(name, task=...) gives for one kind, and name its directory."
        )
    return ".npz" if is_sparse(vectors) else "" if is_tokens(vectors) else ".npy"


def write_vectors(
    embed: Callable[[list[str]], Any],
    texts: Iterable[str],
    output: Path,
    *,
    total: int | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> tuple[int, int]:
    """Writes the vectors of texts, at least one, to a file or directory of the kind that its suffix says (`FILES`), which
    appears once it is complete; returns the number of texts and of numbers in a vector.

    `embed` maps texts to their vectors. Memory does not grow with the number of texts, of which there may be `total`,
    but for sparse vectors at the end. `made_from` is everything the vectors depend on. A stopped run resumes if this is
    unchanged; with None, every run starts anew.
    """
    tag = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    part = output.with_name(f".{output.name}.{tag}.partial")
    for other in output.parent.glob(f".{output.name}.*.partial"):
        if other != part or made_from is None:
            remove(other)
    texts = iter(texts)
    writer, _ = FILES[output.suffix]
    with writer(output, total, part=part, resume=made_from is not None) as file:
        if file.done:
            print(f"Resuming after {file.done:,} texts, whose vectors are in {part}.")
        skipped = sum(1 for _ in islice(texts, file.done))
        with tqdm(total=total, initial=skipped, unit=" texts", disable=None) as progress:
            while some := list(islice(texts, TEXTS_AT_ONCE)):
                file.append(embed(some))
                progress.update(len(some))
    return file.done, file.size


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


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
_OUTPUT = PROGRAM.string(
    "output",
    None,
    "What to write: .npy, float32 [texts, hidden]; SciPy's .npz for sparse vectors; for token vectors a new "
    "directory (bert_zoo.embeddings.TokenIndex); with --engine, JSON lines.",
)
_ENGINE = PROGRAM.enum(
    "engine",
    None,
    tuple(ENGINES),
    "Write documents with texts and vectors for this search engine; see bert_zoo.embeddings.write_documents.",
)
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
    if _ENGINE.value and output is None:
        raise ValueError("--engine writes a file. Name it with --output, such as vectors.jsonl.")
    if output is not None and not _ENGINE.value and output.suffix not in FILES:
        raise ValueError(f"--output is {output}. {NAMES}")
    if output is not None and output.exists() and output.is_dir():
        raise ValueError(
            f"--output is {output}, which is a directory. Name one that does not exist."
        )
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
            suffix = suffix_of(embed(first))
            write = partial(write_vectors, embed, total=total, made_from=made_from)
            if _ENGINE.value:
                number, size = write_for_engine(model, write, [*texts], output, suffix)
            elif output.suffix == suffix:
                number, size = write(texts, output)
            else:
                raise ValueError(
                    f"--output is {output}, but {_MODEL.value} makes another kind of vectors. {NAMES}"
                )
            print(f"Wrote vectors of {number:,} texts, of {size:,} numbers each, to {output}.")
            return
        while some := list(islice(texts, TEXTS_AT_ONCE)):
            for text, found in zip(some, readable(embed(some), model), strict=True):
                print(json.dumps({"text": text, **found}, ensure_ascii=False))


def readable(vectors: Any, model: Any) -> Iterator[dict[str, Any]]:
    """Yields each text's vector, its weights by token (largest first), or its token vectors, for JSON."""
    if is_hybrid(vectors):
        for kinds in zip(*(readable(kind, model) for kind in vectors.kinds), strict=True):
            yield {name: value for kind in kinds for name, value in kind.items()}
        return
    if is_sparse(vectors):
        name_of = model.preprocessor.tokenizer.id_to_token
        for start, end in pairwise(vectors.indptr):
            entries = zip(vectors.indices[start:end], vectors.data[start:end], strict=True)
            ranked = sorted(entries, key=lambda entry: -entry[1])
            yield {"weights": {name_of(int(index)): float(weight) for index, weight in ranked}}
        return
    name = "vectors" if is_tokens(vectors) else "vector"
    yield from ({name: vector.tolist()} for vector in vectors)


def write_for_engine(
    model: Any, write: Callable[..., tuple[int, int]], texts: list[str], output: Path, suffix: str
) -> tuple[int, int]:
    """Writes vectors to a hidden file first, from which the documents of `--engine` are made; returns its shape."""
    path = output.with_name(f".{output.name.replace('.', '-')}{suffix}")
    remove(path)
    shape = write(texts, path)
    vectors, vocabulary = FILES[suffix][1](path), None
    if is_sparse(vectors):
        vocabulary = [*model.preprocessor.tokenizer.vocabulary]
        # The token table may be larger than the vocabulary.
        vocabulary += [f"#{row}" for row in range(len(vocabulary), shape[1])]
    write_documents(
        *(output, range(shape[0]), vectors, _ENGINE.value), vocabulary=vocabulary, texts=texts
    )
    del vectors
    remove(path)
    return shape


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
