"""A pretraining: a model and text go in, a run directory comes out."""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

import bert_zoo
from bert_zoo.apps.finetuning import (
    CHECKPOINT,
    CONFIG,
    METRICS,
    MODEL,
    check_same_run,
    draw,
    read_json,
    updates_of,
    versions,
    write_json,
)
from bert_zoo.apps.pretraining.measuring import (
    answers,
    held_out_rows,
    log_frequencies,
    masked_sentences,
)
from bert_zoo.apps.pretraining.progress import PROGRESS, Keeper, Progress, print_losses
from bert_zoo.apps.pretraining.speed import peak_flops, training_flops
from bert_zoo.apps.report.pretraining_page import write_pretraining_page
from bert_zoo.data.corpus import Corpus, CorpusCounts
from bert_zoo.data.pretraining_rows import (
    DocSentences,
    FullSentences,
    PackedDocuments,
    Scheme,
    SentencePairs,
)
from bert_zoo.data.token_shards import TokenShards, write_token_shards
from bert_zoo.models import MaskedLM
from bert_zoo.models.replicas import is_chief
from bert_zoo.objectives import objective_for
from bert_zoo.objectives.masking import Masking
from bert_zoo.presets import PAIRS, Recipe
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import ObjectiveModel
from bert_zoo.training.budget import TimeBudget
from bert_zoo.training.distribution import present_strategy
from bert_zoo.training.presets import optimizer_for
from bert_zoo.training.pretraining_batches import PretrainingBatches
from bert_zoo.training.resume import notes_of, restore

TOKENS, VOCABULARY = "tokens", "vocabulary"
# Phases begin so many epochs from each other, so that no two have the same rows.
EPOCHS_APART = 1 << 20
SCHEMES: dict[str, Callable[[int], Scheme]] = {
    "next_sentence": lambda length: SentencePairs("next_sentence", length),
    "sentence_order": lambda length: SentencePairs("sentence_order", length),
    "full_sentences": FullSentences,
    "doc_sentences": DocSentences,
    "packed_documents": PackedDocuments,
}


@dataclass(frozen=True)
class Settings:
    """What a pretraining depends on beside model, text and seed.

    Attributes:
        recipe: `total_steps` are all updates, where `seconds` do not say how long it is.
        rows: a key of `SCHEMES`.
        phases: tokens of a row, and the share of the training with rows of that length.
        objective: a key of `bert_zoo.objectives.OBJECTIVES`; empty for the family's.
        seconds: a budget of time; None for one of updates.
        starts_from_frequencies: whether the head for masked tokens, a new one, begins with how often each
            token occurs in the text. It need not learn that first, which takes hundreds of updates.
    """

    recipe: Recipe
    rows: str
    phases: tuple[tuple[int, float], ...]
    objective: str = ""
    seconds: float | None = None
    starts_from_frequencies: bool = False


def tokenized(corpus: Corpus, preprocessor, directory: Path) -> TokenShards:
    """The tokens of a text, or of its part; made where they are not there yet.

    Raises:
        ValueError: the part has no documents.
    """
    try:
        shards = write_token_shards(corpus, preprocessor, directory)
    except ValueError:
        if corpus.counts.documents:
            raise
        raise ValueError(
            f"Of {corpus.counts.other_part:,} documents none is left for the part {corpus.part!r}. Blank "
            "lines, or lines where a line is a document, divide them; --held_out says which share is "
            "set aside, 0 for none."
        ) from None
    counts = CorpusCounts(**shards.index["corpus"])
    print(f"{corpus.part.replace('_', ' ').capitalize()}: {counts}; {shards.num_tokens:,} tokens.")
    return shards


def compile_for(model: ObjectiveModel, optimizer, objective: Masking, labels: Any) -> None:
    """Compiles a model with the losses of those objectives that rows have labels for."""
    losses, weights = model.default_loss(), model.default_loss_weights
    if isinstance(labels, Mapping):
        wanted = {*labels, *(["discriminator_logits"] if objective.replaced else [])}
        losses = {name: loss for name, loss in losses.items() if name in wanted}
        weights = {name: weight for name, weight in weights.items() if name in wanted}
    model.compile(optimizer=optimizer, loss=losses, loss_weights=weights)


