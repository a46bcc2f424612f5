"""`save`: writes a model's directory in the format of bert_zoo, Hugging Face, KerasHub or peft."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_zoo.config import Config, TextSpec
from bert_zoo.error_text import shown
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.loading.adapters import save_adapter
from bert_zoo.loading.card import write_card
from bert_zoo.models.base import ZooModel
from bert_zoo.models.labels import DEFAULT_THRESHOLD
from bert_zoo.models.quantization import check_is_float
from bert_zoo.registry import registry
from bert_zoo.tasks.streams import StatefulModel
from bert_zoo.text.format import DeferredPreprocessor
from bert_zoo.text.serialized import save_for_transformers
from bert_zoo.training.lora import without_lora
from bert_zoo.weights.bind import ENCODER_PREFIX, Plan, pooled_bindings, to_stored, variables_of
from bert_zoo.weights.files import remove_leftovers, write_json
from bert_zoo.weights.formats import BertZoo, Description, Format, HuggingFace, KerasHub

log = logging.getLogger("bert_zoo")

# The formats by name, and the programs that read the others' files.
FORMATS = {kind.name: kind for kind in (BertZoo, HuggingFace, KerasHub)}
PEFT = "peft"
PROGRAMS = {HuggingFace.name: "Hugging Face transformers", KerasHub.name: "KerasHub"}


def save(model: ZooModel, directory: str | os.PathLike, format: str = "bert_zoo") -> None:
    """Writes a model to a directory that `load` reads.

    LoRA is merged into the kernels, except with format="peft".

    Args:
        model: any model of the zoo.
        directory: created if it does not exist; files of an earlier save are replaced.
        format:
            "bert_zoo": configuration, weights (safetensors), vocabulary, head and labels.
            "hf": the files of Hugging Face transformers, with the head. For sentence embedders, also
            the pooling in the files of sentence-transformers.
            "keras_hub": a preset of KerasHub with a classifier's head, without tokenizer and labels.
            "peft": only the LoRA of `bert_zoo.training.add_lora`, pooler and head, as an adapter that
            peft loads onto the base model.
            If a model has a second encoder that the format cannot store in the same files, it goes to
            a subdirectory with the encoder's name.

    Raises:
        TypeError: not a model of the zoo, or a `StatefulModel` (save its inner model).
        ValueError: the format is unknown or does not support this model, or the model is quantized.
        FileExistsError: the directory holds a model of another format or type.
    """
    if not isinstance(model, ZooModel):
        raise TypeError(f"save() writes models that load() makes; got {type(model).__name__}.")
    if isinstance(model, StatefulModel):
        raise TypeError(
            f"A {type(model).__name__} also holds the memory of a training. Save its inner model: "
            f"save(model.{model.held_as}, directory). To resume the training later, use "
            "bert_zoo.training.TrainingCheckpoint."
        )
    if format != BertZoo.name:
        _check_head(model)
    if format == PEFT:
        save_adapter(model, Path(directory).expanduser())
        return
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}; it is one of {[*FORMATS, PEFT]}.")
    check_is_float(model)
    model = without_lora(model)
    encoder = getattr(model, "encoder", model)
    family, config = registry().families[encoder.family], encoder.config
    preprocessor = encoder.preprocessor_to_save()
    fmt = family.formats.get(format)
    if fmt is None:
        raise ValueError(
            f"{PROGRAMS[format]} has no models of the family {family.name}. Leave format out."
        )
    description = _description(model, preprocessor)
    if description.reads_vectors:
        family = family.with_vector_head(model.task)
    if description.head is not None:
        family = family.with_own_head(model.task, description.head, not model.outputs_per_token)
    root = fmt.root_in(model.task)
    if format == HuggingFace.name:
        description = _as_hugging_face(fmt, family, model, description, preprocessor)
        if model.task not in family.heads:
            # Hugging Face's bare encoders have no prefix; those in task models have the family's.
            root = ""
    elif format == KerasHub.name:
        description = _as_keras_hub(fmt, family, model, description)
    directory = Path(directory).expanduser()
    kinds = FORMATS.values()
    written = {name for kind in kinds for name in (kind.config_file, kind.weights_file)}
    for other in written - {fmt.config_file, fmt.weights_file}:
        if (directory / other).exists():
            raise FileExistsError(
                f"{directory} holds a model of another format ({other}), whose weights would be "
                "replaced. Save to another directory, or delete this one first."
            )
    if format == HuggingFace.name:
        _check_type(directory / fmt.config_file, fmt)
    variables = variables_of(model)
    plan = family.plan(format, config, root)
    _write(directory, family, plan, config, description, variables, preprocessor)
    if format == HuggingFace.name:
        write_card(directory, model, family, description)
    for second in family.second_encoders:
        own = {
            ENCODER_PREFIX + path.removeprefix(second.ours): variable
            for path, variable in variables.items()
            if path.startswith(second.ours)
        }
        if not own or second.name in fmt.encoders:
            continue
        task = family.task_of(second)
        config = second.config(config)
        below = directory / second.name
        description = replace(description, task=task, classes=(fmt.classes[task],))
        _write(
            below,
            family,
            family.plan(format, config, root),
            config,
            description,
            variables | own,
            preprocessor,
        )
        log.warning(
            "Hugging Face's format holds one network per directory: the %s is in %s.",
            second.name,
            below,
        )


def _check_head(model: ZooModel) -> None:
    """Refuses heads for which other programs have no class."""
    if getattr(model, "head", None) is not None:
        raise ValueError(
            "The head of this model reads chosen layers of its encoder or has a BiLSTM. Hugging Face transformers "
            "and KerasHub have no such class. Leave format (in export, layout) out, or save model.encoder."
        )
    if getattr(model, "reads_vectors", False):
        raise ValueError(
            "The head of this model reads sentence vectors. Hugging Face transformers and KerasHub have no such "
            "class. Leave format (in export, layout) out, or save model.encoder."
        )


def _check_type(path: Path, fmt: HuggingFace) -> None:
    """Refuses to overwrite a model of another family, whose vocabulary would stay in the directory."""
    told = read_object(path).get("model_type") if path.is_file() else None
    if told not in (None, fmt.model_type):
        raise FileExistsError(
            f"{path.parent} holds a model of the type {shown(told)}, but this one is {fmt.model_type!r}. "
            "Files of the other model, such as its vocabulary, would stay. Save to another directory, or "
            "delete this one first."
        )


def _write(
    directory: Path,
    family: Family,
    plan: Plan,
    config: Config,
    description: Description,
    variables: Mapping[str, Any],
    preprocessor,
) -> None:
    """Writes one encoder, with the head for the description's task."""
    fmt = plan.format
    values = fmt.encode(config, description)  # raises if the format cannot express them
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    bindings = plan.bindings(description.task, config.pooler)
    tensors = to_stored(variables, [b for b in bindings if b.encoder in ("", *fmt.encoders)])
    # Hugging Face counts copies that may differ as parameters, and reports them if they are missing.
    tensors |= {
        copy.key: tensors[copy.of] for copy in plan.copies if not copy.equal and copy.of in tensors
    }
    tensors |= {plan.root + name: value for name, value in fmt.buffers(config).items()}
    tensors_beside = _tensors_beside(fmt, description, variables)
    if fmt.name == BertZoo.name:
        tensors |= tensors_beside
    fmt.write_weights(directory, tensors)
    dtype = str(next(iter(tensors.values())).dtype)
    parts = (config, description, preprocessor, dtype, tensors_beside)
    _write_around(directory, family, fmt, values, *parts)


