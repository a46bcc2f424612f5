"""What makes batches of rows: TensorFlow's functions within a dataset's graph, NumPy's where there is none."""

from functools import partial

import numpy as np

from bert_zoo.graph import has_tensorflow, tf

if has_tensorflow:
    concat, gather, reshape, shape, split = tf.concat, tf.gather, tf.reshape, tf.shape, tf.split
    repeat, stack, tile = tf.repeat, tf.stack, tf.tile
else:
    concat, gather, reshape = np.concatenate, partial(np.take, axis=0), np.reshape
    shape, split = np.shape, np.split
    repeat, stack, tile = np.repeat, np.stack, np.tile
