"""Weights of other libraries for TensorFlow: what they store is what this package computes with."""

import gzip
import json
import shutil
import zlib

import h5py
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ALL_GOLDEN,
    ONE_A_TASK,
    TOLERANCE,
    assert_refused,
    assert_same,
    assert_same_variables,
    directory_of,
    family_of,
    google_config,
    loaded,
    refusals,
    slow_but,
    task_of,
    tensors_of,
)

import bert_zoo
from bert_zoo.registry import registry
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.hdf5 import write_hdf5
from bert_zoo.weights.safetensors_io import write_safetensors
from bert_zoo.weights.sources import open_weights
from bert_zoo.weights.tf1 import is_transposed, pytorch_name

# --- transformers' TensorFlow classes ------------------------------------------------------------

TF_KERAS = ALL_GOLDEN / "tf_keras"
# Case -> path of each array in the tf_model.h5 that transformers writes of it -> its checksum.
TF_ARRAYS = json.loads(gzip.decompress((TF_KERAS / "names.json.gz").read_bytes()))
# ALBERT's second bias, which repeats the first one in files that PyTorch's class wrote.
UNUSED = {"predictions.decoder.bias": "predictions.bias"}
# Family -> the case whose file is kept.
TF_FILES = {
    "bert": "bert/pretraining",
    "deberta_v2": "deberta_v2/encoder_convolution",
    "gpt2": "gpt2/causal_lm",
    "transformer_xl": "transformer_xl/hf_adaptive",
    "xlnet": "xlnet/question_answering",
}


def tf_directory(case: str, to, h5=None):
    """A directory as TFPreTrainedModel.save_pretrained() leaves it."""
    ignored = shutil.ignore_patterns("io.npz", "*.safetensors", "training.npz")
    directory = shutil.copytree(directory_of(case), to, ignore=ignored)
    shutil.copy(h5 or TF_KERAS / f"{case.partition('/')[0]}.h5", directory / "tf_model.h5")
    return directory


@pytest.mark.parametrize("case", sorted({*TF_ARRAYS} & {*ONE_A_TASK} - {*TF_FILES.values()}))
def test_every_array_of_tf_classes_is_a_tensor_of_the_torch_class(case):
    """By its bytes: its name, and the order of its axes, are those that transformers reads it with."""
    fmt = registry().families[family_of(case)].formats["hf"]
    root = fmt.root
    # A bare encoder has a root here and none there.
    tensors = {k.removeprefix(root): v for k, v in tensors_of(directory_of(case)).items()}
    read = set()
    for path, checksum in TF_ARRAYS[case].items():
        stored = path.split("/", 2)[2]
        name = pytorch_name(stored).removeprefix(root)
        read.add(name)
        if name.startswith("pooler.") and name not in tensors:
            continue  # MPNet's has one whatever its head reads.
        tensor = tensors[UNUSED.get(name, name)]
        found = np.ascontiguousarray(tensor.T if is_transposed(stored) else tensor)
        assert zlib.crc32(found.tobytes()) == checksum, path
    assert {name for name in tensors if not fmt.is_ignorable(name)} <= read


@pytest.mark.parametrize("case", slow_but(TF_FILES.values(), "bert/pretraining", "gpt2/causal_lm"))
def test_tf_model_h5_gives_the_same_model(case, tmp_path):
    directory = tf_directory(case, tmp_path / "tf")
    assert_same_variables(bert_zoo.load(directory, task_of(case)), loaded(case))


def write_as_safetensors(arrays, directory):
    named = {name.partition("/")[2]: value for name, value in arrays.items()}
    write_safetensors(directory / "model.safetensors", named, {"format": "tf"})


def write_as_shards(arrays, directory):
    """The index has the model's name before those in the files."""
    weight_map = {name: f"tf_model-0000{i % 2}.h5" for i, name in enumerate(arrays)}
    for file in set(weight_map.values()):
        own = {n.partition("/")[2]: arrays[n] for n in arrays if weight_map[n] == file}
        write_hdf5(directory / file, own)
    index = json.dumps({"weight_map": weight_map})
    (directory / "tf_model.h5.index.json").write_text(index)


def write_as_checkpoint(arrays, directory):
    """As `save_weights` of a compiled model, with what belongs to its optimizer."""
    variables = [tf.Variable(value, name=name[:-2]) for name, value in arrays.items()]
    optimizer = {"optimizer": tf.Variable(np.ones(3, "float32"), name="Adam/m")}
    tf.train.Checkpoint(model=variables, **optimizer).write(str(directory / "weights"))


