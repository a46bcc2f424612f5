"""Tables with named columns, TREC's files, and the errors that bad ones give."""

import csv
import json
import sys
import tracemalloc
from pathlib import Path

import pandas as pd
import pytest
from helpers import assert_refused, refusals

from bert_zoo.data import tables

SHARED = Path(__file__).parents[2] / "shared" / "data" / "classification"


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def read(tmp_path, name, content, **options):
    return tables.read_table(write(tmp_path, name, content), **options)


# --- Formats ---

TEXTS = ["plain", 'He said "so", then', "two\nlines", "tab\there", "  ends ", "", "é\u2028\x85", "'"]  # fmt: skip
TEXT_FORMATS = [name for name in tables.FORMATS if name not in ("parquet", "tfrecord")]


def written(format, texts, line_end="\n"):
    """A table with these texts and the labels 0 and 1 in turn."""
    rows = [(text, i % 2) for i, text in enumerate(texts)]
    if format.startswith("json"):
        objects = [json.dumps({"label": i, "text": text}) for text, i in rows]
        if format == "jsonl":
            return line_end.join(objects)
        return f"[{line_end}{f',{line_end}'.join(objects)}{line_end}]"
    delimiter = "," if format == "csv" else "\t"
    if format != "tsv":
        rows = [('"' + text.replace('"', '""') + '"', i) for text, i in rows]
    return line_end.join(f"{text}{delimiter}{i}" for text, i in [("text", "label"), *rows])


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_each_format_gives_texts_exactly(tmp_path, format, mark, line_end, end):
    texts = [text for text in TEXTS if format != "tsv" or not {"\n", "\t"} & set(text)]
    content = mark + written(format, texts, line_end) + end
    result = read(tmp_path, "a.data", content, format=format)
    assert result.texts == texts
    assert result.labels == [i % 2 for i in range(len(texts))]
    assert result.label_names == ("0", "1") and len(result) == len(texts)


def test_what_pythons_csv_module_writes_is_read(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, "x") for text in TEXTS)])
    assert tables.read_table(path).texts == TEXTS


@pytest.mark.parametrize("suffix", [".csv", ".TSV", ".json", ".jsonl", ".ndjson"])
def test_the_suffix_says_the_format(tmp_path, suffix):
    content = written(tables.SUFFIXES[suffix.lower()], ["a", "b"])
    assert read(tmp_path, f"a{suffix}", content).texts == ["a", "b"]


XY = ("x", "y")


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        # A quotation mark inside a field is text.
        ("a.csv", 'text,label\n5" disk,x\nb,y\n', {}, (['5" disk', "b"], [0, 1], XY)),
        ("a.csv", "id,gold,second,first\n7,x,B,A\n8,y,D,C\n",
         {"text": "first", "text_pair": "second", "label": "gold"}, ((["A", "C"], ["B", "D"]), [0, 1], XY)),
        ("a.csv", "text\nA\nB\n", {"label": None}, (["A", "B"], None, ())),
        ("a.csv", "x,A\ny,B\n", {"header": False, "text": 1, "label": 0}, (["A", "B"], [0, 1], XY)),
        ("a.csv", "x,A\ny,B\n", {"header": False, "text": "-1", "label": "0"}, (["A", "B"], [0, 1], XY)),
        ("a.csv", "text,,label,\nA,1,x,2\nB,3,y,4\n", {}, (["A", "B"], [0, 1], XY)),
        # JSON: an array on one line or on several, or an object a line.
        ("a.json", '[{"text": "A", "label": "x", "more": [{}]}, {"text": "B", "label": "y"}]', {}, (["A", "B"], [0, 1], XY)),
        ("a.json", ' [\n{\n"text": "A",\n"label": "x"\n}]', {}, (["A"], [0], ("x",))),
        ("a.json", '{"text": "A", "label": "x"}\n{"text": "B", "label": "y"}\n', {}, (["A", "B"], [0, 1], XY)),
        ("a.jsonl", '{"text": "A", "label": true}\n{"text": "B", "label": false}', {}, (["A", "B"], [1, 0], ("false", "true"))),
        ("a.jsonl", '{"text": "A", "label": 3}\n{"text": "B", "label": 2.5}', {"regression": True}, (["A", "B"], [3.0, 2.5], ())),
    ],
)  # fmt: skip
def test_columns_are_found(tmp_path, name, content, options, expected):
    assert read(tmp_path, name, content, **options) == tables.LabelledTexts(*expected)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_file_is_found(tmp_path, delimiter):
    rows = [["text", "label"], ["a, b; c", "x"], ["d | e, f", "y"], ["g\th", "x"]]
    lines = [delimiter.join(f'"{field}"' for field in row) for row in rows]
    wanted = ["a, b; c", "d | e, f", "g\th"]
    whole, body = "\n".join(lines), "\n".join(lines[1:])
    assert read(tmp_path, "a.csv", whole).texts == wanted
    assert read(tmp_path, "b.csv", body, text=0, label=1, header=False).texts == wanted
    assert read(tmp_path, "c.txt", whole, delimiter=delimiter).texts == wanted


