"""RoBERTa (Liu et al. 2019, arXiv:1907.11692): BERT's encoder with positions that skip padding."""

from dataclasses import replace
from typing import Any

import numpy as np

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.roberta.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import ROBERTA
from bert_zoo.weights.formats import Description, Fairseq, HuggingFace, keras_hub
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, OUTPUT, Copy, Head, Row, Stored

# -------------------------------------------------------------------------------------------------
# RoBERTa's weight rows and heads.
# -------------------------------------------------------------------------------------------------

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


MASKED_LM_ROWS = bert.masked_lm_rows("lm_head", dense="dense", norm="layer_norm")
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


# -------------------------------------------------------------------------------------------------
# How RoBERTa's checkpoints are stored.
# -------------------------------------------------------------------------------------------------

# Implied by every file: fairseq utils.py, make_positions.
DEFAULTS = {"pad_id": 1, "positions_after_padding": True}
# For programs other than Hugging Face's, which has a table with one segment.
WITHOUT_SEGMENTS = {**DEFAULTS, "num_segments": 1, "layer_norm_epsilon": 1e-5, "pooler": False}
FAIRSEQ_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size", "embed_tokens_rows"),
        ConfigRow("max_positions", "embed_positions_rows"),
        ConfigRow("num_layers", "encoder_layers"),
        ConfigRow("hidden_size", "encoder_embed_dim"),
        ConfigRow("intermediate_size", "encoder_ffn_embed_dim"),
        ConfigRow("num_heads", "encoder_attention_heads"),
        ConfigRow("hidden_dropout", "dropout"),
        ConfigRow("attention_dropout"),
        ConfigRow("classifier_dropout", "pooler_dropout", optional=True),
        ConfigRow("activation", "activation_fn", {"gelu": "gelu", "relu": "relu"}, optional=True),
    ],
    fixed={
        "arch": ("roberta", "roberta_base", "roberta_large"),
        "task": ("masked_lm", "sentence_prediction", "sentence_ranking"),
        "pooler_activation_fn": ("tanh",),
        "encoder_normalize_before": (False,),
    },
    # fairseq's other arguments are for training.
    ignored=None,
    defaults=WITHOUT_SEGMENTS,
)


class PositionsFromZero(keras_hub.KerasHub):
    """KerasHub's positions start at 0, ours after the row of padding."""

    def stored(self, row: Row, variable: str) -> Stored:
        if row.ours == "embeddings/position_embedding":
            return WithoutPadding(self.suffix(row, variable))
        return super().stored(row, variable)

    def decode(self, values: JsonObject, *, where: str) -> EncoderConfig:
        config = super().decode(values, where=where)
        return config.replace(max_positions=config.max_positions + first_position(config))

    def encode(self, config: EncoderConfig, description: Description) -> dict[str, Any]:
        config = config.replace(max_positions=config.max_positions - first_position(config))
        return super().encode(config, description)


FAMILY = Family(
    name="roberta",
    backbone=bert.backbone,
    defaults={
        "vocab_size": 50265,
        "max_positions": 514,
        "num_segments": 1,
        "layer_norm_epsilon": 1e-5,
        **DEFAULTS,
    },
    formats={
        "hf": HuggingFace(
            model_type="roberta",
            codec=replace(bert.HF_CODEC, defaults=DEFAULTS),
            root="roberta.",
            classes=bert.hf_classes("Roberta"),
        ),
        "fairseq": Fairseq(codec=FAIRSEQ_CODEC, root="encoder.sentence_encoder."),
        "keras_hub": PositionsFromZero(
            class_name="RobertaBackbone",
            codec=keras_hub.codec(defaults=WITHOUT_SEGMENTS),
            layers={**keras_hub.JOINT_TABLES, **keras_hub.ENCODER, **keras_hub.TWO_LAYERS},
            classes={"RobertaTextClassifier": "RobertaForSequenceClassification"},
        ),
    },
    encoder_rows=bert.renamed(bert.ENCODER_ROWS, "fairseq", FAIRSEQ_NAMES),
    heads={
        **bert.TASK_HEADS,
        "masked_lm": Head(
            bert.renamed(MASKED_LM_ROWS, "fairseq", FAIRSEQ_NAMES),
            copies={**bert.masked_lm_copies("lm_head"), "fairseq": fairseq_copies},
            activation="gelu",
        ),
        **dict.fromkeys(bert.SENTENCE_TASKS, Head(CLASSIFIER_ROWS, output=bert.with_layer)),
    },
    text=TextFormat(read_byte_bpe, layout=ROBERTA, transformers_class="RobertaTokenizer"),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
