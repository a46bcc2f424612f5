"""Metrics equal to the official scripts': SQuAD (`squad`), chunks and entities (`spans`), rankings
(`retrieval`), and classes and numbers (`labels`)."""

from bert_zoo.metrics.labels import SpanReport, span_report
from bert_zoo.metrics.retrieval import retrieval_metrics
from bert_zoo.metrics.squad import (
    AnswerSelection,
    Window,
    read_null_odds,
    read_predictions,
    select_answers,
    squad_v1,
    squad_v2,
    write_predictions,
)

__all__ = [
    "AnswerSelection",
    "SpanReport",
    "Window",
    "read_null_odds",
    "read_predictions",
    "retrieval_metrics",
    "select_answers",
    "span_report",
    "squad_v1",
    "squad_v2",
    "write_predictions",
]
