"""Files of sparse encoders: sentence-transformers' SpladePooling, its Router with weights of query tokens, idf.json."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY, ConfigError, SparsePooling
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import read_object
from bert_zoo.weights.formats.format import Description
from bert_zoo.weights.formats.hf_directories import (
    MODULES_FILE,
    ROUTER,
    SETTINGS_FILE,
    SETTINGS_KEYS,
    SIMILARITY,
    Module,
    check_outputs,
    config_of,
    modules_of,
    read_known,
    routes_of,
    sentence_settings,
    write_modules,
    write_router,
    write_settings,
    write_transformer,
)
from bert_zoo.weights.sources import open_weights
from bert_zoo.weights.table import QUERY_WEIGHTS
from bert_zoo.weights.tensor_source import TensorSource

log = logging.getLogger("bert_zoo")

TRANSFORMERS = ("Transformer", "MLMTransformer")
POOLING, STATIC = "SpladePooling", "SparseStaticEmbedding"
# OpenSearch's {token: weight} of the tokens of queries.
IDF_FILE = "idf.json"
POOLING_KEYS = (
    *("pooling_strategy", "activation_function", "embedding_dimension", "word_embedding_dimension"),
)
MOST_DIMENSIONS = "max_active_dims"
# What the transformer before the pooling gives it.
LOGITS = {"transformer_task": "fill-mask", "method_output_name": "logits"}
# The folders that `write_sparse` makes.
POOLING_FOLDER, STATIC_FOLDER = f"1_{POOLING}", f"query_0_{STATIC}"


class SparseModules(NamedTuple):
    """The folders of a sparse encoder's modules, below its directory."""

    transformer: str
    pooling: str
    queries: str | None = None  # of the weights of queries' tokens, which are then not encoded


def sparse_modules_of(directory: Path) -> SparseModules | None:
    """The modules of a directory of sentence-transformers' SparseEncoder; None for any other directory.

    Raises:
        ConfigError: they are in another order, or routed otherwise, than bert_zoo supports.
    """
    modules = modules_of(directory)
    kinds = [kind for kind, _ in modules]
    routes = {DOCUMENT: modules}
    if kinds == [ROUTER]:
        routes = routes_of(directory / modules[0][1])
    if not any(kind == POOLING for route in routes.values() for kind, _ in route):
        return None
    found = {name: [kind for kind, _ in route] for name, route in routes.items()}
    first, *after = found.get(DOCUMENT, [""])
    queries = found.pop(QUERY, None)
    if (
        [*found] != [DOCUMENT]
        or first not in TRANSFORMERS
        or after != [POOLING]
        or queries not in (None, [STATIC])
    ):
        raise ConfigError(
            f"{directory / MODULES_FILE} lists the modules {shown(found | {QUERY: queries} if queries else found)}, "
            f"which are not supported in this order: a sparse encoder has Transformer and {POOLING}, and perhaps a "
            f"{ROUTER} with these for documents and {STATIC} for queries. Use the model with the program that wrote it."
        )
    (_, transformer), (_, pooling) = routes[DOCUMENT]
    return SparseModules(transformer, pooling, routes[QUERY][0][1] if queries else None)


def model_folder(directory: Path) -> Path:
    """Where the configuration, the weights and the vocabulary of a directory's model are."""
    modules = sparse_modules_of(directory)
    return directory if modules is None else directory / modules.transformer


def sparse_pooling_of(directory: Path) -> SparsePooling | None:
    """How a directory's model makes sparse vectors; None if it does not say that it does.

    Raises:
        ConfigError: a module or a setting that bert_zoo does not have.
    """
    modules = sparse_modules_of(directory)
    if modules is None:
        has_weights = (directory / IDF_FILE).is_file() and not modules_of(directory)
        return SparsePooling(static_queries=True) if has_weights else None
    check_outputs(sentence_settings(directory / modules.transformer), LOGITS, f"{POOLING} reads")
    values = config_of(directory / modules.pooling, POOLING_KEYS)
    settings = read_known(directory / SETTINGS_FILE, (*SETTINGS_KEYS, MOST_DIMENSIONS))
    if (similarity := settings.take(SIMILARITY, str) or "dot") != "dot":
        log.warning(
            "%s compares vectors by %s, but bert_zoo compares sparse vectors by their dot product.",
            *(settings.where, similarity),
        )
    try:
        return SparsePooling(
            values.take("pooling_strategy", str, "max"),
            values.take("activation_function", str, "relu"),
            settings.take(MOST_DIMENSIONS, int),
            static_queries=modules.queries is not None,
        )
    except ValueError as error:
        raise ConfigError(f"{directory}: {error}") from error


def query_weights(directory: Path, vocabulary: Sequence[str]) -> TensorSource:
    """The weights of queries' tokens, "weight" [vocabulary], of a directory that has them."""
    modules = sparse_modules_of(directory)
    if modules is not None:
        config_of(directory / modules.queries, ("frozen",))
        return open_weights(directory / modules.queries)
    path = directory / IDF_FILE
    values = read_object(path).values_of(float)
    if unknown := sorted(set(values) - set(vocabulary)):
        log.warning("%s weighs %s, which the vocabulary lacks.", path, listing(unknown))
    return _Arrays(path, weight=np.float32([values.get(token, 0.0) for token in vocabulary]))


class _Arrays(TensorSource):
    """Tensors that are arrays already."""

    def __init__(self, path: Path, **arrays: np.ndarray):
        self._arrays = arrays
        super().__init__(str(path), {name: array.shape for name, array in arrays.items()})

    def _read(self, key: str) -> np.ndarray:
        return self._arrays[key]


def write_sparse(
    directory: Path, description: Description, vocab_size: int, tensors: Mapping[str, Any]
) -> None:
    """The files by which sentence-transformers makes sparse vectors with the model of a directory.

    Args:
        directory: of the model.
        description: of the model.
        vocab_size: length of its vectors.
        tensors: the weights of queries' tokens, for static queries; `STATIC_FOLDER` also needs the vocabulary.
    """
    pooling = description.sparse_pooling
    settings = {
        "pooling_strategy": pooling.strategy,
        "activation_function": pooling.activation,
        "embedding_dimension": vocab_size,
    }
    modules = [Module("Transformer"), Module(POOLING, POOLING_FOLDER, settings)]
    if pooling.static_queries:
        # The model stays where transformers reads it.
        weights = {"weight": tensors[f"{QUERY_WEIGHTS}.weight"]}
        queries = [Module(STATIC, STATIC_FOLDER, {"frozen": False}, weights)]
        parts = {QUERY: queries, DOCUMENT: modules}
        routes = {role: {m.folder: m.new_class for m in part} for role, part in parts.items()}
        write_modules(directory, [*modules, *queries])
        write_router(directory, routes, DOCUMENT)
    else:
        write_modules(directory, modules, is_new=True)
    output = {"method": "forward", "method_output_name": LOGITS["method_output_name"]}
    write_transformer(
        directory,
        description.text,
        lacks_pooler=False,
        transformer_task=LOGITS["transformer_task"],
        modality_config={"text": output},
        module_output_name="token_embeddings",
    )
    others = {SIMILARITY: "dot", MOST_DIMENSIONS: pooling.max_active_dims}
    write_settings(directory, description.prompts, kind="SparseEncoder", **others)
