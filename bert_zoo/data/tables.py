"""Labelled texts in tables (CSV, TSV, JSON, JSON Lines, Parquet, Excel), and TREC's question files.

CSV follows RFC 4180: a field in quotation marks may hold commas, line ends and doubled quotation
marks. TSV follows IANA's text/tab-separated-values: a quotation mark is text, as in GLUE's files.
JSON is an array of objects, or as JSON Lines one object a line. Of an Excel file the first sheet is read.

Nothing here imports TensorFlow.
"""

import contextlib
import csv
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.files import MAX_LINE_BYTES
from bert_zoo.error_text import nearest, quoted, shown
from bert_zoo.json_files import JSON_SPACE, parse_json, parse_json_at


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels, in the order of their file."""

    texts: list[str] | tuple[list[str], list[str]]  # strings [N], or a pair of lists [N], [N]
    # Class ids or scores [N], or tuples of class ids where a row may have any number of classes;
    # None where none were asked for.
    labels: list[int] | list[float] | list[tuple[int, ...]] | None
    label_names: tuple[str, ...]  # the classes in the order of their ids; empty for scores
    # Where each row begins in the file, [N]; empty where nothing is known of it.
    lines: Sequence[int] = field(default=(), compare=False, repr=False)
    skipped: int = field(default=0, compare=False)  # rows that were left out, as they have no label

    @property
    def classes(self) -> list[tuple[int, ...]]:
        """The class ids of each row, of which most tables have one."""
        return [ids if isinstance(ids, tuple) else (ids,) for ids in self.labels]

    def __len__(self) -> int:
        return len(self.texts[0] if isinstance(self.texts, tuple) else self.texts)


def read_table(
    path: str | Path,
    *,
    text: str | int = "text",
    text_pair: str | int | None = None,
    label: str | int | None = "label",
    label_delimiter: str | None = None,
    label_columns: Sequence[str | int] = (),
    label_names: Sequence[str] | None = None,
    regression: bool = False,
    skip_unlabelled: bool = False,
    format: str | None = None,
    delimiter: str | None = None,
    header: Sequence[str] | bool = True,
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> LabelledTexts:
    """Reads texts and labels from columns of a table; other columns are left unread.

    Labels are names of classes. Without `label_names` the names are collected from the file and
    sorted, as whole numbers where all of them are, otherwise by code point. Read the training file
    so, and other files of the task with its `label_names`; with them, a file that holds no name may
    hold ids (0, 1, ...) instead.

    Args:
        path: the file.
        text, text_pair: the columns of the texts, and of second texts for a task on pairs.
        label: the column of labels; None for texts that have none.
        label_delimiter: what stands between the names of a row's labels, of which there may be any
            number, none too; in JSON they may also be lists.
        label_columns: instead of `label`, columns that have 1 where the label of that name applies and 0
            where it does not.
        label_names: the classes in the order of their ids.
        regression: whether labels are scores: finite numbers.
        skip_unlabelled: whether rows without a label are left out, and counted. Otherwise they are an
            error, but for tables with several labels a row, of which there may be none.
        format: a key of `FORMATS`; by default what the file's suffix says, or "csv" where a
            delimiter is given. "parquet" and "excel" need `pip install 'bert_zoo[tables]'`.
        delimiter: the character between the fields of a CSV file, or "tab"; by default the one of
            `DELIMITERS` that the header tells.
        header: False for a file whose first line is a row like the others; columns are then numbers,
            from 0, or from -1 for the last. Or names for its columns.
        encoding: of the file; by default what its byte order mark says, UTF-8 where it has none.
        max_line_bytes: the longest line, and in CSV the longest row, that is accepted; in an array
            of JSON nothing limits its objects.

    Raises:
        ValueError: a column that is not there, a row, label or line that does not fit, or no row.
            Names file and line.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    text_columns = (text,) if text_pair is None else (text, text_pair)
    other_columns = label_columns or (() if label is None else (label,))
    columns: list[list[Any]] = [[] for _ in (*text_columns, *other_columns)]
    lines: list[int] = []
    skipped = 0
    arguments = dict(zip(text_columns, ("text", "text_pair"), strict=False))
    arguments |= (
        dict.fromkeys(label_columns, "label_columns") if label_columns else {label: "label"}
    )
    try:
        for line, values in rows(
            path,
            (*text_columns, *other_columns),
            format=format,
            delimiter=delimiter,
            header=header,
            encoding=encoding,
            max_line_bytes=max_line_bytes,
        ):
            told = values[len(text_columns) :]
            if skip_unlabelled and told and all(map(_is_missing, told)):
                skipped += 1
                continue
            lines.append(line)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
    except NoColumnError as error:
        argument = arguments[error.column]
        raise ValueError(
            f"{error} Say which column it is with {argument}= (--{argument})."
        ) from error
    if not lines:
        raise ValueError(f"{path}: none of its {skipped:,} rows has a label.")
    texts, cells = columns[: len(text_columns)], columns[len(text_columns) :]

    def place(row: int) -> str:
        return f"{path}, line {lines[row]}"

    for name, column in zip(text_columns, texts, strict=True):
        try:
            "".join(column).encode("utf-8")
        except (TypeError, UnicodeEncodeError):
            for row, value in enumerate(column):
                files.string(value, str(name), place(row))

    labels: list[int] | list[float] | list[tuple[int, ...]] | None = None
    names: tuple[str, ...] = ()
    if label_columns:
        names = tuple(map(str, label_columns))
        labels = _converted(zip(*cells, strict=True), partial(_marked, names=names), place)
    elif label is not None and label_delimiter:
        sets = _converted(cells[0], partial(_label_list, delimiter=label_delimiter), place)
        row_of = [row for row, some in enumerate(sets) for _ in some]
        if not row_of and label_names is None:
            raise ValueError(f"{path}: no row has a label. Is this the column of the labels?")
        flat = list(chain.from_iterable(sets))
        ids, names = class_ids(flat, label_names, lambda i: place(row_of[i]))
        of_rows = iter(ids)
        labels = [tuple(sorted(set(islice(of_rows, len(some))))) for some in sets]
    elif label is not None and regression:
        labels = _converted(cells[0], _score, place)
    elif label is not None:
        labels, names = class_ids(_converted(cells[0], _label_name, place), label_names, place)
    read = tuple(texts) if text_pair is not None else texts[0]
    return LabelledTexts(read, labels, names, lines, skipped)


