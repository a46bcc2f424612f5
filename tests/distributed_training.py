"""Trains a tiny checkpoint on some number of devices; run as a program by test_distribution.py.

    python distributed_training.py CASE OUTPUT.npz STRATEGY [OPTION ...]

OPTIONs are --accumulate, --model_parallel, --dtype=POLICY, --several_steps, --stateful (a language model
with its memory), and --pairs (sentence vectors of two columns), with --scores or --mini_batches. STRATEGY
is a name of `bert_zoo.training.strategy`; the environment names Keras's backend. Each run has a process
of its own, because backends fix their devices when they start. The file holds `weights/<path>`,
`losses` of the epochs, `evaluation`, and `predictions` of every row.
"""

import re
import sys

import numpy as np
from helpers import arrays, full_name, inputs_of, load_case, task_of, variables_of

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models import StatefulLM
from bert_zoo.models.inputs import tokens_of
from bert_zoo.models.replicas import is_chief
from bert_zoo.training import bert_adamw, compile_for_task, language_model_adam, strategy

ROWS, BATCH, EPOCHS = 14, 4, 5  # 20 steps; the last batch of an epoch has 2 rows

# Tasks that `rows_of` can make labels for.
LABELLED = (
    "masked_lm",
    "token_classification",
    "question_answering",
    "multi_label_classification",
    "classification",
    "causal_lm",
)


def rows_of(case: str, task: str, rng) -> tuple:
    """Inputs and labels of a number of rows, each with a different number of labels."""
    io = arrays(case)
    if task == "causal_lm":
        tokens = np.resize(io["token_ids"], (ROWS, io["token_ids"].shape[-1]))
        labelled = rng.random(tokens.shape) < np.linspace(0.1, 1, ROWS)[:, None]
        labels = np.where(labelled, np.roll(tokens, -1, 1), IGNORED_LABEL)
        return ({"token_ids": tokens, "labels": labels},)
    inputs = {name: np.resize(v, (ROWS, *v.shape[1:])) for name, v in inputs_of(io).items()}
    tokens = tokens_of(inputs)
    if task in ("masked_lm", "token_classification"):
        classes = tokens if task == "masked_lm" else tokens % 5
        labelled = rng.random(tokens.shape) < np.linspace(0.1, 1, ROWS)[:, None]
        return inputs, np.where(labelled, classes, IGNORED_LABEL)
    if task == "question_answering":
        place = np.arange(ROWS) % tokens.shape[1]
        return inputs, {"start_logits": place, "end_logits": place}
    if task == "multi_label_classification":
        return inputs, (np.arange(ROWS)[:, None] + np.arange(io["logits"].shape[-1])) % 3 == 0
    return inputs, np.arange(ROWS) % 2


def compiled(case: str, task: str, options: tuple[str, ...]):
    dtypes = [option.partition("=")[2] for option in options if option.startswith("--dtype=")]
    model = load_case(case, task, dropout=0.0, dtype=dtypes[0] if dtypes else "float32")
    steps = 2 if "--accumulate" in options else None
    # Clipped hard: a replica that clipped its own gradients would show.
    optimizer = bert_adamw(5e-5, total_steps=40, clip_norm=0.1, gradient_accumulation_steps=steps)
    # Four batches an epoch: three, and then one.
    compile_for_task(model, optimizer, steps_per_execution=3 if "--several_steps" in options else 1)
    return model


def dataset_of(data: tuple, batch_size: int = BATCH):
    import tensorflow as tf

    data = data if len(data) > 1 else data[0]
    return tf.data.Dataset.from_tensor_slices(data).batch(batch_size)


def stateful(case: str):
    """A language model with its memory, compiled, and its streams' segments."""
    from bert_zoo.pretraining.streams import segments

    model = StatefulLM(load_case(case, "causal_lm", dropout=0.0), BATCH)
    model.compile(optimizer=language_model_adam(5e-5, total_steps=40))
    tokens = np.random.default_rng(0).integers(0, 40, 20 * BATCH)
    dataset = segments(tokens, BATCH, 5)
    return model, dataset, dataset


