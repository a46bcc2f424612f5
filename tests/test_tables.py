"""Tables with named columns, TREC's files, and the errors that bad ones give."""

import csv
import json
import re
import sys
import tracemalloc
from pathlib import Path

import pandas as pd
import pytest

from bert_zoo.data import tables

SHARED = Path(__file__).parents[2] / "shared" / "data" / "classification"


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


# --- Formats ---

TEXTS = [
    "plain",
    'He said "so", then',
    "two\nlines",
    "tab\there",
    "  ends ",
    "",
    "é\u2028\x85",
    "'",
]


TEXT_FORMATS = [name for name in tables.FORMATS if name not in ("parquet", "excel")]


def written(format, texts, line_end="\n"):
    """A table with these texts and the labels 0 and 1 in turn."""
    rows = [(text, i % 2) for i, text in enumerate(texts)]
    if format == "jsonl":
        return line_end.join(json.dumps({"label": i, "text": text}) for text, i in rows)
    if format == "json":
        rows = [json.dumps({"label": i, "text": text}) for text, i in rows]
        return f"[{line_end}{f',{line_end}'.join(rows)}{line_end}]"
    if format == "tsv":
        return line_end.join(f"{text}\t{i}" for text, i in [("text", "label"), *rows])
    delimiter = "," if format == "csv" else "\t"
    quoted = [('"' + text.replace('"', '""') + '"', i) for text, i in rows]
    return line_end.join(f"{text}{delimiter}{i}" for text, i in [("text", "label"), *quoted])


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_each_format_gives_texts_exactly(tmp_path, format, mark, line_end, end):
    texts = [text for text in TEXTS if format != "tsv" or not {"\n", "\t"} & set(text)]
    path = write(tmp_path, "a.data", mark + written(format, texts, line_end) + end)
    result = tables.read_table(path, format=format)
    assert result.texts == texts
    assert result.labels == [i % 2 for i in range(len(texts))]
    assert result.label_names == ("0", "1") and len(result) == len(texts)


def test_what_pythons_csv_module_writes_is_read(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, "x") for text in TEXTS)])
    assert tables.read_table(path).texts == TEXTS


@pytest.mark.parametrize("suffix", [".csv", ".TSV", ".jsonl", ".ndjson"])
def test_the_suffix_says_the_format(tmp_path, suffix):
    content = written(tables.SUFFIXES[suffix.lower()], ["a", "b"])
    assert tables.read_table(write(tmp_path, f"a{suffix}", content)).texts == ["a", "b"]


def test_a_quotation_mark_inside_a_csv_field_is_text(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\n5" disk,a\nb,c\n')
    assert tables.read_table(path).texts == ['5" disk', "b"]


def test_columns_are_found_by_name(tmp_path):
    path = write(tmp_path, "a.csv", "id,gold,second,first\n7,x,B,A\n8,y,D,C\n")
    result = tables.read_table(path, text="first", text_pair="second", label="gold")
    assert result == tables.LabelledTexts((["A", "C"], ["B", "D"]), [0, 1], ("x", "y"))
    assert len(result) == 2


def test_a_file_without_header(tmp_path):
    path = write(tmp_path, "a.csv", "x,A\ny,B\n")
    assert tables.read_table(path, header=("label", "text")).texts == ["A", "B"]


def test_texts_without_labels(tmp_path):
    path = write(tmp_path, "a.csv", "text\nA\nB\n")
    assert tables.read_table(path, label=None) == tables.LabelledTexts(["A", "B"], None, ())


def test_columns_of_a_file_without_header_are_given_by_number(tmp_path):
    path = write(tmp_path, "a.csv", "x,A\ny,B\n")
    for columns in ({"text": 1, "label": 0}, {"text": "-1", "label": "0"}):
        result = tables.read_table(path, **columns, header=False)
        assert result == tables.LabelledTexts(["A", "B"], [0, 1], ("x", "y"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_file_is_found(tmp_path, delimiter):
    rows = [["text", "label"], ["a, b; c", "x"], ["d | e, f", "y"], ["g\th", "x"]]
    lines = [delimiter.join(f'"{field}"' for field in row) for row in rows]
    wanted = ["a, b; c", "d | e, f", "g\th"]
    path = write(tmp_path, "a.csv", "\n".join(lines))
    assert tables.read_table(path).texts == wanted
    path = write(tmp_path, "b.csv", "\n".join(lines[1:]))
    assert tables.read_table(path, text=0, label=1, header=False).texts == wanted
    path = write(tmp_path, "c.txt", "\n".join(lines))
    assert tables.read_table(path, delimiter=delimiter).texts == wanted


@pytest.mark.parametrize("lines", [1, 3])
def test_json_is_an_array_or_an_object_a_line(tmp_path, lines):
    rows = [{"text": f"text {i}", "label": i % 2, "more": [{}]} for i in range(lines)]
    for content in (json.dumps(rows), json.dumps(rows, indent=2), written("jsonl", ["text 0"])):
        result = tables.read_table(write(tmp_path, "a.json", content))
        assert result.texts[0] == "text 0" and result.labels[0] == 0


# --- Encodings ---


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-8-sig", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-32", None),
        ("utf-16-be", "utf-16-be"),
        ("utf-16-le", "utf-16"),
        ("latin-1", "latin-1"),
        ("cp1252", "cp1252"),
    ],
)
def test_each_encoding_gives_texts_exactly(tmp_path, encoding, said):
    # In UTF-16, the last two hold the byte of a line end.
    texts = ["é", "plain", "ÿ"] + (["\u0a0a\u010a", "😀" * 20_000] if "utf" in encoding else [])
    for format in TEXT_FORMATS:
        path = write(tmp_path, f"a.{format}", written(format, texts, "\r\n").encode(encoding))
        assert tables.read_table(path, format=format, encoding=said).texts == texts


