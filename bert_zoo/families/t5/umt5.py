"""UMT5 (Chung et al. 2023, arXiv:2304.09151): mT5 in 107 languages, with a bias by distance in every layer."""

from dataclasses import replace

from bert_zoo.families.t5 import formats, mt5
from bert_zoo.families.t5.checkpoints import UMT5
from bert_zoo.families.t5.config import HF_CODEC, settings

BIASED = {"bias_per_layer": True}

FAMILY = replace(
    mt5.FAMILY,
    name="umt5",
    defaults=mt5.FAMILY.defaults | BIASED | {"vocab_size": 256384},
    formats={
        "hf": formats.hugging_face(
            "umt5",
            "UMT5",
            replace(
                HF_CODEC,
                defaults=HF_CODEC.defaults | BIASED,
                # Released files have it, and nothing reads it.
                ignored=HF_CODEC.ignored | {"scalable_attention"},
                prepare=lambda values: settings({"feed_forward_proj": "gated-gelu", **values}),
            ),
            marks_encoders=False,
        )
    },
    checkpoints=UMT5,
    pretraining="",
    pretraining_preset=None,
)
