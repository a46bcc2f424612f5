"""ELECTRA (Clark et al. 2020, arXiv:2003.10555): a discriminator of replaced tokens, and its generator."""

from functools import partial
from typing import Any

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.electra.checkpoints import CHECKPOINTS
from bert_zoo.families.electra.config import DEFAULTS, HF_CODEC, TF1_CODEC, ElectraConfig
from bert_zoo.families.electra.presets import PRESETS, PRETRAINING
from bert_zoo.families.roberta import rows as roberta_rows
from bert_zoo.family import Family
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.table import DENSE, Copy, Head, Row, SecondEncoder

# Tables and their norm are the discriminator's, and the generator's too.
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
    """The directory of a generator repeats the tables."""
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
            # Its place among the dense layers depends on whether there is a projection.
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
