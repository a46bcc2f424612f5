"""Labelled texts in tables (CSV, TSV, JSON, JSON Lines, Parquet), and TREC's question files.

CSV follows RFC 4180: a field in quotation marks may hold commas, line ends and doubled quotation
marks. TSV follows IANA's text/tab-separated-values: a quotation mark is text, as in GLUE's files.
JSON is an array of objects, or as JSON Lines one object a line.

Nothing here imports TensorFlow.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.files import MAX_LINE_BYTES
from bert_zoo.error_text import nearest, quoted, shown
from bert_zoo.json_files import parse_json


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
        """The class ids of each row; in most tables a row has one."""
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
    header: bool = True,
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
        label_delimiter: what separates the names of a row's labels. A row may have any number of
            labels, even none; in JSON they may also be lists.
        label_columns: instead of `label`, columns that have 1 where the label of that name applies and 0
            where it does not.
        label_names: the classes in the order of their ids.
        regression: whether labels are scores: finite numbers.
        skip_unlabelled: whether rows without a label are left out, and counted. Otherwise they are an
            error, except in tables with several labels a row, where a row may have none.
        format: a key of `FORMATS`; by default what the file's suffix says, or "csv" where a
            delimiter is given. "parquet" needs `pip install 'bert_zoo[tables]'`.
        delimiter: the character between the fields of a CSV file, or "tab"; by default the one of
            `DELIMITERS` that the header tells.
        header: False for a file whose first line is a row like the others; columns are then numbers,
            from 0, or from -1 for the last.
        encoding: of the file; by default what its byte order mark says, UTF-8 where it has none.
        max_line_bytes: the longest line, and in CSV the longest row, that is accepted; in an array
            of JSON nothing limits its objects.

    Raises:
        ValueError: a column that is not there, a row, label or line that does not fit, or no row.
            Names file and line.
        FileNotFoundError: there is no such file.
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

    texts: list[list[str]] = [[] for _ in text_columns]
    found: list[Any] = []
    lines: list[int] = []
    skipped = 0
    advice = " Name the columns with text=, text_pair= and label= (--text, --text_pair, --label)."
    for line, cells in table.rows((*text_columns, *other_columns), advice):
        told = cells[len(text_columns) :]
        if skip_unlabelled and told and all(map(_is_missing, told)):
            skipped += 1
            continue
        lines.append(line)
        for column, name, cell in zip(texts, text_columns, cells, strict=False):
            column.append(files.string(cell, str(name), table.place(line)))
        if told:
            try:
                found.append(read_label(*told))
            except ValueError as error:
                raise ValueError(f"{table.place(line)}: {error}") from error
    if not lines:
        raise ValueError(f"{path}: none of its {skipped:,} rows has a label.")

    labels, names = found if told else None, ()
    if label_columns:
        names = tuple(map(str, label_columns))
    elif label is not None and label_delimiter:
        row_of = [row for row, some in enumerate(found) for _ in some]
        if not row_of and label_names is None:
            raise ValueError(f"{path}: no row has a label. Is this the column of the labels?")
        flat = [name for some in found for name in some]
        ids, names = class_ids(flat, label_names, lambda i: table.place(lines[row_of[i]]))
        of_rows = iter(ids)
        labels = [tuple(sorted(set(islice(of_rows, len(some))))) for some in found]
    elif label is not None and not regression:
        labels, names = class_ids(found, label_names, lambda row: table.place(lines[row]))
    read = texts[0] if text_pair is None else tuple(texts)
    return LabelledTexts(read, labels, names, lines, skipped)


def text_rows(
    path: str | Path, text: str | int = "text", text_pair: str | int | None = None, **how: Any
) -> Iterator[tuple[str, ...]]:
    """Yields the text, or the two texts, of each row of a table, reading as it goes.

    Args:
        path, text, text_pair: as for `read_table`.
        **how: how the file is written, as for `read_table`: format, delimiter, header, encoding.

    Raises:
        ValueError, FileNotFoundError: as `read_table`.
    """
    table = Table(path, **how)
    columns = (text,) if text_pair is None else (text, text_pair)
    advice = " Name the columns with text= and text_pair= (--text, --text_pair)."
    for line, cells in table.rows(columns, advice):
        named = zip(cells, columns, strict=True)
        yield tuple(files.string(cell, str(name), table.place(line)) for cell, name in named)


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


def _marked(names: Sequence[str | int], *values: Any) -> tuple[int, ...]:
    """The numbers of the columns that hold a 1."""
    marks = [_MARKS.get(str(value).strip().lower()) for value in values]
    if None in marks:
        column = marks.index(None)
        raise ValueError(
            f"the label {shown(names[column])} is {shown(values[column])}, expected 1 where it "
            "applies and 0 where it does not."
        )
    return tuple(i for i, mark in enumerate(marks) if mark)


def _label_list(delimiter: str, value: Any) -> list[str]:
    """The names in a cell, perhaps none."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(delimiter) if name.strip()]
    if _is_missing(value):
        return []
    return list(map(_label_name, value if isinstance(value, list) else [value]))


