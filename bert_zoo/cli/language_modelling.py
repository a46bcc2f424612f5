"""Training and evaluating recurrent language models on streams of text."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

import bert_zoo
from bert_zoo.cli.finetuning import CHECKPOINT, DIVERGED, draw, read_json, versions, write_json
from bert_zoo.cli.program import keras_verbosity
from bert_zoo.config import ConfigError
from bert_zoo.data.language_modelling import StreamBatches, segments
from bert_zoo.models import CausalLM, Encoder, StatefulLM
from bert_zoo.models.replicas import is_chief
from bert_zoo.models.task_model import under_settings
from bert_zoo.presets import LanguageModelPreset, Reading
from bert_zoo.registry import registry
from bert_zoo.training.distribution import present_strategy
from bert_zoo.training.divergence import StopAtDivergence
from bert_zoo.training.optimizers import language_model_adam
from bert_zoo.training.resume import restore, write_checkpoint
from bert_zoo.weights.files import remove_leftovers

HISTORY = "history.json"
# The relative gain in perplexity below which a longer context is of no use.
LEAST_GAIN = 0.01


# --- Models ---


def new_model(preset: LanguageModelPreset, preprocessor, dtype: str = "float32") -> CausalLM:
    """A model with randomly initialised weights that predicts the vocabulary of its preprocessor.

    Raises:
        ConfigError: the vocabulary is too small for the preset's clusters.
    """
    size = preprocessor.tokenizer.vocab_size
    cutoffs = preset.config.get("cutoffs", ())
    if any(cutoff >= size for cutoff in cutoffs):
        raise ConfigError(
            f"The vocabulary has {size:,} tokens and the preset's clusters begin at {cutoffs}. Name "
            "cutoffs that fit (`bert_zoo build_vocabulary` suggests some), or none."
        )
    family = registry().families[preset.family]
    config = family.config_class(vocab_size=size, **preset.config)
    return CausalLM(Encoder(config, family.name, preprocessor=preprocessor, dtype=dtype))


def fitted(preset: LanguageModelPreset, vocab_size: int) -> LanguageModelPreset:
    """The preset without the clusters that a vocabulary is too small for, which is said."""
    cutoffs = preset.config.get("cutoffs", ())
    kept = tuple(cutoff for cutoff in cutoffs if cutoff < vocab_size)
    if kept == cutoffs:
        return preset
    print(f"The vocabulary has {vocab_size:,} tokens: of the clusters that begin at {cutoffs}, "
          f"{kept or 'none'} are left.")  # fmt: skip
    config = {**preset.config, "cutoffs": kept}
    if "tie_projs" in config:
        config["tie_projs"] = config["tie_projs"][: len(kept) + 1]
    return replace(preset, config=config)


# --- Training ---


def history(directory: Path) -> list[dict[str, float]]:
    """What was measured in a run directory, a row each time; empty where it is none."""
    path = directory / HISTORY
    return read_json(path) if path.is_file() else []


class History(keras.callbacks.Callback):
    """Remembers metrics through stops, draws them, keeps the model that measures best, writes checkpoints.

    A checkpoint follows on what was measured at its step, so that one who goes on from it lacks nothing.
    Metrics from after `step`, of a run that was stopped, are forgotten: they are measured again. Of several
    workers one `writes`.
    """

    def __init__(self, model: CausalLM, directory: Path, step: int, writes: bool):
        super().__init__()
        self.kept = model
        self.writes = writes
        self.directory = directory
        self.step = step
        self.rows = [row for row in history(directory) if row["step"] <= step]

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1

    def on_epoch_end(self, epoch, logs=None):
        metrics = {name: float(value) for name, value in logs.items()}
        self.rows.append({"step": self.step, **metrics})
        if not self.writes:
            return
        write_json(self.directory / HISTORY, self.rows)
        draw_history({"": self.rows}, self.directory / "learning_curve.png")
        if metrics["val_bits"] == min(row["val_bits"] for row in self.rows):
            bert_zoo.save(self.kept, self.directory / "model")
        write_checkpoint(self.model, self.directory / CHECKPOINT, self.step)


def train(
    preset: LanguageModelPreset,
    model: CausalLM,
    train_ids: np.ndarray,
    valid_ids: np.ndarray,
    directory: Path,
    *,
    every: int,
    stop_at: int | None = None,
    strategy: Any = None,
) -> StatefulLM:
    """Trains a model, or goes on with a training that was stopped, and writes a run directory.

    The directory holds `config.json`, the newest checkpoint (`checkpoint`), `history.json` and
    `learning_curve.png` with the metrics at every measurement, and the model that measured best
    (`model`, a bert_zoo directory).

    Args:
        model: its weights are those of the checkpoint where there is one.
        train_ids, valid_ids: streams, int [tokens].
        every: steps between two measurements on `valid_ids`, with the memory of training, and
            checkpoints.
        stop_at: steps after which to stop, before the preset's end.
        strategy: what `bert_zoo.training.strategy` gives, under which the model was made; its replicas
            share the preset's batches. Of several workers one, the chief, writes the directory.

    Returns:
        The trained model, with its memory.
    """
    strategy = strategy or present_strategy()
    writes = is_chief(strategy)
    if writes:
        directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(directory)
        write_json(
            directory / "config.json",
            {
                "recipe": asdict(preset),
                "model": model.encoder.config.to_dict(),
                "parameters": model.count_params(),
                "versions": versions(),
            },
        )
    with strategy.scope():
        stateful = StatefulLM(model, preset.batch_size)
        stateful.compile(
            optimizer=language_model_adam(
                preset.learning_rate,
                total_steps=preset.total_steps,
                warmup_steps=preset.warmup_steps,
                floor=preset.floor,
                clip_norm=preset.clip_norm,
            )
        )
        step = restore(stateful, directory / CHECKPOINT)
    if step:
        print(f"Going on from step {step:,}.")
    size = (preset.batch_size, preset.segment_length)
    batches = StreamBatches(train_ids, *size)
    measured = History(model, directory, step, writes)
    callbacks = [
        StopAtDivergence(directory / DIVERGED, lambda *_: batches.at(measured.step)),
        measured,
    ]
    last = min(preset.total_steps, stop_at or preset.total_steps)
    for first, steps, measurements in stretches(step, last, every):
        done = first // every
        stateful.fit(
            batches.dataset(first),
            steps_per_epoch=steps,
            initial_epoch=done,
            epochs=done + measurements,
            validation_data=segments(valid_ids, *size),
            callbacks=callbacks,
            verbose=keras_verbosity() if writes else 0,
        )
    return stateful


def stretches(step: int, last: int, every: int) -> Iterator[tuple[int, int, int]]:
    """Cuts a training at the steps that are multiples of `every`, and at its last one.

    Keras's epochs, at whose ends it measures, all have the same number of steps.

    Yields:
        A step to begin at, steps to train before each measurement, and the number of these.
    """
    while step < last:
        steps = min(every - step % every, last - step)
        measurements = (last - step) // every if steps == every else 1
        yield step, steps, measurements
        step += steps * measurements


# --- Evaluation ---


def evaluate(
    model: CausalLM, token_ids: np.ndarray, reading: Reading, *, verbose: int | str = "auto"
) -> dict[str, float]:
    """How well a model predicts a stream, in a mean over all its tokens but the first.

    Args:
        model: with any settings; those of `reading` are taken.
        token_ids: int [tokens].

    Returns:
        `perplexity`; `bits` a token; `tokens` that were predicted; `seconds`.
    """
    stateful = StatefulLM(under_settings(model, **reading.settings), reading.batch_size)
    stateful.compile()
    start = time.perf_counter()
    metrics = stateful.evaluate(
        segments(token_ids, reading.batch_size, reading.segment_length),
        verbose=verbose,
        return_dict=True,
    )
    seconds = time.perf_counter() - start
    metrics = {name: float(metrics[name]) for name in ("perplexity", "bits")}
    return {**metrics, "tokens": len(token_ids) - 1, "seconds": round(seconds, 2)}


def losses_by_context(
    model: CausalLM,
    token_ids: np.ndarray,
    positions: np.ndarray,
    contexts: Sequence[int],
    batch_size: int = 16,
) -> np.ndarray:
    """Losses at the same positions of a stream, with ever longer contexts before them.

    Args:
        model: reads each context as one segment, with nothing before it.
        token_ids: int [tokens].
        positions: int [positions], of the tokens that are predicted; each at least the longest context.
        contexts: how many tokens precede them.

    Returns:
        float [contexts, positions], in nats.
    """
    model = under_settings(model, mem_len=0, same_length=False)
    losses = np.empty((len(contexts), len(positions)))
    for row, context in enumerate(contexts):
        windows = token_ids[positions[:, None] + np.arange(-context, 1)]
        labels = np.full((len(positions), context), -100, "int32")
        labels[:, -1] = windows[:, -1]
        inputs = {"token_ids": windows[:, :-1].astype("int32"), "labels": labels}
        outputs = model.predict(inputs, batch_size=batch_size, verbose=0)
        losses[row] = -outputs["log_probs"][:, -1]
    return losses


def relative_effective_context(
    losses: Mapping[str, np.ndarray], contexts: Sequence[int], *, hardest: float = 0.1
) -> dict[str, dict[str, Any]]:
    """How much context models make use of, relative to each other (Dai et al. 2019, appendix C).

    A model gains from a longer context where it predicts better with it than the best of all models
    did with the shorter one; gains count at the positions that are hardest for all of them. The effective context is the first one from which the next brings less than one per cent.

    Args:
        losses: name of a model -> its `losses_by_context`; all at the same positions.
        contexts: rising.
        hardest: part of the positions that counts.

    Returns:
        For each model `effective_context`, and `gains`: the relative gain in perplexity of each step
        from one context to the next.
    """
    best = np.minimum.reduce(list(losses.values()))
    count = max(1, round(hardest * best.shape[1]))
    results = {}
    for name, own in losses.items():
        gains = []
        for step in range(len(contexts) - 1):
            hard = np.argsort(-best[step])[:count]
            before = np.exp(np.minimum(best[step], own[step])[hard].mean())
            after = np.exp(np.minimum(best[step], own[step + 1])[hard].mean())
            gains.append(float((before - after) / before))
        enough = next((i for i, gain in enumerate(gains) if gain < LEAST_GAIN), len(gains))
        results[name] = {"effective_context": int(contexts[enough]), "gains": gains}
    return results


# --- Charts ---


def draw_history(runs: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """Draws bits a token by step, in training and on held-out text, of each run's history."""

    def plot(axes):
        for run, rows in runs.items():
            steps = [row["step"] for row in rows]
            (line,) = axes.plot(steps, [row["val_bits"] for row in rows], label=f"{run} held out")
            bits = [row["bits"] for row in rows]
            axes.plot(steps, bits, ":", color=line.get_color(), label=f"{run} training")
        axes.set(xlabel="step", ylabel="bits a token")

    draw(path, (6, 3.5), plot)


def draw_effective_context(
    losses: Mapping[str, np.ndarray],
    results: Mapping[str, Mapping[str, Any]],
    contexts: Sequence[int],
    path: Path,
) -> None:
    """Draws mean losses and relative gains by the length of the context."""

    def plot(loss_axes, gain_axes):
        for name, values in losses.items():
            (line,) = loss_axes.plot(contexts, values.mean(axis=1) / np.log(2), "o-", label=name)
            gain_axes.plot(contexts[1:], 100 * np.array(results[name]["gains"]), "o-", label=name)
            reach = results[name]["effective_context"]
            gain_axes.axvline(reach, color=line.get_color(), linestyle=":")
        loss_axes.set(title="all positions", xlabel="tokens of context", ylabel="bits a token")
        gain_axes.set(
            title="hardest positions; dotted: reach",
            xlabel="tokens of context",
            ylabel="relative gain in perplexity (%)",
        )

    draw(path, (9, 3.5), plot, columns=2)
