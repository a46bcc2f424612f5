"""ModernBERT (Warner et al. 2024, arXiv:2412.13663): rotary positions, windows, 8,192 tokens."""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bert_zoo.config import (
    ConfigError,
    EncoderConfig,
    activation_name,
    positive,
    rate,
    size,
)
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.families.modernbert.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.fields import is_integer, setting
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import read_byte_bpe
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import (
    BIAS,
    DENSE,
    EMBED,
    FIRST_TOKEN,
    KERNEL,
    MEAN,
    SCALE,
    Copy,
    Head,
    Kind,
    Row,
    raw,
)

POOLINGS = ("mean", "cls")
BIASES = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias", "decoder_bias")


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """`hidden_dropout` acts on embeddings, `attention_dropout` also on attention's outputs."""

    # Layers 0, n, 2n, ... attend to all tokens; the others to tokens at most `local_attention` / 2 away.
    global_attention_every: int = size(3)
    # The numbers of the layers that attend to all tokens, in order, if they are others; None for those.
    global_layers: tuple[int, ...] | None = None
    local_attention: int = size(128, least=2)
    # Base of the wavelengths of rotary positions, by kind of layer.
    global_rope_theta: float = positive(160_000.0)
    local_rope_theta: float = positive(10_000.0)
    inner_dropout: float = rate(0.0)  # rate within the feed-forward layer
    # Pooling for heads over whole texts: the first token, or the mean.
    classifier_pooling: str = setting("cls", choices=POOLINGS)

    # Whether there are biases: in attention, feed-forward layers and norms, in the first layer of every head,
    # and of the predicted tokens.
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False
    decoder_bias: bool = True
    classifier_activation: str = activation_name("gelu")  # in the first layer of every head
    # Rows of more blocks than this are computed block by block, which is then faster
    # (docs/measured/long_texts.md).
    fewest_blocks: ClassVar[int] = 8

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        layers = self.global_layers or ()
        if [i for i in range(self.num_layers) if i in layers] != [*layers]:
            yield (
                f"global_layers is {shown(layers)}; it must list numbers of layers, from 0 to "
                f"{self.num_layers - 1}, in ascending order."
            )
        if self.local_attention % 2:
            yield f"local_attention is {self.local_attention}; it must be even."
        if self.hidden_size // self.num_heads % 2:
            yield (
                f"hidden_size {self.hidden_size} gives {self.num_heads} heads an odd width, but rotary "
                "positions rotate pairs of numbers."
            )

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
    """Converts a config.json from transformers 5's keys to 4's; irregular `layer_types` become the numbers of the
    layers that attend to all tokens.
    """
    values = dict(values)
    if values.get("local_rope_theta", 0) is None and "global_rope_theta" in values:
        values["local_rope_theta"] = values["global_rope_theta"]  # as transformers 4 reads it
    kinds = {written: kind for kind, written in LAYER_TYPES.items()}
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

LAYER = "layers.{i}."
# Kinds of layers' weights and of their biases, and the field that says whether there are biases.
KERNELS, NORM = (KERNEL, BIAS), (SCALE, raw("beta"), "norm_bias")
ATTENTION, MLP = (*KERNELS, "attention_bias"), (*KERNELS, "mlp_bias")


def rows(*layers: tuple[tuple[Kind, Kind, str], str, str]) -> Iterator[Row]:
    """The rows of layers with optional biases, given by kinds, our name and transformers'."""
    for (weights, bias, flag), path, hf in layers:
        yield Row(weights, path, hf=hf)
        yield Row(bias, path, hf=f"{hf}.bias", when=operator.attrgetter(flag))


def attention_norms(config: ModernBertConfig) -> Iterator[Row]:
    """Norms before attention. The first block has none, because embeddings are normed already."""
    layers = range(1, config.num_layers)
    return rows(
        *((NORM, f"stack/layer_{i}/attention_norm", f"layers.{i}.attn_norm") for i in layers)
    )


ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="embeddings.tok_embeddings"),
    attention_norms,
    *rows(
        (NORM, "embeddings/norm", "embeddings.norm"),
        (ATTENTION, "stack/layer_{i}/attention/qkv", f"{LAYER}attn.Wqkv"),
        (ATTENTION, "stack/layer_{i}/attention/output", f"{LAYER}attn.Wo"),
        (NORM, "stack/layer_{i}/output_norm", f"{LAYER}mlp_norm"),
        (MLP, "stack/layer_{i}/feed_forward/intermediate", f"{LAYER}mlp.Wi"),
        (MLP, "stack/layer_{i}/feed_forward/output", f"{LAYER}mlp.Wo"),
        (NORM, "final_norm", "final_norm"),
    ),
)
# The first rows of every head.
PREDICTION_HEAD = (
    *rows(
        ((*KERNELS, "classifier_bias"), "prediction_head/dense", "head.dense"),
        (NORM, "prediction_head/norm", "head.norm"),
    ),
)


