"""GPT's configuration: BERT's with further fields."""

from dataclasses import dataclass
from typing import ClassVar

from bert_zoo.config import EncoderConfig, PlainSoftmax


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

    softmax_bias: ClassVar[bool] = False
    output_dropout: ClassVar[float] = 0.0

    def with_pooler(self, pooler: bool) -> "CausalConfig":
        return self
