"""`save` and `push_to_hub`: a model's directory in each format, and its card."""

import json
import logging
import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.config import DOCUMENT, QUERY, Config, TextSpec
from bert_zoo.error_text import shown
from bert_zoo.family import HF, Checkpoint, Family
from bert_zoo.fields import check
from bert_zoo.json_files import JsonObject
from bert_zoo.loading.adapters import save_adapter
from bert_zoo.models.base import ZooModel, check_is_float
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.labels import DEFAULT_THRESHOLD
from bert_zoo.registry import HUB_LICENCES, registry
from bert_zoo.tasks.streams import StatefulModel
from bert_zoo.training.freezing import without_lora
from bert_zoo.weights.bind import ENCODER_PREFIX, bindings_beside, to_stored, variables_of
from bert_zoo.weights.files import remove_leftovers, write_json
from bert_zoo.weights.formats import BertZoo, Description, Format, HuggingFace, KerasHub, Model2Vec
from bert_zoo.weights.formats.hf_directories import Module, modules_of, write_router, write_settings

# -------------------------------------------------------------------------------------------------
# Writes the README.md of `save(format="hf")`: a model card that Hugging Face's hub can read.
# -------------------------------------------------------------------------------------------------

CARD = "README.md"
# Marks a card that may be replaced; any other was written by the user.
_SIGNATURE = "<!-- Written by bert_zoo.save. -->"
_TEMPLATE = """\
---
{% for key, value in head.items() if value is not none %}
{{ key }}: {{ json(value) }}
{% endfor %}
---
{{ signature }}

# {{ hf_class }}

A model of the {{ family }} family{% if base %}, based on {{ base }}{% endif %}.{% if use %} It {{ use.purpose }}.{% endif %}

{% if said.lacks_pooler %}

It has no pooler. transformers would add a randomly initialised one, with a warning; load it with \
`{{ hf_class }}.from_pretrained(directory, add_pooling_layer=False)`. sentence-transformers needs no such option.
{% endif %}
{% if said.pooling %}

Sentence vectors: pooled by {{ said.pooling.modes | join(" and ") }}\
{% for layer in said.pooling.dense %}
, passed through a dense layer of {{ layer.units }} units ({{ layer.activation }})\
{% endfor %}
{{ ", brought to mean 0 and variance 1" if said.pooling.layer_norm }}\
{{ ", L2-normalised" if said.pooling.normalize }}\
{{ ", cut to %d dimensions" % said.pooling.truncate_dim if said.pooling.truncate_dim }}\
. Compare them by {{ said.pooling.similarity }}.
{% endif %}
{% if said.token_vectors %}

Vectors of tokens: a dense layer to {{ said.token_vectors.size }} numbers\
{{ ", L2-normalised" if said.token_vectors.normalize }}. Compare texts by MaxSim.
{% endif %}
{% if said.sparse_pooling %}

{% set units = said.sparse_pooling.autoencoder %}
{% if units %}
Sparse vectors of {{ units.hidden_dim }} units, the {{ units.k }} largest of an autoencoder of the sentence vector\
{% else %}
Sparse vectors over the vocabulary: {{ "log(1 + log(1 + x))" if said.sparse_pooling.activation == "log1p_relu" else "log(1 + x)" }} \
of positive logits, {{ said.sparse_pooling.strategy }} over tokens{{ "; queries are weights of their tokens from a table" \
if said.sparse_pooling.static_queries }}\
{% endif %}
. Compare them by dot product.
{% endif %}
{% if said.prompts.texts and makes_vectors %}

| prompt | text put before the input |
|---|---|
{% for name, text in said.prompts.texts.items() %}
| {{ name }}{{ " (default)" if name == said.prompts.default }} | {{ json(text) }} |
{% endfor %}
{% endif %}
{% if metrics %}

| metric | last epoch |
|---|---|
{% for name, value in metrics.items() %}
| {{ name }} | {{ "%.4f" % value }} |
{% endfor %}
{% endif %}
"""


