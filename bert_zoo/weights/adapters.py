"""LoRA adapters in peft's layout: reading them as changes to a checkpoint's tensors, and writing them.

An adapter consists of `adapter_config.json` and `adapter_model.safetensors` or `adapter_model.bin` (peft's
`LoraConfig` and `get_peft_model_state_dict`). A module's weight W becomes W + scale * B A, with A [rank, inputs] and
B [outputs, rank] for any layout of W; an embedding's A is [rank, rows].
"""

import logging
import math
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.error_text import listing, shown
from bert_zoo.fields import check
from bert_zoo.json_files import read_object
from bert_zoo.weights.bind import Binding, Plan, to_stored
from bert_zoo.weights.files import WeightsError, write_json
from bert_zoo.weights.safetensors_io import write_safetensors
from bert_zoo.weights.sources import ADAPTER_CONFIG, ADAPTER_WEIGHTS, open_weights
from bert_zoo.weights.tensor_source import RenamedTensors, TensorSource

log = logging.getLogger("bert_zoo")

PREFIX = "base_model.model."
KIND = "LORA"

# Settings about an adapter's training, or that its tensors' names also tell. A setting in neither of these lists may
# change the result in other ways than scale * B A.
_UNREAD = frozenset(
    """
    auto_mapping base_model_name_or_path bias corda_config ensure_weight_tying eva_config exclude_modules
    inference_mode layers_pattern layers_to_transform loftq_config lora_bias lora_dropout lora_ga_config
    megatron_config megatron_core modules_to_save peft_type peft_version qalora_group_size revision
    runtime_config target_modules task_type velora_config
    """.split()
)
_READ = frozenset(
    "alpha_pattern fan_in_fan_out init_lora_weights lora_alpha r rank_pattern use_rslora".split()
)
_BIASES = ("none", "all", "lora_only")  # values of `bias`
_ALL = "all-linear"  # the value of `target_modules` for every linear layer
# Initialisations that keep the base's weights; others change them.
_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
# peft's patterns of names are regular expressions. Nested repetitions, and more than three repetitions, may take
# exponential time.
_LONGEST_PATTERN = 200
_SLOW_PATTERN = re.compile(r"[)*+?}][*+{]|\)\?|([*+?{].*){4}")

_LINEAR = re.compile(r"(.+)\.lora_([AB])(?:\.default)?\.(weight|bias)")
_EMBEDDING = re.compile(r"(.+)\.lora_embedding_([AB])(?:\.default)?")
_WRAPPERS = re.compile(r"\.(?:base_layer|modules_to_save(?:\.default)?)(?=\.)")


@dataclass(frozen=True)
class Update:
    """An adapter's change to one tensor."""

    scale: float
    b: str  # name of B, or of the tensor added to a bias
    a: str | None = None  # name of A; None for a bias
    transposed: bool = False  # whether the stored tensor is [inputs, outputs]
    number: int | None = None  # of the adapter, if A and B hold several, one below the other

    def value(self, tensors: TensorSource) -> np.ndarray:
        def of(name: str) -> np.ndarray:
            value = tensors.weight(name).astype(np.float32)
            return value if self.number is None else value[self.number]

        if self.a is None:
            return self.scale * of(self.b)
        product = self.scale * (of(self.b) @ of(self.a))
        return product.T if self.transposed else product