def text_rows(
    path: str | Path, text: str | int = "text", text_pair: str | int | None = None, **how: Any
) -> Iterator[tuple[str, ...]]:
    """Yields the text, or the two texts, of each row of a table, which is read as it is asked for.

    Args:
        path, text, text_pair: as for `read_table`.
        **how: its further arguments on how the file is written: format, delimiter, header, encoding.

    Raises:
        ValueError, FileNotFoundError: as `read_table`.
    """
    path = Path(path)
    columns = (text,) if text_pair is None else (text, text_pair)
    with _naming_arguments(dict(zip(columns, TEXT_ARGUMENTS, strict=False))):
        for line, values in rows(path, columns, **how):
            named = zip(values, columns, strict=True)
            yield tuple(files.string(v, str(name), f"{path}, line {line}") for v, name in named)


def read_trec(
    path: str | Path,
    *,
    fine: bool = False,
    label_names: Sequence[str] | None = None,
    encoding: str = "latin-1",
) -> LabelledTexts:
    """Reads TREC's questions: lines of `COARSE:fine question`.

    Source: Li and Roth, "Learning Question Classifiers", COLING 2002; train_5500.label and
    TREC_10.label.

    Args:
        path: the file.
        fine: whether the classes are the fine ones, as "HUM:ind", and not the six coarse ones. The
            test file lacks some: read it with the `label_names` of the training file.
        label_names: the classes in the order of their ids; by default collected and sorted.
        encoding: of the file; the official ones are latin-1.

    Raises:
        ValueError: a line has no such label, or the file is empty. Names file and line.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    texts, labels = [], []
    for line, content in files.lines(path, encoding):
        fine_name, _, question = content.partition(" ")
        coarse_name, colon, _ = fine_name.partition(":")
        if not (coarse_name and colon and question):
            raise ValueError(
                f"{path}, line {line}: found {shown(content)}, expected a line such as "
                "'HUM:ind Who wrote this ?'."
            )
        texts.append(question)
        labels.append(fine_name if fine else coarse_name)
    if not texts:
        raise ValueError(f"{path} is empty. Download it again.")
    ids, names = class_ids(labels, label_names, lambda row: f"{path}, line {row + 1}")
    return LabelledTexts(texts, ids, names)


# --- Labels ---


# Spellings of whether a label applies, in lower case.
_MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}

# The number of a row -> where it stands, for messages alone.
_Place = Callable[[int], str]


def _converted(cells: Iterable[Any], convert: Callable[[Any], Any], place: _Place) -> list[Any]:
    """What the cells of a column mean; errors of `convert` get the place of their cell."""
    values = []
    for cell in cells:
        try:
            values.append(convert(cell))
        except ValueError as error:
            raise ValueError(f"{place(len(values))}: {error}") from error
    return values


def _marked(values: Sequence[Any], names: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the columns that hold a 1."""
    marks = [_MARKS.get(str(value).strip().lower()) for value in values]
    if None in marks:
        column = marks.index(None)
        raise ValueError(
            f"the label {shown(names[column])} is {shown(values[column])}, expected 1 where it "
            "applies and 0 where it does not."
        )
    return tuple(i for i, mark in enumerate(marks) if mark)


