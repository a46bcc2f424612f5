"""What the families on `bert_zoo.layers.encoder_stack` declare: switches, and rows of the weight table."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bert_zoo.config import ConfigError, EncoderConfig, positive
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.fields import check
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import (
    DENSE,
    FIRST_TOKEN,
    MEAN,
    MEAN_OF_LOGITS,
    NORM,
    Kind,
    Row,
    stored_with,
)


@dataclass(frozen=True, kw_only=True)
class StackConfig(EncoderConfig):
    """Configuration of an encoder on `bert_zoo.layers.encoder_stack.EncoderStack`.

    A family sets the switches below, and makes fields of those in which its checkpoints differ.
    """

    norm: ClassVar[str] = "layer"  # or "rms"
    # Whether norms stand before sublayers, or after residual sums.
    norm_before: ClassVar[bool] = False
    norm_first: ClassVar[bool] = True  # whether layer 0 has a norm before its attention
    norm_bias: ClassVar[bool] = True
    embeddings_norm: ClassVar[bool] = True
    final_norm: ClassVar[bool] = False
    positions: ClassVar[str] = "rotary"  # or "alibi"
    rope_theta: ClassVar[float] = 10_000.0  # base of the wavelengths of rotary positions
    local_rope_theta: ClassVar[float] = 10_000.0  # the same in layers that attend to a window
    rope_factor: ClassVar[float] = 1.0  # by which all of these wavelengths are longer
    rope_kept_in: ClassVar[str] = "float32"  # the type that they were rounded to in training
    # The largest distance between tokens that attend to each other in those layers; None if there are none.
    reach: ClassVar[int | None] = None
    head_size: ClassVar[int] = 0  # width of a head; 0 for `hidden_size` / `num_heads`
    key_heads: ClassVar[int] = 0  # number of heads of keys and values; 0 for `num_heads`
    query_norm: ClassVar[bool] = False  # whether all queries and all keys have a layer norm
    gated: ClassVar[bool] = False
    # Whether attention and feed-forward sublayers have biases: the first layer, and the second unless a family says
    # otherwise.
    attention_bias: ClassVar[bool] = True
    mlp_bias: ClassVar[bool] = True
    inner_dropout: ClassVar[float] = 0.0  # rate within the feed-forward sublayer
    # Whether `attention_dropout` also acts on the attention's output.
    drops_attention_output: ClassVar[bool] = False
    # Rows of more blocks than this are computed block by block, which is then faster
    # (docs/measured/long_texts.md).
    fewest_blocks: ClassVar[int] = 8

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.num_heads % self.num_key_heads:
            yield f"num_heads {self.num_heads} is not a multiple of key_heads {self.num_key_heads}."
        if self.positions == "rotary" and self.width_of_head % 2:
            yield (
                f"A head (head_size) is {self.width_of_head} wide, but rotary positions rotate pairs of numbers: its "
                "width must be even."
            )

    @property
    def heads_fill_width(self) -> bool:
        return not self.head_size

    @property
    def width_of_head(self) -> int:
        return self.head_size or self.hidden_size // self.num_heads

    @property
    def num_key_heads(self) -> int:
        return self.key_heads or self.num_heads

    @property
    def widths_of_heads(self) -> tuple[int, int, int]:
        """Widths of all heads of queries, of keys and of values."""
        keys = self.num_key_heads * self.width_of_head
        return self.num_heads * self.width_of_head, keys, keys

    @property
    def attention_output_bias(self) -> bool:
        return self.attention_bias

    @property
    def mlp_output_bias(self) -> bool:
        return self.mlp_bias

    @property
    def residual_dropout(self) -> float:
        """Dropout rate on the outputs of both sublayers."""
        return self.hidden_dropout

    @property
    def output_range(self) -> float:
        """Initial standard deviation of layers that add to the residual stream."""
        return self.initializer_range

    def is_global(self, layer: int) -> bool:
        """Whether a layer attends to all tokens."""
        return True


# transformers' words for a layer that attends to all tokens, and for one that attends to a window.
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, kw_only=True)
class WindowedConfig(StackConfig):
    """Configuration of a stack in which some layers attend to a window, whose size a family declares as `reach`."""

    # Layers `first_global`, `first_global` + n, ... attend to all tokens.
    first_global: ClassVar[int] = 0
    global_attention_every: ClassVar[int] = 3
    # The numbers of the layers that attend to all tokens, in order, if they are others; None for those.
    global_layers: tuple[int, ...] | None = None
    # Base of the wavelengths of rotary positions, by kind of layer.
    global_rope_theta: float = positive(160_000.0)
    local_rope_theta: float = positive(10_000.0)

    def __post_init__(self):
        super().__post_init__()
        if self.global_layers == (
            *range(self.first_global, self.num_layers, self.global_attention_every),
        ):
            self.__dict__["global_layers"] = None  # past the frozen dataclass

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        layers = self.global_layers or ()
        if [i for i in range(self.num_layers) if i in layers] != [*layers]:
            yield (
                f"global_layers is {shown(layers)}; it must list numbers of layers, from 0 to "
                f"{self.num_layers - 1}, in ascending order."
            )

    def is_global(self, layer: int) -> bool:
        if self.global_layers is not None:
            return layer in self.global_layers
        return layer % self.global_attention_every == self.first_global

    def with_layers(self, layers: Sequence[int]) -> Self:
        kept = tuple(place for place, layer in enumerate(layers) if self.is_global(layer))
        return self.replace(num_layers=len(layers), global_layers=kept)

    @property
    def layer_types(self) -> list[str]:
        return [FULL if self.is_global(i) else SLIDING for i in range(self.num_layers)]

    @property
    def rope_theta(self) -> float:
        return self.global_rope_theta


# What these encoders lack of BERT.
WITHOUT = {"num_segments": 0, "hidden_dropout": 0.0, "attention_dropout": 0.0, "pooler": False}

# -------------------------------------------------------------------------------------------------
# Configuration files.
# -------------------------------------------------------------------------------------------------


def optional_rows(names: str) -> list[ConfigRow]:
    """Rows of keys that have the fields' names."""
    return [ConfigRow(name, optional=True) for name in names.split()]


