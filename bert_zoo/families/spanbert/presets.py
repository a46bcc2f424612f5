"""SpanBERT's fine-tuning settings."""

from dataclasses import replace

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS
from bert_zoo.presets import Preset, PretrainingPreset, Recipe

# BertAdam clips each gradient alone, and its rate falls from the end of warmup.
RECIPE = Recipe(learning_rate=2e-5, schedule="linear_after_warmup", clip_each=True)
PRESETS = (
    Preset(
        "spanbert/rte",
        TEXTS,
        RECIPE.replace(epochs=10),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="Its one published setting for GLUE, and TACRED's too. Query, key and value are one "
        "gradient here, and three there.",
    ),
    Preset(
        "spanbert/squad",
        ANSWERS,
        RECIPE.replace(epochs=4, max_length=512),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="Query, key and value are one gradient here, and three there.",
    ),
    Preset(
        "spanbert/swag",
        CHOICES,
        RECIPE.replace(batch_size=16),
        "Devlin et al. 2018, section 4.4, with SpanBERT's optimizer",
    ),
)

# Base's rate, rows and updates are those of its authors' answer in issue 6 of their repository.
PRETRAINING = PretrainingPreset(
    rows="doc_sentences",
    recipe=Recipe(
        batch_size=2048,
        total_steps=300_000,
        warmup_steps=10_000,
        learning_rate=5e-4,
        schedule="linear_after_warmup",
        epsilon=1e-8,
        bias_correction=True,
        decay_all=True,
    ),
    phases=((512, 1.0),),
    sizes=SIZES
    | {
        "large": replace(
            SIZES["large"],
            changes={"batch_size": 256, "total_steps": 2_400_000, "learning_rate": 1e-4},
        ),
    },
    vocabulary="wordpiece",
    lowercase=False,
    source="facebookresearch/SpanBERT pretraining/README.md; Joshi et al. 2020, section 4.2",
)
