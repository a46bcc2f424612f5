"""What stands on top of an encoder; written once, for every family."""

from bert_zoo.heads.masked_lm import MaskedLMHead
from bert_zoo.heads.output import OutputHead
from bert_zoo.heads.pooling import pool

__all__ = ["MaskedLMHead", "OutputHead", "pool"]
