"""What single families have of their own; test_conformance.py shows what they share."""

import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same,
    assert_same_variables,
    change_json,
    changed_copy,
    directory_of,
    google_config,
    google_tensors,
    inputs_of,
    load_case,
    loaded,
    read_json,
    save_tf1,
    task_of,
    tensors_of,
)
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.modernbert.family import HF_CODEC
from bert_zoo.weights.bind import named_variables
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.sources import open_weights


def test_roberta_packs_pairs_with_two_separators_and_no_segments():
    preprocessor = loaded("roberta/classification").preprocessor
    packed = preprocessor((["a"], ["b"]))
    tokenizer = preprocessor.tokenizer
    a, b = (tokenizer([text]).to_list()[0] for text in "ab")
    row = [tokenizer.cls_id, *a, tokenizer.sep_id, tokenizer.sep_id, *b, tokenizer.sep_id]
    padding = [tokenizer.pad_id] * (packed["token_ids"].shape[1] - len(row))
    assert packed["token_ids"].numpy().tolist() == [row + padding]
    assert set(packed) == {"token_ids", "padding_mask"}
    of_hub = preprocessor.bert_pack_inputs([tokenizer(["a"])])
    assert set(of_hub) == {"input_word_ids", "input_mask", "input_type_ids"}


def test_positions_of_roberta_count_tokens_and_not_the_mask():
    """A pad token inside a text takes no position, whatever the padding mask says of it."""
    ids = np.array([[0, 7, 1, 8, 2], [0, 7, 9, 8, 2]], "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    explicit = np.array([[2, 3, 1, 4, 5], [2, 3, 4, 5, 6]], "int32")
    model = loaded("roberta/encoder")
    assert_same(model(inputs), model({**inputs, "position_ids": explicit}))


def test_span_boundaries_are_optional_and_checked():
    """Without them there are no logits of spans; with mask_positions, masked tokens' alone."""
    io = arrays("spanbert/pretraining")
    model, inputs = loaded("spanbert/pretraining"), inputs_of(io)
    outputs = model({**inputs, "mask_positions": io["mask_positions"]})
    gathered = np.take_along_axis(io["mlm_logits"], io["mask_positions"][:, :, None], axis=1)
    wanted = {"mlm_logits": gathered, "sbo_logits": io["sbo_logits"]}
    assert_same({name: outputs[name] for name in wanted}, wanted, TOLERANCE)
    wrong = inputs.pop("span_boundaries").copy()
    assert set(model(inputs)) == {"mlm_logits"}
    wrong[1, 2, 1] = 14
    words = "span_boundaries[1, 2, 1] is 14"
    assert_refused(lambda: model({**inputs, "span_boundaries": wrong}), words)


def test_chosen_tokens_of_spans_have_the_logits_that_they_have_among_all():
    io = arrays("spanbert/pretraining")
    model, inputs = loaded("spanbert/pretraining"), inputs_of(io)
    tokens = np.int32([[3, 0, 31], [44, 15, 15], [0, 0, 1]])
    of_all = io["sbo_logits"].reshape(3, 45, -1)
    expected = np.take_along_axis(of_all, tokens[:, :, None], axis=1)
    # Beside few masked tokens, the encoder's last layer is computed where heads read alone.
    for places in ({}, {"mask_positions": io["mask_positions"][:, :1]}):
        outputs = model({**inputs, **places, "span_tokens": tokens})
        assert_same(outputs["sbo_logits"], expected, TOLERANCE)
    wrong = {**inputs, **places, "span_tokens": tokens + 14}
    assert_refused(lambda: model(wrong), "span_tokens[0, 2] is 45 | 15 tokens of each span")
    in_graph, error = tf.data.Dataset.from_tensors(wrong), tf.errors.InvalidArgumentError
    assert_refused(lambda: model.predict(in_graph), "15 tokens of each span", error)
    del inputs["span_boundaries"]
    without = {**inputs, "span_tokens": tokens}
    assert_refused(lambda: model(without), "without span_boundaries")


def test_a_trainer_s_options_are_read_from_the_tensors(tmp_path, caplog):
    """20 targets of a span, and a next-sentence head with its pooler."""
    case = "spanbert/pretraining"
    directory = shutil.copytree(directory_of(case), tmp_path / "twenty")
    (directory / "model.pt").unlink()
    tensors, hidden = (
        dict(open_weights(directory_of(case))),
        loaded(case).encoder.config.hidden_size,
    )
    ends = "pair_target_predictions.position_embeddings.weight", "embeddings.word_embeddings.weight"
    table, words = (next(key for key in tensors if key.endswith(end)) for end in ends)
    tensors[table] = np.concatenate([tensors[table], tensors[table][:5]])
    root = words.removesuffix(ends[1])
    start = root.removesuffix("bert.")
    shapes = {
        f"{root}pooler.dense.weight": (hidden, hidden),
        f"{root}pooler.dense.bias": (hidden,),
        f"{start}cls.seq_relationship.weight": (2, hidden),
        f"{start}cls.seq_relationship.bias": (2,),
    }
    tensors |= {key: np.ones(shape, "float32") for key, shape in shapes.items()}
    save_file(tensors, directory / "model.safetensors")
    model, inputs = bert_zoo.load(directory, "pretraining"), inputs_of(arrays(case))
    assert "next-sentence head" in caplog.text and "cls.seq_relationship.bias" in caplog.text
    caplog.clear()
    follows = bert_zoo.load(directory, "next_sentence_prediction")
    assert not caplog.records
    ids = {"token_ids": inputs["token_ids"]}
    first = np.asarray(follows.encoder(ids)["sequence_output"])[:, 0]
    wanted = 1 + hidden * np.tanh(1 + first.sum(-1, keepdims=True))
    np.testing.assert_allclose(follows(ids), np.repeat(wanted, 2, 1), rtol=1e-3)
    spans = model(inputs)["sbo_logits"]
    assert spans.shape[2] == 20
    assert_same(spans[:, :, :15], loaded(case)(inputs)["sbo_logits"], TOLERANCE)
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt, "pretraining")
        assert_same(again(inputs)["sbo_logits"], spans)
    copy = type(model).from_config(model.get_config())
    assert copy(inputs)["sbo_logits"].shape == spans.shape


