"""EuroBERT (Boizard et al. 2025, arXiv:2503.05500): Llama's layers, each token seeing all others; 8,192 tokens."""

from dataclasses import dataclass
from typing import ClassVar

from bert_zoo.config import positive, size
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import MASKED_LM
from bert_zoo.families.encoder_stack import (
    LAYER,
    ROPE_ROWS,
    SIZE_ROWS,
    SUBLAYERS,
    WITHOUT,
    StackConfig,
    backbone,
    layer_rows,
    optional_rows,
    rope_settings,
    summary,
    written_rope,
)
from bert_zoo.family import HF, Checkpoint, Family, TextSpec, read_table
from bert_zoo.fields import setting
from bert_zoo.text.format import TextFormat
from bert_zoo.text.numpy_packing import Layout
from bert_zoo.text.vocabulary_files import read_bpe
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import DENSE, Head, Row

SIZES = {
    "210m": {},
    "610m": {
        **{"num_layers": 26, "hidden_size": 1152, "num_heads": 18, "key_heads": 6},
        "intermediate_size": 4096,
    },
    "2_1b": {
        **{"num_layers": 32, "hidden_size": 2304, "num_heads": 18, "key_heads": 6},
        "intermediate_size": 6144,
    },
}
TABLE = read_table("""
    name            size    params          repo                    note
    eurobert_210m   210m    211_766_016     EuroBERT/EuroBERT-210m  -
    eurobert_610m   610m    607_874_688     EuroBERT/EuroBERT-610m  Its sizes are not verified.
    eurobert_2_1b   2_1b    2_107_590_912   EuroBERT/EuroBERT-2.1B  -
""")
ABOUT = "For European and other languages, mathematics and code."


def released(name: str, size: str, params: int, repo: str, note: str = "") -> Checkpoint:
    return Checkpoint(
        name,
        SIZES[size],
        sources=[HF(repo)],
        provides=MASKED_LM,
        params=params,
        licence="Apache-2.0",
        paper="EuroBERT: Scaling Multilingual Encoders for European Languages, arXiv:2503.05500",
        text=TextSpec(lowercase=None, max_length=8192),
        note=f"{ABOUT} {note}".strip(),
    )


@dataclass(frozen=True, kw_only=True)
class Llama:
    """Mixin of configurations of layers as Llama's: norms before sublayers, gated layers, biases everywhere or nowhere."""

    norm: ClassVar[str] = "rms"
    norm_before: ClassVar[bool] = True
    norm_bias: ClassVar[bool] = False
    embeddings_norm: ClassVar[bool] = False
    final_norm: ClassVar[bool] = True
    gated: ClassVar[bool] = True

    head_size: int = size(0, special=(0, "hidden_size / num_heads"))
    key_heads: int = size(0, special=(0, "num_heads"))
    attention_bias: bool = False
    mlp_bias: bool = False


@dataclass(frozen=True, kw_only=True)
class EuroBertConfig(Llama, StackConfig):
    rope_theta: float = positive(10_000.0)
    rope_factor: float = positive(1.0)
    # What a text's logits are made of: its first token, the mean of its tokens, or the mean of their logits.
    classifier_pooling: str = setting("late", choices=("bos", "mean", "late"))

    @property
    def decoder_bias(self) -> bool:
        return self.mlp_bias


DEFAULTS = {
    **{"activation": "silu", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False},
    **{"max_positions": 8192, "pad_id": 128001, **WITHOUT},
}
CONFIG_ROWS = (
    *SIZE_ROWS,
    ConfigRow("key_heads", "num_key_value_heads", optional=True, written="num_key_heads"),
    ConfigRow("head_size", "head_dim", optional=True, written="width_of_head"),
    ConfigRow("activation", "hidden_act", ACTIVATIONS, optional=True),
    ConfigRow("layer_norm_epsilon", "rms_norm_eps", optional=True),
    *optional_rows("attention_bias mlp_bias classifier_pooling"),
)
HF_CODEC = ConfigCodec(
    rows=[*CONFIG_ROWS, *ROPE_ROWS, ConfigRow("hidden_dropout", optional=True)],
    # Tokens, which the tokenizer's files say, and a layout of Llama's.
    ignored=frozenset("bos_token eos_token mask_token pad_token pretraining_tp".split()),
    fixed={"is_causal": (False,)},
    defaults=DEFAULTS,
    config_class=EuroBertConfig,
    also={"clf_pooling": "classifier_pooling"},  # of the authors' program, in the released files
    prepare=rope_settings,
    finish=written_rope,
)

TOKENS = "embed_tokens"
NORMS = {
    "attention_norm": f"{LAYER}input_layernorm",
    "output_norm": f"{LAYER}post_attention_layernorm",
    "final_norm": "norm",
}
ENCODER_ROWS = (bert.TOKENS.named(hf=TOKENS), *layer_rows(SUBLAYERS | NORMS))
SENTENCE = Head(
    (Row(DENSE, "classifier/transform", hf="dense"), bert.CLASSIFIER),
    summary=summary,
    output=lambda config: bert.with_layer(config, "gelu"),
)
# Rows of directories without tokenizer.json, which says how they are composed.
TEXT = TextFormat(read_bpe, layout=Layout(pair="cls A sep B sep", segments=False))
CLASSES = bert.hf_classes("EuroBert", lacks="multiple_choice question_answering")
FAMILY = Family(
    name="eurobert",
    backbone=backbone,
    defaults={"vocab_size": 128256, "rope_theta": 250_000.0, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="eurobert",
            codec=HF_CODEC,
            root="model.",
            classes=CLASSES,
        ),
    },
    encoder_rows=ENCODER_ROWS,
    heads=bert.heads_of(
        CLASSES,
        masked_lm=bert.decoding_head("lm_head", table=TOKENS),
        **dict.fromkeys(bert.SENTENCE_TASKS, SENTENCE),
    ),
    text=TEXT,
    checkpoints=[released(**row) for row in TABLE],
    pretraining="dynamic_masked_tokens",
    config_class=EuroBertConfig,
    settings=("classifier_pooling",),
)
