"""GTE 1.5 (Zhang et al. 2024, arXiv:2407.19669): rotary positions, GEGLU, 8,192 tokens, in English or 70 languages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bert_zoo.config import ConfigError, Pooling, positive
from bert_zoo.error_text import shown
from bert_zoo.families import xlm_roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import EMBEDDING, width
from bert_zoo.families.encoder_stack import (
    QKV,
    ROPE_ROWS,
    StackConfig,
    backbone,
    post_norm_rows,
    rope_settings,
    written_rope,
)
from bert_zoo.family import HF, Checkpoint, Family, TextSpec
from bert_zoo.fields import check
from bert_zoo.json_files import JsonObject
from bert_zoo.text.numpy_packing import BERT
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec

PAPER = "mGTE: Generalized Long-Context Text Representation and Reranking Models, arXiv:2407.19669"
ARCTIC = "Arctic-Embed 2.0: Multilingual Retrieval Without Compromise, arXiv:2412.04506"
VECTORS = "A sentence encoder for {}: the first token's vector, L2-normalised."
SHORTER = " Vectors can be cut to {} numbers."


def released(
    name: str, config: Mapping[str, Any], params: int, repo: str, languages: str, **fields: Any
) -> Checkpoint:
    fields = {
        "provides": EMBEDDING,
        "licence": "Apache-2.0",
        "paper": PAPER,
        "text": TextSpec(lowercase=None, max_length=8192),
        "pooling": Pooling("cls"),
        "note": VECTORS.format(languages) + fields.pop("more", ""),
        **fields,
    }
    return Checkpoint(name, config, sources=[HF(repo)], params=params, **fields)


def scaled(theta: float, factor: float, size: float = 64) -> dict[str, float]:
    """Fixed NTK scaling of the wavelengths of heads of a width, as their base and factor."""
    return {"rope_theta": theta * factor, "rope_factor": factor ** (2 / size)}


CHECKPOINTS = [
    released(
        "gte_base_en_v1_5",
        {"num_segments": 0, **scaled(500_000.0, 2.0)},
        136_776_192,
        "Alibaba-NLP/gte-base-en-v1.5",
        "English",
    ),
    released(
        "gte_large_en_v1_5",
        {**width(1024, 24), **scaled(160_000.0, 2.0)},
        434_139_136,
        "Alibaba-NLP/gte-large-en-v1.5",
        "English",
    ),
]
LANGUAGES = "more than 70 languages"
MULTILINGUAL = scaled(20_000.0, 8.0)
MULTILINGUAL_CHECKPOINTS = [
    released(
        "gte_multilingual_base",
        MULTILINGUAL,
        305_368_320,
        "Alibaba-NLP/gte-multilingual-base",
        LANGUAGES,
        more=SHORTER.format("768 to 128"),
    ),
    released(
        "gte_multilingual_reranker_base",
        {**MULTILINGUAL, "pooler": True},
        305_958_912,
        "Alibaba-NLP/gte-multilingual-reranker-base",
        LANGUAGES,
        provides=frozenset({"encoder", "reranking"}),
        note=f"Scores how well a text answers a query, in {LANGUAGES}.",
    ),
    released(
        "snowflake_arctic_embed_m_v2",
        {},
        305_368_320,
        "Snowflake/snowflake-arctic-embed-m-v2.0",
        "many languages",
        more=f"{SHORTER.format(256)} Queries need a prompt, documents have none.",
        paper=ARCTIC,
        prompts={"query": "query: "},
    ),
]


@dataclass(frozen=True, kw_only=True)
class GteConfig(StackConfig):
    """As transformers' `GteConfig`. `hidden_dropout` also acts within feed-forward layers."""

    gated: ClassVar[bool] = True
    mlp_bias: ClassVar[bool] = False
    mlp_output_bias: ClassVar[bool] = True

    rope_theta: float = positive(160_000.0)  # base of the wavelengths of rotary positions
    rope_factor: float = positive(1.0)  # by which all of these wavelengths are longer

    @property
    def inner_dropout(self) -> float:
        return self.hidden_dropout


