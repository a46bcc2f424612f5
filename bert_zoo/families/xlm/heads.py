"""XLM's heads."""

from typing import Any

from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.xlm.config import XlmConfig
from bert_zoo.weights.table import BIAS, DENSE, EMBED, OUTPUT, Copy, Head, Row

DECODER = "pred_layer.proj"


def masked_lm_copies(config: XlmConfig) -> tuple[Copy, ...]:
    table = Copy(f"{DECODER}.weight", of="{root}embeddings.weight")
    return () if bert_rows.untied(config) else (table,)


MASKED_LM = Head(
    (
        Row(EMBED, "masked_lm/decoder", hf=DECODER, when=bert_rows.untied),
        Row(BIAS, "masked_lm", hf=f"{DECODER}.bias"),
    ),
    copies={"hf": masked_lm_copies, "torch": masked_lm_copies},
)
SENTENCE = Head((Row(OUTPUT, "classifier/dense", hf="sequence_summary.summary"),))


def two_numbers(config: XlmConfig) -> dict[str, Any]:
    layer = {"transform": "linear", "transform_size": 2}
    return {"dropout": 0.0, "dropout_first": config.head_dropout, **layer}


# transformers' logits of a classifier with two classes, and a layer that turns them into one number.
CHOICE = Head(
    (
        Row(DENSE, "classifier/transform", hf="sequence_summary.summary"),
        Row(DENSE, "classifier/dense", hf="logits_proj"),
    ),
    output=two_numbers,
)
