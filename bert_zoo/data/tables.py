"""Texts in tables (CSV, TSV, JSON, JSON Lines, Parquet, TFRecord) with labels or numbers, and TREC's question files.

CSV follows RFC 4180: a field in quotation marks may contain commas, line ends and doubled quotation
marks. TSV follows IANA's text/tab-separated-values: a quotation mark is text, as in GLUE's files.
JSON is an array of objects; JSON Lines has one object per line. TFRecord has a tf.train.Example per row.

Nothing here imports TensorFlow.
"""

import csv
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.data import files, tfrecords
from bert_zoo.data.on_disk import StoredTexts, stored_texts
from bert_zoo.error_text import nearest, quoted, shown
from bert_zoo.fields import check
from bert_zoo.json_files import parse_json
from bert_zoo.protobuf import DecodeError

# A column, in memory or on disk.
Texts = list[str] | StoredTexts


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels, in the order of their file."""

    texts: Texts | tuple[Texts, Texts]  # strings [N], or a pair of columns [N], [N]
    # Class ids or scores [N], or tuples of class ids if a row may have any number of classes; None if labels were
    # not read.
    labels: list[int] | list[float] | list[tuple[int, ...]] | None
    label_names: tuple[str, ...]  # classes in the order of their ids; empty for scores
    # First line of each row in the file [N]; empty if unknown.
    lines: Sequence[int] = field(default=(), compare=False, repr=False)
    skipped: int = field(default=0, compare=False)  # number of rows left out, as they have no label

    @property
    def classes(self) -> Iterator[tuple[int, ...]]:
        """Yields the class ids of each row, also for tables with one class per row."""
        return (ids if isinstance(ids, tuple) else (ids,) for ids in self.labels)

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
    header: bool = True,
    encoding: str | None = None,
    max_line_bytes: int = files.MAX_LINE_BYTES,
    folder: Path | None = None,
) -> LabelledTexts:
    """Reads texts and labels from columns of a table; other columns are ignored.

    Labels are names of classes. Without `label_names` they are collected from the file and sorted, as whole
    numbers if all of them are, otherwise by code point. Read the training file this way, and the task's other
    files with its `label_names`. Those files may then contain ids (0, 1, ...) instead of names.

    Args:
        path: the file.
        text, text_pair: columns of the texts, and of second texts for a task on pairs.
        label: column of the labels; None to read texts without labels.
        label_delimiter: separator of the labels in a cell. A row may then have any number of labels, even
            none; in JSON they may also be lists.
        label_columns: instead of `label`, one column per label, with 1 if the label applies and 0 if not.
        label_names: classes in the order of their ids.
        regression: whether labels are scores, which must be finite numbers.
        skip_unlabelled: whether to leave out and count rows without a label. Otherwise they are an error,
            unless rows may have several labels.
        format: "csv", "tsv", "jsonl", "json", "parquet" or "tfrecord"; by default determined by the file's
            suffix, or "csv" with a `delimiter`. "parquet" needs `pip install 'bert_zoo[tables]'`.
        delimiter: character between the fields of a CSV file, or "tab"; by default the comma,
            semicolon, tab or "|" that fits the header.
        header: False if the first line is already a row; columns are then numbers, from 0, or from -1 for
            the last.
        encoding: of the file; by default determined by its byte order mark, or UTF-8.
        max_line_bytes: longest accepted line, and for CSV longest accepted row, in bytes; does not apply to
            JSON arrays.
        folder: where to keep texts, and later their tokens, in files instead of memory.

    Returns:
        Texts, labels and the names of the classes.

    Raises:
        ValueError: a column is missing, a row, label or line is malformed, or there are no rows. Names file
            and line.
        FileNotFoundError: the file does not exist.
    """
    table = Table(
        path,
        format=format,
        delimiter=delimiter,
        header=header,
        encoding=encoding,
        max_line_bytes=max_line_bytes,
    )
    text_columns = (text,) if text_pair is None else (text, text_pair)
    other_columns = label_columns or (() if label is None else (label,))
    read_label: Callable[..., Any] = _score if regression else _label_name
    if label_columns:
        read_label = partial(_marked, label_columns)
    elif label_delimiter:
        read_label = partial(_label_list, label_delimiter)

    texts = tuple(stored_texts(folder) for _ in text_columns)
    found: list[Any] = []
    known: dict[Any, Any] = {}  # each label once, as equal ones share their memory
    lines = array("q")
    skipped = 0
    advice = " Name the columns with text=, text_pair= and label= (--text, --text_pair, --label)."
    for line, cells in table.rows((*text_columns, *other_columns), advice):
        spelled = cells[len(text_columns) :]
        if skip_unlabelled and spelled and all(map(_is_missing, spelled)):
            skipped += 1
            continue
        lines.append(line)
        for column, name, cell in zip(texts, text_columns, cells, strict=False):
            column.append(files.string(cell, str(name), table.place(line)))
        if spelled:
            try:
                value = read_label(*spelled)
            except ValueError as error:
                raise ValueError(f"{table.place(line)}: {error}") from error
            found.append(value if regression else known.setdefault(value, value))
    if not lines:
        raise ValueError(
            f"{path}: none of its {skipped:,} rows has a label. Check the label column."
        )

    labels, names = found if spelled else None, ()
    if label_columns:
        names = tuple(map(str, label_columns))
    elif label is not None and label_delimiter:
        row_of = [row for row, some in enumerate(found) for _ in some]
        if not row_of and label_names is None:
            raise ValueError(f"{path}: no row has a label. Check the label column.")
        flat = [name for some in found for name in some]
        ids, names = class_ids(flat, label_names, lambda i: table.place(lines[row_of[i]]))
        of_rows = iter(ids)
        sets = (tuple(sorted(set(islice(of_rows, len(some))))) for some in found)
        labels = [known.setdefault(ids, ids) for ids in sets]
    elif label is not None and not regression:
        labels, names = class_ids(found, label_names, lambda row: table.place(lines[row]))
    read = texts[0] if text_pair is None else texts
    return LabelledTexts(read, labels, names, lines, skipped)


class TextRow(NamedTuple):
    """A row's one or two texts, and the values of its other columns by name."""

    texts: tuple[str, ...]
    others: dict[str, Any]


