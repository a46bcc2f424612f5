"""Adafactor and its schedule against the formulas of the original in plain NumPy, float64."""

import keras
import numpy as np
import pytest
from keras import ops

from bert_zoo.training import Adafactor, InverseSquareRootDecay, Recipe, optimizer_for

LARGE = {"kernel": (130, 140), "table": (200, 128), "gamma": (4,), "zeros": (150,)}
SMALL = {"bias_by_distance": (32, 4), "narrow": (300, 64)}
STEPS = 6


def original(values, gradients, rates, *, least=128):
    """tensorflow/mesh optimize.py, AdafactorOptimizer; factored where both sides are at least `least`."""
    values = {name: value.astype("float64") for name, value in values.items()}
    rows, columns, whole = (dict.fromkeys(values, 0.0) for _ in range(3))
    for step, (rate, of_step) in enumerate(zip(rates, gradients, strict=True)):
        decay = 1 - (step + 1.0) ** -0.8
        for name, gradient in of_step.items():
            gradient, value = gradient.astype("float64"), values[name]
            squared = gradient**2 + 1e-30
            if value.ndim == 2 and min(value.shape) >= least:
                rows[name] = decay * rows[name] + (1 - decay) * squared.mean(1)
                columns[name] = decay * columns[name] + (1 - decay) * squared.mean(0)
                second = np.outer(rows[name] / rows[name].mean(), columns[name])
            else:
                second = whole[name] = decay * whole[name] + (1 - decay) * squared
            update = gradient / np.sqrt(second)
            update = update / max(1.0, np.sqrt(np.mean(update**2)))
            scale = max(np.sqrt(np.mean(value**2)), 1e-3)
            values[name] = value - rate * scale * update
    return values


def trained(optimizer, values, gradients):
    variables = [keras.Variable(value, name=name) for name, value in values.items()]
    for of_step in gradients:
        optimizer.apply([ops.convert_to_tensor(g) for g in of_step.values()], variables)
    return dict(zip(values, map(ops.convert_to_numpy, variables), strict=True))


def drawn(shapes, steps=STEPS):
    random = np.random.default_rng(3)
    values = {n: random.normal(size=s).astype("float32") for n, s in shapes.items()}
    if "zeros" in values:
        values["zeros"] *= 0

    # Some rows and columns have larger gradients than others, and some steps.
    def gradient(shape, step):
        scale = 10.0**step
        of_columns = random.normal(size=shape) * np.exp(random.normal(size=shape[-1]))
        return (of_columns * scale).astype("float32")

    steps = range(steps)
    return values, [{n: gradient(s, step) for n, s in shapes.items()} for step in steps]


def assert_near(found, wanted):
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=2e-5, rtol=1e-4, err_msg=name)


def test_adafactor_equals_the_originals_formulas():
    values, gradients = drawn(LARGE)
    schedule = InverseSquareRootDecay(0.01, total_steps=STEPS, warmup_steps=3)
    rates = [float(schedule(step)) for step in range(STEPS)]
    found = trained(Adafactor(schedule), values, gradients)
    assert_near(found, original(values, gradients, rates))
    # A variable of zeros gets away from them.
    assert np.abs(found["zeros"]).max() > 1e-6


def test_what_keras_does_otherwise_is_what_the_docstring_says():
    # Small matrices are factored too.
    values, gradients = drawn(SMALL)
    found = trained(Adafactor(0.01), values, gradients)
    assert_near(found, original(values, gradients, [0.01] * STEPS, least=2))
    unfactored = original(values, gradients, [0.01] * STEPS)
    assert all(np.abs(found[name] - unfactored[name]).max() > 1e-3 for name in SMALL)
    # A rate is at most 1 / sqrt(step + 1), which that of the paper never exceeds.
    values, gradients = drawn({"gamma": (4,)})
    bounds = [(step + 1) ** -0.5 for step in range(STEPS)]
    assert_near(trained(Adafactor(2.0), values, gradients), original(values, gradients, bounds))
    steps = np.arange(0, 10**6, 997)
    assert (np.maximum(steps, 10_000) ** -0.5 <= (steps + 1) ** -0.5 * (1 + 1e-4)).all()
    # The second moment is kept, and its factors beside it.
    optimizer = Adafactor(0.01)
    optimizer.build([keras.Variable(np.zeros((130, 140), "float32"))])
    kept = sorted(tuple(v.shape) for v in optimizer.variables if len(v.shape))
    assert kept == [(130,), (130, 140), (140,)]


def test_the_schedule_is_the_papers():
    steps = {"total_steps": 2**19, "warmup_steps": 10_000, "learning_rate": 0.01}
    options = {"schedule": "inverse_sqrt", "weight_decay": 0.0, "clip_norm": None}
    optimizer = optimizer_for(Recipe(optimizer="adafactor", **steps, **options), 2**19)
    epsilons = (optimizer.epsilon_1, optimizer.epsilon_2)
    assert optimizer.clip_threshold == 1.0 and epsilons == (1e-30, 1e-3)
    assert (optimizer.beta_2_decay, optimizer.relative_step) == (-0.8, False)
    assert optimizer.weight_decay is optimizer.global_clipnorm is None
    for step in (0, 9_999, 10_000, 10_001, 40_000, 2**19):
        wanted = 1 / np.sqrt(max(step, 10_000))
        assert float(optimizer._learning_rate(step)) == pytest.approx(wanted, rel=1e-6)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is Adafactor and again.get_config() == optimizer.get_config()
    # Without warmup, it falls from the first step.
    assert float(InverseSquareRootDecay(1.0, 10, 0)(4)) == pytest.approx(0.5)


def test_an_update_of_several_batches_has_the_rate_of_its_number():
    values, gradients = drawn({"gamma": (4,)}, steps=4)
    halves = [{"gamma": part * g["gamma"]} for g in gradients for part in (0.5, 1.5)]
    schedule = InverseSquareRootDecay(0.5, total_steps=10, warmup_steps=1)
    found = trained(Adafactor(schedule, gradient_accumulation_steps=2), values, halves)
    rates = [0.5 / np.sqrt(max(step, 1)) for step in range(4)]
    assert_near(found, original(values, gradients, rates))


def test_adafactor_has_no_decay():
    with pytest.raises(ValueError, match=r"weight_decay is 0\.01, layer_decay is None"):
        Recipe(optimizer="adafactor")
    with pytest.raises(ValueError, match=r"layer_decay is 0\.8"):
        Recipe(optimizer="adafactor", weight_decay=0.0, layer_decay=0.8)


def test_a_tables_gradient_is_the_sum_over_its_tokens():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow's gradients have slices")
    import tensorflow as tf

    values, _ = drawn({"table": (9, 4)})
    random, ids = np.random.default_rng(0), np.array([5, 1, 5, 5])
    slices = [random.normal(size=(4, 4)).astype("float32") for _ in range(2)]
    variable = keras.Variable(values["table"], name="table")
    optimizer = Adafactor(0.01)
    for each in slices:
        optimizer.apply([tf.IndexedSlices(each, ids, tf.constant([9, 4]))], [variable])
    sums = [{"table": np.zeros((9, 4))} for _ in slices]
    for whole, each in zip(sums, slices, strict=True):
        np.add.at(whole["table"], ids, each)
    wanted = original(values, sums, [0.01] * 2, least=2)
    assert_near({"table": ops.convert_to_numpy(variable)}, wanted)