@pytest.mark.parametrize(
    "write", [write_as_safetensors, write_as_shards, write_as_checkpoint], ids=lambda f: f.__name__
)
def test_what_else_tf_classes_saved_gives_the_same_model(write, tmp_path):
    directory = tf_directory("gpt2/causal_lm", tmp_path / "tf")
    with h5py.File(directory / "tf_model.h5") as file:
        stored = {}
        file.visititems(lambda path, a: stored.update({path: a}) if hasattr(a, "dtype") else None)
        arrays = {path.partition("/")[2]: array[()] for path, array in stored.items()}
    (directory / "tf_model.h5").unlink()
    write(arrays, directory)
    assert_same_variables(bert_zoo.load(directory, "causal_lm"), loaded("gpt2/causal_lm"))


def test_a_file_of_tf_classes_without_names_says_what_to_save(tmp_path):
    path = tmp_path / "my.weights.h5"
    write_hdf5(path, {"layers/tf_bert_main_layer/pooler/dense/vars/0": np.ones(3, "float32")})
    words = "does not name its variables | save_pretrained()"
    assert_refused(lambda: open_weights(path), words, WeightsError)


def test_albert_s_class_computes_with_the_second_of_two_biases(tmp_path):
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        for value, name in enumerate(("predictions/bias:0", "predictions/decoder/bias:0")):
            file[f"predictions/tf_albert_for_masked_lm/{name}"] = np.full(3, value, "float32")
        file["albert/tf_albert_for_masked_lm/groups_._0/beta:0"] = np.zeros(3)
    source = open_weights(path)
    assert list(source) == ["groups.0.bias", "predictions.bias"]
    assert source["predictions.bias"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("whole_model", ["", "model_weights/"])
def test_a_file_of_bert4keras_is_refused_with_what_to_load_instead(whole_model, tmp_path):
    file = tmp_path / "best_model.h5"
    with h5py.File(file, "w") as stored:
        for layer in ("Embedding-Token", "Pooler-Dense"):
            stored[f"{whole_model}{layer}/{layer}/kernel:0"] = np.zeros((2, 2))
    (tmp_path / "bert_config.json").write_text(json.dumps(google_config("bert/pretraining")))
    words = f"{file} is not | Embedding-Token | layer_ | Google's checkpoint"
    assert_refused(lambda: bert_zoo.load(tmp_path), words, WeightsError)


def changed(change, to):
    """The file of BERT with something done to it."""
    path = shutil.copy(TF_KERAS / "bert.h5", to / "tf_model.h5")
    with h5py.File(path, "r+") as file:
        (model,) = file["mlm___cls"]
        change(file, f"mlm___cls/{model}/bert/embeddings/LayerNorm/gamma:0")
    return path


def compress(file, name):
    del file[name]
    file.create_dataset(name, data=np.ones(32, "float32"), compression="gzip")


def leave_values_out(file, name):
    del file[name]
    file.create_dataset(name, shape=(10**6, 10**6), dtype="float32")


def change_one_of_two(file, name):
    file[name][0] = 7.0


@refusals(
    (compress, "uncompressed"),
    (leave_values_out, "has the shape"),
    (change_one_of_two, "different values"),
)
def test_what_is_not_an_array_in_the_file_is_refused(call, words, tmp_path):
    assert_refused(lambda: dict(open_weights(changed(call, tmp_path))), words, WeightsError)


def test_safetensors_hide_a_tf_model_h5(tmp_path):
    directory = tf_directory("bert/pretraining", tmp_path / "tf")
    shutil.copy(directory_of("bert/pretraining") / "model.safetensors", directory)
    (directory / "tf_model.h5").write_bytes(b"no HDF5")
    assert open_weights(directory).location.endswith("model.safetensors")


def test_an_array_that_no_model_has_is_refused(tmp_path):
    def add(file, name):
        file["bert/tf_bert_for_pre_training/bert/more/kernel:0"] = np.ones(3, "float32")

    directory = tf_directory("bert/pretraining", tmp_path / "tf", changed(add, tmp_path))
    words = "not known, so not loaded: bert.more.weight"
    assert_refused(lambda: bert_zoo.load(directory, "pretraining"), words, WeightsError)


# --- KerasHub ------------------------------------------------------------------------------------

SIZES = {"num_layers": 2, "num_heads": 4, "hidden_dim": 32, "intermediate_dim": 48}
TABLES = {"vocabulary_size": 50, "max_sequence_length": 20}
GROUPS = {"embedding_dim": 16, "num_groups": 2, "num_inner_repetitions": 2, "num_layers": 4}
# Name of the backbone's class -> its arguments.
BACKBONES = {
    "Albert": {**TABLES, **SIZES, **GROUPS},
    "Bert": {**TABLES, **SIZES},
    "DebertaV3": {**TABLES, **SIZES, "bucket_size": 4},
    "DistilBert": {**TABLES, **SIZES},
    "Electra": {"vocab_size": 50, "max_sequence_length": 20, "embedding_dim": 16, **SIZES},
    "GPT2": {**TABLES, **SIZES},
    "Roberta": {**TABLES, **SIZES},
    "XLMRoberta": {**TABLES, **SIZES},
}


def with_random_values(model):
    """The model with weights that no initializer gives, so that none is taken for another."""
    random = np.random.default_rng(0)
    for variable in model.weights:
        if "seed" not in variable.path:
            variable.assign(random.normal(0.0, 0.3, variable.shape))
    return model


def hub_inputs(backbone, pad: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    mask = (np.arange(12) < np.array([[12], [7], [4]])).astype("int32")
    arrays = {
        "token_ids": np.where(mask, random.integers(5, 50, mask.shape), pad).astype("int32"),
        "padding_mask": mask,
        "segment_ids": random.integers(0, 2, mask.shape).astype("int32"),
    }
    return {name: arrays[name] for name in backbone.input}


@pytest.fixture(scope="module")
def hub():
    return pytest.importorskip("keras_hub").models


def with_head(hub, name: str, head: str, **options):
    """A backbone of random weights, and a model of it with the head, where there is a class for it."""
    backbone = getattr(hub, f"{name}Backbone")(**BACKBONES[name])
    kind = getattr(hub, f"{name}{head}", None)
    model = backbone if kind is None else kind(backbone, preprocessor=None, **options)
    return backbone, with_random_values(model)


def sequences(outputs, inputs) -> np.ndarray:
    """The outputs of tokens that are no padding."""
    outputs = outputs["sequence_output"] if isinstance(outputs, dict) else outputs
    return np.asarray(outputs)[inputs["padding_mask"] > 0]


@pytest.mark.parametrize("name", slow_but(BACKBONES, "Bert", "Roberta"))
def test_keras_hub_presets_compute_the_same(name, hub, tmp_path):
    backbone, theirs = with_head(hub, name, "TextClassifier", num_classes=3)
    theirs.save_to_preset(tmp_path)
    inputs = hub_inputs(backbone, 1 if "Roberta" in name else 0)
    expected, ours = backbone(inputs), bert_zoo.load(tmp_path, "encoder")(inputs)
    assert_same(sequences(ours, inputs), sequences(expected, inputs), TOLERANCE)
    if "pooled_output" in ours:
        assert_same(ours["pooled_output"], expected["pooled_output"], TOLERANCE)
    if theirs is not backbone:
        classifier = bert_zoo.load(tmp_path, "classification")
        assert_same(classifier(inputs), theirs(inputs), TOLERANCE)


@pytest.mark.parametrize("name", slow_but(sorted(BACKBONES.keys() - {"Electra"}), "Roberta"))
def test_what_is_saved_for_keras_hub_is_what_it_loads(name, hub, tmp_path):
    """There and back: the weights are those that its own preset has."""
    backbone, first = with_head(hub, name, "TextClassifier", num_classes=3)
    first.save_to_preset(tmp_path / "first")
    is_task = first is not backbone
    model = bert_zoo.load(tmp_path / "first", "classification" if is_task else "encoder")
    bert_zoo.save(model, tmp_path / "second", format="keras_hub")
    options = {"preprocessor": None} if is_task else {}
    second = type(first).from_preset(str(tmp_path / "second"), **options)
    inputs = hub_inputs(backbone, 1 if "Roberta" in name else 0)
    assert_same(second(inputs), first(inputs))


@pytest.mark.parametrize("name", slow_but(("Albert", "Bert", "DebertaV3", "Roberta"), "Bert"))
def test_a_preset_with_a_head_for_masked_tokens_is_an_encoder(name, hub, tmp_path, caplog):
    backbone, theirs = with_head(hub, name, "MaskedLM")
    theirs.save_to_preset(tmp_path)
    ours = bert_zoo.load(tmp_path)
    assert "head for masked tokens, whose arithmetic is KerasHub's own" in caplog.text
    inputs = hub_inputs(backbone, 1 if "Roberta" in name else 0)
    assert_same(sequences(ours(inputs), inputs), sequences(backbone(inputs), inputs), TOLERANCE)
    with pytest.raises(WeightsError, match="has no masked_lm"):
        bert_zoo.load(tmp_path, "masked_lm")


def test_keras_hub_holds_no_other_heads_and_no_other_arithmetic(tmp_path, caplog):
    def saving(case: str, fmt: str = "keras_hub"):
        return lambda: bert_zoo.save(loaded(case), tmp_path, format=fmt)

    words = "no head for 'masked_lm' of the family bert (it has: BertTextClassifier"
    assert_refused(saving("bert/masked_lm"), words)
    saving("bert/relu")()
    assert "BertBackbone does not support {'activation': 'relu'}" in caplog.text
    assert_refused(saving("electra/encoder"), "ElectraBackbone has a pooler")
    assert_refused(saving("bert/relu", "hf"), "model.weights.h5", FileExistsError)


def test_a_preset_of_another_class_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"class_name": "GemmaBackbone", "config": {}}')
    assert_refused(lambda: bert_zoo.load(tmp_path), "class_name 'GemmaBackbone' | BertBackbone")


# --- Model Garden --------------------------------------------------------------------------------

GARDEN = ALL_GOLDEN / "model_garden"
# Case -> family, and task.
GARDEN_CASES = {
    "albert": ("albert", "encoder"),
    "bert": ("bert", "encoder"),
    "bert_v2": ("bert", "encoder"),
    "classification": ("bert", "classification"),
    "electra": ("electra", "encoder"),
    "masked_lm": ("bert", "masked_lm"),
}


def garden_arrays(case: str) -> dict[str, np.ndarray]:
    with np.load(GARDEN / case / "io.npz") as file:
        return dict(file)


@pytest.mark.parametrize("case", GARDEN_CASES)
def test_model_garden_s_checkpoints_compute_the_same(case):
    io, (family, task) = garden_arrays(case), GARDEN_CASES[case]
    model = bert_zoo.load(GARDEN / case, task)
    assert getattr(model, "encoder", model).family == family
    outputs = model({name: io[name] for name in io if io[name].dtype == "int32"})
    if not isinstance(outputs, dict):
        outputs = {"logits": outputs}
    tokens = io["padding_mask"] > 0
    for name, value in outputs.items():
        rows = tokens if name == "sequence_output" else ...
        assert_same(np.asarray(value)[rows], io[name][rows], TOLERANCE)


# As Model Garden's first version, and TF-Hub's first modules, call them.
FIRST_NAMES = {
    "position_embedding/embeddings": "embedding_postprocessor/position_embeddings",
    "type_embeddings/embeddings": "embedding_postprocessor/type_embeddings",
    "embeddings/layer_norm": "embedding_postprocessor/layer_norm",
    "transformer/layer_": "encoder/layer_",
    "self_attention/attention_output": "self_attention_output",
}


def write_hub_module(directory, tensors) -> None:
    """The files of a SavedModel that hold its variables, and its vocabulary."""
    variables = {}
    for name, tensor in tensors.items():
        for new, first in FIRST_NAMES.items():
            name = name.replace(new, first)
        variables[f"v{len(variables)}"] = tf.Variable(tensor, name=f"bert_model/{name}")
    variables["lower"] = tf.Variable(True, name="Variable")
    (directory / "variables").mkdir(parents=True)
    tf.train.Checkpoint(**variables).write(str(directory / "variables" / "variables"))
    (directory / "saved_model.pb").touch()
    (directory / "assets").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(25))]
    (directory / "assets" / "vocab.txt").write_text("\n".join(words) + "\n")


def test_tf_hub_s_first_modules_are_read_with_their_vocabulary(tmp_path):
    source = open_weights(GARDEN / "bert")
    write_hub_module(tmp_path, source)
    model = bert_zoo.load(tmp_path)
    assert_same_variables(model, bert_zoo.load(GARDEN / "bert"))
    assert model.preprocessor(["w1 w2"])["token_ids"].numpy().tolist()[0][:4] == [2, 6, 7, 3]


def test_an_albert_of_unknown_depth_asks_for_its_configuration(tmp_path):
    for file in (GARDEN / "albert").glob("ckpt*"):
        shutil.copy(file, tmp_path)
    words = "no released ALBERT has the width 16 | albert_config.json"
    assert_refused(lambda: bert_zoo.load(tmp_path), words)
