"""Cards of fast.ai's AWD-LSTMs and of the one that this project trained."""

from bert_zoo.families.awd_lstm.presets import LANGUAGE_MODELS
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import Archive, Checkpoint, TextSpec

URL = "https://s3.amazonaws.com/fast-ai-modelzoo"
PAPER = "Universal Language Model Fine-tuning for Text Classification, arXiv:1801.06146"


def wt103(direction: str, tag: str, note: str) -> Checkpoint:
    """A model trained on WikiText-103. Both directions have the same sizes."""
    return Checkpoint(
        "awd_lstm_wt103",
        {"vocab_size": 60_002},
        tag=tag,
        sources=[Archive(f"{URL}/wt103-{direction}.tgz")],
        provides=frozenset({"encoder", "causal_lm"}),
        params=44_334_082,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=1400),
        note=note,
    )


SIZES = (
    "The sizes shown are those that fast.ai published; `load` reads the actual ones from the file."
)
(NANO,) = (preset for preset in LANGUAGE_MODELS if preset.size == SIZE)
CHECKPOINTS = [
    wt103("fwd", "forwards", f"Reads text from the first token to the last. {SIZES}"),
    wt103("bwd", "backwards", f"Reads text from the last token to the first. {SIZES}"),
    trained_here(
        "awd_lstm_nano",
        {**NANO.config, "vocab_size": 8001},
        PAPER,
        sha256="deaefdbec99c67fdfdcc996d1ee426da92755102e3a2a3ac592926d2c0659522",
        params=1_625_025,
        scores={
            "held-out loss": 4.404,
            "held-out loss before training": 8.986,
            "held-out loss of a unigram model": 6.026,
        },
        provides=frozenset({"encoder", "causal_lm"}),
        text=TextSpec(lowercase=False, max_length=2048),
    ),
]
