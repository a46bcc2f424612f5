"""Reads and writes files of data: text and JSON with errors that name the place, and NumPy files too large for memory.

Only downloads import TensorFlow.
"""

import codecs
import errno
import gzip
import io
import os
import re
import shutil
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import urlsplit

import numpy as np

from bert_zoo.error_text import check_has_utf8, shown
from bert_zoo.json_files import member, parse_json
from bert_zoo.weights.download import NoNetworkError, require_network
from bert_zoo.weights.files import naming_full_disk

# Default limit of a line. A text of this size has a quarter of a million tokens; anything longer has a
# missing line end or is another kind of file.
MAX_LINE_BYTES = 1 << 20

# Errors of gzip for files that are damaged, incomplete or not gzip.
_NOT_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
_NAME_ENCODING = (
    "Pass the file's encoding, for example encoding='{0}' (--encoding {0}), or convert it to UTF-8."
)
# Longer marks come before marks that are their prefix.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Codecs that need a byte order mark -> codec for a file without one.
_WITHOUT_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def require_file(*candidates: Path, advice: str) -> Path:
    """The first path that exists; raises FileNotFoundError with the advice if there is none."""
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(f"There is no file {' or '.join(map(str, candidates))}. {advice}")


def lines(
    path: Path,
    encoding: str | None = None,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    keep_ends: bool = False,
) -> Iterator[tuple[int, str]]:
    """Yields line number (from 1) and text of each line.

    Lines end only at "\\n", since texts contain other characters that Python counts as line ends (U+0085,
    U+2028). A byte order mark is not part of the first line; it, or UTF-8, is the default encoding. The limit also
    limits memory. With `keep_ends`, lines keep "\\n" or "\\r\\n".

    Raises:
        ValueError: a line is too long or not in this encoding, or the file is not gzip. Names file and line.
        FileNotFoundError: the file does not exist.
    """
    codec, mark = _codec_of(path, encoding)
    line_number = 0
    with io.TextIOWrapper(_opened(path), encoding=codec, newline="\n") as file:
        file.buffer.seek(len(mark))
        next_line = partial(file.readline, max_line_bytes + 1)
        try:
            for line_number, text in enumerate(iter(next_line, ""), start=1):
                # No encoding needs more than four bytes per character.
                if 4 * len(text) > max_line_bytes and len(text.encode(codec)) > max_line_bytes:
                    raise ValueError(
                        f"{path}, line {line_number}: the line is longer than max_line_bytes, "
                        f"{max_line_bytes:,} bytes. Check that no line end is missing and that this is "
                        "the right file, or raise max_line_bytes for longer texts."
                    )
                if line_number == 1 and encoding is None and text.count("\0") > len(text) // 4:
                    raise ValueError(
                        f"{path}, line 1: many bytes are zero, as in UTF-16 without a byte order "
                        f"mark. {_NAME_ENCODING.format('utf-16-le')}"
                    )
                yield line_number, text if keep_ends else text.removesuffix("\n").removesuffix("\r")
        except _NOT_GZIP as error:
            raise _not_gzip(path, line_number + 1, error) from error
        except UnicodeDecodeError as error:
            # Python decodes block by block, as soon as no complete line is left.
            line_number += 1 + error.object[: error.start].decode(codec).count("\n")
            # For these bytes, latin-1 has control characters, which texts lack, and cp1252 has the euro
            # sign and typographic quotation marks.
            western = "cp1252" if re.search(b"[\x80-\x9f]", error.object) else "latin-1"
            other = western if codec == "utf-8" else "utf-8"
            raise ValueError(
                f"{path}, line {line_number}: this is not {codec.upper()} ({error.reason} at byte "
                f"{error.object[error.start : error.start + 1].hex()}). {_NAME_ENCODING.format(other)}"
            ) from error


def _opened(path: Path) -> BinaryIO:
    """A file's bytes, decompressed if its name ends in ".gz"."""
    return gzip.open(path) if is_gzip(path) else path.open("rb")


