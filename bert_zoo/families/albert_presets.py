"""ALBERT's fine-tuning settings."""

from bert_zoo.families.bert_presets import ANSWERS, CHOICES, SENTENCES, WORDS
from bert_zoo.presets import Preset, Recipe

# Task -> warmup, learning rate, updates, rows an update.
GLUE = {
    "cola": (320, 1e-5, 5336, 16),
    "mnli": (1000, 3e-5, 10000, 128),
    "mrpc": (200, 2e-5, 800, 32),
    "qnli": (1986, 1e-5, 33112, 32),
    "qqp": (1000, 5e-5, 14000, 128),
    "rte": (200, 3e-5, 800, 32),
    "sst2": (1256, 1e-5, 20935, 32),
    "stsb": (214, 2e-5, 3598, 16),
}
# The updates say how long a training is: no number of passes is to cut it short.
ANY_EPOCHS = 1000
PRESETS = (
    Preset(
        "albert/glue",
        (*SENTENCES, *WORDS),
        Recipe(learning_rate=2e-5, max_length=512),
        "google-research/albert run_glue.sh, whose rates run from 1e-5 to 5e-5; epochs are BERT's",
        grid={"batch_size": (16, 32, 128), "learning_rate": (1e-5, 2e-5, 3e-5, 5e-5)},
        note="Google publishes updates for each task of GLUE alone, which say nothing of other data.",
    ),
    *(
        Preset(
            f"albert/{benchmark}",
            SENTENCES,
            Recipe(
                epochs=ANY_EPOCHS,
                total_steps=updates,
                warmup_steps=warmup,
                batch_size=rows,
                learning_rate=rate,
                max_length=512,
            ),
            "google-research/albert run_glue.sh",
            benchmark=benchmark,
        )
        for benchmark, (warmup, rate, updates, rows) in GLUE.items()
    ),
    Preset(
        "albert/squad",
        ANSWERS,
        Recipe(epochs=2, batch_size=48, max_length=384),
        "google-research/albert README.md",
    ),
    Preset(
        "albert/race",
        CHOICES,
        Recipe(
            epochs=ANY_EPOCHS,
            total_steps=12000,
            warmup_steps=1000,
            learning_rate=1e-5,
            max_length=512,
        ),
        "google-research/albert README.md, run_race.py",
        note="Version 2 diverges with dropout in the encoder; its configuration has none.",
    ),
)
