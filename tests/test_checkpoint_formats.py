"""Checkpoints in every format give the same model, and what does not fit is refused in one message."""

import ast
import functools
import json
import os
import shutil
import stat
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import (
    CASES,
    GOLDEN,
    TASK_CASES,
    TEXTS,
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same,
    assert_same_variables,
    change_json,
    directory_of,
    family_of,
    google_config,
    google_tensors,
    inputs_of,
    load_case,
    load_task,
    loaded,
    loaded_task,
    read_json,
    refusals,
    save_tf1,
    slow_but,
    task_inputs,
    task_of,
    tensors_of,
    variables_of,
)

import bert_zoo
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.models.base import encoder_of
from bert_zoo.registry import registry
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.formats import Description
from bert_zoo.weights.safetensors_io import write_safetensors

WITHOUT_HEAD = ("encoder", "embedding", "late_interaction")
HEADED = [task for task in TASK_CASES if task not in WITHOUT_HEAD]


def write_hf(directory: Path, tensors, case: str = "encoder", **config) -> Path:
    """A Hugging Face directory with the configuration of a golden case, changed."""
    directory.mkdir(exist_ok=True)
    for file in ("config.json", "vocab.txt"):
        shutil.copy(directory_of(case) / file, directory)
    change_json(directory / "config.json", **config)
    write_safetensors(directory / "model.safetensors", tensors, {"format": "pt"})
    return directory


# --- Hugging Face --------------------------------------------------------------------------------

# Half precision is widened, .bin files and several shards come back as one safetensors file.


@pytest.mark.parametrize("task", [task for task in TASK_CASES if task != "embedding"])
def test_saved_hf_configuration_says_what_the_original_says(task, tmp_path):
    bert_zoo.save(loaded_task(task), tmp_path, format="hf")
    saved = read_json(tmp_path / "config.json")
    original = read_json(directory_of(TASK_CASES[task]) / "config.json")
    # For transformers before 5, which asked; and what our regression model knows of its training.
    ours = {"position_embedding_type"}
    if task in ("regression", "reranking"):
        ours |= {"problem_type", "id2label", "label2id"}
    if task == "reranking":
        ours |= {"sentence_transformers"}
    assert {key for key in saved if saved[key] != original.get(key)} <= ours


# --- TensorFlow 1 --------------------------------------------------------------------------------


def write_tf1(directory: Path, tensors, case: str) -> Path:
    """A directory as Google's archives and training programs leave it."""
    directory.mkdir(exist_ok=True)
    state = {"global_step": np.int64(1000)}
    for name, tensor in tensors.items():
        state |= {f"{name}/adam_m": np.zeros_like(tensor), f"{name}/adam_v": np.ones_like(tensor)}
    save_tf1(directory / "bert_model.ckpt", {**tensors, **state})
    (directory / "bert_config.json").write_text(json.dumps(google_config(case)))
    shutil.copy(directory_of(case) / "vocab.txt", directory)
    return directory


@pytest.mark.parametrize("task", ["encoder", *HEADED])
def test_tf1_checkpoint_gives_the_same_model(task, tmp_path):
    case = TASK_CASES[task]
    tensors = tensors_of(directory_of(case))
    if task == "encoder":
        tensors = {f"bert.{key}": tensor for key, tensor in tensors.items()}
    directory = write_tf1(tmp_path / "tf1", google_tensors(tensors), case)
    ours = bert_zoo.load(directory, task)
    # Google's "gelu" is the tanh approximation; Hugging Face's is not.
    theirs = load_task(task, activation="gelu_tanh")
    assert_same_variables(ours, theirs)
    assert_same(ours(task_inputs(task)), theirs(task_inputs(task)))


