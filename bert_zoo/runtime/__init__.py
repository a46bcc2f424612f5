"""Runs models that `bert_zoo.export` wrote for LiteRT or ONNX Runtime, with the verbs of the Keras models.

Imports NumPy, Hugging Face's tokenizers and the runtime, but neither TensorFlow nor Keras.
"""

from bert_zoo.runtime.models import RuntimeModel, load

__all__ = ["RuntimeModel", "load"]
