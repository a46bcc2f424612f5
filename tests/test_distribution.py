"""Any number of replicas, in one process or several, trains as one device does."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from distributed_training import LABELLED
from helpers import (
    ONE_A_TASK,
    assert_refused,
    covering,
    family_of,
    full_name,
    load_recurrent,
    load_task,
    refusals,
    run_program,
    task_of,
    variables_of,
)

import bert_zoo
from bert_zoo.models import StatefulLM
from bert_zoo.models.data_adapters import with_whole_batches
from bert_zoo.tasks import streams
from bert_zoo.training import distribution, strategy

TESTS = Path(__file__).parent
PROGRAM = [sys.executable, str(TESTS / "distributed_training.py")]
# Of float32, where BertAdamW divides by small moments; logits of weights that differ by so much.
WEIGHTS, FIGURES = 2e-6, 5e-5


def start(arguments, **environment) -> subprocess.Popen:
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*processes: subprocess.Popen) -> list[str]:
    """Waits for processes, which must succeed, and returns their outputs."""
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output[-3000:]
    return outputs


def trained_together(case: str, directory: Path, environments, *options: str) -> dict:
    """Starts a process for each environment, and returns what the first writes; the others write nothing."""
    names = [f"{number}.npz" for number in range(len(environments))]
    finish(
        *(
            start([case, directory / name, "multi_worker", *options], **environment)
            for name, environment in zip(names, environments, strict=True)
        )
    )
    assert [path.name for path in directory.glob("[0-9].npz")] == names[:1]
    with np.load(directory / names[0]) as file:
        return dict(file)


def assert_same_training(
    one: dict[str, np.ndarray],
    other: dict[str, np.ndarray],
    weights: float = WEIGHTS,
    figures: float = FIGURES,
) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        # A perplexity of 58 has as many digits as a loss of 4.
        atol, rtol = (weights, 0) if name.startswith("weights/") else (figures, 1e-5)
        np.testing.assert_allclose(other[name], value, atol=atol, rtol=rtol, err_msg=name)


def assert_same_on_jax(tensorflow, jax) -> None:
    assert_same_training(tensorflow, jax, weights=1e-5, figures=1e-4)


def train(
    case: str, directory: Path, name: str, *options: str, **environment: str
) -> dict[str, np.ndarray]:
    path = directory / f"{name.replace(':', '_')}.npz"
    finish(start([case, path, name, *options], **environment))
    with np.load(path) as file:
        return dict(file)


# One checkpoint of each family; labels by token, by text and several a text, and two outputs.
CHOSEN = [
    "masked_lm",
    "multi_label_classification",
    "roberta/classification",
    "reranking",
    "albert/token_classification",
    "spanbert/squad",
    "transformer_xl/hf_plain",
]
FAMILIES = CHOSEN + [
    case
    for case in covering([case for case in ONE_A_TASK if task_of(case) in LABELLED], family_of)
    if family_of(case) not in {family_of(full_name(chosen)) for chosen in CHOSEN}
]
ON_JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed."
)


@pytest.mark.slow
@pytest.mark.parametrize("case", FAMILIES)
def test_two_and_four_replicas_of_every_family_train_as_one(case, tmp_path):
    one = train(case, tmp_path, "one")
    for name in ("cpu:2", "cpu:4"):
        assert_same_training(one, train(case, tmp_path, name))
    if case == CHOSEN[0]:
        assert_same_training(one, train(case, tmp_path, "one", "--several_steps"))
        one, two = (train(case, tmp_path, name, "--accumulate") for name in ("one", "cpu:2"))
        assert_same_training(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--mini_batches",), ("--scores",)])
def test_replicas_compare_the_texts_of_the_whole_batch(options, tmp_path):
    one, two = (train("encoder", tmp_path, name, "--pairs", *options) for name in ("one", "cpu:2"))
    assert_same_training(one, two)
    if "--mini_batches" in options:
        assert_same_training(one, train("encoder", tmp_path, "cpu:2", "--pairs"))


def test_several_steps_an_execution_are_refused_on_replicas(monkeypatch):
    model = load_task("classification")
    monkeypatch.setattr(type(model.distribute_strategy), "num_replicas_in_sync", 2)
    with pytest.raises(ValueError, match="steps_per_execution above 1 fails on 2 replicas"):
        model.compile("adam", "mse", steps_per_execution=2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_replicas_train_as_one_in_half_precision(dtype, tmp_path):
    one, two = (train("masked_lm", tmp_path, name, f"--dtype={dtype}") for name in ("one", "cpu:2"))
    # No output depends on the biases of keys: their gradients are rounding alone, and Adam makes
    # whole steps of it.
    for name in [name for name in one if name.endswith("qkv/bias")]:
        del one[name], two[name]
    # Eight bits of gradient, of which Adam makes steps of 5e-5, and of logits of 3 and less.
    assert_same_training(one, two, weights=3e-4, figures=0.1)
    np.testing.assert_allclose(two["losses"], one["losses"], atol=5e-3)


@needs_jax
@pytest.mark.slow
@pytest.mark.parametrize("case", FAMILIES)
def test_devices_of_jax_train_as_tensorflow_does(case, tmp_path):
    one = train(case, tmp_path, "one")
    # On three devices neither the batches nor the last one divide.
    for name in ("one", "cpu:2", "cpu:3"):
        assert_same_on_jax(one, train(case, tmp_path, name, **ON_JAX))
    if case == CHOSEN[0]:
        assert_same_on_jax(one, train(case, tmp_path, "cpu:2", "--several_steps", **ON_JAX))


@needs_jax
@pytest.mark.slow
@pytest.mark.parametrize("case", FAMILIES)
def test_a_model_divided_over_devices_of_jax_trains_as_a_whole_one(case, tmp_path):
    one = train(case, tmp_path, "one")
    assert_same_on_jax(one, train(case, tmp_path, "cpu:4", "--model_parallel", **ON_JAX))


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def worker_environments(number: int) -> list[dict[str, str]]:
    """TF_CONFIG of each of so many processes on this machine."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(number)]
    tasks = [{"type": "worker", "index": index} for index in range(number)]
    cluster = {"worker": workers}
    return [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks]


