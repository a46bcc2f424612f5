"""XLNet's settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families.bert.presets import ANSWERS, CHOICES, SENTENCES, SIZES, TEXTS, is_large
from bert_zoo.presets import OwnRows, Preset, PretrainingPreset, PretrainingSize, Recipe

README, SCRIPTS = "zihangdai/xlnet README.md", "zihangdai/xlnet scripts/"
SPANS = (*ANSWERS, "beam_question_answering")
# TensorFlow's Adam. The rate falls from the end of warmup.
RECIPE = Recipe(
    learning_rate=2e-5,
    schedule="linear_after_warmup",
    weight_decay=0.0,
    bias_correction=True,
)
LONG = RECIPE.replace(max_length=512, warmup_steps=1000)
NO_LAYER_DECAY = (
    "All layers have one rate: the authors scaled gradients by layer, which Adam cancels."
)

PRESETS = (
    Preset(
        "xlnet/glue",
        TEXTS,
        RECIPE,
        README,
        note="The defaults of the authors' program, with BERT's number of epochs.",
    ),
    Preset(
        "xlnet/stsb",
        SENTENCES,
        RECIPE.replace(learning_rate=5e-5, total_steps=1200, warmup_steps=120, epsilon=1e-8),
        README,
        benchmark="stsb",
    ),
    Preset(
        "xlnet/squad",
        SPANS,
        LONG.replace(epochs=4, batch_size=24, total_steps=12_000),
        SCRIPTS + "gpu_squad_base.sh",
        fits=lambda config: not is_large(config),
        note=NO_LAYER_DECAY,
    ),
    Preset(
        "xlnet/squad_large",
        SPANS,
        LONG.replace(epochs=4, batch_size=48, total_steps=8_000, learning_rate=3e-5),
        SCRIPTS + "tpu_squad_large.sh",
        fits=is_large,
        note=NO_LAYER_DECAY,
    ),
    Preset(
        "xlnet/race",
        CHOICES,
        LONG.replace(epochs=5, total_steps=12_000),
        SCRIPTS + "tpu_race_large_bsz32.sh",
    ),
)


def streamed(size: PretrainingSize) -> PretrainingSize:
    """A size without a position table. Rows continue from batch to batch, so all have one length."""
    config = {name: value for name, value in size.config.items() if name != "max_positions"}
    return replace(size, config=config, phases=((64, 1.0),))


def streamed_pairs(length: int, batch_size: int, languages: tuple[int, ...]):
    from bert_zoo.families.xlnet.rows import (
        StreamedPairs,
    )  # needs NumPy, which presets must not import

    return StreamedPairs(length, batch_size)


PRETRAINING = PretrainingPreset(
    rows="streamed_pairs",
    recipe=Recipe(
        batch_size=8192,
        total_steps=500_000,
        warmup_steps=40_000,
        learning_rate=4e-4,
        schedule="linear_after_warmup",
    ),
    phases=((512, 1.0),),
    sizes=SIZES | {name: streamed(SIZES[name]) for name in ("nano", "mini")},
    vocabulary="sentencepiece_cased",
    lowercase=False,
    source="Yang et al. 2019, appendix A.4; zihangdai/xlnet README.md, train.py",
    own_rows=(OwnRows("streamed_pairs", streamed_pairs),),
)