def test_google_s_gelu_is_hugging_face_s_gelu_new(tmp_path):
    case = "gelu_new"
    tensors = {f"bert.{key}": tensor for key, tensor in tensors_of(directory_of(case)).items()}
    directory = write_tf1(tmp_path / "tf1", google_tensors(tensors), case)
    change_json(directory / "bert_config.json", hidden_act="gelu")
    io = arrays(case)
    outputs = bert_zoo.load(directory)(inputs_of(io))
    np.testing.assert_allclose(outputs["sequence_output"], io["sequence_output"], atol=1e-5)


@pytest.mark.parametrize("task", ["masked_lm", "question_answering"])
def test_google_names_are_read_from_safetensors(task, tmp_path):
    case = TASK_CASES[task]
    directory = write_hf(tmp_path / "hf", google_tensors(tensors_of(directory_of(case))), case)
    assert_same_variables(bert_zoo.load(directory, task), loaded_task(task))


# Checkpoints that are read without a configuration file.
SELF_CONFIGURED = [
    case
    for case in CASES
    if [*directory_of(case).glob("*.index")] and not (directory_of(case) / "config.json").exists()
]


@pytest.mark.parametrize("case", SELF_CONFIGURED)
def test_names_of_tf1_variables_decide_about_heads_whatever_a_config_json_says(case, tmp_path):
    """A file that transformers writes lacks what only Google's heads have."""
    fmts = registry().families[family_of(case)].formats
    directory = shutil.copytree(directory_of(case), tmp_path / "tf1")
    values = fmts["hf"].encode(encoder_of(loaded(case)).config, Description())
    for name in ("classifier_activation", "tie_word_embeddings"):
        values.pop(name, None)
    (directory / "config.json").write_text(json.dumps(values))
    model = bert_zoo.load(directory, task_of(case), init=CASES[case].get("init", ()))
    inputs = inputs_of(arrays(case))
    assert_same(model(inputs), loaded(case)(inputs))


# --- Several TensorFlow 1 checkpoints in a folder ------------------------------------------------

STEPS = (0, 500, 1000)


def write_run(out: Path, about: Path, vocabulary: Path) -> dict[str, np.ndarray]:
    """What run_classifier.py leaves in `out`; returns the bias of the logits after each step."""
    case = TASK_CASES["classification"]
    tensors = google_tensors(tensors_of(directory_of(case)))
    out.mkdir(parents=True)
    biases = {f"model.ckpt-{step}": tensors["output_bias"] + step for step in STEPS}
    for name, bias in biases.items():
        save_tf1(out / name, {**tensors, "output_bias": bias})
        (out / f"{name}.meta").write_bytes(b"a graph")
    for name in ("graph.pbtxt", "events.out.tfevents.1700000000.host"):
        (out / name).write_bytes(b"")
    paths = [f'"/another/machine/out/{name}"' for name in biases]
    lines = [f"all_model_checkpoint_paths: {path}" for path in paths]
    lines.insert(0, f"model_checkpoint_path: {paths[-1]}")
    (out / "checkpoint").write_text("\n".join(lines) + "\n")
    (about / "bert_config.json").write_text(json.dumps(google_config(case)))
    shutil.copy(directory_of(case) / "vocab.txt", vocabulary)
    return biases


def bias_of(model) -> np.ndarray:
    return variables_of(model)["classifier/dense/bias"]


@pytest.mark.parametrize("places", slow_but(["out out", "out .", ". out", ". ."], "out out", ". ."))
def test_each_of_several_tf1_checkpoints_is_loaded_by_its_name(places, tmp_path, caplog):
    out, places = tmp_path / "out", [tmp_path / place for place in places.split()]
    biases = write_run(out, *places)
    latest = bert_zoo.load(out, "classification")
    np.testing.assert_array_equal(bias_of(latest), biases["model.ckpt-1000"])
    assert "model.ckpt-1000.index is loaded, the latest one" in caplog.text
    assert latest.preprocessor(TEXTS)["token_ids"].shape[0] == len(TEXTS)
    assert (f"no configuration file; {tmp_path}/bert_config" in caplog.text) == (places[0] != out)
    assert (f"The vocabulary in {tmp_path} is read, as" in caplog.text) == (places[1] != out)
    endings = ("", ".index", ".meta", ".data-00000-of-00001")
    for name, ending in ((name, ending) for name in biases for ending in endings):
        caplog.clear()
        opened = open_checkpoint(f"{out}/{name}{ending}", task="classification")
        np.testing.assert_array_equal(opened.source["output_bias"], biases[name])
        assert "the latest one" not in caplog.text
    of_one = bert_zoo.load(out / "model.ckpt-0", "classification")
    np.testing.assert_array_equal(bias_of(of_one), biases["model.ckpt-0"])
    assert of_one.preprocessor.tokenizer.vocab_size == latest.preprocessor.tokenizer.vocab_size


