"""The stack of today's encoders against the formulas of its switches, written in NumPy in double precision."""

import math
from dataclasses import dataclass

import keras
import numpy as np
import pytest
from helpers import assert_refused, refusals

from bert_zoo.config import ConfigError
from bert_zoo.families import encoder_stack
from bert_zoo.families.encoder_stack import (
    StackConfig,
    rope_settings,
    written_rope,
)
from bert_zoo.families.jina_bert_v2.family import swapped_halves
from bert_zoo.families.roformer import rotating_pairs
from bert_zoo.layers import attention
from bert_zoo.layers.common import FIRST
from bert_zoo.layers.encoder_stack import alibi_slopes, rotations
from bert_zoo.weights.bind import named_variables

SIZES = {"vocab_size": 20, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "pad_id": 0}
SIZES |= {"intermediate_size": 24, "max_positions": 64, "num_segments": 0, "pooler": False}
SIZES |= {"layer_norm_epsilon": 1e-5, "initializer_range": 0.3}
MODERN = {"norm": "rms", "norm_before": True, "norm_bias": False, "embeddings_norm": False}
MODERN |= {"final_norm": True, "gated": True, "attention_bias": False, "mlp_bias": False}
MODERN |= {"attention_output_bias": False, "mlp_output_bias": False, "activation": "silu"}
# The switches of families, and some that none has.
SWITCHES = {
    "post_norm_rotary": {"rope_theta": 50.0, "gated": True},
    "scaled": {"rope_theta": 500.0, "rope_factor": 2.5},
    "alibi": {"positions": "alibi", "gated": True, "mlp_bias": False},
    "alibi_odd_heads": {"positions": "alibi", "num_heads": 6, "hidden_size": 24},
    "alibi_norms_of_queries": {"positions": "alibi", "query_norm": True},
    "modern": MODERN,
    "grouped": MODERN | {"key_heads": 2, "head_size": 6},
    "one_key_head_with_bias": MODERN | {"key_heads": 1, "attention_bias": True},
    "pre_norm_with_segments": {"norm_before": True, "final_norm": True, "num_segments": 2},
}


def made(**changes):
    """A backbone with random weights, biases and norms too."""
    switches = {
        name: value for name, value in changes.items() if name not in SIZES | {"activation": 0}
    }
    config_class = dataclass(frozen=True, kw_only=True)(type("Switched", (StackConfig,), switches))
    fields = {name: value for name, value in changes.items() if name not in switches}
    backbone = encoder_stack.backbone(config_class(**{**SIZES, **fields}), "float32")
    backbone.build((None, None))
    generator = np.random.default_rng(0)
    for variable in backbone.weights:
        variable.assign(variable + generator.normal(size=variable.shape, scale=0.2))
    return backbone


def rows(lengths=(9, 6, 1), longest=9):
    ids = np.random.default_rng(1).integers(1, 20, (len(lengths), longest)).astype("int32")
    mask = (np.arange(longest) < np.array(lengths)[:, None]).astype("int32")
    return {"token_ids": ids * mask, "padding_mask": mask}


# --- The same in NumPy ---------------------------------------------------------------------------

ACTIVATE = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}


def reference(backbone, token_ids, padding_mask):
    """The last hidden states of each row's tokens, one row at a time, without padding."""
    weights = {k: np.asarray(v, np.float64) for k, v in named_variables(backbone).items()}
    return [
        of_row(backbone.config, weights, ids[: mask.sum()])
        for ids, mask in zip(token_ids, padding_mask, strict=True)
    ]


