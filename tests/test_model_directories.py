"""Directories whose files were damaged or written by hand: one clear error, before anything is built."""

import json
import shutil
import sys
import types
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import GOLDEN, TEXTS, assert_same, load_case, loaded, loaded_task, slow_but

import bert_zoo
from bert_zoo import models
from bert_zoo.config import ConfigError
from bert_zoo.families.albert.config import AlbertConfig
from bert_zoo.families.spanbert.family import SpanBertConfig
from bert_zoo.families.transformer_xl.config import RecurrentConfig
from bert_zoo.json_files import JsonObject, parse_json, read_object
from bert_zoo.loading import load as loading
from bert_zoo.registry import registry
from bert_zoo.text import tokenizer_from_dir
from bert_zoo.text.format import TokenizerParts
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


def pooled(tmp_path, **config):
    """An encoder's directory with sentence-transformers' configuration of pooling."""
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return directory


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
        ("hidden_act", ["gelu"], "it must be one of"),
        ("hidden_act", {}, "it must be one of"),
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
        ("text", {"lowercase": True, "max_length": None}, ("max_length is None", "a whole number")),
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
    directory = pooled(tmp_path, pooling_mode_cls_token=True)
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


# --- Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "vocab_size", "intermediate_size", "max_position_embeddings"]
)
def test_sizes_are_compared_with_the_tensors_before_anything_is_built(key, tmp_path, monkeypatch):
    directory = rewritten(GOLDEN / "encoder", tmp_path, **{key: HUGE})
    monkeypatch.setattr(bert_zoo.models.Encoder, "__init__", lambda *args, **kwargs: sys.exit(1))
    message = message_of((ConfigError, WeightsError), lambda: bert_zoo.load(directory))
    assert f"{HUGE}" in message


def test_width_is_compared_with_the_tensors_before_anything_is_built(tmp_path, monkeypatch):
    directory = rewritten(GOLDEN / "encoder", tmp_path, hidden_size=2 * HUGE)
    monkeypatch.setattr(bert_zoo.models.Encoder, "__init__", lambda *args, **kwargs: sys.exit(1))
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert f"hidden_size is {2 * HUGE}" in message


def test_a_configuration_far_beyond_its_tensors_is_refused(tmp_path, monkeypatch):
    """Also where the machine has the memory for it."""
    directory = rewritten(GOLDEN / "encoder", tmp_path, vocab_size=HUGE)
    monkeypatch.setattr("bert_zoo.config.machine_memory", lambda: None)
    message = message_of(WeightsError, lambda: bert_zoo.load(directory))
    assert f"vocab_size is {HUGE}" in message and "Check that the configuration belongs" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [("d_inner", HUGE), ("n_layer", HUGE), ("d_head", HUGE), ("d_embed", HUGE), ("cutoffs", 5)],
)
def test_sizes_of_recurrent_models_are_compared_too(key, value, tmp_path):
    directory = rewritten(TRANSFORMER_XL, tmp_path, **{key: value})
    message_of((ConfigError, WeightsError), lambda: bert_zoo.load(directory))


def test_layers_that_share_weights_are_not_run_for_ever():
    with pytest.raises(ConfigError, match=r"num_layers is 1000000000; it must be at most 1,000"):
        AlbertConfig(vocab_size=9, num_hidden_groups=1, num_layers=HUGE)


# Of which nothing is as large.
NO_SIZES = """pad_id sep_id inner_group_num global_attention_every clamp_len reuse_len span_targets
    attention_window max_global_tokens block_size num_random_blocks backward_tokens""".split()
# Which no layer of a family is made with.
UNREAD_SIZES = {
    **dict.fromkeys(("deberta", "deberta_v2"), ("max_positions", "embedding_size")),
    **dict.fromkeys(("gpt", "gpt2"), ("num_segments", "embedding_size")),
    **dict.fromkeys(
        ("modernbert", "t5", "mt5", "umt5", "byt5"),
        ("max_positions", "num_segments", "embedding_size"),
    ),
    "awd_lstm": ("lstm_size",),  # of all layers but the last
    "elmo": ("vocab_size", "max_characters"),
}
# Of a second encoder, which pretraining alone has.
OF_GENERATORS = ("generator_hidden_size",)


