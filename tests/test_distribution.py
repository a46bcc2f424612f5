"""Any number of replicas, in one process or several, trains as one device does."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import load_recurrent, load_task

from bert_zoo.models import stateful
from bert_zoo.models.replicas import is_chief
from bert_zoo.training import distribution, strategy

TESTS = Path(__file__).parent
PROGRAM = [sys.executable, str(TESTS / "distributed_training.py")]
WEIGHTS, FIGURES = 1e-6, 5e-5  # of float32; logits of weights that differ by so much


def start(arguments, **environment) -> subprocess.Popen:
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen) -> None:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output[-3000:]


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


def train(
    case: str, directory: Path, name: str, *options: str, **environment: str
) -> dict[str, np.ndarray]:
    path = directory / f"{name.replace(':', '_')}.npz"
    finish(start([case, path, name, *options], **environment))
    with np.load(path) as file:
        return dict(file)


# One checkpoint of each family; labels by token and by text, and two outputs.
FAMILIES = [
    "masked_lm",
    "roberta/classification",
    "albert/token_classification",
    "spanbert/squad",
    "transformer_xl/hf_plain",
]


def test_two_replicas_train_as_one(tmp_path):
    one, two = (train("masked_lm", tmp_path, name) for name in ("one", "cpu:2"))
    assert_same_training(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("case", FAMILIES)
def test_two_and_four_replicas_of_every_family_train_as_one(case, tmp_path):
    one = train(case, tmp_path, "one")
    for name in ("cpu:2", "cpu:4"):
        assert_same_training(one, train(case, tmp_path, name))


@pytest.mark.slow
def test_replicas_accumulate_gradients_as_one_does(tmp_path):
    one, two = (train("masked_lm", tmp_path, name, "--accumulate") for name in ("one", "cpu:2"))
    assert_same_training(one, two)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed.")
@pytest.mark.parametrize("case", FAMILIES)
def test_one_and_two_devices_of_jax_train_as_tensorflow_does(case, tmp_path):
    one = train(case, tmp_path, "one")
    for number in (1, 2):
        devices = f"--xla_force_host_platform_device_count={number}"
        environment = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": devices}
        found = train(case, tmp_path, f"jax:{number}", **environment)
        assert_same_training(one, found, weights=1e-5, figures=1e-4)


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def test_two_workers_train_as_one(tmp_path):
    alone = train("masked_lm", tmp_path, "one")
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": workers}, "task": task})
        arguments = ["masked_lm", tmp_path / f"worker{index}.npz", "multi_worker"]
        processes.append(start(arguments, TF_CONFIG=config))
    for process in processes:
        finish(process)
    assert not (tmp_path / "worker1.npz").exists()
    with np.load(tmp_path / "worker0.npz") as chief:
        assert_same_training(alone, dict(chief))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "'gpu' is no strategy; there are auto, one, cpu:N, mirrored"),
        ("cpu:0", "'cpu:0' is no strategy"),
        ("mirrored:2", "'mirrored:2' is no strategy"),
        ("mirrored", "no GPU to mirror on"),
        ("multi_worker", "TF_CONFIG, which says nothing"),
    ],
)
def test_a_strategy_that_is_not_there_is_refused(name, message, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    with pytest.raises(ValueError, match=message):
        strategy(name)


def test_a_divided_processor_is_asked_for_before_all_else():
    tf.zeros(())
    with pytest.raises(RuntimeError, match="cpu:7 divides the processor"):
        strategy("cpu:7")


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


def test_a_memory_is_refused_on_several_replicas(monkeypatch):
    language_model = load_recurrent("hf_plain")
    monkeypatch.setattr(stateful, "num_replicas", lambda: 2)
    with pytest.raises(ValueError, match=r"StatefulLM's memory is one device's, .* 2 replicas"):
        stateful.StatefulLM(language_model, 2)


def test_one_process_is_its_own_chief():
    assert is_chief(strategy("one"))
    assert keras.backend.backend() == "tensorflow"