def of_row(config, weights, ids):
    def linear(x, path):
        return x @ weights[f"{path}/kernel"] + weights.get(f"{path}/bias", 0)

    def norm(x, path, kind=config.norm):
        x = x - x.mean(-1, keepdims=True) if kind == "layer" else x
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config.layer_norm_epsilon)
        return x * weights[f"{path}/gamma"] + weights.get(f"{path}/beta", 0)

    def rotate(x):
        half = x.shape[-1] // 2
        turns = np.arange(len(ids))[:, None] * config.rope_theta ** (-np.arange(half) / half)
        numbers = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * turns / config.rope_factor)
        return np.concatenate([numbers.real, numbers.imag], -1)

    def attend(x, path):
        width, heads, shared = config.width_of_head, config.num_heads, config.num_key_heads
        q, k, v = np.split(linear(x, f"{path}/qkv"), np.cumsum([heads * width, shared * width]), -1)
        if config.query_norm:
            q = norm(q, f"{path}/query_norm", "layer")
            k = norm(k, f"{path}/key_norm", "layer")
        by_head = [np.split(part, part.shape[-1] // width, -1) for part in (q, k, v)]
        outputs = []
        for head in range(heads):
            q, (k, v) = by_head[0][head], (part[head * shared // heads] for part in by_head[1:])
            if config.positions == "rotary":
                q, k = rotate(q), rotate(k)
            scores = q @ k.T / math.sqrt(width)
            if config.positions == "alibi":
                places = np.arange(len(ids))
                scores -= alibi_slopes(heads)[head] * abs(places[:, None] - places)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            outputs.append(shares / shares.sum(-1, keepdims=True) @ v)
        return linear(np.concatenate(outputs, -1), f"{path}/output")

    def feed(x, path):
        inner = linear(x, f"{path}/intermediate")
        if not config.gated:
            return linear(ACTIVATE[config.activation](inner), f"{path}/output")
        active, gate = np.split(inner, 2, -1)
        return linear(ACTIVATE[config.activation](active) * gate, f"{path}/output")

    x = weights["embeddings/token_embedding/embeddings"][ids]
    if config.num_segments:
        x = x + weights["embeddings/segment_embedding/embeddings"][0]
    x = norm(x, "embeddings/norm", "layer") if config.embeddings_norm else x
    for i in range(config.num_layers):
        layer = f"stack/layer_{i}"
        for compute, path, normed in (
            (attend, f"{layer}/attention", f"{layer}/attention_norm"),
            (feed, f"{layer}/feed_forward", f"{layer}/output_norm"),
        ):
            if config.norm_before:
                x = x + compute(norm(x, normed), path)
            else:
                x = norm(x + compute(x, path), normed)
    return norm(x, "final_norm") if config.final_norm else x


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_it_computes_what_its_switches_say(switches):
    backbone, inputs = made(**switches), rows()
    found = keras.ops.convert_to_numpy(backbone(inputs)["sequence_output"])
    assert np.isfinite(found).all()
    for row, expected in zip(found, reference(backbone, **inputs), strict=True):
        np.testing.assert_allclose(row[: len(expected)], expected, atol=1e-5)


@pytest.mark.parametrize("positions", [None, FIRST, np.array([[0, 5], [0, 3], [0, 0]], "int32")])
def test_alibi_in_parts_is_alibi_at_once(positions, monkeypatch):
    backbone, inputs = made(**SWITCHES["alibi"]), rows()
    found = []
    for queries in (1024, 4):
        monkeypatch.setattr(attention, "QUERIES_AT_ONCE", queries)
        found.append(backbone(inputs, positions=positions)["sequence_output"])
    np.testing.assert_allclose(*found, atol=1e-5)


@pytest.mark.parametrize("name", ["alibi", "grouped", "post_norm_rotary"])
def test_documents_of_a_row_are_encoded_as_if_alone(name):
    backbone, inputs = made(**SWITCHES[name]), rows((9, 6))
    apart = reference(backbone, **inputs)
    ids = np.concatenate([inputs["token_ids"][0], inputs["token_ids"][1, :6], [0]])[None]
    documents = np.repeat([1, 2, 0], [9, 6, 1])[None]
    joint = {"token_ids": ids, "document_ids": documents, "padding_mask": (documents > 0) * 1}
    found = backbone({k: v.astype("int32") for k, v in joint.items()})["sequence_output"][0]
    np.testing.assert_allclose(found[:15], np.concatenate(apart), atol=1e-5)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_row_of_padding_stays_finite_and_changes_nothing(name):
    backbone, inputs = made(**SWITCHES[name]), rows((9, 0, 4))
    found = keras.ops.convert_to_numpy(backbone(inputs)["sequence_output"])
    assert np.isfinite(found).all()
    first = {name: ids[:1] for name, ids in inputs.items()}
    np.testing.assert_allclose(found[0], reference(backbone, **first)[0], atol=1e-5)


def test_slopes_of_twelve_heads_are_eight_and_those_halfway_between():
    exponents = [*range(1, 9), 0.5, 1.5, 2.5, 3.5]
    np.testing.assert_allclose(alibi_slopes(12), 2.0 ** -np.array(exponents), rtol=1e-6)
    np.testing.assert_allclose(alibi_slopes(4), [1 / 4, 1 / 16, 1 / 64, 1 / 256])


def test_positions_far_beyond_training_turn_exactly_in_float16():
    cosines, _ = rotations(np.array([[8000]]), 64, 10_000.0, "float16")
    exact = np.cos(8000 / 10_000 ** (np.arange(0, 64, 2) / 64))
    np.testing.assert_allclose(np.ravel(cosines), exact, atol=2e-3)


# --- Other orders of weights ---------------------------------------------------------------------


def test_pairs_beside_each_other_become_halves():
    config = made(**SWITCHES["grouped"]).config  # four heads of queries, two of keys, six wide
    order = rotating_pairs(config)
    assert [*order[:6]] == [0, 2, 4, 1, 3, 5] and [*order[6:12]] == [6, 8, 10, 7, 9, 11]
    assert [*order[36:]] == [*range(36, 48)], "values do not rotate"
    assert sorted(order) == [*range(48)]


def test_a_score_is_the_same_in_either_order():
    generator = np.random.default_rng(2)
    query, key = generator.normal(size=(2, 6))
    within, turns = [0, 2, 4, 1, 3, 5], np.exp(1j * np.array([1.0, 0.3, 0.1]))

    def beside(x, position):
        return (x[0::2] + 1j * x[1::2]) * turns**position

    def halves(x, position):
        return (x[within][:3] + 1j * x[within][3:]) * turns**position

    scores = [np.vdot(turn(query, 5), turn(key, 2)).real for turn in (beside, halves)]
    assert scores[0] == pytest.approx(scores[1])


def test_the_half_that_is_activated_comes_first():
    config = made(intermediate_size=3).config
    assert [*swapped_halves(config)] == [3, 4, 5, 0, 1, 2]


# --- Configuration files -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "theta", "factor"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, 7.0, None),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 7.0, "factor": 2.0}}, 7.0, 2.0),
        ({"rope_theta": 7.0, "rope_scaling": None}, 7.0, None),
        ({"rope_theta": 7.0, "rope_scaling": {"type": "linear", "factor": 2.0}}, 7.0, 2.0),
    ],
)
def test_keys_of_rotary_positions_are_read(written, theta, factor):
    found = rope_settings(written)
    assert found["rope_theta"] == theta and found.get("rope_factor") == factor
    again = written_rope({"rope_theta": theta, "rope_factor": factor or 1.0})
    assert rope_settings(again) == found


@refusals(
    (lambda: rope_settings({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}), "'yarn'"),
    (lambda: rope_settings({"rope_scaling": {"type": "ntk", "factor": 8.0}}), "'ntk'"),
    (lambda: rope_settings({"rope_parameters": {"partial_rotary_factor": 0.5}}), "only the types"),
    (lambda: rope_settings({"rope_parameters": {"new": 1}}), "new"),
    (lambda: made(key_heads=3), "num_heads 4 is not a multiple of key_heads 3"),
    (lambda: made(head_size=5), "5 wide | even"),
)
def test_what_cannot_be_computed_is_refused(call, words):
    assert_refused(call, words, ConfigError)
