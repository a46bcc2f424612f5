"""Computes vectors of texts.

bert_zoo embed "How do I get my money back?" "I would like a refund."
bert_zoo embed --model bge_small --output vectors.npy < sentences.txt
bert_zoo embed --text articles.jsonl --column title --prompt "query: " --output titles.npy
bert_zoo embed --model e5_small --role document --text articles.jsonl --output articles.npy
bert_zoo embed --text "articles/*.jsonl.gz" --output vectors/ --num_parts 16 --shard 3/16
bert_zoo embed --model e5_small --text articles.txt --engine qdrant --output articles.jsonl

Pass texts as arguments, one per line on standard input, or as files: their
lines, or a column of tables (CSV, TSV, JSON Lines, Parquet), with or without
gzip. Vectors are printed as JSON Lines, each with its text, or written to
--output. With --text and --output, repeat the command to resume a stopped run.
Several processes write parts of one directory together: docs/scaling.md.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from bert_zoo.cli.benchmarks import LAYOUT, DataOptions
from bert_zoo.cli.program import Program
from bert_zoo.config import ROLES
from bert_zoo.embeddings.engines import ENGINES, write_documents
from bert_zoo.embeddings.parts import Parts
from bert_zoo.embeddings.stages import is_hybrid, is_sparse, is_tokens
from bert_zoo.embeddings.stored_vectors import VectorForm
from bert_zoo.embeddings.text_files import TextFiles, chunks
from bert_zoo.embeddings.token_index import DTYPES
from bert_zoo.embeddings.vector_files import FILES, SUFFIXES, remove, write_vectors
from bert_zoo.pretraining.corpus import files_of

NAMES = (
    "Name a file that ends in .npy for one vector a text, in .npz for sparse vectors, or a new directory, without a "
    "suffix, for token vectors; or a directory for parts, with a slash at the end."
)

PROGRAM = Program(
    __doc__,
    takes_arguments=True,
    on_interrupt="Stopped. With --text and --output, run the same command to resume.",
    groups={
        "Main flags": (
            *("model", "text", "column", "id_column", "output", "num_parts", "shard"),
            *("engine", "prompt", "role"),
        )
    },
)
_MODEL = PROGRAM.model(default="minilm_l6")
_TEXT = PROGRAM.list(
    "text", [], "Files of texts, instead of arguments: names or patterns, separated by commas."
)
_COLUMN = PROGRAM.string(
    "column", None, 'The text column, if the files are tables; by default "text".'
)
_ID_COLUMN = PROGRAM.string(
    "id_column",
    None,
    'The column of ids, for parts and --engine. By default the row number from 0, or of several files "path:line".',
)
_OUTPUT = PROGRAM.string(
    "output",
    None,
    "What to write: .npy, float32 [texts, hidden]; SciPy's .npz for sparse vectors; for token vectors a new "
    "directory (bert_zoo.embeddings.TokenIndex); with --engine, JSON lines; a directory and a slash, as in "
    "vectors/, for numbered parts.",
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
_NUM_PARTS = PROGRAM.integer("num_parts", None, "Number of parts (default: 1).", lower_bound=1)
_SHARD = PROGRAM.string(
    "shard", None, "Which of the parts this process writes: 3/16 is the third sixteenth of them."
)
_DTYPE = PROGRAM.enum(
    "dtype", None, DTYPES, "Numbers of parts (default: float32). Sparse vectors have no int8."
)
_PART_FORMAT = PROGRAM.enum(
    "part_format", None, ("parquet", "npy"), "Files of parts (default: parquet)."
)
# The format of a table.
PROGRAM.define_fields(DataOptions, LAYOUT)


def main(arguments: list[str]) -> None:
    name = _OUTPUT.value or ""
    output, in_parts = Path(name) if name else None, name.endswith("/")
    of_parts = (_NUM_PARTS, _SHARD, _DTYPE, _PART_FORMAT)
    if in_parts and (arguments or _ENGINE.value or not _TEXT.value):
        raise ValueError(
            f"--output is {name}, a directory of parts, which needs files of texts (--text) and no --engine."
        )
    if not in_parts and (given := [flag.name for flag in of_parts if flag.value is not None]):
        raise ValueError(
            f"--{given[0]} is for parts. Name their directory with a slash, as in --output vectors/."
        )
    if _ID_COLUMN.value and not (in_parts or _ENGINE.value):
        raise ValueError(
            "--id_column is for --engine and for parts (--output vectors/), as other files hold no ids."
        )
    if _ENGINE.value and output is None:
        raise ValueError("--engine writes a file. Name it with --output, such as vectors.jsonl.")
    if output is not None and not (in_parts or _ENGINE.value) and output.suffix not in FILES:
        raise ValueError(f"--output is {output}. {NAMES}")
    if output is not None and output.is_dir() and not in_parts:
        raise ValueError(
            f"--output is {output}, which is a directory. Name one that does not exist, or add a slash to write parts."
        )
    PROGRAM.check()
    total = made_from = None
    if _TEXT.value:
        if arguments:
            raise ValueError(
                f"Give texts as arguments or as files with --text, not both; the arguments are {arguments[:3]}."
            )
        how = {name: PROGRAM.flags[name].value for name in LAYOUT}
        how = {name: value for name, value in how.items() if value is not None}
        paths = sorted({*files_of(_TEXT.value)})
        documents = TextFiles(paths, _COLUMN.value, _ID_COLUMN.value, how)
        if in_parts:
            write_parts(output, documents)
            return
        total, made_from = sum(documents.census().counts), origin() | documents.made_from()
    else:
        documents = enumerate(arguments or (line.rstrip("\n") for line in sys.stdin))
    documents = iter(documents)
    first = list(islice(documents, 1))
    if not first:
        raise ValueError(
            "Give texts as arguments, one per line on standard input, or as files with --text."
        )
    documents = chain(first, documents)
    with loaded_embed() as (model, embed):
        if output is None:
            for some in chunks(text for _, text in documents):
                for text, found in zip(some, readable(embed(some), model), strict=True):
                    print(json.dumps({"text": text, **found}, ensure_ascii=False))
            return
        suffix = SUFFIXES[VectorForm.of(embed([first[0][1]])).kind]
        write = partial(write_vectors, embed, total=total, made_from=made_from)
        if _ENGINE.value:
            number, size = write_for_engine(model, write, [*documents], output, suffix)
        elif output.suffix == suffix:
            number, size = write((text for _, text in documents), output)
        else:
            raise ValueError(
                f"--output is {output}, but {_MODEL.value} makes another kind of vectors. {NAMES}"
            )
        print(f"Wrote vectors of {number:,} texts, of {size:,} numbers each, to {output}.")


def write_parts(output: Path, texts: TextFiles) -> None:
    """Writes the missing parts of the shard. The model is loaded if there are any."""
    shard = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", _SHARD.value or "1/1")
    num_parts = _NUM_PARTS.value or 1
    if shard is None or not int(shard[1]) <= int(shard[2]) <= num_parts:
        raise ValueError(
            f"--shard is {_SHARD.value}; it must be a number and how many there are, such as 1/4 to 4/4, at most as "
            f"many as --num_parts, {num_parts}."
        )
    with ExitStack() as stack:
        load = cache(lambda: stack.enter_context(loaded_embed())[1])
        parts = Parts.planned(
            *(output, texts, load, origin()),
            num_parts=num_parts,
            dtype=_DTYPE.value or "float32",
            suffix=f".{_PART_FORMAT.value or 'parquet'}",
        )
        missing = parts.missing(*map(int, shard.groups()))
        number = parts.write(missing, texts, load()) if missing else 0
    if missing:
        print(f"Wrote vectors of {number:,} texts to {output}, parts written: {len(missing):,}.")
    else:
        print(f"{output} has all parts of shard {shard[0]} already.")


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
    model: Any,
    write: Callable[..., tuple[int, int]],
    documents: list[tuple[int | str, str]],
    output: Path,
    suffix: str,
) -> tuple[int, int]:
    """Writes vectors to a hidden file first, from which the documents of `--engine` are made; returns its shape."""
    path = output.with_name(f".{output.name.replace('.', '-')}{suffix}")
    remove(path)
    ids, texts = zip(*documents, strict=True)
    shape = write(texts, path)
    vectors, vocabulary = FILES[suffix][1](path), None
    if is_sparse(vectors):
        vocabulary = [*model.preprocessor.tokenizer.vocabulary]
        # The token table may be larger than the vocabulary.
        vocabulary += [f"#{row}" for row in range(len(vocabulary), shape[1])]
    write_documents(output, ids, vectors, _ENGINE.value, vocabulary=vocabulary, texts=texts)
    del vectors
    remove(path)
    return shape


def origin() -> dict[str, Any]:
    """What vectors depend on beside the texts: model and prompt."""
    files = sorted(file.stat().st_mtime_ns for file in Path(_MODEL.value).glob("**/*"))
    return {"model": [_MODEL.value, *files], "prompt": _PROMPT.value, "role": _ROLE.value}


@contextmanager
def loaded_embed() -> Iterator[tuple[Any, Callable[[list[str]], Any]]]:
    """Yields the model and its `embed` with the options of the flags; reports at the end how many texts were cut."""
    import bert_zoo
    from bert_zoo.models.long_texts import warning_of_cut_texts

    model = bert_zoo.load(_MODEL.value)
    if not hasattr(model, "embed"):
        raise ValueError(
            f"{_MODEL.value} is a model of task {model.task!r}, which gives no vectors of texts. "
            "`bert_zoo list --provides embedding` lists models that do."
        )
    options = {"batch_size": _BATCH_SIZE.value, "prompt": _PROMPT.value, "role": _ROLE.value}
    with warning_of_cut_texts(model, [], pooled=True):
        yield model, partial(model.embed, **options)
