"""Starts heads with predictions that are right on average; weights of classes in the loss.

Heads without a bias, such as GPT's, stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_zoo.layers.heads import OutputHead
from bert_zoo.models.data_adapters import BALANCED, balanced_weights
from bert_zoo.models.labels import LabelSets, class_weight_table
from bert_zoo.models.task_model import TaskModel
from bert_zoo.tasks.multi_label_classification import MultiLabelClassifier
from bert_zoo.tasks.regression import Regressor


def class_weights(
    setting: str | Mapping[str, float], labels: Sequence[int], label_names: Sequence[str]
) -> dict[int, float]:
    """The class weights of a recipe, by class id, for the class ids `labels` [N] of the training rows.

    `setting` is "balanced", which gives every class the same total weight and keeps the sum over all rows; or weights
    by class name, as a mapping or as "no=1,yes=5"; missing classes get 1.
    """
    if setting == BALANCED:
        counts = np.bincount(labels, minlength=len(label_names))
        return dict(enumerate(balanced_weights(counts).tolist()))
    is_mapping = isinstance(setting, Mapping)
    spelled = setting if is_mapping else dict(p.rpartition("=")[::2] for p in setting.split(","))
    try:
        given = {name: float(weight) for name, weight in spelled.items()}
    except (TypeError, ValueError):
        given = {}
    if not given or not all(0 < weight < float("inf") for weight in given.values()):
        raise ValueError(
            f"class_weight is {setting!r}; it must be 'balanced', or positive numbers by class, such as "
            "'no=1,yes=5' or {'no': 1, 'yes': 5}."
        )
    return dict(enumerate(class_weight_table(given, label_names).tolist()))


def start_from_frequencies(model: MultiLabelClassifier, labels: Any) -> None:
    """Sets the head's biases so that the initial probabilities are the labels' frequencies.

    With biases of zero, training first lowers all logits of rare labels. This also changes the encoder:
    at BERT's higher learning rates its outputs for all texts become the same.

    Args:
        model: a model with a randomly initialised head; a trained head would lose its biases.
        labels: the labels of the training texts, as for `fit`.

    Raises:
        ValueError: a label is unknown.

    Source: Lin et al. 2017, "Focal Loss for Dense Object Detection", section 3.3, which takes one
    frequency for all labels.
    """
    rows = LabelSets(model.labels).numbers(labels, "label")
    # Count one more text with each label and one without, so that no logit is infinite.
    frequencies = (rows.sum(axis=0) + 1) / (len(rows) + 2)
    _set_bias(model, np.log(frequencies / (1 - frequencies)))


def start_from_mean(model: Regressor, scores: Sequence[float]) -> None:
    """Sets the head's bias to the mean of the scores.

    With a bias of zero, training first learns the mean, for most of an epoch at BERT's learning rates.

    Args:
        model: a model with a randomly initialised head; a trained head would lose its bias.
        scores: the scores of the training texts.

    Source: measured by this project: docs/measured/finetuning.md, "Which settings are the default".
    """
    _set_bias(model, [np.mean(scores)])


def set_head_range(model: TaskModel, heads: Sequence[str], initializer_range: float) -> None:
    """Scales the kernels of randomly initialised heads to another standard deviation.

    Small kernels make small logits and small gradients for the encoder. For example, minilm_l6's pooled
    outputs have a root mean square of 0.06. With BERT's range of 0.02, its logits differ by hundredths,
    and it takes tens of updates until it distinguishes texts.

    Args:
        model: a model with randomly initialised heads; trained heads would change.
        heads: attributes of the model that hold its heads, such as "classifier".
        initializer_range: standard deviation before the distribution is truncated, as in the
            configuration.

    Raises:
        ValueError: a head has several layers of logits.

    Source: measured by this project: docs/measured/finetuning.md, "Which settings are the default".
    """
    factor = initializer_range / model.encoder.config.initializer_range
    for name in heads:
        head = getattr(model, name)
        if not isinstance(head, OutputHead):
            raise ValueError(
                f"head_initializer_range is {initializer_range!r}, but the head of task {model.task!r} has "
                "several layers of logits. Leave it out."
            )
        head.dense.kernel.assign(head.dense.kernel * factor)


def _set_bias(model: MultiLabelClassifier | Regressor, values: Sequence[float]) -> None:
    if model.classifier.dense.bias is not None:
        model.classifier.dense.bias.assign(values)
