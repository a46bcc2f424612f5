"""File formats of checkpoints, one module per format.

A family declares one object of these classes for each format of its checkpoints, with its own settings.
"""

from bert_zoo.weights.formats.bert_zoo import BertZoo
from bert_zoo.weights.formats.format import TF1, Description, Fairseq, Format
from bert_zoo.weights.formats.gliner import GLINER, gliner_files
from bert_zoo.weights.formats.hf import HuggingFace, Torch
from bert_zoo.weights.formats.keras_hub import KerasHub
from bert_zoo.weights.formats.model2vec import Model2Vec
from bert_zoo.weights.formats.model_garden import ModelGarden

__all__ = [
    "GLINER",
    "TF1",
    "BertZoo",
    "Description",
    "Fairseq",
    "Format",
    "HuggingFace",
    "KerasHub",
    "Model2Vec",
    "ModelGarden",
    "Torch",
    "gliner_files",
]
