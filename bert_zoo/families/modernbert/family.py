"""ModernBERT (Warner et al. 2024, arXiv:2412.13663): rotary positions, windows, 8,192 tokens."""

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.bert import rows as bert_rows
from bert_zoo.families.modernbert.checkpoints import CHECKPOINTS
from bert_zoo.families.modernbert.config import DEFAULTS, HF_CODEC, ModernBertConfig
from bert_zoo.families.modernbert.presets import PRESETS, PRETRAINING
from bert_zoo.families.modernbert.rows import ENCODER_ROWS, MASKED_LM, TUNED
from bert_zoo.family import Family
from bert_zoo.text.byte_bpe_files import read_byte_bpe
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import Layout
from bert_zoo.weights.formats import HuggingFace


def backbone(config: ModernBertConfig, dtype):
    """Pre-norm blocks; every third one attends to all tokens, the others to a window."""
    from bert_zoo.families.modernbert.windowed_attention import (
        GLOBAL,
        LOCAL,
        RotaryAttention,
        RotaryBackbone,
    )
    from bert_zoo.layers import FeedForward, PreNormBlock, Stack, TokenEmbeddings
    from bert_zoo.layers.common import norm

    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon
    range_options = {"initializer_range": config.initializer_range, "dtype": dtype}
    options = {**range_options, "output_range": config.output_range}

    def block(i: int) -> PreNormBlock:
        return PreNormBlock(
            RotaryAttention(
                config.num_heads,
                hidden_size,
                view=GLOBAL if config.is_global(i) else LOCAL,
                dropout=config.attention_dropout,
                use_bias=config.attention_bias,
                name="attention",
                **options,
            ),
            FeedForward(
                config.intermediate_size,
                hidden_size,
                activation=config.activation,
                gated=True,
                inner_dropout=config.inner_dropout,
                use_bias=config.mlp_bias,
                name="feed_forward",
                **options,
            ),
            epsilon=epsilon,
            dropout=0.0,
            norm_bias=config.norm_bias,
            norm_first=i > 0,
            dtype=dtype,
            name=f"layer_{i}",
        )

    return RotaryBackbone(
        config,
        embeddings=TokenEmbeddings(
            config.vocab_size,
            hidden_size,
            longest_input=config.longest_input,
            epsilon=epsilon,
            norm_bias=config.norm_bias,
            dropout=config.hidden_dropout,
            name="embeddings",
            **range_options,
        ),
        stack=Stack(
            [block(i) for i in range(config.num_layers)], hidden_size, dtype=dtype, name="stack"
        ),
        final_norm=norm("final_norm", epsilon=epsilon, use_bias=config.norm_bias, dtype=dtype),
        dtype=dtype,
    )


FAMILY = Family(
    name="modernbert",
    backbone=backbone,
    defaults={"vocab_size": 50368, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="modernbert",
            codec=HF_CODEC,
            root="model.",
            classes=bert_formats.hf_classes("ModernBert"),
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        "masked_lm": MASKED_LM,
        "token_classification": TUNED,
        "question_answering": TUNED,
        **dict.fromkeys((*bert_rows.SENTENCE_TASKS, "multiple_choice"), TUNED),
    },
    text=TextFormat(read_byte_bpe, layout=Layout(pair="cls A sep B sep", segments=False)),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens_30",
    config_class=ModernBertConfig,
    settings=("classifier_pooling",),
    presets=PRESETS,
    pretraining_preset=PRETRAINING,
)
