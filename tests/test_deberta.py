"""DeBERTa: distances, what reads a part of a row, the decoder of masks, files."""

import functools
import json
import pickle
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    ALL_GOLDEN,
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same,
    changed_copy,
    directory_of,
    inputs_of,
    load_case,
    loaded,
    read_json,
    stored_gradients,
    tensors_of,
)
from keras import ops
from test_torch_bin import write_archive

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.deberta.family import read_bpe_encoder
from bert_zoo.families.deberta.layers import rows_of_distances
from bert_zoo.layers.common import FIRST
from bert_zoo.models.base import encoder_of
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.safetensors_io import write_safetensors
from bert_zoo.weights.sources import open_weights

# Those that test_conformance.py does not ask for a part of a row.
ENCODERS = ["deberta/encoder_near", "deberta_v2/encoder_convolution"]


@pytest.mark.parametrize("name", np.load(ALL_GOLDEN / "deberta_buckets.npz").files)
def test_distances_share_rows_as_in_the_original(name):
    """Of float32's logarithms, up to distances that no row of the model has."""
    expected = np.load(ALL_GOLDEN / "deberta_buckets.npz")[name]
    buckets, furthest = map(int, name.split("_"))
    rows = rows_of_distances(furthest, buckets)
    assert rows.shape == (2 * furthest + 1,)
    distances = np.minimum(np.arange(len(expected)), furthest)
    # A distance of the clipped last one shares its row.
    wanted = np.minimum(buckets + expected, 2 * buckets - 1)
    np.testing.assert_array_equal(rows[furthest + distances], wanted)
    np.testing.assert_array_equal(rows[furthest - distances], np.maximum(buckets - expected, 0))


def test_distances_that_transformers_reads_differently_are_logged_where_rows_can_be_long(
    tmp_path, caplog
):
    bert_zoo.load(directory_of("deberta_v2/encoder"))
    directory = changed_copy("deberta_v2/encoder", tmp_path, max_relative_positions=20)
    bert_zoo.load(directory, max_length=20)
    assert "distances" not in caplog.text
    bert_zoo.load(directory)
    assert "rows of more than 20 tokens, distances of 20 and more are read as 19" in caplog.text


@pytest.mark.parametrize("case", ENCODERS)
def test_a_part_of_a_row_asks_as_the_whole_does(case):
    model, inputs = loaded(case), inputs_of(arrays(case))
    whole = ops.convert_to_numpy(model(inputs)["sequence_output"])
    first = model(inputs, positions=FIRST)["sequence_output"]
    assert_same(first, whole[:, :1], TOLERANCE)
    positions = np.random.default_rng(0).integers(0, whole.shape[1], (len(whole), 5), "int32")
    some = model(inputs, positions=positions)["sequence_output"]
    assert_same(some, np.take_along_axis(whole, positions[..., None], axis=1), TOLERANCE)


def test_documents_of_a_row_are_decoded_as_if_each_stood_alone():
    """A mask knows its place in its own document."""
    model = loaded("deberta_v2/masked_lm_convolution")
    ids = np.random.default_rng(0).integers(5, 80, (1, 11), dtype="int32")
    packed = model({"token_ids": ids, "document_ids": np.array([[1] * 4 + [2] * 7], "int32")})
    for start, end in ((0, 4), (4, 11)):
        alone = model({"token_ids": ids[:, start:end]})
        np.testing.assert_allclose(packed[:, start:end], alone, atol=TOLERANCE)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("case", ["deberta/encoder", "deberta_v2/encoder_convolution"])
def test_scores_beyond_half_precision_stay_finite(case, dtype):
    """Queries and keys whose products float16 cannot hold."""
    model = load_case(case, dtype=dtype)
    for block in model.stack.blocks:
        for layer in (block.attention.query, block.attention.key):
            layer.kernel.assign(layer.kernel * 60)
    inputs = inputs_of(arrays(case))
    inputs["padding_mask"][-1] = 0  # a row of padding alone
    outputs = ops.convert_to_numpy(ops.cast(model(inputs)["sequence_output"], "float32"))
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"relative_attention": False}, "relative_attention says that there is none"),
        ({"relative_attention": "yes"}, "relative_attention is 'yes'"),
        ({"position_biased_input": 1}, "position_biased_input is 1"),
        ({"pos_att_type": "p2p|c2p"}, "position_attention is 'c2p|p2p' | pos_att_type"),
        ({"pos_att_type": ["c2p", "c2p"]}, "position_attention is 'c2p|c2p'"),
        ({"attention_head_size": 16}, "attention_head_size"),
        ({"position_buckets": 1}, "position_buckets is 1"),
        ({"conv_kernel_size": 4}, "conv_size is 4"),
    ],
)
def test_other_architectures_are_refused(changes, words, tmp_path):
    directory = changed_copy("deberta_v2/encoder", tmp_path, **changes)
    assert_refused(lambda: bert_zoo.load(directory), words, ConfigError)


