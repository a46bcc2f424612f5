"""RoBERTa (Liu et al. 2019, arXiv:1907.11692): BERT's encoder with positions that skip padding."""

from dataclasses import replace
from typing import Any

import numpy as np

from bert_zoo.config import EncoderConfig
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import (
    ANSWERS,
    BASE,
    CHOICES,
    LARGE,
    PRETRAINING_SIZES,
    TEXTS,
    nli,
    of_config,
    of_glue,
)
from bert_zoo.families.nano import SIZE, trained_here
from bert_zoo.family import HF, Archive, Checkpoint, Family, TextSpec, scores_of
from bert_zoo.json_files import JsonObject
from bert_zoo.presets import Preset, PretrainingPreset, PretrainingSize, Recipe
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import ROBERTA
from bert_zoo.text.vocabulary_files import read_byte_bpe
from bert_zoo.weights.formats import Description, Fairseq, HuggingFace, keras_hub
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, OUTPUT, Copy, Head, Row, Stored

# fairseq's optimizer: bias correction, weight decay on all weights, no clipping.
RECIPE = Recipe(
    epochs=10,
    learning_rate=1e-5,
    schedule="linear_after_warmup",
    warmup_proportion=0.06,
    weight_decay=0.1,
    decay_all=True,
    betas=(0.9, 0.98),
    bias_correction=True,
    clip_norm=None,
    max_length=512,
)
# Task -> rows per update, learning rate, updates, warmup.
GLUE = {
    "cola": (16, 1e-5, 5336, 320),
    "mnli": (32, 1e-5, 123873, 7432),
    "mrpc": (16, 1e-5, 2296, 137),
    "qnli": (32, 1e-5, 33112, 1986),
    "qqp": (32, 1e-5, 113272, 28318),
    "rte": (16, 2e-5, 2036, 122),
    "sst2": (32, 1e-5, 20935, 1256),
    "stsb": (16, 2e-5, 3598, 214),
}
RACE = RECIPE.replace(
    epochs=5, batch_size=16, weight_decay=0.01, schedule="constant", warmup_proportion=0.0
)
PRESETS = (
    Preset(
        "roberta/glue",
        TEXTS,
        RECIPE,
        "Liu et al. 2019 (arXiv:1907.11692), table 10",
        grid={"batch_size": (16, 32), "learning_rate": (1e-5, 2e-5, 3e-5)},
    ),
    *of_glue(
        "roberta",
        RECIPE,
        GLUE,
        "fairseq examples/roberta/config/finetuning, examples/roberta/README.glue.md",
        note="The authors tested these settings with RoBERTa-large.",
    ),
    Preset(
        "roberta/squad",
        ANSWERS,
        RECIPE.replace(epochs=2, batch_size=48, learning_rate=1.5e-5, weight_decay=0.01),
        "Liu et al. 2019 (arXiv:1907.11692), table 10",
        note="The stride of windows is BERT's; the paper states none.",
    ),
    Preset("roberta/race", CHOICES, RACE, "fairseq examples/roberta/README.race.md"),
)


def with_padding(size: PretrainingSize) -> PretrainingSize:
    """A size with two more positions, since RoBERTa's first position has index 2."""
    return of_config(size, max_positions=size.config.get("max_positions", 512) + 2)


PRETRAINING = PretrainingPreset(
    rows="full_sentences",
    recipe=RECIPE.replace(
        batch_size=8192,
        total_steps=500_000,
        warmup_steps=24_000,
        learning_rate=6e-4,
        weight_decay=0.01,
    ),
    phases=((512, 1.0),),
    sizes={
        **{name: with_padding(size) for name, size in PRETRAINING_SIZES.items()},
        "large": replace(
            with_padding(PRETRAINING_SIZES["large"]),
            changes={"warmup_steps": 30_000, "learning_rate": 4e-4},
        ),
    },
    vocabulary="byte_bpe",
    lowercase=False,
    source="Liu et al. 2019, table 9; fairseq examples/roberta/README.pretraining.md",
)

