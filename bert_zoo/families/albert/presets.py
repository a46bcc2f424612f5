"""ALBERT's settings for fine-tuning and pretraining."""

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SIZES, TEXTS, of_config, of_glue, width
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# Task -> rows per update, learning rate, updates, warmup.
GLUE = {
    "cola": (16, 1e-5, 5336, 320),
    "mnli": (128, 3e-5, 10000, 1000),
    "mrpc": (32, 2e-5, 800, 200),
    "qnli": (32, 1e-5, 33112, 1986),
    "qqp": (128, 5e-5, 14000, 1000),
    "rte": (32, 3e-5, 800, 200),
    "sst2": (32, 1e-5, 20935, 1256),
    "stsb": (16, 2e-5, 3598, 214),
}
# The number of updates sets the length of training, so the epochs must not end it earlier.
BY_UPDATES = Recipe(epochs=1000, max_length=512)
PRESETS = (
    Preset(
        "albert/glue",
        TEXTS,
        Recipe(learning_rate=2e-5, max_length=512),
        "google-research/albert run_glue.sh, with rates from 1e-5 to 5e-5; BERT's number of epochs",
        grid={"batch_size": (16, 32, 128), "learning_rate": (1e-5, 2e-5, 3e-5, 5e-5)},
        note="Google published numbers of updates for the tasks of GLUE only; they do not apply to other data.",
    ),
    *of_glue("albert", BY_UPDATES, GLUE, "google-research/albert run_glue.sh"),
    Preset(
        "albert/squad",
        ANSWERS,
        Recipe(epochs=2, batch_size=48, max_length=384),
        "google-research/albert README.md",
    ),
    Preset(
        "albert/race",
        CHOICES,
        BY_UPDATES.replace(total_steps=12000, warmup_steps=1000, learning_rate=1e-5),
        "google-research/albert README.md, run_race.py",
        note="Version 2 diverges with dropout in the encoder, so its configuration has none.",
    ),
)

PRETRAINING = PretrainingPreset(
    rows="sentence_order",
    recipe=Recipe(
        optimizer="lamb",
        batch_size=4096,
        total_steps=125_000,
        warmup_steps=3125,
        learning_rate=0.00176,
    ),
    phases=((512, 1.0),),
    sizes=SIZES
    | {
        "nano": of_config(SIZES["nano"], embedding_size=64),
        "small": PretrainingSize(width(512, 6)),
    },
    vocabulary="sentencepiece",
    lowercase=True,
    source="Lan et al. 2019, section 4.1; google-research/albert README.md, run_pretraining.py",
)
