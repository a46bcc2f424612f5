"""Directories whose files were damaged or written by hand: one clear error, before anything is built."""

import json
import shutil
import sys

import pytest
from helpers import GOLDEN, loaded_task

import bert_zoo
from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.json_files import JsonObject, parse_json, read_object
from bert_zoo.recurrent_config import RecurrentConfig
from bert_zoo.weights.files import WeightsError

HUGE = 10**9
TRANSFORMER_XL = GOLDEN.parent / "transformer_xl" / "hf_adaptive"


def message_of(error, run) -> str:
    with pytest.raises(error) as caught:
        run()
    message = str(caught.value)
    assert len(message) < 2_000
    return message


def rewritten(directory, tmp_path, file="config.json", **changes):
    """A copy of a directory, one JSON file of which has other values."""
    copy = shutil.copytree(directory, tmp_path / "model", dirs_exist_ok=True)
    path = copy / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return copy


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    bert_zoo.save(loaded_task("classification"), directory)
    return directory


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("model_type", ["bert"], "a string"),
        ("architectures", "BertModel", "a list"),
        ("architectures", [1], "a string"),
        ("id2label", ["a", "b"], "an object"),
        ("id2label", {"0": ["a"]}, "a string"),
        ("id2label", {"9" * 5000: "a"}, "0, 1, 2"),
        ("hidden_act", ["gelu"], "known values"),
        ("hidden_act", {}, "known values"),
        ("initializer_range", "0.02", "a positive number"),
        ("initializer_range", -1, "a positive number"),
        ("layer_norm_eps", float("nan"), "a positive float"),
        ("layer_norm_eps", float("inf"), "a positive float"),
        ("layer_norm_eps", -1e-12, "a positive float"),
        ("hidden_dropout_prob", True, "below 1"),
        ("pad_token_id", "0", "an id"),
        ("tie_word_embeddings", 1, "True or False"),
        ("layer_norm_eps", 0, "layer_norm_epsilon is layer_norm_eps in the file"),
        ("x" * 10_000, "x" * 10_000, "is not known"),
    ],
)
def test_values_of_another_kind(key, value, wanted, tmp_path):
    directory = rewritten(GOLDEN / "encoder", tmp_path, **{key: value})
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert "config.json" in message and wanted in message


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("task", ["encoder"], ("task", "a string")),
        ("family", {}, ("family", "a string")),
        ("config", [], ("config", "an object")),
        ("config", {}, ("vocab_size", "missing")),
        ("config", {"vocab_size": "x"}, ("vocab_size is 'x'",)),
        ("labels", "abc", ("labels", "a list")),
        ("labels", ["a", 1, "b"], ("labels[1] is 1", "a string")),
        ("text", [], ("text", "an object")),
        ("text", {"lowercase": True}, ("text", "max_length")),
        ("text", {"lowercase": "no", "max_length": 40}, ("lowercase is 'no'", "true or false")),
        ("pooling", {"mode": "mean", "normalize": 1}, ("normalize is 1", "true or false")),
        ("pooling", {"mode": "sum", "normalize": True}, ("'sum'", "cls")),
        ("format_version", [1] * 10_000, ("format", "reads format 1")),
    ],
)
def test_values_of_another_kind_in_our_own_directory(key, value, parts, saved, tmp_path):
    directory = rewritten(saved, tmp_path, "bert_zoo.json", **{key: value})
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert all(part in message for part in ("bert_zoo.json", *parts))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"[" * 100_000, ("too deeply",)),
        (b'{"a": ' * 100_000, ("too deeply",)),
        (b'{"vocab_size": ' + b"1" * 5_000 + b"}", ("5,000 digits",)),
        (b'{\n"a": 1,\n"b": \xff}', ("line 3", "UTF-8", "0xff")),
        (b'{\n"a": 1,\n"b": oops}', ("line 3", "not JSON", "oops")),
        (b"[" + b"1," * 1_000_000 + b"1]", ("JSON object",)),
        (b"", ("not JSON",)),
    ],
)
def test_files_that_are_no_json(content, parts, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    message = message_of(ConfigError, lambda: read_object(tmp_path / "config.json"))
    assert all(part in message for part in ("config.json", *parts))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{"0": 1}', "a JSON list"),
        ('["Normalize"]', "[0] is 'Normalize'"),
        ('[{"type": 3}]', "type is 3; it must be a string"),
    ],
)
def test_modules_of_another_kind(content, part, tmp_path):
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (directory / "modules.json").write_text(content)
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert "modules.json" in message and part in message


