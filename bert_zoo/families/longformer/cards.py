"""Longformer's cards, and settings for fine-tuning and pretraining."""

from dataclasses import replace

from bert_zoo.families.bert.cards import (
    ANSWERS,
    BASE,
    CHOICES,
    LARGE,
    PRETRAINING_SIZES,
    TEXTS,
    of_config,
)
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.families.roberta import PRETRAINING as ROBERTA
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec, read_table, scores_of
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

SOURCE = "Beltagy et al. 2020 (arXiv:2004.05150), appendix"
# torch's Adam, without weight decay and clipping.
RECIPE = Recipe(
    batch_size=32,
    learning_rate=3e-5,
    schedule="linear_after_warmup",
    weight_decay=0.0,
    epsilon=1e-8,
    bias_correction=True,
    clip_norm=None,
    max_length=4096,
)


def updates(epochs: int, examples: int, warmup_steps: int) -> Recipe:
    """A number of epochs over a data set, with a number of warmup updates."""
    steps = epochs * examples // RECIPE.batch_size
    return RECIPE.replace(epochs=epochs, total_steps=steps, warmup_steps=warmup_steps)


PRESETS = (
    Preset(
        "longformer/classification",
        TEXTS,
        RECIPE.replace(epochs=15),
        f"{SOURCE} D, on IMDB and Hyperpartisan",
        grid={"learning_rate": (3e-5, 5e-5), "epochs": (10, 15, 20)},
        note="The authors kept the best epoch on the development set.",
    ),
    Preset(
        "longformer/triviaqa",
        ANSWERS,
        updates(5, 110_648, warmup_steps=1000),
        f"{SOURCE} C, table 14",
        note="The authors trained on every occurrence of an answer, this program on the first.",
    ),
    Preset(
        "longformer/hotpotqa",
        ANSWERS,
        updates(5, 90_447, warmup_steps=1000).replace(learning_rate=5e-5),
        f"{SOURCE} C, table 14",
        benchmark="hotpotqa",
        grid={"learning_rate": (3e-5, 5e-5), "epochs": (3, 4, 5, 6, 7)},
        note="The paper's text has the rate 3e-5. The authors also trained on evidence and question types.",
    ),
    Preset(
        "longformer/wikihop",
        CHOICES,
        updates(15, 43_738, warmup_steps=200),
        f"{SOURCE} C, table 14",
        note="The authors put all candidates of a question in one row, this program one in each row.",
    ),
)

# Windows and rows of small models, for short texts.
SMALL_ROWS = {"max_positions": 514, "attention_window": 64}


def with_long_rows(name: str, size: PretrainingSize) -> PretrainingSize:
    """One of RoBERTa's sizes with rows of 4,096 tokens, or of 512 for nano and mini."""
    if name in ("nano", "mini"):
        return replace(of_config(size, **SMALL_ROWS), phases=((64, 0.7), (512, 0.3)))
    return of_config(size, max_positions=4098)


PRETRAINING = PretrainingPreset(
    rows="packed_documents",
    recipe=Recipe(
        batch_size=64,
        total_steps=65_000,
        warmup_steps=500,
        learning_rate=3e-5,
        schedule="linear_after_warmup",
        clip_norm=5.0,
    ),
    phases=((4096, 1.0),),
    sizes={name: with_long_rows(name, size) for name, size in PRETRAINING_SIZES.items()},
    vocabulary="byte_bpe",
    lowercase=False,
    # Published for a model initialised from RoBERTa, with a polynomial decay of power 3.
    source="Beltagy et al. 2020, section 5; allenai/longformer scripts/convert_model_to_long.ipynb",
)

PAPER = "Longformer: The Long-Document Transformer, arXiv:2004.05150"
ARCHIVES = "https://ai2-s2-research.s3-us-west-2.amazonaws.com/longformer/"
COLUMNS = (
    "WikiHop (dev accuracy)",
    "TriviaQA (dev F1)",
    "TriviaQA (dev exact match)",
    "HotpotQA (dev joint F1)",
    "OntoNotes coreference (dev F1)",
    "IMDB (dev accuracy)",
    "Hyperpartisan (dev F1)",
)
RELEASED = read_table("""
    name                              size   params       head                repo                                       archive                scores
    longformer_base                   base   148_068_864  masked_lm           longformer-base-4096                       longformer-base-4096   75.0 75.2 - 64.4 78.6 95.7 94.8
    longformer_large                  large  433_551_360  masked_lm           longformer-large-4096                      longformer-large-4096  -
    longformer_large_triviaqa         large  433_551_360  question_answering  longformer-large-4096-finetuned-triviaqa   -                      - 77.8 73.1
    longformer_base_extra_positions   base   148_068_864  masked_lm           longformer-base-4096-extra.pos.embd.only   -                      -
    longformer_large_extra_positions  large  433_551_360  masked_lm           longformer-large-4096-extra.pos.embd.only  -                      -
""")
ONLY_POSITIONS = (
    "RoBERTa's weights, unchanged; only the additional position embeddings were trained."
)
NOTES = {
    "longformer_large_triviaqa": "Fine-tuned on TriviaQA (Wikipedia).",
    "longformer_base_extra_positions": ONLY_POSITIONS,
    "longformer_large_extra_positions": ONLY_POSITIONS,
}


def released(
    name: str, size: str, params: int, head: str, repo: str, archive: str = "", scores: str = ""
) -> Checkpoint:
    """A checkpoint of allenai/longformer. All have the same licence and tokenizer."""
    archives = [Archive(f"{ARCHIVES}{archive}.tar.gz")] if archive else []
    return Checkpoint(
        name,
        # They were made from RoBERTa's weights, which have no pooler.
        {"base": BASE, "large": LARGE}[size] | {"pooler": False},
        sources=[HF(f"allenai/{repo}"), *archives],
        provides=frozenset({"encoder", head}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        text=TextSpec(lowercase=None, max_length=4096),
        scores=scores_of(COLUMNS, scores),
        note=NOTES.get(name, ""),
    )


CHECKPOINTS = [
    *(released(**row) for row in RELEASED),
    trained_here(
        "longformer_nano",
        {**ROBERTA.sizes[SIZE].config, "max_positions": 4098, "pooler": False},
        PAPER,
        sha256="bd059ee2d038f6aa4c7ff7551016a710aef614d961443230472518a029b10e2a",
        params=1_788_544,
        scores={
            "held-out loss": 3.666,
            "held-out loss before training": 6.302,
            "held-out loss of a unigram model": 6.920,
        },
        provides=frozenset({"encoder", "masked_lm"}),
        text=TextSpec(lowercase=None, max_length=4096),
        note="roberta_nano, lengthened with bert_zoo.lengthen and trained further on whole documents. For tests, "
        "examples and first tries without a network; not for real use.",
    ),
]
