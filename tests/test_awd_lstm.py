"""AWD-LSTM: what is dropped and what is punished in training, states, text; test_conformance.py has the rest."""

import functools
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    TOLERANCE,
    assert_refused,
    assert_same,
    directory_of,
    flat,
    load_case,
    loaded,
    read_json,
)

import bert_zoo
from bert_zoo.families.awd_lstm import layers
from bert_zoo.families.awd_lstm.family import FAMILY, AwdLstmConfig, read_words
from bert_zoo.models import CausalLM, Classifier, Encoder
from bert_zoo.text.format import DeferredPreprocessor
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.sources import open_weights

RATES = ("word_dropout", "input_dropout", "hidden_dropout", "last_dropout", "recurrent_dropout")
SIZES = {"vocab_size": 30, "hidden_size": 6, "lstm_size": 10, "num_layers": 3}
SIZES |= dict.fromkeys(RATES, 0.0)


def encoder(**changes) -> Encoder:
    keras.utils.set_random_seed(0)
    return Encoder(AwdLstmConfig(**SIZES | changes), "awd_lstm")


def ids(rows: int = 2, length: int = 8) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 30, (rows, length)).astype("int32")


def outputs(model, training: bool = True, **inputs) -> np.ndarray:
    found = model({"token_ids": ids(), **inputs}, training=training)
    return keras.ops.convert_to_numpy(found["sequence_output"])


# --- Dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", RATES)
def test_every_dropout_takes_in_training_and_not_in_inference(rate):
    model = encoder(**{rate: 0.5})
    first, second = (outputs(model) for _ in range(2))
    assert np.abs(first - second).max() > 1e-5
    np.testing.assert_array_equal(outputs(model, False), outputs(model, False))


def test_recurrent_weights_are_dropped_with_one_mask_for_all_steps_and_rows():
    """With the input's weights gone, rows of zeros give states that only that mask tells apart."""
    model = encoder(num_layers=1, recurrent_dropout=0.5)
    (lstm,) = model.stack.blocks
    lstm.kernel.assign(np.zeros(lstm.kernel.shape))
    found = outputs(model)
    # All rows are alike, so that a mask of each row's own would show.
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found - outputs(model)).max() > 1e-4
    raw = keras.ops.convert_to_numpy(lstm.recurrent_kernel)
    keras.utils.set_random_seed(3)
    dropped = keras.ops.convert_to_numpy(lstm.weight_dropout(raw, training=True))
    assert 0.3 < (dropped == 0).mean() < 0.7
    np.testing.assert_allclose(dropped[dropped != 0], 2 * raw[dropped != 0], rtol=1e-6)
    # What is trained is the raw weight, which keeps its value.
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(lstm.recurrent_kernel), raw)


def test_locked_masks_are_the_same_at_every_step_and_whole_words_are_dropped():
    model = encoder(last_dropout=0.5)
    is_zero = outputs(model) == 0
    assert is_zero.any() and (is_zero == is_zero[:, :1]).all()
    embeddings = encoder(word_dropout=0.5).embeddings
    found = keras.ops.convert_to_numpy(embeddings(ids(4, 30), training=True))
    for token in range(30):
        of_token = found[ids(4, 30) == token]
        assert len(np.unique(of_token, axis=0)) <= 1
    assert 0.2 < (found == 0).all(-1).mean() < 0.8


# --- Penalties -----------------------------------------------------------------------------------


def test_penalties_are_means_over_real_tokens_and_only_in_training():
    model = encoder(activation_penalty=3.0, change_penalty=5.0)
    mask = np.ones((2, 8), "int32")
    mask[1, 5:] = 0
    x = outputs(model, padding_mask=mask)
    found = [float(loss) for loss in model.losses]
    of_rows = [x[0], x[1, :5]]
    squares = np.concatenate([row**2 for row in of_rows]).mean()
    changes = np.concatenate([np.diff(row, axis=0) ** 2 for row in of_rows]).mean()
    np.testing.assert_allclose(found, [3 * squares, 5 * changes], rtol=1e-5)
    outputs(model, False)
    assert not model.losses