class Adapter:
    """The two files of a LoRA adapter in a directory.

    Raises:
        ConfigError, WeightsError: it is not a LoRA adapter, or changes more than scale * B A.
        FileNotFoundError: the weights are missing.
    """

    def __init__(self, directory: Path):
        self.path = directory / ADAPTER_CONFIG
        self._config = config = read_object(self.path)
        kind = config.take("peft_type", str)
        if kind != KIND:
            raise WeightsError(
                f"{self.path} is an adapter of the kind {shown(kind)}, but bert_zoo reads only {KIND}. "
                f"{_merge_elsewhere(self.path)}"
            )
        used = [key for key in sorted(config) if key not in _UNREAD | _READ and config[key]]
        start = config.get("init_lora_weights")
        if not any(start is known or start == known for known in _STARTS):
            used.append("init_lora_weights")
        if used:
            raise WeightsError(
                f"{self.path} has {', '.join(f'{key}={shown(config[key], 60)}' for key in used)}, which bert_zoo does "
                f"not support. {_merge_elsewhere(self.path)}"
            )
        files = [directory / name for name in ADAPTER_WEIGHTS if (directory / name).is_file()]
        if not files:
            raise FileNotFoundError(
                f"{directory} has a {ADAPTER_CONFIG}, but none of {', '.join(ADAPTER_WEIGHTS)}. Copy the adapter's "
                "weights there."
            )
        self.file = files[0].name
        self.tensors = open_weights(files[0])
        self.base = config.take("base_model_name_or_path", str)
        self.revision = config.take("revision", str)
        self.keeps_ties = config.take("ensure_weight_tying", bool, False)
        self.task_type = config.take("task_type", str)
        self._alphas = self._patterns("alpha_pattern")
        self._ranks = self._patterns("rank_pattern")
        # The ends of modules' names, or a pattern of names; None for any.
        targets = config.take("target_modules", str | list[str])
        if isinstance(targets, str):
            self._check_pattern("target_modules", targets)
        self._targets = None if targets == [] else targets
        self._layers = self._some("layers_to_transform", int)
        self._stacks = self._some("layers_pattern", str)
        config.take("bias", str, choices=_BIASES)

    def _patterns(self, key: str) -> dict[str, float]:
        patterns = self._config.section(key).values_of(float)
        for pattern in patterns:
            self._check_pattern(key, pattern)
        return patterns

    def _check_pattern(self, key: str, pattern: str) -> None:
        try:
            re.compile(pattern)
            refused = len(pattern) > _LONGEST_PATTERN or _SLOW_PATTERN.search(pattern)
        except re.error:
            refused = True
        if refused:
            raise ConfigError(
                f"{self.path}: {key} has {shown(pattern)}, which is not a regular expression, or may take long to "
                "match. Write out the names of its modules."
            )

    def _some(self, key: str, kind: type) -> list[Any]:
        """A list that may be written as its only item."""
        is_list = isinstance(self._config.get(key), list | None)
        return self._config.items_of(key, kind) if is_list else [self._config.take(key, kind)]

    def _check_target(self, module: str) -> None:
        """Raises WeightsError for a module with tensors that the configuration says are not there."""
        targets = self._targets
        if isinstance(targets, str):
            found = targets == _ALL or re.fullmatch(targets, module)
        else:
            found = targets is None or f".{module}".endswith(tuple(f".{name}" for name in targets))
        if found and self._layers:
            stack = "|".join(map(re.escape, self._stacks)) or r"[^.]*"
            layer = re.match(rf".*\.(?:{stack})\.(\d+)\.", f".{module}")
            found = layer and int(layer[1]) in self._layers
        if not found:
            said = {"target_modules": targets, "layers_to_transform": self._layers or None}
            raise WeightsError(
                f"{self.tensors.location} adapts {module}, but {self.path} says {shown(said)}. The two files do not "
                "belong together: copy both again."
            )

    def _scale(self, module: str, rank: int) -> float:
        """The factor of B A in a module, after checking its rank against the tensors."""

        def of(patterns: Mapping[str, float], key: str, default: float) -> float:
            for pattern, value in patterns.items():
                if re.match(rf"(.*\.)?({pattern})$", module):
                    return value
            return self._config.take(key, float, default)

        said = of(self._ranks, "r", 8)
        if said != rank:
            raise WeightsError(
                f"{self.tensors.location} has {rank} rows in A of {module}, but {self.path} says rank {said}. The two "
                "files do not belong together: copy both again."
            )
        by_root = self._config.take("use_rslora", bool, False)
        return of(self._alphas, "lora_alpha", 8) / (math.sqrt(rank) if by_root else rank)

    def of_base(self, base: TensorSource, plan: Plan) -> "AdaptedSource":
        """The base's tensors with Hugging Face's names, to be read with `plan`, with the adapter merged; WeightsError if
        a tensor of the adapter has no counterpart, or does not fit it."""
        known = {*base, *plan.keys()}
        bindings = (*plan.encoder, *(b for head in plan.heads.values() for b in head))
        # GPT-2 stores weights as [inputs, outputs].
        is_transposed = {key: not b.layout.transposed for b in bindings for key in b.keys}

        def below(name: str) -> str:
            """A name in the base, which may be just the encoder, for one in the adapter's model."""
            root = plan.format.root
            names = [plan.root + name, plan.head_root + name]
            if root and name.startswith(root):
                names.insert(0, plan.root + name.removeprefix(root))
            return next((n for n in map(plan.format.renamed, names) if n in known), names[-1])

        saved: dict[str, str] = {}
        # Module -> "A", "B", "bias", "embedding_A", ... -> key.
        parts: dict[str, dict[str, str]] = {}
        for key in self.tensors:
            name = key.removeprefix(PREFIX)
            if match := _LINEAR.fullmatch(name):
                module, side, kind = match.groups()
                parts.setdefault(module, {})[side if kind == "weight" else f"{side}.bias"] = key
            elif match := _EMBEDDING.fullmatch(name):
                module, side = match.groups()
                parts.setdefault(module, {})[f"embedding_{side}"] = key
            elif ".original_module." in name:
                # The base's own tensor, which a saved one replaces. peft writes its biases with bias="all".
                continue
            elif "lora_" in name or not key.startswith(PREFIX):
                raise WeightsError(
                    f"{self.tensors.location} has {key}, which is not a tensor of LoRA as bert_zoo reads it. "
                    f"{_merge_elsewhere(self.path)}"
                )
            else:
                saved[below(_WRAPPERS.sub("", name))] = key
        updates: dict[str, Update] = {}
        for module, of_module in parts.items():
            self._check_target(module)
            weight = below(f"{module}.weight")
            of_weight = is_transposed.get(weight, False)
            found = self._updates(module, of_module, weight, of_weight, below(f"{module}.bias"))
            for key, update in found:
                if key not in base and key not in saved:
                    raise WeightsError(
                        f"{self.tensors.location} adapts {key}, which {base.location} does not have. Use the adapter's "
                        "own base model."
                    )
                updates[key] = update
        adapted = AdaptedSource(base, self.tensors, saved, updates)
        adapted.check()
        return adapted

    def _updates(
        self, module: str, parts: Mapping[str, str], weight: str, is_transposed: bool, bias: str
    ) -> Iterator[tuple[str, Update]]:
        """Yields a module's changes to its weight and, rarely, to its bias."""
        kinds = sorted(parts)
        if kinds == ["embedding_A", "embedding_B"]:
            a, b, is_transposed = parts["embedding_A"], parts["embedding_B"], True
        elif kinds in (["A", "B"], ["A", "B", "B.bias"]):
            a, b = parts["A"], parts["B"]
        else:
            raise WeightsError(
                f"{self.tensors.location} has {listing(sorted(parts.values()))} of {module}, and a LoRA "
                "adapter has A and B of each module. Copy the whole file again."
            )
        scale = self._scale(module, self.tensors.shape(a)[0])
        yield weight, Update(scale, b, a, is_transposed)
        if "B.bias" in parts:
            yield bias, Update(scale, parts["B.bias"])


