"""Opens a name or path: finds the model's family, configuration, tensors and vocabulary."""

import functools
import logging
import math
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from bert_zoo.config import QUERY, Config, ConfigError, Prompts
from bert_zoo.error_text import listing, shown
from bert_zoo.family import HF, Checkpoint, Family
from bert_zoo.fields import check
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.loading.adapters import in_hugging_face_names
from bert_zoo.loading.locating import (
    HUB,
    REPOSITORY,
    SAVED_MODEL,
    cannot_take_apart,
    config_file,
    config_files,
    config_in,
    fetch,
    fetch_checkpoint,
    model_of_run,
    place_of,
)
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.labels import label_thresholds
from bert_zoo.models.task_model import SentenceModel
from bert_zoo.registry import registry
from bert_zoo.tasks import (
    TASKS,
    EntityRecognizer,
    HybridEmbedder,
    LateInteraction,
    Reranker,
    SentenceEmbedder,
    SparseEmbedder,
)
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.weights import cache
from bert_zoo.weights.adapters import Adapter, with_adapter
from bert_zoo.weights.bind import POOLER, Plan, RenamedSource, plan_of
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.formats import BertZoo, Description, Format, HuggingFace
from bert_zoo.weights.formats.gliner import FURTHER_TOKEN, GLINER, named_encoder
from bert_zoo.weights.formats.hf import generation_of
from bert_zoo.weights.formats.hf_directories import (
    TOKENIZER_FILE,
    Routes,
    dense_folders,
    encoders_of_roles,
    prompts_of,
    settings_of,
)
from bert_zoo.weights.formats.hybrid_directories import layer_files
from bert_zoo.weights.formats.sparse_directories import (
    model_folder,
    query_weights,
    sparse_modules_of,
)
from bert_zoo.weights.sources import (
    ADAPTER_CONFIG,
    FILE_ENDINGS,
    check_weight_files,
    open_weights,
    weights_in,
)
from bert_zoo.weights.table import (
    AUTOENCODER,
    AUTOENCODER_HEAD,
    QUERY_WEIGHTS,
    VECTOR_HEAD,
    WEIGHT_HEAD,
    SecondEncoder,
    entity_head,
    head_of,
    hybrid_head,
    token_head,
)
from bert_zoo.weights.tensor_source import TensorSource

log = logging.getLogger("bert_zoo")

# Tasks whose head users train, so that a head without weights is no surprise. Heads that predict tokens are
# only trained further, never from scratch.
TRAINED_BY_USERS = frozenset(
    task
    for task, model in TASKS.items()
    if getattr(model, "use", None) is not None
    and not getattr(model, "predicts_tokens", False)
    and task not in Family.tasks_without_head
)
# Value of `problem_type` in Hugging Face's config.json -> our task; the last one if two have the same.
PROBLEM_TYPES = {
    model.problem_type: task
    for task, model in TASKS.items()
    if getattr(model, "problem_type", None) is not None
}
# Tasks of checkpoints that load as nothing else by default.
OWN_TASKS = (HybridEmbedder.task, Reranker.task, SparseEmbedder.task)
TOKEN_TABLE = "encoder/embeddings/token_embedding/embeddings"
# Above both of these (parameters, and multiples of the file's), a configuration is refused before it is
# compared with each tensor.
BUILT_WITHOUT_QUESTION = 1_000_000
MOST_TIMES_STORED = 3


@dataclass(frozen=True)
class Opened:
    """An opened checkpoint, from which a model can be made."""

    name: str  # for messages
    family: Family  # whose layers and weight table apply
    config: Config  # of the encoder
    description: Description  # what is known in addition to the configuration
    trained_task: str | None = None  # what its head was trained for, if the files say so
    provides: Collection[str] = tuple(TASKS)  # tasks that it was trained for; all if unknown
    plan: Plan | None = None  # weight table with the source's names, or with ours without a source
    source: RenamedSource | None = None  # None for `weights=None`
    # Directories that may hold the tokenizer's files; the first one that does is used.
    vocabularies: tuple[Path, ...] = ()
    origin: str | None = (
        None  # the directory or repository of the weights, if there is a single one
    )
    # Names of the tensors of a stored head that the user replaces; None if none is replaced.
    replaced_head: frozenset[str] | None = None
    query_directory: Path | None = None  # of an encoder of its own for queries
    further_tokens: tuple[str, ...] = ()  # with rows, though the vocabulary may lack them


