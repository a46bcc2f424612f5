"""SQuAD 1.1 and 2.0: questions on passages of Wikipedia, answered by spans of the passage.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016, and
"Know What You Don't Know: Unanswerable Questions for SQuAD", ACL 2018.

Nothing here imports TensorFlow, unless a split is read through `tensorflow_datasets`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.files import text_member
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import member

# Version -> split -> the official file.
FILES: Mapping[str, Mapping[str, str]] = {
    version: {"train": f"train-v{version}.json", "validation": f"dev-v{version}.json"}
    for version in ("1.1", "2.0")
}


@dataclass(frozen=True)
class Answer:
    """An answer as it stands in the context."""

    text: str
    start: int  # where it starts in the context, in code points (Python's characters)

    @property
    def end(self) -> int:
        """One past the answer's last code point."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class SquadExample:
    """A question on a passage."""

    id: str  # of the question; predictions are filed under it
    title: str  # the article's; "" where the file has none
    question: str
    context: str  # the passage
    # One from each person asked, so that equal answers may repeat; empty for a question that the
    # passage does not answer. None where answers were not read.
    answers: tuple[Answer, ...] | None
    # Whether the passage does not answer the question. None where answers were not read.
    is_impossible: bool | None

    data_set = ""  # where a split holds several

    @property
    def references(self) -> tuple[str, ...]:
        """The texts that predictions are scored against."""
        return tuple(answer.text for answer in self.answers)


@dataclass(frozen=True)
class SquadSplit:
    """A file of questions."""

    # "2.0" where the file says of its questions whether they can be answered, else "1.1".
    version: str
    examples: tuple[SquadExample, ...]  # the questions, in the order of the file

    def __len__(self) -> int:
        return len(self.examples)


def load_squad(version: str, split: str, data_dir: str | Path | None = None) -> SquadSplit:
    """Reads a split of SQuAD.

    Args:
        version: "1.1" or "2.0".
        split: "train" or "validation" (the official dev set).
        data_dir: the folder that holds the official files (train-v1.1.json, dev-v2.0.json, ...).
            Without it the split is downloaded with `tensorflow_datasets`, which keeps the texts and
            offsets and loses the order: questions come in the order of a hash of their ids.

    Raises:
        ValueError: the version or split is unknown, or as `read_squad`.
        FileNotFoundError: `data_dir` has no such file.
        RuntimeError: the download failed.
    """
    files.check_known("SQuAD has no version", version, FILES)
    files.check_known(f"SQuAD {version} has no split", split, FILES[version])
    file = FILES[version][split]
    if data_dir is None:
        name = f"squad/v{version}"
        examples = files.download(name, split, f"the folder that holds {file}")
        return _split(
            _downloaded(f"{name} of tensorflow_datasets", example) for example in examples
        )
    path = files.require_file(
        Path(data_dir) / file,
        advice=f"data_dir must be the folder that holds {file}; read a file of another name with "
        "read_squad(path); without data_dir the split is downloaded.",
    )
    return read_squad(path)


