"""Reads and checks an export's `runtime.json`."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_zoo.config import UNLIMITED, ConfigError, Prompts
from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check
from bert_zoo.json_files import JsonObject, member, read_object
from bert_zoo.runtime.answers import SCORE_ACTIVATIONS
from bert_zoo.text.numpy_packing import MARKER, SCORED, TRUNCATIONS, Layout, Scoring

LITERT_FILE = "model.tflite"
ONNX_SUFFIX = ".onnx"
TOKENIZER_FILE = "tokenizer.json"
DESCRIPTION_FILE = "runtime.json"
# Version of the description; a change that older readers would misread raises it.
VERSION = 1


def onnx_file(signature: str) -> str:
    return f"{signature}{ONNX_SUFFIX}"


# The signature for texts, and the inputs that are made from texts.
SIGNATURE = "tokens"
READ = ("token_ids", "segment_ids", "padding_mask", SCORED)
# The longest row that is accepted: more than any model reads, and its ids take little memory.
MOST_TOKENS = 2**17 - 1
_MOST_SEGMENTS = 2**7 - 1


def read_description(
    path: Path, formats: Collection[str], outputs: Mapping[str, Collection[str]]
) -> dict[str, Any]:
    """Reads a `runtime.json` of known formats and verbs (with the model's outputs that each reads).

    Raises:
        ConfigError: the content is not as `bert_zoo.export` writes it; the message names the key.
        ValueError: a newer bert_zoo wrote the file.
    """
    values = read_object(path)
    version = member(values, "version", int, path)
    if version > VERSION:
        raise ValueError(
            f"{path} has version {version}, but this bert_zoo reads only {VERSION} and older. Update "
            "bert_zoo."
        )
    member(values, "format", str, path, choices=formats)
    member(values, "task", str, path)
    verb = values.take("verb", str, choices=outputs)
    values.take("score_activation", str, choices=SCORE_ACTIVATIONS)
    labels, thresholds = values.items_of("labels", str), values.items_of("thresholds", float)
    if thresholds and len(thresholds) != len(labels):
        raise ConfigError(
            f"{path}: there are {len(labels)} labels, but {len(thresholds)} thresholds."
        )
    values["outputs_per_token"] = values.items_of("outputs_per_token", str)
    signatures = member(values, "signatures", dict, path)
    for name in signatures:
        _check_signature(member(signatures, name, dict, signatures.where))
    ids = member(signatures, SIGNATURE, dict, signatures.where)
    rank = len(member(ids, "token_ids", dict, ids.where)["shape"])
    check(f"{ids.where}: the rank of token_ids", rank, int, ConfigError, least=2, most=3)
    text = values.take("text", dict)
    if text is None:
        member(values, "text_missing", list, path)
        values.items_of("text_missing", str)
    else:
        _check_text(text)
        if unknown := ids.keys() - set(READ):
            raise ConfigError(f"{ids.where}: {quoted(sorted(unknown))} cannot be made from texts.")
        for name, spec in ids.items():
            if spec["shape"] != [None] * rank:
                raise ConfigError(
                    f"{ids.where}: {name} has the shape {shown(spec['shape'])}; for texts of any number "
                    f"and length it must be {rank} times null."
                )
    values["max_active_dims"] = values.take("max_active_dims", int, least=1)
    values["query_weights"] = values.items_of("query_weights", float)
    values["include_prompt"] = values.take("include_prompt", bool, True)
    prompts = values.section("prompts").record(Prompts, ())
    return values | {"verb": verb, "text": text, "labels": labels, "prompts": prompts}


def layout_of(text: JsonObject) -> Layout:
    values = member(text, "layout", dict, text.where)
    layout = values.record(Layout)
    parts = [part for number in (1, 2 if layout.pair else 1) for part in layout.parts(number)]
    for segment in (layout.padding_segment, *(part.segment for part in parts)):
        check(f"{values.where}: a segment", segment, int, ConfigError, least=0, most=_MOST_SEGMENTS)
    return layout


def split_tokens_of(text: JsonObject) -> dict[int, list[int]]:
    """Maps tokens of `tokenizer.json` to the several tokens that the model has instead; ConfigError if invalid."""
    values = text.section("split_tokens")
    for token in values:
        if not (token.isascii() and token.isdigit()):
            raise ConfigError(f"{values.where}: {shown(token)} is not a token's id.")
    return {int(token): values.items_of(token, int) for token in values}


def _check_signature(inputs: JsonObject) -> None:
    for name in inputs:
        spec = member(inputs, name, dict, inputs.where)
        member(spec, "dtype", str, spec.where, choices=("int32", "int64", "float32"))
        for size in member(spec, "shape", list, spec.where):
            where = f"{spec.where}: a size of its shape"
            check(where, size, int | None, ConfigError, least=0, most=UNLIMITED)


def _checked_rows(rows: JsonObject) -> Layout:
    """The layout of rows whose other settings are valid, too."""
    layout = layout_of(rows)
    # Tables of token vectors read texts of any length.
    for name, most in (("sequence_length", UNLIMITED), ("bucket", MOST_TOKENS)):
        member(rows, name, int, rows.where, least=1, most=most)
    if rows["sequence_length"] < layout.most_specials:
        raise ConfigError(
            f"{rows.where}: sequence_length is {rows['sequence_length']}, but there are "
            f"{layout.most_specials} special tokens."
        )
    member(rows, "truncation", str, rows.where, choices=TRUNCATIONS)
    return layout


def _check_text(text: JsonObject) -> None:
    layout = _checked_rows(text)
    text.take("blank_before_words", bool)
    text.items_of("differences", str)
    most = text.take("vocabulary_size", int, 2**31)
    ids = member(text, "ids", dict, text.where)
    every = [member(ids, role, int, ids.where) for role in ("pad", "unk", *layout.roles)]
    for tokens in split_tokens_of(text).values():
        every += tokens
    for rows in text.section("roles").values_of(dict).values():
        layout_of_role = _checked_rows(rows)
        if rows.get("scoring") is None:
            continue
        scoring = member(rows, "scoring", dict, rows.where).record(Scoring)
        every += [scoring.marker_id or 0, scoring.fill_id, *scoring.skipped_ids]
        check(
            f"{rows.where}: fill_to", scoring.fill_to, int, ConfigError, least=0, most=MOST_TOKENS
        )
        known = {*ids} if scoring.marker_id is None else {*ids, MARKER}
        if missing := {*layout_of_role.roles} - known:
            raise ConfigError(f"{rows.where}: the tokens {quoted(sorted(missing))} have no ids.")
    for index in every:
        check(f"{text.where}: the id of a token", index, int, ConfigError, least=0, below=most)
