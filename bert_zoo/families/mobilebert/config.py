"""MobileBERT's configuration, and how configuration files store it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.config import MOST_LAYERS, ConfigError, EncoderConfig
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow


@dataclass(frozen=True, kw_only=True)
class MobileBertConfig(EncoderConfig):
    """The configuration of a MobileBERT."""

    on_card: ClassVar[tuple[str, ...]] = (
        *(*EncoderConfig.on_card, "embedding_size", "bottleneck_size", "num_feed_forwards"),
    )

    embedding_size: int = 128  # width of the token table
    bottleneck_size: int = 128  # width inside a block; a multiple of `num_heads`
    num_feed_forwards: int = 4  # feed-forward layers per block
    # Whether the pooler has a tanh layer; without it, the pooler returns the first token.
    classifier_activation: bool = True

    def __post_init__(self):
        super().__post_init__()
        problems = self.problems_with(
            positive=("bottleneck_size", "num_feed_forwards"),
        )
        if not 0 < self.embedding_size < self.hidden_size:
            problems.append(
                f"embedding_size is {self.embedding_size}; it must be above 0 and below hidden_size "
                f"{self.hidden_size}, because the masked-token head has a table for the difference."
            )
        if not problems and self.bottleneck_size % self.num_heads:
            problems.append(
                f"bottleneck_size {self.bottleneck_size} is not a multiple of num_heads "
                f"{self.num_heads}."
            )
        if not problems and self.num_layers * self.num_feed_forwards > MOST_LAYERS:
            problems.append(
                f"num_feed_forwards is {self.num_feed_forwards} in each of {self.num_layers} layers; at most "
                f"{MOST_LAYERS:,} are allowed in all."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))


ROWS = [
    *bert_formats.ROWS,
    ConfigRow("embedding_size", optional=True),
    ConfigRow("bottleneck_size", "intra_bottleneck_size", optional=True),
    ConfigRow("num_feed_forwards", "num_feedforward_networks", optional=True),
    ConfigRow("classifier_activation", optional=True),
]
# The released model's values of the options of Google's program.
RELEASED = {
    "trigram_input": (True,),
    "use_bottleneck": (True,),
    "use_bottleneck_attention": (False,),
    "key_query_shared_bottleneck": (True,),
    "normalization_type": ("no_norm",),
}
# Defaults of Google's program for keys that a file lacks.
GOOGLE_DEFAULTS = {
    "trigram_input": False,
    "key_query_shared_bottleneck": False,
    "normalization_type": "layer_norm",
    "num_feedforward_networks": 1,
}


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Completes the content of a file of Google's program; raises ConfigError for BERT's file."""
    if "use_bottleneck" not in values:
        raise ConfigError("use_bottleneck is missing.")
    return {**GOOGLE_DEFAULTS, **values}


# Defaults of transformers' MobileBertConfig.
DEFAULTS = {"activation": "relu", "hidden_dropout": 0.0}
HF_CODEC = ConfigCodec(
    rows=[*ROWS, *bert_formats.HF_ROWS, ConfigRow("classifier_dropout", optional=True)],
    fixed=RELEASED,
    written={name: values[0] for name, values in RELEASED.items()},
    ignored=frozenset({"true_hidden_size"}),  # repeats `intra_bottleneck_size`
    defaults=DEFAULTS,
    config_class=MobileBertConfig,
)
TF1_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"}),
    ],
    fixed=RELEASED,
    config_class=MobileBertConfig,
    prepare=with_defaults,
)
