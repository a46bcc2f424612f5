"""Cards of the released SpanBERT checkpoints and of the one that this project trained."""

from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.families.spanbert.presets import PRETRAINING
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec

PAPER = "SpanBERT: Improving Pre-training by Representing and Predicting Spans, arXiv:1907.10529"
FAIRSEQ = "https://dl.fbaipublicfiles.com/fairseq/models/spanbert_"
SIZES = {"base": BASE, "large": LARGE}
PARAMS = {"base": 107_719_680, "large": 332_529_664}
# facebookresearch/SpanBERT README.md.
SCORES = {
    "base": {
        "SQuAD 1.1 (dev F1)": 92.4,
        "SQuAD 2.0 (dev F1)": 83.6,
        "OntoNotes coreference (average F1)": 77.4,
        "TACRED (F1)": 68.2,
    },
    "large": {
        "SQuAD 1.1 (test F1)": 94.6,
        "SQuAD 2.0 (test F1)": 88.7,
        "OntoNotes coreference (average F1)": 79.6,
        "TACRED (F1)": 70.8,
    },
}


def released(size: str, archive: str, *hubs: HF, **card) -> Checkpoint:
    """A checkpoint of facebookresearch/SpanBERT. All have the same licence and vocabulary."""
    return Checkpoint(
        f"spanbert_{size}",
        SIZES[size],
        sources=[*hubs, Archive(f"{FAIRSEQ}{archive}.tar.gz")],
        params=PARAMS[size],
        licence="CC-BY-NC-4.0 (not for commercial use)",
        paper=PAPER,
        text=TextSpec(lowercase=False),
        **{"provides": frozenset({"encoder"}), **card},
    )


def on_squad(size: str, version: str, archive: str) -> Checkpoint:
    return released(
        size,
        archive,
        tag=f"squad{version}",
        provides=frozenset({"encoder", "question_answering"}),
        note=f"Fine-tuned on SQuAD {version}.",
    )


CHECKPOINTS = [
    released("base", "hf_base", HF("SpanBERT/spanbert-base-cased"), scores=SCORES["base"]),
    released("large", "hf", HF("SpanBERT/spanbert-large-cased"), scores=SCORES["large"]),
    released(
        "large",
        "large_with_head",
        tag="with_head",
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        note="Includes the heads for masked tokens and span boundaries.",
    ),
    on_squad("base", "1.1", "squad1_base"),
    on_squad("base", "2.0", "squad2_base"),
    on_squad("large", "1.1", "squad1"),
    on_squad("large", "2.0", "squad2"),
    trained_here(
        "spanbert_nano",
        PRETRAINING.sizes[SIZE].config,
        PAPER,
        sha256="c0607301807b0d887fb88214e0a297905353916b87ab80e9f55fde2f4984b10a",
        params=1_181_440,
        text=TextSpec(lowercase=False, max_length=128),
        scores={
            "held-out loss": 12.061,
            "held-out masked-token loss": 5.88,
            "held-out masked-token loss before training": 7.189,
            "held-out masked-token loss of a unigram model": 7.058,
            "held-out span-boundary loss": 6.181,
        },
    ),
]
