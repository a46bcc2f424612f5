"""Directories whose files were damaged or written by hand: one clear error, before anything is built."""

import functools
import json
import shutil
import sys
import types
from pathlib import Path

import helpers
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    GOLDEN,
    TEXTS,
    arrays,
    assert_same,
    assert_same_variables,
    change_json,
    directory_of,
    first_config,
    inputs_of,
    load_case,
    loaded,
    loaded_task,
    of_layers,
    read_json,
    refusals,
    slow_but,
    task_inputs,
)

import bert_zoo
from bert_zoo import models
from bert_zoo.config import ConfigError
from bert_zoo.families.albert import AlbertConfig
from bert_zoo.families.spanbert import SpanBertConfig
from bert_zoo.families.transformer_xl.family import RecurrentConfig
from bert_zoo.json_files import read_object
from bert_zoo.loading import load as loading
from bert_zoo.registry import registry
from bert_zoo.text import tokenizer_from_dir
from bert_zoo.text.format import TokenizerParts
from bert_zoo.weights.files import WeightsError

HUGE = 10**9
SIZES = "num_hidden_layers vocab_size intermediate_size max_position_embeddings hidden_size".split()
RECURRENT = "transformer_xl/hf_adaptive"


def rewritten(directory, tmp_path, file="config.json", **changes):
    """A copy of a directory, one JSON file of which has other values."""
    copy = shutil.copytree(directory, tmp_path / "model", dirs_exist_ok=True)
    change_json(copy / file, **changes)
    return copy


def copy_of_encoder(tmp_path) -> Path:
    return shutil.copytree(GOLDEN / "encoder", tmp_path / "model")


def assert_refused(call, words: str, error=ConfigError) -> None:
    """Checks that the call raises an error of all the words, and of few others."""

    def brief():
        try:
            call()
        except error as raised:
            assert len(str(raised)) < 2_000
            raise

    helpers.assert_refused(brief, words, error)


def pooled(tmp_path, **config):
    """An encoder's directory with sentence-transformers' configuration of pooling."""
    directory = copy_of_encoder(tmp_path)
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return directory


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    bert_zoo.save(loaded_task("classification"), directory)
    return directory


# test_field_limits.py has what single fields may be.
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model_type", ["bert"], "a string"),
        ("architectures", "BertModel", "a list"),
        ("architectures", [1], "a string"),
        ("id2label", ["a", "b"], "an object"),
        ("id2label", {"0": ["a"]}, "a string"),
        ("id2label", {"9" * 5000: "a"}, "0, 1, 2"),
        ("hidden_act", {}, "it must be one of"),
        ("tie_word_embeddings", 1, "true or false"),
        ("layer_norm_eps", 0, "layer_norm_epsilon is layer_norm_eps in the file"),
        ("x" * 10_000, "x" * 10_000, "is not known"),
    ],
)
def test_values_of_another_kind(key, value, words, tmp_path):
    directory = rewritten(GOLDEN / "encoder", tmp_path, **{key: value})
    assert_refused(lambda: bert_zoo.load(directory), f"config.json | {words}")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("task", ["encoder"], "task | a string"),
        ("family", {}, "family | a string"),
        ("config", [], "config | an object"),
        ("config", {}, "vocab_size | missing"),
        ("config", {"vocab_size": "x"}, "vocab_size is 'x'"),
        ("labels", "abc", "labels | a list"),
        ("labels", ["a", 1, "b"], "labels[1] is 1 | a string"),
        ("text", [], "text | an object"),
        ("text", {"lowercase": True}, "text | max_length"),
        ("text", {"lowercase": "no", "max_length": 40}, "lowercase is 'no' | true or false"),
        ("text", {"lowercase": True, "max_length": None}, "max_length is None | a whole number"),
        ("pooling", {"mode": "mean", "normalize": 1}, "normalize is 1 | true or false"),
        ("pooling", {"mode": "sum", "normalize": True}, "'sum' | cls"),
        ("format_version", [1] * 10_000, "format | reads format 1"),
    ],
)
def test_values_of_another_kind_in_our_own_directory(key, value, words, saved, tmp_path):
    directory = rewritten(saved, tmp_path, "bert_zoo.json", **{key: value})
    assert_refused(lambda: bert_zoo.load(directory), f"bert_zoo.json | {words}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000, "too deeply"),
        (b'{"a": ' * 100_000, "too deeply"),
        (b'{"vocab_size": ' + b"1" * 5_000 + b"}", "5,000 digits"),
        (b'{\n"a": 1,\n"b": \xff}', "line 3 | UTF-8 | 0xff"),
        (b'{\n"a": 1,\n"b": oops}', "line 3 | not JSON | oops"),
        (b"[" + b"1," * 1_000_000 + b"1]", "JSON object"),
        (b"", "not JSON"),
    ],
    ids=str,
)
def test_files_that_are_no_json(content, words, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    assert_refused(lambda: read_object(tmp_path / "config.json"), f"config.json | {words}")


# --- Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "key", "value"),
    [
        *(("bert/encoder", key, HUGE) for key in SIZES),
        *((RECURRENT, key, HUGE) for key in ("d_inner", "n_layer", "d_head", "d_embed")),
        (RECURRENT, "cutoffs", 5),
    ],
)
def test_sizes_are_compared_with_the_tensors_before_anything_is_built(
    case, key, value, tmp_path, monkeypatch
):
    """Also where the machine has the memory for it."""
    monkeypatch.setattr(bert_zoo.models.Encoder, "__init__", lambda *args, **kwargs: sys.exit(1))
    monkeypatch.setattr("bert_zoo.config.machine_memory", lambda: None)
    directory, errors = rewritten(directory_of(case), tmp_path, **{key: value}), WeightsError
    words = str(value)
    if key == "vocab_size":
        words = f"vocab_size is {HUGE} | Check that the configuration belongs"
    assert_refused(lambda: bert_zoo.load(directory), words, (ConfigError, errors))


