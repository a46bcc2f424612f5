"""`save` and `push_to_hub`: a model's directory in each format, and its card."""

import json
import logging
import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_zoo.config import Config, Pooling, Prompts, TextSpec
from bert_zoo.error_text import shown
from bert_zoo.family import HF, Checkpoint, Family
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.loading.adapters import save_adapter
from bert_zoo.models.base import ZooModel
from bert_zoo.models.labels import DEFAULT_THRESHOLD
from bert_zoo.models.quantization import check_is_float
from bert_zoo.registry import HUB_LICENCES, registry
from bert_zoo.tasks.streams import StatefulModel
from bert_zoo.text.format import DeferredPreprocessor, save_for_transformers
from bert_zoo.training.lora import without_lora
from bert_zoo.weights.bind import ENCODER_PREFIX, Plan, pooled_bindings, to_stored, variables_of
from bert_zoo.weights.files import remove_leftovers, write_json
from bert_zoo.weights.formats import BertZoo, Description, Format, HuggingFace, KerasHub

# -------------------------------------------------------------------------------------------------
# Writes the README.md of `save(format="hf")`: a model card that Hugging Face's hub can read.
# -------------------------------------------------------------------------------------------------

CARD = "README.md"
# Marks a card that may be replaced; any other was written by the user.
_SIGNATURE = "<!-- Written by bert_zoo.save. -->"


def write_card(directory: Path, model: ZooModel, family: Family, description: Description) -> None:
    """Writes the card, unless the directory has one from elsewhere.

    It names the purpose, the base checkpoint with its licence, and the metrics of the last epoch of `fit`, if any.
    """
    path = directory / CARD
    if path.is_file() and _SIGNATURE not in path.read_text(encoding="utf-8", errors="replace"):
        return
    base, checkpoint = base_of(model, family)
    use = getattr(model, "use", None)
    metrics = _metrics(model)
    head: dict[str, Any] = {"library_name": "transformers", "tags": ["bert_zoo"]}
    if description.pooling is not None:
        head = {
            "library_name": "sentence-transformers",
            "tags": ["sentence-transformers", "bert_zoo"],
        }
    if checkpoint is not None:
        # The base's licence also applies to models trained from it.
        head["license"] = HUB_LICENCES.get(checkpoint.licence, "other")
        if head["license"] == "other":
            head["license_name"] = checkpoint.licence
    if base is not None:
        head["base_model"] = base
    if pipeline := _pipeline(model, description):
        head["pipeline_tag"] = pipeline
    if metrics:
        head["metrics"] = [*metrics]
    (hf_class,) = description.classes
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()),
        "---",
        _SIGNATURE,
        "",
        f"# {hf_class}",
        "",
        f"A model of the {family.name} family"
        + (f", based on {base}" if base is not None else "")
        + (f". It {use.purpose}." if use is not None else "."),
    ]
    if description.lacks_pooler:
        lines += [
            "",
            "It has no pooler. transformers would add a randomly initialised one, with a warning; load it with "
            f"`{hf_class}.from_pretrained(directory, add_pooling_layer=False)`. sentence-transformers needs no "
            "such option.",
        ]
    if description.pooling is not None:
        lines += ["", *_of_vectors(description.pooling, description.prompts)]
    if metrics:
        lines += ["", "| metric | last epoch |", "|---|---|"]
        lines += [f"| {name} | {value:.4f} |" for name, value in metrics.items()]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def base_of(model: ZooModel, family: Family) -> tuple[str | None, Checkpoint | None]:
    """The repository that a model was loaded from and its checkpoint; None where unknown."""
    base = getattr(model, "encoder", model).loaded_from
    checkpoint = next((c for c in family.checkpoints if _comes_from(c, base)), None)
    # A local path means nothing to others.
    return None if base is None or Path(base).is_absolute() else base, checkpoint


def _comes_from(checkpoint: Checkpoint, origin: str | None) -> bool:
    return origin is not None and any(
        isinstance(source, HF) and source.repo == origin for source in checkpoint.sources
    )


def _pipeline(model: ZooModel, description: Description) -> str | None:
    """Hugging Face's name for the model's task."""
    if getattr(model, "use", None) is not None:
        return model.use.pipeline
    if description.generates:
        return "text-generation"
    if getattr(model, "predicts_tokens", False):
        return "fill-mask"
    return "sentence-similarity" if description.pooling is not None else None


def _of_vectors(pooling: Pooling, prompts: Prompts) -> list[str]:
    """How sentence vectors are made and compared, and the prompts."""
    steps = [f"pooled by {' and '.join(pooling.modes)}"]
    steps += [
        f"passed through a dense layer of {layer.units} units ({layer.activation})"
        for layer in pooling.dense
    ]
    steps += ["L2-normalised"] * pooling.normalize
    if pooling.truncate_dim is not None:
        steps.append(f"cut to {pooling.truncate_dim} dimensions")
    lines = [f"Sentence vectors: {', '.join(steps)}. Compare them by {pooling.similarity}."]
    if prompts.texts:
        default = {prompts.default: " (default)"}
        lines += ["", "| prompt | text put before the input |", "|---|---|"]
        lines += [
            f"| {n}{default.get(n, '')} | {json.dumps(t, ensure_ascii=False)} |"
            for n, t in prompts.texts.items()
        ]
    return lines


def _metrics(model: ZooModel) -> Mapping[str, float]:
    """Metrics of the last epoch: on validation data if there was any, else on training data."""
    history = getattr(getattr(model, "history", None), "history", None) or {}
    last = {name: values[-1] for name, values in history.items() if values}
    measured = {name.removeprefix("val_"): v for name, v in last.items() if name.startswith("val_")}
    numbers = {name: v for name, v in (measured or last).items() if isinstance(v, int | float)}
    return {name: float(v) for name, v in numbers.items() if math.isfinite(v)}


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


# -------------------------------------------------------------------------------------------------
# `push_to_hub`: uploads a model to the Hugging Face hub.
# -------------------------------------------------------------------------------------------------


def push_to_hub(
    model: ZooModel,
    repository: str,
    *,
    format: str = "hf",
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload a model of bert_zoo",
) -> str:
    """Uploads a model to a repository of the Hugging Face hub, which is created if it does not exist.

    Args:
        model, format: as for `save`; transformers and the hub's widgets read "hf".
        repository: "owner/name", or "name" under your own account.
        private: whether a new repository is private; by default as your account says.
        token: an access token with write permission; by default the one from `hf auth login`.
        commit_message: message of the commit.

    Returns:
        The URL of the commit. `load(f"hf://{repository}")` loads the model.

    Raises:
        ValueError: `repository` is not a valid name, or `save` does not support the model in this format.
        huggingface_hub.errors.HfHubHTTPError: the hub refuses the upload, for example without a token.
    """
    from huggingface_hub import HfApi

    if not re.fullmatch(r"([\w-][\w.-]*/)?[\w-][\w.-]*", repository):
        raise ValueError(
            f"repository is {shown(repository)}; it is a name such as 'owner/my-model'."
        )
    with tempfile.TemporaryDirectory() as directory:
        # Save before creating the repository, so that a failure leaves no empty one.
        save(model, directory, format=format)
        api = HfApi(token=token, library_name="bert_zoo")
        made = api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=made.repo_id, folder_path=directory, commit_message=commit_message
        )
    return commit.commit_url