@pytest.mark.parametrize("task", [CausalLM, Classifier])
@pytest.mark.usefixtures("eager")
def test_penalties_are_part_of_the_loss_of_fit_and_not_of_evaluate(task):
    is_lm = task is CausalLM
    data = (
        ({"token_ids": ids(), "labels": ids()},)
        if is_lm
        else ({"token_ids": ids()}, np.array([0, 1]))
    )
    loss = {} if is_lm else {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}

    def losses(penalty: float) -> tuple[float, float]:
        rates = {"activation_penalty": penalty, "change_penalty": 0.0, "head_dropout": 0.0}
        model = task(encoder(**rates), **({} if is_lm else {"num_classes": 2}))
        model.compile(optimizer=keras.optimizers.SGD(0.0), **loss)
        trained = model.fit(*data, verbose=0).history["loss"][0]
        return trained, model.evaluate(*data, verbose=0, return_dict=True)["loss"]

    (without, measured), (with_penalty, same) = losses(0.0), losses(100.0)
    assert with_penalty > without + 1e-3
    assert measured == pytest.approx(same, abs=1e-6) == pytest.approx(without, abs=1e-6)


def test_penalties_of_replicas_with_more_and_fewer_tokens_have_those_of_the_batch_as_their_mean(
    monkeypatch,
):
    """Replicas are threads; test_distribution.py trains on two and four of them."""
    model, mask = encoder(), np.ones((2, 8), "int32")
    mask[1, 3:] = 0
    outputs(model, padding_mask=mask)
    whole, counts = [*map(float, model.losses)], []

    def mean(count, how):
        """Of one row's tokens, 8 and 3, and of pairs of tokens, 7 and 2."""
        counts.append(float(count))
        return {8: 5.5, 3: 5.5, 7: 4.5, 2: 4.5}[counts[-1]]

    def of_row(number: int) -> list[float]:
        row = {"token_ids": ids()[number:][:1], "padding_mask": mask[number:][:1]}
        model(row, training=True)
        both.wait()
        return [*map(float, model.losses)]

    monkeypatch.setattr(layers, "over_replicas", mean)
    both = threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(2) as threads:
        found = [*threads.map(of_row, range(2))]
    np.testing.assert_allclose(np.mean(found, axis=0), whole, rtol=1e-5)
    assert sorted(counts) == [2, 3, 7, 8]


# --- States --------------------------------------------------------------------------------------


def test_segments_with_carried_states_equal_one_row():
    model = loaded("awd_lstm/encoder")
    whole = model({"token_ids": ids()})
    first = model({"token_ids": ids()[:, :3]})
    rest = model({"token_ids": ids()[:, 3:], "memory": first["memory"]})
    found = np.concatenate([flat(part["sequence_output"])[""] for part in (first, rest)], 1)
    assert_same(found, whole["sequence_output"], TOLERANCE)
    assert_same(rest["memory"], whole["memory"], TOLERANCE)


def test_padding_leaves_states_and_pooled_outputs_as_they_are():
    model, alone = loaded("awd_lstm/encoder"), {"token_ids": ids()}
    rows = np.concatenate([ids(), np.full((2, 3), 7, "int32")], 1)
    padded = {"token_ids": rows, "padding_mask": np.int32([[1] * 8 + [0] * 3] * 2)}
    found, wanted = model(padded), model(alone)
    assert_same(found["sequence_output"][:, :8], wanted["sequence_output"], TOLERANCE)
    assert_same(found["memory"], wanted["memory"], TOLERANCE)
    classifier = load_case("awd_lstm/encoder", "classification")
    assert_same(classifier(padded), classifier(alone), TOLERANCE)
    assert classifier.classifier.transform.kernel.shape[0] == 3 * model.config.hidden_size


def test_gradients_run_back_through_so_many_tokens():

    def reaches(backward_tokens: int) -> np.ndarray:
        model = encoder(backward_tokens=backward_tokens)
        with tf.GradientTape() as tape:
            x = model.embeddings(ids())
            tape.watch(x)
            states, _ = model.stack(x, model.initial_memory(2)["memory"])
            last = tf.reduce_sum(states[-1][:, -1])
        return np.abs(tape.gradient(last, x)).sum((0, 2)) > 0

    assert reaches(0).all()
    assert reaches(3).tolist() == [False] * 6 + [True] * 2
    np.testing.assert_array_equal(outputs(encoder(backward_tokens=3)), outputs(encoder()))


def test_generation_goes_on_as_the_whole_text_would():
    model = loaded("awd_lstm/causal_lm")
    prompt = {"token_ids": ids()[:1]}
    found = model.generate(prompt, max_new_tokens=3, stop=None)
    text = ids()[:1]
    for _ in range(3):
        scores = flat(model({"token_ids": text})["log_probs"])[""]
        text = np.concatenate([text, scores[:, -1:].argmax(-1).astype("int32")], 1)
    np.testing.assert_array_equal(found, text)