class AdaptedSource(RenamedTensors):
    """A checkpoint's tensors, some (`saved`, name -> the adapter's name) replaced by an adapter's and some
    (`updates`, by name) changed by its products."""

    def __init__(
        self,
        base: TensorSource,
        adapter: TensorSource,
        saved: Mapping[str, str],
        updates: Mapping[str, Update],
    ):
        tensors = {key: (base, key) for key in base}
        tensors |= {key: (adapter, name) for key, name in saved.items()}
        super().__init__(f"{adapter.location} with {base.location}", tensors)
        self._adapter, self.updates = adapter, updates

    def check(self) -> None:
        """Raises WeightsError where a product has another shape than what it is added to."""
        for key, update in self.updates.items():
            first = 0 if update.number is None else 1
            b = self._adapter.shape(update.b)[first:]
            added = b
            if update.a is not None:
                a = self._adapter.shape(update.a)[first:]
                fits = len(a) == len(b) == 2 and a[0] == b[1]
                added = (b[0], a[1])[:: -1 if update.transposed else 1] if fits else (b, a)
            if added != tuple(self.shape(key)):
                raise WeightsError(
                    f"{self._adapter.location}: {update.b} makes a tensor of shape {added} for {key}, which "
                    f"is {tuple(self.shape(key))}. Its base is another model."
                )

    def _read(self, key: str) -> np.ndarray:
        value, update = super()._read(key), self.updates.get(key)
        return value if update is None else value.astype(np.float32) + update.value(self._adapter)


