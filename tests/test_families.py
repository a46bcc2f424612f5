"""What single families have of their own; test_conformance.py shows what they share."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TOLERANCE,
    arrays,
    assert_same,
    assert_same_variables,
    directory_of,
    google_config,
    google_tensors,
    inputs_of,
    load_case,
    loaded,
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
    assert set(preprocessor.bert_pack_inputs([tokenizer(["a"])])) == {
        "input_word_ids",
        "input_mask",
        "input_type_ids",
    }


def test_positions_of_roberta_count_tokens_and_not_the_mask():
    """A pad token inside a text takes no position, whatever the padding mask says of it."""
    model = loaded("roberta/encoder")
    ids = np.array([[0, 7, 1, 8, 2], [0, 7, 9, 8, 2]], "int32")
    outputs = model({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    explicit = np.array([[2, 3, 1, 4, 5], [2, 3, 4, 5, 6]], "int32")
    assert_same(
        outputs,
        model({"token_ids": ids, "padding_mask": np.ones_like(ids), "position_ids": explicit}),
    )


def test_span_boundaries_are_optional_and_checked():
    """Without them there are no logits of spans; with mask_positions, masked tokens' alone."""
    io = arrays("spanbert/pretraining")
    model, inputs = loaded("spanbert/pretraining"), inputs_of(io)
    places = {"mask_positions": io["mask_positions"]}
    outputs = model({**inputs, **places})
    gathered = np.take_along_axis(io["mlm_logits"], io["mask_positions"][:, :, None], axis=1)
    np.testing.assert_allclose(outputs["mlm_logits"], gathered, atol=TOLERANCE)
    np.testing.assert_allclose(outputs["sbo_logits"], io["sbo_logits"], atol=TOLERANCE)
    without = {name: value for name, value in inputs.items() if name != "span_boundaries"}
    assert set(model(without)) == {"mlm_logits"}
    wrong = io["span_boundaries"].copy()
    wrong[1, 2, 1] = 14
    with pytest.raises(ValueError, match=r"span_boundaries\[1, 2, 1\] is 14"):
        model({**inputs, "span_boundaries": wrong})


def test_chosen_tokens_of_spans_have_the_logits_that_they_have_among_all():
    io = arrays("spanbert/pretraining")
    model, inputs = loaded("spanbert/pretraining"), inputs_of(io)
    tokens = np.int32([[3, 0, 31], [44, 15, 15], [0, 0, 1]])
    of_all = io["sbo_logits"].reshape(3, 45, -1)
    expected = np.take_along_axis(of_all, tokens[:, :, None], axis=1)
    # Beside few masked tokens, the encoder's last layer is computed where heads read alone.
    for places in ({}, {"mask_positions": io["mask_positions"][:, :1]}):
        given = {**inputs, **places, "span_boundaries": io["span_boundaries"]}
        outputs = model({**given, "span_tokens": tokens})
        np.testing.assert_allclose(outputs["sbo_logits"], expected, atol=TOLERANCE)
    with pytest.raises(ValueError, match=r"span_tokens\[0, 2\] is 45, .* 15 tokens of each span"):
        model({**given, "span_tokens": tokens + 14})
    in_graph = tf.data.Dataset.from_tensors({**given, "span_tokens": tokens + 14})
    with pytest.raises(tf.errors.InvalidArgumentError, match="15 tokens of each span"):
        model.predict(in_graph, verbose=0)
    del given["span_boundaries"]
    with pytest.raises(ValueError, match="without span_boundaries"):
        model({**given, "span_tokens": tokens})


def test_a_trainer_s_options_are_read_from_the_tensors(tmp_path, caplog):
    """20 targets of a span, and a next-sentence head with its pooler."""
    case = "spanbert/pretraining"
    directory = shutil.copytree(directory_of(case), tmp_path / "twenty")
    (directory / "model.pt").unlink()
    tensors, hidden = (
        dict(open_weights(directory_of(case))),
        loaded(case).encoder.config.hidden_size,
    )
    (table,) = (
        key for key in tensors if key.endswith("pair_target_predictions.position_embeddings.weight")
    )
    fifteen = tensors[table]
    tensors[table] = np.concatenate([fifteen, fifteen[:5]])
    (root,) = (
        key.removesuffix("embeddings.word_embeddings.weight")
        for key in tensors
        if key.endswith("embeddings.word_embeddings.weight")
    )
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
    np.testing.assert_allclose(spans[:, :, :15], loaded(case)(inputs)["sbo_logits"], atol=TOLERANCE)
    for fmt in ("bert_zoo", "hf"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt, "pretraining")
        assert_same(again(inputs)["sbo_logits"], spans)
    copy = type(model).from_config(model.get_config())
    assert copy(inputs)["sbo_logits"].shape == spans.shape


