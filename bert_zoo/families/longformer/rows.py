"""Longformer's weight rows."""

from bert_zoo.families.bert.rows import ENCODER_ROWS as BERT_ROWS
from bert_zoo.families.bert.rows import LAYER, projection_row
from bert_zoo.weights.table import DENSE, Row

SELF = f"{LAYER}attention.self."
ENCODER_ROWS = (
    *BERT_ROWS,
    projection_row("embeddings_project"),
    Row(DENSE, "stack/layer_{i}/attention/query_global", hf=f"{SELF}query_global"),
    Row(
        DENSE,
        "stack/layer_{i}/attention/key_value_global",
        hf=(f"{SELF}key_global", f"{SELF}value_global"),
    ),
)
