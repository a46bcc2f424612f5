"""LoRA adapters of peft: read onto their base, written from LoRA, refused where they are of another kind."""

import json
import shutil

import numpy as np
import pytest
from helpers import (
    ALL_GOLDEN,
    GOLDEN,
    TOLERANCE,
    arrays,
    assert_same_variables,
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


def beside_base(tmp_path, name="patterns", **config):
    """An adapter in its base's directory, with other values in its configuration."""
    directory = shutil.copytree(ALL_GOLDEN / BASES[name], tmp_path / "model", dirs_exist_ok=True)
    for file in (CONFIG, WEIGHTS):
        shutil.copy(PEFT / name / file, directory)
    path = directory / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return directory


def test_an_adapter_beside_its_base_is_merged_whatever_base_it_names(tmp_path):
    directory = beside_base(tmp_path, base_model_name_or_path="/of/another/machine")
    model = bert_zoo.load(directory, "classification")
    assert_same_variables(model, bert_zoo.load(PEFT / "patterns", "classification"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"peft_type": "IA3"}, WeightsError, "kind 'IA3'.*only LORA.*merge_and_unload"),
        ({"peft_type": "PREFIX_TUNING"}, WeightsError, "kind 'PREFIX_TUNING'"),
        ({"use_dora": True}, WeightsError, "has use_dora=True"),
        ({"init_lora_weights": "pissa"}, WeightsError, "has init_lora_weights='pissa'"),
        ({"of_2030": 3}, WeightsError, "has of_2030=3"),
        ({"r": 5}, WeightsError, "4 rows in A .* says rank 5"),
        (
            {"alpha_pattern": {"(a+)+b": 3}},
            ConfigError,
            r"alpha_pattern has '\(a\+\)\+b', which is no",
        ),
        ({"rank_pattern": {"a*b*c*d*": 3}}, ConfigError, "may take long to match"),
        ({"rank_pattern": {"a(": 3}}, ConfigError, r"rank_pattern has 'a\('"),
        ({"lora_alpha": 10**400}, ConfigError, "lora_alpha is .*finite number"),
        ({"bias": "evil"}, ConfigError, "bias is 'evil'; it is one of"),
        ({"target_modules": "a*b*c*d*"}, ConfigError, "target_modules has .* may take long"),
        ({"target_modules": [3]}, ConfigError, r"target_modules\[0\] is 3"),
        ({"layers_to_transform": ["x"]}, ConfigError, r"layers_to_transform\[0\] is 'x'"),
        ({"target_modules": ["qwerty"]}, WeightsError, "adapts bert.* says .*'qwerty'"),
        ({"target_modules": ".*qwerty"}, WeightsError, "adapts bert.* says .*qwerty"),
        (
            {"layers_to_transform": [99]},
            WeightsError,
            r"adapts bert.*'layers_to_transform': \[99\]",
        ),
        ({"layers_to_transform": 99}, WeightsError, r"adapts bert.*'layers_to_transform': \[99\]"),
    ],
)
def test_what_is_no_plain_lora_is_refused_by_name(change, error, message, tmp_path):
    with pytest.raises(error, match=message):
        bert_zoo.load(beside_base(tmp_path, **change), "classification")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensor: np.full_like(tensor, np.nan), "NaN or infinite"),
        (lambda tensor: tensor.astype("int8"), "values of type int8"),
    ],
)
def test_tensors_of_an_adapter_that_cannot_be_weights_are_refused_by_name(
    change, message, tmp_path
):
    directory = beside_base(tmp_path)
    tensors = load_file(directory / WEIGHTS)
    name = next(key for key in tensors if key.endswith("lora_B.weight"))
    save_file({**tensors, name: change(tensors[name])}, directory / WEIGHTS)
    with pytest.raises(WeightsError, match=rf"{name} in .*{WEIGHTS} has .*{message}"):
        bert_zoo.load(directory, "classification")


