"""Dropout that draws different masks on every replica."""

import keras
from keras import ops

# Distance between the replicas' seeds, larger than the number of draws of any training.
STRIDE = 1 << 40


class ReplicaSeeds(keras.random.SeedGenerator):
    """Seeds that differ between TensorFlow's replicas, although their state is the same. Keras 3.15 gives all replicas
    the same seeds (keras#20612), so row r of every replica's part of a batch loses the same units. On JAX one mask
    is drawn for the whole batch.
    """

    def next(self, ordered: bool = True):
        seed = super().next(ordered)
        if keras.backend.backend() != "tensorflow":
            return seed
        import tensorflow as tf

        replica = tf.distribute.get_replica_context()
        if replica is None or replica.num_replicas_in_sync == 1:
            return seed
        return seed + [0, STRIDE] * ops.cast(replica.replica_id_in_sync_group, seed.dtype)


def _dropped(inputs, rate: float, seed):
    """As `keras.random.dropout` on TensorFlow, with 16 random bits per unit: Keras draws 32, and rounds them so
    coarsely in bfloat16 that a rate of 0.1 becomes 0.102.
    """
    import tensorflow as tf

    # As in Keras: seeds are int64, with which XLA cannot draw.
    seed = tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
    number = tf.size(inputs)
    pairs = tf.random.stateless_uniform([(number + 1) // 2], seed, None, None, tf.int32)
    drawn = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:number]
    stays = tf.reshape(drawn, tf.shape(inputs)) >= round(rate * 2**16)
    scaled = inputs * tf.cast(1 / (1 - rate), inputs.dtype)
    return tf.where(stays, scaled, tf.zeros([], inputs.dtype))


class Dropout(keras.layers.Layer):
    """Sets a part of its input to zero in training and scales up the rest (Srivastava et al. 2014).

    Unlike Keras's layer, it draws different masks on each of TensorFlow's replicas.

    Args:
        rate: fraction of the input that becomes zero, in [0, 1).
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.supports_masking = True
        if rate:
            self.seeds = ReplicaSeeds()
        self.built = True

    def is_active(self, training: bool | None) -> bool:
        """Whether a call with this `training` sets anything to zero."""
        return bool(training and self.rate)

    def call(self, inputs, training=None):
        if not self.is_active(training):
            return inputs
        if keras.backend.backend() != "tensorflow":
            return keras.random.dropout(inputs, self.rate, seed=self.seeds)
        return _dropped(inputs, self.rate, self.seeds.next())

    def get_config(self):
        return {**super().get_config(), "rate": self.rate}
