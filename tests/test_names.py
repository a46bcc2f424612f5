"""Names stand where they belong: a family's on its page, a task's in its file, and the field's words."""

import ast
import re
from pathlib import Path

import pytest

import bert_zoo
from bert_zoo import models
from bert_zoo.registry import registry

PACKAGE = Path(bert_zoo.__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
FAMILIES = set(registry().families)
# "encoder" and "embedding" are parts of any model too; "regression" is an option of programs, and
# "reranking" data that they train on.
TASKS = set(models.TASKS) - {"encoder", "embedding", "regression", "reranking"}
# word -> the field's
WORDS = {
    "brick": "layer",
    "hallmark": "key signature",
    "headless": "without a head",
    "be had": "be downloaded",
    "knows it not": "does not know it",
    "fresh weights": "randomly initialised",
    "word on the log": "a warning",
}


def text_of(file: str) -> str:
    return (PACKAGE / file).read_text(encoding="utf-8")


def strings(tree: ast.Module) -> list[ast.Constant]:
    """The string constants of a file but its docstrings."""
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
    ]


def named(files: list[str], names: set[str]) -> list[str]:
    """Where a string constant is one of the names."""
    return [
        f"{file}:{node.lineno}: {node.value!r}"
        for file in files
        for node in strings(ast.parse(text_of(file)))
        if node.value in names
    ]


def outside(*places: str) -> list[str]:
    return [file for file in FILES if not file.startswith(places)]


def test_families_are_named_on_their_pages_alone():
    assert not named(outside("families/"), FAMILIES)


def test_tasks_are_named_in_their_files_and_on_pages_alone():
    assert not named(outside("families/", "tasks/"), TASKS)


@pytest.mark.parametrize("word", WORDS)
def test_words_are_the_fields(word):
    found = [f for f in FILES if re.search(word, text_of(f), re.IGNORECASE)]
    assert not found, f"The field says {WORDS[word]!r}."


def test_slow_tests_are_there():
    lines = Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines()[1:]
    for line in lines:
        file, _, name = line.partition("::")
        text = Path(__file__).with_name(file.removeprefix("tests/")).read_text(encoding="utf-8")
        assert f"def {name.partition('[')[0]}(" in text, line
