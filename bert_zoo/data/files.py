"""What the readers of labelled data share: files read with errors that name the place in them.

Nothing here imports TensorFlow, unless `download` is called.
"""

import codecs
import gzip
import io
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from bert_zoo.error_text import shown
from bert_zoo.json_files import member, parse_json

# The longest line that is read unless a caller says otherwise. A text of this size has a quarter of
# a million tokens: what is longer is a missing line end or another kind of file.
MAX_LINE_BYTES = 1 << 20

# What gzip raises for a file that is damaged, cut short or something else.
_NOT_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
_NAME_ENCODING = "Name the file's own encoding, for example encoding='{0}' (--encoding {0}), or convert it to UTF-8."
# The longer marks before those that begin them; what follows a mark has that one byte order.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Codecs that need a byte order mark -> what reads a file without one.
_WITHOUT_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def require_file(*candidates: Path, advice: str) -> Path:
    """The first of the paths that exists; raises FileNotFoundError with the advice if none does."""
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

    Texts hold characters that Python counts as line ends (U+0085, U+2028), so lines are cut at "\\n"
    alone. A byte order mark is no part of the first line.

    Args:
        path: the file; one whose name ends in ".gz" is unpacked while it is read.
        encoding: of the text; by default what its byte order mark says, UTF-8 where it has none.
        max_line_bytes: where a longer line is refused; not much more than this is held in memory.
        keep_ends: whether lines keep their line end, "\\n" or "\\r\\n".

    Raises:
        ValueError: names file and line of what is too long, not in that encoding or not gzip.
        FileNotFoundError: there is no such file.
    """
    codec, mark = _codec_of(path, encoding)
    line_number = 0
    with io.TextIOWrapper(_opened(path), encoding=codec, newline="\n") as file:
        file.buffer.seek(len(mark))
        next_line = partial(file.readline, max_line_bytes + 1)
        try:
            for line_number, text in enumerate(iter(next_line, ""), start=1):
                # No encoding takes more than four bytes for a character.
                if 4 * len(text) > max_line_bytes and len(text.encode(codec)) > max_line_bytes:
                    raise ValueError(
                        f"{path}, line {line_number}: the line is longer than max_line_bytes, "
                        f"{max_line_bytes:,} bytes. Check that no line end is missing and that this is "
                        "the right file; raise max_line_bytes for texts that are meant to be longer."
                    )
                if line_number == 1 and encoding is None and text.count("\0") > len(text) // 4:
                    raise ValueError(
                        f"{path}, line 1: much of it is zero bytes, as in UTF-16 without a byte order "
                        f"mark. {_NAME_ENCODING.format('utf-16-le')}"
                    )
                yield line_number, text if keep_ends else text.removesuffix("\n").removesuffix("\r")
        except _NOT_GZIP as error:
            raise _not_gzip(path, line_number + 1, error) from error
        except UnicodeDecodeError as error:
            # Python decodes blocks, the bad one as soon as no whole line is left of those before.
            line_number += 1 + error.object[: error.start].decode(codec).count("\n")
            # Of the two encodings of Western files, latin-1 has control characters, which no text
            # holds, where cp1252 has the euro sign and typographic quotation marks.
            western = "cp1252" if re.search(b"[\x80-\x9f]", error.object) else "latin-1"
            other = western if codec == "utf-8" else "utf-8"
            raise ValueError(
                f"{path}, line {line_number}: this is not {codec.upper()} ({error.reason} at byte "
                f"{error.object[error.start : error.start + 1].hex()}). {_NAME_ENCODING.format(other)}"
            ) from error


def _opened(path: Path) -> BinaryIO:
    """A file's bytes, unpacked where its name ends in ".gz"."""
    return gzip.open(path) if is_gzip(path) else path.open("rb")


def is_gzip(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _not_gzip(path: Path, line_number: int, error: Exception) -> ValueError:
    return ValueError(
        f"{path}, line {line_number}: the file is not whole gzip ({error}). Fetch it again, or take "
        "'.gz' off its name if it is not packed."
    )


def _codec_of(path: Path, encoding: str | None) -> tuple[str, bytes]:
    """The codec that reads a file, and the byte order mark before what it reads."""
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
            f"{encoding!r} is not an encoding that Python knows, such as 'utf-8', 'latin-1' or 'utf-16'."
        ) from error
    if mark and not marked.startswith(codec.removesuffix("-sig")):
        raise ValueError(
            f"{path}, line 1: the file begins with the byte order mark of {marked.upper()}, and "
            f"encoding is {encoding!r}. Leave encoding out."
        )
    return (marked, mark) if mark else (_WITHOUT_MARK.get(codec, codec), b"")


def read_text(path: Path, encoding: str | None = None) -> str:
    """A whole file as text; arguments and errors are those of `lines`, without a limit on lines."""
    unlimited = lines(path, encoding, max_line_bytes=sys.maxsize - 1, keep_ends=True)
    return "".join(text for _, text in unlimited)


def read_json(path: Path) -> Any:
    """Reads a file that is one JSON value; errors as of `lines` and `parse_json`."""
    text = read_text(path)
    if not text.strip():
        raise ValueError(f"{path} is empty. Download it again.")
    return parse_json(text, path)


def string(value: Any, name: str, where: object) -> str:
    """The value, checked to be a string that UTF-8 can write."""
    if not isinstance(value, str):
        raise ValueError(f"{where}: {name!r} is {shown(value)}, expected a string.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{where}: {name!r} holds a lone surrogate, {value[error.start]!a}, which has no "
                "UTF-8 form. Replace this half of a character."
            ) from error
    return value


def text_member(record: Any, name: str, where: object) -> str:
    """A member of a JSON object, checked to be a string that UTF-8 can write."""
    return string(member(record, name, str, where), name, where)


def check_known(problem: str, name: str, known: Collection[str]) -> None:
    """Raises ValueError with the problem, such as "RACE has no split", for an unknown name."""
    if name not in known:
        raise ValueError(f"{problem} {name!r}; choose one of {list(known)}.")


def download(name: str, split: str, files: str) -> list[dict[str, Any]]:
    """A whole split of `examples_of`; `files` are what to pass as data_dir instead, for messages."""
    instead = f"Download {files} by other means and pass it as data_dir (--data_dir)."
    return list(examples_of(name, split, instead))


def examples_of(name: str, split: str, instead: str) -> Iterator[dict[str, Any]]:
    """Reads a split with `tensorflow_datasets`, in its own order, which follows a hash.

    Args:
        name: of the data set and its configuration there, such as "glue/rte".
        split: the split's name there.
        instead: what to do where this fails, for messages.

    Raises:
        RuntimeError: the download failed, or tensorflow_datasets cannot be imported.
    """
    try:
        import tensorflow_datasets as tfds

        yield from tfds.as_numpy(tfds.load(name, split=split))
    except ImportError as error:
        raise RuntimeError(
            f"{name} cannot be downloaded because tensorflow_datasets cannot be imported "
            f"({error}). Install it with TensorFlow, by which it reads: "
            f"`pip install 'bert_zoo[datasets,tensorflow]'`. {instead}"
        ) from error
    # What a failed download raises depends on the step: network, checksum, disk, file format.
    except Exception as error:
        raise RuntimeError(
            f"tensorflow_datasets could not provide {name}, split {split} "
            f"({type(error).__name__}: {error}). {instead}"
        ) from error


def decoded(texts: Iterable[bytes]) -> list[str]:
    """Texts of tensorflow_datasets as strings."""
    return [text.decode("utf-8") for text in texts]
