"""Training of bidirectional language models on words that are read as characters, as ELMo was pretrained.

The text is one stream of words with a boundary between sentences. One direction reads it forwards and the other
backwards; each continues in a batch where it ended in the previous one.
Source: Peters et al. 2018 (arXiv:1802.05365), section 3.1; allenai/bilm-tf bilm/data.py and training.py.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.models import Encoder
from bert_zoo.models.task_model import Use
from bert_zoo.presets import LanguageModelPreset
from bert_zoo.pretraining.batches import NumberedBatches
from bert_zoo.pretraining.causal import (
    MEASURED_TOKENS,
    HeldOutStream,
    StreamSettings,
    StreamTraining,
)
from bert_zoo.pretraining.measuring import log_frequencies
from bert_zoo.pretraining.streams import Segments, StreamPart
from bert_zoo.pretraining.tokens import TokenizedText
from bert_zoo.registry import registry
from bert_zoo.tasks.bidirectional_lm import BidirectionalLM
from bert_zoo.text.format import DeferredPreprocessor, TextFormat, rows_of_language_models
from bert_zoo.text.layout import PLAIN
from bert_zoo.text.word_level_files import read_word_level

WORDS = TextFormat(read_word_level, layout=PLAIN, preprocessor=rows_of_language_models)
# A vocabulary begins with these: the end of a line, and the unknown word.
BOUNDARY, UNKNOWN = "<eos>", "<unk>"
MARKS = ("<S>", "</S>")  # what the two directions read at a boundary


class WordsOfText:
    """What the two directions read for each word, and what they predict.

    Args:
        vocabulary: `BOUNDARY`, `UNKNOWN`, then the text's words by falling frequency.
        encoder: the encoder, which reads the characters of words.
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
        """Returns what is predicted for words: themselves, or `UNKNOWN`."""
        return np.where(token_ids < self.num_classes, token_ids, 1)


class BidirectionalBatches(NumberedBatches):
    """Segments of a stream and of its reverse, one pass after another.

    Args:
        token_ids: integers [tokens], numbers of words.
        words: what is read and predicted.
        batch_size, segment_length: as for `Segments`.

    Attributes:
        per_epoch: number of batches in a pass.
    """

    def __init__(
        self, token_ids: np.ndarray, words: WordsOfText, batch_size: int, segment_length: int
    ):
        self.words = words
        self._streams = [
            Segments(ids, batch_size, segment_length) for ids in (token_ids, token_ids[::-1])
        ]
        self.per_epoch = self._streams[0].num_steps
        self.tokens = float(batch_size * segment_length)

    def at(self, number: int) -> dict[str, np.ndarray]:
        """Returns a batch, as `BidirectionalLM` takes it."""
        batches = [stream.at(number % self.per_epoch) for stream in self._streams]
        labels = np.stack([batch["labels"] for batch in batches], axis=1)
        spelled = zip(self.words.spelled, batches, strict=True)
        return {
            "char_ids": np.stack([table[batch["token_ids"]] for table, batch in spelled], axis=1),
            "labels": np.where(labels == IGNORED_LABEL, labels, self.words.classes(labels)),
            "starts_stream": batches[0]["starts_stream"],
        }


class HeldOutWords(HeldOutStream):
    """Held-out text; its `token_ids` are the words to predict."""

    def losses(self, model: BidirectionalLM) -> dict[str, float]:
        """Returns the loss in nats per word, for both directions together and for each."""
        data = self.batches.dataset(0, self.batches.per_epoch)
        metrics = model.evaluate(data, return_dict=True, verbose=0)
        forward, backward = (float(metrics[f"{name}_loss"]) for name in ("forward", "backward"))
        return {
            "loss": (forward + backward) / 2,
            "forward loss": forward,
            "backward loss": backward,
        }


class BidirectionalTraining(StreamTraining):
    """A bidirectional encoder with a softmax, and the stream of words that they are trained on.

    The softmax predicts the text's words. It starts from their frequencies and is not saved.
    Arguments: as for `StreamTraining`, with a `BidirectionalLM`.
    """

    use = Use(
        "feature-extraction",
        "gives each word of a sentence a vector from every layer",
        'vectors = model.embed_words(["A sentence , split at spaces ."])',
        limits=("It has no head for a task: train a tagger or classifier on its vectors.",),
    )

    def __init__(
        self,
        model: BidirectionalLM,
        settings: StreamSettings,
        text: TokenizedText | StreamPart,
        seed: int,
    ):
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

    def held_out(self, name: str, text: TokenizedText | StreamPart) -> HeldOutWords:
        token_ids = text.stream()[:MEASURED_TOKENS]
        return HeldOutWords(name, self.words.classes(token_ids), self.batches_of(token_ids))

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
    """Returns an encoder with a new softmax over the words of a vocabulary, given as a directory."""
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
    """Returns a randomly initialised encoder. Its characters need no vocabulary."""
    family = registry().families[preset.family]
    characters = DeferredPreprocessor(vocabulary, family.text, sequence_length=2048).make()
    config = family.config_class(vocab_size=preset.vocab_size, **preset.config)
    return Encoder(config, family.name, preprocessor=characters, dtype=dtype)
