"""ELMo: its words of characters, its files and its state; test_conformance.py has what all families share."""

import functools
import shutil

import keras
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
    directory_of,
    eager_steps,
    inputs_of,
    load_case,
    loaded,
    save_tf1,
)

import bert_zoo
from bert_zoo.config import ConfigError
from bert_zoo.families.elmo.family import ElmoConfig
from bert_zoo.families.elmo.layers import recurrence
from bert_zoo.families.elmo.text import ids_in_graph, ids_of_words
from bert_zoo.text import preprocessor_from_dir
from bert_zoo.weights.sources import open_weights

WORDS = ["", "a", "naïve", "日本語日本語", "<S>", "</S>", "<s>", "x" * 60, "é" * 30, "\U0001f600"]


def test_words_have_the_same_characters_in_the_graph_and_in_numpy():
    for size in (8, 50):
        ours = ids_of_words(WORDS, size)
        assert np.array_equal(ids_in_graph(tf.constant(WORDS), size), ours)
    # The ids of bilm-tf and one: begin, bytes, end, padding.
    assert ours[1].tolist() == [259, 98, 260] + [261] * 47
    assert ours[4].tolist() == [259, 257, 260] + [261] * 47
    # 48 bytes and half of a character.
    assert ours[8].tolist() == [259, *[0xC3 + 1, 0xA9 + 1] * 24, 260]


def test_texts_are_split_as_python_does_and_words_as_given_are_not():
    preprocessor = loaded("elmo/token_classification").preprocessor
    texts = [" a\tb ", "", "日本　語\u2028x\x85y", "\x1fz"]
    ids, starts, ends = preprocessor.tokenizer.tokenize_with_offsets(texts)
    words = [
        [text[s:e] for s, e in zip(*spans, strict=True)]
        for text, *spans in zip(texts, starts.to_list(), ends.to_list(), strict=True)
    ]
    assert words == [text.split() for text in texts]
    assert ids.to_list() == [ids_of_words(row, 12).tolist() for row in words]
    model = loaded("elmo/token_classification")
    (tagged,) = model.tag([["New York", "b"]])
    assert [word.text for word in tagged.words] == ["New York", "b"]


def test_numpy_reads_texts_as_the_graph_does():
    from bert_zoo.families.elmo.text import NumpyWordPreprocessor

    preprocessor = loaded("elmo/classification").preprocessor
    twin = NumpyWordPreprocessor(preprocessor.tokenizer, **preprocessor.get_config())
    texts = ["The cat", "", " naïve 日本語 <S>"]
    assert_same(twin(texts), preprocessor(texts))
    assert [len(ids) for ids in twin.tokenize(texts)] == [2, 0, 3]


def test_state_is_carried_where_it_is_given():
    with np.load(directory_of("elmo/encoder") / "carried.npz") as file:
        again = dict(file)
    model, io = load_case("elmo/encoder"), inputs_of(arrays("elmo/encoder"))
    assert "memory" not in model(io)
    rows = len(io["char_ids"])
    first = model({**io, **model.initial_memory(rows)})
    assert_same(np.stack(first["memory"]), again["memory"], TOLERANCE)
    second = model({"char_ids": again["char_ids"], "memory": first["memory"]})
    assert_same(second["sequence_output"], again["sequence_output"], TOLERANCE)
    assert_same(np.stack(second["memory"]), again["new_memory"], TOLERANCE)
    one = {**io, "memory": first["memory"][:1]}
    assert_refused(lambda: model(one), "memory has 1 entries | a list of 2 tensors")


@pytest.mark.parametrize(("clips", "projects"), [((0.0, 0.0), False), ((0.2, 0.1), True)])
def test_gradients_of_the_recurrence_are_those_that_are_derived(clips, projects):
    """Of a sequence with holes, against the same steps one after the other."""
    random = np.random.default_rng(0)
    length, batch, cells, width = 5, 3, 6, 4 if projects else 6
    shapes = [
        (length, batch, 4 * cells),
        (width, 4 * cells),
        (cells, width),
        (batch, width),
        (batch, cells),
    ]
    products, kernel, projection, output, cell = (
        tf.Variable(random.normal(0, 0.5, shape), dtype="float32") for shape in shapes
    )
    projection = projection if projects else None
    mask = tf.constant(random.integers(0, 2, (length, batch, 1)), tf.float32)

    def plain():
        h, c, found = output, cell, []
        for product, there in zip(tf.unstack(products), tf.unstack(mask), strict=True):
            i, j, f, o = tf.split(product + h @ kernel, 4, axis=-1)
            new = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(j)
            new = tf.clip_by_value(new, -clips[0], clips[0]) if clips[0] else new
            out = tf.sigmoid(o) * tf.tanh(new)
            if projects:
                out = out @ projection
                out = tf.clip_by_value(out, -clips[1], clips[1]) if clips[1] else out
            h, c = tf.where(there > 0, out, h), tf.where(there > 0, new, c)
            found.append(h)
        return tf.stack(found)

    def ours():
        options = {"cell_clip": clips[0], "projection_clip": clips[1]}
        return recurrence(products, kernel, projection, mask, output, cell, **options)[0]

    variables = [v for v in (products, kernel, projection, output, cell) if v is not None]
    upstream = tf.constant(random.normal(size=(length, batch, width)), tf.float32)
    found = []
    for function in (plain, ours, tf.function(ours), tf.function(ours, jit_compile=True)):
        with tf.GradientTape() as tape:
            outputs = function()
        found.append([outputs, *tape.gradient(outputs, variables, upstream)])
    for other in found[1:]:
        assert_same(other, found[0], 2e-6)