def text_rows(
    path: str | Path,
    text: str | int = "text",
    text_pair: str | int | None = None,
    *,
    advice: str = " Name the columns with text= and text_pair= (--text, --text_pair).",
    **how: Any,
) -> Iterator[TextRow]:
    """Yields the rows of a table while reading it; without a header, columns are named by their numbers.

    Arguments and errors are as for `read_table`; `advice` is what to do about a missing column, for the message.
    """
    table = Table(path, **how)
    columns = (text,) if text_pair is None else (text, text_pair)
    for line, cells, record in table.records(columns, advice):
        named = zip(cells, columns, strict=True)
        texts = tuple(files.string(cell, str(name), table.place(line)) for cell, name in named)
        read = {str(c) if table.header else str(int(c) % len(record)) for c in columns}
        yield TextRow(texts, {name: cell for name, cell in record.items() if name not in read})


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
        fine: whether to read the fine classes, such as "HUM:ind", instead of the six coarse ones. The test
            file lacks some of them, so read it with the `label_names` of the training file.
        label_names: classes in the order of their ids; by default collected and sorted.
        encoding: of the file; the official files are latin-1.

    Returns:
        Questions with class ids, and the names of the classes.

    Raises:
        ValueError: a line has no such label, or the file is empty. Names file and line.
        FileNotFoundError: the file does not exist.
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

# Spellings of true and false in label columns, in lower case.
_MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}

# Number of a row -> its place, for messages.
_Place = Callable[[int], str]


def _marked(names: Sequence[str | int], *values: Any) -> tuple[int, ...]:
    """Indices of the columns with a 1."""
    marks = [_MARKS.get(str(value).strip().lower()) for value in values]
    if None in marks:
        column = marks.index(None)
        raise ValueError(
            f"the label {shown(names[column])} is {shown(values[column])}, expected 1 if it "
            "applies and 0 if not."
        )
    return tuple(i for i, mark in enumerate(marks) if mark)


