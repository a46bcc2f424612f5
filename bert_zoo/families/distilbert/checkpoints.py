"""Cards of the released DistilBERT checkpoints."""

from bert_zoo.family import HF, Checkpoint, TextSpec

PAPER = "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter, arXiv:1910.01108"


def released(name: str, vocab_size: int, params: int, repo: str = "", **card) -> Checkpoint:
    """A checkpoint by Hugging Face. All have the same licence and layer sizes."""
    return Checkpoint(
        name,
        {"vocab_size": vocab_size},
        sources=[HF(f"distilbert/{name.replace('_', '-')}{repo}")],
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        **{"provides": frozenset({"encoder", "masked_lm"}), **card},
    )


def uncased(**card) -> Checkpoint:
    text = TextSpec(lowercase=True)
    return released("distilbert_base_uncased", 30522, 66_362_880, text=text, **card)


CASED = TextSpec(lowercase=False)
CHECKPOINTS = [
    uncased(
        # Hugging Face's distillation README, development sets.
        scores={
            "MNLI (dev accuracy)": 82.1,
            "QNLI (dev accuracy)": 89.2,
            "QQP (dev accuracy)": 88.5,
            "SST-2 (dev accuracy)": 91.3,
            "CoLA (dev Matthews correlation)": 51.3,
            "MRPC (dev)": 87.5,
            "RTE (dev accuracy)": 59.9,
            "STS-B (dev)": 86.9,
        }
    ),
    uncased(
        repo="-finetuned-sst-2-english",
        tag="sst2",
        provides=frozenset({"encoder", "classification"}),
        labels=("NEGATIVE", "POSITIVE"),
        scores={"SST-2 (dev accuracy)": 91.3},
        note="Fine-tuned on SST-2.",
    ),
    uncased(
        repo="-distilled-squad",
        tag="squad",
        provides=frozenset({"encoder", "question_answering"}),
        scores={"SQuAD 1.1 (dev F1)": 86.9, "SQuAD 1.1 (dev exact match)": 79.1},
        note="Distilled on SQuAD 1.1 from a BERT that was fine-tuned on it.",
    ),
    released("distilbert_base_cased", 28996, 65_190_912, text=CASED),
    released(
        "distilbert_base_multilingual_cased",
        119547,
        134_734_080,
        text=CASED,
        aliases=["distilmbert"],
        note="Covers 104 languages.",
    ),
]
