"""Writes tokenizers as Hugging Face's files: tokenizer.json as plain data, and transformers' other files.

The library tokenizers reads tokenizer.json in Python, Rust and JavaScript. It is written without that library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.json_files import read_object
from bert_zoo.text.format import DeferredPreprocessor, TextFormat
from bert_zoo.text.layout import TEXTS, Layout, Part
from bert_zoo.weights.files import write_json

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer

TOKENIZER_FILE, CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"


def sequence(steps: Iterable[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """A sequence of steps; `kind` is the format's name of the steps, such as "normalizers"."""
    return {"type": "Sequence", kind: [*steps]}


def serialized(
    model: Mapping[str, Any],
    added: Mapping[int, Mapping[str, Any]],
    *,
    normalizer: Mapping[str, Any] | None,
    pre_tokenizer: Mapping[str, Any],
    decoder: Mapping[str, Any],
    post_processor: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The content of a tokenizer.json.

    Args:
        model, normalizer, pre_tokenizer, decoder, post_processor: its parts.
        added: id -> special or added token, in the form of tokenizer_config.json.
    """
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, **added[index]} for index in sorted(added)],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": decoder,
        "model": model,
    }


def bpe_model(ids: Mapping[str, int], merges: Iterable[tuple[str, str]], **options: Any) -> dict:
    """A byte pair encoding; `options` differ from the format's defaults."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **options,
        "vocab": dict(ids),
        "merges": [[*pair] for pair in merges],
    }


def bert_normalizer(
    *, lowercase: bool, strip_accents: bool | None = None, split_cjk: bool = True
) -> dict[str, Any]:
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": split_cjk,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }


def with_rows(
    preprocessor: TextPreprocessor, *, special_in_text: bool = False
) -> dict[str, Any] | None:
    """Returns the tokenizer.json of a preprocessor, which composes rows in the model's layout.

    Args:
        preprocessor: the model's preprocessor.
        special_in_text: special tokens in a text become their own ids whatever the tokenizer's options
            are, as in transformers.

    Returns:
        The content of the file; None if Hugging Face's library has no such tokenizer.
    """
    content = preprocessor.tokenizer.serialized(special_in_text=special_in_text)
    if content is not None:
        rows = composing(preprocessor.packer.layout, preprocessor.tokenizer)
        before = content["post_processor"]
        content["post_processor"] = sequence([before, rows], "processors") if before else rows
    return content


def composing(layout: Layout, tokenizer: Tokenizer) -> dict[str, Any]:
    """The post-processor that puts special tokens around a text, or around the two texts of a pair."""
    ids = {role: int(getattr(tokenizer, f"{role}_id")) for role in layout.roles}
    tokens = {role: tokenizer.id_to_token(index) for role, index in ids.items()}

    def template(parts: Iterable[Part]) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": part.name, "type_id": part.segment}}
            if part.is_text
            else {"SpecialToken": {"id": tokens[part.name], "type_id": part.segment}}
            for part in parts
        ]

    # The format always has a template for pairs.
    pair = layout.parts(2) if layout.pair else [Part(name, i) for i, name in enumerate(TEXTS)]
    return {
        "type": "TemplateProcessing",
        "single": template(layout.parts(1)),
        "pair": template(pair),
        "special_tokens": {
            token: {"id": token, "ids": [ids[role]], "tokens": [token]}
            for role, token in tokens.items()
        },
    }


def save_for_transformers(
    directory: str | Path,
    preprocessor: TextPreprocessor | DeferredPreprocessor,
    form: TextFormat,
    *,
    names_padding: bool = False,
) -> None:
    """Writes the files with which transformers reads texts like a model.

    These are the vocabulary's files and, if Hugging Face's library has the tokenizer, tokenizer.json.

    Args:
        directory: created if missing.
        preprocessor: the model's preprocessor. One that cannot be made without tensorflow_text writes
            the files that it was read from.
        form: text format of the model's family.
        names_padding: name a padding token even if the tokenizer has none.
    """
    directory = Path(directory)
    preprocessor.save_vocabulary(directory)
    if isinstance(preprocessor, DeferredPreprocessor):
        return
    path = directory / CONFIG_FILE
    config = read_object(path)
    layout = preprocessor.packer.layout
    # The inputs of transformers' classes change between versions.
    names = ["input_ids", "token_type_ids", "attention_mask"]
    config["model_input_names"] = names if layout.segments else [names[0], names[2]]
    config["padding_side"] = layout.padding_side
    if names_padding:
        token = preprocessor.tokenizer.id_to_token(preprocessor.packer.pad_id)
        config.setdefault("pad_token", token)
    content = with_rows(preprocessor, special_in_text=True)
    if content is not None:
        config["tokenizer_class"] = form.transformers_class
        write_json(directory / TOKENIZER_FILE, content)
    write_json(path, config)
