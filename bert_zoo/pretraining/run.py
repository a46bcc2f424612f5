"""Pretrains a model on text and writes a run directory."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import keras

import bert_zoo
from bert_zoo.data.rows import TooFewRows
from bert_zoo.loading.locating import RUN_CONFIG
from bert_zoo.loading.locating import RUN_METRICS as METRICS
from bert_zoo.loading.locating import RUN_MODEL as MODEL
from bert_zoo.models import CausalLM
from bert_zoo.models.replicas import is_chief
from bert_zoo.models.task_model import Use
from bert_zoo.pretraining.batches import NumberedBatches
from bert_zoo.pretraining.causal import (
    BidirectionalTraining,
    RowTraining,
    StreamSettings,
    StreamTraining,
)
from bert_zoo.pretraining.corpus import MASKED_ROWS, STREAM
from bert_zoo.pretraining.masked import (
    DenoisingTraining,
    MaskedRowTraining,
    MaskedSettings,
    MaskedTraining,
    RememberingTraining,
)
from bert_zoo.pretraining.measuring import Keeper, Progress, print_losses
from bert_zoo.pretraining.texts import Texts, read_documents, read_masked_rows, read_streams
from bert_zoo.tasks.bidirectional_lm import BidirectionalLM
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.text_to_text import TextToText
from bert_zoo.training.distribution import present_strategy
from bert_zoo.training.resume import notes_of, restore
from bert_zoo.training.runs import (
    CHECKPOINT,
    PROGRESS,
    TimeBudget,
    check_goes_on,
    finished_run,
    keras_verbosity,
    updates_of,
    versions,
)
from bert_zoo.weights.files import remove_leftovers, write_json

TOKENS, VOCABULARY = "tokens", "vocabulary"
# More batches than any training has.
ENDLESS = 1 << 20


@dataclass(frozen=True)
class FinishedRun:
    """A finished training, for its report."""

    name: str  # the model that was trained
    goes_on: bool  # whether `name` is a checkpoint, as `load` takes it
    use: Use
    config: Mapping[str, Any]  # the contents of `config.json`
    results: Mapping[str, Any]  # the contents of `metrics.json`
    directory: Path  # the run directory


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
    report: Callable[[FinishedRun], None] | None = None,
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
            characters or bytes reads from end to end. With "masked_rows" both were written by
            `bert_zoo create_pretraining_data`.
        held_out: share of the documents to measure on, or of a stream's tokens, or of the files of rows; 0
            keeps nothing out.
        seed: seed of randomly initialised weights, rows, masks and dropout.
        strategy: a strategy from `bert_zoo.training.strategy`. Of several workers, only the chief writes.
        report: writes the report of a finished run, such as `bert_zoo.cli.pretrain.write_report`.
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
    strategy = strategy or present_strategy()
    writes = is_chief(strategy)
    checkpoints = directory / CHECKPOINT
    if writes:
        directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(directory)
    keras.utils.set_random_seed(seed)
    with strategy.scope():
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
        kind, read = MaskedRowTraining, read_masked_rows(*texts, held_out)
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
    with strategy.scope():
        training, measured = _training(kind, model, settings, read, seed, least_batch_size)
    model, settings = training.model, training.settings

    def measure(all_texts: bool) -> dict[str, float]:
        return {
            f"{each.name} {metric}": value
            for each in (measured if all_texts else measured[:1])
            for metric, value in each.losses(model).items()
        }

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
    if (finished := finished_run(directory, config)) is not None:
        return finished
    notes = notes_of(checkpoints)
    if notes:
        check_goes_on(directory, config)
    elif writes:
        write_json(directory / RUN_CONFIG, config | {"versions": versions()})

    progress = Progress(**json.loads(notes[PROGRESS])) if notes else Progress()
    with strategy.scope():
        training.compile()
        restore(model, checkpoints)
    questions = training.questions(read.held_out)
    if notes:
        print(f"Resuming the training in {directory} from step {updates_of(model):,}.")
    else:
        progress.before = {**measure(True), "answers": training.answers(questions)}
        print_losses("Before", progress.before)

    for number in range(progress.phase, len(training.phases)):
        if number > progress.phase:
            progress.phase, progress.batches, progress.starts = number, 0, []
        until = sum(share for _, share in settings.phases[: number + 1])
        _train_phase(
            training,
            training.phases[number],
            progress,
            directory,
            min(until, 1.0),
            measure,
            every=checkpoint_seconds,
            writes=writes,
        )
    progress.before["after"] = training.answers(questions)
    copy_untrained()
    trained = training.trained()
    results = {
        "before": {n: v for n, v in progress.before.items() if n not in ("answers", "after")},
        "after": {n: v for n, v in progress.rows[-1].items() if n.endswith("loss") and n != "loss"},
        "measured": progress.rows,
        "unigram loss": measured[0].unigram_loss(training.counts) if measured else None,
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
    if writes:
        bert_zoo.save(trained, directory / MODEL)
        if report is not None:
            about = config | {"versions": versions()}
            report(FinishedRun(name, goes_on, training.use, about, results, directory))
        write_json(directory / METRICS, results)
        shutil.rmtree(directory / CHECKPOINT)
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


def _train_phase(
    training: MaskedTraining | StreamTraining,
    batches: NumberedBatches,
    progress: Progress,
    directory: Path,
    until: float,
    measure: Callable[[bool], dict[str, float]],
    *,
    every: float,
    writes: bool,
) -> None:
    """Trains up to a share of the whole training, and writes a checkpoint."""
    model, settings = training.model, training.settings
    recipe, callbacks = settings.recipe, []
    if settings.seconds:
        budget = TimeBudget(
            recipe.learning_rate,
            settings.seconds,
            warmup_proportion=recipe.warmup_proportion,
            used=progress.seconds,
            until=until,
        )
        callbacks.append(budget)
        left = 0 if budget.share >= until else ENDLESS

        def share() -> float:
            return budget.share
    else:
        per_update = settings.batches_per_update
        all_batches = recipe.total_steps * per_update
        end = round(recipe.total_steps * until) * per_update
        left = end - progress.all_batches

        def share() -> float:
            return progress.all_batches / all_batches

    if progress.starts:
        batches.starts = progress.starts
    end = progress.batches + left
    keeping = {"measurements": settings.measurements, "every": every, "writes": writes}
    keeper = Keeper(progress, directory, batches, end, share, measure, **keeping)
    keeper.set_model(model)
    if left > 0:
        # A new graph for this phase's shapes. A graph that has met another length is retraced for any length,
        # and its last bits differ from those of a training that resumes in this phase.
        model.make_train_function(force=True)
        model.fit(
            batches.dataset(progress.batches, end),
            callbacks=[*callbacks, keeper],
            shuffle=False,
            # With a time budget the number of batches is unknown.
            verbose=keras_verbosity() if writes and not settings.seconds else 0,
        )
    # Not a second time if the run was stopped just before its end.
    if until >= 1 and (not progress.rows or progress.rows[-1]["step"] < updates_of(model)):
        keeper.write_row(at_end=True)
    keeper.save()