SIZE_ROWS = (
    *bert.SIZES,
    ConfigRow("max_positions", "max_position_embeddings", optional=True),
    ConfigRow("pad_id", "pad_token_id", optional=True),
    *optional_rows("attention_dropout initializer_range tie_word_embeddings"),
)
WINDOW_ROWS = (
    ConfigRow("global_layers", "layer_types", optional=True, written="layer_types"),
    *optional_rows("global_rope_theta local_rope_theta"),
)

KINDS = {FULL: "global_rope_theta", SLIDING: "local_rope_theta"}


def window_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """From transformers 5's keys to those of `WINDOW_ROWS`, with the numbers of the layers that attend to all tokens."""
    values = dict(values)
    ropes = values.pop("rope_parameters", None)
    check("rope_parameters", ropes, dict | None, ConfigError)
    for kind, rope in (ropes or {}).items():
        check(f"rope_parameters[{kind!r}]", rope, dict, ConfigError)
        found = rope_settings({"rope_parameters": rope})
        if kind not in KINDS or "rope_factor" in found:
            raise ConfigError(
                f"rope_parameters has {shown(kind)}: {shown(rope)}; there are {list(KINDS)} here, of "
                "rope_type 'default'."
            )
        values[KINDS[kind]] = found.get("rope_theta")
    types = values.pop("layer_types", None)
    if types is not None:
        number = values.get("num_hidden_layers")
        if not isinstance(types, list) or len(types) != number or not {*types} <= {*KINDS}:
            raise ConfigError(
                f"layer_types is {shown(types)}; it must list one of {[*KINDS]} for each of the {shown(number)} "
                "layers (num_hidden_layers)."
            )
        values["layer_types"] = [i for i, kind in enumerate(types) if kind == FULL]
    return values


ROPE_ROWS = optional_rows("rope_theta rope_factor")


def rope_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """From a config.json of transformers 5 or 4 to one with the keys of `ROPE_ROWS` alone.

    Raises:
        ConfigError: rotary positions are scaled in a way that is not supported.
    """
    values, rope = dict(values), {}
    for key in ("rope_scaling", "rope_parameters"):
        found = values.pop(key, None)
        check(key, found, dict | None, ConfigError)
        rope |= found or {}
    kinds = [rope.pop(key, None) for key in ("rope_type", "type")]
    kind = next(filter(None, kinds), "default")
    said = {key: rope.pop(key) for key in ("rope_theta", "factor") if key in rope}
    partial = rope.pop("partial_rotary_factor", 1.0)
    if kind not in ("default", "linear") or rope or partial != 1.0:
        raise ConfigError(
            f"Its rotary positions are scaled by {shown({'rope_type': kind, **said, **rope})}; only the types "
            "'default' and 'linear' are supported, with rope_theta and factor."
        )
    if kind == "linear":
        values["rope_factor"] = said.pop("factor", None)
    said.pop("factor", None)
    return values | said