class ArraysSource(TensorSource):
    """Arrays in memory, by name."""

    def __init__(self, location: str, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays
        super().__init__(location, {key: array.shape for key, array in arrays.items()})

    def _read(self, key: str) -> np.ndarray:
        return np.asarray(self._arrays[key])


# --- Adapters in the file of their base ----------------------------------------------------------

# torch's names of A and B of a parametrized module, which hold those of all adapters.
_STACKED = re.compile(r"(.+\.parametrizations\.weight\.)0\.lora_([AB])")


def with_adapter(source: TensorSource, names: Sequence[str], chosen: str | None) -> TensorSource:
    """A file's tensors without those of its adapters, one of which may be merged into the others.

    A weight W becomes W + B A / rank, with A [adapters, rank, inputs] and B [adapters, outputs, rank]; of an embedding,
    W + A B / rank, with A [adapters, rows, rank] and B [adapters, rank, width]. Source:
    jinaai/xlm-roberta-flash-implementation modeling_lora.py.

    Args:
        source: the file, with its own names.
        names: its adapters, in their order.
        chosen: the one to merge; None for none.

    Raises:
        ValueError: there is no such adapter.
        WeightsError: the tensors do not fit each other.
    """
    stacked: dict[str, dict[str, str]] = {}  # weight -> "A" and "B" -> key
    for key in source:
        if match := _STACKED.fullmatch(key):
            stacked.setdefault(f"{match[1]}original", {})[match[2]] = key
    if not stacked:
        if chosen is None:
            return source
        raise ValueError(
            f"adapter is {shown(chosen)}, but {source.location} has no adapters. Leave it out."
        )
    of_adapters = {key for pair in stacked.values() for key in pair.values()}
    base = RenamedTensors(source.location, {k: (source, k) for k in source if k not in of_adapters})
    if chosen is None:
        log.warning(
            "%s has the adapters %s, none of which is loaded. Choose one with load(adapter=...).",
            source.location,
            listing(names),
        )
        return base
    check("adapter", chosen, str, choices=names)
    updates = {}
    for weight, pair in stacked.items():
        whole = weight in base and len(pair) == 2
        shapes = [source.shape(pair[side]) for side in "AB"] if whole else []
        if not whole or {(len(shape), shape[0]) for shape in shapes} != {(3, len(names))}:
            raise WeightsError(
                f"{source.location}: {listing(sorted(pair.values()))} must be A and B of {weight}, [{len(names)}, ..., "
                f"...] for {listing(names)}. The file is damaged: copy it again."
            )
        is_table = shapes[1][1] != source.shape(weight)[0]
        b, a = (pair[side] for side in ("AB" if is_table else "BA"))
        scale = 1 / source.shape(a)[1]
        updates[weight] = Update(scale, b, a, number=names.index(chosen))
    adapted = AdaptedSource(base, source, {}, updates)
    adapted.check()
    return adapted


def _merge_elsewhere(path: Path) -> str:
    return (
        f"Merge it in its own program (model.merge_and_unload() of peft), save the model and load that "
        f"in place of {path.parent}."
    )


# --- Writing -------------------------------------------------------------------------------------


def write_adapter(
    directory: Path,
    plan: Plan,
    bindings: Sequence[Binding],
    products: Mapping[str, tuple[np.ndarray, np.ndarray, float]],
    variables: Mapping[str, Any],
    trained: Container[str],
    *,
    task_type: str | None,
    base: str | None,
) -> None:
    """Writes an adapter's two files, with Hugging Face's names.

    `products` maps the path of a kernel to A [inputs, rank], B [rank, outputs] and their scale; `variables` are all of
    the model, by path, `trained` those that were trained in full; `task_type` is peft's word for the task, `base` the
    directory or repository of the base.

    Raises:
        ValueError: a kernel is no linear layer's weight in Hugging Face's model.
    """
    tensors: dict[str, np.ndarray] = {}
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}
    for key, pieces in _by_key(bindings, products).items():
        if not key.endswith(".weight") or any(
            binding.layout.shape is not None for binding, _ in pieces
        ):
            raise ValueError(
                f"{key} is no linear layer in Hugging Face's model, so peft has no LoRA for it. Save the "
                'model with format="hf", which merges LoRA.'
            )
        module = key.removesuffix(".weight")
        a, b, scale = _joined(key, pieces)
        tensors[f"{PREFIX}{module}.lora_A.weight"] = a
        tensors[f"{PREFIX}{module}.lora_B.weight"] = b
        ranks[module], alphas[module] = len(a), round(scale * len(a), 6)
    kept = to_stored(variables, [b for b in bindings if b.variable in trained])
    others = {key for binding in bindings for key in binding.keys} - kept.keys()
    modules = {_outermost(key, plan.root, others) for key in kept}
    # peft needs all of each module whose name ends as one of these, such as input_layernorm for norm, also what it
    # shares with the rest of the model.
    kept |= to_stored(variables, [b for b in bindings if _are_within(b.keys, modules)])
    shared = {c.of: c.key for c in plan.copies if _are_within([c.key], modules)}
    repeated = to_stored(variables, [b for b in bindings if shared.keys() & {*b.keys}])
    kept |= {shared[key]: value for key, value in repeated.items() if key in shared}
    tensors |= {PREFIX + key: value for key, value in kept.items()}
    (rank, alpha), _ = Counter(zip(ranks.values(), alphas.values(), strict=True)).most_common(1)[0]
    layouts = {key: b.layout.transposed for b in bindings for key in b.keys}
    directory.mkdir(parents=True, exist_ok=True)
    write_safetensors(directory / ADAPTER_WEIGHTS[0], tensors, {"format": "pt"})
    values = {
        "peft_type": KIND,
        "task_type": task_type,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": {module: r for module, r in ranks.items() if r != rank},
        "alpha_pattern": {module: a for module, a in alphas.items() if a != alpha},
        "target_modules": _short_names(ranks, plan),
        "modules_to_save": sorted(modules) or None,
        "fan_in_fan_out": not all(layouts[f"{module}.weight"] for module in ranks),
        "bias": "none",
        "lora_dropout": 0.0,
        "use_rslora": False,
        "init_lora_weights": True,
        "inference_mode": True,
    }
    write_json(directory / ADAPTER_CONFIG, values)


