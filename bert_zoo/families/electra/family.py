"""ELECTRA (Clark et al. 2020, arXiv:2003.10555): a discriminator of replaced tokens with a generator."""

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.electra.checkpoints import CHECKPOINTS
from bert_zoo.families.electra.config import DEFAULTS, HF_CODEC, TF1_CODEC, ElectraConfig
from bert_zoo.families.electra.presets import PRESETS, PRETRAINING
from bert_zoo.families.electra.rows import (
    DISCRIMINATOR_ROWS,
    GENERATOR,
    MASKED_LM,
    OWN,
    SHARED,
    SUMMARY,
    after_summary,
    tables_copies,
    with_gelu,
)
from bert_zoo.families.roberta import rows as roberta_rows
from bert_zoo.family import Family
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import Head

FAMILY = Family(
    name="electra",
    backbone=bert_backbone.backbone,
    defaults={"vocab_size": 30522, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="electra",
            codec=HF_CODEC,
            root="electra.",
            classes={**bert_formats.hf_classes("Electra"), "pretraining": "ElectraForPreTraining"},
            sizes={"generator_hidden_size": r"^generator/encoder\.layer\.0\.output\.dense\.bias$"},
        ),
        "tf1": TF1(
            codec=TF1_CODEC,
            config_file="*.index",
            root="electra/",
            encoders={"generator": "generator/"},
            sizes={"generator_hidden_size": "^generator/encoder/layer_0/output/dense/bias$"},
        ),
        "keras_hub": keras_hub.KerasHub(
            class_name="ElectraBackbone",
            codec=keras_hub.codec(
                ConfigRow("vocab_size"),
                keras_hub.SEGMENTS,
                ConfigRow("embedding_size", "embedding_dim", written="table_width"),
                defaults={**DEFAULTS, "activation": "gelu_tanh"},
                config_class=ElectraConfig,
            ),
            layers={
                **keras_hub.TABLES,
                **keras_hub.ENCODER,
                "embeddings/projection": "layers/dense",
            },
            # Its number among the dense layers depends on whether there is a projection.
            unread={r"^layers/dense(_1)?/": "pooler"},
        ),
        **model_garden.formats(
            {**model_garden.LAYERS, **model_garden.PROJECTION, **model_garden.BLOCKS},
            unread={"^pooler_transform/": "pooler"},
            defaults={**DEFAULTS, "activation": "gelu_tanh"},
            config_class=ElectraConfig,
        ),
    },
    encoder_rows=(*SHARED, *OWN),
    heads={
        **bert_rows.TASK_HEADS,
        "masked_lm": MASKED_LM,
        "pretraining": Head(
            (GENERATOR, *DISCRIMINATOR_ROWS), activation="gelu", copies={"hf": tables_copies}
        ),
        **dict.fromkeys(
            bert_rows.SENTENCE_TASKS, Head(roberta_rows.CLASSIFIER_ROWS, output=with_gelu)
        ),
        "multiple_choice": Head(
            (SUMMARY, bert_rows.CLASSIFIER),
            output=after_summary,
        ),
    },
    text=bert.FAMILY.text,
    checkpoints=CHECKPOINTS,
    objectives=("replaced_token", "masked_lm"),
    pretraining="replaced_tokens",
    config_class=ElectraConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
