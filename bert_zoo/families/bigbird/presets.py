"""BigBird's settings of fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families.bert.presets import SENTENCES, SIZES, of_config
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# Of both: the program's Adam is BERT's, and gradients are not clipped.
RECIPE = Recipe(clip_norm=None, max_length=4096)
PRESETS = (
    Preset(
        "bigbird/classification",
        SENTENCES,
        RECIPE.replace(batch_size=64, learning_rate=1e-5, total_steps=16_000, warmup_steps=1_000),
        "google-research/bigbird bigbird/classifier/base_size.sh, run_classifier.py",
        note="Two rows on each of 32 cores there.",
    ),
)
# Of a vocabulary that is made of the text; Google's has the separator elsewhere.
MADE = {"sep_id": 3}
# Rows of a nano model are long enough for blocks to see a part of them.
SMALL_BLOCKS = {"max_positions": 512, "block_size": 16, "num_random_blocks": 1}


def of_made_vocabulary(name: str, size: PretrainingSize) -> PretrainingSize:
    """A size of BERT's for rows of 4,096 tokens, or, of those that are trained here, of 512."""
    if name in ("nano", "mini"):
        size = replace(of_config(size, **SMALL_BLOCKS), phases=((64, 0.7), (512, 0.3)))
    return of_config(size, **MADE)


PRETRAINING = PretrainingPreset(
    rows="doc_sentences",
    recipe=RECIPE.replace(
        batch_size=32, learning_rate=1e-4, total_steps=100_000, warmup_steps=10_000
    ),
    phases=((4096, 1.0),),
    sizes={name: of_made_vocabulary(name, size) for name, size in SIZES.items()},
    vocabulary="sentencepiece",
    lowercase=False,
    source="google-research/bigbird bigbird/pretrain/run_pretraining.py, bigbird/core/flags.py",
)