def _label_list(delimiter: str, value: Any) -> tuple[str, ...]:
    """The names in a cell, possibly none."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(delimiter) if name.strip())
    if _is_missing(value):
        return ()
    return tuple(map(_label_name, value if isinstance(value, list) else [value]))


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value


def _label_name(value: Any) -> str:
    _check_present("label", value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"the label is {shown(value)}, expected a string or a number.")


def _score(value: Any) -> float:
    _check_present("score", value)
    score = number(value)
    if not math.isfinite(score):
        raise ValueError(f"the score is {shown(value)}, expected a finite number.")
    return score


def _check_present(what: str, value: Any) -> None:
    if _is_missing(value):
        raise ValueError(
            f"the {what} is missing ({shown(value)}). Correct the row, leave out such rows with "
            "skip_unlabelled=True (--skip_unlabelled), or read only texts with label=None."
        )


def number(value: Any) -> float:
    """A value as a number, or NaN, also for true and false."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def class_ids(
    spelled: Sequence[str], label_names: Sequence[str] | None, place: _Place
) -> tuple[list[int], tuple[str, ...]]:
    """Ids of spelled labels [N], and the names of the classes (see `read_table`)."""
    names = _collected_names(spelled, place) if label_names is None else tuple(label_names)
    ids = positions(names)
    numbers = {str(i): i for i in range(len(names))}
    used = set(spelled)
    if used.isdisjoint(ids) and not used.isdisjoint(numbers):
        ids = numbers
    return ids_of(spelled, ids, place), names


def positions(names: Sequence[str]) -> dict[str, int]:
    """Names of classes -> ids; raises ValueError if a name occurs twice."""
    ids = {name: i for i, name in enumerate(names)}
    if len(ids) != len(names):
        raise ValueError(f"label_names must differ from each other; got {quoted(names)}.")
    return ids


def ids_of(
    spelled: Sequence[str], ids: Mapping[str, int], place: _Place, what: str = "label"
) -> list[int]:
    """Ids of labels or tags (`what`); raises ValueError that names the first unknown one."""
    try:
        return [ids[name] for name in spelled]
    except KeyError as error:
        name = error.args[0]
        raise ValueError(
            f"{place(spelled.index(name))}: the {what} is {shown(name)}, expected one of "
            f"{quoted(ids)}.{nearest(name, ids)}"
        ) from error


def _collected_names(spelled: Sequence[str], place: _Place) -> tuple[str, ...]:
    """The names that occur; raises ValueError if they are scores, or if two differ only in spelling."""
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
                f"({place(first[other])}) only in case or spaces. Correct one of them, or pass both in "
                "label_names if they are two classes."
            )
    are_whole = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in first)
    return tuple(sorted(first, key=int if are_whole else None))


# --- Rows ---