@pytest.mark.slow
def test_two_workers_train_as_one(tmp_path):
    alone = train("masked_lm", tmp_path, "one")
    together = trained_together("masked_lm", tmp_path, worker_environments(2))
    assert_same_training(alone, together)


@pytest.mark.slow
def test_a_memory_is_carried_on_replicas_and_workers_as_on_one_device(tmp_path):
    case = "transformer_xl/hf_plain"
    one = train(case, tmp_path, "one", "--stateful")
    assert np.abs(one["weights/training_memory/memory_0"]).max() > 0.1
    for name in ("cpu:2", "cpu:4"):
        assert_same_training(one, train(case, tmp_path, name, "--stateful"))
    together = trained_together(case, tmp_path, worker_environments(2), "--stateful")
    assert_same_training(one, together)


def test_batches_of_streams_divide_among_replicas(monkeypatch):
    monkeypatch.setattr(streams, "sharing_replicas", lambda: 2)
    words = "A batch of 3 streams cannot be split evenly across 2 replicas"
    assert_refused(lambda: StatefulLM(load_recurrent("hf_plain"), 4, 3), words)


DROPOUT = """
import numpy as np
import tensorflow as tf
import bert_zoo
from bert_zoo.layers import Dropout

strategy = bert_zoo.training.strategy("cpu:2")
with strategy.scope():
    layer = Dropout(0.5)
step = tf.function(lambda: strategy.run(lambda: layer(tf.ones([4, 64]), training=True)))
masks = [mask.numpy() for _ in range(2) for mask in strategy.experimental_local_results(step())]
for place, mask in enumerate(masks):
    assert set(np.unique(mask)) == {0, 2}
    for other in masks[:place]:
        assert 0.3 < np.mean(mask == other) < 0.7
"""


def test_every_replica_draws_dropout_masks_of_its_own():
    run_program("-c", DROPOUT)


