"""The released DistilBERT checkpoints, as data."""

from bert_zoo.registry import HF, Checkpoint, TextSpec

PAPER = "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter, arXiv:1910.01108"


def released(name: str, repo: str, vocab_size: int, params: int, **card) -> Checkpoint:
    """A checkpoint of Hugging Face: same licence and size of the layers for all."""
    return Checkpoint(
        name,
        {"vocab_size": vocab_size},
        sources=[HF(f"distilbert/{repo}")],
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        **{"provides": frozenset({"encoder", "masked_lm"}), **card},
    )


UNCASED, CASED = TextSpec(lowercase=True), TextSpec(lowercase=False)
CHECKPOINTS = [
    released(
        "distilbert_base_uncased",
        "distilbert-base-uncased",
        30522,
        66_362_880,
        text=UNCASED,
        # Hugging Face's distillation README, development sets.
        scores={
            "MNLI (dev accuracy)": 82.1,
            "QNLI (dev accuracy)": 89.2,
            "QQP (dev accuracy)": 88.5,
            "SST-2 (dev accuracy)": 91.3,
            "CoLA (dev Matthews)": 51.3,
            "MRPC (dev)": 87.5,
            "RTE (dev accuracy)": 59.9,
            "STS-B (dev)": 86.9,
        },
    ),
    released(
        "distilbert_base_uncased",
        "distilbert-base-uncased-finetuned-sst-2-english",
        30522,
        66_362_880,
        tag="sst2",
        text=UNCASED,
        provides=frozenset({"encoder", "classification"}),
        labels=("NEGATIVE", "POSITIVE"),
        scores={"SST-2 (dev accuracy)": 91.3},
        note="Fine-tuned on SST-2.",
    ),
    released(
        "distilbert_base_uncased",
        "distilbert-base-uncased-distilled-squad",
        30522,
        66_362_880,
        tag="squad",
        text=UNCASED,
        provides=frozenset({"encoder", "question_answering"}),
        scores={"SQuAD 1.1 (dev F1)": 86.9, "SQuAD 1.1 (dev exact match)": 79.1},
        note="Distilled on SQuAD 1.1, with a BERT that was fine-tuned on it as the teacher.",
    ),
    released("distilbert_base_cased", "distilbert-base-cased", 28996, 65_190_912, text=CASED),
    released(
        "distilbert_base_multilingual_cased",
        "distilbert-base-multilingual-cased",
        119547,
        134_734_080,
        text=CASED,
        note="104 languages.",
    ),
]
