"""Cards of the released Transformer-XL checkpoints.

All four come from the TensorFlow program; Hugging Face converted wt103 from it. `mem_len`, `clamp_len` and
`same_length` are set as in the program's evaluation (tf/sota/*.sh), which gave the paper's scores. Training
used a shorter memory and neither `clamp_len` nor `same_length`.
"""

from functools import partial
from typing import Any

from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Checkpoint, Files, TextSpec
from bert_zoo.presets import LanguageModelPreset, Reading

CMU = "https://curtis.ml.cmu.edu/datasets/pretrained_xl"
PAPER = "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, arXiv:1901.02860"
WT103_CUTOFFS = (20000, 40000, 200000)
LM1B_CUTOFFS = (60000, 100000, 640000)
CHARACTERS = {
    "hidden_size": 1024,
    "num_layers": 24,
    "num_heads": 8,
    "head_size": 128,
    "intermediate_size": 3072,
    "hidden_dropout": 0.15,
    "attention_dropout": 0.15,
    "mem_len": 3800,
    "clamp_len": 1000,
}
WORDS = {"div_val": 4, "untie_r": True, "initializer_range": 0.005}


def cmu(name: str, step: int, config: dict, params: int, score: str, value: float, **card):
    """A checkpoint of kimiyoung/transformer-xl. All have the same licence and paper."""
    directory = {"enwik8": "tf_enwiki8"}.get(name, f"tf_{name}")
    checkpoint = f"model/model.ckpt-{step}"
    # cache.pkl holds the vocabulary and the whole encoded corpus.
    files = [f"{checkpoint}.data-00000-of-00001", f"{checkpoint}.index", "data/cache.pkl"]
    return Checkpoint(
        f"transformer_xl_{name}",
        {"same_length": True, **config},
        sources=[*card.pop("hubs", []), Files(f"{CMU}/{directory}", files)],
        provides=frozenset({"encoder", "causal_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=2048),
        scores={score: value},
        **card,
    )


CHECKPOINTS = [
    cmu(
        "wt103",
        0,
        WORDS
        | {
            "vocab_size": 267735,
            "hidden_size": 1024,
            "num_layers": 18,
            "num_heads": 16,
            "head_size": 64,
            "intermediate_size": 4096,
            "cutoffs": WT103_CUTOFFS,
            "hidden_dropout": 0.2,
            "attention_dropout": 0.2,
            "mem_len": 1600,
            "clamp_len": 1000,
        },
        285_205_322,
        "WikiText-103 (test perplexity)",
        18.3,
        hubs=[HF("transfo-xl/transfo-xl-wt103")],
        note="The paper and Hugging Face give 257M parameters; the tensors have 285.2M.",
    ),
    cmu(
        "enwik8",
        0,
        CHARACTERS | {"vocab_size": 204},
        277_231_820,
        "enwik8 (test bits per character)",
        0.99,
    ),
    cmu(
        "text8",
        0,
        CHARACTERS | {"vocab_size": 27},
        277_050_395,
        "text8 (test bits per character)",
        1.08,
    ),
    cmu(
        "lm1b",
        1191000,
        WORDS
        | {
            "vocab_size": 793471,
            "hidden_size": 1280,
            "num_layers": 24,
            "num_heads": 16,
            "head_size": 80,
            "intermediate_size": 8192,
            "cutoffs": LM1B_CUTOFFS,
            "tie_projs": (False, False, False, False),
            "proj_same_dim": False,
            "hidden_dropout": 0.05,
            "attention_dropout": 0.05,
            "mem_len": 128,
        },
        838_078_062,
        "One Billion Word (test perplexity)",
        21.8,
    ),
]

# Settings of the Transformer-XL paper's trainings, and of smaller ones.
#
# Source: kimiyoung/transformer-xl tf/scripts/*.sh (model, training and evaluation of each data set) and
# tf/train_gpu.py (defaults).

# Fields of a released model's card that describe its evaluation or its vocabulary.
NOT_OF_TRAINING = ("vocab_size", "mem_len", "clamp_len", "same_length")


def _released(name: str, mem_len: int) -> dict[str, Any]:
    """The configuration of a released checkpoint, with the memory used in training."""
    (card,) = (card for card in CHECKPOINTS if card.name == f"transformer_xl_{name}")
    config = {key: value for key, value in card.config.items() if key not in NOT_OF_TRAINING}
    return config | {"mem_len": mem_len}


def _sizes(num_layers: int, hidden_size: int, num_heads: int, intermediate_size: int, **more):
    return {
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "head_size": hidden_size // num_heads,
        "intermediate_size": intermediate_size,
        **more,
    }


_preset = partial(LanguageModelPreset, family="transformer_xl")
_base_characters = partial(
    _preset,
    config=_sizes(12, 512, 8, 2048, mem_len=512),
    batch_size=24,
    segment_length=512,
    total_steps=400_000,
    evaluation=Reading(80, 2100, 820),
)
_large_characters = partial(
    _preset,
    config=_released("enwik8", mem_len=768),
    batch_size=64,
    segment_length=768,
    total_steps=400_000,
    evaluation=Reading(128, 3800, 1000, batch_size=16),
    warmup_steps=4000,
)

PRESETS = (
    _preset(
        "characters_nano",
        config=_sizes(4, 128, 4, 512, mem_len=64),
        unit="character",
        batch_size=16,
        segment_length=64,
        total_steps=2000,
        evaluation=Reading(64, 256),
        learning_rate=2e-3,
        warmup_steps=100,
    ),
    # Our own settings for a few to a few hundred megabytes of text, on a few cores or one GPU.
    _preset(
        "words_nano",
        config=_sizes(4, 128, 4, 512, cutoffs=(2_000, 4_000), div_val=2, mem_len=32),
        unit="word",
        batch_size=32,
        segment_length=32,
        total_steps=20_000,
        evaluation=Reading(32, 64),
        size="nano",
        vocab_size=8_000,
        learning_rate=1e-3,
        warmup_steps=400,
    ),
    _preset(
        "words_mini",
        config=_sizes(6, 256, 4, 1024, cutoffs=(4_000, 8_000), div_val=2, mem_len=64),
        unit="word",
        batch_size=32,
        segment_length=64,
        total_steps=50_000,
        evaluation=Reading(64, 128),
        size="mini",
        vocab_size=16_000,
        learning_rate=5e-4,
        warmup_steps=1_000,
    ),
    _preset(
        "words_small",
        config=_sizes(8, 320, 8, 1280, cutoffs=(8_000, 16_000), div_val=2, mem_len=128),
        unit="word",
        batch_size=32,
        segment_length=128,
        total_steps=100_000,
        evaluation=Reading(128, 256),
        size="small",
        vocab_size=32_000,
        learning_rate=3e-4,
        warmup_steps=2_000,
    ),
    _base_characters("enwik8_base", unit="byte"),
    _base_characters("text8_base", unit="character", space_token="_"),
    _large_characters("enwik8_large", unit="byte"),
    _large_characters("text8_large", unit="character", space_token="_"),
    _preset(
        "wt103_base",
        config=_sizes(16, 410, 10, 2100, cutoffs=WT103_CUTOFFS, untie_r=True, mem_len=150),
        unit="word",
        batch_size=60,
        segment_length=150,
        total_steps=400_000,
        evaluation=Reading(64, 640, 400),
        size="base",
    ),
    _preset(
        "wt103_large",
        config=_released("wt103", mem_len=384),
        unit="word",
        batch_size=128,
        segment_length=384,
        total_steps=4_000_000,
        evaluation=Reading(128, 1600, 1000, batch_size=8),
        size="large",
        warmup_steps=16_000,
        # tf/train.py (for TPUs) ends at a higher rate than tf/train_gpu.py.
        floor=0.01,
    ),
    _preset(
        "lm1b_base",
        config=_sizes(
            18,
            1024,
            8,
            4096,
            cutoffs=LM1B_CUTOFFS,
            mem_len=256,
            div_val=4,
            untie_r=True,
            tie_projs=(False, False, False, False),
            proj_same_dim=False,
        ),
        unit="word",
        batch_size=256,
        segment_length=256,
        total_steps=400_000,
        evaluation=Reading(32, 128, batch_size=16),
    ),
    _preset(
        "lm1b_large",
        config=_released("lm1b", mem_len=32),
        unit="word",
        batch_size=512,
        segment_length=32,
        total_steps=1_200_000,
        evaluation=Reading(32, 128, batch_size=8),
        learning_rate=1e-4,
        warmup_steps=30_000,
        floor=0.01,
    ),
)

(PRESET,) = (preset for preset in PRESETS if preset.size == SIZE)
NANO = trained_here(
    "transformer_xl_nano",
    {**PRESET.config, "vocab_size": 8001},
    PAPER,
    sha256="df5f9c7200dc6f7f3ba270d57018377d6919fcfa305eff04cb07219d97683075",
    params=1_422_179,
    scores={
        "held-out loss": 4.712,
        "held-out loss before training": 8.428,
        "held-out loss of a unigram model": 6.026,
    },
    provides=frozenset({"encoder", "causal_lm"}),
    text=TextSpec(lowercase=False, max_length=2048),
)