def is_gzip(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _not_gzip(path: Path, line_number: int, error: Exception) -> ValueError:
    return ValueError(
        f"{path}, line {line_number}: the file is not complete gzip ({error}). Download it again, or remove "
        "'.gz' from its name if it is not compressed."
    )


def _codec_of(path: Path, encoding: str | None) -> tuple[str, bytes]:
    """The codec for a file, and its byte order mark, if any."""
    require_file(path, advice="Check its name and folder.")
    with _opened(path) as file:
        try:
            start = file.read(max(map(len, _BYTE_ORDER_MARKS)))
        except _NOT_GZIP as error:
            raise _not_gzip(path, 1, error) from error
    mark = next((mark for mark in _BYTE_ORDER_MARKS if start.startswith(mark)), b"")
    marked = _BYTE_ORDER_MARKS.get(mark, "utf-8")
    if encoding is None:
        return marked, mark
    try:
        codec = codecs.lookup(encoding).name
        "\n".encode(codec)
    except LookupError as error:
        raise ValueError(
            f"Python does not know the encoding {encoding!r}. Pass one such as 'utf-8', 'latin-1' or 'utf-16'."
        ) from error
    if mark and not marked.startswith(codec.removesuffix("-sig")):
        raise ValueError(
            f"{path}, line 1: the file begins with the byte order mark of {marked.upper()}, but "
            f"encoding is {encoding!r}. Leave encoding out."
        )
    return (marked, mark) if mark else (_WITHOUT_MARK.get(codec, codec), b"")


def read_text(path: Path, encoding: str | None = None) -> str:
    """A whole file as text. Arguments and errors are as for `lines`, without a limit on lines."""
    unlimited = lines(path, encoding, max_line_bytes=sys.maxsize - 1, keep_ends=True)
    return "".join(text for _, text in unlimited)


def read_json(path: Path) -> Any:
    """Reads a file with one JSON value; errors as for `lines` and `parse_json`."""
    text = read_text(path)
    if not text.strip():
        raise ValueError(f"{path} is empty. Download it again.")
    return parse_json(text, path)


def json_lines(path: Path, encoding: str | None = None, **limits: int) -> Iterator[tuple[str, Any]]:
    """Yields the place, for messages, and the value of each line of a JSON Lines file. Blank lines are skipped.

    Arguments and errors are as for `lines` and `parse_json`.
    """
    for number, text in lines(path, encoding, **limits):
        if text.strip():
            yield f"{path}, line {number}", parse_json(text, path, number)


def string(value: Any, name: str, where: object) -> str:
    """Returns the value; raises ValueError unless it is a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise ValueError(f"{where}: {name!r} is {shown(value)}, expected a string.")
    if not value.isascii():
        check_has_utf8(value, f"{where}: {name!r}")
    return value


def text_member(record: Any, name: str, where: object) -> str:
    """A member of a JSON object; raises ValueError unless it is a string that UTF-8 can encode."""
    return string(member(record, name, str, where), name, where)


def check_known(problem: str, name: str, known: Collection[str]) -> None:
    """Raises ValueError with the problem, such as "RACE has no split", for an unknown name."""
    if name not in known:
        raise ValueError(f"{problem} {name!r}; choose one of {list(known)}.")


def download(name: str, split: str, files: str) -> list[dict[str, Any]]:
    """A whole split of `examples_of`; `files` names what to pass as data_dir instead, for messages."""
    instead = f"Or download {files} yourself and pass it as data_dir (--data_dir)."
    return list(examples_of(name, split, instead))


def examples_of(name: str, split: str, instead: str) -> Iterator[dict[str, Any]]:
    """Yields a split of `tensorflow_datasets`, in its order, which follows a hash; `name` such as "glue/rte".

    Raises RuntimeError, which ends with `instead`, if the download or the import of tensorflow_datasets fails.
    """
    try:
        import tensorflow_datasets as tfds

        builder = tfds.builder(name)
        if not builder.is_prepared():
            _require_network(builder.url_infos)
        yield from tfds.as_numpy(tfds.load(name, split=split))
    except ImportError as error:
        raise RuntimeError(
            f"{name} cannot be downloaded because tensorflow_datasets cannot be imported "
            f"({error}). Install it together with TensorFlow, which it needs: "
            f"`pip install 'bert_zoo[datasets,tensorflow]'`. {instead}"
        ) from error
    # Failed downloads raise different errors: network, checksum, disk, file format.
    except Exception as error:
        raise RuntimeError(
            f"tensorflow_datasets could not provide {name}, split {split} "
            f"({type(error).__name__}: {error}). {instead}"
        ) from error


def _require_network(urls: Iterable[str]) -> None:
    """Raises NoNetworkError if none of the servers can be reached, which tensorflow_datasets would try ten times."""
    failure = None
    for url in {urlsplit(url).netloc: url for url in urls}.values():
        try:
            require_network(url)
            return
        except NoNetworkError as error:
            failure = error
    if failure is not None:
        raise failure


def decoded(texts: Iterable[bytes]) -> list[str]:
    return [text.decode("utf-8") for text in texts]


# --- NumPy files: written row by row beside their name, and checked when they are opened ---

# Answers of file systems that cannot reserve space.
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class RowFile(AbstractContextManager):
    """Writes the rows of a `.npy` file in blocks. The file appears when the context ends without an error.

    Until then the rows are in a part beside it, whose header counts those that are complete. They are written
    rather than assigned to a memory map, which would kill the process on a full disk. A known number of `rows`
    makes the first block reserve room for all of them. With `resume`, the `part` (`<path>.part`) of a stopped
    process is continued, and kept if this one stops.

    Raises:
        DiskFullError: there is no room for the file.
        ValueError: the part is damaged.
    """

    def __init__(
        self, path: Path, rows: int | None = None, *, part: Path | None = None, resume: bool = False
    ):
        self.path, self.rows, self.resume = path, rows, resume
        self.part = part or path.with_name(f"{path.name}.part")
        # Rows written, and values in a row, 0 before the first block.
        self.done = self.size = self._begin = 0
        self._dtype = np.dtype(np.float32)

    def __enter__(self) -> Self:
        continues = self.resume and self.part.is_file() and self.part.stat().st_size > 0
        if continues:
            kept = _mapped(self.part, (None, None), None, f"Delete {self.part} to begin again.")
            self.done, self.size = kept.shape
            self._dtype, self._begin = kept.dtype, kept.offset
        self._file = self.part.open("r+b" if continues else "w+b")
        return self

    def append(self, block: np.ndarray) -> None:
        """Writes rows [number, size]. All blocks have the same size and dtype."""
        total = None
        if not self.done:
            self.size, self._dtype = block.shape[1], block.dtype
            self._write_header()
            if self.rows is not None:
                total = self._begin + self.rows * self._row_bytes
        with naming_full_disk(self.part, str(self.path), total):
            if total is not None:
                _reserve(self._file.fileno(), total, self.part.parent)
            self._file.seek(self._begin + self.done * self._row_bytes)
            self._file.write(block.tobytes())
            self._flush()
            # Counted once they are on the disk.
            self.done += len(block)
            self._write_header()
            self._flush()

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            # What the last process wrote of an uncounted block, or reserved for rows that did not come.
            self._file.truncate(self._begin + self.done * self._row_bytes)
            self._file.close()
            os.replace(self.part, self.path)
            return
        # After a full disk, closing tries once more to write what is left.
        with suppress(OSError):
            self._file.close()
        if not (self.resume and self.done):
            self.part.unlink()

    @property
    def _row_bytes(self) -> int:
        return self.size * self._dtype.itemsize

    def _write_header(self) -> None:
        """NumPy gives the header the same length for any number of rows."""
        self._file.seek(0)
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.done, self.size),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
        self._begin = self._file.tell()

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def _reserve(file: int, size: int, directory: Path) -> None:
    """Reserves disk space for a file of `size` bytes; raises OSError with ENOSPC if there is too little."""
    if size > shutil.disk_usage(directory).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # macOS and Windows lack it: there the check above must do.
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                raise


def open_array(
    path: Path, shape: Sequence[int | None], dtype: Any, remedy: str, *, may_be_longer: bool = False
) -> np.ndarray:
    """Opens a `.npy` file as a read-only memory map; ValueError, which ends with the next step `remedy`, if it is
    damaged or its shape (None for an unknown size) or dtype (None for any) is another. One that a stopped process
    appended to may be longer than its header says."""
    array = _mapped(path, shape, dtype, remedy)
    if not may_be_longer:
        check_size(path, array.offset + array.nbytes, remedy)
    return array


def check_size(path: Path, size: int, remedy: str) -> None:
    """Raises ValueError, which ends with the next step `remedy`, unless a file has `size` bytes."""
    found = path.stat().st_size
    if found != size:
        raise ValueError(f"{path} is damaged: it has {found:,} bytes instead of {size:,}. {remedy}")


def _mapped(path: Path, shape: Sequence[int | None], dtype: Any, remedy: str) -> np.memmap:
    """Opens a file as `open_array` does, but it may be longer than its header says."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{path} is damaged: its {path.stat().st_size:,} bytes are not a whole NumPy file ({error}). {remedy}"
        ) from error
    expected = tuple(
        actual if size is None else size for size, actual in zip(shape, array.shape, strict=False)
    )
    if len(shape) != array.ndim or expected != array.shape or array.dtype != (dtype or array.dtype):
        raise ValueError(
            f"{path} has {array.dtype} values of the shape {array.shape}; expected {dtype or 'values'} of the shape "
            f"{tuple(shape)}. {remedy}"
        )
    return array