def open_checkpoint(
    name: str | os.PathLike,
    *,
    with_weights: bool = True,
    task: str | None = None,
    adapter: str | None = None,
) -> Opened:
    """Opens the files of a name or path as for `load`.

    Args:
        with_weights: False opens no weights, and downloads nothing for a registered name.
        task: selects a source that has its head, and the encoder in a file with several.
        adapter: of those in the file of weights, the one to merge.

    Raises:
        ValueError: the name is unknown, or files are invalid (`ConfigError`, `WeightsError`).
        FileNotFoundError: the directory or a file is missing.
    """
    if isinstance(name, str) and name.startswith(HUB):
        repo, _, revision = name.removeprefix(HUB).partition("@")
        directory = fetch(HF(repo, revision or "main"))
        opened = _open_directory(directory, name, with_weights, task, merged=adapter)
        return replace(opened, origin=repo)
    place = place_of(name)
    if place is not None:
        directory = place.directory if place.weights else model_of_run(place.directory)
        return _open_directory(directory, str(name), with_weights, task, place.weights, adapter)
    return _open_registered(*registry().resolve(name), with_weights, task, adapter)


def _open_registered(
    family: Family,
    checkpoint: Checkpoint,
    with_weights: bool,
    task: str | None,
    merged: str | None = None,
) -> Opened:
    description = Description(
        task=next((task for task in OWN_TASKS if task in checkpoint.provides), None),
        labels=tuple(checkpoint.labels) or None,
        score_activation=checkpoint.score_activation,
        text=checkpoint.text,
        pooling=checkpoint.pooling,
        sparse_pooling=checkpoint.sparse_pooling,
        token_vectors=checkpoint.token_vectors,
        prompts=Prompts(checkpoint.prompts),
    )
    family = _with_heads(family, description)
    opened = Opened(
        name=checkpoint.full_name,
        family=family,
        config=family.config(checkpoint),
        description=description,
        trained_task=next(iter(checkpoint.provides & TRAINED_BY_USERS), None),
        provides=checkpoint.provides,
        origin=next(
            (s.repo for s in checkpoint.sources if isinstance(s, HF)), checkpoint.full_name
        ),
    )
    if not with_weights:
        return replace(opened, plan=family.plan(BertZoo.name, opened.config))
    directory = fetch_checkpoint(checkpoint, task)
    config_file = directory / HuggingFace.config_file
    if config_file.is_file():
        generation = generation_of(read_object(config_file), directory)
        opened = replace(opened, description=replace(opened.description, generation=generation))
    return _with_tensors(opened, directory, task, checkpoint.encoder, merged=merged)


def _open_directory(
    directory: Path,
    name: str,
    with_weights: bool,
    task: str | None = None,
    weights: Path | None = None,
    merged: str | None = None,
) -> Opened:
    """Opens a model's directory; `weights` is one of several files with its weights, and `merged` one of the adapters
    in it.
    """
    if sparse_modules_of(directory) is None and (routes := encoders_of_roles(directory)):
        return _open_routes(directory, routes, name, with_weights, task)
    adapter = Adapter(directory) if (directory / ADAPTER_CONFIG).is_file() else None
    if adapter is not None and not _holds_model(directory):
        base = _base_of(adapter, directory, with_weights, task, merged)
        return _with_adapter(base, adapter, name, task)
    path = config_file(directory)
    if path.suffix == ".index":
        weights = weights or weights_in(directory)
        path = weights if weights.suffix == ".index" else path
    # Training programs leave TensorFlow's checkpoints in a folder of their own.
    above = [directory.absolute().parent] if any(directory.glob("*.index")) else []
    base = _named_base(path)
    try:
        family, fmt, config, values = base[1:] if base else _read_config(path)
    except ConfigError:
        path = next(filter(None, map(config_in, above)), path)
        if path.name.endswith(FILE_ENDINGS):
            raise
        family, fmt, config, values = _read_config(path)
        log.warning("%s has no configuration file; %s is read.", directory, path)
    described = directory if path.parent == model_folder(directory) else path.parent
    description = fmt.description(values, described)
    if description.task is None:
        description = replace(description, task=_said_task(description))
    _check_description(description, path)
    opened = Opened(
        name=name,
        family=_with_heads(family, description),
        config=config,
        description=description,
        trained_task=description.task or PROBLEM_TYPES.get(description.problem_type),
        origin=str(directory.resolve()),
        vocabularies=tuple(map(fmt.vocabulary_directory, (model_folder(directory), *above))),
        query_directory=None if description.default_role is None else directory / QUERY,
    )
    if base is not None:
        opened = _with_texts_of(base[0], opened, directory)
    if not with_weights:
        return replace(opened, plan=opened.family.plan(BertZoo.name, config), further_tokens=())
    opened = _with_tensors(opened, directory, task, "", fmt, weights, merged)
    return opened if adapter is None else _with_adapter(opened, adapter, name, task)


