"""ELECTRA (Clark et al. 2020, arXiv:2003.10555): a discriminator of replaced tokens with a generator."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bert_zoo.config import EncoderConfig, rate, size
from bert_zoo.families import roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import (
    ANSWERS,
    BASE,
    CHOICES,
    CLASSES,
    LARGE,
    MINI,
    NANO,
    ONE_LENGTH,
    SENTENCES,
    TEXTS,
    is_large,
    own_size,
    width,
)
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, Family, TextSpec, read_table, scores_of
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe
from bert_zoo.weights.formats import TF1, HuggingFace, keras_hub, model_garden
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.format import HEAD_SIZE, sizes_in
from bert_zoo.weights.table import DENSE, Copy, Head, Row, SecondEncoder

SOURCE = "google-research/electra configure_finetuning.py"
# "" is for small and base. Large has a lower rate that decays less from layer to layer.
RECIPES = {
    "": Recipe(learning_rate=1e-4, layer_decay=0.8),
    "_large": Recipe(learning_rate=5e-5, layer_decay=0.9),
}


def presets(size: str, recipe: Recipe) -> list[Preset]:
    """The presets of a size, all based on one recipe."""

    def fits(config) -> bool:
        return is_large(config) == bool(size)

    longer = [
        Preset(
            f"electra/{benchmark}{size}",
            SENTENCES,
            recipe.replace(epochs=10),
            SOURCE,
            fits=fits,
            benchmark=benchmark,
        )
        for benchmark in ("rte", "stsb")
    ]
    squad = recipe.replace(epochs=2, max_length=512)
    return [
        Preset(f"electra/glue{size}", (*TEXTS, *CHOICES), recipe, SOURCE, fits=fits),
        *longer,
        Preset(f"electra/squad{size}", ANSWERS, squad, SOURCE, fits=fits),
    ]


PRESETS = (
    *(preset for size, recipe in RECIPES.items() for preset in presets(size, recipe)),
    Preset(
        "electra/nano",
        CLASSES,
        Recipe(
            epochs=5,
            least_updates=250,
            least_batch_size=16,
            learning_rate=1e-3,
            bias_correction=True,
            dropout=0.1,
            reinitialized_layers=1,
        ),
        'measured by this project: docs/measured/pretraining.md, "Our own small checkpoints"',
        fits=lambda config: config.hidden_size == NANO["hidden_size"],
        note="Re-initialises the upper layer, which learned little besides detecting replaced tokens.",
    ),
)


def with_generator(config: dict[str, int], generator: int, tables: int) -> dict[str, int]:
    return {**config, "generator_hidden_size": generator, "embedding_size": tables}


# Until the generator uses the context of a mask, a discriminator learns only the rate of replacement. That
# takes about 4,000 updates, whatever the batch size.
MANY_UPDATES = {"batch_size": 32, "total_steps": 24_000}
PRETRAINING = PretrainingPreset(
    rows="full_sentences",
    recipe=Recipe(batch_size=256, total_steps=766_000, warmup_steps=10_000, learning_rate=2e-4),
    phases=((512, 1.0),),
    sizes={
        "nano": own_size(with_generator(NANO, 64, 128), **MANY_UPDATES),
        "mini": own_size(with_generator(MINI, 64, 128), **MANY_UPDATES),
        "small": PretrainingSize(
            with_generator(width(256, 12), 64, 128),
            {"batch_size": 128, "total_steps": 1_000_000, "learning_rate": 5e-4},
            ONE_LENGTH,
        ),
        "base": PretrainingSize(with_generator(width(768, 12), 256, 768)),
        "large": PretrainingSize(
            with_generator(width(1024, 24), 256, 1024),
            {"batch_size": 2048, "total_steps": 400_000},
            objective="replaced_tokens_large",
        ),
    },
    vocabulary="wordpiece",
    lowercase=True,
    source="Clark et al. 2020, appendix A; google-research/electra configure_pretraining.py",
)

# Cards of the released ELECTRA checkpoints.
#
# A plain name is a discriminator; the tag `generator` marks a generator. An archive holds both, a Hugging Face
# repository one of them.

ARCHIVES = "https://storage.googleapis.com/electra-data/electra_"
PAPER = (
    "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators, arXiv:2003.10555"
)
# Width of all generators. The small one is as large as its discriminator, although the paper says 1/4.
WIDTH = 256
SIZES = {
    "small": {"hidden_size": 256, "num_heads": 4, "intermediate_size": 1024, "embedding_size": 128},
    "base": BASE,
    "large": LARGE,
}
# google-research/electra README.md: medians.
COLUMNS = (
    "CoLA (dev Matthews correlation)",
    "SST-2 (dev accuracy)",
    "MRPC (dev accuracy)",
    "STS-B (dev Spearman correlation)",
    "QQP (dev accuracy)",
    "MNLI (dev accuracy)",
    "QNLI (dev accuracy)",
    "RTE (dev accuracy)",
    "SQuAD 1.1 (dev exact match)",
    "SQuAD 2.0 (dev exact match)",
)
RELEASED = read_table("""
    size   discriminator  generator   scores
    small  13_483_008     13_483_008  57.0 91.2 88.0 87.5 89.0 81.3 88.4 66.7 75.8 70.1
    base   108_891_648    33_511_168  67.7 95.1 89.5 91.2 91.5 88.8 93.2 82.7 86.8 80.5
    large  334_092_288    50_999_552  69.1 96.9 90.8 92.6 92.4 90.9 95.0 88.0 89.7 88.1
""")


def released(size: str, network: str, config: dict, head: str, params: int, **card) -> Checkpoint:
    """A network of google-research/electra. All have the same licence, tokenizer and paper."""
    return Checkpoint(
        f"electra_{size}",
        SIZES[size] | config,
        sources=[
            HF(f"google/electra-{size}-{network}", lacks=frozenset({"pretraining"})),
            Archive(f"{ARCHIVES}{size}.zip"),
        ],
        provides=frozenset({"encoder", head}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=True),
        **card,
    )


def discriminator(row: dict) -> Checkpoint:
    return released(
        row["size"],
        "discriminator",
        {"generator_hidden_size": WIDTH},
        "pretraining",
        row["discriminator"],
        scores=scores_of(COLUMNS, row["scores"]),
    )


def generator(row: dict) -> Checkpoint:
    sizes = SIZES[row["size"]]
    return released(
        row["size"],
        "generator",
        {**SIZES["small"], "embedding_size": sizes.get("embedding_size", sizes["hidden_size"])},
        "masked_lm",
        row["generator"],
        tag="generator",
        encoder="generator",
    )


CHECKPOINTS = [
    *(discriminator(row) for row in RELEASED),
    *(generator(row) for row in RELEASED),
    trained_here(
        "electra_nano",
        PRETRAINING.sizes[SIZE].config,
        PAPER,
        sha256="a74f83ceb744fa00d43f3f04775038edbe960262fddf2bfce59b22d1be8ed828",
        params=1_181_440,
        scores={
            "held-out loss": 20.891,
            "held-out masked-token loss": 4.342,
            "held-out masked-token loss before training": 6.981,
            "held-out masked-token loss of a unigram model": 6.874,
            "held-out replaced-token loss": 0.331,
        },
    ),
]


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(EncoderConfig):
    # Width of the generator in `pretraining`; 0: a quarter of the discriminator's.
    generator_hidden_size: int = size(0, special=(0, "a quarter of hidden_size"))
    summary_dropout: float = rate(0.1)  # rate after multiple choice's layer in place of the pooler

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
