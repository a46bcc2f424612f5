"""MobileBERT (Sun et al. 2020, arXiv:2004.02984): BERT large's depth at an eighth of its width."""

from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.mobilebert.checkpoints import CHECKPOINTS
from bert_zoo.families.mobilebert.config import DEFAULTS, HF_CODEC, TF1_CODEC, MobileBertConfig
from bert_zoo.families.mobilebert.presets import PRESETS, PRETRAINING
from bert_zoo.families.mobilebert.rows import ENCODER_ROWS, MASKED_LM_ROWS
from bert_zoo.family import Family
from bert_zoo.weights.formats import TF1, HuggingFace
from bert_zoo.weights.table import Head


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


class Original(LastTokenReadsPadding, TF1):
    """Checkpoints of google-research/mobilebert, where only a pooler with a layer has variables."""

    def told(self, source, config, unsaid):
        has_layer = any(key.endswith("/pooler/dense/kernel") for key in source)
        return {**super().told(source, config, unsaid), "classifier_activation": has_layer}


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
                **bert_formats.hf_classes("MobileBert"),
                "pretraining": "MobileBertForPreTraining",
                "next_sentence_prediction": "MobileBertForNextSentencePrediction",
            },
        ),
        "tf1": Original(codec=TF1_CODEC, config_file="bert_config.json", root="bert/"),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        **bert_rows.TASK_HEADS,
        "masked_lm": Head(MASKED_LM_ROWS, copies=bert_rows.MASKED_LM_COPIES),
        "pretraining": Head(
            (*MASKED_LM_ROWS, bert_rows.NEXT_SENTENCE),
            pooler=True,
            copies=bert_rows.MASKED_LM_COPIES,
        ),
        "next_sentence_prediction": bert_rows.HEADS["next_sentence_prediction"],
    },
    text=bert.FAMILY.text,
    checkpoints=CHECKPOINTS,
    objectives=("masked_lm", "next_sentence"),
    pretraining="masked_tokens",
    config_class=MobileBertConfig,
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
