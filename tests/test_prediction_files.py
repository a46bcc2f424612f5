"""`bert_zoo predict --file`: predictions beside texts, in each format, and equal to the verbs' answers."""

import csv
import json

import pandas as pd
import pytest
from helpers import GOLDEN, assert_refused, load_task, loaded_task

import bert_zoo
from bert_zoo.cli import predict
from bert_zoo.cli.predict import predict_file
from bert_zoo.data.tables import TextRow, text_rows

TEXTS = ["the cat sat", 'a "dog", big', "", "it was\na river"]
ROWS = [TextRow((text,), {}) for text in TEXTS]


def read(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.fixture(autouse=True)
def parts_of_three_rows(monkeypatch):
    monkeypatch.setattr(predict, "ROWS_AT_ONCE", 3)


@pytest.mark.parametrize("suffix", predict.WRITERS)
def test_labels_and_scores_stand_beside_texts(tmp_path, suffix):
    model = loaded_task("classification")
    path = tmp_path / f"out{suffix}"
    assert predict_file(model, iter(ROWS), path, all_scores=True) == len(TEXTS)
    assert [path.name for path in tmp_path.iterdir()] == [path.name]
    for row, text, answer in zip(read(path), TEXTS, model.classify(TEXTS), strict=True):
        scores = {f"score_{label}": score for label, score in answer.scores.items()}
        assert list(row) == ["text", "label", "score", *scores]
        assert (row["text"], row["label"]) == (text, answer.label)
        for name, score in {"score": answer.score, **scores}.items():
            assert float(row[name]) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(
    ("task", "suffix"),
    [
        ("multi_label_classification", ".jsonl"),
        ("regression", ".csv"),
        ("token_classification", ".csv"),
    ],
)
def test_each_task_has_its_columns(tmp_path, task, suffix):
    model = load_task(task)
    path = tmp_path / f"out{suffix}"
    # The first part holds nothing that tells the type of a list.
    predict_file(model, [TextRow(("",), {})] * 3 + ROWS, path)
    rows = read(path)[3:]
    lists = json.loads if suffix == ".csv" else list
    if task == "regression":
        wanted = model.predict(TEXTS, verbose=0)[:, 0]
        assert [float(row["score"]) for row in rows] == pytest.approx(wanted, abs=1e-5)
    elif task == "token_classification":
        for row, tagging in zip(rows, model.tag(TEXTS), strict=True):
            assert lists(row["words"]) == [word.text for word in tagging.words]
            assert lists(row["tags"]) == tagging.labels
            spans = [span["text"] for span in lists(row["spans"])]
            assert spans == [span.text for span in tagging.spans]
    else:
        found = [lists(row["labels"]) for row in rows]
        assert found == [[*answer.labels] for answer in model.classify(TEXTS)]


def test_questions_and_contexts_are_two_columns(tmp_path):
    model = loaded_task("question_answering")
    path = tmp_path / "out.jsonl"
    pairs = ("who sat", "the cat sat"), ("what was it", "it was a river")
    predict_file(model, [TextRow(pair, {}) for pair in pairs], path)
    first, second = read(path)
    assert list(first) == ["question", "context", "answer", "score", "start", "end"]
    for row in (first, second):
        assert row["context"][row["start"] : row["end"]] == row["answer"]


@pytest.mark.parametrize("suffix", predict.WRITERS)
@pytest.mark.parametrize("source", [".csv", ".tsv", ".jsonl", ".json", ".parquet", "no header"])
def test_every_other_column_is_kept(tmp_path, source, suffix):
    """Of every kind of table, also columns with the name of a prediction."""
    columns = {"id": [f"{i:03}" for i in range(5)], "label": ["yes", "no", "no", "no", "yes"]}
    columns["message"] = ["the cat", "a dog", "it was", "", "big"]
    columns["note"] = ["é", 'a "b"', "c, d", "e", "f"]
    frame = pd.DataFrame(columns)
    path, output = tmp_path / f"in{source}", tmp_path / f"out{suffix}"
    how = {"text": "message"}
    match source:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".tsv":
            lines = ["\t".join(row) for row in (frame.columns, *frame.to_numpy())]
            path.write_text("\n".join(lines), encoding="utf-8")
        case ".jsonl" | ".json":
            frame.to_json(path, orient="records", lines=source == ".jsonl")
        case ".parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(path)
        case _:
            path = path.with_suffix(".csv")
            frame.to_csv(path, index=False, header=False)
            how = {"text": "-2", "header": False}
    predict_file(loaded_task("classification"), text_rows(path, **how), output)
    names = {"id": "id", "label": "input_label", "note": "note"}
    if source == "no header":
        names = {"id": "0", "label": "1", "note": "3"}
    for i, row in enumerate(read(output)):
        assert list(row) == ["text", *names.values(), "label", "score"]
        assert row["text"] == columns["message"][i]
        assert {name: row[new] for name, new in names.items()} == {
            name: columns[name][i] for name in names
        }


def test_values_of_json_stay_what_they_are(tmp_path):
    others = [{"n": 3, "x": 0.1234567891, "tags": ["a", "é"], "no": None}, {"n": 4}]
    rows = [TextRow(("the cat",), each) for each in others]
    for suffix in (".jsonl", ".csv"):
        predict_file(loaded_task("classification"), rows, tmp_path / f"out{suffix}")
    first, second = read(tmp_path / "out.jsonl")
    assert {name: first[name] for name in others[0]} == others[0] and second["n"] == 4
    first, second = read(tmp_path / "out.csv")
    assert [first[name] for name in others[0]] == ["3", "0.1234567891", '["a", "é"]', ""]
    assert [second[name] for name in others[0]] == ["4", "", "", ""]
    model, output = loaded_task("classification"), tmp_path / "out.csv"
    words = "columns ['x', 'tags', 'no'] | .jsonl"
    assert_refused(lambda: predict_file(model, rows[::-1], output), words)


def test_nothing_is_left_of_a_file_whose_table_ends_in_an_error(tmp_path):
    def rows():
        yield from ROWS
        raise ValueError("line 7")

    for task, table, name, words in (
        ("classification", rows(), "out.csv", "line 7"),
        ("classification", ROWS, "out.txt", "out.txt | .csv, .tsv"),
        ("multiple_choice", ROWS, "out.csv", "task 'multiple_choice'"),
    ):
        model, output = loaded_task(task), tmp_path / name
        assert_refused(lambda: predict_file(model, table, output), words)  # noqa: B023
    assert list(tmp_path.iterdir()) == []


def test_the_program_reads_a_table_and_fills_masks(tmp_path, capsys):
    run, table = tmp_path / "run", tmp_path / "in.csv"
    bert_zoo.save(loaded_task("classification"), run / "model")
    pd.DataFrame({"id": range(4), "message": TEXTS}).to_csv(table, index=False)

    def call(*arguments):
        predict.PROGRAM.run(predict.main, [f"--run={run}", *arguments])
        return capsys.readouterr().out

    files = [f"--file={table}", f"--output={tmp_path / 'out.csv'}"]
    assert "Wrote 4 rows" in call(*files, "--text=message")
    written = read(tmp_path / "out.csv")
    assert [row["text"] for row in written] == TEXTS
    assert [row["id"] for row in written] == [*"0123"]
    assert_refused(lambda: call(*files), "no column 'text' | with --text and --text_pair")
    assert_refused(lambda: call(files[0]), "for predictions, together")
    run = tmp_path / "pretraining"
    bert_zoo.save(bert_zoo.load(GOLDEN / "pretraining", "pretraining"), run / "model")
    assert "the [MASK]\n" in call("the [MASK]")
