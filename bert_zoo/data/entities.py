"""Texts with entities, spans of characters with a label, as annotation tools write them.

`read_entities` and a tagger's `fit` take these records:

- spaCy: `(text, {"entities": [(0, 12, "PER")]})`, in JSON a list of two;
- Prodigy: `{"text": ..., "spans": [{"start": 0, "end": 12, "label": "PER"}], "answer": "accept"}`;
- doccano: `{"text": ..., "label": [[0, 12, "PER"]]}`, also as "labels" or "entities";
- Label Studio: `{"data": {"text": ...}, "annotations": [{"result": [{"value": {"start": 0, ...}}]}]}`.

`start` and `end` (exclusive) count characters, as Python does. Taggers give a label to each word, so that
entities become tags of the words that `tag` finds in a text.

Nothing here imports TensorFlow.
"""

import logging
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.data import files
from bert_zoo.data.tagging import Span, TaggedSplit, scheme_names, span_tags, tagged_split
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import parse_json
from bert_zoo.text.numpy_packing import word_spans

log = logging.getLogger("bert_zoo")

SUFFIXES = (".json", ".jsonl", ".ndjson")
SCHEME = "IOB2"
_LISTED = 10
_SEVERAL = "have several annotations, of which the ground truth is read, or else the last"


class Entity(NamedTuple):
    """A labelled span of the characters from `start` to `end` (exclusive)."""

    start: int
    end: int
    label: str


class AnnotatedText(NamedTuple):
    """A text with its entities, and its place in a file or list, for messages."""

    text: str
    entities: list[Entity]
    place: str


def read_entities(
    path: str | Path,
    *,
    label_names: Sequence[str] | None = None,
    allow_unseen: bool = False,
    encoding: str | None = None,
) -> TaggedSplit:
    """Reads a JSON or JSON Lines file of texts with entities as words with IOB2 tags.

    Texts are split into words as `tag` does: at white space and around punctuation. Entities that do not
    begin and end where words do are widened to whole words, and blanks at their ends are ignored, with one
    warning that names them. Texts that were rejected, ignored or not annotated are left out, which is logged.

    Args:
        path: the file, compressed by gzip if its name ends in ".gz".
        label_names: tags in the order of their ids; by default "O", then B and I of each label, sorted.
        allow_unseen: as for `bert_zoo.data.tagging.read_tagging`.
        encoding: of the file; by default determined by its byte order mark, or UTF-8.

    Returns:
        Words and tag ids of each text, and the names of the tags.

    Raises:
        ValueError: a record or span is malformed; entities overlap, are empty or lie outside of their text;
            or there is nothing to read. Names file, line and entities.
        FileNotFoundError: the file does not exist.
    """
    path = Path(path)
    texts = read_annotated(path, encoding)
    words, tags = words_and_tags(texts)
    if label_names is None:
        labels = entity_types(texts)
        if not labels:
            raise ValueError(
                f"{path}: none of its {len(texts):,} texts has an entity. Check its spans."
            )
        label_names = scheme_names(labels, SCHEME)
    places = [text.place for text, row in zip(texts, words, strict=True) for _ in row]
    return tagged_split(words, tags, SCHEME, label_names, places.__getitem__, allow_unseen)


def read_annotated(path: str | Path, encoding: str | None = None) -> list[AnnotatedText]:
    """Reads a file of texts with entities; arguments and errors are those of `read_entities`."""
    texts = annotated_texts(_records(Path(path), encoding))
    if not texts:
        raise ValueError(f"{path} has no annotated texts. Check that this is the right file.")
    return texts


def entity_types(texts: Iterable[AnnotatedText]) -> list[str]:
    """The types of all entities, sorted."""
    return sorted({entity.label for text in texts for entity in text.entities})


def is_entity_file(path: str | Path) -> bool:
    """Whether a file's name says that it holds records of entities, rather than columns of words."""
    return Path(str(path).removesuffix(".gz")).suffix.lower() in SUFFIXES


# --- Records ---


def _records(path: Path, encoding: str | None) -> Iterator[tuple[str, Any]]:
    """Yields the place and value of each record of a JSON list, or of JSON Lines."""
    if path.name.removesuffix(".gz").endswith(".json"):
        text = files.read_text(path, encoding)
        if text.lstrip().startswith("["):
            for number, record in enumerate(parse_json(text, path), start=1):
                yield f"{path}, item {number}", record
            return
    yield from files.json_lines(path, encoding)


def annotated_texts(records: Iterable[tuple[str, Any]]) -> list[AnnotatedText]:
    """Reads records, each with its place; logs how many are left out, and why. ValueError names a malformed one."""
    found, notes = [], Counter()
    for place, record in records:
        note = _note(record)
        if note in ("", _SEVERAL):
            text, annotation = _text_and_annotation(record, place)
            entities = list(entities_of(annotation, text, place))
            if text.strip() or entities:
                found.append(AnnotatedText(text, entities, place))
            else:
                note = "have no words and are left out"
        notes[note] += 1
    for note, number in notes.items():
        if note:
            log.warning("%s of %s texts %s.", f"{number:,}", f"{notes.total():,}", note)
    return found


