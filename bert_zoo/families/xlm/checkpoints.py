"""Cards of the released XLM checkpoints."""

from typing import Any

from bert_zoo.config import TextSpec
from bert_zoo.family import HF, Checkpoint

PAPER = "Cross-lingual Language Model Pretraining, arXiv:1901.07291"
IDS = "`language_ids` count the languages from 0 in this order: "
XNLI15 = "ar bg de el en es fr hi ru sw th tr ur vi zh"
LANGUAGES_17 = "ar de en es fr hi it ja ko nl pl pt ru sv tr vi zh"


# facebookresearch/XLM README.md: GLUE's test server; XNLI after fine-tuning on English only.
GLUE = {
    "GLUE (test score)": 82.8,
    "CoLA (test Matthews correlation)": 62.9,
    "SST-2 (test accuracy)": 95.6,
    "MRPC (test F1/accuracy)": "90.7/87.1",
    "STS-B (test Pearson/Spearman correlation)": "88.8/88.2",
    "QQP (test F1/accuracy)": "73.2/89.8",
    "MNLI (test accuracy, matched/mismatched)": "89.1/88.5",
    "QNLI (test accuracy)": 94.0,
    "RTE (test accuracy)": 76.0,
    "WNLI (test accuracy)": 71.9,
}
XNLI = "XNLI (test accuracy, en/es/de/ar/zh)"
XNLI_URDU = "XNLI (test accuracy, ur)"
XNLI_AVERAGE = "XNLI (test accuracy, average over 15 languages)"  # table 1 of the paper
# Table 2 of the paper: encoder and decoder initialised with these weights, no parallel texts.
TRANSLATION = "unsupervised translation (BLEU, {set} {pair})"
TRANSLATES = "The scores are those of translation models that were initialised with it."


def released(
    name: str,
    params: int,
    sizes: dict[str, Any],
    *,
    scores: dict[str, float | str],
    note: str,
    lowercase: bool = True,
) -> Checkpoint:
    """A checkpoint on Hugging Face's hub; `sizes` differ from the family's defaults."""
    return Checkpoint(
        name,
        sizes,
        sources=[HF(f"FacebookAI/{name.replace('_', '-')}")],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="CC-BY-NC-4.0 (not for commercial use)",
        paper=PAPER,
        text=TextSpec(lowercase=lowercase),
        scores=scores,
        note=note,
    )


WIDE = {"hidden_size": 1024, "num_heads": 8}
PAIR = {**WIDE, "num_layers": 6, "num_languages": 2}
FIFTEEN = {**WIDE, "vocab_size": 95_000, "num_languages": 15}
MANY = {
    "vocab_size": 200_000,
    "hidden_size": 1280,
    "num_layers": 16,
    "num_heads": 16,
    "language_embeddings": False,
}
CHECKPOINTS = [
    released("xlm_mlm_en_2048", 667_088_896, {}, scores=GLUE, note="English."),
    # These two keep case, because the authors kept it for translation (get-data-nmt.sh;
    # https://github.com/facebookresearch/XLM/issues/12). transformers lower-cases their texts.
    released(
        "xlm_mlm_ende_1024",
        142_357_504,
        {**PAIR, "vocab_size": 64_699},
        lowercase=False,
        scores={TRANSLATION.format(set="newstest2016", pair="en-de/de-en"): "26.4/34.3"},
        note=f"{IDS}de en. {TRANSLATES}",
    ),
    released(
        "xlm_mlm_enfr_1024",
        141_784_064,
        {**PAIR, "vocab_size": 64_139},
        lowercase=False,
        scores={TRANSLATION.format(set="newstest2014", pair="en-fr/fr-en"): "33.4/33.3"},
        note=f"{IDS}en fr. {TRANSLATES}",
    ),
    released(
        "xlm_mlm_xnli15_1024",
        248_976_384,
        FIFTEEN,
        scores={XNLI: "83.2/76.3/74.2/68.5/71.9", XNLI_URDU: 63.4, XNLI_AVERAGE: 71.5},
        note=f"{IDS}{XNLI15}.",
    ),
    released(
        "xlm_mlm_tlm_xnli15_1024",
        248_976_384,
        FIFTEEN,
        scores={XNLI: "85.0/78.9/77.8/73.1/76.5", XNLI_URDU: 67.3, XNLI_AVERAGE: 75.1},
        note=f"Also pretrained on translations. {IDS}{XNLI15}.",
    ),
    released(
        "xlm_mlm_17_1280",
        571_496_960,
        {**MANY, "num_languages": 17},
        lowercase=False,
        scores={XNLI: "84.8/79.4/76.2/71.5/75.0"},
        note=f"Covers 17 languages: {LANGUAGES_17}. Takes no `language_ids`.",
    ),
    released(
        "xlm_mlm_100_1280",
        571_496_960,
        {**MANY, "num_languages": 100},
        lowercase=False,
        scores={XNLI: "83.7/76.6/73.6/67.4/71.7", XNLI_URDU: 62.9},
        note="Covers 100 languages. Takes no `language_ids`.",
    ),
]
