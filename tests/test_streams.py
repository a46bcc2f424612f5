"""Language models on streams: memory between steps, stopping and resuming, recipes, evaluation."""

import errno
import functools
import json
import math

import keras
import numpy as np
import pytest
from helpers import (
    assert_refused,
    assert_same_variables,
    load_recurrent,
    refusals,
    run_program,
    slow_but,
    unallocated,
)

import bert_zoo
from bert_zoo.families.transformer_xl.family import RecurrentConfig
from bert_zoo.models import StatefulLM
from bert_zoo.models.task_model import under_settings
from bert_zoo.presets import LanguageModelPreset, Reading
from bert_zoo.pretraining.causal import StreamSettings
from bert_zoo.pretraining.models import evaluate, new_language_model
from bert_zoo.pretraining.run import pretrain
from bert_zoo.pretraining.streams import encode_file, segments
from bert_zoo.training import (
    TrainingCheckpoint,
    WarmupCosineDecay,
    language_model_adam,
    restore,
)
from bert_zoo.training.presets import LANGUAGE_MODEL_PRESETS
from bert_zoo.training.runs import write_checkpoint
from bert_zoo.weights.bind import named_variables
from bert_zoo.weights.files import WeightsError

CASES = ("hf_adaptive", "torch_same_length")  # a memory that starts with zeros, and an empty one
IDS = np.random.default_rng(0).integers(0, 50, 400).astype("int32")


class Losses(keras.callbacks.Callback):
    """The running mean of every step, from which a step's own loss follows."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(float(logs["loss"]))


def stateful(case: str = "hf_adaptive", batch_size: int = 3, evaluation_batch_size: int = 2):
    keras.utils.set_random_seed(3)
    model = StatefulLM(load_recurrent(case), batch_size, evaluation_batch_size)
    model.compile(optimizer=language_model_adam(1e-3, total_steps=60, warmup_steps=5))
    return model


def carried_by_hand(model, data) -> list[np.ndarray]:
    """The labels' log-probabilities of every step, with the memory handed on outside of the model."""
    state, log_probs = {}, []
    for batch in data:
        outputs = model({"token_ids": batch["token_ids"], "labels": batch["labels"], **state})
        state = {name: outputs[name] for name in ("memory", "memory_mask") if name in outputs}
        log_probs.append(keras.ops.convert_to_numpy(outputs["log_probs"]))
    return log_probs


@pytest.mark.parametrize("case", slow_but(CASES, CASES[0]))
def test_memory_is_carried_from_step_to_step_and_forgotten_where_streams_begin(case):
    model, data = stateful(case), segments(IDS, 2, 7)
    expected = carried_by_hand(model.language_model, data)
    # Twice: the second pass must not remember the first.
    for _ in range(2):
        predicted = model.predict(data, verbose=0)
        np.testing.assert_allclose(predicted, np.concatenate(expected), atol=1e-5)
    figures = model.evaluate(data, verbose=0, return_dict=True)
    nats = -np.sum(expected) / (len(IDS) - 1)
    np.testing.assert_allclose(figures["bits"], nats / math.log(2), rtol=1e-5)
    np.testing.assert_allclose(figures["perplexity"], math.exp(nats), rtol=1e-5)


@pytest.mark.slow
def test_evaluation_between_steps_leaves_the_memory_of_training_alone():
    losses = {}
    for validated in (False, True):
        model, recorded = stateful(), Losses()
        validation = segments(IDS[:60], 2, 5) if validated else None
        options = {"validation_data": validation, "callbacks": [recorded], "verbose": 0}
        model.fit(segments(IDS, 3, 7), epochs=3, steps_per_epoch=5, **options)
        losses[validated] = recorded.values
    assert losses[False] == losses[True]


