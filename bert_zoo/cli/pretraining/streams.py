"""Trainings of language models: with a memory on streams, else on rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.cli.pretraining.measuring import log_frequencies
from bert_zoo.data.corpus import Corpus, CorpusCounts
from bert_zoo.data.language_modelling import StreamBatches
from bert_zoo.data.token_shards import TokenShards
from bert_zoo.models import CausalLM, StatefulLM
from bert_zoo.models.task_model import Use
from bert_zoo.presets import LanguageModelPreset
from bert_zoo.training.optimizers import language_model_adam
from bert_zoo.training.row_batches import RowBatches

# Tokens of held-out text that are measured.
MEASURED_TOKENS = 1 << 16


@dataclass(frozen=True)
class StreamSettings:
    """What the pretraining of a language model depends on beside model, text and seed.

    Attributes:
        recipe: `total_steps` are all updates, where `seconds` do not say how long it is.
        seconds: a budget of time; None for one of updates.
        steps_per_execution: as of `Recipe`.
    """

    recipe: LanguageModelPreset
    seconds: float | None = None
    steps_per_execution: int = 1

    batches_per_update = 1

    @property
    def phases(self) -> tuple[tuple[int, float], ...]:
        """Tokens of a row, all through the training."""
        return ((self.recipe.segment_length, 1.0),)


class Lines:
    """A text's documents as lines of a stream: each one text, whose sentences end in a line end."""

    def __init__(self, corpus: Corpus):
        self.corpus = corpus

    @property
    def counts(self) -> CorpusCounts:
        return self.corpus.counts

    def __iter__(self) -> Iterator[list[str]]:
        for document in self.corpus:
            yield ["".join(f"{sentence}\n" for sentence in document)]


@dataclass
class HeldOutStream:
    """The beginning of a text that is not trained on, and what it shows.

    Attributes:
        name: of the text.
        token_ids: int32 [tokens], at most `MEASURED_TOKENS`.
        batches: of them.
    """

    name: str
    token_ids: np.ndarray
    batches: StreamBatches | RowBatches

    def losses(self, model: StatefulLM | CausalLM) -> dict[str, float]:
        """The loss in nats a token, with the memory of training if it has one."""
        data = self.batches.dataset(0, self.batches.per_pass)
        metrics = model.evaluate(data, return_dict=True, verbose=0)
        return {"loss": float(metrics["bits"]) * math.log(2)}

    def unigram_loss(self, counts: np.ndarray) -> float:
        """The loss for who knows how often each token occurs, and nothing of the text.

        Args:
            counts: int [vocabulary], of the text that is trained on.
        """
        return float(-log_frequencies(counts)[self.token_ids[1:]].mean())


class StreamTraining:
    """A language model that remembers, and the stream that it is trained on.

    Args:
        model: the language model.
        settings: how to train it.
        shards: the text.
        seed: nothing of a stream is drawn.

    Attributes:
        model: what `fit` trains, with the memory.
        phases: the stream's batches, the same ones all through the training.
        use: what the model is for.
    """

    use = Use(
        "text-generation",
        "goes on from a text, a token at a time",
        'print(model.generate("A beginning", sampler="top_p", seed=1))',
        limits=("What it writes reads like the texts, and need not be true.",),
    )

    def __init__(self, model: CausalLM, settings: StreamSettings, shards: TokenShards, seed: int):
        self.language_model, self.settings, self.seed = model, settings, seed
        self.model = self.trained_model()
        self.phases = [self.batches_of(shards.stream())]

    @staticmethod
    def documents(corpus: Corpus, tokenizer) -> Lines:
        """A text's documents as they are tokenized."""
        return Lines(corpus)

    def trained_model(self) -> StatefulLM | CausalLM:
        """What `fit` trains."""
        return StatefulLM(self.language_model, self.settings.recipe.batch_size)

    def batches_of(self, token_ids: np.ndarray) -> StreamBatches | RowBatches:
        """A stream's batches."""
        recipe = self.settings.recipe
        return StreamBatches(token_ids, recipe.batch_size, recipe.segment_length)

    def about(self) -> dict[str, Any]:
        """What `config.json` says of it beside the recipe."""
        config = self.language_model.encoder.config
        return {
            "objective": "each token from those before it",
            "phases": self.settings.phases,
            "memory": config.mem_len,
            "cutoffs": config.cutoffs,
            "dtype": self.language_model.dtype_policy.name,
            "steps_per_execution": self.settings.steps_per_execution,
        }

    def held_out(self, name: str, shards: TokenShards) -> HeldOutStream:
        """A text to measure on."""
        token_ids = shards.stream()[:MEASURED_TOKENS]
        return HeldOutStream(name, token_ids, self.batches_of(token_ids))

    def compile(self) -> None:
        """Compiles the model with the recipe's optimizer."""
        recipe = self.settings.recipe
        self.model.compile(
            optimizer=language_model_adam(
                recipe.learning_rate,
                total_steps=None if self.settings.seconds else recipe.total_steps,
                warmup_steps=recipe.warmup_steps,
                floor=recipe.floor,
                clip_norm=recipe.clip_norm,
            ),
            steps_per_execution=self.settings.steps_per_execution,
        )

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """None: no word is hidden."""
        return []

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        return []

    def trained(self) -> CausalLM:
        """The model to save."""
        return self.language_model


class Texts(Lines):
    """A text's documents, each one text whose sentences stand on lines, with a token that ends it."""

    def __init__(self, corpus: Corpus, end: str):
        super().__init__(corpus)
        self.end = end

    def __iter__(self) -> Iterator[list[str]]:
        for document in self.corpus:
            yield ["\n".join(document) + self.end]


class RowTraining(StreamTraining):
    """A language model whose positions end, and rows of a text that are as long as they can be.

    Documents stand one behind the other, with the vocabulary's end token between them where it has one, as
    GPT-2 was trained; rows begin and end anywhere. Arguments: as `StreamTraining`, but for

        seed: of the order of rows.
    """

    @staticmethod
    def documents(corpus: Corpus, tokenizer) -> Texts:
        has_end = hasattr(tokenizer, "eos_id")
        return Texts(corpus, tokenizer.id_to_token(tokenizer.eos_id) if has_end else "\n")

    def trained_model(self) -> CausalLM:
        return self.language_model

    def batches_of(self, token_ids: np.ndarray) -> RowBatches:
        recipe = self.settings.recipe
        return RowBatches(token_ids, recipe.batch_size, recipe.segment_length, self.seed)

    def held_out(self, name: str, shards: TokenShards) -> HeldOutStream:
        """A text to measure on, which may have fewer rows than a batch, or be shorter than one."""
        recipe, token_ids = self.settings.recipe, shards.stream()[:MEASURED_TOKENS]
        length = max(1, min(recipe.segment_length, len(token_ids) - 1))
        rows = max(1, min(recipe.batch_size, (len(token_ids) - 1) // length))
        return HeldOutStream(name, token_ids, RowBatches(token_ids, rows, length, self.seed))

    def about(self) -> dict[str, Any]:
        return {
            "objective": "each token from those before it",
            "rows": "full rows, with documents one behind the other",
            "phases": self.settings.phases,
            "dtype": self.language_model.dtype_policy.name,
            "steps_per_execution": self.settings.steps_per_execution,
        }