def test_json_values_are_taken_with_their_kind():
    values = JsonObject({"a": {"b": [1, "x"]}, "n": None, "f": float("inf"), "t": True}, "a.json")
    assert values.take("n", int, 5) == 5 and values.take("missing", str) is None
    for run, part in (
        (lambda: values.take("a", dict).items_of("b", int), "a.json, a: b[1] is 'x'"),
        (lambda: values.take("f", float), "finite"),
        (lambda: values.take("t", int), "a whole number"),
        (lambda: values.values_of(bool), "a.json: a is {'b'"),
    ):
        assert part in message_of(ConfigError, run)
    assert parse_json("[1]", "data.json") == [1]
    with pytest.raises(ValueError, match="line 9"):
        parse_json("[1", "data.json", 9)


# ---------------------------------------------------------------------------------------------
# Sizes
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["num_hidden_layers", "vocab_size", "intermediate_size", "max_position_embeddings"],
)
def test_sizes_are_compared_with_the_tensors_before_anything_is_built(key, tmp_path, monkeypatch):
    directory = rewritten(GOLDEN / "encoder", tmp_path, **{key: HUGE})
    monkeypatch.setattr(bert_zoo.models.Encoder, "__init__", lambda *args, **kwargs: sys.exit(1))
    message = message_of((ConfigError, WeightsError), lambda: bert_zoo.load(directory))
    assert f"{HUGE}" in message


def test_width_is_compared_with_the_tensors_before_anything_is_built(tmp_path, monkeypatch):
    directory = rewritten(GOLDEN / "encoder", tmp_path, hidden_size=4 * HUGE)
    monkeypatch.setattr(bert_zoo.models.Encoder, "__init__", lambda *args, **kwargs: sys.exit(1))
    message = message_of(WeightsError, lambda: bert_zoo.load(directory))
    assert f"{4 * HUGE}" in message and "Check that the configuration belongs" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [("d_inner", HUGE), ("n_layer", HUGE), ("d_head", HUGE), ("d_embed", HUGE), ("cutoffs", 5)],
)
def test_sizes_of_recurrent_models_are_compared_too(key, value, tmp_path):
    directory = rewritten(TRANSFORMER_XL, tmp_path, **{key: value})
    message_of((ConfigError, WeightsError), lambda: bert_zoo.load(directory))


def test_rough_parameters_are_close_to_the_built_encoders():
    for encoder in (loaded_task("encoder"), bert_zoo.load(TRANSFORMER_XL, "encoder")):
        assert encoder.config.rough_parameters() == pytest.approx(encoder.count_params(), rel=0.2)


def test_layers_that_share_weights_are_not_run_for_ever():
    with pytest.raises(ConfigError, match=r"num_layers is 1000000000; it must be at most 1,000"):
        EncoderConfig(vocab_size=9, num_hidden_groups=1, num_layers=HUGE)


def test_many_narrow_clusters_are_counted_at_once():
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 1, "head_size": 8}
    with pytest.raises(ConfigError, match="leaves the last of 50001 clusters no width"):
        RecurrentConfig(
            vocab_size=10**6,
            intermediate_size=8,
            cutoffs=tuple(range(1, 50_001)),
            div_val=10**18,
            **sizes,
        )
