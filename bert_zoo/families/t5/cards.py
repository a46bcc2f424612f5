"""T5's cards, and settings for fine-tuning and pretraining."""

from collections.abc import Mapping, Sequence
from typing import Any

from bert_zoo.config import PooledDense, Pooling
from bert_zoo.families.bert.cards import ANSWERS, CHOICES, TEXTS, width
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Checkpoint, TextSpec, read_table, scores_of
from bert_zoo.presets import SMALL_SCALE, Preset, PretrainingPreset, PretrainingSize, Recipe

# Version 1.1 and its descendants.
GATED = {
    "gated": True,
    "activation": "gelu_tanh",
    "scale_logits": False,
    "tie_word_embeddings": False,
}

RECIPE = Recipe(optimizer="adafactor", weight_decay=0.0, clip_norm=None, batch_size=128)
FINE_TUNING = RECIPE.replace(
    schedule="constant", learning_rate=1e-3, warmup_proportion=0.0, max_length=512
)
PRESETS = (
    Preset(
        "t5/texts",
        ("text_to_text", *TEXTS, *ANSWERS, *CHOICES),
        FINE_TUNING,
        "Raffel et al. 2020, section 3.1.3",
        note="The paper trains for 262,144 updates and keeps the best checkpoint; the number of epochs here is "
        "BERT's. The paper has no heads other than text_to_text.",
    ),
)


def own_size(config: Mapping[str, Any]) -> PretrainingSize:
    """A size smaller than the paper's, with version 1.1's architecture. Version 1.0 learns slowly from scratch, because
    its logits come from a token table of standard deviation 1. A rate that falls to 0 suits runs of few updates.
    """
    changes = {name: SMALL_SCALE[name] for name in ("batch_size", "total_steps", "warmup_steps")}
    changes |= {"learning_rate": 0.03, "schedule": "linear_after_warmup"}
    unregularised = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    return PretrainingSize({**config, **GATED, **unregularised}, changes, ((64, 0.7), (128, 0.3)))


PRETRAINING = PretrainingPreset(
    rows="joined_documents",
    recipe=RECIPE.replace(
        schedule="inverse_sqrt", learning_rate=0.01, total_steps=2**19, warmup_steps=10_000
    ),
    phases=((512, 1.0),),
    sizes={
        "nano": own_size(width(128, 2, vocab_size=4_000)),
        "mini": own_size(width(256, 4, vocab_size=8_000)),
        "small": PretrainingSize(width(512, 6)),
        "base": PretrainingSize(width(768, 12)),
        "large": PretrainingSize(width(1024, 24)),
    },
    vocabulary="sentencepiece_sentinels",
    lowercase=False,
    source="Raffel et al. 2020, sections 3.1.2 and 3.1.4",
)

PAPER = (
    "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, "
    "arXiv:1910.10683"
)
# Table 14 of the paper.
COLUMNS = (
    "GLUE (test score)",
    "CoLA (test Matthews correlation)",
    "SST-2 (test accuracy)",
    "MNLI (test matched accuracy)",
    "RTE (test accuracy)",
    "SQuAD 1.1 (dev exact match)",
    "SQuAD 1.1 (dev F1)",
    "SuperGLUE (test score)",
    "WMT14 English to German (BLEU)",
    "CNN/Daily Mail (ROUGE-2)",
)

SPANS_ONLY = "Pretrained only to fill in spans, so fine-tune it before use."

# Version 1.0; `encoder` counts the parameters of the sentence encoders, which call the last two xl and xxl.
V1_0 = read_table("""
    size   hidden_size  num_layers  intermediate_size  num_heads  head_size  params          encoder        scores
    small  512          6           2048               8          -          60_506_624      -              77.4 41.0 91.8 82.4 69.9 79.10 87.24 63.3 26.7 19.56
    base   768          12          3072               12         -          222_903_552     109_628_544    82.7 51.1 95.2 87.1 80.1 85.44 92.08 76.2 30.9 20.34
    large  1024         24          4096               16         -          737_668_096     334_939_648    86.4 61.2 96.3 89.9 87.2 86.66 93.79 82.3 32.0 20.68
    3b     1024         24          16384              32         128        2_851_598_336   1_240_909_824  88.5 67.1 97.4 91.4 91.1 88.53 94.95 86.4 31.8 21.02
    11b    1024         24          65536              128        128        11_307_321_344  4_864_791_552  90.3 71.6 97.5 92.2 92.8 91.26 96.22 88.9 32.1 21.55
""")
# Version 1.1, with the parameters of T5, mT5 and umT5, whose vocabularies differ.
V1_1 = read_table("""
    size   hidden_size  num_layers  intermediate_size  num_heads  t5              mt5             umt5
    small  512          8           1024               6          76_961_152      300_176_768     306_601_984
    base   768          12          2048               12         247_577_856     582_401_280     592_043_520
    large  1024         24          2816               16         783_150_080     1_229_581_312   -
    xl     2048         24          5120               32         2_849_757_184   3_742_619_648   3_768_356_864
    xxl    4096         24          10240              64         11_135_332_352  12_921_057_280  12_972_531_712
""")
BYT5 = read_table("""
    size   hidden_size  num_layers  num_decoder_layers  intermediate_size  num_heads  byt5
    small  1472         12          4                   3584               6          299_637_760
    base   1536         18          6                   3968               12         581_653_248
    large  1536         36          12                  3840               16         1_228_183_552
    xl     2560         36          12                  6720               32         3_737_801_728
    xxl    4672         36          12                  12352              64         12_906_899_328
""")