def _open_routes(
    directory: Path, routes: Routes, name: str, with_weights: bool, task: str | None
) -> Opened:
    """Opens the encoder of documents, with what the directory says of both."""
    opened = _open_directory(routes.document, name, with_weights, task)
    description = replace(
        opened.description,
        task=SentenceEmbedder.task,
        pooling=replace(opened.description.pooling, **settings_of(directory)),
        prompts=prompts_of(directory),
        default_role=routes.default,
    )
    return replace(
        opened,
        description=description,
        origin=str(directory.resolve()),
        query_directory=routes.query,
    )


def _with_heads(family: Family, description: Description) -> Family:
    """A family with the heads that a model's files say that it has."""
    task, tokens = description.task, description.token_vectors
    sparse = description.sparse_pooling
    if description.reads_vectors:
        family = family.with_head(task, VECTOR_HEAD)
    if description.head is not None:
        family = family.with_head(
            task, head_of(description.head, not TASKS[task].outputs_per_token)
        )
    if tokens is not None:
        family = family.with_head(LateInteraction.task, token_head(tokens.use_bias))
    if description.entity_head is not None:
        family = family.with_head(EntityRecognizer.task, entity_head(description.entity_head))
    if description.autoencoder is not None:
        family = family.with_head(SparseEmbedder.task, AUTOENCODER_HEAD)
    if sparse is not None and sparse.of_tokens:
        if HybridEmbedder.task not in family.heads:
            raise ConfigError(
                f"The files of BGE-M3's layers stand beside a model of the family {family.name}, whose special tokens "
                "bert_zoo cannot tell there. Use the model with the program that wrote it."
            )
        family = family.with_head(SparseEmbedder.task, WEIGHT_HEAD)
        if tokens is not None:
            family = family.with_head(HybridEmbedder.task, hybrid_head(tokens.use_bias))
    return family


def _said_task(description: Description) -> str | None:
    """The task of a model whose files say how they make its answers."""
    if description.sparse_pooling is not None and description.token_vectors is not None:
        return HybridEmbedder.task
    said = {
        Reranker.task: description.score_activation,
        SparseEmbedder.task: description.sparse_pooling,
        LateInteraction.task: description.token_vectors,
        EntityRecognizer.task: description.entity_head,
    }
    return next((task for task, how in said.items() if how is not None), None)


def _holds_model(directory: Path) -> bool:
    """Whether an adapter's directory also contains a model's configuration and weights."""
    try:
        config_file(directory)
        check_weight_files(directory)
    except FileNotFoundError:
        return False
    return True


def _base_of(
    adapter: Adapter, directory: Path, with_weights: bool, task: str | None, merged: str | None
) -> Opened:
    """Opens the base model that an adapter names: a directory, a checkpoint or a repository."""
    base = adapter.base or ""
    beside = (
        f"Copy {' and '.join((ADAPTER_CONFIG, adapter.file))} into the base model's directory and load that "
        f"directory, or correct base_model_name_or_path in {adapter.path}."
    )
    for path in (Path(base).expanduser(), directory / base) if base else ():
        if path.is_dir():
            if (path / ADAPTER_CONFIG).is_file():
                raise WeightsError(
                    f"{adapter.path} names {path} as its base, but that is an adapter too. {beside}"
                )
            return _open_directory(path, str(path), with_weights, task, merged=merged)
    known = registry().name_of_repository(base)
    if known is None and base in registry().names(aliases=True):
        known = base
    if known is not None:
        return _open_registered(*registry().resolve(known), with_weights, task, merged)
    repo = base.removeprefix("hf://")
    if not re.fullmatch(REPOSITORY, repo):
        raise FileNotFoundError(
            f"{adapter.path} names {shown(base)} as its base, which is neither a directory, nor a checkpoint of "
            f"bert_zoo, nor a Hugging Face repository. {beside}"
        )
    base = fetch(HF(repo, adapter.revision or "main"))
    return _open_directory(base, f"hf://{repo}", with_weights, task, merged=merged)


