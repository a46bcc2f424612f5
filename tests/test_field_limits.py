"""Whatever a file says in a field, it is read, or one clear error names the field: nothing hangs or fails later.

The fields are those of every family's configuration, of every format's configuration file, and of the settings of
tokenizers.
"""

import dataclasses
import functools
import json
import math
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers import CASES, directory_of, family_of, has_text, slow_but
from test_fuzz import text_files, watched

from bert_zoo.config import Config, ConfigError
from bert_zoo.fields import is_number
from bert_zoo.json_files import JsonObject
from bert_zoo.loading.directories import open_checkpoint
from bert_zoo.registry import registry
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.weights.formats import Description
from bert_zoo.weights.formats.gliner import ENCODER
from bert_zoo.weights.formats.hf_directories import text_of

# What no field may be.
NEVER = (math.nan, math.inf, -math.inf, 10**400, {"x": 1})
ODD = (*NEVER, -1, 10**9, 1e9, "x", [], [1], None, True)
FAMILIES = registry().families
FORMATS = {
    f"{family}-{name}": (family, name)
    for family, declared in FAMILIES.items()
    for name, fmt in declared.formats.items()
    # allenai's files are read but never written.
    if fmt.codec is not None
    and fmt.config_file.endswith((".json", ".config"))
    and name != "allenai"
}
# Beside those in the files.
TOKENIZER_KEYS = """
    add_prefix_space added_tokens_decoder additional_special_tokens backwards do_lower_case eos_at eos_token
    extra_ids keep_accents lowercase max_characters max_input_chars_per_word model_max_length sp_model_kwargs
    strip_accents tokenize_chinese_chars tokenizer_class unit unk_token
""".split()


def first_of(family: str, cases=tuple(CASES)) -> str | None:
    return next((case for case in sorted(cases) if family_of(case) == family), None)


@functools.cache
def config_of(family: str) -> Config:
    """A small model's configuration."""
    return open_checkpoint(directory_of(first_of(family)), with_weights=False).config


def taken(config: Config) -> Iterator[tuple[str, Any, Config]]:
    """Yields name, value and configuration for the odd values that fields may have."""
    for field in dataclasses.fields(config):
        for value in ODD:
            try:
                yield field.name, value, config.replace(**{field.name: value})
            except ConfigError as error:
                assert field.name in str(error), (field.name, value)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_of_a_configuration_has_limits(family):
    for name, value, _ in taken(config_of(family)):
        assert value not in (*NEVER, "x"), name


@pytest.mark.parametrize("family", slow_but([*FAMILIES], "elmo", "longformer"))
def test_every_model_within_the_limits_runs(family, tmp_path):
    from bert_zoo.models.encoder import Encoder

    config = config_of(family)
    for name, value, changed in taken(config):
        if value == getattr(config, name):
            continue
        try:
            with watched(tmp_path):
                if FAMILIES[family].count(changed) > 10**7:
                    continue
                model = Encoder(changed, family)
                ids = {
                    "token_ids": (1, 5),
                    "char_ids": (1, 5, getattr(changed, "max_characters", 0)),
                }
                main = model.backbone.main_input
                outputs = model({main: np.ones(ids[main], "int32")})["sequence_output"]
            assert np.isfinite(outputs).all(), (name, value)
        except ConfigError as error:
            assert name in str(error), (name, value)


def attempts(values: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the path of each key, sections included, with odd values."""
    for key, value in values.items():
        yield from (((*path, key), odd) for odd in ODD)
        if isinstance(value, dict):
            yield from attempts(value, (*path, key))


def changed(values: dict, path: tuple[str, ...], value: Any) -> dict:
    first, *rest = path
    return {**values, first: changed(values[first], tuple(rest), value) if rest else value}


def assert_names(error: Exception, names: set[str], value: Any) -> None:
    assert type(error) in (ConfigError, ValueError, FileNotFoundError), (names, value, error)
    assert any(name in str(error) for name in names), (names, value, error)


@pytest.mark.parametrize("name", FORMATS)
def test_every_key_of_a_configuration_file_has_limits(name, tmp_path):
    family, fmt = FORMATS[name][0], FAMILIES[FORMATS[name][0]].formats[FORMATS[name][1]]
    rows, config = {row.key: row for row in fmt.codec.rows}, config_of(family)
    activations = next((row.values for row in rows.values() if row.field == "activation"), None)
    if activations and config.activation not in activations.values():
        config = config.replace(activation=[*activations.values()][-1])
    if hasattr(fmt, "encode"):
        values = fmt.encode(config, Description())
        values = values.get(ENCODER, values)
        values = values if "config" in values else {**fmt.codec.encode(config), **values}
    else:
        values = fmt.codec.encode(config)
    fixed = {key: known[0] for key, known in fmt.codec.fixed.items()}
    values = values if "config" in values else {**values, **fixed}
    fmt.decode(JsonObject(values, "its file"), where="its file")
    for path, value in attempts(values):
        content = changed(values, path, value)
        with watched(tmp_path):
            try:
                fmt.decode(JsonObject(content, "its file"), where="its file")
            except Exception as error:
                names = {*path, *(value if isinstance(value, dict) else ())}
                names |= {rows[key].field for key in path if key in rows}
                if path[0] not in rows:  # a key that stands for others
                    names |= {*rows}
                assert_names(error, names, value)


WITH_TEXT = tuple(filter(has_text, CASES))


@pytest.mark.parametrize(
    "family",
    slow_but(sorted({*map(family_of, WITH_TEXT)}), "bert", "t5"),
)
def test_every_setting_of_a_tokenizer_has_limits(family, tmp_path):
    case = first_of(family, WITH_TEXT)
    for file in text_files(directory_of(case)):
        shutil.copy(file, tmp_path)
    path = tmp_path / "tokenizer_config.json"
    values = json.loads(path.read_text()) if path.is_file() else {}
    values = dict.fromkeys(TOKENIZER_KEYS) | values
    usual = FAMILIES[family].text.parts(VocabularyFiles(tmp_path), {}).arguments
    for key, value in attempts(values):
        path.write_text(json.dumps(changed(values, key, value)))
        with watched(tmp_path):
            try:
                text_of(tmp_path)
                parts = FAMILIES[family].text.parts(VocabularyFiles(tmp_path), {})
                if is_number(value) and parts.arguments != usual:
                    parts.make()(["a text"])
            except Exception as error:
                assert_names(error, {*key}, value)
