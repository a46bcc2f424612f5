"""T5's cards, and settings for fine-tuning and pretraining."""

from collections.abc import Mapping
from typing import Any

from bert_zoo.config import PooledDense, Pooling
from bert_zoo.families.bert.cards import ANSWERS, CHOICES, TEXTS, width
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Checkpoint, TextSpec
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
WITH_DENSE_LAYER = (
    "T5's encoder, mean pooling and a dense layer, which the parameters do not include."
)


def sizes(hidden: int, layers: int, inner: int, heads: int, **more: Any) -> dict[str, Any]:
    names = ("hidden_size", "num_layers", "intermediate_size", "num_heads")
    return dict(zip(names, (hidden, layers, inner, heads), strict=True)) | more


def released(
    name: str,
    repo: str,
    config: Mapping[str, Any],
    params: int,
    paper: str = PAPER,
    max_length: int = 512,
    **more: Any,
) -> Checkpoint:
    """A checkpoint with encoder and decoder."""
    return Checkpoint(
        name,
        config,
        sources=[HF(repo)],
        provides=frozenset({"encoder", "text_to_text"}),
        params=params,
        licence="Apache-2.0",
        paper=paper,
        text=TextSpec(lowercase=None, max_length=max_length),
        **more,
    )


def sentence_encoder(size: str, params: int, kind: str, paper: str, **more: Any) -> Checkpoint:
    """A sentence encoder: T5's encoder and a dense layer on its mean-pooled output."""
    return Checkpoint(
        f"{kind}_t5_{size}",
        V1_0["3b" if size == "xl" else size.replace("xxl", "11b")],
        sources=[HF(f"sentence-transformers/{kind}-t5-{size}")],
        provides=frozenset({"encoder", "embedding"}),
        params=params,
        licence="Apache-2.0",
        paper=paper,
        pooling=Pooling("mean", dense=(PooledDense(768, "linear", use_bias=False),)),
        aliases=(f"{kind}-t5-{size}",),
        **more,
    )


V1_0 = {
    "small": sizes(512, 6, 2048, 8),
    "base": sizes(768, 12, 3072, 12),
    "large": sizes(1024, 24, 4096, 16),
    "3b": sizes(1024, 24, 16384, 32, head_size=128),
    "11b": sizes(1024, 24, 65536, 128, head_size=128),
}
V1_1 = {
    size: (GATED | config, params)
    for size, config, params in (
        ("small", sizes(512, 8, 1024, 6), 76_961_152),
        ("base", sizes(768, 12, 2048, 12), 247_577_856),
        ("large", sizes(1024, 24, 2816, 16), 783_150_080),
        ("xl", sizes(2048, 24, 5120, 32), 2_849_757_184),
        ("xxl", sizes(4096, 24, 10240, 64), 11_135_332_352),
    )
}
T5_CHECKPOINTS = [
    *(
        released(
            f"t5_{size}",
            f"google-t5/t5-{size}",
            V1_0[size],
            params,
            scores=dict(zip(COLUMNS, scores, strict=True)),
            note='Also trained on supervised tasks: begin a text with its task, as in "translate English to German: ".',
        )
        for size, params, scores in (
            (
                "small",
                60_506_624,
                (77.4, 41.0, 91.8, 82.4, 69.9, 79.10, 87.24, 63.3, 26.7, 19.56),
            ),
            (
                "base",
                222_903_552,
                (82.7, 51.1, 95.2, 87.1, 80.1, 85.44, 92.08, 76.2, 30.9, 20.34),
            ),
            (
                "large",
                737_668_096,
                (86.4, 61.2, 96.3, 89.9, 87.2, 86.66, 93.79, 82.3, 32.0, 20.68),
            ),
            (
                "3b",
                2_851_598_336,
                (88.5, 67.1, 97.4, 91.4, 91.1, 88.53, 94.95, 86.4, 31.8, 21.02),
            ),
            (
                "11b",
                11_307_321_344,
                (90.3, 71.6, 97.5, 92.2, 92.8, 91.26, 96.22, 88.9, 32.1, 21.55),
            ),
        )
    ),
    *(
        released(
            f"t5_v1_1_{size}",
            f"google/t5-v1_1-{size}",
            config,
            params,
            note=f"T5 1.1. {SPANS_ONLY}",
        )
        for size, (config, params) in V1_1.items()
    ),
    *(
        released(
            f"flan_t5_{size}",
            f"google/flan-t5-{size}",
            config,
            params,
            "Scaling Instruction-Finetuned Language Models, arXiv:2210.11416",
            note="T5 1.1, fine-tuned to follow instructions in plain language.",
        )
        for size, (config, params) in V1_1.items()
    ),
    *(
        sentence_encoder(
            size, params, kind, paper, text=TextSpec(lowercase=None, max_length=length), note=note
        )
        for kind, length, paper, note in (
            (
                "sentence",
                256,
                "Sentence-T5: Scalable Sentence Encoders from Pre-trained Text-to-Text Models, arXiv:2108.08877",
                f"A sentence encoder: {WITH_DENSE_LAYER}",
            ),
            (
                "gtr",
                512,
                "Large Dual Encoders Are Generalizable Retrievers, arXiv:2112.07899",
                f"A sentence encoder for search: {WITH_DENSE_LAYER}",
            ),
        )
        for size, params in (
            ("base", 109_628_544),
            ("large", 334_939_648),
            ("xl", 1_240_909_824),
            ("xxl", 4_864_791_552),
        )
    ),
]
T5_CHECKPOINTS.append(
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
    )
)
MT5_CHECKPOINTS = [
    released(
        f"mt5_{size}",
        f"google/mt5-{size}",
        V1_1[size][0],
        params,
        "mT5: A massively multilingual pre-trained text-to-text transformer, arXiv:2010.11934",
        max_length=1024,
        note=f"Covers 101 languages. {SPANS_ONLY}",
    )
    for size, params in (
        ("small", 300_176_768),
        ("base", 582_401_280),
        ("large", 1_229_581_312),
        ("xl", 3_742_619_648),
        ("xxl", 12_921_057_280),
    )
]
UMT5_CHECKPOINTS = [
    released(
        f"umt5_{size}",
        f"google/umt5-{size}",
        V1_1[size][0],
        params,
        "UniMax: Fairer and More Effective Language Sampling for Large-Scale Multilingual Pretraining, "
        "arXiv:2304.09151",
        max_length=1024,
        note=f"Covers 107 languages. {SPANS_ONLY}",
    )
    for size, params in (
        ("small", 306_601_984),
        ("base", 592_043_520),
        ("xl", 3_768_356_864),
        ("xxl", 12_972_531_712),
    )
]
BYT5_CHECKPOINTS = [
    released(
        f"byt5_{size}",
        f"google/byt5-{size}",
        config,
        params,
        "ByT5: Towards a token-free future with pre-trained byte-to-byte models, arXiv:2105.13626",
        max_length=1024,
        note=f"Tokens are bytes. Covers 101 languages. {SPANS_ONLY}",
    )
    for size, config, params in (
        ("small", sizes(1472, 12, 3584, 6, num_decoder_layers=4), 299_637_760),
        ("base", sizes(1536, 18, 3968, 12, num_decoder_layers=6), 581_653_248),
        ("large", sizes(1536, 36, 3840, 16, num_decoder_layers=12), 1_228_183_552),
        ("xl", sizes(2560, 36, 6720, 32, num_decoder_layers=12), 3_737_801_728),
        ("xxl", sizes(4672, 36, 12352, 64, num_decoder_layers=12), 12_906_899_328),
    )
]