def config_of(row: Mapping[str, Any]) -> dict[str, int]:
    """The cells of a row that are fields of the configuration."""
    layers = ("num_layers", "num_decoder_layers", "num_heads")
    sizes = ("hidden_size", "intermediate_size", "head_size")
    return {name: row[name] for name in (*layers, *sizes) if name in row}


def released(
    name: str,
    repo: str,
    table: Sequence[Mapping[str, Any]],
    params: str,
    paper: str,
    note: str,
    max_length: int = 512,
    **config: Any,
) -> list[Checkpoint]:
    """Checkpoints with encoder and decoder, one for each row that has a count in the column `params`."""
    return [
        Checkpoint(
            f"{name}_{row['size']}",
            config_of(row) | config,
            sources=[HF(f"{repo}-{row['size']}")],
            provides=frozenset({"encoder", "text_to_text"}),
            params=row[params],
            licence="Apache-2.0",
            paper=paper,
            text=TextSpec(lowercase=None, max_length=max_length),
            scores=scores_of(COLUMNS, row.get("scores", "")),
            note=note,
        )
        for row in table
        if params in row
    ]


def sentence_encoders(kind: str, max_length: int, paper: str, purpose: str) -> list[Checkpoint]:
    """T5's encoders with a dense layer on the mean-pooled output."""
    sizes = {row["size"].replace("3b", "xl").replace("11b", "xxl"): row for row in V1_0[1:]}
    return [
        Checkpoint(
            f"{kind}_t5_{size}",
            config_of(row),
            sources=[HF(f"sentence-transformers/{kind}-t5-{size}")],
            provides=frozenset({"encoder", "embedding"}),
            params=row["encoder"],
            licence="Apache-2.0",
            paper=paper,
            text=TextSpec(lowercase=None, max_length=max_length),
            pooling=Pooling("mean", dense=(PooledDense(768, "linear", use_bias=False),)),
            aliases=(f"{kind}-t5-{size}",),
            note=(
                f"A sentence encoder{purpose}: T5's encoder, mean pooling and a dense layer, which the parameters "
                "do not include."
            ),
        )
        for size, row in sizes.items()
    ]


T5_CHECKPOINTS = [
    *released(
        "t5",
        "google-t5/t5",
        V1_0,
        "params",
        PAPER,
        'Also trained on supervised tasks: begin a text with its task, as in "translate English to German: ".',
    ),
    *released("t5_v1_1", "google/t5-v1_1", V1_1, "t5", PAPER, f"T5 1.1. {SPANS_ONLY}", **GATED),
    *released(
        "flan_t5",
        "google/flan-t5",
        V1_1,
        "t5",
        "Scaling Instruction-Finetuned Language Models, arXiv:2210.11416",
        "T5 1.1, fine-tuned to follow instructions in plain language.",
        **GATED,
    ),
    *sentence_encoders(
        "sentence",
        256,
        "Sentence-T5: Scalable Sentence Encoders from Pre-trained Text-to-Text Models, arXiv:2108.08877",
        "",
    ),
    *sentence_encoders(
        "gtr",
        512,
        "Large Dual Encoders Are Generalizable Retrievers, arXiv:2112.07899",
        " for search",
    ),
    trained_here(
        "t5_nano",
        PRETRAINING.sizes[SIZE].config,
        PAPER,
        sha256="40f30673bb5eeff56a5022a970f1a4c38a1b90f06e7a85dc58d969fe6c28f8bf",
        params=2_205_312,
        scores={
            "held-out loss": 3.602,
            "held-out loss before training": 8.681,
            "held-out loss of a unigram model": 5.796,
        },
        provides=frozenset({"encoder", "text_to_text"}),
        text=TextSpec(lowercase=False, max_length=2147483647),
    ),
]
MT5_CHECKPOINTS = released(
    "mt5",
    "google/mt5",
    V1_1,
    "mt5",
    "mT5: A massively multilingual pre-trained text-to-text transformer, arXiv:2010.11934",
    f"Covers 101 languages. {SPANS_ONLY}",
    max_length=1024,
    **GATED,
)
UMT5_CHECKPOINTS = released(
    "umt5",
    "google/umt5",
    V1_1,
    "umt5",
    "UniMax: Fairer and More Effective Language Sampling for Large-Scale Multilingual Pretraining, "
    "arXiv:2304.09151",
    f"Covers 107 languages. {SPANS_ONLY}",
    max_length=1024,
    **GATED,
)
BYT5_CHECKPOINTS = released(
    "byt5",
    "google/byt5",
    BYT5,
    "byt5",
    "ByT5: Towards a token-free future with pre-trained byte-to-byte models, arXiv:2105.13626",
    f"Tokens are bytes. Covers 101 languages. {SPANS_ONLY}",
    max_length=1024,
)