MINI_BATCHES = """
import numpy as np
import tensorflow as tf
from helpers import load_case
import bert_zoo
from bert_zoo.models.gradient_cache import in_mini_batches

strategy = bert_zoo.training.strategy("cpu:2")
with strategy.scope():
    model = load_case("encoder", "embedding", dropout=0.3)
weights = {id(weight) for weight in model.weights}
states = [v for v in model.non_trainable_variables if id(v) not in weights]
start = [state.numpy() for state in states]
rows = {"token_ids": tf.reshape(tf.range(5, 21), [4, 4]), "padding_mask": tf.ones([4, 4], tf.int32)}
halves = [{name: value[half] for name, value in rows.items()} for half in (slice(2), slice(2, 4))]

def in_a_loop():
    return tf.concat([model(half, training=True) for half in halves], axis=0)

def read(rows):
    return model.call(rows, training=True)

def in_a_gradient_cache():
    return in_mini_batches(model, read, rows, 2, trims=True)

def step(vectors_of):
    values = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        vectors = vectors_of()
        loss = tf.reduce_sum(vectors * tf.cos(tf.reshape(tf.range(128.0), [4, 32])))
    gradients = tape.gradient(loss, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [vectors, *map(tf.convert_to_tensor, gradients), *[state.value for state in states]]

found = []
for way in (in_a_loop, in_a_gradient_cache):
    for state, value in zip(states, start, strict=True):
        state.assign(value)
    results = tf.function(lambda: strategy.run(step, [way]))()
    found.append([strategy.experimental_local_results(result) for result in results])
for loop, cache in zip(*found, strict=True):
    np.testing.assert_allclose(cache, loop, atol=1e-5, rtol=1e-5)
first, second = found[1][0]
assert np.abs(first - second).max() > 0.1
"""


@pytest.mark.slow
def test_mini_batches_of_a_replica_have_the_same_dropout_both_times_they_are_computed():
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    run_program("-c", MINI_BATCHES, PYTHONPATH=path)


@needs_jax
@pytest.mark.slow
def test_a_memory_lies_on_devices_of_jax_as_on_one_of_tensorflow(tmp_path):
    one = train("transformer_xl/hf_plain", tmp_path, "one", "--stateful")
    for name in ("one", "cpu:2"):
        found = train("transformer_xl/hf_plain", tmp_path, name, "--stateful", **ON_JAX)
        assert_same_on_jax(one, found)


def jax_environments(number: int, **more: str) -> list[dict[str, str]]:
    """What tells each of so many processes on this machine that it trains with the others."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(number))
    named = {"JOB_ADDRESSES": addresses, "NUM_PROCESSES": str(number)}
    named = {f"KERAS_DISTRIBUTION_{key}": value for key, value in named.items()}
    return [
        {**ON_JAX, **named, "KERAS_DISTRIBUTION_PROCESS_ID": str(index), **more}
        for index in range(number)
    ]


@needs_jax
@pytest.mark.slow
def test_two_processes_of_jax_train_as_tensorflow_does(tmp_path):
    one = train("masked_lm", tmp_path, "one")
    assert_same_on_jax(one, trained_together("masked_lm", tmp_path, jax_environments(2)))


@needs_jax
@pytest.mark.slow
def test_two_processes_of_jax_share_batches_and_divide_a_model_over_their_devices(tmp_path):
    one = train("masked_lm", tmp_path, "one")
    environments = jax_environments(2, JAX_NUM_CPU_DEVICES="2")
    together = trained_together("masked_lm", tmp_path, environments, "--model_parallel")
    assert_same_on_jax(one, together)


SETTINGS = """
    --task=table --held_out=5 --batch_size=8 --max_length=16 --bucket=8 --epochs=12 --learning_rate=1e-3
    --checkpoint_minutes=0 --noexport
