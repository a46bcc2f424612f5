"""T5's decoder step by step, packed rows, and files that no golden has."""

import functools
import re
import shutil

import numpy as np
import pytest
from helpers import (
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same_variables,
    change_json,
    changed_copy,
    directory_of,
    eager_steps,
    inputs_of,
    load_case,
    loaded,
    read_json,
    save_tf1,
    tensors_of,
)
from keras import ops
from safetensors.numpy import save_file

import bert_zoo
from bert_zoo.registry import registry
from bert_zoo.training import add_lora, rematerialize
from bert_zoo.training.freezing import lora_layers

TIED, UNTIED = "t5/text_to_text", "t5/text_to_text_gated"
BYTES = "byt5/text_to_text"
BOTH = [TIED, UNTIED]
HF_CODEC = registry().families["t5"].formats["hf"].codec


def decoded_in_steps(model, inputs, sizes, slots: int):
    """Logits of a target that is read so many tokens at a time."""
    encoder, decoder = model.encoder, model.decoder
    encoded = encoder(model.encoder_inputs(inputs))["sequence_output"]
    source, mask = decoder.source(encoded), ops.convert_to_tensor(inputs["padding_mask"])
    memory, start, logits = decoder.initial_memory(len(mask), slots), 0, []
    for size in sizes:
        tokens = ops.convert_to_tensor(inputs["decoder_token_ids"][:, start : start + size])
        x = encoder.backbone.embeddings(tokens)
        table = encoder.backbone.token_table
        of_step, memory = decoder.step(x, source, mask, table, memory, start)
        logits.append(ops.convert_to_numpy(of_step))
        start += size
    return np.concatenate(logits, axis=1)


@pytest.mark.parametrize("case", [*BOTH, "umt5/text_to_text"])
def test_steps_give_what_a_whole_target_gives(case):
    model, inputs = loaded(case), inputs_of(arrays(case))
    length = inputs["decoder_token_ids"].shape[1]
    found = decoded_in_steps(model, inputs, (1, 3, *[1] * (length - 4)), slots=length + 2)
    real = inputs["decoder_padding_mask"] == 1
    np.testing.assert_allclose(found[real], arrays(case)["logits"][real], atol=TOLERANCE)


def test_steps_beyond_the_slots_are_no_numbers():
    model, inputs = loaded(TIED), inputs_of(arrays(TIED))
    found = decoded_in_steps(model, inputs, (2, 2), slots=3)
    assert np.isfinite(found[:, :2]).all() and np.isnan(found[:, 2:]).all()


def test_sources_and_targets_side_by_side_are_decoded_as_if_each_stood_alone():
    model, random = loaded(UNTIED), np.random.default_rng(0)
    ids = {
        "token_ids": random.integers(3, 90, (1, 11), "int32"),
        "decoder_token_ids": random.integers(3, 90, (1, 9), "int32"),
    }
    documents = {
        "document_ids": np.int32([[1] * 4 + [2] * 5 + [0] * 2]),
        "decoder_document_ids": np.int32([[1] * 3 + [2] * 5 + [0]]),
    }
    found = ops.convert_to_numpy(model({**ids, **documents}))
    for sources, targets in ((np.s_[:4], np.s_[:3]), (np.s_[4:9], np.s_[3:8])):
        places = {"token_ids": sources, "decoder_token_ids": targets}
        alone = model({name: ids[name][:, at] for name, at in places.items()})
        np.testing.assert_allclose(found[:, targets], alone, atol=TOLERANCE)


def test_targets_are_checked():
    model, inputs = loaded(TIED), inputs_of(arrays(TIED))
    wrong = inputs["decoder_token_ids"].copy()
    wrong[1, 2] = 98
    for given, words in (
        ({"token_ids": inputs["token_ids"]}, "decoder_token_ids is missing"),
        ({**inputs, "decoder_token_ids": wrong}, "decoder_token_ids[1, 2] is 98"),
        (
            {**inputs, "decoder_padding_mask": wrong[:, 1:]},
            "decoder_padding_mask has the shape (4, 8)",
        ),
        (
            {**inputs, "document_ids": inputs["padding_mask"]},
            "document_ids and decoder_document_ids go together",
        ),
    ):
        assert_refused(functools.partial(model, given), words)


def test_what_follows_a_token_changes_nothing_before_it():
    model, inputs = loaded(UNTIED), inputs_of(arrays(UNTIED))
    ids = inputs["decoder_token_ids"]
    changed = np.concatenate([ids[:, :5], np.full_like(ids[:, 5:], 7)], axis=1)
    one, other = (
        ops.convert_to_numpy(model({**inputs, "decoder_token_ids": i})) for i in (ids, changed)
    )
    np.testing.assert_allclose(one[:, :5], other[:, :5], atol=1e-6)
    assert np.abs(one[:, 5:] - other[:, 5:]).max() > 0.01


