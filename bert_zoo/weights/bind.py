"""Moves tensors between a file's names and a model's variables.

A family's weight table is expanded once for a configuration, a format and a file's root into a `Plan`, which
loading, saving and all checks use. Loading requires that every variable is bound exactly once, that every tensor of
the file is bound, known or ignorable, and that shapes agree. All violations are reported in one error.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bert_zoo.config import Config
from bert_zoo.error_text import listing
from bert_zoo.private import all_layers, children, fill
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.formats.format import Description, Format
from bert_zoo.weights.table import (
    DENSE,
    KERNEL,
    QUERY_WEIGHTS,
    TOKEN_WEIGHTS,
    Copy,
    Row,
    Rows,
    SecondEncoder,
    Stored,
)
from bert_zoo.weights.tensor_source import DeferredArray, TensorSource

log = logging.getLogger("bert_zoo")

ENCODER_PREFIX = "encoder/"
# The part of an encoder that a checkpoint may lack.
POOLER = "pooler"
# The parts of an encoder that only some tasks read.
READ_BY_SOME = (POOLER, "decoder")
# Prefix of the names of dense layers on pooled outputs, before their numbers.
POOLED = "pooled_dense_"


def named_variables(layer, kind: str = "weights") -> dict[str, Any]:
    """Path -> weight of a built layer or model, with paths that do not depend on the build order.

    Keras's `variable.path` depends on which layer built which. A shared variable has its first path. The kind
    "variables", in place of "weights", includes the states of dropout.
    """
    found = {}
    for path, variable in _walk(layer, kind, ""):
        found.setdefault(id(variable), (path, variable))
    return dict(found.values())


def _walk(layer, kind: str, prefix: str) -> Iterator[tuple[str, Any]]:
    inherited = {id(variable) for child in children(layer) for variable in getattr(child, kind)}
    for variable in getattr(layer, kind):
        if id(variable) not in inherited:
            yield prefix + variable.name, variable
    for child in children(layer):
        yield from _walk(child, kind, f"{prefix}{step_to(child, layer)}/")


def step_to(child, layer) -> str:
    """A child's name in paths: its own, but always "encoder" for the encoder of a task model."""
    return "encoder" if child is getattr(layer, "encoder", None) else child.name


def trained_layers(layer, is_parent_trained: bool = True, path: str = "") -> dict[str, bool]:
    """Path -> whether it is trained, for layers that differ from their parent."""
    found = {} if layer.trainable == is_parent_trained else {path: layer.trainable}
    for child in children(layer):
        found |= trained_layers(child, layer.trainable, f"{path}{step_to(child, layer)}/")
    return found


def set_trained_layers(layer, trained: Mapping[str, bool], path: str = "") -> None:
    """Restores the result of `trained_layers`."""
    if path in trained:
        layer.trainable = trained[path]
    for child in children(layer):
        set_trained_layers(child, trained, f"{path}{step_to(child, layer)}/")


def variables_of(model) -> dict[str, Any]:
    """Path in a task model -> weight, for a task model or a bare encoder.

    If files hold something other than the variable, a layer's `stored_variables` replace it.
    """
    prefix = "" if hasattr(model, "encoder") else ENCODER_PREFIX
    stored: dict[int, Any] = {}
    for layer in all_layers(model):
        if hasattr(layer, "stored_variables"):
            stored |= layer.stored_variables()
    return {
        prefix + path: stored.get(id(variable), variable)
        for path, variable in named_variables(model).items()
    }


