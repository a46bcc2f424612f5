"""Checkpoints of Google's TensorFlow 1 programs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.weights.formats.format import Format
from bert_zoo.weights.table import Row

# ELECTRA's size of an attention head, used if files do not tell the number of heads.
HEAD_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class TF1(Format):
    """A family's TensorFlow 1 checkpoints.

    Rows without their own name have Hugging Face's, with `/` for `.` and `layer_{i}` for `layer.{i}`, as in
    Google's BERT.

    For a program whose checkpoints have no configuration file, `config_file` is "*.index", and the codec gets
    the shapes of the tensors by name.
    """

    name: ClassVar[str] = "tf1"
    layout: ClassVar[str] = "tensorflow"
    # Optimizer slots, counters and loss scales (Google's, NVIDIA's and Horovod's programs).
    never_weights: ClassVar[tuple[str, ...]] = (
        r"/(adam|lamb)_[mv]$",
        r"/(Adam|LAMB|AdamWeightDecayOptimizer|LAMBOptimizer)(_1)?$",
        r"(^|/)(global_step|beta[12]_power(_\d+)?|good_steps|loss_scale|current_loss_scale)$",
    )

    def names(self, row: Row) -> tuple[str, ...]:
        if self.name in row.names:
            return row.names[self.name]
        return tuple(
            name.replace("layer.{i}", "layer_{i}").replace(".", "/")
            for name in row.names.get("hf", ())
        )

    @classmethod
    def settings(cls, path: Path) -> JsonObject:
        return shapes_in(path) if path.suffix == ".index" else read_object(path)


def shapes_in(path: Path) -> JsonObject:
    """Returns name -> shape for a checkpoint's tensors, instead of a configuration file."""
    from bert_zoo.weights.sources import open_weights

    source = open_weights(path)
    return JsonObject({key: source.shape(key) for key in source}, path)


def sizes_in(
    shapes: Mapping[str, tuple[int, ...]], places: Mapping[str, tuple[str, int]], layer: str
) -> dict[str, int]:
    """Returns a model's sizes from the shapes of its tensors.

    Args:
        shapes: name -> shape.
        places: size -> the name and axis that determine it. Absent ones are left out.
        layer: pattern for the beginning of names in a layer, with the layer's number as first group.
    """
    sizes = {
        size: shapes[name][axis]
        for size, (name, axis) in places.items()
        if axis < len(shapes.get(name, ()))
    }
    layers = {match[1] for name in shapes if (match := re.match(layer, name))}
    heads = sizes.get("hidden_size", 0) // HEAD_SIZE
    return sizes | {"num_layers": len(layers), "num_heads": max(1, heads)}
