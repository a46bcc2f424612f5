"""Cards of the released Longformer checkpoints."""

from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.families.roberta.presets import PRETRAINING as ROBERTA
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec

PAPER = "Longformer: The Long-Document Transformer, arXiv:2004.05150"
ARCHIVES = "https://ai2-s2-research.s3-us-west-2.amazonaws.com/longformer/"
PARAMS = {"base": 148_068_864, "large": 433_551_360}


def released(name: str, size: str, repo: str, archive: str = "", **card) -> Checkpoint:
    """A checkpoint of allenai/longformer. All have the same licence and tokenizer."""
    sources = [HF(f"allenai/longformer-{size}-4096{repo}")]
    if archive:
        sources.append(Archive(f"{ARCHIVES}{archive}.tar.gz"))
    return Checkpoint(
        name,
        # They were made from RoBERTa's weights, which have no pooler.
        {"base": BASE, "large": LARGE}[size] | {"pooler": False},
        sources=sources,
        params=PARAMS[size],
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=4096),
        **{"provides": frozenset({"encoder", "masked_lm"}), **card},
    )


ONLY_POSITIONS = (
    "RoBERTa's weights, unchanged; only the additional position embeddings were trained."
)
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
        note="Fine-tuned on TriviaQA (Wikipedia).",
    ),
    *(
        released(
            f"longformer_{size}_extra_positions", size, "-extra.pos.embd.only", note=ONLY_POSITIONS
        )
        for size in PARAMS
    ),
    trained_here(
        "longformer_nano",
        {**ROBERTA.sizes[SIZE].config, "max_positions": 4098, "pooler": False},
        PAPER,
        sha256="bd059ee2d038f6aa4c7ff7551016a710aef614d961443230472518a029b10e2a",
        params=1_788_544,
        scores={
            "held-out loss": 3.666,
            "held-out loss before training": 6.302,
            "held-out loss of a unigram model": 6.920,
        },
        provides=frozenset({"encoder", "masked_lm"}),
        text=TextSpec(lowercase=None, max_length=4096),
        note="roberta_nano, lengthened with bert_zoo.lengthen and trained further on whole documents. For tests, "
        "examples and first tries without a network; not for real use.",
    ),
]
