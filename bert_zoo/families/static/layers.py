"""Tables of token vectors that no layer reads in context."""

import keras
from keras import ops

from bert_zoo.config import Config
from bert_zoo.layers.backbones import Backbone
from bert_zoo.layers.block import Stack
from bert_zoo.layers.common import at_positions, float_table, table


class TokenVectors(keras.layers.Layer):
    """Embeds int [batch, length] as [batch, length, hidden_size]: rows of a table, one for each token or shared by
    several, times a weight for each token if there are weights. Source: MinishLab/model2vec model2vec/model.py.
    """

    def __init__(self, config: Config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.token_embedding = table(
            config.table_rows or config.vocab_size,
            config.hidden_size,
            "token_embedding",
            stddev=config.initializer_range,
            dtype=self.dtype_policy,
        )
        self.row_numbers = self.token_weights = None

    def build(self, token_ids_shape):
        self.token_embedding.build()
        shape = (self.config.vocab_size,)
        if self.config.table_rows:
            self.row_numbers = self.add_weight(
                name="row_numbers", shape=shape, dtype="int32", initializer="zeros", trainable=False
            )
        if self.config.token_weights:
            self.token_weights = self.add_weight(
                name="token_weights", shape=shape, initializer="ones"
            )
        self.built = True

    def call(self, token_ids):
        rows = token_ids
        if self.row_numbers is not None:
            rows = ops.take(self.row_numbers, token_ids, axis=0)
        x = self.token_embedding(rows)
        if self.token_weights is None:
            return x
        return x * ops.cast(ops.take(self.token_weights, token_ids, axis=0), x.dtype)[..., None]

    def compute_output_shape(self, token_ids_shape):
        return (*token_ids_shape, self.config.hidden_size)


class StaticBackbone(Backbone):
    """A table of token vectors alone, with a stack of no blocks. Tokens with the configuration's `unk_id` are left out
    of sentence vectors.
    """

    def __init__(self, config: Config, dtype):
        super().__init__(
            config,
            embeddings=TokenVectors(config, dtype=dtype, name="embeddings"),
            stack=Stack([], config.hidden_size, dtype=dtype, name="stack"),
            dtype=dtype,
        )

    @property
    def token_table(self):
        return float_table(self.embeddings.token_embedding)

    def pooled_tokens(self, inputs, real):
        if self.config.unk_id is None:
            return real
        is_known = ops.not_equal(inputs["token_ids"], self.config.unk_id)
        return is_known if real is None else ops.logical_and(ops.cast(real, "bool"), is_known)

    def call(self, inputs, positions=None, training=None):
        x = self.embeddings(inputs["token_ids"])
        if positions is not None:
            x = at_positions(x, positions)
        return {"sequence_output": x, "hidden_states": [x], "attentions": []}