@pytest.mark.parametrize("family", ["deberta", "deberta_v2"])
@pytest.mark.parametrize(
    ("decoder", "legacy"), [("enhanced", None), ("direct", False), ("legacy", True)]
)
def test_tensors_tell_the_three_heads_for_masked_tokens_apart(family, decoder, legacy, tmp_path):
    case = f"{family}/masked_lm" + ("" if decoder == "enhanced" else f"_{decoder}")
    directory = shutil.copytree(directory_of(case), tmp_path / "model")
    config = read_json(directory / "config.json")
    # Microsoft's files do not have the key, and none that has it is Microsoft's.
    assert config.pop("legacy", None) == legacy
    (directory / "config.json").write_text(json.dumps(config))
    model = bert_zoo.load(directory, "masked_lm")
    assert model.encoder.config.mask_decoder == decoder
    assert model.decodes_masks == (decoder == "enhanced")
    bert_zoo.save(model, tmp_path / "hf", format="hf")
    assert {*open_weights(tmp_path / "hf")} == {*open_weights(directory)}


def test_absolute_positions_are_added_once():
    config, words = loaded("deberta/masked_lm").encoder.config, "must be 'direct' or 'legacy'"
    assert_refused(lambda: config.replace(position_biased_input=True), f"mask_decoder {words}")


def test_segments_are_told_where_the_model_has_them():
    pair = (["the cat"], ["sat"])
    assert "segment_ids" not in loaded("deberta_v2/masked_lm").preprocessor(pair)
    packed = loaded("deberta_v2/masked_lm_legacy").preprocessor(pair)
    segments, ids = (packed[name].numpy()[0].tolist() for name in ("segment_ids", "token_ids"))
    first = ids.index(2) + 1  # [SEP]
    assert segments[:first] == [0] * first
    assert set(segments[first : ids.index(2, first) + 1]) == {1}


# --- Microsoft's own files -------------------------------------------------------------------------


def microsofts_directory(tmp_path, *, takes_apart: bool):
    """A case as Microsoft's program keeps it, with the projections of its first or today's version."""
    source, directory = directory_of("deberta/classification"), tmp_path / "microsoft"
    directory.mkdir()
    tensors = tensors_of(source)
    for key in [key for key in tensors if takes_apart and key.endswith("in_proj.weight")]:
        module = key.removesuffix("in_proj.weight")
        # disentangled_attention.py, _pre_load_hook; biases that there were none of are zeros.
        by_head = tensors.pop(key).reshape(4, 3, 8, 32)
        for number, name in enumerate(("query", "key", "value")):
            weight = by_head[:, number].reshape(32, 32)
            tensors[f"{module}{name}_proj.weight"] = np.ascontiguousarray(weight)
        for theirs, ours in (
            ("query_proj.bias", "q_bias"),
            ("value_proj.bias", "v_bias"),
            ("pos_key_proj.weight", "pos_proj.weight"),
            ("pos_query_proj.weight", "pos_q_proj.weight"),
            ("pos_query_proj.bias", "pos_q_proj.bias"),
        ):
            tensors[f"{module}{theirs}"] = tensors.pop(f"{module}{ours}")
        for name in ("key_proj", "pos_key_proj"):
            tensors[f"{module}{name}.bias"] = np.zeros(32, "float32")
    # Its embeddings have the table of positions, whether they read it or not.
    tensors["deberta.embeddings.position_embeddings.weight"] = np.ones((40, 32), "float32")
    write_safetensors(directory / "model.safetensors", tensors, {})
    config = read_json(source / "config.json")
    sizes = "hidden_size intermediate_size num_attention_heads num_hidden_layers vocab_size".split()
    config = {name: config[name] for name in (*sizes, "max_position_embeddings", "hidden_act")}
    config |= {"relative_attention": True, "pos_att_type": "c2p|p2c", "attention_head_size": 8}
    config |= {"position_biased_input": False, "padding_idx": 0, "layer_norm_eps": 1e-7}
    config |= {"pooling": {"dropout": 0, "hidden_act": "gelu"}, "max_relative_positions": -1}
    (directory / "model_config.json").write_text(json.dumps(config))
    return directory


