"""Unpacks a zip or tar archive that nobody vouches for."""

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from bert_zoo.weights.files import ZIP_ERRORS, WeightsError

_CHUNK_BYTES = 1 << 20
# The largest released archive is below 4 GB.
_MAX_UNPACKED_BYTES = 32 << 30
_MAX_MEMBERS = 10_000


class _Unsafe(Exception):
    """The archive has a member that must not be unpacked."""


# Besides the damaged: the same name twice, and a name below another file's.
_ARCHIVE_ERRORS = (
    *(*ZIP_ERRORS, tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError),
    *(FileExistsError, NotADirectoryError),
)


def unpack(archive: Path, target: Path, url: str) -> dict[str, int]:
    """Unpacks into `target`, which appears only when it is whole; sizes by path below it."""
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    temporary.mkdir()
    try:
        files = _extract(archive, temporary)
        if target.exists():
            shutil.rmtree(target)
        os.replace(temporary, target)
        return files
    except (*_ARCHIVE_ERRORS, _Unsafe) as error:
        raise WeightsError(
            f"The archive {url} cannot be unpacked: {error}. What was downloaded has been deleted; "
            "check that the address is that of a zip or tar archive, and try again."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, directory: Path) -> dict[str, int]:
    files: dict[str, int] = {}
    total = 0
    for name, size, stream in _members(archive):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or set(name) & set("\\:\0"):
            raise _Unsafe(f"its member {name!r} would lie outside of the directory")
        total += size
        if len(files) == _MAX_MEMBERS or total > _MAX_UNPACKED_BYTES:
            raise _Unsafe(
                f"it unpacks to more than {_MAX_MEMBERS:,} files or {_MAX_UNPACKED_BYTES:,} bytes"
            )
        destination = directory / path
        destination.parent.mkdir(parents=True, exist_ok=True)
        with open(destination, "xb") as file:
            shutil.copyfileobj(stream, file, _CHUNK_BYTES)
        files[str(path)] = size
    if not files:
        raise _Unsafe("it is empty")
    return files


def _members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    """Name, size and content of every file in the archive, in its order."""
    if zipfile.is_zipfile(archive):
        return _zip_members(archive)
    if tarfile.is_tarfile(archive):
        return _tar_members(archive)
    raise _Unsafe("it is neither a zip nor a tar archive")


def _zip_members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or info.flag_bits & 1:
                raise _Unsafe(f"its member {info.filename!r} is a link, special or encrypted")
            if not info.is_dir():
                with file.open(info) as stream:
                    yield info.filename, info.file_size, stream


def _tar_members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    with tarfile.open(archive, "r:*") as file:
        for info in file:
            if not info.isreg() and not info.isdir():
                raise _Unsafe(f"its member {info.name!r} is a link or special")
            if info.isreg():
                yield info.name, info.size, file.extractfile(info)
