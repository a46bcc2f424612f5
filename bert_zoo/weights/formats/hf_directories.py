"""Files besides the model in Hugging Face directories: those of sentence-transformers and of tokenizers."""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.config import (
    DOCUMENT,
    QUERY,
    ROLES,
    ConfigError,
    PooledDense,
    Pooling,
    Prompts,
    TextSpec,
)
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import JsonObject, as_object, read_list, read_object
from bert_zoo.weights.files import write_json

log = logging.getLogger("bert_zoo")

# sentence-transformers' list of modules, what it says of all of them, and the folder of a pooling.
MODULES_FILE, MODULE_FILE = "modules.json", "config.json"
SETTINGS_FILE = "config_sentence_transformers.json"
SIMILARITY = "similarity_fn_name"
SETTINGS_KEYS = (
    *("model_type", "__version__", "prompts", "default_prompt_name", SIMILARITY, "truncate_dim"),
)
POOLING_DIRECTORY = "1_Pooling"
# What versions before 5.3 call poolings, after a prefix, in the order in which several are joined.
MODE_PREFIX = "pooling_mode_"
POOLING_MODES = {
    "cls_token": "cls",
    "max_tokens": "max",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean_tokens": "weightedmean",
    "lasttoken": "lasttoken",
}
# Modules of sentence-transformers and PyLate that bert_zoo lacks, and what they are.
WORDS = "part of a model on word vectors without a transformer"
SPARSE, LATE = "part of a sparse encoder (SPLADE)", "part of a late-interaction model (ColBERT)"
CHOOSES = "a choice between modules, such as one for queries and one for documents"
OTHER_MODULES = {
    "Asym": CHOOSES,
    "BoW": "a bag of words without a transformer",
    "CLIPModel": "a model of images and texts",
    **dict.fromkeys(("CNN", "LSTM", "WordEmbeddings", "WordWeights"), WORDS),
    "LogitScore": "a score by the logits of a language model",
    **dict.fromkeys(("MLMTransformer", "SparseAutoEncoder", "SpladePooling"), SPARSE),
    "SparseStaticEmbedding": "a sparse encoder's table of token weights without a transformer",
    "TokenPooling": LATE,
    "WeightedLayerPooling": "a weighted mean of a transformer's layers",
}
# A table of token vectors and their mean, in the place of a transformer and its pooling. Before version 6 it had a folder.
TABLE, TABLE_FOLDER = "StaticEmbedding", "0_StaticEmbedding"
LAYER_NORM = "LayerNorm"
# What makes sparse vectors of sentence vectors.
AUTOENCODER = "SparseAutoEncoder"
MODULES = ("Transformer", "Pooling", TABLE, "Dense", LAYER_NORM, "MultiVectorMask", "Normalize")
# The classes of torch that a Dense may name -> our words.
DENSE_ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.SiLU": "silu",
}
# The activation that turns a cross-encoder's logit into a score, by our names.
SCORE_ACTIVATIONS = {
    ours: theirs for theirs, ours in DENSE_ACTIVATIONS.items() if ours in ("linear", "sigmoid")
}
# Where its config.json says so, from sentence-transformers 4 on and before. Since version 6 a file
# beside it does, that of prompts.
CROSS_ENCODER, OLD_CROSS_ENCODER = "sentence_transformers", "sbert_ce_default_activation_function"
ACTIVATION = "activation_fn"
# The one vector that modules after a pooling read and write.
SENTENCE_VECTOR = "sentence_embedding"
VECTOR_KEYS = ("module_input_name", "module_output_name")
POOLING_KEYS = (
    *("word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt"),
    *(f"{MODE_PREFIX}{key}" for key in POOLING_MODES),
)
# The configuration of gliner's directories.
GLINER_FILE = "gliner_config.json"
DENSE_KEYS = (
    *("in_features", "out_features", "bias", "activation_function", "use_residual", *VECTOR_KEYS),
)
# What the transformer before a pooling is made with. Early versions named the file by its type.
SENTENCE_FILE, SENTENCE_FILES = "sentence_bert_config.json", "sentence_*_config.json"
SENTENCE_LENGTH = "max_seq_length"
TOKEN_VECTORS = {
    "module_output_name": "token_embeddings",
    "method_output_name": "last_hidden_state",
}
# Arguments of transformers' functions, by the names of several versions.
UNREAD_ARGUMENTS = (
    *("model_args", "config_args", "tokenizer_args", "processing_kwargs"),
    *("model_kwargs", "config_kwargs", "processor_kwargs"),
)
WITHOUT_POOLER = {"add_pooling_layer": False}
# Of late-interaction models, as poolings read all texts alike.
ROLE_KEYS = ("query_length", "document_length", "query_expansion")
SENTENCE_KEYS = (
    *(SENTENCE_LENGTH, "do_lower_case", "transformer_task", "modality_config"),
    *("module_output_name", "unpad_inputs", *UNREAD_ARGUMENTS, *ROLE_KEYS),
)
# A choice between modules by the role of a text.
ROUTER, ROUTER_FILE = "Router", "router_config.json"
# Modules of dense vectors have had names in `sentence_transformers.models` in all versions. Version 6 has other places.
PLACES = {
    **dict.fromkeys(("Pooling", TABLE, LAYER_NORM), "sentence_transformer"),
    **dict.fromkeys(("SpladePooling", "SparseStaticEmbedding", AUTOENCODER), "sparse_encoder"),
    "MultiVectorMask": "multi_vector_encoder",
}
# The classifier of a SetFit model.
SETFIT_HEAD = "model_head.pkl"
TOKENIZER_FILE, TOKENIZER_LENGTH = "tokenizer_config.json", "model_max_length"
# Classes that read any tokenizer.json.
GENERIC_TOKENIZERS = ("", "PreTrainedTokenizerFast", "TokenizersBackend")


