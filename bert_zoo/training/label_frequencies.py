"""Where the training of a randomly initialised multi-label head begins."""

from typing import Any

import numpy as np

from bert_zoo.models.labels import LabelSets
from bert_zoo.tasks.multi_label_classification import MultiLabelClassifier


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
    model.classifier.dense.bias.assign(np.log(frequencies / (1 - frequencies)))
