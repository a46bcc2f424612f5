"""A learned bias by distance, added to the scores of attention."""

import keras
from keras import ops

from bert_zoo.layers.common import initializer
from bert_zoo.layers.stack import Stack


def far_buckets(num_buckets: int, max_distance: int) -> list[int]:
    """The shortest distance of each bucket but the first that holds several distances.

    Half of the buckets hold one distance each, 0, 1, 2, ...; the others grow by a factor up to
    `max_distance`, and the last holds all that are longer. In integers: logarithms in floating point
    may fall on either side of a bound.

    Args:
        num_buckets: of one direction.
    """
    single = num_buckets // 2
    wide = num_buckets - single
    bounds, distance = [], single
    for number in range(1, wide):
        # distance >= single * (max_distance / single) ** (number / wide)
        while distance**wide < single ** (wide - number) * max_distance**number:
            distance += 1
        bounds.append(distance)
    return bounds


class RelativeBias(keras.layers.Layer):
    """One number a head for each bucket of distances between query and key.

    Source: Raffel et al. 2020 (arXiv:1910.10683), section 2.1; Song et al. 2020 (MPNet,
    arXiv:2004.09297).

    Args:
        num_heads: heads.
        num_buckets: rows of the table; in both directions, the second half is for keys after the query.
        max_distance: distances from this on share a bucket.
        causal: whether queries see no keys after them, so that all buckets are for those before.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        initializer_range: float,
        num_buckets: int = 32,
        max_distance: int = 128,
        causal: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.causal = causal
        self.buckets_a_side = num_buckets if causal else num_buckets // 2
        self.far_buckets = far_buckets(self.buckets_a_side, max_distance)
        self.initializer_range = initializer_range

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            shape=(self.num_buckets, self.num_heads),
            initializer=initializer(self.initializer_range),
            name="embeddings",
        )
        self.built = True

    def call(self, x):
        """[batch, length, ...], whose numbers are not read, to [1, heads, length, length]."""
        length = ops.shape(x)[1]
        by_offset = self.at(ops.arange(1 - length, length))
        keys = ops.arange(length)
        return ops.take(by_offset, keys[None, :] - keys[:, None] + length - 1, axis=1)[None]

    def at(self, offsets):
        """The bias [heads, ...] at offsets from query to key, int [...]."""
        distances = ops.maximum(-offsets, 0) if self.causal else ops.abs(offsets)
        buckets = ops.minimum(distances, self.buckets_a_side // 2)
        for bound in self.far_buckets:
            buckets = buckets + ops.cast(distances >= bound, buckets.dtype)
        if not self.causal:
            buckets = buckets + ops.cast(offsets > 0, buckets.dtype) * self.buckets_a_side
        table = ops.cast(self.embeddings, self.compute_dtype)
        return ops.moveaxis(ops.take(table, buckets, axis=0), -1, 0)


class BiasedStack(Stack):
    """A `Stack` whose blocks add one bias by distance to their scores.

    Args:
        blocks, hidden_size: as of `Stack`.
        relative_bias: a `RelativeBias`.
    """

    def __init__(self, blocks, hidden_size: int, relative_bias: RelativeBias, **options):
        super().__init__(blocks, hidden_size, **options)
        self.relative_bias = relative_bias

    def build(self, input_shape):
        super().build(input_shape)
        self.relative_bias.build(None)

    def call(self, x, bias, positions=None, training=None):
        bias = bias + self.relative_bias(x)
        return super().call(x, bias, positions=positions, training=training)
