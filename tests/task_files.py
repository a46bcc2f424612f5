"""Files with a few examples for every kind of task; also readable without TensorFlow."""

import json
from pathlib import Path

CONTEXTS = ["the dog sat on a big tree", "she saw a river and it was big", "a city on the river"]


def write_table(path: Path) -> None:
    rows = [("good dog", "yes"), ("bad cat", "no"), ("good tree", "yes"), ("a bad river", "no")] * 3
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))


def write_label_sets(path: Path) -> None:
    rows = [("good dog", "fine;animal"), ("bad cat", "animal"), ("good tree", "fine"), ("it", "")]
    path.write_text("text,label\n" + "".join(f"{text},{names}\n" for text, names in rows * 3))


def write_scores(path: Path) -> None:
    rows = [
        {"text": f"good {'dog ' * i}", "text_pair": "a tree", "label": i / 4} for i in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_tags(path: Path) -> None:
    sentence = "the O\nbig B-LOC\ncity I-LOC\nsaw O\nit O\n\n"
    path.write_text((sentence + "a O\ndog B-PER\n\n") * 6)


def write_questions(path: Path) -> None:
    articles = []
    for number, context in enumerate(CONTEXTS * 2):
        word = context.split()[-1]
        answers = [{"text": word, "answer_start": context.rindex(word)}]
        asked = [
            {"id": f"{number}a", "question": "what", "answers": answers, "is_impossible": False},
            {"id": f"{number}b", "question": "who", "answers": [], "is_impossible": True},
        ]
        paragraph = {"context": context, "qas": asked}
        articles.append({"title": f"article {number}", "paragraphs": [paragraph]})
    path.write_text(json.dumps({"version": "v2.0", "data": articles}))


def write_pairs(path: Path) -> None:
    rows = [f"good dog {number},bad cat {number}" for number in range(12)]
    path.write_text("\n".join(["anchor,positive", *rows]) + "\n")


def write_choices(path: Path) -> None:
    header = "sent1,sent2,ending0,ending1,ending2,ending3,label"
    rows = [f"the dog sat {i},it,ran,is a tree,was big,saw,{i % 4}" for i in range(8)]
    for name in ("train.csv", "val.csv"):
        (path / name).write_text("\n".join([header, *rows]) + "\n")


TABLE = {"name": "table", "held_out": 4}
SETS = {**TABLE, "label_delimiter": ";"}
SCORES = {**TABLE, "regression": True, "text_pair": "text_pair"}
TAGS = {"name": "tagging", "held_out": 3}
QUESTIONS = {"name": "questions", "held_out": 2}
# Kind -> (what writes its file, its name, arguments of make_task, what predict.py is asked).
KINDS = {
    "classification": (write_table, "rows.csv", TABLE, ["good dog"]),
    "multi_label_classification": (write_label_sets, "rows.csv", SETS, ["good dog"]),
    "regression": (write_scores, "rows.jsonl", SCORES, ["--second", "a tree", "good dog"]),
    "token_classification": (write_tags, "tags.txt", TAGS, ["the big city"]),
    "question_answering": (write_questions, "questions.json", QUESTIONS, ["what"]),
    "multiple_choice": (write_choices, "", {"name": "swag"}, ["the dog", "ran", "was big"]),
}
# The same of sentence vectors.
PAIRS = (write_pairs, "pairs.csv", {"name": "pairs", "held_out": 4}, ["good dog", "bad cat"])