@pytest.mark.parametrize("family", registry().families)
def test_every_size_is_held_against_the_machines_memory(family):
    page = registry().families[family]
    config = page.config(page.checkpoints[0]).replace(num_layers=1)
    unread = UNREAD_SIZES.get(family, ())
    for name in config.sizes():
        if name in NO_SIZES or name in unread:
            continue
        with pytest.raises(ConfigError, match=rf"\b{name}\D+{10**12}\b"):
            config.replace(**{name: 10**12})
        # A generator's feed-forward layers are four times as wide.
        huge = 2**28 if name in OF_GENERATORS else 2**31 - 1
        with pytest.raises(ConfigError, match=rf"\b{name}\D+{huge}\b"):
            large = config.replace(**{name: huge})
            page.count(large.generator if name in OF_GENERATORS else large)


def test_heads_are_held_against_the_machines_memory_too():
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 1, "intermediate_size": 8}
    config = SpanBertConfig(vocab_size=9, span_targets=2**31 - 1, **sizes)
    with pytest.raises(ConfigError, match=f"span_targets is {2**31 - 1}"):
        models.Pretraining(models.Encoder(config, "spanbert"))


def test_nothing_is_built_that_the_machine_cannot_hold(monkeypatch):
    needed = 4 * loaded_task("encoder").count_params()
    monkeypatch.setattr("bert_zoo.config.machine_memory", lambda: needed - 1)
    for weights in ("pretrained", None):
        message = message_of(
            ConfigError, lambda weights=weights: load_case("encoder", weights=weights)
        )
        assert f"there are only {needed - 1:,} bytes of memory" in message
    monkeypatch.setattr("bert_zoo.config.machine_memory", lambda: 2 * needed)
    load_case("encoder")


def test_blocks_of_groups_are_not_run_for_ever():
    with pytest.raises(ConfigError, match=r"inner_group_num is 100, .* run 1200 blocks"):
        AlbertConfig(vocab_size=9, num_hidden_groups=1, inner_group_num=100)


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "tokenizer_config.json"])
def test_files_of_gigabytes_are_not_read_whole(name, tmp_path):
    directory = rewritten(GOLDEN / "encoder", tmp_path)
    with open(directory / name, "ab") as file:
        file.truncate(3 << 30)  # a hole, which takes no room
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert f"{name} has 3,221,225,472 bytes" in message


def test_many_narrow_clusters_are_counted_at_once():
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 1, "head_size": 8}
    with pytest.raises(ConfigError, match="leaves the last of 50001 clusters no width"):
        RecurrentConfig(
            vocab_size=10**6,
            intermediate_size=8,
            cutoffs=tuple(range(1, 50_001)),
            div_val=10**9,
            **sizes,
        )


# --- Vocabularies --------------------------------------------------------------------------------

# One of each kind of tokenizer.
VOCABULARIES = {
    "wordpiece": GOLDEN / "encoder",
    "byte_bpe": GOLDEN.parent / "roberta" / "classification",
    "sentencepiece": GOLDEN.parent / "albert" / "classification",
}


def vocabulary_of(directory) -> list[str]:
    return [path.name for path in directory.iterdir() if path.suffix in (".txt", ".json", ".model")]


