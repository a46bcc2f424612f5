"""KerasHub's presets: config.json, model.weights.h5, and for a task task.json and task.weights.h5."""

import logging
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import Config, TextSpec
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.weights.files import write_json
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import Description, Format, say_what_differs
from bert_zoo.weights.formats.hf import HuggingFace
from bert_zoo.weights.table import Row, Stored

log = logging.getLogger("bert_zoo")

# -------------------------------------------------------------------------------------------------
# Common base of the formats of KerasHub and Model Garden, whose models consist of Keras layers.
# -------------------------------------------------------------------------------------------------

# A block's number, in rows that are listed block by block.
_NUMBER = re.compile(r"\blayer_(\d+)/")
PARTS = ("query", "key", "value")


def fused(name: str) -> tuple[str, ...]:
    """Returns the names of the three layers that are one kernel here, from a name with {}."""
    return tuple(name.replace("{}", part) for part in PARTS)


@dataclass(frozen=True, kw_only=True)
class KerasLayers(Format):
    """A format that names layers by our paths, because these programs use the same layers for most families.

    Attention kernels have an axis for heads.
    """

    # Our path -> the name of their layer.
    layers: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)

    def names(self, row: Row) -> tuple[str, ...]:
        number = _NUMBER.search(row.ours)
        found = self.layers.get(_NUMBER.sub("layer_{i}/", row.ours), ())
        names = (found,) if isinstance(found, str) else found
        return tuple(name.replace("{i}", number[1]) for name in names) if number else names

    def stored(self, row: Row, variable: str) -> Stored:
        return Stored(self.suffix(row, variable), shape=self.shape(row, variable))

    @abstractmethod
    def suffix(self, row: Row, variable: str) -> str:
        """Returns the suffix of a layer's name for one of its variables."""

    def shape(self, row: Row, variable: str) -> Callable[[Any], tuple[int, ...]] | None:
        """Returns `Stored.shape` for a variable."""
        *_, layer, part = f"//{row.ours}".split("/")
        if layer != "attention":
            return None
        gives_heads = part in ("qkv", *PARTS)
        if gives_heads and variable == "bias":
            return _heads
        if gives_heads:
            return lambda config: (config.hidden_size, *_heads(config))
        if part == "output" and variable == "kernel":
            return lambda config: (*_heads(config), config.hidden_size)
        return None


def _heads(config: Any) -> tuple[int, int]:
    return config.num_heads, config.hidden_size // config.num_heads


TASK_FILE, TOKENIZER_FILE, PREPROCESSOR_FILE = "task.json", "tokenizer.json", "preprocessor.json"
TASK_WEIGHTS_FILE, TASK_ROOT = "task.weights.h5", "task/"


def block_names(
    block: str, attention: str = "_self_attention_layer/{}_dense"
) -> dict[str, str | tuple[str, ...]]:
    """The names of a block's layers by our paths."""
    ours, theirs = "stack/layer_{i}/", f"layers/{block}_{{i}}/"
    parts = dict(zip(PARTS, fused(theirs + attention), strict=True))
    return {
        f"{ours}attention/qkv": tuple(parts.values()),
        **{f"{ours}attention/{part}": name for part, name in parts.items()},
        f"{ours}attention/output": theirs + attention.format("output"),
        f"{ours}attention_norm": f"{theirs}_self_attention_layer_norm",
        f"{ours}feed_forward/intermediate": f"{theirs}_feedforward_intermediate_dense",
        f"{ours}feed_forward/output": f"{theirs}_feedforward_output_dense",
        f"{ours}output_norm": f"{theirs}_feedforward_layer_norm",
    }


# Of encoders whose tables are layers of their own, and of those that have them in one.
TABLES = {
    "embeddings/token_embedding": "layers/reversible_embedding",
    "embeddings/position_embedding": "layers/position_embedding",
    "embeddings/segment_embedding": "layers/embedding",
    "embeddings/norm": "layers/layer_normalization",
}
JOINT_TABLES = {
    "embeddings/token_embedding": "layers/token_and_position_embedding/token_embedding",
    "embeddings/position_embedding": "layers/token_and_position_embedding/position_embedding",
    "embeddings/norm": "layers/layer_normalization",
}
ENCODER = block_names("transformer_encoder")
CLASSIFIER = {"classifier/dense": "task/layers/dense"}
# A classifier with a layer in the pooler's place.
TWO_LAYERS = {
    "classifier/transform": "task/layers/dense",
    "classifier/dense": "task/layers/dense_1",
}

# Its norm has another epsilon than the encoder's, and BERT's another GELU.
UNREAD_OF_TASKS = {
    f"^{TASK_ROOT}layers/masked_lm_head/": "head for masked tokens, whose arithmetic is KerasHub's own"
}

ROWS = (
    ConfigRow("vocab_size", "vocabulary_size"),
    ConfigRow("hidden_size", "hidden_dim"),
    ConfigRow("intermediate_size", "intermediate_dim"),
    ConfigRow("num_layers"),
    ConfigRow("num_heads"),
    ConfigRow("hidden_dropout", "dropout"),
    ConfigRow("max_positions", "max_sequence_length"),
)
FIXED = ("activation", "layer_norm_epsilon")
SEGMENTS = ConfigRow("num_segments")


def codec(*rows: ConfigRow, **options: Any) -> ConfigCodec:
    """Of a backbone's arguments: those that all have, and `rows`."""
    own = {row.field for row in rows}
    return ConfigCodec(
        rows=[*(row for row in ROWS if row.field not in own), *rows],
        ignored=frozenset({"name", "trainable", "dtype"}),
        **options,
    )


