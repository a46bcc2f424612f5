"""Layers that the families are built from.

In all of them, `initializer_range` is the standard deviation of randomly initialised weights.
Inside a stack, tensors are [batch * length, features]: products in two dimensions let oneDNN fuse
bias and GELU into the product on TensorFlow's CPU kernels, and cost nothing elsewhere.
"""

import importlib

from bert_zoo.layers.adaptive_embedding import AdaptiveEmbedding
from bert_zoo.layers.attention import SelfAttention
from bert_zoo.layers.backbones import (
    Backbone,
    CausalBackbone,
    DisentangledBackbone,
    RecurrentBackbone,
    TransformerBackbone,
)
from bert_zoo.layers.block import PostNormBlock, PreNormBlock
from bert_zoo.layers.bottleneck import (
    BottleneckAttention,
    BottleneckBlock,
    TrigramBackbone,
    TrigramEmbeddings,
)
from bert_zoo.layers.causal_stack import CausalAttention, CausalStack
from bert_zoo.layers.disentangled_attention import DisentangledAttention
from bert_zoo.layers.disentangled_stack import Convolution, DisentangledBlock, DisentangledStack
from bert_zoo.layers.dropout import Dropout
from bert_zoo.layers.embeddings import Embeddings, TokenEmbeddings
from bert_zoo.layers.feed_forward import FeedForward
from bert_zoo.layers.pooler import FirstToken, Pooler
from bert_zoo.layers.recurrent_stack import RecurrentBlock, RecurrentStack
from bert_zoo.layers.relative_attention import RelativeAttention
from bert_zoo.layers.relative_bias import RelativeBias
from bert_zoo.layers.stack import Stack
from bert_zoo.layers.two_streams import (
    StreamEmbeddings,
    TwoStreamAttention,
    TwoStreamBackbone,
    TwoStreamStack,
)
from bert_zoo.layers.windowed_attention import RotaryAttention, RotaryBackbone

__all__ = [
    "AdaptiveEmbedding",
    "Backbone",
    "BottleneckAttention",
    "BottleneckBlock",
    "CausalAttention",
    "CausalBackbone",
    "CausalStack",
    "Convolution",
    "DisentangledAttention",
    "DisentangledBackbone",
    "DisentangledBlock",
    "DisentangledStack",
    "Dropout",
    "Embeddings",
    "FeedForward",
    "FirstToken",
    "Pooler",
    "PostNormBlock",
    "PreNormBlock",
    "Preprocessor",
    "RecurrentBackbone",
    "RecurrentBlock",
    "RecurrentStack",
    "RelativeAttention",
    "RelativeBias",
    "RotaryAttention",
    "RotaryBackbone",
    "SavedModelLayer",
    "SelfAttention",
    "Stack",
    "StreamEmbeddings",
    "TokenEmbeddings",
    "TransformerBackbone",
    "TrigramBackbone",
    "TrigramEmbeddings",
    "TwoStreamAttention",
    "TwoStreamBackbone",
    "TwoStreamStack",
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