def _with_adapter(opened: Opened, adapter: Adapter, name: str, task: str | None) -> Opened:
    """Returns the base with the adapter merged into its tensors."""
    opened = replace(opened, name=name, origin=None)
    if (adapter.path.parent / TOKENIZER_FILE).is_file():
        opened = replace(opened, vocabularies=(adapter.path.parent,))
    family, source, plan = opened.family, opened.source, opened.plan
    if source is None:
        return opened
    if plan.format.name == BertZoo.name:
        saved_as = opened.description.task or Encoder.task
        source, plan = in_hugging_face_names(source, family, opened.config, saved_as)
    if plan.format.name != HuggingFace.name:
        raise WeightsError(
            f"{adapter.path} needs Hugging Face's names, but {source.location} has the format "
            f"{plan.format.name!r}. Load that model, save it with bert_zoo.save(model, directory, "
            'format="hf"), and copy the adapter into that directory.'
        )
    adapted = adapter.of_base(source, plan)
    tables = {k for b in plan.encoder if b.variable == TOKEN_TABLE for k in b.keys}
    predicts_tokens = task in family.heads and task not in TRAINED_BY_USERS
    is_tied = predicts_tokens and getattr(opened.config, "tie_word_embeddings", True)
    if is_tied and not adapter.keeps_ties and tables & adapted.updates.keys():
        raise WeightsError(
            f"{adapter.path} adapts {listing(tables)}, which the head of task {task!r} shares. peft adapts it "
            "only where it embeds tokens, not where it predicts them. Load another task, or train the adapter "
            "without this table."
        )
    log.info("%s: the adapter is merged into %s.", adapter.path, source.location)
    # The class of the head that the adapter was trained with, if any.
    classes = {
        plan.format.classes[of_task]
        for of_task, model in TASKS.items()
        if adapter.task_type is not None
        and model.peft_task == adapter.task_type
        and of_task in plan.format.classes
    }
    classes = tuple(sorted(classes)) or opened.description.classes
    description = replace(opened.description, task=None, classes=classes)
    return replace(opened, description=description, source=adapted, plan=plan)


def _named_base(path: Path) -> tuple[Checkpoint, Family, Format, Config, JsonObject] | None:
    """The checkpoint that a file names instead of its encoder's configuration, and what `_read_config` returns of it."""
    known = registry().name_of_repository(named_encoder(path) or "")
    family, checkpoint = registry().resolve(known) if known else (None, None)
    if family is None or GLINER not in family.formats:
        return None
    fmt, config = family.formats[GLINER], family.config(checkpoint)
    return checkpoint, family, fmt, config, JsonObject(fmt.codec.encode(config), path)


def _with_texts_of(checkpoint: Checkpoint, opened: Opened, directory: Path) -> Opened:
    """A directory of gliner that reads texts like a checkpoint, with its own vocabulary or the checkpoint's.

    Source: gliner 0.2.29, model.py, `_load_tokenizer` and `_resize_token_embeddings`.
    """
    said, head = opened.description, opened.description.entity_head
    opened = replace(opened, description=replace(said, text=said.text or checkpoint.text))
    opened = replace(opened, further_tokens=(FURTHER_TOKEN, head.type_marker, head.end_marker))
    if (directory / TOKENIZER_FILE).is_file():
        return opened
    hub = next(source for source in checkpoint.sources if isinstance(source, HF))
    try:
        fetched = cache.fetch_hub(hub.repo, hub.revision, with_weights=False)
    except OSError as error:
        advice = (
            f"Or copy that vocabulary and its {TOKENIZER_FILE} into {directory}, which has none."
        )
        raise FileNotFoundError(f"{error} {advice}") from error
    return replace(opened, vocabularies=(fetched,))