@dataclass(frozen=True, kw_only=True)
class KerasHub(KerasLayers):
    """A family's KerasHub presets.

    Keras names a layer's file entries by its class and a number, which the first one lacks. A task's
    head is read from its own file, under `task/`.
    """

    name: ClassVar[str] = "keras_hub"
    family_key: ClassVar[str] = "class_name"
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        # Written by Keras 2, and the first versions of 3.
        (r"^(task/)?_layer_checkpoint_dependencies/", r"\1layers/"),
        (r"^layers/((?:transformer|disentangled_attention)_(?:en|de)coder)/", r"layers/\1_0/"),
    )
    never_weights: ClassVar[tuple[str, ...]] = (r"^(task/)?optimizer/", r"seed_generator/")

    weights_file: ClassVar[str] = "model.weights.h5"
    program: ClassVar[str] = "KerasHub"
    vocabulary_folder: ClassVar[str] = "assets/tokenizer"

    config_file: str = "config.json"
    class_name: str = ""  # of its backbone
    # Classes of its tasks -> transformers' of the same.
    classes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        # What its backbones have no argument for.
        defaults = {n: getattr(self.codec.config_class, n) for n in FIXED}
        fixed = {n: self.codec.defaults.get(n, value) for n, value in defaults.items()}
        rates = {"attention_dropout": lambda config: config.hidden_dropout}
        object.__setattr__(self, "supports", {**self.supports, **fixed, **rates})
        object.__setattr__(self, "unread", {**self.unread, **UNREAD_OF_TASKS})

    def suffix(self, row: Row, variable: str) -> str:
        return f"/vars/{list(row.kind).index(variable)}"

    def decode(self, values: JsonObject, *, where: str) -> Config:
        arguments = dict(values.section("config"))
        config = self.codec.decode(arguments, where=where)
        # KerasHub has a single dropout rate for the whole encoder.
        rates = ("attention_dropout", "embedding_dropout")
        return config.replace(**{n: config.hidden_dropout for n in rates if hasattr(config, n)})

    def description(self, values: JsonObject, directory: Path) -> Description:
        task = read_object(directory / TASK_FILE) if (directory / TASK_FILE).is_file() else {}
        known = self.classes.get(task.get("class_name"))
        return Description(classes=() if known is None else (known,), text=_text(directory))

    def encode(self, config: Config, description: Description) -> dict[str, Any]:
        """The content of config.json."""
        return _serialized(self.class_name, self.codec.encode(config))

    def description_of(
        self, model: Any, family: Any, description: Description, preprocessor: Any
    ) -> Description:
        if more := [what for key, what in self.unread.items() if key not in UNREAD_OF_TASKS]:
            raise ValueError(
                f"KerasHub's {self.class_name} has a {' and a '.join(more)}, but models of the "
                f"family {family.name} have none. Leave format out."
            )
        encoder = getattr(model, "encoder", model)
        if encoder.pooling.dense:
            raise ValueError(
                "KerasHub's format has no dense layers for sentence vectors. Leave format out, or pass "
                'format="hf".'
            )
        classes = ()
        if family.plan(self, encoder.config).heads.get(model.task):
            hf_class = family.formats[HuggingFace.name].classes.get(model.task)
            if hf_class not in self.classes.values():
                raise ValueError(
                    f"KerasHub's format has no head for {model.task!r} of the family {family.name} (it has: "
                    f"{', '.join(self.classes) or 'none'}). Leave format out, or save model.encoder."
                )
            classes = (hf_class,)
        say_what_differs(self.supports, encoder.config, self.class_name)
        log.warning(
            "The KerasHub preset has no tokenizer and no label names: pass preprocessor=None to "
            "from_preset()."
        )
        return replace(description, classes=classes)

    def write_vocabulary(
        self, directory: Path, preprocessor: Any, text: Any, description: Description
    ) -> None:
        pass

    def write_weights(self, directory: Path, tensors: Mapping[str, Any]) -> None:
        from bert_zoo.weights.hdf5 import write_hdf5

        stored = {re.sub(r"^(layers/\w+coder)_0/", r"\1/", key): tensors[key] for key in tensors}
        of_task = {key for key in stored if key.startswith(TASK_ROOT)}
        write_hdf5(directory / self.weights_file, {k: stored[k] for k in stored.keys() - of_task})
        if of_task:
            arrays = {key.removeprefix(TASK_ROOT): stored[key] for key in of_task}
            write_hdf5(directory / TASK_WEIGHTS_FILE, arrays)

    def write_beside(
        self,
        directory: Path,
        config: Config,
        description: Description,
        tensors: Mapping[str, Any],
    ) -> None:
        """Writes task.json of a model with a head."""
        named = [theirs for theirs, name in self.classes.items() if name in description.classes]
        if not named:
            return
        dropout = config.hidden_dropout
        if config.classifier_dropout is not None:
            dropout = config.classifier_dropout
        arguments = {
            "backbone": self.encode(config, description),
            "preprocessor": None,
            "num_classes": len(description.labels or ("",)),
            "dropout": dropout,
        }
        write_json(directory / TASK_FILE, _serialized(named[0], arguments))


def _serialized(class_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An object of KerasHub as Keras writes it."""
    return {
        "module": "keras_hub.models",
        "class_name": class_name,
        "config": dict(arguments),
        "registered_name": f"keras_hub>{class_name}",
    }


def _text(directory: Path) -> TextSpec | None:
    """How a preset's tokenizer and preprocessor read texts."""
    tokenizer, preprocessor = (
        read_object(path).section("config") if path.is_file() else JsonObject({}, path)
        for path in (directory / TOKENIZER_FILE, directory / PREPROCESSOR_FILE)
    )
    if not tokenizer:
        return None
    length = preprocessor.take("sequence_length", int)
    return TextSpec(
        lowercase=tokenizer.take("lowercase", bool),
        **({} if length is None else {"max_length": length}),
    )
