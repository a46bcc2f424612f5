"""Layers that no golden checkpoint has, or not alone."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ALL_GOLDEN

from bert_zoo import config
from bert_zoo.layers import common
from bert_zoo.layers.attention import RelativeBias, shifted_to_keys
from bert_zoo.layers.common import ACTIVATIONS, ACTIVATIONS_IN_TRAINING, FIRST, Activation, norm
from bert_zoo.registry import registry
from bert_zoo.weights.formats import hf

# The first and last offset, from query to key, of each bucket among keys that come before: what
# `MPNetEncoder.relative_position_bucket` of transformers 5.23 gives for offsets of -600 to 600.
BUCKETS_BEFORE = {
    **{bucket: (bucket, bucket) for bucket in range(8)},
    **{8: (8, 11), 9: (12, 15), 10: (16, 22), 11: (23, 31), 12: (32, 45), 13: (46, 63)},
    **{14: (64, 90), 15: (91, 600)},
}


def test_relative_bias_has_a_row_for_each_bucket():
    layer = RelativeBias(2, initializer_range=0.02)
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


# The shortest distance of each causal bucket from 15 on, as tensorflow/mesh has them.
CAUSAL_BOUNDS = (15, 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)


def test_causal_relative_bias_has_all_rows_for_keys_before():
    layer = RelativeBias(1, initializer_range=0.02, causal=True)
    layer.build(None)
    layer.embeddings.assign(np.arange(32.0)[:, None])
    offsets = -np.arange(-3, 600)
    found = keras.ops.convert_to_numpy(layer.at(offsets))[0]
    bounds = np.array([*range(15), *CAUSAL_BOUNDS])
    assert np.array_equal(found, np.maximum(np.searchsorted(bounds, -offsets, "right") - 1, 0))


@pytest.mark.parametrize(("axis", "start"), [(3, 1), (2, 2), (2, 4)])
def test_slots_are_written_in_a_loop_as_outside_of_it(axis, start):
    """Also where they do not fit after the start."""
    random = np.random.default_rng(0)
    shape = [2, 3, 5, 5]
    memory = random.normal(size=shape).astype("float32")
    shape[axis] = 2
    new = random.normal(size=shape).astype("float32")
    wanted = common.with_slots(memory, new, start, axis)

    @tf.function
    def looped(start):
        def step(written, memory):
            return True, common.with_slots(memory, new, start, axis)

        return tf.while_loop(lambda written, _: not written, step, (False, tf.constant(memory)))[1]

    found = looped(start)
    assert np.array_equal(found, wanted) and not np.array_equal(found, memory)
    operations = str(looped.get_concrete_function(start).graph.as_graph_def())
    assert "TensorStridedSliceUpdate" in operations and "XlaDynamicUpdateSlice" not in operations


@pytest.mark.parametrize("rows", [(3,), (2, 3)])
@pytest.mark.parametrize("bias", [None, np.float32([1, 2, 3, 4, 5])])
def test_the_vocabulary_is_read_the_same_without_onednn(monkeypatch, bias, rows):
    random = np.random.default_rng(0)
    x, table = (random.normal(size=(*size, 4)).astype("float32") for size in (rows, (5,)))
    for used in (True, False):
        monkeypatch.setattr(common, "uses_onednn", lambda used=used: used)
        found = common.vocabulary_logits(x, table, bias)
        np.testing.assert_allclose(found, x @ table.T + (0 if bias is None else bias), atol=1e-5)


# --- Activations ---------------------------------------------------------------------------------


def test_activations_equal_transformers():
    """All of them but those with weights, by the names in config.json."""
    with np.load(ALL_GOLDEN / "activations.npz") as golden:
        values = dict(golden)
    x = values.pop("x")
    assert values.keys() == hf.ACTIVATIONS.keys()
    assert set(ACTIVATIONS) == set(config.ACTIVATIONS) == set(hf.ACTIVATIONS.values())
    for name, expected in values.items():
        for functions in (ACTIVATIONS, ACTIVATIONS_IN_TRAINING):
            found = functions[hf.ACTIVATIONS[name]](keras.ops.convert_to_tensor(x))
            np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-6, err_msg=name)


def test_every_family_reads_transformers_words_for_activations():
    """But those whose classes have fewer: GPT's, Jina's second version's, and XLM's, which has a flag."""
    fewer = set()
    for name, family in registry().families.items():
        codec = family.formats["hf"].codec if "hf" in family.formats else None
        rows = [row for row in codec.rows if row.field == "activation"] if codec else ()
        fewer |= {name for row in rows if row.values != hf.ACTIVATIONS}
    assert fewer == {"gpt", "jina_bert_v2", "xlm"}


# --- Windows -------------------------------------------------------------------------------------

WINDOW = 8


def encoder_with_windows(**changes):
    from bert_zoo.models.encoder import Encoder

    family = registry().families["modernbert"]
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24}
    sizes |= {"num_layers": 3, "local_attention": WINDOW, "global_attention_every": 2, "pad_id": 0}
    config = family.config_class(
        **{**family.defaults, **sizes, "initializer_range": 0.3, **changes}
    )
    return Encoder(config, family.name, output_hidden_states=True, output_attentions=True)


def masked_and_in_blocks(monkeypatch, encoder, inputs, **options) -> list[dict]:
    """What an encoder gives with windows as masks over all tokens, and in blocks."""
    found = []
    for fewest in (1 << 30, 0):
        monkeypatch.setattr(type(encoder.config), "fewest_blocks", fewest)
        found.append(encoder(inputs, **options))
    return found


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 11, 29])
@pytest.mark.parametrize("positions", [None, FIRST, [[0, 0]] * 3])
def test_windows_in_blocks_are_windows_as_masks(length, positions, monkeypatch):
    generator = np.random.default_rng(0)
    ids = generator.integers(1, 50, (3, length)).astype("int32")
    mask = (np.arange(length) < np.array([[length], [length - 2], [length - 4]])).astype("int32")
    mask[:, 0] = 1
    inputs = {"token_ids": ids, "padding_mask": mask}
    encoder = encoder_with_windows(num_layers=2)
    masks, blocks = masked_and_in_blocks(monkeypatch, encoder, inputs, positions=positions)
    for name in ("sequence_output", "hidden_states", "attentions"):
        for one, other in zip(
            keras.tree.flatten(masks[name]), keras.tree.flatten(blocks[name]), strict=True
        ):
            one, other = map(keras.ops.convert_to_numpy, (one, other))
            assert one.shape == other.shape
            real = mask[:, : one.shape[-2], None] if one.shape[-2] == length else np.ones((3, 1, 1))
            real = real[:, None] if one.ndim == 4 else real
            np.testing.assert_allclose(one * real, other * real, atol=2e-6, err_msg=name)


def test_windows_keep_to_documents_and_gradients_are_the_same(monkeypatch):
    generator = np.random.default_rng(1)
    ids = generator.integers(1, 50, (2, 30)).astype("int32")
    documents = np.repeat([[1, 2, 3, 0], [1, 1, 2, 2]], [6, 7, 13, 4], axis=1).astype("int32")
    inputs = {"token_ids": ids, "document_ids": documents, "padding_mask": np.minimum(documents, 1)}
    encoder = encoder_with_windows()
    weights = generator.normal(size=(2, 30, 16)) * (documents > 0)[..., None]

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(inputs)["sequence_output"] * weights)
        return [loss, *tape.gradient(loss, [v.value for v in encoder.trainable_variables])]

    monkeypatch.setattr(type(encoder.config), "fewest_blocks", 1 << 30)
    masks = gradients()
    monkeypatch.setattr(type(encoder.config), "fewest_blocks", 0)
    for one, other in zip(masks, gradients(), strict=True):
        one, other = map(tf.convert_to_tensor, (one, other))
        np.testing.assert_allclose(one, other, atol=1e-4)
    alone = encoder({"token_ids": ids[:1, 6:13]})["sequence_output"]
    packed = encoder(inputs)["sequence_output"][:1, 6:13]
    np.testing.assert_allclose(alone, packed, atol=2e-6)


def test_queries_of_long_rows_attend_some_at_a_time(monkeypatch):
    from bert_zoo.layers import attention

    ids = np.random.default_rng(2).integers(1, 50, (2, 23)).astype("int32")
    encoder = encoder_with_windows()
    for inputs in ({"token_ids": ids}, {"token_ids": ids, "document_ids": ids // 40 + 1}):
        whole = encoder(inputs)
        monkeypatch.setattr(attention, "QUERIES_AT_ONCE", 5)
        parts = encoder(inputs)
        monkeypatch.undo()
        for one, other in zip(keras.tree.flatten(whole), keras.tree.flatten(parts), strict=True):
            one, other = map(keras.ops.convert_to_numpy, (one, other))
            np.testing.assert_allclose(one, other, atol=2e-6)


def test_scores_are_shifted_to_keys_with_a_quick_gradient():
    length, keys = 3, 5
    scores = tf.random.normal((2, 4, length, keys + length))
    of_keys = np.arange(keys) - np.arange(length)[:, None] + length
    expected = np.take_along_axis(scores.numpy(), of_keys[None, None], axis=-1)
    np.testing.assert_array_equal(shifted_to_keys(scores, keys), expected)

    @tf.function(autograph=False)
    def gradient(scores, keys):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            shifted = shifted_to_keys(scores, keys)
        return tape.gradient(shifted, scores)

    counted = np.zeros(scores.shape)
    np.put_along_axis(counted, of_keys[None, None], 1, axis=-1)
    made = gradient.get_concrete_function(scores, tf.constant(keys))
    np.testing.assert_array_equal(made(scores, tf.constant(keys)), counted)
    assert "StridedSliceGrad" not in {operation.type for operation in made.graph.get_operations()}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ["gelu", "norm"])
def test_gradients_of_training_are_those_of_the_plain_formulas(name, dtype):
    """What `Activation` and `LayerNorm` compute in training, beside Keras's functions in float64."""
    rng = np.random.default_rng(0)
    x, upstream = (rng.normal(scale=3, size=(4, 6, 16)) for _ in range(2))
    if name == "gelu":
        layer = Activation("gelu", dtype=dtype)
        plain = functools.partial(keras.ops.gelu, approximate=False)
    else:
        layer = norm("norm", epsilon=1e-5, dtype=dtype)
        layer.build(x.shape)
        layer.set_weights([rng.normal(size=16) for _ in range(2)])
        gamma, beta = (tf.cast(weight, "float64") for weight in layer.get_weights())
        plain = functools.partial(
            keras.ops.layer_normalization, gamma=gamma, beta=beta, epsilon=1e-5
        )

    def outputs_and_gradients(function, dtype):
        given = tf.cast(tf.cast(x, layer.compute_dtype), dtype)
        with tf.GradientTape() as tape:
            tape.watch(given)
            outputs = function(given)
        wanted = tf.cast(tf.cast(upstream, layer.compute_dtype), dtype)
        return outputs, tape.gradient(outputs, given, wanted)

    run = functools.partial(outputs_and_gradients, dtype=layer.compute_dtype)
    tolerance = 1e-5 if dtype == "float32" else 3e-2
    for jit_compile in (None, False, True):
        compiled = run
        if jit_compile is not None:
            compiled = tf.function(run, jit_compile=jit_compile, autograph=False)
        for training in (False, True):
            found = compiled(functools.partial(layer, training=training))
            for mine, expected in zip(found, outputs_and_gradients(plain, "float64"), strict=True):
                np.testing.assert_allclose(
                    tf.cast(mine, "float64"), expected, rtol=tolerance, atol=tolerance
                )
