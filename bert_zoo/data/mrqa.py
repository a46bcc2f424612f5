"""MRQA 2019: twelve data sets of questions in one format, answered by spans of contexts.

Fisch et al., "MRQA 2019 Shared Task: Evaluating Generalization in Reading Comprehension", 2019
(arXiv:1910.09753); format and scores: mrqa/MRQA-Shared-Task-2019, README.md and mrqa_official_eval.py.

Nothing here imports TensorFlow.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_zoo.data import files
from bert_zoo.data.squad import Answer, SquadExample, SquadSplit
from bert_zoo.error_text import quoted, shown
from bert_zoo.json_files import as_object, member, parse_json
from bert_zoo.metrics.squad import exact_match

log = logging.getLogger("bert_zoo")

# Data set -> its file in the release, without ".jsonl.gz".
IN_DOMAIN: Mapping[str, str] = {
    "SQuAD": "SQuAD",
    "NewsQA": "NewsQA",
    "TriviaQA": "TriviaQA-web",
    "SearchQA": "SearchQA",
    "HotpotQA": "HotpotQA",
    "NaturalQuestions": "NaturalQuestionsShort",
}
OUT_OF_DOMAIN: Mapping[str, str] = {
    "BioASQ": "BioASQ",
    "DROP": "DROP",
    "DuoRC": "DuoRC.ParaphraseRC",
    "RACE": "RACE",
    "RelationExtraction": "RelationExtraction",
    "TextbookQA": "TextbookQA",
}
# Split -> folder of its files, and the data sets that have it.
SPLITS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "train": ("train", IN_DOMAIN),
    "validation": ("dev", IN_DOMAIN),
    "test": ("dev", OUT_OF_DOMAIN),
}
# Contexts have at most 800 tokens, which their lines repeat with positions.
MAX_LINE_BYTES = 1 << 24


@dataclass(frozen=True)
class MrqaExample(SquadExample):
    """A question whose accepted answers need not occur in the context."""

    accepted: tuple[str, ...]  # answers that predictions are scored against
    data_set: str = ""  # name in the file's header

    @property
    def references(self) -> tuple[str, ...]:
        return self.accepted


def load_mrqa(split: str, data_dir: str | Path, data_sets: Sequence[str] = ()) -> SquadSplit:
    """Reads a split of MRQA's data sets, one after the other.

    Args:
        split: "train" or "validation" for the six data sets of `IN_DOMAIN`; "test" for the six of
            `OUT_OF_DOMAIN`, on which models trained on the others are measured.
        data_dir: folder that contains the release's folders `train` and `dev`, with SQuAD.jsonl.gz and so
            on; files may have the names of the release (TriviaQA-web) or of its scripts (TriviaQA).
        data_sets: names of data sets; by default all of the split.

    Returns:
        The questions (`MrqaExample`) in the order of the files.

    Raises:
        ValueError: the split or a data set is unknown, or as `read_mrqa`.
        FileNotFoundError: `data_dir` does not contain a file.
    """
    files.check_known("MRQA has no split", split, SPLITS)
    folder, known = SPLITS[split]
    examples: list[SquadExample] = []
    for name in data_sets or known:
        files.check_known(f"MRQA's split {split} has no data set", name, known)
        path = files.require_file(
            *(Path(data_dir) / folder / f"{file}.jsonl.gz" for file in (known[name], name)),
            advice="data_dir must be the folder that contains MRQA's folders train and dev.",
        )
        examples += read_mrqa(path).examples
    return SquadSplit("1.1", tuple(examples))


def read_mrqa(path: str | Path) -> SquadSplit:
    """Reads a file in MRQA's format: JSON Lines with a header followed by contexts.

    Contexts keep their marks [TLE], [DOC] and [PAR] for titles, documents and paragraphs, as in SpanBERT's
    program. Training uses the first span of the first detected answer; predictions are scored against the
    file's `answers` (`MrqaExample.accepted`). A warning counts questions with a span that contains something
    other than its detected answer.

    Args:
        path: the file, compressed by gzip if its name ends in ".gz".

    Returns:
        The questions (`MrqaExample`) in the order of the file.

    Raises:
        ValueError: a line has another format, a span exceeds its context, or a question has no answer or
            a repeated id. Names file, line and question.
        FileNotFoundError: the file does not exist.
    """
    path = Path(path)
    examples: dict[str, SquadExample] = {}
    misplaced: list[str] = []
    data_set = path.name.partition(".")[0]
    for line, text in files.lines(path, max_line_bytes=MAX_LINE_BYTES):
        if not text.strip():
            continue
        place = f"{path}, line {line}"
        record = as_object(parse_json(text, path, line), place)
        if "header" in record:
            data_set = files.text_member(record["header"], "dataset", place)
            continue
        context = files.text_member(record, "context", place)
        for q, question in enumerate(member(record, "qas", list, place), start=1):
            where = f"{place}, question {q}"
            id = files.text_member(question, "qid", where)
            if id in examples:
                raise ValueError(f"{where}: the qid {shown(id)} has occurred before.")
            answers, texts = zip(*_detected(question, context, where), strict=True)
            if not all(exact_match(a.text, text) for a, text in zip(answers, texts, strict=True)):
                misplaced.append(id)
            examples[id] = MrqaExample(
                id,
                # Each context counts as an article.
                title=f"{data_set}, line {line}",
                question=files.text_member(question, "question", where),
                context=context,
                answers=answers,
                is_impossible=False,
                accepted=tuple(_accepted(question, where)),
                data_set=data_set,
            )
    if not examples:
        raise ValueError(f"{path} has no questions. Check that this is the right file.")
    if misplaced:
        log.warning(
            "%s: of %d questions, %d have spans that differ from their detected answer: %s. Training uses the "
            "spans. Check that they count characters (code points) and end with the answer's last one.",
            *(path, len(examples), len(misplaced), quoted(misplaced)),
        )
    return SquadSplit("1.1", tuple(examples.values()))


def _detected(
    question: Mapping[str, Any], context: str, where: str
) -> Iterator[tuple[Answer, str]]:
    """Yields the answer at each span, whose end is its last character, with the file's text for it."""
    answers = member(question, "detected_answers", list, where)
    found = [
        (span, files.text_member(answer, "text", where))
        for answer in answers
        for span in member(answer, "char_spans", list, where)
    ]
    if not found:
        raise ValueError(f"{where}: no answer was detected in the context, but training needs one.")
    for span, text in found:
        match span:
            case [int(start), int(end)] if 0 <= start <= end < len(context):
                yield Answer(context[start : end + 1], start), text
            case _:
                raise ValueError(
                    f"{where}: the span {shown(span)} must be [first, last] character of the context, "
                    f"which has {len(context)} characters."
                )


def _accepted(question: Mapping[str, Any], where: str) -> list[str]:
    answers = [files.string(a, "answers", where) for a in member(question, "answers", list, where)]
    if not answers:
        raise ValueError(f"{where}: 'answers' is empty; the keys are {quoted(question)}.")
    return answers
