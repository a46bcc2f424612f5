"""What an encoder computes below its outputs, as losses of distillation read it."""

from typing import Any

from keras import ops

from bert_zoo.distillation.general_losses import relations
from bert_zoo.layers import PostNormBlock, SelfAttention, Stack, TransformerBackbone
from bert_zoo.models import Encoder


def check_can_be_read(encoder: Encoder, role: str) -> None:
    """Raises ValueError for an encoder whose blocks attend in another way than BERT's.

    Args:
        role: what it is, for the message.
    """
    backbone = encoder.backbone
    stack = getattr(backbone, "stack", None)
    # Not of subclasses, which add to the scores or read something else.
    if (
        not isinstance(backbone, TransformerBackbone)
        or type(stack) is not Stack
        or any(type(block) is not PostNormBlock for block in stack.blocks)
        or any(type(block.attention) is not SelfAttention for block in stack.blocks)
        or any(len(numbers) > 1 for numbers in stack.blocks_of_layers)
    ):
        raise ValueError(
            f"The {role} is of the family {encoder.family}, whose attention is not BERT's: its queries, keys "
            "and values cannot be read. Choose objective='triple', or a model such as BERT, RoBERTa, "
            "ELECTRA, DistilBERT or ALBERT."
        )


class Insides:
    """The hidden states of an encoder's lowest layers, and what its attention makes of them.

    Nothing above these layers is computed. Layers are numbered from 1, and 0 stands for the embeddings.

    Args:
        encoder: one that `check_can_be_read` accepts.
        inputs: that it is called with; further ones are left out.
        layers: how many layers to run.
        training: as of `call`.

    Attributes:
        states: [batch, length, hidden] each, one more than layers.
        bias: what is added to scores, [batch, 1, 1 or length, length].
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
        """Queries, keys and values of a layer, [batch, length, hidden] each, heads one after another."""
        return ops.split(self.block(layer).attention.qkv(self.states[layer - 1]), 3, -1)

    def scores(self, layer: int):
        """Its scores of attention before the softmax, float32 [batch, heads, length, length]."""
        query, key, _ = self.projections(layer)
        heads = self.block(layer).attention.num_heads
        return relations(query, key, heads) + ops.cast(self.bias, "float32")


def read_by(encoder: Encoder, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs that an encoder takes, of those that a model beside it takes too."""
    return {name: inputs[name] for name in encoder.backbone.inputs if name in inputs}
