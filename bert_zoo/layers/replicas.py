"""Numbers that layers and losses share between the replicas of a strategy."""

import keras


def over_replicas(count, how: str):
    """The "SUM" or "MEAN" of a number over all replicas; without replicas, the number itself."""
    if keras.backend.backend() != "tensorflow":
        return count
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp[how], tf.stop_gradient(count))


def num_replicas() -> int:
    """The number of replicas of the strategy in scope, or of Keras's distribution on JAX."""
    if keras.backend.backend() != "tensorflow":
        distribution = keras.distribution.distribution()
        return distribution.num_model_replicas if distribution else 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def sharing_replicas() -> int:
    """The number of replicas that a step's rows are divided between before `call` (TensorFlow).

    On JAX `call` sees whole batches.
    """
    return num_replicas() if keras.backend.backend() == "tensorflow" else 1
