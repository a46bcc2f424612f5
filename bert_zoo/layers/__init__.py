"""Layers that the families are built from.

In all of them, `initializer_range` is the standard deviation of randomly initialised weights.
Inside a stack, tensors are [batch * length, features]: products in two dimensions let oneDNN fuse
bias and GELU into the product on TensorFlow's CPU kernels, and cost nothing elsewhere.
"""

import importlib

from bert_zoo.layers.attention import SelfAttention
from bert_zoo.layers.backbones import Backbone, TransformerBackbone
from bert_zoo.layers.block import PostNormBlock, PreNormBlock
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.embeddings import Embeddings, TokenEmbeddings
from bert_zoo.layers.feed_forward import FeedForward
from bert_zoo.layers.pooler import FirstToken, Pooler
from bert_zoo.layers.scalar_mix import ScalarMix
from bert_zoo.layers.stack import Stack

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


# Need what the layers do not: TensorFlow, and checkpoints.
_LAZY = {
    "Preprocessor": "bert_zoo.loading.text_layer",
    "SavedModelLayer": "bert_zoo.serving.saved_model_layer",
}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'bert_zoo.layers' has no attribute {name!r}.")
