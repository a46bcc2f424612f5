"""What the programs print: help, errors and Ctrl-C, as their users see it."""

import errno
import functools
import io
import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same_variables
from scipy.sparse import csr_array

import bert_zoo.__main__
from bert_zoo import onednn
from bert_zoo.__main__ import VERBS, overview
from bert_zoo.cli import embed, finetune
from bert_zoo.cli.benchmarks import DataOptions, make_task
from bert_zoo.cli.program import Program, command, message_of
from bert_zoo.cli.quiet import start_tensorflow_quietly
from bert_zoo.config import Prompts
from bert_zoo.data.files import read_json
from bert_zoo.embeddings import read_vectors, text_files
from bert_zoo.presets import Recipe
from bert_zoo.training.runs import keras_verbosity

ROOT = Path(__file__).parents[1]
CHECKPOINT = ROOT / "tests" / "golden" / "bert" / "classification"


def start(tool: str, *arguments, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "bert_zoo", tool, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# --- Help ---


def python(code: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


def test_programs_and_their_help_are_shown_on_a_screen_without_tensorflow():
    code = (
        "import sys; from bert_zoo.__main__ import main, VERBS\n"
        "for arguments in ([], *([verb, '--help'] for verb in VERBS)):\n"
        "    sys.argv[1:] = arguments; main(); print('\\f')\n"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    done = python(code, env=os.environ | {"COLUMNS": "80"})
    assert (done.returncode, done.stderr) == (0, "")
    listing, *helps, end = done.stdout.split("\f\n")
    assert (listing, end) == (overview() + "\n", "")
    listed = [line.split(maxsplit=1) for line in listing.splitlines() if line.startswith("  ")]
    assert tuple(verb for verb, _ in listed) == VERBS
    assert all(text.endswith(".") and len(text) < 100 for _, text in listed)
    for verb, shown in zip(VERBS, helps, strict=True):
        assert ("--" in shown or verb == "describe") and len(shown.splitlines()) <= 40, verb
        assert "verbosity" not in shown, verb  # absl's own flags


def test_finetune_without_flags_prints_its_help(monkeypatch, capsys):
    main(monkeypatch, "finetune")
    assert capsys.readouterr().out == finetune.PROGRAM.help() + "\n"


def test_help_has_the_main_flags_and_full_help_all():
    program = Program("About.", groups={"Main flags": ("first",), "More": ("second",)})
    program.string("first", None, "One thing; and what it comes to. Rarely.")
    program.enum("second", "a", ["a", "b"], "Another.")
    program.bool("third", False, "A third.")
    assert program.help() == (
        "About.\n\nMain flags:\n  --first=TEXT                One thing.\n\n"
        "--helpfull explains these in full, and also: More (1); Other flags (1)."
    )
    full = program.help(full=True)
    assert "One thing; and what it comes to. Rarely." in full
    assert full.index("--second=TEXT") < full.index("One of a, b. (default: a)")
    assert full.index("\nMore:\n") < full.index("\nOther flags:\n  --third")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="left to TensorFlow on other processors")
@pytest.mark.parametrize(("asked", "used"), [(None, True), ("0", False)])
def test_programs_start_tensorflow_quietly_with_onednn_unless_the_environment_says_otherwise(
    asked, used
):
    settings = (onednn.VARIABLE, "TF_CPP_MIN_LOG_LEVEL")
    environment = {k: v for k, v in os.environ.items() if k not in settings}
    environment |= {onednn.VARIABLE: asked} if asked else {}
    code = (
        "import sys; from bert_zoo.__main__ import main; sys.argv[1:] = ['--help']; main('finetune'); "
        "import tensorflow_text; from bert_zoo.private import uses_onednn; "
        f"sys.exit(uses_onednn() != {used})"
    )
    done = python(code, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("machine", "asked", "imported", "used", "set_to", "is_told"),
    [
        ("x86_64", None, None, False, "1", False),
        ("x86_64", None, os, False, None, True),
        ("x86_64", None, os, True, None, False),
        ("x86_64", "0", os, False, "0", False),
        ("x86_64", "0", None, False, "0", False),
        ("aarch64", None, None, False, None, False),
    ],
)
def test_onednn_is_turned_on_before_tensorflow_is_imported_and_its_lack_told_afterwards(
    monkeypatch, caplog, machine, asked, imported, used, set_to, is_told
):
    # Set first, so that it is put back afterwards.
    monkeypatch.setenv(onednn.VARIABLE, asked or "")
    if asked is None:
        monkeypatch.delenv(onednn.VARIABLE)
    monkeypatch.setitem(sys.modules, "tensorflow", imported)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(onednn, "uses_onednn", lambda: used)
    onednn.use_onednn()
    assert os.environ.get(onednn.VARIABLE) == set_to
    assert [onednn.VARIABLE in line for line in caplog.messages] == [True] * is_told


def test_output_that_is_read_no_further_is_no_error():
    code = "import sys; from bert_zoo.__main__ import main; sys.stdin.read(); main()"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    process.stdout.close()
    process.stdin.close()
    assert (process.stderr.read(), process.wait()) == (b"", 1)


def main(monkeypatch, *arguments) -> None:
    """Calls the program in this process, whose log it leaves alone."""
    monkeypatch.setattr(bert_zoo.__main__, "start_tensorflow_quietly", lambda: None)
    monkeypatch.setattr(sys, "argv", ["bert_zoo", *map(str, arguments)])
    bert_zoo.__main__.main()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("finetun", "bert_zoo: There is no program 'finetun'. Did you mean 'finetune'?"),
        ("serve", "bert_zoo: There is no program 'serve'. Run `bert_zoo` to list them."),
        ("-v", "bert_zoo: There is no program '-v'. Run `bert_zoo` to list them."),
        ("predict --rum a", "Unknown command line flag 'rum'. Did you mean: run. --help lists"),
        ("predict", "bert_zoo predict: Give --run. --help lists the flags."),
        ("predict --run", "Missing value for flag --run. --help lists the flags."),
        ("finetune --seeds 0 --list_recipes", "--seeds is '0'; it must be a positive integer."),
        ("finetune a b", "Unknown arguments ['a', 'b']. Flags begin with --;"),
        ("list minilm", "No model matches 'minilm'. Did you mean 'minilm_l6'?"),
        ("describe", "Name a model, for example minilm_l6. `bert_zoo list` prints all names."),
        ("predict --run nowhere --file a.csv", "a file for predictions, together"),
        ("embed --output vectors.txt a", "--output is vectors.txt. Name a file that ends in .npy"),
        (
            "embed --output vectors/ a",
            "--output is vectors/, a directory of parts, which needs files",
        ),
        ("embed --output a.npy --num_parts 2 a", "--num_parts is for parts. Name their directory"),
        ("embed --text README.md --output v/ --shard 3/2", "--shard is 3/2; it must be a number"),
    ],
)
def test_wrong_commands_end_with_one_line(command, said, monkeypatch, capsys):
    with pytest.raises(SystemExit) as end:
        main(monkeypatch, *command.split())
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (1, "", 1)
    assert said in err


