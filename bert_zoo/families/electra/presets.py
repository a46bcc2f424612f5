"""ELECTRA's settings for fine-tuning and pretraining."""

from bert_zoo.families.bert.presets import (
    ANSWERS,
    CHOICES,
    CLASSES,
    MINI,
    NANO,
    ONE_LENGTH,
    SENTENCES,
    TEXTS,
    is_large,
    own_size,
    width,
)
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

SOURCE = "google-research/electra configure_finetuning.py"
# "" is for small and base. Large has a lower rate that decays less from layer to layer.
RECIPES = {
    "": Recipe(learning_rate=1e-4, layer_decay=0.8),
    "_large": Recipe(learning_rate=5e-5, layer_decay=0.9),
}


def presets(size: str, recipe: Recipe) -> list[Preset]:
    """The presets of a size, all based on one recipe."""

    def fits(config) -> bool:
        return is_large(config) == bool(size)

    longer = [
        Preset(
            f"electra/{benchmark}{size}",
            SENTENCES,
            recipe.replace(epochs=10),
            SOURCE,
            fits=fits,
            benchmark=benchmark,
        )
        for benchmark in ("rte", "stsb")
    ]
    squad = recipe.replace(epochs=2, max_length=512)
    return [
        Preset(f"electra/glue{size}", (*TEXTS, *CHOICES), recipe, SOURCE, fits=fits),
        *longer,
        Preset(f"electra/squad{size}", ANSWERS, squad, SOURCE, fits=fits),
    ]


PRESETS = (
    *(preset for size, recipe in RECIPES.items() for preset in presets(size, recipe)),
    Preset(
        "electra/nano",
        CLASSES,
        Recipe(
            epochs=5,
            least_updates=250,
            least_batch_size=16,
            learning_rate=1e-3,
            bias_correction=True,
            dropout=0.1,
            reinitialized_layers=1,
        ),
        'measured by this project: docs/measured/pretraining.md, "Our own small checkpoints"',
        fits=lambda config: config.hidden_size == NANO["hidden_size"],
        note="Re-initialises the upper layer, which learned little besides detecting replaced tokens.",
    ),
)


def with_generator(config: dict[str, int], generator: int, tables: int) -> dict[str, int]:
    return {**config, "generator_hidden_size": generator, "embedding_size": tables}


# Until the generator uses the context of a mask, a discriminator learns only the rate of replacement. That
# takes about 4,000 updates, whatever the batch size.
MANY_UPDATES = {"batch_size": 32, "total_steps": 24_000}
PRETRAINING = PretrainingPreset(
    rows="full_sentences",
    recipe=Recipe(batch_size=256, total_steps=766_000, warmup_steps=10_000, learning_rate=2e-4),
    phases=((512, 1.0),),
    sizes={
        "nano": own_size(with_generator(NANO, 64, 128), **MANY_UPDATES),
        "mini": own_size(with_generator(MINI, 64, 128), **MANY_UPDATES),
        "small": PretrainingSize(
            with_generator(width(256, 12), 64, 128),
            {"batch_size": 128, "total_steps": 1_000_000, "learning_rate": 5e-4},
            ONE_LENGTH,
        ),
        "base": PretrainingSize(with_generator(width(768, 12), 256, 768)),
        "large": PretrainingSize(
            with_generator(width(1024, 24), 256, 1024),
            {"batch_size": 2048, "total_steps": 400_000},
            objective="replaced_tokens_large",
        ),
    },
    vocabulary="wordpiece",
    lowercase=True,
    source="Clark et al. 2020, appendix A; google-research/electra configure_pretraining.py",
)
