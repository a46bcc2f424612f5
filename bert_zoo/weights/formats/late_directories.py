"""Directories of late-interaction models: Stanford's ColBERT, PyLate's and sentence-transformers' MultiVectorEncoder."""

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_zoo.config import (
    DOCUMENT,
    QUERY,
    ROLES,
    ConfigError,
    Prompts,
    TokenRole,
    TokenVectors,
)
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.files import AddedToken, VocabularyFiles, read_named_tokens
from bert_zoo.weights.files import write_json
from bert_zoo.weights.formats.format import Description
from bert_zoo.weights.formats.hf_directories import (
    DENSE_ACTIVATIONS,
    DENSE_KEYS,
    MODULE_FILE,
    MODULES_FILE,
    SETTINGS_FILE,
    SETTINGS_KEYS,
    SIMILARITY,
    VECTOR_KEYS,
    Module,
    check_names,
    config_of,
    modules_of,
    prompts_of,
    read_known,
    refuse_residual,
    sentence_settings,
    write_modules,
    write_settings,
    write_transformer,
)

# Stanford's class in config.json, and its settings (colbert/infra/config/settings.py).
STANFORD_CLASS, STANFORD_FILE = "HF_ColBERT", "artifact.metadata"
STANFORD_KEYS = frozenset(
    # What is read, and settings of training, indexing and search.
    """
    attend_to_mask_tokens dim doc_maxlen doc_token_id interaction mask_punctuation query_maxlen query_token_id relu
    similarity

    accumsteps amp avoid_fork_if_possible bsize centroid_score_threshold checkpoint clustering_mode collection
    distillation_alpha doc_token experiment gpus ignore_scores index_bsize index_name index_path index_root
    kmeans_niters load_index_with_mmap lr maxsteps meta model_name name nbits ncells ndocs nranks nway overwrite
    pool_factor protected_tokens queries query_token rank reranker resume root save_every triples use_ib_negatives
    warmup warmup_bert
    """.split()
)
# The name of its tensors, which are beside the encoder's there and in a folder in the other two.
PROJECTION = "linear"
# What sentence-transformers and PyLate call such models in `SETTINGS_FILE`.
MODEL_TYPE, PYLATE_TYPE = "MultiVectorEncoder", "ColBERT"
TOKENS = "token_embeddings"
WHAT = "vectors of tokens"
DENSE, MASK, NORMALIZE = "Dense", "MultiVectorMask", "Normalize"
# Modules of sentence-transformers after the Transformer; PyLate's program does the last two by itself.
MODULES = (DENSE, MASK, NORMALIZE)
# PyLate's settings in `SETTINGS_FILE`, and sentence-transformers' of the Transformer in `SENTENCE_FILE`.
PYLATE_KEYS = (
    *("query_prefix", "document_prefix", "query_length", "document_length"),
    *("attend_to_expansion_tokens", "do_query_expansion", "skiplist_words"),
)
EXPANSION = "query_expansion"
IDENTITY = next(theirs for theirs, ours in DENSE_ACTIVATIONS.items() if ours == "linear")
PUNCTUATION = tuple(string.punctuation)


def token_vectors_of(values: JsonObject, directory: Path) -> tuple[TokenVectors, Prompts] | None:
    """How a directory's model makes token vectors, and its prompts without markers; None for other models.

    Args:
        values: of its config.json.
        directory: of the model.

    Raises:
        ConfigError: a module or a setting that bert_zoo does not have.
    """
    kinds = [kind for kind, _ in modules_of(directory)]
    try:
        if not kinds and STANFORD_CLASS in values.items_of("architectures", str):
            return _of_stanford(directory), Prompts()
        if kinds[1:2] == [DENSE] and kinds[:1] == ["Transformer"]:
            return _of_modules(directory, kinds)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{directory}: {error}") from error
    return None


def _of_stanford(directory: Path) -> TokenVectors:
    values = read_known(directory / STANFORD_FILE, STANFORD_KEYS)
    if values.take("relu", bool, False):
        raise ConfigError(
            f"{values.where} has relu; bert_zoo's vectors of tokens have no activation."
        )
    fixed = {"interaction": "colbert", "similarity": "cosine"}
    for key, only in fixed.items():
        values.take(key, str, only, choices=[only])
    query = TokenRole(
        marker=values.take("query_token_id", str, "[unused0]"),
        expansion="fixed",
        expansion_length=values.take("query_maxlen", int, 32),
        attends=values.take("attend_to_mask_tokens", bool, False),
    )
    document = TokenRole(
        max_length=values.take("doc_maxlen", int, 220),
        marker=values.take("doc_token_id", str, "[unused1]"),
        skip_words=PUNCTUATION if values.take("mask_punctuation", bool, True) else (),
    )
    return TokenVectors(values.take("dim", int, 128), query=query, document=document)