def test_bilm_tf_s_own_checkpoint_is_the_same_model(tmp_path, caplog):
    """With its softmax and the optimizer's slots, which an encoder leaves unread."""
    source = directory_of("elmo/encoder")
    shutil.copy(source / "options.json", tmp_path)
    names = {"RNN/MultiRNNCell/Cell": "rnn/multi_rnn_cell/cell_", "LSTMCell": "lstm_cell"}
    names |= {"/W_0": "/kernel", "/B": "/bias", "/W_P_0": "/projection/kernel"}
    tensors = {}
    for key, value in open_weights(source).items():
        for theirs, name in names.items():
            key = key.replace(theirs, name)
        tensors |= {f"lm/{key}": value, f"lm/{key}/Adagrad": value}
    tensors["lm/softmax/W"], tensors["lm/softmax/b"] = np.zeros((77, 8), "f4"), np.zeros(77, "f4")
    tensors |= {"global_step": np.int64(3), "train_perplexity": np.float32(3)}
    save_tf1(tmp_path / "model.ckpt-3", tensors)
    model = bert_zoo.load(tmp_path)
    assert_same_variables(model, loaded("elmo/encoder"))
    assert model.config.vocab_size == 77
    assert not caplog.records


def test_a_vocabulary_of_numbers_is_saved_and_begins_with_special_words(tmp_path):
    model = loaded("elmo/encoder_of_words")
    bert_zoo.save(model, tmp_path / "saved")
    again = bert_zoo.load(tmp_path / "saved")
    assert_same_variables(again, model)
    texts = ["the cat", "The naïve </S>", ""]
    assert_same(again.preprocessor(texts), model.preprocessor(texts))
    assert again.preprocessor(texts)["token_ids"][1, :3].numpy().tolist() == [2, 10, 1]
    other = shutil.copytree(directory_of("elmo/encoder_of_words"), tmp_path / "other")
    (other / "vocab-words.txt").write_text("<UNK>\n<S>\n</S>\n")
    words = "begins with ['<UNK>', '<S>', '</S>']; it must begin"
    assert_refused(lambda: bert_zoo.load(other), words, ConfigError)
    (other / "vocab-words.txt").unlink()
    read = functools.partial(preprocessor_from_dir, other, "elmo", sequence_length=8)
    assert_refused(read, "should hold vocab.txt", FileNotFoundError)


def test_options_and_words_are_checked(tmp_path):
    model, ids = loaded("elmo/encoder"), {"char_ids": np.ones((1, 2, 50), "int32")}
    assert_refused(lambda: model(ids), "must have 12 characters")
    narrow = {"cell_size": 4, "projection_size": 2, "max_characters": 4}
    assert_refused(lambda: ElmoConfig(**narrow), "wider than the 4 characters")
    shutil.copytree(directory_of("elmo/encoder"), tmp_path, dirs_exist_ok=True)
    change_json(tmp_path / "options.json", char_cnn=None)
    assert_refused(lambda: bert_zoo.load(tmp_path), "omit char_cnn", ConfigError)


def test_a_tagger_is_trained_on_words(tmp_path):
    keras.utils.set_random_seed(0)
    tagger = bert_zoo.load(
        directory_of("elmo/encoder"), "token_classification", labels=["O", "N"], dropout=0.0
    )
    words, labels = [["the", "cat"], ["a"]], [["O", "N"], ["O"]]
    tagger.compile(keras.optimizers.Adam(0.05), loss=tagger.loss)
    with eager_steps():
        tagger.fit(words, labels, epochs=8, verbose=0)
    assert [tagging.labels for tagging in tagger.tag(words)] == labels
    bert_zoo.save(tagger, tmp_path)
    assert_same_variables(bert_zoo.load(tmp_path), tagger)


def test_vectors_of_texts_do_not_depend_on_padding():
    model, texts = loaded("elmo/encoder"), ["a cat", "the very long text of words"]
    vectors = model.embed(texts)
    assert_same(vectors, np.concatenate([model.embed(text) for text in texts]), TOLERANCE)
    ids = {"char_ids": model.preprocessor(texts)["char_ids"]}
    found = model.sentence_vectors(model(ids)["sequence_output"], ids)
    assert_same(found, vectors, TOLERANCE)
