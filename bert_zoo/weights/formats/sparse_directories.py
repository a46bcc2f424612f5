"""Files of sparse encoders: sentence-transformers' SpladePooling, its Router with weights of query tokens, idf.json."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.config import DOCUMENT, QUERY, Autoencoder, Config, ConfigError, SparsePooling
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import read_object
from bert_zoo.weights.formats.format import Description
from bert_zoo.weights.formats.hf_directories import (
    AUTOENCODER,
    MODULES_FILE,
    ROUTER,
    SETTINGS_FILE,
    SETTINGS_KEYS,
    SIMILARITY,
    Module,
    below,
    check_outputs,
    config_of,
    dense_modules,
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
from bert_zoo.weights.table import AUTOENCODER as AUTOENCODER_LAYER
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
INPUT_SIZE = "input_dim"  # of an autoencoder, whose other keys are our fields
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
    makes_units: bool = False  # whether the pooling is an autoencoder of sentence vectors


def sparse_modules_of(directory: Path) -> SparseModules | None:
    """The modules of a directory of sentence-transformers' SparseEncoder; None for any other directory.

    Raises:
        ConfigError: they are in another order, or routed otherwise, than bert_zoo supports.
    """
    modules = modules_of(directory)
    kinds = [kind for kind, _ in modules]
    if kinds[-1:] == [AUTOENCODER] and "Pooling" in kinds:
        return SparseModules(modules[0][1], modules[-1][1], makes_units=True)
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
    settings = read_known(directory / SETTINGS_FILE, (*SETTINGS_KEYS, MOST_DIMENSIONS))
    if (similarity := settings.take(SIMILARITY, str) or "dot") != "dot":
        log.warning(
            "%s compares vectors by %s, but bert_zoo compares sparse vectors by their dot product.",
            *(settings.where, similarity),
        )
    most = settings.take(MOST_DIMENSIONS, int)
    if modules.makes_units:
        values = config_of(directory / modules.pooling, None)
        values.pop(INPUT_SIZE, None)  # which its weights say, too
        made = values.record(Autoencoder)
        if most is not None and most > made.k:
            raise ConfigError(
                f"{settings.where} has {MOST_DIMENSIONS} {most}, but the {AUTOENCODER} keeps {made.k} units. Raise its k."
            )
        # sentence-transformers writes k there, too.
        return SparsePooling(max_active_dims=None if most == made.k else most, autoencoder=made)
    check_outputs(sentence_settings(directory / modules.transformer), LOGITS, f"{POOLING} reads")
    values = config_of(directory / modules.pooling, POOLING_KEYS)
    try:
        return SparsePooling(
            values.take("pooling_strategy", str, "max"),
            values.take("activation_function", str, "relu"),
            most,
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
    directory: Path, description: Description, config: Config, tensors: Mapping[str, Any]
) -> None:
    """The files by which sentence-transformers makes sparse vectors with the model of a directory.

    Args:
        directory: of the model.
        description: of the model.
        config: of its encoder.
        tensors: the weights of an autoencoder and of dense layers before it, or of queries' tokens, for static queries;
            `STATIC_FOLDER` also needs the vocabulary.
    """
    pooling, queries = description.sparse_pooling, []
    if pooling.autoencoder is not None:
        modules, read = dense_modules(description.pooling, config.hidden_size, tensors), {}
        weights = below(f"{AUTOENCODER_LAYER}.", tensors)
        settings = {INPUT_SIZE: weights["pre_bias"].shape[0], **asdict(pooling.autoencoder)}
        folder = f"{len(modules)}_{AUTOENCODER}"
        modules.append(Module(AUTOENCODER, folder, settings, weights))
    else:
        settings = {
            "pooling_strategy": pooling.strategy,
            "activation_function": pooling.activation,
            "embedding_dimension": config.vocab_size,
        }
        modules = [Module("Transformer"), Module(POOLING, POOLING_FOLDER, settings)]
        output = {"method": "forward", "method_output_name": LOGITS["method_output_name"]}
        read = {
            "transformer_task": LOGITS["transformer_task"],
            "modality_config": {"text": output},
            "module_output_name": "token_embeddings",
        }
    if pooling.static_queries:
        # The model stays where transformers reads it.
        weights = below(f"{QUERY_WEIGHTS}.", tensors)
        queries = [Module(STATIC, STATIC_FOLDER, {"frozen": False}, weights)]
    write_modules(directory, [*modules, *queries], is_new=True)
    if queries:
        write_router(directory, {QUERY: queries, DOCUMENT: modules}, DOCUMENT)
    write_transformer(directory, description.text, description.lacks_pooler, **read)
    others = {SIMILARITY: "dot", MOST_DIMENSIONS: pooling.max_active_dims}
    write_settings(directory, description.prompts, kind="SparseEncoder", **others)
