"""FlagEmbedding's files of BGE-M3: beside an encoder, the layers of its sparse and its token vectors."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import ConfigError, Pooling, SparsePooling, TokenRole, TokenVectors
from bert_zoo.weights.sources import open_weights

# Name of a layer's file -> where its tensors stand among those of the encoder.
LAYERS = {"colbert_linear": "linear", "sparse_linear": "sparse_linear"}
# PyTorch's pickles, and what `write_layers` writes in their place.
ENDINGS = (".safetensors", ".pt")
# How the program makes vectors: dense ones of the first token, the others without the first token, and without weights for XLM-R's <s>, <pad>, </s> and <unk>.
FIRST = Pooling("cls")
WITHOUT_FIRST = TokenRole(skip_words=("<s>",))
TOKENS = TokenVectors(1024, use_bias=True, query=WITHOUT_FIRST, document=WITHOUT_FIRST)
SPARSE = SparsePooling(of_tokens=True, skipped_ids=(0, 1, 2, 3))


def layer_files(directory: Path) -> dict[str, Path]:
    """The layers' files in a directory, by where their tensors stand; empty for other models.

    Raises:
        ConfigError: one of the two is missing.
    """
    found = {}
    for name, place in LAYERS.items():
        paths = (directory / f"{name}{ending}" for ending in ENDINGS)
        if path := next((path for path in paths if path.is_file()), None):
            found[place] = path
    if len(found) == 1:
        raise ConfigError(
            f"{directory} holds {next(iter(found.values())).name} alone; BGE-M3 has {' and '.join(LAYERS)}, as .pt or "
            ".safetensors. Copy the other one there, too."
        )
    return found


def hybrid_of(directory: Path) -> tuple[TokenVectors, SparsePooling] | None:
    """How a directory's model makes token and sparse vectors besides the dense one; None for other models."""
    files = layer_files(directory)
    if not files:
        return None
    size, _ = open_weights(files[LAYERS["colbert_linear"]]).shape("weight")
    return replace(TOKENS, size=size), SPARSE


def write_layers(directory: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes the layers' files as safetensors, whose names are those of the .pt files that FlagEmbedding reads."""
    from bert_zoo.weights.safetensors_io import write_safetensors

    for name, place in LAYERS.items():
        layer: dict[str, Any] = {
            key.removeprefix(f"{place}."): tensor
            for key, tensor in tensors.items()
            if key.startswith(f"{place}.")
        }
        write_safetensors(directory / f"{name}.safetensors", layer, {"format": "pt"})
