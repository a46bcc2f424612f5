"""MobileBERT (Sun et al. 2020, arXiv:2004.02984): BERT large's depth at an eighth of its width."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.config import MOST_LAYERS, ConfigError, EncoderConfig, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.mobilebert.cards import CHECKPOINTS, PRESETS, PRETRAINING
from bert_zoo.family import Family
from bert_zoo.weights.formats import TF1, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import DENSE, EMBED, NORM, Head, Kind, Row, Stored


@dataclass(frozen=True, kw_only=True)
class MobileBertConfig(EncoderConfig):
    on_card: ClassVar[tuple[str, ...]] = (
        *(*EncoderConfig.on_card, "embedding_size", "bottleneck_size", "num_feed_forwards"),
    )

    embedding_size: int = size(128)  # width of the token table
    bottleneck_size: int = size(128)  # width inside a block; a multiple of `num_heads`
    num_feed_forwards: int = size(4)  # feed-forward layers per block
    # Whether the pooler has a tanh layer; without it, the pooler returns the first token.
    classifier_activation: bool = True

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.embedding_size >= self.hidden_size:
            yield (
                f"embedding_size is {self.embedding_size}; it must be below hidden_size "
                f"{self.hidden_size}, because the masked-token head has a table for the difference."
            )
        if self.bottleneck_size % self.num_heads:
            yield f"bottleneck_size {self.bottleneck_size} is not a multiple of num_heads {self.num_heads}."
        if self.num_layers * self.num_feed_forwards > MOST_LAYERS:
            yield (
                f"num_feed_forwards is {self.num_feed_forwards} in each of {self.num_layers} layers; at most "
                f"{MOST_LAYERS:,} are allowed in all."
            )


ROWS = [
    *bert.ROWS,
    ConfigRow("embedding_size", optional=True),
    ConfigRow("bottleneck_size", "intra_bottleneck_size", optional=True),
    ConfigRow("num_feed_forwards", "num_feedforward_networks", optional=True),
    ConfigRow("classifier_activation", optional=True),
]
# The released model's values of the options of Google's program.
RELEASED = {
    "trigram_input": (True,),
    "use_bottleneck": (True,),
    "use_bottleneck_attention": (False,),
    "key_query_shared_bottleneck": (True,),
    "normalization_type": ("no_norm",),
}
# Defaults of Google's program for keys that a file lacks.
GOOGLE_DEFAULTS = {
    "trigram_input": False,
    "key_query_shared_bottleneck": False,
    "normalization_type": "layer_norm",
    "num_feedforward_networks": 1,
}


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Completes the content of a file of Google's program; raises ConfigError for BERT's file."""
    if "use_bottleneck" not in values:
        raise ConfigError("use_bottleneck is missing.")
    return {**GOOGLE_DEFAULTS, **values}


# Defaults of transformers' MobileBertConfig.
DEFAULTS = {"activation": "relu", "hidden_dropout": 0.0}
HF_CODEC = ConfigCodec(
    rows=[*ROWS, *bert.HF_ROWS, ConfigRow("classifier_dropout", optional=True)],
    fixed=RELEASED,
    written={name: values[0] for name, values in RELEASED.items()},
    ignored=frozenset({"true_hidden_size"}),  # repeats `intra_bottleneck_size`
    defaults=DEFAULTS,
    config_class=MobileBertConfig,
)
TF1_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"}),
    ],
    fixed=RELEASED,
    config_class=MobileBertConfig,
    prepare=with_defaults,
)

BLOCK, LAYER = "stack/layer_{i}/", "encoder.layer.{i}."

ATTENTION, BOTTLENECK = f"{LAYER}attention.", f"{LAYER}bottleneck."


def row(kind: Kind, path: str, *hf: str, **more) -> Row:
    """Makes a row from Hugging Face's names. Google's differ in norms and numbered layers."""

    def google(name: str) -> str:
        name = name.replace("LayerNorm", "FakeLayerNorm").replace("layer.{i}", "layer_{i}")
        return re.sub(r"ffn\.(\d)", r"ffn_layer_\1", name).replace(".", "/")

    return Row(kind, path, hf=hf, tf1=tuple(map(google, hf)), **more)


def feed_forward_rows(config: MobileBertConfig) -> Iterator[Row]:
    """Rows of the feed-forward layers; the last of a block has BERT's names."""
    for i in range(config.num_feed_forwards):
        hf = f"{LAYER}ffn.{i}." if i < config.num_feed_forwards - 1 else LAYER
        path = f"{BLOCK}feed_forward_{i}"
        yield row(DENSE, f"{path}/intermediate", f"{hf}intermediate.dense")
        yield row(DENSE, f"{path}/output", f"{hf}output.dense")
        yield row(NORM, f"{path}_norm", f"{hf}output.LayerNorm")