def _read_config(path: Path) -> tuple[Family, Format, Config, JsonObject]:
    """Returns a configuration file's family, format, encoder configuration and content.

    Raises:
        ConfigError: no family can read the file.
    """
    candidates = [
        (family, fmt)
        for family in registry().families.values()
        for fmt in family.formats.values()
        if fmt.config_file and path.match(fmt.config_file)
    ]
    candidates.sort(key=lambda candidate: not candidate[1].takes_precedence)
    read = functools.cache(lambda settings: settings(path))
    # Several programs use the same file name for different contents.
    is_read_alike = len({fmt.settings for _, fmt in candidates}) == 1
    values = read(candidates[0][1].settings) if is_read_alike else JsonObject({}, path)
    refusals = []
    for family, fmt in candidates:
        try:
            values = read(fmt.settings)
            if fmt.is_of_family(values):
                return family, fmt, fmt.decode(values, where=str(path)), values
        except ConfigError as error:
            if fmt.family_key:
                raise
            refusals.append(f"As {family.name}: {error}")
    keys = [fmt.family_key for _, fmt in candidates]
    key = next((key for key in keys if key in values), keys[0])
    if key:
        known = sorted({fmt.family_value for _, fmt in candidates if fmt.family_key == key})
        raise ConfigError(
            f"{path} has the {key} {shown(values.get(key))}; this version of bert_zoo supports {known}."
        )
    if path.parent.name == "variables" and (path.parents[1] / SAVED_MODEL).is_file():
        raise ConfigError(cannot_take_apart(path.parents[1]))
    if path.suffix == ".index":
        named = ", ".join(file for file in config_files() if not file.endswith(".index"))
        refusals.insert(
            0,
            f"There is no configuration file ({named}) next to {path} or in the folder above, and its tensors' "
            "shapes do not determine one. Copy it there.",
        )
    raise ConfigError(" ".join(refusals))


def _check_description(description: Description, path: Path) -> None:
    task = description.task
    check(f"{path}: task", task, str | None, ConfigError, choices=TASKS)
    if description.reads_vectors and not issubclass(TASKS[task or Encoder.task], SentenceModel):
        raise ConfigError(
            f"{path} sets reads_vectors, but models for task {task!r} have no such head."
        )
    if description.head is not None and not getattr(TASKS.get(task), "takes_features", False):
        raise ConfigError(f"{path} sets head, but models for task {task!r} have no such head.")
    if description.thresholds:
        try:
            label_thresholds(description.thresholds, description.labels or ())
        except ValueError as error:
            raise ConfigError(f"{path} cannot be used: {error}") from error


def _with_tensors(
    opened: Opened,
    directory: Path,
    task: str | None = None,
    encoder: str = "",
    read_as: Format | None = None,
    weights: Path | None = None,
    merged: str | None = None,
) -> Opened:
    """Adds a directory's tensors, and the fields of the configuration that depend on them.

    Args:
        encoder: name of the encoder in a file with several; by default the one that the task's head uses.
        read_as: format of the configuration file that determined the family; None for registered models.
        weights: one of several files with weights in the directory.
        merged: one of the adapters in the file.
    """
    of_model = model_folder(directory)
    stored = open_weights(weights or of_model)
    family, config = opened.family, opened.config
    if read_as is not None:
        family = _family_of_tensors(family, read_as, stored)
    if family is not opened.family:
        config = family.config_class.from_dict(config.to_dict())
    plan = plan_of(family, stored, config, encoder)
    chosen = with_adapter(stored, plan.format.adapters, merged)
    if chosen is not stored:
        opened = _with_prompt_of(opened, merged, plan.format.adapters)
    source = RenamedSource(chosen, plan.format)
    if plan.format.has_dense_folders:
        for number, folder in enumerate(dense_folders(directory)):
            dense = RenamedSource(open_weights(directory / folder), plan.format)
            is_head = opened.description.token_vectors is not None
            source.add(dense, "{}".format if is_head else f"{number}/{{}}".format)
        sparse = opened.description.sparse_pooling
        if sparse is not None and sparse.static_queries:
            vocabulary = family.text.parts(VocabularyFiles(of_model), {}).make().vocabulary
            found = RenamedSource(query_weights(directory, vocabulary), plan.format)
            source.add(found, f"{QUERY_WEIGHTS}.{{}}".format)
        if opened.description.autoencoder is not None:
            folder = directory / sparse_modules_of(directory).pooling
            found = RenamedSource(open_weights(folder), plan.format)
            source.add(found, f"{AUTOENCODER}.{{}}".format)
        for place, file in layer_files(directory).items():
            source.add(RenamedSource(open_weights(file), plan.format), f"{place}.{{}}".format)
    if opened.further_tokens:
        (table,) = (b.keys[0] for b in plan.encoder if b.variable == TOKEN_TABLE)
        config = config.replace(vocab_size=source.shape(table)[0])
    beside = _add_encoders_beside(source, plan, family, directory, task)
    config = config.replace(
        **plan.format.inferred_fields(source, config, opened.description.unsaid)
    )
    for second, other in beside:
        wanted = plan.format.codec.encode(second.config(config))
        stated = plan.format.codec.encode(other.config)
        if differing := {key: stated[key] for key in stated if stated[key] != wanted[key]}:
            raise WeightsError(
                f"The {second.name} in {other.name} does not belong to the model in the directory above: its "
                f"configuration has {shown(differing)}, not {shown({k: wanted[k] for k in differing})}. "
                "Move it away, or load it separately."
            )
    root = plan.root
    # The second encoder, if the task's head is on it.
    for second in family.second_encoders:
        own = plan.head_root + plan.format.encoders.get(second.name, "/")
        is_read = second.head is not None and second.head is family.heads.get(task)
        if is_read and root != own and any(key.startswith(own) for key in source):
            config, root = second.config(config), own
    plan = family.plan(plan.format, config, root, plan.head_root)
    # A pooler without weights is in every file.
    if of_pooler := [key for b in plan.encoder if b.part == POOLER for key in b.keys]:
        config = config.with_pooler(any(key in source for key in of_pooler))
    _check_size(family, config, source)
    return replace(
        opened,
        family=family,
        config=config,
        source=source,
        plan=plan,
        vocabularies=opened.vocabularies or (plan.format.vocabulary_directory(of_model),),
    )