def prediction_head(config: ModernBertConfig, **options):
    """Makes the first layer of every head."""
    from bert_zoo.families.modernbert.layers import PredictionHead

    return PredictionHead(
        config.hidden_size,
        activation=config.classifier_activation,
        epsilon=config.layer_norm_epsilon,
        use_bias=config.classifier_bias,
        norm_bias=config.norm_bias,
        **options,
    )


def summary(config: ModernBertConfig) -> str:
    return {"cls": FIRST_TOKEN, "mean": MEAN}[config.classifier_pooling]


TUNED = Head(
    (*PREDICTION_HEAD, Row(DENSE, "classifier/dense", hf="classifier")),
    summary=summary,
    prepare=prediction_head,
)


def decoder_copies(config: ModernBertConfig) -> tuple[Copy, ...]:
    table = Copy("decoder.weight", of="{root}embeddings.tok_embeddings.weight")
    return () if bert.untied(config) else (table,)


MASKED_LM = Head(
    (
        *PREDICTION_HEAD,
        Row(EMBED, "masked_lm/decoder", hf="decoder", when=bert.untied),
        Row(BIAS, "masked_lm", hf="decoder.bias", when=operator.attrgetter("decoder_bias")),
    ),
    prepare=prediction_head,
    copies=dict.fromkeys(("hf", "torch"), decoder_copies),
)


def backbone(config: ModernBertConfig, dtype):
    """Pre-norm blocks; every third one attends to all tokens, the others to a window."""
    from bert_zoo.families.modernbert.layers import GLOBAL, LOCAL, RotaryAttention, RotaryBackbone
    from bert_zoo.layers import FeedForward, PreNormBlock, Stack, TokenEmbeddings
    from bert_zoo.layers.common import norm

    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon
    range_options = {"initializer_range": config.initializer_range, "dtype": dtype}
    options = {**range_options, "output_range": config.output_range}

    def block(i: int) -> PreNormBlock:
        return PreNormBlock(
            RotaryAttention(
                config.num_heads,
                hidden_size,
                view=GLOBAL if config.is_global(i) else LOCAL,
                dropout=config.attention_dropout,
                use_bias=config.attention_bias,
                name="attention",
                **options,
            ),
            FeedForward(
                config.intermediate_size,
                hidden_size,
                activation=config.activation,
                gated=True,
                inner_dropout=config.inner_dropout,
                use_bias=config.mlp_bias,
                name="feed_forward",
                **options,
            ),
            epsilon=epsilon,
            dropout=0.0,
            norm_bias=config.norm_bias,
            norm_first=i > 0,
            dtype=dtype,
            name=f"layer_{i}",
        )

    return RotaryBackbone(
        config,
        embeddings=TokenEmbeddings(
            config.vocab_size,
            hidden_size,
            longest_input=config.longest_input,
            epsilon=epsilon,
            norm_bias=config.norm_bias,
            dropout=config.hidden_dropout,
            name="embeddings",
            **range_options,
        ),
        stack=Stack(
            [block(i) for i in range(config.num_layers)], hidden_size, dtype=dtype, name="stack"
        ),
        final_norm=norm("final_norm", epsilon=epsilon, use_bias=config.norm_bias, dtype=dtype),
        dtype=dtype,
    )


FAMILY = Family(
    name="modernbert",
    backbone=backbone,
    defaults={"vocab_size": 50368, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="modernbert",
            codec=HF_CODEC,
            root="model.",
            classes=bert.hf_classes("ModernBert"),
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        "masked_lm": MASKED_LM,
        "token_classification": TUNED,
        "question_answering": TUNED,
        **dict.fromkeys((*bert.SENTENCE_TASKS, "multiple_choice"), TUNED),
    },
    text=TextFormat(read_byte_bpe, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens_30",
    config_class=ModernBertConfig,
    settings=("classifier_pooling",),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
