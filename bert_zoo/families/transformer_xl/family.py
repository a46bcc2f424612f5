"""Transformer-XL (Dai et al. 2019, arXiv:1901.02860): segment recurrence, relative positions."""

from bert_zoo.families.transformer_xl import formats
from bert_zoo.families.transformer_xl.checkpoints import CHECKPOINTS
from bert_zoo.families.transformer_xl.config import RecurrentConfig
from bert_zoo.families.transformer_xl.nano import NANO
from bert_zoo.families.transformer_xl.presets import PRESETS
from bert_zoo.families.transformer_xl.vocabulary import read_vocabulary
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat, rows_of_language_models
from bert_zoo.text.layout import PLAIN
from bert_zoo.weights.table import Head


def block(i: int, attention, config, dtype, pre_lnorm: bool):
    """A block with attention to a memory and a feed-forward layer; also XLNet's."""
    from bert_zoo.families.transformer_xl.stack import RecurrentBlock
    from bert_zoo.layers import FeedForward

    return RecurrentBlock(
        attention,
        FeedForward(
            config.intermediate_size,
            config.hidden_size,
            activation=config.activation,
            inner_dropout=config.hidden_dropout,
            name="feed_forward",
            initializer_range=config.initializer_range,
            dtype=dtype,
        ),
        epsilon=config.layer_norm_epsilon,
        dropout=config.hidden_dropout,
        pre_lnorm=pre_lnorm,
        dtype=dtype,
        name=f"layer_{i}",
    )


def backbone(config: RecurrentConfig, dtype):
    """Adaptive embeddings and a stack of blocks with a memory."""
    from bert_zoo.families.transformer_xl.attention import RelativeAttention
    from bert_zoo.families.transformer_xl.backbone import RecurrentBackbone
    from bert_zoo.families.transformer_xl.embeddings import AdaptiveEmbedding
    from bert_zoo.families.transformer_xl.stack import RecurrentStack

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    heads = {"num_heads": config.num_heads, "head_size": config.head_size}

    def attention() -> RelativeAttention:
        return RelativeAttention(
            hidden_size=config.hidden_size,
            dropout=config.attention_dropout,
            has_biases=config.untie_r,
            name="attention",
            **heads,
            **options,
        )

    return RecurrentBackbone(
        config,
        embeddings=AdaptiveEmbedding(
            config.table_sizes,
            config.table_widths,
            config.is_projected,
            config.hidden_size,
            dropout=config.hidden_dropout,
            projection_initializer_range=config.projection_initializer_range,
            name="embeddings",
            **options,
        ),
        stack=RecurrentStack(
            [
                block(i, attention(), config, dtype, config.pre_lnorm)
                for i in range(config.num_layers)
            ],
            config.hidden_size,
            has_biases=not config.untie_r,
            clamp_len=config.clamp_len,
            span=config.attention_span,
            dropout=config.hidden_dropout,
            name="stack",
            **heads,
            **options,
        ),
        dtype=dtype,
    )


FAMILY = Family(
    name="transformer_xl",
    backbone=backbone,
    defaults={},
    formats=formats.FORMATS,
    encoder_rows=formats.ENCODER_ROWS,
    heads={
        "causal_lm": Head(
            (formats.softmax_rows,),
            copies={"hf": formats.hf_copies, "torch": formats.softmax_copies},
        )
    },
    text=TextFormat(read_vocabulary, layout=PLAIN, preprocessor=rows_of_language_models),
    checkpoints=[*CHECKPOINTS, NANO],
    config_class=RecurrentConfig,
    tasks_without_head=("encoder",),
    params_task="causal_lm",
    settings=("mem_len", "clamp_len", "same_length", "same_length_keys", "memory_start"),
    language_model_presets=PRESETS,
)