def _label_list(value: Any, delimiter: str) -> list[str]:
    """The names in a cell, of which there may be none."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(delimiter) if name.strip()]
    if _is_missing(value):
        return []
    return list(map(_label_name, value if isinstance(value, list) else [value]))


_SKIP = " skip_unlabelled=True (--skip_unlabelled) leaves such rows out; label=None reads texts without labels."


def _is_missing(value: Any) -> bool:
    """Whether a cell holds no label."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value


def _label_name(value: Any) -> str:
    if isinstance(value, str):
        if value.strip():
            return value
        raise ValueError(f"the label is empty. Correct the line.{_SKIP}")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    advice = _SKIP if _is_missing(value) else ""
    raise ValueError(f"the label is {shown(value)}, expected a string or a number.{advice}")


def _score(value: Any) -> float:
    score = math.nan if isinstance(value, bool) else number(value)
    if not math.isfinite(score):
        advice = _SKIP if _is_missing(value) else ""
        raise ValueError(f"the score is {shown(value)}, expected a finite number.{advice}")
    return score


def number(value: Any) -> float:
    """The number that a value is or spells; NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def class_ids(
    spelled: Sequence[str], label_names: Sequence[str] | None, place: _Place
) -> tuple[list[int], tuple[str, ...]]:
    """The ids of labels as they are spelled [N], and the names of the classes (see `read_table`)."""
    names = _collected_names(spelled, place) if label_names is None else tuple(label_names)
    ids = positions(names)
    numbers = {str(i): i for i in range(len(names))}
    used = set(spelled)
    if used.isdisjoint(ids) and not used.isdisjoint(numbers):
        ids = numbers
    return ids_of(spelled, ids, place), names


def positions(names: Sequence[str]) -> dict[str, int]:
    """The names of classes with their ids; raises ValueError where names occur twice."""
    ids = {name: i for i, name in enumerate(names)}
    if len(ids) != len(names):
        raise ValueError(f"label_names must differ from each other; got {quoted(names)}.")
    return ids


def ids_of(
    spelled: Sequence[str], ids: Mapping[str, int], place: _Place, what: str = "label"
) -> list[int]:
    """The ids of labels, or tags (`what`); raises ValueError that names the first unknown one."""
    try:
        return [ids[name] for name in spelled]
    except KeyError as error:
        name = error.args[0]
        raise ValueError(
            f"{place(spelled.index(name))}: the {what} is {shown(name)}, expected one of "
            f"{quoted(ids)}.{nearest(name, ids)}"
        ) from error


def _collected_names(spelled: Sequence[str], place: _Place) -> tuple[str, ...]:
    """The names that occur, checked to be meant as such: no scores, nor two spellings of one."""
    first: dict[str, int] = {}
    for row, name in enumerate(spelled):
        first.setdefault(name, row)
    numbers = {name: number(name) for name in first}
    if all(map(math.isfinite, numbers.values())):
        for name, value in numbers.items():
            if not value.is_integer():
                raise ValueError(
                    f"{place(first[name])}: the labels are numbers such as {shown(name)}. Pass "
                    "regression=True if they are scores, or label_names if they are classes."
                )
    seen: dict[str, str] = {}
    for name, row in first.items():
        other = seen.setdefault(" ".join(name.casefold().split()), name)
        if other != name:
            raise ValueError(
                f"{place(row)}: the label {shown(name)} differs from {shown(other)} "
                f"({place(first[other])}) in case or spaces alone. Correct one of them, or pass both in "
                "label_names if they are two classes."
            )
    are_whole = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in first)
    return tuple(sorted(first, key=int if are_whole else None))


# --- Rows ---


def rows(
    path: Path,
    columns: Sequence[str | int],
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: Sequence[str] | bool = True,
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yields the line on which each row begins (from 1) and its values in the columns asked for.

    Blank lines at the end of the file are left out. Arguments and errors are those of `read_table`.
    """
    delimiter = "\t" if delimiter == "tab" else delimiter
    name = _format_name(path, format, delimiter)
    options: dict[str, Any] = {"encoding": encoding, "max_bytes": max_line_bytes}
    if name == "csv":
        options["delimiter"] = delimiter or _found_delimiter(path, columns, header, options)
    elif delimiter is not None:
        raise ValueError(f"{path}: the delimiter {delimiter!r} is for CSV files. Leave it out.")
    elif name in _BINARY:
        if encoding is not None:
            raise ValueError(f"{path}: encoding is for files of text, not of {name}. Leave it out.")
        options = {}
    names_columns = name in _NAMING
    if names_columns and header is not True:
        raise ValueError(f"{path}: a file of {name} names its columns; leave out header.")
    pick = width = blank_line = row_line = None
    for line, record in FORMATS[name](path, **options):
        if record is None:
            blank_line = blank_line or line
            continue
        if blank_line:
            raise ValueError(
                f"{path}, line {blank_line}: the line is blank, and rows follow it. Remove it, or "
                "complete its row."
            )
        if pick is None:
            keys: Sequence[Any] = columns
            if not names_columns:
                keys, width, described = _layout(path, columns, header, line, record)
            # Of one key, itemgetter gives no tuple.
            pick = itemgetter(*keys) if len(keys) > 1 else lambda row, key=keys[0]: (row[key],)
            if header is True and not names_columns:
                continue
        if width is not None and len(record) != width:
            raise ValueError(
                f"{path}, line {line}: found {len(record)} fields, expected {width} {described}. "
                "Correct the line."
            )
        try:
            values = pick(record)
        except KeyError as error:
            raise NoColumnError(f"{path}, line {line}", error.args[0], record) from error
        row_line = line
        yield line, values
    if row_line is None:
        raise ValueError(f"{path} has no rows. Check that this is the right file.")


