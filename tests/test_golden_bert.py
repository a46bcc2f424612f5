"""Every golden checkpoint gives Hugging Face's outputs, in every way that a model is run."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

import bert_zoo

GOLDEN = Path(__file__).parent / "golden" / "bert"
CASES = json.loads((GOLDEN / "cases.json").read_text())["cases"]
# Those of the other families, as "<family>/<case>".
FAMILY_CASES = {
    f"{file.parent.name}/{case}": about
    for file in sorted(GOLDEN.parent.glob("*/cases.json"))
    if file.parent != GOLDEN
    for case, about in json.loads(file.read_text())["cases"].items()
}
INPUTS = ("token_ids", "segment_ids", "padding_mask", "position_ids", "span_boundaries")
TOLERANCE = 1e-5


def directory_of(case: str) -> Path:
    return GOLDEN.parent / case if "/" in case else GOLDEN / case


def load_case(case: str, task: str | None = None, **options):
    task = task or (FAMILY_CASES if "/" in case else CASES)[case]["task"]
    return bert_zoo.load(directory_of(case), task, **options)


def arrays(case: str) -> dict[str, np.ndarray]:
    with np.load(directory_of(case) / "io.npz") as file:
        return dict(file)


def inputs_of(io: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: io[name] for name in INPUTS if name in io}


def as_dict(outputs) -> dict[str, np.ndarray]:
    if not isinstance(outputs, dict):
        outputs = {"logits": outputs}
    return {
        name: np.stack([keras.ops.convert_to_numpy(part) for part in value])
        if isinstance(value, list)
        else keras.ops.convert_to_numpy(value)
        for name, value in outputs.items()
    }


def assert_equal_to_reference(outputs, io: dict[str, np.ndarray]) -> None:
    outputs = as_dict(outputs)
    compared = set(outputs) & set(io)
    assert compared == set(outputs)
    for name in compared:
        np.testing.assert_allclose(outputs[name], io[name], atol=TOLERANCE, rtol=0, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_outputs_equal_the_reference(case):
    io = arrays(case)
    assert_equal_to_reference(load_case(case)(inputs_of(io)), io)


def test_hidden_states_and_attentions_equal_the_reference():
    io = arrays("encoder")
    model = load_case("encoder", output_hidden_states=True, output_attentions=True)
    outputs = model(inputs_of(io))
    assert len(outputs["hidden_states"]) == model.config.num_layers + 1
    assert_equal_to_reference(outputs, io)
