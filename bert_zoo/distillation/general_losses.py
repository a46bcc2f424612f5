"""Losses for distillation on plain text, and the intermediate values of encoders that they read.

Each returns float32 [batch, length]. `MeanOverTokens` averages it over the tokens that are not padding.
"""

import math
from typing import Any

import keras
from keras import ops

from bert_zoo.layers import PostNormBlock, SelfAttention, Stack, TransformerBackbone
from bert_zoo.layers.attention import attention_bias
from bert_zoo.models import Encoder
from bert_zoo.models.losses import BatchMean


def check_can_be_read(encoder: Encoder, role: str) -> None:
    """Raises ValueError for an encoder, the "student" or "teacher", whose attention differs from BERT's."""
    backbone = encoder.backbone
    stack = getattr(backbone, "stack", None)
    # Exact types: subclasses add to the scores or read other inputs.
    if (
        not isinstance(backbone, TransformerBackbone)
        or type(stack) is not Stack
        or any(type(block) is not PostNormBlock for block in stack.blocks)
        or any(type(block.attention) is not SelfAttention for block in stack.blocks)
        or any(len(numbers) > 1 for numbers in stack.blocks_of_layers)
    ):
        raise ValueError(
            f"The {role} is of the family {encoder.family}. Its attention differs from BERT's, so its queries, "
            "keys and values cannot be compared. Choose objective='triple', or a model such as BERT, RoBERTa, "
            "ELECTRA, DistilBERT or ALBERT."
        )


class Insides:
    """Hidden states and attention projections of an encoder's lowest layers.

    Nothing above these layers is computed. Layers are numbered from 1; 0 means the embeddings. The encoder is one that
    `check_can_be_read` accepts; of the inputs, those of other models are ignored.
    """

    def __init__(self, encoder: Encoder, inputs: dict[str, Any], layers: int, training):
        backbone = encoder.backbone
        inputs = read_by(encoder, inputs)
        self.stack = stack = backbone.stack
        # The bias is added to attention scores, [batch, 1, 1 or length, length].
        embedded, self.bias = backbone.embedded(inputs, training)
        self.states = [embedded]  # one more than layers, each [batch, length, hidden]
        x = ops.reshape(embedded, (-1, stack.hidden_size))
        for layer in range(1, layers + 1):
            x, *_ = stack.run(self.block(layer), x, self.bias, training=training)
            self.states.append(ops.reshape(x, ops.shape(embedded)))

    def block(self, layer: int) -> PostNormBlock:
        (number,) = self.stack.blocks_of_layers[layer - 1]
        return self.stack.blocks[number]

    def projections(self, layer: int) -> list:
        """Queries, keys and values of a layer, each [batch, length, hidden] with concatenated heads."""
        return ops.split(self.block(layer).attention.qkv(self.states[layer - 1]), 3, -1)

    def scores(self, layer: int):
        """Attention scores of a layer before the softmax, float32 [batch, heads, length, length]."""
        query, key, _ = self.projections(layer)
        heads = self.block(layer).attention.num_heads
        return relations(query, key, heads) + ops.cast(self.bias, "float32")


