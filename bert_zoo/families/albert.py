"""ALBERT (Lan et al. 2019, arXiv:1909.11942): factorized embeddings, layers that share weights."""

from bert_zoo.config import ConfigCodec, ConfigRow
from bert_zoo.families import bert
from bert_zoo.families.albert_checkpoints import CHECKPOINTS
from bert_zoo.registry import Family
from bert_zoo.weights.formats import HF_BOOKKEEPING, HF_GENERATION, TF1_TRAINING_STATE
from bert_zoo.weights.table import DENSE, EMBED, NORM, OUTPUT, Head, Row

ROWS = [
    *bert.ROWS,
    ConfigRow("embedding_size", "embedding_size", optional=True),
    ConfigRow("num_hidden_groups", "num_hidden_groups", optional=True),
    ConfigRow("inner_group_num", "inner_group_num", optional=True),
    ConfigRow("classifier_dropout", "classifier_dropout_prob", optional=True),
]
# Of structures that Google tried and never released.
UNRELEASED = {
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "down_scale_factor": (1,),
    "layers_to_keep": ([],),
}
# AlbertConfig's, where a file says nothing; its dropouts are xxlarge's.
DEFAULTS = {
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "classifier_dropout": 0.1,
}
HF_CODEC = ConfigCodec(
    rows=[
        *ROWS,
        ConfigRow(
            "activation",
            "hidden_act",
            {
                "gelu_new": "gelu_tanh",
                "gelu": "gelu",
                "relu": "relu",
                "silu": "silu",
                "swish": "silu",
            },
            optional=True,
        ),
        ConfigRow("layer_norm_epsilon", "layer_norm_eps", optional=True),
        ConfigRow("tie_word_embeddings", "tie_word_embeddings", optional=True),
        ConfigRow("pad_id", "pad_token_id", optional=True),
    ],
    fixed={"model_type": ("albert",), "position_embedding_type": ("absolute",), **UNRELEASED},
    ignored=HF_BOOKKEEPING | HF_GENERATION,
    written={"model_type": "albert", "position_embedding_type": "absolute"},
    defaults=DEFAULTS | {"activation": "gelu_tanh"},
)
TF1_CODEC = ConfigCodec(
    rows=[*ROWS, ConfigRow("activation", "hidden_act", {"gelu": "gelu_tanh", "relu": "relu"})],
    fixed=UNRELEASED,
    defaults=DEFAULTS,
)

HF_BLOCK = "encoder.albert_layer_groups.{group}.albert_layers.{inner}."
TF1_BLOCK = "encoder/transformer/group_{group}/inner_group_{inner}/"


def block(kind, ours: str, hf: str | tuple[str, ...], tf1: str | tuple[str, ...]) -> Row:
    """A row of the blocks that layers share, with names below the block."""
    hf_names, tf1_names = ((names,) if isinstance(names, str) else names for names in (hf, tf1))
    return Row(
        kind,
        "stack/layer_{i}/" + ours,
        tuple(HF_BLOCK + name for name in hf_names),
        tf1=tuple(TF1_BLOCK + name for name in tf1_names),
    )


QKV = ("query", "key", "value")
ENCODER_ROWS = (
    Row(EMBED, "embeddings/token_embedding", "embeddings.word_embeddings"),
    Row(EMBED, "embeddings/position_embedding", "embeddings.position_embeddings"),
    Row(EMBED, "embeddings/segment_embedding", "embeddings.token_type_embeddings"),
    Row(NORM, "embeddings/norm", "embeddings.LayerNorm"),
    Row(
        DENSE,
        "embeddings/projection",
        "encoder.embedding_hidden_mapping_in",
        when=lambda config: config.table_width != config.hidden_size,
    ),
    block(
        DENSE,
        "attention/qkv",
        tuple(f"attention.{part}" for part in QKV),
        tuple(f"attention_1/self/{part}" for part in QKV),
    ),
    block(DENSE, "attention/output", "attention.dense", "attention_1/output/dense"),
    block(NORM, "attention_norm", "attention.LayerNorm", "LayerNorm"),
    block(DENSE, "feed_forward/intermediate", "ffn", "ffn_1/intermediate/dense"),
    block(DENSE, "feed_forward/output", "ffn_output", "ffn_1/intermediate/output/dense"),
    block(NORM, "output_norm", "full_layer_layer_norm", "LayerNorm_1"),
    Row(DENSE, "pooler/dense", "pooler", tf1="pooler/dense", when=lambda config: config.pooler),
)
MASKED_LM_ROWS = bert.masked_lm_rows("predictions", dense="dense", norm="LayerNorm")
MASKED_LM_COPIES = bert.masked_lm_copies("predictions")

FAMILY = Family(
    name="albert",
    parts=bert.parts,
    defaults={"vocab_size": 30000, **DEFAULTS},
    codecs={"hf": HF_CODEC, "tf1": TF1_CODEC},
    encoder_rows=ENCODER_ROWS,
    heads={
        "masked_lm": Head(MASKED_LM_ROWS, "AlbertForMaskedLM", copies=MASKED_LM_COPIES),
        "pretraining": Head(
            (
                *MASKED_LM_ROWS,
                Row(
                    OUTPUT,
                    "sentence_order/dense",
                    "sop_classifier.classifier",
                    tf1="cls/seq_relationship/",
                ),
            ),
            "AlbertForPreTraining",
            pooler=True,
            copies=MASKED_LM_COPIES,
        ),
        **bert.task_heads("Albert"),
    },
    hf_encoder_class="AlbertModel",
    roots={"hf": "albert.", "tf1": "bert/", "bert_zoo": "encoder/"},
    ignorable={
        "hf": (r"(^|\.)embeddings\.(position_ids|token_type_ids)$",),
        "tf1": TF1_TRAINING_STATE,
        "bert_zoo": (),
    },
    tokenizer="albert",
    checkpoints=CHECKPOINTS,
    objectives=("sentence_order",),
    config_files={"albert_config.json": "tf1"},
)
