"""GPT's configuration: BERT's with further fields."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from bert_zoo.config import ConfigError, EncoderConfig, PlainSoftmax


@dataclass(frozen=True, kw_only=True)
class CausalConfig(PlainSoftmax, EncoderConfig):
    """The configuration of a GPT.

    Its language model projects onto the vocabulary with one cluster of `AdaptiveSoftmax`, without bias.
    """

    num_segments: int = 0
    pooler: bool = False
    layer_norm_epsilon: float = 1e-5
    activation: str = "gelu_tanh"
    embedding_dropout: float = 0.1  # rate on the sum of the tables
    # Whether attention scores are divided by the root of the head size, and by the number of the layer from 1
    # on. GPT-2's files can say otherwise.
    scale_attention: bool = True
    scale_by_layer: bool = False

    softmax_bias: ClassVar[bool] = False
    output_dropout: ClassVar[float] = 0.0

    def score_scale(self, layer: int) -> float:
        """The factor of a layer's attention scores."""
        scale = (self.hidden_size // self.num_heads) ** -0.5 if self.scale_attention else 1.0
        return scale / (layer + 1) if self.scale_by_layer else scale

    def with_pooler(self, pooler: bool) -> Self:
        return self

    def with_layers(self, layers: Sequence[int]) -> Self:
        if self.scale_by_layer and [*layers] != [*range(len(layers))]:
            raise ConfigError(
                f"Layers {[*layers]} would compute something else in their new places, because scale_by_layer "
                f"divides scores by a layer's number. Choose the first ones, {[*range(len(layers))]}."
            )
        return super().with_layers(layers)