class Table:
    """A file with rows and columns. Arguments are as for `read_table`; ValueError if an option does not apply to the
    format. `path` may also be an object that has of a `Path` what reading uses: `suffix`, `is_file` and `open`."""

    def __init__(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        delimiter: str | None = None,
        header: bool = True,
        encoding: str | None = None,
        max_line_bytes: int = files.MAX_LINE_BYTES,
    ):
        self.path, self.header = path if hasattr(path, "is_file") else Path(path), header
        self.delimiter = "\t" if delimiter == "tab" else delimiter
        self.format = format or self._format_of_suffix()
        check(f"{path}: the format", self.format, str, choices=FORMATS)
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(
                f"The delimiter is {shown(delimiter)}; it must be one character, such as ',', ';' or a tab."
            )
        for option, is_refused in (
            ("delimiter", self.delimiter is not None and self.format != "csv"),
            ("encoding", encoding is not None and self.format in _BINARY),
            ("header", not header and self.format in _NAMING),
        ):
            if is_refused:
                raise ValueError(
                    f"{path}: {option} does not apply to {self.format} files. Leave it out."
                )
        self._options = () if self.format in _BINARY else (encoding, max_line_bytes)

    def _format_of_suffix(self) -> str:
        by_suffix = SUFFIXES.get(self.path.suffix.lower())
        if self.delimiter is not None and by_suffix in (None, "tsv"):
            return "csv"
        if by_suffix is None:
            raise ValueError(
                f"{self.path}: the suffix {self.path.suffix!r} does not determine the file's format. "
                f"Pass format=, one of {list(FORMATS)}."
            )
        return by_suffix

    def place(self, number: int) -> str:
        return f"{self.path}, {'line' if self.format in _LINES else 'row'} {number}"

    def rows(
        self, columns: Sequence[str | int], advice: str = ""
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yields each row's number and its values in the given columns; see `records`."""
        return ((number, row) for number, row, _ in self.records(columns, advice))

    def records(
        self, columns: Sequence[str | int], advice: str = ""
    ) -> Iterator[tuple[int, tuple[Any, ...], Mapping[str, Any]]]:
        """Yields each row's number, from 1, its values in the given columns, and all its values by name.

        The number counts rows for JSON arrays, Parquet and TFRecord; else it is the first line of the row. Blank lines at the end
        of the file are ignored. Without a header, columns are numbers. `advice` is what to do if one is missing, for the
        message.
        """
        blank = positions = row = None
        for number, record in self._records(columns):
            if record is None:
                blank = blank or number
                continue
            if blank:
                raise ValueError(
                    f"{self.place(blank)}: the line is blank, and rows follow it. Remove it, or "
                    "complete its row."
                )
            if isinstance(record, Mapping):
                _check_has(columns, record, self.place(number), advice)
                row = tuple(record[name] for name in columns)
                yield number, row, record
                continue
            if positions is None:
                first, positions = record, self._positions(columns, record, advice)
                names = self._names(record)
                if self.header:
                    continue
            if len(record) != len(first):
                raise ValueError(
                    f"{self.place(number)}: found {len(record)} fields, expected {len(first)} as on the "
                    f"first line ({quoted(first)}). Correct the line."
                )
            row = tuple(record[position] for position in positions)
            yield number, row, dict(zip(names, record, strict=True))
        if row is None:
            raise ValueError(f"{self.path} has no rows. Check that this is the right file.")

    def _records(self, columns: Sequence[str | int]) -> Iterator[tuple[int, Any]]:
        """Number and content of each record: fields, or named values; None for a blank line."""
        if self.format != "csv":
            return FORMATS[self.format](self.path, *self._options)
        delimiter = self.delimiter or max(DELIMITERS, key=partial(self._fit, columns))
        return _csv_records(self.path, *self._options, delimiter)

    def _fit(self, columns: Sequence[str | int], delimiter: str) -> tuple[int, int]:
        """Scores a delimiter. The right one gives the header most of the requested columns, then most
        columns; without a header, it gives the first rows the same number of fields."""
        records = _csv_records(self.path, *self._options, delimiter)
        try:
            first = [
                fields or () for _, fields in islice(records, 1 if self.header else _FIRST_ROWS)
            ]
        except ValueError:
            return -1, 0
        if self.header:
            names = set().union(*first)
            return len(names & set(columns)), len(names)
        widths = set(map(len, first))
        # A delimiter that the file lacks gives one field per row.
        return int(len(widths) == 1 and widths != {1}), 0

    def _names(self, first: Sequence[str]) -> list[str]:
        """Names of all columns, those without a name by their numbers if there are several."""
        if not self.header:
            return [*map(str, range(len(first)))]
        return [n if first.count(n) == 1 else str(i) for i, n in enumerate(first)]

    def _positions(
        self, columns: Sequence[str | int], first: Sequence[str], advice: str
    ) -> list[int]:
        where = self.place(1)
        if self.header:
            _check_different(where, first)
            no_header = " If the file has no header, pass header=False (--noheader) and numbers."
            _check_has(columns, first, where, advice + no_header)
            return [first.index(name) for name in columns]
        try:
            return [range(len(first))[int(column)] for column in columns]
        except (ValueError, IndexError) as error:
            raise ValueError(
                f"{where}: the columns of a file without header are numbers, from 0 to "
                f"{len(first) - 1}; got {list(columns)}. The row is {quoted(first)}."
            ) from error


def _check_has(
    columns: Sequence[str | int], known: Collection[str], where: str, advice: str
) -> None:
    for name in columns:
        if name not in known:
            raise ValueError(
                f"{where}: there is no column {name!r}; the columns are {quoted(known)}."
                f"{nearest(str(name), known)}{advice}"
            )


def _check_different(where: object, columns: Sequence[str]) -> None:
    if len(set(columns)) < len(columns):
        # Columns without a name are never read by name.
        repeated = sorted(name for name, count in Counter(columns).items() if name and count > 1)
        if repeated:
            raise ValueError(
                f"{where}: the columns {quoted(repeated)} occur twice. Rename or remove them."
            )


# --- Formats: number and content of each record; None for a blank line ---


def _csv_records(
    path: Path, encoding: str | None, max_bytes: int, delimiter: str
) -> Iterator[tuple[int, list[str] | None]]:
    # The csv module's limit on fields is global, so only raise it. It keeps an unclosed quotation
    # mark from turning the rest of the file into one field.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    lines = files.lines(path, encoding, max_line_bytes=max_bytes, keep_ends=True)
    reader = csv.reader((text for _, text in lines), delimiter=delimiter, strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields or None
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {line}: the row that begins here cannot be read ({error}). Correct its "
            "quotation marks or line ends (double quotation marks inside a quoted field), or raise "
            "max_line_bytes for longer fields."
        ) from error


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
    if not text.lstrip().startswith("["):
        yield from _json_lines_records(path, encoding, max_bytes)
        return
    records = parse_json(text, path, object_pairs_hook=partial(_unique_members, path))
    for number, record in enumerate(records, start=1):
        yield number, _object(f"{path}, row {number}", record)


def _parquet_records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the rows of a Parquet file; only a part of the file is in memory."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet files need pyarrow: pip install 'bert_zoo[tables]'. Or save the table as CSV."
        ) from error
    files.require_file(path, advice="Check its name and folder.")
    try:
        with ParquetFile(path) as file:
            records = (record for batch in file.iter_batches(1024) for record in batch.to_pylist())
            yield from enumerate(records, start=1)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(
            f"{path} is not a complete Parquet file ({error}). Write it again."
        ) from error