def test_a_head_that_spanbert_lacks_is_named_with_the_archive_that_has_it(tmp_path):
    bert_zoo.save(loaded("spanbert/pretraining").encoder, tmp_path)
    for task, words in (
        ("masked_lm", "no masked_lm | spanbert_large.with_head"),
        ("pretraining", "init=('masked_lm', 'span_boundary')"),
    ):
        assert_refused(functools.partial(bert_zoo.load, tmp_path, task), words)
    model = bert_zoo.load(tmp_path, "pretraining", init=("masked_lm", "span_boundary"))
    sizes = 15 * 200 + (2 * 32 + 200 + 1) * 32 + 33 * 32 + 4 * 32 + 100
    assert model.span_boundary.count_params() == sizes


def test_shared_layers_have_their_variables_once(tmp_path):
    model = loaded("albert/encoder")
    assert model.config.num_layers > 1
    blocks = {path.split("/")[1] for path in named_variables(model) if path.startswith("stack/")}
    assert blocks == {"layer_0"}
    bert_zoo.export(model, tmp_path, text=False)
    stored = tf.train.list_variables(str(tmp_path / "variables" / "variables"))
    values = [(n, shape) for n, shape in stored if "VALUE" in n and "save_counter" not in n]
    assert sum(int(np.prod(shape)) for _, shape in values) == model.count_params()


# google-research/albert modeling.py: Hugging Face's name of a module -> Google's.
GOOGLE_ALBERT = (
    (r"^albert\.", "bert/"),
    (r"^predictions\.(?!bias)", "cls/predictions/transform/"),
    (r"^predictions\.", "cls/predictions."),
    (r"^sop_classifier\.classifier\.", "cls/seq_relationship."),
    (r"^bert/pooler\.", "bert/pooler/dense."),
    (
        r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.",
        r"transformer/group_\1/inner_group_\2/",
    ),
    (r"/attention\.(query|key|value)\.", r"/attention_1/self/\1."),
    (r"/attention\.dense\.", "/attention_1/output/dense."),
    (r"/attention\.LayerNorm\.", "/LayerNorm."),
    (r"/full_layer_layer_norm\.", "/LayerNorm_1."),
    (r"/ffn\.", "/ffn_1/intermediate/dense."),
    (r"/ffn_output\.", "/ffn_1/intermediate/output/dense."),
)


def write_google_albert(directory, case: str, prefix: str = "", file: str = "model.ckpt-best"):
    """As Google's archives have it, or with the prefix and file of its TF-Hub modules."""
    config = google_config(case) | {"net_structure_type": 0, "gap_size": 0}
    config["hidden_act"] = {"gelu_new": "gelu", "relu": "relu"}[config["hidden_act"]]
    tensors = google_tensors(with_root(case, "albert."), *GOOGLE_ALBERT)
    tensors = {prefix + name: value for name, value in tensors.items()}
    (directory / file).parent.mkdir(parents=True, exist_ok=True)
    save_tf1(directory / file, tensors | {"global_step": np.int64(7)})
    (directory / "albert_config.json").write_text(json.dumps(config))
    return directory


