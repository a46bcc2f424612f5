"""Runs models that `bert_zoo.export` wrote for LiteRT or ONNX Runtime, with the verbs of the Keras models.

Imports NumPy, Hugging Face's tokenizers and the runtime, but neither TensorFlow nor Keras. Names are loaded on first use,
so that answers need no tokenizer.
"""

from bert_zoo.lazy_names import loaded_on_first_use

__all__ = ["RuntimeModel", "load"]
_NAMES = dict.fromkeys(__all__, "bert_zoo.runtime.models")
__getattr__, __dir__ = loaded_on_first_use(__name__, _NAMES)
