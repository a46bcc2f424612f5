"""The vectors that probes read are those of `embed_words`, kept in half precision and resumed."""

import numpy as np
import pytest

import bert_zoo
from bert_zoo import probing
from bert_zoo.probing import vectors
from bert_zoo.training import runs

SENTENCES = [["Good", "dogs", "bark"], ["The", "unbelievable", "cat", "slept"], ["No"]] * 4


@pytest.fixture(scope="module")
def encoder():
    return bert_zoo.load("bert_nano")


@pytest.mark.parametrize("name", ["bert_nano", "elmo_nano", "albert_nano", "awd_lstm_nano"])
def test_each_layer_is_that_of_embed_words(name):
    encoder = bert_zoo.load(name)
    found = probing.compute_vectors(encoder, SENTENCES[:3], pooling="first")
    for number in range(found.num_layers):
        rows = encoder.embed_words(SENTENCES[:3], features=number, pooling="first")
        expected = np.concatenate([row.vectors for row in rows])
        np.testing.assert_allclose(found.layer(number), expected, atol=1e-5, rtol=1e-3)
        np.testing.assert_array_equal(found.layer(number, slice(3, 5)), found.layer(number)[3:5])
    assert list(found.splits) == [0, 3, 7, 8]
    with pytest.raises(IndexError):
        found.layer(found.num_layers)


def test_a_stopped_pass_goes_on_to_the_same_vectors(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "WRITTEN_BATCHES", 1)
    options = {"batch_size": 4}
    whole = probing.compute_vectors(encoder, SENTENCES, tmp_path / "whole", **options)
    computed = []

    def stopping(model, words, *rest):
        if len(computed) == 8:
            raise KeyboardInterrupt
        computed.extend(words)
        return original(model, words, *rest)

    original = vectors.word_vectors
    monkeypatch.setattr(vectors, "word_vectors", stopping)
    with pytest.raises(KeyboardInterrupt):
        probing.compute_vectors(encoder, SENTENCES, tmp_path / "stopped", **options)
    with pytest.raises(FileNotFoundError, match="it continues where it stopped"):
        probing.open_vectors(tmp_path / "stopped")
    computed.clear()
    found = probing.compute_vectors(encoder, SENTENCES, tmp_path / "stopped", **options)
    probing.compute_vectors(encoder, SENTENCES, tmp_path / "stopped", **options)
    assert computed == SENTENCES[8:]  # none twice, and none again once all are there
    np.testing.assert_array_equal(found.array, whole.array)
    opened = probing.open_vectors(tmp_path / "stopped")
    assert (opened.sentences, opened.sizes) == (SENTENCES, whole.sizes)
    np.testing.assert_array_equal(opened.array, whole.array)
    assert whole.array.dtype == np.float16


def test_what_has_no_vectors_is_refused(encoder, tmp_path):
    with pytest.raises(ValueError, match=r"sentences\[1\] has no words"):
        probing.compute_vectors(encoder, [["a"], []])
    with pytest.raises(ValueError, match="pooling is 'sum'"):
        probing.compute_vectors(encoder, SENTENCES, pooling="sum")
    probing.compute_vectors(encoder, SENTENCES, tmp_path)
    with pytest.raises(ValueError, match="another model or for other texts"):
        probing.compute_vectors(encoder, SENTENCES[1:], tmp_path)


def test_damaged_files_are_refused_with_their_name_and_the_next_step(encoder, tmp_path):
    """Cut, emptied, and of other vectors; by both functions that open a directory."""
    # A copy: what is mapped from a file must not be cut.
    found = np.array(probing.compute_vectors(encoder, SENTENCES, tmp_path).array)
    path, notes, sentences = (
        tmp_path / name for name in ("vectors.npy", "vectors.json", "sentences.jsonl")
    )
    whole = {file: file.read_bytes() for file in (path, notes, sentences)}

    def other(array):
        np.save(path, array)
        return path.read_bytes()

    changes = [(file, content[:end]) for file, content in whole.items() for end in (0, 150)]
    changes += [(path, whole[path] + b"0"), (path, whole[path][:-1])]
    changes += [(path, other(found[1:])), (path, other(found[:, 1:]))]
    changes += [(path, other(found.astype(np.float32))), (notes, b"{}")]
    remedy = f"delete {path} and {notes}"
    for file, content in changes:
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"(?i)(vectors|sentences)\.(npy|jsonl?)\b") as raised:
            probing.open_vectors(tmp_path)
        assert remedy in str(raised.value).replace("Delete", "delete"), (file, len(content))
        if file != sentences:  # which each call writes
            with pytest.raises(ValueError, match=r"delete .*vectors\.npy and .*vectors\.json"):
                probing.compute_vectors(encoder, SENTENCES, tmp_path)
        file.write_bytes(whole[file])
        np.testing.assert_array_equal(probing.open_vectors(tmp_path).array, found)


def test_a_randomly_initialised_encoder_reads_the_same_words_otherwise(encoder):
    random = probing.randomly_initialised(encoder, seed=3)
    again = probing.randomly_initialised(encoder, seed=3)
    layers = [
        probing.compute_vectors(each, SENTENCES[:3]).layer(-1) for each in (random, again, encoder)
    ]
    np.testing.assert_array_equal(layers[0], layers[1])
    assert np.abs(layers[0] - layers[2]).max() > 0.1


def test_a_curve_prints_means_and_deviations_by_layer():
    curve = probing.LayerCurve("accuracy", [[0.5, 0.7], [0.5, 0.9]])
    assert str(curve).splitlines() == [
        "layer      accuracy",
        "    0  0.500 ±0.000",
        "    1  0.800 ±0.141",
    ]
    assert curve.best_layer == 1