""".split()


def finetuning(directory: Path, name: str, *options: str, **environment: str) -> subprocess.Popen:
    """Starts `bert_zoo finetune` on a table that it writes, in `directory`."""
    directory.mkdir(exist_ok=True)
    rows = ["positive\tgood one", "negative\tbad two", "neutral\tthree", "positive\tgood"] * 12
    (directory / "train.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n")
    flags = [f"--model={TESTS}/golden/bert/classification", f"--train_file={directory}/train.tsv"]
    flags += [f"--strategy={name}", f"--output_dir={directory}/run", *SETTINGS, *options]
    return subprocess.Popen(
        [sys.executable, "-m", "bert_zoo", "finetune", *flags],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def losses_of(directory: Path) -> list[float]:
    return json.loads((directory / "run" / "metrics.json").read_text())["loss"]


@pytest.mark.slow
def test_a_killed_worker_and_its_fellow_started_again_train_as_if_nothing_had_been(tmp_path):
    # With dropout, whose state goes on too.
    alone, together = tmp_path / "alone", tmp_path / "together"
    finish(*(finetuning(alone, "multi_worker", "--export", **e) for e in worker_environments(2)))
    assert (alone / "run" / "saved_model" / "saved_model.pb").exists()
    first, second = (finetuning(together, "multi_worker", **e) for e in worker_environments(2))
    progress = together / "run" / "checkpoint"
    while not list(progress.glob("step-00000000[2-9]*")):
        assert first.poll() is None, first.communicate()[0][-3000:]
        time.sleep(0.02)
    second.kill()
    first.communicate(timeout=300)  # it cannot go on alone
    assert first.returncode != 0
    assert not (together / "run" / "metrics.json").exists(), "The training was over too soon."
    finish(*(finetuning(together, "multi_worker", **e) for e in worker_environments(2)))
    assert len(losses_of(together)) == 12
    np.testing.assert_allclose(losses_of(together), losses_of(alone), rtol=1e-6)


def pretraining(directory: Path, name: str, **environment: str) -> subprocess.Popen:
    """Starts `bert_zoo pretrain` without dropout, on a text that it writes, in `directory`."""
    directory.mkdir(exist_ok=True)
    bert_zoo.save(load_task("masked_lm", dropout=0.0), directory / "start")
    lines = [f"Document {n} says that {n % 7} and {n % 5} are numbers." for n in range(60)]
    (directory / "text.txt").write_text("\n\n".join(f"{a}\n{a} Again." for a in lines))
    flags = f"""
        --model={directory}/start --text={directory}/text.txt --strategy={name} --steps=60 --length=16
        --batch_size=8 --learning_rate=1e-4 --checkpoint_minutes=0 --output_dir={directory}/run
    """
    return subprocess.Popen(
        [sys.executable, "-m", "bert_zoo", "pretrain", *flags.split()],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def pretrained(directory: Path) -> dict[str, np.ndarray]:
    return variables_of(bert_zoo.load(directory / "run" / "model", task="masked_lm"))


@pytest.mark.slow
def test_two_workers_of_which_one_was_killed_pretrain_as_one_process(tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    finish(pretraining(alone, "one"))
    first, second = (pretraining(together, "multi_worker", **e) for e in worker_environments(2))
    while not list((together / "run" / "checkpoint").glob("step-00000000[1-4]?*")):
        assert first.poll() is None, first.communicate()[0][-3000:]
        time.sleep(0.02)
    second.kill()
    first.communicate(timeout=300)
    assert first.returncode != 0
    assert not (together / "run" / "metrics.json").exists(), "The training was over too soon."
    finish(*(pretraining(together, "multi_worker", **e) for e in worker_environments(2)))
    one, other = pretrained(alone), pretrained(together)
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=WEIGHTS, err_msg=name)


@needs_jax
def test_what_jax_does_not_have_is_refused():
    program = """
import bert_zoo
for name, options, message in (
    ("tpu", {}, "JAX finds no TPU: it runs on cpu"),
    ("tpu:mine", {}, "cannot connect to 'mine'"),
    ("mirrored", {}, "JAX finds no GPU"),
    ("cpu:1", {"model_parallel": 2}, "model_parallel is 2, but the number of devices is 1"),
    ("multi_worker", {}, "JAX finds no processes to train with"),
):
    try:
        bert_zoo.training.strategy(name, **options)
    except ValueError as error:
        assert message in str(error), error
    else:
        raise AssertionError(name)
