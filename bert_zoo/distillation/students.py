"""`student_of`: a smaller model of a teacher's family, initialised from the teacher's weights where they fit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_zoo.config import Config, EncoderConfig
from bert_zoo.error_text import listing, shown
from bert_zoo.fields import check, is_integer
from bert_zoo.loading.growing import rebuilt
from bert_zoo.models.base import ZooModel, check_is_float, encoder_of
from bert_zoo.models.encoder import Encoder
from bert_zoo.registry import registry
from bert_zoo.training.freezing import without_lora
from bert_zoo.training.presets import compile_for_task
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
    """Makes a model of the teacher's class, task and labels with fewer or narrower layers.

    If only the number of layers changes, the weights of embeddings, chosen layers, pooler and head are copied.

    With other sizes, the layers are randomly initialised, and so is every weight whose shape changes, such as
    a head over hidden states. Embedding tables are projected onto the first `hidden_size` principal
    components of the token table (without centring). No linear map to that width keeps inner products of tokens
    better, and sums of token, position and segment vectors stay projected sums. Tables with a width of
    their own (ALBERT, most ELECTRAs) are copied; only the layer after them is new.

    Args:
        teacher: an encoder or a task model; it does not change.
        layers: indices of the teacher's layers to use, from 0; or their number k, spread evenly from the first
            to the last: layer i is the teacher's round(i · (n - 1) / (k - 1)) of n. Six of twelve are 0, 2, 4,
            7, 9, 11, as in DistilBERT.
        hidden_size: width of the student, at most the teacher's, which is the default.
        num_heads: attention heads per layer; by default the teacher's number, or heads of the teacher's width
            if `hidden_size` is not a multiple of that number.
        intermediate_size: width of the feed-forward layers; by default in the teacher's proportion to
            `hidden_size`.

    Returns:
        The student. If the teacher is compiled, it is compiled as by `load`.

    Raises:
        ValueError: layers or sizes are impossible, layers cannot be removed from this family, or the model has
            two encoders. ConfigError, a subclass, if layers differ in more than their weights.

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
                f"This model of task {teacher.task!r} has a second encoder, the {second.name}. Make a "
                "student of model.encoder, save it, and load it for the task."
            )
    chosen = chosen_layers(layers, before.num_layers)
    sizes = _sizes(before, hidden_size, num_heads, intermediate_size)
    config = before.with_layers(chosen).replace(**sizes)
    old, new = before.to_dict(), config.to_dict()
    student = rebuilt(teacher, **{name: new[name] for name in new if new[name] != old[name]})
    student.trainable = True  # even if parts of the teacher are frozen
    variables = variables_of(student)
    sources = {path: path for path in variables}
    for own, taught in _blocks(encoder_of(student), encoder, chosen).items():
        for path in (path for path in variables if path.startswith(own)):
            if sizes:
                del sources[path]
            else:
                sources[path] = taught + path.removeprefix(own)
    components = None
    for path, source in sources.items():
        variable, value = variables[path], ops.convert_to_numpy(values[source])
        is_table = path.startswith(_TABLES) and path.endswith("/embeddings")
        if sizes and is_table and variable.shape != value.shape:
            if components is None:
                table = ops.convert_to_numpy(values[_TOKEN_TABLE])
                components = principal_components(table, variable.shape[-1])
            if len(components) != value.shape[-1]:
                raise ValueError(
                    f"The table {path} is {value.shape[-1]} wide and the token table {len(components)}. Leave "
                    "hidden_size out: this model can get fewer layers, but not narrower ones."
                )
            value = value @ components.astype(value.dtype)
        if tuple(variable.shape) == value.shape:
            variable.assign(value)
        elif not sizes:
            raise ValueError(
                f"{path} has the shape {value.shape} in the teacher and {tuple(variable.shape)} in the student. "
                f"Layers cannot be removed from models of the family {encoder.family}."
            )
    if teacher.compiled:
        compile_for_task(student)
    return student


def chosen_layers(layers: int | Sequence[int], of: int) -> tuple[int, ...]:
    """Indices of the teacher's layers, `of` in all, that a student uses; see `student_of`."""
    if is_integer(layers):
        check("layers", layers, int, least=1, most=of, note="the teacher's number")
        # Half a layer is rounded up.
        steps = max(layers - 1, 1)
        return tuple((2 * i * (of - 1) + steps) // (2 * steps) for i in range(layers))
    chosen = tuple(layers)
    if not chosen or not all(is_integer(number) and 0 <= number < of for number in chosen):
        raise ValueError(
            f"layers is {shown(layers)}; pass a number of layers, or a list of the teacher's layers, 0 "
            f"to {of - 1}."
        )
    return chosen


def principal_components(table: np.ndarray, width: int) -> np.ndarray:
    """The first principal components of a table [rows, columns], without centring: [columns, width].

    They are the orthonormal eigenvectors of its columns' products, largest eigenvalue first.
    """
    table = table.astype(np.float64)
    _, directions = np.linalg.eigh(table.T @ table)
    return directions[:, ::-1][:, :width]


def _sizes(
    before: Config, hidden_size: int | None, num_heads: int | None, intermediate_size: int | None
) -> dict[str, Any]:
    """Fields in which the student's configuration differs, except for the number of layers."""
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
            f"{listing(sizes)} cannot be changed in this family; students can only have fewer layers. Leave "
            "these arguments out."
        )
    if "hidden_size" in sizes:
        check(
            "hidden_size", hidden_size, int, least=1, most=before.hidden_size, note="the teacher's"
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
    """Path prefix of each of the student's blocks -> prefix of the teacher's block to copy."""
    own, taught = (encoder.backbone.groups().stack for encoder in (student, teacher))
    found: dict[str, str] = {}
    for numbers, layer in zip(own.blocks_of_layers, chosen, strict=True):
        for number, source in zip(numbers, taught.blocks_of_layers[layer], strict=True):
            begin, of_source = (
                f"{ENCODER_PREFIX}{stack.name}/{stack.blocks[n].name}/"
                for stack, n in ((own, number), (taught, source))
            )
            if found.setdefault(begin, of_source) != of_source:
                raise ValueError(
                    f"With layers {list(chosen)}, a shared block of the student would get layers of several blocks "
                    "of the teacher. Choose layers that keep the groups of shared layers."
                )
    return found
