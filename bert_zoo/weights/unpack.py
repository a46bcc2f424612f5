"""Unpacks a zip or tar archive that nobody vouches for, and notices what was cut or changed."""

import bz2
import errno
import gzip
import lzma
import os
import shutil
import stat
import struct
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
# Of a tar: long names and the like, and the zeros with which its last record is filled.
_MAX_TAR_HEADER = _MAX_TAR_PADDING = 16 << 20
_COMPRESSIONS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
# A zip ends in a record of 22 bytes and a comment; a number that it cannot hold stands elsewhere.
_ZIP_END, _LONGEST_ZIP_END, _IN_ZIP64 = b"PK\5\6", 22 + 0xFFFF, 0xFFFF
# What the machine refuses, not the archive: the archive is kept for the next attempt.
_MACHINE_ERRORS = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EACCES", "EPERM", "EROFS", "EIO", "EMFILE", "ENFILE")
}


class _Refused(Exception):
    """The archive has a member that must not be unpacked, or is not what its writer made."""


_ARCHIVE_ERRORS = (*ZIP_ERRORS, tarfile.TarError, lzma.LZMAError, OverflowError, _Refused)


def unpack(archive: Path, target: Path, url: str) -> dict[str, int]:
    """Unpacks into `target`, which appears only when it is whole; sizes by path below it.

    Every byte of the archive is read, so that checksums and lengths at its end are compared too.

    Raises:
        WeightsError: the archive is damaged or cut, or holds what must not be unpacked.
        DiskFullError: there is no room for its files.
    """
    try:
        with replacing_directory(target) as temporary:
            temporary.mkdir()
            return _extract(archive, temporary, url)
    except (*_ARCHIVE_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno in _MACHINE_ERRORS:
            raise
        raise WeightsError(
            f"The archive {url} cannot be unpacked: {shortened(str(error))}. What was downloaded has been deleted; "
            "check that the address is that of a zip or tar archive, and try again."
        ) from error


def _extract(archive: Path, directory: Path, url: str) -> dict[str, int]:
    files: dict[str, int] = {}
    total = 0
    # Name, size and content of every file in the archive, in its order.
    members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    for name, size, stream in members(archive):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or set(name) & set("\\:\0"):
            raise _Refused(f"its member {shown(name)} would lie outside of the directory")
        total += size
        if len(files) == _MAX_MEMBERS or total > _MAX_UNPACKED_BYTES:
            raise _Refused(
                f"it unpacks to more than {_MAX_MEMBERS:,} files or {_MAX_UNPACKED_BYTES:,} bytes"
            )
        destination = directory / path
        with naming_full_disk(destination, f"{path} of {url}", size, MOVE_CACHE):
            destination.parent.mkdir(parents=True, exist_ok=True)
            with open(destination, "xb") as file:
                shutil.copyfileobj(stream, file, _CHUNK_BYTES)
        if destination.stat().st_size != size:
            raise _Refused(
                f"its member {shown(name)} has {destination.stat().st_size:,} bytes instead of {size:,}"
            )
        files[str(path)] = size
    if not files:
        raise _Refused("it is empty")
    return files


def _zip_members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    with zipfile.ZipFile(archive) as file:
        _check_zip_end(archive, len(file.infolist()))
        for info in file.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or info.flag_bits & 1:
                raise _Refused(f"its member {shown(info.filename)} is a link, special or encrypted")
            # Folders are opened too: that compares both places in which a name is written.
            with file.open(info) as stream:
                if not info.is_dir():
                    yield info.filename, info.file_size, stream
                elif info.file_size:
                    raise _Refused(f"its folder {shown(info.filename)} has a content")


def _check_zip_end(archive: Path, members: int) -> None:
    """Compares what the end of a zip says of it; zipfile passes over members and what follows."""
    size = archive.stat().st_size
    with open(archive, "rb") as file:
        file.seek(-min(size, _LONGEST_ZIP_END), os.SEEK_END)
        tail = file.read()
    start = tail.rindex(_ZIP_END)
    announced, comment = struct.unpack_from("<10xH8xH", tail, start)
    if announced not in (members, _IN_ZIP64):
        raise _Refused(f"it lists {members} of its {announced} members")
    if start + 22 + comment != len(tail):
        raise _Refused("something follows its end")


class _BoundedReads:
    """A stream for tarfile, which reads a header at once, whatever size it says it has."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if size > _MAX_TAR_HEADER:
            raise _Refused(f"it has a header of {size:,} bytes")
        return self._stream.read(size)


class _StrictTarInfo(tarfile.TarInfo):
    """A header whose damage is an error; tarfile takes it for the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive):
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # the block of zeros that ends an archive
            raise
        except tarfile.HeaderError as error:
            if not archive.offset:
                raise _Refused("it is neither a zip nor a tar archive") from error
            raise _Refused(f"the header at byte {archive.offset:,}: {error}") from error


def _tar_members(archive: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    with open(archive, "rb") as file:
        start = file.read(max(map(len, _COMPRESSIONS)))
    opener = next(
        (open_ for magic, open_ in _COMPRESSIONS.items() if start.startswith(magic)), open
    )
    with opener(archive, "rb") as stream:
        reads = _BoundedReads(stream)
        with tarfile.open(fileobj=reads, mode="r:", tarinfo=_StrictTarInfo) as file:
            for info in file:
                if not info.isreg() and not info.isdir():
                    raise _Refused(f"its member {shown(info.name)} is a link or special")
                if info.isreg():
                    yield info.name, info.size, file.extractfile(info)
        # Only at its end does a compressed stream compare its checksum and length.
        padding = stream.read(_MAX_TAR_PADDING)
        if padding.strip(b"\0") or stream.read(1):
            raise _Refused("something follows its end")
