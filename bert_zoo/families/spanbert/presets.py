"""SpanBERT's settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS
from bert_zoo.presets import Preset, PretrainingPreset, Recipe

# BertAdam clips each gradient separately, and its rate falls from the end of warmup.
RECIPE = Recipe(learning_rate=2e-5, schedule="linear_after_warmup", clip_each=True)
PRESETS = (
    Preset(
        "spanbert/rte",
        TEXTS,
        RECIPE.replace(epochs=10),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="The authors published it for RTE and TACRED, and none for other tasks of GLUE. They clip the gradients "
        "of query, key and value separately; here they are one.",
    ),
    Preset(
        "spanbert/squad",
        ANSWERS,
        RECIPE.replace(epochs=4, max_length=512),
        "facebookresearch/SpanBERT README.md, code/pytorch_pretrained_bert/optimization.py",
        note="The authors clip the gradients of query, key and value separately; here they are one.",
    ),
    Preset(
        "spanbert/swag",
        CHOICES,
        RECIPE.replace(batch_size=16),
        "Devlin et al. 2018, section 4.4, with SpanBERT's optimizer",
    ),
)

# The rate, batch size and updates of base are from the authors' answer in issue 6 of their repository.
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
