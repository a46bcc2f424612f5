"""Makes questions about long texts of SQuAD's: the paragraphs of an article, put together.

    python tools/long_questions.py --squad train-v1.1.json --output long.json --words 3000
    bert_zoo finetune --model longformer_base --task questions --train_file long.json --held_out 3

Each question is asked about the paragraphs of its article that stand around its own, so that answers stand
anywhere in up to so many words. Questions without an answer are left out, as another paragraph may
have one.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

_SQUAD = flags.DEFINE_string("squad", None, "A file of SQuAD 1.1 or 2.0.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "The file to write, in the same form.", required=True)
_WORDS = flags.DEFINE_integer("words", 3000, "Words of a context at most.", lower_bound=1)
BETWEEN = "\n\n"


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}; options begin with --.")
    articles = json.loads(Path(_SQUAD.value).read_text(encoding="utf-8"))["data"]
    joined = [
        {"title": article["title"], "paragraphs": [*long_contexts(article["paragraphs"])]}
        for article in articles
    ]
    content = json.dumps({"version": "1.1", "data": joined}, ensure_ascii=False)
    Path(_OUTPUT.value).write_text(content, encoding="utf-8")
    contexts = [paragraph for article in joined for paragraph in article["paragraphs"]]
    questions = sum(len(paragraph["qas"]) for paragraph in contexts)
    print(f"{questions:,} questions about {len(contexts):,} texts of {len(joined):,} articles.")


def long_contexts(paragraphs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Paragraphs of SQuAD, one after the other joined up to so many words, with their questions."""
    together: list[dict[str, Any]] = []
    words = 0
    for paragraph in paragraphs:
        length = len(paragraph["context"].split())
        if together and words + length > _WORDS.value:
            yield joined_paragraphs(together)
            together, words = [], 0
        together.append(paragraph)
        words += length
    yield joined_paragraphs(together)


def joined_paragraphs(paragraphs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One paragraph of several, whose answers stand where they stand now."""
    questions, before = [], 0
    for paragraph in paragraphs:
        for question in paragraph["qas"]:
            if question.get("is_impossible"):
                continue
            answers = [
                {"text": answer["text"], "answer_start": answer["answer_start"] + before}
                for answer in question["answers"]
            ]
            questions.append(
                {"id": question["id"], "question": question["question"], "answers": answers}
            )
        before += len(paragraph["context"]) + len(BETWEEN)
    context = BETWEEN.join(paragraph["context"] for paragraph in paragraphs)
    return {"context": context, "qas": questions}


if __name__ == "__main__":
    app.run(main)