@pytest.mark.parametrize(
    ("content", "said", "message"),
    [
        ("text,label\né,b\n".encode("latin-1"), None, ", line 2: this is not UTF-8 ("),
        ("text,label\né,b\n".encode("utf-16"), "utf-8", "mark of UTF-16-LE, and encoding is 'utf-8'"),
        ("text,label\na,b\n".encode("utf-8-sig"), "latin-1", "byte order mark of UTF-8, and"),
        ("text,label\na,b\n".encode("utf-16") + b"\x00\xd8c\x00\n\x00", None, ", line 3: this is not UTF-16-LE ("),
        ("text,label\na,b\n".encode("utf-16") + b"c", None, ", line 3: this is not UTF-16-LE ("),
        ("text,label\n".encode("utf-16") + ("x" * 600_000).encode("utf-16-le"), None, ", line 2: the line is longer"),
    ],
)  # fmt: skip
def test_a_wrong_encoding_is_named_with_its_line(tmp_path, content, said, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tables.read_table(write(tmp_path, "a.csv", content), encoding=said)


# --- Labels ---


def labels_of(tmp_path, spelled, **options):
    path = write(tmp_path, "a.tsv", "text\tlabel\n" + "".join(f"t\t{s}\n" for s in spelled))
    result = tables.read_table(path, **options)
    return result.labels, result.label_names


@pytest.mark.parametrize(
    ("spelled", "names", "ids"),
    [
        (["pos", "neg", "pos"], ("neg", "pos"), [1, 0, 1]),
        (["10", "9", "-1"], ("-1", "9", "10"), [2, 1, 0]),
        (["10", "9", "x"], ("10", "9", "x"), [0, 1, 2]),
        (["1.0", "0.0"], ("0.0", "1.0"), [1, 0]),
    ],
)
def test_collected_names_do_not_depend_on_the_order_of_rows(tmp_path, spelled, names, ids):
    assert labels_of(tmp_path, spelled) == (ids, names)
    assert labels_of(tmp_path, spelled[::-1]) == (ids[::-1], names)


@pytest.mark.parametrize(
    ("names", "spelled", "ids"),
    [
        (("neg", "pos"), ["pos", "neg"], [1, 0]),
        (("neg", "pos"), ["1", "0"], [1, 0]),
        # Names that are numbers are names.
        (("1", "0"), ["1", "0"], [0, 1]),
        (("1", "2"), ["1", "1"], [0, 0]),
    ],
)
def test_given_names_give_the_ids(tmp_path, names, spelled, ids):
    assert labels_of(tmp_path, spelled, label_names=names) == (ids, names)


def test_scores(tmp_path):
    labels, names = labels_of(tmp_path, ["1", "2.5", "-1e-3"], regression=True)
    assert labels == [1.0, 2.5, -0.001] and names == ()
    assert all(type(label) is float for label in labels)


def test_json_labels_may_be_numbers_and_truth_values(tmp_path):
    rows = [{"text": "t", "label": label} for label in (True, False)]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert tables.read_table(path).label_names == ("false", "true")
    path = write(tmp_path, "b.jsonl", '{"text": "t", "label": 3}\n{"text": "t", "label": 2.5}')
    assert tables.read_table(path, regression=True).labels == [3.0, 2.5]


@pytest.mark.parametrize(
    ("spelled", "options", "message"),
    [
        (["pos", "psitive"], {"label_names": ("pos", "positive")},
         "line 3: the label is 'psitive', expected one of ['pos', 'positive']. Did you mean 'positive'?"),
        (["pos", "1"], {"label_names": ("neg", "pos")}, "line 3: the label is '1', expected one of"),
        (["0", "2"], {"label_names": ("neg", "pos")}, "line 3: the label is '2', expected one of ['0'"),
        (["pos", ""], {}, "line 3: the label is empty"),
        (["pos", " "], {}, "line 3: the label is empty"),
        (["pos", "neg", "Pos "], {}, "line 4: the label 'Pos ' differs from 'pos' ("),
        (["1", "2.5"], {}, "line 3: the labels are numbers such as '2.5'. Pass regression=True"),
        (["1", "high"], {"regression": True}, "line 3: the score is 'high', expected a finite"),
        (["1", "nan"], {"regression": True}, "line 3: the score is 'nan', expected a finite"),
        (["1"], {"label_names": ("a", "a")}, "label_names must differ"),
    ],
)  # fmt: skip
def test_bad_labels_are_named(tmp_path, spelled, options, message):
    with pytest.raises(ValueError, match=re.escape(message)) as e:
        labels_of(tmp_path, spelled, **options)
    if message.startswith("line"):
        assert str(e.value).startswith(f"{tmp_path / 'a.tsv'}, {message}")


@pytest.mark.parametrize("spelled", [["pos", "", "neg", " "], [1.5, None, 0, float("nan")]])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "xlsx"])
def test_rows_without_a_label_are_left_out_and_counted_where_that_is_asked_for(
    tmp_path, spelled, suffix
):
    path = tmp_path / f"a.{suffix}"
    frame = pd.DataFrame({"text": list("abcd"), "label": spelled})
    if suffix == "jsonl":
        path.write_text(frame.to_json(orient="records", lines=True))
    else:
        (frame.to_parquet if suffix == "parquet" else frame.to_excel)(path, index=False)
    regression = spelled[0] == 1.5
    with pytest.raises(ValueError, match=r"line [23]: the (label|score) is .*--skip_unlabelled"):
        tables.read_table(path, regression=regression)
    data = tables.read_table(path, regression=regression, skip_unlabelled=True)
    assert (data.texts, data.skipped) == (["a", "c"], 2)
    assert data.labels == ([1.5, 0.0] if regression else [1, 0])
    with pytest.raises(ValueError, match="none of its 1 rows has a label"):
        tables.read_table(write(tmp_path, "b.csv", "text,label\na,\n"), skip_unlabelled=True)


