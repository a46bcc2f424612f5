"""File utilities for readers and the cache: hashes, atomic replacement, and two errors."""

import errno
import hashlib
import json
import math
import os
import re
import shutil
import struct
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LFS_POINTER = b"version https://git-lfs"

# Errors that zipfile raises for damaged archives, besides its own.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OverflowError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class WeightsError(ValueError):
    """A weight file is damaged, ambiguous, refused or has unexpected content."""


class DiskFullError(OSError):
    """There is no room for a file. The message names the file, the free space and the directory."""


def cache_directory() -> Path:
    return Path(os.environ.get("BERT_ZOO_CACHE") or "~/.cache/bert_zoo").expanduser()


# Further advice for files of the cache.
MOVE_CACHE = " or move the cache to a larger disk and set BERT_ZOO_CACHE to its new place"


def is_disk_full(error: Exception) -> bool:
    # Libraries in Rust raise their own errors, with the system's message.
    return getattr(error, "errno", None) in _DISK_FULL or "(os error 28)" in str(error)


@contextmanager
def naming_full_disk(
    path: Path, what: str | None = None, size: int | None = None, advice: str = ""
) -> Iterator[None]:
    """Raises DiskFullError, which may name another file (`what`), its size in bytes and further advice, if the block
    runs out of disk space while writing `path`."""
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        there = path.stat().st_size if path.is_file() else 0
        free = shutil.disk_usage(path.parent).free
        missing = (
            f"{size - there:,} of its {size:,} bytes are missing in {path}, and " if size else ""
        )
        raise DiskFullError(
            errno.ENOSPC,
            f"There is no room for {what or path}, because the disk is full: {missing}{free:,} bytes "
            f"are free in {path.parent}. Free some space there{advice}, then try again",
        ) from error


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path next to `path`. It replaces `path` on success and is deleted on error.

    The umask decides who may read it, if the writer does not replace it. DiskFullError if there is no room for it.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with naming_full_disk(path):
            temporary.touch(exist_ok=False)
            yield temporary
            # Without fsync, a power cut may leave an empty file under the new name.
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_directory(target: Path) -> Iterator[Path]:
    """Yields a path next to `target` for a directory. It replaces `target` on success, else it is deleted."""
    target.parent.mkdir(parents=True, exist_ok=True)
    tag = uuid.uuid4().hex
    temporary, earlier = (target.with_name(f".{target.name}.{tag}.{end}") for end in ("tmp", "old"))
    try:
        yield temporary
        if target.exists():
            target.rename(earlier)
        try:
            temporary.rename(target)
        except OSError:
            if earlier.exists():
                earlier.rename(target)
            raise
    finally:
        for leftover in (temporary, earlier):
            shutil.rmtree(leftover, ignore_errors=True)


def write_json(path: Path, values: Any) -> None:
    """Writes an indented JSON file atomically. NaN and infinity, which JSON lacks, become null."""

    def valid(value):
        if isinstance(value, Mapping):
            return {key: valid(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [valid(part) for part in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    with replacing(path) as temporary:
        text = json.dumps(valid(values), indent=2, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def remove_leftovers(directory: Path, name: str = "") -> None:
    """Deletes temporary files that killed processes left in a directory.

    Use it only if no other process writes to the directory or, with `name`, to that entry. With `name`, only
    the leftovers of that entry are deleted.
    """
    leftover = re.compile(rf"\.{re.escape(name) or '.+'}\.[0-9a-f]+\.(?:tmp|old)")
    for path in directory.glob(".*"):
        if leftover.fullmatch(path.name):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def sha256_of(path: str | os.PathLike) -> str:
    """64 lower-case hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_lfs_pointer(path: str | os.PathLike) -> None:
    """Raises WeightsError for a pointer file, which a git clone without git-lfs creates in place of weights."""
    with open(path, "rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise WeightsError(
                f"{path} is a Git LFS pointer, not the weights themselves. Run `git lfs pull` in "
                "its directory, or let bert_zoo download the checkpoint with an `hf://` name."
            )
