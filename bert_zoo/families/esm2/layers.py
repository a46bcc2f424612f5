"""ESM-2's own steps: dropped masks in its embeddings, and contacts from its attention."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from bert_zoo.layers.encoder_stack import EncoderStack

# The share of tokens that the mask replaced in training: 80 % of the 15 % to predict.
MASKED_IN_TRAINING = 0.15 * 0.8
EOS = 2  # the id of the token after a protein, in the only vocabulary


class ContactHead(keras.layers.Layer):
    """How likely each two residues touch: a logistic regression on the attention of all heads. It was fitted after
    pretraining, and no training here changes it. Source: Rao et al. 2021 (Transformer protein language models are
    unsupervised structure learners), section 3; facebookresearch/esm esm/modules.py, ContactPredictionHead.

    Args:
        channels: number of heads of all layers.
    """

    def __init__(self, channels: int, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels

    def build(self, input_shape=None):
        options = {"initializer": "zeros", "trainable": False}
        self.kernel = self.add_weight(name="kernel", shape=(self.channels, 1), **options)
        self.bias = self.add_weight(name="bias", shape=(1,), **options)
        self.built = True

    def call(self, attentions: Sequence, token_ids, padding_mask):
        """Probabilities float32 [batch, length - 2, length - 2], between the first and last tokens.

        Args:
            attentions: [batch, heads, length, length] for each layer.
            token_ids, padding_mask: int [batch, length].
        """
        x = ops.cast(ops.concatenate(attentions, axis=1), "float32")
        seen = ops.cast(padding_mask, "float32")[:, None]
        x = x * seen[:, :, :, None] * seen[:, :, None]
        inside = ops.cast(ops.not_equal(token_ids, EOS), "float32")[:, None]
        x = (x * inside[:, :, :, None] * inside[:, :, None])[:, :, 1:-1, 1:-1]
        x = x + ops.swapaxes(x, 2, 3)
        # What two residues have in common because of how much each is attended to at all.
        rows, columns = ops.sum(x, axis=3, keepdims=True), ops.sum(x, axis=2, keepdims=True)
        whole = ops.sum(rows, axis=2, keepdims=True)
        x = x - rows * columns / ops.maximum(whole, 1e-30)
        logits = ops.sum(x * ops.reshape(self.kernel, (1, -1, 1, 1)), axis=1) + self.bias
        return ops.sigmoid(logits)


class Esm2Backbone(EncoderStack):
    """The stack with masked tokens dropped from the embeddings, and a head for contacts."""

    def __init__(self, config: Any, dtype: Any):
        super().__init__(config, dtype)
        channels = config.num_layers * config.num_heads
        self.contact_head = ContactHead(channels, dtype="float32", name="contact_head")

    def groups(self):
        return dataclasses.replace(super().groups(), fitted=(self.contact_head,))

    def make_embeddings(self, config: Any, options: dict) -> keras.layers.Layer:
        return super().make_embeddings(config.replace(hidden_dropout=0.0), options)

    def embedded(self, inputs: Mapping[str, Any], training):
        """As in `EncoderStack`, with embeddings without masks and padding. The others are scaled to what remained on average in training, even
        where nothing is masked, as for any dropout that is not scaled in training. Source: facebookresearch/esm
        esm/model/esm2.py, "token_dropout".
        """
        (x, views), token_ids = super().embedded(inputs, training), inputs["token_ids"]
        mask, documents = inputs.get("padding_mask"), inputs.get("document_ids")
        real = ops.cast(ops.ones_like(token_ids) if mask is None else mask, "float32")
        if not self.config.drops_masks:
            return x * ops.expand_dims(ops.cast(real, x.dtype), -1), views
        number = functools.partial(ops.sum, axis=1, keepdims=True)
        if documents is not None:
            same = ops.cast(ops.equal(documents[:, :, None], documents[:, None]), "float32")
            number = lambda flags: ops.einsum("bij,bj->bi", same, flags)  # noqa: E731
        shown = real * ops.cast(ops.not_equal(token_ids, self.config.mask_id), "float32")
        # Where all tokens are masked, nothing is left to scale.
        scale = (1 - MASKED_IN_TRAINING) * number(real) / ops.maximum(number(shown), 1)
        return x * ops.expand_dims(ops.cast(scale * shown, x.dtype), -1), views
