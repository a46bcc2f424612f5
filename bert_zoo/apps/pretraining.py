"""Pretraining: from text, and a checkpoint or nothing, to a run directory."""

import importlib.util
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import bert_zoo
from bert_zoo.apps.finetuning import (
    CHECKPOINT,
    CONFIG,
    DIVERGED,
    METRICS,
    MODEL,
    check_same_run,
    draw,
    read_json,
    updates_of,
    versions,
    write_json,
)
from bert_zoo.apps.report.pretraining_page import write_pretraining_page
from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.corpus import Corpus, CorpusCounts
from bert_zoo.data.pretraining_rows import (
    DocSentences,
    FullSentences,
    PackedDocuments,
    Scheme,
    SentencePairs,
)
from bert_zoo.data.token_shards import TokenShards, write_token_shards
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.loading.load import missing_parts
from bert_zoo.models import MaskedLM, Pretraining
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.replicas import is_chief
from bert_zoo.objectives import OBJECTIVES, Draws, objective_for
from bert_zoo.objectives.masking import Masking
from bert_zoo.presets import PAIRS, Recipe
from bert_zoo.registry import Family, registry
from bert_zoo.tasks import TASKS
from bert_zoo.tasks.objectives import ObjectiveModel
from bert_zoo.training.budget import TimeBudget
from bert_zoo.training.distribution import present_strategy
from bert_zoo.training.divergence import diverged
from bert_zoo.training.presets import optimizer_for
from bert_zoo.training.pretraining_batches import PretrainingBatches
from bert_zoo.training.resume import notes_of, restore, write_checkpoint

log = logging.getLogger("bert_zoo")

PROGRESS = "progress"
TOKENS, VOCABULARY = "tokens", "vocabulary"
# What is measured on: rows of held-out text, and how often.
MEASURED_ROWS, MEASUREMENTS = 256, 5
# Epochs of rows that other trainings do not have: phases begin this far from each other, and rows to
# measure on are those of another seed.
EPOCHS_APART, MEASURED_SEED = 1 << 20, 1 << 30
# Sentences whose masks are filled before and after, from so many that are looked at, and their words.
SHOWN, LOOKED_AT, SHOWN_WORDS = 6, 2_000, range(6, 25)
# Of the matrices whose product shows what the machine can, without a GPU and with one.
PEAK_SIZES = (2048, 8192)
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


# ---------------------------------------------------------------------------------------------
# Models and text
# ---------------------------------------------------------------------------------------------


def new_model(family: Family, config: Mapping[str, Any], preprocessor, dtype: str = "float32"):
    """A model with randomly initialised weights and all heads of its family's objectives.

    Args:
        family: whose page makes it.
        config: fields of its configuration; `vocab_size` is the vocabulary's.
        preprocessor: whose vocabulary the model predicts.
        dtype: a Keras dtype policy.
    """
    sizes = {**family.defaults, **config, "vocab_size": preprocessor.tokenizer.vocab_size}
    task = Pretraining.task if Pretraining.task in family.heads else MaskedLM.task
    config = family.config_class(**sizes).with_pooler(family.heads[task].pooler)
    return TASKS[task](Encoder(config, family.name, preprocessor=preprocessor, dtype=dtype))


