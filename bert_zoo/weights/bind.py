"""The engine that moves tensors between a source's names and a model's variables.

It insists: every variable is bound exactly once, every tensor of the source is bound, known or
ignorable, shapes agree. What does not hold is reported in one error.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_zoo.config import Config
from bert_zoo.error_text import listing
from bert_zoo.registry import Family
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.table import Binding, Copy, Format, expand, rows_under
from bert_zoo.weights.tensor_source import TensorSource

log = logging.getLogger("bert_zoo")

ENCODER_PREFIX = "encoder/"


def named_variables(layer) -> dict[str, Any]:
    """Every weight of a built layer or model, under a path of layer names that no build order changes.

    Keras's own `variable.path` depends on which layer happened to build which.
    """
    return dict(_walk(layer, ""))


def _walk(layer, prefix: str) -> Iterator[tuple[str, Any]]:
    # Keras has no public way to list a layer's own sublayers; this one is what its own code uses.
    own, *children = layer._flatten_layers(include_self=True, recursive=False)
    inherited = {id(variable) for child in children for variable in child.weights}
    for variable in own.weights:
        if id(variable) not in inherited:
            yield prefix + variable.name, variable
    for child in children:
        yield from _walk(child, f"{prefix}{child.name}/")


def trained_layers(layer, is_parent_trained: bool = True, path: str = "") -> dict[str, bool]:
    """Whether layers are trained, by path, of those that differ from the layer above."""
    own, *children = layer._flatten_layers(include_self=True, recursive=False)
    found = {} if own.trainable == is_parent_trained else {path: own.trainable}
    for child in children:
        found |= trained_layers(child, own.trainable, f"{path}{child.name}/")
    return found


def set_trained_layers(layer, trained: Mapping[str, bool], path: str = "") -> None:
    """Sets what `trained_layers` found."""
    own, *children = layer._flatten_layers(include_self=True, recursive=False)
    if path in trained:
        own.trainable = trained[path]
    for child in children:
        set_trained_layers(child, trained, f"{path}{child.name}/")


@dataclass(frozen=True)
class Naming:
    """The names that one source uses for a family's tensors.

    Attributes:
        family: whose table applies.
        fmt: format of names and layout.
        root: what stands before the encoder's names.
        head_root: what stands before the names of heads.
    """

    family: Family
    fmt: Format
    root: str
    head_root: str = ""

    def encoder(self, config: Config, ours_prefix: str = "") -> list[Binding]:
        return expand(
            self.family.encoder_rows,
            config,
            self.fmt,
            ours_prefix=ours_prefix,
            stored_prefix=self.root,
        )

    def head(self, task: str, config: Config) -> list[Binding]:
        head = self.family.heads.get(task)
        if head is None:
            return []
        return expand(head.rows, config, self.fmt, stored_prefix=self.head_root)

    def copies(self, config: Config) -> list[Copy]:
        """The repetitions that the source may hold."""
        copies = {
            copy
            for head in self.family.heads.values()
            if self.fmt in head.copies
            for copy in head.copies[self.fmt](config)
        }
        return [
            Copy(self._full(copy.key), self._full(copy.of), copy.equal)
            for copy in sorted(copies, key=lambda copy: copy.key)
        ]

    def _full(self, key: str) -> str:
        return key.format(root=self.root) if "{root}" in key else self.head_root + key

    def known(self, config: Config) -> set[str]:
        """Every key that the family's table can read, whatever the task."""
        config = config.with_pooler(True)
        bindings = self.encoder(config)
        for task in self.family.heads:
            bindings += self.head(task, config)
        return {key for binding in bindings for key in binding.keys}


def find_naming(family: Family, source: "RenamedSource", config: Config) -> Naming:
    """Finds the format and root of a source by the family's first row, the token table.

    Where two formats call it the same, their hallmarks and roots tell them apart.

    Raises:
        WeightsError: no key ends like a token table, or several do.
    """
    token_table = next(rows_under(family.encoder_rows, config))
    found: dict[str, list[Naming]] = {}
    for fmt in family.roots:
        mark = family.format_hallmarks.get(fmt)
        if mark is not None and not any(re.search(mark, key) for key in source):
            continue
        (name,) = expand([token_table], config, fmt)[0].keys
        for key in source:
            if re.search(rf"(^|[./]){re.escape(name)}$", key):
                root = key.removesuffix(name)
                head_root = root.removesuffix(family.roots[fmt])
                found.setdefault(key, []).append(Naming(family, fmt, root, head_root))
    if len(found) == 1:
        (namings,) = found.values()
        return max(namings, key=_length_of_own_root)
    if found:
        roots = sorted(naming.root for namings in found.values() for naming in namings)
        raise WeightsError(
            f"{source.location} holds several encoders, at {listing(roots)}; bert_zoo reads files with one."
        )
    raise WeightsError(
        f"{source.location} holds no {family.name} encoder: no tensor's name ends like the token "
        f"table's. Its names are {listing(source)}."
    )


def _length_of_own_root(naming: Naming) -> int:
    """How much of the root is the format's own; -1 where the format has another one."""
    own = naming.family.roots[naming.fmt]
    return len(own) if naming.root.endswith(own) else -1


# Names that modules had in earlier versions of their program, and the names of today.
LEGACY_NAMES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        # transformers, once pytorch_pretrained_bert
        (r"(LayerNorm|layer_norm\d)\.gamma$", r"\1.weight"),
        (r"(LayerNorm|layer_norm\d)\.beta$", r"\1.bias"),
        # fairseq; a classification head is called after its task
        (r"^decoder\.(?=sentence_encoder\.|lm_head\.)", "encoder."),
        (r"\bemb_layer_norm\.", "layernorm_embedding."),
        (r"\bclassification_heads\.[^.]+\.", "classification_heads."),
    )
)
# fairseq's attention once kept the three products in one tensor, below each other.
FUSED = re.compile(r"\bself_attn\.in_proj_(?=weight$|bias$)")
FUSED_PARTS = ("self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.")


