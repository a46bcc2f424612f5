"""Jina Embeddings v2's blocks."""

import functools

from bert_zoo.layers.block import PostNormBlock, residual
from bert_zoo.layers.common import build_all, norm
from bert_zoo.layers.encoder_stack import EncoderStack


class JinaBlock(PostNormBlock):
    """A `PostNormBlock` with dropout after attention alone. With `added_twice`, attention's input is added to its
    output twice, with a norm after each sum. Source: jinaai/jina-bert-v2-qk-post-norm modeling_bert.py.
    """

    def __init__(self, *layers, added_twice: bool, epsilon: float, **options):
        super().__init__(*layers, epsilon=epsilon, **options)
        epsilon = epsilon if added_twice else None
        self.inner_norm = norm("inner_norm", epsilon=epsilon, dtype=self.dtype_policy)

    def build(self, input_shape):
        super().build(input_shape)
        build_all(input_shape, self.inner_norm)

    def call(self, x, bias, positions=None, training=None):
        """Runs the block; arguments and results as in `PostNormBlock.call`."""
        attended, *others = self.attention(x, bias, positions=positions, training=training)
        x = residual(x, attended, positions)
        attended = self.dropout(attended, training=training)
        if self.inner_norm is not None:
            attended = self.inner_norm(x + attended)
        x = self.attention_norm(x + attended)
        return self.output_norm(x + self.feed_forward(x)), *others


class JinaStack(EncoderStack):
    @staticmethod
    def block_class(config):
        return functools.partial(JinaBlock, added_twice=config.query_norm)
