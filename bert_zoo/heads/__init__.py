"""What stands on top of an encoder; written once, for every family."""

from bert_zoo.heads.adaptive_softmax import AdaptiveSoftmax
from bert_zoo.heads.masked_lm import MaskedLMHead
from bert_zoo.heads.output import OutputHead
from bert_zoo.heads.pooling import pool
from bert_zoo.heads.span_boundary import SpanBoundaryHead

__all__ = ["AdaptiveSoftmax", "MaskedLMHead", "OutputHead", "SpanBoundaryHead", "pool"]