def test_a_head_that_spanbert_lacks_is_named_with_the_archive_that_has_it(tmp_path):
    bert_zoo.save(loaded("spanbert/pretraining").encoder, tmp_path)
    with pytest.raises(WeightsError, match=r"no masked_lm.*spanbert_large\.with_head"):
        bert_zoo.load(tmp_path, "masked_lm")
    with pytest.raises(WeightsError, match=r"init=\('masked_lm', 'span_boundary'\)"):
        bert_zoo.load(tmp_path, "pretraining")
    model = bert_zoo.load(tmp_path, "pretraining", init=("masked_lm", "span_boundary"))
    assert (
        model.span_boundary.count_params()
        == 15 * 200 + (2 * 32 + 200 + 1) * 32 + 33 * 32 + 4 * 32 + 100
    )


@pytest.mark.parametrize("fmt", ["bert_zoo", "hf"])
def test_a_model_whose_archive_has_no_vocabulary_is_saved_without_it(fmt, tmp_path, caplog):
    """As SpanBERT's archives."""
    source = tmp_path / "source"
    shutil.copytree(directory_of("spanbert/squad"), source)
    (source / "vocab.txt").unlink(missing_ok=True)
    model = bert_zoo.load(source, "question_answering")
    bert_zoo.save(model, tmp_path / "saved", format=fmt)
    assert caplog.text.count("The vocabulary is not saved") == 1
    assert_same_variables(bert_zoo.load(tmp_path / "saved", "question_answering"), model)


def test_shared_layers_have_their_variables_once(tmp_path):
    model = loaded("albert/encoder")
    assert model.config.num_layers > 1
    blocks = {path.split("/")[1] for path in named_variables(model) if path.startswith("stack/")}
    assert blocks == {"layer_0"}
    model.save_weights(tmp_path / "m.weights.h5")
    bert_zoo.export(model, tmp_path / "saved_model", text=False)
    stored = tf.train.list_variables(str(tmp_path / "saved_model" / "variables" / "variables"))
    sizes = [
        int(np.prod(shape))
        for name, shape in stored
        if "VARIABLE_VALUE" in name and "save_counter" not in name
    ]
    assert sum(sizes) == model.count_params()


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
    google_gelu = {"gelu_new": "gelu", "relu": "relu"}
    config["hidden_act"] = google_gelu[config["hidden_act"]]
    tensors = tensors_of(directory_of(case))
    if task_of(case) == "encoder":
        tensors = {f"albert.{key}": tensor for key, tensor in tensors.items()}
    tensors = {
        prefix + name: value for name, value in google_tensors(tensors, *GOOGLE_ALBERT).items()
    }
    tensors["global_step"] = np.int64(7)
    (directory / file).parent.mkdir(parents=True, exist_ok=True)
    save_tf1(directory / file, tensors)
    (directory / "albert_config.json").write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize(
    ("prefix", "file"), [("", "model.ckpt-best"), ("module/", "variables/variables")]
)
@pytest.mark.parametrize(
    "name", ["encoder", "encoder_groups", "masked_lm", "pretraining", "question_answering"]
)
def test_googles_albert_is_the_same_model(name, prefix, file, tmp_path):
    case = f"albert/{name}"
    directory = write_google_albert(tmp_path, case, prefix, file)
    assert_same_variables(bert_zoo.load(directory, task_of(case)), loaded(case))
    assert_same(
        bert_zoo.load(directory, task_of(case))(inputs_of(arrays(case))),
        loaded(case)(inputs_of(arrays(case))),
    )


# --- MobileBERT ----------------------------------------------------------------------------------