def pretrain(
    name: str,
    make_model: Callable[[], ObjectiveModel],
    settings: Settings,
    text: Sequence[str] | str,
    directory: Path,
    *,
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
    bert_zoo directory that `load` takes for every task), `report.html`, `learning_curve.png` and, for
    TensorBoard, `tensorboard`.

    Args:
        name: what it begins with, for the report.
        make_model: makes the model, under the strategy.
        settings: how to train.
        text: what `Corpus` takes.
        directory: made if it does not exist.
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
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        model = make_model()
    preprocessor = model.preprocessor
    documents = partial(
        Corpus, text, held_out=held_out, drop_duplicates=("documents",), **(reading or {})
    )
    shards = tokenized(documents(part="train"), preprocessor, directory / TOKENS / "train")
    objective = objective_for(model, settings.objective or None, shards.counts)
    mlm_only = model.task == MaskedLM.task
    if settings.rows in PAIRS and (
        mlm_only or settings.rows not in registry().families[model.encoder.family].objectives
    ):
        raise ValueError(
            f"rows={settings.rows} needs a head for pairs, which this model lacks. Choose rows of "
            f"{', '.join(rows for rows in SCHEMES if rows not in PAIRS)}."
        )
    texts, measured = {}, []
    if held_out:
        texts["held out"] = documents(part="held_out")
    if general_text is not None:
        texts["general text"] = Corpus(general_text, drop_duplicates=("documents",))
    for what, corpus in texts.items():
        path = directory / TOKENS / what.replace(" ", "_")
        tokens = tokenized(corpus, preprocessor, path)
        scheme = SCHEMES[settings.rows](settings.phases[0][0])
        measured.append(
            held_out_rows(what, tokens, scheme, objective, recipe.micro_batch_size, mlm_only)
        )

    def measure(all_texts: bool) -> dict[str, float]:
        return {
            f"{each.name} {metric}": value
            for each in (measured if all_texts else measured[:1])
            for metric, value in each.losses(model).items()
        }

    config = {
        "model": name,
        "objective": repr(objective),
        "rows": settings.rows,
        "phases": settings.phases,
        "seconds": settings.seconds,
        "starts_from_frequencies": settings.starts_from_frequencies,
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
    phases = _phases(settings, shards, objective, mlm_only, seed)
    with strategy.scope():
        optimizer = optimizer_for(recipe, None if settings.seconds else recipe.total_steps)
        compile_for(model, optimizer, objective, phases[0].at(0)[1])
        if settings.starts_from_frequencies:
            values = log_frequencies(shards.counts)
            bias = model.masked_lm.bias
            # A model's table can be larger than its vocabulary.
            bias.assign(
                np.pad(values, (0, bias.shape[0] - len(values)), constant_values=values.min())
            )
        restore(model, checkpoints)
    sentences = masked_sentences(iter(texts.get("held out", ())), preprocessor)
    if notes:
        print(f"Going on from step {updates_of(model):,} with the training in {directory}.")
    else:
        progress.before = {**measure(True), "answers": answers(model, sentences)}
        print_losses("Before", progress.before)

    for number in range(progress.phase, len(phases)):
        if number > progress.phase:
            progress.phase, progress.batches = number, 0
        until = sum(share for _, share in settings.phases[: number + 1])
        _train_phase(
            model,
            settings,
            phases[number],
            progress,
            directory,
            min(until, 1.0),
            measure,
            every=checkpoint_seconds,
            writes=writes,
        )
    progress.before["after"] = answers(model, sentences)
    speed = progress.busy_tokens / max(progress.busy, 1e-9)
    results = {
        "before": {n: v for n, v in progress.before.items() if n not in ("answers", "after")},
        "after": {n: v for n, v in progress.rows[-1].items() if n.endswith("loss") and n != "loss"},
        "measured": progress.rows,
        "unigram loss": measured[0].unigram_loss(shards.counts) if held_out else None,
        "sentences": [
            {"text": text, "word": word, "before": before, "after": after}
            for (text, word), before, after in zip(
                sentences, progress.before["answers"], progress.before["after"], strict=True
            )
        ],
        "steps": updates_of(model),
        "seconds": round(progress.seconds, 1),
        "tokens": round(progress.tokens),
        "tokens_per_second": speed,
        "flops_per_second": speed * training_flops(model, phases[-1]) / phases[-1].tokens,
        "peak_flops_per_second": peak_flops(model.compute_dtype),
        "parameters": model.count_params(),
    }
    print_losses("After", results["after"])
    if writes:
        _write_results(name, model, config, results, directory)
    return results


def _phases(
    settings: Settings, shards: TokenShards, objective: Masking, mlm_only: bool, seed: int
) -> list[PretrainingBatches]:
    return [
        PretrainingBatches(
            shards,
            SCHEMES[settings.rows](length),
            objective,
            settings.recipe.micro_batch_size,
            seed=seed,
            first_epoch=number * EPOCHS_APART,
            mlm_only=mlm_only,
        )
        for number, (length, _) in enumerate(settings.phases)
    ]


def _train_phase(
    model: ObjectiveModel,
    settings: Settings,
    batches: PretrainingBatches,
    progress: Progress,
    directory: Path,
    until: float,
    measure: Callable[[bool], dict[str, float]],
    *,
    every: float,
    writes: bool,
) -> None:
    """Trains up to a part of the whole training, and leaves a checkpoint behind."""
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
        left = 0 if budget.share >= until else EPOCHS_APART

        def share() -> float:
            return budget.share
    else:
        all_batches = recipe.total_steps * recipe.gradient_accumulation_steps
        accumulated = recipe.gradient_accumulation_steps
        end = round(recipe.total_steps * until) * accumulated
        left = end - progress.all_batches

        def share() -> float:
            return progress.all_batches / all_batches

    keeper = Keeper(progress, directory, batches, share, measure, every=every, writes=writes)
    keeper.set_model(model)
    if left > 0:
        model.fit(
            batches.dataset(progress.batches, progress.batches + left),
            callbacks=[*callbacks, keeper],
            # Of a budget of time, no one knows how many batches it has.
            verbose="auto" if writes and not settings.seconds else 0,
        )
    # Not twice, where a run was stopped just before its end.
    if until >= 1 and (not progress.rows or progress.rows[-1]["step"] < updates_of(model)):
        keeper.write_row(at_end=True)
    keeper.save()


def _write_results(
    name: str,
    model: ObjectiveModel,
    config: Mapping[str, Any],
    results: Mapping[str, Any],
    directory: Path,
) -> None:
    for layer in model.encoder.backbone.groups().top:
        layer.trainable = True  # see `model_to_go_on_with`
    bert_zoo.save(model, directory / MODEL)
    write_pretraining_page(name, config, results, directory / "report.html")
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

    draw(directory / "learning_curve.png", (6, 3.5), plot)
    write_json(directory / METRICS, results)
    shutil.rmtree(directory / CHECKPOINT)
