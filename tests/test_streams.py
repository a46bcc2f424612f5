"""Language models on streams: memory between steps, stopping and resuming, recipes, evaluation."""

import errno
import json
import math
import subprocess
import sys

import keras
import numpy as np
import pytest
from helpers import load_recurrent, slow_but, tensors_of, unallocated, variables_of

import bert_zoo
from bert_zoo.families.transformer_xl.config import RecurrentConfig
from bert_zoo.models import StatefulLM
from bert_zoo.models.task_model import under_settings
from bert_zoo.pretraining.causal import StreamSettings
from bert_zoo.pretraining.evaluation import (
    evaluate,
)
from bert_zoo.pretraining.models import new_language_model
from bert_zoo.pretraining.progress import Keeper
from bert_zoo.pretraining.run import pretrain
from bert_zoo.pretraining.streams import Segments, encode_file, segments
from bert_zoo.training import (
    TrainingCheckpoint,
    WarmupCosineDecay,
    language_model_adam,
    restore,
    resume,
)
from bert_zoo.training.presets import LANGUAGE_MODEL_PRESETS, LanguageModelPreset, Reading
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


@pytest.mark.parametrize(("rows", "length"), [(1, 7), (3, 10), (7, 400)])
def test_a_pass_in_numpy_is_that_of_the_graph(rows, length):
    whole = Segments(IDS, rows, length)
    batches = list(segments(IDS, rows, length, first_step=1 if whole.num_steps > 1 else 0))
    for step, batch in enumerate(batches, start=whole.num_steps - len(batches)):
        found = whole.at(step)
        assert found.keys() == batch.keys()
        for name, value in batch.items():
            assert found[name].dtype == np.int32
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert step == whole.num_steps - 1


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
        model.fit(
            segments(IDS, 3, 7),
            epochs=3,
            steps_per_epoch=5,
            validation_data=validation,
            callbacks=[recorded],
            verbose=0,
        )
        losses[validated] = recorded.values
    assert losses[False] == losses[True]


def test_a_training_that_was_stopped_goes_on_with_the_same_losses(tmp_path):
    """Dropout, optimizer, memory and the place in the stream included; bit for bit."""
    data = segments(IDS, 3, 7)
    whole = stateful()
    assert whole.language_model.encoder.config.hidden_dropout > 0
    whole.fit(data, verbose=0)
    first = stateful()
    first.fit(
        data, steps_per_epoch=11, callbacks=[TrainingCheckpoint(tmp_path, every=4)], verbose=0
    )
    (checkpoint,) = tmp_path.iterdir()
    assert checkpoint.name.startswith("step-000000011-")
    keras.utils.set_random_seed(99)
    second = stateful()
    step = restore(second, tmp_path)
    assert step == 11
    second.fit(segments(IDS, 3, 7, first_step=step), verbose=0)
    for path, value in variables_of(whole.language_model).items():
        assert np.array_equal(value, variables_of(second.language_model)[path]), path
    for one, other in zip(whole.training_memory.memory, second.training_memory.memory, strict=True):
        assert np.array_equal(*map(keras.ops.convert_to_numpy, (one, other)))


@pytest.fixture(scope="module")
def trained():
    model = stateful()
    model.fit(segments(IDS, 3, 7), steps_per_epoch=1, verbose=0)
    return model


def test_a_checkpoint_whose_bytes_have_changed_is_refused(trained, tmp_path):
    resume.write_checkpoint(trained, tmp_path, 1)
    (checkpoint,) = tmp_path.iterdir()
    content = bytearray(checkpoint.read_bytes())
    content[-5] ^= 1
    checkpoint.write_bytes(content)
    with pytest.raises(WeightsError, match="has changed since it was written"):
        restore(stateful(), tmp_path)


def test_a_checkpoint_that_cannot_be_written_leaves_the_older_one(trained, tmp_path, monkeypatch):
    resume.write_checkpoint(trained, tmp_path, 1)
    before = list(tmp_path.iterdir())

    def full(file, tensors, metadata):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bert_zoo.weights.safetensors_io.write_tensors", full)
    with pytest.raises(OSError, match=r"no room for .*unnamed\.safetensors, because the disk"):
        resume.write_checkpoint(trained, tmp_path, 2)
    assert list(tmp_path.iterdir()) == before
    assert restore(stateful(), tmp_path) == 1


def test_a_checkpoint_of_another_model_is_refused(trained, tmp_path):
    resume.write_checkpoint(trained, tmp_path, 1)
    with pytest.raises(WeightsError, match="belongs to another model or optimizer"):
        restore(stateful("hf_plain"), tmp_path)
    assert restore(stateful(), tmp_path / "nothing") == 0