DEFAULTS = {"max_positions": 8192, "attention_dropout": 0.0, "pooler": False}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """From the authors' config.json to transformers'. Fixed NTK scaling by s is a base s times as large, and
    wavelengths that are all longer by s^(2 / width of a head).
    """
    values = dict(values)
    if values.get("model_type") == AUTHORS_TYPE:
        values["model_type"] = "gte"
        if "rope_theta" not in values:
            raise ConfigError("rope_theta is missing; it has no default in the authors' files.")
    check("rope_scaling", values.get("rope_scaling"), dict | None, ConfigError)
    scaling = dict(values.get("rope_scaling") or {})
    if scaling.get("type") == "ntk":
        factor, mixed = scaling.get("factor"), scaling.pop("mixed_b", None)
        if not isinstance(factor, int | float) or factor <= 0 or mixed is not None:
            raise ConfigError(
                f"rope_scaling is {shown(values['rope_scaling'])}; of the type 'ntk', it must have a positive factor "
                "and no mixed_b."
            )
        keys = ("rope_theta", "hidden_size", "num_attention_heads")
        for key in keys:
            check(key, values.get(key), float, ConfigError, above=0)
        theta, width, heads = map(values.get, keys)
        values |= scaled(theta, factor, width / heads)
        values["rope_scaling"] = {**scaling, "type": "default"}
    return rope_settings(values)


AUTHORS_TYPE = "new"
HF_CODEC = ConfigCodec(
    rows=[*bert.HF_CODEC.rows, *ROPE_ROWS],
    fixed={
        "position_embedding_type": ("rope", None),
        "layer_norm_type": ("layer_norm",),
        "logn_attention_scale": (False, None),
    },
    # Implementations, what only scales by the logarithm of lengths read, and how tensors are packed.
    ignored=frozenset(
        "logn_attention_clip1 pack_qkv unpad_inputs use_memory_efficient_attention".split()
    ),
    defaults=DEFAULTS,
    config_class=GteConfig,
    prepare=settings,
    finish=written_rope,
)


class OfBothPrograms(HuggingFace):
    def is_of_family(self, values: JsonObject) -> bool:
        if values.get("model_type") == AUTHORS_TYPE:
            values = JsonObject({**values, "model_type": self.model_type}, values.where)
        return super().is_of_family(values)


CLASSES = bert.hf_classes("Gte", lacks="multiple_choice question_answering")
RENAMES = (
    (r"^new\.", "gte."),
    (r"\bencoder\.layer\.", "layers."),
    (r"\battention\.([qkvo])_proj\.", r"self_attn.\1_proj."),
    (r"\battn_ln\.", "post_attention_layernorm."),
    (r"\bmlp_ln\.", "post_mlp_layernorm."),
    (r"\blm_head\.norm\.", "lm_head.layer_norm."),
)
MASKED_LM = bert.projecting_head(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", activation="gelu"
)
FORMAT = OfBothPrograms(
    model_type="gte",
    codec=HF_CODEC,
    root="gte.",
    classes=CLASSES,
    own_renames=RENAMES,
    packed={
        r"\battention\.qkv_proj\.": tuple(f"{name}." for name in QKV),
        r"\bmlp\.up_gate_proj\.": ("mlp.up_proj.", "mlp.gate_proj."),
    },
)
FAMILY = Family(
    name="gte",
    backbone=backbone,
    defaults={"vocab_size": 30528, **DEFAULTS},
    formats={"hf": FORMAT},
    encoder_rows=post_norm_rows(),
    heads=bert.heads_of(CLASSES, masked_lm=MASKED_LM),
    text=replace(bert.FAMILY.text, layout=replace(BERT, segments=False), segmented=BERT),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens_30",
    config_class=GteConfig,
)
MULTILINGUAL_FAMILY = replace(
    FAMILY,
    name="multilingual_gte",
    defaults={**FAMILY.defaults, "vocab_size": 250048, "num_segments": 1, "pad_id": 1},
    formats={"hf": replace(FORMAT, tokenizer_class=xlm_roberta.SCHEME.tokenizer_class)},
    text=xlm_roberta.FAMILY.text,
    checkpoints=MULTILINGUAL_CHECKPOINTS,
)