def test_which_of_several_checkpoints_to_load_is_asked(tmp_path, monkeypatch):
    out = tmp_path / "out"
    biases = write_run(out, out, out)
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert_refused(lambda: bert_zoo.load(out), "several checkpoints | not model.ckpt-7")
    (out / "checkpoint").unlink()
    with pytest.raises(WeightsError, match="several checkpoints") as error:
        bert_zoo.load(out)
    proposed = str(error.value).split("such as ")[1].removesuffix(".")
    name = Path(proposed).stem
    model = bert_zoo.load(proposed, "classification")
    np.testing.assert_array_equal(bias_of(model), biases[name])
    with pytest.raises(FileNotFoundError, match=r"holds the TensorFlow .*-0, model") as error:
        bert_zoo.load(f"{out}/model.ckpt-7")
    assert "hf://" not in str(error.value).split("load()")[0]
    monkeypatch.chdir(out)
    model = bert_zoo.load(name, "classification")
    np.testing.assert_array_equal(bias_of(model), biases[name])
    (out / f"{name}.index").unlink()
    data = f"{name}.data-00000-of-00001"
    assert_refused(lambda: bert_zoo.load(data), f"{name}.index is missing")


def test_one_of_two_kinds_of_weights_is_loaded_by_its_name(tmp_path):
    case = TASK_CASES["classification"]
    directory = write_hf(tmp_path / "both", tensors_of(directory_of(case)), case)
    write_run(tmp_path / "run", tmp_path, tmp_path)
    for file in (tmp_path / "run").glob("model.ckpt-500.*"):
        shutil.copy(file, directory)
    with pytest.raises(WeightsError, match="several checkpoints"):
        bert_zoo.load(directory)
    of_hf, of_google = (
        bert_zoo.load(directory / name, "classification")
        for name in ("model.safetensors", "model.ckpt-500")
    )
    assert_same_variables(of_hf, loaded_task("classification"))
    np.testing.assert_array_equal(bias_of(of_google), bias_of(of_hf) + 500)


def test_shapes_of_the_checkpoint_that_is_loaded_configure_it(tmp_path):
    """Not those of another family's beside it."""
    case = "bigbird/tf1_classification"
    shutil.copytree(directory_of(case), tmp_path / "out")
    write_run(tmp_path / "run", tmp_path / "run", tmp_path / "run")
    for file in (tmp_path / "run").glob("model.ckpt-500.*"):
        shutil.copy(file, tmp_path / "out" / f"a_{file.name}")
    (prefix,) = (file.stem for file in directory_of(case).glob("*.index"))
    model = bert_zoo.load(tmp_path / "out" / prefix, "classification")
    assert_same_variables(model, loaded(case))


# --- What cannot be a weight ---------------------------------------------------------------------

BROKEN = "bert.pooler.dense.weight"


def with_broken_weight(directory: Path, fmt: str, change) -> Path:
    """A classifier's directory in a format, with another tensor in the place of one of its weights."""
    case = TASK_CASES["classification"]
    tensors = tensors_of(directory_of(case))
    tensors[BROKEN] = change(tensors[BROKEN])
    if fmt == "tf1":
        return write_tf1(directory, google_tensors(tensors), case)
    if fmt == "hf":
        return write_hf(directory, tensors, case)
    bert_zoo.save(loaded_task("classification"), directory)
    tensors = tensors_of(directory)
    (name,) = (key for key in tensors if key.endswith("pooler/dense/kernel"))
    tensors[name] = change(tensors[name])
    write_safetensors(directory / "model.safetensors", tensors, {})
    return directory


