"""The notebooks run from top to bottom as they stand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "colab").glob("*.ipynb"))


def code_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_code_cell_compiles(notebook):
    compile(code_of(notebook), str(notebook), "exec")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(notebook, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", code_of(notebook)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
