"""The layers of a `HeadSpec` between an encoder's hidden states and the logits."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.config import BILSTM_LAYERS, HeadSpec, Pooling
from bert_zoo.layers.common import dense
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.heads.pooling import CONCATENATED_POOLING, pool
from bert_zoo.layers.scalar_mix import ScalarMix


class Features(keras.layers.Layer):
    """Selects or mixes hidden states, and optionally runs a BiLSTM over them.

    The BiLSTM has two layers, each direction as wide as the encoder. With a BiLSTM, tokens are pooled by
    attention, with weights from the softmax of a dense layer's scores. Otherwise pooling is the mean, or
    last token, maximum and mean side by side.

    Sources: Devlin et al. 2018 (arXiv:1810.04805), section 5.3 (layers, BiLSTM); McCann et al. 2017
    (arXiv:1708.00107), section 5 (pooling by attention); Howard and Ruder 2018 (arXiv:1801.06146),
    section 3.3 (three poolings side by side).

    Args:
        spec: the head's settings.
        hidden_sizes: width of each hidden state.
        pools: whether to pool tokens, for a head over whole texts.

    Attributes:
        width: width of the outputs.

    Raises:
        ValueError: the layers to mix have different widths.
    """

    def __init__(
        self,
        spec: HeadSpec,
        hidden_sizes: Sequence[int],
        *,
        pools: bool,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layers_read = spec.layers_read(len(hidden_sizes))
        sizes = [hidden_sizes[number] for number in self.layers_read]
        if spec.mixes and len({*sizes}) > 1:
            raise ValueError(
                f"features is {spec.features!r}, but the layers have the widths {sizes}. Only layers of the same width "
                "can be mixed. Choose 'concat' or the number of a layer."
            )
        self.input_width = sizes[0] if spec.mixes else sum(sizes)
        self.width, own = self.input_width, {"dtype": self.dtype_policy}
        self.mix = ScalarMix(len(self.layers_read), name="mix", **own) if spec.mixes else None
        self.dropout = Dropout(spec.dropout, name="dropout", **own)
        self.pools, self.lstms, self.attention = pools, [], None
        self.pooling = Pooling("mean", normalize=False)
        if spec.kind == "concatenated" and pools:
            self.pooling = CONCATENATED_POOLING
            self.width *= len(CONCATENATED_POOLING.modes)
        if spec.kind == "bilstm":
            size = spec.size or hidden_sizes[-1]
            self.width = 2 * size
            self.lstms = [
                [
                    keras.layers.LSTM(
                        size,
                        return_sequences=True,
                        go_backwards=direction == "backward",
                        name=f"{direction}_{i}",
                        **own,
                    )
                    for direction in ("forward", "backward")
                ]
                for i in range(BILSTM_LAYERS)
            ]
            if pools:
                self.attention = dense(1, "attention", stddev=initializer_range, dtype="float32")

    def build(self, input_shape=None):
        if self.mix is not None:
            self.mix.build()
        width = self.input_width
        for both in self.lstms:
            for lstm in both:
                lstm.build((None, None, width))
            width = self.width
        if self.attention is not None:
            self.attention.build((None, None, width))
        self.built = True

    def call(self, hidden_states, padding_mask=None, training=None):
        """Features [batch, length, width], or [batch, width] if pooled.

        Args:
            hidden_states: each [batch, length, hidden].
            padding_mask: [batch, length], 1 for real tokens; None if all are real.
        """
        read = [hidden_states[number] for number in self.layers_read]
        x = ops.concatenate(read, axis=-1) if self.mix is None else self.mix(read)
        real = ops.ones_like(x[..., 0]) if padding_mask is None else padding_mask
        real = ops.cast(real, "bool")
        for forward, backward in self.lstms:
            x = self.dropout(x, training=training)
            # The backward outputs end with the first token.
            outputs = [forward(x, mask=real), ops.flip(backward(x, mask=real), axis=1)]
            x = ops.concatenate(outputs, axis=-1)
        if not self.pools:
            return x
        if self.attention is None:
            return pool(x, padding_mask, self.pooling)
        scores = ops.where(ops.expand_dims(real, -1), self.attention(x), -1e9)
        return ops.sum(ops.cast(x, "float32") * ops.softmax(scores, axis=1), axis=1)

    def compute_output_shape(self, input_shape, padding_mask=None):
        length = () if self.pools else (input_shape[0][1],)
        return (input_shape[0][0], *length, self.width)
