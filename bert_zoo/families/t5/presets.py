"""T5's settings of fine-tuning and of pretraining."""

from collections.abc import Mapping
from typing import Any

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, TEXTS, width
from bert_zoo.families.t5.config import GATED
from bert_zoo.presets import SMALL_SCALE, Preset, PretrainingPreset, PretrainingSize, Recipe

RECIPE = Recipe(optimizer="adafactor", weight_decay=0.0, clip_norm=None, batch_size=128)
FINE_TUNING = RECIPE.replace(
    schedule="constant", learning_rate=1e-3, warmup_proportion=0.0, max_length=512
)
PRESETS = (
    Preset(
        "t5/texts",
        ("text_to_text", *TEXTS, *ANSWERS, *CHOICES),
        FINE_TUNING,
        "Raffel et al. 2020, section 3.1.3",
        note="The paper has 262,144 updates for every task, and chooses among their checkpoints; the number "
        "of epochs is BERT's. It has heads of no other kind than that of text_to_text.",
    ),
)


def own_size(config: Mapping[str, Any]) -> PretrainingSize:
    """A model of a size below the paper's, in the shape of version 1.1.

    Version 1.0 learns slowly from nothing: its outputs are the products with a table of deviation 1. A
    rate that falls to 0 suits runs of few updates.
    """
    changes = {name: SMALL_SCALE[name] for name in ("batch_size", "total_steps", "warmup_steps")}
    changes |= {"learning_rate": 0.03, "schedule": "linear_after_warmup"}
    unregularised = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    return PretrainingSize({**config, **GATED, **unregularised}, changes, ((64, 0.7), (128, 0.3)))


PRETRAINING = PretrainingPreset(
    rows="joined_documents",
    recipe=RECIPE.replace(
        schedule="inverse_sqrt", learning_rate=0.01, total_steps=2**19, warmup_steps=10_000
    ),
    phases=((512, 1.0),),
    sizes={
        "nano": own_size(width(128, 2, vocab_size=4_000)),
        "mini": own_size(width(256, 4, vocab_size=8_000)),
        "small": PretrainingSize(width(512, 6)),
        "base": PretrainingSize(width(768, 12)),
        "large": PretrainingSize(width(1024, 24)),
    },
    vocabulary="sentencepiece_sentinels",
    lowercase=False,
    source="Raffel et al. 2020, sections 3.1.2 and 3.1.4",
)
