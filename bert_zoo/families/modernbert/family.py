"""ModernBERT (Warner et al. 2024, arXiv:2412.13663): rotary positions, windows, 8,192 tokens."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bert_zoo.config import ConfigError, activation_name, rate, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import (
    FULL,
    LAYER,
    SIZE_ROWS,
    WINDOW_ROWS,
    WITHOUT,
    WindowedConfig,
    backbone,
    layer_rows,
    optional_bias,
    optional_rows,
    summary,
    window_settings,
)
from bert_zoo.families.modernbert.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.fields import setting
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import read_bpe
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import DENSE, NORM, Head, Row

BIASES = "attention_bias mlp_bias norm_bias classifier_bias decoder_bias"


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(WindowedConfig):
    """`hidden_dropout` acts on embeddings, `attention_dropout` also on attention's outputs."""

    norm_before: ClassVar[bool] = True
    # Embeddings are normed already.
    norm_first: ClassVar[bool] = False
    final_norm: ClassVar[bool] = True
    gated: ClassVar[bool] = True
    drops_attention_output: ClassVar[bool] = True
    residual_dropout: ClassVar[float] = 0.0

    # Layers 0, n, 2n, ... attend to all tokens; the others to tokens at most `local_attention` / 2 away.
    global_attention_every: int = size(3)
    local_attention: int = size(128, least=2)
    inner_dropout: float = rate(0.0)  # rate within the feed-forward layer
    # Pooling for heads over whole texts: the first token, or the mean.
    classifier_pooling: str = setting("cls", choices=("mean", "cls"))

    # Whether there are biases: in attention, feed-forward layers and norms, in the first layer of every head,
    # and of the predicted tokens.
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False
    decoder_bias: bool = True
    classifier_activation: str = activation_name("gelu")  # in the first layer of every head

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.local_attention % 2:
            yield f"local_attention is {self.local_attention}; it must be even."

    def with_layers(self, layers: Sequence[int]) -> Self:
        if [layer for layer in layers if layer == 0] != [*layers[:1]]:
            raise ConfigError(
                f"The layers are {[*layers]}, but layer 0 has one norm less than the others: it must be the first "
                "one, and only that."
            )
        return super().with_layers(layers)

    @property
    def output_range(self) -> float:
        """Initial standard deviation of layers that add to the residual stream (Warner et al. 2024, appendix A.2)."""
        return self.initializer_range / math.sqrt(2 * self.num_layers)

    @property
    def reach(self) -> int:
        return min(self.local_attention // 2, self.longest_input)


DEFAULTS = {
    "num_layers": 22,
    "intermediate_size": 1152,
    "max_positions": 8192,
    "layer_norm_epsilon": 1e-5,
    "pad_id": 50283,
    **WITHOUT,
}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json from transformers 5's keys to 4's; irregular `layer_types` become the numbers of the
    layers that attend to all tokens.
    """
    values = dict(values)
    if values.get("local_rope_theta", 0) is None and "global_rope_theta" in values:
        values["local_rope_theta"] = values["global_rope_theta"]  # as transformers 4 reads it
    values = window_settings(values)
    if found := values.get("layer_types"):
        every = (*found[1:2], values["num_hidden_layers"])[0]
        values.setdefault("global_attn_every_n_layers", every)
    return values


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`. transformers 4 has no `layer_types`."""
    every, types = values["global_attn_every_n_layers"], values["layer_types"]
    is_regular = all((kind == FULL) == (i % every == 0) for i, kind in enumerate(types))
    lacks = "layer_types" if is_regular else "global_attn_every_n_layers"
    return {key: value for key, value in values.items() if key != lacks}


HF_CODEC = ConfigCodec(
    rows=[
        *SIZE_ROWS,
        *WINDOW_ROWS,
        ConfigRow("activation", "hidden_activation", ACTIVATIONS, optional=True),
        ConfigRow("layer_norm_epsilon", "norm_eps", optional=True),
        ConfigRow("hidden_dropout", "embedding_dropout", optional=True),
        ConfigRow("inner_dropout", "mlp_dropout", optional=True),
        ConfigRow("classifier_dropout", optional=True, written="head_dropout"),
        ConfigRow("global_attention_every", "global_attn_every_n_layers", optional=True),
        ConfigRow("classifier_activation", "classifier_activation", ACTIVATIONS, optional=True),
        *optional_rows(f"local_attention classifier_pooling {BIASES}"),
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


def attention_norms(config: ModernBertConfig) -> Iterator[Row]:
    """Norms before attention, which layer 0 lacks."""
    for i in range(1, config.num_layers):
        path, name = f"stack/layer_{i}/attention_norm", f"layers.{i}.attn_norm"
        yield from optional_bias(NORM, path, name, has_bias="norm_bias")


TOKENS = "embeddings.tok_embeddings"
NAMES = {
    "embeddings/norm": "embeddings.norm",
    "attention/qkv": f"{LAYER}attn.Wqkv",
    "attention/output": f"{LAYER}attn.Wo",
    "output_norm": f"{LAYER}mlp_norm",
    "feed_forward/intermediate": f"{LAYER}mlp.Wi",
    "feed_forward/output": f"{LAYER}mlp.Wo",
    "final_norm": "final_norm",
}
# The first rows of every head.
PREDICTION_HEAD = (
    *optional_bias(DENSE, "prediction_head/dense", "head.dense", has_bias="classifier_bias"),
    *optional_bias(NORM, "prediction_head/norm", "head.norm", has_bias="norm_bias"),
)


def prediction_head(config: ModernBertConfig, **options):
    """Makes the first layer of every head."""
    from bert_zoo.families.modernbert.layers import PredictionHead

    return PredictionHead(config, **options)


TUNED = Head((*PREDICTION_HEAD, bert.CLASSIFIER), summary=summary, prepare=prediction_head)
MASKED_LM = bert.decoding_head("decoder", *PREDICTION_HEAD, table=TOKENS, prepare=prediction_head)

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
    encoder_rows=(bert.TOKENS.named(hf=TOKENS), *layer_rows(NAMES), attention_norms),
    heads={"masked_lm": MASKED_LM, **dict.fromkeys(bert.TASK_HEADS, TUNED)},
    text=TextFormat(read_bpe, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens_30",
    config_class=ModernBertConfig,
    settings=("classifier_pooling",),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
