"""ALBERT's settings for fine-tuning and pretraining."""

from bert_zoo.families.bert.cards import (
    ANSWERS,
    BASE,
    CHOICES,
    LARGE,
    PRETRAINING_SIZES,
    TEXTS,
    of_config,
    of_glue,
    width,
)
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, TextSpec
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe

# Task -> rows per update, learning rate, updates, warmup.
GLUE = {
    "cola": (16, 1e-5, 5336, 320),
    "mnli": (128, 3e-5, 10000, 1000),
    "mrpc": (32, 2e-5, 800, 200),
    "qnli": (32, 1e-5, 33112, 1986),
    "qqp": (128, 5e-5, 14000, 1000),
    "rte": (32, 3e-5, 800, 200),
    "sst2": (32, 1e-5, 20935, 1256),
    "stsb": (16, 2e-5, 3598, 214),
}
# The number of updates sets the length of training, so the epochs must not end it earlier.
BY_UPDATES = Recipe(epochs=1000, max_length=512)
PRESETS = (
    Preset(
        "albert/glue",
        TEXTS,
        Recipe(learning_rate=2e-5, max_length=512),
        "google-research/albert run_glue.sh, with rates from 1e-5 to 5e-5; BERT's number of epochs",
        grid={"batch_size": (16, 32, 128), "learning_rate": (1e-5, 2e-5, 3e-5, 5e-5)},
        note="Google published numbers of updates for the tasks of GLUE only; they do not apply to other data.",
    ),
    *of_glue("albert", BY_UPDATES, GLUE, "google-research/albert run_glue.sh"),
    Preset(
        "albert/squad",
        ANSWERS,
        Recipe(epochs=2, batch_size=48, max_length=384),
        "google-research/albert README.md",
    ),
    Preset(
        "albert/race",
        CHOICES,
        BY_UPDATES.replace(total_steps=12000, warmup_steps=1000, learning_rate=1e-5),
        "google-research/albert README.md, run_race.py",
        note="Version 2 diverges with dropout in the encoder, so its configuration has none.",
    ),
)

PRETRAINING = PretrainingPreset(
    rows="sentence_order",
    recipe=Recipe(
        optimizer="lamb",
        batch_size=4096,
        total_steps=125_000,
        warmup_steps=3125,
        learning_rate=0.00176,
    ),
    phases=((512, 1.0),),
    sizes=PRETRAINING_SIZES
    | {
        "nano": of_config(PRETRAINING_SIZES["nano"], embedding_size=64),
        "small": PretrainingSize(width(512, 6)),
    },
    vocabulary="sentencepiece",
    lowercase=True,
    source="Lan et al. 2019, section 4.1; google-research/albert README.md, run_pretraining.py",
)


# -------------------------------------------------------------------------------------------------
# Cards of the released ALBERT checkpoints.
#
# The activation is that of Hugging Face's files: the exact GELU (erf) for v1, the tanh approximation for v2.
# Google trained all with the approximation; `load(name, activation="gelu_tanh")` uses it for v1 too.
# -------------------------------------------------------------------------------------------------

GOOGLE = "https://storage.googleapis.com/albert_models/albert_"
PAPER = (
    "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations, arXiv:1909.11942"
)
DROPOUT = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
RELEASED_SIZES = {
    "base": BASE,
    "large": LARGE,
    "xlarge": {"hidden_size": 2048, "num_layers": 24, "num_heads": 16, "intermediate_size": 8192},
    "xxlarge": {"hidden_size": 4096, "num_layers": 12, "num_heads": 64, "intermediate_size": 16384},
}
# With the English and the Chinese vocabulary.
PARAMS = {
    "base": (11_683_584, 10_547_968),
    "large": (17_683_968, 16_548_352),
    "xlarge": (58_724_864, 57_589_248),
    "xxlarge": (222_595_584, 221_459_968),
}
# For where they come from, see checkpoints/README.md.
COMMITS = {("base", "v2"): "8e2f239c5f8a2c0f253781ca60135db913e5c80c"}
# google-research/albert README.md.
COLUMNS = (
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
    "MNLI (dev accuracy)",
    "SST-2 (dev accuracy)",
    "RACE (test accuracy)",
)
SCORES = {
    ("base", "v2"): ("90.2/83.2", "82.1/79.3", 84.6, 92.9, 66.8),
    ("large", "v2"): ("91.8/85.2",),
    ("xlarge", "v2"): ("92.9/86.4",),
    ("xxlarge", "v2"): ("94.6/89.1", "89.8/86.9"),
    ("base", "v1"): ("89.3/82.3", "80.0/77.1", 81.6, 90.3, 64.0),
    ("large", "v1"): ("90.6/83.9",),
    ("xlarge", "v1"): ("92.5/86.1",),
    ("xxlarge", "v1"): ("94.8/89.3", "90.2/87.4"),
}


def google(name: str, size: str, archive: str, config: dict, params: int, **card) -> Checkpoint:
    """A checkpoint of google-research/albert: same licence, heads and paper for all."""
    archive_source = Archive(f"{GOOGLE}{size}_{archive}.tar.gz")
    return Checkpoint(
        name,
        RELEASED_SIZES[size] | config,
        sources=[*card.pop("hubs", []), archive_source],
        provides=frozenset({"encoder", "masked_lm", "pretraining"}),
        params=params,
        licence="Apache-2.0",
        paper=PAPER,
        **card,
    )


def english(size: str, tag: str) -> Checkpoint:
    # v2 was trained without dropout, and so was xxlarge from the start.
    v1 = {"activation": "gelu"} | (DROPOUT if size != "xxlarge" else {})
    return google(
        f"albert_{size}",
        size,
        tag,
        v1 if tag == "v1" else {"activation": "gelu_tanh"},
        PARAMS[size][0],
        tag=tag,
        hubs=[HF(f"albert/albert-{size}-{tag}", COMMITS.get((size, tag), "main"))],
        scores=dict(zip(COLUMNS, SCORES[size, tag], strict=False)),
    )


def chinese(size: str) -> Checkpoint:
    return google(
        f"albert_{size}_chinese",
        size,
        "zh",
        {"vocab_size": 21128, "activation": "gelu_tanh"},
        PARAMS[size][1],
        text=TextSpec(lowercase=True),
        note="Uses BERT's WordPiece tokenizer, not SentencePiece.",
    )


CHECKPOINTS = [
    *(english(size, tag) for tag in ("v2", "v1") for size in RELEASED_SIZES),
    *(chinese(size) for size in RELEASED_SIZES),
    trained_here(
        "albert_nano",
        PRETRAINING.sizes[SIZE].config,
        PAPER,
        sha256="fdeeb72b0c8c801bb8b301a60815068300a23284b19058506f4a4e47dd3049a7",
        params=615_552,
        scores={
            "held-out loss": 5.421,
            "held-out masked-token loss": 4.821,
            "held-out masked-token loss before training": 6.561,
            "held-out masked-token loss of a unigram model": 6.5,
            "held-out sentence-order loss": 0.599,
        },
    ),
]
