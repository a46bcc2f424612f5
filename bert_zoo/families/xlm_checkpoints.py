"""The released XLM checkpoints, as data."""

from bert_zoo.config import TextSpec
from bert_zoo.registry import HF, Checkpoint

PAPER = "Cross-lingual Language Model Pretraining, arXiv:1901.07291"
IDS = "`language_ids` are those of the languages in this order: "
XNLI15 = "ar bg de el en es fr hi ru sw th tr ur vi zh"
LANGUAGES_17 = "ar de en es fr hi it ja ko nl pl pt ru sv tr vi zh"


def released(name: str, params: int, lowercase: bool = True, note: str = "", **sizes) -> Checkpoint:
    """A checkpoint of Hugging Face; `sizes` differ from the family's, and `scores` are the paper's."""
    scores = sizes.pop("scores", {})
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
        note=f"For non-commercial use alone. {note}".strip(),
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
    released("xlm_mlm_en_2048", 667_088_896, note="English."),
    released("xlm_mlm_ende_1024", 142_357_504, note=f"{IDS}de en.", vocab_size=64_699, **PAIR),
    released("xlm_mlm_enfr_1024", 141_784_064, note=f"{IDS}en fr.", vocab_size=64_139, **PAIR),
    released(
        "xlm_mlm_xnli15_1024",
        248_976_384,
        note=f"{IDS}{XNLI15}.",
        # Table 1: trained on English alone, tested in each language.
        scores={"XNLI (test, mean of 15 languages)": 71.5, "XNLI (test, en)": 83.2},
        **FIFTEEN,
    ),
    released(
        "xlm_mlm_tlm_xnli15_1024",
        248_976_384,
        note=f"{IDS}{XNLI15}. Pretrained with translations too.",
        scores={"XNLI (test, mean of 15 languages)": 75.1, "XNLI (test, en)": 85.0},
        **FIFTEEN,
    ),
    released(
        "xlm_mlm_17_1280",
        571_496_960,
        lowercase=False,
        note=f"17 languages: {LANGUAGES_17}. It reads no `language_ids`.",
        num_languages=17,
        **MANY,
    ),
    released(
        "xlm_mlm_100_1280",
        571_496_960,
        lowercase=False,
        note="100 languages. It reads no `language_ids`.",
        num_languages=100,
        **MANY,
    ),
]
