"""Writes vectors of texts to one file or directory, block by block, so that a stopped run resumes."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bert_zoo.data.files import RowFile
from bert_zoo.embeddings.text_files import chunks
from bert_zoo.embeddings.token_index import TokenIndex
from bert_zoo.weights.files import replacing


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
# Kind of `VectorForm` -> suffix.
SUFFIXES = {"dense": ".npy", "sparse": ".npz", "tokens": ""}


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
            for some in chunks(texts):
                file.append(embed(some))
                progress.update(len(some))
    return file.done, file.size


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
