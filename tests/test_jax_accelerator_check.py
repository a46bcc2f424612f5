"""The program that users run on a GPU or TPU finds no fault on this processor, and writes what it found."""

import importlib.util
import json
from pathlib import Path

import pytest
from helpers import directory_of, run_program

NO_JAX = importlib.util.find_spec("jax") is None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NO_JAX, reason="JAX is not installed; pip install bert_zoo[jax]"),
]
ROOT = Path(__file__).parents[1]
SMALL = "--model bert_nano --forward 2x16 --training 2x16 --rounds 1 --calls 1 --product 64".split()
TINY = str(directory_of("token_classification"))


# Compiled in half the time, for times that nobody reads.
QUICK = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONPATH": str(ROOT)}


def check(tmp_path, *arguments: str) -> tuple[dict, str]:
    """What the program writes and prints."""
    output, program = tmp_path / "check.json", ROOT / "tools" / "accelerator_check.py"
    printed = run_program(program, *SMALL, *arguments, "--output", output, **QUICK)
    return json.loads(output.read_text()), printed


def test_a_model_is_compared_and_timed(tmp_path):
    parts = ["--parts", "exactness", "--parts", "speed"]
    arguments = ["--model", TINY, "--cases", "bert/encoder", "--steps", "no_dropout"]
    found, printed = check(tmp_path, *parts, *arguments)
    rows = {row["precision"]: row["outputs"] for row in found["exactness"]}
    assert rows["float32, exact products"] < 1e-5 < rows["mixed_float16"]
    assert [row["work"] for row in found["speed"]] == ["forward", "step, no_dropout"]
    assert all(row["memory"] > 0 and row["share_of_peak"] > 0 for row in found["speed"])
    for row in found["speed"]:
        assert f"{row['work']}, {row['shape']}" in printed


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_every_family_is_compared_and_strings_are_trained_on(tmp_path, backend):
    found, _ = check(tmp_path, "--backend", backend)
    cases = {row["case"].partition("/")[0] for row in found["exactness"]}
    assert {"bert", "transformer_xl", "xlnet", "modernbert"} <= cases
    assert found["fit"][0]["texts_per_second"] > 0
