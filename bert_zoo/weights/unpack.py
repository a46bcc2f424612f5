"""Unpacks a zip or tar archive. Refuses damaged archives and paths outside the directory."""

import errno
import lzma
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from bert_zoo.error_text import shortened, shown
from bert_zoo.weights.files import (
    MOVE_CACHE,
    ZIP_ERRORS,
    WeightsError,
    naming_full_disk,
    replacing_directory,
)

_CHUNK_BYTES = 1 << 20
# The largest released archive is below 4 GB.
_MAX_UNPACKED_BYTES = 32 << 30
_MAX_MEMBERS = 10_000
# Errors of the machine rather than the archive. The archive is kept for the next attempt.
_MACHINE_ERRORS = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EACCES", "EPERM", "EROFS", "EIO", "EMFILE", "ENFILE")
}


def unpack(archive: Path, target: Path, url: str) -> dict[str, int]:
    """Unpacks an archive into `target`, which appears once it is complete: path below it -> size in bytes.

    WeightsError if the archive is damaged or incomplete, or has members that must not be unpacked; DiskFullError if there
    is no room for its files.
    """
    try:
        with replacing_directory(target) as temporary:
            temporary.mkdir()
            return _extract(archive, temporary, url)
    except (*ZIP_ERRORS, tarfile.TarError, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _MACHINE_ERRORS:
            raise
        raise WeightsError(
            f"The archive {url} cannot be unpacked: {shortened(str(error))}. The download has been deleted. Check that "
            "the address leads to a zip or tar archive, and try again."
        ) from error


def _extract(archive: Path, directory: Path, url: str) -> dict[str, int]:
    files: dict[str, int] = {}
    total = 0
    # Name, size and content of every file in the archive.
    members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    for name, size, stream in members(archive):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or set(name) & set("\\:\0"):
            raise ValueError(f"its member {shown(name)} would be outside the directory")
        total += size
        if len(files) == _MAX_MEMBERS or total > _MAX_UNPACKED_BYTES:
            raise ValueError(
                f"it unpacks to more than {_MAX_MEMBERS:,} files or {_MAX_UNPACKED_BYTES:,} bytes"
            )
        destination = directory / path
        with naming_full_disk(destination, f"{path} of {url}", size, MOVE_CACHE):
            destination.parent.mkdir(parents=True, exist_ok=True)
            with open(destination, "xb") as file:
                shutil.copyfileobj(stream, file, _CHUNK_BYTES)
                written = file.tell()
        if written != size:
            raise ValueError(f"its member {shown(name)} has {written:,} bytes instead of {size:,}")
        files[str(path)] = size
    if not files:
        raise ValueError("it is empty")
    return files


def _zip_members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or info.flag_bits & 1:
                raise ValueError(
                    f"its member {shown(info.filename)} is a link, special or encrypted"
                )
            if not info.is_dir():
                with file.open(info) as stream:
                    yield info.filename, info.file_size, stream


def _tar_members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    if not tarfile.is_tarfile(archive):
        raise ValueError("it is neither a zip nor a tar archive")
    with tarfile.open(archive) as file:
        for info in file:
            if not info.isreg() and not info.isdir():
                raise ValueError(f"its member {shown(info.name)} is a link or special")
            if info.isreg():
                yield info.name, info.size, file.extractfile(info)
        # A compressed stream checks its checksum and length only at its end.
        while file.fileobj.read(_CHUNK_BYTES):
            pass