def model_to_go_on_with(name: str, objective: str = "", dtype: str = "float32") -> ObjectiveModel:
    """A checkpoint with the heads that its objective needs; a log line says which of them are new.

    Heads for sentences (BERT's next sentence, ALBERT's order) are not made anew: without them, masked
    tokens alone are trained. A pooler that no loss reads stays as it is.

    Args:
        name: what `load` takes.
        objective: a key of `bert_zoo.objectives.OBJECTIVES`; empty for the family's.
        dtype: a Keras dtype policy.
    """
    family = open_checkpoint(name, with_weights=False).family
    if not (objective or family.pretraining) or MaskedLM.task not in family.heads:
        raise ValueError(
            f"{name} was not pretrained with hidden tokens. Language models go on in "
            "`bert_zoo train_lm`; models of masked tokens are those of "
            "bert_zoo.list_models(provides='masked_lm')."
        )
    chosen = OBJECTIVES.get(objective or family.pretraining)
    task = MaskedLM.task
    if Pretraining.task in family.heads:
        has_all = not missing_parts(name, Pretraining.task)
        if has_all or getattr(chosen, "replaced", False) or hasattr(chosen, "targets"):
            task = Pretraining.task
    model = bert_zoo.load(name, task=task, init=tuple(missing_parts(name, task)), dtype=dtype)
    if model.encoder.config.pooler:
        return model
    whole = bert_zoo.load(name, task="encoder", dtype=dtype)
    if not whole.config.pooler:
        return model
    # Masked tokens do not read the pooler; what is fine-tuned later does.
    with_pooler = TASKS[task](whole)
    with_pooler.masked_lm.set_weights(model.masked_lm.get_weights())
    whole.pooler.trainable = False
    return with_pooler


def tokenized(
    text: Sequence[str] | str, preprocessor, directory: Path, held_out: float, part: str
) -> TokenShards:
    """The tokens of a part of a text, "train" or "held_out"; made where they are not there yet.

    Raises:
        ValueError: the part has no documents.
    """
    corpus = Corpus(text, held_out=held_out, part=part, drop_duplicates=("documents",))
    try:
        shards = write_token_shards(corpus, preprocessor, directory)
    except ValueError:
        if corpus.counts.documents:
            raise
        raise ValueError(
            f"Of {corpus.counts.other_part:,} documents none is left for the part {part!r}. Blank "
            "lines, or lines where a line is a document, divide them; --held_out says which share is "
            "set aside, 0 for none."
        ) from None
    counts = CorpusCounts(**shards.index["corpus"])
    print(f"{part.replace('_', ' ').capitalize()}: {counts}; {shards.num_tokens:,} tokens.")
    return shards


# ---------------------------------------------------------------------------------------------
# What is measured
# ---------------------------------------------------------------------------------------------


@dataclass
class HeldOut:
    """Text that is not trained on, and what it shows; the same rows and masks each time.

    Attributes:
        name: of the text.
        batches: its batches.
        count: how many of them.
    """

    name: str
    batches: PretrainingBatches
    count: int

    def losses(self, model: ObjectiveModel) -> dict[str, float]:
        """The loss, and that of each objective where there are several."""
        data = self.batches.dataset(0, self.count)
        metrics = model.evaluate(data, return_dict=True, verbose=0)
        return {name: float(value) for name, value in metrics.items() if name.endswith("loss")}

    def unigram_loss(self, counts: np.ndarray) -> float:
        """The loss of masked tokens for who knows how often each occurs, and nothing of the text.

        Args:
            counts: int [vocabulary], of the text that is trained on.
        """
        log_probs = log_frequencies(counts)
        labels = [self.batches.at(number)[1] for number in range(self.count)]
        labels = [rows if self.batches.mlm_only else rows["mlm_logits"] for rows in labels]
        tokens = np.concatenate([rows[rows != IGNORED_LABEL] for rows in labels])
        return float(-log_probs[tokens].mean())


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """The logarithms of tokens' shares of a text, in which each is counted once more."""
    return np.log(counts + 1.0) - np.log(counts.sum() + len(counts))


