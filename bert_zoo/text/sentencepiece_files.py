"""Reads SentencePiece vocabularies from files, with the families' additions; without TensorFlow."""

from __future__ import annotations

import base64
from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.json_files import JsonObject
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.files import VocabularyFiles, read_named_tokens, refuse_others
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.sentencepiece_model import (
    BLANK_AT_END,
    COMBINING,
    NEWLINE,
    NEXT_LINE,
    PLAIN,
    THEIR_WHITE_SPACE,
    WHITE_SPACE,
    Scheme,
    made_sentencepiece_model,
    read_sentencepiece_model,
    scheme_tokens,
)

TOKENIZER_FILE = "tokenizer.json"


def _tokenizer(**arguments):
    from bert_zoo.text.sentencepiece import SentencePieceTokenizer

    return SentencePieceTokenizer(**arguments)


def read_sentencepiece(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads the one SentencePiece model of a directory with its settings.

    Args:
        files: the directory's files.
        overrides: keyword arguments of SentencePieceTokenizer that take precedence over the files,
            including `scheme`.

    Raises:
        FileNotFoundError: neither a model nor a tokenizer.json, or more than one model.
        ConfigError: a damaged file.
    """
    config = files.json("tokenizer_config.json")
    names = {option: option for option in PLAIN} | {"lowercase": "do_lower_case"}
    options = {option: config.take(name, bool) for option, name in names.items() if name in config}
    models = sorted(
        path.name for pattern in ("*.model", "*.spm") for path in files.directory.glob(pattern)
    )
    if not models and files.has(TOKENIZER_FILE):
        # transformers 5 writes no other file.
        model, told = unigram_of(files.json(TOKENIZER_FILE), overrides["scheme"])
        arguments = {
            "model": model,
            **told,
            "added_tokens": _added_tokens(files, model, overrides["scheme"]),
            **overrides,
        }
        return TokenizerParts(_tokenizer, arguments, files.path(TOKENIZER_FILE))
    if len(models) != 1:
        raise FileNotFoundError(
            f"{files.directory} must have one SentencePiece model, *.model, or tokenizer.json; it has "
            f"{files.names()}."
        )
    model = files.content(models[0])
    arguments = {
        "model": model,
        **options,
        "added_tokens": _added_tokens(files, model, overrides["scheme"]),
        **overrides,
    }
    return TokenizerParts(_tokenizer, arguments, files.path(models[0]))


def unigram_of(content: JsonObject, scheme: Scheme) -> tuple[bytes, dict[str, bool]]:
    """Returns a SentencePiece model and options that are equivalent to a tokenizer.json.

    Raises:
        ConfigError: the file is damaged or of another kind, or has steps without such options.
    """
    model = content.section("model")
    refuse_others(
        [
            ("model.type", model.get("type", "Unigram"), "Unigram"),
            ("model.byte_fallback", model.get("byte_fallback", False), False),
        ],
        content.where,
        "this tokenizer",
        f"a model with the tokenizer {scheme.tokenizer_class}",
    )
    pieces = [
        _piece(model, number, row) for number, row in enumerate(model.take("vocab", list, []))
    ]
    names = [name for name, _ in pieces]
    first, last = [*scheme.first_tokens], [*scheme.last_tokens]
    if names[: len(first)] != first:
        raise ConfigError(
            f"{model.where} begins with the pieces {shown(names[: len(first)])}, but "
            f"{scheme.tokenizer_class} has {first} there. Check that it belongs to this family."
        )
    # These may be only in the added tokens.
    end = len(pieces) - len(last) if last and names[-len(last) :] == last else len(pieces)
    replaced = [(piece, 0.0) for piece in scheme.replaced_pieces]
    options, rules = _steps(content)
    unknown = scheme.special_tokens["unknown_token"]
    return made_sentencepiece_model(
        [*replaced, *pieces[len(first) : end]],
        rules,
        unknown=unknown,
        control={*scheme.special_tokens.values(), *scheme.replaced_pieces} - {unknown},
    ), options


def _piece(model: JsonObject, number: int, row: Any) -> tuple[str, float]:
    if not isinstance(row, list) or [*map(type, row)] not in ([str, float], [str, int]):
        raise ConfigError(
            f"{model.where}: vocab[{number}] is {shown(row)}; it must be a piece and its score."
        )
    return row[0], float(row[1])


# A step of a normalizer, without its replacement -> the equivalent option.
_STEPS = {
    ("Replace", "``"): "rewrite_quotes",
    ("Replace", "''"): "rewrite_quotes",
    ("StripAccents", None): "keep_accents",
    ("NFKD", None): "keep_accents",
    ("Lowercase", None): "lowercase",
    ("Replace", "\\s{2,}|[\\n\\r\\t]"): "compose",
    ("NFC", None): "compose",
    # SentencePiece does these.
    ("Replace", " {2,}"): None,
    ("Replace", BLANK_AT_END): None,
    ("Strip", None): None,
    # From directories that bert_zoo wrote, and transformers wrote again.
    ("Replace", WHITE_SPACE): "remove_space",
    ("Replace", THEIR_WHITE_SPACE): "remove_space",
    ("Replace", COMBINING): "keep_accents",
    ("Replace", NEXT_LINE): None,
    ("Replace", NEWLINE): None,
}
# Steps of the families' originals, which Hugging Face's library lacks.
_ORIGINAL_STEPS = (("Replace", COMBINING), ("Replace", NEWLINE))


def _steps(content: JsonObject) -> tuple[dict[str, bool], bytes]:
    """Returns the options for the steps of a tokenizer.json, and the model's rules."""
    options, rules = {**PLAIN, "hugging_face_rules": True, "blank_at_end": True}, b""
    for step in _listed(content.section("normalizer"), "normalizers"):
        kind = step.take("type", str)
        if kind == "Precompiled":
            rules = _decoded(step)
            continue
        pattern = step.section("pattern")
        name = kind, pattern.get("Regex", pattern.get("String"))
        if name not in _STEPS:
            raise ConfigError(
                f"{step.where} is {shown(dict(step))}. bert_zoo's tokenizer does not have this step, so ids "
                "would differ. Put the SentencePiece model (*.model) into the directory."
            )
        if name in _ORIGINAL_STEPS:
            options["hugging_face_rules"] = False
        if name == ("Replace", BLANK_AT_END) or step.take("strip_right", bool, False):
            options["blank_at_end"] = False
        if _STEPS[name] is not None:
            options[_STEPS[name]] = _STEPS[name] != "keep_accents"
    for step in _listed(content.section("pre_tokenizer"), "pretokenizers"):
        kind = step.take("type", str)
        if kind == "WhitespaceSplit":
            options |= {"remove_space": True, "blank_at_end": False}
            continue
        # Files from before 2024 have another name for it.
        prepends = step.take("prepend_scheme", str) or (
            "always" if step.take("add_prefix_space", bool, True) else "never"
        )
        refuse_others(
            [("type", kind, "Metaspace"), ("prepend_scheme", prepends, "always")],
            step.where,
            "this tokenizer",
            "a model with a SentencePiece vocabulary",
        )
    return options, rules


def _listed(part: JsonObject, steps: str) -> list[JsonObject]:
    """The steps of a part, which is a sequence of steps, one step, or nothing."""
    if part.get("type") == "Sequence":
        return part.items_of(steps, dict)
    return [part] if part else []


def _decoded(step: JsonObject) -> bytes:
    try:
        return base64.b64decode(step.take("precompiled_charsmap", str, ""), validate=True)
    except ValueError as error:
        raise ConfigError(
            f"{step.where}: precompiled_charsmap is not base64 ({error}). Fetch the file again."
        ) from error


def _added_tokens(
    files: VocabularyFiles, model: bytes, scheme: Scheme
) -> list[dict[str, Any] | str]:
    """Returns the files' added tokens, without the scheme's special tokens."""
    named = read_named_tokens(files, scheme.special_tokens.values())
    roles = {
        content: AddedToken(content, special=True) for content in scheme.special_tokens.values()
    }
    # Reading the pieces takes seconds, and most directories have no other tokens.
    if all(roles.get(content) == token for content, token in named.tokens.items()):
        return []
    try:
        pieces = [piece.text.decode() for piece in read_sentencepiece_model(model).pieces]
        vocabulary = scheme_tokens(pieces, scheme)
    except ValueError:  # which the tokenizer will raise again
        return []
    return named.added_to(vocabulary, files.directory)
