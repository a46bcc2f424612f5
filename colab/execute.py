"""Runs notebooks from top to bottom and saves their cleaned outputs for readers.

TEXT_FILE=brown.txt STEPS=600 python colab/execute.py colab/transformer_xl.ipynb

Settings are environment variables, which each notebook lists. Each notebook runs in its own directory. This needs
nbclient and ipykernel in addition to bert_zoo. Messages on stderr, TensorFlow's log, execution times and overwritten
progress bars are removed, so that a file only changes if its results do.
"""

import argparse
import re
import tempfile
import time
from pathlib import Path
from typing import Any

MINUTES = 30
# Terminal codes for colours and cursor movements.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BAR = re.compile(r"\d+/\d+ ━+")
# TensorFlow's log, which goes to stdout in a notebook.
LOGGED = re.compile(r"^(?:INFO|WARNING|ERROR):(?:tensorflow|absl):.*\n?", re.MULTILINE)
MACHINE_PATHS = re.compile(
    r"(?<![\w./])/(?:home|root|tmp|work|usr|opt|Users|content|kaggle)\b[^\s'\",)]*"
)


def execute(path: Path, directory: Path, seconds: int = 60 * MINUTES) -> Any:
    """Runs a notebook.

    Args:
        path: the notebook's file, which is not changed.
        directory: the working directory.
        seconds: time limit of a cell.

    Returns:
        The notebook with its new outputs, cleaned.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(directory)}},
        record_timing=False,
    ).execute()
    clean(notebook)
    return notebook


def clean(notebook: Any) -> None:
    """Removes everything from a run that should not be saved."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    # From version 4.5 on, cells have ids, which would change in every run.
    notebook.nbformat, notebook.nbformat_minor = 4, 4
    for cell in notebook.cells:
        cell.pop("id", None)
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = cleaned(cell.outputs)


def cleaned(outputs: list) -> list:
    """Returns a cell's outputs without stderr, with consecutive prints joined."""
    kept: list = []
    for output in outputs:
        if output.output_type == "stream" and output.name == "stderr":
            continue
        if output.output_type == "stream" and kept and kept[-1].output_type == "stream":
            kept[-1].text += output.text
        else:
            kept.append(output)
    for output in kept:
        if output.output_type == "stream":
            text = LOGGED.sub("", output.text).rstrip()
            lines = without_unfinished_bars([shown(line) for line in text.split("\n")])
            output.text = "".join(f"{line}\n" for line in lines)
        elif "image/png" in output.get("data", {}):
            output.data = {"image/png": output.data["image/png"]}
            output.metadata = {}
    return [output for output in kept if output.get("text", " ").strip() or "data" in output]


def shown(line: str) -> str:
    """Returns a line as a terminal finally shows it, after all overwriting."""
    cells: list[str] = []
    place = 0
    for character in ESCAPES.sub("", line):
        if character == "\r":
            place = 0
        elif character == "\b":
            place = max(0, place - 1)
        else:
            cells[place : place + 1] = character
            place += 1
    return "".join(cells).rstrip()


def without_unfinished_bars(lines: list[str]) -> list[str]:
    """Returns lines without Keras's progress bars that are repeated with the metrics at the end of the epoch."""
    kept: list[str] = []
    comes_again = None
    for line in reversed(lines):
        bar = BAR.match(line)
        if bar and bar[0] == comes_again:
            continue
        if bar or line.startswith("Epoch "):
            comes_again = bar[0] if bar else None
        kept.append(line)
    return kept[::-1]


def printed(notebook: Any) -> str:
    """Returns all text of the outputs."""
    texts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            texts.append(output.get("text", ""))
            texts += [
                str(text) for kind, text in output.get("data", {}).items() if "image" not in kind
            ]
    return "\n".join(texts)


def main() -> None:
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    for path in parser.parse_args().notebooks:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as directory:
            notebook = execute(path, Path(directory))
        if found := MACHINE_PATHS.search(printed(notebook)):
            raise SystemExit(f"{path} is not written: its outputs hold the path {found[0]}.")
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
