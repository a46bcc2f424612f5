"""ELECTRA's fine-tuning settings."""

from bert_zoo.families.bert_presets import ANSWERS, CHOICES, SENTENCES, WORDS, is_large
from bert_zoo.presets import Preset, Recipe

SOURCE = "google-research/electra configure_finetuning.py"
# Small and base; large has a lower rate, which falls less from layer to layer.
RECIPES = {
    "": Recipe(learning_rate=1e-4, layer_decay=0.8),
    "_large": Recipe(learning_rate=5e-5, layer_decay=0.9),
}


def presets(size: str, recipe: Recipe) -> list[Preset]:
    """The settings of a size, which all its tasks begin from."""

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
        Preset(f"electra/glue{size}", (*SENTENCES, *WORDS, *CHOICES), recipe, SOURCE, fits=fits),
        *longer,
        Preset(f"electra/squad{size}", ANSWERS, squad, SOURCE, fits=fits),
    ]


PRESETS = tuple(preset for size, recipe in RECIPES.items() for preset in presets(size, recipe))
