"""Makes tests/golden/model_garden: checkpoints and SavedModels of TensorFlow Model Garden, and what they compute.

In an environment of its own, for Model Garden needs Keras 2:

    python -m venv model-garden-env
    model-garden-env/bin/pip install tensorflow-cpu==2.18.* tf-keras==2.18.* tensorflow-text==2.18.* tensorflow-hub
    model-garden-env/bin/pip install scipy gin-config tf-slim sacrebleu immutabledict psutil absl-py
    model-garden-env/bin/pip install --no-deps tf-models-official==2.18.0
    model-garden-env/bin/python tools/references/golden_model_garden.py
"""

import os
import pathlib
import shutil

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from absl import app, flags
from golden_files import empty_directory, random_generator, write_json
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks

_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden/model_garden", "Directory that receives the files."
)
_SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_layers": 2,
    "num_attention_heads": 4,
    "max_sequence_length": 20,
    "type_vocab_size": 2,
}
_INNER_SIZE = 24
_ALBERT_CONFIG = {
    "vocab_size": 30,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "hidden_act": "gelu",
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0,
    "attention_probs_dropout_prob": 0,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}


def _inputs() -> dict[str, tf.Tensor]:
    random = random_generator("model_garden")
    mask = (np.arange(12) < np.array([[12], [7], [4]])).astype("int32")
    arrays = {
        "input_word_ids": random.integers(5, 30, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": random.integers(0, 2, mask.shape) * mask,
    }
    return {name: tf.constant(values, tf.int32) for name, values in arrays.items()}


def _with_random_values(model, name: str):
    random = random_generator(name)
    for variable in model.weights:
        variable.assign(random.normal(0.0, 0.3, variable.shape))
    return model


def _write(directory: pathlib.Path, inputs: dict, outputs: dict) -> None:
    named = {"input_word_ids": "token_ids", "input_mask": "padding_mask"}
    named |= {"input_type_ids": "segment_ids", "masked_lm_positions": "mask_positions"}
    arrays = {named[name]: values for name, values in inputs.items()} | outputs
    np.savez_compressed(directory / "io.npz", **{n: v.numpy() for n, v in arrays.items()})


def _encoder(**options):
    return networks.BertEncoder(
        **_SIZES, intermediate_size=_INNER_SIZE, dict_outputs=True, **options
    )


def _save_encoder(directory: pathlib.Path, encoder, prefix: str) -> None:
    inputs = _inputs()
    encoder(inputs)
    outputs = _with_random_values(encoder, directory.name)(inputs)
    names = ("sequence_output", "pooled_output")
    _write(directory, inputs, {name: outputs[name] for name in names})
    tf.train.Checkpoint(encoder=encoder).write(str(directory / prefix))


def _save_classifier(directory: pathlib.Path) -> None:
    """A SavedModel of Keras, with the optimizer's variables in it; its graph is not kept."""
    inputs = _inputs()
    model = models.BertClassifier(_encoder(), num_classes=3)
    model.compile(tf.keras.optimizers.Adam(), "mse", metrics=["accuracy"])
    model.fit(inputs, np.zeros((3, 3)), verbose=0)
    _write(directory, inputs, {"logits": _with_random_values(model, directory.name)(inputs)})
    model.save(directory)
    (directory / "saved_model.pb").write_bytes(b"")
    for name in ("keras_metadata.pb", "fingerprint.pb", "assets"):
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _save_pretrainer(directory: pathlib.Path) -> None:
    inputs = _inputs() | {"masked_lm_positions": tf.constant([[1, 2]] * 3)}
    head = layers.ClassificationHead(inner_dim=16, num_classes=2, name="next_sentence")
    model = models.BertPretrainerV2(
        _encoder(), mlm_activation=tf_utils.get_activation("gelu"), classification_heads=[head]
    )
    model(inputs)
    outputs = _with_random_values(model, directory.name)(inputs)
    _write(directory, inputs, {"logits": outputs["mlm_logits"]})
    tf.train.Checkpoint(model=model).write(str(directory / "ckpt-100"))


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    made = {
        "bert": lambda to: _save_encoder(to, _encoder(), "bert_model.ckpt"),
        "bert_v2": lambda to: _save_encoder(
            to, networks.BertEncoderV2(**_SIZES, inner_dim=_INNER_SIZE), "ckpt-1"
        ),
        "electra": lambda to: _save_encoder(to, _encoder(embedding_width=8), "ckpt-1"),
        "albert": lambda to: _save_encoder(
            to,
            networks.AlbertEncoder(
                **_SIZES, intermediate_size=_INNER_SIZE, embedding_width=8, dict_outputs=True
            ),
            "ckpt-1",
        ),
        "classification": _save_classifier,
        "masked_lm": _save_pretrainer,
    }
    for name, make in made.items():
        directory = pathlib.Path(_OUTPUT_DIR.value, name)
        empty_directory(directory)
        make(directory)
    write_json(pathlib.Path(_OUTPUT_DIR.value, "albert", "albert_config.json"), _ALBERT_CONFIG)


if __name__ == "__main__":
    app.run(main)
