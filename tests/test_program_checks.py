"""Programs find a mistake in their flags and files before they import TensorFlow, and name flags."""

import importlib
import json
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from bert_zoo.__main__ import VERBS
from bert_zoo.cli import program as program_module
from bert_zoo.cli.benchmarks import BENCHMARKS
from bert_zoo.cli.program import InFlags, in_flags

PROGRAMS = {verb: importlib.import_module(f"bert_zoo.cli.{verb}").PROGRAM for verb in VERBS}
# Runs commands, one after the other, in a process in which neither TensorFlow nor a backend can be imported.
RUN = """
import contextlib, importlib.abc, io, json, sys
class Imported(BaseException): pass
class Refused(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("tensorflow", "keras", "jax"):
            raise Imported
sys.meta_path.insert(0, Refused())
from bert_zoo.__main__ import main
said = []
for command in json.load(sys.stdin):
    sys.argv[1:], err = command, io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit:
            said.append(err.getvalue())
        except Imported:
            said.append("TensorFlow is imported.")
print(json.dumps(said))
"""


def said_to(commands: list[list[str]], directory: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a run, tables and texts."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "run" / "model").mkdir(parents=True)
    data = {"name": "table", "train_file": "a.csv", "held_out": 0.5}
    (folder / "run" / "config.json").write_text(json.dumps({"data": data, "recipe": {}}))
    (folder / "run" / "model" / "bert_zoo.json").write_text("{}")
    (folder / "pretrained" / "model").mkdir(parents=True)
    (folder / "pretrained" / "config.json").write_text(json.dumps({"data": {"text": ["a.txt"]}}))
    (folder / "a.csv").write_text("text,label\ngood dog,yes\nbad cat,no\n")
    (folder / "a.txt").write_text("Some text .\n")
    return folder


# What a check refuses, and words of the message.
WRONG = {
    program_module.model: {"berta": "There is no model called 'berta'", "a/b": "no directory a/b"},
    program_module.run: {"nowhere": "nowhere holds no model"},
    program_module.task: {"ner": "Did you mean 'token_classification'?"},
    program_module.recipe: {"bart/rte": "There is no preset 'bart/rte'"},
    program_module.strategy: {"two": "There is no strategy 'two'"},
    program_module.exists: {"b.txt": "names b.txt, which does not exist"},
    program_module.whole_number: {"one": "has 'one' among its values; all must be whole numbers"},
    program_module.text: {"b*.txt": "There is no file 'b*.txt'"},
}


def beyond(limits: dict) -> list:
    """Values outside a setting's limits."""
    kinds = {"least": lambda bound: bound - 1, "choices": lambda _: "none"}
    return [kinds.get(kind, lambda bound: bound)(bound) for kind, bound in limits.items()]


# Flags with which a program would start, and those for flags of its other uses.
COMPLETE = {
    "embed": "a",
    "probe": "--corpus a.txt",
    "convert": "--model minilm_l6 --output out",
    "export": "--model minilm_l6 --output out",
    "finetune": "",
    "evaluate": "--run run",
    "predict": "--run run --file a.csv --output out.csv",
    "distill": "--teacher run --student bert_tiny",
    "pretrain": "--text a.txt --model minilm_l6 --steps 5",
}
OF_A_LANGUAGE_MODEL = "--model transformer_xl_wt103 --text_file a.txt"
ON_TEXT = "--teacher minilm_l6 --student bert_tiny --text a.txt --steps 5"
OTHERS = {
    **{("evaluate", name): OF_A_LANGUAGE_MODEL for name in ("model", "text_file", "mem_len")},
    **{("distill", name): ON_TEXT for name in ("text", "general_text", "layer_map")},
    ("distill", "layers"): "--teacher run",
    ("distill", "teacher"): "--student bert_tiny --task messages",
}


def wrong_flags():
    """For each flag of each program that is checked, a command with a wrong value, and words of the message."""
    for verb, program in PROGRAMS.items():
        for name, check in program.checks.items():
            if isinstance(check, partial):
                (field,) = check.args
                wrong = dict.fromkeys(beyond(field.metadata["limits"]), f"--{name} is ")
            else:
                wrong = WRONG[check]
            complete = OTHERS.get((verb, name), COMPLETE[verb]).split()
            for value, words in wrong.items():
                yield [verb, *complete, f"--{name}={value}"], words


TABLE = "finetune --task table --train_file a.csv"
OWN = [name for name, entry in BENCHMARKS.items() if "train_file" in entry.needs]
COMMANDS = {
    "finetune --task sst3": "Did you mean 'sst2'? For your own table: table; for other files of yours: pairs,",
    "finetune --task sst2 --text x": "does not read --text. Leave that out; it reads --data_dir",
    **{
        f"finetune --task {name} --train_file {missing} --dev_file {other}": "There is no file b.csv"
        for name in OWN
        for missing, other in (("b.csv", "a.csv"), ("a.csv", "b.csv"))
    },
    # What is missing is said before what is not given.
    **{f"finetune --task {name} --train_file b.csv": "There is no file b.csv" for name in OWN},
    **{
        f"finetune --task {name} --train_file a.csv": "with --held_out, for example --held_out 0.1."
        for name in OWN
    },
    **{
        f"finetune --task {name} --data_dir nowhere": "has no split 'train'"
        if name in ("ax", "axb", "axg")
        else "nowhere/"
        for name, entry in BENCHMARKS.items()
        if "data_dir" in entry.reads
    },
    f"{TABLE} --held_out 0.5 --label tag": "there is no column 'tag'",
    f"{TABLE} --held_out 0.5 --text_pair b": "Name the columns with --text, --text_pair and --label.",
    "finetune --task pairs --train_file a.csv --held_out 1": "Name the columns with --columns and --label.",
    "finetune --task scores --train_file a.csv --held_out 1": "there is no column 'sentence1'",
    "finetune --task text --train_file a.csv --held_out 1": "with --source_column and --target_column",
    "finetune --task tagging --train_file a.txt --held_out 1": "a.txt",
    "finetune --task questions --train_file a.csv --held_out 1": "a.csv",
    f"{TABLE} --held_out 5": "--held_out",
    f"{TABLE} --held_out 0.5 --epochs two": "--epochs is 'two'; it must be an integer.",
    "evaluate --run run --text words": "there is no column 'words'",
    "evaluate --run run --split test": "There is no file for the split 'test'. Give it as --dev_file",
    "evaluate --run pretrained": "pretrained is not a run of bert_zoo finetune",
    "evaluate --run run --task sst3": "There is no task 'sst3'",
    "predict --run run --file a.csv --output out.csv --text words": "there is no column 'words'",
    "predict --run run --file a.csv --output out.xls": "--output is 'out.xls'",
    "demo": "Name one model: a run directory",
    "demo berta": "There is no model called 'berta'",
    "demo minilm_l6 --task encoder": "--task is 'encoder'; it must be one of classification,",
    "demo minilm_l6 --host no.such.host.invalid": "Cannot listen on no.such.host.invalid, port 8765",
    "embed --text b.csv --output out.npy": "There is no file 'b.csv'",
    "embed --text a.csv --column words": "the columns are ['text', 'label']. Name columns with --column and --id_column.",
    "distill --teacher run --student bert_tiny --train_file b.csv": "There is no file b.csv",
    "distill --teacher bert_tiny --table 8 --epochs 3": "With --table, --epochs has no effect",
    "distill --teacher minilm_l6 --student bert_tiny": "minilm_l6 is not a run directory",
    "distill --teacher pretrained --student bert_tiny": "pretrained is not a run directory",
    "export --model minilm_l6 --output out --format pdf": "--format is 'pdf'",
    "export --model minilm_l6 --output out --quantize int4": "--quantize is 'int4'",
    "export --model minilm_l6 --output out --quantize int8": "needs --format litert or --format onnx",
    "pretrain --text a.txt": "Give either --model",
    "pretrain --model minilm_l6 --text a.txt": "Set the length of training",
    "pretrain --recipe xlnet --size nano --text b.txt": "There is no file 'b.txt'",
    "build_vocabulary --output out b.txt": "There is no file b.txt",
    "build_vocabulary --output out --kind wordpiece b.txt": "There is no file 'b.txt'",
}


def test_mistakes_are_found_before_tensorflow_is_imported(folder):
    wrong = [*wrong_flags(), *((command.split(), words) for command, words in COMMANDS.items())]
    commands = [command for command, _ in wrong]
    # The others never import it, or read files wherever Apache Beam does.
    without = {"list", "describe", "create_pretraining_data"}
    assert {verb for verb, *_ in commands} == {*VERBS} - without
    found = zip(wrong, said_to(commands, folder), strict=True)
    assert not [(command, said) for (command, words), said in found if words not in said]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Give a dev_file, or held_out=0.1.", "Give a --dev_file, or --held_out 0.1."),
        ("Name text= and label= (--text, --label).", "Name --text and --label."),
        ("Pass regression=True or label=None.", "Pass --regression or no --label."),
        ("epochs is 0; it must be at least 1.", "--epochs is 0; it must be at least 1."),
        ("Raise sequence_length.", "Raise --max_length."),
        ("Use encoding='latin-1' (--encoding latin-1).", "Use --encoding latin-1."),
        ("No 'a'; bert_zoo.list_models() lists all.", "No 'a'; `bert_zoo list` lists all."),
        ("Use a scheme such as FullSentences.", "Use a scheme such as --rows full_sentences."),
        ("It is 'ab': load('ab').", "It is 'ab': --model ab."),
        ("Look. Read another with read_squad(path). Go on.", "Look. Go on."),
        # What the user named is left alone.
        ("in/dev_file.csv: no column 'text_pair'.", "in/dev_file.csv: no column 'text_pair'."),
        ("The label is missing.", "The label is missing."),
    ],
)
def test_messages_name_flags(message, said):
    assert in_flags(message, PROGRAMS["finetune"].flags) == said


def test_log_messages_name_flags():
    record = logging.LogRecord(
        "bert_zoo", logging.WARNING, "", 0, "Raise %s.", ("max_length",), None
    )
    assert InFlags(PROGRAMS["finetune"].flags).format(record) == "Raise --max_length."
    assert InFlags(PROGRAMS["pretrain"].flags).format(record) == "Raise --length."
