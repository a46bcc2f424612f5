"""Transformer-XL (Dai et al. 2019, arXiv:1901.02860): segment recurrence, relative positions."""

from bert_zoo.families import transformer_xl_formats as formats
from bert_zoo.families.transformer_xl_checkpoints import CHECKPOINTS
from bert_zoo.recurrent_config import RecurrentConfig
from bert_zoo.registry import Family
from bert_zoo.weights.formats import TF1_TRAINING_STATE
from bert_zoo.weights.table import Head


def parts(config: RecurrentConfig, dtype) -> dict:
    """The encoder's layers: adaptive embeddings and a stack of blocks with a memory."""
    from bert_zoo.layers import (
        AdaptiveEmbedding,
        FeedForward,
        RecurrentBlock,
        RecurrentStack,
        RelativeAttention,
    )

    fresh = {"initializer_range": config.initializer_range, "dtype": dtype}
    heads = {"num_heads": config.num_heads, "head_size": config.head_size}

    def block(i: int) -> RecurrentBlock:
        return RecurrentBlock(
            RelativeAttention(
                hidden_size=config.hidden_size,
                dropout=config.attention_dropout,
                has_biases=config.untie_r,
                name="attention",
                **heads,
                **fresh,
            ),
            FeedForward(
                config.intermediate_size,
                config.hidden_size,
                activation=config.activation,
                inner_dropout=config.hidden_dropout,
                name="feed_forward",
                **fresh,
            ),
            epsilon=config.layer_norm_epsilon,
            dropout=config.hidden_dropout,
            pre_lnorm=config.pre_lnorm,
            dtype=dtype,
            name=f"layer_{i}",
        )

    return {
        "embeddings": AdaptiveEmbedding(
            config.table_sizes,
            config.table_widths,
            config.is_projected,
            config.hidden_size,
            dropout=config.hidden_dropout,
            projection_initializer_range=config.projection_initializer_range,
            name="embeddings",
            **fresh,
        ),
        "stack": RecurrentStack(
            [block(i) for i in range(config.num_layers)],
            config.hidden_size,
            has_biases=not config.untie_r,
            mem_len=config.mem_len,
            clamp_len=config.clamp_len,
            span=config.attention_span,
            dropout=config.hidden_dropout,
            name="stack",
            **heads,
            **fresh,
        ),
        "pooler": None,
    }


FAMILY = Family(
    name="transformer_xl",
    parts=parts,
    defaults={},
    codecs={"hf": formats.HF_CODEC, "torch": formats.TORCH_CODEC},
    encoder_rows=formats.ENCODER_ROWS,
    heads={
        "causal_lm": Head(
            (formats.softmax_rows,),
            "TransfoXLLMHeadModel",
            copies={"hf": formats.hf_copies, "torch": formats.softmax_copies},
        )
    },
    hf_encoder_class="TransfoXLModel",
    roots={"hf": "transformer.", "torch": "", "tf1": "transformer/", "bert_zoo": "encoder/"},
    # A bare Hugging Face encoder has no softmax and no prefix; the original always has a softmax.
    format_hallmarks={"torch": r"(^|\.)crit\."},
    ignorable={
        "hf": (r"(^|\.)pos_emb\.inv_freq$",),
        "torch": (r"(^|\.)pos_emb\.inv_freq$",),
        "tf1": TF1_TRAINING_STATE,
        "bert_zoo": (),
    },
    tokenizer="transformer_xl",
    checkpoints=CHECKPOINTS,
    config_files={"model.pt": "torch"},
    config_class=RecurrentConfig,
    encoder_class="RecurrentEncoder",
    headless=("encoder",),
    counted="causal_lm",
    settings=("mem_len", "clamp_len", "same_length", "same_length_keys", "memory_start"),
    conventions={
        "tf1": {"same_length_keys": "mem_len+1", "layer_norm_epsilon": 1e-12},
        "torch": {"memory_start": "empty"},
    },
    hf_only={"proj_same_dim": True, "same_length_keys": "mem_len", "memory_start": "zeros"},
    hf_buffers=formats.hf_buffers,
)