def write_card(directory: Path, model: ZooModel, family: Family, description: Description) -> None:
    """Writes the card, unless the directory has one from elsewhere.

    It names the purpose, the base checkpoint with its licence, and the metrics of the last epoch of `fit`, if any.
    """
    from jinja2 import Environment

    path = directory / CARD
    if path.is_file() and _SIGNATURE not in path.read_text(encoding="utf-8", errors="replace"):
        return
    base, checkpoint = base_of(model, family)
    vectors = (description.pooling, description.sparse_pooling, description.token_vectors)
    makes_vectors = any(vectors)
    metrics, sentences = _metrics(model), ["sentence-transformers"] * makes_vectors
    # The base's licence also applies to models trained from it.
    licence = checkpoint and HUB_LICENCES.get(checkpoint.licence, "other")
    head = {
        "library_name": (*sentences, "transformers")[0],
        "tags": [*sentences, "bert_zoo"],
        "license": licence,
        "license_name": checkpoint.licence if licence == "other" else None,
        "base_model": base,
        "pipeline_tag": _pipeline(model, description),
        "metrics": [*metrics] or None,
    }
    (hf_class,) = description.classes
    card = Environment(trim_blocks=True).from_string(_TEMPLATE)
    text = card.render(
        head=head,
        signature=_SIGNATURE,
        hf_class=hf_class,
        family=family.name,
        base=base,
        use=getattr(model, "use", None),
        said=description,
        makes_vectors=makes_vectors,
        metrics=metrics,
        json=partial(json.dumps, ensure_ascii=False),
    )
    path.write_text(text, encoding="utf-8")


def base_of(model: ZooModel, family: Family) -> tuple[str | None, Checkpoint | None]:
    """The repository that a model was loaded from and its checkpoint; None where unknown."""
    base = getattr(model, "encoder", model).loaded_from
    repos = {
        s.repo: c for c in reversed(family.checkpoints) for s in c.sources if isinstance(s, HF)
    }
    # A local path means nothing to others.
    return None if base is None or Path(base).is_absolute() else base, repos.get(base)


def _pipeline(model: ZooModel, description: Description) -> str | None:
    """Hugging Face's name for the model's task."""
    if getattr(model, "use", None) is not None:
        return model.use.pipeline
    kinds = {
        "text-generation": description.generates,
        "fill-mask": getattr(model, "predicts_tokens", False),
        "sentence-similarity": description.pooling is not None,
    }
    return next((kind for kind, is_it in kinds.items() if is_it), None)


def _metrics(model: ZooModel) -> Mapping[str, float]:
    """Metrics of the last epoch: on validation data if there was any, else on training data."""
    history = getattr(getattr(model, "history", None), "history", None) or {}
    last = {name: values[-1] for name, values in history.items() if values}
    measured = {name.removeprefix("val_"): v for name, v in last.items() if name.startswith("val_")}
    numbers = {name: v for name, v in (measured or last).items() if isinstance(v, int | float)}
    return {name: float(v) for name, v in numbers.items() if math.isfinite(v)}


log = logging.getLogger("bert_zoo")

FORMATS = {kind.name: kind for kind in (BertZoo, HuggingFace, KerasHub, Model2Vec)}
PEFT = "peft"


class Contents(NamedTuple):
    """What a directory says about one encoder, with the head for the description's task."""

    family: Family
    format: Format
    config: Config
    description: Description
    preprocessor: Any  # None without a vocabulary


