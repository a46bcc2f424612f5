"""What the readers of labelled data share: files read with errors that name the place in them.

Nothing here imports TensorFlow, unless `download` is called.
"""

import codecs
import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

# The longest line that is read unless a caller says otherwise. A text of this size has a quarter of
# a million tokens: what is longer is a missing line end or another kind of file.
MAX_LINE_BYTES = 1 << 20

_LONGEST_QUOTE = 80
_MOST_NAMES = 30


def require_file(path: Path, advice: str) -> Path:
    """Returns the path, or raises FileNotFoundError with what to do about it."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. {advice}")
    return path


def lines(
    path: Path,
    encoding: str = "utf-8",
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    keep_ends: bool = False,
) -> Iterator[tuple[int, str]]:
    """Yields line number (from 1) and text of each line.

    Texts hold characters that Python counts as line ends (U+0085, U+2028), so lines are cut at "\\n"
    alone, before decoding. A byte order mark is no part of the first line.

    Args:
        path: the file.
        encoding: of the file; one that writes ASCII as ASCII.
        max_line_bytes: where a longer line is refused; no more than this is held in memory.
        keep_ends: whether lines keep their line end, "\\n" or "\\r\\n".

    Raises:
        ValueError: names file and line of what is too long or not in that encoding.
        FileNotFoundError: there is no such file.
    """
    codec = _line_codec(encoding)
    require_file(path, "Check its name and folder.")
    with path.open("rb") as file:
        line_number = 0
        while line := file.readline(max_line_bytes + 1):
            line_number += 1
            if len(line) > max_line_bytes:
                raise ValueError(
                    f"{path}, line {line_number}: the line is longer than max_line_bytes, "
                    f"{max_line_bytes:,} bytes. Check that no line end is missing and that this is "
                    "the right file; raise max_line_bytes for texts that are meant to be longer."
                )
            is_first_utf8 = line_number == 1 and codec == "utf-8"
            try:
                text = line.decode("utf-8-sig" if is_first_utf8 else codec)
            except UnicodeDecodeError as error:
                raise _not_decodable(path, line_number, encoding, error) from error
            yield line_number, text if keep_ends else text.removesuffix("\n").removesuffix("\r")


def _line_codec(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding).name
    except LookupError as error:
        raise ValueError(
            f"{encoding!r} is not an encoding that Python knows; 'utf-8' and 'latin-1' are two."
        ) from error
    if "\n".encode(codec) != b"\n":
        raise ValueError(
            f"Files in {encoding} cannot be cut into lines before they are decoded. Convert the "
            "file to UTF-8."
        )
    return codec


def _not_decodable(
    path: Path, line_number: int, encoding: str, error: UnicodeDecodeError
) -> ValueError:
    return ValueError(
        f"{path}, line {line_number}: this is not {encoding.upper()} ({error}). Convert the file "
        "to UTF-8 or download it again; a reader with the argument `encoding` can also be told the "
        "file's own, for example 'latin-1'."
    )


def read_json(path: Path) -> Any:
    """Reads a file that is one JSON value, in UTF-8.

    Raises:
        ValueError: names file and line of what is not UTF-8 or not JSON; or the file is empty.
        FileNotFoundError: there is no such file.
    """
    content = require_file(path, "Check its name and folder.").read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line_number = content.count(b"\n", 0, error.start) + 1
        raise _not_decodable(path, line_number, "utf-8", error) from error
    if not text.strip():
        raise ValueError(f"{path} is empty. Download it again.")
    return parse_json(text, path)


def parse_json(text: str, path: Path, first_line: int = 1, **options) -> Any:
    """Parses JSON that begins on a line of a file; `options` are those of `json.loads`."""
    try:
        return json.loads(text, **options)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {first_line + error.lineno - 1}: this is not JSON ({error.msg} at "
            f"character {error.colno}, {shown(text[error.pos : error.pos + 40])}). Correct the "
            "line or download the file again."
        ) from error


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


_KINDS = {int: "a whole number", bool: "true or false", list: "a list"}


def member(record: Any, name: str, kind: type, where: object) -> Any:
    """A member of a JSON object, checked to be there and of its kind.

    Args:
        record: what should be the object.
        name: of the member.
        kind: str or a key of `_KINDS`.
        where: the place, for messages; turned into text only for these.

    Raises:
        ValueError: it is not; says what stands there.
    """
    if not isinstance(record, Mapping):
        raise ValueError(
            f"{where}: found {shown(record)}, expected a JSON object with the member {name!r}."
        )
    if name not in record:
        raise ValueError(f"{where}: {name!r} is missing; the members are {listed(record)}.")
    value = record[name]
    if kind is str:
        return string(value, name, where)
    # To Python, and not to JSON, true is a whole number.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: {name!r} is {shown(value)}, expected {_KINDS[kind]}.")
    return value


def check_split(data_set: str, split: str, known: Collection[str]) -> None:
    """Raises ValueError where a data set has no such split."""
    if split not in known:
        raise ValueError(f"{data_set} has no split {split!r}; choose one of {list(known)}.")


def shown(value: Any) -> str:
    """A value as messages quote it: not longer than a line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def listed(names: Collection[str]) -> str:
    """Names as messages list them: not more than a few lines."""
    first = list(names)[:_MOST_NAMES]
    return f"{first}" if len(first) == len(names) else f"{first} and {len(names) - len(first)} more"


def nearest(name: str, known: Collection[str]) -> str:
    """A sentence that offers the most similar of the known names; empty where none is similar."""
    by_lower_case = {other.casefold(): other for other in known}
    similar = difflib.get_close_matches(name.casefold(), by_lower_case, n=1)
    return f" Did you mean {by_lower_case[similar[0]]!r}?" if similar else ""


def download(name: str, split: str, instead: str) -> list[dict[str, Any]]:
    """Reads a split with `tensorflow_datasets`, in its order: by a hash, not as in the original.

    Args:
        name: of the data set and its configuration there, such as "glue/rte".
        split: the split's name there.
        instead: a sentence that says how to do without the download.

    Raises:
        RuntimeError: the download failed, or tensorflow_datasets cannot be imported.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise RuntimeError(
            f"{name} cannot be downloaded because tensorflow_datasets cannot be imported "
            f"({error}). Install it with `pip install tensorflow-datasets`. {instead}"
        ) from error
    try:
        return list(tfds.as_numpy(tfds.load(name, split=split)))
    # What a failed download raises depends on the step: network, checksum, disk, file format.
    except Exception as error:
        raise RuntimeError(
            f"tensorflow_datasets could not provide {name}, split {split} "
            f"({type(error).__name__}: {error}). {instead}"
        ) from error
