"""NeoBERT (Le Breton et al. 2025, arXiv:2502.19587): a deep and narrow encoder for English, 4,096 tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bert_zoo.config import ConfigError, Pooling
from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import WITHOUT, StackConfig, backbone, layer_rows
from bert_zoo.families.roformer import rotating_pairs
from bert_zoo.family import HF, Checkpoint, Family, TextSpec
from bert_zoo.fields import is_integer
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, Head, Row

CHECKPOINTS = [
    Checkpoint(
        "neobert",
        {},
        sources=[HF("chandar-lab/NeoBERT")],
        provides=frozenset({"encoder", "masked_lm"}),
        params=221_665_536,
        licence="MIT",
        paper="NeoBERT: A Next-Generation BERT, arXiv:2502.19587",
        text=TextSpec(lowercase=True, max_length=4096),
        pooling=Pooling("cls"),
        note=(
            "Its authors' own files alone: programs derived from theirs rotate or gate otherwise under the same names, "
            "which no file tells."
        ),
    )
]


@dataclass(frozen=True, kw_only=True)
class NeoBertConfig(StackConfig):
    """No layer of the encoder has a bias. Masked tokens have a decoder of their own, without a layer before it."""

    norm: ClassVar[str] = "rms"
    norm_before: ClassVar[bool] = True
    norm_bias: ClassVar[bool] = False
    embeddings_norm: ClassVar[bool] = False
    final_norm: ClassVar[bool] = True
    gated: ClassVar[bool] = True
    attention_bias: ClassVar[bool] = False
    mlp_bias: ClassVar[bool] = False


MULTIPLE = 8  # of which the width of feed-forward layers is one


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """From the authors' config.json to one with the width that feed-forward layers have: two thirds of what it says."""
    values, said = dict(values), values.get("intermediate_size")
    if is_integer(said):
        values["intermediate_size"] = -(-(2 * said // 3) // MULTIPLE) * MULTIPLE
    return values


def written(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`."""
    if (width := values["intermediate_size"]) % MULTIPLE:
        raise ConfigError(
            f"intermediate_size is {width}; NeoBERT's files have only multiples of {MULTIPLE}. Save in another format."
        )
    return values | {"intermediate_size": width * 3 // 2}


CLASSES = {
    "encoder": "NeoBERT",
    "masked_lm": "NeoBERTLMHead",
    **dict.fromkeys(bert.SENTENCE_TASKS, "NeoBERTForSequenceClassification"),
}
DEFAULTS = {
    **WITHOUT,
    "max_positions": 4096,
    "num_layers": 28,
    "intermediate_size": 2048,
    "layer_norm_epsilon": 1e-5,
    "activation": "silu",
    "classifier_dropout": 0.1,
    "tie_word_embeddings": False,
}
HF_CODEC = ConfigCodec(
    rows=[
        *bert.SIZES,
        ConfigRow("max_positions", "max_length", optional=True),
        ConfigRow("layer_norm_epsilon", "norm_eps", optional=True),
        ConfigRow("initializer_range", "embedding_init_range", optional=True),
        ConfigRow("classifier_dropout", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={"tie_word_embeddings": (False,)},
    # Initialisation, and what follows from other keys.
    ignored=frozenset("classifier_init_range decoder_init_range dim_head kwargs".split()),
    # The defaults of the authors' class.
    defaults=DEFAULTS | {"layer_norm_epsilon": 1e-6, "max_positions": 1024},
    config_class=NeoBertConfig,
    prepare=settings,
    finish=written,
)

LAYER = "transformer_encoder.{i}."
NAMES = {
    "attention_norm": f"{LAYER}attention_norm",
    "attention/qkv": f"{LAYER}qkv",
    "attention/output": f"{LAYER}wo",
    "output_norm": f"{LAYER}ffn_norm",
    "feed_forward/intermediate": f"{LAYER}ffn.w12",
    "feed_forward/output": f"{LAYER}ffn.w3",
    "final_norm": "layer_norm",
}
SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="dense"), bert.CLASSIFIER), output=bert.with_layer
)


def head_by_head(config: NeoBertConfig) -> np.ndarray:
    """`Stored.order` of one tensor with the queries, keys and values of each head one after the other."""
    stored = np.arange(sum(config.widths_of_heads)).reshape(config.num_heads, 3, -1)
    return stored.swapaxes(0, 1).ravel()[rotating_pairs(config)]


FAMILY = Family(
    name="neobert",
    backbone=backbone,
    defaults={"vocab_size": 30522, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="neobert",
            codec=HF_CODEC,
            root="model.",
            classes=CLASSES,
            own_renames=((r"^_orig_mod\.", ""),),  # of models that were compiled
            ignorable=(r"(^|\.)freqs_cis$",),
            supports={"activation": "silu", "tie_word_embeddings": False},
        )
    },
    encoder_rows=(
        bert.TOKENS.named(hf="encoder"),
        *layer_rows(NAMES, {"attention/qkv": head_by_head}),
    ),
    heads={
        "masked_lm": bert.decoding_head("decoder", table="encoder"),
        **{task: bert.TASK_HEADS[task] for task in ("token_classification", "question_answering")},
        **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE),
    },
    text=replace(bert.FAMILY.text, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masks_20",
    config_class=NeoBertConfig,
)
