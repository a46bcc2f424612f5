"""A pretraining: a model and text go in, a run directory comes out."""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import keras

import bert_zoo
from bert_zoo.cards import Card
from bert_zoo.cli.finetuning import (
    CHECKPOINT,
    CONFIG,
    METRICS,
    MODEL,
    card_of,
    check_same_run,
    draw,
    read_json,
    updates_of,
    versions,
    write_json,
)
from bert_zoo.cli.pretraining.masked import MaskedTraining, Settings
from bert_zoo.cli.pretraining.progress import PROGRESS, Keeper, Progress, print_losses
from bert_zoo.cli.pretraining.remembering import RememberingTraining
from bert_zoo.cli.pretraining.streams import RowTraining, StreamSettings, StreamTraining
from bert_zoo.cli.pretraining.text import tokenized
from bert_zoo.cli.program import keras_verbosity
from bert_zoo.cli.report import PretrainingRecord, write_report
from bert_zoo.data.corpus import Corpus
from bert_zoo.data.language_modelling import StreamBatches
from bert_zoo.data.token_shards import TokenShards
from bert_zoo.data.translations import ParallelLines, reading_in_turn
from bert_zoo.models import CausalLM
from bert_zoo.models.replicas import is_chief
from bert_zoo.models.task_model import Use
from bert_zoo.tasks.objectives import ObjectiveModel
from bert_zoo.training.budget import TimeBudget
from bert_zoo.training.distribution import present_strategy
from bert_zoo.training.pretraining_batches import PretrainingBatches
from bert_zoo.training.resume import notes_of, restore
from bert_zoo.weights.files import remove_leftovers

TOKENS, VOCABULARY, CURVE = "tokens", "vocabulary", "learning_curve.png"
# More batches than there are.
ENDLESS = 1 << 20


