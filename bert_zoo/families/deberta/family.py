"""DeBERTa (He et al. 2020, arXiv:2006.03654): disentangled attention by content and by distance."""

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.deberta.checkpoints import CHECKPOINTS
from bert_zoo.families.deberta.config import DEFAULTS, HF_CODEC, POSITION_TERMS, DebertaConfig
from bert_zoo.families.deberta.formats import Ported, original
from bert_zoo.families.deberta.presets import FIRST_PRETRAINING, PRESETS
from bert_zoo.families.deberta.rows import ENCODER_ROWS, HEADS
from bert_zoo.families.deberta.vocabulary import (
    ALONE,
    LAYOUT,
    SEGMENTED,
    SPECIAL_TOKENS,
    read_vocabulary,
)
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat


def backbone(config: DebertaConfig, dtype):
    """Token embeddings and a stack of blocks with disentangled attention."""
    from bert_zoo.families.deberta.attention import DisentangledAttention
    from bert_zoo.families.deberta.backbone import DisentangledBackbone
    from bert_zoo.families.deberta.stack import Convolution, DisentangledBlock, DisentangledStack
    from bert_zoo.layers import FeedForward, TokenEmbeddings

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon
    normed = {"epsilon": epsilon, "dropout": config.hidden_dropout}

    def block(i: int) -> DisentangledBlock:
        attention = DisentangledAttention(
            config.num_heads,
            hidden_size,
            dropout=config.attention_dropout,
            position_dropout=config.hidden_dropout,
            terms=POSITION_TERMS[config.position_attention],
            shares_projections=config.shares_projections,
            key_bias=config.key_bias,
            name="attention",
            **options,
        )
        feed_forward = FeedForward(
            config.intermediate_size,
            hidden_size,
            activation=config.activation,
            name="feed_forward",
            **options,
        )
        return DisentangledBlock(attention, feed_forward, dtype=dtype, name=f"layer_{i}", **normed)

    convolution = None
    if config.conv_size:
        convolution = Convolution(
            hidden_size,
            config.conv_size,
            activation=config.conv_activation,
            name="convolution",
            **normed,
            **options,
        )
    return DisentangledBackbone(
        config,
        embeddings=TokenEmbeddings(
            config.vocab_size,
            hidden_size,
            max_positions=config.max_positions if config.position_biased_input else 0,
            longest_input=config.max_positions if config.position_biased_input else None,
            num_segments=config.num_segments,
            name="embeddings",
            **normed,
            **options,
        ),
        stack=DisentangledStack(
            [block(i) for i in range(config.num_blocks)],
            hidden_size,
            max_distance=config.longest_distance if config.relative_attention else None,
            buckets=max(config.position_buckets, 0),
            epsilon=epsilon if config.norm_positions else None,
            convolution=convolution,
            name="stack",
            **options,
        ),
        dtype=dtype,
    )


FAMILY = Family(
    name="deberta",
    backbone=backbone,
    defaults={"vocab_size": 50265, **DEFAULTS},
    formats={
        "hf": Ported(
            model_type="deberta",
            codec=HF_CODEC,
            root="deberta.",
            classes={
                task: name
                for task, name in bert_formats.hf_classes("Deberta").items()
                if task != "multiple_choice"  # transformers has no class for it
            },
        ),
        "microsoft": original(HF_CODEC),
    },
    encoder_rows=ENCODER_ROWS,
    heads=HEADS,
    text=TextFormat(
        read_vocabulary,
        {**SPECIAL_TOKENS, "lstrip_mask": True, "begins_word": f" .*|{ALONE}"},
        LAYOUT,
        segmented=SEGMENTED,
    ),
    checkpoints=CHECKPOINTS,
    pretraining="windowed_ngrams",
    config_class=DebertaConfig,
    presets=PRESETS,
    pretraining_preset=FIRST_PRETRAINING,
)
