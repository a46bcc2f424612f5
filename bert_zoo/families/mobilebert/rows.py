"""MobileBERT's weight rows and heads."""

import re
from collections.abc import Iterator

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.mobilebert.config import MobileBertConfig
from bert_zoo.weights.table import DENSE, EMBED, NORM, Kind, Row, Stored

OURS, LAYER = "stack/layer_{i}/", "encoder.layer.{i}."


ATTENTION, BOTTLENECK = f"{LAYER}attention.", f"{LAYER}bottleneck."


def row(kind: Kind, ours: str, *hf: str, **more) -> Row:
    """Makes a row from Hugging Face's names. Google's differ in norms and numbered layers."""

    def google(name: str) -> str:
        name = name.replace("LayerNorm", "FakeLayerNorm").replace("layer.{i}", "layer_{i}")
        return re.sub(r"ffn\.(\d)", r"ffn_layer_\1", name).replace(".", "/")

    return Row(kind, ours, hf=hf, tf1=tuple(map(google, hf)), **more)


def feed_forward_rows(config: MobileBertConfig) -> Iterator[Row]:
    """Rows of the feed-forward layers; the last of a block has BERT's names."""
    for i in range(config.num_feed_forwards):
        theirs = f"{LAYER}ffn.{i}." if i < config.num_feed_forwards - 1 else LAYER
        ours = f"{OURS}feed_forward_{i}"
        yield row(DENSE, f"{ours}/intermediate", f"{theirs}intermediate.dense")
        yield row(DENSE, f"{ours}/output", f"{theirs}output.dense")
        yield row(NORM, f"{ours}_norm", f"{theirs}output.LayerNorm")


ENCODER_ROWS = (
    *(r for r in bert_rows.ENCODER_ROWS if r.kind is EMBED),
    row(DENSE, "embeddings/trigram", "embeddings.embedding_transformation"),
    row(NORM, "embeddings/norm", "embeddings.LayerNorm"),
    row(DENSE, f"{OURS}narrow", f"{BOTTLENECK}input.dense"),
    row(NORM, f"{OURS}narrow_norm", f"{BOTTLENECK}input.LayerNorm"),
    row(DENSE, f"{OURS}shared", f"{BOTTLENECK}attention.dense"),
    row(NORM, f"{OURS}shared_norm", f"{BOTTLENECK}attention.LayerNorm"),
    row(DENSE, f"{OURS}attention/query_key", f"{ATTENTION}self.query", f"{ATTENTION}self.key"),
    row(DENSE, f"{OURS}attention/value", f"{ATTENTION}self.value"),
    row(DENSE, f"{OURS}attention/output", f"{ATTENTION}output.dense"),
    row(NORM, f"{OURS}attention_norm", f"{ATTENTION}output.LayerNorm"),
    feed_forward_rows,
    row(DENSE, f"{OURS}widen", f"{LAYER}output.bottleneck.dense"),
    row(NORM, f"{OURS}output_norm", f"{LAYER}output.bottleneck.LayerNorm"),
    row(
        DENSE,
        "pooler/dense",
        "pooler.dense",
        when=lambda config: config.pooler and config.classifier_activation,
    ),
)
# Hugging Face's is a dense layer [width, vocabulary] that is never called.
EXTRA: Kind = {
    "embeddings": {"pytorch": Stored(".weight", transposed=True), "tensorflow": Stored("")}
}
MASKED_LM_ROWS = (
    *bert_rows.MASKED_LM_ROWS,
    Row(
        EXTRA,
        "masked_lm/extra_decoder",
        hf="cls.predictions.dense",
        tf1="cls/predictions/extra_output_weights",
    ),
)
