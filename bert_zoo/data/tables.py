"""Labelled texts in tables (CSV, TSV, JSON, JSON Lines), and TREC's question files.

CSV follows RFC 4180: a field in quotation marks may hold commas, line ends and doubled quotation
marks. TSV follows IANA's text/tab-separated-values: a quotation mark is text, as in GLUE's files.
JSON is an array of objects, or as JSON Lines one object a line.

Nothing here imports TensorFlow.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.files import MAX_LINE_BYTES, listed, nearest, shown
from bert_zoo.json_files import JSON_SPACE, parse_json, parse_json_at


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels, in the order of their file.

    Attributes:
        texts: strings [N], or a pair of lists [N], [N].
        labels: class ids or scores [N], or tuples of class ids where a row may have any number of
            classes; None where none were asked for.
        label_names: the classes in the order of their ids; empty for scores.
        lines: where each row begins in the file, [N]; empty where nothing is known of it.
    """

    texts: list[str] | tuple[list[str], list[str]]
    labels: list[int] | list[float] | list[tuple[int, ...]] | None
    label_names: tuple[str, ...]
    lines: Sequence[int] = field(default=(), compare=False, repr=False)

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
    format: str | None = None,
    delimiter: str | None = None,
    header: Sequence[str] | bool = True,
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> LabelledTexts:
    """Reads texts and labels from columns of a table; other columns are left unread.

    Labels are names of classes. Without `label_names` the names are collected from the file and
    sorted: as whole numbers where all of them are, otherwise by code point, so that the order of
    rows does not matter. Read the training file so, and other files of the task with its
    `label_names`. With them given, a file that holds no name may hold ids (0, 1, ...) instead.

    Args:
        path: the file.
        text: the column of the texts.
        text_pair: the column of second texts, for a task on pairs.
        label: the column of labels; None for texts that have none.
        label_delimiter: what stands between the names of a row's labels, of which there may be any
            number, none too; in JSON they may also be lists.
        label_columns: instead of `label`, columns that have 1 where the label of that name applies and 0
            where it does not.
        label_names: the classes in the order of their ids.
        regression: whether labels are scores: finite numbers.
        format: a key of `FORMATS`; by default what the file's suffix says, or "csv" where a
            delimiter is given.
        delimiter: the character between the fields of a CSV file; by default the one of
            `DELIMITERS` with which the file has the columns asked for.
        header: False for a file whose first line is a row like the others; columns are then numbers,
            from 0, or from -1 for the last. Or names for its columns.
        encoding: of the file; by default what its byte order mark says, UTF-8 where it has none.
        max_line_bytes: the longest line, and in CSV the longest row, that is accepted; in an array
            of JSON nothing limits its objects.

    Raises:
        ValueError: the file has no such column, a row that does not fit its columns or its format,
            a label that is unknown or empty, a line that is too long or not in that encoding, or no
            row. Names file and line.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    text_columns = (text,) if text_pair is None else (text, text_pair)
    label_column = () if label is None else (label,)
    columns = (*text_columns, *(label_columns or label_column))
    texts: list[list[str]] = [[] for _ in text_columns]
    raw_labels, lines = [], []
    for line, values in rows(
        path,
        columns,
        format=format,
        delimiter=delimiter,
        header=header,
        encoding=encoding,
        max_line_bytes=max_line_bytes,
    ):
        lines.append(line)
        for column, name, value in zip(texts, text_columns, values, strict=False):
            column.append(files.string(value, str(name), f"{path}, line {line}"))
        raw_labels.append((line, values[len(text_columns) :]))

    labels: list[int] | list[float] | list[tuple[int, ...]] | None = None
    names: tuple[str, ...] = ()
    if label_columns:
        names = tuple(map(str, label_columns))
        labels = [_marked(values, f"{path}, line {line}", names) for line, values in raw_labels]
    elif label_column and label_delimiter:
        listed_names = [
            (line, _label_list(value, label_delimiter, f"{path}, line {line}"))
            for line, (value,) in raw_labels
        ]
        labels, names = _label_sets(path, listed_names, label_names)
    elif label_column and regression:
        labels = [_score(value, f"{path}, line {line}") for line, (value,) in raw_labels]
    elif label_column:
        spelled = [
            (line, _label_name(value, f"{path}, line {line}")) for line, (value,) in raw_labels
        ]
        labels, names = class_ids(path, spelled, label_names)
    whole = texts[0] if text_pair is None else (texts[0], texts[1])
    return LabelledTexts(whole, labels, names, lines)


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
            test file lacks some of the fine ones: read it with the `label_names` of the training
            file.
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
        labels.append((line, fine_name if fine else coarse_name))
    if not texts:
        raise ValueError(f"{path} is empty. Download it again.")
    return LabelledTexts(texts, *class_ids(path, labels, label_names))


# --- Labels ---

# Spellings of whether a label applies, in lower case.
_MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


def class_ids(
    path: Path, labels: Sequence[tuple[int, str]], label_names: Sequence[str] | None
) -> tuple[list[int], tuple[str, ...]]:
    """Turns labels as they are spelled into ids.

    Args:
        path: their file, for messages.
        labels: line and spelling of each.
        label_names: the classes in the order of their ids; None to collect them (`read_table`).

    Returns:
        The ids, and the names in their order.
    """
    names = _collected_names(path, labels) if label_names is None else tuple(label_names)
    if len(set(names)) != len(names):
        raise ValueError(f"label_names must differ from each other; got {listed(names)}.")
    ids = {name: i for i, name in enumerate(names)}
    if not any(spelled in ids for _, spelled in labels):
        by_number = {str(i): i for i in range(len(names))}
        ids = by_number if any(spelled in by_number for _, spelled in labels) else ids
    for line, spelled in labels:
        if spelled not in ids:
            raise ValueError(
                f"{path}, line {line}: the label is {shown(spelled)}, expected one of "
                f"{listed(ids)}.{nearest(spelled, ids)}"
            )
    return [ids[spelled] for _, spelled in labels], names


def _label_sets(
    path: Path, listed_names: Sequence[tuple[int, list[str]]], label_names: Sequence[str] | None
) -> tuple[list[tuple[int, ...]], tuple[str, ...]]:
    """As `class_ids`, of rows with any number of labels."""
    flat = [(line, name) for line, names in listed_names for name in names]
    if not flat and label_names is None:
        raise ValueError(f"{path}: no row has a label. Is this the column of the labels?")
    ids, names = class_ids(path, flat, label_names)
    of_rows = iter(ids)
    return [tuple(sorted(set(islice(of_rows, len(row))))) for _, row in listed_names], names


def _label_list(value: Any, delimiter: str, where: str) -> list[str]:
    """The names in a cell, of which there may be none."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(delimiter) if name.strip()]
    if value is None:
        return []
    return [_label_name(name, where) for name in (value if isinstance(value, list) else [value])]


