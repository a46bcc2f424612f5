"""ModernBERT's weight rows and heads."""

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
    Row,
)

LAYER = "layers.{i}."


def attention_norms(config: ModernBertConfig) -> Iterator[Row]:
    """Norms before attention. The first block has none, because embeddings are normed already."""
    for i in range(1, config.num_layers):
        yield Row(SCALE, f"stack/layer_{i}/attention_norm", hf=f"layers.{i}.attn_norm")


ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="embeddings.tok_embeddings"),
    Row(SCALE, "embeddings/norm", hf="embeddings.norm"),
    attention_norms,
    Row(KERNEL, "stack/layer_{i}/attention/qkv", hf=f"{LAYER}attn.Wqkv"),
    Row(KERNEL, "stack/layer_{i}/attention/output", hf=f"{LAYER}attn.Wo"),
    Row(SCALE, "stack/layer_{i}/output_norm", hf=f"{LAYER}mlp_norm"),
    Row(KERNEL, "stack/layer_{i}/feed_forward/intermediate", hf=f"{LAYER}mlp.Wi"),
    Row(KERNEL, "stack/layer_{i}/feed_forward/output", hf=f"{LAYER}mlp.Wo"),
    Row(SCALE, "final_norm", hf="final_norm"),
)


# The first rows of every head.
PREDICTION_HEAD = (
    Row(KERNEL, "prediction_head/dense", hf="head.dense"),
    Row(SCALE, "prediction_head/norm", hf="head.norm"),
)


def prediction_head(config: ModernBertConfig, **options):
    """Makes the first layer of every head."""
    from bert_zoo.families.modernbert.prediction import PredictionHead

    return PredictionHead(
        config.hidden_size, activation="gelu", epsilon=config.layer_norm_epsilon, **options
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
        Row(BIAS, "masked_lm", hf="decoder.bias"),
    ),
    prepare=prediction_head,
    copies=dict.fromkeys(("hf", "torch"), decoder_copies),
)