def with_root(case: str, root: str) -> dict[str, np.ndarray]:
    """A case's tensors, those of an encoder alone below the name of its module too."""
    root = root if task_of(case) == "encoder" else ""
    return {f"{root}{key}": tensor for key, tensor in tensors_of(directory_of(case)).items()}


def assert_same_model(model, case: str) -> None:
    assert_same_variables(model, loaded(case))
    inputs = inputs_of(arrays(case))
    assert_same(model(inputs), loaded(case)(inputs))


@pytest.mark.parametrize(
    ("prefix", "file"), [("", "model.ckpt-best"), ("module/", "variables/variables")]
)
@pytest.mark.parametrize(
    "name", ["encoder", "encoder_groups", "masked_lm", "pretraining", "question_answering"]
)
def test_googles_albert_is_the_same_model(name, prefix, file, tmp_path):
    case = f"albert/{name}"
    directory = write_google_albert(tmp_path, case, prefix, file)
    assert_same_model(bert_zoo.load(directory, task_of(case)), case)


# --- MobileBERT ----------------------------------------------------------------------------------

# google-research/mobilebert modeling.py, run_pretraining.py: Hugging Face's name of a module -> Google's.
GOOGLE_MOBILEBERT = (
    (r"^mobilebert\.", "bert/"),
    (r"^cls\.predictions\.dense\.weight$", "cls/predictions/extra_output_weights"),
    (r"ffn\.(\d)", r"ffn_layer_\1"),
    (r"(?<!transform\.)LayerNorm\.weight$", "FakeLayerNorm/gamma"),
    (r"(?<!transform\.)LayerNorm\.bias$", "FakeLayerNorm/beta"),
)


CHOICES = """
    trigram_input use_bottleneck intra_bottleneck_size key_query_shared_bottleneck num_feedforward_networks
    normalization_type classifier_activation
""".split()


def write_google_mobilebert(directory, case: str, **changes):
    """As Google's archive has it, with a configuration of its repository beside it; None removes."""
    theirs = read_json(directory_of(case) / "config.json")
    config = google_config(case) | {key: theirs[key] for key in CHOICES} | changes
    config = {key: value for key, value in config.items() if value is not None}
    google = google_tensors(with_root(case, "mobilebert."), *GOOGLE_MOBILEBERT)
    extra = "cls/predictions/extra_output_weights"
    if extra in google:
        google[extra] = google[extra].T
    google["global_step"] = np.int64(7)
    google["bert/embeddings/word_embeddings/adam_m"] = np.zeros((2, 3), "float32")
    save_tf1(directory / "mobilebert_variables.ckpt", google)
    (directory / "bert_config.json").write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize(
    "name", ["encoder", "encoder_tanh", "masked_lm", "pretraining", "question_answering"]
)
def test_googles_mobilebert_is_the_same_model(name, tmp_path):
    case = f"mobilebert/{name}"
    # Google's "gelu" is the tanh approximation.
    options = {"activation": "gelu"} if name == "encoder_tanh" else {}
    directory = write_google_mobilebert(tmp_path, case)
    assert_same_model(bert_zoo.load(directory, task_of(case), **options), case)


@pytest.mark.parametrize("name", ["encoder", "encoder_tanh", "classification"])
def test_variables_tell_whether_the_pooler_of_googles_mobilebert_has_a_layer(
    name, tmp_path, caplog
):
    case = f"mobilebert/{name}"
    write_google_mobilebert(tmp_path, case)
    (tmp_path / "bert_config.json").unlink()
    values = read_json(directory_of(case) / "config.json")
    values["classifier_activation"] = not values["classifier_activation"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert_same_model(bert_zoo.load(tmp_path, task_of(case)), case)
    assert "randomly initialised" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_bottleneck_attention": True}, "use_bottleneck_attention is True"),
        ({"normalization_type": None}, "normalization_type is 'layer_norm'"),
        ({"hidden_act": "relu6"}, "hidden_act is 'relu6'"),
        ({"intra_bottleneck_size": 18}, "bottleneck_size 18 is not a multiple of num_heads 4"),
        ({"embedding_size": 32}, "embedding_size is 32 | hidden_size 32"),
    ],
)
def test_another_mobilebert_than_the_released_one_is_refused_by_name(changes, words, tmp_path):
    directory = write_google_mobilebert(tmp_path, "mobilebert/encoder", **changes)
    assert_refused(lambda: bert_zoo.load(directory), words)


