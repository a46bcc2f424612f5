"""NomicBERT as its authors' code writes it: GPT-2's keys, packed tensors, fewer biases; and Nomic Embed's vectors."""

import json

import numpy as np
import pytest
from helpers import (
    ALL_GOLDEN,
    TEXTS,
    TOLERANCE,
    assert_refused,
    load_case,
    loaded,
    refusals,
    tensors_of,
)

import bert_zoo
from bert_zoo.config import Pooling
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.registry import registry
from bert_zoo.weights.safetensors_io import write_safetensors

GOLDEN = ALL_GOLDEN / "nomic_bert"
# The keys of nomic-embed-text-v1.5's config.json, with the sizes of the golden checkpoints.
RELEASED = {
    **{"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "auto_map": {"x": "y"}},
    **{"n_embd": 32, "n_head": 4, "n_inner": 48, "n_layer": 2, "n_positions": 8192},
    **{"layer_norm_epsilon": 1e-12, "activation_function": "swiglu", "vocab_size": 123},
    **{"rotary_emb_fraction": 1.0, "rotary_emb_base": 1000, "rotary_emb_interleaved": False},
    **{"rotary_emb_scale_base": None, "rotary_scaling_factor": None, "prenorm": False},
    **{"qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "causal": False},
    **{"max_trained_positions": 2048, "pad_vocab_size_multiple": 1, "type_vocab_size": 2},
    **{"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "initializer_range": 0.02},
    **{"parallel_block": False, "parallel_block_tied_norm": False, "use_rms_norm": False},
    **{"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "use_cache": True},
    **{"fused_bias_fc": True, "fused_dropout_add_ln": True, "use_flash_attn": True},
    **{"use_xentropy": True, "dense_seq_output": True, "reorder_and_upcast_attn": False},
    **{"summary_type": "cls_index", "summary_use_proj": True, "summary_activation": None},
    **{"summary_proj_to_labels": True, "summary_first_dropout": 0.0, "pad_token_id": 0},
    **{"bos_token_id": None, "eos_token_id": None, "tie_word_embeddings": True},
}
NAMES = {
    "embeddings.LayerNorm": "emb_ln",
    "layers.": "encoder.layers.",
    "self_attn.o_proj": "attn.out_proj",
    "mlp.up_proj": "mlp.fc11",
    "mlp.gate_proj": "mlp.fc12",
    "mlp.down_proj": "mlp.fc2",
    "post_attention_layernorm": "norm1",
    "post_mlp_layernorm": "norm2",
    "nomic_bert.": "bert.",
}
HEAD_BIASES = ("cls.predictions.bias", "cls.predictions.transform.dense.bias")


def authors_tensors(tensors) -> dict[str, np.ndarray]:
    """Tensors of transformers' class as the authors' code writes them: with padded layers and packed attention."""
    found = {}
    for key, tensor in tensors.items():
        for ours, theirs in NAMES.items():
            key = key.replace(ours, theirs)
        if ".mlp.fc1" in key or key.endswith("mlp.fc2.weight"):
            axis = int(".fc2." in key)
            tensor = np.pad(tensor, [(0, (256 - 48) * (i == axis)) for i in range(2)])
        found[key] = tensor
    for key in [key for key in found if ".q_proj." in key]:
        parts = [found.pop(key.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        found[key.replace("self_attn.q_proj", "attn.Wqkv")] = np.concatenate(parts)
    return found


def write_released(directory, tensors, **changes) -> None:
    directory.mkdir()
    write_safetensors(directory / "model.safetensors", tensors, {"format": "pt"})
    values = {key: value for key, value in (RELEASED | changes).items() if value != "absent"}
    (directory / "config.json").write_text(json.dumps(values))


def inputs_of(case: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / case / "io.npz") as io:
        return {name: io[name] for name in ("token_ids", "segment_ids", "padding_mask")}


def test_released_masked_token_heads_have_no_biases(tmp_path, caplog):
    tensors = tensors_of(GOLDEN / "masked_lm")
    tensors |= {key: 0 * tensors[key] for key in HEAD_BIASES}
    write_safetensors(tmp_path / "model.safetensors", tensors, {"format": "pt"})
    (tmp_path / "config.json").write_text((GOLDEN / "masked_lm" / "config.json").read_text())
    expected = bert_zoo.load(tmp_path, "masked_lm")(inputs_of("masked_lm"))
    caplog.clear()
    stored = authors_tensors({k: v for k, v in tensors.items() if k not in HEAD_BIASES})
    assert "bert.encoder.layers.0.mlp.fc11.weight" in stored
    table = stored["bert.embeddings.word_embeddings.weight"]
    write_released(tmp_path / "model", stored | {"cls.predictions.decoder.weight": table})
    model = bert_zoo.load(tmp_path / "model", "masked_lm")
    assert "no bias in the masked-token head" in caplog.text
    assert model.encoder.config.intermediate_size == 256
    np.testing.assert_allclose(model(inputs_of("masked_lm")), expected, atol=TOLERANCE)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # A file with transformers' keys, too.
        {"max_position_embeddings": 2048, "rope_parameters": {"rope_theta": 1000.0}},
        {"vocab_size": 121, "pad_vocab_size_multiple": 3},
    ],
)
def test_released_embedders_equal_transformers(changes, tmp_path):
    tensors = {k.removeprefix("nomic_bert."): v for k, v in tensors_of(GOLDEN / "encoder").items()}
    apart = bert_zoo.load(GOLDEN / "encoder")
    for key in [key for key in tensors if ".mlp.fc" in key]:
        axis = int(".fc2." in key)
        tensors[key] = np.pad(tensors[key], [(0, 208 * (i == axis)) for i in range(2)])
    write_released(tmp_path / "model", tensors, **changes)
    model = bert_zoo.load(tmp_path / "model")
    assert model.config.longest_input == 8192
    inputs = inputs_of("encoder")
    found, expected = (m(inputs)["sequence_output"] for m in (model, apart))
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)


def config_of(**changes):
    values = {k: v for k, v in (RELEASED | changes).items() if v != "absent"}
    codec = registry().families["nomic_bert"].formats["hf"].codec
    return codec.decode(values, where="config.json")


def test_the_base_of_wavelengths_is_read():
    assert config_of(rotary_emb_base=50_000).rope_theta == 50_000
    assert config_of(n_inner=300).intermediate_size == 512


@refusals(
    (lambda: config_of(num_experts=8), "mixtures of experts, such as nomic-embed-text-v2-moe"),
    (lambda: config_of(activation_function="gelu"), "only 'swiglu' is supported"),
    (lambda: config_of(rotary_emb_interleaved=True), "rotary_emb_interleaved is True"),
    (lambda: config_of(rotary_emb_fraction=0.5), "rotary_emb_fraction is 0.5"),
    (lambda: config_of(qkv_proj_bias=True), "qkv_proj_bias is True"),
    (lambda: config_of(prenorm=True), "prenorm is True"),
    (lambda: config_of(hidden_size=64), "n_embd is 32, but hidden_size is 64"),
    (lambda: config_of(embd_pdrop=0.1), "embd_pdrop is 0.1, but hidden_dropout_prob is 0.0"),
    (lambda: config_of(unheard_of=1), "unheard_of"),
)
def test_other_architectures_are_refused(call, words):
    assert_refused(call, words)


def test_the_cards_have_the_prompts_of_their_training():
    described = bert_zoo.describe("nomic_embed_text_v1_5")
    assert "search_query: 'search_query: '" in str(described)
    description = open_checkpoint("nomic_embed_text_v1_5", with_weights=False).description
    assert description.pooling == Pooling("mean", layer_norm=True)


@pytest.mark.parametrize("options", [{}, {"max_length": 6, "long_texts": "mean"}])
def test_vectors_are_normed_before_they_are_cut(options):
    """The mean, a layer norm over all of it, the cut, length 1: nomic-ai/contrastors' trainers/text_text.py."""
    encoder = load_case("nomic_bert/encoder", **options)
    encoder.pooling = Pooling("mean", normalize=False)
    means = encoder.embed(TEXTS).astype("float64")
    centred = means - means.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    encoder.pooling = Pooling("mean", layer_norm=True)
    for size in (32, 16, 4):
        found = encoder.embed(TEXTS, truncate_dim=size)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        expected = normed[:, :size] / np.linalg.norm(normed[:, :size], axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)


def test_a_text_is_read_alike_alone_and_beside_padding():
    model, inputs = loaded("nomic_bert/encoder"), inputs_of("encoder")
    whole = np.array(model(inputs)["sequence_output"])
    for row, length in enumerate(inputs["padding_mask"].sum(axis=1)):
        alone = {name: values[row : row + 1, :length] for name, values in inputs.items()}
        found = np.array(model(alone)["sequence_output"])[0]
        np.testing.assert_allclose(found, whole[row, :length], atol=TOLERANCE)
        # In front, padding moves all positions alike, and scores depend on differences alone.
        moved = {name: np.pad(values, [(0, 0), (5, 0)]) for name, values in alone.items()}
        found = np.array(model(moved)["sequence_output"])[0, 5:]
        np.testing.assert_allclose(found, whole[row, :length], atol=TOLERANCE)
