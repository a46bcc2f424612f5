"""Where the training of a randomly initialised head begins: with what is right on average.

Heads without a bias, such as GPT's, begin with zeros.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_zoo.layers.heads.output import OutputHead
from bert_zoo.models.labels import LabelSets
from bert_zoo.models.task_model import TaskModel
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

    Source: measured by this project: docs/measured/finetuning.md, "Which settings are the default".
    """
    _set_bias(model, [np.mean(scores)])


def set_head_range(model: TaskModel, heads: Sequence[str], initializer_range: float) -> None:
    """Scales randomly initialised heads, so that their weights have another standard deviation.

    The loss reaches the encoder through these weights, and logits are as small as what the head reads.
    minilm_l6's pooled outputs have a root mean square of 0.06: with BERT's 0.02 its logits differ by
    hundredths, and tens of updates go by before it learns to tell texts apart.

    Args:
        model: whose heads are as they were drawn: what they have learned would change.
        heads: names of the model's heads, such as "classifier".
        initializer_range: the standard deviation before the tails of the distribution are cut off, as
            the configuration's is.

    Raises:
        ValueError: a head is more than a layer of logits after a transform.

    Source: measured by this project: docs/measured/finetuning.md, "Which settings are the default".
    """
    factor = initializer_range / model.encoder.config.initializer_range
    for name in heads:
        head = getattr(model, name)
        if not isinstance(head, OutputHead):
            raise ValueError(
                f"head_initializer_range is {initializer_range!r}, and the task {model.task!r} has a "
                "head of several layers of logits. Leave it out."
            )
        head.dense.kernel.assign(head.dense.kernel * factor)


def _set_bias(model: MultiLabelClassifier | Regressor, values: Sequence[float]) -> None:
    if model.classifier.dense.bias is not None:
        model.classifier.dense.bias.assign(values)
