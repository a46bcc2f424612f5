"""How checkpoints of DeBERTa 2 and 3 are stored."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bert_zoo.families.deberta import formats as deberta_formats
from bert_zoo.families.deberta.config import DEFAULTS as FIRST_DEFAULTS
from bert_zoo.families.deberta.config import HF_CODEC as FIRST_CODEC
from bert_zoo.weights.formats import keras_hub
from bert_zoo.weights.formats.codec import ConfigRow
from bert_zoo.weights.formats.hf import ACTIVATIONS
from bert_zoo.weights.table import Row
from bert_zoo.weights.tensor_source import TensorSource

DEFAULTS = {
    **FIRST_DEFAULTS,
    "position_buckets": 256,
    "norm_positions": True,
    "shares_projections": True,
    "key_bias": True,
}
# transformers' defaults for keys that a file lacks.
UNSAID = {"position_buckets": -1, "norm_positions": False, "shares_projections": False}
HF_CODEC = replace(
    FIRST_CODEC,
    rows=[
        *FIRST_CODEC.rows,
        ConfigRow("position_buckets", optional=True),
        ConfigRow(
            "norm_positions", "norm_rel_ebd", {"layer_norm": True, "none": False}, optional=True
        ),
        ConfigRow("shares_projections", "share_att_key", optional=True),
        ConfigRow("conv_size", "conv_kernel_size", optional=True),
        ConfigRow("conv_activation", "conv_act", ACTIVATIONS, optional=True),
    ],
    fixed={**FIRST_CODEC.fixed, "conv_groups": (1,)},
    defaults={**DEFAULTS, **UNSAID, "conv_activation": "tanh"},
)
KERAS_HUB_BLOCK = keras_hub.block_names(
    "disentangled_attention_encoder", "_self_attention_layer/_{}_dense"
)


class Ported(deberta_formats.Ported):
    """Version 3 has a discriminator and, in a second file, the generator."""

    def file_beside(self, encoder: str) -> str | None:
        return "pytorch_model.generator.bin" if encoder == "generator" else None

    def is_untrained(self, task: str, source: TensorSource) -> bool:
        # Discriminators hold the tensors of a head that their training does not use.
        return task == "masked_lm" and any(key.startswith("mask_predictions.") for key in source)

    def differences(self, config, unsaid, longest):
        furthest = config.longest_distance
        if config.position_attention and config.position_buckets > 0 and longest > furthest:
            yield (
                f"In rows of more than {furthest} tokens, distances of {furthest} and more are read as {furthest - 1}, "
                "as in Microsoft's program. transformers reads another row of the table for some of them: pass "
                f"max_length={furthest} for its outputs."
            )


class JoinedHeads(keras_hub.KerasHub):
    """The kernel after attention has no axis for heads."""

    def shape(self, row: Row, variable: str) -> Callable[[Any], tuple[int, ...]] | None:
        is_output = row.ours.endswith("attention/output")
        return None if is_output else super().shape(row, variable)
