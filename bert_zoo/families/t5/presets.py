"""T5's settings for fine-tuning and pretraining."""

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
        note="The paper trains for 262,144 updates and keeps the best checkpoint; the number of epochs here is "
        "BERT's. The paper has no heads other than text_to_text.",
    ),
)


def own_size(config: Mapping[str, Any]) -> PretrainingSize:
    """A size smaller than the paper's, with the architecture of version 1.1.

    Version 1.0 learns slowly from scratch, because its logits come from a token table of standard deviation 1.
    A rate that falls to 0 suits runs of few updates.
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
