"""Assembles BERT's layers."""

from collections.abc import Callable
from typing import Any

from bert_zoo.config import EncoderConfig


def blocks(
    config: EncoderConfig,
    dtype,
    block_class: type | None = None,
    attention: Callable[..., Any] | None = None,
) -> list:
    """Makes the blocks.

    Args:
        config, dtype: the configuration and the dtype policy.
        block_class: a class of `bert_zoo.layers`; `PostNormBlock` by default.
        attention: (number of the block, layer options) -> its attention; `SelfAttention` by default.
    """
    from bert_zoo.layers import FeedForward, PostNormBlock, SelfAttention

    options = {"initializer_range": config.initializer_range, "dtype": dtype}

    def self_attention(i: int, **options) -> SelfAttention:
        return SelfAttention(
            config.num_heads, config.hidden_size, dropout=config.attention_dropout, **options
        )

    def block(i: int):
        return (block_class or PostNormBlock)(
            (attention or self_attention)(i, name="attention", **options),
            FeedForward(
                config.intermediate_size,
                config.hidden_size,
                activation=config.activation,
                name="feed_forward",
                **options,
            ),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )

    return [block(i) for i in range(config.num_blocks)]


def embedding_options(config: EncoderConfig, dtype) -> dict[str, Any]:
    """The arguments of `bert_zoo.layers.Embeddings`."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "embedding_size": config.table_width,
        "max_positions": config.max_positions,
        "num_segments": config.num_segments,
        "position_offset": config.position_offset,
        "pad_id": config.pad_id,
        "epsilon": config.layer_norm_epsilon,
        "dropout": config.hidden_dropout,
        "initializer_range": config.initializer_range,
        "dtype": dtype,
        "name": "embeddings",
    }


def backbone(config: EncoderConfig, dtype, stack: Any = None):
    """Embeddings, `stack` or a stack of post-norm blocks, and a pooler if the configuration has one."""
    from bert_zoo.layers import Embeddings, Pooler, Stack, TransformerBackbone

    hidden_size, pooler = config.hidden_size, None
    if config.pooler:
        initializer_range = config.initializer_range
        pooler = Pooler(
            hidden_size, initializer_range=initializer_range, dtype=dtype, name="pooler"
        )
    return TransformerBackbone(
        config,
        embeddings=Embeddings(**embedding_options(config, dtype)),
        stack=stack
        or Stack(
            blocks(config, dtype),
            hidden_size,
            blocks_of_layers=config.blocks_of_layers,
            dtype=dtype,
            name="stack",
        ),
        pooler=pooler,
        dtype=dtype,
    )
