"""The weight table of every family binds every variable, in every format, both ways."""

import dataclasses
import functools
from collections import Counter

import numpy as np
import pytest
from helpers import first_config, unallocated

from bert_zoo.registry import registry
from bert_zoo.weights.bind import ENCODER_PREFIX, to_stored, variables_of

# Field of a configuration -> size; no two are alike, so that a transposed tensor has another shape.
TINY_SIZES = {
    "vocab_size": 17,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_size": 12,
    "max_positions": 9,
    "head_size": 10,
    "key_heads": 1,
    "mem_len": 7,
}
# What no tensor depends on.
RATES = "hidden_dropout attention_dropout initializer_range max_characters activation".split()
TINY_CUTOFFS = (3, 7, 13)
# What programs can train beside what was released: name -> (from which checkpoint, changes).
TRAINABLE = {
    "albert-groups": (
        "albert_base.v2",
        {"num_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
    ),
    "xl-one-table": ("transformer_xl_wt103", {"div_val": 1}),
    "xl-one-projected-table": ("transformer_xl_wt103", {"div_val": 1, "embedding_size": 6}),
    "xl-one-table-untied-projections": (
        "transformer_xl_wt103",
        {"div_val": 1, "embedding_size": 6, "tie_projs": (False,) * 4},
    ),
    "xl-tied-projections": ("transformer_xl_wt103", {"tie_projs": (True,) * 4}),
    "xl-shared-biases": ("transformer_xl_wt103", {"untie_r": False, "pre_lnorm": True}),
    "xl-plain-projected": ("transformer_xl_enwik8", {"embedding_size": 6, "untie_r": True}),
}


def tiny(family, config):
    """A registered configuration made small."""
    fields = {field.name for field in dataclasses.fields(config)}
    sizes = {name: size for name, size in TINY_SIZES.items() if name in fields}
    sizes |= {name: family.defaults[name] for name in RATES if name in fields & {*family.defaults}}
    sizes |= {name: 0.1 for name in RATES[:3] if name in fields - {*family.defaults}}
    if "bottleneck_size" in fields:  # below `hidden_size`, as the token table's width
        sizes |= {"bottleneck_size": 4, "embedding_size": 6}
    if "projection_size" in fields:
        sizes |= {"cell_size": 6, "projection_size": 4, "filters": ((1, 2), (2, 3))}
    if getattr(config, "cutoffs", ()):
        sizes = {**sizes, "cutoffs": TINY_CUTOFFS, "div_val": min(config.div_val, 2)}
    return config.replace(**sizes)


def tiny_configs() -> dict[str, tuple]:
    """The registered configurations made small, each kind once, and others that can be trained."""
    found = {
        checkpoint.full_name: (family, tiny(family, family.config(checkpoint)))
        for family in registry().families.values()
        for checkpoint in family.checkpoints
    }
    for name, family in registry().families.items():
        if not family.checkpoints:
            found[name] = (family, tiny(family, first_config(family)))
    for name, (released, changes) in TRAINABLE.items():
        family, config = found[released]
        found[name] = (family, config.replace(**changes))
    configs = {}
    for name, (family, config) in found.items():
        variants = {name: config}
        if hasattr(config, "tie_word_embeddings"):
            variants = {
                f"{name}-{'tied' if tied else 'untied'}": config.replace(tie_word_embeddings=tied)
                for tied in (True, False)
            }
        for variant, changed in variants.items():
            if (family, changed) not in configs.values():
                configs[variant] = (family, changed)
    return configs


CONFIGS = tiny_configs()
POSITIONS = "encoder/embeddings/position_embedding/embeddings"


@functools.cache
def plan_of(family: str, config, fmt: str):
    return registry().families[family].plan(fmt, config)


def bindings_of(family, config, task: str, fmt: str) -> list:
    # A plan has all heads, and its encoder a pooler.
    return plan_of(family.name, config.with_pooler(True), fmt).bindings(task, config.pooler)


def formats_of(family) -> list[str]:
    """The formats that have names of their own for tensors."""
    return [name for name, fmt in family.formats.items() if fmt.root is not None]


def ties(family, config, task: str) -> bool:
    """Whether the task has a projection that can be tied to the embeddings."""
    variables = [
        {b.variable for fmt in formats_of(family) for b in bindings_of(family, variant, task, fmt)}
        for variant in (config, config.replace(tie_word_embeddings=True))
    ]
    return variables[0] != variables[1]


def repeated(names) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_variable_is_bound_once_and_inverses_restore_it(name):
    family, config = CONFIGS[name]
    encoders = {}
    for task in family.tasks:
        # As `load` makes it: what stands in a head may be another one's pooler.
        head = family.heads.get(task)
        config = config if head is None else config.with_pooler(head.pooler)
        if getattr(config, "tie_word_embeddings", True) or ties(family, config, task):
            model = unallocated(config, task, family.name, encoders.get(config))
            encoders[config] = getattr(model, "encoder", model)
            assert_bound_once_with_inverses(family, config, task, variables_of(model))


def assert_bound_once_with_inverses(family, config, task: str, variables) -> None:
    rng = np.random.default_rng(0)
    values = {path: rng.standard_normal(v.shape, "float32") for path, v in variables.items()}
    for fmt in formats_of(family):
        bindings = bindings_of(family, config, task, fmt)
        bound = [binding.variable for binding in bindings]
        assert not repeated(bound)
        assert set(bound) == set(variables), (task, fmt)
        # A module that the format lacks.
        bindings = [binding for binding in bindings if binding.keys]
        assert not repeated((key, b.entry) for b in bindings for key in b.keys), (task, fmt)
        stored = {k: np.asarray(v) for k, v in to_stored(values, bindings).items()}
        for binding in bindings:
            value, tensors = values[binding.variable], [stored[key] for key in binding.keys]
            assert [tensor.shape for tensor in tensors] == binding.stored_shapes(value.shape)
            ours = binding.to_ours(tensors, value.shape)
            # Some files lack the first rows of a table, as that of padding.
            lacking = ~ours.reshape(len(ours), -1).any(axis=1)
            assert not lacking[-1] and np.array_equal(ours[~lacking], value[~lacking]), binding
            assert not lacking.any() or binding.variable == POSITIONS, binding


@pytest.mark.parametrize(
    ("name", "fmt"),
    [(name, fmt) for name, (family, _) in CONFIGS.items() for fmt in formats_of(family)],
)
def test_no_task_reads_a_key_for_another_variable_than_the_other_tasks(name, fmt):
    """A key of the encoder means one thing, and one of a head in the files of one class."""
    family, config = CONFIGS[name]
    classes, variable_of = getattr(family.formats.get("hf"), "classes", {}), {}
    for task in family.tasks:
        for binding in bindings_of(family, config, task, fmt):
            of_encoder = binding.variable.startswith(ENCODER_PREFIX)
            file = None if of_encoder else classes.get(task, task)
            for key in binding.keys:
                variable = binding.variable
                assert variable_of.setdefault((file, key, binding.entry), variable) == variable
