"""The weight table of every family binds every variable, in every format, both ways."""

from collections import Counter

import numpy as np
import pytest
from helpers import unallocated

from bert_zoo.config import EncoderConfig
from bert_zoo.recurrent_config import RecurrentConfig
from bert_zoo.registry import registry
from bert_zoo.weights.bind import ENCODER_PREFIX, Naming, named_variables, to_stored

# No two sizes are alike, so that a transposed tensor has another shape.
SHARED_SIZES = {
    "vocab_size": 17,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_size": 12,
}
TINY_SIZES = {
    EncoderConfig: {**SHARED_SIZES, "max_positions": 9},
    RecurrentConfig: {**SHARED_SIZES, "head_size": 5, "mem_len": 7},
}
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


def tiny(family, checkpoint):
    """A registered configuration made small."""
    config = family.config(checkpoint)
    sizes = next(sizes for kind, sizes in TINY_SIZES.items() if isinstance(config, kind))
    if getattr(config, "cutoffs", ()):
        sizes = {**sizes, "cutoffs": TINY_CUTOFFS, "div_val": min(config.div_val, 2)}
    return config.replace(**sizes)


def tiny_configs() -> dict[str, tuple]:
    """The registered configurations made small, each kind once, and others that can be trained."""
    found = {
        checkpoint.full_name: (family, tiny(family, checkpoint))
        for family in registry().families.values()
        for checkpoint in family.checkpoints
    }
    for name, (released, changes) in TRAINABLE.items():
        family, config = found[released]
        found[name] = (family, config.replace(**changes))
    configs = {}
    for name, (family, config) in found.items():
        for tied in (True, False):
            variant = (family, config.replace(tie_word_embeddings=tied))
            if variant not in configs.values():
                configs[f"{name}-{'tied' if tied else 'untied'}"] = variant
    return configs


CONFIGS = tiny_configs()
CASES = [
    pytest.param(family, config, task, id=f"{name}-{task}")
    for name, (family, config) in CONFIGS.items()
    for task in (*family.headless, *family.heads)
]


def bindings_of(family, config, task: str, fmt: str) -> list:
    naming = Naming(family, fmt, family.roots[fmt])
    prefix = "" if task == "encoder" else ENCODER_PREFIX
    return naming.encoder(config, prefix) + naming.head(task, config)


def repeated(names) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


@pytest.mark.parametrize(("family", "config", "task"), CASES)
def test_every_variable_is_bound_once_and_inverses_restore_it(family, config, task):
    variables = named_variables(unallocated(config, task, family.name))
    rng = np.random.default_rng(0)
    values = {path: rng.standard_normal(v.shape, "float32") for path, v in variables.items()}
    for fmt in family.roots:
        bindings = bindings_of(family, config, task, fmt)
        bound = [binding.variable for binding in bindings]
        assert not repeated(bound)
        assert set(bound) == set(variables), fmt
        # A module that the format lacks.
        bindings = [binding for binding in bindings if binding.keys]
        assert not repeated((key, b.entry) for b in bindings for key in b.keys), fmt
        stored = to_stored(values, bindings)
        for binding in bindings:
            value, tensors = values[binding.variable], [stored[key] for key in binding.keys]
            assert [tensor.shape for tensor in tensors] == binding.stored_shapes(value.shape)
            assert np.array_equal(binding.to_ours(tensors), value), binding


@pytest.mark.parametrize(
    ("name", "fmt"), [(name, fmt) for name, (family, _) in CONFIGS.items() for fmt in family.roots]
)
def test_no_task_reads_a_key_for_another_variable_than_the_other_tasks(name, fmt):
    """Heads of one class share names ("classifier"); within the encoder a key means one thing."""
    family, config = CONFIGS[name]
    variable_of = {}
    for task in (*family.headless, *family.heads):
        for binding in bindings_of(family, config, task, fmt):
            for key in binding.keys:
                variable = binding.variable.removeprefix(ENCODER_PREFIX)
                assert variable_of.setdefault((key, binding.entry), variable) == variable


GOOGLE_NAMES = """
bert/embeddings/word_embeddings 17,8
bert/embeddings/position_embeddings 9,8
bert/embeddings/token_type_embeddings 2,8
bert/embeddings/LayerNorm/gamma 8
bert/embeddings/LayerNorm/beta 8
bert/encoder/layer_0/attention/self/query/kernel 8,8
bert/encoder/layer_0/attention/self/query/bias 8
bert/encoder/layer_0/attention/self/key/kernel 8,8
bert/encoder/layer_0/attention/self/key/bias 8
bert/encoder/layer_0/attention/self/value/kernel 8,8
bert/encoder/layer_0/attention/self/value/bias 8
bert/encoder/layer_0/attention/output/dense/kernel 8,8
bert/encoder/layer_0/attention/output/dense/bias 8
bert/encoder/layer_0/attention/output/LayerNorm/gamma 8
bert/encoder/layer_0/attention/output/LayerNorm/beta 8
bert/encoder/layer_0/intermediate/dense/kernel 8,12
bert/encoder/layer_0/intermediate/dense/bias 12
bert/encoder/layer_0/output/dense/kernel 12,8
bert/encoder/layer_0/output/dense/bias 8
bert/encoder/layer_0/output/LayerNorm/gamma 8
bert/encoder/layer_0/output/LayerNorm/beta 8
bert/pooler/dense/kernel 8,8
bert/pooler/dense/bias 8
cls/predictions/transform/dense/kernel 8,8
cls/predictions/transform/dense/bias 8
cls/predictions/transform/LayerNorm/gamma 8
cls/predictions/transform/LayerNorm/beta 8
cls/predictions/output_bias 17
cls/seq_relationship/output_weights 2,8
cls/seq_relationship/output_bias 2
"""


def test_bert_has_the_names_and_shapes_of_googles_checkpoints():
    family = registry().families["bert"]
    _, checkpoint = registry().resolve("bert_base_uncased")
    config = family.config(checkpoint).replace(**{**TINY_SIZES[EncoderConfig], "num_layers": 1})
    variables = named_variables(unallocated(config, "pretraining"))
    ours = {
        f"{key} {','.join(map(str, wanted))}"
        for binding in bindings_of(family, config, "pretraining", "tf1")
        for key, wanted in zip(
            binding.keys, binding.stored_shapes(variables[binding.variable].shape), strict=True
        )
    }
    assert ours == set(GOOGLE_NAMES.split("\n")[1:-1])


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("classification", {"output_weights", "output_bias"}),
        ("question_answering", {"cls/squad/output_weights", "cls/squad/output_bias"}),
    ],
)
def test_fine_tuned_heads_have_the_names_of_googles_programs(task, names):
    family, config = next(iter(CONFIGS.values()))
    naming = Naming(family, "tf1", family.roots["tf1"])
    assert {key for b in naming.head(task, config) for key in b.keys} == names
