"""Pretraining of language models: on streams with a memory, or on rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.models import CausalLM, StatefulLM
from bert_zoo.models.task_model import Use
from bert_zoo.presets import LanguageModelPreset
from bert_zoo.pretraining.batches import StreamBatches, StreamRowBatches
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.measuring import log_frequencies
from bert_zoo.pretraining.streams import StreamPart
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.training.optimizers import AveragedSGD, language_model_adam

# The number of held-out tokens to measure on.
MEASURED_TOKENS = 1 << 16


@dataclass(frozen=True)
class StreamSettings:
    """Settings for pretraining a language model, besides model, text and seed.

    Attributes:
        recipe: the settings of the optimizer. `total_steps` counts all updates and is not used if `seconds` is set.
        seconds: time budget; None to train for a number of updates.
        steps_per_execution: as in `Recipe`.
    """

    recipe: LanguageModelPreset
    seconds: float | None = None
    steps_per_execution: int = 1

    batches_per_update = 1

    @property
    def measurements(self) -> int:
        return self.recipe.measurements

    @property
    def phases(self) -> tuple[tuple[int, float], ...]:
        """The number of tokens per row, one phase for the whole training."""
        return ((self.recipe.segment_length, 1.0),)


@dataclass
class HeldOutStream:
    """The beginning of a text, which is kept out of training to measure the loss.

    Attributes:
        name: name of the text.
        token_ids: int32 [tokens], at most `MEASURED_TOKENS`.
        batches: its batches.
    """

    name: str
    token_ids: np.ndarray
    batches: StreamBatches | StreamRowBatches

    def losses(self, model: StatefulLM | CausalLM) -> dict[str, float]:
        """The loss in nats per token, with the memory of training if the model has one."""
        data = self.batches.dataset(0, self.batches.per_epoch)
        metrics = model.evaluate(data, return_dict=True, verbose=0)
        return {"loss": float(metrics["bits"]) * math.log(2)}

    def unigram_loss(self, counts: np.ndarray) -> float:
        """Loss of a unigram model with these token counts.

        Args:
            counts: int [vocabulary], counts in the training text.
        """
        return float(-log_frequencies(counts)[self.token_ids[1:]].mean())


class StreamTraining:
    """Trains a recurrent language model on a stream.

    Args:
        model: the language model.
        settings: the settings.
        text: the text.
        seed: unused, because nothing is drawn for a stream.

    Attributes:
        model: the model with its memory, for `fit`.
        counts: number of occurrences of each token in the text.
        phases: the stream's batches, which stay the same throughout the training.
        use: what the model is for.
    """

    use = Use(
        "text-generation",
        "continues a text, one token at a time",
        'print(model.generate("A beginning", sampler="top_p", seed=1))',
        limits=("Its output resembles its training texts and need not be true.",),
    )

    def __init__(
        self, model: CausalLM, settings: StreamSettings, text: TokenizedText | StreamPart, seed: int
    ):
        self.language_model, self.settings, self.seed = model, settings, seed
        self.model, self.counts = self.trained_model(), text.counts
        self.phases = [self.batches_of(text.stream())]

    @staticmethod
    def as_tokenized(document: Sequence[str], tokenizer) -> Sequence[str]:
        """The text to tokenize: all sentences, each followed by a line end."""
        return ["".join(f"{sentence}\n" for sentence in document)]

    def trained_model(self) -> StatefulLM | CausalLM:
        """The model that `fit` trains."""
        return StatefulLM(self.language_model, self.settings.recipe.batch_size)

    def batches_of(self, token_ids: np.ndarray) -> StreamBatches | StreamRowBatches:
        """A stream's batches."""
        recipe = self.settings.recipe
        return StreamBatches(token_ids, recipe.batch_size, recipe.segment_length)

    def about(self) -> dict[str, Any]:
        """The entries of `config.json` besides the recipe."""
        config = self.language_model.encoder.config
        return {
            "objective": "each token from those before it",
            "phases": self.settings.phases,
            "memory": getattr(config, "mem_len", "a state"),
            "cutoffs": config.cutoffs,
            "dtype": self.language_model.dtype_policy.name,
            "steps_per_execution": self.settings.steps_per_execution,
        }

    def held_out(self, name: str, text: TokenizedText | StreamPart) -> HeldOutStream:
        """The beginning of a held-out text, to measure on."""
        token_ids = text.stream()[:MEASURED_TOKENS]
        return HeldOutStream(name, token_ids, self.batches_of(token_ids))

    def compile(self) -> None:
        """Compiles the model with the recipe's optimizer."""
        recipe = self.settings.recipe
        if recipe.patience:
            options = {"patience": recipe.patience, "global_clipnorm": recipe.clip_norm}
            optimizer = AveragedSGD(recipe.learning_rate, **options)
        else:
            optimizer = language_model_adam(
                recipe.learning_rate,
                total_steps=None if self.settings.seconds else recipe.total_steps,
                warmup_steps=recipe.warmup_steps,
                floor=recipe.floor,
                clip_norm=recipe.clip_norm,
            )
        steps = self.settings.steps_per_execution
        self.model.compile(optimizer=optimizer, steps_per_execution=steps)

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """None, because no word is masked."""
        return []

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        return []

    def trained(self) -> CausalLM:
        """The model to save."""
        return self.language_model


class RowTraining(StreamTraining):
    """Trains a language model with limited positions, on rows of its maximum length.

    Documents follow each other, separated by the vocabulary's end token if it has one, as in GPT-2's training.
    Rows may begin and end anywhere. Arguments are those of `StreamTraining`, except:

        seed: seed of the order of rows.
    """

    @staticmethod
    def as_tokenized(document: Sequence[str], tokenizer) -> Sequence[str]:
        """The text to tokenize: one sentence per line, and the end token."""
        has_end = hasattr(tokenizer, "eos_id")
        return [
            "\n".join(document) + (tokenizer.id_to_token(tokenizer.eos_id) if has_end else "\n")
        ]

    def trained_model(self) -> CausalLM:
        return self.language_model

    def batches_of(self, token_ids: np.ndarray) -> StreamRowBatches:
        recipe = self.settings.recipe
        return StreamRowBatches(token_ids, recipe.batch_size, recipe.segment_length, self.seed)

    def held_out(self, name: str, text: TokenizedText | StreamPart) -> HeldOutStream:
        """A text to measure on. It may have fewer rows than a batch, or be shorter than a row."""
        recipe, token_ids = self.settings.recipe, text.stream()[:MEASURED_TOKENS]
        length = max(1, min(recipe.segment_length, len(token_ids) - 1))
        rows = max(1, min(recipe.batch_size, (len(token_ids) - 1) // length))
        return HeldOutStream(name, token_ids, StreamRowBatches(token_ids, rows, length, self.seed))

    def about(self) -> dict[str, Any]:
        return {
            "objective": "each token from those before it",
            "rows": "full rows, with documents one after another",
            "phases": self.settings.phases,
            "dtype": self.language_model.dtype_policy.name,
            "steps_per_execution": self.settings.steps_per_execution,
        }
