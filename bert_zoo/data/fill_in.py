"""Minimal pairs of sentences and texts with a blank, to probe models: BLiMP, agreement, LAMA.

Nothing here imports TensorFlow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.tables import Table
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject, as_object

# The blank of a text, independent of the model's own mask token.
BLANK = "[MASK]"
# Placeholders of a template: the subject, and the object to predict.
SUBJECT, OBJECT = "[X]", "[Y]"


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences whose difference makes one of them, the bad one, ungrammatical."""

    good: str
    bad: str
    groups: tuple[str, ...] = ()  # what the pair tests, from coarse to fine: phenomenon, paradigm


@dataclass(frozen=True)
class Cloze:
    """A text with a blank, and the word that fills it; if there are several blanks, the first counts."""

    text: str  # contains `BLANK`
    answer: str
    wrong: str | None = None  # a wrong word, for a choice between two; or None
    groups: tuple[str, ...] = ()  # as for `MinimalPair`; for facts, the relation

    def __post_init__(self):
        if BLANK not in self.text:
            raise ValueError(
                f"The text {shown(self.text)} has no blank. Write {BLANK} where a word is missing."
            )

    def filled(self, word: str) -> str:
        return self.text.replace(BLANK, word)


def read_minimal_pairs(
    path: str | Path,
    good: str | int = "sentence_good",
    bad: str | int = "sentence_bad",
    groups: Sequence[str | int] = ("linguistics_term", "UID"),
    **how: Any,
) -> list[MinimalPair]:
    """Reads minimal pairs, by default in the JSON lines of BLiMP (Warstadt et al. 2020, arXiv:1912.00582).

    Args:
        path: a table, or a folder whose ".jsonl" files are read.
        good, bad: columns of the sentences.
        groups: columns of what a pair tests, from coarse to fine.
        **how: the file's format, as for `read_table`: format, delimiter, header, encoding.

    Returns:
        The pairs, in the order of the rows.

    Raises:
        ValueError: a column is missing or is not text. Names file and line.
        FileNotFoundError: the file does not exist, or the folder has no such files.
    """
    columns = (good, bad, *groups)
    return [
        MinimalPair(*row[:2], groups=row[2:])
        for file in _files(path)
        for _, row in _rows(file, columns, how)
    ]


def read_cloze(
    path: str | Path,
    text: str | int,
    answer: str | int,
    wrong: str | int | None = None,
    groups: Sequence[str | int] = (),
    *,
    blank: str = BLANK,
    **how: Any,
) -> list[Cloze]:
    """Reads a table of texts with a blank.

    For Goldberg's file of subject-verb agreement (2019, arXiv:1901.05287), grouped by number of attractors:

        read_cloze("lgd_dataset.tsv", text=2, answer=3, wrong=4, groups=[0], blank="***mask***", header=False)

    Args:
        path: a table, or a folder whose ".jsonl" files are read.
        text, answer, wrong: columns of the text, the right word, and a wrong word, if there is one.
        groups: columns of what a row tests, from coarse to fine.
        blank: the blank in the file.
        **how: the file's format, as for `read_table`: format, delimiter, header, encoding.

    Returns:
        The texts, in the order of the rows, with "[MASK]" as blank.

    Raises:
        ValueError: a column is missing or is not text, or a text has no blank. Names file and line.
        FileNotFoundError: the file does not exist, or the folder has no such files.
    """
    words = (answer,) if wrong is None else (answer, wrong)
    return [
        _cloze(
            place,
            row[0].replace(blank, BLANK),
            *row[1 : 1 + len(words)],
            groups=row[1 + len(words) :],
        )
        for file in _files(path)
        for place, row in _rows(file, (text, *words, *groups), how)
    ]


def read_facts(
    path: str | Path, templates: str | Path | Mapping[str, str] | None = None
) -> list[Cloze]:
    """Reads facts in the JSON lines of LAMA (Petroni et al. 2019, arXiv:1909.01066).

    Without templates, the text of a line is `masked_sentences` (a list of strings to join) or
    `masked_sentence`. With templates, it is the template of the line's relation with `sub_label` as subject;
    of equal facts only one is kept. The answer is `obj_label`. The relation is `predicate_id`, or else the
    file's name without "_test".

    Args:
        path: a file, or a folder whose ".jsonl" files are read.
        templates: relation -> text with "[X]" for the subject and "[Y]" for the object; or LAMA's file of
            templates (relations.jsonl).

    Returns:
        Texts with "[MASK]" as blank and their answers, in the order of the lines.

    Raises:
        ValueError: a line lacks a member, a relation has no template, or a text has no blank. Names file and
            line.
        FileNotFoundError: the file does not exist, or the folder has no such files.
    """
    if templates is not None and not isinstance(templates, Mapping):
        templates = {
            files.text_member(record, "relation", record.where): files.text_member(
                record, "template", record.where
            )
            for record in _records(Path(templates))
        }
    facts = [
        _cloze(
            record.where,
            _text(record, relation, templates),
            files.text_member(record, "obj_label", record.where),
            groups=(relation,),
        )
        for file in _files(path)
        for record in _records(file)
        for relation in [record.take("predicate_id", str, file.stem.removesuffix("_test"))]
    ]
    return facts if templates is None else [*dict.fromkeys(facts)]


def _text(record: JsonObject, relation: str, templates: Mapping[str, str] | None) -> str:
    if templates is None:
        if "masked_sentences" in record:
            return " ".join(record.items_of("masked_sentences", str))
        return files.text_member(record, "masked_sentence", record.where)
    if relation not in templates:
        raise ValueError(
            f"{record.where}: the relation {relation!r} has no template. There are templates for "
            f"{sorted(templates)}."
        )
    subject = files.text_member(record, "sub_label", record.where)
    return templates[relation].replace(SUBJECT, subject).replace(OBJECT, BLANK)


def _cloze(where: str, *args: str, groups: tuple[str, ...]) -> Cloze:
    try:
        return Cloze(*args, groups=groups)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _files(path: str | Path) -> list[Path]:
    path = Path(path)
    if not path.is_dir():
        return [path]
    if found := sorted(path.glob("*.jsonl")):
        return found
    raise FileNotFoundError(f"{path} has no files that end in '.jsonl'. Check the folder.")


def _rows(
    path: Path, columns: Sequence[str | int], how: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the place of each row, for messages, and its texts."""
    table = Table(path, **how)
    for line, cells in table.rows(columns):
        place = table.place(line)
        names = map(str, columns)
        yield place, tuple(files.string(*pair, place) for pair in zip(cells, names, strict=True))


def _records(path: Path) -> Iterator[JsonObject]:
    for where, record in files.json_lines(path):
        yield as_object(record, where)
