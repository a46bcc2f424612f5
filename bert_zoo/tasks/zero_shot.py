"""Zero-shot classification with a model for natural language inference.

The text is the premise, and each label is put into a hypothesis ("This example is about politics."). The
probability of entailment is the label's score. Source: Yin et al., "Benchmarking Zero-shot Text
Classification", arXiv:1909.00161. Probabilities are those of transformers' ZeroShotClassificationPipeline.
"""

from collections.abc import Sequence

from bert_zoo.error_text import quoted, shown
from bert_zoo.models.direct import outputs_of_texts
from bert_zoo.models.labels import DEFAULT_THRESHOLD
from bert_zoo.models.long_texts import warning_of_cut_texts
from bert_zoo.registry import registry
from bert_zoo.runtime.answers import Classifications, applying, best, softmax

HYPOTHESIS = "This example is {}."


def zero_shot(
    model,
    texts,
    labels: Sequence[str] | str,
    hypothesis: str,
    multi_label: bool,
    top_k: int | None,
    batch_size: int,
) -> Classifications:
    from bert_zoo.text.batches import strings

    labels = _checked_labels(labels)
    if not isinstance(hypothesis, str) or "{}" not in hypothesis:
        raise ValueError(
            f"hypothesis is {shown(hypothesis)}; it must be a sentence with {{}} in place of the label, such as "
            f"{HYPOTHESIS!r}."
        )
    entails, contradicts = _inference_classes(model)
    texts = strings(texts)
    premises = [text for text in texts for _ in labels]
    hypotheses = [hypothesis.replace("{}", label) for label in labels] * len(texts)
    pairs = (premises, hypotheses)
    # Never truncate the hypothesis.
    reader = model.preprocessor.with_options(truncation="only_first")
    with warning_of_cut_texts(model, pairs):
        logits = outputs_of_texts(model, _logits, pairs, batch_size, reader=reader)
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
            applying(text, scores, thresholds, top_k) if multi_label else best(text, scores, top_k)
        )
    return found


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