def test_wrong_data_end_a_program_with_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.csv").write_text("text,label\ngood,\n")
    options = ("--task=table", f"--train_file={tmp_path}/a.csv", "--held_out=1")
    with pytest.raises(SystemExit):
        main(monkeypatch, "finetune", "--model", CHECKPOINT, *options)
    # The data are at fault, not the flags.
    err = capsys.readouterr().err
    assert err.startswith("bert_zoo finetune: ") and err.count("\n") == 1 and "--help" not in err


def test_the_version_is_said(monkeypatch, capsys):
    main(monkeypatch, "--version")
    assert capsys.readouterr().out == f"bert_zoo {bert_zoo.__version__}\n"


def test_programs_name_each_other_as_they_were_started(monkeypatch):
    for started, named in (
        (bert_zoo.__main__.__file__, "python -m bert_zoo predict"),
        ("/opt/venv/bin/bert_zoo", "bert_zoo predict"),
        ("train.py", "bert_zoo predict"),
    ):
        monkeypatch.setattr(sys, "argv", [started])
        assert command("predict") == named


def test_every_setting_that_is_a_flag_has_a_description():
    for options in (Recipe, DataOptions):
        found = [field.metadata["help"] for field in fields(options)]
        assert all(len(text) > 10 and not text[0].islower() for text in found)
        assert len(set(found)) == len(found)


def test_a_progress_bar_is_for_terminals(monkeypatch):
    assert keras_verbosity() == 2
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert keras_verbosity() == 1


# --- Models ---


def test_models_are_listed_by_patterns_and_by_what_they_provide(monkeypatch, capsys):
    main(monkeypatch, "list", "albert_base*", "bert_nano")
    assert capsys.readouterr().out.split() == [*bert_zoo.list_models("albert_base*"), "bert_nano"]
    main(monkeypatch, "list", "--provides", "embedding")
    assert capsys.readouterr().out.split() == bert_zoo.list_models(provides="embedding")


def test_models_are_described(monkeypatch, capsys):
    main(monkeypatch, "describe", "bert_nano", "minilm_l6")
    cards = (str(bert_zoo.describe(name)) for name in ("bert_nano", "minilm_l6"))
    assert capsys.readouterr().out == "\n\n".join(cards) + "\n"


