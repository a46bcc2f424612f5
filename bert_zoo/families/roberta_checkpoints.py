"""The released RoBERTa checkpoints, as data."""

from bert_zoo.registry import HF, Archive, Checkpoint, TextSpec

FAIRSEQ = "https://dl.fbaipublicfiles.com/fairseq/models/"
PAPER = "RoBERTa: A Robustly Optimized BERT Pretraining Approach, arXiv:1907.11692"
CASED = TextSpec(lowercase=None)
BASE = {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "intermediate_size": 3072}
LARGE = {"hidden_size": 1024, "num_layers": 24, "num_heads": 16, "intermediate_size": 4096}
# fairseq's RoBERTa has none, and Hugging Face's files were made from fairseq's.
NO_POOLER = {"pooler": False}


def fairseq(name: str, hub: str, archive: str, config: dict, params: int, **card) -> Checkpoint:
    """A checkpoint of facebookresearch/fairseq: same licence for all."""
    return Checkpoint(
        name,
        config | NO_POOLER,
        sources=[HF(f"FacebookAI/{hub}"), Archive(f"{FAIRSEQ}{archive}.tar.gz")],
        params=params,
        licence="MIT",
        text=CASED,
        **{"paper": PAPER, "provides": frozenset({"encoder", "masked_lm"}), **card},
    )


# fairseq examples/roberta/README.md; single models, development sets.
CHECKPOINTS = [
    fairseq(
        "roberta_base",
        "roberta-base",
        "roberta.base",
        BASE,
        124_055_040,
        scores={
            "MNLI (dev accuracy)": 87.6,
            "QNLI (dev accuracy)": 92.8,
            "QQP (dev accuracy)": 91.9,
            "RTE (dev accuracy)": 78.7,
            "SST-2 (dev accuracy)": 94.8,
            "MRPC (dev accuracy)": 90.2,
            "CoLA (dev Matthews correlation)": 63.6,
            "STS-B (dev Pearson correlation)": 91.2,
        },
    ),
    fairseq(
        "roberta_large",
        "roberta-large",
        "roberta.large",
        LARGE,
        354_310_144,
        scores={
            "MNLI (dev accuracy)": 90.2,
            "QNLI (dev accuracy)": 94.7,
            "QQP (dev accuracy)": 92.2,
            "RTE (dev accuracy)": 86.6,
            "SST-2 (dev accuracy)": 96.4,
            "MRPC (dev accuracy)": 90.9,
            "CoLA (dev Matthews correlation)": 68.0,
            "STS-B (dev Pearson correlation)": 92.4,
            "SQuAD 1.1 (dev F1/EM)": "94.6/88.9",
            "SQuAD 2.0 (dev F1/EM)": "89.4/86.5",
            "RACE (test accuracy)": 83.2,
        },
    ),
    fairseq(
        "roberta_large_mnli",
        "roberta-large-mnli",
        "roberta.large.mnli",
        LARGE,
        354_310_144,
        provides=frozenset({"encoder", "classification"}),
        labels=["contradiction", "neutral", "entailment"],
        scores={"MNLI (dev accuracy)": 90.6},
        note="Fine-tuned on MNLI; the pair is (premise, hypothesis).",
    ),
    Checkpoint(
        "distilroberta_base",
        BASE | {"num_layers": 6} | NO_POOLER,
        sources=[HF("distilbert/distilroberta-base")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=81_527_808,
        licence="Apache-2.0",
        paper="DistilBERT, a distilled version of BERT, arXiv:1910.01108",
        text=CASED,
        scores={
            "MNLI (dev accuracy)": 84.0,
            "SST-2 (dev accuracy)": 92.5,
            "CoLA (dev Matthews correlation)": 59.3,
            "RTE (dev accuracy)": 67.9,
        },
        note="Distilled from roberta_base.",
    ),
]
