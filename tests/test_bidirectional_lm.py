"""Language models of both directions: what each reads and predicts, words that are drawn, a training as a whole."""

import keras
import numpy as np
import pytest
from helpers import TOLERANCE, load_case, loaded

import bert_zoo
from bert_zoo.config import IGNORED_LABEL
from bert_zoo.presets import LanguageModelPreset, Reading
from bert_zoo.pretraining.causal import (
    BidirectionalBatches,
    StreamSettings,
    WordsOfText,
    bidirectional_lm,
    new_encoder,
)
from bert_zoo.pretraining.run import PretrainingRun, pretrain
from bert_zoo.tasks.bidirectional_lm import SampledSoftmax
from bert_zoo.text import WordLevelTokenizer

VOCABULARY = ["<eos>", "<unk>", "a", "cat", "sat", "rarely"]
STREAM = np.array([0, 2, 3, 4, 0, 2, 5, 3, 0])  # a cat sat / a rarely cat
TINY = LanguageModelPreset(
    "tiny",
    "elmo",
    {"cell_size": 12, "projection_size": 8, "filters": ((1, 4), (2, 8))},
    unit="word",
    batch_size=4,
    segment_length=5,
    total_steps=40,
    evaluation=Reading(5),
    vocab_size=8,
    learning_rate=3e-2,
    clip_norm=1.0,
    bidirectional=True,
    num_samples=64,
)


def test_each_direction_predicts_what_it_reads_next():
    words = WordsOfText(VOCABULARY, loaded("elmo/encoder"), 5)
    batches = BidirectionalBatches(STREAM, words, batch_size=1, segment_length=8)
    batch = batches.at(0)
    spell = loaded("elmo/encoder").preprocessor.tokenizer.ids_of_words
    forward = ["<S>", "a", "cat", "sat", "<S>", "a", "rarely", "cat"]
    backward = ["</S>", "cat", "rarely", "a", "</S>", "sat", "cat", "a"]
    np.testing.assert_array_equal(batch["char_ids"][0], [spell(forward), spell(backward)])
    # The word with the number 5 is read and not predicted.
    wanted = [[2, 3, 4, 0, 2, 1, 3, 0], [3, 1, 2, 0, 4, 3, 2, 0]]
    np.testing.assert_array_equal(batch["labels"][0], wanted)
    # Segments go on with the state, and the last one is padded.
    parts = BidirectionalBatches(STREAM, words, batch_size=1, segment_length=5)
    labels = np.concatenate([parts.at(number)["labels"] for number in range(2)], axis=2)
    np.testing.assert_array_equal(labels[0, :, :8], wanted)
    assert (labels[0, :, 8:] == IGNORED_LABEL).all()
    assert [parts.at(number)["starts_stream"].tolist() for number in range(3)] == [[1], [0], [1]]


def test_directions_are_those_that_the_encoder_gives():
    model = load_case("elmo/encoder", output_hidden_states=True)
    spell = model.preprocessor.tokenizer.ids_of_words
    sentence = ["a", "cat", "sat", "."]
    outputs = model({"char_ids": spell(sentence)[None]})["sequence_output"]
    both = np.stack([spell(["<S>", *sentence]), spell(["</S>", *sentence[::-1]])])[None]
    memory = model.initial_memory(1)["memory"]
    found, states = model.backbone.directions(both, memory)
    forward, backward = (keras.ops.convert_to_numpy(found)[0, i, 1:] for i in range(2))
    joined = np.concatenate([forward, backward[::-1]], axis=-1)
    np.testing.assert_allclose(outputs[0], joined, atol=TOLERANCE)
    # What follows is read with the state.
    first, states = model.backbone.directions(both[:, :, :2], memory)
    rest, _ = model.backbone.directions(both[:, :, 2:], states)
    parts = keras.ops.concatenate([first, rest], axis=2)
    np.testing.assert_allclose(parts, found, atol=TOLERANCE)


def test_a_softmax_of_drawn_words_is_on_average_that_of_all():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(6, 4)).astype("float32"), np.array([0, 1, 5, 20, 49, 0])
    whole = SampledSoftmax(50, num_samples=0)
    whole.build((None, 4))
    wanted = keras.ops.convert_to_numpy(whole(x, labels, training=True))
    drawn = SampledSoftmax(50, num_samples=20_000)
    drawn.build((None, 4))
    drawn.set_weights([*whole.get_weights(), *drawn.get_weights()[2:]])
    found = keras.ops.convert_to_numpy(drawn(x, labels, training=True))
    assert 0 < np.abs(found - wanted).max() < 0.05
    np.testing.assert_allclose(drawn(x, labels), wanted, atol=1e-6)
    logits = x @ whole.get_weights()[0].T
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(wanted, log_probs[np.arange(6), labels], atol=TOLERANCE)


def test_words_of_a_training_need_their_marks():
    with pytest.raises(ValueError, match=r"begins with .*Leave --vocabulary out"):
        WordsOfText(["a", "b"], loaded("elmo/encoder"), 2)
    with pytest.raises(ValueError, match="reads words as ids"):
        WordsOfText(VOCABULARY, loaded("elmo/encoder_of_words"), 5)


def run(directory, name, **options):
    text = directory / "text.txt"
    sentences = ["a cat sat on it", "no cat ran", "it ran on a mat"]
    lines = np.random.default_rng(0).choice(sentences, 240)
    text.write_text("\n\n".join("\n".join(lines[i : i + 4]) for i in range(0, 240, 4)))
    words = sorted({word for line in sentences for word in line.split()})
    vocabulary = directory / "words"
    WordLevelTokenizer(["<eos>", "<unk>", *words], eos_at="newlines").save(vocabulary)
    return pretrain(
        "tiny",
        lambda: bidirectional_lm(new_encoder(TINY, vocabulary), TINY, vocabulary),
        StreamSettings(TINY),
        [str(text)],
        directory / name,
        held_out=0.2,
        **options,
    )


def test_an_encoder_learns_both_directions(tmp_path):
    results = run(tmp_path, "run")
    assert results["tokens"] == 40 * 20
    for direction in ("forward", "backward"):
        assert results["after"][f"held out {direction} loss"] < 0.8 * results["unigram loss"]
    assert bert_zoo.load(tmp_path / "run").embed(["a cat"]).shape == (1, 16)


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path, monkeypatch):
    through = run(tmp_path, "through")
    trained, killed = PretrainingRun.on_train_batch_end, []

    def killing(keeper, batch, logs=None):
        trained(keeper, batch, logs)
        if keeper.progress.all_batches == 7 and not killed:
            killed.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(PretrainingRun, "on_train_batch_end", killing)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "stopped", checkpoint_seconds=0)
    assert run(tmp_path, "stopped")["after"] == through["after"]
    vectors = [bert_zoo.load(tmp_path / name).embed(["a cat"]) for name in ("through", "stopped")]
    np.testing.assert_array_equal(*vectors)
