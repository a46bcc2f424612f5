"""Cards of the released BigBird checkpoints."""

from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.family import HF, Checkpoint, Files, TextSpec

PAPER = "Big Bird: Transformers for Longer Sequences, arXiv:2007.14062"
GOOGLE = "https://storage.googleapis.com/bigbird-transformer/pretrain/bigbr_"
TEXT = TextSpec(lowercase=None, max_length=4096)
NOTE = (
    "Uses the random blocks of Google's code. In evaluation mode, transformers uses block 0 for all of them; "
    'load(..., random_blocks="hf_evaluation") does the same.'
)
# Zaheer et al. 2020, tables 2, 4 and 5.
SCORES = {
    "masked tokens (bits per character)": 1.678,
    "HotpotQA (dev joint F1)": 67.7,
    "TriviaQA (dev F1)": 79.5,
    "WikiHop (dev accuracy)": 75.9,
}


def google(size: str, config: dict, params: int, **card) -> Checkpoint:
    """A pretrained checkpoint. Google's files include no configuration and no vocabulary."""
    names = [f"model.ckpt-0.{part}" for part in ("index", "data-00000-of-00001")]
    return Checkpoint(
        f"bigbird_{size}",
        config,
        sources=[HF(f"google/bigbird-roberta-{size}"), Files(f"{GOOGLE}{size}", names)],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TEXT,
        note=NOTE,
        **card,
    )


CHECKPOINTS = [
    google("base", BASE, 127_468_800, scores=SCORES),
    google("large", LARGE, 359_123_968),
    Checkpoint(
        "bigbird_base_trivia_itc",
        {**BASE, "num_segments": 16, "pooler": False},
        sources=[HF("google/bigbird-base-trivia-itc")],
        provides=frozenset({"encoder", "question_answering"}),
        params=126_888_960,
        licence="Apache-2.0",
        paper=PAPER,
        text=TEXT,
        scores={"TriviaQA (dev F1)": SCORES["TriviaQA (dev F1)"]},
        note=f"Fine-tuned on TriviaQA. {NOTE}",
    ),
]
