"""Layers that no golden checkpoint has, or not alone."""

import keras
import numpy as np
import pytest

from bert_zoo import layers
from bert_zoo.config import EncoderConfig
from bert_zoo.families import bert
from bert_zoo.layers.attention import attention_bias
from bert_zoo.layers.common import FIRST

# The first and last offset, from query to key, of each bucket among keys that come before: what
# `MPNetEncoder.relative_position_bucket` of transformers 5.23 gives for offsets of -600 to 600.
BUCKETS_BEFORE = {
    **{bucket: (bucket, bucket) for bucket in range(8)},
    **{8: (8, 11), 9: (12, 15), 10: (16, 22), 11: (23, 31), 12: (32, 45), 13: (46, 63)},
    **{14: (64, 90), 15: (91, 600)},
}


def test_relative_bias_has_a_row_for_each_bucket():
    layer = layers.RelativeBias(2, initializer_range=0.02)
    layer.build(None)
    layer.embeddings.assign(np.stack([np.arange(32), -np.arange(32)], axis=1))
    found = keras.ops.convert_to_numpy(layer(np.zeros((1, 601, 1))))
    assert found.shape == (1, 2, 601, 601)
    for bucket, (first, last) in BUCKETS_BEFORE.items():
        for distance in (first, last):
            assert found[0, 0, 600, 600 - distance] == bucket
            assert found[0, 1, 600, 600 - distance] == -bucket
            if distance:
                assert found[0, 0, 0, distance] == 16 + bucket
    # The distance alone counts.
    assert np.array_equal(found[0, 0, 1:, 1:], found[0, 0, :-1, :-1])


def stack_with_relative_bias() -> layers.Stack:
    config = EncoderConfig(
        vocab_size=11, hidden_size=8, num_layers=2, num_heads=2, intermediate_size=16
    )
    bias = layers.RelativeBias(2, initializer_range=1.0, name="relative_bias")
    backbone = bert.backbone(config, "float32", relative_bias=bias)
    backbone.build(None)
    return backbone.stack


def test_relative_bias_is_added_to_the_scores_of_every_layer():
    stack = stack_with_relative_bias()
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 5, 8)).astype("float32")
    mask = np.array([[1] * 5, [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    bias = attention_bias(mask, "float32")
    hidden_states, attentions = stack(x, bias)
    added = bias + stack.relative_bias(x)
    for block, before, after, found in zip(
        stack.blocks, hidden_states, hidden_states[1:], attentions, strict=False
    ):
        expected, probabilities = block(keras.ops.reshape(before, (-1, 8)), added)
        np.testing.assert_allclose(after, keras.ops.reshape(expected, (3, 5, 8)), atol=1e-6)
        np.testing.assert_allclose(found, probabilities, atol=1e-6)
    assert keras.ops.max(attentions[0][1, :, :, 3:]) < 1e-6
    first, attended = stack(x, bias, positions=FIRST)
    np.testing.assert_allclose(first[-1], hidden_states[-1][:, :1], atol=1e-6)
    np.testing.assert_allclose(attended[-1], attentions[-1][:, :, :1], atol=1e-6)


@pytest.mark.parametrize("num_segments", [0, 2])
def test_embeddings_without_segments_take_none(num_segments):
    config = EncoderConfig(
        vocab_size=11,
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        num_segments=num_segments,
    )
    backbone = bert.backbone(config, "float32")
    backbone.build(None)
    paths = {variable.path.split("/")[-2] for variable in backbone.embeddings.variables}
    assert (
        ("segment_embedding" in paths) == ("segment_ids" in backbone.inputs) == (num_segments > 0)
    )
    outputs = backbone({"token_ids": np.array([[3, 4, 5]])})
    assert outputs["sequence_output"].shape == (1, 3, 8)
