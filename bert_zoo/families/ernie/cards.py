"""ERNIE's cards."""

from bert_zoo.families.bert.cards import BASE, LARGE, PROVIDES, width
from bert_zoo.family import HF, Checkpoint, TextSpec, read_table, scores_of

NARROW = {"num_heads": 12}
SIZES = {
    "large": LARGE,
    "xbase": width(1024, 20),
    "base": BASE,
    "medium": width(768, 6),
    "mini": width(384, 6) | NARROW,
    "micro": width(384, 4) | NARROW,
    "nano": width(312, 4) | NARROW,
}
# What the checkpoints of a release have in common.
LICENCE = "Apache-2.0 (PaddlePaddle's files; none is stated for these copies)"
RELEASES = {
    "english": {
        "text": TextSpec(lowercase=True),
        "paper": "ERNIE 2.0: A Continual Pre-training Framework for Language Understanding, arXiv:1907.12412",
        "note": (
            "English. Its config.json uses no task types, with which ERNIE 2.0 was trained; whether the weight file "
            "holds a table of them was not verified."
        ),
    },
    "chinese": {
        "text": TextSpec(lowercase=True, max_length=2048),
        "paper": (
            "ERNIE 3.0 Titan: Exploring Larger-scale Knowledge Enhanced Pre-training for Language Understanding and "
            "Generation, arXiv:2112.12731"
        ),
        "note": "Chinese. Distilled from ERNIE 3.0, in six sizes. The weight files were not verified.",
    },
}
CONFIGS = {
    "english": {"vocab_size": 30522},
    "chinese": {"vocab_size": 40000, "max_positions": 2048, "task_type_embeddings": True},
}
# PaddlePaddle/PaddleNLP model_zoo/ernie-3.0/README.md, which has two values for xbase.
COLUMNS = ("CLUE (dev average of 10 tasks)",)
TABLE = read_table("""
    name            release  size    task_types  params       provides   repo                 scores
    ernie_3_base    chinese  base    3           117_944_832  masked_lm  ernie-3.0-base-zh    76.05
    ernie_3_medium  chinese  medium  16          75_427_584   masked_lm  ernie-3.0-medium-zh  72.49
    ernie_3_mini    chinese  mini    16          26_949_504   encoder    ernie-3.0-mini-zh    66.90
    ernie_3_micro   chinese  micro   16          23_400_576   encoder    ernie-3.0-micro-zh   64.21
    ernie_3_nano    chinese  nano    16          17_912_232   encoder    ernie-3.0-nano-zh    62.97
    ernie_3_xbase   chinese  xbase   16          296_053_760  masked_lm  ernie-3.0-xbase-zh   -
    ernie_2_base    english  base    3           109_483_776  encoder    ernie-2.0-base-en    -
    ernie_2_large   english  large   3           335_143_936  encoder    ernie-2.0-large-en   -
""")


def released(
    name: str,
    release: str,
    size: str,
    task_types: int,
    params: int,
    provides: str,
    repo: str,
    scores: str = "",
) -> Checkpoint:
    """A checkpoint by Baidu, converted by others; `release` names its fields in `RELEASES` and `CONFIGS`."""
    return Checkpoint(
        name,
        SIZES[size] | CONFIGS[release] | {"num_task_types": task_types},
        sources=[HF(f"nghuyong/{repo}")],
        provides=PROVIDES[provides],
        params=params,
        licence=LICENCE,
        aliases=[repo],
        scores=scores_of(COLUMNS, scores),
        **RELEASES[release],
    )


CHECKPOINTS = [released(**row) for row in TABLE]
