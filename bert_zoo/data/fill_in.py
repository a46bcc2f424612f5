"""What models are asked by minimal pairs of sentences and by texts with a blank: BLiMP, agreement, LAMA.

Nothing here imports TensorFlow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.tables import Table
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject, as_object, parse_json

# The blank of a text, whatever a model's own mask is written like.
BLANK = "[MASK]"
# Of a template: the subject, and the object that is asked for.
SUBJECT, OBJECT = "[X]", "[Y]"


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences that differ in what makes one of them ungrammatical."""

    good: str
    bad: str
    groups: tuple[str, ...] = ()  # what it tests, from the coarse to the fine: phenomenon, paradigm


@dataclass(frozen=True)
class Cloze:
    """A text with a blank, and what belongs there; of several blanks the first one is asked for.

    Raises:
        ValueError: the text has no blank.
    """

    text: str  # with `BLANK`
    answer: str
    wrong: str | None = None  # what does not belong there, where one of two is to be chosen
    groups: tuple[str, ...] = ()  # as of `MinimalPair`; of a fact its relation

    def __post_init__(self):
        if BLANK not in self.text:
            raise ValueError(
                f"The text {shown(self.text)} has no blank. Write {BLANK} where a word is asked for."
            )

    def filled(self, word: str) -> str:
        """The text with a word in place of the blank."""
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
        path: a table; or a folder, of which all files that end in ".jsonl" are read.
        good, bad: columns of the sentences.
        groups: columns of what a pair tests, from the coarse to the fine.
        **how: how the file is written, as for `read_table`: format, delimiter, header, encoding.

    Raises:
        ValueError: a column is missing, or holds no text. Names file and line.
        FileNotFoundError: there is no such file.
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
    """Reads a table of texts with a blank each.

    The agreement of subjects and verbs in Goldberg's file (2019, arXiv:1901.05287), by number of attractors:

        read_cloze("lgd_dataset.tsv", text=2, answer=3, wrong=4, groups=[0], blank="***mask***", header=False)

    Args:
        path: a table; or a folder, of which all files that end in ".jsonl" are read.
        text, answer, wrong: columns, as the attributes of `Cloze`.
        groups: columns of what a row tests, from the coarse to the fine.
        blank: how the file writes the blank.
        **how: how the file is written, as for `read_table`: format, delimiter, header, encoding.

    Raises:
        ValueError: a column is missing or holds no text, or a text has no blank. Names file and line.
        FileNotFoundError: there is no such file.
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

    Without templates a line has its text, `masked_sentences` (a list, whose strings are joined) or
    `masked_sentence`. With them it has `sub_label`, and the text is its relation's template; of equal subjects
    and objects one is kept. Both have `obj_label`. The relation is `predicate_id`, or else the file's name without
    "_test".

    Args:
        path: a file; or a folder, of which all files that end in ".jsonl" are read.
        templates: relation -> text with "[X]" for the subject and "[Y]" for the object; or the file of LAMA
            that has them (relations.jsonl).

    Raises:
        ValueError: a line lacks something, a relation has no template, or a text no blank. Names file and line.
        FileNotFoundError: there is no such file.
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
            f"{record.where}: the relation {relation!r} has no template; the templates are of {sorted(templates)}."
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
    """The place of each row, for messages, and its texts."""
    table = Table(path, **how)
    for line, cells in table.rows(columns):
        place = table.place(line)
        names = map(str, columns)
        yield place, tuple(files.string(*pair, place) for pair in zip(cells, names, strict=True))


def _records(path: Path) -> Iterator[JsonObject]:
    for line, text in files.lines(path):
        where = f"{path}, line {line}"
        yield as_object(parse_json(text, path, line), where)