LAYER = {"hidden_size": 8, "num_layers": 1, "num_heads": 1}
SHARED = {"vocab_size": 9, "num_hidden_groups": 1}
MANY = {"cutoffs": tuple(range(1, 50_001)), "div_val": 10**9}


@refusals(
    (lambda: AlbertConfig(**SHARED, num_layers=HUGE), "num_layers is 1000000000 | to 1,000"),
    (lambda: AlbertConfig(**SHARED, inner_group_num=100), "inner_group_num is 100 | 1200 blocks"),
    (
        lambda: RecurrentConfig(
            vocab_size=10**6, intermediate_size=8, head_size=8, **LAYER, **MANY
        ),
        "leaves the last of 50001 clusters no width",
    ),
    (
        lambda: models.Pretraining(
            models.Encoder(
                SpanBertConfig(vocab_size=9, span_targets=2**31 - 1, intermediate_size=8, **LAYER),
                "spanbert",
            )
        ),
        f"span_targets is {2**31 - 1}",
    ),
)
def test_sizes_that_would_run_for_ever_or_fill_the_memory(call, words):
    assert_refused(call, words)


# Of which nothing is as large.
NO_SIZES = """pad_id sep_id mask_id inner_group_num global_attention_every clamp_len reuse_len span_targets
    attention_window sliding_window max_global_tokens block_size num_random_blocks backward_tokens""".split()
# Which no layer of a family is made with.
UNREAD_SIZES = {
    **dict.fromkeys(("deberta", "deberta_v2"), ("max_positions", "embedding_size")),
    **dict.fromkeys(("gpt", "gpt2"), ("num_segments", "embedding_size")),
    **dict.fromkeys(
        ("modernbert", "eurobert", "ultrabert", "esm2", "neobert", "t5", "mt5", "umt5", "byt5"),
        ("max_positions", "num_segments", "embedding_size", "prediction_head_size"),
    ),
    **dict.fromkeys(
        ("jina_v3", "jina_bert_v2", "nomic_bert", "gte", "multilingual_gte"),
        ("max_positions", "embedding_size"),
    ),
    "roformer": ("max_positions",),
    "awd_lstm": ("lstm_size",),  # of all layers but the last
    "elmo": ("vocab_size", "max_characters"),
}
# Of a second encoder, which pretraining alone has.
OF_GENERATORS = ("generator_hidden_size",)


@pytest.mark.parametrize("family", registry().families)
def test_every_size_is_held_against_the_machines_memory(family):
    page = registry().families[family]
    config = of_layers(first_config(page), 1)
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


