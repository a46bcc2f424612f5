"""ELECTRA's weight rows."""

from functools import partial
from typing import Any

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.electra.config import ElectraConfig
from bert_zoo.weights.table import DENSE, Copy, Row, SecondEncoder

# The generator shares the discriminator's tables and their norm.
SHARED = tuple(
    row.named(tf1=f"/electra/{row.names['hf'][0].replace('.', '/')}")
    for row in bert_rows.ENCODER_ROWS
    if row.ours.startswith("embeddings/")
)
OWN = (
    bert_rows.projection_row("embeddings_project"),
    *(row for row in bert_rows.ENCODER_ROWS if row.ours.startswith("stack/")),
)
MASKED_LM = bert_rows.projecting_head(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head",
    activation="gelu",
    tf1="generator_predictions/output_bias",
)


def tables_copies(config: ElectraConfig) -> tuple[Copy, ...]:
    """The directory of a generator holds copies of the tables."""
    keys = (
        row.names["hf"][0] + form["pytorch"].suffix for row in SHARED for form in row.kind.values()
    )
    return tuple(Copy(f"generator/{key}", of="{root}" + key) for key in keys)


GENERATOR = SecondEncoder(
    OWN, "generator/", "generator", lambda config: config.generator, head=MASKED_LM
)
DISCRIMINATOR_ROWS = (
    Row(DENSE, "replaced_token/transform", hf="discriminator_predictions.dense"),
    Row(
        DENSE,
        "replaced_token/dense",
        hf="discriminator_predictions.dense_prediction",
        tf1="discriminator_predictions/dense_1",
    ),
)
with_gelu = partial(bert_rows.with_layer, activation="gelu")


def after_summary(config: ElectraConfig) -> dict[str, Any]:
    return {**with_gelu(config, dropout_first=0.0), "dropout": config.summary_dropout}


SUMMARY = Row(DENSE, "classifier/transform", hf="sequence_summary.summary")