def _note(record: Any) -> str:
    """Why a record is left out, or what is chosen of it, for the log; "" for most."""
    if not isinstance(record, Mapping):
        return ""
    if (answer := record.get("answer")) in ("reject", "ignore"):
        return f"have the answer {answer!r} and are left out"
    if "annotations" not in record:
        return ""
    number = len(_valid_annotations(record))
    return _SEVERAL if number > 1 else "" if number else "have no annotation and are left out"


def _text_and_annotation(record: Any, place: str) -> tuple[str, Any]:
    if isinstance(record, list | tuple) and len(record) == 2 and isinstance(record[0], str):
        return record[0], record[1]
    if not isinstance(record, Mapping):
        raise ValueError(
            f"{place}: found {shown(record)}, expected a text with its entities, such as "
            '["Ada Lovelace", {"entities": [[0, 12, "PER"]]}] or '
            '{"text": "Ada Lovelace", "spans": [{"start": 0, "end": 12, "label": "PER"}]}.'
        )
    holder = record.get("data", record)
    texts = holder if isinstance(holder, Mapping) else {}
    names = ["text"] if "text" in texts else [n for n, v in texts.items() if isinstance(v, str)]
    if len(names) != 1 or (texts is record and names != ["text"]):
        raise ValueError(
            f'{place}: the text is missing. Name it "text"; the keys are {quoted(texts)}.'
        )
    return files.string(texts[names[0]], names[0], place), record


def _marks(annotation: Any, place: str) -> Sequence[Any]:
    """The spans of an annotation: a list of them, or an object that holds one by a known name."""
    found = annotation
    if isinstance(annotation, Mapping):
        if "annotations" in annotation:
            results = _valid_annotations(annotation)[-1].get("result", ())
            found = [r.get("value") for r in results if str(r.get("type", "")).endswith("labels")]
        else:
            names = [
                name for name in ("spans", "entities", "label", "labels") if name in annotation
            ]
            is_accepted = annotation.get("answer") == "accept"
            found = annotation[names[0]] if names else [] if is_accepted else None
    if not isinstance(found, list | tuple):
        keys = f"; the keys are {quoted(annotation)}" if isinstance(annotation, Mapping) else ""
        raise ValueError(
            f'{place}: the entities are {shown(found)}{keys}. Give a list of [start, end, label], named "entities", '
            '"spans", "label" or "labels"; it is empty for a text without entities.'
        )
    return found


def _valid_annotations(record: Mapping) -> list[Mapping]:
    """Label Studio's annotations of a text, by one or several people, without cancelled ones."""
    given = record["annotations"]
    if not isinstance(given, list) or not all(
        isinstance(a, Mapping) and "result" in a for a in given
    ):
        raise ValueError(
            f'The annotations {shown(given)} are not Label Studio\'s, a list of objects with a "result". Export '
            'them as "JSON", or name a list of [start, end, label] "entities".'
        )
    valid = [annotation for annotation in given if not annotation.get("was_cancelled")]
    return sorted(valid, key=lambda annotation: bool(annotation.get("ground_truth")))


def entities_of(annotation: Any, text: str, place: str) -> Iterator[Entity]:
    """Yields the entities of a text from an annotation: a list of spans, or an object that holds one."""
    for mark in _marks(annotation, place):
        start, end, label, covered = _parts(mark)
        are_numbers = all(isinstance(v, Integral) and not isinstance(v, bool) for v in (start, end))
        if not are_numbers or not isinstance(label, str) or not label:
            raise ValueError(
                f"{place}: the entity {shown(mark)} is not [start, end, label] or an object with these, "
                "two numbers of characters and one label."
            )
        entity = Entity(int(start), int(end), label)
        if covered is not None and not _covers(entity, covered, text):
            entity = _of_utf16(entity, text)
            if not _covers(entity, covered, text):
                raise ValueError(
                    f"{place}: the entity {shown(mark)} has a text of its own, but its characters in the text are "
                    f"{shown(text[int(start) : int(end)], 80)}. Offsets must count characters as Python does, not bytes."
                )
        yield entity


def fault_of(entity: Entity, text: str) -> str:
    """What is wrong with an entity's place in a text; "" for most."""
    if 0 <= entity.start < entity.end <= len(text):
        return ""
    kind = "is empty in" if entity.start >= entity.end else "is outside of"
    return f"{kind} {shown(text, 80)}"


def _covers(entity: Entity, covered: str, text: str) -> bool:
    """Whether an entity has these characters, but for white space, which Label Studio writes in other ways."""
    found, wanted = text[entity.start : entity.end], covered.replace("\\n", " ")
    return found.split() == wanted.split()


def _of_utf16(entity: Entity, text: str) -> Entity:
    """An entity whose offsets count units of UTF-16, two for an emoji, as Label Studio's do
    (HumanSignal/label-studio#1347)."""
    units = text.encode("utf-16-le", "surrogatepass")
    start, end = (
        len(units[: 2 * max(place, 0)].decode("utf-16-le", "ignore")) for place in entity[:2]
    )
    return Entity(start, end, entity.label)


