"""Longformer's settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS, of_config
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

SOURCE = "Beltagy et al. 2020 (arXiv:2004.05150), appendix"
# torch's Adam, without weight decay and clipping.
RECIPE = Recipe(
    batch_size=32,
    learning_rate=3e-5,
    schedule="linear_after_warmup",
    weight_decay=0.0,
    epsilon=1e-8,
    bias_correction=True,
    clip_norm=None,
    max_length=4096,
)


def updates(epochs: int, examples: int, warmup_steps: int) -> Recipe:
    """A number of epochs over a data set, with a number of warmup updates."""
    steps = epochs * examples // RECIPE.batch_size
    return RECIPE.replace(epochs=epochs, total_steps=steps, warmup_steps=warmup_steps)


PRESETS = (
    Preset(
        "longformer/classification",
        TEXTS,
        RECIPE.replace(epochs=15),
        f"{SOURCE} D, on IMDB and Hyperpartisan",
        grid={"learning_rate": (3e-5, 5e-5), "epochs": (10, 15, 20)},
        note="The authors kept the best epoch on the development set.",
    ),
    Preset(
        "longformer/triviaqa",
        ANSWERS,
        updates(5, 110_648, warmup_steps=1000),
        f"{SOURCE} C, table 14",
        note="The authors trained on every occurrence of an answer, this program on the first.",
    ),
    Preset(
        "longformer/hotpotqa",
        ANSWERS,
        updates(5, 90_447, warmup_steps=1000).replace(learning_rate=5e-5),
        f"{SOURCE} C, table 14",
        benchmark="hotpotqa",
        grid={"learning_rate": (3e-5, 5e-5), "epochs": (3, 4, 5, 6, 7)},
        note="The paper's text has the rate 3e-5. The authors also trained on evidence and question types.",
    ),
    Preset(
        "longformer/wikihop",
        CHOICES,
        updates(15, 43_738, warmup_steps=200),
        f"{SOURCE} C, table 14",
        note="The authors put all candidates of a question in one row, this program one in each row.",
    ),
)


# Windows and rows of small models, for short texts.
SMALL_ROWS = {"max_positions": 514, "attention_window": 64}


def with_long_rows(name: str, size: PretrainingSize) -> PretrainingSize:
    """One of RoBERTa's sizes with rows of 4,096 tokens, or of 512 for nano and mini."""
    if name in ("nano", "mini"):
        return replace(of_config(size, **SMALL_ROWS), phases=((64, 0.7), (512, 0.3)))
    return of_config(size, max_positions=4098)


PRETRAINING = PretrainingPreset(
    rows="packed_documents",
    recipe=Recipe(
        batch_size=64,
        total_steps=65_000,
        warmup_steps=500,
        learning_rate=3e-5,
        schedule="linear_after_warmup",
        clip_norm=5.0,
    ),
    phases=((4096, 1.0),),
    sizes={name: with_long_rows(name, size) for name, size in SIZES.items()},
    vocabulary="byte_bpe",
    lowercase=False,
    # Published for a model initialised from RoBERTa, with a polynomial decay of power 3.
    source="Beltagy et al. 2020, section 5; allenai/longformer scripts/convert_model_to_long.ipynb",
)
