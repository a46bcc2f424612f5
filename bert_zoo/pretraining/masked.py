"""Trainings with hidden tokens: rows, objectives, and what is measured of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bert_zoo.data.rows import Scheme
from bert_zoo.models import MaskedLM
from bert_zoo.models.task_model import Use, under_settings
from bert_zoo.presets import PAIRS, OwnRows, Recipe
from bert_zoo.pretraining.batches import MaskedRowBatches, PretrainingBatches
from bert_zoo.pretraining.corpus import MASKED_ROWS, Corpus
from bert_zoo.pretraining.masked_rows import MaskedRows
from bert_zoo.pretraining.measuring import (
    MEASURED_ROWS,
    MEASURED_SEED,
    HeldOut,
    answers,
    log_frequencies,
    masked_sentences,
)
from bert_zoo.pretraining.rows import (
    DocSentences,
    FullSentences,
    JoinedDocuments,
    PackedDocuments,
    SentencePairs,
)
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import objective_for
from bert_zoo.tasks.objectives.denoising import Denoising
from bert_zoo.tasks.objectives.masking import Masking
from bert_zoo.tasks.objectives.model import ObjectiveModel
from bert_zoo.tasks.objectives.table import PREDICTIONS
from bert_zoo.tasks.pretraining.streams import StatefulObjectives
from bert_zoo.training.presets import optimizer_for

# Epochs between the first ones of two phases, so that no two phases have the same rows.
EPOCHS_APART = 1 << 20
SCHEMES: dict[str, Callable[[int], Scheme]] = {
    "next_sentence": lambda length: SentencePairs("next_sentence", length),
    "sentence_order": lambda length: SentencePairs("sentence_order", length),
    "full_sentences": FullSentences,
    "doc_sentences": DocSentences,
    "packed_documents": PackedDocuments,
    "joined_documents": JoinedDocuments,
}
# Those that one family alone has.
OWN_ROWS: dict[str, OwnRows] = {
    rows.name: rows
    for family in registry().families.values()
    if family.pretraining_preset
    for rows in family.pretraining_preset.own_rows
}


@dataclass(frozen=True)
class Settings:
    """What a pretraining with hidden tokens depends on beside model, text and seed.

    Attributes:
        recipe: `total_steps` are all updates, where `seconds` do not say how long it is.
        rows: a key of `SCHEMES` or of `OWN_ROWS`, with `languages` a multilingual one of these.
        phases: tokens of a row, and the share of the training with rows of that length.
        objective: a key of `bert_zoo.tasks.objectives.OBJECTIVES`; empty for the family's.
        seconds: a budget of time; None for one of updates.
        starts_from_frequencies: whether the head for masked tokens, a new one, begins with how often each
            token occurs in the text. It need not learn that first, which takes hundreds of updates.
        languages: of a text whose files say the same, their names in the files' order.
    """

    recipe: Recipe
    rows: str
    phases: tuple[tuple[int, float], ...]
    objective: str = ""
    seconds: float | None = None
    starts_from_frequencies: bool = False
    languages: tuple[str, ...] = ()

    measurements: ClassVar[int] = 5

    @property
    def goes_on(self) -> bool:
        """Whether rows go on where those of the batch before ended."""
        return not self.languages and self.scheme(self.phases[0][0]).in_order

    def scheme(self, length: int, tokenizer: Any = None) -> Scheme:
        """What a row of `length` tokens is; the tokenizer knows the numbers of languages."""
        if self.rows in SCHEMES:
            return SCHEMES[self.rows](length)
        known = tokenizer.get_config().get("languages") or {} if self.languages else {}
        if missing := [name for name in self.languages if name not in known]:
            raise ValueError(
                f"The model knows no language {', '.join(missing)}; it has "
                f"{', '.join(known) or 'no languages by name'}."
            )
        numbers = tuple(known[name] for name in self.languages)
        return OWN_ROWS[self.rows].scheme(length, self.recipe.micro_batch_size, numbers)

    @property
    def batches_per_update(self) -> int:
        return self.recipe.gradient_accumulation_steps


def compile_for(
    model: ObjectiveModel,
    optimizer,
    objective: Masking,
    labels: Any,
    *,
    steps_per_execution: int = 1,
) -> None:
    """Compiles a model with the losses of those objectives that rows have labels for.

    Args:
        model: of one head or several.
        optimizer: what trains it.
        objective: what hides tokens.
        labels: of a batch, by logits; or an array, those of one head.
        steps_per_execution: batches that the backend trains on before it answers.
    """
    losses, weights = model.default_loss(), model.default_loss_weights
    if isinstance(labels, Mapping):
        wanted = {*labels, *(["discriminator_logits"] if objective.replaced else [])}
        losses = {name: loss for name, loss in losses.items() if name in wanted}
        weights = {name: weight for name, weight in weights.items() if name in wanted}
    model.compile(
        optimizer=optimizer,
        loss=losses,
        loss_weights=weights,
        steps_per_execution=steps_per_execution,
    )


class MaskedTraining:
    """A model with heads for hidden tokens, and the batches that it is trained on.

    Args:
        model: what `fit` trains.
        settings: how.
        text: the text.
        seed: of rows and masks.

    Attributes:
        inner: the model with the heads, around which `model` may put a memory.
        counts: how often each token occurs in the text.
        phases: the batches of each phase.
        use: what the model is for.

    Raises:
        ValueError: rows of pairs, for a model without a head for them, or too short a text.
    """

    measured_batches = 1
    use = Use(
        "fill-mask",
        "predicts masked tokens and can be fine-tuned on any task",
        "tokenizer = model.preprocessor.tokenizer\n"
        "mask = tokenizer.id_to_token(tokenizer.mask_id)\n"
        'print(model.fill_mask(f"A {mask} text."))',
        limits=("Without fine-tuning it can only fill in masked tokens.",),
    )

    def __init__(self, model: ObjectiveModel, settings: Settings, text: TokenizedText, seed: int):
        self.model = self.inner = model
        self.settings, self.counts = settings, text.counts
        self.objective = objective_for(model, settings.objective or None, text.counts)
        self.mlm_only = model.task == MaskedLM.task
        if settings.rows in PAIRS and (
            self.mlm_only
            or settings.rows not in registry().families[model.encoder.family].objectives
        ):
            raise ValueError(
                f"rows={settings.rows} needs a head for pairs, which this model lacks. Choose rows of "
                f"{', '.join(rows for rows in SCHEMES if rows not in PAIRS)}."
            )
        if settings.rows == "joined_documents" and not isinstance(self.objective, Denoising):
            raise ValueError(
                "rows=joined_documents have no special tokens, and are for a model of encoder and decoder. "
                "Choose full_sentences."
            )
        self.phases = [
            self.batches_of(
                text, length, settings.recipe.micro_batch_size, seed, number * EPOCHS_APART
            )
            for number, (length, _) in enumerate(settings.phases)
        ]

    def scheme(self, length: int) -> Scheme:
        """What a row of `length` tokens is."""
        return self.settings.scheme(length, self.inner.preprocessor.tokenizer)

    def batches_of(
        self, text: TokenizedText, length: int, batch_size: int, seed: int, first_epoch: int = 0
    ) -> PretrainingBatches | MaskedRowBatches:
        """A text's batches of rows of a length."""
        return PretrainingBatches(
            text,
            self.scheme(length),
            self.objective,
            batch_size,
            seed=seed,
            first_epoch=first_epoch,
            mlm_only=self.mlm_only,
        )

    @staticmethod
    def as_tokenized(document: Sequence[str], tokenizer) -> Sequence[str]:
        """What is tokenized of a document: its sentences."""
        return document

    def about(self) -> dict[str, Any]:
        """What `config.json` says of it beside the recipe."""
        settings = self.settings
        return {
            "objective": repr(self.objective),
            "rows": settings.rows,
            "phases": settings.phases,
            "starts_from_frequencies": settings.starts_from_frequencies,
            **({"languages": list(settings.languages)} if settings.languages else {}),
        }

    def held_out(self, name: str, text: TokenizedText) -> HeldOut:
        """Rows of a text to measure on, as those of the last phase, which a user of the model has.

        They are at most `MEASURED_ROWS`, or `measured_batches` batches, which are no larger than those of
        training.

        Raises:
            ValueError: the text makes no row.
        """
        length, rows = self.settings.phases[-1][0], self.settings.recipe.micro_batch_size
        total = self.batches_of(text, length, 1, MEASURED_SEED).per_epoch
        batches = self.batches_of(text, length, min(rows, total), MEASURED_SEED)
        wanted = max(self.measured_batches, MEASURED_ROWS // batches.batch_size)
        return HeldOut(name, batches, min(batches.per_epoch, wanted))

    def compile(self) -> None:
        """Compiles the model with the recipe's optimizer; a new head may begin with frequencies."""
        model, recipe = self.model, self.settings.recipe
        optimizer = optimizer_for(recipe, None if self.settings.seconds else recipe.total_steps)
        compile_for(
            model,
            optimizer,
            self.objective,
            self.phases[0].at(0)[1],
            steps_per_execution=recipe.steps_per_execution,
        )
        if self.settings.starts_from_frequencies:
            values, bias = log_frequencies(self.counts), self.inner.masked_lm.bias
            # A model's table can be larger than its vocabulary.
            more = bias.shape[0] - len(values)
            bias.assign(np.pad(values, (0, more), constant_values=values.min()))

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """Sentences of held-out text with a word masked, and the word."""
        documents = iter(corpus or ())
        if self.settings.languages:
            language = self.model.preprocessor.tokenizer.get_config()["language"]
            languages = self.settings.languages
            place = languages.index(language) if language in languages else 0
            documents = ([sentences[place]] for sentences in documents)
        return masked_sentences(documents, self.model.preprocessor)

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        """The likeliest words in the masks' places."""
        return answers(self.inner, questions)

    def trained(self) -> ObjectiveModel:
        """The model to save."""
        for layer in self.model.encoder.backbone.groups().top:
            layer.trainable = True  # see `model_to_go_on_with`
        return self.model


class RememberingTraining(MaskedTraining):
    """Rows that go on where those of the batch before ended, and the memory of these: XLNet's.

    The memory keeps a row's first half, and has room for three quarters of a row (384 of 512, as the
    original). Arguments: as `MaskedTraining`. The model that is saved has no memory.

    Raises:
        ValueError: also rows of several lengths, or a model that does not read rows backwards.
    """

    def __init__(self, model: ObjectiveModel, settings: Settings, text: TokenizedText, seed: int):
        if "reads_backwards" not in model.id_limits():
            raise ValueError(
                f"rows={settings.rows} go on from batch to batch, and models of the family "
                f"{model.encoder.family} cannot remember hidden tokens' rows. Choose other rows."
            )
        lengths = {length for length, _ in settings.phases}
        if len(lengths) > 1:
            raise ValueError(
                f"rows={settings.rows} go on from batch to batch, and have one length; phases are of "
                f"{sorted(lengths)}. Give one (--length)."
            )
        (length,), recipe = lengths, settings.recipe
        remembering = under_settings(model, mem_len=3 * length // 4, reuse_len=length // 2)
        super().__init__(remembering, settings, text, seed)
        self.model = StatefulObjectives(self.inner, recipe.micro_batch_size)

    # The first batch has no memory.
    measured_batches = 8

    def about(self):
        return {**super().about(), "memory": self.inner.encoder.config.mem_len}

    def trained(self) -> ObjectiveModel:
        return under_settings(self.inner, mem_len=0, reuse_len=0)


class MaskedRowTraining(MaskedTraining):
    """Rows that were masked ahead of training, by `bert_zoo create_pretraining_data`.

    All have one length, and the masks that they were written with. Arguments: as `MaskedTraining`, with
    `MaskedRows` in the text's place.

    Raises:
        ValueError: a model that predicts tokens in an order, which such rows do not have.
    """

    def __init__(self, model: ObjectiveModel, settings: Settings, rows: MaskedRows, seed: int):
        if model.encoder.backbone.has_second_stream:
            raise ValueError(
                f"Rows of the form {MASKED_ROWS} have no order of prediction, which models of the family "
                f"{model.encoder.family} are trained with. Train on the text itself."
            )
        self.model = self.inner = model
        self.settings = replace(settings, rows=MASKED_ROWS, phases=((rows.length, 1.0),))
        preprocessor = model.preprocessor
        tokenizer, layout = preprocessor.tokenizer, preprocessor.packer.layout
        special = {getattr(tokenizer, f"{role}_id") for role in layout.roles}
        special.add(preprocessor.packer.pad_id)
        self.counts = rows.counts(tokenizer.vocab_size, sorted(special))
        self.objective = objective_for(model, settings.objective or None, self.counts)
        self.mlm_only = model.task == MaskedLM.task
        self.phases = [self.batches_of(rows, rows.length, settings.recipe.micro_batch_size, seed)]

    def batches_of(self, text, length, batch_size, seed, first_epoch=0):
        family = registry().families[self.inner.encoder.family]
        pairs = [PREDICTIONS[name].output for name in family.objectives if name in PAIRS]
        return MaskedRowBatches(
            text,
            batch_size,
            seed=seed,
            inputs={*self.inner.id_limits(), "padding_mask", "mask_positions"},
            pair_logits=pairs[0] if pairs else None,
            mlm_only=self.mlm_only,
        )

    def about(self):
        return {**super().about(), "objective": "as the rows were masked"}
