"""LoRA adapters of peft: read onto their base, written from LoRA, refused where they are of another kind."""

import functools
import json
import shutil

import numpy as np
import pytest
from helpers import (
    ALL_GOLDEN,
    GOLDEN,
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same_variables,
    change_json,
    inputs_of,
    load_case,
    load_task,
    task_inputs,
    task_of,
    tensors_of,
)
from safetensors.numpy import load_file, save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.training import add_lora
from bert_zoo.weights.files import WeightsError

PEFT = ALL_GOLDEN / "peft"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# Every adapter that peft wrote -> the golden checkpoint that it adapts.
BASES = {
    path.parent.name: json.loads(path.read_text())["base_model_name_or_path"].removeprefix("../../")
    for path in sorted(PEFT.glob(f"*/{CONFIG}"))
}


def output_of(model, inputs) -> np.ndarray:
    outputs = model(inputs)
    return np.asarray(outputs["sequence_output"] if isinstance(outputs, dict) else outputs)


@pytest.mark.parametrize("name", BASES)
def test_what_peft_wrote_gives_what_peft_computes(name):
    base = BASES[name]
    model = bert_zoo.load(PEFT / name, task_of(base))
    found = output_of(model, inputs_of(arrays(base)))
    expected = np.load(PEFT / name / "outputs.npy")
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)
    plain = arrays(base)["sequence_output" if task_of(base) == "encoder" else "logits"]
    assert np.abs(expected - plain).max() > 0.01


def beside_base(tmp_path, name="patterns", tensors=None, **config):
    """An adapter in its base's directory, with other values in its configuration, or other tensors."""
    directory = shutil.copytree(ALL_GOLDEN / BASES[name], tmp_path / "model", dirs_exist_ok=True)
    for file in (CONFIG, WEIGHTS):
        shutil.copy(PEFT / name / file, directory)
    change_json(directory / CONFIG, **config)
    if tensors is not None:
        save_file(tensors, directory / WEIGHTS)
    return directory


TENSORS = load_file(PEFT / "patterns" / WEIGHTS)
A, B = (next(k for k in TENSORS if k.endswith(f"lora_{side}.weight")) for side in "AB")
PREFIX = "base_model.model."
SEVENTH = f"{PREFIX}bert.encoder.layer.7.output.dense.lora_"
MORE = {f"{SEVENTH}A.weight": np.zeros((4, 64), "f"), f"{SEVENTH}B.weight": np.zeros((32, 4), "f")}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"peft_type": "IA3"}, WeightsError, "kind 'IA3' | only LORA | merge_and_unload"),
        ({"peft_type": "PREFIX_TUNING"}, WeightsError, "kind 'PREFIX_TUNING'"),
        ({"use_dora": True}, WeightsError, "has use_dora=True"),
        ({"init_lora_weights": "pissa"}, WeightsError, "has init_lora_weights='pissa'"),
        ({"of_2030": 3}, WeightsError, "has of_2030=3"),
        ({"r": 5}, WeightsError, "4 rows in A | says rank 5"),
        ({"alpha_pattern": {"(a+)+b": 3}}, ConfigError, "alpha_pattern has '(a+)+b', which is no"),
        ({"rank_pattern": {"a*b*c*d*": 3}}, ConfigError, "may take long to match"),
        ({"rank_pattern": {"a(": 3}}, ConfigError, "rank_pattern has 'a('"),
        ({"lora_alpha": 10**400}, ConfigError, "lora_alpha is | finite number"),
        ({"bias": "evil"}, ConfigError, "bias is 'evil'; it must be one of"),
        ({"target_modules": "a*b*c*d*"}, ConfigError, "target_modules has | may take long"),
        ({"target_modules": [3]}, ConfigError, "target_modules is [3]"),
        ({"layers_to_transform": ["x"]}, ConfigError, "layers_to_transform[0] is 'x'"),
        ({"target_modules": ["qwerty"]}, WeightsError, "adapts bert | 'qwerty'"),
        ({"target_modules": ".*qwerty"}, WeightsError, "adapts bert | qwerty"),
        ({"layers_to_transform": [99]}, WeightsError, "adapts bert | 'layers_to_transform': [99]"),
        ({"layers_to_transform": 99}, WeightsError, "adapts bert | 'layers_to_transform': [99]"),
        # Tensors; every one is used or refused.
        ({B: np.full_like(TENSORS[B], np.nan)}, WeightsError, f"{B} in | NaN or infinite"),
        ({B: TENSORS[B].astype("int8")}, WeightsError, f"{B} in | values of type int8"),
        ({A.replace("layer.0", "layer.7"): TENSORS[A]}, WeightsError, f"has {PREFIX} | A and B"),
        (
            {A.replace("lora_A.weight", "lora_magnitude_vector"): TENSORS[A]},
            WeightsError,
            "not a tensor of LoRA",
        ),
        ({f"{PREFIX}species.weight": TENSORS[A]}, WeightsError, "so not loaded: species.weight"),
        ({"bert.pooler.dense.bias": TENSORS[A]}, WeightsError, "not a tensor of LoRA"),
        (MORE, WeightsError, "adapts bert.encoder.layer.7 | Use the adapter's own base"),
    ],
)
def test_what_is_no_plain_lora_is_refused_by_name(change, error, words, tmp_path):
    if all(isinstance(value, np.ndarray) for value in change.values()):
        directory = beside_base(tmp_path, tensors={**TENSORS, **change}, target_modules=None)
    else:
        directory = beside_base(tmp_path, **change)
    assert_refused(lambda: bert_zoo.load(directory, "classification"), words, error)


