"""EuroBERT and UltraBERT: the released files' forms, poolings, and rows with padding."""

import numpy as np
import pytest
from helpers import (
    arrays,
    assert_refused,
    changed_copy,
    directory_of,
    inputs_of,
    load_case,
    loaded,
    read_json,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families import eurobert, ultrabert
from bert_zoo.registry import registry
from bert_zoo.weights.files import write_json

# The config.json of EuroBERT-210m, as released.
RELEASED = {
    "architectures": ["EuroBertForMaskedLM"],
    "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"},
    **{"attention_bias": False, "attention_dropout": 0.0, "hidden_dropout": 0.0},
    **{"bos_token": "<|begin_of_text|>", "bos_token_id": 128000},
    **{"eos_token": "<|end_of_text|>", "eos_token_id": 128001},
    **{"pad_token": "<|end_of_text|>", "pad_token_id": 128001},
    **{"mask_token": "<|mask|>", "mask_token_id": 128002},
    **{"hidden_act": "silu", "hidden_size": 768, "intermediate_size": 3072},
    **{"initializer_range": 0.02, "max_position_embeddings": 8192, "model_type": "eurobert"},
    **{"num_attention_heads": 12, "num_hidden_layers": 12, "num_key_value_heads": 12},
    **{"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 250000},
    **{"tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256},
    **{"transformers_version": "4.40.0.dev0", "is_decoder": False},
}
# Of forks, whose transformers writes more.
LATER = {"clf_pooling": "late", "head_dim": 64, "mlp_bias": False}


def decoded(family, **values):
    return family.FAMILY.formats["hf"].codec.decode(values, where="config.json")


@pytest.mark.parametrize("later", [{}, LATER], ids=["first", "later"])
def test_the_released_configuration_is_that_of_the_checkpoint(later):
    family, checkpoint = registry().resolve("eurobert_210m")
    config, found = family.config(checkpoint), decoded(eurobert, **RELEASED, **later)
    sizes = {"head_size": found.head_size, "key_heads": found.key_heads}
    assert found == config.replace(**sizes)
    assert (found.width_of_head, found.num_key_heads) == (64, 12)


def test_a_classifier_in_the_released_form_is_read(tmp_path):
    case = "eurobert/classification_mean"
    directory = changed_copy(case, tmp_path, clf_pooling="mean", rope_theta=250_000)
    config = read_json(directory / "config.json")
    del config["classifier_pooling"], config["rope_parameters"], config["head_dim"]
    write_json(directory / "config.json", {**RELEASED, **config})
    io = arrays(case)
    logits = bert_zoo.load(directory, "classification")(inputs_of(io))
    np.testing.assert_allclose(logits, io["logits"], atol=1e-5)
    write_json(directory / "config.json", {**RELEASED, **config, "rope_theta": 20})
    other = bert_zoo.load(directory, "classification")(inputs_of(io))
    assert np.abs(np.asarray(other) - io["logits"]).max() > 1e-3


def test_poolings_differ_and_late_is_the_mean_of_the_tokens_logits():
    case = "eurobert/classification"
    inputs, late = inputs_of(arrays(case)), loaded(case)
    found = {
        pooling: np.asarray(load_case(case, classifier_pooling=pooling)(inputs))
        for pooling in ("bos", "mean", "late")
    }
    assert np.abs(found["bos"] - found["mean"]).max() > 1e-3
    assert np.abs(found["late"] - found["mean"]).max() > 1e-3
    tokens = np.asarray(late.classifier(np.asarray(late.encoder(inputs)["sequence_output"])))
    mask = inputs["padding_mask"][..., None]
    mean = (tokens * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(found["late"], mean, atol=1e-5)


CLASSIFIERS = "eurobert/classification eurobert/classification_mean ultrabert/classification_mean"


@pytest.mark.parametrize("case", CLASSIFIERS.split())
def test_padding_in_front_or_everywhere(case):
    inputs, model = inputs_of(arrays(case)), loaded(case)
    lengths = inputs["padding_mask"].sum(1)
    length = inputs["padding_mask"].shape[1]
    turned = {
        name: np.stack([np.roll(row, length - n) for row, n in zip(ids, lengths, strict=True)])
        for name, ids in inputs.items()
    }
    np.testing.assert_allclose(model(turned), model(inputs), atol=1e-5)
    inputs = {**inputs, "padding_mask": inputs["padding_mask"].copy()}
    inputs["padding_mask"][-1] = 0
    logits = np.asarray(model(inputs))
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits[:-1], np.asarray(model(turned))[:-1], atol=1e-5)


# Of UltraBERT's golden, as the files say it that the authors released.
WINDOWS, THETAS = [4, 4, None, 4], [10_000, 10_000, 2_560_000, 10_000]


def test_the_released_form_of_ultrabert_is_read(tmp_path):
    case = "ultrabert/masked_lm"
    config = read_json(directory_of(case) / "config.json")
    for key in ("layer_types", "sliding_window", "rope_parameters"):
        del config[key]
    changed_copy(case, tmp_path)
    write_json(
        tmp_path / "config.json", config | {"attention_windows": WINDOWS, "rope_theta": THETAS}
    )
    assert bert_zoo.load(tmp_path).config == loaded(case).encoder.config
    # transformers' modules have other names than its files.
    tensors = tensors_of(tmp_path)
    names = {key: key.replace("ultrabert.", "model.") for key in tensors} | {
        "cls.weight": "head.decoder.weight"
    }
    save_file({names[key]: value for key, value in tensors.items()}, tmp_path / "model.safetensors")
    io = arrays(case)
    logits = bert_zoo.load(tmp_path, "masked_lm")(inputs_of(io))
    np.testing.assert_allclose(logits, io["logits"], atol=1e-5)


SIZES = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 9, "num_hidden_layers": 4}
SIZES |= {"num_attention_heads": 2, "model_type": "ultrabert"}
FULL_AT_2 = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]


def test_layers_of_ultrabert():
    config = decoded(ultrabert, **SIZES, layer_types=FULL_AT_2)
    assert config == decoded(ultrabert, **SIZES) and config.layer_types == FULL_AT_2
    assert config.reach == 128 and decoded(ultrabert, **SIZES, sliding_window=5).reach == 5
    assert config.with_layers((2, 3)).layer_types == FULL_AT_2[2:]
    all_full = decoded(ultrabert, **SIZES, attention_windows=[0] * 4, rope_theta=[5.0] * 4)
    assert all_full.global_layers == (0, 1, 2, 3) and all_full.rope_theta == 5.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attention_windows": [4, 4, 0]}, "for each of the 4 layers"),
        ({"attention_windows": [4, 5, 0, 4]}, "sliding_window"),
        ({"attention_windows": [4, 4, 0, 4], "layer_types": FULL_AT_2[::-1]}, "layer_types"),
        ({"rope_theta": 10_000.0}, "rope_theta is 10000.0"),
        ({"rope_theta": [1.0, 2.0, 3.0, 1.0]}, "local_rope_theta"),
    ],
)
def test_lists_by_layer_that_say_two_things_are_refused(changes, words):
    assert_refused(lambda: decoded(ultrabert, **SIZES, **changes), words, ConfigError)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clf_pooling": "mean", "classifier_pooling": "late"}, "classifier_pooling"),
        ({"clf_pooling": "max"}, "classifier_pooling"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"is_causal": True}, "is_causal"),
        ({"num_key_value_heads": 5}, "key_heads"),
    ],
)
def test_other_euroberts_are_refused(changes, words):
    assert_refused(lambda: decoded(eurobert, **{**RELEASED, **changes}), words, ConfigError)