# --- Files ---------------------------------------------------------------------------------------


def test_raw_weights_are_read_and_what_is_no_list_of_words_is_refused(tmp_path):
    torch_file = directory_of("awd_lstm/causal_lm") / "lstm_fwd.pth"
    tensors = dict(open_weights(torch_file))
    assert tensors["0.rnns.0.module.weight_hh_l0"].any()  # a copy with a mask, which is not read
    kernel = load_case("awd_lstm/causal_lm").encoder.stack.blocks[0].recurrent_kernel
    np.testing.assert_array_equal(kernel, tensors["0.rnns.0.weight_hh_l0_raw"].T)
    shutil.copy(torch_file, tmp_path)
    vocabulary = tmp_path / "itos_wt103.pkl"
    for words, message in (
        (["xxunk", 3], "instead of a list of words"),
        (print, "not allowed"),
        (["xxunk", *["a"] * 1_000_000], "lists 1,000,001 words; at most 1,000,000 are read"),
    ):
        vocabulary.write_bytes(pickle.dumps(words))
        load = functools.partial(bert_zoo.load, tmp_path, task="causal_lm")
        assert_refused(load, message, WeightsError)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (
            ["xxunk", "\n", "\n\n", "a", "xxfake", "xxfake"],
            ["xxunk", "xxnl", r"\x0a\x0a", "a", "xxfake", "xxfake_5"],
        ),
        (["xxunk", "a_3", "a", "a"], ["xxunk", "a_3", "a", "a_3_3"]),
    ],
)
def test_words_with_white_space_are_escaped_and_repeated_ones_numbered(words, read, tmp_path):
    (tmp_path / "itos.pkl").write_bytes(pickle.dumps(words))
    assert read_words(tmp_path / "itos.pkl") == read


# --- Text ----------------------------------------------------------------------------------------


def spelled(text: str, directory=None) -> list[str]:
    path = directory or directory_of("awd_lstm/causal_lm")
    tokenizer = bert_zoo.text.tokenizer_from_dir(path, "awd_lstm")
    return [tokenizer.id_to_token(i) for i in tokenizer([text]).to_list()[0]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The cat sat.", "xxbos xxmaj the cat sat ."),
        ("THE cat ran, I did", "xxbos xxup the cat ran , i did"),
        ("they didn't, it's good\nWe ran", "xxbos they did n't , it 's good xxnl xxmaj we ran"),
        ("a cat zzz", "xxbos a cat xxunk"),
        ("a cat #39;s film .", "xxbos a cat 's film ."),
    ],
)
def test_texts_are_split_and_marked_as_fast_ai_does(text, wanted):
    assert " ".join(spelled(text)) == wanted


def test_words_are_tagged():
    tagger = load_case("awd_lstm/encoder", "token_classification")
    (tagged,) = tagger.tag([["the", "cat"]])
    assert [word.text for word in tagged.words] == ["the", "cat"]


def test_a_backwards_model_reads_from_the_last_token(tmp_path):
    source = directory_of("awd_lstm/causal_lm")
    shutil.copy(source / "itos_wt103.pkl", tmp_path)
    shutil.copy(source / "lstm_fwd.pth", tmp_path / "lstm_bwd.pth")
    assert spelled("The cat", tmp_path) == spelled("The cat")[::-1]
    tokenizer = bert_zoo.load(tmp_path, task="causal_lm").preprocessor.tokenizer
    assert tokenizer.detokenize(tokenizer(["a cat"])).numpy() == [b"xxbos a cat"]
    again = tmp_path / "saved"
    bert_zoo.save(bert_zoo.load(tmp_path, task="causal_lm"), again)
    assert spelled("The cat sat", again) == spelled("The cat sat")[::-1]


def test_a_pickled_vocabulary_is_saved_alike_with_and_without_its_tokenizer(tmp_path):
    path = directory_of("awd_lstm/causal_lm")
    deferred = DeferredPreprocessor(path, FAMILY.text, sequence_length=8)
    deferred.save_vocabulary(tmp_path / "unmade")
    deferred.make().save_vocabulary(tmp_path / "made")
    for name, read in (("vocab.txt", Path.read_text), ("tokenizer_config.json", read_json)):
        made, unmade = (read(tmp_path / kind / name) for kind in ("made", "unmade"))
        assert made == unmade
