"""ELECTRA's settings for fine-tuning and pretraining."""

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
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

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


# -------------------------------------------------------------------------------------------------
# Cards of the released ELECTRA checkpoints.
#
# A plain name is a discriminator; the tag `generator` marks a generator. An archive holds both, a Hugging Face
# repository one of them.
# -------------------------------------------------------------------------------------------------

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
# Discriminator and generator.
PARAMS = {
    "small": (13_483_008, 13_483_008),
    "base": (108_891_648, 33_511_168),
    "large": (334_092_288, 50_999_552),
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
SCORES = {
    "small": (57.0, 91.2, 88.0, 87.5, 89.0, 81.3, 88.4, 66.7, 75.8, 70.1),
    "base": (67.7, 95.1, 89.5, 91.2, 91.5, 88.8, 93.2, 82.7, 86.8, 80.5),
    "large": (69.1, 96.9, 90.8, 92.6, 92.4, 90.9, 95.0, 88.0, 89.7, 88.1),
}


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


def discriminator(size: str) -> Checkpoint:
    return released(
        size,
        "discriminator",
        {"generator_hidden_size": WIDTH},
        "pretraining",
        PARAMS[size][0],
        scores=dict(zip(COLUMNS, SCORES[size], strict=True)),
    )


def generator(size: str) -> Checkpoint:
    table_width = SIZES[size].get("embedding_size", SIZES[size]["hidden_size"])
    return released(
        size,
        "generator",
        {**SIZES["small"], "embedding_size": table_width},
        "masked_lm",
        PARAMS[size][1],
        tag="generator",
        encoder="generator",
    )


CHECKPOINTS = [
    *(discriminator(size) for size in SIZES),
    *(generator(size) for size in SIZES),
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
