"""What transformers' TensorFlow classes saved, which its version 5 no longer has.

In `tf_model.h5`, and what `save_weights` writes as HDF5, a variable is stored at
`<layer>/<model>/<its layers>/kernel:0`; in a TensorFlow checkpoint without the first part, and in
safetensors and in shards without the first two. After the model's name it is called as in
transformers' PyTorch classes, but for numbers of layers (`layer_._0`), layers that were named
apart (`mlm___cls`), and the last part; in HDF5 a variable of several layers is stored with each.

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
# Of ALBERT's head, whose class adds the second one and leaves the first unused.
_UNUSED = {"predictions.bias": "predictions.decoder.bias"}
# Projections of Transformer-XL, which are [in, out] here and [out, in] there, as kernels are.
_PROJECTIONS = re.compile(r"(emb|out)_projs\.\d+$")


# Between the name of a list of layers and the number of one, in no other program's names.
_NUMBERED = "_._"
# Layers in what Keras 2 writes as `*.weights.h5`, which tells variables by classes and numbers alone.
_BY_CLASSES = re.compile(r"(^|/)tf\w*_(main_layer|layer|block)(_\d+)?/")


class TFModelSource(TensorSource):
    """The tensors of a TensorFlow class under the names of transformers' PyTorch classes, in their layout.

    Args:
        file: the stored tensors.
        names: stored name -> the variable's, without the model's.
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
        """Of HDF5. Raises WeightsError where it is not a file of transformers."""
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
        """Of a TensorFlow checkpoint, without an optimizer's variables and the like."""
        (model, *_) = (stored.partition("/")[0] for stored in file if _NUMBERED in stored)
        names = {stored: stored.removeprefix(f"{model}/") for stored in file}
        return cls(file, {stored: name for stored, name in names.items() if name != stored})

    @classmethod
    def of_variables(cls, file: TensorSource) -> Self:
        """Of safetensors or shards."""
        return cls(file, {stored: stored for stored in file})

    def _read(self, key: str) -> np.ndarray:
        first, *others = (self._file[path] for path in self._paths[key])
        if not all(np.array_equal(first, other) for other in others):
            raise WeightsError(
                f"{self.location} has several values of {key}, which its layers share: at "
                f"{', '.join(self._paths[key])}. The file is damaged; write it again."
            )
        turned = first.T if is_transposed(self._names[self._paths[key][0]]) else first
        return turned.reshape(self.shape(key))


def is_of_tf_classes(names: TensorSource) -> bool:
    """Whether a TensorFlow checkpoint has the names of such a class."""
    return any(_NUMBERED in name for name in names)


def refuse_classes_alone(file: TensorSource) -> None:
    """Raises WeightsError for a `*.weights.h5` in which no variable of such a class has a name."""
    if any(_BY_CLASSES.search(stored) for stored in file):
        raise WeightsError(
            f"{file.location} is of a TensorFlow class of transformers, and this kind of file names "
            "no variable. Load it with transformers 4, and save the model with save_pretrained(), or with "
            "save_weights() to a name that ends in .h5 and not in .weights.h5."
        )


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
