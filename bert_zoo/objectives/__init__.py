"""How tokens are chosen and hidden in pretraining: vectorised transforms of batches of rows, in NumPy.

An objective is called with a batch of rows and their random numbers, and gives the inputs and the labels
of `task="pretraining"`; `Masking.__call__` says which.

    objective = OBJECTIVES["masked_tokens"].for_tokens(TokenIds.of(model.preprocessor.tokenizer))
    inputs, labels = objective(batch, Draws(seed, epoch, batch["row"]))

`masking` is what all share, `draws` the random numbers, `replacement` what a model reads in the place of
a chosen token, `words` which tokens are of a word, `showing` what prints; the other modules are a way of choosing each.
"""

from bert_zoo.objectives.draws import Draws
from bert_zoo.objectives.masked_tokens import DynamicMaskedTokens, MaskedTokens, StreamMaskedTokens
from bert_zoo.objectives.ngrams import NGrams, WindowedNGrams
from bert_zoo.objectives.permutations import Permutations
from bert_zoo.objectives.replaced_tokens import ReplacedTokens
from bert_zoo.objectives.replacement import Replacement, TokenIds
from bert_zoo.objectives.showing import objective_for, show
from bert_zoo.objectives.spans import Spans
from bert_zoo.objectives.whole_words import WholeWords

# With the papers' settings, by the names that families' pages give.
OBJECTIVES = {
    "masked_tokens": MaskedTokens(),
    "dynamic_masked_tokens": DynamicMaskedTokens(),
    "stream_masked_tokens": StreamMaskedTokens(),
    "dynamic_masked_tokens_30": DynamicMaskedTokens(rate=0.3, replacement=Replacement()),
    "whole_words": WholeWords(),
    "ngrams": NGrams(),
    "windowed_ngrams": WindowedNGrams(),
    "spans": Spans(),
    "permutations": Permutations(),
    "replaced_tokens": ReplacedTokens(),
    "replaced_tokens_large": ReplacedTokens(rate=0.25),
    "replaced_masks": ReplacedTokens(replacement=Replacement(mask=1.0, random=0.0)),
}

__all__ = [
    "OBJECTIVES",
    "Draws",
    "DynamicMaskedTokens",
    "MaskedTokens",
    "NGrams",
    "Permutations",
    "ReplacedTokens",
    "Replacement",
    "Spans",
    "StreamMaskedTokens",
    "TokenIds",
    "WholeWords",
    "WindowedNGrams",
    "objective_for",
    "show",
]
