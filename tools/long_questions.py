"""Makes questions about long texts from SQuAD, by joining the paragraphs of an article.

    python tools/long_questions.py --squad train-v1.1.json --output long.json --words 3000
    bert_zoo finetune --model longformer_base --task questions --train_file long.json --held_out 3

Each question gets its paragraph together with neighbouring ones, up to --words words, so an answer may be anywhere in
them. Questions without an answer are left out, because another paragraph may answer them.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

_SQUAD = flags.DEFINE_string("squad", None, "A SQuAD 1.1 or 2.0 file.", required=True)
_OUTPUT = flags.DEFINE_string(
    "output", None, "The file to write, in the same format.", required=True
)
_WORDS = flags.DEFINE_integer("words", 3000, "Maximum words of a context.", lower_bound=1)
BETWEEN = "\n\n"


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments {argv[1:]}. Flags begin with --.")
    articles = json.loads(Path(_SQUAD.value).read_text(encoding="utf-8"))["data"]
    joined = [
        {"title": article["title"], "paragraphs": [*long_contexts(article["paragraphs"])]}
        for article in articles
    ]
    content = json.dumps({"version": "1.1", "data": joined}, ensure_ascii=False)
    Path(_OUTPUT.value).write_text(content, encoding="utf-8")
    contexts = [paragraph for article in joined for paragraph in article["paragraphs"]]
    questions = sum(len(paragraph["qas"]) for paragraph in contexts)
    print(
        f"Wrote {questions:,} questions about {len(contexts):,} texts from {len(joined):,} articles."
    )


def long_contexts(paragraphs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields SQuAD paragraphs joined to contexts of at most --words words, with their questions."""
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
    """Joins paragraphs into one and shifts the positions of their answers."""
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
