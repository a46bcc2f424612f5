"""DeBERTa's configuration, and how configuration files store it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bert_zoo.config import ACTIVATIONS as OUR_ACTIVATIONS
from bert_zoo.config import MOST_LAYERS, UNLIMITED, ConfigError, EncoderConfig, is_integer
from bert_zoo.error_text import shown
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS

DEFAULTS = {"num_segments": 0, "pooler": False, "layer_norm_epsilon": 1e-7}
# A configuration's name for the position terms of attention -> those terms.
POSITION_TERMS = {"c2p|p2c": ("c2p", "p2c"), "c2p": ("c2p",), "p2c": ("p2c",), "": ()}
MASK_DECODERS = ("enhanced", "direct", "legacy")


# Largest distance allowed: a table holds the bucket of each distance, and no parameter count limits it.
MOST_DISTANCES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(EncoderConfig):
    """The configuration of a DeBERTa of any version. The defaults are version 1's."""

    max_distance: int = -1  # longer distances count as this one; -1: `max_positions`
    position_buckets: int = -1  # buckets of distances in each direction; -1: one per distance
    norm_positions: bool = False  # whether the table of distances has a layer norm
    shares_projections: bool = False  # whether one layer projects both tokens and distances
    key_bias: bool = False  # whether keys have a bias
    conv_size: int = 0  # width of the convolution after the first block; 0: no convolution
    conv_activation: str = "gelu"
    pooler_dropout: float = 0.0  # rate before a classifier's layer over the first token
    pooler_activation: str = "gelu"
    # Layers of the generator in `pretraining` (version 3); 0: half of the discriminator's.
    generator_layers: int = 0
    relative_attention: bool = True  # whether there is a table of distances
    # The terms of attention that read that table: a key of `POSITION_TERMS`.
    position_attention: str = "c2p|p2c"
    position_biased_input: bool = False  # whether embeddings add a table of absolute positions
    # The masked-token head: "enhanced" runs the last block again with absolute positions (He et al. 2020,
    # section 3.2); "direct" and "legacy" are transformers' heads on the last hidden states.
    mask_decoder: str = "enhanced"

    def __post_init__(self):
        super().__post_init__()
        natural = {"conv_size": "no convolution", "generator_layers": "half of num_layers"}
        problems = self.problems_with(
            natural=natural,
            most={"generator_layers": MOST_LAYERS},
        )
        choices = {"position_attention": POSITION_TERMS, "mask_decoder": MASK_DECODERS}
        for name, known in choices.items():
            if getattr(self, name) not in [*known]:
                value = shown(getattr(self, name))
                problems.append(f"{name} is {value}; choose one of {[*known]}.")
        if not problems and self.position_attention and not self.relative_attention:
            problems.append(
                f"position_attention is {self.position_attention!r}, which reads a table of distances; "
                "relative_attention says that there is none."
            )
        if not problems and self.position_biased_input and self.enhances_masks:
            problems.append(
                "position_biased_input adds absolute positions to the embeddings already; mask_decoder "
                "must be 'direct' or 'legacy' then."
            )
        for name in ("max_distance", "position_buckets"):
            value = getattr(self, name)
            if not is_integer(value) or (value != -1 and not 2 <= value <= UNLIMITED):
                problems.append(
                    f"{name} is {shown(value)}; it must lie between 2 and {UNLIMITED:,}, or be -1."
                )
        if not problems and self.longest_distance > MOST_DISTANCES:
            name = "max_positions" if self.max_distance == -1 else "max_distance"
            problems.append(
                f"{name} is {shown(self.longest_distance)}; distances must be at most {MOST_DISTANCES:,}."
            )
        for name in ("conv_activation", "pooler_activation"):
            if getattr(self, name) not in OUR_ACTIVATIONS:
                problems.append(
                    f"{name} is {shown(getattr(self, name))}; choose one of {OUR_ACTIVATIONS}."
                )
        if not problems and self.conv_size and self.conv_size % 2 == 0:
            problems.append(f"conv_size is {self.conv_size}; it must be odd.")
        if problems:
            raise ConfigError(" ".join(problems))

    @property
    def enhances_masks(self) -> bool:
        return self.mask_decoder == "enhanced"

    @property
    def longest_distance(self) -> int:
        return self.max_positions if self.max_distance == -1 else self.max_distance

    @property
    def generator(self) -> "DebertaConfig":
        """The generator's configuration (microsoft/DeBERTa experiments/language_model/rtd_*.json)."""
        return self.replace(num_layers=self.generator_layers or max(1, self.num_layers // 2))


def as_said(values: Mapping[str, Any]) -> dict[str, Any]:
    """Completes a config.json with the meaning of missing keys, and removes repeated sizes."""
    values = {"relative_attention": False, "position_biased_input": True, **values}
    terms = values.get("pos_att_type") or ()
    if isinstance(terms, str):
        terms = terms.lower().split("|")
    if isinstance(terms, list | tuple) and all(isinstance(term, str) for term in terms):
        values["pos_att_type"] = "|".join(sorted(term.strip() for term in terms))
    legacy = values.pop("legacy", True)
    if values["position_biased_input"] is True:
        values["legacy"] = "legacy" if legacy else "direct"
    hidden_size = values.get("hidden_size")
    if values.get("pooler_hidden_size") == hidden_size:
        values.pop("pooler_hidden_size", None)
    heads, head_size = values.get("num_attention_heads"), values.get("attention_head_size")
    if isinstance(heads, int) and isinstance(head_size, int) and heads * head_size == hidden_size:
        del values["attention_head_size"]
    for key in ("max_relative_positions", "position_buckets"):
        if values.get(key) == 0:
            values[key] = -1
    return values


def as_written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Spells the written values as transformers does."""
    terms = POSITION_TERMS[values["pos_att_type"]]
    # In the order of the released files; null for no term.
    changed = {"pos_att_type": [*reversed(terms)] or None, "legacy": values["legacy"] == "legacy"}
    return {**values, **changed}


HF_CODEC = ConfigCodec(
    rows=[
        *bert_formats.ROWS,
        *bert_formats.HF_ROWS,
        ConfigRow("relative_attention"),
        ConfigRow("position_attention", "pos_att_type"),
        ConfigRow("position_biased_input"),
        ConfigRow("mask_decoder", "legacy", optional=True),
        ConfigRow("max_distance", "max_relative_positions", optional=True),
        ConfigRow("classifier_dropout", "cls_dropout", optional=True),
        ConfigRow("pooler_dropout", optional=True),
        ConfigRow("pooler_activation", "pooler_hidden_act", ACTIVATIONS, optional=True),
    ],
    fixed={"talking_head": (False,)},
    ignored=frozenset({"padding_idx"}),
    defaults=DEFAULTS,
    config_class=DebertaConfig,
    prepare=as_said,
    finish=as_written,
)