FAIRSEQ = "https://dl.fbaipublicfiles.com/fairseq/models/"
PAPER = "RoBERTa: A Robustly Optimized BERT Pretraining Approach, arXiv:1907.11692"
CASED = TextSpec(lowercase=None)
# fairseq's RoBERTa has no pooler, and Hugging Face's files were made from it.
NO_POOLER = {"pooler": False}
SIX_LAYERS = BASE | {"num_layers": 6}


def fairseq(
    name: str,
    archive: str,
    config: dict,
    params: int,
    commit: str,
    sha256: str | None = None,
    **card,
) -> Checkpoint:
    """A checkpoint of facebookresearch/fairseq. All have the same licence."""
    repo = f"FacebookAI/{name.replace('_', '-')}"
    return Checkpoint(
        name,
        config | NO_POOLER,
        sources=[HF(repo, commit, sha256), Archive(f"{FAIRSEQ}{archive}.tar.gz")],
        params=params,
        licence="MIT",
        text=CASED,
        **{"paper": PAPER, "provides": frozenset({"encoder", "masked_lm"}), **card},
    )


# fairseq examples/roberta/README.md; single models.
COLUMNS = (
    "MNLI (dev accuracy)",
    "QNLI (dev accuracy)",
    "QQP (dev accuracy)",
    "RTE (dev accuracy)",
    "SST-2 (dev accuracy)",
    "MRPC (dev accuracy)",
    "CoLA (dev Matthews correlation)",
    "STS-B (dev Pearson correlation)",
    "SQuAD 1.1 (dev F1/EM)",
    "SQuAD 2.0 (dev F1/EM)",
    "RACE (test accuracy)",
)
# For where commits and hashes come from, see checkpoints/README.md.
CHECKPOINTS = [
    fairseq(
        "roberta_base",
        "roberta.base",
        BASE,
        124_055_040,
        "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
        "5bde1d28afb363d0103324efeb5afc8b2b397fe5e04beabb9b1ef355255ade81",
        scores=scores_of(COLUMNS, "87.6 92.8 91.9 78.7 94.8 90.2 63.6 91.2"),
    ),
    fairseq(
        "roberta_large",
        "roberta.large",
        LARGE,
        354_310_144,
        "722cf37b1afa9454edce342e7895e588b6ff1d59",
        scores=scores_of(
            COLUMNS, "90.2 94.7 92.2 86.6 96.4 90.9 68.0 92.4 94.6/88.9 89.4/86.5 83.2"
        ),
    ),
    fairseq(
        "roberta_large_mnli",
        "roberta.large.mnli",
        LARGE,
        354_310_144,
        "2a8f12d27941090092df78e4ba6f0928eb5eac98",
        "f4dbab1bceb16f9800f7b9a9c96b187d5400511b66982e4e845de920f69b89b5",
        provides=frozenset({"encoder", "classification"}),
        labels=["contradiction", "neutral", "entailment"],
        scores={"MNLI (dev accuracy)": 90.6},
        note="Fine-tuned on MNLI. Pass pairs as (premise, hypothesis).",
    ),
    Checkpoint(
        "distilroberta_base",
        SIX_LAYERS | NO_POOLER,
        sources=[
            HF(
                "distilbert/distilroberta-base",
                "fb53ab8802853c8e4fbdbcd0529f21fc6f459b2b",
                "2b11ca9cf3d2cbb44cc1a93ad96aedc2894231ae6e33e2d2268c3d7b1ff97663",
            )
        ],
        provides=frozenset({"encoder", "masked_lm"}),
        params=81_527_808,
        licence="Apache-2.0",
        paper="DistilBERT, a distilled version of BERT, arXiv:1910.01108",
        text=CASED,
        scores={
            "MNLI (dev accuracy)": 84.0,
            "SST-2 (dev accuracy)": 92.5,
            "CoLA (dev Matthews correlation)": 59.3,
            "RTE (dev accuracy)": 67.9,
        },
        note="Distilled from roberta_base.",
    ),
    Checkpoint(
        "codebert",
        BASE,
        sources=[HF("microsoft/codebert-base", "3b0952feddeffad0063f274080e3c23d75e7eb39")],
        provides=frozenset({"encoder"}),
        params=124_645_632,
        licence="MIT (the code's; none is stated for the weights)",
        paper=(
            "CodeBERT: A Pre-Trained Model for Programming and Natural Languages, arXiv:2002.08155"
        ),
        text=CASED,
        aliases=["codebert_base"],
        note=(
            "For Python, Java, JavaScript, PHP, Ruby and Go. In a pair, natural language comes first and code "
            "second. Pretrained on masked and replaced tokens."
        ),
    ),
    Checkpoint(
        "twitter_roberta_sentiment",
        BASE | NO_POOLER,
        sources=[HF("cardiffnlp/twitter-roberta-base-sentiment-latest")],
        provides=frozenset({"encoder", "classification"}),
        params=124_055_040,
        licence="CC-BY-4.0 (not verified)",
        paper="TimeLMs: Diachronic Language Models from Twitter, arXiv:2202.03829",
        text=CASED,
        labels=("negative", "neutral", "positive"),
        aliases=["twitter-roberta-base-sentiment-latest"],
        note='Trained on tweets in which names of users are "@user" and links "http": write yours so, too.',
    ),
    Checkpoint(
        "bertweet_large",
        LARGE | NO_POOLER,
        sources=[HF("vinai/bertweet-large")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=354_310_144,
        licence="MIT",
        paper="BERTweet: A pre-trained language model for English Tweets, arXiv:2005.10200",
        text=CASED,
        note=(
            "Trained on 873 million English tweets, with RoBERTa's tokenizer, which does not normalise tweets: pass "
            "yours through bert_zoo.families.bertweet.text.TweetNormalizer first."
        ),
    ),
    nli("roberta_base", "roberta-base", BASE | NO_POOLER, 124_055_040, 87.47),
    nli("minilm2_l6", "MiniLM2-L6-H768", SIX_LAYERS | NO_POOLER, 81_527_808, 86.89),
    nli("distilroberta_base", "distilroberta-base", SIX_LAYERS | NO_POOLER, 81_527_808, 83.98),
    trained_here(
        "roberta_nano",
        {**PRETRAINING.sizes[SIZE].config, **NO_POOLER},
        PAPER,
        sha256="ece1d0b38892ab3a943cb64890ad2f9fd0d1ae0d8c32124196323202023d8a1b",
        params=1_181_568,
        scores={
            "held-out loss": 3.344,
            "held-out loss before training": 7.154,
            "held-out loss of a unigram model": 6.816,
        },
        provides=frozenset({"encoder", "masked_lm"}),
        text=TextSpec(lowercase=None, max_length=128),
    ),
]

LAYER = "layers.{i}."
FAIRSEQ_NAMES = {
    "embeddings/token_embedding": "embed_tokens",
    "embeddings/position_embedding": "embed_positions",
    "embeddings/norm": "layernorm_embedding",
    "stack/layer_{i}/attention/qkv": tuple(f"{LAYER}self_attn.{p}_proj" for p in "qkv"),
    "stack/layer_{i}/attention/output": f"{LAYER}self_attn.out_proj",
    "stack/layer_{i}/attention_norm": f"{LAYER}self_attn_layer_norm",
    "stack/layer_{i}/feed_forward/intermediate": f"{LAYER}fc1",
    "stack/layer_{i}/feed_forward/output": f"{LAYER}fc2",
    "stack/layer_{i}/output_norm": f"{LAYER}final_layer_norm",
    "masked_lm/transform": "encoder.lm_head.dense",
    "masked_lm/norm": "encoder.lm_head.layer_norm",
    "masked_lm": "encoder.lm_head.bias",
}


def fairseq_copies(config: EncoderConfig) -> tuple[Copy, ...]:
    return (Copy("encoder.lm_head.weight", of="{root}embed_tokens.weight"),)


MASKED_LM_ROWS = bert.masked_lm_rows("lm_head", dense="dense", norm="layer_norm")
# A layer over the first token replaces BERT's pooler.
CLASSIFIER_ROWS = (
    Row(DENSE, "classifier/transform", hf="classifier.dense", fairseq="classification_heads.dense"),
    Row(
        OUTPUT,
        "classifier/dense",
        hf="classifier.out_proj",
        fairseq="classification_heads.out_proj",
    ),
)


def first_position(config: EncoderConfig) -> int:
    """The number of position rows before the first token's."""
    return config.pad_id + 1


class WithoutPadding(Stored):
    """A position table stored from the first token's row on; earlier rows are read as zeros."""

    def shape_of(self, part, config):
        return (part[0] - first_position(config), *part[1:])

    def to_ours(self, tensor, part, config):
        return np.concatenate([np.zeros((first_position(config), *part[1:]), tensor.dtype), tensor])

    def to_stored(self, part, config):
        return part[first_position(config) :]


# Implied by every file: fairseq utils.py, make_positions.
DEFAULTS = {"pad_id": 1, "positions_after_padding": True}
# For programs other than Hugging Face's, which has a table with one segment.
WITHOUT_SEGMENTS = {**DEFAULTS, "num_segments": 1, "layer_norm_epsilon": 1e-5, "pooler": False}
FAIRSEQ_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size", "embed_tokens_rows"),
        ConfigRow("max_positions", "embed_positions_rows"),
        ConfigRow("num_layers", "encoder_layers"),
        ConfigRow("hidden_size", "encoder_embed_dim"),
        ConfigRow("intermediate_size", "encoder_ffn_embed_dim"),
        ConfigRow("num_heads", "encoder_attention_heads"),
        ConfigRow("hidden_dropout", "dropout"),
        ConfigRow("attention_dropout"),
        ConfigRow("classifier_dropout", "pooler_dropout", optional=True),
        ConfigRow("activation", "activation_fn", {"gelu": "gelu", "relu": "relu"}, optional=True),
    ],
    fixed={
        "arch": ("roberta", "roberta_base", "roberta_large"),
        "task": ("masked_lm", "sentence_prediction", "sentence_ranking"),
        "pooler_activation_fn": ("tanh",),
        "encoder_normalize_before": (False,),
    },
    # fairseq's other arguments are for training.
    ignored=None,
    defaults=WITHOUT_SEGMENTS,
)


