"""Heads: the layers on top of an encoder, shared by all families."""

from bert_zoo.layers.heads.adaptive_softmax import AdaptiveSoftmax
from bert_zoo.layers.heads.features import Features
from bert_zoo.layers.heads.masked_lm import MaskedLMHead
from bert_zoo.layers.heads.output import OutputHead
from bert_zoo.layers.heads.pooling import pool

__all__ = [
    "AdaptiveSoftmax",
    "Features",
    "MaskedLMHead",
    "OutputHead",
    "pool",
]