def pretrain(
    name: str,
    make_model: Callable[[], ObjectiveModel | CausalLM],
    settings: Settings | StreamSettings,
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
) -> dict[str, Any]:
    """Pretrains a model, or goes on with a pretraining that was stopped, and writes a run directory.

    Going on means the same batches with the same masks, random numbers and state of the optimizer: of a
    training of so many updates, weights are equal to the last bit to those of one that was not stopped.
    With a budget of time learning rates go by the clock, and are not.

    The directory holds `config.json`, the text's tokens (`tokens`), `metrics.json`, the model (`model`, a
    bert_zoo directory that `load` takes for every task, with a card), `report.html`, `learning_curve.png` and, for
    TensorBoard, `tensorboard`.

    Args:
        name: what it begins with, for the report.
        make_model: makes the model, under the strategy.
        settings: how to train.
        text: what `Corpus` takes; or with languages in the settings, a file for each.
        directory: made if it does not exist.
        goes_on: whether `name` is that of a checkpoint, as `load` takes it, for the model card.
        general_text: text of other kinds, on which the loss is measured too.
        reading: options of `Corpus` for `text`, `form` and `encoding`; `general_text` has none.
        held_out: share of the documents to measure on; 0 measures nothing.
        seed: of randomly initialised weights, rows, masks and dropout.
        checkpoint_seconds: from one checkpoint to the next.
        strategy: what `bert_zoo.training.strategy` gives. Of several workers one, the chief, writes.

    Returns:
        What `metrics.json` holds.

    Raises:
        ValueError: the directory holds a run of other settings or text, or the text is too short.
        TrainingDiverged: the loss is infinite or no number; the batch is in `diverged_batch.npz`.
    """
    if not (settings.seconds or settings.recipe.total_steps):
        raise ValueError("Say how long to train: seconds, or total_steps of the recipe.")
    strategy = strategy or present_strategy()
    writes = is_chief(strategy)
    recipe, checkpoints = settings.recipe, directory / CHECKPOINT
    if writes:
        remove_leftovers(directory)
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        model = make_model()
    preprocessor = model.preprocessor
    kind = RememberingTraining if getattr(settings, "goes_on", False) else MaskedTraining
    if isinstance(settings, StreamSettings):
        kind = StreamTraining if model.always_gives_state else RowTraining
    languages = getattr(settings, "languages", ())
    source, reader = text, preprocessor
    if languages:
        source, reader = ParallelLines(text, languages), reading_in_turn(preprocessor, languages)
    part_of = partial(
        Corpus, source, held_out=held_out, drop_duplicates=("documents",), **(reading or {})
    )

    def tokens_of(corpus: Corpus, where: str) -> TokenShards:
        documents = kind.documents(corpus, preprocessor.tokenizer)
        return tokenized(corpus, documents, reader, directory / TOKENS / where)

    shards = tokens_of(part_of(part="train"), "train")
    with strategy.scope():
        training = kind(model, settings, shards, seed)
    model = training.model
    texts = {}
    if held_out:
        texts["held out"] = part_of(part="held_out")
    if general_text is not None:
        texts["general text"] = Corpus(general_text, drop_duplicates=("documents",))
    measured = [
        training.held_out(what, tokens_of(corpus, what.replace(" ", "_")))
        for what, corpus in texts.items()
    ]

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
        "examples": shards.index["shards"],
        "recipe": asdict(recipe),
        "data": {
            "text": text,
            **(reading or {}),
            "general_text": general_text,
            "held_out": held_out,
        },
    }
    notes = notes_of(checkpoints)
    if notes:
        check_same_run(
            directory,
            config,
            "a training that was stopped",
            f"Go on with the same ones, name another directory, or delete {checkpoints}.",
        )
    elif (directory / METRICS).is_file():
        advice = "Name another directory (--output_dir), or delete it."
        check_same_run(directory, config, "a finished run", advice)
        print(f"The run in {directory} is finished; nothing is trained again.")
        return read_json(directory / METRICS)
    elif writes:
        write_json(directory / CONFIG, config | {"versions": versions()})

    progress = Progress(**json.loads(notes[PROGRESS])) if notes else Progress()
    with strategy.scope():
        training.compile()
        restore(model, checkpoints)
    questions = training.questions(texts.get("held out"))
    if notes:
        print(f"Going on from step {updates_of(model):,} with the training in {directory}.")
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
    trained = training.trained()
    results = {
        "before": {n: v for n, v in progress.before.items() if n not in ("answers", "after")},
        "after": {n: v for n, v in progress.rows[-1].items() if n.endswith("loss") and n != "loss"},
        "measured": progress.rows,
        "unigram loss": measured[0].unigram_loss(shards.counts) if held_out else None,
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
        base = card_of(name) if goes_on else None
        about = config | {"versions": versions()}
        _write_results(name, trained, training.use, base, about, results, directory)
    return results


def _train_phase(
    training: MaskedTraining | StreamTraining,
    batches: PretrainingBatches | StreamBatches,
    progress: Progress,
    directory: Path,
    until: float,
    measure: Callable[[bool], dict[str, float]],
    *,
    every: float,
    writes: bool,
) -> None:
    """Trains up to a part of the whole training, and leaves a checkpoint behind."""
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
    keeper = Keeper(progress, directory, batches, end, share, measure, every=every, writes=writes)
    keeper.set_model(model)
    if left > 0:
        # A graph for this phase's shapes alone. One that has met another length is traced for any, which
        # differs in the last bits from that of a training that goes on in this phase.
        model.make_train_function(force=True)
        model.fit(
            batches.dataset(progress.batches, end),
            callbacks=[*callbacks, keeper],
            # Of a budget of time, no one knows how many batches it has.
            verbose=keras_verbosity() if writes and not settings.seconds else 0,
        )
    # Not twice, where a run was stopped just before its end.
    if until >= 1 and (not progress.rows or progress.rows[-1]["step"] < updates_of(model)):
        keeper.write_row(at_end=True)
    keeper.save()


def _write_results(
    name: str,
    model: ObjectiveModel | CausalLM,
    use: Use,
    base: Card | None,
    config: Mapping[str, Any],
    results: Mapping[str, Any],
    directory: Path,
) -> None:
    bert_zoo.save(model, directory / MODEL)
    rows = results["measured"]
    names = [n for n in rows[-1] if n.endswith(" loss")]

    def plot(axes):
        steps = [row["step"] for row in rows]
        axes.plot(steps, [row.get("loss", math.nan) for row in rows], ":", label="training")
        for metric in names:
            found = [(0, results["before"][metric])]
            found += [(row["step"], row[metric]) for row in rows if metric in row]
            axes.plot(*zip(*found, strict=True), label=metric)
        axes.set(xlabel="step", ylabel="loss")

    curve = directory / CURVE
    draw(curve, (6, 3.5), plot)
    has_curve = curve.is_file()
    if has_curve:
        shutil.copy(curve, directory / MODEL)
    shown = CURVE if has_curve else None
    write_report(PretrainingRecord(name, use, base, config, results, shown), directory)
    write_json(directory / METRICS, results)
    shutil.rmtree(directory / CHECKPOINT)