# --- Parquet and Excel ---


@pytest.mark.parametrize("suffix", ["parquet", "xlsx"])
def test_files_of_pandas_are_read_as_their_csv(tmp_path, suffix):
    texts = TEXTS if suffix == "parquet" else [text.strip() or "-" for text in TEXTS]
    frame = pd.DataFrame(
        {"id": range(len(texts)), "text": texts, "label": ["a", "b", "b", "a"] * 2}
    )
    path = tmp_path / f"a.{suffix}"
    (frame.to_parquet if suffix == "parquet" else frame.to_excel)(path, index=False)
    data = tables.read_table(path)
    assert data.texts == texts and data.label_names == ("a", "b")
    # Numbers as text: what a CSV file of the same table has.
    if suffix == "xlsx":
        assert tables.read_table(path, text="id").texts == [str(i) for i in range(len(texts))]
        assert tables.read_table(path, header=False, text=1, label=2).texts == ["text", *texts]
    with pytest.raises(ValueError, match=r"no column 'Text'.*Did you mean 'text'.*--text"):
        tables.read_table(path, text="Text")
    with pytest.raises(ValueError, match="encoding is for files of text"):
        tables.read_table(path, encoding="utf-8")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"is not a whole (Parquet|Excel) file"):
        tables.read_table(path)


def test_a_reader_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"openpyxl: pip install 'bert_zoo\[tables\]'"):
        tables.read_table(write(tmp_path, "a.xlsx", b""))


# --- Bad files ---


