"""What an encoder knows: probes of its layers, its attention heads and its geometry.

The encoder stays frozen. The names below are loaded on first use.
"""

import importlib

# Name -> the module that defines it.
_NAMES: dict[str, str] = {
    "Geometry": "bert_zoo.probing.geometry",
    "LayerCurve": "bert_zoo.probing.results",
    "LayerSimilarity": "bert_zoo.probing.similarity",
    "LayerVectors": "bert_zoo.probing.vectors",
    "OccurrenceMap": "bert_zoo.probing.occurrences",
    "WordNeighbours": "bert_zoo.probing.contextual_neighbours",
    "cka": "bert_zoo.probing.similarity",
    "compute_vectors": "bert_zoo.probing.vectors",
    "map_occurrences": "bert_zoo.probing.occurrences",
    "measure_geometry": "bert_zoo.probing.geometry",
    "nearest_words": "bert_zoo.probing.contextual_neighbours",
    "neighbours": "bert_zoo.probing.contextual_neighbours",
    "open_vectors": "bert_zoo.probing.vectors",
    "randomly_initialised": "bert_zoo.probing.vectors",
    "table_by_layer": "bert_zoo.probing.results",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'bert_zoo.probing' has no attribute {name!r}.")


def __dir__() -> list[str]:
    return __all__
