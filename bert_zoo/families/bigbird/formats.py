"""How BigBird's checkpoints are stored."""

import math
import re
from dataclasses import dataclass

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bigbird.config import FLAGS_CODEC, HF_CODEC, TF1_CODEC
from bert_zoo.weights.formats import TF1, HuggingFace

HF_CLASSES = {**bert_formats.hf_classes("BigBird"), "pretraining": "BigBirdForPreTraining"}
# Names of what the first checkpoints hold with an axis for heads, before or after the hidden one.
HEADS_LAST, HEADS_FIRST = (
    r"/self/(query|key|value)/(kernel|bias)$",
    r"/attention/output/dense/kernel$",
)


@dataclass(frozen=True, kw_only=True)
class Original(TF1):
    """Checkpoints of google-research/bigbird."""

    def shape(self, key, stored):
        if re.search(HEADS_FIRST, key) and len(stored) == 3:
            return (math.prod(stored[:2]), stored[2])
        if re.search(HEADS_LAST, key) and len(stored) == (3 if key.endswith("kernel") else 2):
            return (*stored[:-2], math.prod(stored[-2:]))
        return stored


FORMATS = {
    "hf": HuggingFace(
        model_type="big_bird",
        codec=HF_CODEC,
        root="bert.",
        classes=HF_CLASSES,
        sizes={"num_segments": r"embeddings\.token_type_embeddings\.weight$"},
    ),
    # By the settings of a run, where its program has left them, else by the shapes.
    "tf1_run": Original(codec=FLAGS_CODEC, config_file="*.config", root=None),
    "tf1": Original(codec=TF1_CODEC, config_file="*.index", root="bert/"),
}
