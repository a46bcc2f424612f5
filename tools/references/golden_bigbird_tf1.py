"""The golden cases of BigBird's own checkpoints.

    git clone https://github.com/google-research/bigbird
    python tools/references/golden_bigbird_tf1.py --original_dir=bigbird

They are written and computed by the original code (commit 5e7d375, Apache 2.0) on TensorFlow 2's
version 1 interface; nothing of it is kept here.
"""

import functools
import importlib
import json
import pathlib
import shutil
import sys
import types
from unittest import mock

import numpy as np
from absl import app, flags
from golden_files import GOLDEN, empty_directory, random_generator, write_json

_ORIGINAL_DIR = flags.DEFINE_string("original_dir", None, "The original repository.", required=True)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden/bigbird", "Directory that receives the cases."
)

# Of the vocabulary of `bigbird/encoder`.
_PIECES, _PAD, _CLS, _SEP, _FIRST = 93, 0, 4, 5, 7
_LENGTH = 40
# What its scripts leave to the flags, and sizes; a run writes them beside its checkpoints.
_CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "attention_type": "block_sparse",
    "block_size": 4,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "max_encoder_length": _LENGTH,
    "max_position_embeddings": _LENGTH,
    "norm_type": "postnorm",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_rand_blocks": 1,
    "rescale_embedding": False,
    "scope": "bert",
    "type_vocab_size": 2,
    "use_bias": True,
    "use_gradient_checkpointing": False,
    "vocab_size": _PIECES,
}

# What they show stands in cases.json.
CASES = {
    "tf1_pretraining": {},
    "tf1_no_biases": {
        "use_bias": False,
        "rescale_embedding": True,
        "num_rand_blocks": 2,
        "block_size": 2,
    },
    "tf1_classification": {"num_hidden_layers": 1, "num_labels": 3},
    # As the first checkpoints were written, without the settings of a run: blocks are of 64 tokens.
    "tf1_by_head": {"num_hidden_layers": 1, "attention_type": "original_full"},
}
_BY_HEAD = "tf1_by_head"
# With an axis for heads.
_SHAPES = {"kernel": (32, 4, 8), "bias": (4, 8), "output/dense/kernel": (4, 8, 32)}


class Layer:
    """What the original uses of Keras 2's layers: calling."""

    def __init__(self, name=None):
        self.name, self._trainable_weights = name, []

    @property
    def trainable_weights(self):
        return self._trainable_weights

    def __call__(self, *arguments, **options):
        return self.call(*arguments, **options)


class Dropout(Layer):
    def __init__(self, rate):
        super().__init__()

    def call(self, inputs, training=None):
        return inputs


class Length(int):
    """A number of tokens for which the original takes sparse attention, though they are not above 512."""

    def __le__(self, other):
        return False


class TensorFlow(types.ModuleType):
    """A module of `tf.compat.v2` with these layers."""

    def __init__(self, module):
        super().__init__("tensorflow.compat.v2")
        self._module = module
        self.keras = types.SimpleNamespace(
            layers=types.SimpleNamespace(Layer=Layer, Dropout=Dropout)
        )

    def __getattr__(self, name: str):
        return getattr(self._module, name)


@functools.cache
def original() -> types.SimpleNamespace:
    """The original's modules, without its programs' flags, data and optimizers."""
    import tensorflow as tf

    names = ("optimization", "flags")
    stand_ins = {f"bigbird.core.{name}": types.ModuleType(f"bigbird.core.{name}") for name in names}
    for name in ("natsort", "tensorflow_datasets", "sentencepiece"):
        stand_ins[name] = types.ModuleType(name)
    stand_ins["natsort"].natsorted = sorted
    defining = {"DEFINE_string", "DEFINE_bool", "DEFINE_integer", "DEFINE_float", "DEFINE_enum"}
    stand_ins["bigbird.core.flags"].__dict__.update(
        {name: lambda *arguments: None for name in defining}, FLAGS=types.SimpleNamespace()
    )
    stand_ins["tensorflow.compat.v2"] = v2 = TensorFlow(tf.compat.v2)
    with (
        mock.patch.dict(sys.modules, stand_ins),
        mock.patch.object(tf.compat, "v2", v2),
        mock.patch.object(sys, "path", [_ORIGINAL_DIR.value, *sys.path]),
    ):
        core = importlib.import_module("bigbird.core")
        for name in names:
            setattr(core, name, stand_ins[f"bigbird.core.{name}"])
        return types.SimpleNamespace(
            modeling=importlib.import_module("bigbird.core.modeling"),
            utils=importlib.import_module("bigbird.core.utils"),
            pretraining=importlib.import_module("bigbird.pretrain.run_pretraining"),
            classifier=importlib.import_module("bigbird.classifier.run_classifier"),
        )


