"""Published settings for fine-tuning GPT."""

from bert_zoo.families.bert.presets import SENTENCES
from bert_zoo.presets import Preset, Recipe

RECIPE = Recipe(
    epochs=3,
    batch_size=32,
    learning_rate=6.25e-5,
    schedule="linear_after_warmup",
    warmup_proportion=0.002,
    weight_decay=0.01,
    epsilon=1e-8,
    max_length=512,
)
PRESETS = (
    Preset(
        "gpt/glue",
        SENTENCES,
        RECIPE,
        "Radford et al. 2018, section 4.1; openai/finetune-transformer-lm",
    ),
)
