"""The released Longformer checkpoints, as data."""

from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec

PAPER = "Longformer: The Long-Document Transformer, arXiv:2004.05150"
ARCHIVES = "https://ai2-s2-research.s3-us-west-2.amazonaws.com/longformer/"
PARAMS = {"base": 148_068_864, "large": 433_551_360}


def released(name: str, size: str, repo: str, archive: str = "", **card) -> Checkpoint:
    """A checkpoint of allenai/longformer: same licence and text for all."""
    sources = [HF(f"allenai/longformer-{size}-4096{repo}")]
    if archive:
        sources.append(Archive(f"{ARCHIVES}{archive}.tar.gz"))
    return Checkpoint(
        name,
        # RoBERTa has no pooler, of whose weights these were made.
        {"base": BASE, "large": LARGE}[size] | {"pooler": False},
        sources=sources,
        params=PARAMS[size],
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=4096),
        **{"provides": frozenset({"encoder", "masked_lm"}), **card},
    )


ONLY_POSITIONS = "RoBERTa's own weights; of the positions alone, those were trained that it lacks."
CHECKPOINTS = [
    released(
        "longformer_base",
        "base",
        "",
        "longformer-base-4096",
        scores={
            "WikiHop (dev accuracy)": 75.0,
            "TriviaQA (dev F1)": 75.2,
            "HotpotQA (dev joint F1)": 64.4,
            "OntoNotes coreference (dev F1)": 78.6,
            "IMDB (dev accuracy)": 95.7,
            "Hyperpartisan (dev F1)": 94.8,
        },
    ),
    released("longformer_large", "large", "", "longformer-large-4096"),
    released(
        "longformer_large_triviaqa",
        "large",
        "-finetuned-triviaqa",
        provides=frozenset({"encoder", "question_answering"}),
        scores={"TriviaQA (dev F1)": 77.8, "TriviaQA (dev exact match)": 73.1},
        note="Fine-tuned on TriviaQA's texts from Wikipedia.",
    ),
    *(
        released(
            f"longformer_{size}_extra_positions", size, "-extra.pos.embd.only", note=ONLY_POSITIONS
        )
        for size in PARAMS
    ),
]
