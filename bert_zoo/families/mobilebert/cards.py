"""MobileBERT's card, and settings for fine-tuning and pretraining."""

from bert_zoo.families.bert.cards import ANSWERS, CHOICES, MINI, NANO, SQUAD, TEXTS, own_size
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

README = "google-research/mobilebert README.md"
PRESETS = (
    Preset(
        "mobilebert/glue",
        (*TEXTS, *CHOICES),
        Recipe(),
        "google-research/mobilebert run_classifier.py, with BERT's defaults",
    ),
    Preset(
        "mobilebert/squad",
        ANSWERS,
        SQUAD.replace(epochs=5, batch_size=32, learning_rate=4e-5),
        README,
    ),
)


def quarter(hidden_size: int, num_layers: int) -> dict[str, int]:
    """The sizes of an encoder with embeddings and bottlenecks a quarter as wide as its hidden states."""
    return {
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "num_heads": 4,
        "intermediate_size": hidden_size,
        "embedding_size": hidden_size // 4,
        "bottleneck_size": hidden_size // 4,
    }


PRETRAINING = PretrainingPreset(
    rows="next_sentence",
    recipe=Recipe(
        optimizer="lamb",
        batch_size=2048,
        total_steps=500_000,
        warmup_steps=10_000,
        learning_rate=0.0015,
    ),
    phases=((512, 1.0),),
    sizes={
        "nano": own_size(NANO | quarter(128, 4)),
        "mini": own_size(MINI | quarter(256, 8)),
        "small": PretrainingSize(quarter(512, 12)),
        "base": PretrainingSize(quarter(512, 24)),
        "large": PretrainingSize(quarter(1024, 24)),
    },
    vocabulary="wordpiece",
    lowercase=True,
    source=f"{README}, run_pretraining.py; without the authors' distillation from a teacher",
)

CHECKPOINTS = [
    Checkpoint(
        "mobilebert_uncased",
        {"hidden_size": 512, "num_layers": 24, "num_heads": 4, "intermediate_size": 512},
        sources=[
            HF("google/mobilebert-uncased"),
            Archive(
                "https://storage.googleapis.com/cloud-tpu-checkpoints/mobilebert/"
                "uncased_L-24_H-128_B-512_A-4_F-4_OPT.tar.gz"
            ),
        ],
        provides=frozenset({"encoder", "masked_lm", "next_sentence_prediction", "pretraining"}),
        params=24_581_888,
        licence="Apache-2.0",
        paper="MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices, arXiv:2004.02984",
        text=TextSpec(lowercase=True),
        # From the paper's abstract.
        scores={
            "GLUE (test score)": 77.7,
            "SQuAD 1.1 (dev F1)": 90.0,
            "SQuAD 2.0 (dev F1)": 79.2,
        },
        note="Use float32 or bfloat16, not float16: without layer normalisation, values of the first token's "
        "vector exceed 10 million.",
    ),
]
