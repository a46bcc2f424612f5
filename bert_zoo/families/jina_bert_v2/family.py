"""Jina Embeddings v2 (Günther et al. 2023, arXiv:2310.19923): BERT with ALiBi in both directions and gated layers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import StackConfig, encoder_rows, flagged, swapped_halves
from bert_zoo.families.jina_bert_v2.cards import CHECKPOINTS
from bert_zoo.family import Family
from bert_zoo.json_files import JsonObject
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TextFormat, TokenizerParts
from bert_zoo.text.vocabulary_files import read_byte_bpe, read_wordpiece
from bert_zoo.weights.formats import HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import NORM, Row
from bert_zoo.weights.tensor_source import TensorSource


@dataclass(frozen=True, kw_only=True)
class JinaBertConfig(StackConfig):
    """As the authors' `JinaBertConfig`."""

    positions: ClassVar[str] = "alibi"
    gated: ClassVar[bool] = True
    mlp_bias: ClassVar[bool] = False

    # Whether all queries and all keys have a norm, and attention's input is added twice, as in the model for code.
    query_norm: bool = False

    @property
    def inner_dropout(self) -> float:
        return self.hidden_dropout


DEFAULTS = {"max_positions": 8192, "attention_dropout": 0.0}
# The repositories of the two programs.
PLAIN, WITH_NORMS = "jinaai/jina-bert-implementation", "jinaai/jina-bert-v2-qk-post-norm"
CLASSES = {
    **bert.hf_classes("JinaBert"),
    "next_sentence_prediction": "JinaBertForNextSentencePrediction",
}
# What transformers makes each class with.
AUTO = {"JinaBertModel": "AutoModel"} | {
    name: name.replace("JinaBert", "AutoModel") for name in CLASSES.values() if "For" in name
}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Reads from the name of its program which one a config.json is for."""
    named = f"{values.get('auto_map')} {values.get('_name_or_path')}"
    return {**values, "query_norm": WITH_NORMS.partition("/")[2] in named}


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`."""
    values = dict(values)
    program = WITH_NORMS if values.pop("query_norm") else PLAIN
    names = {auto: f"modeling_bert.{name}" for name, auto in AUTO.items()}
    names["AutoConfig"] = "configuration_bert.JinaBertConfig"
    auto_map = {auto: f"{program}--{name}" for auto, name in names.items()}
    return values | {"_name_or_path": program, "auto_map": auto_map}


HF_CODEC = ConfigCodec(
    rows=[
        *bert.ROWS,
        *(row for row in bert.HF_ROWS if row.key != "hidden_act"),
        ConfigRow("activation", "feed_forward_type", {"geglu": "gelu", "reglu": "relu"}),
        ConfigRow("classifier_dropout", optional=True),
        ConfigRow("query_norm", optional=True),
    ],
    # The second is the activation of the masked-token head.
    fixed={
        "position_embedding_type": ("alibi",),
        "hidden_act": ("gelu",),
        "emb_pooler": ("mean", None),
    },
    written={"position_embedding_type": "alibi", "hidden_act": "gelu"},
    defaults=DEFAULTS,
    config_class=JinaBertConfig,
    prepare=settings,
    finish=written_settings,
)


class WithAlibi(HuggingFace):
    """Files whose `model_type` is BERT's; the type of their positions tells them apart."""

    takes_precedence: ClassVar[bool] = True

    def is_of_family(self, values: JsonObject) -> bool:
        is_alibi = values.take("position_embedding_type", str) == "alibi"
        return is_alibi and super().is_of_family(values)

    def inferred_fields(
        self, source: TensorSource, config: JinaBertConfig, unsaid: Collection[str]
    ) -> dict[str, Any]:
        # Copies of the files may name another program.
        has_norms = any(key.endswith(".layer_norm_q.weight") for key in source)
        return {**super().inferred_fields(source, config, unsaid), "query_norm": has_norms}


LAYER = "encoder.layer.{i}."
ATTENTION = f"{LAYER}attention."
SHARED_ROWS = encoder_rows(
    "embeddings.word_embeddings",
    {
        "embeddings/norm": "embeddings.LayerNorm",
        "attention/qkv": tuple(f"{ATTENTION}self.{part}" for part in ("query", "key", "value")),
        "attention/output": f"{ATTENTION}output.dense",
    },
    segments="embeddings.token_type_embeddings",
    pooler="pooler.dense",
)
PLAIN_ROWS = encoder_rows(
    "",
    {
        "attention_norm": f"{ATTENTION}output.LayerNorm",
        "feed_forward/intermediate": f"{LAYER}mlp.gated_layers",
        "feed_forward/output": f"{LAYER}mlp.wo",
        "output_norm": f"{LAYER}mlp.layernorm",
    },
)[1:]
ROWS_WITH_NORMS = (
    Row(NORM, "stack/layer_{i}/attention/query_norm", hf=f"{ATTENTION}self.layer_norm_q"),
    Row(NORM, "stack/layer_{i}/attention/key_norm", hf=f"{ATTENTION}self.layer_norm_k"),
    Row(NORM, "stack/layer_{i}/inner_norm", hf=f"{ATTENTION}output.LayerNorm"),
    *encoder_rows(
        "",
        {
            "attention_norm": f"{LAYER}layer_norm_1",
            "feed_forward/intermediate": f"{LAYER}mlp.up_gated_layer",
            "feed_forward/output": f"{LAYER}mlp.down_layer",
            "output_norm": f"{LAYER}layer_norm_2",
        },
        orders={"feed_forward/intermediate": swapped_halves},
    )[1:],
)


def backbone(config: JinaBertConfig, dtype: Any):
    from bert_zoo.families.jina_bert_v2.layers import JinaStack

    return JinaStack(config, dtype)


def read_vocabulary(files: VocabularyFiles, options: dict[str, Any]) -> TokenizerParts:
    """BERT's WordPiece, or the byte-level BPE of the model for code."""
    return (read_byte_bpe if files.has("vocab.json") else read_wordpiece)(files, options)


FAMILY = Family(
    name="jina_bert_v2",
    backbone=backbone,
    defaults={"vocab_size": 30528, **DEFAULTS},
    formats={
        "hf": WithAlibi(model_type="bert", codec=HF_CODEC, root="bert.", classes=CLASSES),
    },
    encoder_rows=(
        *SHARED_ROWS,
        *(row.only(lambda config: not config.query_norm) for row in PLAIN_ROWS),
        *(row.only(flagged("query_norm")) for row in ROWS_WITH_NORMS),
    ),
    heads={task: head for task, head in bert.HEADS.items() if task != "pretraining"},
    text=TextFormat(read_vocabulary, transformers_class="BertTokenizer"),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    config_class=JinaBertConfig,
)
