"""What the programs print: help, errors and Ctrl-C, as their users see it."""

import errno
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

import bert_zoo.__main__
from bert_zoo.__main__ import VERBS, overview
from bert_zoo.apps.benchmarks import DataOptions, make_task
from bert_zoo.apps.program import Program, command, descriptions, message_of
from bert_zoo.data.files import read_json
from bert_zoo.training.presets import Recipe

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "tools"
CHECKPOINT = ROOT / "tests" / "golden" / "bert" / "classification"


def start(tool: str, *arguments, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, TOOLS / f"{tool}.py", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# --- Help ---


def test_programs_are_listed_without_tensorflow():
    code = (
        "import sys; from bert_zoo.__main__ import main; main(); "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listed = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    assert tuple(verb for verb, _ in listed) == VERBS
    assert all(text.endswith(".") and len(text) < 100 for _, text in listed)
    assert done.stdout == overview() + "\n"


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_given_without_tensorflow(verb):
    code = (
        f"import sys; from bert_zoo.__main__ import main; sys.argv[1:] = ['--help']; main({verb!r}); "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--" in done.stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="left to TensorFlow on other processors")
@pytest.mark.parametrize(("asked", "used"), [(None, True), ("0", False)])
def test_programs_use_onednn_unless_the_environment_says_otherwise(asked, used):
    environment = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}
    if asked is not None:
        environment["TF_ENABLE_ONEDNN_OPTS"] = asked
    code = (
        "import sys; from bert_zoo.__main__ import main; sys.argv[1:] = ['--help']; main('finetune'); "
        "from tensorflow.python.util import _pywrap_util_port; "
        f"sys.exit(_pywrap_util_port.IsMklEnabled() != {used})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_output_that_is_read_no_further_is_no_error():
    code = "import sys; from bert_zoo.__main__ import main; sys.stdin.read(); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stdin.close()
    assert (process.stderr.read(), process.wait()) == (b"", 1)


def test_every_program_is_a_file_of_tools_too():
    for verb in VERBS:
        assert f'main("{verb}")' in (TOOLS / f"{verb}.py").read_text()


def test_an_unknown_program_gets_the_nearest():
    done = subprocess.run(
        [sys.executable, "-m", "bert_zoo", "finetun"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "bert_zoo: There is no program 'finetun'. The nearest is finetune"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rum", "a"], "Unknown command line flag 'rum'. Did you mean: run."),
        ([], "Give --run."),
        (["--run"], "Missing value for flag --run."),
    ],
)
def test_wrong_flags_end_a_program_with_one_line(arguments, message):
    done = start("predict", *arguments)
    out, err = done.communicate()
    assert (done.returncode, out) == (1, "")
    assert err == f"predict.py: {message} --help lists the flags.\n"


def test_former_names_of_flags_are_answered_and_not_listed():
    program, given = Program("About."), []
    program.integer("total_steps", None, "How many.")
    program.renamed("steps", "total_steps")
    program.run(lambda arguments: given.append(program.flags.total_steps), ["--steps=3"])
    assert given == [3]
    assert "--total_steps" in program.help() and "--steps" not in program.help()


def test_programs_name_each_other_as_they_were_started(monkeypatch):
    for started, named in (
        ("tools/finetune.py", "python tools/predict.py"),
        ("/usr/bin/bert_zoo", "bert_zoo predict"),
        (bert_zoo.__main__.__file__, "python -m bert_zoo predict"),
        ("train.py", "bert_zoo predict"),
    ):
        monkeypatch.setattr(sys, "argv", [started])
        assert command("predict") == named


def test_help_shows_the_flags_of_a_program_and_no_others():
    done = start("predict", "--help")
    out, err = done.communicate()
    assert done.returncode == 0 and err == ""
    assert out.startswith("Answers from a run directory") and "--run=TEXT" in out
    assert "The second text of every pair" in out and "verbosity" not in out


def test_every_setting_that_is_a_flag_has_a_description():
    for options in (Recipe, DataOptions):
        found = descriptions(options)
        assert set(found) == {field.name for field in fields(options)}
        assert all(len(text) > 10 and not text[0].islower() for text in found.values())
        assert len(set(found.values())) == len(found)


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
        assert said.endswith("Free some space, then run the same command again.")


def test_faults_keep_their_traceback():
    for fault in (
        lambda: list(zip([1], [], strict=True)),
        lambda: make_task("table", train_file=3, held_out=2),
        lambda: {}["a"],
    ):
        assert message(fault) is None


def test_ctrl_c_ends_a_program_in_one_line():
    # It waits for texts on standard input.
    running = start("predict", "--run", "nowhere", stdin=subprocess.PIPE)
    time.sleep(3)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert (running.returncode, out, err.strip()) == (130, "", "Stopped.")


@pytest.mark.slow
def test_a_fine_tuning_ended_by_ctrl_c_goes_on_by_the_same_command(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "good dog,yes\nbad cat,no\n" * 40)
    command = ("finetune", "--model", CHECKPOINT, "--task", "table", "--train_file", table)
    options = (
        "--held_out",
        20,
        "--max_length",
        16,
        "--epochs",
        60,
        "--output_dir",
        tmp_path / "run",
        "--noexport",
        "--checkpoint_minutes",
        0,
    )
    running = start(*command, *options)
    while not list((tmp_path / "run" / "checkpoint").glob("*.safetensors")):
        time.sleep(0.2)
        assert running.poll() is None, running.communicate()[1]
    running.send_signal(signal.SIGINT)
    _, err = running.communicate()
    assert running.returncode == 130 and "Traceback" not in err
    assert err.strip().split("\n")[-1].startswith("Stopped. Run the same command to go on")
    again = start(*command, *options)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert "Going on after epoch" in out


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["finetune", "evaluate", "train_lm"])
def test_wrong_data_end_a_program_with_one_line(tmp_path, tool):
    table = tmp_path / "a.csv"
    table.write_text("text,label\ngood,\n")
    arguments = {
        "finetune": (
            "--task",
            "table",
            "--train_file",
            table,
            "--held_out",
            1,
            "--model",
            CHECKPOINT,
        ),
        "evaluate": ("--run", tmp_path),
        "train_lm": ("--train_file", tmp_path / "none.txt"),
    }[tool]
    done = start(tool, *arguments)
    _, err = done.communicate()
    assert done.returncode == 1 and "Traceback" not in err and "--" not in err.split("\n")[-2]
    assert err.strip().split("\n")[-1].startswith(f"{tool}.py: ")
