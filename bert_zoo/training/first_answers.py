"""Where the training of a randomly initialised head begins: with what is right on average.

Heads without a bias, such as GPT's, begin with zeros.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_zoo.models.labels import LabelSets
from bert_zoo.tasks.multi_label_classification import MultiLabelClassifier
from bert_zoo.tasks.regression import Regressor


def start_from_frequencies(model: MultiLabelClassifier, labels: Any) -> None:
    """Sets the head's biases so that probabilities begin as the frequencies of the labels.

    From biases of zero all logits of rare labels have to fall at first. The encoder falls with them,
    and at the higher of BERT's learning rates no text differs from another afterwards.

    Args:
        model: whose head is randomly initialised: what it has learned would be lost.
        labels: of the training texts, as `fit` takes them.

    Source: Lin et al. 2017, "Focal Loss for Dense Object Detection", section 3.3, which takes one
    frequency for all labels.
    """
    rows = LabelSets(model.labels).numbers(labels, "label")
    # As if one more text had each label and one did not, so that no logit is infinite.
    frequencies = (rows.sum(axis=0) + 1) / (len(rows) + 2)
    _set_bias(model, np.log(frequencies / (1 - frequencies)))


def start_from_mean(model: Regressor, scores: Sequence[float]) -> None:
    """Sets the head's bias to the mean of the scores.

    From a bias of zero the first updates go into the mean, at BERT's learning rates most of an epoch.

    Args:
        model: whose head is randomly initialised: what it has learned would be lost.
        scores: of the training texts.

    Source: measured by this project: docs/results.md, "Which settings are the default".
    """
    _set_bias(model, [np.mean(scores)])


def _set_bias(model: MultiLabelClassifier | Regressor, values: Sequence[float]) -> None:
    if model.classifier.dense.bias is not None:
        model.classifier.dense.bias.assign(values)