def test_vectors_are_printed_and_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(text_files, "TEXTS_AT_ONCE", 2)
    monkeypatch.setattr(bert_zoo, "load", functools.cache(bert_zoo.load))
    encoder, texts = str(ROOT / "tests" / "golden" / "bert" / "encoder"), ["a film", "", "the cat"]
    model = bert_zoo.load(encoder)
    wanted = model.embed(texts)
    main(monkeypatch, "embed", "--model", encoder, *texts)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == texts
    np.testing.assert_allclose([row["vector"] for row in rows], wanted, atol=1e-6)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a film\n\nthe cat\n"))
    path = tmp_path / "vectors.npy"
    main(monkeypatch, "embed", "--model", encoder, "--output", str(path))
    np.testing.assert_allclose(np.load(path), wanted, atol=1e-6)
    table = tmp_path / "films.csv"
    table.write_text("id,title\n1,a film\n2,\n3,the cat\n")
    options = ["--text", str(table), "--column", "title", "--prompt", "the "]
    main(monkeypatch, "embed", "--model", encoder, *options, "--output", str(path))
    wanted = model.embed(texts, prompt="the ")
    np.testing.assert_allclose(np.load(path), wanted, atol=1e-6)
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": 4, "title": "a bird"}\n')
    options[1] = f"{tmp_path}/*.csv,{more}"
    options += ["--id_column", "id", "--output", f"{tmp_path}/parts/", "--part_format", "npy"]
    for shard in ("2/2", "1/2"):
        main(monkeypatch, "embed", "--model", encoder, *options, "--num_parts=2", "--shard", shard)
    stored = read_vectors(tmp_path / "parts")
    assert stored.ids[:].tolist() == ["1", "2", "3", "4"]
    np.testing.assert_allclose(stored.vectors[:3], wanted, atol=1e-6)
    model.prompts = Prompts({"query": "the "})
    capsys.readouterr()
    main(monkeypatch, "embed", "--model", encoder, "--role", "query", *texts)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose([row["vector"] for row in rows], wanted, atol=1e-6)
    trained = tmp_path / "classifier"
    bert_zoo.save(bert_zoo.load(CHECKPOINT, "classification"), trained)
    with pytest.raises(SystemExit):
        main(monkeypatch, "embed", "--model", trained, "--output", path, "a")
    assert "task 'classification', which gives no vectors of texts" in capsys.readouterr().err


def test_sparse_and_token_vectors_are_printed_and_written(tmp_path, capsys, monkeypatch):
    encoder = str(ROOT / "tests" / "golden" / "bert" / "encoder")
    model = bert_zoo.load(encoder)
    a, cat = (model.preprocessor.tokenizer.token_to_id(token) for token in ("a", "cat"))
    size = model.config.vocab_size
    monkeypatch.setattr(bert_zoo, "load", lambda name: model)
    monkeypatch.chdir(tmp_path)
    sparse = csr_array(([0.5, 2.0], ([0, 0], [a, cat])), shape=(1, size))
    kinds = {
        "weights": ("a.npz", sparse, {"cat": 2, "a": 0.5}),
        "vectors": ("index", [np.ones((2, 3))], [[1, 1, 1], [1, 1, 1]]),
    }
    for name, (path, vectors, expected) in kinds.items():
        monkeypatch.setattr(model, "embed", lambda texts, vectors=vectors, **options: vectors)
        main(monkeypatch, "embed", "--model", encoder, "a cat")
        (*_, line) = capsys.readouterr().out.splitlines()
        assert json.loads(line) == {"text": "a cat", name: expected}
        with pytest.raises(SystemExit):
            main(monkeypatch, "embed", "--model", encoder, "--output", "a.npy", "a cat")
        assert "makes another kind of vectors. Name" in capsys.readouterr().err
        main(monkeypatch, "embed", "--model", encoder, "--output", path, "a cat")
        for read, wanted in zip(
            embed.FILES[Path(path).suffix][1](Path(path)), vectors, strict=True
        ):
            assert abs(read - wanted).max() == 0
        options = ["--engine", "elasticsearch", "--output", "a.jsonl"]
        main(monkeypatch, "embed", "--model", encoder, *options, "a cat")
        (_, line) = Path("a.jsonl").read_text().splitlines()
        assert json.loads(line) == {"vector": expected, "text": "a cat"}
    assert not [*tmp_path.glob(".*")]


@pytest.mark.parametrize("format", ["bert_zoo", "hf"])
def test_a_model_is_converted_with_its_head(format, tmp_path, monkeypatch, capsys):
    for task in ("classification", "pretraining"):
        source, new = CHECKPOINT.with_name(task), tmp_path / task
        options = ["--model", str(source), "--output", str(new), "--format", format]
        main(monkeypatch, "convert", *options)
        assert f"task {task}" in capsys.readouterr().out
        assert (new / "config.json").is_file() == (format == "hf")
        assert_same_variables(*(bert_zoo.load(path, task) for path in (source, new)))


