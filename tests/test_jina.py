"""Jina's embedding models: the files of their authors, adapters, and prompts."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
from helpers import (
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same,
    change_json,
    directory_of,
    inputs_of,
    loaded,
    read_json,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.jina_v3 import PROMPTS
from bert_zoo.weights.files import WeightsError

# transformers' names -> the authors'.
NAMES = (
    (r"embeddings\.LayerNorm\.", "emb_ln."),
    (r"^layers\.", "encoder.layers."),
    (r"self_attn\.o_proj\.", "mixer.out_proj."),
    (r"post_attention_layernorm\.", "norm1."),
    (r"post_mlp_layernorm\.", "norm2."),
)
# What their config.json says besides BERT's keys.
SAID = {
    "auto_map": {
        "AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"
    },
    "emb_pooler": None,
    "load_trained_adapters": True,
    "lora_adaptations": [*PROMPTS],
    "lora_alpha": 1,
    "lora_dropout_p": 0.0,
    "lora_main_params_trainable": False,
    "lora_rank": 2,
    "matryoshka_dimensions": [8, 16, 32],
    "model_type": "xlm-roberta",
    "position_embedding_type": "rotary",
    "rotary_emb_base": 20000.0,
    "task_instructions": PROMPTS,
    "truncate_dim": None,
    "use_flash_attn": True,
}
SENTENCES = {"prompts": PROMPTS, "default_prompt_name": None}


def in_authors_names(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """An encoder's tensors with their names, queries, keys and values below each other."""
    renamed = {}
    for key, tensor in tensors.items():
        for pattern, name in NAMES:
            key = re.sub(pattern, name, key)
        renamed[key] = tensor
    for key in [key for key in renamed if ".self_attn.q_proj." in key]:
        parts = [renamed.pop(key.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        renamed[key.replace("self_attn.q_proj", "mixer.Wqkv")] = np.concatenate(parts)
    return renamed


@functools.cache
def adapters() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A and B for every matrix of the golden encoder, by the authors' name of its module."""
    rng = np.random.default_rng(0)
    pairs = {}
    for key, weight in in_authors_names(tensors_of(directory_of("jina_v3/encoder"))).items():
        if weight.ndim == 2:
            rows, columns = weight.shape
            sizes = (columns, rows) if "embeddings." not in key else (rows, columns)
            a, b = (rng.normal(scale=0.2, size=(5, 2, size)).astype("float32") for size in sizes)
            # A is [adapters, rank, inputs], or of a table [adapters, rows, rank].
            if "embeddings." in key:
                a = a.transpose(0, 2, 1)
            else:
                b = b.transpose(0, 2, 1)
            pairs[key] = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return pairs


def write_released(directory, **changes):
    """The golden encoder as the authors' files are, with adapters."""
    case = directory_of("jina_v3/encoder")
    shutil.copytree(case, directory)
    config = read_json(case / "config.json")
    del config["rope_parameters"]
    config = {**config, **SAID, **changes}
    (directory / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value != "absent"})
    )
    (directory / "config_sentence_transformers.json").write_text(json.dumps(SENTENCES))
    tensors = {}
    for key, weight in in_authors_names(tensors_of(case)).items():
        if key in adapters():
            parametrized = f"roberta.{key.removesuffix('.weight')}.parametrizations.weight."
            tensors[f"{parametrized}original"] = weight
            for side, values in zip("AB", adapters()[key], strict=True):
                tensors[f"{parametrized}0.lora_{side}"] = values
        else:
            tensors[f"roberta.{key}"] = weight
    save_file(tensors, directory / "model.safetensors")
    return directory


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    return write_released(tmp_path_factory.mktemp("jina") / "released")


def test_the_authors_files_are_read_without_their_adapters(released, caplog):
    model = bert_zoo.load(released)
    assert "adapters" in caplog.text and "retrieval.query" in caplog.text
    assert model.family == "jina_v3" and model.config.rope_theta == 20000.0
    io = arrays("jina_v3/encoder")
    outputs = model(inputs_of(io))
    assert_same(outputs, {name: io[name] for name in outputs}, TOLERANCE)
    assert not model.prompts.texts
    assert_refused(lambda: model.embed(["a"], prompt="retrieval.query"), "no prompt | has none")


@pytest.mark.parametrize("adapter", ["retrieval.query", "text-matching"])
def test_an_adapter_is_merged(released, adapter, tmp_path):
    model = bert_zoo.load(released, adapter=adapter)
    # The same by hand, in a file of the names without adapters.
    number, case = [*PROMPTS].index(adapter), directory_of("jina_v3/encoder")
    tensors = in_authors_names(tensors_of(case))
    for key, (a, b) in adapters().items():
        first, second = (a, b) if "embeddings." in key else (b, a)
        tensors[key] = tensors[key] + first[number] @ second[number] / 2
    by_hand = shutil.copytree(case, tmp_path / "by_hand")
    save_file(tensors, by_hand / "model.safetensors")
    inputs = inputs_of(arrays("jina_v3/encoder"))
    outputs = model(inputs)
    assert_same(outputs, bert_zoo.load(by_hand)(inputs), TOLERANCE)
    base = loaded("jina_v3/encoder")(inputs)["sequence_output"]
    assert np.abs(outputs["sequence_output"] - base).max() > 0.1
    # Its prompt is the default, those of others are refused, also after saving.
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt)
        assert_same(again(inputs), outputs)
        assert again.prompts == model.prompts
        assert_refused(lambda m=again: m.embed("a", prompt="separation"), "no prompt 'separation'")
        load = functools.partial(bert_zoo.load, tmp_path / fmt, adapter=adapter)
        assert_refused(load, "has no adapters")
    assert dict(model.prompts.texts) == {adapter: PROMPTS[adapter]}
    text = PROMPTS[adapter] + "the cat sat"
    assert_same(model.embed(["the cat sat"]), model.embed([text], prompt=""), TOLERANCE)