def save(model: ZooModel, directory: str | os.PathLike, format: str = "bert_zoo") -> None:
    """Writes a model to a directory that `load` reads.

    LoRA is merged into the kernels, except with format="peft".

    Args:
        model: any model of the zoo.
        directory: created if it does not exist; files of an earlier save are replaced.
        format:
            "bert_zoo": configuration, weights (safetensors), vocabulary, head and labels.
            "hf": the files of Hugging Face transformers, with the head. For sentence embedders, also
            the pooling in the files of sentence-transformers; for models of entities, gliner's files.
            "keras_hub": a preset of KerasHub with a classifier's head, without tokenizer and labels.
            "model2vec": model2vec's files of a table of token vectors.
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
    directory = Path(directory).expanduser()
    if format == PEFT:
        _check_head(model)
        save_adapter(model, directory)
        return
    check("format", format, str, choices=(*FORMATS, PEFT))
    queries = getattr(model, "query_encoder", None)
    if queries is not None and FORMATS[format] is not BertZoo:
        _save_routes(model, queries, directory, format)
        return
    check_is_float(model)
    model = without_lora(model)
    contents = _contents(model, FORMATS[format], "format")
    _check_target(directory, contents.format)
    variables = variables_of(model)
    _write(directory, contents, model.task, variables)
    if contents.format.has_card:
        write_card(directory, model, contents.family, contents.description)
    _write_second_encoders(directory, contents, model.task, variables)
    if queries is not None:
        save(queries, directory / QUERY)


def _save_routes(model: ZooModel, queries: ZooModel, directory: Path, format: str) -> None:
    """Writes the encoders of documents and queries, and how sentence-transformers chooses between them."""
    if FORMATS[format] is not HuggingFace:
        raise ValueError(
            f"The format {format!r} has no models with an encoder of their own for queries. Save model.encoder and "
            "model.query_encoder."
        )
    routes = {}
    for role, encoder in ((QUERY, queries), (DOCUMENT, model.encoder)):
        save(encoder, directory / role, format=format)
        modules = modules_of(directory / role)
        routes[role] = [Module(kind, f"{role}/{name}".rstrip("/")) for kind, name in modules]
    write_router(directory, routes, model.default_role)
    write_settings(directory, model.encoder.prompts, model.encoder.pooling)


def _contents(model: ZooModel, kind: type[Format], argument: str) -> Contents:
    """Returns what a model's directory says; raises ValueError where the format has no such model.

    `argument` is the caller's for the format, for messages.
    """
    if kind.program:
        _check_head(model)
    encoder = getattr(model, "encoder", model)
    family = registry().families[encoder.family] if model is encoder else model.family
    name = model.hf_format if kind is HuggingFace else kind.name
    fmt, preprocessor = family.formats.get(name), encoder.preprocessor_to_save()
    if fmt is None:
        raise ValueError(
            f"{kind.program} has no models of the family {family.name}. Leave {argument} out."
        )
    text = None
    if preprocessor is not None:
        length = preprocessor.get_config()["sequence_length"]
        text = TextSpec(lowercase=preprocessor.lowercase, max_length=length)
    generation = ()
    if model.generates:
        values = model.generation_config.to_dict()
        generation = (JsonObject(values, "the model's generation_config"),)
    thresholds, queries = getattr(model, "thresholds", ()), getattr(model, "query_encoder", None)
    description = Description(
        task=model.task,
        problem_type=getattr(model, "problem_type", None),
        labels=model.labels_to_save,
        score_activation=getattr(model, "score_activation", None),
        thresholds=() if set(thresholds) <= {DEFAULT_THRESHOLD} else thresholds,
        text=text,
        pooling=encoder.pooling,
        sparse_pooling=getattr(model, "sparse_pooling", None),
        prompts=encoder.prompts,
        token_vectors=getattr(model, "token_vectors", None),
        entity_head=getattr(model, "entity_head", None),
        long_texts=encoder.long_texts.get_config() if encoder.long_texts.in_windows else None,
        reads_vectors=getattr(model, "reads_vectors", False),
        default_role=None if queries is None else model.default_role,
        head=getattr(model, "head", None),
        generation=generation,
        dtype=encoder.variable_dtype,
    )
    description = fmt.description_of(model, family, description, preprocessor)
    return Contents(family, fmt, encoder.config, description, preprocessor)


def _check_target(directory: Path, fmt: Format) -> None:
    """Refuses to overwrite a model of another format or type."""
    kinds = FORMATS.values()
    written = {name for kind in kinds for name in (kind.config_file, kind.weights_file)}
    for other in written - {fmt.config_file, fmt.weights_file}:
        if (directory / other).exists():
            raise FileExistsError(
                f"{directory} holds a model of another format ({other}), whose weights would be "
                "replaced. Save to another directory, or delete this one first."
            )
    fmt.check_target(directory)


def _write_second_encoders(
    directory: Path, contents: Contents, task: str, variables: Mapping[str, Any]
) -> None:
    """Writes the encoders that the format cannot store in the same files to subdirectories."""
    family, fmt, config, description, _ = contents
    for second in family.second_encoders:
        own = {
            ENCODER_PREFIX + path.removeprefix(second.ours): variable
            for path, variable in variables.items()
            if path.startswith(second.ours)
        }
        if not own or second.name in fmt.encoders:
            continue
        of_second = family.task_of(second)
        config, below = second.config(config), directory / second.name
        description = replace(description, task=of_second, classes=(fmt.classes[of_second],))
        contents = contents._replace(config=config, description=description)
        _write(below, contents, task, variables | own)
        log.warning(
            "Hugging Face's format holds one network per directory: the %s is in %s.",
            second.name,
            below,
        )


def _check_head(model: ZooModel) -> None:
    """Refuses heads for which other programs have no class."""
    read = "sentence vectors" if getattr(model, "reads_vectors", False) else ""
    if getattr(model, "head", None) is not None:
        read = "chosen layers of its encoder or has a BiLSTM"
    if read:
        raise ValueError(
            f"The head of this model reads {read}. Hugging Face transformers and KerasHub have no such class. Leave "
            "format (in export, layout) out, or save model.encoder."
        )


def _write(directory: Path, contents: Contents, task: str, variables: Mapping[str, Any]) -> None:
    """Writes one encoder; `task` is the whole model's, on which the encoder's names may depend."""
    family, fmt, config, description, _ = contents
    is_bare = description.adds_to_encoder
    plan = family.plan(fmt, config, fmt.root_in(Encoder.task if is_bare else task))
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
    pooled = _tensors_beside(fmt, description, variables)
    if not fmt.has_dense_folders:
        tensors |= pooled
    elif is_bare:
        keys = [key for binding in plan.heads[task] for key in binding.keys]
        pooled |= {key: tensors.pop(key) for key in keys}
    fmt.write_weights(directory, tensors)
    _write_around(directory, contents, values, pooled)


def write_around_weights(model: ZooModel, directory: Path) -> None:
    """Writes what `save(format="hf")` writes, without the weights.

    Raises:
        ValueError: Hugging Face's format does not support this model.
    """
    contents = _contents(model, HuggingFace, "layout")
    family, fmt, config, description, _ = contents
    dtype = getattr(model, "encoder", model).compute_dtype
    values = fmt.encode(config, replace(description, dtype=dtype))
    directory.mkdir(parents=True, exist_ok=True)
    pooled = _tensors_beside(fmt, description, variables_of(model))
    _write_around(directory, contents, values, pooled)
    write_card(directory, model, family, description)


def _tensors_beside(
    fmt: Format, description: Description, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the tensors of the layers that no family's table has, by the format's names."""
    return to_stored(variables, bindings_beside(description, fmt))


def _write_around(
    directory: Path, contents: Contents, values: dict[str, Any], pooled: Mapping[str, Any]
) -> None:
    """Writes all files of a directory except the weights.

    Args:
        values: content of the configuration file.
        pooled: tensors of the layers that no family's table has.
    """
    family, fmt, config, description, preprocessor = contents
    write_json(directory / fmt.config_file, values)
    if preprocessor is not None:
        fmt.write_vocabulary(directory, preprocessor, family.text, description)
    fmt.write_beside(directory, config, description, pooled)


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
