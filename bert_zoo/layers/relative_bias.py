"""A learned bias by distance that is added to attention scores."""

import keras
from keras import ops

from bert_zoo.layers.common import initializer
from bert_zoo.layers.stack import Stack


def far_buckets(num_buckets: int, max_distance: int) -> list[int]:
    """The shortest distance of each bucket after the first bucket that holds several distances.

    Half of the buckets hold one distance each, 0, 1, 2, ... The others grow by a factor up to
    `max_distance`; the last also holds all longer distances. Computed with integers, because floating-point
    logarithms may fall on either side of a bound.

    Args:
        num_buckets: number of buckets of one direction.
        max_distance: distances from this on share a bucket.
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
    """Attention bias by distance: one number per head and bucket of distances.

    Source: Raffel et al. 2020 (arXiv:1910.10683), section 2.1; Song et al. 2020 (MPNet,
    arXiv:2004.09297).

    Args:
        num_heads: number of heads.
        initializer_range: standard deviation of the randomly initialised table.
        num_buckets: rows of the table. Unless causal, the second half is for keys after the query.
        max_distance: distances from this on share a bucket.
        causal: whether queries see no later keys, so that all buckets are for earlier ones.
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
        """The bias [1, heads, length, length] for x [batch, length, ...]; only the shape of x is read."""
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
    """A `Stack` whose blocks all add the same bias by distance to their scores.

    Args:
        blocks, hidden_size: as in `Stack`.
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
