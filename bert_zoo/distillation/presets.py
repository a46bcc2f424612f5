"""Objectives of distillation on plain text, with their published settings. Nothing here imports Keras."""

from dataclasses import dataclass

from bert_zoo.presets import Recipe


@dataclass(frozen=True)
class TextPreset:
    """An objective of distillation on text."""

    about: str  # what the student learns, for program help
    recipe: Recipe  # published settings; `max_length` is in tokens per row
    source: str  # publication of the settings
    options: tuple[str, ...] = ()  # names of the objective's options


_MINILM = Recipe(
    batch_size=1024,
    gradient_accumulation_steps=64,
    learning_rate=5e-4,
    schedule="linear_after_warmup",
    warmup_proportion=0.01,
    bias_correction=True,
    max_length=512,
)
# Value of --objective -> preset.
TEXT_PRESETS: dict[str, TextPreset] = {
    "triple": TextPreset(
        "predictions, masked tokens and hidden states (DistilBERT)",
        Recipe(
            batch_size=250,
            gradient_accumulation_steps=50,
            learning_rate=5e-4,
            schedule="linear_after_warmup",
            warmup_proportion=0.05,
            weight_decay=0.0,
            betas=(0.9, 0.98),
            bias_correction=True,
            clip_norm=5.0,
            max_length=512,
        ),
        "Sanh et al. 2019 (arXiv:1910.01108), their README and train.py",
    ),
    "layers": TextPreset(
        "attention scores and hidden states of every layer (TinyBERT)",
        Recipe(
            batch_size=256,
            gradient_accumulation_steps=8,
            learning_rate=5e-5,
            schedule="linear_after_warmup",
            warmup_proportion=0.1,
            clip_each=True,
            max_length=128,
        ),
        "Jiao et al. 2020 (arXiv:1909.10351), their README and general_distill.py",
        ("layer_map",),
    ),
    "relations_v1": TextPreset(
        "attention and relations of values of the last layer (MiniLM)",
        _MINILM,
        "Wang et al. 2020 (arXiv:2002.10957), section 4",
        ("teacher_layer",),
    ),
    "relations": TextPreset(
        "relations of queries, keys and values of one layer (MiniLM, version 2)",
        _MINILM.replace(batch_size=256, gradient_accumulation_steps=16, learning_rate=6e-4),
        "Wang et al. 2021 (arXiv:2012.15828), section 4",
        ("teacher_layer", "relation_heads"),
    ),
}