@pytest.mark.parametrize(
    "change",
    [
        {"target_modules": "all-linear"},
        {"target_modules": r"bert\..*"},
        {"target_modules": None},
        {"bias": "lora_only"},
    ],
)
def test_targets_that_fit_the_tensors_change_nothing(change, tmp_path):
    model = bert_zoo.load(beside_base(tmp_path, **change), "classification")
    assert_same_variables(model, bert_zoo.load(PEFT / "patterns", "classification"))


def test_every_tensor_of_an_adapter_is_used_or_refused(tmp_path):
    directory = beside_base(tmp_path, target_modules=None)
    tensors = load_file(directory / WEIGHTS)
    some = next(key for key in tensors if key.endswith("lora_A.weight"))
    prefix = "base_model.model."
    for key, message in (
        (some.replace("encoder.layer.0", "encoder.layer.7"), "has base_model.*of.*A and B"),
        (some.replace("lora_A.weight", "lora_magnitude_vector"), "not a tensor of LoRA"),
        (f"{prefix}species.weight", r"not known, so not loaded: species\.weight"),
        ("bert.pooler.dense.bias", "not a tensor of LoRA"),
    ):
        save_file({**tensors, key: tensors[some]}, directory / WEIGHTS)
        with pytest.raises(WeightsError, match=message):
            bert_zoo.load(directory, "classification")
    a, b = (f"{prefix}bert.encoder.layer.7.output.dense.lora_{side}.weight" for side in "AB")
    save_file(
        {**tensors, a: np.zeros((4, 64), "f"), b: np.zeros((32, 4), "f")}, directory / WEIGHTS
    )
    with pytest.raises(
        WeightsError, match=r"adapts bert\.encoder\.layer\.7.*Use the adapter's own base"
    ):
        bert_zoo.load(directory, "classification")


def test_a_base_that_is_not_here_says_where_the_adapter_goes(tmp_path):
    directory = shutil.copytree(PEFT / "bare", tmp_path / "adapter")
    with pytest.raises(
        FileNotFoundError, match=r"'\.\./\.\./bert/encoder' as its base.*Copy adapter_config"
    ):
        bert_zoo.load(directory)


def test_a_table_that_also_predicts_is_not_adapted_for_both(tmp_path):
    directory = beside_base(tmp_path, target_modules=None)
    shutil.copytree(GOLDEN / "masked_lm", directory, dirs_exist_ok=True)
    lora = "base_model.model.bert.embeddings.word_embeddings.lora_embedding_"
    rows, width = tensors_of(directory)["bert.embeddings.word_embeddings.weight"].shape
    tensors = {f"{lora}A": np.ones((4, rows), "f"), f"{lora}B": np.ones((width, 4), "f")}
    save_file(tensors, directory / WEIGHTS)
    with pytest.raises(
        WeightsError, match=r"adapts bert\.embeddings\.word_embeddings\.weight, which the"
    ):
        bert_zoo.load(directory, "masked_lm")
    found = np.asarray(bert_zoo.load(directory).weights[0])
    plain = np.asarray(bert_zoo.load(GOLDEN / "masked_lm", "encoder").weights[0])
    np.testing.assert_allclose(found - plain, 8 / 4 * 4, rtol=1e-5)


# DeBERTa keeps queries, keys and values in one tensor, by heads; GPT-2 its weights the other way round.
@pytest.mark.parametrize(
    "case", ["bert/masked_lm", "deberta/classification", "gpt2/classification"]
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
    assert all({*key.split(".")} & {*config["modules_to_save"]} for key in saved)
    others = merged.keys() - changed - saved
    assert all(np.array_equal(merged[key], base[key]) for key in others if key in base)


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
    with pytest.raises(ValueError, match=r"this model has none.*add_lora"):
        bert_zoo.save(load_task("classification"), tmp_path, format="peft")
    xlnet = load_case("xlnet/classification")
    add_lora(xlnet)
    with pytest.raises(ValueError, match=r"rel_attn\.q is no linear layer"):
        bert_zoo.save(xlnet, tmp_path, format="peft")
