"""SQuAD 1.1 and 2.0: questions on passages of Wikipedia, answered by spans of the passage.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016, and
"Know What You Don't Know: Unanswerable Questions for SQuAD", ACL 2018.

Only downloads through `tensorflow_datasets` import TensorFlow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import member

# Version -> split -> the official file.
FILES: Mapping[str, Mapping[str, str]] = {
    version: {"train": f"train-v{version}.json", "validation": f"dev-v{version}.json"}
    for version in ("1.1", "2.0")
}


@dataclass(frozen=True)
class Answer:
    """An answer in its context."""

    text: str
    start: int  # index of its first character in the context, in code points (Python's characters)

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class SquadExample:
    """A question on a passage."""

    id: str  # of the question, and of its prediction
    title: str  # of the article, or ""
    question: str
    context: str
    # One answer from each annotator, with repetitions; empty if the passage does not answer the question. None
    # if answers were not read.
    answers: tuple[Answer, ...] | None
    is_impossible: bool | None  # None if answers were not read

    data_set = ""  # for splits of several data sets

    @property
    def references(self) -> tuple[str, ...]:
        """Texts that predictions are scored against."""
        return tuple(answer.text for answer in self.answers)


@dataclass(frozen=True)
class SquadSplit:
    """The questions of a file."""

    version: str  # "2.0" if the file has `is_impossible` for its questions, else "1.1"
    examples: tuple[SquadExample, ...]  # in the order of the file

    def __len__(self) -> int:
        return len(self.examples)


def load_squad(version: str, split: str, data_dir: str | Path | None = None) -> SquadSplit:
    """Reads a split of SQuAD.

    Args:
        version: "1.1" or "2.0".
        split: "train" or "validation" (the official dev set).
        data_dir: folder that contains the official files (train-v1.1.json, dev-v2.0.json, ...). Without it,
            `tensorflow_datasets` downloads the split; questions are then ordered by a hash of their ids.

    Returns:
        The questions with their contexts and answers.

    Raises:
        ValueError: the version or split is unknown, or as `read_squad`.
        FileNotFoundError: `data_dir` does not contain the file.
        RuntimeError: the download failed.
    """
    files.check_known("SQuAD has no version", version, FILES)
    files.check_known(f"SQuAD {version} has no split", split, FILES[version])
    file = FILES[version][split]
    if data_dir is None:
        name = f"squad/v{version}"
        examples = files.download(name, split, f"the folder that contains {file}")
        return _split(
            _downloaded(f"{name} of tensorflow_datasets", example) for example in examples
        )
    path = files.require_file(
        Path(data_dir) / file,
        advice=f"data_dir must be the folder that contains {file}. Read a file of another name with "
        "read_squad(path). Without data_dir the split is downloaded.",
    )
    return read_squad(path)


def read_squad(path: str | Path, *, with_answers: bool = True) -> SquadSplit:
    """Reads a file in the format of SQuAD 1.1 or 2.0.

    The `plausible_answers` of SQuAD 2.0 are wrong answers to unanswerable questions and are ignored.

    Args:
        path: the JSON file.
        with_answers: whether to read answers; False for questions that have none yet.

    Returns:
        The questions, in the order of the file.

    Raises:
        ValueError: the file has another format; an answer is not in its context at `answer_start`; a
            question has answers and is impossible, or neither; an id occurs twice. Names file, article
            and question.
        FileNotFoundError: the file does not exist.
    """
    path = Path(path)
    split = _split(_questions(path), with_answers)
    if not split.examples:
        raise ValueError(f"{path} has no questions. Check that this is the right file.")
    return split


# Place for messages, title of the article, context, and the question as in the official files.
_Question = tuple[str, str, str, Mapping[str, Any]]


def _questions(path: Path) -> Iterator[_Question]:
    for a, article in enumerate(member(files.read_json(path), "data", list, path), start=1):
        in_article = f"{path}, article {a}"
        paragraphs = member(article, "paragraphs", list, in_article)
        # Files in SQuAD's format often lack titles; tensorflow_datasets has "" then, too.
        title = files.text_member(article, "title", in_article) if "title" in article else ""
        for p, paragraph in enumerate(paragraphs, start=1):
            where = f"{in_article} ({shown(title)}), paragraph {p}"
            context = files.text_member(paragraph, "context", where)
            for q, question in enumerate(member(paragraph, "qas", list, where), start=1):
                yield f"{where}, question {q}", title, context, question


def _downloaded(source: str, example: Mapping[str, Any]) -> _Question:
    """Converts a question of tensorflow_datasets to the form of the official files."""
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
        id = files.text_member(question, "id", place)
        place = f"{place} ({shown(id)})"
        if id in examples:
            raise ValueError(
                f"{place}: this id has occurred before. Predictions are stored by id, so each question "
                "needs its own."
            )
        text = files.text_member(question, "question", place)
        answers = _answers(place, context, question) if with_answers else (None, None)
        examples[id] = SquadExample(id, title, text, context, *answers)
        if "is_impossible" in question:
            version = "2.0"
    return SquadSplit(version, tuple(examples.values()))


def _answers(
    place: str, context: str, question: Mapping[str, Any]
) -> tuple[tuple[Answer, ...], bool]:
    """The answers, and whether the question is impossible."""
    answers = tuple(_answer(place, context, a) for a in member(question, "answers", list, place))
    is_impossible = "is_impossible" in question and member(question, "is_impossible", bool, place)
    if is_impossible and answers:
        raise ValueError(
            f"{place}: is_impossible is true, but there are answers. Remove the answers (wrong but likely ones "
            "can be plausible_answers), or set is_impossible to false."
        )
    if not is_impossible and not answers:
        raise ValueError(
            f"{place}: there is no answer. Set is_impossible to true if the context has none. Read "
            "questions without answers with read_squad(path, with_answers=False)."
        )
    return answers, is_impossible


def _answer(place: object, context: str, record: Any) -> Answer:
    text, start = (
        files.text_member(record, "text", place),
        member(record, "answer_start", int, place),
    )
    return checked_answer(place, context, Answer(text, start))


def checked_answer(place: object, context: str, answer: Answer) -> Answer:
    """Returns the answer; raises ValueError if the context differs from it at its start."""
    text, start = answer.text, answer.start
    if not text:
        raise ValueError(f"{place}: the text of an answer is empty. Remove this answer.")
    there = context[start : answer.end] if start >= 0 else ""
    if there == text:
        return answer
    starts = [i for i in range(len(context)) if context.startswith(text, i)]
    advice = (
        f"The context has it at {min(starts, key=lambda i: abs(i - start))}. Correct answer_start, "
        "which counts characters (code points), not bytes."
        if starts
        else f"The context of {len(context)} characters does not contain it. Correct the answer or "
        "the context."
    )
    raise ValueError(
        f"{place}: at character {start} the context has {shown(there)} instead of the answer "
        f"{shown(text)}. {advice}"
    )


def answers_of(value: Any, context: str, place: object) -> tuple[Answer, ...]:
    """A question's answers in any common form, checked against the context.

    They are (text, start), in characters (code points); SQuAD's {"text": ..., "answer_start": ...}, for one answer
    or with lists for several; a list of these; None, "" or another empty value for no answer.

    Raises:
        TypeError, ValueError: another form, or an answer that is not at its start in the context.
    """
    return tuple(_answer(place, context, record) for record in _records(value, place))


def _records(value: Any, place: object) -> list[dict[str, Any]]:
    """Answers in the form of SQuAD's files; an empty list for no answer."""
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
                f"{place}: there are {len(texts)} texts of answers and {len(starts)} starts. Pass one start "
                "for each text."
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
        f"{place} is {shown(value)}. An answer must be (text, start), with the start in characters of the "
        'context; SQuAD\'s {"text": ..., "answer_start": ...}; or None for no answer.'
    )
