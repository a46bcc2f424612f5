"""NomicBERT (Nussbaum et al. 2024, arXiv:2402.01613): rotary positions, SwiGLU, 8,192 tokens; Nomic Embed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.config import ConfigError, Pooling, positive, size
from bert_zoo.error_text import shown
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import EMBEDDING, MASKED_LM, MINI, NANO, own_size, width
from bert_zoo.families.encoder_stack import (
    QKV,
    ROPE_ROWS,
    WITHOUT,
    StackConfig,
    backbone,
    post_norm_rows,
    rope_settings,
    written_rope,
)
from bert_zoo.family import HF, Checkpoint, Family, TextSpec, read_table, scores_of
from bert_zoo.fields import check
from bert_zoo.presets import PretrainingPreset, PretrainingSize, Recipe
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import Head

PAPER = "Nomic Embed: Training a Reproducible Long Context Text Embedder, arXiv:2402.01613"
# `embed` looks for "query" and "document"; the others are the authors' names.
PROMPTS = {
    "query": "search_query: ",
    "document": "search_document: ",
    **{
        name: f"{name}: "
        for name in ("search_query", "search_document", "clustering", "classification")
    },
}
NOTE = "A sentence encoder for English: mean-pooled, {}L2-normalised. Every text needs a prompt, as in training."
# What the checkpoints of a release have in common.
RELEASES = {
    "bert": {
        "provides": MASKED_LM,
        "text": TextSpec(max_length=2048),
        "note": "For English, trained on rows of 2,048 tokens.",
    },
    "embed": {"provides": EMBEDDING, "prompts": PROMPTS, "note": NOTE.format("")},
    "matryoshka": {
        "provides": EMBEDDING,
        "prompts": PROMPTS,
        "pooling": Pooling(layer_norm=True),
        "note": NOTE.format(
            "then normalised to mean 0 and variance 1, which its files leave to the caller, and "
        )
        + " Vectors can be cut to 512, 256, 128 or 64 numbers.",
    },
    "code": {
        "provides": EMBEDDING,
        "prompts": {"query": "Represent this query for searching relevant code: "},
        "pooling": Pooling("cls"),
        "licence": "MIT",
        "paper": "CoRNStack: High-Quality Contrastive Data for Better Code Retrieval and Reranking, arXiv:2412.01007",
        "note": "Finds code for questions in English. Queries need a prompt, code has none.",
    },
}
TABLE = read_table("""
    name                                release     params       repo                                          scores
    nomic_bert_2048                     bert        136_731_648  nomic-ai/nomic-bert-2048                      -
    nomic_embed_text_v1                 embed       136_731_648  nomic-ai/nomic-embed-text-v1                  62.39
    nomic_embed_text_v1_unsupervised    embed       136_731_648  nomic-ai/nomic-embed-text-v1-unsupervised     -
    nomic_embed_text_v1_ablated         embed       136_731_648  nomic-ai/nomic-embed-text-v1-ablated          -
    nomic_embed_text_v1_5               matryoshka  136_731_648  nomic-ai/nomic-embed-text-v1.5                62.28 61.96 61.04 59.34 56.10
    coderankembed                       code        136_731_648  nomic-ai/CodeRankEmbed                        -
""")
COLUMNS = (
    "MTEB (56 tasks, average)",
    *(f"MTEB (the same, {size} numbers)" for size in (512, 256, 128, 64)),
)


def released(name: str, release: str, params: int, repo: str, scores: str = "") -> Checkpoint:
    """A checkpoint; `release` names its fields in `RELEASES`."""
    fields = {
        "licence": "Apache-2.0",
        "paper": PAPER,
        "text": TextSpec(max_length=8192),
        "scores": scores_of(COLUMNS, scores),
        **RELEASES[release],
    }
    config = {"max_positions": fields["text"].max_length}
    return Checkpoint(name, config, sources=[HF(repo)], params=params, **fields)


PRETRAINING = PretrainingPreset(
    rows="packed_documents",
    # The number of updates is not published.
    recipe=Recipe(
        batch_size=4096,
        learning_rate=5e-4,
        schedule="linear",
        warmup_proportion=0.06,
        weight_decay=1e-5,
        betas=(0.9, 0.98),
        bias_correction=True,
        clip_norm=None,
    ),
    phases=((2048, 1.0),),
    sizes={
        "nano": own_size(NANO),
        "mini": own_size(MINI),
        "small": PretrainingSize(width(512, 4)),
        "base": PretrainingSize(width(768, 12)),
        "large": PretrainingSize(width(1024, 24)),
    },
    vocabulary="wordpiece",
    lowercase=True,
    source="Nussbaum et al. 2024, section 3; nomic-ai/contrastors configs/train/mlm.yaml",
)


@dataclass(frozen=True, kw_only=True)
class NomicBertConfig(StackConfig):
    """As transformers' `NomicBertConfig`."""

    gated: ClassVar[bool] = True
    attention_bias: ClassVar[bool] = False
    mlp_bias: ClassVar[bool] = False

    rope_theta: float = positive(1000.0)  # base of the wavelengths of rotary positions
    rope_factor: float = positive(1.0)  # by which all of these wavelengths are longer
    head_size: int = size(0, special=(0, "hidden_size / num_heads"))


