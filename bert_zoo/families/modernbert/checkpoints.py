"""Cards of the released ModernBERT checkpoints."""

from bert_zoo.family import HF, Checkpoint, TextSpec

PAPER = (
    "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory Efficient, and "
    "Long Context Finetuning and Inference, arXiv:2412.13663"
)

CHECKPOINTS = [
    Checkpoint(
        f"modernbert_{size}",
        {"classifier_pooling": "mean", **config},
        sources=[HF(f"answerdotai/ModernBERT-{size}")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=8192),
        scores=dict(zip(("GLUE (dev average)", "BEIR (DPR, nDCG@10)"), scores, strict=True)),
        note="For English and code. In two of three layers, each token attends to a window of 128 tokens.",
    )
    for size, config, params, scores in (
        ("base", {}, 149_014_272, (88.4, 41.6)),
        (
            "large",
            {"hidden_size": 1024, "num_layers": 28, "num_heads": 16, "intermediate_size": 2624},
            394_781_696,
            (90.4, 44.0),
        ),
    )
]
