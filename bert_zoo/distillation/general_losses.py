"""Losses of distillation on plain text, of each token: how far a student is from its teacher inside.

Each gives float32 [batch, length]; the mean over the tokens that are no padding is the loss, as
`MeanOverTokens` takes it. Arguments of the student come first, then those of the teacher.
"""

import math

import keras
from keras import ops

from bert_zoo.layers.attention import attention_bias
from bert_zoo.models.losses import BatchMean

# TinyBERT's scores of what must not be seen are at most this, and count as 0.
LEAST_SCORE = -100.0


class MeanOverTokens(BatchMean, keras.losses.Loss):
    """The mean of losses [batch, length] over the tokens of the whole batch whose label, a mask, is 1."""

    def num_labels(self, y_true):
        return ops.sum(ops.cast(y_true, "float32"))

    def call(self, y_true, y_pred):
        mask = ops.cast(y_true, "float32")
        # Keras divides by the number of all tokens.
        scale = ops.cast(ops.size(mask), "float32") / ops.maximum(ops.sum(mask), 1.0)
        return y_pred * mask * scale


def _float(*tensors):
    return (ops.cast(tensor, "float32") for tensor in tensors)


def _divergence(student, teacher):
    """KL divergence [...] of the student's distribution from the teacher's, of logits [..., classes]."""
    student, teacher = map(ops.log_softmax, _float(student, teacher))
    return ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)


def soft_token_loss(student, teacher, temperature: float = 2.0):
    """Divergence of the predicted tokens at a temperature, times its square.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 2; huggingface/transformers
    research_projects/distillation/distiller.py, loss_ce.

    Args:
        student, teacher: logits [batch, length, vocabulary].
        temperature: both are divided by it.
    """
    student, teacher = (logits / temperature for logits in _float(student, teacher))
    return _divergence(student, teacher) * temperature**2


def cosine_loss(student, teacher):
    """1 less the cosine of hidden states [batch, length, hidden]; the source is that of `soft_token_loss`."""
    student, teacher = _float(student, teacher)
    # As torch's CosineEmbeddingLoss has it.
    lengths = [ops.sum(ops.square(x), axis=-1) + 1e-12 for x in (student, teacher)]
    return 1 - ops.sum(student * teacher, axis=-1) / ops.sqrt(math.prod(lengths))


def hidden_state_loss(student, teacher):
    """Squared error of hidden states [batch, length, hidden], a mean over their numbers.

    Source: Jiao et al. 2020 (arXiv:1909.10351), equations 8 and 9; huawei-noah/Pretrained-Language-Model
    TinyBERT/general_distill.py.
    """
    student, teacher = _float(student, teacher)
    return ops.mean(ops.square(student - teacher), axis=-1)


def attention_score_loss(student, teacher, mask=None):
    """Squared error of the scores of attention before the softmax, a mean over heads and keys.

    Source: Jiao et al. 2020, equation 7, and their program as of `hidden_state_loss`: scores include what
    hides padding, and those of at most -100 count as 0, in its sum and in its number. A mask leaves them
    out of the number too, so that padding changes nothing.

    Args:
        student, teacher: scores [batch, heads, length, length].
        mask: [batch, length], 1 for real tokens; None for the program's arithmetic.
    """
    student, teacher = (ops.where(x <= LEAST_SCORE, 0.0, x) for x in _float(student, teacher))
    errors = ops.mean(ops.square(student - teacher), axis=1)
    if mask is None:
        return ops.mean(errors, axis=-1)
    seen = ops.cast(mask, "float32")[:, None, :]
    return ops.sum(errors * seen, axis=-1) / ops.maximum(ops.sum(seen, axis=-1), 1.0)


def relations(first, second, heads: int):
    """Scaled products of the vectors of every two tokens: [batch, heads, length, length].

    A token's vector is that of all attention heads, one after another, and is divided anew into as many
    parts as there are `heads`. Of queries and keys with the heads of the model itself, these are its
    scores of attention, without what is added to them.

    Source: Wang et al. 2021 (arXiv:2012.15828), section 3.1.

    Args:
        first, second: [batch, length, width].
        heads: a divisor of the width.
    """
    length, width = ops.shape(first)[1], first.shape[-1]

    def divided(x):
        x = ops.reshape(ops.cast(x, "float32"), (-1, length, heads, width // heads))
        return ops.transpose(x, (0, 2, 1, 3))

    first = divided(first) * (1 / math.sqrt(width // heads))
    return ops.matmul(first, ops.transpose(divided(second), (0, 1, 3, 2)))


def relation_loss(student, teacher, mask):
    """Divergence of the distributions that relations give over the real tokens, a mean over heads.

    Of scores of attention it is MiniLM's loss of attention, of `relations` of values with themselves its
    loss of value relations, and of queries, keys and values each with themselves, its version 2.

    Source: Wang et al. 2020 (arXiv:2002.10957), equations 4 to 7; Wang et al. 2021, equations 5 and 6.

    Args:
        student, teacher: scores [batch, heads, length, length], before the softmax.
        mask: [batch, length], 1 for real tokens.
    """
    hidden = attention_bias(mask, "float32")
    student, teacher = (scores + hidden for scores in _float(student, teacher))
    return ops.mean(_divergence(student, teacher), axis=1)
