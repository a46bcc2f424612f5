"""What several test modules share: tiny checkpoints by task, and tensors in and out of files."""

import functools
from pathlib import Path

import keras
import numpy as np
from safetensors.numpy import load_file
from test_golden_bert import CASES, GOLDEN, arrays, inputs_of, load_case

from bert_zoo.config import EncoderConfig
from bert_zoo.models import TASKS, Encoder
from bert_zoo.models.tasks import LabelledModel
from bert_zoo.registry import registry
from bert_zoo.weights.bind import ENCODER_PREFIX, Naming, named_variables

# The golden checkpoint of each task; any encoder serves for sentence vectors.
TASK_CASES = {
    "encoder": "encoder",
    "classification": "classification",
    "regression": "regression",
    "multiple_choice": "multiple_choice",
    "token_classification": "token_classification",
    "question_answering": "question_answering",
    "masked_lm": "masked_lm",
    "pretraining": "pretraining",
    "embedding": "encoder",
}
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


def unallocated(config: EncoderConfig, task: str = "encoder", family: str = "bert"):
    """The real model of a task with shapes but no memory behind its variables, however large."""
    try:
        with keras.StatelessScope(initialize_variables=False):
            encoder = Encoder(config, family)
            if task == "encoder":
                return encoder
            model_class = TASKS[task]
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


def stored_gradients(model, loss, tape) -> dict[str, np.ndarray]:
    """Gradients of a task model's loss under Hugging Face's names and in its layout."""
    import tensorflow as tf

    variables = named_variables(model)
    found = tape.gradient(loss, [v.value for v in variables.values()])
    gradients = {
        path: np.zeros(v.shape, "float32") if g is None else tf.convert_to_tensor(g).numpy()
        for (path, v), g in zip(variables.items(), found, strict=True)
    }
    family, config = registry().families[model.encoder.family], model.encoder.config
    naming = Naming(family, "hf", family.roots["hf"])
    bindings = naming.encoder(config, ENCODER_PREFIX) + naming.head(model.task, config)
    stored = (binding.to_stored(gradients[binding.variable]) for binding in bindings)
    return {name: gradient for part in stored for name, gradient in part.items()}


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
    "TASK_CASES",
    "TEXTS",
    "arrays",
    "assert_same",
    "assert_same_variables",
    "flat",
    "inputs_of",
    "load_case",
    "load_task",
    "loaded",
    "loaded_task",
    "stored_gradients",
    "task_inputs",
    "tensors_of",
    "texts_for",
    "unallocated",
    "variables_of",
]
