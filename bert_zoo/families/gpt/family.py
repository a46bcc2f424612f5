"""GPT (Radford et al. 2018): BERT's blocks with causal attention."""

from bert_zoo.families.bert import backbone as bert_backbone
from bert_zoo.families.gpt import formats
from bert_zoo.families.gpt.checkpoints import GPT
from bert_zoo.families.gpt.config import CausalConfig
from bert_zoo.families.gpt.presets import PRESETS
from bert_zoo.families.gpt.vocabulary import read_char_bpe
from bert_zoo.family import Family
from bert_zoo.text.format import TextFormat
from bert_zoo.text.layout import Layout
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import EMBED, Head, Row


def backbone(config: CausalConfig, dtype, pre_norm: bool = False):
    """Embeddings without a norm and a stack of causal blocks; with `pre_norm`, a final norm."""
    from bert_zoo.families.gpt.backbone import CausalBackbone
    from bert_zoo.families.gpt.layers import CausalAttention, CausalStack
    from bert_zoo.layers import Embeddings, PostNormBlock, PreNormBlock
    from bert_zoo.layers.common import norm

    options = {"initializer_range": config.initializer_range, "dtype": dtype}
    hidden_size, epsilon = config.hidden_size, config.layer_norm_epsilon

    def attention(i: int, **options) -> CausalAttention:
        return CausalAttention(
            config.num_heads,
            hidden_size,
            dropout=config.attention_dropout,
            scale=config.score_scale(i),
            **options,
        )

    block_class = PreNormBlock if pre_norm else PostNormBlock
    blocks = bert_backbone.blocks(config, dtype, block_class, attention)
    return CausalBackbone(
        config,
        embeddings=Embeddings(
            config.vocab_size,
            hidden_size,
            embedding_size=hidden_size,
            max_positions=config.max_positions,
            num_segments=0,
            position_offset=0,
            pad_id=config.pad_id,
            epsilon=None,
            dropout=config.embedding_dropout,
            name="embeddings",
            **options,
        ),
        stack=CausalStack(blocks, hidden_size, dtype=dtype, name="stack"),
        final_norm=norm("final_norm", epsilon=epsilon, dtype=dtype) if pre_norm else None,
        dtype=dtype,
    )


DEFAULTS = {"max_positions": 512, "pad_id": None}
# All that transformers has here. "gelu" means the tanh approximation.
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
HF_CODEC = ConfigCodec(
    rows=[*formats.ROWS, ConfigRow("activation", "afn", ACTIVATIONS, optional=True)],
    ignored=formats.IGNORED,
    defaults=DEFAULTS,
    config_class=CausalConfig,
    prepare=formats.with_inner_size,
    finish=formats.without_inner_size,
)
ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", hf="tokens_embed"),
    Row(EMBED, "embeddings/position_embedding", hf="positions_embed"),
    *formats.BLOCK_ROWS,
)
# No special tokens, as in transformers; the texts of a pair are concatenated.
LAYOUT = Layout(single="A", pair="A B", segments=False)

FAMILY = Family(
    name="gpt",
    backbone=backbone,
    defaults={"vocab_size": 40478, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="openai-gpt",
            codec=HF_CODEC,
            root="transformer.",
            classes=formats.hf_classes("OpenAIGPT"),
            ignorable=(r"(^|\.)attn\.bias$", r"(^|\.)position_ids$"),
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads={
        "causal_lm": Head((formats.LOGITS,), copies=formats.table_copies("tokens_embed")),
        **formats.SENTENCE_HEADS,
    },
    text=TextFormat(read_char_bpe, layout=LAYOUT, transformers_class="OpenAIGPTTokenizer"),
    checkpoints=GPT,
    config_class=CausalConfig,
    tasks_without_head=("encoder",),
    params_task="causal_lm",
    presets=PRESETS,
)
