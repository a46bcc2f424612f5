"""Pretraining of language models: on streams with a memory, on rows, or in both directions as ELMo."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models import CausalLM, Encoder, StatefulLM
from bert_zoo.models.task_model import Use
from bert_zoo.presets import LanguageModelPreset
from bert_zoo.pretraining.batches import (
    BatchesInTurn,
    NumberedBatches,
    StreamBatches,
    StreamRowBatches,
)
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.masked import HeldOut, log_frequencies
from bert_zoo.pretraining.streams import StreamPart
from bert_zoo.pretraining.tokens import AnyText
from bert_zoo.registry import registry
from bert_zoo.tasks.bidirectional_lm import BidirectionalLM
from bert_zoo.text.format import DeferredPreprocessor, TextFormat, rows_of_language_models
from bert_zoo.text.numpy_packing import PLAIN
from bert_zoo.text.vocabulary_files import read_word_level
from bert_zoo.training.optimizers import AveragedSGD, language_model_adam

# The number of held-out tokens to measure on.
MEASURED_TOKENS = 1 << 16
Stream = AnyText | StreamPart


@dataclass(frozen=True)
class StreamSettings:
    """Settings for pretraining a language model, besides model, text and seed."""

    recipe: LanguageModelPreset  # its `total_steps` counts all updates and is not used if `seconds` is set
    seconds: float | None = None  # time budget; None to train for a number of updates
    steps_per_execution: int = 1  # as in `Recipe`

    batches_per_update = 1

    @property
    def measurements(self) -> int:
        return self.recipe.measurements

    @property
    def phases(self) -> tuple[tuple[int, float], ...]:
        """The number of tokens per row, one phase for the whole training."""
        return ((self.recipe.segment_length, 1.0),)


class StreamTraining:
    """Trains a recurrent language model on a stream. `seed` only groups the shards of a text that has some.

    `model` has the memory, for `fit`; `counts` are the text's tokens; one phase lasts the whole training.
    """

    reads = "lines"  # as for `MaskedTraining`
    compares_with_unigrams = True
    use = Use(
        "text-generation",
        "continues a text, one token at a time",
        'print(model.generate("A beginning", sampler="top_p", seed=1))',
        limits=("Its output resembles its training texts and need not be true.",),
    )

    def __init__(self, model: CausalLM, settings: StreamSettings, text: Stream, seed: int):
        self.language_model, self.settings, self.seed = model, settings, seed
        self.model, self.counts = self.trained_model(), text.counts
        self.phases = [BatchesInTurn(lambda n: self.batches_of(text.part(n, (seed,)).stream()))]

    @staticmethod
    def as_tokenized(document: Sequence[str], tokenizer) -> Sequence[str]:
        """The text to tokenize: all sentences, each followed by a line end."""
        return ["".join(f"{sentence}\n" for sentence in document)]

    def trained_model(self) -> StatefulLM | CausalLM:
        return StatefulLM(self.language_model, self.settings.recipe.batch_size)

    def batches_of(self, token_ids: np.ndarray) -> StreamBatches | StreamRowBatches:
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

    def held_out(self, name: str, text: Stream) -> HeldOut:
        token_ids = text.part(0).stream()[:MEASURED_TOKENS]
        batches = self.batches_of(token_ids)
        return HeldOut(name, batches, batches.per_epoch, token_ids)

    def losses(self, held: HeldOut) -> dict[str, float]:
        """The loss in nats per token, with the memory of training if the model has one."""
        return {"loss": self.measured(held)["bits"] * math.log(2)}

    def measured(self, held: HeldOut) -> dict[str, float]:
        data = held.batches.dataset(0, held.count)
        metrics = self.model.evaluate(data, return_dict=True, verbose=0)
        return {name: float(value) for name, value in metrics.items()}

    def unigram_loss(self, held: HeldOut) -> float:
        """Loss of a unigram model with the training text's counts."""
        return float(-log_frequencies(self.counts)[held.token_ids[1:]].mean())

    def compile(self) -> None:
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
        """Empty, because no word is masked."""
        return []

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        return []

    def trained(self) -> CausalLM:
        return self.language_model


