"""Reranking: how well a document answers a query, by a cross-encoder that reads both together."""

from typing import Any

import keras

from bert_zoo.models.base import Interface
from bert_zoo.models.head_arguments import Asked, Told
from bert_zoo.models.losses import BinaryCrossentropy
from bert_zoo.models.task_model import SentenceModel, Use
from bert_zoo.runtime.rankings import SCORE_ACTIVATIONS, Ranking, check_top_k, ranking


@keras.saving.register_keras_serializable("bert_zoo")
class Reranker(SentenceModel):
    """Logits [batch, 1] of pairs of a query and a document, over the first token.

    Args:
        encoder: as in `TaskModel`.
        score_activation: what makes scores of logits: "sigmoid" or "linear", for the logit itself.
    """

    task = "reranking"
    peft_task = "SEQ_CLS"
    use = Use(
        "text-ranking",
        "scores how well a document answers a query",
        'model.rank("A query.", ["A document.", "Another one."])',
    )
    problem_type = "regression"  # as transformers takes a head of one logit
    num_outputs = 1
    pools_windows = False
    interface = Interface(texts=(("text", 1), ("text_pair", 1)), pairs=False)

    def __init__(self, encoder, score_activation: str = "sigmoid", **kwargs):
        if score_activation not in SCORE_ACTIVATIONS:
            raise ValueError(
                f"score_activation is {score_activation!r}; it is one of {[*SCORE_ACTIVATIONS]}."
            )
        self.score_activation = score_activation
        super().__init__(encoder, **kwargs)

    @classmethod
    def head_arguments(cls, asked: Asked, told: Told) -> dict[str, Any]:
        if told.num_logits not in (None, cls.num_outputs):
            raise ValueError(
                f"The head of {told.name} has {told.num_logits} logits, and a reranker has one: how well the "
                "document answers the query. To train one, pass init=('classifier',)."
            )
        arguments = super().head_arguments(asked, told)
        if told.score_activation is not None:
            arguments["score_activation"] = told.score_activation
        return arguments

    def default_loss(self):
        return BinaryCrossentropy(from_logits=True)

    def as_text_rows(self, x):
        if not isinstance(x, tuple):
            raise TypeError(
                "A reranker reads pairs of texts: pass (queries, documents), of which row i of one belongs "
                f"to row i of the other; got {type(x).__name__}."
            )
        return super().as_text_rows(x)

    def rank(self, query: str, documents, top_k: int | None = 10, batch_size: int = 32) -> Ranking:
        """The documents that answer a query best.

        Args:
            query: a text.
            documents: texts.
            top_k: how many of the best are given; None for all.
            batch_size: pairs of the query with a document a step.

        Returns:
            A list of `Ranked(document, index, score)`, best first, that prints as a table.
        """
        from bert_zoo.text.batches import strings

        check_top_k(top_k)
        documents = strings(documents)
        pairs = ([query] * len(documents), documents)
        logits = self.predict(pairs, batch_size=batch_size, verbose=0)
        return ranking(documents, logits[:, 0], self.score_activation, top_k)

    def portable_verb(self):
        return {"verb": "rank", "score_activation": self.score_activation}

    def served_answers(self, outputs):
        score = outputs["logits"][:, 0]
        return {"score": keras.activations.get(self.score_activation)(score)}

    def get_config(self):
        return {**super().get_config(), "score_activation": self.score_activation}
