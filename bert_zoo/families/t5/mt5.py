"""mT5 (Xue et al. 2021, arXiv:2010.11934): T5 1.1 in 101 languages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bert_zoo.families.t5 import family as t5
from bert_zoo.families.t5 import formats
from bert_zoo.families.t5.checkpoints import MT5
from bert_zoo.families.t5.config import GATED, HF_CODEC, settings


def without_scale(values: Mapping[str, Any]) -> dict[str, Any]:
    """Like `settings`, for a class that does not scale logits."""
    return settings({"feed_forward_proj": "gated-gelu", **values, "scale_decoder_outputs": False})


FAMILY = replace(
    t5.FAMILY,
    name="mt5",
    defaults=t5.FAMILY.defaults | GATED | {"vocab_size": 250112},
    formats={
        "hf": formats.hugging_face("mt5", "MT5", replace(HF_CODEC, prepare=without_scale)),
        "tf1": formats.Original(),
    },
    checkpoints=MT5,
)