@dataclass(frozen=True, slots=True)
class Binding:
    """One variable and its stored tensors."""

    variable: str  # its path in a task model
    # The stored tensors. Several are concatenated along the variable's last axis; none means zeros.
    keys: tuple[str, ...]
    layout: Stored  # how they are stored
    config: Any = None  # the encoder's configuration, on which the layout may depend
    entry: tuple[int, int] | None = None  # (number, total) if the tensor holds several variables
    encoder: str = ""  # name of the second encoder that it belongs to

    @property
    def part(self) -> str:
        """The variable's part of the model, as in `load(init=...)`."""
        return self.encoder or self.variable.removeprefix(ENCODER_PREFIX).split("/", 1)[0]

    def stored_shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shapes of the stored tensors for a variable of `shape`."""
        shapes = [self.layout.shape_of(part, self.config) for part in self._parts(shape)]
        if self.entry is None:
            return shapes
        return [self.layout.joint_shape(own, self.entry[1], self.config) for own in shapes]

    def _parts(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shapes of the variable's parts, one per stored tensor."""
        sizes = self.layout.sizes(shape[-1], len(self.keys), self.config)
        return [(*shape[:-1], size) for size in sizes]

    def to_ours(self, tensors: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The value of a variable of `shape` from the tensors of `keys`, at least one."""
        if self.entry is not None:
            tensors = [self.layout.entry_of(t, *self.entry, self.config) for t in tensors]
        parts = [
            self.layout.to_ours(tensor, part, self.config)
            for tensor, part in zip(tensors, self._parts(shape), strict=True)
        ]
        whole = parts[0] if len(parts) == 1 else self.layout.whole(parts)
        order = self.layout.order
        return whole if order is None else whole[..., order(self.config)]

    def to_stored(self, value: np.ndarray, only: str | None = None) -> dict[str, np.ndarray]:
        """The tensors of `keys`, or only one; if a tensor holds several variables, this one's entry."""
        if not self.keys:
            return {}
        if self.layout.order is not None:
            value = value[..., np.argsort(self.layout.order(self.config))]
        sizes = tuple(part[-1] for part in self._parts(value.shape))
        parts = self.layout.parted(value, sizes)
        return {
            key: contiguous(self.layout.to_stored(part, self.config))
            for key, part in zip(self.keys, parts, strict=True)
            if only in (None, key)
        }


def bindings_beside(description: Description, fmt: Format) -> Iterator[Binding]:
    """Yields the bindings of layers that no family's table has: dense layers on pooled outputs, and weights of tokens.

    In Hugging Face directories, each is a file of sentence-transformers in its own folder.
    """
    rows = [
        Row(
            DENSE if layer.use_bias else KERNEL,
            f"{ENCODER_PREFIX}{POOLED}{number}",
            hf=f"{number}/linear",
        )
        for number, layer in enumerate(description.pooling.dense if description.pooling else ())
    ]
    if description.sparse_pooling is not None and description.sparse_pooling.static_queries:
        rows.append(Row(TOKEN_WEIGHTS, QUERY_WEIGHTS, hf=QUERY_WEIGHTS))
    for row in rows:
        for variable in row.kind:
            stored = fmt.stored(row, variable)
            (name,) = fmt.names(row)
            yield Binding(f"{row.ours}/{variable}", (name + stored.suffix,), stored)


@dataclass(frozen=True)
class Plan:
    """A family's expanded weight table."""

    format: Format  # names and layout
    root: str  # prefix of the encoder's names
    head_root: str  # prefix of heads' names
    encoder: tuple[Binding, ...]  # the encoder's bindings, always with a pooler
    heads: Mapping[str, tuple[Binding, ...]]  # task -> bindings of its head
    copies: tuple[Copy, ...]  # copies that files may hold

    def bindings(self, task: str, pooler: bool) -> list[Binding]:
        encoder = [b for b in self.encoder if pooler or b.part not in READ_BY_SOME]
        return [*encoder, *self.heads.get(task, ())]

    def keys(self) -> set[str]:
        """All keys that the table can read, for any task."""
        bindings = [*self.encoder, *(b for head in self.heads.values() for b in head)]
        return {key for binding in bindings for key in binding.keys}

    def renamed(self, name: Callable[[str], str]) -> "Plan":
        """The same table with other names of tensors."""

        def of(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
            return tuple(replace(b, keys=tuple(map(name, b.keys))) for b in bindings)

        return replace(
            self,
            root=name(self.root),
            encoder=of(self.encoder),
            heads={task: of(head) for task, head in self.heads.items()},
            copies=tuple(replace(c, key=name(c.key), of=name(c.of)) for c in self.copies),
        )

    def names_beside(self, first: "Plan", second: SecondEncoder, task: str) -> Callable[[str], str]:
        """A function from names in a second encoder's file, with a task's head, to names in `first`."""
        of_head = {key for binding in self.heads[task] for key in binding.keys}

        def name(key: str) -> str:
            if key.startswith(self.root) and key not in of_head:
                return first.head_root + second.ours + key.removeprefix(self.root)
            return first.head_root + key.removeprefix(self.head_root)

        return name

    def unread_roots(self, read: Iterable[str]) -> tuple[str, ...]:
        """The roots of a file's other encoders that no tensor is read from."""
        fmt = self.format
        if not fmt.encoders:
            return ()
        first = self.head_root + fmt.root
        second = (self.head_root + root for root in fmt.encoders.values())
        unread = [root for root in second if not any(key.startswith(root) for key in read)]
        # A second encoder reads tables under the first one's root.
        return tuple(unread if self.root == first else [first, *unread])


def expand(
    rows: Rows, config: Config, fmt: Format, prefix: str, root: str, head_root: str
) -> Iterator[Binding]:
    """Yields one binding per variable, for every block of the stack."""
    for entry in rows:
        if isinstance(entry, SecondEncoder):
            second = entry.config(config)
            if second is not None:
                # A format with a file for each encoder has none of these names.
                below = head_root + fmt.encoders.get(entry.name, entry.ours)
                own = expand(entry.rows, second, fmt, prefix + entry.ours, below, head_root)
                head = () if entry.head is None else entry.head.rows
                on_it = expand(head, second, fmt, prefix, head_root, head_root)
                yield from (replace(b, encoder=entry.name) for b in (*own, *on_it))
            continue
        for row in [entry] if isinstance(entry, Row) else entry(config):
            if row.when(config):
                yield from _bindings(row, config, fmt, prefix, root, head_root)


def _bindings(
    row: Row, config: Config, fmt: Format, prefix: str, root: str, head_root: str
) -> Iterator[Binding]:
    names = [
        head_root + name[1:] if name.startswith("/") else root + name for name in fmt.names(row)
    ]
    blocks = config.num_blocks if "{i}" in row.ours else 1
    for variable in row.kind:
        stored = fmt.stored(row, variable)
        path = f"{prefix}{row.ours}/{variable}"
        keys = [name + stored.suffix for name in names]
        for i in range(blocks):
            yield Binding(
                path.replace("{i}", str(i)),
                tuple(key.replace("{i}", str(i)) for key in keys),
                stored,
                config,
                stored.entry(i, blocks),
            )


def plan_of(family: Any, source: TensorSource, config: Config, encoder: str = "") -> Plan:
    """The weight table of a `bert_zoo.family.Family` with the names of a source: its token table shows the format, the
    prefix of the (requested) encoder's names, and that of heads' names.

    If two formats use the same name for it, required keys and roots decide. WeightsError if no key ends like a token
    table, or several do.
    """
    found: dict[str, list[tuple[int, Format, str, str]]] = {}
    first = family.encoder_rows[0]
    token_table = first if isinstance(first, Row) else next(iter(first(config)))
    for fmt in family.formats.values():
        if fmt.root is None or (
            fmt.required_key and not any(re.search(fmt.required_key, key) for key in source)
        ):
            continue
        (name,) = next(_bindings(token_table, None, fmt, "", "", "/")).keys
        is_shared, name = name.startswith("/"), name.removeprefix("/")
        own = fmt.encoders.get(encoder, fmt.root)
        others = tuple({fmt.root, *fmt.encoders.values()} - {own, ""})
        for key in source:
            renamed = fmt.renamed(key)
            if not renamed.endswith(name):
                continue
            before = renamed.removesuffix(name)
            if (before and before[-1] not in "./") or before.endswith(others):
                continue
            has_own = before.endswith(own)
            head_root = before if is_shared else before.removesuffix(own)
            root = head_root + own if is_shared else before
            fits = len(own) if has_own or is_shared else -1
            found.setdefault(key, []).append((fits, fmt, root, head_root))
    if len(found) == 1:
        (candidates,) = found.values()
        _, fmt, root, head_root = max(candidates, key=lambda candidate: candidate[0])
        return family.plan(fmt, config, root, head_root)
    if found:
        roots = sorted(root for candidates in found.values() for _, _, root, _ in candidates)
        raise WeightsError(
            f"{source.location} holds several encoders, at {listing(roots)}, but bert_zoo reads files with one. Save one "
            "of them in its own file."
        )
    raise WeightsError(
        f"{source.location} holds no {family.name} encoder: no tensor is named like the token table. Its names are "
        f"{listing(source)}."
    )


class RenamedSource(TensorSource):
    """A source with the current names of a format."""

    def __init__(self, source: TensorSource, fmt: Format):
        self._is_ignorable = fmt.is_ignorable
        # Current name -> the file, the stored name, the number of the part, and the number of parts.
        self._stored: dict[str, tuple[TensorSource, str, int, int]] = {}
        shapes = {}
        for key in source:
            names, shape = fmt.parts(key), fmt.read_shape(key, source.shape(key))
            for part, name in enumerate(names):
                if name in self._stored:
                    raise WeightsError(
                        f"{source.location} holds both {key} and {self._stored[name][1]}, two names of the same tensor, "
                        f"{name}. Remove one of them."
                    )
                self._stored[name] = (source, key, part, len(names))
                fused = len(names) > 1 and shape
                shapes[name] = (shape[0] // len(names), *shape[1:]) if fused else shape
        super().__init__(source.location, shapes)

    def add(self, other: "RenamedSource", name: Callable[[str], str]) -> None:
        """Adds the weights of another file under further names, which override its own."""
        for key in other:
            if not self._is_ignorable(key):
                self._stored[name(key)] = other._stored[key]
                self._shapes[name(key)] = other.shape(key)

    def _read(self, key: str) -> np.ndarray:
        source, stored, part, parts = self._stored[key]
        tensor = source[stored]
        tensor = np.split(tensor, parts)[part] if parts > 1 else tensor
        return tensor.reshape(self.shape(key))


def assign(
    variables: Mapping[str, Any],
    bindings: Iterable[Binding],
    source: TensorSource,
    plan: Plan,
    *,
    unread: Iterable[str] = (),
) -> None:
    """Checks all bindings against variables and source, then assigns the variables, all of which must be bound.

    `plan` names other tensors that the source may hold: heads and encoders that the model does not have, and copies,
    which are compared with their originals or replace them. `unread` are further keys that may stay unread.

    Raises:
        WeightsError: lists all missing, extra and unequal tensors, and all wrong shapes; or a tensor is no weight
            (`TensorSource.weight`).
    """
    bindings = list(bindings)
    copies = [copy for copy in plan.copies if copy.key in source]
    stand_ins = {copy.of: copy.key for copy in copies if copy.of not in source}
    bound = Counter(binding.variable for binding in bindings)
    read = {key for binding in bindings for key in binding.keys}
    known = {*read, *(copy.key for copy in copies), *unread, *plan.keys()}
    other_encoders = plan.unread_roots(read)
    missing, misshapen = [], []
    for binding in bindings:
        if binding.variable in variables and binding.keys:
            shapes = binding.stored_shapes(tuple(variables[binding.variable].shape))
            for key, wanted in zip(binding.keys, shapes, strict=True):
                key = stand_ins.get(key, key)
                if key not in source:
                    missing.append(key)
                elif tuple(source.shape(key)) != wanted:
                    misshapen.append(f"{key} is {tuple(source.shape(key))}, not {wanted}")
    problems = {
        "variables that are bound more than once": [v for v in bound if bound[v] > 1],
        "variables that no row of the weight table fills": [v for v in variables if v not in bound],
        "rows of variables that do not exist": [v for v in bound if v not in variables],
        "missing": missing,
        "of another shape": misshapen,
        "not known, so not loaded": [
            key
            for key in source
            if key not in known
            and not key.startswith(other_encoders)
            and not plan.format.is_ignorable(key)
        ],
    }
    found = [f"{problem}: {listing(names)}" for problem, names in problems.items() if names]
    for copy in copies:
        if copy.of in stand_ins or np.array_equal(source[copy.key], source[copy.of]):
            continue
        if copy.equal:
            found.append(
                f"{copy.key} should be a copy of {copy.of}, but differs (an untied decoder needs "
                "tie_word_embeddings=false in its configuration)"
            )
        else:
            log.warning(
                "Ignored %s of %s, which differs from %s.", copy.key, source.location, copy.of
            )
    if found:
        unknown = problems.pop("not known, so not loaded")
        patterns, other_sizes = _unknown_modules(unknown, known, plan)
        advice = ""
        if other_sizes or missing or misshapen:
            advice += " Usually the configuration has other sizes, or the task is wrong."
        if patterns:
            advice += f" Models of this family have no such head. To load the rest, pass ignore={tuple(patterns)} to load()."
        raise WeightsError(
            f"{source.location} does not fit this model:\n- "
            + "\n- ".join(found)
            + f"\nNothing was loaded.{advice}"
        )
    for binding in bindings:
        keys = [stand_ins.get(key, key) for key in binding.keys]
        variable = variables[binding.variable]
        fill(variable, _value_of(binding, keys, source, variable))


def _value_of(binding: Binding, keys: Sequence[str], source: TensorSource, variable: Any) -> Any:
    """A variable's value as a tensor, or without TensorFlow as an array that becomes one.

    The tensor uses the array's memory, which goes back to the system with the variable. TensorFlow 2.21 with oneDNN
    keeps its own memory for ever, and its `convert_to_tensor` copies twice. A function of its own, so that nothing
    that was read outlives its variable's turn.
    """
    from keras import backend

    shape = tuple(variable.shape)
    if "int" in variable.dtype:
        tensors = [source.whole_numbers(key).astype(variable.dtype) for key in keys]
    else:
        tensors = [source.weight(key) for key in keys]
    values = binding.to_ours(tensors, shape) if keys else np.zeros(shape, np.float32)
    del tensors
    values = aligned_copy(values)
    if backend.backend() != "tensorflow" or not values.size:
        return values
    import tensorflow as tf

    return tf.experimental.dlpack.from_dlpack(values.__dlpack__())


def _unknown_modules(
    unknown: Iterable[str], known: Iterable[str], plan: Plan
) -> tuple[list[str], bool]:
    """Patterns of modules outside the encoder, as for `load(ignore=...)`, of tensors that no row names, and whether
    any tensor belongs to the encoder, for example to an extra block."""
    split = re.compile(r"[^./]+[./]?")
    # All modules that the table names, such as "cls." and "cls.predictions.".
    modules = {key[: part.end()] for key in known for part in split.finditer(key)}
    of_encoder = {
        split.match(key, len(plan.head_root)).group()
        for binding in plan.encoder
        for key in binding.keys
    }
    patterns: dict[str, None] = {}
    is_of_encoder = False
    for key in unknown:
        if split.match(key, len(plan.head_root)).group() in of_encoder:
            is_of_encoder = True
            continue
        ends = [part.end() for part in split.finditer(key)]
        end = next((end for end in ends if key[:end] not in modules), ends[-1])
        patterns[key[:end] if end == len(key) else f"{key[:end]}*"] = None
    return list(patterns), is_of_encoder


# Columns of a transposed matrix that are copied at a time, and the boundary in bytes at which tensors begin.
_STRIP, _ALIGNMENT = 128, 64


def aligned_copy(values: np.ndarray) -> np.ndarray:
    """A copy in C order whose memory TensorFlow can use.

    NumPy 2.4 copies a transposed matrix of 16 MiB in 25 ms; strips of it, which stay in the cache, take 9.
    """
    memory = np.empty(values.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    if values.ndim != 2 or values.flags.c_contiguous:
        copy[...] = values
    else:
        for left in range(0, values.shape[1], _STRIP):
            copy[:, left : left + _STRIP] = values[:, left : left + _STRIP]
    return copy


def contiguous(values: np.ndarray) -> np.ndarray:
    return values if values.flags.c_contiguous else aligned_copy(values)


def to_stored(
    variables: Mapping[str, Any], bindings: Iterable[Binding]
) -> dict[str, DeferredArray]:
    """A model's variables as the tensors of a format, the inverse of `assign`.

    They are converted when they are read, so that files can be written without a second copy of all.
    """
    pieces: dict[str, list[Binding]] = {}
    for binding in bindings:
        for key in binding.keys:
            pieces.setdefault(key, []).append(binding)
    for of_key in pieces.values():
        of_key.sort(key=lambda binding: binding.entry or ())

    def read(key: str) -> np.ndarray:
        parts = [b.to_stored(np.asarray(variables[b.variable]), key)[key] for b in pieces[key]]
        first = pieces[key][0]
        return parts[0] if first.entry is None else first.layout.joined(parts, first.config)

    stored = {}
    for key, (binding, *_) in pieces.items():
        variable = variables[binding.variable]
        shapes = binding.stored_shapes(tuple(variable.shape))
        shape = shapes[binding.keys.index(key)]
        stored[key] = DeferredArray(shape, variable.dtype, partial(read, key))
    return stored