ENCODER_ROWS = (
    *(r for r in bert.ENCODER_ROWS if r.kind is EMBED),
    row(DENSE, "embeddings/trigram", "embeddings.embedding_transformation"),
    row(NORM, "embeddings/norm", "embeddings.LayerNorm"),
    row(DENSE, f"{BLOCK}narrow", f"{BOTTLENECK}input.dense"),
    row(NORM, f"{BLOCK}narrow_norm", f"{BOTTLENECK}input.LayerNorm"),
    row(DENSE, f"{BLOCK}shared", f"{BOTTLENECK}attention.dense"),
    row(NORM, f"{BLOCK}shared_norm", f"{BOTTLENECK}attention.LayerNorm"),
    row(DENSE, f"{BLOCK}attention/query_key", f"{ATTENTION}self.query", f"{ATTENTION}self.key"),
    row(DENSE, f"{BLOCK}attention/value", f"{ATTENTION}self.value"),
    row(DENSE, f"{BLOCK}attention/output", f"{ATTENTION}output.dense"),
    row(NORM, f"{BLOCK}attention_norm", f"{ATTENTION}output.LayerNorm"),
    feed_forward_rows,
    row(DENSE, f"{BLOCK}widen", f"{LAYER}output.bottleneck.dense"),
    row(NORM, f"{BLOCK}output_norm", f"{LAYER}output.bottleneck.LayerNorm"),
    row(
        DENSE,
        "pooler/dense",
        "pooler.dense",
        when=lambda config: config.pooler and config.classifier_activation,
    ),
)
# Hugging Face's is a dense layer [width, vocabulary] that is never called.
EXTRA: Kind = {
    "embeddings": {"pytorch": Stored(".weight", transposed=True), "tensorflow": Stored("")}
}
MASKED_LM_ROWS = (
    *bert.MASKED_LM_ROWS,
    Row(
        EXTRA,
        "masked_lm/extra_decoder",
        hf="cls.predictions.dense",
        tf1="cls/predictions/extra_output_weights",
    ),
)


def backbone(config: MobileBertConfig, dtype):
    """Trigram embeddings, blocks with bottlenecks, and a pooler with or without a layer."""
    from bert_zoo.families.mobilebert.layers import (
        BottleneckAttention,
        BottleneckBlock,
        TrigramBackbone,
        TrigramEmbeddings,
    )
    from bert_zoo.layers import FeedForward, FirstToken, Pooler, Stack

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, bottleneck_size = config.hidden_size, config.bottleneck_size

    def feed_forward(i: int) -> FeedForward:
        return FeedForward(
            config.intermediate_size,
            bottleneck_size,
            activation=config.activation,
            name=f"feed_forward_{i}",
            **options,
        )

    def block(i: int) -> BottleneckBlock:
        return BottleneckBlock(
            BottleneckAttention(
                config.num_heads,
                bottleneck_size,
                dropout=config.attention_dropout,
                name="attention",
                **options,
            ),
            [feed_forward(j) for j in range(config.num_feed_forwards)],
            hidden_size=hidden_size,
            bottleneck_size=bottleneck_size,
            dropout=config.hidden_dropout,
            name=f"layer_{i}",
            **options,
        )

    pooler = None
    if config.pooler and config.classifier_activation:
        pooler = Pooler(hidden_size, name="pooler", **options)
    elif config.pooler:
        pooler = FirstToken(name="pooler", dtype=dtype)
    return TrigramBackbone(
        config,
        embeddings=TrigramEmbeddings(
            config.vocab_size,
            hidden_size,
            token_size=config.table_width,
            max_positions=config.max_positions,
            num_segments=config.num_segments,
            position_offset=0,
            pad_id=config.pad_id,
            dropout=config.hidden_dropout,
            name="embeddings",
            **options,
        ),
        stack=Stack(
            [block(i) for i in range(config.num_layers)], hidden_size, dtype=dtype, name="stack"
        ),
        pooler=pooler,
        dtype=dtype,
    )


class LastTokenReadsPadding:
    """Mixin for the formats of programs in which a padded row's last token has padding as its right neighbour."""

    def differences(self, config, unsaid, longest):
        yield (
            "In padded rows the last token has no right neighbour, so outputs do not depend on the batch. "
            "transformers and Google's program read the padding there, so their outputs for padded rows differ; "
            "those for rows without padding are the same."
        )


class MobileBertHuggingFace(LastTokenReadsPadding, HuggingFace):
    """Hugging Face's files."""


class OriginalMobileBert(LastTokenReadsPadding, TF1):
    """Checkpoints of google-research/mobilebert, where only a pooler with a layer has variables."""

    def inferred_fields(self, source, config, unsaid):
        has_layer = any(key.endswith("/pooler/dense/kernel") for key in source)
        return {
            **super().inferred_fields(source, config, unsaid),
            "classifier_activation": has_layer,
        }


FAMILY = Family(
    name="mobilebert",
    backbone=backbone,
    defaults={"vocab_size": 30522, **DEFAULTS, "classifier_activation": False},
    formats={
        "hf": MobileBertHuggingFace(
            model_type="mobilebert",
            codec=HF_CODEC,
            root="mobilebert.",
            classes={
                **bert.hf_classes("MobileBert"),
                "pretraining": "MobileBertForPreTraining",
                "next_sentence_prediction": "MobileBertForNextSentencePrediction",
            },
        ),
        "tf1": OriginalMobileBert(codec=TF1_CODEC, config_file="bert_config.json", root="bert/"),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        **bert.TASK_HEADS,
        "masked_lm": Head(MASKED_LM_ROWS, copies=bert.MASKED_LM_COPIES),
        "pretraining": Head(
            (*MASKED_LM_ROWS, bert.NEXT_SENTENCE),
            pooler=True,
            copies=bert.MASKED_LM_COPIES,
        ),
        "next_sentence_prediction": bert.HEADS["next_sentence_prediction"],
    },
    text=bert.FAMILY.text,
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "next_sentence"),
    pretraining="masked_tokens",
    config_class=MobileBertConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
