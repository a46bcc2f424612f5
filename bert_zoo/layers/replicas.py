"""Numbers that layers and losses share over the replicas of a strategy."""

import keras


def over_replicas(count, how: str):
    """The "SUM" or "MEAN" of a number that each replica has; without replicas, the number."""
    if keras.backend.backend() != "tensorflow":
        return count
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp[how], tf.stop_gradient(count))