def tokenizer_class_of(directory: Path) -> str | None:
    """The class that reads the vocabulary of a directory whose config.json does not name it.

    transformers 5 names it in tokenizer_config.json alone; what sentence-transformers saves of
    paraphrase-multilingual-MiniLM-L12-v2 names none, and SentencePiece's pieces are XLM-RoBERTa's there.
    """
    config, serialized = directory / TOKENIZER_FILE, directory / "tokenizer.json"
    named = read_object(config).take("tokenizer_class", str, "") if config.is_file() else ""
    if named not in GENERIC_TOKENIZERS:
        return named.removesuffix("Fast")
    if (directory / "vocab.txt").is_file() or not serialized.is_file():
        return None
    model = read_object(serialized).section("model")
    return "XLMRobertaTokenizer" if model.take("type", str) == "Unigram" else None


def text_of(directory: Path) -> TextSpec | None:
    """Where texts are cut: as sentence-transformers says, or else the tokenizer.

    Says on the log what sentence-transformers does otherwise with texts.
    """
    settings = sentence_settings(directory)
    if settings.take("do_lower_case", bool, False):
        log.warning(
            "%s asks for lower case before the tokenizer. bert_zoo leaves that to the tokenizer: "
            "pass texts in lower case where it keeps their case.",
            settings.where,
        )
    if unread := [k for k in UNREAD_ARGUMENTS if settings.section(k) not in ({}, WITHOUT_POOLER)]:
        log.warning("%s has %s, which bert_zoo does not read.", settings.where, listing(unread))
    tokenizer = read_known(directory / TOKENIZER_FILE)
    for values, key in ((settings, SENTENCE_LENGTH), (tokenizer, TOKENIZER_LENGTH)):
        length = values.take(key, float)
        if length is not None:
            # A tokenizer without a limit has one of 1e30.
            return TextSpec(lowercase=None, max_length=int(length))
    return None


def sentence_settings(directory: Path) -> JsonObject:
    """Returns a directory's settings of the transformer before a pooling."""
    path = next(iter(sorted(directory.glob(SENTENCE_FILES))), directory / SENTENCE_FILE)
    return read_known(path, SENTENCE_KEYS)


def read_known(path: Path, known: Collection[str] | None = None) -> JsonObject:
    """The object in a file, an empty one where there is no file.

    Raises:
        ConfigError: it has a key that is not `known`.
    """
    values = read_object(path) if path.is_file() else JsonObject({}, path)
    if known is not None and (unknown := sorted(set(values) - set(known))):
        raise ConfigError(
            f"{path} has {listing(unknown)}, which bert_zoo does not know; it has {listing(known)}. "
            "Without what it does not know in this file, the rest is loaded."
        )
    return values


def write_text(directory: Path, text: TextSpec) -> None:
    """Has transformers cut texts at a length, and read them in the same case."""
    path = directory / TOKENIZER_FILE
    values = read_object(path) if path.is_file() else {}
    values[TOKENIZER_LENGTH] = text.max_length
    if text.lowercase is not None:
        values.setdefault("do_lower_case", text.lowercase)
    write_json(path, values)


