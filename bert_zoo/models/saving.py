"""`save`: a model's directory, in our format or Hugging Face's."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from bert_zoo.json_files import read_object
from bert_zoo.models.base import ZooModel
from bert_zoo.models.loading import (
    CONFIG_FILE,
    FORMAT_VERSION,
    HF_CONFIG_FILE,
    MODULES_FILE,
    POOLING_DIRECTORY,
    POOLING_MODES,
    PROBLEM_TYPES,
    SENTENCE_CONFIG_FILE,
    TOKENIZER_LENGTH,
)
from bert_zoo.models.stateful import StatefulLM
from bert_zoo.models.tasks import LabelledModel
from bert_zoo.models.thresholds import DEFAULT_THRESHOLD
from bert_zoo.registry import registry
from bert_zoo.training.lora import without_lora
from bert_zoo.weights.bind import ENCODER_PREFIX, Naming, named_variables, to_stored
from bert_zoo.weights.files import remove_leftovers, replacing
from bert_zoo.weights.safetensors_io import write_safetensors

log = logging.getLogger("bert_zoo")


def save(model: ZooModel, directory: str | os.PathLike, format: str = "bert_zoo") -> None:
    """Writes a model to a directory that `load` reads.

    A sentence embedder's "hf" directory carries its pooling as sentence-transformers reads it. LoRA
    is written as part of the kernels that it belongs to.

    Args:
        model: any model of the zoo.
        directory: made if it does not exist; files of an earlier save are replaced.
        format: "bert_zoo": configuration, weights (safetensors), vocabulary, head and labels; or
            "hf": what Hugging Face transformers loads, heads included.

    Raises:
        TypeError: not a model of the zoo; or a `StatefulLM`, whose language model is what is saved.
        ValueError: an unknown format.
        FileExistsError: the directory holds a model of the other format.
    """
    if not isinstance(model, ZooModel):
        raise TypeError(f"save() writes models that load() makes; got {type(model).__name__}.")
    if isinstance(model, StatefulLM):
        raise TypeError(
            "A StatefulLM holds the memory of a training beside its model. Save the model inside of "
            "it: save(model.language_model, directory); to go on with the training later, use "
            "bert_zoo.training.TrainingCheckpoint."
        )
    writers = {"bert_zoo": _bert_zoo_files, "hf": _hf_files}
    if format not in writers:
        raise ValueError(f"format is {format!r}; it is one of {list(writers)}.")
    model = without_lora(model)
    preprocessor = getattr(model, "encoder", model).preprocessor_to_save()
    config_name, config, naming, metadata = writers[format](model, preprocessor)
    directory = Path(directory).expanduser()
    for other in {CONFIG_FILE, HF_CONFIG_FILE} - {config_name}:
        if (directory / other).exists():
            raise FileExistsError(
                f"{directory} holds a model of another format ({other}), whose weights would be "
                "replaced. Save to another directory, or delete this one first."
            )
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    encoder = getattr(model, "encoder", model)
    prefix = "" if model is encoder else ENCODER_PREFIX
    bindings = naming.encoder(encoder.config, prefix) + naming.head(model.task, encoder.config)
    tensors = to_stored(named_variables(model), bindings)
    # Repetitions that need not agree are parameters of their own to Hugging Face, which misses them.
    tensors |= {
        copy.key: tensors[copy.of]
        for copy in naming.copies(encoder.config)
        if not copy.equal and copy.of in tensors
    }
    if format == "hf":
        buffers = naming.family.hf_buffers(encoder.config)
        tensors |= {naming.root + name: value for name, value in buffers.items()}
    write_safetensors(directory / "model.safetensors", tensors, metadata)
    _write_json(directory / config_name, config)
    headless = naming.family.headless
    if format == "hf" and model.task in headless and "embedding" in headless:
        _write_pooling(encoder, directory)
    if preprocessor is not None:
        preprocessor.save_vocabulary(directory)
        if format == "hf":
            _write_text_settings(preprocessor, directory)


def _bert_zoo_files(
    model: ZooModel, preprocessor
) -> tuple[str, dict[str, Any], Naming, dict[str, str]]:
    encoder = getattr(model, "encoder", model)
    config = {
        "format_version": FORMAT_VERSION,
        "family": encoder.family,
        "task": model.task,
        "config": encoder.config.to_dict(),
        "labels": list(model.labels) if isinstance(model, LabelledModel) else None,
        "pooling": {"mode": encoder.pooling.mode, "normalize": encoder.pooling.normalize},
        "text": _text(preprocessor),
        **_thresholds(model),
    }
    # Only where it says something, so that earlier versions read the other directories.
    if encoder.long_texts.in_windows:
        config["long_texts"] = encoder.long_texts.get_config()
    family = registry().families[encoder.family]
    naming = Naming(family, "bert_zoo", ENCODER_PREFIX)
    return CONFIG_FILE, config, naming, {"format": "bert_zoo"}


def _thresholds(model: ZooModel) -> dict[str, list[float]]:
    """The thresholds of a multi-label model, where they are not the default."""
    thresholds = getattr(model, "thresholds", ())
    if set(thresholds) <= {DEFAULT_THRESHOLD}:
        return {}
    return {"thresholds": list(thresholds)}


def _text(preprocessor) -> dict[str, Any] | None:
    """How the model reads text; None for a model without vocabulary."""
    if preprocessor is None:
        return None
    return {
        "lowercase": preprocessor.lowercase,
        "max_length": preprocessor.get_config()["sequence_length"],
    }


def _hf_files(model: ZooModel, preprocessor) -> tuple[str, dict[str, Any], Naming, dict[str, str]]:
    encoder = getattr(model, "encoder", model)
    family = registry().families[encoder.family]
    head = family.heads.get(model.task)
    is_bare = head is None
    if encoder.long_texts.in_windows:
        log.warning(
            "Hugging Face's format does not say what is done with long texts, which this model reads "
            "in windows: transformers cuts them. Load the directory with long_texts=%r, stride=%r.",
            encoder.long_texts.mode,
            encoder.long_texts.stride,
        )
    unknown = {
        name: getattr(encoder.config, name)
        for name, only in family.hf_only.items()
        if getattr(encoder.config, name) != only
    }
    if unknown:
        log.warning(
            "Hugging Face's %s does not know %s and computes with %s: its outputs will differ.",
            family.hf_encoder_class,
            unknown,
            {name: family.hf_only[name] for name in unknown},
        )
    config = {
        "architectures": [family.hf_encoder_class if is_bare else head.hf_class],
        **family.codecs["hf"].encode(encoder.config),
        **_hf_labels(model),
        **_thresholds(model),
    }
    # A bare Hugging Face encoder has no prefix; inside a task model it has the family's.
    naming = Naming(family, "hf", "" if is_bare else family.roots["hf"])
    return HF_CONFIG_FILE, config, naming, {"format": "pt"}


def _write_text_settings(preprocessor, directory: Path) -> None:
    """Has transformers cut texts where the model does, and read them as it does."""
    file, length = TOKENIZER_LENGTH
    path = directory / file
    values = read_object(path) if path.is_file() else {}
    values[length] = preprocessor.get_config()["sequence_length"]
    if preprocessor.lowercase is not None:
        values.setdefault("do_lower_case", preprocessor.lowercase)
    _write_json(path, values)


def _write_pooling(encoder, directory: Path) -> None:
    """The files by which sentence-transformers puts a pooling behind an encoder."""
    modules = [("Transformer", ""), ("Pooling", POOLING_DIRECTORY)]
    modules += [("Normalize", "2_Normalize")] * encoder.pooling.normalize
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(modules)
    ]
    modes = {
        f"pooling_mode_{theirs}": encoder.pooling.mode == ours
        for theirs, ours in POOLING_MODES.items()
    }
    (directory / POOLING_DIRECTORY).mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": encoder.config.hidden_size, **modes}
    _write_json(directory / POOLING_DIRECTORY / HF_CONFIG_FILE, pooling)
    _write_json(directory / MODULES_FILE, rows)
    if encoder.has_preprocessor:
        length = encoder.preprocessor_to_save().get_config()["sequence_length"]
        settings = {"max_seq_length": length, "do_lower_case": False}
        _write_json(directory / SENTENCE_CONFIG_FILE, settings)


def _write_json(path: Path, values: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(
            json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _hf_labels(model: ZooModel) -> dict[str, Any]:
    problem_type = next((name for name, task in PROBLEM_TYPES.items() if task == model.task), None)
    if problem_type is None and not isinstance(model, LabelledModel):
        return {}
    labels = getattr(model, "labels", ("LABEL_0",))  # as transformers names the one of regression
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
        **({} if problem_type is None else {"problem_type": problem_type}),
    }