def _marked(values: Sequence[Any], where: str, names: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the columns that hold a 1."""
    marks = [_MARKS.get(str(value).strip().lower()) for value in values]
    if None in marks:
        column = marks.index(None)
        raise ValueError(
            f"{where}: the label {shown(names[column])} is {shown(values[column])}, expected 1 where it "
            "applies and 0 where it does not."
        )
    return tuple(i for i, mark in enumerate(marks) if mark)


def _collected_names(path: Path, labels: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    first_lines: dict[str, int] = {}
    for line, spelled in labels:
        first_lines.setdefault(spelled, line)
    _check_are_classes(path, first_lines)
    return tuple(sorted(first_lines, key=int if all(map(_is_whole, first_lines)) else None))


def _is_whole(spelled: str) -> bool:
    return re.fullmatch("0|-?[1-9][0-9]{0,17}", spelled) is not None


def _check_are_classes(path: Path, first_lines: Mapping[str, int]) -> None:
    """Refuses labels that were hardly meant as names of classes: scores, and two spellings of one."""
    numbers = [_number(spelled) for spelled in first_lines]
    if all(map(math.isfinite, numbers)):
        for number, (spelled, line) in zip(numbers, first_lines.items(), strict=True):
            if not number.is_integer():
                raise ValueError(
                    f"{path}, line {line}: the labels are numbers such as {shown(spelled)}. Pass "
                    "regression=True if they are scores, or label_names if they are classes."
                )
    seen: dict[str, str] = {}
    for spelled, line in first_lines.items():
        other = seen.setdefault(" ".join(spelled.casefold().split()), spelled)
        if other != spelled:
            raise ValueError(
                f"{path}, line {line}: the label {shown(spelled)} differs from {shown(other)} (line "
                f"{first_lines[other]}) in case or spaces alone. Correct one of them, or pass both "
                "in label_names if they are two classes."
            )


def _label_name(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{where}: the label is {shown(value)}, expected a string or a number.")
    if not value.strip():
        raise ValueError(
            f"{where}: the label is empty. Correct the line, or pass label=None to read texts alone."
        )
    return value


def _score(value: Any, where: str) -> float:
    score = math.nan if isinstance(value, bool) else _number(value)
    if not math.isfinite(score):
        raise ValueError(f"{where}: the score is {shown(value)}, expected a finite number.")
    return score


def _number(value: Any) -> float:
    """The number that a value is or spells; NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


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
    table_format = FORMATS[_format_name(path, format, delimiter)]
    options: dict[str, Any] = {"encoding": encoding, "max_bytes": max_line_bytes}
    if table_format.is_delimited:
        options["delimiter"] = delimiter or _found_delimiter(path, columns, header, options)
    elif delimiter is not None:
        raise ValueError(f"{path}: the delimiter {delimiter!r} is for CSV files. Leave it out.")
    records = _without_blank_end(path, table_format.records(path, **options))
    is_empty = True
    for row in table_format.values(path, records, columns, header):
        is_empty = False
        yield row
    if is_empty:
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
    """The first of `DELIMITERS` with which a file has these columns; the usual one where none fits."""

    rows = 1 if header is True else _FIRST_ROWS

    def fits(delimiter: str) -> bool:
        records = _csv_records(path, delimiter=delimiter, **options)
        try:
            first = [fields or () for _, fields in islice(records, rows)]
        except ValueError:
            return False
        if header is True:
            return bool(first) and set(columns) <= set(first[0])
        widths = set(map(len, first))
        # One field a row is what any delimiter finds that the file does not have.
        return len(widths) == 1 and widths != {1}

    return next(filter(fits, DELIMITERS), DELIMITERS[0])


def _without_blank_end(path: Path, records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Leaves out blank lines (None) at the end, and refuses them elsewhere."""
    blank_line = None
    for line, record in records:
        if record is None:
            blank_line = blank_line or line
        elif blank_line:
            raise ValueError(
                f"{path}, line {blank_line}: the line is blank, and rows follow it. Remove it, or "
                "complete its row."
            )
        else:
            yield line, record


def _values_of_fields(
    path: Path,
    records: Iterator[tuple[int, Sequence[str]]],
    columns: Sequence[str | int],
    header: Sequence[str] | bool,
) -> Iterator[tuple[int, tuple[str, ...]]]:
    if header is False:
        first = next(records, (1, ()))
        indices = [_position(path, column, first[1]) for column in columns]
        width, described = len(first[1]), "as on the first line"
        records = chain([first] if first[1] else [], records)
    else:
        line, names = next(records, (1, ())) if header is True else (None, header)
        if not names:
            raise ValueError(f"{path} is empty. Check that this is the right file.")
        where = f"{path}, header" if line is None else f"{path}, line {line}"
        indices = _named_positions(where, columns, names)
        width, described = len(names), f"({listed(names)})"
    for line, fields in records:
        if len(fields) != width:
            raise ValueError(
                f"{path}, line {line}: found {len(fields)} fields, expected {width} {described}. "
                "Correct the line."
            )
        yield line, tuple(fields[index] for index in indices)


def _position(path: Path, column: str | int, first: Sequence[str]) -> int:
    """The index of a column in a file without header."""
    try:
        index = int(column)
    except ValueError as error:
        raise ValueError(
            f"{path}: the columns of a file without header are numbers, from 0; got {column!r}. "
            f"Its first row is {listed(first)}."
        ) from error
    if not -len(first) <= index < len(first):
        raise ValueError(
            f"{path}, line 1: there is no column {index}; columns count from 0, and the row is "
            f"{listed(first)}."
        )
    return index


def _named_positions(where: str, columns: Sequence[str | int], header: Sequence[str]) -> list[int]:
    """The indices of columns in a header."""
    if twice := files.repeated(header):
        raise ValueError(
            f"{where}: the columns {listed(twice)} occur twice. Rename or remove them."
        )
    for name in columns:
        if name not in header:
            raise ValueError(
                f"{where}: there is no column {name!r}; the columns are {listed(header)}."
                f"{nearest(str(name), header)} Of a file without header (header=False, --noheader) "
                "columns are given by number."
            )
    return [header.index(name) for name in columns]


def _values_of_objects(
    path: Path,
    records: Iterator[tuple[int, Mapping[str, Any]]],
    columns: Sequence[str],
    header: Sequence[str] | bool,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    if header is not True:
        raise ValueError(f"{path}: each object of JSON names its columns; leave out header.")
    for line, record in records:
        for name in columns:
            if name not in record:
                raise ValueError(
                    f"{path}, line {line}: there is no column {name!r}; the columns are "
                    f"{listed(record)}.{nearest(str(name), record)}"
                )
        yield line, tuple(record[name] for name in columns)


# --- Formats ---


def _csv_records(
    path: Path, encoding: str | None, max_bytes: int, delimiter: str
) -> Iterator[tuple[int, tuple[str, ...] | None]]:
    # The csv module's own limit holds for the whole process and is smaller; it is only ever raised,
    # because the limit on rows below is what bounds the memory.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    row_start = row_size = 0

    def content() -> Iterator[str]:
        nonlocal row_start, row_size
        for line, text in _whole_lines(path, encoding, max_bytes):
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
        yield row_start, tuple(fields) or None


def _tsv_records(
    path: Path, encoding: str | None, max_bytes: int
) -> Iterator[tuple[int, tuple[str, ...] | None]]:
    for line, text in _whole_lines(path, encoding, max_bytes):
        text = text.removesuffix("\n").removesuffix("\r")
        yield line, tuple(text.split("\t")) if text else None


def _json_lines_records(
    path: Path, encoding: str | None, max_bytes: int
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    for line, text in _whole_lines(path, encoding, max_bytes):
        if not text.strip():
            yield line, None
            continue
        hook = partial(_unique_members, f"{path}, line {line}")
        record = parse_json(text, path, line, object_pairs_hook=hook)
        yield line, _object(path, line, record)


def _json_records(
    path: Path, encoding: str | None, max_bytes: int
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    text = files.read_text(path, encoding)
    start = _skip_space(text, 0)
    if not text.startswith("[", start):
        yield from _json_lines_records(path, encoding, max_bytes)
        return
    line, counted = 1, 0
    end = _skip_space(text, start + 1)
    while not text.startswith("]", end):
        line, counted = line + text.count("\n", counted, end), end
        hook = partial(_unique_members, f"{path}, line {line}")
        record, end = parse_json_at(text, end, path, object_pairs_hook=hook)
        yield line, _object(path, line, record)
        end = _skip_space(text, end)
        if text.startswith(",", end):
            end = _skip_space(text, end + 1)
        elif not text.startswith("]", end):
            line += text.count("\n", counted, end)
            raise ValueError(
                f"{path}, line {line}: found {shown(text[end : end + 40])}, expected ',' or ']' after "
                "an object of the array. Correct the line or download the file again."
            )
    if after := text[end + 1 : end + 41].strip():
        raise ValueError(f"{path}: found {shown(after)} after the end of the array. Remove it.")


def _skip_space(text: str, start: int) -> int:
    return JSON_SPACE.match(text, start).end()


def _object(path: Path, line: int, record: Any) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise ValueError(f"{path}, line {line}: found {shown(record)}, expected a JSON object.")
    return record


def _unique_members(where: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = files.repeated(name for name, _ in pairs)
        raise ValueError(
            f"{where}: the columns {listed(twice)} occur twice. Rename or remove them."
        )
    return record


def _whole_lines(path: Path, encoding: str | None, max_bytes: int) -> Iterator[tuple[int, str]]:
    return files.lines(path, encoding, max_line_bytes=max_bytes, keep_ends=True)


@dataclass(frozen=True)
class TableFormat:
    """How a file becomes rows.

    Attributes:
        records: (path, encoding, most bytes a record) -> line and content of each record; None for a
            blank line.
        values: (path, records, columns, header) -> line and values in these columns of each record.
        is_delimited: whether `records` takes a delimiter too.
    """

    records: Callable[..., Iterator[tuple[int, Any]]]
    values: Callable[..., Iterator[tuple[int, tuple[Any, ...]]]]
    is_delimited: bool = False


# "quoted_tsv" is what spreadsheets and pandas write: tabs, with the quoting rules of CSV.
FORMATS: Mapping[str, TableFormat] = {
    "csv": TableFormat(_csv_records, _values_of_fields, is_delimited=True),
    "tsv": TableFormat(_tsv_records, _values_of_fields),
    "quoted_tsv": TableFormat(partial(_csv_records, delimiter="\t"), _values_of_fields),
    "jsonl": TableFormat(_json_lines_records, _values_of_objects),
    "json": TableFormat(_json_records, _values_of_objects),
}
SUFFIXES: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
# Of CSV files, the usual one first: spreadsheets write semicolons where commas are in numbers.
DELIMITERS = (",", ";", "\t", "|")
# Rows by which the delimiter of a file without header is found.
_FIRST_ROWS = 20