def _of_modules(directory: Path, kinds: Sequence[str]) -> tuple[TokenVectors, Prompts]:
    settings = read_known(directory / SETTINGS_FILE)
    is_pylate = settings.take("model_type", str) == PYLATE_TYPE
    wanted = MODULES[:1] if is_pylate else MODULES
    if tuple(kinds[1:]) not in (wanted, wanted[:-1] or wanted):
        raise ConfigError(
            f"{directory / MODULES_FILE} lists the modules {listing(kinds)}; of late-interaction models bert_zoo reads "
            f"Transformer, {', '.join(wanted)}. Use the model with the program that wrote it."
        )
    read_known(directory / SETTINGS_FILE, (*SETTINGS_KEYS, *(PYLATE_KEYS if is_pylate else ())))
    settings.take(SIMILARITY, str, "MaxSim", choices=["MaxSim", "maxsim", "cosine", "dot"])
    folders = {kind: directory / folder for kind, folder in modules_of(directory)}
    size, use_bias = _dense_of(folders[DENSE], is_pylate)
    made = (_of_pylate if is_pylate else _of_transformer)(directory, settings)
    if MASK in folders:
        made = _masked(made, config_of(folders[MASK], MASK_KEYS))
    if not is_pylate and NORMALIZE in folders:
        check_names(read_known(folders[NORMALIZE] / MODULE_FILE, VECTOR_KEYS), TOKENS, WHAT)
    prompts, texts = prompts_of(directory), {}
    tokens = _tokens_in(directory)
    for role in ROLES:
        text = settings.take(f"{role}_prefix", str, "") + prompts.texts.get(role, "")
        marker = _marker(text, tokens, any_token=is_pylate)
        made[role] = replace(made[role], marker=marker)
        texts[role] = text.removeprefix(marker or "")
    texts = {**prompts.texts, **texts}
    prompts = Prompts({name: text for name, text in texts.items() if text}, prompts.default)
    normalize = is_pylate or NORMALIZE in folders
    return TokenVectors(size, use_bias, normalize, **made), prompts


MASK_KEYS = ("skiplist_words", "skiplist_tasks", "keep_only_token_ids")


def _dense_of(folder: Path, is_pylate: bool) -> tuple[int, bool]:
    values = config_of(folder, DENSE_KEYS)
    note = f"the only one for bert_zoo's {WHAT}"
    values.take("activation_function", str, IDENTITY, choices=[IDENTITY], note=note)
    if not is_pylate:
        check_names(values, TOKENS, WHAT)
    refuse_residual(values)
    return values.take("out_features", int), values.take("bias", bool, True)


def _of_pylate(directory: Path, values: JsonObject) -> dict[str, TokenRole]:
    length = values.take("query_length", int, 32)
    query = TokenRole(max_length=length)
    if values.take("do_query_expansion", bool, True):
        attends = values.take("attend_to_expansion_tokens", bool, False)
        query = TokenRole(expansion="fixed", expansion_length=length, attends=attends)
    words = values.items_of("skiplist_words", str)
    skipped = PUNCTUATION if values.get("skiplist_words") is None else tuple(words)
    length = values.take("document_length", int, 180)
    return {QUERY: query, DOCUMENT: TokenRole(max_length=length, skip_words=skipped)}


def _of_transformer(directory: Path, settings: JsonObject) -> dict[str, TokenRole]:
    values = sentence_settings(directory)
    query = TokenRole(max_length=values.take("query_length", int))
    if EXPANSION in values and values[EXPANSION] is not None:
        said = values.section(EXPANSION)
        if unknown := sorted({*said} - {"strategy", "attend", "token", "length"}):
            raise ConfigError(f"{said.where} has {listing(unknown)}, which bert_zoo does not know.")
        query = replace(
            query,
            expansion=said.take("strategy", str),
            expansion_length=said.take("length", int),
            expansion_token=said.take("token", str),
            attends=said.take("attend", bool, False),
        )
    document = TokenRole(max_length=values.take("document_length", int))
    return {QUERY: query, DOCUMENT: document}


def _masked(roles: Mapping[str, TokenRole], values: JsonObject) -> dict[str, TokenRole]:
    """The roles with the words that a MultiVectorMask skips."""
    if values.get("keep_only_token_ids"):
        raise ConfigError(
            f"{values.where} has keep_only_token_ids, of models of images, which bert_zoo does not have."
        )
    words = tuple(values.items_of("skiplist_words", str))
    tasks = values.items_of("skiplist_tasks", str)
    tasks = [DOCUMENT] if values.get("skiplist_tasks") is None else tasks
    if unknown := sorted({*tasks} - {*ROLES}):
        raise ConfigError(
            f"{values.where} has the skiplist_tasks {shown(unknown)}; there are {ROLES}."
        )
    return {
        role: replace(made, skip_words=words if role in tasks else ())
        for role, made in roles.items()
    }


