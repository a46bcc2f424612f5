"""The weight table of every family binds every variable, in every format, both ways."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers import unallocated

from bert_zoo.config import EncoderConfig
from bert_zoo.families import bert
from bert_zoo.registry import registry
from bert_zoo.weights.bind import RenamedSource, assign, expand, to_stored, variables_of
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.formats import TF1, HuggingFace
from bert_zoo.weights.table import DENSE, Head, Row, SecondEncoder, Stored, raw
from bert_zoo.weights.tensor_source import TensorSource

# Field of a configuration -> size; no two are alike, so that a transposed tensor has another shape.
TINY_SIZES = {
    "vocab_size": 17,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_size": 12,
    "max_positions": 9,
    "head_size": 5,
    "mem_len": 7,
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
    fields = {field.name for field in dataclasses.fields(config)}
    sizes = {name: size for name, size in TINY_SIZES.items() if name in fields}
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
    for task in family.tasks
]


def bindings_of(family, config, task: str, fmt: str) -> list:
    return family.plan(fmt, config).bindings(task, config.pooler)


def formats_of(family) -> list[str]:
    """The formats that have names of their own for tensors."""
    return [name for name, fmt in family.formats.items() if fmt.root is not None]


def repeated(names) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


@pytest.mark.parametrize(("family", "config", "task"), CASES)
def test_every_variable_is_bound_once_and_inverses_restore_it(family, config, task):
    variables = variables_of(unallocated(config, task, family.name))
    rng = np.random.default_rng(0)
    values = {path: rng.standard_normal(v.shape, "float32") for path, v in variables.items()}
    for fmt in formats_of(family):
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
            assert np.array_equal(binding.to_ours(tensors, value.shape), value), binding


@pytest.mark.parametrize(
    ("name", "fmt"),
    [(name, fmt) for name, (family, _) in CONFIGS.items() for fmt in formats_of(family)],
)
def test_no_task_reads_a_key_for_another_variable_than_the_other_tasks(name, fmt):
    """Heads of one class share names ("classifier"); within the encoder a key means one thing."""
    family, config = CONFIGS[name]
    variable_of = {}
    for task in family.tasks:
        for binding in bindings_of(family, config, task, fmt):
            for key in binding.keys:
                variable = binding.variable
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
    config = tiny(family, checkpoint).replace(num_layers=1)
    variables = variables_of(unallocated(config, "pretraining"))
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
    assert {key for b in family.plan("tf1", config).heads[task] for key in b.keys} == names


# ---------------------------------------------------------------------------------------------
# What families to come need of the table
# ---------------------------------------------------------------------------------------------


class Arrays(TensorSource):
    """Arrays as a file of weights."""

    def __init__(self, arrays):
        self.arrays = arrays
        super().__init__("tf1", "arrays", {key: value.shape for key, value in arrays.items()})

    def _read(self, key):
        return self.arrays[key]


class Variable:
    """What `assign` needs of a variable."""

    def __init__(self, shape):
        self.shape = shape

    def assign(self, value):
        assert value.shape == self.shape
        self.value = value


@dataclass(frozen=True, kw_only=True)
class WithGenerator(EncoderConfig):
    """A discriminator's configuration, and its generator's width."""

    generator_size: int = 4

    @property
    def generator(self):
        sizes = {"hidden_size": self.generator_size, "intermediate_size": 6, "num_layers": 1}
        return self.replace(pooler=False, **sizes)


# google-research/electra: model/modeling.py BertModel, run_pretraining.py. The tables and their norm are
# stored once, for both encoders.
SHARED = tuple(
    row.named(tf1=f"/electra/{row.names['hf'][0].replace('.', '/')}")
    for row in bert.ENCODER_ROWS
    if row.ours.startswith("embeddings/")
)
OWN = (
    Row(DENSE, "embeddings/projection", hf="embeddings_project"),
    *(row for row in bert.ENCODER_ROWS if row.ours.startswith("stack/")),
)
PREDICTIONS = Row(DENSE, "discriminator/dense", tf1="discriminator_predictions/dense")
TWO_ENCODERS = replace(
    registry().families["bert"],
    name="two",
    config_class=WithGenerator,
    encoder_rows=(*SHARED, *OWN),
    heads={
        "pretraining": Head(
            (
                SecondEncoder(OWN, "generator/", "generator", lambda config: config.generator),
                PREDICTIONS,
            )
        )
    },
    formats={"tf1": TF1(root="electra/", encoders={"generator": "generator/"})},
)
TWO_CONFIG = WithGenerator(
    vocab_size=11,
    hidden_size=8,
    num_layers=2,
    num_heads=2,
    intermediate_size=12,
    max_positions=9,
    pooler=False,
)


def two_encoders() -> Arrays:
    """The tensors of an archive of ELECTRA, tiny, each with values of its own."""
    widths = {"electra": (8, 12, 2), "generator": (4, 6, 1)}
    shapes = {"word_embeddings": (11, 3), "position_embeddings": (9, 3)}
    shapes |= {"token_type_embeddings": (2, 3), "LayerNorm/gamma": (3,), "LayerNorm/beta": (3,)}
    shapes = {f"electra/embeddings/{name}": shape for name, shape in shapes.items()}
    for root, (hidden, intermediate, layers) in widths.items():
        dense = {"embeddings_project": (3, hidden)}
        for i in range(layers):
            layer = f"encoder/layer_{i}"
            for name in ("self/query", "self/key", "self/value", "output/dense"):
                dense[f"{layer}/attention/{name}"] = (hidden, hidden)
            dense[f"{layer}/intermediate/dense"] = (hidden, intermediate)
            dense[f"{layer}/output/dense"] = (intermediate, hidden)
            for norm in ("attention/output", "output"):
                for part in ("gamma", "beta"):
                    shapes[f"{root}/{layer}/{norm}/LayerNorm/{part}"] = (hidden,)
        for name, (inputs, outputs) in dense.items():
            shapes[f"{root}/{name}/kernel"] = (inputs, outputs)
            shapes[f"{root}/{name}/bias"] = (outputs,)
    shapes |= {"discriminator_predictions/dense/kernel": (8, 8)}
    shapes |= {"discriminator_predictions/dense/bias": (8,)}
    shapes |= {f"{key}/adam_{slot}": shape for key, shape in shapes.items() for slot in "mv"}
    rng = np.random.default_rng(0)
    return Arrays({key: rng.standard_normal(s).astype("float32") for key, s in shapes.items()})


def loaded_variables(source, encoder="", task="encoder") -> dict[str, np.ndarray]:
    """What each variable of a task's model gets of a source."""
    config = TWO_CONFIG.generator if encoder else TWO_CONFIG
    plan = TWO_ENCODERS.plan_of(source, config, encoder)
    source = RenamedSource(source, plan.format)
    bindings = plan.bindings(task, pooler=False)
    variables = {}
    for binding in bindings:
        shapes = [source.shape(key) for key in binding.keys if key in source] or [(0,)]
        fused = (*shapes[0][:-1], sum(shape[-1] for shape in shapes))
        variables[binding.variable] = Variable(fused)
    assign(variables, bindings, source, plan)
    return {path: variable.value for path, variable in variables.items()}


