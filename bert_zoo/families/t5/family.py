"""T5 (Raffel et al. 2020, arXiv:1910.10683): every task as text to text, with an encoder and a decoder."""

from functools import partial

from bert_zoo.families.t5 import formats
from bert_zoo.families.t5.checkpoints import T5
from bert_zoo.families.t5.config import DEFAULTS, T5Config
from bert_zoo.families.t5.presets import PRESETS, PRETRAINING
from bert_zoo.families.t5.rows import DECODER_ROWS, ENCODER_HEADS, ENCODER_ROWS, copies
from bert_zoo.families.t5.vocabulary import LAYOUT, read_vocabulary
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.weights.table import Head


def parts(config: T5Config, dtype):
    """Functions that make the layers of both stacks: attention, feed-forward, final norm.

    Attention takes its own bias by distance, or the stacks have one; see `biases`.
    """
    from bert_zoo.families.t5.layers import Attention, RMSNorm
    from bert_zoo.layers import FeedForward

    hidden_size, inner = config.hidden_size, config.num_heads * config.head_size

    def deviation(inputs: int) -> float:
        return config.initializer_factor * inputs**-0.5

    attention = partial(
        Attention,
        config.num_heads,
        hidden_size,
        head_size=config.head_size,
        dropout=config.attention_dropout,
        initializer_range=deviation(hidden_size),
        output_range=deviation(inner),
        use_bias=False,
        dtype=dtype,
        name="attention",
    )
    feed_forward = partial(
        FeedForward,
        config.intermediate_size,
        hidden_size,
        activation=config.activation,
        gated=config.gated,
        inner_dropout=config.hidden_dropout,
        initializer_range=deviation(hidden_size),
        output_range=deviation(config.intermediate_size),
        use_bias=False,
        dtype=dtype,
        name="feed_forward",
    )
    epsilon, dropout = config.layer_norm_epsilon, config.hidden_dropout
    final_norm = partial(RMSNorm, epsilon, dropout, dtype=dtype, name="final_norm")
    return attention, feed_forward, final_norm


def biases(config: T5Config, dtype, *, causal: bool):
    """A function that makes a layer's own bias by distance, and the one that all layers share; one is None."""
    from bert_zoo.layers.relative_bias import RelativeBias

    make = partial(
        RelativeBias,
        config.num_heads,
        initializer_range=config.initializer_factor * config.hidden_size**-0.5,
        num_buckets=config.num_buckets,
        max_distance=config.max_distance,
        causal=causal,
        dtype=dtype,
        name="relative_bias",
    )
    return (make, None) if config.bias_per_layer else (lambda: None, make())


def backbone(config: T5Config, dtype):
    """The encoder: pre-norm blocks, which add a bias by distance to their attention scores."""
    from bert_zoo.families.t5.layers import T5Backbone, rms_norm
    from bert_zoo.layers import PreNormBlock, Stack, TokenEmbeddings
    from bert_zoo.layers.relative_bias import BiasedStack

    attention, feed_forward, final_norm = parts(config, dtype)
    own_bias, bias = biases(config, dtype, causal=False)
    blocks = [
        PreNormBlock(
            attention(relative_bias=own_bias()),
            feed_forward(),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            norm_bias=False,
            make_norm=rms_norm,
            dtype=dtype,
            name=f"layer_{i}",
        )
        for i in range(config.num_layers)
    ]
    embeddings = TokenEmbeddings(
        config.vocab_size,
        config.hidden_size,
        epsilon=None,
        dropout=config.hidden_dropout,
        initializer_range=config.initializer_factor,
        dtype=dtype,
        name="embeddings",
    )
    options = {"dtype": dtype, "name": "stack"}
    if bias is None:
        stack = Stack(blocks, config.hidden_size, **options)
    else:
        stack = BiasedStack(blocks, config.hidden_size, bias, **options)
    within = None
    if config.pooler:
        # Without a table for logits.
        within = decoder(config.replace(tie_word_embeddings=True), name="decoder", dtype=dtype)
    return T5Backbone(
        config,
        embeddings=embeddings,
        stack=stack,
        final_norm=final_norm(),
        decoder=within,
        dtype=dtype,
    )


def decoder(config: T5Config, *, name: str, dtype):
    """The decoder, including the projection to logits."""
    from bert_zoo.families.t5.layers import Decoder, DecoderBlock

    attention, feed_forward, final_norm = parts(config, dtype)
    own_bias, bias = biases(config, dtype, causal=True)
    blocks = [
        DecoderBlock(
            attention(relative_bias=own_bias()),
            feed_forward(),
            attention(name="cross_attention"),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            dtype=dtype,
            name=f"layer_{i}",
        )
        for i in range(config.decoder_layers)
    ]
    return Decoder(
        blocks,
        bias,
        final_norm(),
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        tied=config.tie_word_embeddings,
        scale=config.hidden_size**-0.5 if config.scale_logits else 1.0,
        # As in t5x, which keeps logits as small as with a scaled tied table; transformers has 1.
        initializer_range=config.initializer_factor * config.hidden_size**-0.5,
        dtype=dtype,
        name=name,
    )


FAMILY = Family(
    name="t5",
    backbone=backbone,
    defaults=DEFAULTS,
    formats={"hf": formats.hugging_face("t5", "T5"), "tf1": formats.Original()},
    encoder_rows=ENCODER_ROWS,
    heads={
        "text_to_text": Head(DECODER_ROWS, decoder=decoder, copies={"hf": copies}),
        **ENCODER_HEADS,
    },
    text=TextFormat(read_vocabulary, layout=LAYOUT),
    checkpoints=T5,
    config_class=T5Config,
    params_task="text_to_text",
    pretraining="span_corruption",
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