# --- What TensorFlow writes ---

LOGGED = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    b"I0000 00:00:1795716794.033462    9959 cudart_stub.cc:31] Could not find cuda drivers.\n"
    b"E0000 00:00:1795717154.205236   14458 cuda_dnn.cc:8310] Unable to register cuDNN factory: ...\n"
    b"2026-01-02 03:04:05.678901: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\n"
    b"2026-01-02 03:04:05.678901: E external/cuda_driver.cc:152] failed call to cuInit: INTERNAL: ...\n"
)
SAID = (
    b"Traceback (most recent call last):\n"
    b"E0000 00:00:1795717154.205236   14458 allocator.cc:10] Out of memory.\n"
    b"F0000 00:00:1795717154.205236   14458 cpu.cc:1] This processor has no AVX.\n"
    b"2026 was a good year\n"
    b"without a line end"
)


@pytest.mark.parametrize("end", ["", "os.abort()", "raise ValueError('a fault')"])
def test_start_up_lines_are_left_out_and_errors_are_not(end):
    code = (
        "import os\nfrom bert_zoo.cli.quiet import without_start_up_lines\n"
        f"with without_start_up_lines():\n    os.write(2, {LOGGED + SAID!r})\n    {end}\n"
        f"os.write(2, {LOGGED!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.stderr.startswith(SAID)
    more = done.stderr.removeprefix(SAID)
    assert more == LOGGED if not end else b"ValueError" in more if "raise" in end else not more


@pytest.mark.parametrize(("level", "finders"), [(None, 1), ("2", 1), ("0", 0)])
def test_the_environment_may_ask_for_the_log_of_tensorflow(level, finders, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level or "")
    if level is None:
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    monkeypatch.setattr(sys, "meta_path", [])
    start_tensorflow_quietly()
    assert len(sys.meta_path) == finders
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == level or level is None


# --- Errors ---


def message(run) -> str | None:
    try:
        run()
    except Exception as error:
        return message_of(error)
    raise AssertionError("There is no error.")


def test_errors_that_say_what_to_do_are_printed_alone(tmp_path):
    (tmp_path / "a.json").write_text("{")
    assert "line 1: this is not JSON" in message(lambda: read_json(tmp_path / "a.json"))
    assert "There is no file" in message(lambda: read_json(tmp_path / "b.json"))
    assert "There is no task" in message(lambda: make_task("sst3"))
    said = message(lambda: (tmp_path / "no" / "such").write_text(""))
    assert said == f"No such file or directory: {tmp_path / 'no' / 'such'}"


def test_a_full_disk_is_said_plainly():
    class ResourceExhaustedError(Exception):
        """As TensorFlow's."""

    for error in (
        OSError(errno.ENOSPC, "No space left on device", "runs/model"),
        ResourceExhaustedError("runs/model; No space left on device"),
    ):

        def full(error=error):
            raise error

        said = message(full)
        assert said.startswith("The disk is full (") and "runs/model" in said
        assert said.endswith("Free some space, then run the command again.")


def test_faults_keep_their_traceback():
    for fault in (
        lambda: list(zip([1], [], strict=True)),
        lambda: make_task("table", train_file=3, held_out=2),
        lambda: {}["a"],
    ):
        assert message(fault) is None


def test_ctrl_c_ends_a_program_in_one_line():
    running = start("predict", "--run", "nowhere", stdin=subprocess.PIPE)
    # It waits for texts on standard input once its processor time stands still.
    before, now = None, ""
    while now != before:
        time.sleep(2)
        before, now = now, Path(f"/proc/{running.pid}/stat").read_text().split()[13:15]
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert (running.returncode, out, err.strip()) == (130, "", "Stopped.")


@pytest.mark.slow
def test_a_fine_tuning_ended_by_ctrl_c_goes_on_by_the_same_command(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "good dog,yes\nbad cat,no\n" * 40)
    command = ("finetune", "--model", CHECKPOINT, "--task", "table", "--train_file", table)
    options = "--held_out=20 --max_length=16 --epochs=60 --noexport --checkpoint_minutes=0".split()
    options.append(f"--output_dir={tmp_path / 'run'}")
    running = start(*command, *options)
    while not list((tmp_path / "run" / "checkpoint").glob("*.safetensors")):
        time.sleep(0.2)
        assert running.poll() is None, running.communicate()[1]
    running.send_signal(signal.SIGINT)
    _, err = running.communicate()
    assert running.returncode == 130 and "Traceback" not in err
    assert err.strip().split("\n")[-1].startswith("Stopped. Run the same command to resume")
    again = start(*command, *options)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert "Resuming after epoch" in out
