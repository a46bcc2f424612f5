"""How checkpoints are stored: one module a format.

A family's page gives one object of these a format that its checkpoints come in, with what is its own.
"""

from bert_zoo.weights.formats.bert_zoo import BertZoo
from bert_zoo.weights.formats.fairseq import Fairseq
from bert_zoo.weights.formats.format import Description, Format
from bert_zoo.weights.formats.hf import HuggingFace
from bert_zoo.weights.formats.keras_hub import KerasHub
from bert_zoo.weights.formats.model_garden import ModelGarden
from bert_zoo.weights.formats.tf1 import TF1
from bert_zoo.weights.formats.torch import Torch

__all__ = [
    "TF1",
    "BertZoo",
    "Description",
    "Fairseq",
    "Format",
    "HuggingFace",
    "KerasHub",
    "ModelGarden",
    "Torch",
]
