"""Formats of XLNet: configuration files and weight tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.transformer_xl.formats import Stacked
from bert_zoo.families.xlnet.config import XLNetConfig
from bert_zoo.weights.formats import TF1, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import (
    BIAS,
    DENSE,
    EMBED,
    LAST_REAL_TOKEN,
    NORM,
    Copy,
    Head,
    Row,
    Stored,
    raw,
)

SIZES = [
    ConfigRow("hidden_size", "d_model"),
    ConfigRow("num_layers", "n_layer"),
    ConfigRow("num_heads", "n_head"),
    ConfigRow("head_size", "d_head", optional=True),
    ConfigRow("intermediate_size", "d_inner"),
]


def with_todays_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts Hugging Face's keys: one rate for all dropout, and `n_token` in its first files."""
    values = dict(values)
    if "n_token" in values:
        values.setdefault("vocab_size", values.pop("n_token"))
    return {"dropatt": values.get("dropout"), **values}


MEMORY = ("mem_len", "reuse_len")


def with_null_for_zero(values: dict[str, Any]) -> dict[str, Any]:
    """Writes null for no memory, as Hugging Face's class does."""
    return values | {name: values[name] or None for name in MEMORY}


HF_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size"),
        *SIZES,
        ConfigRow("activation", "ff_activation", ACTIVATIONS, optional=True),
        ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
        ConfigRow("hidden_dropout", "dropout", optional=True),
        ConfigRow("attention_dropout", "dropatt", optional=True),
        ConfigRow("summary_dropout", "summary_last_dropout", optional=True),
        ConfigRow("initializer_range", optional=True),
        *(ConfigRow(name, optional=True) for name in (*MEMORY, "clamp_len", "tie_word_embeddings")),
    ],
    fixed={
        "attn_type": ("bi",),
        "bi_data": (False,),
        "untie_r": (True,),
        "summary_type": ("last",),
        "summary_use_proj": (True,),
        "summary_activation": ("tanh",),
    },
    written={"attn_type": "bi", "untie_r": True},
    # Keys of one-sided attention, of programs, and of position tables, which do not exist.
    ignored=frozenset(
        "same_length start_n_top end_n_top use_mems_eval use_mems_train pad_token_id init init_range "
        "init_std max_position_embeddings".split()
    ),
    config_class=XLNetConfig,
    prepare=with_todays_keys,
    finish=with_null_for_zero,
)
TF1_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size", "n_token"),
        *SIZES,
        ConfigRow("activation", "ff_activation", {"gelu": "gelu_tanh", "relu": "relu"}),
    ],
    fixed={"untie_r": (True,)},
    config_class=XLNetConfig,
)


def by_head(config: XLNetConfig) -> tuple[int, ...]:
    return (config.hidden_size, config.num_heads, config.size_of_head)


def kernel(transposed: bool = False):
    """A kernel [hidden, heads, head_size]."""
    return {
        "kernel": {
            "pytorch": Stored("", transposed, shape=by_head),
            "tensorflow": Stored("/kernel", transposed, shape=by_head),
        }
    }


def one_vector(config: XLNetConfig) -> tuple[int, ...]:
    return (1, 1, config.hidden_size)


MASK = {
    "mask_embedding": {layout: Stored("", shape=one_vector) for layout in ("pytorch", "tensorflow")}
}
LAYER, ATTENTION = "layer.{i}.", "stack/layer_{i}/attention"
BIASES = {
    "content_bias": "r_w_bias",
    "position_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
    "segment_embedding": "seg_embed",
}
ENCODER_ROWS = (
    Row(
        EMBED,
        "embeddings/token_embedding",
        hf="word_embedding",
        tf1="word_embedding/lookup_table",
    ),
    Row(MASK, "embeddings", hf="mask_emb", tf1="mask_emb/mask_emb"),
    *(
        Row(raw(ours, tf1=Stacked("")), ATTENTION, hf=f"{LAYER}rel_attn.{name}", tf1=name)
        for ours, name in BIASES.items()
    ),
    Row(kernel(), f"{ATTENTION}/qkv", hf=tuple(f"{LAYER}rel_attn.{p}" for p in "qkv")),
    Row(kernel(), f"{ATTENTION}/position", hf=f"{LAYER}rel_attn.r"),
    Row(kernel(transposed=True), f"{ATTENTION}/output", hf=f"{LAYER}rel_attn.o"),
    Row(
        NORM,
        "stack/layer_{i}/attention_norm",
        hf=f"{LAYER}rel_attn.layer_norm",
        tf1="layer_{i}/rel_attn/LayerNorm",
    ),
    Row(DENSE, "stack/layer_{i}/feed_forward/intermediate", hf=f"{LAYER}ff.layer_1"),
    Row(DENSE, "stack/layer_{i}/feed_forward/output", hf=f"{LAYER}ff.layer_2"),
    Row(
        NORM,
        "stack/layer_{i}/output_norm",
        hf=f"{LAYER}ff.layer_norm",
        tf1="layer_{i}/ff/LayerNorm",
    ),
)


def tied_copies(config: XLNetConfig) -> tuple[Copy, ...]:
    table = Copy("lm_loss.weight", of="{root}word_embedding.weight")
    return () if bert_rows.untied(config) else (table,)


def last_real_token(config: XLNetConfig) -> str:
    return LAST_REAL_TOKEN


LANGUAGE_MODEL = Head(
    (
        Row(BIAS, "masked_lm", hf="lm_loss.bias", tf1="model/lm_loss/bias"),
        Row(
            EMBED,
            "masked_lm/decoder",
            hf="lm_loss",
            tf1="model/lm_loss/weight",
            when=bert_rows.untied,
        ),
    ),
    copies={"hf": tied_copies},
)
SUMMARY = Head(
    (
        Row(
            DENSE,
            "classifier/transform",
            hf="sequence_summary.summary",
            tf1="model/sequnece_summary/summary",
        ),
        Row(DENSE, "classifier/dense", hf="logits_proj"),
    ),
    summary=last_real_token,
    output=partial(bert_rows.with_layer, dropout_first=0.0),
)
HF_CLASSES = bert_formats.hf_classes("XLNet") | {
    **dict.fromkeys(("masked_lm", "pretraining"), "XLNetLMHeadModel"),
    "question_answering": "XLNetForQuestionAnsweringSimple",
    "beam_question_answering": "XLNetForQuestionAnswering",
}


@dataclass(frozen=True, kw_only=True)
class Original(TF1):
    """Checkpoints of zihangdai/xlnet, including fine-tuned ones (function_builder.py)."""

    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        # A classifier's layer has the task in its name; RACE's has not.
        (r"^model/(classification|regression)_[^/]+/logit/", "logits_proj/"),
        (r"^logits/dense/", "logits_proj/"),
    )

    def what_may_lack(self, key: str) -> str | None:
        return "embedding of tokens to predict" if key.endswith("/mask_emb") else None


FORMATS = {
    "hf": HuggingFace(model_type="xlnet", codec=HF_CODEC, root="transformer.", classes=HF_CLASSES),
    "tf1": Original(
        codec=TF1_CODEC,
        config_file="xlnet_config.json",
        root="model/transformer/",
    ),
}