def test_nothing_is_built_that_the_machine_cannot_hold(monkeypatch):
    needed = 4 * loaded_task("encoder").count_params()
    monkeypatch.setattr("bert_zoo.config.machine_memory", lambda: needed - 1)
    for weights in ("pretrained", None):
        words = f"there are only {needed - 1:,} bytes of memory"
        assert_refused(lambda: load_case("encoder", weights=weights), words)  # noqa: B023
    monkeypatch.setattr("bert_zoo.config.machine_memory", lambda: 2 * needed)
    load_case("encoder")


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "tokenizer_config.json"])
def test_files_of_gigabytes_are_not_read_whole(name, tmp_path):
    directory = copy_of_encoder(tmp_path)
    with open(directory / name, "ab") as file:
        file.truncate(3 << 30)  # a hole, which takes no room
    assert_refused(lambda: bert_zoo.load(directory), f"{name} has 3,221,225,472 bytes")


# --- Vocabularies --------------------------------------------------------------------------------

# One of each kind of tokenizer.
VOCABULARIES = {
    "wordpiece": GOLDEN / "encoder",
    "byte_bpe": GOLDEN.parent / "roberta" / "classification",
    "sentencepiece": GOLDEN.parent / "albert" / "classification",
}


@pytest.mark.parametrize("kind", slow_but(VOCABULARIES, "sentencepiece"))
def test_a_vocabulary_outlasts_its_directory_also_without_its_tokenizer(
    kind, tmp_path, monkeypatch
):
    """As without TensorFlow, on JAX."""
    directory = shutil.copytree(VOCABULARIES[kind], tmp_path / "unpacked")
    expected = bert_zoo.load(directory, max_length=12).preprocessor(TEXTS)
    model = bert_zoo.load(directory, max_length=12)
    shutil.rmtree(directory)
    with monkeypatch.context() as patch:
        patch.setattr(TokenizerParts, "make", missing_tensorflow)
        for fmt in ("bert_zoo", "hf"):
            bert_zoo.save(model, tmp_path / fmt, format=fmt)
        model.save(tmp_path / "model.keras")
    for again in (
        model,
        bert_zoo.load(tmp_path / "bert_zoo"),
        bert_zoo.load(tmp_path / "hf"),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        assert_same(again.preprocessor(TEXTS), expected)


def missing_tensorflow(*args, **kwargs):
    raise ImportError("No module named 'tensorflow'")


def test_save_never_drops_a_vocabulary(tmp_path, caplog):
    directory = copy_of_encoder(tmp_path)
    lines = (directory / "vocab.txt").read_text().splitlines()
    (directory / "vocab.txt").write_text("\n".join([*lines[:-1], lines[0]]))
    model = bert_zoo.load(directory)
    words = f"{lines[0]} | {directory}"
    assert_refused(lambda: bert_zoo.save(model, tmp_path / "saved"), words)
    assert not (tmp_path / "saved").exists()
    for name in ("vocab.txt", "tokenizer.json"):
        (directory / name).unlink(missing_ok=True)
    for fmt in ("bert_zoo", "hf"):
        caplog.clear()
        bert_zoo.save(bert_zoo.load(directory), tmp_path / fmt, format=fmt)
        assert "not saved with the model" in caplog.text and "vocab.txt" in caplog.text
        assert_same_variables(bert_zoo.load(tmp_path / fmt), model)


@pytest.mark.parametrize(
    ("kind", "file", "content", "words"),
    [
        ("wordpiece", "vocab.txt", b"[PAD]\n\xff\n", "line 2 | UTF-8"),
        ("wordpiece", "tokenizer_config.json", b'{"do_lower_case": "no"}', "true or false"),
        ("wordpiece", "tokenizer_config.json", b'{"unk_token": 5}', "unk_token is 5 | a string"),
        ("wordpiece", "tokenizer_config.json", b'{"unk_token": {}}', "unk_token | 'content'"),
        ("wordpiece", "tokenizer_config.json", b'{"model_max_length": []}', "a finite number"),
        ("wordpiece", "tokenizer_config.json", b'{"added_tokens_decoder": []}', "an object"),
        ("wordpiece", "tokenizer_config.json", b'{"added_tokens_decoder": {"x": {}}}', "'x'"),
        ("wordpiece", "tokenizer.json", b'{"model": []}', "model is [] | an object"),
        ("wordpiece", "tokenizer.json", b'{"added_tokens": {"a": 1}}', "tokenizer.json"),
        ("wordpiece", "special_tokens_map.json", b"[" * 10**5, "too deeply"),
        ("wordpiece", "added_tokens.json", b'{"[NEW]": "x"}', "[NEW] is 'x' | a whole number"),
        ("wordpiece", "added_tokens.json", b'{"[NEW]": -1}', "has id -1"),
        ("wordpiece", "modules.json", b'{"0": 1}', "modules.json | a JSON list"),
        ("wordpiece", "modules.json", b'["Normalize"]', "modules.json | [0] is 'Normalize'"),
        ("wordpiece", "modules.json", b'[{"type": 3}]', "type is 3; it must be a string"),
        ("byte_bpe", "merges.txt", b"#version\na b\n\xe9 x\n", "line 3 | UTF-8"),
        ("byte_bpe", "vocab.json", b'{"a": "0"}', "a is '0' | a whole number"),
        ("byte_bpe", "tokenizer_config.json", b'{"mask_token": []}', "mask_token is []"),
        ("sentencepiece", "tokenizer_config.json", b'{"keep_accents": 3}', "keep_accents is 3"),
    ],
)
def test_vocabularies_and_pooling_of_another_kind(kind, file, content, words, tmp_path):
    directory = shutil.copytree(VOCABULARIES[kind], tmp_path / "model")
    if file == "modules.json":
        (directory / "1_Pooling").mkdir()
        (directory / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (directory / file).write_bytes(content)
    assert_refused(lambda: bert_zoo.load(directory), f"{directory} | {words}")


def test_a_vocabulary_is_compared_with_the_token_table(tmp_path, caplog, monkeypatch):
    directory = copy_of_encoder(tmp_path)
    lines = (directory / "vocab.txt").read_text().splitlines(keepends=True)
    (directory / "vocab.txt").write_text("".join([*lines, "further\n"]))
    assert_refused(lambda: bert_zoo.load(directory), "121 tokens | 120 rows")
    (directory / "vocab.txt").write_text("".join(lines[:40]))
    bert_zoo.load(directory)
    assert not caplog.records  # so few rows may be padding
    monkeypatch.setattr(loading, "UNUSED_ROWS", 64)
    bert_zoo.load(directory)
    assert "has 40 tokens" in caplog.text and "120 rows" in caplog.text


@pytest.mark.parametrize("task", ["encoder", "embedding", "classification"])
def test_hugging_face_directory_says_where_texts_are_cut(task, tmp_path):
    bert_zoo.save(load_case("encoder", task, max_length=12), tmp_path, format="hf")
    assert bert_zoo.load(tmp_path, task).preprocessor.sequence_length == 12
    config = read_json(tmp_path / "tokenizer_config.json")
    assert config["model_max_length"] == 12 and config["do_lower_case"] is True
    if task != "classification":
        assert read_json(tmp_path / "sentence_bert_config.json")["max_seq_length"] == 12
        kinds = [row["type"] for row in read_json(tmp_path / "modules.json")]
        assert kinds[0].endswith("Transformer") and kinds[-1].endswith("Normalize")


def test_sentence_transformers_length_goes_before_the_tokenizers(tmp_path):
    directory = copy_of_encoder(tmp_path)
    for file, length, given, expected in (
        ("tokenizer_config.json", '{"model_max_length": 16}', None, 16),
        ("tokenizer_config.json", '{"model_max_length": 1e30}', None, 40),
        ("sentence_bert_config.json", '{"max_seq_length": 8}', None, 8),
        ("sentence_bert_config.json", '{"max_seq_length": 8}', 20, 20),
    ):
        (directory / file).write_text(length)
        assert bert_zoo.load(directory, max_length=given).preprocessor.sequence_length == expected


@pytest.mark.parametrize("named", ["cls", ["cls"]])
def test_pooling_named_as_newer_files_do(named, tmp_path):
    config = {"embedding_dimension": 32, "pooling_mode": named, "include_prompt": True}
    directory = pooled(tmp_path, **config)
    assert bert_zoo.load(directory).pooling.mode == "cls"


def test_what_sentence_transformers_would_do_besides_is_said(tmp_path, caplog):
    directory = pooled(tmp_path, pooling_mode_mean_tokens=True)
    (directory / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    bert_zoo.load(directory)
    assert "sentence_bert_config.json asks for lower case" in caplog.text


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
    words = "num_classes is 3 and num_labels 4"
    assert_refused(lambda: load_case("encoder", **options, num_classes=3), words, ValueError)


@refusals(
    (lambda: bert_zoo.load("bert"), "nearest names are 'bert_base'"),
    (lambda: bert_zoo.load("roberta"), "nearest names are 'roberta_base'"),
    (lambda: bert_zoo.load("albert-xlarge"), "nearest names are 'albert_xlarge'"),
)
def test_names_that_begin_so_are_suggested_first(call, words):
    assert_refused(call, words, ValueError)


@pytest.mark.parametrize(
    ("file", "given", "words"),
    [
        ("model.keras", "model.keras", "keras.models.load_model"),
        ("model.safetensors", "model.safetensors", "contains no model | config.json"),
        ("saved_model.pb", "", "tf.saved_model.load | SavedModelLayer"),
        *(
            (file, given, "bert_zoo.runtime.load( | that was exported")
            for file in ("model.onnx", "onnx/model.onnx", "model.tflite")
            for given in (file, "")
        ),
    ],
)
def test_files_and_saved_models_say_what_reads_them(file, given, words, tmp_path, monkeypatch):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    errors = (ValueError, FileNotFoundError)
    assert_refused(lambda: bert_zoo.load(tmp_path / given), words, errors)
    if given:
        monkeypatch.chdir(tmp_path)
        assert_refused(lambda: bert_zoo.load(given), words, errors)
    if "runtime" in words:  # as optimum lays it out
        shutil.copy(GOLDEN / "encoder" / "config.json", tmp_path)
        words = "bert_zoo.runtime.load("
        assert_refused(lambda: bert_zoo.load(tmp_path), words, FileNotFoundError)


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
        push = functools.partial(bert_zoo.push_to_hub, model, wrong)
        assert_refused(push, "owner/my-model", ValueError)
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
    "eurobert": ("eurobert/classification", "PreTrainedTokenizerFast"),
    "xlm_roberta": ("xlm_roberta/encoder", "PreTrainedTokenizerFast"),
    "xlnet": ("xlnet/classification", "PreTrainedTokenizerFast"),
}


@pytest.mark.parametrize("family", WRITTEN)
def test_hugging_faces_library_reads_texts_and_pairs_as_the_model(family, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    case, transformers_class = WRITTEN[family]
    model = loaded(case)
    bert_zoo.save(model, tmp_path, format="hf")
    config = read_json(tmp_path / "tokenizer_config.json")
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
        inputs = model.preprocessor.with_options(sequence_length=256)(given)
        assert_same(again.preprocessor.with_options(sequence_length=256)(given), inputs)
        masks = np.asarray(inputs["padding_mask"]) == 1
        for name, wanted in (("token_ids", "ids"), ("segment_ids", "type_ids")):
            if name in inputs:
                found = [
                    np.asarray(i)[m].tolist() for i, m in zip(inputs[name], masks, strict=True)
                ]
                assert found == [getattr(row, wanted) for row in written.encode_batch(rows)]


def test_xlm_says_which_token_stands_before_a_text(tmp_path):
    bert_zoo.save(loaded("xlm/encoder"), tmp_path, format="hf")
    config = read_json(tmp_path / "tokenizer_config.json")
    assert config["bos_token"] == config["cls_token"] == "</s>"

    def first_id(model) -> int:
        ids = tf.ragged.constant([[7, 8]], tf.int32)
        return int(model.preprocessor.bert_pack_inputs([ids])["input_word_ids"][0, 0])

    # As transformers 5 writes it where nobody says otherwise.
    change_json(tmp_path / "tokenizer_config.json", bos_token="<s>")
    assert (first_id(loaded("xlm/encoder")), first_id(bert_zoo.load(tmp_path))) == (1, 0)


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

    normalizers = NORMALIZERS[family]
    metaspace = step("Metaspace", replacement="\u2581", prepend_scheme="always", split=True)
    steps = [step("WhitespaceSplit"), metaspace]
    split = step("Sequence", pretokenizers=steps) if family != "deberta_v2" else metaspace
    whole = step("Sequence", normalizers=normalizers)
    change_json(file, normalizer=whole, pre_tokenizer=split)
    texts = [*TEXTS, "The CAT  12, 37,405 ``the''", "\u03a3\u03a3 ", ""]
    texts.append("ca\u0301t\u093e\tth\u0065 \n dog\u3000\u3000bird")
    written = tokenizers.Tokenizer.from_file(str(file))
    wanted = [row.ids for row in written.encode_batch(texts, add_special_tokens=False)]
    tokenizer = tokenizer_from_dir(tmp_path, family)
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer(texts).to_list() == ids.to_list() == wanted
    assert (starts.flat_values.numpy() < ends.flat_values.numpy()).all()
    tokenizer.save(tmp_path / "again")
    assert tokenizer_from_dir(tmp_path / "again", family)(texts).to_list() == wanted

    unknown = [*normalizers, step("Prepend", prepend="x")]
    change_json(file, normalizer=step("Sequence", normalizers=unknown))
    assert_refused(lambda: bert_zoo.load(tmp_path), "Prepend")


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
    words = "'roberta' | another directory"
    assert_refused(lambda: bert_zoo.save(loaded("encoder"), tmp_path, "hf"), words, FileExistsError)
    assert (tmp_path / "config.json").read_bytes() == before
    bert_zoo.save(loaded("roberta/classification"), tmp_path, format="hf")


def test_a_language_models_directory_says_where_texts_end(tmp_path):
    for task in ("causal_lm", "classification"):
        bert_zoo.save(loaded(f"gpt2/{task}"), tmp_path / task, format="hf")
        config = read_json(tmp_path / task / "config.json")
        end = loaded(f"gpt2/{task}").preprocessor.tokenizer.eos_id
        assert config["eos_token_id"] == config["bos_token_id"] == end
        assert config["dtype"] == "float32"
        # transformers looks for the last token of a text by it.
        assert config.get("pad_token_id") == (end if task == "classification" else None)
    generation = read_json(tmp_path / "causal_lm" / "generation_config.json")
    assert generation["eos_token_id"] == end
    assert not (tmp_path / "classification" / "generation_config.json").exists()
    again = bert_zoo.load(tmp_path / "classification", "classification")
    inputs = inputs_of(arrays("gpt2/classification"))
    assert_same(again(inputs), loaded("gpt2/classification")(inputs), 1e-6)
    bert_zoo.save(loaded("gpt/classification"), tmp_path / "gpt", format="hf")
    config = read_json(tmp_path / "gpt" / "tokenizer_config.json")
    assert config["pad_token"] == config["unk_token"]


@pytest.mark.usefixtures("eager")
def test_a_hugging_face_directory_has_a_model_card(tmp_path):
    model = load_case("bert/classification")
    model.encoder.loaded_from = "google-bert/bert-base-uncased"
    model.fit(task_inputs("classification"), np.arange(4) % 3, epochs=1, verbose=0)
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

    vectors = tmp_path / "vectors"
    bert_zoo.save(loaded_task("embedding"), vectors, format="hf")
    assert "add_pooling_layer=False" in (vectors / "README.md").read_text()
    settings = read_json(vectors / "sentence_bert_config.json")
    assert settings["model_args"] == {"add_pooling_layer": False}


def test_a_head_of_one_logit_is_no_classifier(tmp_path, caplog):
    """As cross-encoders have it: num_labels 1, and no problem_type."""
    original = loaded("bert/regression")
    bert_zoo.save(original, tmp_path, format="hf")
    config = read_json(tmp_path / "config.json")
    del config["problem_type"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = "task='regression' | task='reranking'"
    assert_refused(lambda: bert_zoo.load(tmp_path, "classification"), words, ValueError)
    inputs = task_inputs("regression")
    logits = np.asarray(original(inputs))
    np.testing.assert_array_equal(bert_zoo.load(tmp_path, "regression")(inputs), logits)
    model = bert_zoo.load(tmp_path, "multi_label_classification")
    assert model.labels == ("LABEL_0",) and np.array_equal(model(inputs), logits)
    caplog.clear()
    bert_zoo.load(tmp_path)
    (line,) = [line for line in caplog.messages if "only its encoder was loaded" in line]
    assert "'regression'" in line and "task='classification'" not in line
    assert bert_zoo.load(tmp_path, "classification", init=("classifier",)).num_classes == 2


def test_pairs_that_a_file_composes_otherwise_are_said(tmp_path, caplog):
    """As transformers 5.24 writes DeBERTa's."""
    bert_zoo.save(loaded("deberta/encoder"), tmp_path, format="hf")
    bert_zoo.load(tmp_path)
    assert "of a pair" not in caplog.text
    composed = read_json(tmp_path / "tokenizer.json")["post_processor"]
    pair = composed["processors"][1]["pair"]
    pair.insert(2, pair[2])
    change_json(tmp_path / "tokenizer.json", post_processor=composed)
    bert_zoo.load(tmp_path)
    assert "puts 4 special tokens" in caplog.text and "with 3" in caplog.text
