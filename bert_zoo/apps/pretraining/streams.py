"""Trainings of language models with a memory, which read a text as streams."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.apps.pretraining.measuring import log_frequencies
from bert_zoo.data.corpus import Corpus, CorpusCounts
from bert_zoo.data.language_modelling import StreamBatches
from bert_zoo.data.token_shards import TokenShards
from bert_zoo.models import CausalLM, StatefulLM
from bert_zoo.models.task_model import Use
from bert_zoo.presets import LanguageModelPreset
from bert_zoo.training.optimizers import language_model_adam

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


class HeldOutStream:
    """The beginning of a text that is not trained on, and what it shows.

    Attributes:
        name: of the text.
        token_ids: int32 [tokens], at most `MEASURED_TOKENS`.
        batches: of them.
    """

    def __init__(self, name: str, shards: TokenShards, recipe: LanguageModelPreset):
        self.name = name
        self.token_ids = shards.stream()[:MEASURED_TOKENS]
        self.batches = StreamBatches(self.token_ids, recipe.batch_size, recipe.segment_length)

    def losses(self, model: StatefulLM) -> dict[str, float]:
        """The loss in nats a token, with the memory of training."""
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
        documents: a text's documents as they are tokenized.
    """

    use = Use(
        "text-generation",
        "goes on from a text, a token at a time",
        'print(model.generate("A beginning", sampler="top_p", seed=1))',
        limits=("What it writes reads like the texts, and need not be true.",),
    )
    documents = Lines

    def __init__(self, model: CausalLM, settings: StreamSettings, shards: TokenShards, seed: int):
        self.language_model, self.settings = model, settings
        recipe = settings.recipe
        self.model = StatefulLM(model, recipe.batch_size)
        self.phases = [StreamBatches(shards.stream(), recipe.batch_size, recipe.segment_length)]

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
        return HeldOutStream(name, shards, self.settings.recipe)

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

    def flops(self) -> float:
        """Floating-point operations of the products of a training step, three times those forward.

        The layers and the logits of the first cluster; those of rarer tokens depend on the text.
        """
        config, recipe = self.language_model.encoder.config, self.settings.recipe
        logits = config.cluster_sizes[0] + len(config.cutoffs)
        head = 2 * recipe.segment_length * logits * config.table_widths[0]
        return 3 * recipe.batch_size * (config.forward_flops(recipe.segment_length) + head)

    def trained(self) -> CausalLM:
        """The model to save."""
        return self.language_model
