"""model2vec's directories: config.json, tokenizer.json, and a table of token vectors, perhaps with weights of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import UNLIMITED, Config, Pooling, TextSpec
from bert_zoo.json_files import JsonObject
from bert_zoo.text.format import save_for_transformers
from bert_zoo.weights.formats.format import Description, Format, say_what_differs
from bert_zoo.weights.formats.hf_directories import (
    TABLE,
    Module,
    check_is_mean,
    dense_modules,
    write_modules,
)

MODEL_TYPE = "model2vec"
# Tokens that are read unless config.json says otherwise.
LENGTH = 512


@dataclass(frozen=True, kw_only=True)
class Model2Vec(Format):
    """A family's directories of model2vec."""

    name: ClassVar[str] = "model2vec"
    metadata: ClassVar[Mapping[str, str]] = {"format": "np"}
    family_key: ClassVar[str] = "model_type"
    program: ClassVar[str] = "model2vec"
    takes_precedence: ClassVar[bool] = True  # as its files need not name a type
    # Keys that say how a model was made, and what the tensors show.
    about: ClassVar[frozenset[str]] = frozenset(
        """
        apply_pca apply_zipf architectures embedding_dtype hidden_dim max_length model_type normalize pooling
        seq_length sif_coefficient tokenizer_name vocabulary_quantization
        """.split()
    )

    config_file: str = "config.json"

    @property
    def family_value(self) -> str:
        return MODEL_TYPE

    @staticmethod
    def wrote(values: JsonObject) -> bool:
        """Whether a config.json is model2vec's; those of models that were not distilled name no type."""
        named = values.take("model_type", str)
        return named == MODEL_TYPE or (named is None and "normalize" in values)

    def is_of_family(self, values: JsonObject) -> bool:
        return self.wrote(values)

    def description(self, values: JsonObject, directory: Path) -> Description:
        length = values.take("max_length", int, UNLIMITED) if "max_length" in values else LENGTH
        return Description(
            text=TextSpec(None, length),
            pooling=Pooling(normalize=values.take("normalize", bool, False)),
        )

    def description_of(
        self, model: Any, family: Any, description: Description, preprocessor: Any
    ) -> Description:
        if model.task in family.heads:
            raise ValueError(
                f"{self.program} has no models for task {model.task!r} here. Save model.encoder, or leave format out."
            )
        check_is_mean(description.pooling)
        pooling = replace(description.pooling, normalize=True, similarity="cosine")
        if pooling != Pooling() or any(description.prompts.texts.values()):
            raise ValueError(
                f"model2vec has no dense layers, layer norm, shortened vectors or prompts, but this model has "
                f"{description.pooling} and {description.prompts}. Choose format='hf' or leave it out."
            )
        unknown = getattr(getattr(preprocessor, "tokenizer", None), "unk_id", None)
        config = getattr(model, "encoder", model).config
        say_what_differs({"unk_id": unknown}, config, self.program)
        return description

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        """The content of config.json."""
        length = None if description.text is None else description.text.max_length
        return {
            "model_type": MODEL_TYPE,
            "architectures": ["StaticModel"],
            "hidden_dim": config.hidden_size,
            "seq_length": 1_000_000,  # as the program writes it
            "normalize": description.pooling.normalize,
            "max_length": None if length == UNLIMITED else length,
            "embedding_dtype": "float32",
        }

    def write_vocabulary(
        self, directory: Path, preprocessor: Any, text: Any, description: Description
    ) -> None:
        save_for_transformers(directory, preprocessor, text)

    def write_beside(
        self,
        directory: Path,
        config: Config,
        description: Description,
        tensors: Mapping[str, Any],
    ) -> None:
        table = Module(TABLE, ".")
        modules = dense_modules(description.pooling, config.hidden_size, table=table)
        write_modules(directory, modules)
