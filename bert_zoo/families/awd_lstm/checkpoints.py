"""fast.ai's released AWD-LSTMs, as data."""

from bert_zoo.family import Archive, Checkpoint, TextSpec

URL = "https://s3.amazonaws.com/fast-ai-modelzoo"
PAPER = "Universal Language Model Fine-tuning for Text Classification, arXiv:1801.06146"


def wt103(direction: str, tag: str, note: str) -> Checkpoint:
    """A model of WikiText-103: same sizes for both directions."""
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


CHECKPOINTS = [
    wt103("fwd", "forwards", "Sizes on the card are fast.ai's; the file's own are taken."),
    wt103("bwd", "backwards", "It reads a text from its last token to its first."),
]
