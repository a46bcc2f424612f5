"""bert_zoo's own directories: bert_zoo.json beside variables under the paths that they have here."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import (
    ROLES,
    Autoencoder,
    Config,
    ConfigError,
    EntityHead,
    HeadSpec,
    PooledDense,
    Pooling,
    Prompts,
    SparsePooling,
    TextSpec,
    TokenRole,
    TokenVectors,
)
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.weights.formats.format import Description, Format
from bert_zoo.weights.table import AUTOENCODER, Row, Stored

VERSION = 1
KEYS = {"format_version", "family", "task", "config", "labels", "pooling", "text"}
# Written only where they say something, so that earlier versions read the other directories.
OPTIONAL_KEYS = {
    *(
        "thresholds",
        "score_activation",
        "long_texts",
        "prompts",
        "reads_vectors",
        "head",
        "default_role",
    ),
    *("generation", "sparse_pooling", "token_vectors", "entity_head"),
}
POOLING_KEYS = {"mode", "normalize"}


@dataclass(frozen=True, kw_only=True)
class BertZoo(Format):
    """A family's directories of ours."""

    name: ClassVar[str] = "bert_zoo"
    metadata: ClassVar[Mapping[str, str]] = {"format": "bert_zoo"}
    family_key: ClassVar[str] = "family"

    family: str  # its name
    config_class: type[Config]
    config_file: str = "bert_zoo.json"
    root: str = "encoder/"

    def names(self, row: Row) -> tuple[str, ...]:
        # A table of several encoders is the first one's.
        return (f"/{self.root}{row.ours}" if row.is_shared else row.ours,)

    def stored(self, row: Row, variable: str) -> Stored:
        return Stored(f"/{variable}")

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        values = read_object(path)
        if values.get("format_version") != VERSION or set(values) - OPTIONAL_KEYS != KEYS:
            raise ConfigError(
                f"{path} is of format {shown(values.get('format_version'))} with the keys "
                f"{listing(sorted(values))}; this version of bert_zoo reads format {VERSION} with "
                f"{sorted(KEYS)}."
            )
        return values

    def decode(self, values: JsonObject, *, where: str) -> Config:
        try:
            return self.config_class.from_dict(values.section("config"))
        except ConfigError as error:
            raise ConfigError(f"{where} cannot be used: {error}") from error

    def description(self, values: JsonObject, directory: Path) -> Description:
        text, head = values.take("text", dict), values.take("head", dict)
        pooling, sparse, token_vectors, entities = (
            values.take(key, dict)
            for key in ("pooling", "sparse_pooling", "token_vectors", "entity_head")
        )
        return Description(
            task=values.take("task", str),
            labels=tuple(values.items_of("labels", str)) or None,
            thresholds=values.items_of("thresholds", float),
            score_activation=values.take("score_activation", str),
            text=None if text is None else text.record(TextSpec),
            pooling=Pooling() if pooling is None else _pooling(pooling),
            sparse_pooling=None if sparse is None else _sparse_pooling(sparse),
            prompts=values.section("prompts").record(Prompts, ()),
            token_vectors=None if token_vectors is None else _token_vectors(token_vectors),
            entity_head=None if entities is None else entities.record(EntityHead),
            long_texts=values.take("long_texts", dict),
            generation=(values.section("generation"),),
            reads_vectors=values.take("reads_vectors", bool, False),
            default_role=values.take("default_role", str, choices=ROLES),
            head=None if head is None else head.record(HeadSpec),
        )

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        """The content of bert_zoo.json."""
        text, head = description.text, description.head
        read = None if head is None or head.features is None else str(head.features)
        sparse = description.sparse_pooling
        optional: dict[str, Any] = {
            "sparse_pooling": None if sparse is None else _fields_of(sparse),
            "thresholds": description.thresholds,
            "score_activation": description.score_activation,
            "long_texts": description.long_texts,
            "reads_vectors": description.reads_vectors,
            "default_role": description.default_role,
            "prompts": asdict(description.prompts) if description.prompts.texts else None,
            "token_vectors": description.token_vectors and asdict(description.token_vectors),
            "entity_head": description.entity_head and asdict(description.entity_head),
            "generation": next(iter(description.generation), None),
            "head": None if head is None else asdict(head) | {"features": read},
        }
        return {
            "format_version": VERSION,
            "family": self.family,
            "task": description.task,
            "config": config.to_dict(),
            "labels": description.labels,
            "pooling": {
                name: value
                for name, value in asdict(description.pooling).items()
                if name in POOLING_KEYS or value != getattr(Pooling(), name)
            },
            "text": None if text is None else asdict(text),
            **{key: value for key, value in optional.items() if value},
        }


def _sparse_pooling(values: JsonObject) -> SparsePooling:
    made = {key: values.section(key).record(Autoencoder) for key in {AUTOENCODER} & {*values}}
    return JsonObject({**values, **made}, values.where).record(SparsePooling, ())


def _fields_of(pooling: SparsePooling) -> dict[str, Any]:
    """Without an autoencoder where there is none, as earlier versions know none."""
    return {k: v for k, v in asdict(pooling).items() if k != AUTOENCODER or v is not None}


def _token_vectors(values: JsonObject) -> TokenVectors:
    roles = {name: values.section(name).record(TokenRole) for name in ("query", "document")}
    return JsonObject({**values, **roles}, values.where).record(TokenVectors)


def _pooling(values: JsonObject) -> Pooling:
    layers = [layer.record(PooledDense) for layer in values.items_of("dense", dict)]
    return JsonObject({**values, "dense": layers}, values.where).record(Pooling, POOLING_KEYS)
