"""README's example runs as it stands, line by line; trained as it says, it gives what its comments say."""

import ast
import re
from pathlib import Path

import pytest
from helpers import needs_minilm

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+")


def agree(shown: str, comment: str) -> bool:
    """Whether the words are the same, and the numbers nearly: trained weights differ by machine."""
    numbers, wanted = (list(map(float, NUMBER.findall(text))) for text in (shown, comment))
    words, wanted_words = (NUMBER.sub("", text).split() for text in (shown, comment))
    near = [abs(a - b) for a, b in zip(numbers, wanted, strict=False)]
    return words[: len(wanted_words)] == wanted_words and max(near, default=0) < 0.35


def one_short_epoch(monkeypatch) -> None:
    """Trains on few rows, once: what comes out is not compared."""
    from bert_zoo.data import messages
    from bert_zoo.models.base import ZooModel

    fit, load = ZooModel.fit, messages.load
    monkeypatch.setattr(
        ZooModel, "fit", lambda *args, **options: fit(*args, **options | {"epochs": 1})
    )
    monkeypatch.setattr(messages, "load", lambda split: tuple(c[:24] for c in load(split)))


@needs_minilm
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_example_runs_line_by_line(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if not whole:
        one_short_epoch(monkeypatch)
    names = {}
    compared = 0
    trained = False
    for example in EXAMPLES:
        lines = example.splitlines()
        for statement in ast.parse(example).body:
            source = ast.get_source_segment(example, statement)
            comment = lines[statement.end_lineno - 1].partition("  # ")[2]
            capsys.readouterr()
            if isinstance(statement, ast.Expr):
                value = eval(source, names)
                shown = capsys.readouterr().out if value is None else str(value)
                trained |= ".fit(" in source
                if NUMBER.search(comment) and (whole or not trained):
                    assert agree(shown, comment), (source, shown)
                    compared += 1
            else:
                exec(source, names)
    assert compared >= (5 if whole else 2)
    served = names["served"].signatures["serving_default"]
    assert served is not None


@pytest.mark.parametrize(
    ("shown", "comment", "wanted"),
    [
        ("track  0.71  Where?", "track  0.7  Where?", True),
        ("refund  0.71  Where?", "track  0.7  Where?", False),
        ("-0.058", "0.589", False),
    ],
)
def test_results_are_compared_by_words_and_numbers(shown, comment, wanted):
    assert agree(shown, comment) == wanted
