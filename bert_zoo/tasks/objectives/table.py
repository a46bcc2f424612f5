"""The objectives and predictions by name."""

from bert_zoo.tasks.objectives.denoising import PrefixLanguageModel, SpanCorruption, WholeTexts
from bert_zoo.tasks.objectives.masked_tokens import (
    DynamicMaskedTokens,
    MaskedTokenPrediction,
    MaskedTokens,
    StreamMaskedTokens,
)
from bert_zoo.tasks.objectives.model import Prediction
from bert_zoo.tasks.objectives.ngrams import NGrams, WindowedNGrams
from bert_zoo.tasks.objectives.objective import Objective
from bert_zoo.tasks.objectives.permutations import Permutations
from bert_zoo.tasks.objectives.replaced_tokens import ReplacedTokenPrediction, ReplacedTokens
from bert_zoo.tasks.objectives.replacement import Replacement
from bert_zoo.tasks.objectives.sentence_pairs import SentencePrediction
from bert_zoo.tasks.objectives.spans import SpanPrediction, Spans
from bert_zoo.tasks.objectives.whole_words import WholeWords

# Name in families' pages -> objective, with the paper's settings.
OBJECTIVES: dict[str, Objective] = {
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
    "span_corruption": SpanCorruption(),
    "prefix_lm": PrefixLanguageModel(),
    "bert_style": WholeTexts(),
    "mass_style": WholeTexts(random=0.0),
}
# Name of a head of `task="pretraining"` -> its prediction.
PREDICTIONS: dict[str, Prediction] = {
    "masked_lm": MaskedTokenPrediction("mlm_logits", {"mask_positions": ()}),
    "next_sentence": SentencePrediction(
        "nsp_logits", classes="0 where the second text follows the first, 1 where it does not"
    ),
    "sentence_order": SentencePrediction(
        "sop_logits", classes="0 where the two texts are in order, 1 where they are swapped"
    ),
    "span_boundary": SpanPrediction("sbo_logits", {"span_boundaries": (2,)}, ("span_tokens",)),
    "replaced_token": ReplacedTokenPrediction("discriminator_logits"),
}