@pytest.mark.parametrize(
    "change",
    [
        {"base_model_name_or_path": "/of/another/machine"},
        {"target_modules": "all-linear"},
        {"target_modules": r"bert\..*"},
        {"target_modules": None},
        {"bias": "lora_only"},
    ],
)
def test_an_adapter_beside_its_base_is_merged_by_whatever_fits_its_tensors(change, tmp_path):
    model = bert_zoo.load(beside_base(tmp_path, **change), "classification")
    assert_same_variables(model, bert_zoo.load(PEFT / "patterns", "classification"))


def test_a_base_that_is_not_here_says_where_the_adapter_goes(tmp_path):
    directory = shutil.copytree(PEFT / "bare", tmp_path / "adapter")
    words = "'../../bert/encoder' as its base | Copy adapter_config"
    assert_refused(lambda: bert_zoo.load(directory), words, FileNotFoundError)


def test_a_table_that_also_predicts_is_not_adapted_for_both(tmp_path):
    directory = beside_base(tmp_path, target_modules=None)
    shutil.copytree(GOLDEN / "masked_lm", directory, dirs_exist_ok=True)
    lora = f"{PREFIX}bert.embeddings.word_embeddings.lora_embedding_"
    rows, width = tensors_of(directory)["bert.embeddings.word_embeddings.weight"].shape
    tensors = {f"{lora}A": np.ones((4, rows), "f"), f"{lora}B": np.ones((width, 4), "f")}
    save_file(tensors, directory / WEIGHTS)
    words = "adapts bert.embeddings.word_embeddings.weight, which the"
    assert_refused(lambda: bert_zoo.load(directory, "masked_lm"), words, WeightsError)
    found = np.asarray(bert_zoo.load(directory).weights[0])
    plain = np.asarray(bert_zoo.load(GOLDEN / "masked_lm", "encoder").weights[0])
    np.testing.assert_allclose(found - plain, 8 / 4 * 4, rtol=1e-5)