def _tokens_in(directory: Path) -> tuple[dict[str, AddedToken], set[str]]:
    """The tokens of a directory that texts are cut at, and the others of its vocabulary."""
    files = VocabularyFiles(directory)
    model = files.json("tokenizer.json").section("model")
    vocabulary = model.get("vocab") or {}
    if not isinstance(vocabulary, dict):  # of Unigram, pairs of token and score
        vocabulary = [token for token, _ in vocabulary]
    lines = files.lines("vocab.txt") if files.has("vocab.txt") else ()
    return read_named_tokens(files).tokens, {*vocabulary, *lines}


def _marker(
    text: str, tokens: tuple[dict[str, AddedToken], set[str]], any_token: bool
) -> str | None:
    """The token that a prompt begins with; None for a prompt that is text alone.

    Texts are cut at added tokens. PyLate inserts the id of any token that the prompt is, with or without its blank.
    """
    added, vocabulary = tokens
    known: Iterable[str] = added
    if any_token and text.split():
        known = [*added, *({text, text.split()[0]} & vocabulary)]
    return max((token for token in known if text.startswith(token)), key=len, default=None)


def write_token_vectors(
    directory: Path, description: Description, hidden_size: int, tensors: Mapping[str, Any]
) -> None:
    """The files by which sentence-transformers 6.2 makes a MultiVectorEncoder of an encoder.

    Args:
        directory: of the encoder.
        description: of the model.
        hidden_size: width of the encoder.
        tensors: the weights of the dense layer, by torch's names.
    """
    made = description.token_vectors
    query, document = made.query, made.document
    if query.skip_words and document.skip_words and query.skip_words != document.skip_words:
        raise ValueError(
            "sentence-transformers skips the same words in queries and documents; this model skips different ones. "
            "Leave format out."
        )
    if document.expansion is not None:
        raise ValueError(
            "sentence-transformers fills rows of queries alone; this model's documents are filled, too. Leave format out."
        )
    names = dict.fromkeys(VECTOR_KEYS, TOKENS)
    tasks = [role for role in ROLES if getattr(made, role).skip_words] or [DOCUMENT]
    dense = {"in_features": hidden_size, "out_features": made.size, "bias": made.use_bias}
    skipped = {
        "skiplist_words": [*(document.skip_words or query.skip_words)],
        "skiplist_tasks": tasks,
        "keep_only_token_ids": None,
    }
    modules = [
        Module("Transformer"),
        Module(DENSE, f"1_{DENSE}", dense | {"activation_function": IDENTITY} | names, tensors),
        Module(MASK, f"2_{MASK}", skipped),
        *[Module(NORMALIZE, f"3_{NORMALIZE}", names)] * made.normalize,
    ]
    write_modules(directory, modules, is_new=True)
    expansion = None
    if query.expansion is not None:
        expansion = {
            "strategy": query.expansion,
            "attend": query.attends,
            "token": query.expansion_token,
            "length": query.expansion_length,
        }
    lengths = {f"{role}_length": getattr(made, role).max_length for role in ROLES}
    lengths[EXPANSION] = expansion
    write_transformer(directory, description.text, description.lacks_pooler, **lengths)
    prompts, texts = description.prompts, dict(description.prompts.texts)
    for role in ROLES:
        texts[role] = (getattr(made, role).marker or "") + texts.get(role, "")
    prompts = replace(prompts, texts=texts)
    write_settings(directory, prompts, kind=MODEL_TYPE, **{SIMILARITY: "maxsim"})
    _make_markers_special(directory, [query.marker, document.marker])


def _make_markers_special(directory: Path, markers: Sequence[str | None]) -> None:
    """Has the tokenizer of a directory keep markers whole: as text before a text, they would fall into pieces."""
    path = directory / "tokenizer.json"
    if not path.is_file():
        return
    content = read_object(path)
    ids = dict(content.section("model").get("vocab") or {})
    kept = {entry["content"]: entry for entry in content.get("added_tokens", [])}
    for marker in filter(None, markers):
        index = kept[marker]["id"] if marker in kept else ids.get(marker)
        if index is None:
            continue
        token = AddedToken(marker, special=True).as_dict()
        kept[marker] = {"id": index, **token}
    content["added_tokens"] = sorted(kept.values(), key=lambda entry: entry["id"])
    write_json(path, content)