def test_the_delimiter_is_found_by_the_header_where_a_column_is_not_there(tmp_path):
    path = write(tmp_path, "a.csv", "Nachricht;Art, die\nja, gut;a\n")
    with pytest.raises(
        ValueError, match=r"no column 'label'; the columns are \['Nachricht', 'Art, die'\].*--label"
    ):
        tables.read_table(path, text="Nachricht")
    with pytest.raises(ValueError, match=r"no column 'text'.*with text= \(--text\)"):
        tables.read_table(write(tmp_path, "b.csv", "a;b;c\n1;2;3\n"))


@pytest.mark.parametrize(("encoding", "text"), [("cp1252", "5 € “gut”"), ("latin-1", "schön")])
def test_the_encoding_that_a_western_file_is_likely_in_is_proposed(tmp_path, encoding, text):
    path = write(tmp_path, "a.csv", f"text,label\n{text},a\n".encode(encoding))
    with pytest.raises(ValueError, match=f"--encoding {encoding}"):
        tables.read_table(path)
    assert tables.read_table(path, encoding=encoding).texts == [text]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", " has no rows"),
        ("a.csv", "\ufeff", " has no rows"),
        ("a.jsonl", "", " has no rows"),
        ("a.csv", "text,label\n", " has no rows"),
        ("a.csv", "text,lable\na,b\n",
         ", line 1: there is no column 'label'; the columns are ['text', 'lable']. Did you mean 'lable'?"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"Text": "a", "label": "b"}',
         ", line 2: there is no column 'text'; the columns are ['Text', 'label']. Did you mean 'Text'?"),
        ("a.csv", "text,label,text\na,b,c\n", ", line 1: the columns ['text'] occur twice"),
        ("a.jsonl", '{"text": "a", "text": "b", "label": 1}', ", line 1: the columns ['text'] occur"),
        ("a.csv", 'text,label\n"a\nb",c\nd\n', ", line 4: found 1 fields, expected 2 (['text', 'label'])"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", ", line 2: found 3 fields, expected 2"),
        ("a.csv", 'text,label\n"a"b,c\n', ", line 2: the row that begins here cannot be read"),
        ("a.csv", 'text,label\na,b\n"c\n\nd', ", line 3: the row that begins here cannot be read"),
        ("a.csv", "text,label\ra,b\r", ", line 1: the row that begins here cannot be read"),
        ("a.csv", "text,label\na,b\n\nc,d\n", ", line 3: the line is blank, and rows follow it"),
        ("a.tsv", "text\tlabel\n\na\tb\n", ", line 2: the line is blank"),
        ("a.jsonl", '{"text": "a", "label": 1}\n\n{}', ", line 2: the line is blank"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a", label}', ", line 2: this is not JSON ("),
        ("a.jsonl", '["a", 1]', ", line 1: found ['a', 1], expected a JSON object"),
        ("a.jsonl", '{"text": 5, "label": 1}', ", line 1: 'text' is 5, expected a string"),
        ("a.jsonl", '{"text": null, "label": 1}', ", line 1: 'text' is None, expected a string"),
        ("a.jsonl", '{"text": "\\udc00", "label": 1}', ", line 1: 'text' holds a lone surrogate"),
        ("a.jsonl", '{"text": "a", "label": null}', ", line 1: the label is None, expected a string"),
        ("a.csv", b"text,label\na,b\ncaf\xe9,b\n", ", line 3: this is not UTF-8 ("),
        ("a.csv", "text,label\na,b\n".encode("utf-16-le"), ", line 1: much of it is zero bytes, as in"),
        ("a.json", '[{"text": "a", "label": 1},\n{"text": "b"}]', ", line 2: there is no column 'label'"),
        ("a.json", '[{"text": "a", "label": 1},\n 5]', ", line 2: found 5, expected a JSON object"),
        ("a.json", '[{"text": "a", "label": 1}\n{"text": "b"}]', ", line 2: found '{\"text\": \"b\"}]'"),
        ("a.json", '[{"text": "a", "label": 1},\n{"text": b}]', ", line 2: this is not JSON ("),
        ("a.json", '[{"text": "a", "label": 1}', ", line 1: found '', expected ',' or ']'"),
        ("a.json", '[{"text": "a", "label": 1}] []', ": found '[]' after the end of the array"),
        ("a.json", "[]", " has no rows"),
        ("a.json", '{"text": {"0": "a"}}', ", line 1: there is no column 'label'"),
        ("a.jsonl", '\n{"text": ' + "[" * 99_999, ", line 2: the value that begins here has lists"),
        ("a.jsonl", '{"text": "a", "label": ' + "7" * 5_000 + "}", ", line 1: the value that begins here has a number of 5,000"),
        ("a.csv", "a,b\n1,2\n", ", line 1: there is no column 'text'; the columns are ['a', 'b']. Of a file without header"),
        ("a.txt", "text,label\na,b\n", ": the suffix '.txt' does not say what format"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_line(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
        tables.read_table(path)


def test_bad_arguments_are_named(tmp_path):
    path = write(tmp_path, "a.csv", b"text,label\ncaf\xe9,b\n")
    with pytest.raises(ValueError, match=r"the format 'xls' is not known\. Choose one of \['csv'"):
        tables.read_table(path, format="xls")
    with pytest.raises(ValueError, match="'utf-9' is not an encoding"):
        tables.read_table(path, encoding="utf-9")
    with pytest.raises(ValueError, match="the delimiter ';' is for CSV files"):
        tables.read_table(path, format="tsv", delimiter=";")
    with pytest.raises(ValueError, match="The delimiter is 'comma'; it is one character"):
        tables.read_table(path, delimiter="comma")
    with pytest.raises(ValueError, match="numbers, from 0; got 'text'"):
        tables.read_table(path, header=False, encoding="latin-1")
    with pytest.raises(ValueError, match="no column 2; columns count from 0, and the row is"):
        tables.read_table(path, text=2, label=0, header=False, encoding="latin-1")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*none\.csv"):
        tables.read_table(tmp_path / "none.csv")
    json_path = write(tmp_path, "a.jsonl", "{}")
    with pytest.raises(ValueError, match="leave out header"):
        tables.read_table(json_path, header=("text", "label"))
    assert tables.read_table(path, encoding="latin-1").texts == ["café"]


def test_an_encodings_bytes_are_not_replaced(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\nПривет,b\n".encode("cp1251"))
    assert tables.read_table(path, encoding="cp1251").texts == ["Привет"]


class Name(str):
    """A name that counts how often names are compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("twice", [False, True])
def test_checks_of_many_columns_compare_each_name_a_few_times(twice):
    names = [Name(i) for i in range(5_000)] + ([Name(7)] if twice else [])
    Name.compared = 0
    if twice:
        for check in (
            lambda: tables._named_positions("here", ["0"], names),
            lambda: tables._unique_members("here", [(name, 1) for name in names]),
        ):
            with pytest.raises(ValueError, match=r"here: the columns \['7'\] occur twice"):
                check()
    else:
        assert tables._named_positions("here", ["4999", "0"], names) == [4999, 0]
    assert Name.compared < 10 * len(names)


def test_messages_are_bounded_whatever_a_file_holds(tmp_path):
    long = "x" * 500_000
    for name, content in (
        ("a.csv", f"{long},{long}y\n1,2\n"),
        ("a.csv", f"text,label\na,{long}\nb,{long.upper()}\n"),
        ("a.csv", f"text,label\na,b\n{'c,' * 500_000}\n"),
        ("a.jsonl", json.dumps({"text": [long], "label": {long: long}})),
        ("a.jsonl", json.dumps({"text": "a", "label": {long: long}})),
        ("a.jsonl", f'{{"text": "a", "{long}": 1, "{long}": 2, "label": 1}}'),
        ("a.json", f'[{{"text": "a", "label": 1}}{long}'),
    ):
        with pytest.raises(ValueError) as e:
            tables.read_table(write(tmp_path, name, content))
        assert len(str(e.value)) < 6_000


# --- Long lines ---

LONG = 10_000_000


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.csv", b"x" * LONG + b",b", ", line 3: the line is longer than max_line_bytes, 1,048,576"),
        ("a.tsv", b"x" * LONG + b"\tb", ", line 3: the line is longer than max_line_bytes"),
        # One quotation mark that stays open would make one row of all that follows.
        ("a.csv", b'"c,d\n' + b"e,f\n" * (LONG // 4), ", line 3: the row that begins here is longer"),
    ],
)  # fmt: skip
def test_long_lines_and_rows_are_refused_in_bounded_memory(tmp_path, name, line, message):
    header = b"text\tlabel\na\tb\n" if name == "a.tsv" else b"text,label\na,b\n"
    path = write(tmp_path, name, header + line + b"\n")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
            tables.read_table(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LONG


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "text,label\n{},b\n"), ("a.jsonl", '{{"text": "{}", "label": 1}}')],
)
def test_long_lines_are_read_where_the_limit_allows_it(tmp_path, name, content):
    path = write(tmp_path, name, content.format("x" * LONG))
    assert len(tables.read_table(path, max_line_bytes=LONG + 100).texts[0]) == LONG


# --- TREC ---

TREC = "HUM:ind Who wrote caf\xe9 : the book ?\nDESC:def What is an atom ?\nHUM:desc Who is he ?\n"


def test_trec_is_read_with_coarse_and_fine_classes(tmp_path):
    path = write(tmp_path, "train_5500.label", TREC.encode("latin-1"))
    coarse = tables.read_trec(path)
    assert coarse.texts[0] == "Who wrote caf\xe9 : the book ?"
    assert coarse.label_names == ("DESC", "HUM") and coarse.labels == [1, 0, 1]
    fine = tables.read_trec(path, fine=True)
    assert fine.label_names == ("DESC:def", "HUM:desc", "HUM:ind") and fine.labels == [2, 0, 1]
    assert tables.read_trec(path, label_names=("HUM", "DESC")).labels == [0, 1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("HUM:ind Who ?\nHUM Who ?\n", ", line 2: found 'HUM Who ?', expected a line such as"),
        ("HUM:ind\n", ", line 1: found 'HUM:ind', expected"),
        ("HUM:ind Who ?\n\n", ", line 2: found '', expected"),
        ("", " is empty"),
    ],
)
def test_bad_lines_of_trec_are_named(tmp_path, content, message):
    path = write(tmp_path, "a.label", content)
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
        tables.read_trec(path)


def test_real_trec_has_its_known_counts():
    if not SHARED.is_dir():
        pytest.skip("TREC's files are not at ../shared/data/classification.")
    train = tables.read_trec(SHARED / "trec_train.txt")
    assert len(train) == 5452
    assert train.label_names == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert [train.labels.count(i) for i in range(6)] == [86, 1162, 1250, 1223, 835, 896]
    test = tables.read_trec(SHARED / "trec_test.txt", label_names=train.label_names)
    assert (len(test), test.labels.count(1)) == (500, 138)
    fine = tables.read_trec(SHARED / "trec_train.txt", fine=True)
    assert len(fine.label_names) == 50


# --- Several labels a row ---

SETS = {
    "names.csv": "text,label\na,rude; threat\nb,\nc,threat;threat\n",
    "names.jsonl": '{"text":"a","label":["threat","rude"]}\n{"text":"b","label":null}\n'
    '{"text":"c","label":"threat"}\n',
    "columns.csv": "text,rude,threat\na,1,1.0\nb,0,false\nc,0,1\n",
    "columns.jsonl": '{"text":"a","rude":1,"threat":true}\n{"text":"b","rude":0,"threat":false}\n'
    '{"text":"c","rude":0.0,"threat":1}\n',
}


@pytest.mark.parametrize("name", SETS)
def test_rows_have_any_number_of_labels(name, tmp_path):
    path = write(tmp_path, name, SETS[name])
    options = {"label_delimiter": ";"}
    if name.startswith("columns"):
        options = {"label_columns": ("rude", "threat")}
    read = tables.read_table(path, **options)
    assert read.label_names == ("rude", "threat")
    assert read.labels == read.classes == [(0, 1), (), (1,)]
    assert tables.read_table(path, **options, label_names=read.label_names).labels == read.labels


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            "text,label\na,x;z\n",
            {"label_names": ("x", "y")},
            "line 2.*'z', expected one of .*'x', 'y'",
        ),
        ("text,label\na,\n", {}, "no row has a label"),
        ("text,label\na,x\nb,X;y\n", {}, "line 3.*'X' differs from 'x'"),
        ("text,x,y\na,1,2\n", {"label_columns": ("x", "y")}, "line 2.*'y' is '2', expected 1"),
        ("text,x\na,1\n", {"label_columns": ("x", "y")}, "no column 'y'"),
    ],
)
def test_wrong_sets_of_labels_name_file_and_line(content, options, message, tmp_path):
    path = write(tmp_path, "rows.csv", content)
    with pytest.raises(ValueError, match=f"rows\\.csv.*{message}"):
        tables.read_table(
            path, **({} if "label_columns" in options else {"label_delimiter": ";"}), **options
        )