# DeBERTa keeps queries, keys and values in one tensor, by heads; GPT-2 its weights the other way round; EuroBERT's
# final norm has a name that others end with, and its heads share keys; NeoBERT's numbers rotate in pairs.
@pytest.mark.parametrize(
    "case",
    [
        "bert/masked_lm",
        "deberta/classification",
        "gpt2/classification",
        "eurobert/encoder",
        "neobert/encoder",
    ],
)
def test_what_is_written_is_what_is_merged(case, tmp_path):
    task = task_of(case)
    model = load_case(case)
    add_lora(model, rank=2, alpha=6, targets="all")
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.1 * rng.normal(size=variable.shape))
    bert_zoo.save(model, tmp_path / "adapter", format="peft")
    bert_zoo.save(model, tmp_path / "merged", format="hf")
    again = bert_zoo.load(tmp_path / "adapter", task)
    inputs = inputs_of(arrays(case))
    # Merged products round to 2e-6 on processors without AVX-512.
    np.testing.assert_allclose(output_of(again, inputs), output_of(model, inputs), atol=1e-5)

    config = json.loads((tmp_path / "adapter" / CONFIG).read_text())
    adapter = load_file(tmp_path / "adapter" / WEIGHTS)
    merged, base = tensors_of(tmp_path / "merged"), tensors_of(ALL_GOLDEN / case)
    ends = tuple(f".{name}" for name in config["target_modules"])
    changed = set()
    for key in (key for key in adapter if ".lora_A." in key):
        module = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        assert f".{module}".endswith(ends)
        a, b = adapter[key], adapter[key.replace("lora_A", "lora_B")]
        alpha = config["alpha_pattern"].get(module, config["lora_alpha"])
        assert len(a) == config["rank_pattern"].get(module, config["r"])
        product = alpha / len(a) * b @ a
        product = product.T if config["fan_in_fan_out"] else product
        name = f"{module}.weight"
        np.testing.assert_allclose(merged[name] - base[name], product, atol=1e-5)
        changed.add(name)
    saved = {key.removeprefix("base_model.model.") for key in adapter if "lora_" not in key}
    # What peft looks for: all of each module whose name ends with one of these.
    ends = tuple(f"{module}." for module in config["modules_to_save"])
    wanted = {key for key in {*merged, *base} if any(end in key for end in ends)}
    if case == "bert/masked_lm":
        wanted |= {f"cls.predictions.decoder.{name}" for name in ("weight", "bias")}
    assert saved == wanted
    others = merged.keys() - changed - saved
    assert all(np.array_equal(merged[key], base[key]) for key in others if key in base)


def test_an_adapter_names_transformers_modules_where_files_have_other_names(tmp_path):
    model = load_case("ultrabert/masked_lm")
    add_lora(model, rank=2)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.1)
    bert_zoo.save(model, tmp_path, format="peft")
    names = {key.removeprefix(PREFIX) for key in load_file(tmp_path / WEIGHTS)}
    assert {name.partition(".")[0] for name in names} == {"model", "head"}
    layer = "model.layers.0.self_attn"
    assert {f"{layer}.q_proj.lora_A.weight", "head.decoder.weight"} <= names
    again, inputs = bert_zoo.load(tmp_path, "masked_lm"), inputs_of(arrays("ultrabert/masked_lm"))
    np.testing.assert_allclose(output_of(again, inputs), output_of(model, inputs), atol=1e-5)


def test_an_adapter_of_a_bert_zoo_directory_finds_its_base(tmp_path):
    bert_zoo.save(load_task("classification"), tmp_path / "base")
    model = bert_zoo.load(tmp_path / "base")
    add_lora(model, rank=2)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.1)
    bert_zoo.save(model, tmp_path / "adapter", format="peft")
    again = bert_zoo.load(tmp_path / "adapter", "classification", labels=model.labels)
    inputs = task_inputs("classification")
    # Merged products round to 2e-6 on processors without AVX-512.
    np.testing.assert_allclose(output_of(again, inputs), output_of(model, inputs), atol=1e-5)


def test_a_model_without_lora_is_no_adapter(tmp_path):
    xlnet = load_case("xlnet/classification")
    add_lora(xlnet)
    for model, words in (
        (load_task("classification"), "this model has none | add_lora"),
        (xlnet, "rel_attn.q is no linear layer"),
    ):
        save = functools.partial(bert_zoo.save, model, tmp_path, format="peft")
        assert_refused(save, words, ValueError)
