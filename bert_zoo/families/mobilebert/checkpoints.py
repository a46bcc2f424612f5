"""The card of the released MobileBERT."""

from bert_zoo.family import HF, Archive, Checkpoint, TextSpec

CHECKPOINTS = [
    Checkpoint(
        "mobilebert_uncased",
        {"hidden_size": 512, "num_layers": 24, "num_heads": 4, "intermediate_size": 512},
        sources=[
            HF("google/mobilebert-uncased"),
            Archive(
                "https://storage.googleapis.com/cloud-tpu-checkpoints/mobilebert/"
                "uncased_L-24_H-128_B-512_A-4_F-4_OPT.tar.gz"
            ),
        ],
        provides=frozenset({"encoder", "masked_lm", "next_sentence_prediction", "pretraining"}),
        params=24_581_888,
        licence="Apache-2.0",
        paper="MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices, arXiv:2004.02984",
        text=TextSpec(lowercase=True),
        # From the paper's abstract.
        scores={
            "GLUE (test score)": 77.7,
            "SQuAD 1.1 (dev F1)": 90.0,
            "SQuAD 2.0 (dev F1)": 79.2,
        },
        note="Use float32 or bfloat16, not float16: without layer normalisation, values of the first token's "
        "vector exceed 10 million.",
    ),
]