def _with_prompt_of(opened: Opened, adapter: str | None, adapters: Collection[str]) -> Opened:
    """Of the prompts of adapters, keeps the one of the merged adapter, as the default."""
    said = opened.description.prompts
    texts = {name: text for name, text in said.texts.items() if name not in {*adapters} - {adapter}}
    if adapter is not None:
        prompts = Prompts({**texts, adapter: said.texts.get(adapter, "")}, adapter)
    else:
        prompts = Prompts(texts, said.default if said.default in texts else None)
    return replace(opened, description=replace(opened.description, prompts=prompts))


def _add_encoders_beside(
    source: RenamedSource, plan: Plan, family: Family, directory: Path, task: str | None
) -> list[tuple[SecondEncoder, Opened]]:
    """Adds to a source the encoders in further files or in subdirectories.

    Returns:
        Those in subdirectories, which `save` writes with a configuration.
    """
    found = []
    rows = family.heads[task].rows if task in family.heads else ()
    for second in rows:
        if not isinstance(second, SecondEncoder) or second.name in plan.format.encoders:
            continue
        below, head = directory / second.name, family.task_of(second)
        beside = plan.format.files_beside.get(second.name)
        if (below / plan.format.config_file).is_file():
            other = _open_directory(below, str(below), True, head)
            source.add(other.source, other.plan.names_beside(plan, second, head))
            found.append((second, other))
        elif beside and (directory / beside).is_file():
            stored = RenamedSource(open_weights(directory / beside), plan.format)
            source.add(stored, plan.names_beside(plan, second, head))
    return found


def _family_of_tensors(family: Family, read_as: Format, source: TensorSource) -> Family:
    """Returns the family, or another one with the same configuration files that claims the tensors."""
    for other in registry().families.values():
        fmt = other.formats.get(read_as.name)
        may_be = fmt and fmt.distinctive_key and fmt.family_value == read_as.family_value
        if may_be and any(re.search(fmt.distinctive_key, key) for key in source):
            return other
    return family


def _check_size(family: Family, config: Config, source: RenamedSource) -> None:
    """Raises WeightsError for a configuration far larger than the stored tensors, before building it.

    `assign` reports smaller differences, all of them.
    """
    largest_axis = max((size for key in source for size in source.shape(key)), default=0)
    if max(config.sizes().values()) <= MOST_TIMES_STORED * largest_axis:
        return
    stored, asked = sum(math.prod(source.shape(key)) for key in source), family.count(config)
    if asked > BUILT_WITHOUT_QUESTION and asked > MOST_TIMES_STORED * stored:
        raise WeightsError(
            f"{source.location} does not fit its configuration, which requires "
            f"{shown(asked)} parameters; the file has {stored:,} in {len(source):,} tensors. "
            f"{config.largest_sizes()}. Check that the configuration belongs to "
            "these weights."
        )