def _format_name(path: Path, format: str | None, delimiter: str | None) -> str:
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(
            f"The delimiter is {shown(delimiter)}; it is one character, such as ',', ';' or a tab."
        )
    by_suffix = SUFFIXES.get(path.suffix.lower())
    if format is None and delimiter is not None and by_suffix in (None, "tsv"):
        return "csv"
    name = by_suffix if format is None else format
    if name not in FORMATS:
        raise ValueError(
            f"{path}: the format {format!r} is not known. Choose one of {list(FORMATS)}."
            if format is not None
            else f"{path}: the suffix {path.suffix!r} does not say what format the file has; name it "
            f"with format=, one of {list(FORMATS)}."
        )
    return name


def _found_delimiter(
    path: Path, columns: Sequence[str | int], header: Sequence[str] | bool, options: Mapping
) -> str:
    """The one of `DELIMITERS` that the header tells; of files without header, the first rows.

    With it the header has most of the columns asked for, and then most columns.
    """

    def fit(delimiter: str) -> tuple[int, int]:
        records = _csv_records(path, delimiter=delimiter, **options)
        try:
            first = [
                fields or () for _, fields in islice(records, 1 if header is True else _FIRST_ROWS)
            ]
        except ValueError:
            return -1, 0
        if header is True:
            names = set().union(*first)
            return len(names & set(columns)), len(names)
        widths = set(map(len, first))
        # One field a row is what any delimiter finds that the file does not have.
        return int(len(widths) == 1 and widths != {1}), 0

    return max(DELIMITERS, key=fit)