def test_a_training_that_was_stopped_goes_on_with_the_same_losses(tmp_path):
    """Dropout, optimizer, memory and the place in the stream included; bit for bit."""
    data = segments(IDS, 3, 7)
    whole = stateful()
    assert whole.language_model.encoder.config.hidden_dropout > 0
    whole.fit(data, verbose=0)
    first = stateful()
    every_fourth = TrainingCheckpoint(tmp_path, every=4)
    first.fit(data, steps_per_epoch=11, callbacks=[every_fourth], verbose=0)
    (checkpoint,) = tmp_path.iterdir()
    assert checkpoint.name.startswith("step-000000011-")
    keras.utils.set_random_seed(99)
    second = stateful()
    step = restore(second, tmp_path)
    assert step == 11
    second.fit(segments(IDS, 3, 7, first_step=step), verbose=0)
    assert_same_variables(second.language_model, whole.language_model)
    for one, other in zip(whole.training_memory.memory, second.training_memory.memory, strict=True):
        assert np.array_equal(*map(keras.ops.convert_to_numpy, (one, other)))


@pytest.fixture(scope="module")
def trained():
    model = stateful()
    model.fit(segments(IDS, 3, 7), steps_per_epoch=1, verbose=0)
    return model


def test_a_checkpoint_that_cannot_be_written_leaves_the_older_one(trained, tmp_path, monkeypatch):
    write_checkpoint(trained, tmp_path, 1)
    before = list(tmp_path.iterdir())

    def full(file, tensors, metadata):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bert_zoo.weights.safetensors_io.write_tensors", full)
    with pytest.raises(OSError, match=r"no room for .*unnamed\.safetensors, because the disk"):
        write_checkpoint(trained, tmp_path, 2)
    assert list(tmp_path.iterdir()) == before
    assert restore(stateful(), tmp_path) == 1


def test_checkpoints_that_changed_or_are_of_another_model_are_refused(trained, tmp_path):
    assert restore(stateful(), tmp_path / "nothing") == 0
    write_checkpoint(trained, tmp_path, 1)
    words = "belongs to another model or optimizer"
    assert_refused(lambda: restore(stateful("hf_plain"), tmp_path), words, WeightsError)
    (checkpoint,) = tmp_path.iterdir()
    content = bytearray(checkpoint.read_bytes())
    content[-5] ^= 1
    checkpoint.write_bytes(content)
    words = "has changed since it was written"
    assert_refused(lambda: restore(stateful(), tmp_path), words, WeightsError)


def without_starts(batch):
    return {name: batch[name] for name in ("token_ids", "labels")}


@refusals(
    (lambda m: m.fit(segments(IDS, 4, 7), verbose=0), "4 rows, but the memory has 3"),
    (lambda m: m.fit(segments(IDS, 3, 7).map(without_starts)), "starts_stream"),
    (lambda m: bert_zoo.export(m, "nowhere"), "language_model"),
    (lambda m: bert_zoo.save(m, "nowhere"), "language_model"),
    (
        lambda m: new_language_model(LANGUAGE_MODEL_PRESETS["wt103_base"], characters()),
        "6 tokens | begin at (20000, 40000, 200000)",
    ),
)
def test_what_does_not_fit_a_model_with_memory_is_refused(call, words):
    model = stateful()
    assert_refused(lambda: call(model), words)


