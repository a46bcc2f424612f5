"""RoBERTa's weight rows and heads."""

import numpy as np

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.weights.table import DENSE, OUTPUT, Copy, Row, Stored

LAYER = "layers.{i}."
FAIRSEQ_NAMES = {
    "embeddings/token_embedding": "embed_tokens",
    "embeddings/position_embedding": "embed_positions",
    "embeddings/norm": "layernorm_embedding",
    "stack/layer_{i}/attention/qkv": tuple(f"{LAYER}self_attn.{p}_proj" for p in "qkv"),
    "stack/layer_{i}/attention/output": f"{LAYER}self_attn.out_proj",
    "stack/layer_{i}/attention_norm": f"{LAYER}self_attn_layer_norm",
    "stack/layer_{i}/feed_forward/intermediate": f"{LAYER}fc1",
    "stack/layer_{i}/feed_forward/output": f"{LAYER}fc2",
    "stack/layer_{i}/output_norm": f"{LAYER}final_layer_norm",
    "masked_lm/transform": "encoder.lm_head.dense",
    "masked_lm/norm": "encoder.lm_head.layer_norm",
    "masked_lm": "encoder.lm_head.bias",
}


def fairseq_copies(config: EncoderConfig) -> tuple[Copy, ...]:
    return (Copy("encoder.lm_head.weight", of="{root}embed_tokens.weight"),)


MASKED_LM_ROWS = bert_rows.masked_lm_rows("lm_head", dense="dense", norm="layer_norm")
# A layer over the first token replaces BERT's pooler.
CLASSIFIER_ROWS = (
    Row(DENSE, "classifier/transform", hf="classifier.dense", fairseq="classification_heads.dense"),
    Row(
        OUTPUT,
        "classifier/dense",
        hf="classifier.out_proj",
        fairseq="classification_heads.out_proj",
    ),
)


def first_position(config: EncoderConfig) -> int:
    """The number of position rows before the first token's."""
    return config.pad_id + 1


class WithoutPadding(Stored):
    """A position table stored from the first token's row on; earlier rows are read as zeros."""

    def shape_of(self, part, config):
        return (part[0] - first_position(config), *part[1:])

    def to_ours(self, tensor, part, config):
        return np.concatenate([np.zeros((first_position(config), *part[1:]), tensor.dtype), tensor])

    def to_stored(self, part, config):
        return part[first_position(config) :]
