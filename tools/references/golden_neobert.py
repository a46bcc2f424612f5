"""Makes the golden checkpoints of NeoBERT, and what its published equations give for them, in float64.

transformers has no class for it. The reference below is written from the paper and the layout of the released file, row
by row and head by head, with complex numbers for rotary positions; what stands for padding attends to the text. It needs NumPy and safetensors alone:

    python tools/references/golden_neobert.py
"""

import json
import math
import pathlib
import shutil

import numpy as np
from safetensors.numpy import save_file

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
CONFIG = {
    "architectures": ["NeoBERTLMHead"],
    "classifier_init_range": 0.02,
    "decoder_init_range": 0.02,
    "dim_head": 8,
    "embedding_init_range": 0.02,
    "hidden_size": 32,
    "intermediate_size": 60,  # 40 in the file
    "kwargs": {"trust_remote_code": True},
    "max_length": 40,
    "model_type": "neobert",
    "norm_eps": 1e-05,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "vocab_size": 0,
}
LABELS = ("negative", "neutral", "positive")
LENGTHS = (16, 11, 6, 3)


def shapes(config: dict, task: str) -> dict[str, tuple[int, ...]]:
    width, words = config["hidden_size"], config["vocab_size"]
    inner = 8 * math.ceil(int(2 * config["intermediate_size"] / 3) / 8)
    of_layer = {
        "qkv": (3 * width, width),
        "wo": (width, width),
        "ffn.w12": (2 * inner, width),
        "ffn.w3": (width, inner),
        "attention_norm": (width,),
        "ffn_norm": (width,),
    }
    found = {"encoder.weight": (words, width), "layer_norm.weight": (width,)}
    for i in range(config["num_hidden_layers"]):
        found |= {f"transformer_encoder.{i}.{n}.weight": shape for n, shape in of_layer.items()}
    classes = 1 if task == "regression" else len(LABELS)
    if task == "encoder":
        return found
    found = {f"model.{name}": shape for name, shape in found.items()}
    if task == "masked_lm":
        return found | {"decoder.weight": (words, width), "decoder.bias": (words,)}
    heads = {"dense": (width, width), "classifier": (classes, width)}
    for name, shape in heads.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found


def rms(x, weight, epsilon: float):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight


def turned(x):
    """[tokens, size]: numbers 2i and 2i + 1 are the parts of a complex number, which each position turns further."""
    size = x.shape[-1]
    turns = np.arange(len(x))[:, None] * 10_000.0 ** (-2 * np.arange(size // 2) / size)
    complex_ = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * turns)
    return np.stack([complex_.real, complex_.imag], -1).reshape(x.shape)


def encode(ids, mask, tensors: dict, config: dict):
    """All hidden states [layers + 1, tokens, width] of a row's ids, and attention [layers, heads, tokens, tokens]."""
    epsilon, heads = config["norm_eps"], config["num_attention_heads"]
    x = tensors["encoder.weight"][ids]
    states, attentions = [x], []
    for i in range(config["num_hidden_layers"]):
        w = {n: tensors[f"transformer_encoder.{i}.{n}.weight"] for n in LAYER}
        # Each head's queries, keys and values stand one after the other.
        qkv = rms(x, w["attention_norm"], epsilon) @ w["qkv"].T
        seen, probabilities = [], []
        for head in np.split(qkv, heads, axis=1):
            query, key, value = np.split(head, 3, axis=1)
            scores = turned(query) @ turned(key).T / math.sqrt(query.shape[1])
            weights = np.exp(scores - scores.max(1, keepdims=True)) * mask
            weights /= weights.sum(1, keepdims=True)
            probabilities.append(weights)
            seen.append(weights @ value)
        x = x + np.concatenate(seen, 1) @ w["wo"].T
        gate, up = np.split(rms(x, w["ffn_norm"], epsilon) @ w["ffn.w12"].T, 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w["ffn.w3"].T
        states.append(x)
        attentions.append(probabilities)
    states[-1] = rms(x, tensors["layer_norm.weight"], epsilon)
    return np.stack(states), np.array(attentions)


LAYER = ("qkv", "wo", "ffn.w12", "ffn.w3", "attention_norm", "ffn_norm")


def outputs(inputs: dict, task: str, tensors: dict, config: dict) -> dict[str, np.ndarray]:
    """Names in io.npz -> values."""
    encoder = {name.removeprefix("model."): x for name, x in tensors.items()}
    rows = zip(inputs["token_ids"], inputs["padding_mask"], strict=True)
    found = [encode(ids, mask, encoder, config) for ids, mask in rows]
    states, attentions = (np.stack(of, axis=1) for of in zip(*found, strict=True))
    last = states[-1]
    if task == "encoder":
        return {"sequence_output": last, "hidden_states": states, "attentions": attentions}
    if task == "masked_lm":
        return {"logits": last @ tensors["decoder.weight"].T + tensors["decoder.bias"]}
    hidden = np.tanh(last[:, 0] @ tensors["dense.weight"].T + tensors["dense.bias"])
    return {"logits": hidden @ tensors["classifier.weight"].T + tensors["classifier.bias"]}


def make(name: str, task: str, **changes) -> None:
    rng = np.random.default_rng([*name.encode()])
    directory = GOLDEN / "neobert" / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "bert" / "encoder" / file, directory)
    words = len((directory / "vocab.txt").read_text().split())
    config = CONFIG | {"vocab_size": words} | changes
    if task == "encoder":
        config["architectures"] = ["NeoBERT"]
    if task in ("classification", "regression"):
        names = LABELS if task == "classification" else ("LABEL_0",)
        config |= {
            "architectures": ["NeoBERTForSequenceClassification"],
            "id2label": {str(i): label for i, label in enumerate(names)},
            "label2id": {label: i for i, label in enumerate(names)},
        }
    tensors = {
        key: rng.normal("norm" in key, 0.25, shape).astype(np.float32)
        for key, shape in shapes(config, task).items()
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file(tensors, directory / "model.safetensors")
    rows = [np.array([2, *rng.integers(5, words, length - 2), 3]) for length in LENGTHS]
    exact = {key: x.astype(np.float64) for key, x in tensors.items()}
    inputs = {
        "token_ids": np.stack([np.pad(row, (0, max(LENGTHS) - len(row))) for row in rows]),
        "padding_mask": np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None],
    }
    arrays = {key: value.astype(np.int32) for key, value in inputs.items()}
    found = outputs(inputs, task, exact, config)
    arrays |= {key: value.astype(np.float32) for key, value in found.items()}
    np.savez_compressed(directory / "io.npz", **arrays)


if __name__ == "__main__":
    make("encoder", "encoder")
    make("masked_lm", "masked_lm")
    make("classification", "classification")
    make("regression", "regression", intermediate_size=48, norm_eps=1e-2)