class RenamedSource(Mapping[str, np.ndarray]):
    """A source under the names of today."""

    def __init__(self, source: TensorSource):
        self._source = source
        self.location = source.location
        # Name of today -> stored name, and which of its parts where it is fused.
        self._keys: dict[str, tuple[str, int | None]] = {}
        for key in source:
            today = key
            for pattern, name in LEGACY_NAMES:
                today = pattern.sub(name, today)
            if FUSED.search(today):
                for part, name in enumerate(FUSED_PARTS):
                    self._add(FUSED.sub(name, today), key, part)
            else:
                self._add(today, key, None)

    def _add(self, today: str, key: str, part: int | None) -> None:
        if today in self._keys:
            raise WeightsError(
                f"{self.location} holds both {key} and {self._keys[today][0]}, which are two names "
                f"of the same tensor, {today}."
            )
        self._keys[today] = (key, part)

    def shape(self, key: str) -> tuple[int, ...]:
        stored, part = self._keys[key]
        shape = self._source.shape(stored)
        return shape if part is None or not shape else (shape[0] // len(FUSED_PARTS), *shape[1:])

    def __getitem__(self, key: str) -> np.ndarray:
        stored, part = self._keys[key]
        tensor = self._source[stored]
        return tensor if part is None else np.split(tensor, len(FUSED_PARTS))[part]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys


def assign(
    variables: Mapping[str, Any],
    bindings: Iterable[Binding],
    source: RenamedSource | TensorSource,
    *,
    known: Iterable[str] = (),
    copies: Iterable[Copy] = (),
    is_ignorable=lambda key: False,
) -> None:
    """Checks all bindings against variables and source, then assigns.

    Args:
        variables: path -> Keras variable; all of them must be bound.
        bindings: what each variable consists of.
        source: tensors to read.
        known: keys that may stay unread, because they belong to heads that the model has not.
        copies: repetitions, to be compared with what they repeat or to stand in for it.
        is_ignorable: accepts keys that are no weights.

    Raises:
        WeightsError: lists every missing, extra, misshapen and unequal tensor.
    """
    bindings = list(bindings)
    copies = [copy for copy in copies if copy.key in source]
    stand_ins = {copy.of: copy.key for copy in copies if copy.of not in source}
    problems = _mismatches(variables, bindings, source, stand_ins)
    read = {key for binding in bindings for key in binding.keys}
    repeated = {copy.key for copy in copies}
    extra = [
        key
        for key in source
        if key not in read and key not in repeated and key not in known and not is_ignorable(key)
    ]
    if extra:
        problems.append(f"not known, so not loaded: {listing(extra)}")
    for copy in copies:
        if copy.of in stand_ins or np.array_equal(source[copy.key], source[copy.of]):
            continue
        if copy.equal:
            problems.append(
                f"{copy.key} should repeat {copy.of} and does not (an untied decoder needs "
                "tie_word_embeddings=false in its configuration)"
            )
        else:
            log.warning("%s of %s is not read; %s is.", copy.key, source.location, copy.of)
    if problems:
        raise WeightsError(
            f"{source.location} does not fit this model:\n- "
            + "\n- ".join(problems)
            + "\nNothing was loaded. A configuration of other sizes or another task is the usual cause."
        )
    for binding in bindings:
        variable = variables[binding.variable]
        tensors = [source[stand_ins.get(key, key)] for key in binding.keys]
        variable.assign(binding.to_ours(tensors) if tensors else np.zeros(variable.shape))


def _mismatches(variables, bindings, source, stand_ins) -> list[str]:
    bound = Counter(binding.variable for binding in bindings)
    problems = [
        f"variable {path} is bound {count} times"
        for path, count in sorted(bound.items())
        if count > 1
    ]
    unbound = [path for path in variables if path not in bound]
    if unbound:
        problems.append(f"no row of the weight table fills {listing(unbound)}")
    absent = [path for path in bound if path not in variables]
    if absent:
        problems.append(f"the weight table fills variables that do not exist: {listing(absent)}")
    missing, misshapen = [], []
    for binding in bindings:
        if binding.variable not in variables or not binding.keys:
            continue
        shapes = binding.stored_shapes(tuple(variables[binding.variable].shape))
        for key, wanted in zip(binding.keys, shapes, strict=True):
            key = stand_ins.get(key, key)
            if key not in source:
                missing.append(key)
            elif tuple(source.shape(key)) != wanted:
                misshapen.append(f"{key} is {tuple(source.shape(key))}, not {wanted}")
    if missing:
        problems.append(f"missing: {listing(missing)}")
    if misshapen:
        problems.append(f"of another shape: {listing(misshapen)}")
    return problems


def to_stored(variables: Mapping[str, Any], bindings: Iterable[Binding]) -> dict[str, np.ndarray]:
    """A model's variables as the tensors of a format; the inverse of `assign`."""
    from keras import ops

    stored: dict[str, np.ndarray] = {}
    entries: dict[str, list[np.ndarray]] = {}
    for binding in bindings:
        tensors = binding.to_stored(ops.convert_to_numpy(variables[binding.variable]))
        if binding.entry is None:
            stored |= tensors
        else:
            for key, tensor in tensors.items():
                entries.setdefault(key, []).append(tensor)
    return stored | {key: np.stack(parts) for key, parts in entries.items()}