assert bert_zoo.training.strategy("auto").num_replicas_in_sync == 1
try:
    bert_zoo.training.strategy("cpu:2")
except RuntimeError as error:
    assert "cpu:2 divides the processor, but JAX is already using it" in str(error), error
else:
    raise AssertionError("cpu:2")
"""
    run_program("-c", program, **ON_JAX)


@needs_jax
@pytest.mark.slow
def test_the_tool_trains_on_jax(tmp_path):
    # Fresh weights of the head are drawn by the backend, so that losses are not TensorFlow's.
    options = ("--export", "--steps_per_execution=2")
    (output,) = finish(finetuning(tmp_path, "cpu:2", *options, **ON_JAX))
    losses = losses_of(tmp_path)
    assert len(losses) == 12 and losses[-1] < 0.1 < losses[0]
    assert "No SavedModel was written, because that needs Keras on TensorFlow" in output
    predictions = bert_zoo.load(tmp_path / "run" / "model").classify(["three", "good"])
    assert [answer.label for answer in predictions] == ["neutral", "positive"]


@refusals(
    (lambda: strategy("gpu"), "no strategy 'gpu'; choose auto, one, cpu:N, mirrored"),
    (lambda: strategy("cpu:0"), "no strategy 'cpu:0'"),
    (lambda: strategy("mirrored:2"), "no strategy 'mirrored:2'"),
    (lambda: strategy("mirrored"), "no GPU to mirror on"),
    (lambda: strategy("multi_worker"), "TF_CONFIG names no workers"),
    (lambda: strategy("cpu:7"), "cpu:7 divides the processor"),
    (lambda: strategy("one", model_parallel=2), "is 2, but Keras divides models only on JAX"),
    (lambda: strategy("one", model_parallel=0), "is 0; it must be a whole number of at least 1"),
)
def test_a_strategy_that_is_not_there_is_refused(call, words, monkeypatch):
    tf.zeros(())  # the processor has been used, and cannot be divided any more
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    assert_refused(call, words, (ValueError, RuntimeError))


def test_where_shapes_are_compiled_the_last_batch_is_filled_and_cut_again(monkeypatch):
    model = load_task("classification")
    texts = ["one", "two words", "three", "and four", "five"]
    expected = model.predict(texts, batch_size=4, verbose=0)
    ids = {name: value.numpy() for name, value in model.preprocessor(texts).items()}
    monkeypatch.setattr("bert_zoo.models.base.compiles_for_each_shape", lambda strategy: True)
    for data in (texts, tf.constant(texts), np.array(texts), ids):
        found = model.predict(data, batch_size=4, verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    rows = with_whole_batches(model, texts, 4)
    assert rows == ([*texts, "five", "five", "five"], 5)
    assert with_whole_batches(model, ids, 4)[0]["token_ids"].shape[0] == 8
    pair, number = with_whole_batches(model, (texts, texts[::-1]), 4)
    assert pair == ([*texts, *["five"] * 3], [*texts[::-1], *["one"] * 3]) and number == 5


@pytest.mark.parametrize(
    ("environment", "gpus", "expected"),
    [
        ({}, 0, "one"),
        ({}, 1, "one"),
        ({}, 2, "mirrored"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'}, 2, "multi_worker"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, 0, "one"),
        ({"TPU_NAME": "local"}, 0, "tpu"),
    ],
)
def test_auto_takes_what_is_at_hand(environment, gpus, expected, monkeypatch):
    for variable in ("TF_CONFIG", *distribution.TPU_VARIABLES):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [None] * gpus)
    made = []
    for kind in distribution.MAKERS:
        monkeypatch.setitem(distribution.MAKERS, kind, lambda *a, kind=kind: made.append(kind))
    strategy()
    assert made == [expected]


def test_xla_is_refused_under_tpu_strategy(monkeypatch):
    model = load_task("classification")
    monkeypatch.setattr("bert_zoo.models.base.is_on_tpu", lambda strategy: True)
    with pytest.raises(ValueError, match="jit_compile=True does not work under TPUStrategy"):
        model.compile("adam", "mse", jit_compile=True)
    model.compile("adam", "mse")
    assert model.jit_compile is False
