"""Layers that the families are built from.

`initializer_range` is always the standard deviation of randomly initialised weights. Inside a stack,
tensors are [batch * length, features]: with two-dimensional matrix products, TensorFlow's CPU kernels
(oneDNN) can fuse bias and GELU into the product. Elsewhere this costs nothing.
"""

from bert_zoo.layers.attention import SelfAttention
from bert_zoo.layers.backbones import Backbone, TransformerBackbone
from bert_zoo.layers.block import FeedForward, PostNormBlock, PreNormBlock, Stack
from bert_zoo.layers.common import Dropout
from bert_zoo.layers.embeddings import Embeddings, TokenEmbeddings
from bert_zoo.layers.heads import FirstToken, Pooler, ScalarMix
from bert_zoo.lazy_names import loaded_on_first_use

__all__ = [
    "Backbone",
    "Dropout",
    "Embeddings",
    "FeedForward",
    "FirstToken",
    "Pooler",
    "PostNormBlock",
    "PreNormBlock",
    "Preprocessor",
    "SavedModelLayer",
    "ScalarMix",
    "SelfAttention",
    "Stack",
    "TokenEmbeddings",
    "TransformerBackbone",
]


# These need TensorFlow and checkpoints, which the layers do not.
_LAZY = {
    "Preprocessor": "bert_zoo.loading.text_layer",
    "SavedModelLayer": "bert_zoo.serving.saved_model_layer",
}

__getattr__, _ = loaded_on_first_use(__name__, _LAZY)
