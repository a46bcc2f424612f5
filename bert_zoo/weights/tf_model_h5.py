"""`tf_model.h5`, the weights of transformers' TensorFlow classes, which its version 5 no longer has.

A variable is stored at `<layer>/<model>/<its layers>/kernel:0`. Behind the model's name it is called as
in transformers' PyTorch classes, but for numbers of layers (`layer_._0`), layers that were named
apart (`mlm___cls`), and the last part; a variable of several layers is stored with each.

Source: transformers 4.46, modeling_tf_pytorch_utils.py, and the files that it writes.
"""

import re
from pathlib import Path

import numpy as np

from bert_zoo.error_text import shortened
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.hdf5 import HDF5Source
from bert_zoo.weights.tensor_source import TensorSource

# Keras's name of a variable -> PyTorch's.
_VARIABLES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}
# Of ALBERT's head, whose class adds the second one and leaves the first unused.
_UNUSED = {"predictions.bias": "predictions.decoder.bias"}
# Projections of Transformer-XL, which are [in, out] here and [out, in] there, as kernels are.
_PROJECTIONS = re.compile(r"(emb|out)_projs\.\d+$")


class TFModelSource(TensorSource):
    """The tensors of a `tf_model.h5` under the names of transformers' PyTorch classes, in their layout.

    Raises:
        WeightsError: the file is damaged, or not one of transformers.
    """

    def __init__(self, path: Path):
        self._file = HDF5Source(path)
        self._paths: dict[str, list[str]] = {}
        for stored in self._file:
            self._paths.setdefault(self._name(stored), []).append(stored)
        for unused, used in _UNUSED.items():
            if used in self._paths:
                self._paths[unused] = self._paths.pop(used)
        shapes = {
            name: _pytorch_shape(paths[0], self._file.shape(paths[0]))
            for name, paths in self._paths.items()
        }
        super().__init__(str(path), shapes)

    def _name(self, stored: str) -> str:
        if stored.count("/") < 2:
            raise WeightsError(
                f"{self._file.location} is not a file of transformers' TensorFlow classes: it holds "
                f"{shortened(stored)}, not <layer>/<model>/<variable>. Save the model with its "
                "save_pretrained()."
            )
        return pytorch_name(stored.split("/", 2)[2])

    def _read(self, key: str) -> np.ndarray:
        first, *others = (self._file[path] for path in self._paths[key])
        if not all(np.array_equal(first, other) for other in others):
            raise WeightsError(
                f"{self.location} has several values of {key}, which its layers share: at "
                f"{', '.join(self._paths[key])}. The file is damaged; write it again."
            )
        turned = first.T if is_transposed(self._paths[key][0]) else first
        return turned.reshape(self.shape(key))


def pytorch_name(stored: str) -> str:
    """transformers' PyTorch name of a variable, from its TensorFlow name without the model's."""
    name = re.sub(r"(^|/)[^/]*___", r"\1", stored.removesuffix(":0"))
    *layers, variable = re.sub(r"_\._", "/", name).split("/")
    return ".".join([*layers, _VARIABLES.get(variable, variable)])


def is_transposed(stored: str) -> bool:
    """Whether the axes of a variable stand in the opposite order of PyTorch's."""
    name = stored.removesuffix(":0")
    return name.endswith("/kernel") or bool(_PROJECTIONS.search(pytorch_name(stored)))


def _pytorch_shape(stored: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 2 and shape[0] == 1 and stored.removesuffix(":0").endswith("/bias"):
        return shape[1:]  # of GPT's Conv1D
    return shape[::-1] if is_transposed(stored) else shape