def _is_missing(value: Any) -> bool:
    """Whether a cell holds no label."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value


def _label_name(value: Any) -> str:
    _check_told("label", value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"the label is {shown(value)}, expected a string or a number.")


def _score(value: Any) -> float:
    _check_told("score", value)
    score = math.nan if isinstance(value, bool) else number(value)
    if not math.isfinite(score):
        raise ValueError(f"the score is {shown(value)}, expected a finite number.")
    return score


def _check_told(what: str, value: Any) -> None:
    if _is_missing(value):
        raise ValueError(
            f"the {what} is missing ({shown(value)}). Correct the row; skip_unlabelled=True "
            "(--skip_unlabelled) leaves such rows out, label=None reads texts without labels."
        )


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


class Table:
    """A file with rows and columns.

    Args:
        path, format, delimiter, header, encoding, max_line_bytes: as for `read_table`.

    Raises:
        ValueError: the format is unknown, or an option does not go with it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        delimiter: str | None = None,
        header: bool = True,
        encoding: str | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
    ):
        self.path, self.header = Path(path), header
        self.delimiter = "\t" if delimiter == "tab" else delimiter
        self.format = format or self._format_of_suffix()
        if self.format not in FORMATS:
            raise ValueError(
                f"{path}: the format {format!r} is not known. Choose one of {list(FORMATS)}."
            )
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(
                f"The delimiter is {shown(delimiter)}; it is one character, such as ',', ';' or a tab."
            )
        for option, is_refused in (
            ("delimiter", self.delimiter is not None and self.format != "csv"),
            ("encoding", encoding is not None and self.format == "parquet"),
            ("header", not header and self.format in _NAMING),
        ):
            if is_refused:
                raise ValueError(
                    f"{path}: {option} is not for files of {self.format}. Leave it out."
                )
        self._options = () if self.format == "parquet" else (encoding, max_line_bytes)

    def _format_of_suffix(self) -> str:
        by_suffix = SUFFIXES.get(self.path.suffix.lower())
        if self.delimiter is not None and by_suffix in (None, "tsv"):
            return "csv"
        if by_suffix is None:
            raise ValueError(
                f"{self.path}: the suffix {self.path.suffix!r} does not say what format the file has; "
                f"name it with format=, one of {list(FORMATS)}."
            )
        return by_suffix

    def place(self, number: int) -> str:
        """The place of a row, for messages."""
        return f"{self.path}, {'line' if self.format in _LINES else 'row'} {number}"

    def rows(
        self, columns: Sequence[str | int], advice: str = ""
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yields each row's number, from 1, and its values in the columns asked for.

        The number is that of the line on which the row begins, or for JSON arrays and Parquet that
        of the row. Blank lines at the end of the file are left out.

        Args:
            columns: their names, or numbers where there is no header.
            advice: what to do where one of them is not there, for the message.

        Raises:
            ValueError, FileNotFoundError: as `read_table`.
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
                yield number, row
                continue
            if positions is None:
                first, positions = record, self._positions(columns, record, advice)
                if self.header:
                    continue
            if len(record) != len(first):
                raise ValueError(
                    f"{self.place(number)}: found {len(record)} fields, expected {len(first)} as on the "
                    f"first line ({quoted(first)}). Correct the line."
                )
            row = tuple(record[position] for position in positions)
            yield number, row
        if row is None:
            raise ValueError(f"{self.path} has no rows. Check that this is the right file.")

    def _records(self, columns: Sequence[str | int]) -> Iterator[tuple[int, Any]]:
        """Number and content of each record: fields, or named values; None for a blank line."""
        if self.format != "csv":
            return FORMATS[self.format](self.path, *self._options)
        delimiter = self.delimiter or max(DELIMITERS, key=partial(self._fit, columns))
        return _csv_records(self.path, *self._options, delimiter)

    def _fit(self, columns: Sequence[str | int], delimiter: str) -> tuple[int, int]:
        """How well a delimiter fits: with the right one the header has most of the columns asked for,
        and then most columns; without a header, the first rows have the same number of fields."""
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
        # Any delimiter that the file does not have finds one field a row.
        return int(len(widths) == 1 and widths != {1}), 0

    def _positions(
        self, columns: Sequence[str | int], first: Sequence[str], advice: str
    ) -> list[int]:
        """The positions of columns in a row's fields."""
        where = self.place(1)
        if self.header:
            _check_different(where, first)
            no_header = " If the file has no header (header=False, --noheader), give their numbers."
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
    # The csv module's limit on fields holds for the whole process, so it is only ever raised. It
    # stops a quotation mark that stays open from making one field of the rest of the file.
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
            "quotation marks or line ends: a field in quotation marks doubles those that it holds. "
            "Raise max_line_bytes for longer fields."
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
    """The rows of a Parquet file; a part of the file is in memory at a time."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"{path}: reading it needs pyarrow: pip install 'bert_zoo[tables]'. Or save the table as CSV."
        ) from error
    files.require_file(path, advice="Check its name and folder.")
    try:
        with ParquetFile(path) as file:
            records = (record for batch in file.iter_batches() for record in batch.to_pylist())
            yield from enumerate(records, start=1)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(
            f"{path} is not a whole Parquet file ({error}). Write it again."
        ) from error


def _object(where: str, record: Any) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: found {shown(record)}, expected a JSON object.")
    return record


def _unique_members(where: object, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    _check_different(where, [name for name, _ in pairs])
    return dict(pairs)


# Name -> what gives the records of a file. Tabs with the quoting rules of CSV, as spreadsheets and pandas
# write them, are "csv" with the delimiter "tab".
FORMATS: Mapping[str, Callable[..., Iterator[tuple[int, Any]]]] = {
    "csv": _csv_records,
    "tsv": _tsv_records,
    "jsonl": _json_lines_records,
    "json": _json_records,
    "parquet": _parquet_records,
}
# Formats whose records have names, and whose records are numbered by line.
_NAMING = ("json", "jsonl", "parquet")
_LINES = ("csv", "tsv", "jsonl")
SUFFIXES: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
# Of CSV files, the usual one first: spreadsheets write semicolons where commas are in numbers.
DELIMITERS = (",", ";", "\t", "|")
# Rows by which the delimiter of a file is found.
_FIRST_ROWS = 20
