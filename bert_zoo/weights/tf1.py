"""TensorFlow 1 checkpoints, as Google released BERT, ALBERT, ELECTRA, XLNet and Transformer-XL."""

import re
from pathlib import Path

import numpy as np

from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.tensor_source import TensorSource

_DATA_FILE = re.compile(r"\.data-(\d{5})-of-(\d{5})")
# The entry by which TensorFlow 2 marks checkpoints whose names are paths of Python attributes.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class TF1Source(TensorSource):
    """A name-based checkpoint `prefix.index` with `prefix.data-?????-of-?????`.

    Every variable is listed under the file's own name, optimizer slots and counters among them.
    """

    def __init__(self, prefix: str):
        try:
            import tensorflow as tf
        except ImportError as error:
            raise ImportError(
                f"Reading the TensorFlow checkpoint {prefix} needs TensorFlow: install it with "
                "`pip install tensorflow`, or use the checkpoint's safetensors version."
            ) from error
        _check_data_files(Path(prefix))
        # TensorFlow 2.21 lets IndexError and RuntimeError of its C++ reader through.
        self._errors = (tf.errors.OpError, ValueError, IndexError, RuntimeError)
        try:
            self._reader = tf.train.load_checkpoint(prefix)
        except self._errors as error:
            raise _damaged(prefix, error) from error
        shapes = self._reader.get_variable_to_shape_map()
        if _OBJECT_GRAPH in shapes:
            raise WeightsError(
                f"{prefix} is an object-based TensorFlow 2 checkpoint (it has {_OBJECT_GRAPH}), "
                "whose names depend on the program that wrote it. bert_zoo reads TensorFlow 1 "
                "checkpoints, Hugging Face directories and bert_zoo directories; convert it to one "
                "of these."
            )
        super().__init__(
            format="tf1",
            location=prefix,
            shapes={key: tuple(shapes[key]) for key in sorted(shapes)},
        )

    def _read(self, key: str) -> np.ndarray:
        try:
            return np.asarray(self._reader.get_tensor(key))
        except self._errors as error:
            raise _damaged(self.location, error) from error


def _check_data_files(prefix: Path) -> None:
    """TensorFlow would notice a missing data file only when the first of its tensors is read."""
    parts = {
        match.groups()
        for file in prefix.parent.iterdir()
        if (match := _DATA_FILE.fullmatch(file.name.removeprefix(prefix.name)))
    }
    totals = {total for _, total in parts}
    if not parts or any(len(parts) != int(total) for total in totals):
        found = ", ".join(f"{part}-of-{total}" for part, total in sorted(parts)) or "none"
        raise WeightsError(
            f"The checkpoint {prefix} is incomplete: of {prefix.name}.data-?????-of-????? there "
            f"are: {found}. Copy all of them beside {prefix.name}.index."
        )


def _damaged(prefix: str, error: Exception) -> WeightsError:
    return WeightsError(
        f"TensorFlow cannot read the checkpoint {prefix}: {error}. It is damaged or incomplete: "
        "copy or download it again, with its .index and all its .data files."
    )