def write_bpe_encoder(directory, change=dict) -> None:
    """The vocabulary of the same case, under made-up ids for GPT-2's."""
    source = directory_of("deberta/classification")
    ids = read_json(source / "vocab.json")
    merges = [line.split() for line in (source / "merges.txt").read_text().splitlines()]
    tokens = sorted(ids, key=ids.get)[4:-1]
    content = {
        "encoder": {token: 900 - place for place, token in enumerate(tokens)},
        "vocab": [tuple(merge) for merge in merges if len(merge) == 2 and merge[0] != "#version:"],
        "dict_map": [(str(900 - place), 7) for place, _ in enumerate(tokens)],
    }
    write_archive(directory / "bpe_encoder.bin", pickle.dumps(change(content), 2), b"")


@pytest.mark.parametrize("takes_apart", [False, True])
def test_what_microsofts_program_keeps_is_the_same_model(takes_apart, tmp_path):
    """Of the first version: from its own files, and from those that today's program fine-tuned."""
    directory = microsofts_directory(tmp_path, takes_apart=takes_apart)
    write_bpe_encoder(directory)
    model, wanted = bert_zoo.load(directory, "classification"), loaded("deberta/classification")
    assert model.encoder.family == ("deberta_v2" if takes_apart else "deberta")
    assert model.encoder.config.pooler_activation == "gelu"
    inputs, texts = inputs_of(arrays("deberta/classification")), ["the cat [MASK] sat", "the cat's"]
    assert_same(model(inputs), wanted(inputs), TOLERANCE)
    found, ids = (of.preprocessor(texts)["token_ids"] for of in (model, wanted))
    assert np.array_equal(found, ids)


def test_the_second_version_is_told_by_its_tensors(tmp_path):
    source = directory_of("deberta_v2/encoder_convolution")
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").rename(tmp_path / "model_config.json")
    model = bert_zoo.load(tmp_path)
    assert model.config == loaded("deberta_v2/encoder_convolution").config


def test_numbered_files_of_weights_are_found(tmp_path):
    for number in (7, 14):
        file = directory_of("bin_zip") / "pytorch_model.bin"
        shutil.copy(file, tmp_path / f"pytorch.model-{number}.bin")
        if number == 7:
            assert len(open_weights(tmp_path)) > 10
    words = "several checkpoints | pytorch.model-14.bin"
    assert_refused(lambda: open_weights(tmp_path), words, WeightsError)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: [*content],
        lambda content: content | {"vocab": ["a b"]},
        lambda content: content | {"dict_map": [(7, 7)]},
        lambda content: {"dict_map": []},
    ],
)
def test_a_vocabulary_of_another_kind_is_refused(change, tmp_path):
    write_bpe_encoder(tmp_path, change)
    read = functools.partial(read_bpe_encoder, VocabularyFiles(tmp_path))
    assert_refused(read, "must be a dict of `encoder`", WeightsError)


@pytest.mark.parametrize(
    ("case", "tokens"),
    [
        ("deberta/masked_lm", ["t", "he", "[MASK]", "Ġsat"]),
        ("deberta_v2/masked_lm", ["▁the", "[MASK]", "▁sat"]),
    ],
)
def test_masks_in_texts_are_tokens(case, tokens):
    """In the first version a mask takes the blank before it, as the token that it hides does."""
    tokenizer = loaded(case).preprocessor.tokenizer
    (ids,) = tokenizer(["the [MASK] sat"]).to_list()
    assert [tokenizer.id_to_token(i) for i in ids] == tokens


# --- Version 3: a discriminator whose table is its generator's plus a difference -------------------

BOTH = "deberta_v2/pretraining"


LOSSES = ("loss", "mlm_logits_loss", "discriminator_logits_loss")


