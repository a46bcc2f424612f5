"""ModernBERT's configuration, and how Hugging Face's config.json stores it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bert_zoo.config import ACTIVATIONS as OUR_ACTIVATIONS
from bert_zoo.config import (
    MOST_AMOUNT,
    UNLIMITED,
    ConfigError,
    EncoderConfig,
    is_integer,
    is_number,
)
from bert_zoo.error_text import shown
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS

POOLINGS = ("mean", "cls")
BIASES = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias", "decoder_bias")


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """The configuration of a ModernBERT.

    `hidden_dropout` acts on embeddings, `attention_dropout` also on attention's outputs.
    """

    # Layers 0, n, 2n, ... attend to all tokens; the others to tokens at most `local_attention` / 2 away.
    global_attention_every: int = 3
    # The numbers of the layers that attend to all tokens, in order, if they are others; None for those.
    global_layers: tuple[int, ...] | None = None
    local_attention: int = 128
    global_rope_theta: float = (
        160_000.0  # base of the wavelengths of rotary positions, by kind of layer
    )
    local_rope_theta: float = 10_000.0
    inner_dropout: float = 0.0  # rate within the feed-forward layer
    classifier_pooling: str = (
        "cls"  # pooling for heads over whole texts: the first token, or the mean
    )

    # Whether there are biases: in attention, feed-forward layers and norms, in the first layer of every head,
    # and of the predicted tokens.
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False
    decoder_bias: bool = True
    classifier_activation: str = "gelu"  # in the first layer of every head
    # Rows of more blocks than this are computed block by block, which is then faster
    # (docs/measured/long_texts.md).
    fewest_blocks: ClassVar[int] = 8

    def __post_init__(self):
        super().__post_init__()
        problems = self.problems_with(positive=("global_attention_every",))
        if self.global_layers is not None:
            layers = self.global_layers
            if not isinstance(layers, list | tuple) or [
                i for i in range(self.num_layers) if i in layers
            ] != [*layers]:
                problems.append(
                    f"global_layers is {shown(layers)}; it must list numbers of layers, from 0 to "
                    f"{self.num_layers - 1}, in ascending order."
                )
            else:
                self.__dict__["global_layers"] = tuple(layers)  # a list in JSON
        if self.classifier_activation not in OUR_ACTIVATIONS:
            problems.append(
                f"classifier_activation is {shown(self.classifier_activation)}; choose one of {OUR_ACTIVATIONS}."
            )
        window = self.local_attention
        if not is_integer(window) or not 2 <= window <= UNLIMITED or window % 2:
            problems.append(
                f"local_attention is {shown(window)}; it must be even, from 2 to {UNLIMITED:,}."
            )
        for name in ("global_rope_theta", "local_rope_theta"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value <= MOST_AMOUNT:
                problems.append(
                    f"{name} is {shown(value)}; it must be a positive number of at most {MOST_AMOUNT:,.0f}."
                )
        if self.classifier_pooling not in POOLINGS:
            problems.append(
                f"classifier_pooling is {shown(self.classifier_pooling)}; choose one of {POOLINGS}."
            )
        if self.hidden_size // self.num_heads % 2:
            problems.append(
                f"hidden_size {self.hidden_size} gives {self.num_heads} heads an odd width, but rotary "
                "positions rotate pairs of numbers."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    def is_global(self, layer: int) -> bool:
        """Whether a layer attends to all tokens."""
        if self.global_layers is not None:
            return layer in self.global_layers
        return layer % self.global_attention_every == 0

    def with_layers(self, layers: Sequence[int]) -> Self:
        if [layer for layer in layers if layer == 0] != [*layers[:1]]:
            raise ConfigError(
                f"The layers are {[*layers]}, but layer 0 has one norm less than the others: it must be the first "
                "one, and only that."
            )
        kept = tuple(place for place, layer in enumerate(layers) if self.is_global(layer))
        is_regular = kept == (*range(0, len(layers), self.global_attention_every),)
        global_layers = None if is_regular else kept
        return self.replace(num_layers=len(layers), global_layers=global_layers)

    @property
    def output_range(self) -> float:
        """Initial standard deviation of layers that add to the residual stream (Warner et al. 2024, appendix A.2)."""
        return self.initializer_range / math.sqrt(2 * self.num_layers)

    @property
    def reach(self) -> int:
        """The largest distance between tokens that attend to each other in a local layer."""
        return min(self.local_attention // 2, self.longest_input)

    def attends_in_blocks(self, length: int) -> bool:
        """Whether local layers compute rows of `length` tokens in blocks; see `RotaryAttention`."""
        return length > self.fewest_blocks * self.reach


DEFAULTS = {
    "num_layers": 22,
    "intermediate_size": 1152,
    "max_positions": 8192,
    "num_segments": 0,
    "layer_norm_epsilon": 1e-5,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "pooler": False,
    "pad_id": 50283,
}
LAYER_TYPES = {"global": "full_attention", "local": "sliding_attention"}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json from transformers 5's keys to transformers 4's, but for irregular `layer_types`.

    Those become the numbers of the layers that attend to all tokens.
    """
    values = dict(values)
    if values.get("local_rope_theta", 0) is None and "global_rope_theta" in values:
        values["local_rope_theta"] = values["global_rope_theta"]  # as transformers 4 reads it
    kinds = {theirs: ours for ours, theirs in LAYER_TYPES.items()}
    for kind, rope in (values.pop("rope_parameters", None) or {}).items():
        if kind not in kinds or rope.get("rope_type", "default") != "default":
            raise ConfigError(
                f"rope_parameters has {shown(kind)}: {shown(rope)}; there are {list(kinds)} here, of "
                "rope_type 'default'."
            )
        values[f"{kinds[kind]}_rope_theta"] = rope.get("rope_theta")
    types = values.pop("layer_types", None)
    if types is not None:
        number = values.get("num_hidden_layers")
        if (
            not isinstance(types, list)
            or len(types) != number
            or any(t not in kinds for t in types)
        ):
            raise ConfigError(
                f"layer_types is {shown(types)}; it must list one of {[*kinds]} for each of the {shown(number)} "
                "layers."
            )
        found = [i for i, kind in enumerate(types) if kind == LAYER_TYPES["global"]]
        every = values.setdefault("global_attn_every_n_layers", (*found[1:2], number)[0])
        is_known = is_integer(every) and every > 0
        if not is_known or found != [*range(0, number, every)]:
            values["layer_types"] = found
    return values


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`. transformers 4 has no `layer_types`."""
    values = dict(values)
    found = values.pop("layer_types")
    if found is not None:
        del values["global_attn_every_n_layers"]
        kinds = ["global" if i in found else "local" for i in range(values["num_hidden_layers"])]
        values["layer_types"] = [LAYER_TYPES[kind] for kind in kinds]
    return values


HF_CODEC = ConfigCodec(
    rows=[
        *map(ConfigRow, ("vocab_size", "hidden_size", "intermediate_size")),
        ConfigRow("num_layers", "num_hidden_layers"),
        ConfigRow("num_heads", "num_attention_heads"),
        ConfigRow("max_positions", "max_position_embeddings", optional=True),
        ConfigRow("activation", "hidden_activation", ACTIVATIONS, optional=True),
        ConfigRow("layer_norm_epsilon", "norm_eps", optional=True),
        ConfigRow("hidden_dropout", "embedding_dropout", optional=True),
        ConfigRow("inner_dropout", "mlp_dropout", optional=True),
        ConfigRow("classifier_dropout", optional=True, written="head_dropout"),
        ConfigRow("pad_id", "pad_token_id", optional=True),
        ConfigRow("global_attention_every", "global_attn_every_n_layers", optional=True),
        ConfigRow("global_layers", "layer_types", optional=True),
        ConfigRow("classifier_activation", "classifier_activation", ACTIVATIONS, optional=True),
        *(
            ConfigRow(name, optional=True)
            for name in (
                *("local_attention", "global_rope_theta", "local_rope_theta", "attention_dropout"),
                *("classifier_pooling", "initializer_range", "tie_word_embeddings", *BIASES),
            )
        ),
    ],
    # Two of BERT's keys that nothing reads, initialisation, and transformers' choices of implementation.
    ignored=frozenset(
        """
        position_embedding_type layer_norm_eps initializer_cutoff_factor cls_token_id
        deterministic_flash_attn reference_compile repad_logits_with_grad sparse_pred_ignore_index
        sparse_prediction
        """.split()
    ),
    defaults=DEFAULTS,
    config_class=ModernBertConfig,
    prepare=settings,
    finish=written_settings,
)
