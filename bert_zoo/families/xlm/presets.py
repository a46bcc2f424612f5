"""XLM's settings for fine-tuning and pretraining, from its authors' README."""

from functools import partial

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS, of_config, width
from bert_zoo.presets import OwnRows, Preset, PretrainingPreset, PretrainingSize, Recipe

README = "facebookresearch/XLM README.md"
PRESETS = (
    Preset(
        "xlm/xnli",
        (*TEXTS, *ANSWERS, *CHOICES),
        Recipe(
            batch_size=8,
            learning_rate=5e-6,
            schedule="constant",
            warmup_proportion=0.0,
            weight_decay=0.0,
            clip_norm=None,
            max_length=256,
        ),
        README,
        note="The authors train for up to 250 epochs of 20,000 rows and keep the best.",
    ),
)


def translations(length: int, batch_size: int, languages: tuple[int, ...], *, pairs: bool = True):
    from bert_zoo.families.xlm.rows import (
        Translations,
    )  # needs NumPy, which presets must not import

    return Translations(length, languages, pairs)


PRETRAINING = PretrainingPreset(
    rows="full_sentences",
    recipe=Recipe(
        batch_size=32,
        total_steps=1_000_000,
        warmup_steps=4_000,
        learning_rate=1e-4,
        weight_decay=0.0,
        betas=(0.9, 0.98),
        bias_correction=True,
        clip_norm=5.0,
    ),
    phases=((256, 1.0),),
    sizes=SIZES
    | {
        # With the authors' standard deviation, the tables would outweigh the linear layers.
        "nano": of_config(SIZES["nano"], embedding_initializer_range=0.05),
        "mini": of_config(SIZES["mini"], embedding_initializer_range=0.03),
        "large": PretrainingSize({**width(1024, 12), "num_heads": 8}),
    },
    vocabulary="word_bpe",
    lowercase=True,
    source=f"{README}; there the rate falls with the root of the steps, here linearly to 0",
    own_rows=(
        OwnRows("languages", partial(translations, pairs=False), multilingual=True),
        OwnRows("translations", translations, multilingual=True),
    ),
)