# --- Encodings ---


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", None), ("utf-8-sig", None), ("utf-8-sig", "utf-8"), ("utf-8", "utf-8-sig"), ("utf-16", None),
        ("utf-16", "utf-16"), ("utf-32", None), ("utf-16-be", "utf-16-be"), ("utf-16-le", "utf-16"),
        ("latin-1", "latin-1"), ("cp1252", "cp1252"),
    ],
)  # fmt: skip
def test_each_encoding_gives_texts_exactly(tmp_path, encoding, said):
    # In UTF-16, the last two hold the byte of a line end.
    texts = ["é", "plain", "ÿ"] + (["\u0a0a\u010a", "😀" * 20_000] if "utf" in encoding else [])
    for format in TEXT_FORMATS:
        content = written(format, texts, "\r\n").encode(encoding)
        assert read(tmp_path, f"a.{format}", content, format=format, encoding=said).texts == texts


@pytest.mark.parametrize(
    ("encoding", "text"), [("cp1252", "5 € “gut”"), ("latin-1", "schön"), ("cp1251", "Привет")]
)
def test_bytes_are_not_replaced_and_a_western_files_likely_encoding_is_proposed(
    tmp_path, encoding, text
):
    content = f"text,label\n{text},a\n".encode(encoding)
    with pytest.raises(ValueError, match=f"--encoding {encoding if encoding != 'cp1251' else ''}"):
        read(tmp_path, "a.csv", content)
    assert read(tmp_path, "a.csv", content, encoding=encoding).texts == [text]


# --- Labels ---


def labels_of(tmp_path, spelled, **options):
    result = read(tmp_path, "a.tsv", "\n".join(["text\tlabel", *(f"t\t{s}" for s in spelled)]), **options)  # fmt: skip
    return result.labels, result.label_names


@pytest.mark.parametrize(
    ("given", "spelled", "names", "ids"),
    [
        # Collected names do not depend on the order of rows.
        (None, ["pos", "neg", "pos"], ("neg", "pos"), [1, 0, 1]),
        (None, ["10", "9", "-1"], ("-1", "9", "10"), [2, 1, 0]),
        (None, ["10", "9", "x"], ("10", "9", "x"), [0, 1, 2]),
        (None, ["1.0", "0.0"], ("0.0", "1.0"), [1, 0]),
        # Given names give the ids, and ids may stand in their place.
        (("neg", "pos"), ["pos", "neg"], ("neg", "pos"), [1, 0]),
        (("neg", "pos"), ["1", "0"], ("neg", "pos"), [1, 0]),
        # Names that are numbers are names.
        (("1", "0"), ["1", "0"], ("1", "0"), [0, 1]),
        (("1", "2"), ["1", "1"], ("1", "2"), [0, 0]),
    ],
)
def test_labels_are_ids_of_names(tmp_path, given, spelled, names, ids):
    assert labels_of(tmp_path, spelled, label_names=given) == (ids, names)
    assert labels_of(tmp_path, spelled[::-1], label_names=given) == (ids[::-1], names)


