"""ALBERT's configuration, and how configuration files store it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bert_zoo.config import MOST_LAYERS, ConfigError, EncoderConfig
from bert_zoo.error_text import shown
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.weights.formats import model_garden
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(EncoderConfig):
    """The configuration of an ALBERT, whose layers share blocks (Lan et al. 2019, section 3.1)."""

    # Groups of blocks that layers share; 0: every layer has its own weights.
    num_hidden_groups: int = 0
    inner_group_num: int = 1  # blocks per group; a layer runs all blocks of its group

    def __post_init__(self):
        super().__post_init__()
        problems = self.problems_with(
            positive=("inner_group_num",),
            natural={"num_hidden_groups": "nothing is shared"},
        )
        if not problems and self.num_hidden_groups > self.num_layers:
            problems.append(
                f"num_hidden_groups is {self.num_hidden_groups}; there are {self.num_layers} layers "
                "to share them."
            )
        runs = self.num_layers * self.inner_group_num if not problems else 0
        if runs > MOST_LAYERS and self.num_hidden_groups:
            problems.append(
                f"inner_group_num is {shown(self.inner_group_num)}, so {self.num_layers} layers run "
                f"{shown(runs)} blocks; at most {MOST_LAYERS:,} are allowed."
            )
        if problems:
            raise ConfigError("This encoder cannot be built: " + " ".join(problems))

    @property
    def num_blocks(self) -> int:
        return self.num_hidden_groups * self.inner_group_num or self.num_layers

    @property
    def blocks_of_layers(self) -> tuple[tuple[int, ...], ...]:
        # albert modeling.py, transformer_model
        if not self.num_hidden_groups:
            return super().blocks_of_layers
        groups = (i * self.num_hidden_groups // self.num_layers for i in range(self.num_layers))
        inner = self.inner_group_num
        return tuple(tuple(group * inner + j for j in range(inner)) for group in groups)


SIZES = ("embedding_size", "num_hidden_groups", "inner_group_num")
ROWS = [
    *bert_formats.ROWS,
    *(ConfigRow(name, optional=True) for name in SIZES),
    ConfigRow(
        "classifier_dropout", "classifier_dropout_prob", optional=True, written="head_dropout"
    ),
]
# Structures that Google tried and never released.
UNRELEASED = {
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "down_scale_factor": (1,),
    "layers_to_keep": ([],),
}
# AlbertConfig's defaults for keys that a file lacks; the dropout rates are xxlarge's.
DEFAULTS = {
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "classifier_dropout": 0.1,
}
HF_CODEC = ConfigCodec(
    rows=[*ROWS, *bert_formats.HF_ROWS],
    fixed={**bert_formats.HF_CODEC.fixed, **UNRELEASED},
    written=bert_formats.HF_CODEC.written,
    defaults=DEFAULTS | {"activation": "gelu_tanh"},
    config_class=AlbertConfig,
)
TF1_CODEC = ConfigCodec(
    rows=[*ROWS, ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"})],
    fixed=UNRELEASED,
    defaults=DEFAULTS,
    config_class=AlbertConfig,
)

# Width of a released model -> its layers.
RELEASED_LAYERS = {768: 12, 1024: 24, 2048: 24, 4096: 12}


def sizes_of(shapes: Mapping[str, Any]) -> dict[str, int]:
    """Reads the sizes off the shapes of Model Garden's variables, and the number of layers off the width."""
    sizes = model_garden.sizes_of(shapes)
    width = sizes["hidden_size"]
    if width not in RELEASED_LAYERS:
        raise ConfigError(
            "The variables of an ALBERT do not show the number of layers, because layers share them, and no "
            f"released ALBERT has the width {width}. Put its albert_config.json into the directory."
        )
    return {**sizes, "num_layers": RELEASED_LAYERS[width]}