def losses_of(model, inputs, labels) -> list[float]:
    with eager_steps():
        return model.fit(inputs, labels, epochs=3, verbose=0, shuffle=False).history["loss"]


@pytest.mark.parametrize("targets", ["attention", "all"])
def test_lora_is_put_into_both_stacks(targets, tmp_path):
    model, io = load_case(UNTIED, dropout=0.0), arrays(UNTIED)
    inputs = inputs_of(io)
    add_lora(model, targets=targets)
    names = {v.name for v in model.decoder.trainable_variables}
    assert names == {"lora_kernel_a", "lora_kernel_b"}
    of_encoder, of_decoder = len(model.encoder.stack.blocks), len(model.decoder.blocks)
    kernels = 3 * of_encoder + 6 * of_decoder + 2 * (targets == "all") * (of_encoder + of_decoder)
    assert len([*lora_layers(model)]) == kernels
    model.optimizer.learning_rate = 0.01
    losses = losses_of(model, inputs, io["labels"])
    assert losses[-1] < losses[0]
    for fmt in ("bert_zoo", "peft"):
        bert_zoo.save(model, tmp_path / fmt, format=fmt)
        again = bert_zoo.load(tmp_path / fmt, "text_to_text")
        np.testing.assert_allclose(again(inputs), model(inputs), atol=TOLERANCE)
    adapter = read_json(tmp_path / "peft" / "adapter_config.json")
    assert adapter["modules_to_save"] == ["encoder.final_layer_norm"]


def test_rematerialized_steps_are_the_same():
    inputs, labels = inputs_of(arrays(TIED)), arrays(TIED)["labels"]
    models = [load_case(TIED, dropout=0.0) for _ in range(2)]
    rematerialize(models[1])
    one, other = (losses_of(model, inputs, labels) for model in models)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_heads_of_transformers_read_the_decoder_and_new_ones_the_encoder(tmp_path):
    """The encoder alone is the same in both."""
    case = "t5/classification"
    model, inputs = loaded(case), inputs_of(arrays(case))
    assert model.encoder.config.pooler and not load_case(case, "encoder").config.pooler
    states = load_case(case, "encoder")(inputs)["sequence_output"]
    fresh = load_case("t5/encoder", "classification")
    assert not fresh.encoder.config.pooler
    assert states.shape[-1] == model.encoder.config.hidden_size
    new = load_case(case, "classification", init=("classifier",), num_classes=4)
    assert new.encoder.config.pooler and new(inputs).shape == (len(inputs["token_ids"]), 4)
    several, save = {**inputs, "document_ids": inputs["padding_mask"]}, bert_zoo.save
    assert_refused(lambda: save(fresh, tmp_path, format="hf"), "no class for 'classification'")
    assert_refused(lambda: model(several), "one text per row")
    half = functools.partial(load_case, TIED, dtype="mixed_float16")
    assert_refused(half, "dtype='mixed_bfloat16'")


# --- Files ---------------------------------------------------------------------------------------

# Hugging Face's names -> the original's.
ORIGINAL_NAMES = (
    (r"^shared\.weight$", "shared/embedding"),
    (r"^lm_head\.weight$", "decoder/logits/kernel"),
    (r"block\.(\d+)\.layer\.(\d+)\.", r"block_00\1/layer_00\2/"),
    (r"norm\.weight$", "norm/scale"),
    (r"(Dense\w+)\.(\w+)\.weight$", r"\1/\2/kernel"),
    (r"(Attention)\.(\w+)\.weight$", r"\1/\2"),
    (r"\.", "/"),
)


def original_tensors(case: str) -> dict[str, np.ndarray]:
    """A golden's tensors as the original stores them, with what else its files hold."""
    tensors = {}
    for key, tensor in tensors_of(directory_of(case)).items():
        for pattern, name in ORIGINAL_NAMES:
            key = re.sub(pattern, name, key)
        tensors[key] = tensor if tensor.ndim == 1 or key == "shared/embedding" else tensor.T
    slots = {
        f"{key}_slot_{kind}": value[..., 0] for key, value in tensors.items() for kind in ("vr",)
    }
    biases = tensors["decoder/block_000/layer_000/SelfAttention/relative_attention_bias"]
    unread = "decoder/block_000/layer_001/EncDecAttention/relative_attention_bias"
    return tensors | slots | {unread: biases, "global_step": np.int64(1_000_000)}


