"""What must hold for every family beside BERT, whose own tests go further: tests/golden/<family>."""

import json
import logging
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_same, assert_same_variables, flat, loaded, stored_gradients, tensors_of
from safetensors.numpy import save_file
from test_golden_bert import (
    FAMILY_CASES,
    TOLERANCE,
    arrays,
    assert_equal_to_reference,
    directory_of,
    inputs_of,
    load_case,
)

import bert_zoo
from bert_zoo.training.recipes import RECIPES
from bert_zoo.weights.bind import named_variables
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.sources import open_weights


def task_of(case: str) -> str:
    return FAMILY_CASES[case]["task"]


# One case for each family and task.
TASK_CASES = list(
    {(case.partition("/")[0], task_of(case)): case for case in reversed(FAMILY_CASES)}.values()
)[::-1]


# ---------------------------------------------------------------------------------------------
# Outputs
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", FAMILY_CASES)
def test_outputs_equal_the_reference(case):
    io = arrays(case)
    options = {}
    if "hidden_states" in io:
        options = {"output_hidden_states": True, "output_attentions": True}
    assert_equal_to_reference(load_case(case, **options)(inputs_of(io)), io)


@pytest.mark.parametrize("case", [case for case in TASK_CASES if task_of(case) == "encoder"])
def test_the_first_token_alone_is_as_among_all(case):
    model = load_case(case, output_hidden_states=True, output_attentions=True)
    inputs = inputs_of(arrays(case))
    whole, first = model(inputs), model(inputs, first_only=True)
    assert set(first) == set(whole)
    assert_same(first["sequence_output"], whole["sequence_output"][:, :1], 1e-6)
    assert_same(first["hidden_states"][:-1], whole["hidden_states"][:-1])
    assert_same(first["hidden_states"][-1], first["sequence_output"])
    assert_same(first["attentions"][:-1], whole["attentions"][:-1], 1e-7)
    assert_same(first["attentions"][-1], whole["attentions"][-1][:, :, :1], 1e-6)
    if "pooled_output" in whole:
        assert_same(first["pooled_output"], whole["pooled_output"], 1e-6)


@pytest.mark.parametrize("case", TASK_CASES)
def test_graph_xla_and_predict_equal_eager(case):
    model, inputs = loaded(case), inputs_of(arrays(case))
    eager = model(inputs)
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    assert_same(tf.function(model)(tensors), eager, TOLERANCE)
    if task_of(case) in ("masked_lm", "pretraining", "classification"):  # XLA takes its time
        assert_same(tf.function(model, jit_compile=True)(tensors), eager, TOLERANCE)
    assert_same(model.predict(inputs, batch_size=2, verbose=0), eager, TOLERANCE)


@pytest.mark.parametrize("case", TASK_CASES)
def test_mixed_bfloat16_is_close(case):
    inputs = inputs_of(arrays(case))
    outputs = flat(load_case(case, dtype="mixed_bfloat16")(inputs))
    exact = flat(loaded(case)(inputs))
    for name, value in outputs.items():
        difference = np.abs(value.astype("float32") - exact[name]).max()
        assert 0 < difference < 0.3, name


EXPORTED = ["roberta/classification", "xlm_roberta/masked_lm", "albert/encoder", "albert/masked_lm"]
TEXTS = (["the cat sat", "a bird"], ["it was good", "not very big"])


