"""A TPU's compiler takes every family's steps, on both of Keras's backends."""

import importlib.util
import re
from pathlib import Path

import pytest
from helpers import ALL_GOLDEN, run_program

NEEDS_LIBTPU = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None or importlib.util.find_spec("jax") is None,
    reason='libtpu is not installed; pip install "bert_zoo[tpu-check]"',
)
ROOT = Path(__file__).parents[1]
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
    "windows": ("longformer/question_answering", "question_answering", "--length", "32"),
    "sparse blocks": ("bigbird/token_classification", "token_classification", "--length", "32"),
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
    arguments = ["--model", ALL_GOLDEN / case, "--task", task, "--backend", backend]
    arguments += ["--batch", "2", "--length", "16", *options]
    printed = run_program(ROOT / "tools" / "tpu_check.py", *arguments, PYTHONPATH=str(ROOT))
    for step in ("train", "predict"):
        assert re.search(LINE.format(step), printed), printed
