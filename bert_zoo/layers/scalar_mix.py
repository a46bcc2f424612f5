"""A trained weighted mean of an encoder's layers."""

import keras
from keras import ops

from bert_zoo.layers.dropout import Dropout


class ScalarMix(keras.layers.Layer):
    """Trained weighted mean of hidden states h: gamma * sum_j softmax(w)_j h_j.

    At first all w are 0, so all layers have the same weight, and gamma is 1. The original's optional layer
    normalisation is left out: it averages over the batch, so a text's result would depend on other texts.
    Source: Peters et al. 2018 (arXiv:1802.05365), equation 1.

    Args:
        num_layers: number of hidden states to mix.
        dropout: rate on the mixture.
        l2: factor of the sum of w squared, which is added to the loss and pulls the weights towards
            equal shares (section 3.2).
    """

    def __init__(self, num_layers: int, *, dropout: float = 0.0, l2: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.l2 = l2
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape=None):
        regularizer = keras.regularizers.L2(self.l2) if self.l2 else None
        self.scalars = self.add_weight(
            name="scalars", shape=(self.num_layers,), initializer="zeros", regularizer=regularizer
        )
        self.gamma = self.add_weight(name="gamma", shape=(1,), initializer="ones")
        self.built = True

    def call(self, hidden_states, training=None):
        """Mixes hidden states, each [..., hidden], to one [..., hidden].

        Raises:
            ValueError: their number is not `num_layers`.
        """
        if len(hidden_states) != self.num_layers:
            raise ValueError(
                f"This layer mixes {self.num_layers} hidden states, but got {len(hidden_states)}. The output of an "
                "encoder's embeddings counts as a hidden state, too."
            )
        shares = ops.softmax(self.scalars) * self.gamma
        mixed = sum(share * h for share, h in zip(ops.unstack(shares), hidden_states, strict=True))
        return self.dropout(mixed, training=training)

    def compute_mask(self, hidden_states, mask=None):
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[0])

    def get_config(self):
        own = {"num_layers": self.num_layers, "dropout": self.dropout.rate, "l2": self.l2}
        return {**super().get_config(), **own}
