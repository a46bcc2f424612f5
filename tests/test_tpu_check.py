"""A TPU's compiler takes every family's steps, on both of Keras's backends; the search for a largest batch."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import run_program

NEEDS_LIBTPU = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None or importlib.util.find_spec("jax") is None,
    reason='libtpu is not installed; pip install "bert_zoo[tpu-check]"',
)
TESTS = Path(__file__).parent
# What is compiled -> a golden checkpoint, a task, further options.
CASES = {
    "bert": ("bert/masked_lm", "masked_lm"),
    "roberta": ("roberta/classification", "classification"),
    "albert": ("albert/token_classification", "token_classification"),
    "spanbert": ("spanbert/squad", "question_answering"),
    "transformer_xl": ("transformer_xl/hf_plain", "causal_lm"),
    "pairs": ("bert/pretraining", "pretraining"),
    "packed rows": ("bert/pretraining", "pretraining", "--packed"),
    "sentence order, with LAMB": ("albert/pretraining", "pretraining"),
    "spans": ("spanbert/pretraining", "pretraining"),
    "sampling of replaced tokens": ("electra/tf1_small", "pretraining", "--packed"),
}
LINE = (
    r"{} +2 rows: arguments \d+\.\d\d GB, temporaries \d+\.\d\d GB: fits in 16 GB; \d+\.\d\d TFLOP"
)


@pytest.mark.slow
@NEEDS_LIBTPU
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
@pytest.mark.parametrize("name", CASES)
def test_training_and_inference_compile_for_a_tpu(name, backend):
    case, task, *options = CASES[name]
    arguments = ["--model", TESTS / "golden" / case, "--task", task, "--backend", backend]
    arguments += ["--batch", "2", "--length", "16", *options]
    done = subprocess.run(
        [sys.executable, TESTS.parent / "tools" / "tpu_check.py", *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        env=os.environ | {"PYTHONPATH": str(TESTS.parent)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for step in ("train", "predict"):
        assert re.search(LINE.format(step), done.stdout), done.stdout


def test_the_largest_batch_lies_between_one_that_fits_and_one_that_does_not():
    program = """
from tpu_check import BATCHES, Compiled, largest_batch
assert BATCHES[:6] == [8, 12, 16, 24, 32, 48]
def found(start, limit, refused=10**9):
    asked = []
    def compiled(rows):
        asked.append(rows)
        return None if rows >= refused else Compiled(1.0, rows - 1.0, 0.0)
    return largest_batch(compiled, start, limit), asked
assert found(32, 100) == (96, [32, 48, 64, 96, 128])
assert found(128, 100) == (96, [128, 96])
assert found(96, 100) == (96, [96, 128])
assert found(32, 10**6, refused=60) == (48, [32, 48, 64])
assert found(16, 4) == (0, [16, 12, 8])
assert found(1, 14) == (12, [8, 12, 16])
assert found(20, 100)[0] == 96
"""
    # In a process of its own: its flags are those of other programs too.
    run_program("-c", program, cwd=TESTS.parent / "tools")
