"""How BigBird's checkpoints are stored."""

import math
import re
from dataclasses import dataclass

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert.rows import SENTENCE_TASKS
from bert_zoo.families.bigbird.config import (
    BLOCK_0,
    DRAWN,
    FLAGS_CODEC,
    HF_CODEC,
    SPARSE,
    TF1_CODEC,
    TF1_HEAD,
    BigBirdConfig,
)
from bert_zoo.weights.formats import TF1, HuggingFace

HF_CLASSES = {**bert_formats.hf_classes("BigBird"), "pretraining": "BigBirdForPreTraining"}
# Tensors that the first checkpoints store with an axis for heads, after or before the hidden axis.
HEADS_LAST, HEADS_FIRST = (
    r"/self/(query|key|value)/(kernel|bias)$",
    r"/attention/output/dense/kernel$",
)


@dataclass(frozen=True, kw_only=True)
class Original(TF1):
    """Checkpoints of google-research/bigbird."""

    def read_shape(self, key, stored):
        if re.search(HEADS_FIRST, key) and len(stored) == 3:
            return (math.prod(stored[:2]), stored[2])
        if re.search(HEADS_LAST, key) and len(stored) == (3 if key.endswith("kernel") else 2):
            return (*stored[:-2], math.prod(stored[-2:]))
        return stored

    def told(self, source, config, unsaid):
        return {**super().told(source, config, unsaid), **TF1_HEAD}


def evaluated_with(config: BigBirdConfig) -> str:
    """The random blocks that transformers uses in evaluation mode, if the model has any."""
    has_any = config.attention_type == SPARSE and config.num_random_blocks
    return BLOCK_0 if has_any else config.random_blocks


@dataclass(frozen=True, kw_only=True)
class BigBirdHuggingFace(HuggingFace):
    """Directories of transformers, where classifiers always have the encoder's activation."""

    def supports_in_head(self, task):
        return {"classifier_activation": None} if task in SENTENCE_TASKS else {}

    def differences(self, config, unsaid, longest):
        has_others = evaluated_with(config) != config.random_blocks
        if has_others and "random_blocks" in unsaid and longest > config.most_seen_by_all:
            yield (
                f"Rows of more than {config.most_seen_by_all} tokens read the random blocks of the original program. "
                f"transformers reads them only in training, and block 0 otherwise: pass random_blocks={BLOCK_0!r} for "
                f"its outputs, or random_blocks={DRAWN!r} to silence this."
            )


FORMATS = {
    "hf": BigBirdHuggingFace(
        model_type="big_bird",
        codec=HF_CODEC,
        root="bert.",
        classes=HF_CLASSES,
        supports={"random_blocks": evaluated_with},
        sizes={"num_segments": r"embeddings\.token_type_embeddings\.weight$"},
    ),
    # Configured by the saved settings of a run if there are any, else by the shapes.
    "tf1_run": Original(codec=FLAGS_CODEC, config_file="*.config", root=None),
    "tf1": Original(codec=TF1_CODEC, config_file="*.index", root="bert/"),
}