def pooling_of(directory: Path) -> Pooling:
    """The pooling of a sentence-transformers directory, with the modules after it; ours by default.

    Raises:
        ConfigError: a module or a setting that bert_zoo does not have, or modules in another order.
    """
    modules = modules_of(directory)
    is_sparse = [kind for kind, _ in modules[-1:]] == [AUTOENCODER]
    modules = modules[: len(modules) - is_sparse]
    kinds = [kind for kind, _ in modules]
    pooling = next((folder for kind, folder in modules if kind == "Pooling"), POOLING_DIRECTORY)
    # A cross-encoder has a transformer alone.
    if kinds in ([], ["Transformer"]) and not (directory / pooling / MODULE_FILE).is_file():
        return Pooling()
    begin = [TABLE] if kinds[:1] == [TABLE] else ["Transformer", "Pooling"]
    after = kinds[len(begin) :]
    normalize = after[-1:] == ["Normalize"]
    after = after[: len(after) - normalize]
    layer_norm = after[-1:] == [LAYER_NORM]
    dense = after[: len(after) - layer_norm]
    if kinds and (kinds[: len(begin)] != begin or set(dense) - {"Dense"}):
        raise ConfigError(
            f"{directory / MODULES_FILE} lists the modules {listing(kinds)}, which are not supported in this order: "
            f"bert_zoo has Transformer, Pooling, or {TABLE}, then any number of Dense, then LayerNorm, Normalize, both or "
            "nothing. "
            "Use the model with the program that wrote it."
        )
    if (directory / SETFIT_HEAD).is_file():
        log.warning(
            "%s is SetFit's classifier. It is pickled, and bert_zoo unpickles nothing: what it stands on is "
            "loaded without it. Fit a logistic regression on embed(texts), or train again with bert_zoo finetune "
            "--recipe setfit.",
            directory / SETFIT_HEAD,
        )
    _check_token_vectors(sentence_settings(directory))
    if normalize:
        check_names(read_known(directory / modules[-1][1] / MODULE_FILE, VECTOR_KEYS))
    if layer_norm:
        _check_layer_norm(directory / modules[-1 - normalize][1])
    if begin == [TABLE]:  # whose mean has no settings
        values = JsonObject({}, directory / MODULES_FILE)
    else:
        values = config_of(directory / pooling, POOLING_KEYS)
    try:
        return Pooling(
            _modes(values),
            normalize,
            tuple(_dense_of(directory / folder) for folder in dense_folders(directory)),
            values.take("include_prompt", bool, True),
            layer_norm=layer_norm,
            **({} if is_sparse else settings_of(directory)),
        )
    except ValueError as error:
        raise ConfigError(f"{directory}: {error}") from error


def is_table(directory: Path) -> bool:
    """Whether a directory of sentence-transformers has a table of token vectors instead of a transformer."""
    return [kind for kind, _ in modules_of(directory)][:1] == [TABLE]


def check_modules(directory: Path) -> None:
    """Raises ConfigError if a directory of sentence-transformers has a module that bert_zoo lacks."""
    kinds = [kind for kind, _ in modules_of(directory)]
    if others := [kind for kind in dict.fromkeys(kinds) if kind not in MODULES]:
        said = "; ".join(f"{k} is {OTHER_MODULES.get(k, 'unknown to bert_zoo')}" for k in others)
        raise ConfigError(
            f"{directory / MODULES_FILE} lists the modules {listing(kinds)}, and {listing(others)} "
            f"{'is' if len(others) == 1 else 'are'} not supported: {said}. Use the model with the program that wrote "
            f"it, or choose one of the modules {listing(MODULES)}."
        )


def _modes(values: JsonObject) -> tuple[str, ...]:
    """The modes of a Pooling module."""
    # Since version 5.3 by their names: one, or a list of those whose vectors are joined.
    named = values.get("pooling_mode")
    if named is not None:
        return (named,) if isinstance(named, str) else tuple(values.items_of("pooling_mode", str))
    asked = (m for k, m in POOLING_MODES.items() if values.take(f"{MODE_PREFIX}{k}", bool))
    return tuple(asked) or ("mean",)


