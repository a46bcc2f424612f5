"""Classification: one label for a text."""

import keras
import numpy as np

from bert_zoo.config import is_integer
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import LabelledModel, SentenceModel, Use
from bert_zoo.results.classifications import Classifications, classified


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(SentenceModel, LabelledModel):
    """Logits [batch, classes] over the first token."""

    task = "classification"
    use = Use(
        "text-classification",
        "gives a text one of its labels",
        "model.classify({texts})",
        limits=("It always answers with one of its labels, also where none of them fits.",),
    )
    problem_type = "single_label_classification"

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def default_loss(self):
        return class_loss()

    def portable_verb(self):
        return {"verb": "classify", "labels": list(self.labels)}

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """The likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: texts a step.
            top_k: how many of the likeliest labels are given; one by default.

        Returns:
            A list of `Classification(text, label, score, scores, top)` that prints as a table.
        """
        from bert_zoo.text.batches import strings

        if top_k is not None and (not is_integer(top_k) or top_k < 1):
            raise ValueError(f"top_k is {top_k!r}; it is how many labels are wanted, at least 1.")
        texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
        logits = self.predict(texts, batch_size=batch_size, verbose=0)
        rows = zip(*texts, strict=True) if isinstance(texts, tuple) else texts
        return Classifications(
            self.classified(text, row, top_k) for text, row in zip(rows, logits, strict=True)
        )

    def classified(self, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None):
        """What logits [classes] say of a text."""
        return classified(text, logits, self.labels, top_k)
