"""Batches whose rows are shared among cores: the same results, from so many passes."""

import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TASK_CASES,
    assert_refused,
    assert_same,
    carried,
    flat,
    load_recurrent,
    load_task,
    loaded_task,
    recurrent_arrays,
    run_program,
    segments_of,
    slow_but,
    task_inputs,
    variables_of,
)

from bert_zoo.models import cores

TOLERANCE = 1e-5
TASKS = [task for task in TASK_CASES if task != "encoder"]


@pytest.fixture
def share(monkeypatch):
    """Sets the number of cores for this test; their threads are left alone."""
    return lambda number: monkeypatch.setattr(cores, "_cores", number)


def rows(inputs, number: int):
    return {name: tf.constant(value[:number]) for name, value in inputs.items()}


@pytest.mark.parametrize("task", slow_but(TASKS, "classification", "pretraining", "embedding"))
def test_shares_of_a_batch_give_what_the_batch_gives(task, share):
    model, inputs = loaded_task(task), task_inputs(task)
    total = len(inputs["token_ids"])
    # Rows that divide among cores, that do not, and fewer than cores.
    for number, number_of_cores in ((total, 2), (total - 1, 3), (1, 2)):
        batch = rows(inputs, number)
        expected = model(batch)
        share(number_of_cores)
        assert_same(tf.function(lambda batch: model(batch))(batch), expected, TOLERANCE)
        share(1)


def test_a_graph_for_any_number_of_rows_is_shared_too(share):
    model, inputs = loaded_task("classification"), task_inputs("classification")
    spec = {name: tf.TensorSpec([None, None], value.dtype) for name, value in inputs.items()}
    expected = model(inputs)
    share(2)
    graph = tf.function(lambda batch: model(batch)).get_concrete_function(spec)
    assert_same(graph(rows(inputs, None)), expected, TOLERANCE)


@pytest.mark.parametrize("task", ["classification", "masked_lm"])
def test_each_share_is_a_pass_of_its_own(task, share, monkeypatch):
    model, inputs = load_task(task), task_inputs(task)
    seen, run = [], model.head_outputs

    def counted(*args):
        seen.append(args[1]["token_ids"].shape[0])
        return run(*args)

    monkeypatch.setattr(model, "head_outputs", counted)
    share(2)
    batch = rows(inputs, 3)
    tf.function(lambda: model(batch))()
    model(batch)  # eager operations would run one after the other anyway
    assert len(seen) == 3 and seen[-1] == 3


def test_a_memory_is_shared_with_the_rows(share, monkeypatch):
    segments = segments_of(recurrent_arrays("hf_adaptive"), "token_ids")
    model = load_recurrent("hf_adaptive", "causal_lm")
    # As many rows as layers, of which a memory has one each.
    number = model.encoder.config.num_layers
    segments = [{"token_ids": segment["token_ids"][:number]} for segment in segments]
    assert len(segments[0]["token_ids"]) == number > 1
    expected = carried(model, segments)
    seen = []
    run = model.head_outputs
    monkeypatch.setattr(model, "head_outputs", lambda *args: seen.append(args) or run(*args))
    share(2)
    shared = carried(tf.function(lambda inputs: model(inputs)), segments)
    assert len(seen) == 2 * 2  # two shares, in the graph without a memory and in that with one
    for ours, theirs in zip(shared, expected, strict=True):
        assert_same(ours, theirs, TOLERANCE)


@pytest.mark.parametrize("jit_compile", slow_but([False, True], False))
def test_training_with_shares_gives_the_same_weights(share, jit_compile):
    inputs, loss = task_inputs("classification"), keras.losses.SparseCategoricalCrossentropy(True)
    labels = np.arange(len(inputs["token_ids"])) % 2
    results = []
    for number in (1, 2):
        share(number)
        model = load_task("classification", dropout=0.0)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=jit_compile)
        options = {"batch_size": len(labels), "epochs": 3, "shuffle": False, "verbose": 0}
        losses = model.fit(inputs, labels, **options).history["loss"]
        results.append({"losses": losses, **variables_of(model)})
    assert_same(*results, TOLERANCE)
    assert max(losses) - min(losses) > 1e-4


def test_dropout_draws_for_every_share(share):
    model, inputs = load_task("embedding", dropout=0.5), task_inputs("embedding")
    share(2)
    same = {name: np.repeat(value[:1], 2, axis=0) for name, value in inputs.items()}
    outputs = tf.function(lambda: model(rows(same, 2), training=True))()
    first, second = flat(outputs)[""]
    assert np.abs(first - second).max() > 1e-3


# ---------------------------------------------------------------------------------------------
# Threads
# ---------------------------------------------------------------------------------------------

BEFORE_TENSORFLOW = """
import tensorflow as tf
from bert_zoo.training import use_cores
use_cores(3)
threads = tf.config.threading
assert threads.get_intra_op_parallelism_threads() == 1
assert threads.get_inter_op_parallelism_threads() == 3
tf.constant(1)
try:
    use_cores(2)
except RuntimeError as error:
    print(error)
"""


def test_threads_are_set_before_tensorflow_begins():
    said = run_program("-c", BEFORE_TENSORFLOW)
    assert "Call use_cores() first, before loading a model." in said
    for number in (0, 2.0, True):
        assert_refused(lambda: cores.use_cores(number), "it must be a whole number of at least 1")  # noqa: B023


PAGES_OF_EACH_ROUND = """
import json, resource
from bert_zoo.training import use_cores

use_cores(2)
pages = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
for _ in range(4):
    tensors = [b"x" * 200_000 for _ in range(100)]
    del tensors
    pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(json.dumps([after - before for before, after in zip(pages, pages[1:])]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Other systems' malloc has no such options.")
def test_memory_of_small_tensors_is_kept_for_the_next_step():
    first, *later = json.loads(run_program("-c", PAGES_OF_EACH_ROUND))
    assert max(later) < 0.1 * first
