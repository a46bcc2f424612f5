"""ModernBERT's cards, and settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families.bert.cards import ANSWERS, CHOICES, MINI, NANO, TEXTS, own_size
from bert_zoo.family import HF, Checkpoint, TextSpec
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# For both. The authors did not clip, because StableAdamW bounds each update; BertAdamW does not.
ADAM = {"betas": (0.9, 0.98), "bias_correction": True, "clip_norm": None}
RECIPE = Recipe(learning_rate=5e-5, weight_decay=8e-6, max_length=512, **ADAM)
SOURCE = "Warner et al. 2024 (arXiv:2412.13663), appendix E.1"
PRESETS = (
    Preset(
        "modernbert/glue",
        (*TEXTS, *CHOICES),
        RECIPE,
        SOURCE,
        grid={
            "learning_rate": (1e-5, 3e-5, 5e-5, 8e-5),
            "weight_decay": (1e-6, 5e-6, 8e-6, 1e-5),
            "epochs": (1, 2, 3),
        },
        note="The middle of the published grid; the authors chose for each task.",
    ),
    Preset(
        "modernbert/squad",
        ANSWERS,
        RECIPE.replace(epochs=2),
        SOURCE,
        note="The settings for GLUE; the paper has no question answering.",
    ),
)


def size(hidden_size: int, num_layers: int, intermediate_size: int, **more) -> dict:
    """The sizes of an encoder with heads of width 64."""
    return {
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "num_heads": hidden_size // 64,
        "intermediate_size": intermediate_size,
        **more,
    }


def small_scale(bert: dict, num_layers: int) -> PretrainingSize:
    """A size smaller than the paper's, about as large as BERT's. Its rate falls, since no second training follows."""
    width = bert["hidden_size"]
    own = own_size(bert | size(width, num_layers, width * 5 // 2))
    return replace(own, changes={**own.changes, "schedule": "linear_after_warmup"})


PRETRAINING = PretrainingPreset(
    rows="packed_documents",
    # 1,719 billion tokens at a constant rate; it fell in a later training on 50 billion more.
    recipe=Recipe(
        batch_size=4608,
        total_steps=364_000,
        warmup_steps=636,
        learning_rate=8e-4,
        schedule="constant",
        weight_decay=1e-5,
        **ADAM,
    ),
    phases=((1024, 1.0),),
    sizes={
        "nano": small_scale(NANO, 3),
        "mini": small_scale(MINI, 4),
        "small": PretrainingSize(size(512, 12, 768)),
        "base": PretrainingSize(size(768, 22, 1152)),
        "large": PretrainingSize(size(1024, 28, 2624), {"learning_rate": 5e-4, "batch_size": 4928}),
    },
    vocabulary="byte_bpe",
    lowercase=False,
    source="Warner et al. 2024, section 2.2, appendix A; AnswerDotAI/ModernBERT yamls/modernbert",
)

PAPER = (
    "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory Efficient, and "
    "Long Context Finetuning and Inference, arXiv:2412.13663"
)

CHECKPOINTS = [
    Checkpoint(
        f"modernbert_{size}",
        {"classifier_pooling": "mean", **config},
        sources=[HF(f"answerdotai/ModernBERT-{size}")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=8192),
        scores=dict(zip(("GLUE (dev average)", "BEIR (DPR, nDCG@10)"), scores, strict=True)),
        note="For English and code. In two of three layers, each token attends to a window of 128 tokens.",
    )
    for size, config, params, scores in (
        ("base", {}, 149_014_272, (88.4, 41.6)),
        (
            "large",
            {"hidden_size": 1024, "num_layers": 28, "num_heads": 16, "intermediate_size": 2624},
            394_781_696,
            (90.4, 44.0),
        ),
    )
]
