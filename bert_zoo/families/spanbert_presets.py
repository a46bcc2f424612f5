"""SpanBERT's fine-tuning settings."""

from bert_zoo.families.bert_presets import ANSWERS, CHOICES, SENTENCES, WORDS
from bert_zoo.presets import Preset, Recipe

# BertAdam clips each gradient alone, and its rate falls from the end of warmup.
RECIPE = Recipe(learning_rate=2e-5, schedule="linear_after_warmup", clip_each=True)
PRESETS = (
    Preset(
        "spanbert/rte",
        (*SENTENCES, *WORDS),
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