def test_scores(tmp_path):
    labels, names = labels_of(tmp_path, ["1", "2.5", "-1e-3"], regression=True)
    assert labels == [1.0, 2.5, -0.001] and names == ()
    assert all(type(label) is float for label in labels)


SETS = {
    "names.csv": "text,label\na,rude; threat\nb,\nc,threat;threat\n",
    "names.jsonl": '{"text":"a","label":["threat","rude"]}\n{"text":"b","label":null}\n'
    '{"text":"c","label":"threat"}\n',
    "columns.csv": "text,rude,threat\na,1,1.0\nb,0,false\nc,0,1\n",
    "columns.jsonl": '{"text":"a","rude":1,"threat":true}\n{"text":"b","rude":0,"threat":false}\n'
    '{"text":"c","rude":0.0,"threat":1}\n',
}
BY_DELIMITER, BY_COLUMNS = {"label_delimiter": ";"}, {"label_columns": ("rude", "threat")}


@pytest.mark.parametrize("name", SETS)
def test_rows_have_any_number_of_labels(name, tmp_path):
    options = BY_COLUMNS if name.startswith("columns") else BY_DELIMITER
    result = read(tmp_path, name, SETS[name], **options)
    assert result.label_names == ("rude", "threat")
    assert result.labels == [*result.classes] == [(0, 1), (), (1,)]
    again = read(tmp_path, name, SETS[name], **options, label_names=result.label_names)
    assert again.labels == result.labels


def write_frame(path, frame):
    if path.suffix == ".jsonl":
        path.write_text(frame.to_json(orient="records", lines=True))
    else:
        frame.to_parquet(path, index=False)


@pytest.mark.parametrize("spelled", [["pos", "", "neg", " "], [1.5, None, 0, float("nan")]])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_rows_without_a_label_are_left_out_and_counted_where_that_is_asked_for(
    tmp_path, spelled, suffix
):
    path = tmp_path / f"a.{suffix}"
    write_frame(path, pd.DataFrame({"text": list("abcd"), "label": spelled}))
    regression = spelled[0] == 1.5
    place = {"jsonl": "line 2", "parquet": "row 2"}[suffix]
    with pytest.raises(ValueError, match=f"{place}: the (label|score) is miss.*--skip_unlabelled"):
        tables.read_table(path, regression=regression)
    data = tables.read_table(path, regression=regression, skip_unlabelled=True)
    assert (data.texts, data.skipped) == (["a", "c"], 2)
    assert data.labels == ([1.5, 0.0] if regression else [1, 0])


# --- Parquet ---


def test_parquet_is_read_as_its_csv(tmp_path):
    frame = pd.DataFrame({"text": TEXTS, "label": ["a", "b", "b", "a"] * 2})
    path = tmp_path / "a.parquet"
    write_frame(path, frame)
    data = tables.read_table(path)
    assert data.texts == TEXTS and data.label_names == ("a", "b")
    words = "no column 'Text' | Did you mean 'text' | --text"
    assert_refused(lambda: tables.read_table(path, text="Text"), words)
    words = "encoding does not apply to"
    assert_refused(lambda: tables.read_table(path, encoding="utf-8"), words)
    path.write_bytes(path.read_bytes()[:-40])
    assert_refused(lambda: tables.read_table(path), "is not a complete Parquet file")


def test_a_reader_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pyarrow: pip install 'bert_zoo\[tables\]'"):
        tables.read_table(tmp_path / "a.parquet")


# --- Errors ---

