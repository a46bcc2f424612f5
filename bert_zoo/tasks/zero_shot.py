"""Classes by name, without training: `classify(texts, labels=[...])` and the signature `zero_shot` of SavedModels."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from bert_zoo.error_text import quoted, shown
from bert_zoo.fields import check
from bert_zoo.models.labels import DEFAULT_THRESHOLD
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import Classifications, classifications

HYPOTHESIS = "This example is {}."
# Cosines are multiplied by it before the softmax: the scale with which sentence-transformers trains sentence vectors.
COSINE_SCALE = 20.0


def classified_by_name(
    model,
    texts: str | Sequence[str],
    labels: Sequence[str] | str,
    template: str,
    *,
    multi_label: bool = False,
    top_k: int | None = None,
    batch_size: int = 32,
) -> Classifications:
    """What `classify` returns for a model with `scores_by_name`; see `Classifier.classify`."""
    from bert_zoo.text.batches import strings

    check("top_k", top_k, int | None, least=1)
    labels = _checked_labels(labels)
    check_template("template", template)
    if isinstance(texts, tuple):
        raise ValueError("With labels=, texts must be single texts, not pairs.")
    texts = strings(texts)
    sentences = [template.replace("{}", label) for label in labels]
    scores = model.scores_by_name(texts, sentences, multi_label, batch_size)
    thresholds = [DEFAULT_THRESHOLD] * len(labels) if multi_label else ()
    return classifications(texts, scores, labels, top_k, thresholds)


def _checked_labels(labels: Sequence[str] | str) -> list[str]:
    if isinstance(labels, str):
        labels = [label.strip() for label in labels.split(",")]
    labels = [*labels]
    if not labels or not all(isinstance(label, str) and label.strip() for label in labels):
        raise ValueError(f"labels is {shown(labels)}; it must be a list of non-empty names.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"labels has a duplicate name: {quoted(labels)}. Remove it.")
    return labels


def check_template(name: str, template: Any) -> None:
    if not isinstance(template, str) or "{}" not in template:
        raise ValueError(
            f"The {name} is {shown(template)}; it must be a sentence with {{}} in place of the label, such as "
            f"{HYPOTHESIS!r}."
        )


# --- By natural language inference ---


def inference_classes(labels: Sequence[str]) -> tuple[int, int]:
    """The ids of the classes of entailment and of contradiction, or its one alternative, by their names.

    transformers takes the first class for the contradiction, or the last one if the first is the entailment, which is
    wrong for (neutral, contradiction, entailment).

    Raises:
        ValueError: the classes are not those of natural language inference.
    """
    names = [name.casefold() for name in labels]
    entails = [i for i, name in enumerate(names) if name.startswith("entail")]
    others = [i for i in range(len(names)) if i not in entails]
    against = [i for i in others if names[i].startswith("contra")] or others
    if len(entails) != 1 or (len(against) != 1 and len(names) > 2):
        raise ValueError(
            "Other labels than its own need a model for natural language inference, with the classes 'entailment' and "
            f"'contradiction', but this model has {quoted(labels)}. Load a model such as "
            f"{', '.join(_inference_models())}, fine-tune one on MNLI, or load a sentence encoder with "
            "task='embedding'."
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


def entailment_scores(logits, classes: tuple[int, int]) -> dict[str, Any]:
    """Probabilities [texts, labels] from logits [texts, labels, classes]: `scores`, which add up to 1 over several
    labels, and `label_scores`, of each label by itself."""
    entails, contradicts = (logits[..., index] for index in classes)
    alone = ops.sigmoid(entails - contradicts)
    number = ops.shape(logits)[1]
    if isinstance(number, int):
        scores = alone if number == 1 else ops.softmax(entails, axis=-1)
    else:
        scores = ops.where(number == 1, alone, ops.softmax(entails, axis=-1))
    return {"scores": scores, "label_scores": alone}


# --- By sentence vectors ---


def cosine_scores(texts, labels) -> dict[str, Any]:
    """`cosines` [texts, labels] of vectors [texts, size] and [labels, size], and `scores`, which add up to 1."""
    cosines = ops.matmul(
        ops.normalize(texts, axis=-1), ops.transpose(ops.normalize(labels, axis=-1))
    )
    return {"scores": ops.softmax(COSINE_SCALE * cosines, axis=-1), "cosines": cosines}
