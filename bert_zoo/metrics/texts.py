"""Metrics of generated texts: exact matches, ROUGE for summaries, BLEU for translations.

ROUGE and BLEU are computed by the packages rouge-score and sacrebleu, which are imported on use.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

# (generated texts, right texts) -> metrics; the first one selects the best model.
TextMetric = Callable[[Sequence[str], Sequence[str]], dict[str, float]]
ROUGE_TYPES = ("rouge2", "rouge1", "rougeLsum")


def text_metric(name: str) -> TextMetric:
    """The metric of this name; imports its package, or raises ImportError."""
    if name not in TEXT_METRICS:
        raise ValueError(f"There is no text metric {name!r}; choose one of {[*TEXT_METRICS]}.")
    return TEXT_METRICS[name]()


def equality() -> TextMetric:
    """The share of texts that equal the right text, ignoring white space at the ends."""

    def score(texts, targets):
        equal = [
            text.strip() == target.strip() for text, target in zip(texts, targets, strict=True)
        ]
        return {"exact_match": sum(equal) / len(equal)}

    return score


def bleu() -> TextMetric:
    """Corpus BLEU, from 0 to 100, with sacrebleu's defaults (Post 2018, arXiv:1804.08771)."""
    sacrebleu = _imported("sacrebleu", "sacrebleu", "bleu")
    return lambda texts, targets: {"bleu": sacrebleu.corpus_bleu(texts, [targets]).score}


def rouge() -> TextMetric:
    """Mean F1 of ROUGE-2, ROUGE-1 and ROUGE-Lsum (Lin 2004), from 0 to 100, without a stemmer.

    ROUGE-Lsum compares sentence by sentence; each line is a sentence.
    """
    package = _imported("rouge_score.rouge_scorer", "rouge-score", "rouge")
    scorer = package.RougeScorer(ROUGE_TYPES)

    def score(texts, targets):
        rows = [scorer.score(*pair) for pair in zip(targets, texts, strict=True)]
        return {n: 100 * sum(row[n].fmeasure for row in rows) / len(rows) for n in ROUGE_TYPES}

    return score


TEXT_METRICS: Mapping[str, Callable[[], TextMetric]] = {
    "exact_match": equality,
    "bleu": bleu,
    "rouge": rouge,
}


def _imported(module: str, package: str, metric: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"The metric {metric!r} needs {package}: pip install 'bert_zoo[text_metrics]'. The metric "
            "'exact_match' needs no package."
        ) from error