# google-research/mobilebert modeling.py, run_pretraining.py: Hugging Face's name of a module -> Google's.
GOOGLE_MOBILEBERT = (
    (r"^mobilebert\.", "bert/"),
    (r"^cls\.predictions\.dense\.weight$", "cls/predictions/extra_output_weights"),
    (r"ffn\.(\d)", r"ffn_layer_\1"),
    (r"(?<!transform\.)LayerNorm\.weight$", "FakeLayerNorm/gamma"),
    (r"(?<!transform\.)LayerNorm\.bias$", "FakeLayerNorm/beta"),
)


def write_google_mobilebert(directory, case: str, **changes):
    """As Google's archive has it, with a configuration of its repository beside it; None removes."""
    config = google_config(case)
    theirs = json.loads((directory_of(case) / "config.json").read_text())
    choices = (
        *(
            "trigram_input",
            "use_bottleneck",
            "intra_bottleneck_size",
            "key_query_shared_bottleneck",
        ),
        *("num_feedforward_networks", "normalization_type", "classifier_activation"),
    )
    config |= {key: theirs[key] for key in choices} | changes
    config = {key: value for key, value in config.items() if value is not None}
    tensors = tensors_of(directory_of(case))
    if task_of(case) == "encoder":
        tensors = {f"mobilebert.{key}": tensor for key, tensor in tensors.items()}
    google = google_tensors(tensors, *GOOGLE_MOBILEBERT)
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
    model = bert_zoo.load(write_google_mobilebert(tmp_path, case), task_of(case), **options)
    assert_same_variables(model, loaded(case))
    assert_same(model(inputs_of(arrays(case))), loaded(case)(inputs_of(arrays(case))))


@pytest.mark.parametrize("name", ["encoder", "encoder_tanh", "classification"])
def test_variables_tell_whether_the_pooler_of_googles_mobilebert_has_a_layer(
    name, tmp_path, caplog
):
    case = f"mobilebert/{name}"
    write_google_mobilebert(tmp_path, case)
    (tmp_path / "bert_config.json").unlink()
    values = json.loads((directory_of(case) / "config.json").read_text())
    values["classifier_activation"] = not values["classifier_activation"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    model = bert_zoo.load(tmp_path, task_of(case))
    assert_same_variables(model, loaded(case))
    assert_same(model(inputs_of(arrays(case))), loaded(case)(inputs_of(arrays(case))))
    assert "randomly initialised" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_bottleneck_attention": True}, "use_bottleneck_attention is True"),
        ({"normalization_type": None}, "normalization_type is 'layer_norm'"),
        ({"hidden_act": "relu6"}, "hidden_act is 'relu6'"),
        ({"intra_bottleneck_size": 18}, "bottleneck_size 18 is not a multiple of num_heads 4"),
        ({"embedding_size": 32}, "embedding_size is 32.*hidden_size 32"),
    ],
)
def test_another_mobilebert_than_the_released_one_is_refused_by_name(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        bert_zoo.load(write_google_mobilebert(tmp_path, "mobilebert/encoder", **changes))


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
    documents = {**inputs, "document_ids": inputs["padding_mask"]}
    for batch in (noise, documents):
        found = np.asarray(model(batch)["sequence_output"])
        np.testing.assert_allclose(found[real], expected[real], atol=TOLERANCE)
    row = int(real.sum(axis=1).argmin())
    alone = {name: ids[row : row + 1, real[row]] for name, ids in inputs.items()}
    del alone["padding_mask"]
    found = np.asarray(model(alone)["sequence_output"][0])
    np.testing.assert_allclose(found, expected[row, real[row]], atol=TOLERANCE)


# --- ELECTRA: two encoders in one file -----------------------------------------------------------

BOTH = "electra/tf1_base"


def outputs_at_masks(generator):
    """What a generator alone gives at the masks of the case of both."""
    inputs = inputs_of(arrays(BOTH))
    return generator({name: ids for name, ids in inputs.items() if name != "replaced_token_ids"})


def test_a_discriminator_without_generator_names_what_is_missing_and_where_it_is():
    directory = directory_of("electra/discriminator")
    with pytest.raises(WeightsError, match=r"no generator.*electra_small.*init=\('generator',\)"):
        bert_zoo.load(directory, "pretraining")
    with pytest.raises(WeightsError, match=r"no masked_lm.*electra_small\.generator"):
        bert_zoo.load(directory, "masked_lm")


@pytest.mark.parametrize("saved", [False, True])
def test_a_task_reads_its_encoder_from_a_file_of_both(saved, tmp_path):
    io, directory = arrays(BOTH), directory_of(BOTH)
    if saved:
        directory = tmp_path
        bert_zoo.save(loaded(BOTH), directory)
    logits = outputs_at_masks(bert_zoo.load(directory, "masked_lm"))
    np.testing.assert_allclose(logits, io["mlm_logits"], atol=TOLERANCE)
    ids = {"token_ids": io["replaced_token_ids"]}
    ids |= {name: io[name] for name in ("segment_ids", "padding_mask")}
    encoded = bert_zoo.load(directory, "encoder")(ids)["sequence_output"]
    np.testing.assert_allclose(encoded, io["sequence_output"], atol=TOLERANCE)


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
    np.testing.assert_allclose(
        outputs_at_masks(generator), arrays(BOTH)["mlm_logits"], atol=TOLERANCE
    )
    assert_same_variables(bert_zoo.load(tmp_path, "pretraining"), loaded(BOTH))
    classes = {
        json.loads((path / "config.json").read_text())["architectures"][0]
        for path in (tmp_path, tmp_path / "generator")
    }
    assert classes == {"ElectraForPreTraining", "ElectraForMaskedLM"}


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("config.json", r"generator in .* does not belong.*'num_hidden_layers': 1"),
        ("model.safetensors", r"generator/embeddings\.LayerNorm\.bias should be a copy of electra"),
    ],
)
def test_the_directory_of_another_generator_is_refused(file, message, tmp_path):
    bert_zoo.save(loaded(BOTH), tmp_path, format="hf")
    path = tmp_path / "generator" / file
    if file == "config.json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 1}))
    else:
        tensors = tensors_of(path.parent)
        tensors["electra.embeddings.LayerNorm.bias"] += 1
        save_file(tensors, path)
    with pytest.raises(WeightsError, match=message):
        bert_zoo.load(tmp_path, "pretraining")
    bert_zoo.load(tmp_path, "encoder")


