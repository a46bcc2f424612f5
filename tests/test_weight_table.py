"""The weight table of every family binds every variable, in every format, both ways."""

from collections import Counter

import numpy as np
import pytest
from helpers import unallocated

from bert_zoo.models.loading import HEADLESS
from bert_zoo.registry import registry
from bert_zoo.weights.bind import ENCODER_PREFIX, Naming, named_variables

# No two sizes are alike, so that a transposed tensor has another shape.
TINY_SIZES = {
    "vocab_size": 17,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_size": 12,
    "max_positions": 9,
}


def tiny_configs() -> dict[str, tuple]:
    """The registered configurations made small, each kind once, and what Hugging Face adds."""
    configs = {}
    for family in registry().families.values():
        for checkpoint in family.checkpoints:
            config = family.config(checkpoint).replace(**TINY_SIZES)
            for tied in (True, False):
                variant = (family, config.replace(tie_word_embeddings=tied))
                if variant not in configs.values():
                    configs[f"{checkpoint.full_name}-{'tied' if tied else 'untied'}"] = variant
    family, config = configs["albert_base.v2-tied"]
    groups = config.replace(num_layers=4, num_hidden_groups=2, inner_group_num=2)
    configs["albert-groups"] = (family, groups)
    return configs


CONFIGS = tiny_configs()
CASES = [
    pytest.param(family, config, task, id=f"{name}-{task}")
    for name, (family, config) in CONFIGS.items()
    for task in (*HEADLESS, *family.heads)
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
    for fmt in family.roots:
        bindings = bindings_of(family, config, task, fmt)
        bound = [binding.variable for binding in bindings]
        assert not repeated(bound)
        assert set(bound) == set(variables), fmt
        # A module that the format lacks.
        bindings = [binding for binding in bindings if binding.keys]
        assert not repeated(key for binding in bindings for key in binding.keys), fmt
        for binding in bindings:
            shape = tuple(variables[binding.variable].shape)
            value = rng.standard_normal(shape, "float32")
            stored = binding.to_stored(value)
            assert {tensor.shape for tensor in stored.values()} == {binding.stored_shape(shape)}
            restored = binding.to_ours([stored[key] for key in binding.keys])
            assert np.array_equal(restored, value), binding


@pytest.mark.parametrize(
    ("name", "fmt"), [(name, fmt) for name, (family, _) in CONFIGS.items() for fmt in family.roots]
)
def test_no_task_reads_a_key_for_another_variable_than_the_other_tasks(name, fmt):
    """Heads of one class share names ("classifier"); within the encoder a key means one thing."""
    family, config = CONFIGS[name]
    variable_of = {}
    for task in (*HEADLESS, *family.heads):
        for binding in bindings_of(family, config, task, fmt):
            for key in binding.keys:
                variable = binding.variable.removeprefix(ENCODER_PREFIX)
                assert variable_of.setdefault(key, variable) == variable


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
    config = family.config(checkpoint).replace(**{**TINY_SIZES, "num_layers": 1})
    variables = named_variables(unallocated(config, "pretraining"))
    ours = {
        f"{key} {','.join(map(str, binding.stored_shape(tuple(variables[binding.variable].shape))))}"
        for binding in bindings_of(family, config, "pretraining", "tf1")
        for key in binding.keys
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
