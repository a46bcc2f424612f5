"""An encoder's intermediate values that distillation losses read."""

from typing import Any

from keras import ops

from bert_zoo.distillation.general_losses import relations
from bert_zoo.layers import PostNormBlock, SelfAttention, Stack, TransformerBackbone
from bert_zoo.models import Encoder


def check_can_be_read(encoder: Encoder, role: str) -> None:
    """Raises ValueError for an encoder whose attention differs from BERT's.

    Args:
        role: "student" or "teacher", for the message.
    """
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

    Nothing above these layers is computed. Layers are numbered from 1; 0 means the embeddings.

    Args:
        encoder: an encoder that `check_can_be_read` accepts.
        inputs: the encoder's inputs; others are ignored.
        layers: number of layers to run.
        training: as for `call`.

    Attributes:
        states: one more than layers, each [batch, length, hidden].
        bias: added to attention scores, [batch, 1, 1 or length, length].
    """

    def __init__(self, encoder: Encoder, inputs: dict[str, Any], layers: int, training):
        backbone = encoder.backbone
        inputs = read_by(encoder, inputs)
        self.stack = stack = backbone.stack
        embedded, self.bias = backbone.embedded(inputs, training)
        self.states = [embedded]
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