def _layout(
    path: Path,
    columns: Sequence[str | int],
    header: Sequence[str] | bool,
    line: int,
    first: Sequence[str],
) -> tuple[list[int], int, str]:
    """The indices of columns in a row's fields, how many fields it has, and why, for messages."""
    if header is False:
        indices = [_position(path, column, first) for column in columns]
        return indices, len(first), "as on the first line"
    names, place = (first, f"line {line}") if header is True else (header, "header")
    return _named_positions(f"{path}, {place}", columns, names), len(names), f"({quoted(names)})"


def _position(path: Path, column: str | int, first: Sequence[str]) -> int:
    """The index of a column in a file without header."""
    try:
        index = int(column)
    except ValueError as error:
        raise ValueError(
            f"{path}: the columns of a file without header are numbers, from 0; got {column!r}. "
            f"Its first row is {quoted(first)}."
        ) from error
    if not -len(first) <= index < len(first):
        raise ValueError(
            f"{path}, line 1: there is no column {index}; columns count from 0, and the row is "
            f"{quoted(first)}."
        )
    return index


def _named_positions(where: str, columns: Sequence[str | int], header: Sequence[str]) -> list[int]:
    """The indices of columns in a header."""
    _check_different(where, header)
    for name in columns:
        if name not in header:
            advice = (
                " Of a file without header (header=False, --noheader) columns are given by number."
            )
            raise NoColumnError(where, name, header, advice)
    return [header.index(name) for name in columns]


TEXT_ARGUMENTS = ("text", "text_pair")


@contextlib.contextmanager
def _naming_arguments(arguments: Mapping[str | int, str]) -> Iterator[None]:
    """Adds to the error of a missing column which argument names it; column -> argument."""
    try:
        yield
    except NoColumnError as error:
        argument = arguments[error.column]
        raise ValueError(
            f"{error} Say which column it is with {argument}= (--{argument})."
        ) from error


class NoColumnError(ValueError):
    """A file lacks a column.

    Attributes:
        column: its name.
    """

    def __init__(self, where: str, name: str | int, known: Collection[str], advice: str = ""):
        super().__init__(
            f"{where}: there is no column {name!r}; the columns are {quoted(known)}."
            f"{nearest(str(name), known)}{advice}"
        )
        self.column = name


def _check_different(where: str, columns: Sequence[str]) -> None:
    if len(set(columns)) < len(columns):
        repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
        raise ValueError(
            f"{where}: the columns {quoted(repeated)} occur twice. Rename or remove them."
        )


# --- Formats: line and content of each record, which is None for a blank line ---


def _csv_records(
    path: Path, encoding: str | None, max_bytes: int, delimiter: str
) -> Iterator[tuple[int, list[str] | None]]:
    # The csv module's own limit holds for the whole process and is smaller; it is only ever raised,
    # because the limit on rows below is what bounds the memory.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    row_start = row_size = 0

    def content() -> Iterator[str]:
        nonlocal row_start, row_size
        for line, text in files.lines(path, encoding, max_line_bytes=max_bytes, keep_ends=True):
            row_start = row_start or line
            row_size += len(text)
            if row_size > max_bytes:
                raise ValueError(
                    f"{path}, line {row_start}: the row that begins here is longer than "
                    f"max_line_bytes, {max_bytes:,} bytes. Check that each quotation mark that "
                    "opens a field also closes; raise max_line_bytes for rows that are meant to be "
                    "longer."
                )
            yield text

    reader = csv.reader(content(), delimiter=delimiter, strict=True)
    while True:
        row_start = row_size = 0
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {row_start}: the row that begins here cannot be read ({error}). "
                "Correct its quotation marks or line ends: a field in quotation marks doubles those "
                "that it holds."
            ) from error
        yield row_start, fields or None


def _tsv_records(
    path: Path, encoding: str | None, max_bytes: int
) -> Iterator[tuple[int, list[str] | None]]:
    for line, text in files.lines(path, encoding, max_line_bytes=max_bytes):
        yield line, text.split("\t") if text else None


