"""Longformer's windows and global tokens, and that nothing grows with the square of the length."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TOLERANCE,
    assert_refused,
    assert_same,
    changed_copy,
    flat,
    load_case,
    loaded,
    steps_of,
)

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.longformer.family import LongformerConfig
from bert_zoo.families.modernbert.family import ModernBertConfig
from bert_zoo.models import Encoder
from bert_zoo.training import rematerialize

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_layers": 2, "num_heads": 2}
SIZES |= {"intermediate_size": 24, "initializer_range": 0.4}
LENGTH = 23
RNG = np.random.default_rng(0)
TOKENS = {"token_ids": RNG.integers(5, 50, (2, LENGTH)).astype("int32")}
PADDED = TOKENS | {"padding_mask": np.int32([[1] * LENGTH, [1] * 15 + [0] * 8])}
MASK = {"global_attention_mask": np.zeros((2, LENGTH), "int32")}
MASK["global_attention_mask"][[0, 0, 0, 1, 1], [2, 9, 22, 0, 20]] = 1  # the last one is padding
PACKED = TOKENS | {"document_ids": np.int32([[1] * 9 + [2] * 14, [1] * 12 + [2] * 8 + [0] * 3])}


def encoder(**changes) -> Encoder:
    keras.utils.set_random_seed(1)
    config = {**SIZES, "attention_window": (4, 8), "max_positions": 100, "pad_id": 1}
    config |= {"positions_after_padding": True, **changes}
    return Encoder(LongformerConfig(**config), "longformer", output_attentions=True)


def assert_near(ours, theirs) -> None:
    assert_same(ours, theirs, 3e-6)


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        (PADDED, {}),
        (PADDED | MASK, {}),
        (PADDED, {"global_tokens": "first"}),
        (PACKED | MASK, {}),
        (PADDED | MASK, {"positions": np.int32([[22, 0], [3, 3]])}),
    ],
)
def test_rows_in_blocks_are_rows_with_masks(inputs, options, monkeypatch):
    model, found = encoder(), []
    for fewest_blocks in (0, 1000):
        monkeypatch.setattr(LongformerConfig, "fewest_blocks", fewest_blocks)
        found.append(model(inputs, **options))
    assert_near(*found)


def test_few_global_tokens_read_what_they_read_among_many_places():
    """As many places as a head is wide, or fewer: then the keys of all tokens are not computed."""
    many, few = encoder(), encoder(max_global_tokens=3)
    assert few.config.hidden_size // few.config.num_heads > 3
    few.set_weights(many.get_weights())
    many, few = (model(PADDED | MASK) for model in (many, few))
    assert_near(few["sequence_output"], many["sequence_output"])
    for layer in range(2):
        theirs = keras.ops.convert_to_numpy(many["attentions"][layer])
        theirs = np.concatenate([theirs[..., :3], theirs[..., LENGTH:]], axis=-1)
        assert_near(few["attentions"][layer], theirs)
        assert_near(few["global_attentions"][layer], many["global_attentions"][layer][..., :3])


def test_windows_and_global_tokens_end_with_their_document(monkeypatch):
    monkeypatch.setattr(LongformerConfig, "fewest_blocks", 0)
    model = encoder()
    packed = keras.ops.convert_to_numpy(model(PACKED | MASK)["sequence_output"])
    for row, begin, end in ((0, 0, 9), (0, 9, 23), (1, 0, 12), (1, 12, 20)):
        own = {n: v[row : row + 1, begin:end] for n, v in (TOKENS | MASK).items()}
        if row == 1 and begin:
            own.pop("global_attention_mask")
        assert_near(model(own)["sequence_output"][0], packed[row, begin:end])


def test_a_mask_goes_before_the_tokens_of_the_task():
    model, (inputs,) = loaded("longformer/classification"), steps_of("longformer/classification")
    mask = np.zeros_like(inputs["token_ids"])
    none = model(inputs | {"global_attention_mask": mask})
    mask[:, 0] = 1
    first = model(inputs | {"global_attention_mask": mask})
    assert_near(first, model(inputs))
    assert np.abs(flat(none)[""] - flat(first)[""]).max() > 0.01


def test_more_global_tokens_than_places_are_an_error_and_in_graphs_nan():
    model = load_case("longformer/encoder", max_global_tokens=5)
    (inputs,) = steps_of("longformer/encoder")
    words = "Row 3 has 6 global tokens | takes 5 | max_global_tokens=6"
    assert_refused(lambda: model(inputs), words)
    outputs = tf.function(model)(inputs)["sequence_output"].numpy()
    assert np.isnan(outputs[3]).all()
    wanted = loaded("longformer/encoder")(inputs)["sequence_output"]
    assert_same(outputs[:3], wanted[:3], TOLERANCE)


def test_blocks_that_are_computed_again_have_the_same_gradients():
    found = []
    for option in (lambda model: None, rematerialize):
        model = encoder()
        model.output_attentions = False
        option(model)
        with tf.GradientTape() as tape:
            outputs = model(PADDED | MASK, training=True)["sequence_output"]
            loss = tf.reduce_sum(outputs**2 * np.arange(16))
        found.append(tape.gradient(loss, [v.value for v in model.trainable_variables]))
    for ours, theirs in zip(*found, strict=True):
        if theirs is not None:  # the pooler's
            ours, theirs = map(tf.convert_to_tensor, (ours, theirs))
            np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention_mode", "n2"),
        ("attention_mode", "sliding_chunks_no_overlap"),
        ("attention_dilation", [1, 2]),
        ("autoregressive", True),
        ("attention_window", [2.5, 4]),
        # What no layer can have.
        ("attention_window", 7),
        ("attention_window", [4, 4, 4]),
        ("attention_window", "8"),
        ("attention_window", 0),
    ],
)
def test_what_no_released_model_computes_is_refused(key, value, tmp_path):
    directory = changed_copy("longformer/original", tmp_path, **{key: value})
    assert_refused(lambda: bert_zoo.load(directory), key, ConfigError)


def shapes_of_a_step(model, inputs) -> list[tuple]:
    """The shapes of all that a training step computes, gradients too, without an optimizer."""

    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(inputs, training=True)["sequence_output"] ** 2)
        return tape.gradient(loss, model.trainable_variables)

    specs = {name: tf.TensorSpec(value.shape, tf.int32) for name, value in inputs.items()}
    graph = tf.function(step).get_concrete_function(specs).graph.as_graph_def(add_shapes=True)
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    shapes = [shape for node in nodes for shape in node.attr["_output_shapes"].list.shape]
    assert not any(shape.unknown_rank for shape in shapes)
    return [tuple(axis.size for axis in shape.dim) for shape in shapes]


def squares(model, inputs) -> int:
    """How many tensors of a training step have two axes as long as the rows, or longer."""
    length, shapes = inputs["token_ids"].shape[1], shapes_of_a_step(model, inputs)
    assert len(shapes) > 100
    return sum(sum(size >= length for size in shape) > 1 for shape in shapes)


def test_no_tensor_grows_with_the_square_of_the_length():
    shape = (2, 97)  # longer than anything else
    ids = np.full(shape, 5, "int32")
    mask = (ids * np.arange(97) % 19 == 0).astype("int32")
    inputs = {"token_ids": ids, "padding_mask": ids // 5, "document_ids": np.sort(ids * mask)}
    for given in ({}, {"global_attention_mask": mask}):
        assert not squares(encoder(max_global_tokens=20), inputs | given)
    # Of ModernBERT, the layers within windows have none: one more brings none.
    local = {**SIZES, "local_attention": 4, "global_attention_every": 2, "num_segments": 0}
    local |= {"max_positions": 100, "pooler": False}
    one, two = (
        squares(Encoder(ModernBertConfig(**local | {"num_layers": n}), "modernbert"), inputs)
        for n in (1, 2)
    )
    assert one == two > 0