def read_by(encoder: Encoder, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs that an encoder takes, from inputs for several models."""
    return {name: inputs[name] for name in encoder.backbone.inputs if name in inputs}


# TinyBERT replaces scores of at most this, which hidden tokens have, by 0.
LEAST_SCORE = -100.0


class MeanOverTokens(BatchMean, keras.losses.Loss):
    """Mean of losses [batch, length] over the tokens of the whole batch whose label (a mask) is 1."""

    def labelled(self, y_true):
        return ops.cast(y_true, "float32")

    def call(self, y_true, y_pred):
        mask = self.labelled(y_true)
        # Keras divides by the number of all tokens.
        scale = ops.cast(ops.size(mask), "float32") / ops.maximum(ops.sum(mask), 1.0)
        return y_pred * mask * scale


def _float(*tensors):
    return (ops.cast(tensor, "float32") for tensor in tensors)


def _divergence(student, teacher):
    """KL divergence [...] of the student's distribution from the teacher's, from logits [..., classes]."""
    student, teacher = map(ops.log_softmax, _float(student, teacher))
    return ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)


def soft_token_loss(student, teacher, temperature: float = 2.0):
    """KL divergence between the token predictions at a temperature, times the temperature squared.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 2; huggingface/transformers
    research_projects/distillation/distiller.py, loss_ce.

    Args:
        student, teacher: logits [batch, length, vocabulary].
        temperature: divisor of both logits.

    Returns:
        float32 [batch, length].
    """
    student, teacher = (logits / temperature for logits in _float(student, teacher))
    return _divergence(student, teacher) * temperature**2


def cosine_loss(student, teacher):
    """1 minus the cosine between hidden states.

    Source: as `soft_token_loss`, loss_cos.

    Args:
        student, teacher: [batch, length, hidden].

    Returns:
        float32 [batch, length].
    """
    student, teacher = _float(student, teacher)
    # As torch's CosineEmbeddingLoss.
    lengths = [ops.sum(ops.square(x), axis=-1) + 1e-12 for x in (student, teacher)]
    return 1 - ops.sum(student * teacher, axis=-1) / ops.sqrt(math.prod(lengths))


def hidden_state_loss(student, teacher):
    """Mean squared error between hidden states.

    Source: Jiao et al. 2020 (arXiv:1909.10351), equations 8 and 9; huawei-noah/Pretrained-Language-Model
    TinyBERT/general_distill.py.

    Args:
        student, teacher: [batch, length, hidden].

    Returns:
        float32 [batch, length].
    """
    student, teacher = _float(student, teacher)
    return ops.mean(ops.square(student - teacher), axis=-1)


def attention_score_loss(student, teacher, mask=None):
    """Mean squared error between attention scores before the softmax, over heads and keys.

    Source: Jiao et al. 2020 (arXiv:1909.10351), equation 7; TinyBERT/general_distill.py. As there, scores
    include the bias that hides padding, and scores of at most -100 become 0. That program still counts padding
    in the mean; with a mask, padding changes nothing.

    Args:
        student, teacher: scores [batch, heads, length, length].
        mask: [batch, length], 1 for real tokens; None for the program's mean.

    Returns:
        float32 [batch, length], one value per query.
    """
    student, teacher = (ops.where(x <= LEAST_SCORE, 0.0, x) for x in _float(student, teacher))
    errors = ops.mean(ops.square(student - teacher), axis=1)
    if mask is None:
        return ops.mean(errors, axis=-1)
    seen = ops.cast(mask, "float32")[:, None, :]
    return ops.sum(errors * seen, axis=-1) / ops.maximum(ops.sum(seen, axis=-1), 1.0)


def relations(first, second, heads: int):
    """Scaled dot products between the vectors of all pairs of tokens.

    Each token's vector is divided into `heads` parts, which need not be the model's attention heads. With the
    model's heads, relations of queries and keys are its attention scores before any bias.

    Source: Wang et al. 2021 (arXiv:2012.15828), section 3.1.

    Args:
        first, second: vectors of all heads, concatenated, [batch, length, width].
        heads: a divisor of the width.

    Returns:
        float32 [batch, heads, length, length].
    """
    length, width = ops.shape(first)[1], first.shape[-1]

    def divided(x):
        x = ops.reshape(ops.cast(x, "float32"), (-1, length, heads, width // heads))
        return ops.transpose(x, (0, 2, 1, 3))

    first = divided(first) * (1 / math.sqrt(width // heads))
    return ops.matmul(first, ops.transpose(divided(second), (0, 1, 3, 2)))


def relation_loss(student, teacher, mask):
    """KL divergence between the softmax of relations over the real tokens, averaged over heads.

    With attention scores this is MiniLM's attention loss, and with `relations` of the values its
    value-relation loss. MiniLM version 2 sums it over relations of queries, of keys and of values.

    Source: Wang et al. 2020 (arXiv:2002.10957), equations 4 to 7; Wang et al. 2021 (arXiv:2012.15828),
    equations 5 and 6.

    Args:
        student, teacher: scores [batch, heads, length, length], before the softmax.
        mask: [batch, length], 1 for real tokens.

    Returns:
        float32 [batch, length].
    """
    hidden = attention_bias(mask, "float32")
    student, teacher = (scores + hidden for scores in _float(student, teacher))
    return ops.mean(_divergence(student, teacher), axis=1)