UTF16 = "text,label\na,b\n".encode("utf-16")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        # Rows and columns
        ("a.csv", "", {}, " has no rows"),
        ("a.csv", "\ufeff", {}, " has no rows"),
        ("a.jsonl", "", {}, " has no rows"),
        ("a.json", "[]", {}, " has no rows"),
        ("a.csv", "text,label\n", {}, " has no rows"),
        ("a.csv", "text,label\na,\n", {"skip_unlabelled": True}, ": none of its 1 rows has a label"),
        ("a.csv", "text,lable\na,b\n", {},
         ", line 1: there is no column 'label'; the columns are ['text', 'lable']. Did you mean 'lable'? Name the columns with text=,"),
        ("a.csv", "a,b\n1,2\n", {}, ", line 1: there is no column 'text'; the columns are ['a', 'b']. Name"),
        # The delimiter is found by the header where a column is not there.
        ("a.csv", "Nachricht;Art, die\nja, gut;a\n", {"text": "Nachricht"},
         ", line 1: there is no column 'label'; the columns are ['Nachricht', 'Art, die']."),
        ("a.csv", "a;b;c\n1;2;3\n", {}, ", line 1: there is no column 'text'; the columns are ['a', 'b', 'c']"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"Text": "a", "label": "b"}', {},
         ", line 2: there is no column 'text'; the columns are ['Text', 'label']. Did you mean 'Text'?"),
        ("a.json", '[{"text": "a", "label": 1},\n{"text": "b"}]', {}, ", row 2: there is no column 'label'"),
        ("a.json", '{"text": {"0": "a"}}', {}, ", row 1: there is no column 'label'"),
        ("a.csv", "text,label,text\na,b,c\n", {}, ", line 1: the columns ['text'] occur twice"),
        ("a.jsonl", '{"text": "a", "text": "b", "label": 1}', {}, ", line 1: the columns ['text'] occur"),
        ("a.csv", 'text,label\n"a\nb",c\nd\n', {}, ", line 4: found 1 fields, expected 2 as on the first line (['text', 'label'])"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", {}, ", line 2: found 3 fields, expected 2"),
        ("a.csv", "a,b\nc\n", {"header": False, "text": 0, "label": 1}, ", line 2: found 1 fields, expected 2 as on the first line (['a', 'b'])"),
        ("a.csv", "text,label\na,b\n\nc,d\n", {}, ", line 3: the line is blank, and rows follow it"),
        ("a.tsv", "text\tlabel\n\na\tb\n", {}, ", line 2: the line is blank"),
        ("a.jsonl", '{"text": "a", "label": 1}\n\n{}', {}, ", line 2: the line is blank"),
        # Quotation marks
        ("a.csv", 'text,label\n"a"b,c\n', {}, ", line 2: the row that begins here cannot be read"),
        ("a.csv", 'text,label\na,b\n"c\n\nd', {}, ", line 3: the row that begins here cannot be read"),
        ("a.csv", "text,label\ra,b\r", {}, ", line 1: the row that begins here cannot be read"),
        # JSON
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a", label}', {}, ", line 2: this is not JSON ("),
        ("a.jsonl", '["a", 1]', {}, ", line 1: found ['a', 1], expected a JSON object"),
        ("a.json", '[{"text": "a", "label": 1},\n 5]', {}, ", row 2: found 5, expected a JSON object"),
        ("a.json", '[{"text": "a", "label": 1},\n{"text": b}]', {}, ", line 2: this is not JSON ("),
        ("a.json", '[{"text": "a", "label": 1}', {}, ", line 1: this is not JSON ("),
        ("a.json", '[{"text": "a", "label": 1}]\n[]', {}, ", line 2: this is not JSON (Extra data"),
        ("a.jsonl", '\n{"text": ' + "[" * 99_999, {}, ", line 2: the value that starts here is nested"),
        ("a.jsonl", '{"text": "a", "label": ' + "7" * 5_000 + "}", {}, ", line 1: the value that starts here has a number with 5,000"),
        # Texts
        ("a.jsonl", '{"text": 5, "label": 1}', {}, ", line 1: 'text' is 5, expected a string"),
        ("a.jsonl", '{"text": null, "label": 1}', {}, ", line 1: 'text' is None, expected a string"),
        ("a.jsonl", '{"text": "\\udc00", "label": 1}', {}, ", line 1: 'text' is | contains a lone surrogate"),
        # Labels
        ("a.csv", "text,label\na,pos\nb,psitive\n", {"label_names": ("pos", "positive")},
         ", line 3: the label is 'psitive', expected one of ['pos', 'positive']. Did you mean 'positive'?"),
        ("a.csv", "text,label\na,pos\nb,1\n", {"label_names": ("neg", "pos")}, ", line 3: the label is '1', expected one of"),
        ("a.csv", "text,label\na,0\nb,2\n", {"label_names": ("neg", "pos")}, ", line 3: the label is '2', expected one of ['0'"),
        ("a.csv", "text,label\na,\n", {}, ", line 2: the label is missing ('')"),
        ("a.csv", "text,label\na, \n", {}, ", line 2: the label is missing (' ')"),
        ("a.jsonl", '{"text": "a", "label": null}', {}, ", line 1: the label is missing (None)"),
        ("a.jsonl", '{"text": "a", "label": [1]}', {}, ", line 1: the label is [1], expected a string or"),
        ("a.csv", "text,label\na,pos\nb,Pos \n", {}, ", line 3: the label 'Pos ' differs from 'pos' ("),
        ("a.csv", "text,label\na,1\nb,2.5\n", {}, ", line 3: the labels are numbers such as '2.5'. Pass regression=True"),
        ("a.csv", "text,label\na,high\n", {"regression": True}, ", line 2: the score is 'high', expected a finite"),
        ("a.csv", "text,label\na,nan\n", {"regression": True}, ", line 2: the score is 'nan', expected a finite"),
        ("a.csv", "text,label\na,x;z\n", BY_DELIMITER | {"label_names": XY}, ", line 2: the label is 'z', expected one of ['x', 'y']"),
        ("a.csv", "text,label\na,\n", BY_DELIMITER, ": no row has a label"),
        ("a.csv", "text,label\na,x\nb,X;y\n", BY_DELIMITER, ", line 3: the label 'X' differs from 'x'"),
        ("a.csv", "text,rude,threat\na,1,2\n", BY_COLUMNS, ", line 2: the label 'threat' is '2', expected 1"),
        ("a.csv", "text,rude\na,1\n", BY_COLUMNS, ", line 1: there is no column 'threat'"),
        # Encodings
        ("a.csv", b"text,label\na,b\ncaf\xe9,b\n", {}, ", line 3: this is not UTF-8 ("),
        ("a.csv", "text,label\na,b\n".encode("utf-16-le"), {}, ", line 1: many bytes are zero, as in"),
        ("a.csv", UTF16, {"encoding": "utf-8"}, ", line 1: the file begins with the byte order mark of UTF-16"),
        ("a.csv", "text,label\n".encode("utf-8-sig"), {"encoding": "latin-1"}, ", line 1: the file begins with the byte order mark of UTF-8"),
        ("a.csv", UTF16 + b"\x00\xd8c\x00\n\x00", {}, ", line 3: this is not UTF-16"),
        ("a.csv", UTF16 + b"c", {}, ", line 3: this is not UTF-16"),
        ("a.csv", "text,label\n".encode("utf-16") + ("x" * 600_000).encode("utf-16-le"), {}, ", line 2: the line is longer"),
        # Options
        ("a.txt", "text,label\na,b\n", {}, ": the suffix '.txt' does not determine the file"),
        ("a.csv", "", {"format": "xls"}, ": the format is 'xls'; it must be one of ['csv'"),
        ("a.csv", "", {"format": "tsv", "delimiter": ";"}, ": delimiter does not apply to tsv"),
        ("a.csv", "a,b\n", {"header": False}, ", line 1: the columns of a file without header are numbers, from 0 to 1; got ['text', 'label']"),
        ("a.csv", "a,b\n", {"header": False, "text": 2, "label": 0}, ", line 1: the columns of a file without header are numbers, from 0 to 1; got [2, 0]"),
        ("a.jsonl", "{}", {"header": False}, ": header does not apply to jsonl"),
    ],
)  # fmt: skip
def test_an_error_names_file_and_line(tmp_path, name, content, options, message):
    assert_refused(lambda: read(tmp_path, name, content, **options), f"{tmp_path / name}{message}")


