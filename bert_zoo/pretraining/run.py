"""Pretrains a model on text and writes a run directory."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
from keras import ops

import bert_zoo
from bert_zoo.data.rows import TooFewRows
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.loading.locating import RUN_MODEL
from bert_zoo.models import CausalLM
from bert_zoo.models.task_model import Use
from bert_zoo.pretraining.batches import MaskedRows, NumberedBatches
from bert_zoo.pretraining.causal import (
    BidirectionalTraining,
    RowTraining,
    StreamSettings,
    StreamTraining,
)
from bert_zoo.pretraining.corpus import (
    MASKED_ROWS,
    STREAM,
    TOKEN_SHARDS,
    Corpus,
    CorpusCounts,
    ParallelLines,
    files_of,
    reading_in_turn,
)
from bert_zoo.pretraining.masked import (
    DenoisingTraining,
    MaskedRowTraining,
    MaskedSettings,
    MaskedTraining,
    RememberingTraining,
)
from bert_zoo.pretraining.streams import MISFIT, FileStream, StreamPart, misfit
from bert_zoo.pretraining.tokens import AnyText, TokenizedText, TokenShards, shards_of, write_tokens
from bert_zoo.tasks.bidirectional_lm import BidirectionalLM
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.text_to_text import TextToText
from bert_zoo.training.optimizers import AveragedSGD
from bert_zoo.training.runs import (
    CHECKPOINT,
    Run,
    TimeBudget,
    keras_verbosity,
    restore,
    updates_of,
    versions,
)

TOKENS, VOCABULARY = "tokens", "vocabulary"
# More batches than any training has.
ENDLESS = 1 << 20


@dataclass
class StepProgress:
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

    @property
    def step(self) -> int:
        return self.all_batches


class PretrainingRun(Run):
    """A pretraining: its phases, counts and measurements.

    It counts, measures and writes checkpoints after every execution of the backend: one batch, or several with
    `steps_per_execution`.

    Args:
        name: the model that training starts from.
        goes_on: whether `name` is a checkpoint, as `load` takes it.
    """

    progress: StepProgress
    training: MaskedTraining | StreamTraining
    texts: Sequence[Any]  # measured, the held-out text first
    results: dict[str, Any]  # of the finished training, for its report

    def __init__(self, name: str, goes_on: bool, directory: Path, **options: Any):
        super().__init__(directory, StepProgress(), **options)
        self.name, self.goes_on = name, goes_on

    @property
    def use(self) -> Use:
        return self.training.use

    def train(self) -> None:
        """Trains in all phases that are left."""
        progress, phases = self.progress, self.training.phases
        for number in range(progress.phase, len(phases)):
            if number > progress.phase:
                progress.phase, progress.batches, progress.starts = number, 0, []
            until = sum(share for _, share in self.training.settings.phases[: number + 1])
            self.train_phase(phases[number], min(until, 1.0))

    def train_phase(self, batches: NumberedBatches, until: float) -> None:
        """Trains up to a share of the whole training, and writes a checkpoint."""
        progress, settings, callbacks = self.progress, self.training.settings, []
        recipe = settings.recipe
        if settings.seconds:
            budget = TimeBudget(
                recipe.learning_rate,
                settings.seconds,
                warmup_proportion=recipe.warmup_proportion,
                used=progress.seconds,
                until=until,
            )
            callbacks.append(budget)
            self.share = lambda: budget.share
            left = 0 if budget.share >= until else ENDLESS
        else:
            per_update = settings.batches_per_update
            all_batches = recipe.total_steps * per_update
            self.share = lambda: progress.all_batches / all_batches
            left = round(recipe.total_steps * until) * per_update - progress.all_batches
        if progress.starts:
            batches.starts = progress.starts
        self.batches, self.end = batches, progress.batches + left
        self.board = None
        if self.writes and has_tensorflow and importlib.util.find_spec("tensorboard") is not None:
            self.board = tf.summary.create_file_writer(str(self.directory / "tensorboard"))
        if left > 0:
            # A new graph for this phase's shapes. A graph that has met another length is retraced for any length,
            # and its last bits differ from those of a training that resumes in this phase.
            self.model.make_train_function(force=True)
            self.model.fit(
                batches.dataset(progress.batches, self.end),
                callbacks=[*callbacks, self],
                shuffle=False,
                # With a time budget the number of batches is unknown.
                verbose=keras_verbosity() if self.writes and not settings.seconds else 0,
            )
        # Not a second time if the run was stopped just before its end.
        if until >= 1 and (not progress.rows or progress.rows[-1]["step"] < updates_of(self.model)):
            self.write_row(all_texts=True)
        self.save()

    def on_train_begin(self, logs=None):
        super().on_train_begin()
        self._now, self._step_start = self.saved_at, None

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
            raise self.diverged(loss, where)
        progress.loss += loss * trained
        progress.losses += trained
        share, number = self.share(), self.training.settings.measurements
        if share < 1 and int(share * number) > int(progress.measured_at * number):
            self.write_row()
            # Measuring uses part of a time budget, too.
            progress.measured_at = self.share()
        self.save_if_due()
        self._step_start = time.monotonic()

    def measure(self, all_texts: bool) -> dict[str, float]:
        """Metrics by name, for all texts or only for the held-out text."""
        return {
            f"{each.name} {metric}": value
            for each in (self.texts if all_texts else self.texts[:1])
            for metric, value in self.training.losses(each).items()
        }

    def write_row(self, all_texts: bool = False) -> None:
        """Measures, and records the result with the mean training loss since the last measurement."""
        progress = self.progress
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        row = {"step": updates_of(self.model), "seconds": progress.seconds, "rate": rate}
        if progress.losses:
            row["loss"] = progress.loss / progress.losses
        measured = self.measure(all_texts)
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
        super().save()


def pretrain(
    name: str,
    make_model: Callable[[], ObjectiveModel | CausalLM | BidirectionalLM | TextToText],
    settings: MaskedSettings | StreamSettings,
    text: Sequence[str] | str,
    directory: Path,
    *,
    goes_on: bool = False,
    general_text: Sequence[str] | str | None = None,
    reading: Mapping[str, Any] | None = None,
    held_out: float = 0.05,
    seed: int = 0,
    checkpoint_seconds: float = 300.0,
    strategy: Any = None,
    report: Callable[[PretrainingRun], None] | None = None,
    kind: type[MaskedTraining] | None = None,
    least_batch_size: int | None = None,
) -> dict[str, Any]:
    """Pretrains a model, or resumes a stopped pretraining, and writes a run directory.

    A resumed training has the same batches, masks, random numbers and optimizer state. If its length is a number
    of updates, the final weights equal those without the stop, bit for bit. With a time budget they do not, because
    learning rates then follow the clock.

    The directory holds `config.json`, the text's tokens (`tokens`), `metrics.json`, the model (`model`, a
    bert_zoo directory that `load` takes for every task) and, for TensorBoard, `tensorboard`.

    Args:
        name: the model that training starts from, for the report.
        make_model: returns the model; called under the strategy.
        text: paths as for `Corpus`; with languages in the settings, one file per language.
        goes_on: whether `name` is a checkpoint, as `load` takes it, for the model card.
        general_text: text of other kinds, on which the loss is also measured.
        reading: options of `Corpus` for `text`, such as `form` and `encoding`; they do not apply to
            `general_text`. With the form "stream" both texts are whole files, which a language model of words,
            characters or bytes reads from end to end. With "masked_rows" or "tokens" both were written by
            `bert_zoo create_pretraining_data`.
        held_out: share of the documents to measure on, or of a stream's tokens, or of the files or folders that
            create_pretraining_data wrote; 0 keeps nothing out.
        seed: seed of randomly initialised weights, rows, masks and dropout.
        strategy: a strategy from `bert_zoo.training.strategy`. Of several workers, only the chief writes.
        report: writes the report of a finished run, such as `bert_zoo.cli.report.write_pretraining_report`.
        kind: the class that trains the model; by default chosen by the model and settings.
        least_batch_size: number of rows to which the batch size may be halved if the text has fewer rows than a
            batch; None to raise an error then.

    Returns the contents of `metrics.json`.

    Raises:
        ValueError: the directory holds a run with other settings or text, or the text is too short.
        TrainingDiverged: the loss is not finite.
    """
    if not (settings.seconds or settings.recipe.total_steps):
        raise ValueError(
            "The length of the training is missing. Set seconds, or total_steps of the recipe."
        )
    options = {"strategy": strategy, "checkpoint_seconds": checkpoint_seconds}
    run = PretrainingRun(name, goes_on, directory, **options)
    scope = run.strategy.scope
    keras.utils.set_random_seed(seed)
    with scope():
        model = make_model()
    copy_untrained = model.encoder.backbone.untrained_copies()
    preprocessor, reading, texts = model.preprocessor, dict(reading or {}), (text, general_text)
    if isinstance(model, BidirectionalLM):
        kind = BidirectionalTraining
    elif isinstance(settings, StreamSettings):
        kind = StreamTraining if model.always_gives_state else RowTraining
    elif isinstance(model, TextToText):
        kind = DenoisingTraining
    elif kind is None:
        kind = RememberingTraining if settings.goes_on else MaskedTraining
    if reading.get("form") == MASKED_ROWS:
        kind, read = MaskedRowTraining, read_written(*texts, held_out, files_of, MaskedRows)
    elif reading.get("form") == TOKEN_SHARDS:
        opened = partial(TokenShards, tokenizer=preprocessor.tokenizer, reads=kind.reads)
        read = read_written(*texts, held_out, lambda text: shards_of(files_of(text)), opened)
    elif reading.get("form") == STREAM:
        read = read_streams(*texts, held_out, preprocessor, directory / TOKENS)
    else:
        read = read_documents(
            *texts,
            held_out,
            preprocessor,
            directory / TOKENS,
            reading=reading,
            languages=getattr(settings, "languages", ()),
            as_tokenized=kind.as_tokenized,
        )
    with scope():
        training, run.texts = _training(kind, model, settings, read, seed, least_batch_size)
    run.training, model, settings = training, training.model, training.settings
    run.set_model(model)
    config = {
        "model": name,
        **training.about(),
        "seconds": settings.seconds,
        "seed": seed,
        "examples": [read.trained_on.summary],
        "recipe": asdict(settings.recipe),
        "data": {
            "text": text,
            **reading,
            "general_text": general_text,
            "held_out": held_out,
        },
    }
    if (finished := run.begin(config, {"versions": versions()})) is not None:
        return finished
    with scope():
        training.compile()
        restore(model, directory / CHECKPOINT)
    questions, progress = training.questions(read.held_out), run.progress
    if run.resumes:
        print(f"Resuming the training in {directory} from step {updates_of(model):,}.")
    else:
        progress.before = {**run.measure(all_texts=True), "answers": training.answers(questions)}
        print_losses("Before", progress.before)
    run.train()
    progress.before["after"] = training.answers(questions)
    copy_untrained()
    trained = training.trained()
    compared = run.texts[:1] if training.compares_with_unigrams else ()
    results = {
        "before": {n: v for n, v in progress.before.items() if n not in ("answers", "after")},
        "after": {n: v for n, v in progress.rows[-1].items() if n.endswith("loss") and n != "loss"},
        "measured": progress.rows,
        "unigram loss": next((training.unigram_loss(each) for each in compared), None),
        "sentences": [
            {"text": text, "word": word, "before": before, "after": after}
            for (text, word), before, after in zip(
                questions, progress.before["answers"], progress.before["after"], strict=True
            )
        ],
        "steps": updates_of(model),
        "seconds": round(progress.seconds, 1),
        "tokens": round(progress.tokens),
        "tokens_per_second": progress.busy_tokens / max(progress.busy, 1e-9),
        "parameters": trained.count_params(),
    }
    print_losses("After", results["after"])
    if run.writes:
        bert_zoo.save(trained, directory / RUN_MODEL)
        run.results = results
        if report is not None:
            report(run)
        run.finish(results)
    return results


def _training(
    kind: type,
    model: Any,
    settings: MaskedSettings | StreamSettings,
    texts: Texts,
    seed: int,
    least_batch_size: int | None,
) -> tuple[Any, list[Any]]:
    """The training and what it measures, with smaller batches if they are allowed and the texts need it."""
    wanted = settings.recipe.batch_size
    while True:
        try:
            training = kind(model, settings, texts.trained_on, seed)
            measured = [training.held_out(name, each) for name, each in texts.measured.items()]
            break
        except TooFewRows:
            rows = settings.recipe.batch_size // 2
            parts = getattr(settings.recipe, "gradient_accumulation_steps", 1)
            if least_batch_size is None or rows < max(least_batch_size, parts) or rows % parts:
                raise
            settings = replace(settings, recipe=replace(settings.recipe, batch_size=rows))
    if settings.recipe.batch_size != wanted:
        print(
            f"The text is too short for batches of {wanted} rows, so they have {settings.recipe.batch_size}."
        )
    return training, measured


def print_losses(when: str, losses: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{n} {v:.4f}" for n, v in losses.items() if isinstance(v, float))
    if shown:
        print(f"{when}: {shown}")


# --- The texts to train on and to evaluate on ---

Text = AnyText | StreamPart | MaskedRows
HELD_OUT, GENERAL = "held out", "general text"


class Texts(NamedTuple):
    trained_on: Text
    measured: dict[str, Text]  # name -> text to evaluate on
    held_out: Corpus | None = None  # the documents that are set aside


def read_documents(
    text: Sequence[str] | str,
    general_text: Sequence[str] | str | None,
    held_out: float,
    preprocessor: Any,
    directory: Path,
    *,
    reading: Mapping[str, Any],
    languages: Sequence[str] = (),
    as_tokenized: Callable[[Sequence[str], Any], Sequence[str]],
) -> Texts:
    """Reads documents, tokenizes them once into a directory, and sets some aside by their content.

    Args:
        languages: languages of a text with one file per language.
        as_tokenized: (sentences of a document, tokenizer) -> texts to tokenize.
    """
    source, reader, tokenizer = text, preprocessor, preprocessor.tokenizer
    if languages:
        source, reader = ParallelLines(text, languages), reading_in_turn(preprocessor, languages)
    corpus = partial(Corpus, drop_duplicates=("documents",))

    def tokens_of(corpus: Corpus, where: str) -> TokenizedText:
        try:
            tokens = write_tokens(
                corpus,
                reader,
                directory / where,
                rewritten=partial(as_tokenized, tokenizer=tokenizer),
            )
        except MISFIT as error:
            raise misfit("The text", error) from error
        except ValueError:
            if corpus.counts.documents or not corpus.counts.other_part:
                raise
            raise ValueError(
                f"None of {corpus.counts.other_part:,} documents belongs to the part {corpus.part!r}. Check "
                "that blank lines separate documents (or that each line is one), or change --held_out, the "
                "share to set aside (0 for none)."
            ) from None
        counts = CorpusCounts(**tokens.index["corpus"])
        name = corpus.part.replace("_", " ").capitalize()
        print(f"{name}: {counts}; {tokens.num_tokens:,} tokens.")
        return tokens

    documents = corpus(source, held_out=held_out, part="train", **reading)
    trained_on = tokens_of(documents, "train")
    if documents.division:
        print(documents.division)
    corpora = {}
    if held_out:
        corpora[HELD_OUT] = corpus(source, held_out=held_out, part="held_out", **reading)
    if general_text is not None:
        corpora[GENERAL] = corpus(general_text)
    measured = {name: tokens_of(each, name.replace(" ", "_")) for name, each in corpora.items()}
    return Texts(trained_on, measured, corpora.get(HELD_OUT))


def read_streams(
    text: Sequence[str] | str,
    general_text: Sequence[str] | str | None,
    held_out: float,
    preprocessor: Any,
    directory: Path,
) -> Texts:
    """Reads whole files as one stream, and sets its end aside."""

    def tokens_of(source: Any, where: str) -> TokenizedText:
        files = files_of(source)
        try:
            return write_tokens(
                FileStream(files, preprocessor.tokenizer), preprocessor, directory / where
            )
        except MISFIT as error:
            raise misfit(", ".join(map(str, files)), error) from error

    whole = tokens_of(text, "train")
    end = math.ceil(whole.num_tokens * (1 - held_out))
    measured: dict[str, Text] = {}
    if held_out:
        measured[HELD_OUT] = StreamPart(whole, end, whole.num_tokens)
    if general_text is not None:
        measured[GENERAL] = tokens_of(general_text, GENERAL.replace(" ", "_"))
    return Texts(StreamPart(whole, 0, end), measured)


def read_written(
    text: Any, general_text: Any, held_out: float, found: Callable, opened: Callable
) -> Texts:
    """Reads what `bert_zoo create_pretraining_data` has written: `opened` reads the files that are `found` for a text.

    Whole files are set aside, as a document is in one: a share of them, rounded, but at least one; none for 0.
    """
    files = found(text)
    number = max(1, round(len(files) * held_out)) if held_out else 0
    if number >= len(files):
        raise ValueError(
            f"Holding out a share of {held_out} leaves none of {len(files)} files to train on. Choose --held_out 0, "
            "or write more files (--num_shards)."
        )
    end = len(files) - number
    measured = {HELD_OUT: opened(files[end:])} if number else {}
    if general_text is not None:
        measured[GENERAL] = opened(found(general_text))
    return Texts(opened(files[:end]), measured)