def test_a_mobilebert_whose_pooler_has_no_layer_needs_none(caplog):
    """Its classifier and next-sentence head read the first token; with a layer, that is missed."""
    model = load_case("mobilebert/masked_lm", "classification")
    assert "no trained classifier " in caplog.text
    assert not [path for path in named_variables(model) if "pooler" in path]
    load_case("mobilebert/encoder_tanh", "classification")
    inputs = inputs_of(arrays("mobilebert/encoder"))
    outputs = loaded("mobilebert/encoder")(inputs)
    assert_same(outputs["pooled_output"], outputs["sequence_output"][:, 0])


def test_a_mobilebert_reads_no_padding_into_the_last_token():
    """A text gives the same alone, in a batch, and in rows of several documents, where padding has a vector."""
    case = "mobilebert/encoder_trained_padding"
    model, inputs = loaded(case), inputs_of(arrays(case))
    real = inputs["padding_mask"].astype(bool)
    expected = arrays(case)["sequence_output"]
    noise = {**inputs, "token_ids": np.where(real, inputs["token_ids"], 7)}
    documents = {**inputs, "document_ids": inputs.pop("padding_mask")}
    for batch in (noise, documents):
        assert_same(np.asarray(model(batch)["sequence_output"])[real], expected[real], TOLERANCE)
    row = int(real.sum(axis=1).argmin())
    alone = {name: ids[row : row + 1, real[row]] for name, ids in inputs.items()}
    assert_same(model(alone)["sequence_output"][0], expected[row, real[row]], TOLERANCE)


# --- ELECTRA: two encoders in one file -----------------------------------------------------------

BOTH = "electra/tf1_base"


def outputs_at_masks(generator):
    """What a generator alone gives at the masks of the case of both."""
    inputs = inputs_of(arrays(BOTH))
    return generator({name: ids for name, ids in inputs.items() if name != "replaced_token_ids"})


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("pretraining", "no generator | electra_small | init=('generator',)"),
        ("masked_lm", "no masked_lm | electra_small.generator"),
    ],
)
def test_a_discriminator_without_generator_names_what_is_missing_and_where_it_is(task, words):
    load = functools.partial(bert_zoo.load, directory_of("electra/discriminator"), task)
    assert_refused(load, words, WeightsError)


@pytest.mark.parametrize("saved", [False, True])
def test_a_task_reads_its_encoder_from_a_file_of_both(saved, tmp_path):
    io, directory = arrays(BOTH), directory_of(BOTH)
    if saved:
        directory = tmp_path
        bert_zoo.save(loaded(BOTH), directory)
    logits = outputs_at_masks(bert_zoo.load(directory, "masked_lm"))
    assert_same(logits, io["mlm_logits"], TOLERANCE)
    ids = {"token_ids": io["replaced_token_ids"]}
    ids |= {name: io[name] for name in ("segment_ids", "padding_mask")}
    encoded = bert_zoo.load(directory, "encoder")(ids)["sequence_output"]
    assert_same(encoded, io["sequence_output"], TOLERANCE)


def test_every_tensor_of_both_must_be_there_and_known(tmp_path):
    tensors = dict(open_weights(directory_of(BOTH)))
    shutil.copy(directory_of(BOTH) / "config.json", tmp_path)
    layer = "generator/encoder/layer_{}/output/LayerNorm/gamma"
    extra, gone = layer.format(99), layer.format(0)
    tensors[extra] = tensors.pop(gone)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=rf"missing: {gone}(?s:.*)not known.*: {extra}"):
        bert_zoo.load(tmp_path, "pretraining")


@pytest.mark.parametrize("name", ["tf1_base", "tf1_small"])
def test_an_archive_without_configuration_tells_its_sizes_by_its_tensors(name, tmp_path):
    case = f"electra/{name}"
    for file in directory_of(case).iterdir():
        if file.name != "config.json":
            shutil.copy(file, tmp_path / file.name.replace("model.ckpt", name))
    model = bert_zoo.load(tmp_path, "pretraining")
    config = loaded(case).encoder.config
    # Heads are 64 wide in every released one.
    assert model.encoder.config == config.replace(num_heads=1, layer_norm_epsilon=1e-12)
    assert_same_variables(model, loaded(case))
    (tmp_path / f"{name}.index").rename(tmp_path / "other.index")
    with pytest.raises((WeightsError, FileNotFoundError), match="other"):
        bert_zoo.load(tmp_path)