def pairs(case: str, options: tuple[str, ...]):
    """A model of sentence vectors, compiled, two columns of texts, and the first one.

    An epoch has 11 rows, in batches of 5, 5 and 1; a replica may get no row of the last.
    """
    rng, columns = np.random.default_rng(0), []
    for length in (8, 6):
        ids = rng.integers(5, 80, (11, length)).astype("int32")
        mask = (np.arange(length) < rng.integers(2, length + 1, (11, 1))).astype("int32")
        columns.append({"token_ids": ids * mask, "padding_mask": mask})
    data = (tuple(columns), rng.random(11, "float32"))
    model = load_case(case, "embedding", dropout=0.0)
    model.compile(bert_adamw(5e-5, total_steps=40, clip_norm=0.1))
    model.mini_batch_size = 2 if "--mini_batches" in options else None
    datasets = [data if "--scores" in options else data[:1], columns[:1]]
    return model, *(dataset_of(data, 5) for data in datasets)


def stateless(case: str, options: tuple[str, ...]):
    """A model of a task, compiled, its data, and the data without labels."""
    task = task_of(full_name(case))
    data = rows_of(case, task, np.random.default_rng(0))
    return compiled(case, task, options), dataset_of(data), dataset_of(data[:1])


def train(case: str, scope, options: tuple[str, ...]) -> dict[str, np.ndarray]:
    with scope:
        if "--stateful" in options:
            found = stateful(case)
        else:
            found = (pairs if "--pairs" in options else stateless)(case, options)
    model, dataset, inputs = found
    if "--model_parallel" in options:
        assert_divided(model)
    start = variables_of(model)
    history = model.fit(dataset, epochs=EPOCHS, verbose=0).history
    weights = variables_of(model)
    moved = max(np.abs(weights[path] - start[path]).max() for path in weights)
    assert moved > 1e-4, moved
    evaluation = model.evaluate(dataset, verbose=0, return_dict=True)
    # Of several outputs, Keras 3.15 weights each one's batches by their rows on JAX and not on
    # TensorFlow (CompileLoss.call in trainers/compile_utils.py asks for a static shape).
    evaluation = {name: v for name, v in evaluation.items() if not name.endswith("_logits_loss")}
    predictions = model.predict(inputs, verbose=0)
    if isinstance(predictions, dict):
        predictions = predictions[min(predictions)]  # JAX gives them in another order
    return {
        "losses": np.array(history["loss"]),
        "evaluation": np.array([evaluation[name] for name in sorted(evaluation)]),
        "predictions": predictions,
        **{f"weights/{path}": value for path, value in weights.items()},
    }


# What a model is divided by, in its first layer and its embeddings.
DIVIDED = re.compile(
    r"/layer_0/(attention|feed_forward(_\d+)?)/.*kernel$|/(token_embedding|table_\d+)/embeddings$"
    r"|/layer_\d+/(recurrent_)?kernel$|/layer_\d+/(forward|backward)/(kernel|projection)$"
)


def assert_divided(model) -> None:
    """Products of attention and feed-forward networks, and tables, lie on two devices in halves, and so do
    their moments."""
    model.optimizer.build(model.trainable_variables)
    parts = [v for v in model.trainable_variables if DIVIDED.search(v.path)]
    assert len(parts) >= 5
    for part in parts:
        moment = part.path.replace("/", "_") + "_momentum"
        (moment,) = (v for v in model.optimizer.variables if v.path.endswith(moment))
        assert halved(part) and halved(moment), part.path


def halved(variable) -> bool:
    shards = variable.value.addressable_shards
    return {shard.data.size for shard in shards} == {variable.value.size // 2}


def main(case: str, output: str, name: str, *options: str) -> None:
    devices = strategy(name, model_parallel=2 if "--model_parallel" in options else 1)
    results = train(case, devices.scope(), options)
    if is_chief(devices):
        np.savez(output, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
