"""The progress of a pretraining, and its measurements: held-out losses, predictions of masked words."""

import importlib.util
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.pretraining.batches import MaskedRowBatches, NumberedBatches, PretrainingBatches
from bert_zoo.pretraining.tokens import ids_of
from bert_zoo.tasks.objectives import Draws
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.training.optimizers import AveragedSGD
from bert_zoo.training.resume import write_checkpoint
from bert_zoo.training.runs import CHECKPOINT, PROGRESS, diverged, updates_of


@dataclass
class Progress:
    """The progress of a training, saved in its checkpoints."""

    phase: int = 0
    batches: int = 0  # in the current phase
    all_batches: int = 0  # in all phases
    seconds: float = 0.0  # over all calls of the program, including measuring and writing
    busy: float = 0.0  # the seconds spent in training steps, without the first step of each call
    busy_tokens: float = 0.0  # of the steps that `busy` counts
    tokens: float = 0.0  # trained on, including special tokens but not padding
    loss: float = 0.0  # sum of the batch losses since the last measurement
    losses: int = 0  # their number
    starts: list[int] = field(default_factory=list)  # of the phase's `PretrainingBatches`
    measured_at: float = 0.0  # completed share of the training at the last measurement
    rows: list[dict[str, float]] = field(default_factory=list)  # the measurements so far
    # Losses and example predictions before the first batch.
    before: dict[str, Any] = field(default_factory=dict)


class Keeper(keras.callbacks.Callback):
    """Counts, measures, writes checkpoints, and stops a training whose loss is not finite.

    This happens after every execution of the backend: one batch, or several with `steps_per_execution`.

    Args:
        end: index of the last batch of this `fit`, plus one.
        share: returns the completed share of the whole training.
        measure: returns measurements by name, for all texts or only for the held-out text.
        measurements: number of measurements on the held-out text.
        every: seconds between checkpoints.
        writes: whether to write files. Only one of several workers does.
    """

    def __init__(
        self,
        progress: Progress,
        directory: Path,
        batches: NumberedBatches,
        end: int,
        share: Callable[[], float],
        measure: Callable[[bool], dict[str, float]],
        *,
        measurements: int,
        every: float,
        writes: bool,
    ):
        super().__init__()
        self.progress, self.directory, self.batches = progress, directory, batches
        self.end, self.share, self.measure = end, share, measure
        self.measurements, self.every, self.writes = measurements, every, writes
        self._now = self._saved = time.monotonic()
        self._step_start: float | None = None
        self.board = None
        if writes and has_tensorflow and importlib.util.find_spec("tensorboard") is not None:
            self.board = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def on_train_begin(self, logs=None):
        self._now = self._saved = time.monotonic()

    def on_train_batch_begin(self, batch, logs=None):
        # `fit` then logs the loss of one execution, not the mean since its start.
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        progress, loss = self.progress, float(logs["loss"])
        # The last execution may have fewer batches.
        trained = min(self.model.steps_per_execution, self.end - progress.batches)
        progress.batches += trained
        progress.all_batches += trained
        tokens = trained * self.batches.tokens
        progress.tokens += tokens
        now = time.monotonic()
        progress.seconds += now - self._now
        if self._step_start is not None:
            progress.busy += now - self._step_start
            progress.busy_tokens += tokens
        self._now = now
        if not math.isfinite(loss):
            where = f"at step {updates_of(self.model):,}, batch {progress.all_batches:,}"
            if trained > 1:
                where += f" or one of the {trained - 1} before"
            raise diverged(self.model, loss, where)
        progress.loss += loss * trained
        progress.losses += trained
        share, number = self.share(), self.measurements
        if share < 1 and int(share * number) > int(progress.measured_at * number):
            self.write_row()
            # Measuring uses part of a time budget, too.
            progress.measured_at = self.share()
        if now - self._saved >= self.every:
            self.save()
        self._step_start = time.monotonic()

    def write_row(self, at_end: bool = False) -> None:
        """Measures, and records the result with the mean training loss since the last measurement."""
        progress = self.progress
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        row = {"step": updates_of(self.model), "seconds": progress.seconds, "rate": rate}
        if progress.losses:
            row["loss"] = progress.loss / progress.losses
        measured = self.measure(at_end)
        row |= measured
        progress.loss, progress.losses = 0.0, 0
        progress.rows.append(row)
        # In float16 the optimizer is wrapped in another.
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if measured and isinstance(optimizer, AveragedSGD):
            name = next(iter(measured))
            optimizer.average_if_stalled([each[name] for each in progress.rows])
        if self.writes:
            losses = {name: value for name, value in row.items() if name.endswith("loss")}
            print_losses(f"Step {row['step']:,}", losses)
        if self.board:
            with self.board.as_default(step=row["step"]):
                for name, value in row.items():
                    if name != "step":
                        tf.summary.scalar(name, value)
            self.board.flush()

    def save(self) -> None:
        self.progress.starts = [*self.batches.starts]
        if self.writes:
            write_checkpoint(
                self.model,
                self.directory / CHECKPOINT,
                self.progress.all_batches,
                {PROGRESS: json.dumps(asdict(self.progress))},
            )
        self._saved = time.monotonic()


