"""The Transformer-XL paper's trainings as data, and one that a laptop does.

Source: kimiyoung/transformer-xl tf/scripts/*.sh (model, training and evaluation of each data set) and
tf/train_gpu.py (what they leave to their defaults).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bert_zoo.families.transformer_xl_checkpoints import CHECKPOINTS, LM1B_CUTOFFS, WT103_CUTOFFS

CHARACTERS_BASE = {
    "num_layers": 12,
    "hidden_size": 512,
    "num_heads": 8,
    "head_size": 64,
    "intermediate_size": 2048,
}
LM1B = {
    "div_val": 4,
    "untie_r": True,
    "tie_projs": (False, False, False, False),
    "proj_same_dim": False,
}


@dataclass(frozen=True)
class Reading:
    """How a stream is read when it is evaluated.

    Attributes:
        segment_length: tokens of a row in one step.
        mem_len, clamp_len, same_length: see `RecurrentConfig`.
        batch_size: rows a step.
    """

    segment_length: int
    mem_len: int
    clamp_len: int = -1
    same_length: bool = True
    batch_size: int = 10

    @property
    def settings(self) -> dict[str, Any]:
        """What of it the encoder's configuration holds."""
        return {name: getattr(self, name) for name in ("mem_len", "clamp_len", "same_length")}


@dataclass(frozen=True)
class LanguageModelRecipe:
    """A model and its training.

    Attributes:
        config: fields of `RecurrentConfig`; `vocab_size` is the vocabulary's.
        unit: what a symbol of the text is: "word", "character" or "byte".
        batch_size: rows a step.
        segment_length: tokens of a row in one step; the memory of training is `mem_len` of `config`.
        total_steps, warmup_steps, learning_rate, floor, clip_norm: see `language_model_adam`.
        evaluation: how the paper read the test set.
        space_token: of characters.
    """

    config: Mapping[str, Any]
    unit: str
    batch_size: int
    segment_length: int
    total_steps: int
    evaluation: Reading
    learning_rate: float = 2.5e-4
    warmup_steps: int = 0
    floor: float = 0.004
    clip_norm: float = 0.25
    space_token: str | None = None


# What a released model's card says of its evaluation, or of its vocabulary.
NOT_OF_TRAINING = ("vocab_size", "mem_len", "clamp_len", "same_length")


def _released(name: str, mem_len: int) -> dict[str, Any]:
    """The model of a released checkpoint, with the memory of its training."""
    (card,) = (card for card in CHECKPOINTS if card.name == f"transformer_xl_{name}")
    config = {key: value for key, value in card.config.items() if key not in NOT_OF_TRAINING}
    return config | {"mem_len": mem_len}


def _characters(config, segment_length, batch_size, total_steps, evaluation, **more):
    config = {"mem_len": segment_length, **config}
    return LanguageModelRecipe(
        config,
        more.pop("unit", "byte"),
        batch_size,
        segment_length,
        total_steps,
        evaluation,
        **more,
    )


BASE_CHARACTERS = (CHARACTERS_BASE, 512, 24, 400_000, Reading(80, 2100, 820))
LARGE_CHARACTERS = (
    _released("enwik8", mem_len=768),
    768,
    64,
    400_000,
    Reading(128, 3800, 1000, batch_size=16),
)
TEXT8 = {"unit": "character", "space_token": "_"}
RECIPES: dict[str, LanguageModelRecipe] = {
    "small": LanguageModelRecipe(
        {
            "num_layers": 4,
            "hidden_size": 128,
            "num_heads": 4,
            "head_size": 32,
            "intermediate_size": 512,
            "mem_len": 64,
        },
        "character",
        batch_size=16,
        segment_length=64,
        total_steps=2000,
        evaluation=Reading(64, 256, same_length=True),
        learning_rate=2e-3,
        warmup_steps=100,
    ),
    "enwik8_base": _characters(*BASE_CHARACTERS),
    "text8_base": _characters(*BASE_CHARACTERS, **TEXT8),
    "enwik8_large": _characters(*LARGE_CHARACTERS, warmup_steps=4000),
    "text8_large": _characters(*LARGE_CHARACTERS, warmup_steps=4000, **TEXT8),
    "wt103_base": LanguageModelRecipe(
        {
            "num_layers": 16,
            "hidden_size": 410,
            "num_heads": 10,
            "head_size": 41,
            "intermediate_size": 2100,
            "cutoffs": WT103_CUTOFFS,
            "untie_r": True,
            "mem_len": 150,
        },
        "word",
        batch_size=60,
        segment_length=150,
        total_steps=400_000,
        evaluation=Reading(64, 640, 400),
    ),
    "wt103_large": LanguageModelRecipe(
        _released("wt103", mem_len=384),
        "word",
        batch_size=128,
        segment_length=384,
        total_steps=4_000_000,
        evaluation=Reading(128, 1600, 1000, batch_size=8),
        warmup_steps=16_000,
        # tf/train.py, for TPUs, ends higher than tf/train_gpu.py.
        floor=0.01,
    ),
    "lm1b_base": LanguageModelRecipe(
        {
            "num_layers": 18,
            "hidden_size": 1024,
            "num_heads": 8,
            "head_size": 128,
            "intermediate_size": 4096,
            "cutoffs": LM1B_CUTOFFS,
            "mem_len": 256,
            **LM1B,
        },
        "word",
        batch_size=256,
        segment_length=256,
        total_steps=400_000,
        evaluation=Reading(32, 128, batch_size=16),
    ),
    "lm1b_large": LanguageModelRecipe(
        _released("lm1b", mem_len=32),
        "word",
        batch_size=512,
        segment_length=32,
        total_steps=1_200_000,
        evaluation=Reading(32, 128, batch_size=8),
        learning_rate=1e-4,
        warmup_steps=30_000,
        floor=0.01,
    ),
}