def _check_token_vectors(values: JsonObject) -> None:
    """Refuses a transformer that gives a pooling something else than the last vectors of its tokens."""
    if found := [key for key in ROLE_KEYS if values.get(key) is not None]:
        raise ConfigError(
            f"{values.where} has {listing(found)}, of models that read queries and documents differently; models with a "
            "pooling read all texts alike. Remove them, and cut texts with max_length."
        )
    check_outputs(values, TOKEN_VECTORS, "bert_zoo's poolings read")


def check_outputs(values: JsonObject, outputs: Mapping[str, str], reads: str) -> None:
    """Refuses a transformer that gives the module after it something else than `outputs`, which the module `reads`."""
    text = values.section("modality_config").section("text")
    for name, wanted in outputs.items():
        found = values.take(name, str) or text.take(name, str, wanted)
        if found != wanted:
            raise ConfigError(f"{values.where} has {name} {shown(found)}; {reads} {wanted}.")


def prompts_of(directory: Path) -> Prompts:
    """The prompts of a sentence-transformers directory."""
    values = read_known(directory / SETTINGS_FILE)
    texts = values.section("prompts")
    try:
        return Prompts(
            {name: texts.take(name, str, "") for name in texts},
            values.take("default_prompt_name", str),
        )
    except ValueError as error:
        raise ConfigError(f"{values.where}: {error}") from error


def score_activation_of(values: JsonObject, directory: Path) -> str | None:
    """What makes scores of the logit of sentence-transformers' cross-encoder; None for other models.

    Args:
        values: of its config.json.
        directory: of the model.

    Raises:
        ConfigError: a function that bert_zoo does not have.
    """
    beside = read_known(directory / SETTINGS_FILE)
    if beside.take("model_type", str) == "CrossEncoder":
        named = beside.take(ACTIVATION, str)
    elif CROSS_ENCODER in values:
        named = values.section(CROSS_ENCODER).take(ACTIVATION, str)
    elif OLD_CROSS_ENCODER in values:
        named = values.take(OLD_CROSS_ENCODER, str)
    else:
        return None
    words = {None: "sigmoid"} | {theirs: ours for ours, theirs in SCORE_ACTIVATIONS.items()}
    if named not in words:
        raise ConfigError(
            f"The cross-encoder in {directory} makes scores with {shown(named)}; bert_zoo has "
            f"{listing(SCORE_ACTIVATIONS.values())}. Write one of them in its place."
        )
    return words[named]


def write_settings(
    directory: Path,
    prompts: Prompts,
    pooling: Pooling = Pooling(),  # noqa: B008 (frozen)
    kind: str = "SentenceTransformer",
    **others: Any,
) -> None:
    """Writes what sentence-transformers reads of all modules; `kind` is its class, and None in `others` is left out."""
    values = {"model_type": kind, "prompts": prompts.texts, "default_prompt_name": prompts.default}
    values |= {SIMILARITY: pooling.similarity} | said({"truncate_dim": pooling.truncate_dim})
    write_json(directory / SETTINGS_FILE, values | said(others))


