"""Metrics of texts that are written: equal ones, ROUGE of summaries, BLEU of translations.

ROUGE and BLEU come from the packages that publish them, and are imported where they are asked for.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

# (texts that were written, texts that are right) -> metrics, the one to select a model by first.
TextMetric = Callable[[Sequence[str], Sequence[str]], dict[str, float]]
ROUGE_TYPES = ("rouge2", "rouge1", "rougeLsum")


def text_metric(name: str) -> TextMetric:
    """The metric of this name; what it needs is imported.

    Raises:
        ValueError: there is none.
        ImportError: its package is not installed.
    """
    if name not in TEXT_METRICS:
        raise ValueError(f"There is no metric {name!r} of texts; choose one of {[*TEXT_METRICS]}.")
    return TEXT_METRICS[name]()


def equality() -> TextMetric:
    """The share of texts that are right to the letter, but for blanks around them."""

    def score(texts, targets):
        equal = [
            text.strip() == target.strip() for text, target in zip(texts, targets, strict=True)
        ]
        return {"exact_match": sum(equal) / len(equal)}

    return score


def bleu() -> TextMetric:
    """BLEU of a corpus, from 0 to 100, with sacrebleu's defaults (Post 2018, arXiv:1804.08771)."""
    sacrebleu = _imported("sacrebleu", "sacrebleu", "bleu")
    return lambda texts, targets: {"bleu": sacrebleu.corpus_bleu(texts, [targets]).score}


def rouge() -> TextMetric:
    """The mean F1 of ROUGE-2, ROUGE-1 and ROUGE-L of summaries (Lin 2004), from 0 to 100, without a stemmer.

    ROUGE-L compares sentences, which line ends part.
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
            f"The metric {metric!r} is measured by {package}: pip install 'bert_zoo[text_metrics]'. Without it, "
            "texts are measured by 'exact_match'."
        ) from error
