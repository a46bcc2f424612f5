"""Pretraining of encoder-decoder models: an objective divides each text between the two."""

from collections.abc import Sequence
from typing import Any

from bert_zoo.data.rows import RowScheme
from bert_zoo.models.task_model import Use
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.masked import MaskedTraining
from bert_zoo.pretraining.rows import PackedDocuments, PackedExamples


class DenoisingTraining(MaskedTraining):
    """Trains an encoder-decoder model.

    A phase's length is the number of tokens that the encoder reads per row. With the scheme "packed_documents"
    a row holds several texts, else one. Arguments are those of `MaskedTraining`.
    """

    use = Use(
        "text2text-generation",
        "fills in hidden spans of a text and can be fine-tuned for text-to-text tasks",
        'print(model.generate(["A text."]))',
        limits=("Without fine-tuning it can only fill in hidden spans.",),
    )

    def scheme(self, length: int) -> RowScheme:
        scheme = super().scheme(self.objective.raw_length(length))
        if isinstance(scheme, PackedDocuments):
            return PackedExamples(scheme.length, objective=self.objective)
        return scheme

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """Returns an empty list, as no single word is masked."""
        return []

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        return []
