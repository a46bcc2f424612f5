"""Cards of the released DeBERTa 1 checkpoints."""

from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.family import HF, Checkpoint, TextSpec

PAPER = "DeBERTa: Decoding-enhanced BERT with Disentangled Attention, arXiv:2006.03654"
CASED = TextSpec(lowercase=None)
MNLI_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


def released(name: str, config: dict, params: int, **card) -> Checkpoint:
    """A checkpoint by Microsoft; its repository has the same name."""
    return Checkpoint(
        name,
        config,
        sources=[HF(f"microsoft/{name.replace('_', '-')}")],
        params=params,
        licence="MIT",
        text=CASED,
        **{"paper": PAPER, "provides": frozenset({"encoder", "masked_lm"}), **card},
    )


def on_mnli(checkpoint: Checkpoint) -> Checkpoint:
    """The same checkpoint fine-tuned on MNLI, which was released separately."""
    (source,) = checkpoint.sources
    return Checkpoint(
        checkpoint.name,
        checkpoint.config,
        sources=[HF(f"{source.repo}-mnli")],
        provides=frozenset({"encoder", "classification"}),
        params=checkpoint.params,
        licence=checkpoint.licence,
        paper=checkpoint.paper,
        text=checkpoint.text,
        tag="mnli",
        labels=MNLI_LABELS,
        scores={n: score for n, score in checkpoint.scores.items() if n.startswith("MNLI")},
        note="Fine-tuned on MNLI.",
    )


# microsoft/DeBERTa README.md.
COLUMNS = (
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
    "MNLI (dev accuracy, matched/mismatched)",
    "SST-2 (dev accuracy)",
    "QNLI (dev accuracy)",
    "CoLA (dev Matthews correlation)",
    "RTE (dev accuracy)",
    "MRPC (dev accuracy/F1)",
    "QQP (dev accuracy/F1)",
    "STS-B (dev Pearson/Spearman correlation)",
)


def scores(row: str) -> dict[str, str]:
    """The scores in a row of that table; "-" marks a missing one."""
    return {
        name: value for name, value in zip(COLUMNS, row.split(), strict=True) if value.strip("-/")
    }


# Files of version 1 include the head for masked tokens.
CHECKPOINTS = [
    checkpoint
    for released_one in (
        released("deberta_base", BASE, 138_601_728, scores=scores("- - 88.8/88.5 - - - - - - -")),
        released(
            "deberta_large",
            LARGE,
            405_163_008,
            scores=scores(
                "95.5/90.1 90.7/88.0 91.3/91.1 96.5 95.3 69.5 91.0 92.6/94.6 92.3/- 92.8/92.5"
            ),
        ),
        released(
            "deberta_xlarge",
            LARGE | {"num_layers": 48},
            757_804_032,
            scores=scores("-/- -/- 91.5/91.2 97.0 - - 93.1 92.1/94.3 - 92.9/92.7"),
        ),
    )
    for checkpoint in (released_one, on_mnli(released_one))
]
