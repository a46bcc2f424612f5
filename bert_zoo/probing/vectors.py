"""Vectors of words at every layer of a frozen encoder, computed once and stored in half precision."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_zoo.config import HeadSpec
from bert_zoo.data.array_files import open_array
from bert_zoo.data.files import lines
from bert_zoo.json_files import parse_json, read_object
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.inputs import check_batch_size
from bert_zoo.models.word_outputs import POOLINGS, sentences_of, word_vectors
from bert_zoo.training.kept_outputs import finite, kept_outputs
from bert_zoo.weights.files import replacing

ALL_LAYERS = HeadSpec("concat")
DTYPE = "float16"
VECTORS, SENTENCES = "vectors.npy", "sentences.jsonl"
# Number of sentences whose float32 vectors are in memory at once.
SENTENCES_AT_ONCE = 512


@dataclass(frozen=True)
class LayerVectors:
    """The vectors of the words of some sentences, at every layer.

    Attributes:
        sentences: the words of each sentence.
        sizes: the size of each layer's vectors; layer 0 is the output of the embeddings.
        array: float16 [words, sum of sizes], the layers side by side; memory-mapped if it is stored in a file.
    """

    sentences: Sequence[Sequence[str]]
    sizes: tuple[int, ...]
    array: np.ndarray

    @cached_property
    def splits(self) -> np.ndarray:
        """int64 [sentences + 1]: sentence i has the rows splits[i] to splits[i + 1] - 1."""
        return np.cumsum([0, *map(len, self.sentences)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def num_layers(self) -> int:
        """Number of layers, including the output of the embeddings."""
        return len(self.sizes)

    @property
    def num_words(self) -> int:
        """Number of words in all sentences."""
        return len(self.array)

    def layer(self, number: int, rows: Any = slice(None)) -> np.ndarray:
        """Returns the vectors of one layer.

        Args:
            number: index of the layer; -1 is the last.
            rows: the words to return, as a slice or an array of row numbers; all by default.

        Returns:
            float32 [words, size].

        Raises:
            IndexError: there is no such layer.
        """
        number = range(self.num_layers)[number]
        start = sum(self.sizes[:number])
        return self.array[rows, start : start + self.sizes[number]].astype(np.float32)


def compute_vectors(
    encoder: ZooModel,
    sentences: Any,
    directory: str | os.PathLike | None = None,
    *,
    pooling: str = "mean",
    batch_size: int = 32,
) -> LayerVectors:
    """Computes the vectors of words at every layer of an encoder, in half precision.

    Args:
        encoder: an encoder, or a model that has one. It is not changed.
        sentences: lists of words, or texts, which are split as in `Encoder.embed_words`.
        directory: folder to store the vectors in, so that memory use does not grow with the number of sentences. The
            same call continues a stopped run and opens a finished one. By default the vectors stay in memory.
        pooling: how to pool the vectors of a word's pieces: "mean", "first" or "last".
        batch_size: rows per step.

    Raises:
        ValueError: there are no sentences, or one has no words; `pooling` is unknown; the directory holds
            vectors of another model or of other sentences; a vector is not finite in half precision.
    """
    check_batch_size(batch_size)
    if pooling not in POOLINGS:
        raise ValueError(f"pooling is {pooling!r}; it is one of {list(POOLINGS)}.")
    encoder = encoder_of(encoder)
    # `sentences_of` takes a tuple for a pair of columns; here it is a sequence like any other.
    sentences = [*sentences] if isinstance(sentences, tuple) else sentences
    words = [list(sentence.words) for sentence in sentences_of(sentences)]
    lengths = [len(sentence) for sentence in words]
    if 0 in lengths:
        raise ValueError(f"sentences[{lengths.index(0)}] has no words. Remove it.")

    def compute(some: Sequence[Sequence[str]]) -> np.ndarray:
        return np.concatenate(word_vectors(encoder, some, batch_size, ALL_LAYERS, pooling))

    sizes = tuple(encoder.backbone.hidden_sizes)
    if directory is None:
        parts = []
        for first in range(0, len(words), SENTENCES_AT_ONCE):
            some = words[first : first + SENTENCES_AT_ONCE]
            parts.append(finite(compute(some), DTYPE, first, first + len(some)))
        return LayerVectors(words, sizes, np.concatenate(parts))
    path = Path(directory) / VECTORS
    array = kept_outputs(
        encoder,
        words,
        path,
        compute,
        batch_size=batch_size,
        counts=lengths,
        about={"pooling": pooling, "sizes": list(sizes)},
        dtype=DTYPE,
        title="Vectors",
    )
    with replacing(Path(directory) / SENTENCES) as part:
        part.write_text(
            "".join(json.dumps(sentence) + "\n" for sentence in words), encoding="utf-8"
        )
    return LayerVectors(words, sizes, array)


def open_vectors(directory: str | os.PathLike) -> LayerVectors:
    """Opens the vectors that `compute_vectors` stored in a directory; the array is memory-mapped.

    Raises:
        FileNotFoundError: the directory holds no vectors, or not all of them yet.
        ValueError: a file is damaged, or belongs to other vectors.
    """
    path, sentences = Path(directory) / VECTORS, Path(directory) / SENTENCES
    notes = path.with_suffix(".json")
    if not path.exists() or not sentences.exists():
        raise FileNotFoundError(
            f"{directory} holds no finished vectors. Call compute_vectors with this directory; it continues "
            "where it stopped."
        )
    remedy = f"Delete {path} and {notes}, and call compute_vectors with this directory again."
    words = [
        parse_json(line, sentences, number, remedy=remedy) for number, line in lines(sentences)
    ]
    sizes = tuple(read_object(notes, remedy).items_of("sizes", int))
    shape = (sum(map(len, words)), sum(sizes))
    return LayerVectors(words, sizes, open_array(path, shape, DTYPE, remedy))


def randomly_initialised(encoder: ZooModel, seed: int = 0) -> Encoder:
    """Returns an encoder with the same configuration and vocabulary but random weights: the baseline of every probe.

    Args:
        encoder: an encoder, or a model that has one. It is not changed.
        seed: seed of the weights. Keras's global seed is set to it.
    """
    encoder = encoder_of(encoder)
    keras.utils.set_random_seed(seed)
    return Encoder(encoder.config, encoder.family, preprocessor=encoder.preprocessor)