def random_inputs(rng: np.random.Generator, lengths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """`[CLS] ... [SEP]`, perhaps two texts; padding is what has the id 0, as the original has no mask."""
    lengths = np.array(lengths)
    padding_mask = (np.arange(_LENGTH) < lengths[:, None]).astype(np.int32)
    token_ids = rng.integers(_FIRST, _PIECES, padding_mask.shape)
    token_ids = np.where(padding_mask == 1, token_ids, _PAD)
    token_ids[:, 0] = _CLS
    token_ids[range(3), lengths - 1] = _SEP
    segment_ids = (np.arange(_LENGTH) >= lengths[:, None] // 2) * padding_mask
    return {
        "token_ids": token_ids.astype(np.int32),
        "segment_ids": segment_ids.astype(np.int32),
        "padding_mask": padding_mask,
    }


def logits(log_probs):
    return log_probs.op.inputs[0]


def build(config: dict, arrays: dict[str, np.ndarray]) -> dict:
    """The original's graph over some inputs: its tensors by our names."""
    import tensorflow as tf

    code = original()
    model = code.modeling.BertModel({**config, "max_encoder_length": Length(_LENGTH)})
    initializer = code.utils.create_initializer(config["initializer_range"])
    ids = (tf.constant(arrays[name]) for name in ("token_ids", "segment_ids"))
    sequence_output, pooled_output = model(*ids, training=False)
    if "num_labels" in config:
        head = code.classifier.ClassifierLossLayer(
            config["hidden_size"], config["num_labels"], 0.0, initializer, name="bert/classifier"
        )
        return {"logits": logits(head(pooled_output)[1])}
    activation = code.utils.get_activation(config["hidden_act"])
    masked_lm = code.pretraining.MaskedLMLayer(
        config["hidden_size"], config["vocab_size"], model.embeder, initializer, activation
    )
    next_sentence = code.pretraining.NSPLayer(config["hidden_size"], initializer)
    mlm_logits = logits(masked_lm(sequence_output)[1])
    return {
        "mlm_logits": mlm_logits,
        "logits": mlm_logits,
        "nsp_logits": logits(next_sentence(pooled_output)[1]),
        "sequence_output": sequence_output,
        "pooled_output": pooled_output,
    }


def by_head(name: str, values: np.ndarray) -> np.ndarray:
    """A variable as the first checkpoints hold it."""
    if "/self/" in name:
        return values.reshape(_SHAPES[name.rpartition("/")[2]])
    is_output = name.endswith("attention/output/dense/kernel")
    return values.reshape(_SHAPES["output/dense/kernel"]) if is_output else values


def make_case(changes: dict, directory: pathlib.Path) -> None:
    """Writes a checkpoint with an optimizer's slots, the run's settings, the vocabulary and io.npz."""
    import tensorflow as tf

    empty_directory(directory)
    rng = random_generator(f"bigbird/{directory.name}")
    config, v1 = _CONFIG | changes, tf.compat.v1
    # In full attention, the original's padding attends to everything.
    is_sparse = config["attention_type"] == "block_sparse"
    arrays = random_inputs(rng, (_LENGTH, 37, 30) if is_sparse else (_LENGTH,) * 3)
    stored = {}
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = build(config, arrays)
        for variable in v1.global_variables():
            is_scale = variable.op.name.endswith("gamma")
            values = rng.normal(1.0 if is_scale else 0.0, 0.25, variable.shape).astype(np.float32)
            variable.load(values, session)
            stored[variable.op.name] = values
        arrays |= session.run(tensors)
    if directory.name == _BY_HEAD:
        stored = {name: by_head(name, values) for name, values in stored.items()}
    else:
        write_json(directory / "run.config", config)
    slots = ("AdamWeightDecayOptimizer", "AdamWeightDecayOptimizer_1")
    stored |= {f"bert/pooler/dense/bias/{slot}": np.zeros(32, np.float32) for slot in slots}
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        for name, values in stored.items():
            v1.get_variable(name, initializer=values)
        session.run(v1.global_variables_initializer())
        step.load(100, session)
        v1.train.Saver().save(
            session, str(directory / "model.ckpt"), write_meta_graph=False, write_state=False
        )
    names = {
        "encoder": ("sequence_output", "pooled_output"),
        "pretraining": ("mlm_logits", "nsp_logits"),
    }
    inputs = ("token_ids", "segment_ids", "padding_mask")
    kept = (*inputs, *names.get(_listed()[directory.name]["task"], ("logits",)))
    np.savez_compressed(directory / "io.npz", **{name: arrays[name] for name in kept})
    shutil.copy(GOLDEN / "bigbird" / "encoder" / "spiece.model", directory)


def _listed() -> dict[str, dict]:
    return json.loads((GOLDEN / "bigbird" / "cases.json").read_text())["cases"]


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    for name, changes in CASES.items():
        make_case(changes, output_dir / name)
    import tensorflow as tf

    listing = json.loads((GOLDEN / "bigbird" / "cases.json").read_text())
    listing["made_with"] |= {"tensorflow": tf.__version__, "bigbird": "5e7d375"}
    write_json(output_dir / "cases.json", listing)


if __name__ == "__main__":
    app.run(main)