def holding(value: float):
    def change(tensor):
        tensor = tensor.copy()
        tensor[3, 5] = value
        return tensor

    return change


NOT_FINITE = "pooler | has 1 NaN or infinite values among its 1,024"


@pytest.mark.parametrize(
    ("fmt", "change", "words"),
    [
        *((fmt, holding(np.nan), NOT_FINITE) for fmt in ("hf", "tf1", "bert_zoo")),
        ("hf", holding(np.inf), NOT_FINITE),
        ("hf", holding(-np.inf), NOT_FINITE),
        *(
            ("hf", lambda x, dtype=dtype: x.astype(dtype), f"{BROKEN} in | {dtype} | dequantize()")
            for dtype in ("int8", "uint8", "int64", "bool")
        ),
    ],
)
def test_what_cannot_be_a_weight_is_refused_by_name(fmt, change, words, tmp_path):
    directory = with_broken_weight(tmp_path / "model", fmt, change)
    assert_refused(lambda: bert_zoo.load(directory, "classification"), words)


# --- Names and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["encoder", "pretraining"])
def test_a_data_parallel_prefix_and_old_buffers_are_no_matter(task, tmp_path):
    case = TASK_CASES[task]
    tensors = tensors_of(directory_of(case))
    root = "bert." if task == "pretraining" else ""
    tensors[f"{root}embeddings.position_ids"] = np.arange(40)[None]
    tensors[f"{root}embeddings.token_type_ids"] = np.zeros((1, 40), "int64")
    tensors = {f"module.{key}": value for key, value in tensors.items()}
    directory = write_hf(tmp_path / "hf", tensors, case)
    assert_same_variables(bert_zoo.load(directory, task), loaded_task(task))


def test_tied_decoder_that_differs_is_refused(tmp_path):
    tensors = tensors_of(GOLDEN / "masked_lm")
    decoder = tensors["bert.embeddings.word_embeddings.weight"].copy()
    tensors["cls.predictions.decoder.weight"] = decoder
    write_hf(tmp_path / "hf", tensors, "masked_lm")
    assert_same_variables(bert_zoo.load(tmp_path / "hf", "masked_lm"), loaded_task("masked_lm"))
    decoder[3, 3] += 1
    write_hf(tmp_path / "hf", tensors, "masked_lm")
    words = "decoder.weight | tie_word_embeddings"
    assert_refused(lambda: bert_zoo.load(tmp_path / "hf", "masked_lm"), words)


def test_repetition_stands_in_for_the_tensor_it_repeats(tmp_path):
    tensors = tensors_of(GOLDEN / "masked_lm")
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    directory = write_hf(tmp_path / "hf", tensors, "masked_lm")
    assert_same_variables(bert_zoo.load(directory, "masked_lm"), loaded_task("masked_lm"))


def test_unread_bias_of_an_untied_decoder_is_named(caplog):
    load_case("masked_lm_untied")
    assert [r.message for r in caplog.records if "cls.predictions.bias of" in r.message]


def test_what_a_student_was_distilled_with_is_named_and_left_out(tmp_path, caplog):
    """As TinyBERT's files, with settings of its distillation among the configuration."""
    tensors = tensors_of(GOLDEN / "encoder")
    tensors |= {f"fit_denses.{i}.weight": np.zeros((48, 32), "float32") for i in range(3)}
    directory = write_hf(tmp_path, tensors, cell={}, emb_size=32, structure=[], pre_trained="")
    assert_same_variables(bert_zoo.load(directory), loaded_task("encoder"))
    assert "fit_denses.0.weight" in caplog.text and "distilled" in caplog.text


# --- What does not fit ---------------------------------------------------------------------------


