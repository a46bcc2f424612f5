"""The golden cases of ELECTRA's own checkpoints, which hold generator and discriminator together.

    git clone https://github.com/google-research/electra
    python tools/references/golden_electra_tf1.py --original_dir=electra

They are written and computed by the original code (commit 8a46635, Apache 2.0) on TensorFlow 2's
version 1 interface; nothing of it is kept here.
"""

import functools
import importlib
import json
import pathlib
import sys
import types
from unittest import mock

import numpy as np
from absl import app, flags
from golden_files import GOLDEN, empty_directory, random_generator, write_json, write_lines
from tensorflow1 import TensorFlow1

_ORIGINAL_DIR = flags.DEFINE_string("original_dir", None, "The original repository.", required=True)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden/electra", "Directory that receives the cases."
)

_WORDS = "the is was it in on of and cat dog bird sat ran saw tree river film ##ing ##ed ##ly"
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(chr(code) for code in range(ord("a"), ord("z") + 1)),
    *(f"##{chr(code)}" for code in range(ord("a"), ord("z") + 1)),
    *".,!?'-",
    *_WORDS.split(),
]
_PAD, _CLS, _SEP, _MASK = (VOCABULARY.index(t) for t in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
_CONFIG = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
}


# What they show stands in cases.json.
CASES = {
    # As the released small: narrow tables, and a generator of the discriminator's size.
    "tf1_small": {"embedding_size": 16, "generator_hidden_size": 1.0},
    # As the released base: a narrower generator, which projects the tables that both read.
    "tf1_base": {"embedding_size": 32, "generator_hidden_size": 0.5},
}


@functools.cache
def original() -> types.SimpleNamespace:
    """The original's modules, without its programs for training; what is given to the sigmoid is kept."""
    import tensorflow as tf

    v1, given_to_sigmoid = TensorFlow1(tf.float32), []
    names = (name for name in dir(tf.compat.v1.nn) if name[0] != "_")
    v1.nn = types.SimpleNamespace(**{name: getattr(tf.compat.v1.nn, name) for name in names})

    def sigmoid(logits):
        given_to_sigmoid.append(logits)
        return tf.nn.sigmoid(logits)

    v1.nn.sigmoid = sigmoid
    directory = pathlib.Path(_ORIGINAL_DIR.value)
    stand_ins = {
        "tensorflow.compat.v1": v1,
        "tensorflow.contrib": v1.contrib,
        "model.optimization": types.ModuleType("model.optimization"),
        "util.training_utils": types.ModuleType("util.training_utils"),
    }
    with (
        mock.patch.dict(sys.modules, stand_ins),
        mock.patch.object(tf.compat, "v1", v1),
        mock.patch.object(sys, "path", [str(directory), *sys.path]),
    ):
        for package in ("model", "util"):
            importlib.import_module(package)
            name = "optimization" if package == "model" else "training_utils"
            setattr(sys.modules[package], name, stand_ins[f"{package}.{name}"])
        return types.SimpleNamespace(
            given_to_sigmoid=given_to_sigmoid,
            modeling=importlib.import_module("model.modeling"),
            pretraining=importlib.import_module("run_pretraining"),
            data=importlib.import_module("pretrain.pretrain_data"),
        )


