"""ModernBERT's weight rows and heads."""

import operator
from collections.abc import Iterator

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.modernbert.config import ModernBertConfig
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

LAYER = "layers.{i}."
# Kinds of layers' weights and of their biases, and the field that says whether there are biases.
KERNELS, NORM = (KERNEL, BIAS), (SCALE, raw("beta"), "norm_bias")
ATTENTION, MLP = (*KERNELS, "attention_bias"), (*KERNELS, "mlp_bias")


def rows(*layers: tuple[tuple[Kind, Kind, str], str, str]) -> Iterator[Row]:
    """The rows of layers with optional biases, given by kinds, our name and transformers'."""
    for (weights, bias, flag), ours, hf in layers:
        yield Row(weights, ours, hf=hf)
        yield Row(bias, ours, hf=f"{hf}.bias", when=operator.attrgetter(flag))


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
    from bert_zoo.families.modernbert.prediction import PredictionHead

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
    return () if bert_rows.untied(config) else (table,)


MASKED_LM = Head(
    (
        *PREDICTION_HEAD,
        Row(EMBED, "masked_lm/decoder", hf="decoder", when=bert_rows.untied),
        Row(BIAS, "masked_lm", hf="decoder.bias", when=operator.attrgetter("decoder_bias")),
    ),
    prepare=prediction_head,
    copies=dict.fromkeys(("hf", "torch"), decoder_copies),
)
