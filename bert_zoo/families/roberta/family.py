"""RoBERTa (Liu et al. 2019, arXiv:1907.11692): BERT's encoder with positions that skip padding."""

from dataclasses import replace

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.roberta.checkpoints import CHECKPOINTS
from bert_zoo.families.roberta.formats import (
    DEFAULTS,
    FAIRSEQ_CODEC,
    WITHOUT_SEGMENTS,
    PositionsFromZero,
)
from bert_zoo.families.roberta.presets import PRESETS, PRETRAINING
from bert_zoo.families.roberta.rows import (
    CLASSIFIER_ROWS,
    FAIRSEQ_NAMES,
    MASKED_LM_ROWS,
    fairseq_copies,
)
from bert_zoo.family import Family
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import ROBERTA
from bert_zoo.weights.formats import Fairseq, HuggingFace, keras_hub
from bert_zoo.weights.table import Head

FAMILY = Family(
    name="roberta",
    backbone=bert_backbone.backbone,
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
            codec=replace(bert_formats.HF_CODEC, defaults=DEFAULTS),
            root="roberta.",
            classes=bert_formats.hf_classes("Roberta"),
        ),
        "fairseq": Fairseq(codec=FAIRSEQ_CODEC, root="encoder.sentence_encoder."),
        "keras_hub": PositionsFromZero(
            class_name="RobertaBackbone",
            codec=keras_hub.codec(defaults=WITHOUT_SEGMENTS),
            layers={**keras_hub.JOINT_TABLES, **keras_hub.ENCODER, **keras_hub.TWO_LAYERS},
            classes={"RobertaTextClassifier": "RobertaForSequenceClassification"},
        ),
    },
    encoder_rows=bert_rows.renamed(bert_rows.ENCODER_ROWS, "fairseq", FAIRSEQ_NAMES),
    heads={
        **bert_rows.TASK_HEADS,
        "masked_lm": Head(
            bert_rows.renamed(MASKED_LM_ROWS, "fairseq", FAIRSEQ_NAMES),
            copies={**bert_rows.masked_lm_copies("lm_head"), "fairseq": fairseq_copies},
            activation="gelu",
        ),
        **dict.fromkeys(
            bert_rows.SENTENCE_TASKS, Head(CLASSIFIER_ROWS, output=bert_rows.with_layer)
        ),
    },
    text=TextFormat(read_byte_bpe, layout=ROBERTA, transformers_class="RobertaTokenizer"),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