def test_what_is_no_adapter_is_refused(released, tmp_path):
    load = functools.partial(bert_zoo.load, released)
    assert_refused(lambda: load(adapter="retrieval"), "retrieval.query | text-matching")
    assert_refused(lambda: load(adapter="separation", weights=None), "weights=None")
    other = functools.partial(bert_zoo.load, directory_of("bert/encoder"), adapter="separation")
    assert_refused(other, "has no adapters")
    damaged = shutil.copytree(released, tmp_path / "damaged")
    tensors = tensors_of(released)
    key = next(key for key in tensors if key.endswith("fc1.parametrizations.weight.0.lora_A"))
    for wrong in (tensors[key][:4], tensors[key][:, :1]):
        save_file({**tensors, key: np.ascontiguousarray(wrong)}, damaged / "model.safetensors")
        load = functools.partial(bert_zoo.load, damaged, adapter="separation")
        assert_refused(load, "mlp.fc1.parametrizations", WeightsError)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("rotary_emb_base", "absent", "neither rotary_emb_base"),
        ("lora_alpha", 2, "lora_alpha is 2"),
        ("lora_adaptations", ["separation"], "lora_adaptations"),
        ("truncate_dim", 16, "truncate_dim is 16"),
        ("emb_pooler", "cls", "emb_pooler is 'cls'"),
        ("rope_scaling", {"type": "dynamic", "factor": 2.0}, "dynamic"),
        ("window_size", 8, "window_size"),
    ],
)
def test_settings_of_another_model_are_refused(key, value, words, tmp_path):
    directory = write_released(tmp_path / "model", **{key: value})
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)


def test_the_base_of_wavelengths_is_read_from_the_file(tmp_path):
    directory = write_released(tmp_path / "model", rotary_emb_base=100.0)
    inputs = inputs_of(arrays("jina_v3/encoder"))
    other = bert_zoo.load(directory)(inputs)["sequence_output"]
    assert np.abs(other - loaded("jina_v3/encoder")(inputs)["sequence_output"]).max() > 1e-3
    change_json(directory / "config.json", position_embedding_type="absolute")
    assert_refused(lambda: bert_zoo.load(directory), "rotary_emb_base", ConfigError)


# --- Jina Embeddings v2 --------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["encoder", "encoder_code"])
def test_positions_tell_the_second_version_from_bert_and_tensors_its_two_programs(case, tmp_path):
    case = f"jina_bert_v2/{case}"
    copy = shutil.copytree(directory_of(case), tmp_path / "copy")
    # As copies name the program beside them.
    change_json(copy / "config.json", _name_or_path="copy", auto_map={"AutoConfig": "c.JinaBert"})
    inputs = inputs_of(arrays(case))
    model = bert_zoo.load(copy)
    assert model.family == "jina_bert_v2" and model.config.query_norm == case.endswith("code")
    assert_same(model(inputs), loaded(case)(inputs))
    bert_zoo.save(model, tmp_path / "saved", format="hf")
    for key in ("_name_or_path", "auto_map"):
        said = [
            read_json(place / "config.json")[key]
            for place in (tmp_path / "saved", directory_of(case))
        ]
        assert said[0] == said[1]
    assert bert_zoo.load(tmp_path / "saved").config == model.config
    # One class of transformers reads the WordPiece of some and the byte-level BPE of others.
    named = read_json(tmp_path / "saved" / "tokenizer_config.json")["tokenizer_class"]
    assert named == "PreTrainedTokenizerFast"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("position_embedding_type", "absolute", "emb_pooler | feed_forward_type"),
        ("feed_forward_type", "original", "feed_forward_type is 'original' | geglu"),
        ("hidden_act", "relu", "hidden_act is 'relu'"),
        ("emb_pooler", "cls", "emb_pooler is 'cls'"),
        ("alibi_slope", 2.0, "alibi_slope"),
    ],
)
def test_settings_of_another_second_version_are_refused(key, value, words, tmp_path):
    directory = shutil.copytree(directory_of("jina_bert_v2/encoder"), tmp_path / "model")
    change_json(directory / "config.json", **{key: value})
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)


def test_scores_fall_alike_to_both_sides():
    """A text read backwards has the states of the text, backwards: but for the types of tokens, nothing tells sides."""
    ids = np.int32([[2, 7, 9, 30, 12, 5, 3]])
    model = loaded("jina_bert_v2/encoder_code")
    forwards = model({"token_ids": ids})["sequence_output"]
    backwards = model({"token_ids": ids[:, ::-1].copy()})["sequence_output"]
    assert_same(backwards[:, ::-1], forwards, TOLERANCE)