def print_losses(when: str, losses: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{n} {v:.4f}" for n, v in losses.items() if isinstance(v, float))
    if shown:
        print(f"{when}: {shown}")


# Rows of held-out text, which no training has: their seed is another one.
MEASURED_ROWS, MEASURED_SEED = 256, 1 << 30
# Sentences whose masks are filled before and after; those that are looked at; words of a sentence.
SHOWN, LOOKED_AT, SHOWN_WORDS = 6, 2_000, range(6, 25)


@dataclass
class HeldOut:
    """Text kept out of training to measure the loss, with the same rows and masks every time."""

    name: str
    batches: PretrainingBatches | MaskedRowBatches
    count: int  # of the batches

    def losses(self, model: ObjectiveModel) -> dict[str, float]:
        """The total loss and, with several objectives, the loss of each."""
        data = self.batches.dataset(0, self.count)
        metrics = model.evaluate(data, return_dict=True, verbose=0)
        return {name: float(value) for name, value in metrics.items() if name.endswith("loss")}

    def unigram_loss(self, counts: np.ndarray) -> float:
        """Loss of a unigram model with the training text's counts, int [vocabulary].

        It is measured on masked tokens or a decoder's targets.
        """
        labels = [self.batches.at(number)[1] for number in range(self.count)]
        labels = [rows["mlm_logits"] if isinstance(rows, dict) else rows for rows in labels]
        tokens = np.concatenate([rows[rows != IGNORED_LABEL] for rows in labels])
        # Special tokens, which the text does not hold, are asked for too by RoBERTa's objective; of them,
        # and of words that are new, it knows how often they are.
        asked = np.bincount(tokens, minlength=len(counts))
        known = asked[counts > 0].sum()
        counts = np.where(counts > 0, counts, asked * counts.sum() / max(known, 1))
        return float(-log_frequencies(counts)[tokens].mean())


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """The logarithm of each token's relative frequency, with one added to every count."""
    return np.log(counts + 1.0) - np.log(counts.sum() + len(counts))


def masked_sentences(documents: Iterator[Sequence[str]], preprocessor) -> list[tuple[str, str]]:
    """A few sentences with one word masked, and that word, chosen by a fixed seed.

    Each word has at least four letters and is a single token. Each sentence fits into a row.
    """
    tokenizer = preprocessor.tokenizer
    most = preprocessor.sequence_length - preprocessor.packer.layout.specials(1)
    sentences = []
    for document in documents:
        sentences += [s for s in document if len(s.split()) in SHOWN_WORDS]
        if len(sentences) >= LOOKED_AT:
            break
    mask = tokenizer.id_to_token(tokenizer.mask_id)
    order = np.argsort(Draws(0, 0, np.arange(len(sentences))).uniform("sentence"), kind="stable")
    found: list[tuple[str, str]] = []
    for number in order:
        words = sentences[number].split()
        places = [p for p, w in enumerate(words) if p and len(w) > 3 and w.isalpha()]
        if places:
            found_ids = ids_of(tokenizer, [f" {words[p]}" for p in places])
            places = [p for p, ids in zip(places, found_ids, strict=True) if len(ids) == 1]
        if not places or mask in sentences[number]:
            continue
        if len(*ids_of(tokenizer, [sentences[number]])) > most:
            continue
        place = places[int(Draws(0, 1, [number]).integers("word", len(places), 1)[0, 0])]
        text = " ".join([*words[:place], mask, *words[place + 1 :]])
        found.append((text, words[place]))
        if len(found) == SHOWN:
            break
    return found


def answers(model: ObjectiveModel, sentences: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
    """The three most likely words at the mask of each sentence, with their probabilities."""
    return [
        [[c.token, c.score] for c in model.fill_mask(text, top_k=3)[0]] for text, _ in sentences
    ]
