"""What stands beside a model in Hugging Face directories: sentence-transformers' and tokenizers' files."""

import logging
from pathlib import Path
from typing import Any

from bert_zoo.config import ConfigError, Pooling, TextSpec
from bert_zoo.error_text import listing
from bert_zoo.json_files import read_object, read_objects
from bert_zoo.weights.files import write_json

log = logging.getLogger("bert_zoo")

# sentence-transformers' list of modules, folder and names of poolings.
MODULES_FILE = "modules.json"
POOLING_DIRECTORY = "1_Pooling"
POOLING_MODES = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "cls"}
SENTENCE_FILE, SENTENCE_LENGTH = "sentence_bert_config.json", "max_seq_length"
TOKENIZER_FILE, TOKENIZER_LENGTH = "tokenizer_config.json", "model_max_length"


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
    """The pooling that a sentence-transformers directory names; ours by default."""
    path = directory / POOLING_DIRECTORY / "config.json"
    if not path.is_file():
        return Pooling()
    values = read_object(path)
    # Since version 5.3 by their names: one, or a list of those whose vectors are joined.
    named = values.get("pooling_mode", [])
    modes = {
        f"{mode}_tokens" if mode != "cls" else "cls_token"
        for mode in ([named] if isinstance(named, str) else values.items_of("pooling_mode", str))
    }
    modes |= {
        key.removeprefix("pooling_mode_")
        for key, value in values.items()
        if key.startswith("pooling_mode_") and value is True
    }
    if len(modes) != 1 or not modes <= set(POOLING_MODES):
        raise ConfigError(
            f"{path} asks for {listing(sorted(modes))}; bert_zoo pools by one of "
            f"{sorted(POOLING_MODES)}."
        )
    modules = directory / MODULES_FILE
    listed = read_objects(modules) if modules.is_file() else []
    kinds = [module.take("type", str, "") for module in listed]
    unknown = [kind for kind in kinds if not kind.endswith(("Transformer", "Pooling", "Normalize"))]
    if unknown:
        log.warning(
            "%s names %s, which bert_zoo does not have: vectors of this model are those before it.",
            modules,
            listing(unknown),
        )
    normalize = any(kind.endswith("Normalize") for kind in kinds)
    return Pooling(POOLING_MODES[modes.pop()], normalize)


def write_pooling(
    directory: Path,
    pooling: Pooling,
    hidden_size: int,
    max_length: int | None,
    *,
    lacks_pooler: bool = False,
) -> None:
    """The files by which sentence-transformers puts a pooling behind an encoder.

    `lacks_pooler` has it make the encoder without the layer over the first token, whose weights the
    directory does not hold.
    """
    modules = [("Transformer", ""), ("Pooling", POOLING_DIRECTORY)]
    modules += [("Normalize", "2_Normalize")] * pooling.normalize
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(modules)
    ]
    modes = {
        f"pooling_mode_{theirs}": pooling.mode == ours for theirs, ours in POOLING_MODES.items()
    }
    (directory / POOLING_DIRECTORY).mkdir(exist_ok=True)
    write_json(
        directory / POOLING_DIRECTORY / "config.json",
        {"word_embedding_dimension": hidden_size, **modes},
    )
    write_json(directory / MODULES_FILE, rows)
    settings: dict[str, Any] = {}
    if max_length is not None:
        settings |= {SENTENCE_LENGTH: max_length, "do_lower_case": False}
    if lacks_pooler:
        settings["model_args"] = {"add_pooling_layer": False}
    if settings:
        write_json(directory / SENTENCE_FILE, settings)
