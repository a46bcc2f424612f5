"""Longformer (Beltagy et al. 2020, arXiv:2004.05150): RoBERTa with windowed attention and global tokens."""

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.longformer.checkpoints import CHECKPOINTS
from bert_zoo.families.longformer.config import LongformerConfig
from bert_zoo.families.longformer.formats import DEFAULTS, HF, ORIGINAL
from bert_zoo.families.longformer.lengthening import (
    LENGTHENED,
    lengthened_config,
    lengthened_weights,
    read_vocabulary,
)
from bert_zoo.families.longformer.presets import PRESETS, PRETRAINING
from bert_zoo.families.longformer.rows import ENCODER_ROWS
from bert_zoo.families.roberta.rows import CLASSIFIER_ROWS, MASKED_LM_ROWS
from bert_zoo.family import Family, Lengthening
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import BERT, ROBERTA
from bert_zoo.weights.table import Head


def backbone(config: LongformerConfig, dtype):
    """RoBERTa's embeddings and BERT's blocks with windowed attention; each layer has its own window."""
    from bert_zoo.families.longformer.attention import LongformerAttention, LongformerBackbone
    from bert_zoo.layers import Embeddings, Pooler, Stack

    hidden_size = config.hidden_size
    options = {"initializer_range": config.initializer_range, "dtype": dtype}

    def attention(i: int, **options) -> LongformerAttention:
        return LongformerAttention(
            config.num_heads,
            hidden_size,
            reach=config.reaches[i],
            dropout=config.attention_dropout,
            **options,
        )

    return LongformerBackbone(
        config,
        embeddings=Embeddings(**bert_backbone.embedding_options(config, dtype)),
        stack=Stack(
            bert_backbone.blocks(config, dtype, attention=attention),
            hidden_size,
            blocks_of_layers=config.blocks_of_layers,
            dtype=dtype,
            name="stack",
        ),
        pooler=Pooler(hidden_size, name="pooler", **options) if config.pooler else None,
        dtype=dtype,
    )


FAMILY = Family(
    name="longformer",
    backbone=backbone,
    defaults={
        "vocab_size": 50265,
        "max_positions": 4098,
        "num_segments": 1,
        "layer_norm_epsilon": 1e-5,
        **DEFAULTS,
    },
    formats={"hf": HF, "allenai": ORIGINAL},
    encoder_rows=ENCODER_ROWS,
    heads={
        **bert_rows.TASK_HEADS,
        "masked_lm": Head(
            MASKED_LM_ROWS, copies=bert_rows.masked_lm_copies("lm_head"), activation="gelu"
        ),
        **dict.fromkeys(
            bert_rows.SENTENCE_TASKS, Head(CLASSIFIER_ROWS, output=bert_rows.with_layer)
        ),
    },
    text=TextFormat(read_vocabulary, layout=ROBERTA, segmented=BERT),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
    config_class=LongformerConfig,
    settings=("max_global_tokens",),
    lengthening=Lengthening(
        "window", LENGTHENED, config=lengthened_config, weights=lengthened_weights
    ),
)
