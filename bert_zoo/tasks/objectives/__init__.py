"""Objectives of pretraining, one per file: how tokens are hidden, and the head and loss that predict them.

Tokens are hidden in NumPy, by vectorised transforms of batches of rows. An objective is called with a
batch of rows and their random numbers. It returns inputs and labels for `task="pretraining"` (see
`Masking.__call__`), or for an encoder and a decoder (see `Denoising.__call__`).

    objective = OBJECTIVES["masked_tokens"].for_tokenizer(model.preprocessor.tokenizer)
    inputs, labels = objective(batch, Draws(seed, epoch, batch["row"]))

`objective` has the base class, `masking` and `model` the base classes for one encoder, `draws` the random
numbers, `replacement` the tokens that replace hidden ones, `table` all objectives by name, and `showing`
prints an objective for a text.
"""

from bert_zoo.tasks.objectives.denoising import (
    PrefixLanguageModel,
    SentinelIds,
    SpanCorruption,
    WholeTexts,
)
from bert_zoo.tasks.objectives.masking import (
    DynamicMaskedTokens,
    MaskedTokens,
    NGrams,
    Replacement,
    StreamMaskedTokens,
    TokenIds,
    WholeWords,
    WindowedNGrams,
)
from bert_zoo.tasks.objectives.objective import Draws
from bert_zoo.tasks.objectives.permutations import Permutations
from bert_zoo.tasks.objectives.replaced_tokens import ReplacedTokens
from bert_zoo.tasks.objectives.spans import Spans
from bert_zoo.tasks.objectives.table import OBJECTIVES, objective_for, show

__all__ = [
    "OBJECTIVES",
    "Draws",
    "DynamicMaskedTokens",
    "MaskedTokens",
    "NGrams",
    "Permutations",
    "PrefixLanguageModel",
    "ReplacedTokens",
    "Replacement",
    "SentinelIds",
    "SpanCorruption",
    "Spans",
    "StreamMaskedTokens",
    "TokenIds",
    "WholeTexts",
    "WholeWords",
    "WindowedNGrams",
    "objective_for",
    "show",
]
