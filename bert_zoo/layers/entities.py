"""Scores of spans of words for types that are named before a text (GLiNER)."""

import keras
from keras import ops

from bert_zoo.config import EntityHead
from bert_zoo.layers.common import Dropout, at_positions, build_all, float_kernel

# What two dense layers make from: words as starts and ends of spans, both together, and types.
READ = ("start", "end", "span", "type")


class EntityScores(keras.layers.Layer):
    """A score of each span and type, float32 [batch, words, max_width, types]: the second axis has the spans' first
    words, the third one word less than their lengths.

    A word is represented by the states of its first token, a type by those of its marker. LSTMs read the words. Dense
    layers make a start and an end of each word, and a vector of each pair of them; its product with the vector of a
    type is the score. Spans that reach beyond the last word, and types that do not exist, have scores without meaning.

    Source: Zaratiana et al. 2023 (arXiv:2311.08526), sections 2.1 to 2.3; gliner 0.2.29, modeling/base.py,
    UniEncoderSpanModel, and modeling/span_rep.py, SpanMarkerV0.
    """

    def __init__(self, head: EntityHead, width: int, **kwargs):
        super().__init__(**kwargs)
        self.max_width, self.width, own = head.max_width, width, {"dtype": self.dtype_policy}
        size = self.size = head.size or width
        if head.lstm_layers and size % 2:
            raise ValueError(
                f"The encoder has the width {size}, and an LSTM half of it in each direction. Choose an even size, or "
                "lstm_layers=0."
            )
        self.projection = None
        if size != width:
            self.projection = keras.layers.Dense(size, name="projection", **own)
        self.lstms = [
            [
                keras.layers.LSTM(
                    size // 2,
                    return_sequences=True,
                    go_backwards=direction == "backward",
                    name=f"{direction}_{number}",
                    **own,
                )
                for direction in ("forward", "backward")
            ]
            for number in range(head.lstm_layers)
        ]
        self.dropout = Dropout(head.dropout, name="dropout", **own)
        self.hidden = {
            name: keras.layers.Dense(4 * size, name=f"{name}_hidden", **own) for name in READ
        }
        self.outputs = {
            name: keras.layers.Dense(size, name=f"{name}_output", **own) for name in READ
        }

    def build(self, input_shape=None):
        size = self.size
        build_all((None, None, self.width), self.projection)
        for both in self.lstms:
            build_all((None, None, size), *both)
        for name in READ:
            self.hidden[name].build((None, None, 2 * size if name == "span" else size))
            self.outputs[name].build((None, None, 4 * size))
        self.built = True

    def call(self, states, word_positions, is_word, type_positions, training=None):
        """Scores from an encoder's states [batch, length, width], the positions of words' first tokens and of types'
        markers, int [batch, words] and [batch, types], and `is_word`, bool [batch, words], false for padding."""
        if self.projection is not None:
            states = self.projection(states)
        words, types = at_positions(states, word_positions), at_positions(states, type_positions)
        for forward, backward in self.lstms:
            # The backward outputs end with the first word.
            parts = [forward(words, mask=is_word), ops.flip(backward(words, mask=is_word), axis=1)]
            words = ops.concatenate(parts, axis=-1)
        starts, ends = (ops.relu(self._read(name, words, training)) for name in ("start", "end"))
        return self._scores(starts, ends, self._read("type", types, training), training)

    def _read(self, name: str, x, training):
        hidden = self.dropout(ops.relu(self.hidden[name](x)), training=training)
        return self.outputs[name](hidden)

    def _scores(self, starts, ends, types, training):
        """As if both dense layers read each span, start and end joined, but with fewer products: the first one's parts
        for starts and for ends are added, and the second one, which is linear, is applied to the types."""
        dtype, hidden, output = self.compute_dtype, self.hidden["span"], self.outputs["span"]
        kernel = ops.cast(float_kernel(hidden, 2 * self.size), dtype)
        starts = ops.matmul(starts, kernel[: self.size]) + ops.cast(hidden.bias, dtype)
        ends = ops.matmul(ends, kernel[self.size :])
        # The end of each span: words so many places further, up to the last one.
        number = ops.shape(ends)[1]
        places = ops.expand_dims(ops.arange(number), 1) + ops.arange(self.max_width)
        ends = ops.take(ends, ops.minimum(places, number - 1), axis=1)
        spans = self.dropout(ops.relu(ops.expand_dims(starts, 2) + ends), training=training)
        kernel = ops.cast(float_kernel(output, 4 * self.size), dtype)
        bias = ops.einsum("d,bcd->bc", ops.cast(output.bias, dtype), types)[:, None, None]
        scores = ops.einsum("bwkh,bch->bwkc", spans, ops.matmul(types, ops.transpose(kernel)))
        return ops.cast(scores + bias, "float32")
