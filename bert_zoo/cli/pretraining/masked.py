"""Trainings with hidden tokens: rows, objectives, and what is measured of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.cli.pretraining.measuring import (
    HeldOut,
    answers,
    held_out_rows,
    log_frequencies,
    masked_sentences,
)
from bert_zoo.data.corpus import Corpus
from bert_zoo.data.pretraining_rows import (
    DocSentences,
    FullSentences,
    PackedDocuments,
    Scheme,
    SentencePairs,
    StreamedPairs,
    Translations,
)
from bert_zoo.data.token_shards import TokenShards
from bert_zoo.models import MaskedLM
from bert_zoo.models.task_model import Use
from bert_zoo.objectives import objective_for
from bert_zoo.objectives.masking import Masking
from bert_zoo.presets import PAIRS, STREAMED, Recipe
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import ObjectiveModel
from bert_zoo.training.presets import optimizer_for
from bert_zoo.training.pretraining_batches import PretrainingBatches

# Phases begin so many epochs from each other, so that no two have the same rows.
EPOCHS_APART = 1 << 20
SCHEMES: dict[str, Callable[[int], Scheme]] = {
    "next_sentence": lambda length: SentencePairs("next_sentence", length),
    "sentence_order": lambda length: SentencePairs("sentence_order", length),
    "full_sentences": FullSentences,
    "doc_sentences": DocSentences,
    "packed_documents": PackedDocuments,
}
# Of a text in several languages: (tokens of a row, their numbers) -> scheme.
MULTILINGUAL_SCHEMES: dict[str, Callable[[int, tuple[int, ...]], Scheme]] = {
    "languages": lambda length, languages: Translations(length, languages, pairs=False),
    "translations": Translations,
}


@dataclass(frozen=True)
class Settings:
    """What a pretraining with hidden tokens depends on beside model, text and seed.

    Attributes:
        recipe: `total_steps` are all updates, where `seconds` do not say how long it is.
        rows: a key of `SCHEMES`, `STREAMED`, or with `languages` a key of `MULTILINGUAL_SCHEMES`.
        phases: tokens of a row, and the share of the training with rows of that length.
        objective: a key of `bert_zoo.objectives.OBJECTIVES`; empty for the family's.
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

    @property
    def goes_on(self) -> bool:
        """Whether rows go on where those of the batch before ended."""
        return self.rows == STREAMED

    def scheme(self, length: int, tokenizer: Any) -> Scheme:
        """What a row of so many tokens is."""
        if self.goes_on:
            return StreamedPairs(length, self.recipe.micro_batch_size)
        if not self.languages:
            return SCHEMES[self.rows](length)
        known = tokenizer.get_config().get("languages") or {}
        if missing := [name for name in self.languages if name not in known]:
            raise ValueError(
                f"The model knows no language {', '.join(missing)}; it has "
                f"{', '.join(known) or 'no languages by name'}."
            )
        numbers = tuple(known[name] for name in self.languages)
        return MULTILINGUAL_SCHEMES[self.rows](length, numbers)

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
        shards: the text.
        seed: of rows and masks.

    Attributes:
        inner: the model with the heads, around which `model` may put a memory.
        phases: the batches of each phase.
        use: what the model is for.

    Raises:
        ValueError: rows of pairs, for a model without a head for them, or too short a text.
    """

    use = Use(
        "fill-mask",
        "predicts tokens behind masks, and is a beginning for fine-tuning on any task",
        "tokenizer = model.preprocessor.tokenizer\n"
        "mask = tokenizer.id_to_token(tokenizer.mask_id)\n"
        'print(model.fill_mask(f"A {mask} text."))',
        limits=("Without fine-tuning it is of use for nothing but words behind masks.",),
    )

    def __init__(self, model: ObjectiveModel, settings: Settings, shards: TokenShards, seed: int):
        self.model = self.inner = model
        self.settings, self.shards = settings, shards
        self.objective = objective_for(model, settings.objective or None, shards.counts)
        self.mlm_only = model.task == MaskedLM.task
        if settings.rows in PAIRS and (
            self.mlm_only
            or settings.rows not in registry().families[model.encoder.family].objectives
        ):
            raise ValueError(
                f"rows={settings.rows} needs a head for pairs, which this model lacks. Choose rows of "
                f"{', '.join(rows for rows in SCHEMES if rows not in PAIRS)}."
            )
        self.phases = [
            PretrainingBatches(
                shards,
                settings.scheme(length, model.preprocessor.tokenizer),
                self.objective,
                settings.recipe.micro_batch_size,
                seed=seed,
                first_epoch=number * EPOCHS_APART,
                mlm_only=self.mlm_only,
            )
            for number, (length, _) in enumerate(settings.phases)
        ]

    @staticmethod
    def documents(corpus: Corpus, tokenizer) -> Iterable[Sequence[str]]:
        """A text's documents as they are tokenized."""
        return corpus

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

    def held_out(self, name: str, shards: TokenShards) -> HeldOut:
        """Rows of a text to measure on, as those of the last phase, which a user of the model has."""
        length = self.settings.phases[-1][0]
        scheme = self.settings.scheme(length, self.model.preprocessor.tokenizer)
        rows = self.settings.recipe.micro_batch_size
        return held_out_rows(name, shards, scheme, self.objective, rows, self.mlm_only)

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
            values, bias = log_frequencies(self.shards.counts), self.inner.masked_lm.bias
            # A model's table can be larger than its vocabulary.
            more = bias.shape[0] - len(values)
            bias.assign(np.pad(values, (0, more), constant_values=values.min()))

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """Sentences of held-out text with a word behind the mask, and the word."""
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
