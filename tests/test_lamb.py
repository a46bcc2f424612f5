"""LAMB against its formulas in plain NumPy, float64."""

import keras
import numpy as np
import pytest
from keras import ops

from bert_zoo.training import BertLamb, Recipe, WarmupThenLinearDecay, optimizer_for

TOLERANCE = 2e-5
SHAPES = {"kernel": (4, 3), "embeddings": (7, 4), "zeros": (3, 2), "bias": (3,), "gamma": (4,)}
STEPS = 8


def reference(values, gradients, rates, *, clip=None, decay=0.01, corrected=False, decay_all=False):
    """You et al. 2019, algorithm 2, as ALBERT's program has it: no correction, nothing but ratios."""
    values = {name: value.astype("float64") for name, value in values.items()}
    m, v = (dict.fromkeys(values, 0.0) for _ in range(2))
    for step, (rate, of_step) in enumerate(zip(rates, gradients, strict=True), start=1):
        norm = np.sqrt(sum(np.sum(np.square(g, dtype="float64")) for g in of_step.values()))
        scale = 1.0 if clip is None else clip / max(norm, clip)
        for name, gradient in of_step.items():
            gradient = scale * gradient.astype("float64")
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            first, second = m[name], v[name]
            if corrected:
                first, second = first / (1 - 0.9**step), second / (1 - 0.999**step)
            update = first / (np.sqrt(second) + 1e-6)
            ratio = 1.0
            if decay_all or name not in ("bias", "gamma"):
                update = update + decay * values[name]
                weight, length = np.linalg.norm(values[name]), np.linalg.norm(update)
                ratio = weight / length if weight > 0 and length > 0 else 1.0
            values[name] = values[name] - rate * ratio * update
    return values


@pytest.mark.parametrize(
    ("clip", "options"),
    [(None, {}), (1.0, {}), (None, {"bias_correction": True}), (0.5, {"decay_all": True})],
)
def test_lamb_equals_its_formulas(clip, options):
    random = np.random.default_rng(3)
    values = {n: random.normal(size=s).astype("float32") for n, s in SHAPES.items()}
    values["zeros"] *= 0
    gradients = [
        {n: random.normal(size=s).astype("float32") for n, s in SHAPES.items()}
        for _ in range(STEPS)
    ]
    schedule = WarmupThenLinearDecay(0.02, total_steps=STEPS, warmup_steps=3)
    optimizer = BertLamb(schedule, weight_decay=0.01, epsilon=1e-6, global_clipnorm=clip, **options)
    variables = [keras.Variable(value, name=name) for name, value in values.items()]
    rates = [float(schedule(step)) for step in range(STEPS)]
    for of_step in gradients:
        optimizer.apply([ops.convert_to_tensor(g) for g in of_step.values()], variables)
    options = {
        "corrected" if name == "bias_correction" else name: options[name] for name in options
    }
    wanted = reference(values, gradients, rates, clip=clip, **options)
    for variable, (name, value) in zip(variables, wanted.items(), strict=True):
        np.testing.assert_allclose(variable, value, atol=TOLERANCE, err_msg=name)


def test_lamb_is_chosen_by_a_recipe_and_survives_serialization():
    optimizer = optimizer_for(Recipe(optimizer="lamb", learning_rate=1e-3, clip_norm=None), 10)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is BertLamb
    assert again.get_config() == optimizer.get_config()
    with pytest.raises(
        ValueError, match="optimizer is 'sgd'; it must be one of \\['adamw', 'lamb', 'adafactor'\\]"
    ):
        Recipe(optimizer="sgd")