def _json_lines_records(
    path: Path, encoding: str | None, max_bytes: int
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    for line, text in files.lines(path, encoding, max_line_bytes=max_bytes, keep_ends=True):
        where = f"{path}, line {line}"
        if text.strip():
            record = parse_json(text, path, line, object_pairs_hook=partial(_unique_members, where))
            yield line, _object(where, record)
        else:
            yield line, None


def _json_records(
    path: Path, encoding: str | None, max_bytes: int
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    text = files.read_text(path, encoding)

    def after_space(start: int) -> int:
        return JSON_SPACE.match(text, start).end()

    start = after_space(0)
    if not text.startswith("[", start):
        yield from _json_lines_records(path, encoding, max_bytes)
        return
    line, counted, end = 1, 0, after_space(start + 1)
    while not text.startswith("]", end):
        line, counted = line + text.count("\n", counted, end), end
        where = f"{path}, line {line}"
        hook = partial(_unique_members, where)
        record, end = parse_json_at(text, end, path, object_pairs_hook=hook)
        yield line, _object(where, record)
        end = after_space(end)
        if text.startswith(",", end):
            end = after_space(end + 1)
        elif not text.startswith("]", end):
            raise ValueError(
                f"{path}, line {line + text.count(chr(10), counted, end)}: found "
                f"{shown(text[end : end + 40])}, expected ',' or ']' after an object of the array. "
                "Correct the line or download the file again."
            )
    if after := text[end + 1 : end + 41].strip():
        raise ValueError(f"{path}: found {shown(after)} after the end of the array. Remove it.")


def _parquet_records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a Parquet file, numbered from 1; a part of the file is in memory at a time."""
    arrow, parquet = (_reader(name, path) for name in ("pyarrow", "pyarrow.parquet"))
    files.require_file(path, advice="Check its name and folder.")
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
    except (OSError, arrow.ArrowException) as error:
        raise ValueError(
            f"{path} is not a whole Parquet file ({error}). Write it again."
        ) from error


def _excel_records(path: Path) -> Iterator[tuple[int, list[str] | None]]:
    """The rows of the first sheet of an Excel file, their cells as text."""
    openpyxl = _reader("openpyxl", path)
    files.require_file(path, advice="Check its name and folder.")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    # What openpyxl raises of damaged files: zipfile's errors, KeyError, ValueError and others.
    except Exception as error:
        raise ValueError(
            f"{path} is not a whole Excel file ({type(error).__name__}: {error}). Save it again as .xlsx, "
            "or as CSV."
        ) from error
    with contextlib.closing(book):
        sheet = book.worksheets[0]
        # Some programs write a wrong size of the sheet, after which cells would be left out.
        sheet.reset_dimensions()
        width = None
        for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
            fields = [_excel_text(cell) for cell in cells]
            # Trailing empty cells are stored or not, as the program that wrote the file sees fit.
            while fields and not fields[-1]:
                fields.pop()
            if not fields:
                yield number, None
                continue
            width = width or len(fields)
            yield number, fields + [""] * (width - len(fields))


def _excel_text(cell: Any) -> str:
    """What a cell shows without formatting."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def _reader(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{path}: reading it needs {module.partition('.')[0]}: pip install 'bert_zoo[tables]'. Or save "
            "the table as CSV."
        ) from error


def _object(where: str, record: Any) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: found {shown(record)}, expected a JSON object.")
    return record


def _unique_members(where: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        _check_different(where, [name for name, _ in pairs])
    return record


# Name -> what gives the records of a file. "quoted_tsv" is what spreadsheets and pandas write: tabs,
# with the quoting rules of CSV.
FORMATS: Mapping[str, Callable[..., Iterator[tuple[int, Any]]]] = {
    "csv": _csv_records,
    "tsv": _tsv_records,
    "quoted_tsv": partial(_csv_records, delimiter="\t"),
    "jsonl": _json_lines_records,
    "json": _json_records,
    "parquet": _parquet_records,
    "excel": _excel_records,
}
# Those whose records have names, and those that are no text.
_NAMING = ("json", "jsonl", "parquet")
_BINARY = ("parquet", "excel")
SUFFIXES: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "excel",
}
# Of CSV files, the usual one first: spreadsheets write semicolons where commas are in numbers.
DELIMITERS = (",", ";", "\t", "|")
# Rows by which the delimiter of a file is found.
_FIRST_ROWS = 20