def written_rope(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `rope_settings`, for transformers 5."""
    values = dict(values)
    theta, factor = values.pop("rope_theta"), values.pop("rope_factor")
    scaled = {"rope_type": "default"} if factor == 1 else {"rope_type": "linear", "factor": factor}
    return values | {"rope_parameters": {**scaled, "rope_theta": theta}}


# -------------------------------------------------------------------------------------------------
# Weights. Ours are queries, keys and values in this order; the half of a gated layer that goes through the
# activation, then the other; and heads whose first half rotates with the second.
# -------------------------------------------------------------------------------------------------


def optional_bias(kind: Kind, path: str, hf: Any, *, has_bias: str) -> tuple[Row, Row]:
    """The rows of a layer whose last variable, its bias, depends on a field of the configuration."""
    *weights, bias = ({variable: stored} for variable, stored in kind.items())
    return (
        *(Row(kind, path, hf=hf) for kind in weights),
        Row(bias, path, hf=hf, when=operator.attrgetter(has_bias)),
    )


# Path of a layer below the encoder -> its kind, and the field that says whether it has a bias.
LAYERS: dict[str, tuple[Kind, str]] = {
    "embeddings/norm": (NORM, "norm_bias"),
    "stack/layer_{i}/attention_norm": (NORM, "norm_bias"),
    "stack/layer_{i}/attention/qkv": (
        stored_with(DENSE, part_sizes=operator.attrgetter("widths_of_heads")),
        "attention_bias",
    ),
    "stack/layer_{i}/attention/query_norm": (NORM, "norm_bias"),
    "stack/layer_{i}/attention/key_norm": (NORM, "norm_bias"),
    "stack/layer_{i}/attention/output": (DENSE, "attention_output_bias"),
    "stack/layer_{i}/output_norm": (NORM, "norm_bias"),
    "stack/layer_{i}/feed_forward/intermediate": (DENSE, "mlp_bias"),
    "stack/layer_{i}/feed_forward/output": (DENSE, "mlp_output_bias"),
    "final_norm": (NORM, "norm_bias"),
}


def layer_rows(
    names: Mapping[str, str | tuple[str, ...]],
    orders: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Iterator[Row]:
    """The rows of layers of an encoder.

    Args:
        names: path in `LAYERS`, without "stack/layer_{i}/" -> Hugging Face's name, or several.
        orders: the same path -> `Stored.order`, where it differs from ours.
    """
    for path, (kind, has_bias) in LAYERS.items():
        short = path.removeprefix("stack/layer_{i}/")
        if short in names:
            kind = stored_with(kind, order=(orders or {}).get(short))
            yield from optional_bias(kind, path, names[short], has_bias=has_bias)


# transformers' names of Llama's layers, which families have whose authors named or packed them otherwise.
LAYER = "layers.{i}."
QKV = [f"self_attn.{part}_proj" for part in "qkv"]
SUBLAYERS = {
    "attention/qkv": tuple(f"{LAYER}{name}" for name in QKV),
    "attention/output": f"{LAYER}self_attn.o_proj",
    "feed_forward/intermediate": (f"{LAYER}mlp.gate_proj", f"{LAYER}mlp.up_proj"),
    "feed_forward/output": f"{LAYER}mlp.down_proj",
}


def post_norm_rows(names: Mapping[str, str | tuple[str, ...]] = SUBLAYERS) -> tuple[Row, ...]:
    """The rows of an encoder of such layers with BERT's tables, norms after residual sums and a pooler."""
    norms = {
        "embeddings/norm": "embeddings.LayerNorm",
        "attention_norm": f"{LAYER}post_attention_layernorm",
        "output_norm": f"{LAYER}post_mlp_layernorm",
    }
    return (bert.TOKENS, bert.SEGMENTS, *layer_rows({**norms, **names}), bert.POOLER)


# What heads over whole texts read, by transformers' words for it.
POOLINGS = {"cls": FIRST_TOKEN, "bos": FIRST_TOKEN, "mean": MEAN, "late": MEAN_OF_LOGITS}


def summary(config: Any) -> str:
    return POOLINGS[config.classifier_pooling]


def backbone(config: StackConfig, dtype: Any):
    from bert_zoo.layers.encoder_stack import EncoderStack

    return EncoderStack(config, dtype)
