"""MobileBERT's blocks, which work at a fraction of the hidden width and without normalisation.

Source: Sun et al. 2020 (arXiv:2004.02984), section 3; google-research/mobilebert modeling.py.
"""

from collections.abc import Sequence

import keras
from keras import ops

from bert_zoo.layers.attention import SelfAttention
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.block import residual
from bert_zoo.layers.common import Dropout, dense, float_table, neighbours, table
from bert_zoo.layers.embeddings import Embeddings
from bert_zoo.layers.heads import MaskedLMHead


class NoNorm(keras.layers.Layer):
    """A scale and a bias for each feature, in place of a layer norm."""

    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(shape=shape, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=shape, initializer="zeros", name="beta")
        self.built = True

    def call(self, x):
        return x * ops.cast(self.gamma, x.dtype) + ops.cast(self.beta, x.dtype)


class TrigramEmbeddings(Embeddings):
    """Embeddings of each token with its two neighbours: narrow vectors, widened together.

    A missing neighbour counts as zeros: at the ends of a row or of a document in it, and next to padding,
    which is -1 in `token_ids`. So a text's vectors do not depend on its batch. (In transformers, the last
    token reads the vector of padding.) Positions and segments are added as in `Embeddings`.

    Args:
        vocab_size, hidden_size: rows of the token table, and width of the output.
        token_size: width of the token table.
        initializer_range: standard deviation of randomly initialised weights.
        **options: other arguments of `Embeddings`.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        token_size: int,
        initializer_range: float,
        **options,
    ):
        super().__init__(
            vocab_size,
            hidden_size,
            token_size=token_size,
            embedding_size=hidden_size,
            epsilon=None,
            initializer_range=initializer_range,
            **options,
        )
        self.norm = NoNorm(dtype=self.dtype_policy, name="norm")
        self.trigram = dense(
            hidden_size, "trigram", stddev=initializer_range, dtype=self.dtype_policy
        )

    def build(self, token_ids_shape):
        super().build(token_ids_shape)
        self.trigram.build((None, None, 3 * self.token_embedding.output_dim))

    def embedded_tokens(self, token_ids, document_ids):
        x = self.token_embedding(ops.maximum(token_ids, 0))
        x = x * ops.expand_dims(ops.cast(token_ids >= 0, x.dtype), -1)
        trigrams = [neighbours(x, 1, document_ids), x, neighbours(x, -1, document_ids)]
        return self.trigram(ops.concatenate(trigrams, axis=-1))


class TrigramBackbone(TransformerBackbone):
    """A `TransformerBackbone` with `TrigramEmbeddings`; it hides padding from tokens next to it (MobileBERT).

    Arguments as in `TransformerBackbone`.
    """

    def embedded(self, inputs, training):
        mask, token_ids = inputs.get("padding_mask"), inputs["token_ids"]
        if mask is not None:
            inputs = {**inputs, "token_ids": ops.where(mask > 0, token_ids, -1)}
        return super().embedded(inputs, training)

    def token_head(self, **options):
        return super().token_head(
            head=WideMaskedLMHead, hidden_size=self.config.hidden_size, **options
        )


class WideMaskedLMHead(MaskedLMHead):
    """`MaskedLMHead` at the encoder's `hidden_size`; it adds columns to the narrower token table of `width`."""

    def __init__(self, vocab_size: int, width: int, *, hidden_size: int, **options):
        super().__init__(vocab_size, hidden_size, table_width=width, **options)
        self.extra_decoder = table(
            vocab_size,
            hidden_size - width,
            "extra_decoder",
            stddev=options["initializer_range"],
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        super().build(input_shape)
        self.extra_decoder.build()

    def projection(self, token_table):
        own = float_table(self.extra_decoder)
        return ops.concatenate([super().projection(token_table), own], axis=1)


class BottleneckAttention(SelfAttention):
    """`SelfAttention` whose values come from another, wider input than queries and keys (MobileBERT).

    Arguments as in `SelfAttention`. Source: Sun et al. 2020 (arXiv:2004.02984), section 3.
    """

    def make_projections(self, **options):
        self.query_key = dense(2 * self.hidden_size, "query_key", **options)
        self.value = dense(self.hidden_size, "value", **options)

    def build(self, input_shape, value_shape):
        self.query_key.build(input_shape)
        self.value.build(value_shape)
        self.output_dense.build(input_shape)
        self.built = True

    def call(self, x, values, bias, positions=None, training=None):
        """Attends within each row of the batch.

        Args:
            x: [batch * length, hidden_size], the input of queries and keys.
            values: [batch * length, width], the input of values.
            bias, positions: as in `SelfAttention.call`, as are the results.
        """
        heads = (-1, ops.shape(bias)[-1], self.num_heads, self.head_size)
        query, key = (ops.reshape(part, heads) for part in ops.split(self.query_key(x), 2, -1))
        value = ops.reshape(self.value(values), heads)
        return self.attend_at(query, key, value, bias, positions, training)


class BottleneckBlock(keras.layers.Layer):
    """MobileBERT's block: attention and several feed-forward layers in a bottleneck.

    Queries and keys read a narrowed input, values the wide one. Attention and feed-forward layers add their
    outputs to a second narrowed input, which is then widened. `NoNorm` replaces the layer norms.
    Source: Sun et al. 2020 (arXiv:2004.02984), section 3.

    Args:
        attention: a `BottleneckAttention`.
        feed_forwards: layers x -> output, run one after the other.
        hidden_size: width of input and output.
        bottleneck_size: width inside the block.
        dropout: rate on the output that the block adds to its input.
        initializer_range: standard deviation of randomly initialised weights.
    """

    def __init__(
        self,
        attention: BottleneckAttention,
        feed_forwards: Sequence[keras.layers.Layer],
        *,
        hidden_size: int,
        bottleneck_size: int,
        dropout: float,
        initializer_range: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.bottleneck_size = bottleneck_size

        def projection(width: int, name: str):
            return dense(width, name, stddev=initializer_range, dtype=self.dtype_policy)

        def no_norm(name: str) -> NoNorm:
            return NoNorm(dtype=self.dtype_policy, name=name)

        self.narrow = projection(bottleneck_size, "narrow")
        self.narrow_norm = no_norm("narrow_norm")
        self.shared = projection(bottleneck_size, "shared")
        self.shared_norm = no_norm("shared_norm")
        self.attention = attention
        self.attention_norm = no_norm("attention_norm")
        self.feed_forwards = list(feed_forwards)
        self.feed_forward_norms = [
            no_norm(f"feed_forward_{i}_norm") for i in range(len(self.feed_forwards))
        ]
        self.widen = projection(hidden_size, "widen")
        self.output_norm = no_norm("output_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        wide, narrow = (None, self.hidden_size), (None, self.bottleneck_size)
        self.attention.build(narrow, wide)
        for layer in (self.narrow, self.shared, self.output_norm):
            layer.build(wide)
        norms = (self.narrow_norm, self.shared_norm, self.attention_norm, *self.feed_forward_norms)
        for layer in (*norms, *self.feed_forwards, self.widen):
            layer.build(narrow)
        self.built = True

    def call(self, x, bias, positions=None, training=None):
        """As `PostNormBlock.call`."""
        narrow = self.narrow_norm(self.narrow(x))
        shared = self.shared_norm(self.shared(x))
        attended, probabilities = self.attention(
            shared, x, bias, positions=positions, training=training
        )
        x, narrow = (residual(each, attended, positions) for each in (x, narrow))
        narrow = self.attention_norm(narrow + attended)
        for feed_forward, norm in zip(self.feed_forwards, self.feed_forward_norms, strict=True):
            narrow = norm(narrow + feed_forward(narrow, training=training))
        widened = self.dropout(self.widen(narrow), training=training)
        return self.output_norm(x + widened), probabilities