def modernbert_config(**changes):
    values = json.loads((directory_of("modernbert/masked_lm") / "config.json").read_text())
    known = {row.key for row in HF_CODEC.rows} | {"layer_types", "rope_parameters"}
    values = {name: value for name, value in values.items() if name in known} | changes
    return HF_CODEC.decode(values, where="config.json")


def test_modernberts_keys_of_transformers_4_and_5_say_the_same():
    theirs = {
        "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }
    assert modernbert_config(**theirs) == modernbert_config()
    ropes = {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}
    with pytest.raises(ConfigError, match="rope_type 'default'"):
        modernbert_config(rope_parameters=ropes)
    irregular = ["sliding_attention", *theirs["layer_types"][1:]]
    config = modernbert_config(layer_types=irregular, global_attn_every_n_layers=3)
    assert config.global_layers == (3,)
    assert HF_CODEC.encode(config)["layer_types"] == irregular
    for types in (irregular[:3], ["full_attention", "linear_attention"] * 2, 3):
        with pytest.raises(ConfigError, match="for each of the 4 layers"):
            modernbert_config(layer_types=types)
    # Where transformers 4 finds null, both kinds of layers have one theta.
    assert modernbert_config(local_rope_theta=None).local_rope_theta == 160000.0
    for name, value in {
        "local_attention": 7,
        "global_rope_theta": 0,
        "num_attention_heads": 32,
    }.items():
        with pytest.raises(ConfigError, match=r"local_attention|global_rope_theta|pairs"):
            modernbert_config(**{name: value})


def test_modernberts_heads_read_the_first_token_or_the_mean():
    inputs = inputs_of(arrays("modernbert/classification"))
    mean = load_case("modernbert/classification")
    first = load_case("modernbert/classification", classifier_pooling="cls")
    assert not mean.reads_first_only and first.reads_first_only
    assert not np.allclose(mean(inputs), first(inputs), atol=1e-3)