def _parts(mark: Any) -> tuple[Any, Any, Any, str | None]:
    """Start, end and label of a span, and its text if it has one."""
    if isinstance(mark, list | tuple) and len(mark) == 3:
        return (*mark, None)
    if not isinstance(mark, Mapping):
        return None, None, None, None
    labels = mark.get("labels", [mark.get("label")])
    label = labels[0] if isinstance(labels, list) and len(labels) == 1 else None
    start, end = (mark.get(name, mark.get(f"{name}_offset")) for name in ("start", "end"))
    covered = mark.get("text")
    return start, end, label, covered if isinstance(covered, str) else None


def annotated_columns(x: Any, rows: Sequence[Any]) -> list[AnnotatedText]:
    """Texts of `x` with the entities of `rows`, each an annotation as for `entities_of`.

    Raises:
        ValueError: there are lists of words instead of texts, or another number of rows.
    """
    from bert_zoo.text.batches import strings
    from bert_zoo.text.preprocessor import has_rows_of_words

    if has_rows_of_words(x):
        raise ValueError(
            f"y[0] is {shown(rows[0])}, but x has lists of words. Entities are spans of characters: pass the "
            "texts as strings. For words, pass one label each."
        )
    texts = strings(list(x) if isinstance(x, tuple) else x)
    if len(texts) != len(rows):
        raise ValueError(
            f"y has {len(rows)} rows, but x has {len(texts)}. Pass a list of entities for each text."
        )
    places = [f"y[{i}]" for i in range(len(rows))]
    return [
        AnnotatedText(text, list(entities_of(row, text, place)), place)
        for text, row, place in zip(texts, rows, places, strict=True)
    ]


def is_annotated(record: Any) -> bool:
    """Whether a record is a text with its annotation, rather than a text or a list of words."""
    is_pair = isinstance(record, list | tuple) and len(record) == 2
    return isinstance(record, Mapping) or (is_pair and isinstance(record[1], Mapping))


def are_entities(rows: Sequence[Any]) -> bool:
    """Whether the labels of texts are entities, rather than a tag for each word."""
    return any(map(_is_annotation, rows)) or all(isinstance(r, list) and not r for r in rows)


def _is_annotation(row: Any) -> bool:
    is_list = isinstance(row, list | tuple) and len(row) > 0
    return isinstance(row, Mapping) or (is_list and isinstance(row[0], list | tuple | Mapping))


# --- Words ---


def words_and_tags(
    texts: Sequence[AnnotatedText], scheme: str = SCHEME
) -> tuple[list[list[str]], list[list[str]]]:
    """Words of texts and their tags, [texts][words] each.

    Warns about entities that do not begin and end where words do, which are widened to whole words. ValueError
    names those that overlap, are empty or lie outside of their text.
    """
    words, tags, wrong, widened = [], [], [], []
    for text in texts:
        ranges = word_spans(text.text)
        words.append([text.text[start:end] for start, end in ranges])
        spans = list(_word_ranges(text, ranges, wrong, widened))
        tags.append(span_tags(spans, len(ranges), scheme))
    if wrong:
        raise ValueError(
            f"{len(wrong):,} entities cannot be read. An entity has at least one character other than blanks, and no "
            f"word belongs to two entities. Correct or remove these:\n{_lines(wrong)}"
        )
    if widened:
        log.warning(
            "%s of %s entities do not begin and end where words do, and are read as whole words, without blanks at "
            "their ends. Correct those that mean other words:\n%s",
            f"{len(widened):,}",
            f"{sum(len(text.entities) for text in texts):,}",
            _lines(widened),
        )
    return words, tags


def _word_ranges(
    text: AnnotatedText, ranges: list[tuple[int, int]], wrong: list[str], widened: list[str]
) -> Iterator[Span]:
    """The entities of a text as spans of its words; adds descriptions of wrong and widened ones."""
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    before, taken = None, 0
    for entity in sorted(text.entities):
        first, end = bisect_right(ends, entity.start), bisect_left(starts, entity.end)
        described = f"{text.place}: {tuple(entity)}"
        if fault := fault_of(entity, text.text):
            wrong.append(f"{described} {fault}")
            continue
        covered = text.text[entity.start : entity.end]
        described += f", {shown(covered, 80)},"
        if first == end:
            wrong.append(f"{described} has only blanks")
        elif first < taken:
            wrong.append(f"{described} overlaps {tuple(before)}")
        else:
            whole = starts[first], ends[end - 1]
            if whole != entity[:2]:
                widened.append(f"{described} is read as {shown(text.text[slice(*whole)], 80)}")
            before, taken = entity, end
            yield Span(first, end, entity.label)


def _lines(descriptions: Sequence[str]) -> str:
    more = len(descriptions) - _LISTED
    return "\n".join([*descriptions[:_LISTED], *([f"and {more:,} more"] if more > 0 else [])])
