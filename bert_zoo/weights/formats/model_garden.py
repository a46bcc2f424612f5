"""TensorFlow Model Garden's encoders; TF-Hub's SavedModels of BERT, ALBERT and ELECTRA are made of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from bert_zoo.config import ConfigError
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import shapes_in
from bert_zoo.weights.formats.keras_hub import KerasLayers, fused
from bert_zoo.weights.table import Row

TOKEN_TABLE = "word_embeddings"
# What the parts of a model are called; before them may stand the names of what they are parts of.
_PARTS = (
    rf"{TOKEN_TABLE}|position_embedding|type_embeddings|embeddings/layer_norm|embedding_projection"
    "|transformer|pooler_transform|cls/predictions|sentence_prediction"
)


def block_names(block: str) -> dict[str, str | tuple[str, ...]]:
    """The names of a block's layers by our paths."""
    ours = "stack/layer_{i}/"
    return {
        f"{ours}attention/qkv": fused(f"{block}/self_attention/{{}}"),
        f"{ours}attention/output": f"{block}/self_attention/attention_output",
        f"{ours}attention_norm": f"{block}/self_attention_layer_norm",
        f"{ours}feed_forward/intermediate": f"{block}/intermediate",
        f"{ours}feed_forward/output": f"{block}/output",
        f"{ours}output_norm": f"{block}/output_layer_norm",
    }


LAYERS = {
    "embeddings/token_embedding": TOKEN_TABLE,
    "embeddings/position_embedding": "position_embedding",
    "embeddings/segment_embedding": "type_embeddings",
    "embeddings/norm": "embeddings/layer_norm",
    "pooler/dense": "pooler_transform",
    "classifier/dense": "sentence_prediction/logits",
}
PROJECTION = {"embeddings/projection": "embedding_projection"}
BLOCKS = block_names("transformer/layer_{i}")
# Patterns of what blocks of their own weights have, and shared ones.
OWN_BLOCKS = r"(^|/)(transformer|encoder)/layer_0/self_attention/"
SHARED_BLOCKS = r"(^|/)transformer/self_attention/"
# A next-sentence head, which has a pooler of its own.
UNREAD = {"(^|/)next_sentence/": "next-sentence head"}
SIZES = (
    *("vocab_size", "max_positions", "num_segments", "hidden_size", "intermediate_size"),
    *("num_layers", "num_heads"),
)


@dataclass(frozen=True, kw_only=True)
class ModelGarden(KerasLayers):
    """A family's checkpoints of Model Garden, by the names of variables.

    The sizes are told by the shapes, since a checkpoint or SavedModel says them nowhere else.
    """

    name: ClassVar[str] = "model_garden"
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        # Of its first version, which TF-Hub's first modules are of.
        (r"(^|/)embedding_postprocessor/type_embeddings$", r"\1type_embeddings/embeddings"),
        (r"(^|/)embedding_postprocessor/position_embeddings$", r"\1position_embedding/embeddings"),
        (r"(^|/)embedding_postprocessor/layer_norm/", r"\1embeddings/layer_norm/"),
        (r"(^|/)encoder/layer_(\d+)/", r"\1transformer/layer_\2/"),
        (r"/self_attention_output/", "/self_attention/attention_output/"),
        (rf"^(?:[^/]+/)*?(?=(?:{_PARTS})/)", ""),
        # The block that all of an ALBERT's layers share.
        (r"^transformer/(?!layer_\d)", "transformer_0/"),
    )
    never_weights: ClassVar[tuple[str, ...]] = (
        r"/\.ATTRIBUTES/",  # without a name of its own, as an optimizer's variables
        # Counters, and what Keras keeps of an optimizer and of metrics.
        r"^(save_counter|global_step|iteration|learning_rate|count|total)(_\d+)?$",
        r"^(Variable|do_lower_case)(_\d+)?$",  # whether a TF-Hub module lower-cases texts
    )

    vocabulary_folder: ClassVar[str] = "assets"

    config_file: str = "*.index"

    def suffix(self, row: Row, variable: str) -> str:
        return f"/{variable}"

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return shapes_in(path)

    def is_of_family(self, values: JsonObject) -> bool:
        names = {self.renamed(key).rpartition("/")[0] for key in values}
        projection, has_projection = next(iter(PROJECTION.items()))
        return (
            TOKEN_TABLE in names
            and any(re.search(self.required_key, key) for key in values)
            and (projection in self.layers or has_projection not in names)
        )


def formats(
    layers: Mapping[str, str | tuple[str, ...]],
    *,
    blocks: str = OWN_BLOCKS,
    unread: Mapping[str, str] = UNREAD,
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    **options: Any,
) -> dict[str, ModelGarden]:
    """A family's formats: of checkpoints, and of SavedModels.

    Args:
        layers: see `KerasLayers`.
        blocks: pattern of a key that its blocks have.
        unread: see `Format`.
        prepare: from shapes by name to sizes; `sizes_of` by default.
        options: of the codec.
    """
    sizes = (*SIZES, "embedding_size") if PROJECTION.keys() <= layers.keys() else SIZES

    def of_shapes(shapes: Mapping[str, Any]) -> dict[str, int]:
        found = (prepare or sizes_of)(shapes)
        return {name: found[name] for name in sizes}

    codec = ConfigCodec(
        rows=[ConfigRow(name) for name in sizes],
        prepare=of_shapes,
        **options,
    )
    checkpoint = ModelGarden(codec=codec, layers=layers, required_key=blocks, unread=unread)
    return {
        checkpoint.name: checkpoint,
        "saved_model": replace(checkpoint, config_file="variables/variables.index"),
    }


def sizes_of(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The sizes that the shapes of an encoder's variables tell; raises ConfigError."""
    format_names = ModelGarden(codec=None)
    shapes = {format_names.renamed(key): shape for key, shape in shapes.items()}
    block = next((key for key in shapes if key.endswith("/self_attention/query/kernel")), "")
    block = block.removesuffix("self_attention/query/kernel")
    try:
        vocab_size, embedding_size = shapes[f"{TOKEN_TABLE}/embeddings"]
        hidden_size, num_heads, _ = shapes[f"{block}self_attention/query/kernel"]
        _, intermediate_size = shapes[f"{block}intermediate/kernel"]
        max_positions, _ = shapes["position_embedding/embeddings"]
        num_segments, _ = shapes["type_embeddings/embeddings"]
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"These are not the variables of an encoder of Model Garden: {error} is missing or has "
            "other axes."
        ) from error
    layers = {found[1] for key in shapes if (found := re.match(r"transformer/layer_(\d+)/", key))}
    return {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "intermediate_size": intermediate_size,
        "max_positions": max_positions,
        "num_segments": num_segments,
        "num_layers": len(layers),
    }