def held_out_rows(
    name: str, shards: TokenShards, scheme: Scheme, objective: Masking, rows: int, mlm_only: bool
) -> HeldOut:
    """At most `MEASURED_ROWS` rows of a text, in batches of up to `rows`.

    Raises:
        ValueError: the text makes no row.
    """
    settings = {"seed": MEASURED_SEED, "mlm_only": mlm_only}
    total = PretrainingBatches(shards, scheme, objective, 1, **settings).per_epoch
    batches = PretrainingBatches(shards, scheme, objective, min(rows, total), **settings)
    count = min(batches.per_epoch, max(1, MEASURED_ROWS // batches.batch_size))
    return HeldOut(name, batches, count)


def masked_sentences(documents: Iterator[Sequence[str]], preprocessor) -> list[tuple[str, str]]:
    """Sentences with a word behind the mask, and the word: a few that are chosen by a fixed draw.

    Words are those of at least four letters that are one token; sentences fit into a row.
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
            lengths = tokenizer([f" {words[p]}" for p in places]).row_lengths().numpy()
            places = [p for p, length in zip(places, lengths, strict=True) if length == 1]
        if not places or mask in sentences[number]:
            continue
        if int(tokenizer([sentences[number]]).row_lengths()[0]) > most:
            continue
        place = places[int(Draws(0, 1, [number]).integers("word", len(places), 1)[0, 0])]
        text = " ".join([*words[:place], mask, *words[place + 1 :]])
        found.append((text, words[place]))
        if len(found) == SHOWN:
            break
    return found


def answers(model: ObjectiveModel, sentences: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
    """For each sentence the three likeliest words in the mask's place, with their probabilities."""
    return [
        [[c.token, c.score] for c in model.fill_mask(text, top_k=3)[0]] for text, _ in sentences
    ]


def training_flops(model: ObjectiveModel, batches: PretrainingBatches) -> float:
    """Floating-point operations of the products of a batch's training step, three times those forward.

    Counted are the encoder and the logits of masked tokens; of a model with a generator, the encoder.
    """
    config, length = model.encoder.config, batches.scheme.length
    predicted = batches.objective.predictions(length) * config.table_width
    head = 2 * predicted * (config.vocab_size + config.hidden_size)
    return 3 * batches.batch_size * (config.forward_flops(length) + head)


def peak_flops(dtype: str) -> float:
    """Floating-point operations a second of a large product of matrices on this machine.

    Args:
        dtype: of its numbers.
    """
    size = PEAK_SIZES[bool(tf.config.list_physical_devices("GPU"))]
    matrix = ops.cast(ops.ones((size, size)), dtype)
    best = math.inf
    for _ in range(4):
        start = time.perf_counter()
        # As float32: TensorFlow 2.21 on NumPy 2 gives no scalar of bfloat16.
        ops.convert_to_numpy(ops.cast(ops.matmul(matrix, matrix)[0, 0], "float32"))
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


# ---------------------------------------------------------------------------------------------
# Training
# ---------------------------------------------------------------------------------------------


@dataclass
class Progress:
    """How far a training is; kept in its checkpoints.

    Attributes:
        phase: the number of the present phase.
        batches: of the present phase that were trained on.
        all_batches: of all phases.
        seconds: of training, in all calls of the program, with what is measured and written between.
        busy: of these, the seconds of steps alone, without the first of each call.
        busy_tokens: tokens of those steps.
        tokens: that were trained on, special ones among them and padding not.
        loss, losses: the sum, and number, of batches' losses since the latest measurement.
        measured_at: the share of the training that was done at the latest measurement.
        rows: what was measured, a row each time.
        before: what was measured and answered before the first batch.
    """

    phase: int = 0
    batches: int = 0
    all_batches: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    busy_tokens: float = 0.0
    tokens: float = 0.0
    loss: float = 0.0
    losses: int = 0
    measured_at: float = 0.0
    rows: list[dict[str, float]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)


class Keeper(keras.callbacks.Callback):
    """Counts, measures, writes checkpoints, and ends a training whose loss is no number.

    Args:
        progress: is brought up to date.
        directory: of the run.
        batches: of the present phase.
        share: gives the part of the whole training that is done.
        measure: gives what is measured, by name; of all texts, or of the held-out one alone.
        every: seconds between checkpoints.
        writes: whether to write files; of several workers one does.
    """

    def __init__(
        self,
        progress: Progress,
        directory: Path,
        batches: PretrainingBatches,
        share: Callable[[], float],
        measure: Callable[[bool], dict[str, float]],
        *,
        every: float,
        writes: bool,
    ):
        super().__init__()
        self.progress, self.directory, self.batches = progress, directory, batches
        self.share, self.measure, self.every, self.writes = share, measure, every, writes
        self._now = self._saved = time.monotonic()
        self._step_start: float | None = None
        self.board = None
        if writes and importlib.util.find_spec("tensorboard") is not None:
            self.board = tf.summary.create_file_writer(str(directory / "tensorboard"))

    def on_train_begin(self, logs=None):
        self._now = self._saved = time.monotonic()

    def on_train_batch_begin(self, batch, logs=None):
        # What `fit` logs is then the loss of a batch, not the mean since its beginning.
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        progress, loss = self.progress, float(logs["loss"])
        number = progress.batches
        progress.batches += 1
        progress.all_batches += 1
        progress.tokens += self.batches.tokens
        now = time.monotonic()
        progress.seconds += now - self._now
        if self._step_start is not None:
            progress.busy += now - self._step_start
            progress.busy_tokens += self.batches.tokens
        self._now = now
        if not math.isfinite(loss):
            where = f"at step {updates_of(self.model):,}, batch {progress.all_batches:,}"
            raise diverged(
                self.model, loss, where, self.batches.at(number), self.directory / DIVERGED
            )
        progress.loss += loss
        progress.losses += 1
        share = self.share()
        if share < 1 and int(share * MEASUREMENTS) > int(progress.measured_at * MEASUREMENTS):
            self.write_row()
            # Of a budget of time, measuring takes a share too.
            progress.measured_at = self.share()
        if now - self._saved >= self.every:
            self.save()
        self._step_start = time.monotonic()

    def write_row(self, at_end: bool = False) -> None:
        """Measures, and notes it beside the mean loss of training since the time before."""
        progress = self.progress
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        row = {"step": updates_of(self.model), "seconds": progress.seconds, "rate": rate}
        if progress.losses:
            row["loss"] = progress.loss / progress.losses
        row |= self.measure(at_end)
        progress.loss, progress.losses = 0.0, 0
        progress.rows.append(row)
        if self.writes:
            losses = {name: value for name, value in row.items() if name.endswith("loss")}
            _print_losses(f"Step {row['step']:,}", losses)
        if self.board:
            with self.board.as_default(step=row["step"]):
                for name, value in row.items():
                    if name != "step":
                        tf.summary.scalar(name, value)
            self.board.flush()

    def save(self) -> None:
        """Writes a checkpoint."""
        if self.writes:
            write_checkpoint(
                self.model,
                self.directory / CHECKPOINT,
                self.progress.all_batches,
                {PROGRESS: json.dumps(asdict(self.progress))},
            )
        self._saved = time.monotonic()


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
    shards = tokenized(text, preprocessor, directory / TOKENS / "train", held_out, "train")
    objective = objective_for(model, settings.objective or None, shards.counts)
    mlm_only = model.task == MaskedLM.task
    if settings.rows in PAIRS and (
        mlm_only or settings.rows not in registry().families[model.encoder.family].objectives
    ):
        raise ValueError(
            f"rows={settings.rows} needs a head for pairs, which this model lacks. Choose rows of "
            f"{', '.join(rows for rows in SCHEMES if rows not in PAIRS)}."
        )
    measured = []
    texts = {"held out": text if held_out else None, "general text": general_text}
    for what, source in texts.items():
        if source is None:
            continue
        path = directory / TOKENS / what.replace(" ", "_")
        share, part = (held_out, "held_out") if source is text else (0.0, "train")
        tokens = tokenized(source, preprocessor, path, share, part)
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
        "data": {"text": text, "general_text": general_text, "held_out": held_out},
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
    held_documents = Corpus(text, held_out=held_out, part="held_out") if held_out else ()
    sentences = masked_sentences(iter(held_documents), preprocessor)
    if notes:
        print(f"Going on from step {updates_of(model):,} with the training in {directory}.")
    else:
        progress.before = {**measure(True), "answers": answers(model, sentences)}
        _print_losses("Before", progress.before)

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
    _print_losses("After", results["after"])
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


def _print_losses(when: str, losses: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{n} {v:.4f}" for n, v in losses.items() if isinstance(v, float))
    if shown:
        print(f"{when}: {shown}")


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