@pytest.mark.parametrize("case", EXPORTED)
def test_saved_model_serves_text_and_ids_as_the_model_does(case, tmp_path):
    model, inputs = loaded(case), inputs_of(arrays(case))
    bert_zoo.export(model, tmp_path / "model")
    signatures = tf.saved_model.load(tmp_path / "model").signatures
    zeros = np.zeros_like(inputs["token_ids"])
    served = signatures["tokens"](
        **{
            name: tf.constant(inputs.get(name, zeros))
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
    )
    for name, value in flat(model(inputs)).items():
        np.testing.assert_allclose(served[name or "logits"], value, atol=TOLERANCE)
    first, second = (tf.constant(texts) for texts in TEXTS)
    for signature, given, texts in (
        ("serving_default", {"text": first}, TEXTS[0]),
        ("pairs", {"text": first, "text_pair": second}, TEXTS),
    ):
        served = signatures[signature](**given)
        for name, value in flat(model(model.preprocessor(texts))).items():
            np.testing.assert_allclose(served[name or "logits"], value, atol=TOLERANCE)


@pytest.mark.parametrize("family", ["roberta", "xlm_roberta", "albert"])
def test_text_is_trained_on_and_comes_back_with_the_keras_file(family, tmp_path):
    model = load_case(f"{family}/classification")
    model.fit(TEXTS, np.array([0, 2]), epochs=2, verbose=0)
    answers = model.predict(TEXTS, verbose=0)
    assert [answer.label in model.labels for answer in model.classify(TEXTS[0])] == [True, True]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(again.predict(TEXTS, verbose=0), answers)


def test_saved_model_predicts_spans(tmp_path):
    io = arrays("spanbert/pretraining")
    bert_zoo.export(loaded("spanbert/pretraining"), tmp_path / "model", text=False)
    signature = tf.saved_model.load(tmp_path / "model").signatures["span_boundaries"]
    served = signature(**{name: tf.constant(v) for name, v in inputs_of(io).items()})
    np.testing.assert_allclose(served["sbo_logits"], io["sbo_logits"], atol=TOLERANCE)


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


def test_spans_and_masked_tokens_are_trained_together():
    io = arrays("spanbert/pretraining")
    model = load_case("spanbert/pretraining", dropout=0.0)
    inputs = inputs_of(io) | {"mask_positions": io["mask_positions"]}
    tokens = np.take_along_axis(io["token_ids"], io["mask_positions"], axis=1)
    labels = {
        "mlm_logits": tokens,
        "sbo_logits": np.where(io["span_targets"] > 0, io["span_targets"], -100),
    }
    before = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    model.optimizer.learning_rate = 1e-2
    model.fit(inputs, labels, epochs=10, verbose=0)
    after = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    for name in ("mlm_logits_loss", "sbo_logits_loss"):
        assert after[name] < 0.7 * before[name]


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
    with caplog.at_level(logging.WARNING):
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


# ---------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------

WITH_GRADIENTS = [
    case for case in FAMILY_CASES if any(name.startswith("gradient/") for name in arrays(case))
]


@pytest.mark.parametrize("case", WITH_GRADIENTS)
def test_loss_and_gradients_equal_the_reference(case):
    io, task = arrays(case), task_of(case)
    model = load_case(case, dropout=0.0)
    loss_function, _ = RECIPES[task](model)
    with tf.GradientTape() as tape:
        loss = loss_function(io["labels"], model(inputs_of(io), training=True))
    np.testing.assert_allclose(loss, io["loss"], atol=TOLERANCE)
    stored = stored_gradients(model, loss, tape)
    names = [name for name in io if name.startswith("gradient/")]
    assert len(names) > 5
    for name in names:
        np.testing.assert_allclose(
            stored[name.removeprefix("gradient/")], io[name], atol=TOLERANCE, err_msg=name
        )


# ---------------------------------------------------------------------------------------------
# Formats
# ---------------------------------------------------------------------------------------------

SAFETENSORS = [
    case
    for case in FAMILY_CASES
    if (directory_of(case) / "model.safetensors").is_file() and "legacy" not in case
]


@pytest.mark.parametrize("case", SAFETENSORS)
def test_hf_directory_comes_back_bit_for_bit(case, tmp_path):
    original = tensors_of(directory_of(case))
    bert_zoo.save(loaded(case), tmp_path, format="hf")
    saved = tensors_of(tmp_path)
    bias, decoder = (
        next((key for key in original if key.endswith(end)), None)
        for end in ("lm_head.bias", "lm_head.decoder.bias")
    )
    if decoder is not None:
        # Never read where the decoder's counts; saved as its repetition.
        original[bias] = original[decoder]
    assert saved.keys() == original.keys()
    for key, tensor in original.items():
        assert np.array_equal(saved[key], tensor), key
    config = json.loads((tmp_path / "config.json").read_text())
    before = json.loads((directory_of(case) / "config.json").read_text())
    assert config["architectures"] == before["architectures"]
    assert config["model_type"] == before["model_type"]


@pytest.mark.parametrize("case", TASK_CASES)
def test_saved_directory_and_keras_file_give_the_same_model(case, tmp_path):
    model, inputs = loaded(case), inputs_of(arrays(case))
    bert_zoo.save(model, tmp_path / "saved")
    again = bert_zoo.load(tmp_path / "saved")
    assert type(again) is type(model)
    assert_same_variables(again, model)
    assert_same(again(inputs), model(inputs))
    assert getattr(again, "labels", None) == getattr(model, "labels", None)
    model.save(tmp_path / "model.keras")
    assert_same(keras.saving.load_model(tmp_path / "model.keras")(inputs), model(inputs))


# google-research/albert modeling.py: Hugging Face's name of a module -> Google's.
GOOGLE_ALBERT = (
    (r"^albert\.", "bert/"),
    (r"^predictions\.bias$", "cls/predictions/output_bias"),
    (r"^predictions\.", "cls/predictions/transform/"),
    (r"^sop_classifier\.classifier\.weight$", "cls/seq_relationship/output_weights"),
    (r"^sop_classifier\.classifier\.bias$", "cls/seq_relationship/output_bias"),
    (r"^classifier\.weight$", "output_weights"),
    (r"^classifier\.bias$", "output_bias"),
    (r"^qa_outputs\.weight$", "cls/squad/output_weights"),
    (r"^qa_outputs\.bias$", "cls/squad/output_bias"),
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
    (r"embeddings\.weight$", "embeddings"),
    (r"(LayerNorm(_1)?)\.weight$", r"\1/gamma"),
    (r"(LayerNorm(_1)?)\.bias$", r"\1/beta"),
    (r"\.weight$", "/kernel"),
    (r"\.", "/"),
)


def google_albert_tensors(hf_tensors) -> dict[str, np.ndarray]:
    google = {}
    for key, tensor in hf_tensors.items():
        for pattern, name in GOOGLE_ALBERT:
            key = re.sub(pattern, name, key)
        google[key] = tensor.T if key.endswith("/kernel") else tensor
    return google


def write_google_albert(directory, case: str, prefix: str = "", file: str = "model.ckpt-best"):
    """As Google's archives have it, or with the prefix and file of its TF-Hub modules."""
    original = json.loads((directory_of(case) / "config.json").read_text())
    kept = (
        "attention_probs_dropout_prob classifier_dropout_prob embedding_size hidden_act "
        "hidden_dropout_prob hidden_size initializer_range inner_group_num intermediate_size "
        "max_position_embeddings num_attention_heads num_hidden_groups num_hidden_layers "
        "type_vocab_size vocab_size"
    )
    config = {key: original[key] for key in kept.split()} | {"net_structure_type": 0, "gap_size": 0}
    google_gelu = {"gelu_new": "gelu", "relu": "relu"}
    config["hidden_act"] = google_gelu[original["hidden_act"]]
    tensors = tensors_of(directory_of(case))
    if task_of(case) == "encoder":
        tensors = {f"albert.{key}": tensor for key, tensor in tensors.items()}
    tensors = {prefix + name: value for name, value in google_albert_tensors(tensors).items()}
    tensors["global_step"] = np.int64(7)
    (directory / file).parent.mkdir(parents=True, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(directory / file),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )
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


@pytest.mark.parametrize("case", [case for case in FAMILY_CASES if "twin" in FAMILY_CASES[case]])
def test_twins_of_other_formats_are_the_same_model(case):
    twin = FAMILY_CASES[case]["twin"]
    family = case.partition("/")[0]
    assert_same_variables(loaded(case), loaded(f"{family}/{twin}", task_of(case)))