@refusals(
    (lambda path: tables.read_table(path, encoding="utf-9"), "does not know the encoding 'utf-9'"),
    (lambda path: tables.read_table(path, delimiter="comma"), "'comma'; it must be one character"),
    (lambda path: tables.read_table(path, label_names=("a", "a")), "label_names must differ"),
    (lambda path: tables.read_table(path.with_name("none.csv")), "There is no file | none.csv"),
)
def test_bad_arguments_are_named(call, words, tmp_path):
    path = write(tmp_path, "a.csv", "text,label\na,b\n")
    assert_refused(lambda: call(path), words)


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
            read(tmp_path, name, content)
        assert len(str(e.value)) < 6_000


LONG = 10_000_000


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.csv", b"x" * LONG + b",b", ", line 3: the line is longer than max_line_bytes, 1,048,576"),
        ("a.tsv", b"x" * LONG + b"\tb", ", line 3: the line is longer than max_line_bytes"),
        # One quotation mark that stays open would make one field of all that follows.
        ("a.csv", b'"c,d\n' + b"e,f\n" * (LONG // 4), ", line 3: the row that begins here cannot be read (field larger"),
    ],
)  # fmt: skip
def test_long_lines_and_rows_are_refused_in_bounded_memory(tmp_path, name, line, message):
    csv.field_size_limit(1 << 17)  # another test may have raised it
    header = b"text\tlabel\na\tb\n" if name == "a.tsv" else b"text,label\na,b\n"
    path = write(tmp_path, name, header + line + b"\n")
    tracemalloc.start()
    try:
        assert_refused(lambda: tables.read_table(path), f"{path}{message}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LONG


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "text,label\n{},b\n"), ("a.jsonl", '{{"text": "{}", "label": 1}}')],
)
def test_long_lines_are_read_where_the_limit_allows_it(tmp_path, name, content):
    data = read(tmp_path, name, content.format("x" * LONG), max_line_bytes=LONG + 100)
    assert len(data.texts[0]) == LONG


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
    ("content", "words"),
    [
        ("HUM:ind Who ?\nHUM Who ?\n", ", line 2: found 'HUM Who ?', expected a line such as"),
        ("HUM:ind\n", ", line 1: found 'HUM:ind', expected"),
        ("HUM:ind Who ?\n\n", ", line 2: found '', expected"),
        ("", " is empty"),
    ],
)
def test_bad_lines_of_trec_are_named(tmp_path, content, words):
    path = write(tmp_path, "a.label", content)
    assert_refused(lambda: tables.read_trec(path), f"{path}{words}")


def test_real_trec_has_its_known_counts():
    if not SHARED.is_dir():
        pytest.skip("TREC's files are not at ../shared/data/classification.")
    train = tables.read_trec(SHARED / "trec_train.txt")
    assert len(train) == 5452
    assert train.label_names == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert [train.labels.count(i) for i in range(6)] == [86, 1162, 1250, 1223, 835, 896]
    test = tables.read_trec(SHARED / "trec_test.txt", label_names=train.label_names)
    assert (len(test), test.labels.count(1)) == (500, 138)
    assert len(tables.read_trec(SHARED / "trec_train.txt", fine=True).label_names) == 50
