"""Classification: one label per text."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.labels import DEFAULT_THRESHOLD, HeadChoice
from bert_zoo.models.long_texts import warning_of_cut_texts
from bert_zoo.models.losses import class_loss
from bert_zoo.models.task_model import LabelledModel, SentenceModel, Use
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import Classifications, applying, best, classified, softmax

HYPOTHESIS = "This example is {}."


@keras.saving.register_keras_serializable("bert_zoo")
class Classifier(SentenceModel, LabelledModel):
    """Gives a text, or a pair of texts, one of several labels.

    Returns logits [batch, classes]. `labels` or `num_classes` of `bert_zoo.load` set the classes; `fit`
    takes labels as class numbers or names.

    Args:
        encoder, num_classes, labels: as in `LabelledModel`.
    """

    task = "classification"
    verbs = ("classify", "zero_shot")
    peft_task = "SEQ_CLS"
    taught_by = "cross_entropy"
    use = Use(
        "text-classification",
        "assigns one of its labels to a text",
        "model.classify({texts})",
        limits=("It always answers with one of its labels, even if none fits.",),
    )
    problem_type = "single_label_classification"
    least_logits = 2

    @classmethod
    def head_arguments(cls, head: HeadChoice) -> dict[str, Any]:
        if head.num_logits is not None and head.num_logits < cls.least_logits:
            raise ValueError(
                f"The head of {head.checkpoint} has one logit, and a classifier with a single class would give every "
                "text the probability 1. If the logit is a number to predict, load with task='regression', as "
                "transformers does. If the model is a cross-encoder, load with task='reranking', which ranks "
                "documents by its sigmoid. To train a classifier of your own, pass init=('classifier',)."
            )
        return super().head_arguments(head)

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def default_loss(self):
        return class_loss()

    def portable_verb(self):
        return {"verb": "classify", "labels": list(self.labels)}

    def classify(self, texts, batch_size: int = 32, top_k: int | None = None):
        """Finds the likeliest label of each text, with its probability.

        Args:
            texts: strings, or a pair of string batches.
            batch_size: number of texts per step.
            top_k: how many of the likeliest labels to list for each text; one by default.

        Returns:
            A list of `Classification(text, label, score, scores, top)` that prints as a table.

        Raises:
            ValueError: `top_k` is not a positive integer.
        """
        from bert_zoo.text.batches import strings

        check("top_k", top_k, int | None, least=1)
        texts = tuple(map(strings, texts)) if isinstance(texts, tuple) else strings(texts)
        logits = self.predict(texts, batch_size=batch_size, verbose=0)
        rows = zip(*texts, strict=True) if isinstance(texts, tuple) else texts
        return Classifications(
            self.classified(text, row, top_k) for text, row in zip(rows, logits, strict=True)
        )

    def prediction_rows(self, texts, second=None, *, batch_size=32, all_scores=False, **others):
        for row in self.classify(texts if second is None else (texts, second), batch_size):
            scores = {f"score_{label}": score for label, score in row.scores.items()}
            yield self.prediction_row(row) | (scores if all_scores else {})

    def prediction_row(self, found) -> dict[str, Any]:
        return {"label": found.label, "score": found.score}

    def printed_predictions(self, texts, second=None, **others):
        return self.classify(texts if second is None else (texts, second))

    def zero_shot(
        self,
        texts,
        labels,
        *,
        hypothesis: str = HYPOTHESIS,
        multi_label: bool = False,
        top_k: int | None = None,
        batch_size: int = 32,
    ):
        """Sorts texts into classes that the model was not trained for. Needs a model fine-tuned on MNLI.

        The text is the premise, and each label is put into a hypothesis ("This example is about politics."),
        whose probability of entailment is the label's score, as in transformers' ZeroShotClassificationPipeline.

        Args:
            texts: a text or several. A text that is too long is cut; the hypothesis is not.
            labels: names of the classes: a list, or a string with commas as in transformers.
            hypothesis: a sentence with {} in place of the label. It works best in the texts' language
                and about their subject.
            multi_label: whether any number of labels may apply. Each label then has its own probability,
                and those above 0.5 are returned. Otherwise all probabilities add up to 1.
            top_k: how many of the likeliest labels to list; by default one, or all that apply.
            batch_size: number of pairs of a text and a label per step.

        Returns:
            A list of `Classification`, or of `MultiLabelClassification` with `multi_label`, which prints as a
            table.

        Raises:
            ValueError: the model has no class "entailment", or an argument is invalid.

        Source: Yin et al., "Benchmarking Zero-shot Text Classification", arXiv:1909.00161.
        """
        check("top_k", top_k, int | None, least=1)
        from bert_zoo.text.batches import strings

        labels = _checked_labels(labels)
        if not isinstance(hypothesis, str) or "{}" not in hypothesis:
            raise ValueError(
                f"hypothesis is {shown(hypothesis)}; it must be a sentence with {{}} in place of the label, such as "
                f"{HYPOTHESIS!r}."
            )
        entails, contradicts = _inference_classes(self)
        texts = strings(texts)
        premises = [text for text in texts for _ in labels]
        hypotheses = [hypothesis.replace("{}", label) for label in labels] * len(texts)
        pairs = (premises, hypotheses)
        # Never truncate the hypothesis.
        reader = self.preprocessor.with_options(truncation="only_first")
        with warning_of_cut_texts(self, pairs):
            logits = outputs_of_texts(self, _logits, pairs, batch_size, reader=reader)
        logits = logits.reshape(len(texts), len(labels), -1)
        if multi_label:
            probabilities = softmax(logits[..., [contradicts, entails]])[..., 1]
        else:
            probabilities = softmax(logits[..., entails])
        thresholds = dict.fromkeys(labels, DEFAULT_THRESHOLD)
        found = Classifications()
        for text, row in zip(texts, probabilities, strict=True):
            scores = dict(zip(labels, map(float, row), strict=True))
            found.append(
                applying(text, scores, thresholds, top_k)
                if multi_label
                else best(text, scores, top_k)
            )
        return found

    def classified(self, text: str | tuple[str, str], logits: np.ndarray, top_k: int | None):
        """The result for one text, from its logits [classes]."""
        return classified(text, logits, self.labels, top_k)


def _logits(model, inputs):
    return model(inputs, training=False)


def _checked_labels(labels: Sequence[str] | str) -> list[str]:
    if isinstance(labels, str):
        labels = [label.strip() for label in labels.split(",")]
    labels = [*labels]
    if not labels or not all(isinstance(label, str) and label.strip() for label in labels):
        raise ValueError(f"labels is {shown(labels)}; it must be a list of non-empty names.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"labels has a duplicate name: {quoted(labels)}. Remove it.")
    return labels


def _inference_classes(model) -> tuple[int, int]:
    """The ids of the classes of entailment and contradiction."""
    names = [name.casefold() for name in model.labels]
    entails = [i for i, name in enumerate(names) if name.startswith("entail")]
    others = [i for i in range(len(names)) if i not in entails]
    against = [i for i in others if names[i].startswith("contra")] or others
    if len(entails) != 1 or (len(against) != 1 and len(names) > 2):
        raise ValueError(
            f"zero_shot() needs a model for natural language inference, with the classes 'entailment' and "
            f"'contradiction', but this model has {quoted(model.labels)}. Load a model such as "
            f"{', '.join(_inference_models())}, or fine-tune one on MNLI."
        )
    return entails[0], against[0]


def _inference_models() -> list[str]:
    """The registered checkpoints for natural language inference."""
    return [
        repr(checkpoint.full_name)
        for family in registry().families.values()
        for checkpoint in family.checkpoints
        if any(label.casefold().startswith("entail") for label in checkpoint.labels)
    ]