def read_squad(path: str | Path, *, with_answers: bool = True) -> SquadSplit:
    """Reads a file in the format of SQuAD 1.1 or 2.0.

    `plausible_answers`, which SQuAD 2.0 gives for questions that cannot be answered, are left out:
    they are wrong answers.

    Args:
        path: the JSON file.
        with_answers: whether answers are read; False for questions that are yet to be answered.

    Raises:
        ValueError: the file is not of that format; an answer does not stand in its context where
            the file says; a question has answers and is impossible, or neither; an id occurs twice.
            Names file, article and question.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    split = _split(_questions(path), with_answers)
    if not split.examples:
        raise ValueError(f"{path} has no questions. Check that this is the right file.")
    return split


# Its place, for messages, the article's title, the context, and a question as the official files
# have it.
_Question = tuple[str, str, str, Mapping[str, Any]]


def _questions(path: Path) -> Iterator[_Question]:
    """The questions of a file."""
    for a, article in enumerate(member(files.read_json(path), "data", list, path), start=1):
        in_article = f"{path}, article {a}"
        paragraphs = member(article, "paragraphs", list, in_article)
        # Files in SQuAD's format without titles are common; tensorflow_datasets has "" there, too.
        title = text_member(article, "title", in_article) if "title" in article else ""
        for p, paragraph in enumerate(paragraphs, start=1):
            where = f"{in_article} ({shown(title)}), paragraph {p}"
            context = text_member(paragraph, "context", where)
            for q, question in enumerate(member(paragraph, "qas", list, where), start=1):
                yield f"{where}, question {q}", title, context, question


def _downloaded(source: str, example: Mapping[str, Any]) -> _Question:
    """A question of tensorflow_datasets, as in the official files."""
    texts, starts = example["answers"]["text"], example["answers"]["answer_start"]
    answers = zip(files.decoded(texts), map(int, starts), strict=True)
    names = ("title", "id", "context", "question")
    title, id, context, text = files.decoded(example[name] for name in names)
    question = {"id": id, "question": text}
    question["answers"] = [{"text": text, "answer_start": start} for text, start in answers]
    if "is_impossible" in example:
        question["is_impossible"] = bool(example["is_impossible"])
    return f"{source}, article {shown(title)}", title, context, question


def _split(questions: Iterable[_Question], with_answers: bool = True) -> SquadSplit:
    examples: dict[str, SquadExample] = {}
    version = "1.1"
    for place, title, context, question in questions:
        id = text_member(question, "id", place)
        place = f"{place} ({shown(id)})"
        if id in examples:
            raise ValueError(
                f"{place}: this id has occurred before. Predictions are filed under ids; give each "
                "question its own."
            )
        text = text_member(question, "question", place)
        told = _told(place, context, question) if with_answers else (None, None)
        examples[id] = SquadExample(id, title, text, context, *told)
        if "is_impossible" in question:
            version = "2.0"
    return SquadSplit(version, tuple(examples.values()))


def _told(place: str, context: str, question: Mapping[str, Any]) -> tuple[tuple[Answer, ...], bool]:
    """The answers, and whether the question is impossible."""
    answers = tuple(_answer(place, context, a) for a in member(question, "answers", list, place))
    is_impossible = "is_impossible" in question and member(question, "is_impossible", bool, place)
    if is_impossible and answers:
        raise ValueError(
            f"{place}: is_impossible is true and there are answers. Empty its answers (other people "
            "keep wrong but likely ones as plausible_answers), or set is_impossible to false."
        )
    if not is_impossible and not answers:
        raise ValueError(
            f"{place}: there is no answer. Set is_impossible to true if the context has none; read "
            "questions that are yet to be answered with read_squad(path, with_answers=False)."
        )
    return answers, is_impossible


def _answer(place: object, context: str, record: Any) -> Answer:
    text, start = text_member(record, "text", place), member(record, "answer_start", int, place)
    return checked_answer(place, context, Answer(text, start))


def checked_answer(place: object, context: str, answer: Answer) -> Answer:
    """The answer; raises ValueError where it does not stand in the context where it says."""
    text, start = answer.text, answer.start
    if not text:
        raise ValueError(f"{place}: the text of an answer is empty. Remove this answer.")
    there = context[start : answer.end] if start >= 0 else ""
    if there == text:
        return answer
    starts = [i for i in range(len(context)) if context.startswith(text, i)]
    advice = (
        f"The context holds it at {min(starts, key=lambda i: abs(i - start))}; correct answer_start, "
        "which counts characters (code points) and not bytes."
        if starts
        else f"The context, {len(context)} characters long, does not hold it; correct the answer or "
        "the context."
    )
    raise ValueError(
        f"{place}: at character {start} of the context stands {shown(there)}, expected the answer "
        f"{shown(text)}. {advice}"
    )


def answers_of(value: Any, context: str, place: object) -> tuple[Answer, ...]:
    """A question's answers, in any form that people have them in, checked against the context.

    Args:
        value: (text, start); SQuAD's {"text": ..., "answer_start": ...}, of one answer or with lists
            of several; a list of these; None, "" or something else that is empty for no answer.
            Starts count characters (code points).
        context: the passage.
        place: what errors call the value.

    Raises:
        TypeError, ValueError: another form, or an answer that does not stand there in the context.
    """
    return tuple(_answer(place, context, record) for record in _records(value, place))


def _records(value: Any, place: object) -> list[dict[str, Any]]:
    """Answers in the form of SQuAD's files, without those that stand for no answer."""
    if value is None or (isinstance(value, Sized) and not len(value)):
        return []
    if isinstance(value, Mapping):
        if missing := [name for name in ("text", "answer_start") if name not in value]:
            raise ValueError(f"{place}: {missing[0]!r} is missing; the keys are {quoted(value)}.")
        texts, starts = value["text"], value["answer_start"]
        if isinstance(texts, str):
            return _records((texts, starts), place)
        if len(texts) != len(starts):
            raise ValueError(
                f"{place}: there are {len(texts)} texts of answers and {len(starts)} starts. Give "
                "each its own."
            )
        value = zip(texts, starts, strict=True)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        match list(value):
            case ["", _]:
                return []
            case [str() as text, Integral() as start]:
                return [{"text": text, "answer_start": int(start)}]
            case parts if not any(isinstance(part, str | Integral) for part in parts):
                return [record for part in parts for record in _records(part, place)]
    raise TypeError(
        f"{place} is {shown(value)}. An answer is (text, start), where the text starts in the context "
        'in characters; SQuAD\'s {"text": ..., "answer_start": ...}; or None, where there is none.'
    )
