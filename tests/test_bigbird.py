"""What is BigBird's own: random blocks, lengths, documents, and Google's files."""

import shutil
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TOLERANCE,
    arrays,
    assert_refused,
    assert_same,
    change_json,
    directory_of,
    inputs_of,
    load_case,
    loaded,
)

import bert_zoo
from bert_zoo.families.bigbird.random_blocks import random_blocks

# Tokens -> the checksums of the original's tables of layers 0, 1 and 11, of 12 heads, for blocks of 64 tokens
# and three random ones, computed by its code: lengths of the paper's runs, and others.
TABLES = {
    1024: "1703d347 dff97a17 943fd7ad",
    2048: "7aba87d2 6bb2c9de e2758341",
    3072: "3acb40ff 7345b583 481fd0f5",
    4096: "fcff8a5c 2360124c 1c8a39ef",
    1536: "e205e82e 26899059 1541517e",
    768: "85dbc179 172a5a03 541368ac",
}
SPARSE, MOST_SEEN_BY_ALL = "bigbird/encoder", 28


def tokens(rows: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(seed).integers(7, 90, (rows, length), "int32")
    return {"token_ids": ids}


@pytest.mark.parametrize("length", TABLES)
def test_random_blocks_are_the_originals(length):
    tables = (random_blocks(layer, 12, 64, 3, length // 64).astype("<i4") for layer in (0, 1, 11))
    assert " ".join(f"{zlib.crc32(table.tobytes()):08x}" for table in tables) == TABLES[length]


def test_no_length_is_computed_as_those_before_it():
    """transformers stays with full attention after one short row (transformers#20031)."""
    model = load_case(SPARSE)
    inputs = tokens(2, 40)
    first = model(inputs)
    model(tokens(2, MOST_SEEN_BY_ALL))
    assert_same(model(inputs), first)


def test_a_graph_of_open_lengths_computes_short_and_long_rows():
    model = loaded(SPARSE)
    open_ids = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(lambda ids: model({"token_ids": ids}, internals=True), [open_ids])
    for length in (9, MOST_SEEN_BY_ALL, MOST_SEEN_BY_ALL + 1, 40):
        inputs = tokens(2, length)
        found, wanted = graph(inputs["token_ids"]), model(inputs, internals=True)
        assert_same(found, wanted, TOLERANCE)


def test_open_lengths_have_the_tables_of_all_lengths():
    from bert_zoo.families.bigbird.family import BigBirdConfig
    from bert_zoo.families.bigbird.layers import SparseAttention

    config = BigBirdConfig(vocab_size=9, max_positions=5120)
    attention = SparseAttention(1, config, initializer_range=0.02)
    for tokens in (*TABLES, 704 + 64, 5120):
        blocks = keras.ops.convert_to_tensor(tokens // 64)
        found = attention._random_blocks(blocks)
        assert np.array_equal(found, random_blocks(1, 12, 64, 3, tokens // 64)), tokens


def test_documents_of_a_row_do_not_see_each_other():
    """In long rows blocks are the row's; test_packed_rows.py shows short ones."""
    model = loaded(SPARSE)
    documents = np.repeat([[1, 2, 3, 0]], [13, 9, 14, 4], axis=1).astype("int32")
    packed = {**tokens(1, 40), "document_ids": documents}
    before = np.asarray(model(packed)["sequence_output"])
    for number in (1, 2, 3):
        own = documents == number
        ids = np.where(own, packed["token_ids"], tokens(1, 40, seed=number)["token_ids"])
        after = np.asarray(model({**packed, "token_ids": ids})["sequence_output"])
        np.testing.assert_allclose(after[own], before[own], atol=TOLERANCE)


def test_a_document_that_fills_its_row_is_encoded_as_without_numbers():
    model, inputs = loaded(SPARSE), tokens(2, 40)
    found = model({**inputs, "document_ids": np.ones((2, 40), "int32")})
    assert_same(found["sequence_output"], model(inputs)["sequence_output"], TOLERANCE)


def test_probabilities_are_dropped_in_full_attention_alone():
    model = load_case(SPARSE, dropout=0.0, attention_dropout=0.5)
    for length, is_dropped in ((MOST_SEEN_BY_ALL, True), (MOST_SEEN_BY_ALL + 1, False)):
        for positions in (None, np.array([[1, 20, 3]] * 2)):
            inputs = tokens(2, length)
            kept, trained = (
                np.asarray(model(inputs, positions=positions, training=t)["sequence_output"])
                for t in (False, True)
            )
            assert np.allclose(kept, trained, atol=TOLERANCE) != is_dropped


def test_attention_without_random_blocks_is_that_of_bias():
    """Block by block and over all keys, where a bias says what is seen, are two computations."""
    model, inputs = load_case(SPARSE, num_random_blocks=0), tokens(2, 40)
    at = np.tile(np.arange(40), (2, 1))
    found = model(inputs, positions=at)["sequence_output"]
    assert_same(found, model(inputs)["sequence_output"], TOLERANCE)


def test_nothing_grows_with_the_square_of_the_length():
    """No operation of the graph, gradients included, has as many numbers as a matrix of scores."""
    from bert_zoo.families.bigbird.family import BigBirdConfig
    from bert_zoo.models.encoder import Encoder

    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "intermediate_size": 8}
    config = BigBirdConfig(
        vocab_size=9,
        max_positions=2048,
        block_size=4,
        num_random_blocks=2,
        hidden_dropout=0.1,
        **sizes,
    )
    model = Encoder(config, "bigbird")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model({"token_ids": ids}, training=True)["sequence_output"] ** 2)
        return tape.gradient(loss, model.trainable_variables)

    def largest(length: int) -> int:
        graph = tf.function(step).get_concrete_function(tf.TensorSpec([1, length], tf.int32)).graph
        shapes = (out.shape for op in graph.get_operations() for out in op.outputs)
        return max(shape.num_elements() or 0 for shape in shapes if shape.rank is not None)

    # Tables are constants of one size.
    assert largest(2048) <= 2.1 * largest(1024)
    assert largest(2048) < 2048 * 2048


# --- Google's files ------------------------------------------------------------------------------


def test_a_runs_settings_say_what_shapes_do_not(tmp_path):
    shutil.copytree(directory_of("bigbird/tf1_no_biases"), tmp_path, dirs_exist_ok=True)
    config = bert_zoo.load(tmp_path).config
    assert (config.num_heads, config.block_size, config.num_random_blocks) == (4, 2, 2)
    assert config.rescale_embeddings and not config.use_bias
    settings = tmp_path / "run.config"
    settings.rename(tmp_path / "elsewhere")
    by_shapes = bert_zoo.load(tmp_path).config
    # Heads of 64 and blocks of 64 tokens, as all that were released.
    assert (by_shapes.num_heads, by_shapes.block_size, by_shapes.num_random_blocks) == (1, 64, 3)
    assert not by_shapes.use_bias and by_shapes.activation == "gelu_tanh"
    assert by_shapes.num_layers == 2 and by_shapes.intermediate_size == 64
    (tmp_path / "elsewhere").rename(settings)
    change_json(settings, norm_type="prenorm")
    assert_refused(lambda: bert_zoo.load(tmp_path), "norm_type is 'prenorm'; only ['postnorm']")


def test_fine_tuning_of_googles_files_begins_with_the_pooler(caplog):
    encoder = load_case("bigbird/tf1_pretraining", "encoder")
    model = load_case("bigbird/tf1_pretraining", "classification", num_classes=3)
    assert_same(model.prediction_head.dense.kernel, encoder.pooler.dense.kernel)
    assert "no trained classifier for 3 classes" in caplog.text
    inputs = inputs_of(arrays("bigbird/tf1_pretraining"))
    wanted = model.classifier(encoder(inputs)["pooled_output"])
    assert_same(model(inputs), wanted, TOLERANCE)


def test_what_transformers_computes_otherwise_is_said_and_kept(tmp_path, caplog):
    model = load_case("bigbird/tf1_classification", random_blocks="hf_evaluation")
    bert_zoo.save(model, tmp_path, format="hf")
    assert "does not support {'classifier_activation': 'tanh'}" in caplog.text
    assert "random_blocks" not in caplog.text
    again = bert_zoo.load(tmp_path, "classification")
    assert again.encoder.config == model.encoder.config


def test_random_blocks_that_transformers_replaces_are_logged_where_rows_can_be_long(
    tmp_path, caplog
):
    load_case(SPARSE)
    assert f"more than {MOST_SEEN_BY_ALL} tokens read the random blocks" in caplog.text
    assert "pass random_blocks='hf_evaluation'" in caplog.text
    caplog.clear()
    for options in (
        {"max_length": MOST_SEEN_BY_ALL},
        {"random_blocks": "hf_evaluation"},
        {"random_blocks": "original"},
        {"attention_type": "original_full"},
        {"num_random_blocks": 0},
    ):
        load_case(SPARSE, **options)
    assert "random" not in caplog.text
    full = load_case(SPARSE, attention_type="original_full")
    bert_zoo.save(full, tmp_path / "full", format="hf")
    assert "random_blocks" not in caplog.text
    bert_zoo.save(loaded(SPARSE), tmp_path, format="hf")
    assert "does not support {'random_blocks': 'original'} and computes with" in caplog.text
    caplog.clear()
    bert_zoo.load(tmp_path)
    assert "random" not in caplog.text
