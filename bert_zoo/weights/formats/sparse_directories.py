"""Files of sparse encoders: sentence-transformers' SpladePooling, its Router with weights of query tokens, idf.json."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY, ConfigError, Prompts, SparsePooling
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import read_object
from bert_zoo.weights.files import write_json
from bert_zoo.weights.formats.hf_directories import (
    MODULE_FILE,
    MODULES_FILE,
    ROUTER,
    ROUTER_TYPE,
    SENTENCE_FILE,
    SENTENCE_LENGTH,
    SETTINGS_FILE,
    SETTINGS_KEYS,
    SIMILARITY,
    check_outputs,
    config_of,
    module_rows,
    modules_of,
    read_known,
    routes_of,
    sentence_settings,
    write_routes,
)
from bert_zoo.weights.sources import open_weights
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
# The classes that sentence-transformers 6 names.
CLASSES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    POOLING: "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
    ROUTER: ROUTER_TYPE,
    STATIC: "sentence_transformers.sparse_encoder.modules.sparse_static_embedding.SparseStaticEmbedding",
}
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
    directory: Path,
    pooling: SparsePooling,
    vocab_size: int,
    max_length: int | None,
    prompts: Prompts,
    weights: Mapping[str, Any],
) -> None:
    """The files by which sentence-transformers makes sparse vectors with the model of a directory.

    Args:
        directory: of the model.
        pooling: to write.
        vocab_size: length of its vectors.
        max_length: tokens that texts are cut to; None for no word of it.
        prompts: of its texts.
        weights: of the tokens of queries, "weight" [vocabulary], for static queries; `STATIC_FOLDER` also needs the
            vocabulary.
    """
    from bert_zoo.weights.safetensors_io import write_safetensors

    modules = [("Transformer", ""), (POOLING, POOLING_FOLDER)]
    if pooling.static_queries:
        # The model stays where transformers reads it.
        modules = [(ROUTER, "")]
        documents = {"": CLASSES["Transformer"], POOLING_FOLDER: CLASSES[POOLING]}
        routes = {QUERY: {STATIC_FOLDER: CLASSES[STATIC]}, DOCUMENT: documents}
        write_routes(directory, routes, DOCUMENT)
        folder = directory / STATIC_FOLDER
        folder.mkdir(exist_ok=True)
        write_json(folder / MODULE_FILE, {"frozen": False})
        write_safetensors(folder / "model.safetensors", weights, {"format": "pt"})
    write_json(directory / MODULES_FILE, module_rows(modules, CLASSES))
    (directory / POOLING_FOLDER).mkdir(exist_ok=True)
    values = {"pooling_strategy": pooling.strategy, "activation_function": pooling.activation}
    write_json(
        directory / POOLING_FOLDER / MODULE_FILE, values | {"embedding_dimension": vocab_size}
    )
    output = {"method": "forward", "method_output_name": LOGITS["method_output_name"]}
    values = {
        "transformer_task": LOGITS["transformer_task"],
        "modality_config": {"text": output},
        "module_output_name": "token_embeddings",
    }
    if max_length is not None:
        values |= {SENTENCE_LENGTH: max_length, "do_lower_case": False}
    write_json(directory / SENTENCE_FILE, values)
    values = {
        "model_type": "SparseEncoder",
        "prompts": prompts.texts,
        "default_prompt_name": prompts.default,
        SIMILARITY: "dot",
    }
    if pooling.max_active_dims is not None:
        values[MOST_DIMENSIONS] = pooling.max_active_dims
    write_json(directory / SETTINGS_FILE, values)
