"""What stands beside a model in Hugging Face directories: sentence-transformers' and tokenizers' files."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_zoo.config import ConfigError, PooledDense, Pooling, Prompts, TextSpec
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import JsonObject, as_object, read_list, read_object
from bert_zoo.weights.files import write_json

log = logging.getLogger("bert_zoo")

# sentence-transformers' list of modules, and the folder of a pooling.
MODULES_FILE, MODULE_FILE = "modules.json", "config.json"
PROMPTS_FILE = "config_sentence_transformers.json"
POOLING_DIRECTORY = "1_Pooling"
# What versions before 5.3 call poolings, after "pooling_mode_", in the order in which several are joined.
POOLING_MODES = {
    "cls_token": "cls",
    "max_tokens": "max",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean_tokens": "weightedmean",
    "lasttoken": "lasttoken",
}
# The classes of torch that a Dense may name -> our words.
DENSE_ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.SiLU": "silu",
}
# What a cross-encoder makes scores of its logit with, by our words.
SCORE_ACTIVATIONS = {
    ours: theirs for theirs, ours in DENSE_ACTIVATIONS.items() if ours in ("linear", "sigmoid")
}
# Where its config.json says so, from sentence-transformers 4 on and before. Since version 6 a file
# beside it does, that of prompts.
CROSS_ENCODER, OLD_CROSS_ENCODER = "sentence_transformers", "sbert_ce_default_activation_function"
ACTIVATION = "activation_fn"
# The one vector that modules after a pooling read and write.
SENTENCE_VECTOR = "sentence_embedding"
SENTENCE_FILE, SENTENCE_LENGTH = "sentence_bert_config.json", "max_seq_length"
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
    """Where texts are cut: as sentence-transformers says, or else the tokenizer."""
    for file, key in ((SENTENCE_FILE, SENTENCE_LENGTH), (TOKENIZER_FILE, TOKENIZER_LENGTH)):
        path = directory / file
        if not path.is_file():
            continue
        values = read_object(path)
        if file == SENTENCE_FILE and values.take("do_lower_case", bool, False):
            log.warning(
                "%s asks for lower case before the tokenizer. bert_zoo leaves that to the tokenizer: "
                "pass texts in lower case where it keeps their case.",
                path,
            )
        length = values.take(key, float)
        if length is not None:
            # A tokenizer without a limit has one of 1e30.
            return TextSpec(lowercase=None, max_length=int(length))
    return None


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
        ConfigError: a module that bert_zoo does not have, or modules in another order.
    """
    modules = _modules(directory)
    kinds = [kind for kind, _ in modules]
    pooling = next((folder for kind, folder in modules if kind == "Pooling"), POOLING_DIRECTORY)
    path = directory / pooling / MODULE_FILE
    if not path.is_file():
        return Pooling()
    after = kinds[kinds.index("Pooling") + 1 :] if "Pooling" in kinds else []
    normalize = after[-1:] == ["Normalize"]
    dense = after[: len(after) - normalize]
    if kinds and (kinds[:2] != ["Transformer", "Pooling"] or set(dense) - {"Dense"}):
        raise ConfigError(
            f"{directory / MODULES_FILE} lists the modules {listing(kinds)}; bert_zoo has Transformer, Pooling, "
            "then any number of Dense, then Normalize or nothing. Without the others in this file, what "
            "stands before them is loaded."
        )
    for kind, folder in modules:
        if kind == "Normalize" and (file := directory / folder / MODULE_FILE).is_file():
            _check_vector(read_object(file))
    values = read_object(path)
    # Since version 5.3 by their names: one, or a list of those whose vectors are joined.
    named = values.get("pooling_mode")
    if named is None:
        prefix = "pooling_mode_"
        known = [f"{prefix}{key}" for key in POOLING_MODES]
        asked = [key for key in values if key.startswith(prefix) and values.take(key, bool)]
        unknown = [key for key in asked if key not in known]
        if unknown:
            raise ConfigError(f"{path} asks for {listing(unknown)}; bert_zoo has {listing(known)}.")
        modes = [mode for key, mode in POOLING_MODES.items() if f"{prefix}{key}" in asked] or [
            "mean"
        ]
    else:
        modes = [named] if isinstance(named, str) else values.items_of("pooling_mode", str)
    try:
        return Pooling(
            tuple(modes),
            normalize,
            tuple(_dense_of(directory / folder) for folder in dense_folders(directory)),
            values.take("include_prompt", bool, True),
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def prompts_of(directory: Path) -> Prompts:
    """The prompts of a sentence-transformers directory."""
    path = directory / PROMPTS_FILE
    if not path.is_file():
        return Prompts()
    values = read_object(path)
    texts = values.section("prompts")
    try:
        return Prompts(
            {name: texts.take(name, str, "") for name in texts},
            values.take("default_prompt_name", str),
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def score_activation_of(values: JsonObject, directory: Path) -> str | None:
    """What makes scores of the logit of sentence-transformers' cross-encoder; None for other models.

    Args:
        values: of its config.json.
        directory: of the model.

    Raises:
        ConfigError: a function that bert_zoo does not have.
    """
    path = directory / PROMPTS_FILE
    beside = read_object(path) if path.is_file() else JsonObject({}, str(path))
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


def write_prompts(directory: Path, prompts: Prompts) -> None:
    """As sentence-transformers reads them."""
    values = {"prompts": prompts.texts, "default_prompt_name": prompts.default}
    write_json(directory / PROMPTS_FILE, values)


def dense_folders(directory: Path) -> list[str]:
    """The folders of a directory's Dense modules, in their order."""
    return [folder for kind, folder in _modules(directory) if kind == "Dense"]


def _modules(directory: Path) -> list[tuple[str, str]]:
    """Kind and folder of each module that a directory lists."""
    path = directory / MODULES_FILE
    modules = []
    for i, value in enumerate(read_list(path) if path.is_file() else ()):
        module = as_object(value, f"{path}, [{i}]")
        folder = module.take("path", str, "")
        if folder != Path(folder).name:
            raise ConfigError(f"{path} names the folder {shown(folder)}; it must be one beside it.")
        modules.append((module.take("type", str, "").rpartition(".")[2], folder))
    return modules


def _dense_of(folder: Path) -> PooledDense:
    path = folder / MODULE_FILE
    if not path.is_file():
        raise ConfigError(
            f"There is no {path}, which {MODULES_FILE} names. Copy the whole directory."
        )
    values = read_object(path)
    activation = values.take("activation_function", str, "torch.nn.modules.activation.Tanh")
    if activation not in DENSE_ACTIVATIONS:
        raise ConfigError(
            f"{path} has the activation {shown(activation)}; bert_zoo has {listing(DENSE_ACTIVATIONS)}."
        )
    _check_vector(values)
    if values.take("use_residual", bool, False):
        raise ConfigError(f"{path} has use_residual; bert_zoo's Dense has no residual connection.")
    units = values.take("out_features", int)
    return PooledDense(units, DENSE_ACTIVATIONS[activation], values.take("bias", bool, True))


def _check_vector(values: JsonObject) -> None:
    """Refuses a module that reads or writes something else than the sentence vector."""
    for name in ("module_input_name", "module_output_name"):
        if values.take(name, str, SENTENCE_VECTOR) != SENTENCE_VECTOR:
            raise ConfigError(
                f"{values.where} has {name} {shown(values[name])}; bert_zoo's modules after the pooling read "
                f"and write {SENTENCE_VECTOR}."
            )


def write_pooling(
    directory: Path,
    pooling: Pooling,
    hidden_size: int,
    max_length: int | None,
    dense: Sequence[Mapping[str, Any]],
    *,
    lacks_pooler: bool = False,
) -> None:
    """The files by which sentence-transformers puts a pooling after an encoder.

    Args:
        directory: of the encoder.
        pooling: to write.
        hidden_size: width of the encoder.
        max_length: tokens that texts are cut to; None for no word of it.
        dense: the weights of its dense layers, by torch's names.
        lacks_pooler: has it make the encoder without the layer over the first token, whose weights the
            directory does not hold.
    """
    from bert_zoo.weights.safetensors_io import write_safetensors

    modules = [("Transformer", ""), ("Pooling", POOLING_DIRECTORY)]
    modules += [("Dense", f"{2 + number}_Dense") for number in range(len(dense))]
    modules += [("Normalize", f"{len(modules)}_Normalize")] * pooling.normalize
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(modules)
    ]
    values: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    values |= {f"pooling_mode_{key}": mode in pooling.modes for key, mode in POOLING_MODES.items()}
    if tuple(mode for mode in POOLING_MODES.values() if mode in pooling.modes) != pooling.modes:
        values["pooling_mode"] = list(pooling.modes)
    if not pooling.include_prompt:
        values["include_prompt"] = False
    (directory / POOLING_DIRECTORY).mkdir(exist_ok=True)
    write_json(directory / POOLING_DIRECTORY / MODULE_FILE, values)
    width = hidden_size * len(pooling.modes)
    classes = {ours: theirs for theirs, ours in DENSE_ACTIVATIONS.items()}
    for (_, name), layer, weights in zip(modules[2:], pooling.dense, dense, strict=False):
        folder = directory / name
        folder.mkdir(exist_ok=True)
        about = {"in_features": width, "out_features": layer.units, "bias": layer.use_bias}
        write_json(folder / MODULE_FILE, about | {"activation_function": classes[layer.activation]})
        write_safetensors(folder / "model.safetensors", weights, {"format": "pt"})
        width = layer.units
    write_json(directory / MODULES_FILE, rows)
    settings: dict[str, Any] = {}
    if max_length is not None:
        settings |= {SENTENCE_LENGTH: max_length, "do_lower_case": False}
    if lacks_pooler:
        settings["model_args"] = {"add_pooling_layer": False}
    if settings:
        write_json(directory / SENTENCE_FILE, settings)
