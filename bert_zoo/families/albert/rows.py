"""ALBERT's weight rows and heads."""

from collections.abc import Iterator

from bert_zoo.families.albert.config import (
    AlbertConfig,
)
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.weights.table import DENSE, NORM, OUTPUT, Row

QKV = ("query", "key", "value")
# Kind, our path, names in both formats; all relative to a block.
BLOCK = (
    (
        DENSE,
        "attention/qkv",
        [f"attention.{part}" for part in QKV],
        [f"attention_1/self/{part}" for part in QKV],
    ),
    (DENSE, "attention/output", ["attention.dense"], ["attention_1/output/dense"]),
    (NORM, "attention_norm", ["attention.LayerNorm"], ["LayerNorm"]),
    (DENSE, "feed_forward/intermediate", ["ffn"], ["ffn_1/intermediate/dense"]),
    (DENSE, "feed_forward/output", ["ffn_output"], ["ffn_1/intermediate/output/dense"]),
    (NORM, "output_norm", ["full_layer_layer_norm"], ["LayerNorm_1"]),
)


def block_rows(config: AlbertConfig) -> Iterator[Row]:
    """Rows of the shared blocks. Other formats number them by group and within it."""
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        hf_block = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}."
        tf1_block = f"encoder/transformer/group_{group}/inner_group_{inner}/"
        for kind, ours, hf, tf1 in BLOCK:
            yield Row(
                kind,
                f"stack/layer_{number}/{ours}",
                hf=tuple(hf_block + name for name in hf),
                tf1=tuple(tf1_block + name for name in tf1),
            )


ENCODER_ROWS = (
    *(row for row in bert_rows.ENCODER_ROWS if row.ours.startswith("embeddings/")),
    bert_rows.projection_row("encoder.embedding_hidden_mapping_in"),
    block_rows,
    Row(DENSE, "pooler/dense", hf="pooler", tf1="pooler/dense", when=lambda config: config.pooler),
)
MASKED_LM_ROWS = bert_rows.masked_lm_rows("predictions", dense="dense", norm="LayerNorm")
MASKED_LM_COPIES = bert_rows.masked_lm_copies("predictions")
SENTENCE_ORDER = Row(
    OUTPUT, "sentence_order/dense", hf="sop_classifier.classifier", tf1="cls/seq_relationship/"
)
