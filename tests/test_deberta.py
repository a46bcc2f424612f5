"""DeBERTa: distances, what reads a part of a row, the decoder of masks, files."""

import json
import shutil

import keras
import numpy as np
import pytest
from helpers import ALL_GOLDEN, TOLERANCE, arrays, directory_of, inputs_of, load_case, loaded
from keras import ops

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.layers.common import FIRST
from bert_zoo.layers.disentangled_attention import rows_of_distances
from bert_zoo.weights.files import WeightsError

ENCODERS = [
    "deberta/encoder",
    "deberta/encoder_near",
    "deberta_v2/encoder",
    "deberta_v2/encoder_convolution",
    "deberta_v2/encoder_plain",
]


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


def test_without_buckets_every_distance_has_a_row():
    assert rows_of_distances(3, 0).tolist() == [0, 1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize("case", ENCODERS)
def test_a_part_of_a_row_asks_as_the_whole_does(case):
    model, inputs = loaded(case), inputs_of(arrays(case))
    whole = ops.convert_to_numpy(model(inputs)["sequence_output"])
    first = model(inputs, positions=FIRST)["sequence_output"]
    np.testing.assert_allclose(first, whole[:, :1], atol=TOLERANCE)
    positions = np.random.default_rng(0).integers(0, whole.shape[1], (len(whole), 5))
    some = model(inputs, positions=positions.astype("int32"))["sequence_output"]
    wanted = np.take_along_axis(whole, positions[..., None], axis=1)
    np.testing.assert_allclose(some, wanted, atol=TOLERANCE)


@pytest.mark.parametrize("case", ["deberta/masked_lm", "deberta_v2/masked_lm_convolution"])
def test_masked_tokens_alone_are_decoded_as_among_all(case):
    io, model = arrays(case), loaded(case)
    positions = np.random.default_rng(0).integers(1, 6, (len(io["token_ids"]), 3)).astype("int32")
    some = model({**inputs_of(io), "mask_positions": positions})
    wanted = np.take_along_axis(io["logits"], positions[..., None], axis=1)
    np.testing.assert_allclose(some, wanted, atol=TOLERANCE)


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
    ("changes", "message"),
    [
        ({"relative_attention": False}, "relative_attention is False"),
        ({"position_biased_input": None}, "position_biased_input is True"),
        ({"pos_att_type": "c2p"}, "pos_att_type is 'c2p'"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2"),
        ({"attention_head_size": 16}, "attention_head_size"),
        ({"position_buckets": 1}, "position_buckets is 1"),
        ({"conv_kernel_size": 4}, "conv_size is 4"),
    ],
)
def test_other_architectures_are_refused(changes, message, tmp_path):
    directory = shutil.copytree(directory_of("deberta_v2/encoder"), tmp_path / "other")
    config = json.loads((directory / "config.json").read_text()) | changes
    config = {key: value for key, value in config.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=message):
        bert_zoo.load(directory)


def test_the_head_of_transformers_is_not_taken_for_microsofts(tmp_path, caplog):
    """It is named where it is not read, and missed where a task needs the other one."""
    from safetensors.numpy import load_file, save_file

    directory = shutil.copytree(directory_of("deberta_v2/encoder"), tmp_path / "legacy")
    tensors = load_file(directory / "model.safetensors")
    tensors = {f"deberta.{name}": tensor for name, tensor in tensors.items()}
    tensors["cls.predictions.bias"] = np.zeros(95, "float32")
    save_file(tensors, directory / "model.safetensors")
    assert isinstance(bert_zoo.load(directory), keras.Model)
    assert "cls.predictions.bias" in caplog.text
    with pytest.raises(WeightsError, match="masked_lm"):
        bert_zoo.load(directory, "masked_lm")


needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras does not run on TensorFlow."
)


@pytest.mark.parametrize(
    ("case", "tokens"),
    [
        ("deberta/masked_lm", ["t", "he", "[MASK]", "Ġsat"]),
        ("deberta_v2/masked_lm", ["▁the", "[MASK]", "▁sat"]),
    ],
)
@needs_tensorflow
def test_masks_in_texts_are_tokens(case, tokens):
    """In the first version a mask takes the blank before it, as the token that it hides does."""
    tokenizer = loaded(case).preprocessor.tokenizer
    (ids,) = tokenizer(["the [MASK] sat"]).to_list()
    assert [tokenizer.id_to_token(i) for i in ids] == tokens


@pytest.mark.parametrize("case", ["deberta/masked_lm", "deberta_v2/masked_lm"])
@needs_tensorflow
def test_fill_mask_goes_through_the_decoder(case):
    model, text = loaded(case), "the cat [MASK] on the tree"
    inputs = model.preprocessor([text])
    (place,) = np.flatnonzero(inputs["token_ids"][0] == model.preprocessor.tokenizer.mask_id)
    probabilities = ops.convert_to_numpy(ops.softmax(model(inputs)[0, place]))
    (candidates,) = model.fill_mask(text, top_k=3)
    known = probabilities[: model.preprocessor.tokenizer.vocab_size]
    assert [c.token_id for c in candidates] == np.argsort(-known)[:3].tolist()
    np.testing.assert_allclose([c.score for c in candidates], np.sort(known)[::-1][:3], atol=1e-5)
