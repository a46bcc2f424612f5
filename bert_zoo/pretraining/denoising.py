"""Trainings of an encoder and a decoder, of texts that are taken apart between them."""

from collections.abc import Sequence
from typing import Any

from bert_zoo.data.rows import Scheme
from bert_zoo.models.task_model import Use
from bert_zoo.pretraining.corpus import Corpus
from bert_zoo.pretraining.masked import MaskedTraining
from bert_zoo.pretraining.rows import PackedDocuments, PackedExamples


class DenoisingTraining(MaskedTraining):
    """A model of encoder and decoder, and rows for both.

    Phases say how many tokens of a row the encoder reads. Rows of "packed_documents" hold several texts, and
    those of other schemes one each. Arguments: as `MaskedTraining`.
    """

    use = Use(
        "text2text-generation",
        "fills in hidden spans of a text and can be fine-tuned for text-to-text tasks",
        'print(model.generate(["A text."]))',
        limits=("Without fine-tuning it can only fill in hidden spans.",),
    )

    def scheme(self, length: int) -> Scheme:
        scheme = super().scheme(self.objective.raw_length(length))
        if isinstance(scheme, PackedDocuments):
            return PackedExamples(scheme.length, objective=self.objective)
        return scheme

    def questions(self, corpus: Corpus | None) -> list[tuple[str, str]]:
        """None: no word is hidden by itself."""
        return []

    def answers(self, questions: Sequence[tuple[str, str]]) -> list[list[list[Any]]]:
        return []