def test_hugging_face_has_a_directory_for_each_encoder(tmp_path, caplog):
    bert_zoo.save(loaded(BOTH), tmp_path, format="hf")
    assert f"the generator is in {tmp_path / 'generator'}" in caplog.text
    generator = bert_zoo.load(tmp_path / "generator", "masked_lm")
    assert_same(outputs_at_masks(generator), arrays(BOTH)["mlm_logits"], TOLERANCE)
    assert_same_variables(bert_zoo.load(tmp_path, "pretraining"), loaded(BOTH))
    configs = [read_json(path / "config.json") for path in (tmp_path, tmp_path / "generator")]
    classes = [config["architectures"] for config in configs]
    assert classes == [["ElectraForPreTraining"], ["ElectraForMaskedLM"]]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("config.json", "generator in | does not belong | 'num_hidden_layers': 1"),
        ("model.safetensors", "generator/embeddings.LayerNorm.bias should be a copy of electra"),
    ],
)
def test_the_directory_of_another_generator_is_refused(file, words, tmp_path):
    bert_zoo.save(loaded(BOTH), tmp_path, format="hf")
    path = tmp_path / "generator" / file
    if file == "config.json":
        change_json(path, num_hidden_layers=1)
    else:
        tensors = tensors_of(path.parent)
        tensors["electra.embeddings.LayerNorm.bias"] += 1
        save_file(tensors, path)
    assert_refused(lambda: bert_zoo.load(tmp_path, "pretraining"), words, WeightsError)
    bert_zoo.load(tmp_path, "encoder")


def modernbert_config(**changes):
    values = read_json(directory_of("modernbert/masked_lm") / "config.json")
    known = {row.key for row in HF_CODEC.rows} | {"layer_types", "rope_parameters"}
    values = {name: value for name, value in values.items() if name in known} | changes
    return HF_CODEC.decode(values, where="config.json")


TYPES = ["full_attention", *["sliding_attention"] * 2, "full_attention"]
THETAS = {"full_attention": 160000.0, "sliding_attention": 10000.0}
IRREGULAR = ["sliding_attention", *TYPES[1:]]


def test_modernberts_keys_of_transformers_4_and_5_say_the_same():
    ropes = {name: {"rope_type": "default", "rope_theta": t} for name, t in THETAS.items()}
    assert modernbert_config(layer_types=TYPES, rope_parameters=ropes) == modernbert_config()
    config = modernbert_config(layer_types=IRREGULAR, global_attn_every_n_layers=3)
    assert config.global_layers == (3,)
    assert HF_CODEC.encode(config)["layer_types"] == IRREGULAR
    # Where transformers 4 finds null, both kinds of layers have one theta.
    assert modernbert_config(local_rope_theta=None).local_rope_theta == 160000.0


YARN = {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rope_parameters": YARN}, "only the types 'default' and 'linear'"),
        ({"layer_types": IRREGULAR[:3]}, "for each of the 4 layers"),
        ({"layer_types": ["full_attention", "linear_attention"] * 2}, "for each of the 4 layers"),
        ({"layer_types": 3}, "for each of the 4 layers"),
        ({"local_attention": 7}, "local_attention"),
        ({"global_rope_theta": 0}, "global_rope_theta"),
        ({"num_attention_heads": 32}, "pairs"),
    ],
)
def test_other_modernberts_are_refused(changes, words):
    assert_refused(lambda: modernbert_config(**changes), words, ConfigError)


def test_modernberts_heads_read_the_first_token_or_the_mean():
    inputs = inputs_of(arrays("modernbert/classification"))
    mean = load_case("modernbert/classification")
    first = load_case("modernbert/classification", classifier_pooling="cls")
    assert not mean.reads_first_only and first.reads_first_only
    assert not np.allclose(mean(inputs), first(inputs), atol=1e-3)


def test_an_ernie_that_is_called_a_bert_is_read_as_one(tmp_path):
    # As the first config.json of ernie-3.0-base-zh.
    directory = changed_copy("ernie/encoder", tmp_path, model_type="bert", init_class="ErnieModel")
    assert bert_zoo.load(directory).family == "ernie"
    # With BERT's keys alone it is a BERT, which has no such table.
    config = directory / "config.json"
    own = ("use_task_id", "task_type_vocab_size", "init_class")
    config.write_text(json.dumps({k: v for k, v in read_json(config).items() if k not in own}))
    assert_refused(lambda: bert_zoo.load(directory), "task_type_embeddings", WeightsError)


def test_an_ernies_unused_table_of_task_types_is_named(tmp_path, caplog):
    model = bert_zoo.load(changed_copy("ernie/encoder", tmp_path, use_task_id=False))
    assert "table of task types without use_task_id" in caplog.text
    assert "task_type_ids" not in model.backbone.inputs
