"""Cards of the released XLNet checkpoints."""

from bert_zoo.family import HF, Archive, Checkpoint, TextSpec

PAPER = "XLNet: Generalized Autoregressive Pretraining for Language Understanding, arXiv:1906.08237"
GOOGLE = "https://storage.googleapis.com/xlnet/released_models/cased_"
NOTE = (
    "Pads on the left. Uses the exact GELU, as in Hugging Face's port. Google trained with the tanh "
    'approximation; load(..., activation="gelu_tanh") uses it.'
)
# zihangdai/xlnet README.md: single-task results.
COLUMNS = (
    *("MNLI (dev accuracy)", "QNLI (dev accuracy)", "QQP (dev accuracy)", "RTE (dev accuracy)"),
    *(
        "SST-2 (dev accuracy)",
        "MRPC (dev accuracy)",
        "CoLA (dev Matthews correlation)",
        "STS-B (dev Pearson correlation)",
    ),
)


def released(name: str, archive: str, config: dict, params: int, scores: dict) -> Checkpoint:
    glue = dict(zip(COLUMNS, scores.pop("glue"), strict=True))
    size = name.removeprefix("xlnet_")
    return Checkpoint(
        name,
        config,
        sources=[HF(f"xlnet/xlnet-{size}-cased"), Archive(f"{GOOGLE}{archive}.zip")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=False),
        scores=glue | scores,
        note=NOTE,
    )


CHECKPOINTS = [
    released(
        "xlnet_base",
        "L-12_H-768_A-12",
        {},
        116_718_336,
        {
            "glue": (86.8, 91.7, 91.4, 74.0, 94.7, 88.2, 60.2, 89.5),
            "SQuAD 2.0 (dev exact match)": 80.18,
        },
    ),
    released(
        "xlnet_large",
        "L-24_H-1024_A-16",
        {"hidden_size": 1024, "num_layers": 24, "num_heads": 16, "intermediate_size": 4096},
        360_268_800,
        {
            "glue": (89.8, 93.9, 91.8, 83.8, 95.6, 89.2, 63.6, 91.8),
            "SQuAD 1.1 (dev exact match)": 88.95,
            "SQuAD 2.0 (dev exact match)": 86.12,
            "RACE (test accuracy)": 81.75,
        },
    ),
]
