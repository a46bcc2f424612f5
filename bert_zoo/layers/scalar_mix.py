"""A trained mixture of an encoder's layers."""

import keras
from keras import ops

from bert_zoo.layers.dropout import Dropout


class ScalarMix(keras.layers.Layer):
    """gamma * sum_j softmax(w)_j h_j over hidden states h (Peters et al. 2018, arXiv:1802.05365, equation 1).

    At first w is 0, so that all layers count alike, and gamma 1. Of the original's options, layer
    normalisation is left out: its mean is over the whole batch, so that what a text gives would depend
    on the texts beside it.

    Args:
        num_layers: how many hidden states are mixed.
        dropout: rate on the mixture.
        l2: what the sum of w squared is multiplied by and added to the loss, which pulls the weights
            towards the mean of the layers (section 3.2 there).
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
        """Hidden states, each [..., hidden], to one [..., hidden].

        Raises:
            ValueError: they are not `num_layers`.
        """
        if len(hidden_states) != self.num_layers:
            raise ValueError(
                f"This mixes {self.num_layers} layers and was given {len(hidden_states)}: the embeddings' "
                "output is one of an encoder's hidden states."
            )
        shares = ops.softmax(self.scalars) * self.gamma
        mixed = sum(share * h for share, h in zip(ops.unstack(shares), hidden_states, strict=True))
        return self.dropout(mixed, training=training)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[0])

    def get_config(self):
        own = {"num_layers": self.num_layers, "dropout": self.dropout.rate, "l2": self.l2}
        return {**super().get_config(), **own}
