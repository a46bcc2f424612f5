"""`bert_zoo.report`: a page of how well a model answers labelled texts, as a fine-tuning run's report has it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.charts.text_map import NUM_NEIGHBOURS, TextMap, text_map
from bert_zoo.cli.benchmarks.base import Benchmark, Measurement
from bert_zoo.cli.benchmarks.questions import QuestionBenchmark
from bert_zoo.cli.benchmarks.retrieval import DENSE, SPARSE, RetrievalBenchmark, SimilarityBenchmark
from bert_zoo.cli.benchmarks.tagging import TaggingBenchmark
from bert_zoo.cli.benchmarks.texts import MultiLabelBenchmark, ScoreBenchmark, TextBenchmark
from bert_zoo.cli.report import Results, write
from bert_zoo.data.squad import SquadExample, SquadSplit
from bert_zoo.data.tables import LabelledTexts, TextColumns
from bert_zoo.data.tagging import TaggedSplit
from bert_zoo.error_text import listing
from bert_zoo.metrics.labels import pearson, spearman
from bert_zoo.models.labels import DEFAULT_THRESHOLD
from bert_zoo.presets import Recipe
from bert_zoo.printing import number, table
from bert_zoo.runtime.answers import marks_spans
from bert_zoo.tasks import name_of
from bert_zoo.text.batches import strings
from bert_zoo.text.columns import as_list


@dataclass(frozen=True, kw_only=True)
class Report(Results):
    """What `report` measured; prints as the metrics and the path of the page.

    Attributes:
        path: of the page.
        metrics: name -> value. Those of `model.evaluate` are the same numbers.
        confusion: int [truth, prediction] in the order of `labels`; None if the task has no classes.
        table: metrics by label, entity type or kind of question: rows of column -> value.
        hardest: the 20 examples with the highest loss, worst first.
        confidence: the scores of a classifier's answers, with `bins`, `ece`, `curve` and `choices`; None for
            other tasks.
        charts: heading -> chart of the confidence, which a notebook shows.
        map: the map of the texts of an embedding model; None for other tasks.
    """

    title: str
    path: Path
    metrics: Mapping[str, float]
    map: TextMap | None = None

    def __repr__(self) -> str:
        rows = [(name, number(value)) for name, value in self.metrics.items()]
        return f"{table(rows)}\nThe page is {self.path}"


def report(
    model,
    texts,
    labels,
    path: str | PathLike,
    *,
    batch_size: int | None = None,
    title: str = "Report of a model",
) -> Report:
    """Measures a model on labelled texts and writes an HTML page of the results, which needs no network.

    The page has the metrics, and by task:

    - classification: confusions, metrics by label, calibration (a reliability diagram and the expected calibration
      error over 15 bins, Guo et al. 2017, arXiv:1706.04599), the accuracy by the share of texts that are answered,
      the hardest texts;
    - multi-label classification: metrics by label, the hardest texts;
    - regression: the hardest texts;
    - token classification: F1 by entity type or tag, the hardest sentences;
    - question answering: scores with and without an answer, at the threshold 0 of `answer`; the surest wrong answers;
    - dense and sparse embedding: a map of the texts, retrieval or correlation if they are pairs, the hardest pairs.

    Args:
        model: a compiled model, as `load` and `fit` leave it.
        texts: as for `model.evaluate`, in memory.
        labels: as for `model.evaluate`; None for an embedding model's pairs.
        path: file of the page.
        batch_size: as for `model.evaluate`.
        title: title of the page.

    Returns:
        A `Report`, which prints as the metrics and has all results as attributes.

    Raises:
        ValueError: the model's task has no report, or `model.evaluate` refuses the data.
        TypeError: the texts are a dataset or ids, or `model.evaluate` refuses the data.
    """
    from bert_zoo.models.data_adapters import is_text

    if model.task not in DATA:
        raise ValueError(
            f"Models of task {model.task!r} have no report. The tasks that have one are {listing(DATA)}."
        )
    if not is_text(texts):
        raise TypeError(
            f"texts is {type(texts).__name__}, but a report shows texts. Pass them in memory, such as a list."
        )
    path = Path(path)
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder. Pass the file to write, such as {path / 'report.html'}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    found = model.evaluate(texts, labels, batch_size, return_dict=True, verbose=0)
    benchmark, data, drawn = DATA[model.task](model, texts, labels)
    measured = Measurement({})
    if benchmark is not None:
        recipe = Recipe(batch_size=batch_size or Recipe.batch_size)
        measured = benchmark.measure(data, benchmark.predict(model, data, recipe))
    results = Report(
        kind=model.task,
        num_measured=len(data),
        labels=getattr(model, "labels", ()),
        title=title,
        path=path,
        map=drawn,
        **vars(measured) | {"metrics": measured.metrics | found},
    )
    write("evaluated.html", path, run=results)
    return results


# --- Texts and labels as the data of a benchmark, which `evaluate` has checked; and a map of vectors, if there are any ---

Data = tuple[Benchmark | None, Any, TextMap | None]


def _benchmark(kind: type[Benchmark], data: Any, **attributes: Any) -> Data:
    return kind("report", lambda split: data, **attributes), data, None


def _labelled(model, texts, labels) -> tuple[Any, np.ndarray]:
    """Strings, or a pair of columns of them, and the numbers of their labels."""
    rows = model.as_text_rows(texts)
    numbers = np.asarray(model.as_text_labels(rows, labels))
    return tuple(map(strings, rows)) if isinstance(rows, tuple) else strings(rows), numbers


def _classes(model, texts, labels) -> Data:
    texts, numbers = _labelled(model, texts, labels)
    if numbers.ndim > 1:  # a loss that reads a number for each class
        numbers = numbers.argmax(axis=-1)
    return _benchmark(TextBenchmark, LabelledTexts(texts, numbers.tolist(), model.labels))


def _label_sets(model, texts, labels) -> Data:
    texts, numbers = _labelled(model, texts, labels)
    ids = [tuple(np.flatnonzero(row > DEFAULT_THRESHOLD).tolist()) for row in numbers]
    return _benchmark(MultiLabelBenchmark, LabelledTexts(texts, ids, model.labels))


def _scores(model, texts, labels) -> Data:
    texts, numbers = _labelled(model, texts, labels)
    return _benchmark(
        ScoreBenchmark, LabelledTexts(texts, numbers.tolist(), ()), metric=_correlations
    )


def _correlations(labels: Sequence[float], answers: np.ndarray) -> dict[str, float]:
    return {score.__name__: score(np.asarray(labels), answers) for score in (pearson, spearman)}


def _tags(model, texts, labels) -> Data:
    from bert_zoo.tasks.token_classification import with_words
    from bert_zoo.text.preprocessor import word_batch

    texts, labels = with_words(model, texts, labels)
    rows = model.as_text_rows(texts)
    words = [strings(row) for row in word_batch(rows)]
    numbers = [np.asarray(row).tolist() for row in model.as_text_labels(rows, labels)]
    scheme = "IOB2" if marks_spans(model.labels) else None  # which one, the metrics do not ask
    return _benchmark(TaggingBenchmark, TaggedSplit(words, numbers, model.labels, scheme))


def _answers(model, texts, labels) -> Data:
    from bert_zoo.tasks.question_answering import answered_texts

    asked = answered_texts(texts, labels)
    examples = tuple(
        SquadExample(str(i), "", question, context, answers, not answers)
        for i, (question, context, answers) in enumerate(zip(*asked, strict=True))
    )
    version = "1.1" if all(asked.answers) else "2.0"
    return _benchmark(QuestionBenchmark, SquadSplit(version, examples), threshold=0.0)


def _vectors(model, texts, labels) -> Data:
    from bert_zoo.models.text_columns import are_columns
    from bert_zoo.tasks.vectors import kind_of

    columns = [*map(strings, texts)] if are_columns(texts) else [strings(texts)]
    names = as_list(labels)
    if len(columns) > 1:
        names = [f"text {i + 1} of {len(columns)}" for i, some in enumerate(columns) for _ in some]
    shown = [text for column in columns for text in column]
    few = len(shown) <= NUM_NEIGHBOURS  # for UMAP
    drawn = text_map(shown, model.embed(shown), names, method="pca" if few else "auto")
    data, kind = TextColumns(tuple(columns)), None
    if len(columns) > 1 and labels is None:
        kind = RetrievalBenchmark
    elif len(columns) == 2 and kind_of(labels) == "f":
        data, kind = replace(data, labels=np.asarray(as_list(labels)).tolist()), SimilarityBenchmark
    return kind and kind("report", lambda split: data), data, drawn


DATA: Mapping[str, Callable[[Any, Any, Any], Data]] = {
    name_of("Classifier"): _classes,
    name_of("MultiLabelClassifier"): _label_sets,
    name_of("Regressor"): _scores,
    name_of("TokenClassifier"): _tags,
    name_of("QuestionAnswerer"): _answers,
    name_of("BeamQuestionAnswerer"): _answers,
    DENSE: _vectors,
    SPARSE: _vectors,
}