def test_batches_that_do_not_fit_the_memory_are_refused():
    model = stateful()
    with pytest.raises(ValueError, match="4 rows, but the memory has 3"):
        model.fit(segments(IDS, 4, 7), verbose=0)
    with pytest.raises(ValueError, match="starts_stream"):
        model.fit(segments(IDS, 3, 7).map(lambda x: {k: x[k] for k in ("token_ids", "labels")}))
    for write in (bert_zoo.export, bert_zoo.save):
        with pytest.raises(TypeError, match="language_model"):
            write(model, "nowhere")


@pytest.mark.slow
def test_keras_file_holds_model_optimizer_and_memory(tmp_path):
    model, data = stateful(), segments(IDS, 3, 7)
    model.fit(data.take(4), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for path, value in variables_of(model).items():
        assert np.array_equal(value, variables_of(again)[path]), path
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
        "num_layers": 2,
        "hidden_size": 16,
        "num_heads": 2,
        "head_size": 8,
        "intermediate_size": 32,
        "mem_len": 8,
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


def test_a_files_characters_are_read_whole_and_a_run_that_was_killed_ends_the_same(
    tmp_path, monkeypatch
):
    path, settings = tmp_path / "text.txt", StreamSettings(TINY)
    path.write_text("abcded c" * 100)
    reading, killed = {"form": "stream"}, []

    def run(name):
        return pretrain(
            "tiny",
            lambda: new_language_model(TINY, characters()),
            settings,
            [str(path)],
            tmp_path / name,
            reading=reading,
            held_out=0.1,
            checkpoint_seconds=0,
        )

    through = run("through")
    assert through["tokens"] == 40 * 32
    # What follows a character can be learned, beside how often each occurs.
    assert through["after"]["held out loss"] < 0.7 * through["unigram loss"]
    trained = Keeper.on_train_batch_end

    def killing(keeper, batch, logs=None):
        trained(keeper, batch, logs)
        if keeper.progress.all_batches == 17 and not killed:
            killed.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(Keeper, "on_train_batch_end", killing)
    with pytest.raises(KeyboardInterrupt):
        run("stopped")
    assert run("stopped")["after"] == through["after"]
    wanted, found = (tensors_of(tmp_path / name / "model") for name in ("through", "stopped"))
    assert all(np.array_equal(value, found[name]) for name, value in wanted.items())
    # All of the file is one stream, of which the end is set aside.
    kept = bert_zoo.load(tmp_path / "through")
    ids = encode_file(path, kept.preprocessor.tokenizer)
    assert len(ids) == 800
    reading = Reading(8, 8, same_length=False, batch_size=4)
    metrics = evaluate(kept, ids[720:], reading)
    assert metrics["tokens"] == 79
    assert metrics["bits"] * math.log(2) == pytest.approx(through["after"]["held out loss"], 1e-5)


def test_a_vocabulary_below_the_clusters_is_refused():
    with pytest.raises(ValueError, match=r"6 tokens .*begin at \(20000, 40000, 200000\)"):
        new_language_model(LANGUAGE_MODEL_PRESETS["wt103_base"], characters())


def test_settings_change_the_reading_and_no_weights():
    model = load_recurrent("hf_adaptive")
    other = under_settings(model, mem_len=3, same_length=False)
    assert (other.encoder.config.mem_len, model.encoder.config.mem_len) == (3, 8)
    assert other.initial_memory(1)["memory"][0].shape == (1, 3, 16)
    for path, value in variables_of(model).items():
        assert np.array_equal(value, variables_of(other)[path]), path


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["one", "cpu:2"])
def test_the_command_lines_train_and_evaluate(strategy, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 200)

    def run(program: str, *options: str) -> str:
        command = [sys.executable, "-m", "bert_zoo", program, *options]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=tmp_path
        ).stdout

    trained = run(
        "pretrain", "--recipe", "characters_nano", "--text", str(text), "--steps", "40",
        "--batch_size", "4", "--length", "8", "--output_dir", "run", "--strategy", strategy,
    )  # fmt: skip
    assert "11 characters is made" in trained and "After: held out loss" in trained
    evaluated = run(
        "evaluate", "--model", "run/model", "--text_file", str(text), "--mem_len", "0,8",
        "--segment_length", "8", "--output_dir", "evaluation",
    )  # fmt: skip
    assert "perplexity" in evaluated
    figures = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
    assert set(figures) == {"0", "8"}