@pytest.mark.parametrize(
    ("kind", "fmt"), [("wordpiece", "hf"), ("byte_bpe", "bert_zoo"), ("sentencepiece", "hf")]
)
def test_a_vocabulary_outlasts_its_directory(kind, fmt, tmp_path):
    expected = bert_zoo.load(VOCABULARIES[kind]).preprocessor(TEXTS)
    directory = shutil.copytree(VOCABULARIES[kind], tmp_path / "unpacked")
    model = bert_zoo.load(directory)
    shutil.rmtree(directory)
    bert_zoo.save(model, tmp_path / "saved", format=fmt)
    assert_same(model.preprocessor(TEXTS), expected)
    assert_same(bert_zoo.load(tmp_path / "saved").preprocessor(TEXTS), expected)


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
def test_a_vocabulary_is_saved_where_its_tokenizer_cannot_be_made(kind, tmp_path, monkeypatch):
    """As without TensorFlow, on JAX."""
    expected = bert_zoo.load(VOCABULARIES[kind], max_length=12).preprocessor(TEXTS)
    model = bert_zoo.load(VOCABULARIES[kind], max_length=12)
    with monkeypatch.context() as patch:
        patch.setattr(TokenizerParts, "make", missing_tensorflow)
        for fmt in ("bert_zoo", "hf"):
            bert_zoo.save(model, tmp_path / fmt, format=fmt)
        model.save(tmp_path / "model.keras")
    for again in (
        bert_zoo.load(tmp_path / "bert_zoo"),
        bert_zoo.load(tmp_path / "hf"),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        assert_same(again.preprocessor(TEXTS), expected)


def missing_tensorflow(*args, **kwargs):
    raise ImportError("No module named 'tensorflow'")


def test_save_never_drops_a_vocabulary(tmp_path, monkeypatch, caplog):
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    lines = (directory / "vocab.txt").read_text().splitlines()
    (directory / "vocab.txt").write_text("\n".join([*lines[:-1], lines[0]]))
    model = bert_zoo.load(directory)
    message = message_of(ConfigError, lambda: bert_zoo.save(model, tmp_path / "saved"))
    assert lines[0] in message and str(directory) in message
    assert not (tmp_path / "saved").exists()
    for name in ("vocab.txt", "tokenizer.json"):
        (directory / name).unlink(missing_ok=True)
    bert_zoo.save(bert_zoo.load(directory), tmp_path / "saved")
    assert "not saved with the model" in caplog.text and "vocab.txt" in caplog.text


@pytest.mark.parametrize(
    ("kind", "file", "content", "parts"),
    [
        ("wordpiece", "vocab.txt", b"[PAD]\n\xff\n", ("line 2", "UTF-8")),
        ("wordpiece", "tokenizer_config.json", b'{"do_lower_case": "no"}', ("true or false",)),
        ("wordpiece", "tokenizer_config.json", b'{"unk_token": 5}', ("unk_token is 5", "a string")),
        ("wordpiece", "tokenizer_config.json", b'{"unk_token": {}}', ("unk_token", "'content'")),
        ("wordpiece", "tokenizer_config.json", b'{"model_max_length": []}', ("a number",)),
        ("wordpiece", "tokenizer_config.json", b'{"added_tokens_decoder": []}', ("an object",)),
        ("wordpiece", "tokenizer_config.json", b'{"added_tokens_decoder": {"x": {}}}', ("'x'",)),
        ("wordpiece", "tokenizer.json", b'{"model": []}', ("model is []", "an object")),
        ("wordpiece", "tokenizer.json", b'{"added_tokens": {"a": 1}}', ("tokenizer.json",)),
        ("wordpiece", "special_tokens_map.json", b"[" * 10**5, ("too deeply",)),
        ("wordpiece", "added_tokens.json", b'{"[NEW]": "x"}', ("[NEW] is 'x'", "a whole number")),
        ("wordpiece", "added_tokens.json", b'{"[NEW]": -1}', ("has id -1",)),
        ("byte_bpe", "merges.txt", b"#version\na b\n\xe9 x\n", ("line 3", "UTF-8")),
        ("byte_bpe", "vocab.json", b'{"a": "0"}', ("a is '0'", "a whole number")),
        ("byte_bpe", "tokenizer_config.json", b'{"mask_token": []}', ("mask_token is []",)),
        ("sentencepiece", "tokenizer_config.json", b'{"keep_accents": 3}', ("keep_accents is 3",)),
    ],
)
def test_vocabularies_of_another_kind(kind, file, content, parts, tmp_path):
    directory = shutil.copytree(VOCABULARIES[kind], tmp_path / "model")
    (directory / file).write_bytes(content)
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert all(part in message for part in (str(directory), *parts))


def test_a_vocabulary_is_compared_with_the_token_table(tmp_path, caplog, monkeypatch):
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    lines = (directory / "vocab.txt").read_text().splitlines(keepends=True)
    (directory / "vocab.txt").write_text("".join([*lines, "further\n"]))
    message = message_of(ConfigError, lambda: bert_zoo.load(directory))
    assert "121 tokens" in message and "120 rows" in message
    (directory / "vocab.txt").write_text("".join(lines[:40]))
    bert_zoo.load(directory)
    assert not caplog.records  # so few rows may be padding
    monkeypatch.setattr(loading, "UNUSED_ROWS", 64)
    bert_zoo.load(directory)
    assert "has 40 tokens" in caplog.text and "120 rows" in caplog.text


@pytest.mark.parametrize("task", ["encoder", "embedding", "classification"])
def test_hugging_face_directory_says_where_texts_are_cut(task, tmp_path):
    bert_zoo.save(bert_zoo.load(GOLDEN / "encoder", task, max_length=12), tmp_path, format="hf")
    again = bert_zoo.load(tmp_path, task)
    assert again.preprocessor.sequence_length == 12
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["model_max_length"] == 12 and config["do_lower_case"] is True
    files = {"modules.json", "sentence_bert_config.json"}
    assert {path.name for path in tmp_path.iterdir()} >= files or task == "classification"
    if task != "classification":
        length = json.loads((tmp_path / "sentence_bert_config.json").read_text())["max_seq_length"]
        kinds = [row["type"] for row in json.loads((tmp_path / "modules.json").read_text())]
        assert length == 12 and kinds[0].endswith("Transformer") and kinds[-1].endswith("Normalize")


def test_sentence_transformers_length_goes_before_the_tokenizers(tmp_path):
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    for length, expected in ((16, 16), (10**30, 40)):
        (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
        assert bert_zoo.load(directory).preprocessor.sequence_length == expected
    (directory / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    assert bert_zoo.load(directory).preprocessor.sequence_length == 8
    assert bert_zoo.load(directory, max_length=20).preprocessor.sequence_length == 20


@pytest.mark.parametrize("named", ["cls", ["cls"]])
def test_pooling_named_as_newer_files_do(named, tmp_path):
    config = {"embedding_dimension": 32, "pooling_mode": named, "include_prompt": True}
    directory = pooled(tmp_path, **config)
    assert bert_zoo.load(directory).pooling.mode == "cls"


def test_what_sentence_transformers_would_do_besides_is_said(tmp_path, caplog):
    directory = pooled(tmp_path, pooling_mode_mean_tokens=True)
    (directory / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    bert_zoo.load(directory)
    said = caplog.text
    assert "sentence_bert_config.json asks for lower case" in said


# --- What load is given --------------------------------------------------------------------------


def test_a_head_that_is_left_out_is_named_with_its_task(caplog):
    bert_zoo.load(GOLDEN / "question_answering", "encoder")
    bert_zoo.load(GOLDEN / "encoder")
    assert not caplog.records
    bert_zoo.load(GOLDEN / "question_answering")
    (record,) = caplog.records
    assert "Pass task='question_answering'" in record.getMessage()


def test_num_labels_is_num_classes():
    options = {"task": "classification", "num_labels": 4}
    assert load_case("encoder", **options).num_classes == 4
    assert load_case("encoder", **options, num_classes=4).num_classes == 4
    message = message_of(ValueError, lambda: load_case("encoder", **options, num_classes=3))
    assert "num_classes is 3 and num_labels 4" in message


@pytest.mark.parametrize(
    ("name", "first"),
    [("bert", "bert_base"), ("roberta", "roberta_base"), ("albert-xlarge", "albert_xlarge")],
)
def test_names_that_begin_so_are_suggested_first(name, first):
    message = message_of(ValueError, lambda: bert_zoo.load(name))
    assert f"nearest names are '{first}'" in message and "scibert" not in message


def test_files_and_saved_models_say_what_reads_them(tmp_path):
    (tmp_path / "model.keras").touch()
    message = message_of(ValueError, lambda: bert_zoo.load(tmp_path / "model.keras"))
    assert "keras.models.load_model" in message
    (tmp_path / "model.safetensors").touch()
    message = message_of(FileNotFoundError, lambda: bert_zoo.load(tmp_path / "model.safetensors"))
    assert f"{tmp_path} contains no model" in message and "config.json" in message
    (tmp_path / "saved_model.pb").touch()
    message = message_of(FileNotFoundError, lambda: bert_zoo.load(tmp_path))
    assert "tf.saved_model.load" in message and "SavedModelLayer" in message


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx", "model.tflite"])
def test_graphs_say_what_runs_them(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    for given, error in ((name, ValueError), (file, ValueError), (tmp_path, FileNotFoundError)):
        message = message_of(error, lambda given=given: bert_zoo.load(given))
        assert "bert_zoo.runtime.load(" in message
        assert "that was exported" in message
    # As optimum lays it out.
    shutil.copy(GOLDEN / "encoder" / "config.json", tmp_path)
    assert "bert_zoo.runtime.load(" in message_of(
        FileNotFoundError, lambda: bert_zoo.load(tmp_path)
    )


def test_a_run_is_loaded_as_its_model(saved, tmp_path, caplog):
    def run(name, figure):
        shutil.copytree(saved, tmp_path / name / "model")
        (tmp_path / name / "config.json").write_text('{"model": "minilm_l6", "recipe": {}}')
        if figure is not None:
            metrics = {"kept": {"accuracy": figure, "f1": 0.1}}
            (tmp_path / name / "metrics.json").write_text(json.dumps(metrics))

    run("run", 0.5)
    assert bert_zoo.load(tmp_path / "run").task == "classification"
    assert not caplog.records
    for seed, figure in enumerate((0.7, 0.9, None, 0.8)):
        run(f"runs/seed_{seed}", figure)
    shutil.rmtree(tmp_path / "runs" / "seed_0" / "model")
    bert_zoo.load(tmp_path / "runs")
    (record,) = caplog.records
    assert "seed_1: 0.9000" in record.getMessage() and "seed_1 is loaded" in record.getMessage()


def test_a_model_is_pushed_as_it_is_saved_for_transformers(monkeypatch):
    calls = []

    class Api:
        def __init__(self, token, library_name):
            assert (token, library_name) == ("secret", "bert_zoo")

        def create_repo(self, repo_id, private, exist_ok):
            calls.append(("create", repo_id, private, exist_ok))
            return types.SimpleNamespace(repo_id=f"me/{repo_id}")

        def upload_folder(self, repo_id, folder_path, commit_message):
            names = {path.name for path in Path(folder_path).iterdir()}
            calls.append(("upload", repo_id, {"config.json", "model.safetensors"} <= names))
            return types.SimpleNamespace(commit_url=f"address of {repo_id}")

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    model = loaded_task("classification")
    url = bert_zoo.push_to_hub(model, "mine", private=True, token="secret")
    assert url == "address of me/mine"
    assert calls == [("create", "mine", True, True), ("upload", "me/mine", True)]
    for wrong in ("a/b/c", "", "hf://a/b"):
        with pytest.raises(ValueError, match="owner/my-model"):
            bert_zoo.push_to_hub(model, wrong)
    assert len(calls) == 2


# --- Hugging Face's files of the tokenizer ---------------------------------------------------------

# Family -> the golden case whose directory is written, and transformers' class.
WRITTEN = {
    "bert": ("bert/classification", "BertTokenizer"),
    "spanbert": ("spanbert/encoder", "BertTokenizer"),
    "distilbert": ("distilbert/classification", "DistilBertTokenizer"),
    "mpnet": ("mpnet/encoder", "MPNetTokenizer"),
    "roberta": ("roberta/classification", "RobertaTokenizer"),
    "gpt": ("gpt/classification", "OpenAIGPTTokenizer"),
    "gpt2": ("gpt2/classification", "GPT2Tokenizer"),
    "albert": ("albert/classification", "PreTrainedTokenizerFast"),
    "camembert": ("camembert/encoder", "PreTrainedTokenizerFast"),
    "deberta": ("deberta/classification", "PreTrainedTokenizerFast"),
    "deberta_v2": ("deberta_v2/classification", "PreTrainedTokenizerFast"),
    "modernbert": ("modernbert/classification", "PreTrainedTokenizerFast"),
    "xlm_roberta": ("xlm_roberta/encoder", "PreTrainedTokenizerFast"),
    "xlnet": ("xlnet/classification", "PreTrainedTokenizerFast"),
}


@pytest.mark.parametrize("family", WRITTEN)
def test_hugging_faces_library_reads_texts_and_pairs_as_the_model(family, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    case, transformers_class = WRITTEN[family]
    model = loaded(case)
    bert_zoo.save(model, tmp_path, format="hf")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    inputs = model.preprocessor(TEXTS)
    assert config["tokenizer_class"] == transformers_class
    assert ("token_type_ids" in config["model_input_names"]) == ("segment_ids" in inputs)
    assert config["padding_side"] == ("left" if family == "xlnet" else "right")
    written = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    again = bert_zoo.load(tmp_path, model.task)
    texts = [*TEXTS, "The CAT, caf\u00e9 ``x''  [MASK]<mask>", ""]
    # In transformers special tokens in a text always become their own ids.
    texts = texts if family not in ("albert", "xlnet") else texts[:-2]
    for given in (texts, (texts, texts[::-1])):
        rows = [*zip(*given, strict=True)] if isinstance(given, tuple) else given
        preprocessor = model.preprocessor.with_options(sequence_length=256)
        inputs = preprocessor(given)
        assert_same(again.preprocessor.with_options(sequence_length=256)(given), inputs)
        masks = np.asarray(inputs["padding_mask"]) == 1
        for row, ids, mask in zip(
            written.encode_batch(rows), inputs["token_ids"], masks, strict=True
        ):
            assert row.ids == np.asarray(ids)[mask].tolist()
        if "segment_ids" in inputs:
            of_rows = zip(written.encode_batch(rows), inputs["segment_ids"], masks, strict=True)
            assert all(r.type_ids == np.asarray(s)[mask].tolist() for r, s, mask in of_rows)


def test_xlm_says_which_token_stands_before_a_text(tmp_path):
    bert_zoo.save(loaded("xlm/encoder"), tmp_path, format="hf")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["bos_token"] == config["cls_token"] == "</s>"
    first = int(loaded("xlm/encoder").preprocessor(TEXTS)["token_ids"][0, 0])
    # As transformers 5 writes it where nobody says otherwise.
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | {"bos_token": "<s>"}))
    ids = bert_zoo.load(tmp_path).preprocessor(TEXTS)["token_ids"]
    assert first == 1 and set(np.asarray(ids)[:, 0]) == {0}


def step(kind: str, **settings) -> dict:
    return {"type": kind, **settings}


def replacing(pattern: str, content: str, kind: str = "String") -> dict:
    return step("Replace", pattern={kind: pattern}, content=content)


QUOTES = [replacing("``", '"'), replacing("''", '"')]
# What transformers 5 and 4 write for the families, without the rules of the model.
NORMALIZERS = {
    "albert": [*QUOTES, step("NFKD"), step("StripAccents"), step("Lowercase")],
    "xlnet": [*QUOTES, step("NFKD"), step("StripAccents"), replacing(" {2,}", " ", "Regex")],
    "camembert": [
        step("Strip", strip_left=False, strip_right=True),
        replacing(" {2,}", "\u2581", "Regex"),
    ],
    "xlm_roberta": [],
    "deberta_v2": [
        replacing(r"\s{2,}|[\n\r\t]", " ", "Regex"),
        step("NFC"),
        step("Strip", strip_left=False, strip_right=True),
    ],
}


@pytest.mark.parametrize("family", slow_but(NORMALIZERS, "albert"))
def test_a_sentencepiece_vocabulary_in_tokenizer_json_alone(family, tmp_path):
    """As transformers 5 leaves it."""
    tokenizers = pytest.importorskip("tokenizers")
    bert_zoo.save(loaded(WRITTEN[family][0]), tmp_path, format="hf")
    (model,) = tmp_path.glob("*.model")
    file = tmp_path / "tokenizer.json"
    model.unlink()
    original = loaded(WRITTEN[family][0]).preprocessor.tokenizer
    assert tokenizer_from_dir(tmp_path, family)(TEXTS).to_list() == original(TEXTS).to_list()

    content = json.loads(file.read_text())
    metaspace = step("Metaspace", replacement="\u2581", prepend_scheme="always", split=True)
    content["normalizer"] = step("Sequence", normalizers=NORMALIZERS[family])
    content["pre_tokenizer"] = metaspace
    if family != "deberta_v2":
        steps = [step("WhitespaceSplit"), metaspace]
        content["pre_tokenizer"] = step("Sequence", pretokenizers=steps)
    file.write_text(json.dumps(content))
    texts = [
        *TEXTS,
        "The CAT  12, 37,405 ``the''",
        "ca\u0301t\u093e\tth\u0065 \n dog\u3000\u3000bird",
        "\u03a3\u03a3 ",
        "",
    ]
    written = tokenizers.Tokenizer.from_file(str(file))
    wanted = [row.ids for row in written.encode_batch(texts, add_special_tokens=False)]
    tokenizer = tokenizer_from_dir(tmp_path, family)
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer(texts).to_list() == ids.to_list() == wanted
    assert (starts.flat_values.numpy() < ends.flat_values.numpy()).all()
    tokenizer.save(tmp_path / "again")
    assert tokenizer_from_dir(tmp_path / "again", family)(texts).to_list() == wanted

    content["normalizer"]["normalizers"].append(step("Prepend", prepend="x"))
    file.write_text(json.dumps(content))
    assert "Prepend" in message_of(ConfigError, lambda: bert_zoo.load(tmp_path))


@pytest.mark.parametrize("named", ["XLMRobertaTokenizer", "PreTrainedTokenizerFast"])
def test_berts_layers_are_told_apart_by_their_vocabulary(named, tmp_path):
    """As transformers 5 writes it, and as sentence-transformers saves paraphrase-multilingual-MiniLM."""
    original = loaded("multilingual_minilm/encoder")
    bert_zoo.save(original, tmp_path / "saved", format="hf")
    (tmp_path / "saved" / "sentencepiece.bpe.model").unlink()
    directory = rewritten(tmp_path / "saved", tmp_path, tokenizer_class=None)
    rewritten(directory, tmp_path / "again", "tokenizer_config.json", tokenizer_class=named)
    model = bert_zoo.load(tmp_path / "again" / "model")
    assert model.family == "multilingual_minilm"
    inputs = original.preprocessor(TEXTS)
    assert_same(model.preprocessor(TEXTS), inputs)
    assert_same(model(inputs), original(inputs))


def test_a_directory_of_another_family_is_not_written_over(tmp_path):
    bert_zoo.save(loaded("roberta/encoder"), tmp_path, format="hf")
    before = (tmp_path / "config.json").read_bytes()
    message = message_of(
        FileExistsError, lambda: bert_zoo.save(loaded("bert/encoder"), tmp_path, "hf")
    )
    assert "'roberta'" in message and "another directory" in message
    assert (tmp_path / "config.json").read_bytes() == before
    bert_zoo.save(loaded("roberta/classification"), tmp_path, format="hf")


def test_a_language_models_directory_says_where_texts_end(tmp_path):
    for task in ("causal_lm", "classification"):
        bert_zoo.save(load_case(f"gpt2/{task}"), tmp_path / task, format="hf")
        config = json.loads((tmp_path / task / "config.json").read_text())
        end = loaded(f"gpt2/{task}").preprocessor.tokenizer.eos_id
        assert (
            config["eos_token_id"] == config["bos_token_id"] == end and config["dtype"] == "float32"
        )
        # transformers looks for the last token of a text by it.
        assert config.get("pad_token_id") == (end if task == "classification" else None)
    generation = json.loads((tmp_path / "causal_lm" / "generation_config.json").read_text())
    assert generation["eos_token_id"] == end
    assert not (tmp_path / "classification" / "generation_config.json").exists()
    again = bert_zoo.load(tmp_path / "classification", "classification")
    inputs = loaded("gpt2/classification").preprocessor(TEXTS)
    expected = loaded("gpt2/classification")(inputs)
    np.testing.assert_allclose(again(inputs), expected, atol=1e-6)
    bert_zoo.save(loaded("gpt/classification"), tmp_path / "gpt", format="hf")
    config = json.loads((tmp_path / "gpt" / "tokenizer_config.json").read_text())
    assert config["pad_token"] == config["unk_token"]


def test_a_hugging_face_directory_has_a_model_card(tmp_path):
    model = load_case("bert/classification")
    model.encoder.loaded_from = "google-bert/bert-base-uncased"
    model.fit(TEXTS, [0, 1, 1, 0][: len(TEXTS)] + [0] * (len(TEXTS) - 4), epochs=1, verbose=0)
    for _ in range(2):  # its own card is written anew
        bert_zoo.save(model, tmp_path, format="hf")
    _, head, text = (tmp_path / "README.md").read_text().split("---\n", 2)
    values = dict(line.split(": ", 1) for line in head.splitlines())
    assert {name: json.loads(value) for name, value in values.items()} == {
        "library_name": "transformers",
        "tags": ["bert_zoo"],
        "license": "apache-2.0",
        "base_model": "google-bert/bert-base-uncased",
        "pipeline_tag": "text-classification",
        "metrics": [*model.history.history],
    }
    assert "| accuracy |" in text
    (tmp_path / "README.md").write_text("my own")
    bert_zoo.save(model, tmp_path, format="hf")
    assert (tmp_path / "README.md").read_text() == "my own"

    bert_zoo.save(load_case("bert/encoder", "embedding"), tmp_path / "vectors", format="hf")
    assert "add_pooling_layer=False" in (tmp_path / "vectors" / "README.md").read_text()
    settings = json.loads((tmp_path / "vectors" / "sentence_bert_config.json").read_text())
    assert settings["model_args"] == {"add_pooling_layer": False}


def test_a_head_of_one_logit_is_no_classifier(tmp_path, caplog):
    """As cross-encoders have it: num_labels 1, and no problem_type."""
    bert_zoo.save(loaded("bert/regression"), tmp_path, format="hf")
    config = json.loads((tmp_path / "config.json").read_text())
    del config["problem_type"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    message = message_of(ValueError, lambda: bert_zoo.load(tmp_path, "classification"))
    assert "task='regression'" in message and "task='reranking'" in message
    inputs = loaded("bert/regression").preprocessor(TEXTS)
    logits = np.asarray(loaded("bert/regression")(inputs))
    np.testing.assert_array_equal(bert_zoo.load(tmp_path, "regression")(inputs), logits)
    scored = bert_zoo.load(tmp_path, "multi_label_classification").classify(TEXTS)
    sigmoid = 1 / (1 + np.exp(-logits[:, 0]))
    np.testing.assert_allclose([row.scores["LABEL_0"] for row in scored], sigmoid, atol=1e-6)
    caplog.clear()
    bert_zoo.load(tmp_path)
    (line,) = [
        record.getMessage()
        for record in caplog.records
        if "only its encoder was loaded" in record.message
    ]
    assert "'regression'" in line and "task='classification'" not in line
    assert bert_zoo.load(tmp_path, "classification", init=("classifier",)).num_classes == 2


def test_pairs_that_a_file_composes_otherwise_are_said(tmp_path, caplog):
    """As transformers 5.24 writes DeBERTa's."""
    bert_zoo.save(loaded("deberta/encoder"), tmp_path, format="hf")
    bert_zoo.load(tmp_path)
    assert "of a pair" not in caplog.text
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    pair = content["post_processor"]["processors"][1]["pair"]
    pair.insert(2, pair[2])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    bert_zoo.load(tmp_path)
    assert "puts 4 special tokens" in caplog.text and "with 3" in caplog.text
