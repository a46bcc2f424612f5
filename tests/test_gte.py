"""GTE as its authors' code writes it, against NumPy in float64: packed tensors, prefixes, NTK scaling."""

import json
import math

import numpy as np
import pytest
from helpers import TOLERANCE, assert_refused, refusals

import bert_zoo
from bert_zoo.registry import registry
from bert_zoo.weights.safetensors_io import write_safetensors

# The keys of gte-multilingual-base's config.json, with small sizes.
RELEASED = {
    **{"model_type": "new", "architectures": ["NewModel"], "auto_map": {"AutoModel": "x"}},
    **{"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 40},
    **{"intermediate_size": 24, "hidden_act": "gelu", "type_vocab_size": 2, "pad_token_id": 0},
    **{"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12},
    **{"max_position_embeddings": 8192, "position_embedding_type": "rope", "rope_theta": 20000},
    **{"rope_scaling": {"factor": 8.0, "type": "ntk"}, "layer_norm_type": "layer_norm"},
    **{"logn_attention_scale": False, "logn_attention_clip1": False, "pack_qkv": True},
    **{"unpad_inputs": "true", "use_memory_efficient_attention": "true"},
    **{"classifier_dropout": 0.0, "initializer_range": 0.02, "torch_dtype": "float16"},
}
SIZE, INNER, HEADS, EPSILON = 32, 24, 4, 1e-12


def released_tensors(segments: int) -> dict[str, np.ndarray]:
    """Random tensors by the names of the authors' encoder without a head."""
    shapes = {"embeddings.word_embeddings.weight": (40, SIZE)}
    if segments:
        shapes["embeddings.token_type_embeddings.weight"] = (segments, SIZE)
    for i in range(2):
        for name, rows, columns in (
            ("attention.qkv_proj", 3 * SIZE, SIZE),
            ("attention.o_proj", SIZE, SIZE),
            ("mlp.up_gate_proj", 2 * INNER, SIZE),
            ("mlp.down_proj", SIZE, INNER),
        ):
            shapes[f"encoder.layer.{i}.{name}.weight"] = (rows, columns)
            if "up_gate" not in name:
                shapes[f"encoder.layer.{i}.{name}.bias"] = (rows,)
    norms = [f"encoder.layer.{i}.{name}_ln" for i in range(2) for name in ("attn", "mlp")]
    for name in ("embeddings.LayerNorm", *norms):
        shapes |= {f"{name}.{part}": (SIZE,) for part in ("weight", "bias")}
    rng = np.random.default_rng(len(shapes))
    return {
        name: rng.normal(("_ln.w" in name or "Norm.w" in name), 0.25, shape).astype("float32")
        for name, shape in shapes.items()
    }


def normed(x, tensors, name):
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
    return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def encoded(tensors, inputs, theta: float, scaling: float | None = None) -> np.ndarray:
    """What the authors' code computes: each frequency of `theta` times `scaling`, divided by `scaling` ^ (2 / width)."""
    tensors = {name: tensor.astype("float64") for name, tensor in tensors.items()}
    x = tensors["embeddings.word_embeddings.weight"][inputs["token_ids"]]
    if "embeddings.token_type_embeddings.weight" in tensors:
        x = x + tensors["embeddings.token_type_embeddings.weight"][inputs["segment_ids"]]
    x = normed(x, tensors, "embeddings.LayerNorm")
    batch, length = inputs["token_ids"].shape
    width = SIZE // HEADS
    s = scaling or 1.0
    frequencies = (theta * s) ** (-np.arange(0, width, 2) / width) / s ** (2 / width)
    angles = np.arange(length)[:, None] * np.tile(frequencies, 2)

    def rotated(heads):  # [batch, heads, length, width]
        first, second = np.split(heads, 2, axis=-1)
        turned = np.concatenate([-second, first], axis=-1)
        return heads * np.cos(angles) + turned * np.sin(angles)

    for i in range(2):
        layer = f"encoder.layer.{i}."

        def linear(x, name, layer=layer):
            return x @ tensors[f"{layer}{name}.weight"].T + tensors.get(f"{layer}{name}.bias", 0.0)

        parts = np.split(linear(x, "attention.qkv_proj"), 3, axis=-1)
        q, k, v = (p.reshape(batch, length, HEADS, width).transpose(0, 2, 1, 3) for p in parts)
        scores = rotated(q) @ rotated(k).transpose(0, 1, 3, 2) / math.sqrt(width)
        scores = np.where(inputs["padding_mask"][:, None, None] == 1, scores, -1e30)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        context = context.transpose(0, 2, 1, 3).reshape(batch, length, SIZE)
        x = normed(x + linear(context, "attention.o_proj"), tensors, f"{layer}attn_ln")
        up, gate = np.split(linear(x, "mlp.up_gate_proj"), 2, axis=-1)
        x = normed(x + linear(up * gelu(gate), "mlp.down_proj"), tensors, f"{layer}mlp_ln")
    return x


def made_inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 40, (3, 19)).astype("int32")
    mask = (np.arange(19) < np.array([[19], [11], [4]])).astype("int32")
    return {
        "token_ids": ids * mask,
        "segment_ids": (np.arange(19) > 6).astype("int32") * mask,
        "padding_mask": mask,
    }


def write(directory, tensors, **changes):
    directory.mkdir()
    write_safetensors(directory / "model.safetensors", tensors, {"format": "pt"})
    (directory / "config.json").write_text(json.dumps(RELEASED | changes))
    return directory


@pytest.mark.parametrize(
    ("segments", "changes", "theta", "scaling"),
    [
        (2, {}, 20_000, 8.0),
        (0, {"rope_theta": 500_000, "rope_scaling": {"type": "ntk", "factor": 2.0}}, 500_000, 2.0),
        # As snowflake-arctic-embed-m-v2.0.
        (2, {"model_type": "gte", "rope_theta": 160_000, "rope_scaling": None}, 160_000, None),
    ],
)
def test_released_embedders_equal_numpy(segments, changes, theta, scaling, tmp_path):
    tensors, inputs = released_tensors(segments), made_inputs()
    changes = {"type_vocab_size": segments, **changes}
    encoder = bert_zoo.load(write(tmp_path / "model", tensors, **changes))
    if not segments:
        del inputs["segment_ids"]
    found = np.array(encoder(inputs)["sequence_output"])
    real = inputs["padding_mask"] == 1
    expected = encoded(tensors, inputs, theta, scaling)
    np.testing.assert_allclose(found[real], expected[real], atol=TOLERANCE)
    if scaling:
        without = encoded(tensors, inputs, theta)
        assert np.abs(found[real] - without[real]).max() > 1e-2


def test_a_released_reranker_equals_numpy(tmp_path):
    tensors, inputs, rng = released_tensors(2), made_inputs(), np.random.default_rng(1)
    head = {
        name: rng.normal(0, 0.25, shape).astype("float32")
        for name, shape in {
            "new.pooler.dense.weight": (SIZE, SIZE),
            "new.pooler.dense.bias": (SIZE,),
            "classifier.weight": (1, SIZE),
            "classifier.bias": (1,),
        }.items()
    }
    stored = {f"new.{name}": tensor for name, tensor in tensors.items()} | head
    labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    classes = ["NewForSequenceClassification"]
    directory = write(tmp_path / "model", stored, architectures=classes, **labels)
    first = encoded(tensors, inputs, 20_000, 8.0)[:, 0]
    pooled = np.tanh(first @ head["new.pooler.dense.weight"].T + head["new.pooler.dense.bias"])
    expected = pooled @ head["classifier.weight"].T + head["classifier.bias"]
    found = np.array(bert_zoo.load(directory, "reranking")(inputs))
    np.testing.assert_allclose(found.reshape(-1), expected.reshape(-1), atol=TOLERANCE)


def test_apart_tensors_of_the_authors_code_are_read(tmp_path):
    """Their `pack_qkv` false."""
    tensors, inputs = released_tensors(2), made_inputs()
    apart = {name: tensor for name, tensor in tensors.items() if "qkv_proj" not in name}
    for name in tensors.keys() - apart.keys():
        parts = np.split(tensors[name], 3)
        apart |= {
            name.replace("qkv", part): values for part, values in zip("qkv", parts, strict=True)
        }
    models = [
        bert_zoo.load(write(tmp_path / "packed", tensors)),
        bert_zoo.load(write(tmp_path / "apart", apart, pack_qkv=False)),
    ]
    one, other = (np.array(model(inputs)["sequence_output"]) for model in models)
    np.testing.assert_array_equal(one, other)


def config_of(**changes):
    codec = registry().families["gte"].formats["hf"].codec
    return codec.decode(RELEASED | changes, where="config.json")


def test_every_frequency_is_scaled():
    config = config_of(hidden_size=128, num_attention_heads=2)
    assert config.rope_theta == 160_000
    np.testing.assert_allclose(1 / config.rope_factor, 0.93708, atol=1e-5)
    checkpoint = registry().families["multilingual_gte"].checkpoints[0]
    assert checkpoint.config["rope_factor"] == config.rope_factor


MIXED = {"type": "ntk", "factor": 8.0, "mixed_b": 0.5}


@refusals(
    (lambda: config_of(logn_attention_scale=True), "logn_attention_scale is True"),
    (
        lambda: config_of(position_embedding_type="absolute"),
        "position_embedding_type is 'absolute'",
    ),
    (lambda: config_of(layer_norm_type="rms_norm"), "layer_norm_type is 'rms_norm'"),
    (lambda: config_of(rope_scaling=MIXED), "no mixed_b"),
    (lambda: config_of(rope_scaling={"type": "ntk", "factor": None}), "a positive factor"),
    (lambda: config_of(rope_scaling={"type": "yarn", "factor": 2.0}), "only the types"),
    (lambda: config_of(unheard_of=1), "unheard_of"),
)
def test_other_architectures_are_refused(call, words):
    assert_refused(call, words)
