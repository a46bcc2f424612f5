"""Fine-tuning settings of BERT's authors, of others for further tasks, and BERT's pretraining settings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bert_zoo.config import Config
from bert_zoo.presets import SMALL_SCALE, Preset, PretrainingPreset, PretrainingSize, Recipe

CLASSES = ("classification", "multi_label_classification")
SENTENCES = (*CLASSES, "regression", "reranking")
WORDS = ("token_classification",)
TEXTS = (*SENTENCES, *WORDS)
ANSWERS = ("question_answering",)
CHOICES = ("multiple_choice",)


def is_miniature(config: Config) -> bool:
    """Whether a configuration has the width of one of the released miniatures narrower than BERT-base."""
    return config.hidden_size in (128, 256, 512)


def is_large(config: Config) -> bool:
    return config.hidden_size >= 1024


def is_minilm_l6(config: Config) -> bool:
    """Whether it has MiniLM's width and 6 layers, for which the head's range and the batches were tuned."""
    return config.hidden_size == 384 and config.num_layers == 6


def is_minilm_nano(config: Config) -> bool:
    return config.hidden_size == 384 and config.num_layers == 2


def of_glue(
    family: str, recipe: Recipe, settings: Mapping[str, tuple], source: str, note: str = ""
) -> Iterator[Preset]:
    """Presets for the tasks of GLUE; `settings` has rows per update, learning rate, updates and warmup of each."""
    for benchmark, (rows, rate, updates, warmup) in settings.items():
        tuned = recipe.replace(
            batch_size=rows, learning_rate=rate, total_steps=updates, warmup_steps=warmup
        )
        name = f"{family}/{benchmark}"
        yield Preset(name, SENTENCES, tuned, source, benchmark=benchmark, note=note)


GRID = {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
SQUAD = Recipe(epochs=2, batch_size=12, learning_rate=3e-5, max_length=384, stride=128)
SWAG = Recipe(batch_size=16, learning_rate=2e-5)
SUPERGLUE = Recipe(
    epochs=10, batch_size=4, learning_rate=1e-5, schedule="constant", clip_norm=5.0, max_length=256
)
MINILM = Recipe(learning_rate=1e-4, least_updates=150, bias_correction=True)
MEASURED_HERE = (
    'measured by this project: docs/measured/finetuning.md, "Which settings are the default"'
)
PRESETS = (
    Preset(
        "bert/original",
        TEXTS,
        Recipe(),
        "google-research/bert run_classifier.py, README.md; grid: Devlin et al. 2018, appendix A.3",
        grid=GRID,
    ),
    Preset(
        "bert/miniatures",
        TEXTS,
        Recipe(epochs=4, learning_rate=1e-4),
        "google-research/bert README.md, which chooses from the grid for each task",
        fits=is_miniature,
        grid={"batch_size": (8, 16, 32, 64, 128), "learning_rate": (3e-4, 1e-4, 5e-5, 3e-5)},
        note="The middle of the published grid.",
    ),
    Preset(
        "bert/minilm",
        SENTENCES,
        MINILM,
        MEASURED_HERE,
        fits=lambda config: config.hidden_size == 384,
        note="Measured with minilm_l6. For the settings of BERT's authors, use bert/original.",
    ),
    Preset(
        "bert/minilm_l6",
        CLASSES,
        MINILM.replace(head_initializer_range=0.2, least_updates=90, least_batch_size=8),
        MEASURED_HERE,
        fits=is_minilm_l6,
        note="Pooled outputs are small, so the head starts with larger weights. Not for regression, which gets worse.",
    ),
    Preset(
        "bert/minilm_nano",
        CLASSES,
        MINILM.replace(
            epochs=5, learning_rate=3e-4, head_initializer_range=0.2, least_batch_size=8
        ),
        "measured by this project: docs/measured/distillation.md",
        fits=is_minilm_nano,
    ),
    Preset(
        "bert/minilm_l6_scores",
        ("regression",),
        MINILM.replace(epochs=4, batch_size=16),
        MEASURED_HERE,
        fits=is_minilm_l6,
    ),
    Preset(
        "bert/mrpc",
        SENTENCES,
        Recipe(learning_rate=2e-5),
        "google-research/bert README.md",
        benchmark="mrpc",
    ),
    Preset(
        "bert/squad",
        ANSWERS,
        SQUAD,
        "google-research/bert README.md, run_squad.py",
        fits=lambda config: not is_large(config),
    ),
    Preset(
        "bert/squad_large",
        ANSWERS,
        SQUAD.replace(batch_size=24),
        "google-research/bert README.md, run_squad.py",
        fits=is_large,
    ),
    Preset("bert/swag", CHOICES, SWAG, "Devlin et al. 2018, section 4.4"),
    Preset(
        "bert/race",
        CHOICES,
        Recipe(max_length=512),
        "NoviScl/BERT-RACE (third party), which reports 65.0 for BERT-base",
        benchmark="race",
    ),
    *(
        Preset(
            f"bert/{benchmark}",
            CHOICES if benchmark == "copa" else CLASSES,
            SUPERGLUE,
            "Wang et al. 2019 (arXiv:1905.00537); nyu-mll/jiant-v1-legacy config/superglue_bert.conf",
            benchmark=benchmark,
            fits=is_large,
            note="Published for BERT-large, with a rate that falls when the metric stops rising; here it is constant.",
        )
        for benchmark in "boolq cb copa multirc record superglue_rte wic wsc".split()
    ),
)


def width(hidden_size: int, num_layers: int, **more: int) -> dict[str, int]:
    """The sizes of an encoder with heads of width 64 and feed-forward layers of four times its width."""
    return {
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "num_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
        **more,
    }


# The smallest size: its vocabulary and rows suit a few megabytes of text. With initial weights of 0.02, layers
# this narrow pass on almost nothing, and a short training learns only the tokens' frequencies.
NANO = width(128, 2, vocab_size=6_000, max_positions=128) | {
    "initializer_range": 0.05,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
MINI = width(256, 4, vocab_size=10_000, max_positions=128) | {"initializer_range": 0.03}
ONE_LENGTH = ((128, 1.0),)


def own_size(config: Mapping[str, Any], **changes: Any) -> PretrainingSize:
    """A size smaller than the papers'. Training starts with short rows, from which a model learns faster.

    Longer rows, whose later positions are new to the model, come while the learning rate is still high.
    """
    phases = ((32, 0.7), (64, 0.15), (128, 0.15))
    changes = {**SMALL_SCALE, **changes}
    return PretrainingSize(config, changes, phases, starts_from_frequencies=True)


def of_config(size: PretrainingSize, **fields: Any) -> PretrainingSize:
    """A size with some fields of its configuration replaced."""
    return replace(size, config={**size.config, **fields})


# mini and small have the layers and widths of Turc et al. 2019 (arXiv:1908.08962).
SIZES = {
    "nano": own_size(NANO),
    "mini": own_size(MINI),
    "small": PretrainingSize(width(512, 4)),
    "base": PretrainingSize(width(768, 12)),
    "large": PretrainingSize(width(1024, 24)),
}
PRETRAINING = PretrainingPreset(
    rows="next_sentence",
    recipe=Recipe(batch_size=256, total_steps=1_000_000, warmup_steps=10_000, learning_rate=1e-4),
    phases=((128, 0.9), (512, 0.1)),
    sizes=SIZES,
    vocabulary="wordpiece",
    lowercase=True,
    source="Devlin et al. 2018, appendix A.2; google-research/bert README.md, run_pretraining.py",
)