@pytest.mark.usefixtures("eager")
def test_a_step_on_given_samples_has_the_originals_losses_and_gradients():
    """The table of the generator, above all, has a gradient of the masked tokens' loss alone."""
    io, model = arrays(BOTH), load_case(BOTH, dropout=0.0)
    inputs = inputs_of(io)
    labels = {"mlm_logits": io["wanted"], "discriminator_logits": io["is_replaced"]}
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = model.compute_loss(inputs, labels, outputs)
    np.testing.assert_allclose(loss, io["losses"][0], rtol=1e-5)
    losses = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    np.testing.assert_allclose([losses[name] for name in LOSSES], io["losses"], rtol=1e-5)
    found = stored_gradients(model, loss, tape)
    stored = [name for name in io if name.startswith(("generator/", "discriminator/"))]
    assert len(stored) == 9
    for name in stored:
        ours = name.removeprefix("discriminator/").replace("._weight", ".weight")
        # No class of transformers has both networks, so the encoders' names have no prefix.
        ours = ours.replace("deberta.", "")
        ours = ours.replace("generator/lm_predictions", "lm_predictions")
        # Some are of the order of the weight of replaced tokens, 50.
        np.testing.assert_allclose(found[ours], io[name], rtol=1e-4, atol=1e-4, err_msg=name)


def test_files_hold_the_whole_table_that_a_difference_is_learned_of(tmp_path):
    io, model = arrays(BOTH), load_case(BOTH, dropout=0.0)
    inputs = inputs_of(io)
    table, base = model.encoder.embeddings.token_embedding, model.generator.embeddings
    released = open_weights(directory_of(BOTH))["deberta.embeddings.word_embeddings.weight"]
    np.testing.assert_allclose(table.whole, released, atol=1e-7)
    # As training leaves it.
    table.embeddings.assign_add(np.random.default_rng(0).normal(0, 0.1, released.shape))
    whole = ops.convert_to_numpy(base.token_embedding.embeddings) + table.embeddings
    # What stands on the discriminator now keeps the whole table too.
    for saved, directory in ((model, tmp_path), (model.encoder, tmp_path / "encoder")):
        bert_zoo.save(saved, directory)
        stored = tensors_of(directory)["encoder/embeddings/token_embedding/embeddings"]
        np.testing.assert_array_equal(stored, whole)
    read = {"token_ids": inputs.pop("replaced_token_ids"), "padding_mask": inputs["padding_mask"]}
    wanted = model.encoder(read)["sequence_output"]
    for task in ("encoder", "classification"):
        again = bert_zoo.load(tmp_path, task)
        assert_same(encoder_of(again)(read)["sequence_output"], wanted, TOLERANCE)
    generator = bert_zoo.load(tmp_path, "masked_lm")
    assert generator.encoder.config.num_layers == 2
    assert_same(generator(inputs), model(inputs)["mlm_logits"], TOLERANCE)


def test_a_new_generator_begins_with_the_discriminators_table(tmp_path, caplog):
    for path in directory_of(BOTH).iterdir():
        if "generator" not in path.name:
            shutil.copy(path, tmp_path)
    for task, words in (
        ("pretraining", "no generator | deberta_v3_xsmall, deberta_v3_small, deberta_v3_large"),
        # Nothing trained the head for masked tokens that a discriminator's file holds.
        ("masked_lm", "no masked_lm, which task 'masked_lm' needs"),
    ):
        assert_refused(functools.partial(bert_zoo.load, tmp_path, task), words, WeightsError)
    model = bert_zoo.load(tmp_path, "pretraining", init=("generator",))
    assert "has no trained generator; it is randomly initialised" in caplog.text
    wanted = open_weights(tmp_path)["deberta.embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(model.generator.embeddings.token_embedding.embeddings, wanted)
    assert not np.any(model.encoder.embeddings.token_embedding.embeddings)


def test_a_row_of_several_texts_is_judged_by_the_first_token_of_each():
    model, io = loaded(BOTH), arrays(BOTH)
    ids, length = io["replaced_token_ids"], int(io["padding_mask"][1].sum())
    apart = [model({"token_ids": row}) for row in (ids[:1, :16], ids[1:2, :length])]
    together = {
        "token_ids": np.concatenate([ids[:1, :16], ids[1:2, :length]], axis=1),
        "document_ids": np.repeat([1, 2], [16, length])[None].astype("int32"),
    }
    wanted = np.concatenate([each["discriminator_logits"] for each in apart], axis=1)
    found = model(together)["discriminator_logits"]
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


def test_a_generator_has_half_of_the_layers_or_as_many_as_are_said():
    config = loaded(BOTH).encoder.config
    assert config.generator.num_layers == 2
    assert config.replace(num_layers=12).generator.num_layers == 6
    assert config.replace(generator_layers=3).generator.num_layers == 3
    words = "generator_layers is -1; it must be 0 (half of"
    assert_refused(lambda: config.replace(generator_layers=-1), words, ConfigError)
