"""Data for multiple choice: SWAG and RACE.

Zellers et al., "SWAG: A Large-Scale Adversarial Dataset for Grounded Commonsense Inference", EMNLP
2018; Lai et al., "RACE: Large-scale ReAding Comprehension Dataset From Examinations", EMNLP 2017.

Nothing here imports TensorFlow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.tables import Table
from bert_zoo.error_text import shown
from bert_zoo.fields import check
from bert_zoo.json_files import member


@dataclass(frozen=True)
class ChoiceSplit:
    """Prompts with choices, as multiple-choice models read them."""

    ids: list[str]  # [N], identifies each row in the data set
    prompts: list[str]  # strings [N], the first text of each pair
    choices: list[list[str]]  # strings [N][choices], the second texts
    labels: list[int] | None  # index of the right choice [N], from 0; None if it is not public

    def __len__(self) -> int:
        return len(self.prompts)


def _choice_number(spelled: str, names: str, where: str) -> int:
    """Index of a label among the choices' names of one letter each."""
    check(f"{where}: the right choice", spelled, str, choices=names)
    return names.index(spelled)


# --- SWAG ---

SWAG_FILES: Mapping[str, str] = {"train": "train.csv", "validation": "val.csv", "test": "test.csv"}
_SWAG_COLUMNS = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")


def load_swag(split: str, data_dir: str | Path) -> ChoiceSplit:
    """Reads a split of SWAG: a sentence, and four continuations to choose from.

    The prompt is `sent1`. A choice is the beginning of the next sentence, `sent2`, joined to an ending by
    a space (Devlin et al. 2018, section 4.4; swag_baselines of rowanz/swagaf).

    Args:
        split: "train", "validation" or "test".
        data_dir: the folder `data` of rowanz/swagaf, with train.csv, val.csv and test.csv.

    Returns:
        The split, in the order of the file; `ids` are row numbers. The test split has no labels.

    Raises:
        ValueError: the split is unknown, or a row does not match the file's columns.
        FileNotFoundError: `data_dir` does not contain the file.
    """
    files.check_known("SWAG has no split", split, SWAG_FILES)
    path = files.require_file(
        Path(data_dir) / SWAG_FILES[split],
        advice="data_dir must be the folder `data` of the repository rowanz/swagaf.",
    )
    has_labels = split != "test"
    prompts, choices, labels = [], [], []
    columns = (*_SWAG_COLUMNS, "label") if has_labels else _SWAG_COLUMNS
    for line, (first, beginning, *endings) in Table(path).rows(columns):
        if has_labels:
            labels.append(_choice_number(endings.pop(), "0123", f"{path}, line {line}"))
        prompts.append(first)
        choices.append([f"{beginning} {ending}" if beginning else ending for ending in endings])
    ids = list(map(str, range(len(prompts))))
    return ChoiceSplit(ids, prompts, choices, labels if has_labels else None)


# --- RACE ---

RACE_LEVELS = ("middle", "high")
# Our name of each split -> its folder.
RACE_SPLITS: Mapping[str, str] = {"train": "train", "validation": "dev", "test": "test"}
_LETTERS = "ABCD"


@dataclass(frozen=True)
class RaceSplit:
    """Questions on passages with four options each."""

    ids: list[str]  # [N], the passage's id and the question's number in it, as "high1.txt/0"
    passages: list[str]  # strings [N]; a passage is repeated for each of its questions
    questions: list[str]  # strings [N], some with a blank "_" to fill
    options: list[list[str]]  # strings [N][4]
    labels: list[int]  # index of the right option [N], from 0

    def __len__(self) -> int:
        return len(self.questions)

    def as_choices(self) -> ChoiceSplit:
        """Passages as prompts, and each question joined to its options as choices."""
        choices = [
            [fill_question(question, option) for option in options]
            for question, options in zip(self.questions, self.options, strict=True)
        ]
        return ChoiceSplit(self.ids, self.passages, choices, self.labels)


def fill_question(question: str, option: str) -> str:
    """Joins a question and an option into one text.

    The option replaces every "_" in the question, or follows it after a space if there is none.
    Source: google-research/albert race_utils.py; fairseq examples/roberta/preprocess_RACE.py.
    """
    return question.replace("_", option) if "_" in question else f"{question} {option}"


def load_race(split: str, level: str, data_dir: str | Path) -> RaceSplit:
    """Reads a split of RACE without changing its texts.

    Args:
        split: "train", "validation" or "test".
        level: "middle" or "high" school, or "all": middle, then high.
        data_dir: RACE's folder, with dev/high/1.txt and so on. Only numbered files are read, in the order
            of their numbers (ALBERT's all.txt contains the same passages).

    Returns:
        Questions, passages, options and the right option of each.

    Raises:
        ValueError: the split or level is unknown, or a passage does not have RACE's form. Names file and
            question.
        FileNotFoundError: `data_dir` does not contain such files.
    """
    files.check_known("RACE has no split", split, RACE_SPLITS)
    files.check_known("RACE has no level", level, (*RACE_LEVELS, "all"))
    folder = RACE_SPLITS[split]
    race = RaceSplit([], [], [], [], [])
    for name in RACE_LEVELS if level == "all" else (level,):
        for where, passage in _passages(Path(data_dir) / folder / name):
            _add_passage(race, where, passage)
    return race


def _passages(folder: Path) -> Iterator[tuple[object, Any]]:
    paths = [path for path in folder.glob("*.txt") if path.stem.isdecimal()]
    if not paths:
        raise FileNotFoundError(
            f"There are no files such as {folder / '1.txt'}. data_dir must be RACE's folder, "
            "which contains train, dev and test."
        )
    for path in sorted(paths, key=lambda path: int(path.stem)):
        yield path, files.read_json(path)


def _add_passage(race: RaceSplit, where: object, passage: Any) -> None:
    passage_id, article = (files.text_member(passage, name, where) for name in ("id", "article"))
    columns = [member(passage, name, list, where) for name in ("questions", "options", "answers")]
    if len(set(map(len, columns))) > 1:
        counts = "{} questions, {} lists of options and {} answers".format(*map(len, columns))
        raise ValueError(f"{where}: there are {counts}; their numbers must be equal.")
    for i, (question, four, answer) in enumerate(zip(*columns, strict=True)):
        place = f"{where}, question {i}"
        if not isinstance(four, list) or len(four) != len(_LETTERS):
            raise ValueError(f"{place}: the options are {shown(four)}, expected four strings.")
        race.ids.append(f"{passage_id}/{i}")
        race.passages.append(article)
        race.questions.append(files.string(question, "questions", place))
        race.options.append([files.string(option, "options", place) for option in four])
        race.labels.append(_choice_number(files.string(answer, "answers", place), _LETTERS, place))