def test_one_error_lists_all_that_is_missing_extra_and_misshapen(tmp_path):
    tensors = tensors_of(GOLDEN / "classification")
    del tensors["bert.pooler.dense.bias"], tensors["bert.encoder.layer.1.output.dense.weight"]
    tensors["bert.encoder.layer.0.adapter.weight"] = np.zeros(3, "float32")
    tensors["mystery"] = np.zeros(3, "float32")
    tensors["bert.embeddings.position_embeddings.weight"] = np.zeros((7, 32), "float32")
    tensors["bert.encoder.layer.2.intermediate.dense.weight"] = np.zeros((32, 64), "float32")
    directory = write_hf(tmp_path / "hf", tensors, "classification")
    words = f"""{directory}
        bert.pooler.dense.bias
        bert.encoder.layer.1.output.dense.weight
        bert.encoder.layer.0.adapter.weight
        mystery
        bert.embeddings.position_embeddings.weight is (7, 32), not (40, 32)
        bert.encoder.layer.2.intermediate.dense.weight is (32, 64), not (64, 32)
        Nothing was loaded. Usually the configuration has other sizes
        ignore=('mystery',)""".replace("\n        ", " | ")
    assert_refused(lambda: bert_zoo.load(directory, "classification"), words)


def test_a_head_that_bert_zoo_does_not_know_is_left_out_on_request(tmp_path):
    """The error proposes the line, which loads the same weights as without that head."""
    more = {"cls.species.weight": (6, 32), "cls.species.bias": (6,), "graft.out": (2, 32)}
    more = {key: np.zeros(shape, "float32") for key, shape in more.items()}
    tensors = tensors_of(GOLDEN / "masked_lm") | more
    directory = write_hf(tmp_path / "hf", tensors, "masked_lm")

    def load(*ignore):
        return bert_zoo.load(directory, "masked_lm", ignore=ignore)

    with pytest.raises(WeightsError) as error:
        load()
    proposed = "ignore=('cls.species.*', 'graft.*')"
    assert proposed in str(error.value) and "other sizes" not in str(error.value)
    ignored = ast.literal_eval(proposed.removeprefix("ignore="))
    assert_same_variables(load(*ignored), loaded("masked_lm"))
    assert_refused(lambda: load("cls.*"), "model needs cls.predictions")
    assert_refused(lambda: load("head"), "matches no tensor")


def of_two(tensors):
    sides = ("query", "document")
    return {f"{side}.{key}": value for side in sides for key, value in tensors.items()}


def named_twice(tensors):
    return tensors | {"embeddings.LayerNorm.gamma": tensors["embeddings.LayerNorm.weight"]}


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        (dict, {"num_hidden_layers": 2}, r"encoder\.layer\.2\.attention"),
        (named_twice, {}, r"both .*gamma.*weight|both .*weight.*gamma"),
        (lambda _: {"conv.weight": np.zeros((2, 2))}, {}, r"no bert encoder.*conv\.weight"),
        (of_two, {}, r"several encoders.*document\..*query\."),
    ],
)
def test_tensors_of_another_model_are_refused(change, config, message, tmp_path):
    directory = write_hf(tmp_path / "hf", change(tensors_of(GOLDEN / "encoder")), **config)
    with pytest.raises(WeightsError, match=message):
        bert_zoo.load(directory)


# --- Heads ---------------------------------------------------------------------------------------


def fresh_head_lines(caplog) -> list[str]:
    return [record.message for record in caplog.records if "randomly initialised" in record.message]


@refusals(
    (lambda: load_case("encoder", "masked_lm"), "no masked_lm | provides='masked_lm'"),
    (
        lambda: load_case("encoder", "pretraining"),
        "no masked_lm and no next_sentence | list_models(provides='pretraining')",
    ),
)
def test_missing_pretraining_head_raises(call, words):
    assert_refused(call, f"{words} | bert_base_uncased | init=(", WeightsError)