class RowTraining(StreamTraining):
    """Trains a language model with limited positions, on rows of its maximum length.

    Documents follow each other, separated by the vocabulary's end token if it has one, as in GPT-2's training.
    Rows may begin and end anywhere; `seed` orders them.
    """

    reads = "joined"

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

    def held_out(self, name: str, text: Stream) -> HeldOut:
        """A text to measure on. It may have fewer rows than a batch, or be shorter than a row."""
        recipe, token_ids = self.settings.recipe, text.part(0).stream()[:MEASURED_TOKENS]
        length = max(1, min(recipe.segment_length, len(token_ids) - 1))
        rows = max(1, min(recipe.batch_size, (len(token_ids) - 1) // length))
        batches = StreamRowBatches(token_ids, rows, length, self.seed)
        return HeldOut(name, batches, batches.per_epoch, token_ids)

    def about(self) -> dict[str, Any]:
        return {
            "objective": "each token from those before it",
            "rows": "full rows, with documents one after another",
            "phases": self.settings.phases,
            "dtype": self.language_model.dtype_policy.name,
            "steps_per_execution": self.settings.steps_per_execution,
        }


# -------------------------------------------------------------------------------------------------
# Training of bidirectional language models on words that are read as characters, as ELMo was pretrained.
#
# The text is one stream of words with a boundary between sentences. One direction reads it forwards and the other
# backwards; each continues in a batch where it ended in the previous one.
# Source: Peters et al. 2018 (arXiv:1802.05365), section 3.1; allenai/bilm-tf bilm/data.py and training.py.
# -------------------------------------------------------------------------------------------------

WORDS = TextFormat(read_word_level, layout=PLAIN, preprocessor=rows_of_language_models)
# A vocabulary begins with these: the end of a line, and the unknown word.
BOUNDARY, UNKNOWN = "<eos>", "<unk>"
MARKS = ("<S>", "</S>")  # what the two directions read at a boundary


class WordsOfText:
    """What the two directions read for each word, and what they predict.

    Args:
        vocabulary: `BOUNDARY`, `UNKNOWN`, then the text's words by falling frequency.
        num_classes: number of words that are predicted, the first ones of the vocabulary.
    """

    def __init__(self, vocabulary: Sequence[str], encoder: Encoder, num_classes: int):
        if (*vocabulary[:2],) != (BOUNDARY, UNKNOWN):
            raise ValueError(
                f"The vocabulary begins with {[*vocabulary[:2]]}, but a model that reads characters needs "
                f"{BOUNDARY} and {UNKNOWN} first. Leave --vocabulary out to build one from the text."
            )
        if "char_ids" not in encoder.backbone.inputs:
            raise ValueError(
                f"This {encoder.family} reads words as ids and cannot be trained further. Choose a model that "
                "reads the characters of words."
            )
        characters = encoder.preprocessor.tokenizer
        # [direction, words, characters]
        self.spelled = np.stack(
            [characters.ids_of_words([mark, *vocabulary[1:]]) for mark in MARKS]
        )
        self.num_classes = num_classes

    def classes(self, token_ids: np.ndarray) -> np.ndarray:
        """What is predicted for words: themselves, or `UNKNOWN`."""
        return np.where(token_ids < self.num_classes, token_ids, 1)


class BidirectionalBatches(NumberedBatches):
    """Segments of a stream of word numbers, int [tokens], and of its reverse, one pass after another."""

    def __init__(
        self, token_ids: np.ndarray, words: WordsOfText, batch_size: int, segment_length: int
    ):
        self.words = words
        self._streams = [
            StreamBatches(ids, batch_size, segment_length) for ids in (token_ids, token_ids[::-1])
        ]
        self.per_epoch, self.tokens = self._streams[0].per_epoch, self._streams[0].tokens

    def at(self, number: int) -> dict[str, np.ndarray]:
        batches = [stream.at(number) for stream in self._streams]
        labels = np.stack([batch["labels"] for batch in batches], axis=1)
        spelled = zip(self.words.spelled, batches, strict=True)
        return {
            "char_ids": np.stack([table[batch["token_ids"]] for table, batch in spelled], axis=1),
            "labels": np.where(labels == IGNORED_LABEL, labels, self.words.classes(labels)),
            "starts_stream": batches[0]["starts_stream"],
        }


class BidirectionalTraining(StreamTraining):
    """A bidirectional encoder with a softmax, and the stream of words that they are trained on.

    The softmax predicts the text's words. It starts from their frequencies and is not saved.
    """

    use = Use(
        "feature-extraction",
        "gives each word of a sentence a vector from every layer",
        'vectors = model.embed_words(["A sentence , split at spaces ."])',
        limits=("It has no head for a task: train a tagger or classifier on its vectors.",),
    )

    def __init__(self, model: BidirectionalLM, settings: StreamSettings, text: Stream, seed: int):
        self.words = WordsOfText(
            model.words.tokenizer.vocabulary, model.encoder, model.softmax.size
        )
        super().__init__(model, settings, text, seed)
        classes = self.words.classes(np.arange(len(self.counts)))
        self.counts = np.bincount(classes, self.counts, self.words.num_classes)
        self.model.softmax.bias.assign(log_frequencies(self.counts))

    def trained_model(self) -> BidirectionalLM:
        return self.language_model

    def batches_of(self, token_ids: np.ndarray) -> BidirectionalBatches:
        recipe = self.settings.recipe
        return BidirectionalBatches(token_ids, self.words, recipe.batch_size, recipe.segment_length)

    def losses(self, held: HeldOut) -> dict[str, float]:
        """The loss in nats per word, for both directions together and for each."""
        metrics = self.measured(held)
        forward, backward = (metrics[f"{name}_loss"] for name in ("forward", "backward"))
        return {
            "loss": (forward + backward) / 2,
            "forward loss": forward,
            "backward loss": backward,
        }

    def held_out(self, name: str, text: Stream) -> HeldOut:
        """A text to measure on, with the words to predict as its ids."""
        found = super().held_out(name, text)
        return found._replace(token_ids=self.words.classes(found.token_ids))

    def about(self) -> dict[str, Any]:
        return {
            "objective": "each word from those before it, and from those after it",
            "phases": self.settings.phases,
            "words": self.words.num_classes,
            "dtype": self.language_model.dtype_policy.name,
            "steps_per_execution": self.settings.steps_per_execution,
        }

    def trained(self) -> Encoder:
        return self.model.encoder


def bidirectional_lm(
    encoder: Encoder, preset: LanguageModelPreset, vocabulary: str | Path
) -> BidirectionalLM:
    """An encoder with a new softmax over the words of a vocabulary, given as a directory."""
    words = DeferredPreprocessor(vocabulary, WORDS, sequence_length=2048).make()
    return BidirectionalLM(
        encoder,
        preset.batch_size,
        num_words=min(words.tokenizer.vocab_size, preset.vocab_size),
        num_samples=preset.num_samples,
        words=words,
    )


def new_encoder(
    preset: LanguageModelPreset, vocabulary: str | Path, dtype: str = "float32"
) -> Encoder:
    """A randomly initialised encoder. Its characters need no vocabulary."""
    family = registry().families[preset.family]
    characters = DeferredPreprocessor(vocabulary, family.text, sequence_length=2048).make()
    config = family.config_class(vocab_size=preset.vocab_size, **preset.config)
    return Encoder(config, family.name, preprocessor=characters, dtype=dtype)