def _tfrecord_records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the features of each Example: its value, a list of several, None without one."""
    files.require_file(path, advice="Check its name and folder.")
    for number, content in enumerate(tfrecords.records(path), start=1):
        try:
            found = {
                name: [v.decode() if isinstance(v, bytes) else v for v in values] or [None]
                for name, values in tfrecords.features(content).items()
            }
        except (DecodeError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path}, row {number}: the record is no tf.train.Example with texts in UTF-8 ({error}). Write the "
                "file again."
            ) from error
        yield number, {name: v if len(v) > 1 else v[0] for name, v in found.items()}


def _object(where: str, record: Any) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: found {shown(record)}, expected a JSON object.")
    return record


def _unique_members(where: object, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    _check_different(where, [name for name, _ in pairs])
    return dict(pairs)


# Name -> reader of a file's records. Files with tabs and CSV's quoting rules, as spreadsheets and pandas write
# them, are "csv" with the delimiter "tab".
FORMATS: Mapping[str, Callable[..., Iterator[tuple[int, Any]]]] = {
    "csv": _csv_records,
    "tsv": _tsv_records,
    "jsonl": _json_lines_records,
    "json": _json_records,
    "parquet": _parquet_records,
    "tfrecord": _tfrecord_records,
}
# Formats without encoding, formats whose records have named values, and formats whose records are numbered by line.
_BINARY = ("parquet", "tfrecord")
_NAMING = ("json", "jsonl", *_BINARY)
_LINES = ("csv", "tsv", "jsonl")
SUFFIXES: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}
# Delimiters of CSV files, the usual one first. Spreadsheets use semicolons in locales with decimal commas.
DELIMITERS = (",", ";", "\t", "|")
# Rows from which a file's delimiter is found.
_FIRST_ROWS = 20


# --- Rows of several texts, optionally with a number ---


@dataclass(frozen=True)
class TextColumns:
    """Texts by column, in the order of their file."""

    columns: tuple[Texts, ...]  # strings, [N] each
    labels: list[float] | None = None  # [N], or None
    # First line of each row in the file, [N]; empty if unknown.
    lines: Sequence[int] = field(default=(), compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.columns[0])


def read_columns(
    path: str | Path,
    columns: Sequence[str | int],
    label: str | int | None = None,
    *,
    folder: Path | None = None,
    advice: str = " Name the columns with columns= and label= (--columns, --label).",
    **how: Any,
) -> TextColumns:
    """Reads columns of texts from a table, and optionally a column of numbers (`label`).

    In JSON, Parquet and TFRecord, a cell may be a list of texts, which counts as several columns. Every row needs
    the same number of texts. `advice` is what to do about a missing column, for the message; `folder`, `how` the
    file's format and errors are as for `read_table`.
    """
    table = Table(path, **how)
    asked = (*columns, *(() if label is None else (label,)))
    texts: tuple[Texts, ...] = ()
    labels: list[float] = []
    lines = array("q")
    for line, cells in table.rows(asked, advice):
        place = table.place(line)
        row = [
            files.string(text, str(name), place)
            for cell, name in zip(cells, columns, strict=False)
            for text in (cell if isinstance(cell, list) else [cell])
        ]
        texts = texts or tuple(stored_texts(folder) for _ in row)
        if len(row) != len(texts):
            raise ValueError(
                f"{place}: the row has {len(row)} texts, but the first one {len(texts)}. Every row needs the "
                "same number."
            )
        for column, text in zip(texts, row, strict=True):
            column.append(text)
        lines.append(line)
        if label is not None:
            value = number(cells[-1])
            if not math.isfinite(value):
                raise ValueError(
                    f"{place}: {str(label)!r} is {shown(cells[-1])}, expected a finite number."
                )
            labels.append(value)
    return TextColumns(texts, None if label is None else labels, lines)


# --- Remarks on suspicious rows. None of them is an error, as a file may be meant this way ---

# What programs write for missing values, in lower case.
MISSING = {"na", "n/a", "<na>", "#n/a", "nan", "null", "none", "nil", "-", "?"}
# With more numbers than this as class names, they are probably scores.
MOST_NUMBERED = 20


def remarks(path: Path, data: TextColumns) -> Iterator[str]:
    """Yields sentences about rows that training cannot learn from."""
    kinds: dict[str, list[int]] = {
        "have an empty text": [],
        "have the same text in two columns": [],
    }
    for number, row in enumerate(zip(*data.columns, strict=True)):
        are_so = not all(text.strip() for text in row), len(set(row)) < len(row)
        for found in compress(kinds.values(), are_so):
            found.append(number)
    for what, found in kinds.items():
        if found:
            first = _first(found, data)
            yield f"Of the {len(data):,} rows of {path.name}, {len(found):,} {what}, {first}."


def label_remarks(path: Path, data: LabelledTexts) -> Iterator[str]:
    """Yields sentences about texts and labels of a whole file that look like mistakes."""
    if data.skipped:
        rows = data.skipped + len(data)
        yield f"Of the {rows:,} rows of {path.name}, {data.skipped:,} have no label and are left out."
    for texts in data.texts if isinstance(data.texts, tuple) else (data.texts,):
        if empty := [row for row, text in enumerate(texts) if not text.strip()]:
            yield f"{_share(len(empty), data, 'text', path)} empty, {_first(empty, data)}."
    if data.label_names:
        yield from _classes(path, data)


def _classes(path: Path, data: LabelledTexts) -> Iterator[str]:
    counts = Counter(chain.from_iterable(data.classes))
    for i, name in enumerate(data.label_names):
        if name.strip().casefold() in MISSING and counts[i]:
            yield (
                f"{_share(counts[i], data, 'label', path)} {shown(name)}, "
                f"{_first((row for row, ids in enumerate(data.classes) if i in ids), data)}. It counts "
                "as the name of a class. Remove these rows if it means that the label is missing."
            )
    count = len(data.label_names)
    is_numbered = count > MOST_NUMBERED and all(
        math.isfinite(number(name)) for name in data.label_names
    )
    if is_numbered:
        yield (
            f"The labels of {path.name} are {count:,} different numbers, each read as a class. "
            "If they are scores, train with --regression (regression=True)."
        )
    rare = [name for i, name in enumerate(data.label_names) if counts[i] == 1]
    if rare and not is_numbered:
        yield (
            f"Of the {count:,} classes of {path.name}, {len(rare):,} have only one row: {quoted(rare)}. "
            "Such a class cannot be both learned and measured."
        )


def _share(count: int, data: LabelledTexts, what: str, path: Path) -> str:
    return f"Of the {len(data):,} {what}s of {path.name}, {count:,} {'is' if count == 1 else 'are'}"


def _first(rows: Iterable[int], data: LabelledTexts | TextColumns) -> str:
    row = next(iter(rows))
    place = f"line {data.lines[row]:,}" if data.lines else f"row {row:,}"
    return f"the first on {place}"
