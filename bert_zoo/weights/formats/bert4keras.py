"""bert4keras: what `save_weights` of its models writes, beside the configuration file of Google's program.

Source: the files that bert4keras 0.11.5 writes with tf-keras 2.18.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from bert_zoo.weights.formats.keras_layers import KerasLayers
from bert_zoo.weights.table import BIAS, Row, Stored

_ATTENTION, _FEED_FORWARD = "Transformer-{i}-MultiHeadSelfAttention", "Transformer-{i}-FeedForward"
# Keras numbers the layers within a layer.
LAYERS = {
    "embeddings/token_embedding": "Embedding-Token",
    "embeddings/position_embedding": "Embedding-Position",
    "embeddings/segment_embedding": "Embedding-Segment",
    "embeddings/norm": "Embedding-Norm",
    "stack/layer_{i}/attention/qkv": tuple(
        f"{_ATTENTION}/{dense}" for dense in ("dense", "dense_1", "dense_2")
    ),
    "stack/layer_{i}/attention/output": f"{_ATTENTION}/dense_3",
    "stack/layer_{i}/attention_norm": f"{_ATTENTION}-Norm",
    "stack/layer_{i}/feed_forward/intermediate": f"{_FEED_FORWARD}/dense",
    "stack/layer_{i}/feed_forward/output": f"{_FEED_FORWARD}/dense_1",
    "stack/layer_{i}/output_norm": f"{_FEED_FORWARD}-Norm",
    "pooler/dense": "Pooler-Dense",
    "masked_lm/transform": "MLM-Dense",
    "masked_lm/norm": "MLM-Norm",
    "next_sentence/dense": "NSP-Proba",
}
UNREAD = {r"^(?!(Embedding|Transformer|Pooler|NSP|MLM)-)": "layer beside bert4keras's own"}


@dataclass(frozen=True, kw_only=True)
class Bert4Keras(KerasLayers):
    """A family's weights under bert4keras's names of layers."""

    name: ClassVar[str] = "bert4keras"
    never_weights: ClassVar[tuple[str, ...]] = (
        r"/\.ATTRIBUTES/",  # without a name of its own, as an optimizer's variables
        r"^(save_counter|count|total)(_\d+)?$",
    )

    required_key: str = "^Embedding-Token/"
    unread: Mapping[str, str] = field(default_factory=lambda: UNREAD)

    def stored(self, row: Row, variable: str) -> Stored:
        return Stored(self.suffix(row, variable))

    def suffix(self, row: Row, variable: str) -> str:
        # A bias alone, that of the output over the vocabulary, is a layer that scales and shifts.
        return "/beta" if row.kind is BIAS else f"/{variable}"