@pytest.mark.parametrize("case", [*BOTH, BYTES])
def test_the_originals_checkpoints_are_the_same_model(case, tmp_path):
    tensors = original_tensors(case)
    if case == UNTIED:  # version 1.1
        norms = {key: re.sub("(final_)?layer_norm", "rms_norm", key) for key in tensors}
        tensors = {norms[key]: value for key, value in tensors.items()}
    save_tf1(tmp_path / "model.ckpt-1000000", tensors)
    if case != BYTES:
        shutil.copy(directory_of(case) / "spiece.model", tmp_path / "sentencepiece.model")
    model, expected = bert_zoo.load(tmp_path, "text_to_text"), loaded(case)
    assert_same_variables(model, expected)
    assert model.encoder.config == expected.encoder.config
    assert model.encoder.family == expected.encoder.family
    if case == BYTES:
        assert model.preprocessor.tokenizer(["a"]).to_list() == [[ord("a") + 3]]
        return
    assert model.preprocessor.tokenizer.id_to_token(90) == "<extra_id_99>"


def test_tensors_tell_whether_logits_have_a_table_of_their_own(tmp_path):
    """Transformers 5 writes that they are tied, always."""
    changes = {"tie_word_embeddings": True, "scale_decoder_outputs": False}
    written = changed_copy(UNTIED, tmp_path, **changes)
    assert_same_variables(bert_zoo.load(written, "text_to_text"), loaded(UNTIED))
    assert_same_variables(bert_zoo.load(written), loaded(UNTIED).encoder)
    # Begun by transformers 5 as one of version 1.1.
    tensors = tensors_of(written)
    del tensors["lm_head.weight"]
    save_file(tensors, written / "model.safetensors")
    config = bert_zoo.load(written, "text_to_text").encoder.config
    assert config.tie_word_embeddings and not config.scale_logits


@pytest.mark.parametrize("case", BOTH)
def test_the_originals_variables_tell_how_logits_are_made(case, tmp_path):
    """Whatever a config.json beside them says."""
    save_tf1(tmp_path / "model.ckpt-1000000", original_tensors(case))
    shutil.copy(directory_of(case) / "config.json", tmp_path)
    for is_tied in (True, False):
        changes = dict.fromkeys(("tie_word_embeddings", "scale_decoder_outputs"), is_tied)
        change_json(tmp_path / "config.json", **changes)
        model = bert_zoo.load(tmp_path, "text_to_text")
        assert_same_variables(model, loaded(case))
        assert model.encoder.config == loaded(case).encoder.config


def test_a_saved_directory_says_where_targets_begin_and_end(tmp_path):
    bert_zoo.save(load_case("t5/text_to_text"), tmp_path, format="hf")
    ids = read_json(tmp_path / "generation_config.json")
    assert ids == {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


def test_repeated_tables_of_old_files_are_compared(tmp_path):
    directory = shutil.copytree(directory_of(TIED), tmp_path / "old")
    tensors = tensors_of(directory)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = tensors["shared.weight"]
    save_file(tensors, directory / "model.safetensors")
    assert_same_variables(bert_zoo.load(directory, "text_to_text"), loaded(TIED))
    tensors["lm_head.weight"] = 2 * tensors["shared.weight"]
    save_file(tensors, directory / "model.safetensors")
    load = functools.partial(bert_zoo.load, directory, "text_to_text")
    assert_refused(load, "tie_word_embeddings=false")


@pytest.mark.parametrize(
    ("projection", "activation", "gated"),
    [
        ("relu", "relu", False),
        ("gated-gelu", "gelu_tanh", True),
        ("gelu", "gelu", False),
        ("gated-silu", "silu", True),
        ("gated-mish", "mish", True),
    ],
)
def test_one_key_names_activation_and_gate(projection, activation, gated):
    values = read_json(directory_of(TIED) / "config.json")
    values["feed_forward_proj"] = projection
    config = HF_CODEC.decode(values, where="config.json")
    assert (config.activation, config.gated) == (activation, gated)
    assert HF_CODEC.encode(config)["feed_forward_proj"] == projection
    values["feed_forward_proj"] = "gated-prelu"
    decode = functools.partial(HF_CODEC.decode, values, where="config.json")
    assert_refused(decode, "dense_act_fn is 'prelu'")


# --- Text ----------------------------------------------------------------------------------------


def test_sentinels_follow_the_pieces_and_the_first_is_the_last():
    tokenizer = loaded(TIED).preprocessor.tokenizer
    assert tokenizer.vocabulary[-5:] == tuple(f"<extra_id_{i}>" for i in range(4, -1, -1))
    ids = tokenizer(["<extra_id_0> the<extra_id_4>"]).to_list()[0]
    assert (ids[0], ids[-1]) == (94, 90)
    assert tokenizer.detokenized([[*ids, 1, 0]]) == [b"<extra_id_0> the <extra_id_4>"]
    assert tokenizer.eos_id == tokenizer.sep_id == 1


def test_bytes_come_back_as_they_were():
    tokenizer = loaded(BYTES).preprocessor.tokenizer
    text = "Gr\u00fc\u00dfe,\n \U0001f600 <extra_id_124>"
    ids = tokenizer([text]).to_list()[0]
    assert ids == [*(byte + 3 for byte in text[:-14].encode()), 383]
    assert tokenizer.detokenized([ids]) == [text.encode()]
