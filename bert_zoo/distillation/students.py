"""`student_of`: a smaller model of a teacher's family, begun with what fits of the teacher's weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_zoo.config import Config, EncoderConfig, is_integer
from bert_zoo.error_text import listing, shown
from bert_zoo.loading.growing import rebuilt
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.encoder import Encoder
from bert_zoo.models.quantization import check_is_float
from bert_zoo.registry import registry
from bert_zoo.training.compiling import compile_for_task
from bert_zoo.training.lora import without_lora
from bert_zoo.weights.bind import ENCODER_PREFIX, variables_of

_TABLES = f"{ENCODER_PREFIX}embeddings/"
_TOKEN_TABLE = f"{_TABLES}token_embedding/embeddings"


def student_of(
    teacher: ZooModel,
    layers: int | Sequence[int],
    hidden_size: int | None = None,
    num_heads: int | None = None,
    intermediate_size: int | None = None,
) -> ZooModel:
    """A model of the teacher's class with fewer or narrower layers, its preprocessor, task and labels.

    With the teacher's sizes, all of its weights are copied: embeddings, the chosen layers, pooler and head.

    With others, layers are randomly initialised, and so is what no longer has the teacher's shape, as a
    head over hidden states. Tables of tokens, positions and segments are projected onto the first
    `hidden_size` principal components of the token table (without centring): inner products of tokens are
    kept as well as a linear map to that width can keep them, and since all tables go through the same map, the sum
    of three projected rows is the projected sum. Tables with a width of their own (ALBERT, most ELECTRAs)
    are copied, and only the layer after them is new.

    Args:
        teacher: an encoder or a task model; it stays as it is.
        layers: which of its layers the student has, their numbers from 0 on; or how many, spread evenly from
            the first to the last: layer i of k is the teacher's round(i · (n - 1) / (k - 1)) of n. Six of
            twelve are 0, 2, 4, 7, 9, 11, as in DistilBERT.
        hidden_size: width of the student; the teacher's by default, and at most that.
        num_heads: attention heads of a layer; by default as many as the teacher's, or as wide as those where
            `hidden_size` is no multiple of their number.
        intermediate_size: width of the feed-forward layers; by default in the teacher's proportion to
            `hidden_size`.

    Returns:
        The student, compiled as `load` compiles it where the teacher is compiled.

    Raises:
        ValueError: no such layers or sizes; layers that differ in more than their weights (ConfigError); or a
            model of two encoders.

    Source: Sanh et al. 2019 (DistilBERT, arXiv:1910.01108), section 3; Eckart and Young 1936 for the
    projection.
    """
    check_is_float(teacher)
    teacher = without_lora(teacher)
    encoder = encoder_of(teacher)
    before, values = encoder.config, variables_of(teacher)
    for second in registry().families[encoder.family].second_encoders:
        if any(path.startswith(second.ours) for path in values):
            raise ValueError(
                f"This model, of task {teacher.task!r}, has a second encoder, the {second.name}. Make a "
                "student of model.encoder, save it, and load it for the task."
            )
    chosen = chosen_layers(layers, before.num_layers)
    sizes = _sizes(before, hidden_size, num_heads, intermediate_size)
    config = before.with_layers(chosen).replace(**sizes)
    old, new = before.to_dict(), config.to_dict()
    student = rebuilt(teacher, **{name: new[name] for name in new if new[name] != old[name]})
    student.trainable = True  # whatever of the teacher is frozen
    variables = variables_of(student)
    sources = {path: path for path in variables}
    for own, theirs in _blocks(encoder_of(student), encoder, chosen).items():
        for path in (path for path in variables if path.startswith(own)):
            if sizes:
                del sources[path]
            else:
                sources[path] = theirs + path.removeprefix(own)
    components = None
    for path, source in sources.items():
        variable, value = variables[path], ops.convert_to_numpy(values[source])
        if sizes and _is_table(path) and variable.shape != value.shape:
            if components is None:
                table = ops.convert_to_numpy(values[_TOKEN_TABLE])
                components = principal_components(table, variable.shape[-1])
            if len(components) != value.shape[-1]:
                raise ValueError(
                    f"The table {path} is {value.shape[-1]} wide, and that of tokens {len(components)}. Leave "
                    "hidden_size out: such a model can have fewer layers, but no narrower ones."
                )
            value = value @ components.astype(value.dtype)
        if tuple(variable.shape) == value.shape:
            variable.assign(value)
        elif not sizes:
            raise ValueError(
                f"{path} is {value.shape} of the teacher and {tuple(variable.shape)} of a student; a model "
                f"of the family {encoder.family} cannot have fewer layers."
            )
    if teacher.compiled:
        compile_for_task(student)
    return student


def chosen_layers(layers: int | Sequence[int], of: int) -> tuple[int, ...]:
    """The numbers of a teacher's layers that a student has; see `student_of`.

    Args:
        of: how many layers the teacher has.

    Raises:
        ValueError: layers that it does not have.
    """
    if is_integer(layers):
        if not 1 <= layers <= of:
            raise ValueError(f"layers is {layers}; the teacher has {of}, so it is 1 to {of}.")
        # Half a layer is rounded up.
        steps = max(layers - 1, 1)
        return tuple((2 * i * (of - 1) + steps) // (2 * steps) for i in range(layers))
    chosen = tuple(layers)
    if not chosen or not all(is_integer(number) and 0 <= number < of for number in chosen):
        raise ValueError(
            f"layers is {shown(layers)}; it is a number of layers, or the numbers of some of the teacher's, 0 "
            f"to {of - 1}."
        )
    return chosen


def principal_components(table: np.ndarray, width: int) -> np.ndarray:
    """The directions [columns, width], orthonormal, that hold most of a table [rows, columns].

    They are those of the largest eigenvalues of its columns' products, the largest first; nothing is
    subtracted before.
    """
    table = table.astype(np.float64)
    _, directions = np.linalg.eigh(table.T @ table)
    return directions[:, ::-1][:, :width]


def _is_table(path: str) -> bool:
    return path.startswith(_TABLES) and path.endswith("/embeddings")


def _sizes(
    before: Config, hidden_size: int | None, num_heads: int | None, intermediate_size: int | None
) -> dict[str, Any]:
    """What a student's configuration has other than the teacher's, beside the number of layers."""
    given = {
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "intermediate_size": intermediate_size,
    }
    sizes = {
        name: value
        for name, value in given.items()
        if value is not None and value != getattr(before, name)
    }
    if not sizes:
        return sizes
    if not isinstance(before, EncoderConfig):
        raise ValueError(
            f"{listing(sizes)} cannot be changed of this family, whose students have fewer layers only. Leave "
            "them out."
        )
    if "hidden_size" in sizes:
        if not is_integer(hidden_size) or not 0 < hidden_size < before.hidden_size:
            raise ValueError(
                f"hidden_size is {shown(hidden_size)}; it is a width of at most the teacher's "
                f"{before.hidden_size}."
            )
        if intermediate_size is None:
            ratio = before.intermediate_size / before.hidden_size
            sizes["intermediate_size"] = round(ratio * hidden_size)
        head_size = before.hidden_size // before.num_heads
        if num_heads is None and hidden_size % before.num_heads and hidden_size % head_size == 0:
            sizes["num_heads"] = hidden_size // head_size
        if before.embedding_size == before.hidden_size:
            sizes["embedding_size"] = 0
    return sizes


def _blocks(student: Encoder, teacher: Encoder, chosen: Sequence[int]) -> Mapping[str, str]:
    """What the paths of a student's blocks begin with -> those of the blocks that they are begun with."""
    own, theirs = (encoder.backbone.groups().stack for encoder in (student, teacher))
    found: dict[str, str] = {}
    for numbers, layer in zip(own.blocks_of_layers, chosen, strict=True):
        for number, source in zip(numbers, theirs.blocks_of_layers[layer], strict=True):
            begin, of_source = (
                f"{ENCODER_PREFIX}{stack.name}/{stack.blocks[n].name}/"
                for stack, n in ((own, number), (theirs, source))
            )
            if found.setdefault(begin, of_source) != of_source:
                raise ValueError(
                    f"layers {list(chosen)} would have layers share a block that are of several blocks of the "
                    "teacher. Choose them so that groups of layers stay what they are."
                )
    return found
