"""Pretraining with masked tokens, and of encoder-decoder models: rows, objectives and measurements."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.rows import RowScheme
from bert_zoo.models import MaskedLM
from bert_zoo.models.task_model import Use, under_settings
from bert_zoo.presets import PAIRS, OwnRows, Recipe
from bert_zoo.pretraining.batches import (
    MaskedRowBatches,
    MaskedRows,
    NumberedBatches,
    PretrainingBatches,
)
from bert_zoo.pretraining.corpus import MASKED_ROWS, Corpus
from bert_zoo.pretraining.rows import (
    DocSentences,
    FullSentences,
    JoinedDocuments,
    PackedDocuments,
    PackedExamples,
    SentencePairs,
)
from bert_zoo.pretraining.tokens import AnyText, ids_of
from bert_zoo.registry import registry
from bert_zoo.tasks.objectives import Draws, objective_for
from bert_zoo.tasks.objectives.denoising import Denoising
from bert_zoo.tasks.objectives.masking import Masking
from bert_zoo.tasks.objectives.objective import ObjectiveModel
from bert_zoo.tasks.objectives.table import PREDICTIONS
from bert_zoo.tasks.pretraining import StatefulObjectives
from bert_zoo.training.presets import optimizer_for

# Offset between the first epochs of two phases, so that no two phases have the same rows.
EPOCHS_APART = 1 << 20
SCHEMES: dict[str, Callable[[int], RowScheme]] = {
    "next_sentence": lambda length: SentencePairs("next_sentence", length),
    "sentence_order": lambda length: SentencePairs("sentence_order", length),
    "full_sentences": FullSentences,
    "doc_sentences": DocSentences,
    "packed_documents": PackedDocuments,
    "joined_documents": JoinedDocuments,
}
# Rows that only one family has.
OWN_ROWS: dict[str, OwnRows] = {
    rows.name: rows
    for family in registry().families.values()
    if family.pretraining_preset
    for rows in family.pretraining_preset.own_rows
}


@dataclass(frozen=True)
class MaskedSettings:
    """Settings for pretraining with masked tokens, besides model, text and seed."""

    recipe: Recipe  # its `total_steps` counts all updates and is not used if `seconds` is set
    rows: str  # a key of `SCHEMES` or `OWN_ROWS`; with `languages`, a multilingual one
    phases: tuple[tuple[int, float], ...]  # tokens per row, share of the training
    objective: str = ""  # a key of `bert_zoo.tasks.objectives.OBJECTIVES`; "" for the family's
    seconds: float | None = None  # time budget; None to train for a number of updates
    starts_from_frequencies: bool = False
    languages: tuple[str, ...] = ()  # names in the order of the files, for parallel texts

    measurements: ClassVar[int] = 5

    @property
    def goes_on(self) -> bool:
        """Whether each batch's rows continue those of the batch before."""
        return not self.languages and self.scheme(self.phases[0][0]).in_order

    def scheme(self, length: int, tokenizer: Any = None) -> RowScheme:
        """The scheme of rows of `length` tokens; the tokenizer has the ids of languages."""
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
    """Compiles a model with the losses of the objectives that a batch's labels are for.

    `labels` are by output, or an array for a model with one head.
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


# --- What a training with masked tokens is measured on: losses on held-out rows, predictions of masked words ---

# Rows of held-out text, which no training has: their seed is another one.
MEASURED_ROWS, MEASURED_SEED = 256, 1 << 30
# Sentences whose masks are filled before and after; those that are looked at; words of a sentence.
SHOWN, LOOKED_AT, SHOWN_WORDS = 6, 2_000, range(6, 25)


class HeldOut(NamedTuple):
    """Text kept out of training to measure the loss, with the same batches every time."""

    name: str
    batches: NumberedBatches
    count: int  # of the batches
    token_ids: np.ndarray | None = None  # int [tokens] of a stream


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


# --- Trainings ---


class MaskedTraining:
    """Trains a model with heads for masked tokens; `phases` are the batches of each phase.

    `model` is for `fit`, with a memory where the rows need one; `inner` is the same without the memory.
    `ValueError` if the rows are pairs and the model has no head for pairs, or the text is too short.
    """

    reads = "sentences"  # what is tokenized of a document, by `as_tokenized`
    measured_batches = 1
    compares_with_unigrams = True  # whether a unigram model's loss is of the same kind
    use = Use(
        "fill-mask",
        "predicts masked tokens and can be fine-tuned on any task",
        "tokenizer = model.preprocessor.tokenizer\n"
        "mask = tokenizer.id_to_token(tokenizer.mask_id)\n"
        'print(model.fill_mask(f"A {mask} text."))',
        limits=("Without fine-tuning it can only fill in masked tokens.",),
    )

    def __init__(self, model: ObjectiveModel, settings: MaskedSettings, text: AnyText, seed: int):
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
                "rows=joined_documents have no special tokens and suit only encoder-decoder models. "
                "Choose full_sentences."
            )
        self.phases = [
            self.batches_of(
                text, length, settings.recipe.micro_batch_size, seed, number * EPOCHS_APART
            )
            for number, (length, _) in enumerate(settings.phases)
        ]

    def scheme(self, length: int) -> RowScheme:
        return self.settings.scheme(length, self.inner.preprocessor.tokenizer)

    def batches_of(
        self, text: AnyText, length: int, batch_size: int, seed: int, first_epoch: int = 0
    ) -> PretrainingBatches | MaskedRowBatches:
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
        return document

    def about(self) -> dict[str, Any]:
        """The entries of `config.json` besides the recipe."""
        settings = self.settings
        return {
            "objective": repr(self.objective),
            "rows": settings.rows,
            "phases": settings.phases,
            "starts_from_frequencies": settings.starts_from_frequencies,
            **({"languages": list(settings.languages)} if settings.languages else {}),
        }

    def held_out(self, name: str, text: AnyText) -> HeldOut:
        """Rows of a text to measure on, as long as in the last phase, which is how the model will be used.

        There are at most `MEASURED_ROWS` rows, or `measured_batches` batches, each at most as large as in training.
        """
        length, rows = self.settings.phases[-1][0], self.settings.recipe.micro_batch_size
        total = self.batches_of(text, length, 1, MEASURED_SEED).per_epoch
        batches = self.batches_of(text, length, min(rows, total), MEASURED_SEED)
        wanted = max(self.measured_batches, MEASURED_ROWS // batches.batch_size)
        return HeldOut(name, batches, min(batches.per_epoch, wanted))

    def losses(self, held: HeldOut) -> dict[str, float]:
        """The total loss and, with several objectives, the loss of each."""
        data = held.batches.dataset(0, held.count)
        metrics = self.model.evaluate(data, return_dict=True, verbose=0)
        return {name: float(value) for name, value in metrics.items() if name.endswith("loss")}

    def unigram_loss(self, held: HeldOut) -> float | None:
        """Loss of a unigram model with the training text's counts, on masked tokens or a decoder's targets."""
        labels = [held.batches.at(number)[1] for number in range(held.count)]
        labels = [rows["mlm_logits"] if isinstance(rows, dict) else rows for rows in labels]
        tokens = np.concatenate([rows[rows != IGNORED_LABEL] for rows in labels])
        # Special tokens, which the text does not hold, are asked for too by RoBERTa's objective; of them,
        # and of words that are new, it knows how often they are.
        asked, counts = np.bincount(tokens, minlength=len(self.counts)), self.counts
        known = asked[counts > 0].sum()
        counts = np.where(counts > 0, counts, asked * counts.sum() / max(known, 1))
        return float(-log_frequencies(counts)[tokens].mean())

    def compile(self) -> None:
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
        """Held-out sentences with one word masked, and that word."""
        documents = iter(corpus or ())
        if self.settings.languages:
            language = self.model.preprocessor.tokenizer.get_config()["language"]
            languages = self.settings.languages
            place = languages.index(language) if language in languages else 0
            documents = ([sentences[place]] for sentences in documents)
        return masked_sentences(documents, self.model.preprocessor)

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        """The three most likely words at the mask of each sentence, with their probabilities."""
        return [
            [[c.token, c.score] for c in self.inner.fill_mask(text, top_k=3)[0]]
            for text, _ in questions
        ]

    def trained(self) -> ObjectiveModel:
        for layer in self.model.encoder.backbone.groups().top:
            layer.trainable = True  # see `model_to_go_on_with`
        return self.model


class RememberingTraining(MaskedTraining):
    """Trains on rows that continue those of the batch before, with a memory of them, as XLNet does.

    The memory keeps the first half of a row and holds three quarters of one (384 of 512 tokens, as in the
    original). The saved model has no memory.
    """

    def __init__(self, model: ObjectiveModel, settings: MaskedSettings, text: AnyText, seed: int):
        if "reads_backwards" not in model.id_limits():
            raise ValueError(
                f"rows={settings.rows} continue from batch to batch, and masked-token models of the "
                f"family {model.encoder.family} have no memory for that. Choose other rows."
            )
        lengths = {length for length, _ in settings.phases}
        if len(lengths) > 1:
            raise ValueError(
                f"rows={settings.rows} continue from batch to batch, so all need the same length, but "
                f"the phases have {sorted(lengths)}. Give one length (--length)."
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
    """Trains on rows of one length that `bert_zoo create_pretraining_data` has masked and written."""

    def __init__(
        self, model: ObjectiveModel, settings: MaskedSettings, rows: MaskedRows, seed: int
    ):
        if model.encoder.backbone.has_second_stream:
            raise ValueError(
                f"Models of the family {model.encoder.family} predict tokens in an order, which rows of "
                f"the form {MASKED_ROWS} do not have. Train on the text itself."
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


class DenoisingTraining(MaskedTraining):
    """Trains an encoder-decoder model.

    A phase's length is the number of tokens that the encoder reads per row. With the scheme "packed_documents"
    a row holds several texts, else one.
    """

    use = Use(
        "text2text-generation",
        "fills in hidden spans of a text and can be fine-tuned for text-to-text tasks",
        'print(model.generate(["A text."]))',
        limits=("Without fine-tuning it can only fill in hidden spans.",),
    )

    def scheme(self, length: int) -> RowScheme:
        scheme = super().scheme(self.objective.raw_length(length))
        if isinstance(scheme, PackedDocuments):
            return PackedExamples(scheme.length, objective=self.objective)
        return scheme

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """Empty, as no single word is masked."""
        return []

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        return []
