"""How Longformer's checkpoints are stored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bert_zoo.families.bert import formats as bert_formats
from bert_zoo.families.longformer.config import LongformerConfig
from bert_zoo.families.roberta.formats import DEFAULTS as ROBERTA_DEFAULTS
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import Description, HuggingFace
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow

DEFAULTS = {**ROBERTA_DEFAULTS, "sep_id": 2}
HF_CODEC = ConfigCodec(
    rows=[
        *bert_formats.ROWS,
        *bert_formats.HF_ROWS,
        ConfigRow("attention_window", optional=True),
        ConfigRow("sep_id", "sep_token_id", optional=True),
    ],
    fixed={
        "position_embedding_type": ("absolute",),
        "attention_mode": ("longformer",),
        "ignore_attention_mask": (False,),
    },
    ignored=frozenset({"onnx_export"}),
    written={"attention_mode": "longformer", "ignore_attention_mask": False},
    defaults=DEFAULTS,
    config_class=LongformerConfig,
)


class LongformerFiles(HuggingFace):
    """Directories of transformers, which supports neither narrow tables nor shared blocks."""

    def encode(self, config: LongformerConfig, description: Description) -> dict[str, Any]:
        if config.table_width != config.hidden_size or config.num_blocks < config.num_layers:
            raise ValueError(
                f"Hugging Face's Longformer has tables as wide as its layers, {config.hidden_size}, and "
                f"weights for each of them; this one has tables {config.table_width} wide and weights for "
                f"{config.num_blocks} of {config.num_layers} layers. Leave format (of export, layout) out."
            )
        return super().encode(config, description)


HF = LongformerFiles(
    model_type="longformer",
    codec=HF_CODEC,
    root="longformer.",
    classes=bert_formats.hf_classes("Longformer"),
)


def with_whole_windows(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a config.json of the authors' program, with one-sided windows, to Hugging Face's keys."""
    values = {key: value for key, value in values.items() if key != "model_type"}
    windows = values.get("attention_window")
    if isinstance(windows, list):
        # The configuration reports values that are not numbers.
        values["attention_window"] = [2 * w if isinstance(w, int) else w for w in windows]
    if set(values.get("attention_dilation") or ()) == {1}:
        del values["attention_dilation"]
    return values


class Original(HuggingFace):
    """Directories of the authors' program, where the model is a RoBERTa with another attention.

    Source: allenai/longformer longformer/longformer.py, LongformerConfig.
    """

    goes_first = True  # because the files may name no model type, or RoBERTa's

    def is_of_family(self, values: JsonObject) -> bool:
        return "attention_dilation" in values


ORIGINAL = Original(
    model_type="longformer",
    codec=replace(
        HF_CODEC,
        fixed={
            "position_embedding_type": ("absolute",),
            # Two implementations of the same windows. "n2" and "sliding_chunks_no_overlap" compute something else.
            "attention_mode": ("tvm", "sliding_chunks"),
            "attention_dilation": (None,),
            "autoregressive": (False,),
        },
        prepare=with_whole_windows,
    ),
    root="roberta.",
)