def said(optional: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is None."""
    return {name: value for name, value in optional.items() if value is not None}


def settings_of(directory: Path) -> dict[str, Any]:
    """What a directory says of its vectors: fields of `Pooling`."""
    settings = read_known(directory / SETTINGS_FILE, SETTINGS_KEYS)
    return {
        "similarity": settings.take(SIMILARITY, str, Pooling().similarity),
        "truncate_dim": settings.take("truncate_dim", int),
    }


def dense_folders(directory: Path) -> list[str]:
    """The folders of a directory's Dense modules, in their order."""
    return [folder for kind, folder in modules_of(directory) if kind == "Dense"]


def modules_of(directory: Path) -> list[tuple[str, str]]:
    """Kind and folder of each module that a directory lists."""
    path = directory / MODULES_FILE
    if not path.is_file():
        return _modules_of_route(directory)
    modules = []
    for i, value in enumerate(read_list(path)):
        module = as_object(value, f"{path}, [{i}]")
        folder = module.take("path", str, "")
        if folder not in (".", Path(folder).name):
            raise ConfigError(f"{path} names the folder {shown(folder)}; it must be one beside it.")
        modules.append((module.take("type", str, "").rpartition(".")[2], folder))
    return modules


def routes_of(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Route -> kind and folder of each of its modules, of a router's directory."""
    values = read_object(folder / ROUTER_FILE)
    structure, types = values.section("structure"), values.section("types")
    if chooses := values.section("parameters").get("route_mappings"):
        log.warning(
            "%s chooses routes by %s; bert_zoo has the route of a text's role.",
            values.where,
            chooses,
        )
    return {
        route: [
            (types.take(name, str, "").rpartition(".")[2], name)
            for name in structure.items_of(route, str)
        ]
        for route in structure
    }


def _modules_of_route(directory: Path) -> list[tuple[str, str]]:
    """The modules of a router's route, of the folder of its first one, and those after the router; else none."""
    router = directory.parent
    if not (router / ROUTER_FILE).is_file():
        return []
    for (first, folder), *others in routes_of(router).values():
        if folder == directory.name:
            after = [*others, *modules_of(router)[1:]]
            # Vectors of length 1 stay so.
            if [kind for kind, _ in after][-2:] == ["Normalize"] * 2:
                after.pop()
            return [(first, ""), *((kind, f"../{folder}") for kind, folder in after)]
    return []


class Routes(NamedTuple):
    """The folders of a router's first modules for documents and for queries, and the role of texts without one."""

    document: Path
    query: Path
    default: str


def encoders_of_roles(directory: Path) -> Routes | None:
    """The routes of a directory of sentence-transformers with an encoder for each role; None for other directories.

    Raises:
        ConfigError: it has other routes.
    """
    modules = modules_of(directory)
    if [kind for kind, _ in modules][:1] != [ROUTER]:
        return None
    router, routes = directory / modules[0][1], routes_of(directory / modules[0][1])
    is_elsewhere = len(modules) > 1 and router != directory
    if {*routes} != {*ROLES} or not all(routes.values()) or is_elsewhere:
        raise ConfigError(
            f"{directory / MODULES_FILE} has a {ROUTER} with the routes {listing(routes)}; bert_zoo has the routes "
            f"{listing(ROLES)}, in the model's directory. Use the model with the program that wrote it."
        )
    default = read_object(router / ROUTER_FILE).section("parameters").take("default_route", str)
    document, query = (router / routes[role][0][1] for role in (DOCUMENT, QUERY))
    return Routes(document, query, default or next(iter(routes)))


def write_router(directory: Path, routes: Mapping[str, "Sequence[Module]"], default: str) -> None:
    """Has sentence-transformers choose between the modules of a `default` role and those of the other one."""
    types = {module.folder: module.new_class for route in routes.values() for module in route}
    structure = {role: [module.folder for module in route] for role, route in routes.items()}
    parameters = {"default_route": default, "allow_empty_key": True, "route_mappings": {}}
    values = {"types": types, "structure": structure, "parameters": parameters}
    write_json(directory / ROUTER_FILE, values)
    write_json(directory / MODULES_FILE, module_rows([Module(ROUTER)], is_new=True))


def config_of(folder: Path, known: Collection[str] | None) -> JsonObject:
    """What a module that has settings says."""
    path = folder / MODULE_FILE
    if not path.is_file():
        raise ConfigError(
            f"There is no {path}, which {MODULES_FILE} names. Copy the whole directory."
        )
    return read_known(path, known)


def _dense_of(folder: Path) -> PooledDense:
    values = config_of(folder, DENSE_KEYS)
    tanh = "torch.nn.modules.activation.Tanh"
    activation = values.take("activation_function", str, tanh, choices=DENSE_ACTIVATIONS)
    check_names(values)
    refuse_residual(values)
    units = values.take("out_features", int)
    return PooledDense(units, DENSE_ACTIVATIONS[activation], values.take("bias", bool, True))


def refuse_residual(values: JsonObject) -> None:
    """Refuses a Dense that adds its input to its output."""
    if values.take("use_residual", bool, False):
        raise ConfigError(
            f"{values.where} has use_residual; bert_zoo's Dense has no residual connection."
        )


def _check_layer_norm(folder: Path) -> None:
    """Refuses a module whose layer norm scales or shifts numbers by weights."""
    from bert_zoo.weights.sources import open_weights

    config_of(folder, ("dimension",))
    source = open_weights(folder)
    if any((source[key] != key.endswith("weight")).any() for key in source):
        raise ConfigError(
            f"The layer norm in {folder} has weights; bert_zoo's, of sentence vectors, has none (scales of 1, "
            "shifts of 0)."
        )


def check_names(
    values: JsonObject, only: str = SENTENCE_VECTOR, where: str = "modules after the pooling"
) -> None:
    """Refuses a module that reads or writes other vectors than the `only` ones."""
    for name in VECTOR_KEYS:
        values.take(name, str, choices=[only], note=f"the only one for bert_zoo's {where}")


class Module(NamedTuple):
    """A module of sentence-transformers, and what is written into its folder."""

    kind: str
    folder: str = ""
    settings: Mapping[str, Any] | None = None  # None for no file
    weights: Mapping[str, Any] | None = None  # by torch's names; None for none

    @property
    def new_class(self) -> str:
        """What version 6 calls its class."""
        place = PLACES.get(self.kind, "base")
        file = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.kind).lower()
        return f"sentence_transformers.{place}.modules.{file}.{self.kind}"


def module_rows(modules: Sequence[Module], is_new: bool = False) -> list[dict[str, Any]]:
    """The content of modules.json, with the names that version 6 has for classes if it `is_new`."""
    return [
        {
            "idx": i,
            "name": str(i),
            "path": module.folder,
            "type": module.new_class if is_new else f"sentence_transformers.models.{module.kind}",
        }
        for i, module in enumerate(modules)
    ]


def write_modules(directory: Path, modules: Sequence[Module], is_new: bool = False) -> None:
    """Writes modules.json, as `module_rows`, and what is in the folders of modules."""
    from bert_zoo.weights.safetensors_io import write_safetensors

    write_json(directory / MODULES_FILE, module_rows(modules, is_new))
    for _, name, settings, weights in modules:
        folder = directory / name
        if settings is not None:
            folder.mkdir(exist_ok=True)
            write_json(folder / MODULE_FILE, settings)
        if weights is not None:
            write_safetensors(folder / "model.safetensors", weights, {"format": "pt"})


def dense_modules(
    pooling: Pooling,
    hidden_size: int,
    tensors: Mapping[str, Any] | None = None,
    table: Module | None = None,
) -> list[Module]:
    """The modules by which sentence-transformers makes sentence vectors.

    Args:
        pooling: how vectors are made.
        hidden_size: width of the encoder or the table.
        tensors: of the dense layers, by each layer's number and torch's names.
        table: of token vectors, in place of an encoder.
    """
    import numpy as np

    modes, modules = pooling.modes, [table or Module("Transformer")]

    def add(kind: str, *content: Mapping[str, Any]) -> None:
        modules.append(Module(kind, f"{len(modules)}_{kind}", *content))

    if table is None:
        values: dict[str, Any] = {"word_embedding_dimension": hidden_size}
        values |= {f"{MODE_PREFIX}{key}": mode in modes for key, mode in POOLING_MODES.items()}
        if tuple(mode for mode in POOLING_MODES.values() if mode in modes) != modes:
            values["pooling_mode"] = list(modes)
        if not pooling.include_prompt:
            values["include_prompt"] = False
        add("Pooling", values)
    width, classes = hidden_size * len(modes), {o: t for t, o in DENSE_ACTIVATIONS.items()}
    for number, layer in enumerate(pooling.dense):
        about = {"in_features": width, "out_features": layer.units, "bias": layer.use_bias}
        about["activation_function"] = classes[layer.activation]
        add("Dense", about, below(f"{number}/", tensors or {}))
        width = layer.units
    if pooling.layer_norm:
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
        add(LAYER_NORM, {"dimension": width}, {"norm.weight": ones, "norm.bias": zeros})
    if pooling.normalize:
        add("Normalize")
    return modules


def below(root: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors whose names begin with a root, without it."""
    return {k.removeprefix(root): t for k, t in tensors.items() if k.startswith(root)}


def write_transformer(
    directory: Path, text: TextSpec | None, lacks_pooler: bool, **settings: Any
) -> None:
    """Writes how long the texts of the transformer before other modules are, and further settings; None is left out.

    If it `lacks_pooler`, the directory lacks weights of the layer over the first token, so that none must be made.
    """
    settings = said(settings)
    if text is not None:
        settings |= {SENTENCE_LENGTH: text.max_length, "do_lower_case": False}
    if lacks_pooler:
        settings["model_args"] = WITHOUT_POOLER
    if settings:
        write_json(directory / SENTENCE_FILE, settings)


def check_is_mean(pooling: Pooling) -> None:
    """Raises ValueError unless vectors are the mean of all tokens, which alone other programs make of a table."""
    if pooling.modes != ("mean",) or not pooling.include_prompt:
        raise ValueError(
            f"The pooling is {pooling}; other programs make only the mean of all tokens of a table of token vectors. "
            "Leave format out."
        )