DEFAULTS = {**WITHOUT, "num_segments": 2, "max_positions": 2048, "activation": "silu"}
# The keys of the authors' config.json, GPT-2's and some of their own -> transformers'.
KEYS = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
    "activation_function": "hidden_act",
    "layer_norm_epsilon": "layer_norm_eps",
    **dict.fromkeys(("resid_pdrop", "embd_pdrop"), "hidden_dropout_prob"),
    "attn_pdrop": "attention_probs_dropout_prob",
    "rotary_emb_base": "rope_theta",
}
# Of how many numbers their model's layers have a multiple, and the key that says it of the table's rows.
UNITS, MULTIPLE = 256, "pad_vocab_size_multiple"
# What would make another architecture, by their keys.
SWITCHES = {
    **dict.fromkeys(("prenorm", "parallel_block", "causal", "use_rms_norm"), (False, None)),
    **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), (False,)),
    **dict.fromkeys(("scale_attn_by_inverse_layer_idx", "rotary_emb_interleaved"), (False,)),
    "scale_attn_weights": (True,),
    "rotary_emb_fraction": (1.0,),
    **dict.fromkeys(("rotary_emb_scale_base", "rotary_scaling_factor"), (None,)),
}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """From the authors' config.json, or one that also has transformers' keys, to transformers' values."""
    values = rope_settings(values)
    if experts := values.pop("num_experts", None):
        raise ConfigError(
            f"num_experts is {shown(experts)}: mixtures of experts, such as nomic-embed-text-v2-moe, are not supported."
        )
    if "n_embd" not in values:
        return values
    if (said := values.get("activation_function")) != "swiglu":
        raise ConfigError(f"activation_function is {shown(said)}; only 'swiglu' is supported.")
    values["activation_function"] = "silu"
    rows = values.pop(MULTIPLE, 1)
    check(MULTIPLE, rows, int, ConfigError, least=1)
    for key, multiple in (("n_inner", UNITS), ("vocab_size", rows)):
        check(key, values.get(key), int, ConfigError)
        values[key] = -(-values[key] // multiple) * multiple
    # Of both, only the first is how many tokens their program reads.
    if "n_positions" in values:
        values.pop("max_position_embeddings", None)
    return values


HEAD_SIZE = ConfigRow("head_size", "head_dim", optional=True, written="width_of_head")
HF_CODEC = ConfigCodec(
    rows=[*bert.HF_CODEC.rows, *ROPE_ROWS, HEAD_SIZE],
    fixed=SWITCHES,
    # Implementations, GPT-2's summaries, rows in training, and lengths on which nothing depends without scaled positions.
    ignored=frozenset(
        """
        add_pooling_layer dense_seq_output fused_bias_fc fused_dropout_add_ln max_trained_positions
        parallel_block_tied_norm reorder_and_upcast_attn summary_activation summary_first_dropout
        summary_proj_to_labels summary_type summary_use_proj use_flash_attn use_xentropy
        """.split()
    ),
    defaults=DEFAULTS,
    config_class=NomicBertConfig,
    also=KEYS,
    prepare=settings,
    finish=written_rope,
)


RENAMES = (
    (r"^bert\.", "nomic_bert."),
    (r"\bemb_ln\.", "embeddings.LayerNorm."),
    (r"\bencoder\.layers\.", "layers."),
    (r"\battn\.out_proj\.", "self_attn.o_proj."),
    (r"\bfc11\.", "up_proj."),
    (r"\bfc12\.", "gate_proj."),
    (r"\bfc2\.", "down_proj."),
    (r"\bnorm1\.", "post_attention_layernorm."),
    (r"\bnorm2\.", "post_mlp_layernorm."),
)
MASKED_LM_ROWS = bert.masked_lm_rows(
    "cls.predictions", dense="transform.dense", norm="transform.layer_norm"
)
CLASSES = bert.hf_classes("NomicBert", lacks="multiple_choice question_answering")
FAMILY = Family(
    name="nomic_bert",
    backbone=backbone,
    defaults={"vocab_size": 30528, **DEFAULTS},
    formats={
        "hf": HuggingFace(
            model_type="nomic_bert",
            codec=HF_CODEC,
            root="nomic_bert.",
            classes=CLASSES,
            own_renames=RENAMES,
            packed={r"\battn\.Wqkv\.": tuple(f"{name}." for name in QKV)},
            optional={
                r"^cls\.predictions\.(transform\.dense\.)?bias$": "bias in the masked-token head"
            },
        ),
    },
    encoder_rows=post_norm_rows(),
    heads=bert.heads_of(CLASSES, masked_lm=Head(MASKED_LM_ROWS, copies=bert.MASKED_LM_COPIES)),
    text=bert.FAMILY.text,
    checkpoints=[released(**row) for row in TABLE],
    pretraining="dynamic_masked_tokens_30",
    config_class=NomicBertConfig,
    pretraining_preset=PRETRAINING,
)