def write_around_weights(model: ZooModel, directory: Path) -> None:
    """Writes what `save(format="hf")` writes, without the weights.

    Raises:
        ValueError: Hugging Face's format does not support this model.
    """
    _check_head(model)
    encoder = getattr(model, "encoder", model)
    family = registry().families[encoder.family]
    fmt, preprocessor = family.formats.get(HuggingFace.name), encoder.preprocessor_to_save()
    if fmt is None:
        raise ValueError(
            f"Hugging Face transformers has no models of the family {family.name}. Leave layout out."
        )
    description = _description(model, preprocessor)
    description = _as_hugging_face(fmt, family, model, description, preprocessor)
    values = fmt.encode(encoder.config, description)
    directory.mkdir(parents=True, exist_ok=True)
    tensors_beside = _tensors_beside(fmt, description, variables_of(model))
    parts = (encoder.config, description, preprocessor, encoder.compute_dtype, tensors_beside)
    _write_around(directory, family, fmt, values, *parts)
    write_card(directory, model, family, description)


def _tensors_beside(
    fmt: Format, description: Description, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the tensors of the dense layers on sentence vectors, by the format's names."""
    dense = () if description.pooling is None else description.pooling.dense
    return to_stored(variables, pooled_bindings(dense, fmt))


def _write_around(
    directory: Path,
    family: Family,
    fmt: Format,
    values: dict[str, Any],
    config: Config,
    description: Description,
    preprocessor,
    dtype: str,
    tensors_beside: Mapping[str, Any],
) -> None:
    """Writes all files of a directory except the weights.

    Args:
        values: content of the configuration file.
        dtype: dtype of the weights.
        tensors_beside: tensors of the dense layers on sentence vectors.
    """
    if fmt.name == HuggingFace.name:
        values["dtype"] = dtype
    write_json(directory / fmt.config_file, values)
    if preprocessor is not None and fmt.name == HuggingFace.name:
        pads = description.problem_type is not None
        save_for_transformers(directory, preprocessor, family.text, names_padding=pads)
    elif preprocessor is not None and fmt.holds_vocabulary:
        preprocessor.save_vocabulary(directory)
    fmt.write_beside(directory, config, description, tensors_beside)


def _description(model: ZooModel, preprocessor) -> Description:
    """Returns what a directory says about a model in addition to the encoder's configuration."""
    encoder = getattr(model, "encoder", model)
    thresholds = getattr(model, "thresholds", ())
    text = None
    if preprocessor is not None:
        length = preprocessor.get_config()["sequence_length"]
        text = TextSpec(lowercase=preprocessor.lowercase, max_length=length)
    return Description(
        task=model.task,
        problem_type=getattr(model, "problem_type", None),
        labels=model.labels_to_save,
        score_activation=getattr(model, "score_activation", None),
        thresholds=() if set(thresholds) <= {DEFAULT_THRESHOLD} else thresholds,
        text=text,
        pooling=encoder.pooling,
        prompts=encoder.prompts,
        long_texts=encoder.long_texts.get_config() if encoder.long_texts.in_windows else None,
        reads_vectors=getattr(model, "reads_vectors", False),
        head=getattr(model, "head", None),
        generation=_generation(model),
    )


def _generation(model: ZooModel) -> tuple[JsonObject, ...]:
    """Returns what a directory says about generating text; () if the model writes none."""
    if not model.generates:
        return ()
    return (JsonObject(model.generation_config.to_dict(), "the model's generation_config"),)


def _as_hugging_face(
    fmt: HuggingFace, family: Family, model: ZooModel, description: Description, preprocessor
) -> Description:
    """Returns a model's description for Hugging Face; warns about what the format cannot express."""
    encoder = getattr(model, "encoder", model)
    is_bare = model.task not in family.heads
    hf_class = fmt.class_of("encoder" if is_bare else model.task, encoder.config)
    if hf_class is None:
        raise ValueError(
            f"Hugging Face transformers has no class for {model.task!r} of the family {family.name}; it has "
            f"classes for {', '.join(fmt.classes)}. Leave format out, or load and save only the part that "
            "you need."
        )
    if encoder.long_texts.in_windows:
        log.warning(
            "This model reads long texts in windows, which Hugging Face's format cannot express: "
            "transformers will cut them. Load the directory with long_texts=%r, stride=%r.",
            encoder.long_texts.mode,
            encoder.long_texts.stride,
        )
    _say_what_differs(fmt.supports, encoder.config, fmt.classes["encoder"])
    _say_what_differs(fmt.supports_in_head(model.task), encoder.config, hf_class)
    pooling = encoder.pooling if is_bare and not encoder.always_gives_state else None
    has_pooler = any(getattr(row, "ours", "").startswith("pooler/") for row in family.encoder_rows)
    return replace(
        description,
        classes=(hf_class,),
        pooling=pooling,
        token_ids=_token_ids(preprocessor, description, encoder.config),
        generates=model.generates,
        lacks_pooler=is_bare and has_pooler and not encoder.config.pooler,
    )


def _token_ids(preprocessor, description: Description, config: Config) -> dict[str, int]:
    """Returns the special ids that transformers reads from config.json: begin, end and padding."""
    if preprocessor is None or isinstance(preprocessor, DeferredPreprocessor):
        return {}
    ids = {}
    if hasattr(preprocessor.tokenizer, "eos_id"):
        # Layouts without special tokens use it at the start of a text, too.
        names = (
            ("eos_token_id",)
            if preprocessor.packer.layout.roles
            else ("bos_token_id", "eos_token_id")
        )
        ids = dict.fromkeys(names, preprocessor.tokenizer.eos_id)
    pad_id = preprocessor.packer.pad_id
    # RoBERTa's positions depend on it.
    may_change = not getattr(config, "positions_after_padding", True)
    if may_change and pad_id != config.pad_id and description.problem_type is not None:
        ids["pad_token_id"] = pad_id
    return ids


def _as_keras_hub(
    fmt: KerasHub, family: Family, model: ZooModel, description: Description
) -> Description:
    """Returns a model's description for KerasHub; warns about what the format cannot express."""
    if fmt.unread_of_backbone:
        raise ValueError(
            f"KerasHub's {fmt.class_name} has a {' and a '.join(fmt.unread_of_backbone)}, but models of the "
            f"family {family.name} have none. Leave format out."
        )
    encoder = getattr(model, "encoder", model)
    if encoder.pooling.dense:
        raise ValueError(
            "KerasHub's format has no dense layers for sentence vectors. Leave format out, or pass "
            'format="hf".'
        )
    classes = ()
    if family.plan(fmt, encoder.config).heads.get(model.task):
        hf_class = family.formats[HuggingFace.name].classes.get(model.task)
        if hf_class not in fmt.classes.values():
            raise ValueError(
                f"KerasHub's format has no head for {model.task!r} of the family {family.name} (it has: "
                f"{', '.join(fmt.classes) or 'none'}). Leave format out, or save model.encoder."
            )
        classes = (hf_class,)
    _say_what_differs(fmt.supports, encoder.config, fmt.class_name)
    log.warning(
        "The KerasHub preset has no tokenizer and no label names: pass preprocessor=None to "
        "from_preset()."
    )
    return replace(description, classes=classes)


def _say_what_differs(supports: Mapping[str, Any], config: Config, program: str) -> None:
    """Warns about settings that another program's class computes differently."""
    supported = {n: v(config) if callable(v) else v for n, v in supports.items()}
    others = {n: getattr(config, n) for n, v in supported.items() if getattr(config, n) != v}
    if others:
        log.warning(
            "%s does not support %s and computes with %s: its outputs will differ.",
            program,
            others,
            {name: supported[name] for name in others},
        )