class PositionsFromZero(keras_hub.KerasHub):
    """KerasHub's positions start at 0, ours after the row of padding."""

    def stored(self, row: Row, variable: str) -> Stored:
        if row.ours == "embeddings/position_embedding":
            return WithoutPadding(self.suffix(row, variable))
        return super().stored(row, variable)

    def decode(self, values: JsonObject, *, where: str) -> EncoderConfig:
        config = super().decode(values, where=where)
        return config.replace(max_positions=config.max_positions + first_position(config))

    def encode(self, config: EncoderConfig, description: Description) -> dict[str, Any]:
        config = config.replace(max_positions=config.max_positions - first_position(config))
        return super().encode(config, description)


FAMILY = Family(
    name="roberta",
    backbone=bert.backbone,
    defaults={
        "vocab_size": 50265,
        "max_positions": 514,
        "num_segments": 1,
        "layer_norm_epsilon": 1e-5,
        **DEFAULTS,
    },
    formats={
        "hf": HuggingFace(
            model_type="roberta",
            codec=replace(bert.HF_CODEC, defaults=DEFAULTS),
            root="roberta.",
            classes=bert.hf_classes("Roberta"),
        ),
        "fairseq": Fairseq(codec=FAIRSEQ_CODEC, root="encoder.sentence_encoder."),
        "keras_hub": PositionsFromZero(
            class_name="RobertaBackbone",
            codec=keras_hub.codec(defaults=WITHOUT_SEGMENTS),
            layers={**keras_hub.JOINT_TABLES, **keras_hub.ENCODER, **keras_hub.TWO_LAYERS},
            classes={"RobertaTextClassifier": "RobertaForSequenceClassification"},
        ),
    },
    encoder_rows=bert.renamed(bert.ENCODER_ROWS, "fairseq", FAIRSEQ_NAMES),
    heads={
        **bert.TASK_HEADS,
        "masked_lm": Head(
            bert.renamed(MASKED_LM_ROWS, "fairseq", FAIRSEQ_NAMES),
            copies={**bert.masked_lm_copies("lm_head"), "fairseq": fairseq_copies},
            activation="gelu",
        ),
        **dict.fromkeys(bert.SENTENCE_TASKS, Head(CLASSIFIER_ROWS, output=bert.with_layer)),
    },
    text=TextFormat(read_byte_bpe, layout=ROBERTA, transformers_class="RobertaTokenizer"),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
