"""SWAG's and RACE's files."""

import csv
import json
import re
from pathlib import Path

import pytest

from bert_zoo.data import choices

SWAG_HEADER = [
    "", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source",
    "ending0", "ending1", "ending2", "ending3", "label",
]  # fmt: skip
SWAG_ROWS = [
    ["0", "v", "1", "He sat, still. He", "He sat, still.", "He", "gold", "a", 'said "b"', "c", "d", "1"],
    ["1", "v", "2", "She ran. ", "She ran.", "", "gen", "e", "f", "g", "h", "3"],
]  # fmt: skip


def write_swag(folder: Path, name: str, rows, columns: int = 12) -> Path:
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(row[:columns] for row in [SWAG_HEADER, *rows])
    return folder / name


@pytest.mark.parametrize(("split", "name"), [("train", "train.csv"), ("validation", "val.csv")])
def test_swag_gives_prompts_choices_and_labels(tmp_path, split, name):
    write_swag(tmp_path, name, SWAG_ROWS)
    result = choices.load_swag(split, tmp_path)
    assert result.prompts == ["He sat, still.", "She ran."]
    assert result.choices == [["He a", 'He said "b"', "He c", "He d"], ["e", "f", "g", "h"]]
    assert result.labels == [1, 3] and result.ids == ["0", "1"] and len(result) == 2


def test_swags_test_split_has_no_labels(tmp_path):
    write_swag(tmp_path, "test.csv", SWAG_ROWS, columns=11)
    result = choices.load_swag("test", tmp_path)
    assert result.labels is None and len(result.choices[0]) == 4


def test_swags_errors_name_file_line_and_column(tmp_path):
    write_swag(tmp_path, "train.csv", [SWAG_ROWS[0], [*SWAG_ROWS[1][:-1], "4"]])
    write_swag(tmp_path, "val.csv", SWAG_ROWS, columns=11)
    for split, error, message in (
        ("train", ValueError, r"train\.csv, line 3: the right choice is '4'"),
        ("validation", ValueError, r"val\.csv, line 1: there is no column 'label'"),
        ("test", FileNotFoundError, r"test\.csv\. data_dir must be the folder `data`"),
        ("val", ValueError, "SWAG has no split 'val'"),
    ):
        with pytest.raises(error, match=message):
            choices.load_swag(split, tmp_path)


# --- RACE ---


def passage(id="high1.txt", **members):
    return {
        "id": id,
        "article": f"Text of {id}.\nIts end.",
        "questions": ["Who  is it?", "The _ runs to the _ ."],
        "options": [["a", "b", "c", "d"], ["cat", "dog", "cow", "hen"]],
        "answers": ["D", "A"],
        **members,
    }


def write_race(data_dir: Path, folder: str, number: int, content: dict) -> Path:
    path = data_dir / folder / f"{number}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_race_is_read_in_the_order_of_levels_and_numbers(tmp_path):
    for number in (10, 9):
        write_race(tmp_path, "dev/high", number, passage(f"high{number}.txt"))
    write_race(tmp_path, "dev/middle", 5, passage("middle5.txt"))
    (tmp_path / "dev" / "high" / "all.txt").write_text("the same once more")
    split = choices.load_race("validation", "all", tmp_path)
    assert [id for id in split.ids if id.endswith("/0")] == [
        "middle5.txt/0",
        "high9.txt/0",
        "high10.txt/0",
    ]
    assert len(split) == 6 and split.ids[1] == "middle5.txt/1"
    assert split.passages[:2] == ["Text of middle5.txt.\nIts end."] * 2
    assert split.questions[:2] == ["Who  is it?", "The _ runs to the _ ."]
    assert split.options[1] == ["cat", "dog", "cow", "hen"]
    assert split.labels[:2] == [3, 0]
    assert len(choices.load_race("validation", "high", tmp_path)) == 4


def test_race_becomes_prompts_and_choices_as_alberts_program_makes_them(tmp_path):
    write_race(tmp_path, "test/high", 1, passage())
    result = choices.load_race("test", "high", tmp_path).as_choices()
    assert result.prompts == ["Text of high1.txt.\nIts end."] * 2
    assert result.choices == [
        ["Who  is it? a", "Who  is it? b", "Who  is it? c", "Who  is it? d"],
        ["The cat runs to the cat .", "The dog runs to the dog .", "The cow runs to the cow .",
         "The hen runs to the hen ."],
    ]  # fmt: skip
    assert result.labels == [3, 0]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"answers": ["D"]}, ": there are 2 questions, 2 lists of options and 1 answers"),
        ({"answers": ["D", "E"]}, ", question 1: the right choice is 'E', expected one of"),
        ({"answers": ["D", ""]}, ", question 1: the right choice is ''"),
        ({"answers": ["D", 0]}, ", question 1: 'answers' is 0, expected a string"),
        ({"options": [["a", "b", "c", "d"], ["a", "b"]]}, ", question 1: the options are"),
        ({"options": [["a", "b", "c", None]] * 2}, ", question 0: 'options' is None"),
        ({"article": None}, ": article is None; it must be a string"),
    ],
)
def test_a_bad_passage_is_named_with_file_and_question(tmp_path, members, message):
    path = write_race(tmp_path, "train/high", 7, passage(**members))
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
        choices.load_race("train", "high", tmp_path)


def test_unknown_names_and_folders_are_named(tmp_path):
    for arguments, error, message in (
        (
            ("dev", "all", tmp_path),
            ValueError,
            r"no split 'dev'; choose one of \['train', 'validation'",
        ),
        (("train", "college", tmp_path), ValueError, r"no level 'college'; .*\['middle', 'high', "),
        (
            ("validation", "all", tmp_path),
            FileNotFoundError,
            r"dev.middle.1\.txt\. data_dir must be",
        ),
    ):
        with pytest.raises(error, match=message):
            choices.load_race(*arguments)