def random_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Masked rows for the generator, and what the discriminator reads in their place."""
    lengths, length = np.array([16, 11, 6]), 16
    padding_mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    token_ids = rng.integers(_MASK + 1, len(VOCABULARY), padding_mask.shape).astype(np.int32)
    token_ids = np.where(padding_mask == 1, token_ids, _PAD)
    token_ids[:, 0] = _CLS
    token_ids[range(3), lengths - 1] = _SEP
    segment_ids = ((np.arange(length) >= lengths[:, None] // 2) * padding_mask).astype(np.int32)
    mask_positions = np.stack([rng.choice(np.arange(1, n - 1), 3, replace=False) for n in lengths])
    replaced = token_ids.copy()
    np.put_along_axis(token_ids, mask_positions, _MASK, axis=1)
    samples = rng.integers(_MASK + 1, len(VOCABULARY), mask_positions.shape)
    np.put_along_axis(replaced, mask_positions, samples, axis=1)
    return {
        "token_ids": token_ids.astype(np.int32),
        "replaced_token_ids": replaced.astype(np.int32),
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
        "mask_positions": mask_positions.astype(np.int32),
    }


def build(case: dict[str, float], arrays: dict[str, np.ndarray]) -> dict:
    """The original's graph over some inputs: its tensors `mlm_logits` and `discriminator_logits`."""
    import tensorflow as tf

    code = original()
    config = code.modeling.BertConfig.from_dict(_CONFIG)
    flags_of_case = types.SimpleNamespace(
        generator_hidden_size=case["generator_hidden_size"],
        generator_layers=1.0,
        uniform_generator=False,
        electric_objective=False,
        use_tpu=False,
    )
    model = code.pretraining.PretrainingModel.__new__(code.pretraining.PretrainingModel)
    model._config, model._bert_config = flags_of_case, config

    def inputs(token_ids: str):
        positions = arrays["mask_positions"]
        return code.data.Inputs(
            input_ids=tf.constant(arrays[token_ids]),
            input_mask=tf.constant(arrays["padding_mask"]),
            segment_ids=tf.constant(arrays["segment_ids"]),
            masked_lm_positions=tf.constant(positions),
            masked_lm_ids=tf.constant(np.zeros_like(positions)),
            masked_lm_weights=tf.constant(np.ones(positions.shape, np.float32)),
        )

    generator = code.pretraining.build_transformer(
        flags_of_case,
        inputs("token_ids"),
        False,
        code.pretraining.get_generator_config(flags_of_case, config),
        embedding_size=case["embedding_size"],
        untied_embeddings=False,
        scope="generator",
    )
    mlm_logits = model._get_masked_lm_output(inputs("token_ids"), generator).logits
    discriminator = code.pretraining.build_transformer(
        flags_of_case,
        inputs("replaced_token_ids"),
        False,
        config,
        embedding_size=case["embedding_size"],
    )
    labels = np.zeros_like(arrays["token_ids"])
    model._get_discriminator_output(inputs("replaced_token_ids"), discriminator, labels)
    return {
        "mlm_logits": mlm_logits,
        "discriminator_logits": code.given_to_sigmoid[-1],
        "sequence_output": discriminator.get_sequence_output(),
    }


def make_case(case: dict[str, float], directory: pathlib.Path) -> None:
    """Writes model.ckpt with the optimizer's slots, a configuration, the vocabulary and io.npz."""
    import tensorflow as tf

    empty_directory(directory)
    rng = random_generator(f"electra/{directory.name}")
    arrays, v1 = random_inputs(rng), tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = build(case, arrays)
        step = v1.train.get_or_create_global_step()
        weights = [v for v in v1.global_variables() if v is not step]
        for variable in weights:
            is_scale = variable.op.name.endswith("gamma")
            values = rng.normal(1.0 if is_scale else 0.0, 0.25, variable.shape)
            variable.load(values.astype(np.float32), session)
        step.load(100, session)
        # As the original's optimizer names them, and of few, to keep the file small.
        for variable in (v for v in weights if "/layer_0/output/dense/" in v.op.name):
            for slot in ("adam_m", "adam_v"):
                name = f"{variable.op.name}/{slot}"
                zeros = v1.get_variable(name, variable.shape, initializer=v1.zeros_initializer())
                session.run(zeros.initializer)
        v1.train.Saver().save(
            session, str(directory / "model.ckpt"), write_meta_graph=False, write_state=False
        )
        arrays |= session.run(tensors)
    np.savez_compressed(directory / "io.npz", **arrays)
    # The archives have no configuration; this one says what they leave to their program.
    config = {**_CONFIG, "model_type": "electra", "embedding_size": case["embedding_size"]}
    write_json(directory / "config.json", config)
    write_lines(directory / "vocab.txt", VOCABULARY)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    for name, case in CASES.items():
        make_case(case, output_dir / name)
    import tensorflow as tf

    path = output_dir / "cases.json"
    listing = json.loads((GOLDEN / "electra" / "cases.json").read_text())
    listing["made_with"] |= {"tensorflow": tf.__version__, "electra": "8a46635"}
    write_json(path, listing)


if __name__ == "__main__":
    app.run(main)
