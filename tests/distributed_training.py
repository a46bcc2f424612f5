"""Trains a tiny checkpoint on some number of devices; run as a program by test_distribution.py.

    python distributed_training.py CASE OUTPUT.npz STRATEGY [--accumulate]

STRATEGY is a name of `bert_zoo.training.strategy`, or with Keras on JAX "jax:N", so many devices. Each
has a process of its own, because both fix their devices when they start. The file
holds `weights/<path>`, `losses` of the epochs, `evaluation`, and `predictions` of every row.
"""

import contextlib
import sys

import keras
import numpy as np
from helpers import variables_of
from test_golden_bert import CASES, FAMILY_CASES, arrays, inputs_of, load_case

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models.replicas import is_chief
from bert_zoo.training import bert_adamw, compile_for_task, strategy

ROWS, BATCH, EPOCHS = 14, 4, 5  # 20 steps; the last batch of an epoch has 2 rows


def task_of(case: str) -> str:
    return (
        (FAMILY_CASES if "/" in case else CASES)[case]["task"] if "xl" not in case else "causal_lm"
    )


def rows_of(case: str, task: str, rng) -> tuple:
    """Inputs and labels of so many rows; how many labels a row has differs."""
    io = arrays(case)
    if task == "causal_lm":
        tokens = np.resize(io["token_ids"], (ROWS, io["token_ids"].shape[-1]))
        labelled = rng.random(tokens.shape) < np.linspace(0.1, 1, ROWS)[:, None]
        labels = np.where(labelled, np.roll(tokens, -1, 1), IGNORED_LABEL)
        return ({"token_ids": tokens, "labels": labels},)
    inputs = {name: np.resize(v, (ROWS, *v.shape[1:])) for name, v in inputs_of(io).items()}
    tokens = inputs["token_ids"]
    if task in ("masked_lm", "token_classification"):
        classes = tokens if task == "masked_lm" else tokens % 5
        labelled = rng.random(tokens.shape) < np.linspace(0.1, 1, ROWS)[:, None]
        return inputs, np.where(labelled, classes, IGNORED_LABEL)
    if task == "question_answering":
        place = np.arange(ROWS) % tokens.shape[1]
        return inputs, {"start_logits": place, "end_logits": place}
    return inputs, np.arange(ROWS) % 2


def compiled(case: str, task: str, accumulate: bool):
    model = load_case(case, task, dropout=0.0)
    steps = 2 if accumulate else None
    # Clipped hard: a replica that clipped its own gradients would show.
    optimizer = bert_adamw(5e-5, total_steps=40, clip_norm=0.1, gradient_accumulation_steps=steps)
    compile_for_task(model, optimizer)
    return model


def fed(data: tuple) -> dict:
    """Keras's arguments for the same batches on either backend."""
    if keras.backend.backend() == "jax":
        return dict(zip("xy", data, strict=False)) | {"batch_size": BATCH}
    import tensorflow as tf

    data = data if len(data) > 1 else data[0]
    return {"x": tf.data.Dataset.from_tensor_slices(data).batch(BATCH)}


def train(case: str, scope, accumulate: bool) -> dict[str, np.ndarray]:
    task = task_of(case)
    with scope:
        model = compiled(case, task, accumulate)
    arguments = fed(rows_of(case, task, np.random.default_rng(0)))
    start = variables_of(model)
    history = model.fit(**arguments, epochs=EPOCHS, shuffle=False, verbose=0).history
    weights = variables_of(model)
    moved = max(np.abs(weights[path] - start[path]).max() for path in weights)
    assert moved > 1e-4, moved
    evaluation = model.evaluate(**arguments, verbose=0, return_dict=True)
    arguments.pop("y", None)
    predictions = model.predict(**arguments, verbose=0)
    if isinstance(predictions, dict):
        predictions = next(iter(predictions.values()))
    return {
        "losses": np.array(history["loss"]),
        "evaluation": np.array([evaluation[name] for name in sorted(evaluation)]),
        "predictions": predictions,
        **{f"weights/{path}": value for path, value in weights.items()},
    }


def scope_of(name: str):
    """Where models are made, and whether this process writes."""
    if keras.backend.backend() != "jax":
        found = strategy(name)
        return found.scope(), is_chief(found)
    distribution = keras.distribution.DataParallel()
    assert f"jax:{distribution.device_mesh.shape[0]}" == name
    keras.distribution.set_distribution(distribution)
    return contextlib.nullcontext(), True


def main(case: str, output: str, name: str, *options: str) -> None:
    scope, writes = scope_of(name)
    results = train(case, scope, "--accumulate" in options)
    if writes:
        np.savez(output, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
