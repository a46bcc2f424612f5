"""Files of transformers' TensorFlow classes, which version 5 no longer has.

In `tf_model.h5` and HDF5 files of `save_weights`, a variable is stored at
`<layer>/<model>/<its layers>/kernel:0`; TensorFlow checkpoints omit the first part, safetensors and shards the
first two. The rest of the name is as in transformers' PyTorch classes, except for numbers of layers
(`layer_._0`), separately named layers (`mlm___cls`), and the last part. HDF5 files store a shared variable with
each of its layers.

Source: transformers 4.46, modeling_tf_pytorch_utils.py, and the files that it writes.
"""

import re
from collections.abc import Mapping
from typing import Self

import numpy as np

from bert_zoo.error_text import shortened
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.tensor_source import TensorSource

# Keras's name of a variable -> PyTorch's.
_VARIABLES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}
# In ALBERT's head, the class adds the second bias and does not use the first.
_UNUSED = {"predictions.bias": "predictions.decoder.bias"}
# Projections of Transformer-XL, which like kernels are [in, out] here and [out, in] in PyTorch.
_PROJECTIONS = re.compile(r"(emb|out)_projs\.\d+$")


# Separator before a layer's number, which no other program uses.
_NUMBERED = "_._"
# Layers in Keras 2's `*.weights.h5`, which identifies variables only by classes and numbers.
_BY_CLASSES = re.compile(r"(^|/)tf\w*_(main_layer|layer|block)(_\d+)?/")


class TFModelSource(TensorSource):
    """Tensors of a TensorFlow class with the names and layout of transformers' PyTorch classes.

    Args:
        file: the stored tensors.
        names: stored name -> the variable's name without the model's.
    """

    def __init__(self, file: TensorSource, names: Mapping[str, str]):
        self._file, self._names = file, names
        self._paths: dict[str, list[str]] = {}
        for stored, name in names.items():
            self._paths.setdefault(pytorch_name(name), []).append(stored)
        for unused, used in _UNUSED.items():
            if used in self._paths:
                self._paths[unused] = self._paths.pop(used)
        shapes = {
            name: _pytorch_shape(names[paths[0]], file.shape(paths[0]))
            for name, paths in self._paths.items()
        }
        super().__init__(file.location, shapes)

    @classmethod
    def of_layers(cls, file: TensorSource) -> Self:
        """Opens HDF5. Raises WeightsError if it is not a file of transformers."""
        unlike = [stored for stored in file if stored.count("/") < 2]
        if unlike or not is_of_tf_classes(file):
            raise WeightsError(
                f"{file.location} is not a file of transformers' TensorFlow classes: it holds "
                f"{shortened(next(iter([*unlike, *file]), 'no array'))}, not "
                "<layer>/<model>/<variable> with layers such as layer_._0. Save the model with its "
                "save_pretrained(). For a model of bert4keras, load Google's checkpoint that it was "
                "built from, or what its save_weights_as_checkpoint() writes."
            )
        return cls(file, {stored: stored.split("/", 2)[2] for stored in file})

    @classmethod
    def of_checkpoint(cls, file: TensorSource) -> Self:
        """Opens a TensorFlow checkpoint without an optimizer's and other variables."""
        (model, *_) = (stored.partition("/")[0] for stored in file if _NUMBERED in stored)
        names = {stored: stored.removeprefix(f"{model}/") for stored in file}
        return cls(file, {stored: name for stored, name in names.items() if name != stored})

    @classmethod
    def of_variables(cls, file: TensorSource) -> Self:
        """Opens safetensors or shards."""
        return cls(file, {stored: stored for stored in file})

    def _read(self, key: str) -> np.ndarray:
        first, *others = (self._file[path] for path in self._paths[key])
        if not all(np.array_equal(first, other) for other in others):
            raise WeightsError(
                f"{self.location} has different values of {key}, which layers share: at "
                f"{', '.join(self._paths[key])}. The file is damaged: write it again."
            )
        turned = first.T if is_transposed(self._names[self._paths[key][0]]) else first
        return turned.reshape(self.shape(key))


def is_of_tf_classes(names: TensorSource) -> bool:
    """Whether a file has the names of such a class."""
    return any(_NUMBERED in name for name in names)


def refuse_classes_alone(file: TensorSource) -> None:
    """Raises WeightsError for a `*.weights.h5` of such a class, in which variables have no names."""
    if any(_BY_CLASSES.search(stored) for stored in file):
        raise WeightsError(
            f"{file.location} comes from a TensorFlow class of transformers, but this kind of file does not name its "
            "variables. Load it with transformers 4 and save the model with save_pretrained(), or with save_weights() "
            "to a name that ends in .h5 but not in .weights.h5."
        )


def pytorch_name(stored: str) -> str:
    """Returns transformers' PyTorch name of a variable, from its TensorFlow name without the model's name."""
    name = re.sub(r"(^|/)[^/]*___", r"\1", stored.removesuffix(":0"))
    *layers, variable = re.sub(r"_\._", "/", name).split("/")
    return ".".join([*layers, _VARIABLES.get(variable, variable)])


def is_transposed(stored: str) -> bool:
    """Whether a variable's axes are in the reverse order of PyTorch's."""
    name = stored.removesuffix(":0")
    return name.endswith("/kernel") or bool(_PROJECTIONS.search(pytorch_name(stored)))


def _pytorch_shape(stored: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 2 and shape[0] == 1 and stored.removesuffix(":0").endswith("/bias"):
        return shape[1:]  # of GPT's Conv1D
    return shape[::-1] if is_transposed(stored) else shape
