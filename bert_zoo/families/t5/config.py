"""T5's configuration, and how files store it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bert_zoo.config import MOST_LAYERS, UNLIMITED, Config, ConfigError, EncoderConfig, is_integer
from bert_zoo.error_text import shown
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.formats.tf1 import sizes_in

# Limited because the bounds of buckets are computed one by one. Released models have 32, up to a distance of 128.
MOST_BUCKETS, LONGEST_DISTANCE = 512, 65_536


@dataclass(frozen=True, kw_only=True)
class T5Config(EncoderConfig):
    """The configuration of a T5's encoder and decoder.

    `hidden_dropout` also acts within feed-forward layers. `pooler` says whether the outputs are those of the
    decoder, which reads the same text shifted to the right.
    """

    on_card: ClassVar[tuple[str, ...]] = (*Config.on_card, "head_size", "decoder_layers")
    heads_fill_width: ClassVar[bool] = False

    num_segments: int = 0
    pooler: bool = False
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-6
    head_size: int = (
        64  # width of a head ("d_kv"); `num_heads * head_size` need not be `hidden_size`
    )
    num_decoder_layers: int = 0  # blocks in the decoder; 0: `num_layers`
    num_buckets: int = 32  # buckets of distances in each stack
    max_distance: int = 128  # distances from this on share a bucket
    # Whether heads on whole texts and answers read the decoder, as in transformers' classes.
    heads_read_decoder: bool = False
    bias_per_layer: bool = False  # whether each layer has its own bias by distance (UMT5)
    # Whether feed-forward layers are gated: the activation is multiplied by a second projection (version 1.1).
    gated: bool = False
    # Whether the decoder's outputs are multiplied by `hidden_size` ** -0.5 before the logits (version 1.0).
    scale_logits: bool = True
    initializer_factor: float = (
        1.0  # multiplies the standard deviations of randomly initialised weights
    )

    def __post_init__(self):
        super().__post_init__()
        problems = self.problems_with(
            positive=("head_size",),
            natural={"num_decoder_layers": "as num_layers"},
            deviations=("initializer_factor",),
            most={"num_decoder_layers": MOST_LAYERS},
        )
        buckets, distance = self.num_buckets, self.max_distance
        if not is_integer(buckets) or not 4 <= buckets <= MOST_BUCKETS or buckets % 2:
            problems.append(
                f"num_buckets is {shown(buckets)}; it must be even, from 4 to {MOST_BUCKETS}."
            )
        elif not is_integer(distance) or not buckets <= distance <= LONGEST_DISTANCE:
            problems.append(
                f"max_distance is {shown(distance)}; it must be a whole number from num_buckets, "
                f"{buckets}, to {LONGEST_DISTANCE:,}."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_layers

    @property
    def longest_input(self) -> int:
        return UNLIMITED

    def with_pooler(self, pooler: bool) -> Self:
        return self.replace(pooler=pooler and self.heads_read_decoder)

    def with_layers(self, layers: Sequence[int]) -> Self:
        return super().with_layers(layers).replace(num_decoder_layers=self.decoder_layers)


DEFAULTS = {"vocab_size": 32128, "classifier_dropout": 0.0}
# Version 1.1 and its descendants.
GATED = {
    "gated": True,
    "activation": "gelu_tanh",
    "scale_logits": False,
    "tie_word_embeddings": False,
}
# In transformers' T5, "gated-gelu" means the tanh approximation.
GATED_ACTIVATIONS = {"gelu": "gelu_new"}

ATTENTION_DROPOUT = (
    "attention_dropout_rate"  # not a key of files, which have one rate for all dropout
)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json to one key per field.

    transformers 4 scales logits unless `tie_word_embeddings` is false. transformers 5 always writes true there, and
    has a separate key for the scale.
    """
    values = dict(values)
    if "feed_forward_proj" in values:
        projection = str(values.pop("feed_forward_proj"))
        name = projection.removeprefix("gated-")
        gated = name != projection
        name = GATED_ACTIVATIONS.get(name, name) if gated else name
        values |= {"is_gated_act": gated, "dense_act_fn": name}
    if "dropout_rate" in values:
        values[ATTENTION_DROPOUT] = values["dropout_rate"]
    values.setdefault("scale_decoder_outputs", values.get("tie_word_embeddings") is not False)
    return values


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`."""
    values = dict(values)
    del values[ATTENTION_DROPOUT]
    gated, name = values.pop("is_gated_act"), values.pop("dense_act_fn")
    said = {name: said for said, name in GATED_ACTIVATIONS.items()}
    projection = f"gated-{said.get(name, name)}" if gated else name
    return values | {"feed_forward_proj": projection}


HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        ConfigRow("hidden_size", "d_model"),
        ConfigRow("head_size", "d_kv"),
        ConfigRow("intermediate_size", "d_ff"),
        ConfigRow("num_layers"),
        ConfigRow("num_heads"),
        ConfigRow("num_decoder_layers", optional=True, written="decoder_layers"),
        ConfigRow("num_buckets", "relative_attention_num_buckets", optional=True),
        ConfigRow("max_distance", "relative_attention_max_distance", optional=True),
        ConfigRow("gated", "is_gated_act", optional=True),
        ConfigRow("activation", "dense_act_fn", ACTIVATIONS, optional=True),
        ConfigRow("hidden_dropout", "dropout_rate", optional=True),
        ConfigRow("attention_dropout", ATTENTION_DROPOUT, optional=True),
        ConfigRow("classifier_dropout", optional=True, written="head_dropout"),
        ConfigRow("layer_norm_epsilon", optional=True),
        ConfigRow("initializer_factor", optional=True),
        ConfigRow("tie_word_embeddings", optional=True),
        ConfigRow("scale_logits", "scale_decoder_outputs", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={"is_encoder_decoder": (True, False)},
    ignored=frozenset({"n_positions"}),  # there is no position table
    written={"decoder_start_token_id": 0},
    defaults=DEFAULTS,
    config_class=T5Config,
    prepare=settings,
    finish=written_settings,
)

ATTENTION, DENSE = (
    f"encoder/block_000/{sublayer}"
    for sublayer in ("layer_000/SelfAttention", "layer_001/DenseReluDense")
)
TF1_LOGITS = "decoder/logits/kernel"
TF1_SIZES = {
    "vocab_size": ("shared/embedding", 0),
    "hidden_size": ("shared/embedding", 1),
    "intermediate_size": (f"{DENSE}/wo/kernel", 0),
    "num_buckets": (f"{ATTENTION}/relative_attention_bias", 1),
}


def sizes_of_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Reads our fields off the tensors of a checkpoint without a configuration file."""
    sizes = sizes_in(shapes, TF1_SIZES, r"encoder/block_(\d+)/")
    decoder = sizes_in(shapes, {}, r"decoder/block_(\d+)/")
    heads = max(1, shapes.get(f"{ATTENTION}/relative_attention_bias", (1,))[0])
    inner = shapes.get(f"{ATTENTION}/q", (1,))[-1]
    version = GATED if f"{DENSE}/wi_0/kernel" in shapes else {}
    return {
        **sizes,
        **version,
        "num_heads": heads,
        "head_size": inner // heads,
        "num_decoder_layers": decoder["num_layers"],
        "tie_word_embeddings": TF1_LOGITS not in shapes,
    }


TF1_CODEC = ConfigCodec(
    rows=[
        *map(ConfigRow, (*TF1_SIZES, "num_layers", "num_decoder_layers", "num_heads", "head_size")),
        *(ConfigRow(name, optional=True) for name in GATED),
    ],
    defaults=DEFAULTS,
    config_class=T5Config,
    prepare=sizes_of_shapes,
)