@pytest.mark.parametrize(
    ("lacking", "task", "output"),
    [
        ("predictions", "next_sentence_prediction", "nsp_logits"),
        ("seq_relationship", "masked_lm", "mlm_logits"),
    ],
)
def test_one_head_of_two_is_named_and_loaded_by_itself(lacking, task, output, tmp_path):
    tensors = {k: v for k, v in tensors_of(GOLDEN / "pretraining").items() if lacking not in k}
    directory = write_hf(tmp_path / "one", tensors, "pretraining")
    words = f"has a head for '{task}'"
    assert_refused(lambda: bert_zoo.load(directory, "pretraining"), words)
    inputs = inputs_of(arrays("pretraining"))
    wanted = loaded_task("pretraining")(inputs)[output]
    assert_same(bert_zoo.load(directory, task)(inputs), wanted, TOLERANCE)


def test_the_classes_of_next_sentences_have_their_names():
    model = loaded_task("next_sentence_prediction")
    assert model.labels == ("is_next", "not_next")
    (row,) = model.classify((["the cat sat"], ["a bird"]))
    assert row.label in model.labels


def test_missing_pretraining_head_starts_fresh_on_request(caplog):
    model = load_case("encoder", "masked_lm", init=("masked_lm",))
    (line,) = fresh_head_lines(caplog)
    assert "masked_lm" in line
    ours, theirs = variables_of(model.encoder), variables_of(loaded("encoder"))
    assert all(np.array_equal(value, theirs[path]) for path, value in ours.items())


@pytest.mark.parametrize(
    ("case", "task", "words", "options"),
    [
        ("encoder", "classification", "classifier for 2 classes", {}),
        ("encoder", "classification", "classifier for 3 classes", {"num_classes": 3}),
        ("encoder", "regression", "classifier", {}),
        ("encoder", "token_classification", "classifier", {"labels": ["O", "B"]}),
        ("encoder", "question_answering", "span", {}),
        ("encoder", "multiple_choice", "classifier", {}),
        # A fresh head has the classes that it is told, not those that the file lists for another.
        ("classification", "token_classification", "classifier for 2 classes", {}),
        ("encoder_no_pooler", "classification", "classifier and pooler", {"num_classes": 2}),
    ],
)
def test_fresh_head_is_named_in_one_line(case, task, words, options, caplog):
    model = load_case(case, task, **options)
    (line,) = fresh_head_lines(caplog)
    assert words in line and case in line
    kernel = variables_of(model)[f"{words.split()[0]}/dense/kernel"]
    assert 0.005 < kernel.std() < 0.04
    if "2 classes" in words:
        assert model.labels == options.get("labels", ("LABEL_0", "LABEL_1"))


def test_trained_head_is_loaded_without_a_word(caplog):
    model = load_task("classification")
    assert not fresh_head_lines(caplog)
    assert model.labels == ("negative", "neutral", "positive")


@refusals(
    (
        lambda: load_task("classification", num_classes=5),
        "3 classes, but you asked for 5 | init=('classifier',)",
    ),
    (lambda: load_task("classification", labels=["no", "yes"]), "classes, but you asked for 2"),
    (
        lambda: load_task("classification", init=("span",)),
        "['span'] | 'classification' | classifier",
    ),
    (lambda: load_task("classification", init="classifier"), "init | ('classifier',)"),
    (
        lambda: load_case("pretraining", "next_sentence_prediction", num_classes=3),
        "'next_sentence_prediction' has no classes to name",
    ),
)
def test_what_a_head_is_not(call, words):
    assert_refused(call, words)


def test_other_number_of_classes_needs_init():
    model = load_task("classification", num_classes=5, init=("classifier",))
    assert model.num_classes == 5
    assert_same_variables(model.encoder, loaded_task("classification").encoder)


def test_labels_rename_the_classes_of_a_trained_head():
    model = load_task("classification", labels=["bad", "so-so", "good"])
    assert model.labels == ("bad", "so-so", "good")
    assert_same_variables(model, loaded_task("classification"))