def test_one_file_holds_two_encoders_that_share_tables():
    source = two_encoders()
    table = source["electra/embeddings/word_embeddings"]
    first, second = loaded_variables(source), loaded_variables(source, "generator")
    assert first.keys() > second.keys()  # one layer more
    for encoder, root in ((first, "electra"), (second, "generator")):
        assert encoder["encoder/embeddings/token_embedding/embeddings"] is table
        kernel = encoder["encoder/embeddings/projection/kernel"]
        assert kernel is source[f"{root}/embeddings_project/kernel"]
        output = encoder["encoder/stack/layer_0/output_norm/gamma"]
        assert output is source[f"{root}/encoder/layer_0/output/LayerNorm/gamma"]


def test_pretraining_reads_both_encoders_of_a_file():
    source = two_encoders()
    both = loaded_variables(source, task="pretraining")
    generator = {path for path in both if path.startswith("generator/")}
    assert not [path for path in generator if "token_embedding" in path]
    kernel = both["generator/embeddings/projection/kernel"]
    assert kernel is source["generator/embeddings_project/kernel"]
    extra = "generator/encoder/layer_1/output/LayerNorm/gamma"
    with pytest.raises(WeightsError, match=f"not known.*{extra}"):
        loaded_variables(Arrays({**source.arrays, extra: np.zeros(4)}), task="pretraining")
    del source.arrays["generator/encoder/layer_0/output/LayerNorm/gamma"]
    with pytest.raises(WeightsError, match="missing: generator/encoder/layer_0/output"):
        loaded_variables(Arrays(source.arrays), task="pretraining")


def test_kernels_with_an_axis_for_heads_are_reshaped():
    """As XLNet's: [hidden, heads, size] for queries and for the output, whose axes are swapped."""

    def shape(config):
        return (config.hidden_size, config.num_heads, config.hidden_size // config.num_heads)

    inwards = {"kernel": dict.fromkeys(("pytorch", "tensorflow"), Stored("", shape=shape))}
    outwards = {"kernel": {"pytorch": Stored("", transposed=True, shape=shape)}}
    rows = (
        Row(inwards, "stack/layer_{i}/qkv", hf=tuple(f"layer.{{i}}.{part}" for part in "qkv")),
        Row(outwards, "stack/layer_{i}/output", hf="layer.{i}.o"),
        Row(raw("bias"), "stack/layer_{i}", hf="bias", stacked=("hf",)),
    )
    rng = np.random.default_rng(0)
    values = {
        f"encoder/stack/layer_{i}/{name}": rng.standard_normal(size)
        for i in range(2)
        for name, size in (("qkv/kernel", (8, 24)), ("output/kernel", (8, 8)), ("bias", (2, 4)))
    }
    bindings = list(expand(rows, TWO_CONFIG, HuggingFace(), "encoder/", "", ""))
    stored = to_stored(values, bindings)
    assert stored["layer.1.k"].shape == stored["layer.0.o"].shape == (8, 2, 4)
    assert stored["bias"].shape == (2, 2, 4)
    # A head's output is the sum over its own columns.
    head = values["encoder/stack/layer_0/output/kernel"][4:].T
    assert np.array_equal(stored["layer.0.o"][:, 1], head)
    for binding in bindings:
        value, tensors = values[binding.variable], [stored[key] for key in binding.keys]
        assert [tensor.shape for tensor in tensors] == binding.stored_shapes(value.shape)
        assert np.array_equal(binding.to_ours(tensors, value.shape), value)
