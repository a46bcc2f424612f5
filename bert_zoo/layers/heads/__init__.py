"""What stands on top of an encoder; written once, for every family."""

from bert_zoo.layers.heads.adaptive_softmax import AdaptiveSoftmax
from bert_zoo.layers.heads.beam_span import BeamSpanHead
from bert_zoo.layers.heads.masked_lm import MaskedLMHead
from bert_zoo.layers.heads.output import OutputHead
from bert_zoo.layers.heads.pooling import pool
from bert_zoo.layers.heads.prediction import PredictionHead

__all__ = [
    "AdaptiveSoftmax",
    "BeamSpanHead",
    "MaskedLMHead",
    "OutputHead",
    "PredictionHead",
    "pool",
]
