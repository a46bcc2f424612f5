"""ELECTRA (Clark et al. 2020, arXiv:2003.10555): a discriminator of replaced tokens with a generator."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bert_zoo.config import ConfigError, EncoderConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.electra.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.families.roberta import family as roberta
from bert_zoo.family import Family
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.tf1 import HEAD_SIZE, sizes_in
from bert_zoo.weights.table import DENSE, Copy, Head, Row, SecondEncoder

# -------------------------------------------------------------------------------------------------
# ELECTRA's configuration, and how Hugging Face's config.json stores it.
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(EncoderConfig):
    """The configuration of an ELECTRA."""

    # Width of the generator in `pretraining`; 0: a quarter of the discriminator's.
    generator_hidden_size: int = 0
    summary_dropout: float = 0.1  # rate after multiple choice's layer in place of the pooler

    def __post_init__(self):
        super().__post_init__()
        natural = {"generator_hidden_size": "a quarter of hidden_size"}
        if problems := self.problems_with(natural=natural):
            raise ConfigError(" ".join(problems))

    @property
    def generator(self) -> "ElectraConfig":
        """The generator's configuration (the original's run_pretraining.py, get_generator_config)."""
        hidden_size = self.generator_hidden_size or round(self.hidden_size / 4)
        return self.replace(
            hidden_size=hidden_size,
            intermediate_size=4 * hidden_size,
            num_heads=max(1, hidden_size // HEAD_SIZE),
            embedding_size=self.table_width,
        )


DEFAULTS = {"pooler": False}
HF_CODEC = replace(
    bert.HF_CODEC,
    rows=[
        *bert.HF_CODEC.rows,
        ConfigRow("embedding_size", optional=True, written="table_width"),
        ConfigRow("summary_dropout", "summary_last_dropout", optional=True),
    ],
    fixed={
        **bert.HF_CODEC.fixed,
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    },
    defaults={**DEFAULTS, "embedding_size": 128},  # ElectraConfig's
    config_class=ElectraConfig,
)
TF1_SIZES = {
    "vocab_size": ("electra/embeddings/word_embeddings", 0),
    "embedding_size": ("electra/embeddings/word_embeddings", 1),
    "max_positions": ("electra/embeddings/position_embeddings", 0),
    "num_segments": ("electra/embeddings/token_type_embeddings", 0),
    "hidden_size": ("electra/encoder/layer_0/intermediate/dense/kernel", 0),
    "intermediate_size": ("electra/encoder/layer_0/intermediate/dense/kernel", 1),
}
TF1_CODEC = ConfigCodec(
    rows=[ConfigRow(name) for name in (*TF1_SIZES, "num_layers", "num_heads")],
    defaults=DEFAULTS,
    config_class=ElectraConfig,
    prepare=partial(sizes_in, places=TF1_SIZES, layer="electra/encoder/layer_([^/]*)"),
)


# -------------------------------------------------------------------------------------------------
# ELECTRA's weight rows.
# -------------------------------------------------------------------------------------------------

# The generator shares the discriminator's tables and their norm.
SHARED = tuple(
    row.named(tf1=f"/electra/{row.names['hf'][0].replace('.', '/')}")
    for row in bert.ENCODER_ROWS
    if row.ours.startswith("embeddings/")
)
OWN = (
    bert.projection_row("embeddings_project"),
    *(row for row in bert.ENCODER_ROWS if row.ours.startswith("stack/")),
)
MASKED_LM = bert.projecting_head(
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
with_gelu = partial(bert.with_layer, activation="gelu")


def after_summary(config: ElectraConfig) -> dict[str, Any]:
    return {**with_gelu(config, dropout_first=0.0), "dropout": config.summary_dropout}


SUMMARY = Row(DENSE, "classifier/transform", hf="sequence_summary.summary")


FAMILY = Family(
    name="electra",
    backbone=bert.backbone,
    defaults={"vocab_size": 30522, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="electra",
            codec=HF_CODEC,
            root="electra.",
            classes={**bert.hf_classes("Electra"), "pretraining": "ElectraForPreTraining"},
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
        **bert.TASK_HEADS,
        "masked_lm": MASKED_LM,
        "pretraining": Head(
            (GENERATOR, *DISCRIMINATOR_ROWS), activation="gelu", copies={"hf": tables_copies}
        ),
        **dict.fromkeys(bert.SENTENCE_TASKS, Head(roberta.CLASSIFIER_ROWS, output=with_gelu)),
        "multiple_choice": Head(
            (SUMMARY, bert.CLASSIFIER),
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
