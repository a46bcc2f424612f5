"""Jina Embeddings v3 (Sturua et al. 2024, arXiv:2409.10173): XLM-RoBERTa with rotary positions and five adapters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bert_zoo.config import ConfigError, positive
from bert_zoo.families import roberta, xlm_roberta
from bert_zoo.families.bert import family as bert
from bert_zoo.families.bert.cards import EMBEDDING, LARGE
from bert_zoo.families.encoder_stack import (
    LAYER,
    QKV,
    ROPE_ROWS,
    SUBLAYERS,
    StackConfig,
    backbone,
    post_norm_rows,
    rope_settings,
    written_rope,
)
from bert_zoo.family import HF, Checkpoint, Family, TextSpec
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import HuggingFace

# The authors' names of the adapters, in the order of their file, and what stands before the texts of each.
PROMPTS = {
    "retrieval.query": "Represent the query for retrieving evidence documents: ",
    "retrieval.passage": "Represent the document for retrieval: ",
    "separation": "",
    "classification": "",
    "text-matching": "",
}


@dataclass(frozen=True, kw_only=True)
class JinaV3Config(StackConfig):
    """Norms stand after residual sums, as in BERT; there is no position table."""

    rope_theta: float = positive(20_000.0)
    rope_factor: float = positive(1.0)


DEFAULTS = {
    "num_segments": 1,
    "max_positions": 8194,
    "layer_norm_epsilon": 1e-5,
    "pad_id": 1,
}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """From the authors' config.json, or transformers', to the keys of `HF_CODEC`."""
    values = rope_settings(values)
    if "position_embedding_type" in values:  # of the authors, whose model_type is XLM-RoBERTa's
        values["model_type"] = MODEL_TYPE
        theta = values.pop("rotary_emb_base", None)
        if theta is None and "rope_theta" not in values:
            raise ConfigError(
                "It has neither rotary_emb_base nor rope_theta, the base of the wavelengths of rotary positions: 20000.0 "
                "in the released model."
            )
        values.setdefault("rope_theta", theta)
    return values


MODEL_TYPE = "jina_embeddings_v3"
HF_CODEC = replace(
    bert.HF_CODEC,
    rows=[*bert.HF_CODEC.rows, *ROPE_ROWS],
    # Ranks are in the tensors. What else would change the vectors stands beside, in files of sentence-transformers.
    ignored=frozenset(
        """
        load_trained_adapters lora_dropout_p lora_main_params_trainable lora_prompts lora_rank
        matryoshka_dimensions task_instructions use_flash_attn use_reentrant
        """.split()
    ),
    fixed={
        "position_embedding_type": ("rotary",),
        "lora_adaptations": ([*PROMPTS], None),
        "lora_alpha": (1,),
        "emb_pooler": ("mean", None),
        "truncate_dim": (None,),
    },
    written={},
    defaults=DEFAULTS,
    config_class=JinaV3Config,
    prepare=settings,
    finish=written_rope,
)


class OfBothPrograms(HuggingFace):
    """Also reads the authors' files: queries, keys and values in one tensor, and weights with adapters beside them."""

    takes_precedence: ClassVar[bool] = True
    renames: ClassVar[tuple[tuple[str, str], ...]] = (
        *HuggingFace.renames,
        (r"\.parametrizations\.weight\.original$", ".weight"),
        (r"\bemb_ln\.", "embeddings.LayerNorm."),
        (r"\bencoder\.layers\.", "layers."),
        (r"\bmixer\.out_proj\.", "self_attn.o_proj."),
        (r"\bnorm1\.", "post_attention_layernorm."),
        (r"\bnorm2\.", "post_mlp_layernorm."),
    )

    def is_of_family(self, values: JsonObject) -> bool:
        said = [values.take(key, str) for key in ("model_type", "position_embedding_type")]
        return said == ["xlm-roberta", "rotary"] or super().is_of_family(values)


PLAIN = {
    "feed_forward/intermediate": f"{LAYER}mlp.fc1",
    "feed_forward/output": f"{LAYER}mlp.fc2",
}
FAMILY = Family(
    name="jina_v3",
    backbone=backbone,
    defaults={"vocab_size": 250002, **DEFAULTS},
    formats={
        "hf": OfBothPrograms(
            model_type=MODEL_TYPE,
            codec=HF_CODEC,
            root="roberta.",
            classes=bert.hf_classes("JinaEmbeddingsV3"),
            packed={r"\bmixer\.Wqkv\.": tuple(f"{name}." for name in QKV)},
            adapters=tuple(PROMPTS),
        ),
    },
    encoder_rows=post_norm_rows(SUBLAYERS | PLAIN),
    heads={task: h for task, h in roberta.FAMILY.heads.items() if task != "multiple_choice"},
    text=xlm_roberta.FAMILY.text,
    checkpoints=[
        Checkpoint(
            "jina_embeddings_v3",
            LARGE,
            sources=[HF("jinaai/jina-embeddings-v3"), HF("jinaai/jina-embeddings-v3-hf")],
            provides=EMBEDDING,
            params=559_364_096,
            licence="CC-BY-NC-4.0 (not for commercial use)",
            paper="jina-embeddings-v3: Multilingual Embeddings With Task LoRA, arXiv:2409.10173",
            text=TextSpec(lowercase=None, max_length=8192),
            prompts=PROMPTS,
            aliases=["jina-embeddings-v3"],
            note=(
                "Not for commercial use. A sentence encoder for many languages: mean-pooled, L2-normalised. Choose what "
                f"for with adapter=, one of {', '.join(PROMPTS)}. Vectors may be cut to 32, 64, 128, 256, 512 or 768 "
                "numbers (truncate_dim=)."
            ),
        ),
    ],
    pretraining="dynamic_masked_tokens",
    config_class=JinaV3Config,
)