def _by_key(bindings: Sequence[Binding], products: Mapping[str, Any]) -> dict[str, list]:
    """Key -> bindings with their products, for the stored tensors of kernels with LoRA."""
    found: dict[str, list] = {}
    for binding in bindings:
        if binding.variable in products:
            for key in binding.keys:
                found.setdefault(key, []).append((binding, products[binding.variable]))
    return found


def _joined(key: str, pieces: list) -> tuple[np.ndarray, np.ndarray, float]:
    """A [rank, inputs], B [outputs, rank] and their scale for a stored tensor.

    If several kernels with their own products are parts of it, their ranks are added up.
    """
    if pieces[0][0].entry is None:
        ((binding, (a, b, scale)),) = pieces
        part = binding.to_stored(b)[key]
        part = part if binding.layout.transposed else part.T
        return np.ascontiguousarray(a.T), np.ascontiguousarray(part), scale
    pieces = sorted(pieces, key=lambda piece: piece[0].entry[0])
    scale = pieces[0][1][2]
    columns = []
    for number, (binding, (_, b, own)) in enumerate(pieces):
        part = binding.to_stored(b * (own / scale))[key]
        entries = [part if i == number else np.zeros_like(part) for i in range(len(pieces))]
        columns.append(binding.layout.joined(entries, binding.config))
    return np.concatenate([a.T for _, (a, _, _) in pieces]), np.concatenate(columns, axis=1), scale


def _short_names(modules: Iterable[str], plan: Plan) -> list[str]:
    """Names of modules without block numbers, unless these would also name other modules."""
    modules = set(modules)
    others = {key.rpartition(".")[0] for key in plan.keys()} - modules  # noqa: SIM118 (no dict)
    shorts = {re.sub(r"^.*\.\d+\.", "", module) for module in modules}
    ends = tuple(f".{short}" for short in shorts)
    clash = any(other.endswith(ends) or other in shorts for other in others)
    return sorted(modules if clash else shorts)


def _are_within(keys: Iterable[str], modules: Iterable[str]) -> bool:
    """Whether one of the tensors is part of a module whose name ends as one of `modules`."""
    return any(f"{module}." in key for key in keys for module in modules)


def _outermost(key: str, root: str, others: Collection[str]) -> str:
    """The largest module that holds a tensor and none of the others, such as a head, pooler or norm."""
    parts = key.removeprefix(root).split(".")
    modules = (".".join(parts[:number]) for number in range(1, len(parts) + 1))
    return next(m for m in modules if not any(o.startswith(f"{root}{m}.") for o in others))
