"""Cards of the released DeBERTa 2, DeBERTa 3 and mDeBERTa checkpoints."""

from dataclasses import replace

from bert_zoo.families.bert.checkpoints import BASE, LARGE
from bert_zoo.families.bert.presets import width
from bert_zoo.families.deberta.checkpoints import on_mnli, released, scores
from bert_zoo.family import HF, Checkpoint

V3 = {
    "paper": "DeBERTaV3: Improving DeBERTa using ELECTRA-Style Pre-Training with Gradient-Disentangled "
    "Embedding Sharing, arXiv:2111.09543",
    "provides": frozenset({"encoder"}),
}
PAIR = frozenset({"pretraining"})
CONVOLUTION = {"conv_size": 3}
GENERATOR = "pytorch_model.generator.bin"


def with_generator(checkpoint: Checkpoint) -> Checkpoint:
    """The same checkpoint with the generator of its repository (microsoft/DeBERTa experiments/language_model)."""
    (source,) = checkpoint.sources
    return replace(
        checkpoint,
        sources=[replace(source, lacks=PAIR), HF(source.repo, beside=(GENERATOR,))],
        provides=checkpoint.provides | PAIR,
    )


CHECKPOINTS = [
    *(
        checkpoint
        for released_one in (
            released(
                "deberta_v2_xlarge",
                width(1536, 24, **CONVOLUTION),
                884_593_152,
                scores=scores(
                    "95.8/90.8 91.4/88.9 91.7/91.6 97.5 95.8 71.1 93.9 92.0/94.2 92.3/89.8 92.9/92.9"
                ),
            ),
            released(
                "deberta_v2_xxlarge",
                width(1536, 48, **CONVOLUTION),
                1_564_549_632,
                scores=scores(
                    "96.1/91.4 92.2/89.7 91.7/91.9 97.2 96.0 72.0 93.5 93.1/94.9 92.7/90.3 93.2/93.1"
                ),
            ),
        )
        for checkpoint in (released_one, on_mnli(released_one))
    ),
    with_generator(
        released(
            "deberta_v3_xsmall",
            width(384, 12),
            70_682_112,
            scores=scores("-/- 84.8/82.0 88.1/88.3 - - - - - - -"),
            **V3,
        )
    ),
    with_generator(
        released(
            "deberta_v3_small",
            width(768, 6),
            141_304_320,
            scores=scores("-/- 82.9/80.4 88.3/87.7 - - - - - - -"),
            **V3,
        )
    ),
    released(
        "deberta_v3_base",
        BASE,
        183_831_552,
        scores=scores("-/- 88.4/85.4 90.6/90.7 - - - - - - -"),
        **V3,
    ),
    with_generator(
        released(
            "deberta_v3_large",
            LARGE,
            434_012_160,
            scores=scores("-/- 91.5/89.0 91.8/91.9 96.9 96.0 75.3 92.7 92.2/- 93.0/- 93.0/-"),
            **V3,
        )
    ),
    released(
        "mdeberta_v3_base",
        BASE | {"vocab_size": 251_000},
        278_218_752,
        scores={"XNLI (zero-shot dev accuracy, average over 15 languages)": 79.8},
        note="Covers 102 languages.",
        **V3,
    ),
]
