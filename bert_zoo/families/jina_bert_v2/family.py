"""Jina Embeddings v2 (Günther et al. 2023, arXiv:2310.19923): BERT with ALiBi in both directions and gated layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bert_zoo.families.bert import family as bert
from bert_zoo.families.encoder_stack import StackConfig, layer_rows
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
    mlp_output_bias: ClassVar[bool] = True

    # Whether all queries and all keys have a norm, and attention's input is added twice, as in the model for code.
    query_norm: bool = False

    @property
    def inner_dropout(self) -> float:
        return self.hidden_dropout


DEFAULTS = {"max_positions": 8192, "attention_dropout": 0.0}
CLASSES = bert.hf_classes("JinaBert")
# The repositories of the two programs.
PLAIN, WITH_NORMS = "jinaai/jina-bert-implementation", "jinaai/jina-bert-v2-qk-post-norm"


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Reads from the name of its program which one a config.json is for."""
    named = f"{values.get('auto_map')} {values.get('_name_or_path')}"
    return {**values, "auto_map": WITH_NORMS.partition("/")[2] in named}


def written_settings(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `settings`."""
    program = WITH_NORMS if values["auto_map"] else PLAIN
    names = {"AutoConfig": "configuration_bert.JinaBertConfig"}
    for name in CLASSES.values():
        auto = name.replace("JinaBert", "AutoModel").removesuffix("Model")
        names[auto] = f"modeling_bert.{name}"
    names = {auto: f"{program}--{name}" for auto, name in names.items()}
    return values | {"_name_or_path": program, "auto_map": names}


# The masked-token head's activation does not depend on that of feed-forward layers.
MASKED_LM = replace(bert.HEADS["masked_lm"], activation="gelu")
SAID = {"position_embedding_type": "alibi", "hidden_act": "gelu"}
HF_CODEC = ConfigCodec(
    rows=[
        *(row for row in bert.HF_CODEC.rows if row.key != "hidden_act"),
        ConfigRow("activation", "feed_forward_type", {"geglu": "gelu", "reglu": "relu"}),
        ConfigRow("query_norm", "auto_map", optional=True),
    ],
    fixed={key: (value,) for key, value in SAID.items()} | {"emb_pooler": ("mean", None)},
    written=SAID,
    defaults=DEFAULTS,
    config_class=JinaBertConfig,
    prepare=settings,
    finish=written_settings,
)


class WithAlibi(HuggingFace):
    """Files whose `model_type` is BERT's; the type of their positions tells them apart."""

    takes_precedence: ClassVar[bool] = True

    def is_of_family(self, values: JsonObject) -> bool:
        return values.take("position_embedding_type", str) == "alibi" and super().is_of_family(
            values
        )

    def inferred_fields(self, source: TensorSource, *others: Any) -> dict[str, Any]:
        # Copies of the files may name another program.
        has_norms = any(key.endswith(".layer_norm_q.weight") for key in source)
        return {**super().inferred_fields(source, *others), "query_norm": has_norms}


ATTENTION = f"{bert.LAYER}attention."
# Path of a layer -> what both programs call it, or the first one and the second.
NAMES = {
    "attention_norm": ("attention.output.LayerNorm", "layer_norm_1"),
    "feed_forward/intermediate": ("mlp.gated_layers", "mlp.up_gated_layer"),
    "feed_forward/output": ("mlp.wo", "mlp.down_layer"),
    "output_norm": ("mlp.layernorm", "layer_norm_2"),
}
NORMS = {
    f"attention/{part}_norm": f"{ATTENTION}self.layer_norm_{part[0]}" for part in ("query", "key")
}


def swapped_halves(config: JinaBertConfig) -> np.ndarray:
    """`Stored.order` of a gated layer whose second half goes through the activation."""
    width = config.intermediate_size
    return np.r_[width : 2 * width, :width]


def rows(config: JinaBertConfig) -> Iterator[Row]:
    """The rows of layers that differ between the two programs."""
    names = {path: bert.LAYER + pair[config.query_norm] for path, pair in NAMES.items()}
    if not config.query_norm:
        yield from layer_rows(names)
        return
    yield Row(NORM, "stack/layer_{i}/inner_norm", hf=f"{ATTENTION}output.LayerNorm")
    yield from layer_rows(names | NORMS, {"feed_forward/intermediate": swapped_halves})


# The layers of BERT that the programs have otherwise, or not at all.
LACKED = " ".join(
    ("embeddings/position_embedding", *(f"stack/layer_{{i}}/{path}" for path in NAMES))
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
    formats={"hf": WithAlibi(model_type="bert", codec=HF_CODEC, root="bert.", classes=CLASSES)},
    encoder_rows=(*bert.renamed(bert.ENCODER_ROWS, "hf", {}, lacks=LACKED), rows),
    heads=bert.heads_of(CLASSES, masked_lm=MASKED_LM),
    text=TextFormat(read_vocabulary),
    checkpoints=CHECKPOINTS,
    pretraining="dynamic_masked_tokens",
    config_class=JinaBertConfig,
)