@pytest.mark.parametrize(
    ("case", "task", "stored", "layer"),
    [
        ("bert/token_classification", "classification", "classifier", "dense"),
        ("bert/multiple_choice", "classification", "classifier", "dense"),
        # XLM's classifier has the name of the layer before the choice, and with two classes its shape.
        ("xlm/classification", "multiple_choice", "sequence_summary.summary", "transform"),
        ("xlm/multiple_choice", "classification", "sequence_summary.summary", "dense"),
    ],
)
def test_classifier_of_another_task_is_not_taken(case, task, stored, layer, caplog):
    """Both files hold it under one name; only config.json's architectures tell whose it is."""
    model = load_case(case, task)
    assert len(fresh_head_lines(caplog)) == 1
    trained = tensors_of(directory_of(case))[f"{stored}.weight"].T
    found = variables_of(model)[f"classifier/{layer}/kernel"]
    assert found.shape != trained.shape or not np.array_equal(found, trained)


# --- bert_zoo's own directory --------------------------------------------------------------------


def test_saved_text_options_and_pooling_come_back(tmp_path):
    directory = shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    (directory / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_max_tokens": True}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    model = bert_zoo.load(directory, "embedding", max_length=12)
    assert (model.encoder.pooling.mode, model.encoder.pooling.normalize) == ("max", False)
    texts = ["The cat", "the cat"]
    wanted = model.preprocessor.tokenizer(texts).to_list()
    assert wanted[0] != wanted[1]
    for fmt in ("hf", "bert_zoo"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt, "embedding")
        assert again.encoder.pooling == model.encoder.pooling
        assert again.preprocessor.tokenizer(texts).to_list() == wanted
        assert again.preprocessor.sequence_length == 12


def test_saved_encoder_takes_a_task_and_a_task_gives_its_encoder(tmp_path, monkeypatch):
    """Also where the second is saved over the first, in a home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    encoder = loaded_task("encoder")
    bert_zoo.save(encoder, "~/model")
    assert (tmp_path / "model" / "bert_zoo.json").is_file()
    model = bert_zoo.load("~/model", "classification", num_classes=2)
    assert_same_variables(model.encoder, encoder)
    bert_zoo.save(model, tmp_path / "model")
    assert_same_variables(bert_zoo.load(tmp_path / "model"), model)
    assert_same_variables(bert_zoo.load(tmp_path / "model", "encoder"), encoder)


@pytest.mark.parametrize("fmt", ["bert_zoo", "hf", "keras_hub"])
def test_the_umask_decides_who_may_read_what_is_saved(fmt, tmp_path):
    earlier = os.umask(0o027)
    try:
        bert_zoo.save(loaded_task("encoder"), tmp_path, format=fmt)
    finally:
        os.umask(earlier)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    modes = {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in files}
    assert modes == dict.fromkeys(modes, "0o640")


@pytest.mark.parametrize(("first", "second"), [("bert_zoo", "hf"), ("hf", "bert_zoo")])
def test_a_model_of_the_other_format_is_not_overwritten(first, second, tmp_path):
    model, other = loaded_task("classification"), loaded_task("regression")
    bert_zoo.save(model, tmp_path, format=first)
    save = functools.partial(bert_zoo.save, other, tmp_path, format=second)
    assert_refused(save, "another format", FileExistsError)
    assert_same_variables(bert_zoo.load(tmp_path, "classification"), model)


def test_save_refuses_what_it_cannot_write(tmp_path, monkeypatch):
    monkeypatch.delitem(registry().families["bert"].formats, "hf")
    for model, fmt, words in (
        (keras.Sequential(), "bert_zoo", "Sequential"),
        (loaded_task("encoder"), "pt", "'pt' | bert_zoo"),
        (loaded_task("encoder"), "hf", "no models of the family bert"),
    ):
        assert_refused(functools.partial(bert_zoo.save, model, tmp_path, format=fmt), words)