@pytest.mark.slow
def test_keras_file_holds_model_optimizer_and_memory(tmp_path):
    model, data = stateful(), segments(IDS, 3, 7)
    model.fit(data.take(4), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_same_variables(again, model)
    assert again.evaluate(segments(IDS, 2, 5), verbose=0) == model.evaluate(
        segments(IDS, 2, 5), verbose=0
    )


def test_cosine_schedule_has_the_originals_values():
    """tf/train_gpu.py: linear to the peak, then half a cosine to a part of it."""
    schedule = WarmupCosineDecay(2.5e-4, total_steps=1000, warmup_steps=100, floor=0.004)
    for step in (0, 1, 50, 99, 100, 101, 550, 999, 1000, 5000):
        if step < 100:
            expected = 2.5e-4 * step / 100
        else:
            part = min(1.0, (step - 100) / 900)
            expected = 2.5e-4 * (0.004 + 0.996 * 0.5 * (1 + math.cos(math.pi * part)))
        np.testing.assert_allclose(float(schedule(step)), expected, rtol=1e-5)


# facts of the originals; base models are nowhere registered, as nobody released weights of them.
COUNTS = {
    "enwik8_base": (204, 41_055_436),
    "wt103_base": (267735, 151_119_838),
    "lm1b_base": (793471, 355_749_746),
    "enwik8_large": (204, 277_231_820),
    "wt103_large": (267735, 285_205_322),
    "lm1b_large": (793471, 838_078_062),
}


@pytest.mark.parametrize("name", slow_but(COUNTS, "wt103_base", "enwik8_large"))
def test_recipes_have_the_originals_sizes(name):
    vocab_size, params = COUNTS[name]
    config = RecurrentConfig(vocab_size=vocab_size, **LANGUAGE_MODEL_PRESETS[name].config)
    model = unallocated(config, "causal_lm", "transformer_xl")
    assert sum(math.prod(v.shape) for v in named_variables(model).values()) == params


TINY = LanguageModelPreset(
    "tiny",
    "transformer_xl",
    {
        **{"num_layers": 2, "hidden_size": 16, "num_heads": 2, "head_size": 8},
        **{"intermediate_size": 32, "mem_len": 8},
    },
    "character",
    batch_size=4,
    segment_length=8,
    total_steps=40,
    evaluation=Reading(8, 16, batch_size=3),
    learning_rate=1e-2,
)


def characters():
    from bert_zoo.text import LanguageModelPreprocessor, WordLevelTokenizer

    tokenizer = WordLevelTokenizer(
        list("abc de"), unit="character", eos_token=None, unknown_token=None
    )
    return LanguageModelPreprocessor(tokenizer, sequence_length=64)


def test_a_files_characters_are_read_whole(tmp_path):
    path, settings, directory = tmp_path / "text.txt", StreamSettings(TINY), tmp_path / "run"
    path.write_text("abcded c" * 100)
    make_model = functools.partial(new_language_model, TINY, characters())
    how = {"reading": {"form": "stream"}, "held_out": 0.1}
    results = pretrain("tiny", make_model, settings, [str(path)], directory, **how)
    assert results["tokens"] == 40 * 32
    # What follows a character can be learned, beside how often each occurs.
    assert results["after"]["held out loss"] < 0.7 * results["unigram loss"]
    # All of the file is one stream, of which the end is set aside.
    kept = bert_zoo.load(directory)
    ids = encode_file(path, kept.preprocessor.tokenizer)
    assert len(ids) == 800
    reading = Reading(8, 8, same_length=False, batch_size=4)
    metrics = evaluate(kept, ids[720:], reading)
    assert metrics["tokens"] == 79
    assert metrics["bits"] * math.log(2) == pytest.approx(results["after"]["held out loss"], 1e-5)


def test_settings_change_the_reading_and_no_weights():
    model = load_recurrent("hf_adaptive")
    other = under_settings(model, mem_len=3, same_length=False)
    assert (other.encoder.config.mem_len, model.encoder.config.mem_len) == (3, 8)
    assert other.initial_memory(1)["memory"][0].shape == (1, 3, 16)
    assert_same_variables(other, model)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["one", "cpu:2"])
def test_the_command_lines_train_go_on_and_evaluate(strategy, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 200)

    def run(verb: str, options: str) -> str:
        return run_program("-m", "bert_zoo", verb, *options.split(), cwd=tmp_path)

    flags = f"--text text.txt --steps 40 --batch_size 4 --length 8 --strategy {strategy}"
    trained = run("pretrain", f"--recipe characters_nano {flags} --output_dir first")
    assert "vocabulary of 11 of the text" in trained and "After: held out loss" in trained
    assert "evaluate --model first/model" in trained
    again = run("pretrain", f"--model first --form stream {flags} --output_dir run")
    assert "After: held out loss" in again
    reading = "--text_file text.txt --mem_len 0,8 --segment_length 8 --output_dir evaluation"
    assert "perplexity" in run("evaluate", f"--model run/model {reading}")
    figures = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
    assert set(figures) == {"0", "8"}
