"""How RoBERTa's checkpoints are stored."""

from typing import Any

from bert_zoo.config import EncoderConfig
from bert_zoo.families.roberta.rows import WithoutPadding, first_position
from bert_zoo.json_files import JsonObject
from bert_zoo.weights.formats import Description, keras_hub
from bert_zoo.weights.formats.codec import ConfigCodec, ConfigRow
from bert_zoo.weights.table import Row, Stored

# Implied by every file: fairseq utils.py, make_positions.
DEFAULTS = {"pad_id": 1, "positions_after_padding": True}
# For programs other than Hugging Face's, which has a table with one segment.
WITHOUT_SEGMENTS = {**DEFAULTS, "num_segments": 1, "layer_norm_epsilon": 1e-5, "pooler": False}
FAIRSEQ_CODEC = ConfigCodec(
    rows=[
        ConfigRow("vocab_size", "embed_tokens_rows"),
        ConfigRow("max_positions", "embed_positions_rows"),
        ConfigRow("num_layers", "encoder_layers"),
        ConfigRow("hidden_size", "encoder_embed_dim"),
        ConfigRow("intermediate_size", "encoder_ffn_embed_dim"),
        ConfigRow("num_heads", "encoder_attention_heads"),
        ConfigRow("hidden_dropout", "dropout"),
        ConfigRow("attention_dropout"),
        ConfigRow("classifier_dropout", "pooler_dropout", optional=True),
        ConfigRow("activation", "activation_fn", {"gelu": "gelu", "relu": "relu"}, optional=True),
    ],
    fixed={
        "arch": ("roberta", "roberta_base", "roberta_large"),
        "task": ("masked_lm", "sentence_prediction", "sentence_ranking"),
        "pooler_activation_fn": ("tanh",),
        "encoder_normalize_before": (False,),
    },
    # fairseq's other arguments are for training.
    ignored=None,
    defaults=WITHOUT_SEGMENTS,
)


class PositionsFromZero(keras_hub.KerasHub):
    """KerasHub's positions start at 0, ours after the row of padding."""

    def stored(self, row: Row, variable: str) -> Stored:
        if row.ours == "embeddings/position_embedding":
            return WithoutPadding(self.suffix(row, variable))
        return super().stored(row, variable)

    def decode(self, values: JsonObject, *, where: str) -> EncoderConfig:
        config = super().decode(values, where=where)
        return config.replace(max_positions=config.max_positions + first_position(config))

    def encode(self, config: EncoderConfig, description: Description) -> dict[str, Any]:
        config = config.replace(max_positions=config.max_positions - first_position(config))
        return super().encode(config, description)
