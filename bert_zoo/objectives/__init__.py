"""How tokens are chosen and hidden in pretraining: vectorised transforms of batches of rows, in NumPy.

An objective is called with a batch of rows and their random numbers, and gives the inputs and the labels
of `task="pretraining"`:

    objective = OBJECTIVES["masked_tokens"].for_tokens(TokenIds.of(model.preprocessor.tokenizer))
    inputs, labels = objective(batch, Draws(seed, epoch, batch["row"]))

`draws` has the random numbers, `replacement` what a model reads in the place of a chosen token; each of
the other modules is one way of choosing.
"""

from bert_zoo.objectives.draws import Draws
from bert_zoo.objectives.masked_tokens import MaskedTokens
from bert_zoo.objectives.replacement import Replacement, TokenIds

# With the settings of the papers; families' pages name theirs.
OBJECTIVES = {
    # BERT.
    "masked_tokens": MaskedTokens(),
    # RoBERTa: special tokens may be chosen; <s>, <pad>, </s> and <unk> are no replacements.
    "dynamic_masked_tokens": MaskedTokens(
        count="random", special_tokens=True, replacement=Replacement(excluded_ids=(0, 1, 2, 3))
    ),
}

__all__ = ["OBJECTIVES", "Draws", "MaskedTokens", "Replacement", "TokenIds"]
