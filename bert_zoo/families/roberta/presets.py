"""RoBERTa's settings for fine-tuning and pretraining, from the paper and fairseq's files."""

from dataclasses import replace

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS, of_config, of_glue
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# fairseq's optimizer: bias correction, weight decay on all weights, no clipping.
RECIPE = Recipe(
    epochs=10,
    learning_rate=1e-5,
    schedule="linear_after_warmup",
    warmup_proportion=0.06,
    weight_decay=0.1,
    decay_all=True,
    betas=(0.9, 0.98),
    bias_correction=True,
    clip_norm=None,
    max_length=512,
)
# Task -> rows per update, learning rate, updates, warmup.
GLUE = {
    "cola": (16, 1e-5, 5336, 320),
    "mnli": (32, 1e-5, 123873, 7432),
    "mrpc": (16, 1e-5, 2296, 137),
    "qnli": (32, 1e-5, 33112, 1986),
    "qqp": (32, 1e-5, 113272, 28318),
    "rte": (16, 2e-5, 2036, 122),
    "sst2": (32, 1e-5, 20935, 1256),
    "stsb": (16, 2e-5, 3598, 214),
}
RACE = RECIPE.replace(
    epochs=5, batch_size=16, weight_decay=0.01, schedule="constant", warmup_proportion=0.0
)
PRESETS = (
    Preset(
        "roberta/glue",
        TEXTS,
        RECIPE,
        "Liu et al. 2019 (arXiv:1907.11692), table 10",
        grid={"batch_size": (16, 32), "learning_rate": (1e-5, 2e-5, 3e-5)},
    ),
    *of_glue(
        "roberta",
        RECIPE,
        GLUE,
        "fairseq examples/roberta/config/finetuning, examples/roberta/README.glue.md",
        note="The authors tested these settings with RoBERTa-large.",
    ),
    Preset(
        "roberta/squad",
        ANSWERS,
        RECIPE.replace(epochs=2, batch_size=48, learning_rate=1.5e-5, weight_decay=0.01),
        "Liu et al. 2019 (arXiv:1907.11692), table 10",
        note="The stride of windows is BERT's; the paper states none.",
    ),
    Preset("roberta/race", CHOICES, RACE, "fairseq examples/roberta/README.race.md"),
)


def with_padding(size: PretrainingSize) -> PretrainingSize:
    """A size with two more positions, since RoBERTa's first position has index 2."""
    return of_config(size, max_positions=size.config.get("max_positions", 512) + 2)


PRETRAINING = PretrainingPreset(
    rows="full_sentences",
    recipe=RECIPE.replace(
        batch_size=8192,
        total_steps=500_000,
        warmup_steps=24_000,
        learning_rate=6e-4,
        weight_decay=0.01,
    ),
    phases=((512, 1.0),),
    sizes={
        **{name: with_padding(size) for name, size in SIZES.items()},
        "large": replace(
            with_padding(SIZES["large"]),
            changes={"warmup_steps": 30_000, "learning_rate": 4e-4},
        ),
    },
    vocabulary="byte_bpe",
    lowercase=False,
    source="Liu et al. 2019, table 9; fairseq examples/roberta/README.pretraining.md",
)
