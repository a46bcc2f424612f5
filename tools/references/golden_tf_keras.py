"""Makes tests/golden/tf_keras: what transformers' TensorFlow classes store of the golden checkpoints.

Each of their checkpoints that has a TensorFlow class in transformers 4.46 is loaded by it from its
safetensors file, its outputs are compared with the reference's, and its tf_model.h5 is written:

- `names.json.gz`: of each case, the path of every array in that file -> the CRC-32 of its bytes
- `<name>.h5`: the file itself, of some cases

In an environment of its own, for these classes need Keras 2:

    python -m venv tf-keras-env
    tf-keras-env/bin/pip install transformers==4.46.3 tensorflow-cpu==2.18.* tf-keras==2.18.* sentencepiece absl-py
    tf-keras-env/bin/python tools/references/golden_tf_keras.py
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import tempfile
import zlib

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import h5py
import numpy as np
import safetensors.numpy
import tensorflow as tf
import transformers
from absl import app, flags, logging
from transformers.modeling_tf_pytorch_utils import load_pytorch_state_dict_in_tf2_model

_GOLDEN_DIR = flags.DEFINE_string("golden_dir", "tests/golden", "Directory of the checkpoints.")
_TOLERANCE = 1e-5
# This class has GELU by the error function, and PyTorch's its tanh approximation.
_OTHER_GELU = {"OpenAIGPT": 1e-3}
# Files that are kept, of these cases.
_KEPT = {
    "bert": "bert/pretraining",
    "bert_classification": "bert/classification",
    "deberta_v2": "deberta_v2/encoder_convolution",
    "gpt2": "gpt2/causal_lm",
    "transformer_xl": "transformer_xl/hf_adaptive",
    "xlnet": "xlnet/question_answering",
}
_INPUTS = {
    "token_ids": "input_ids",
    "segment_ids": "token_type_ids",
    "padding_mask": "attention_mask",
    "position_ids": "position_ids",
    "language_ids": "langs",
}
_OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "mlm_logits": "prediction_logits",
    "nsp_logits": "seq_relationship_logits",
    "sop_logits": "sop_logits",
}


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    transformers.utils.logging.set_verbosity_error()
    # An attribute that version 4.46 misspells, of a rate that plays no part here.
    transformers.ElectraConfig.classifhidden_dropout_probier_dropout = 0.0
    golden = pathlib.Path(_GOLDEN_DIR.value)
    stored = {}
    for file in sorted(golden.glob("*/*cases.json")):
        for name, case in json.loads(file.read_text())["cases"].items():
            directory = file.parent / name
            tf_class = getattr(transformers, f"TF{case.get('model_class')}", None)
            if tf_class is None or not (directory / "model.safetensors").is_file():
                continue
            # Tied by these classes, whatever the configuration says; not implemented by Transformer-XL's.
            if "untied" in name or name == "hf_div1":
                continue
            case_name = f"{file.parent.name}/{name}"
            if found := _stored(tf_class, directory, golden, case_name):
                stored[case_name] = found
    directory = golden / "tf_keras"
    text = json.dumps(stored, indent=0, sort_keys=True) + "\n"
    (directory / "names.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _stored(tf_class, directory: pathlib.Path, golden: pathlib.Path, case: str) -> dict[str, int]:
    """The path and checksum of every array that a class stores of a checkpoint."""
    model = tf_class.from_pretrained(directory)
    if "TransfoXL" in tf_class.__name__:
        # from_pretrained() does not build its layers, and so fills none.
        model(tf.constant(np.load(directory / "io.npz")["token_ids"][0]))
        tensors = safetensors.numpy.load_file(directory / "model.safetensors")
        # What is tied in PyTorch's class is stored twice by this one.
        for key, tensor in list(tensors.items()):
            tied = re.sub(r"^transformer\.word_emb\.emb_(layers|projs)", r"crit.out_\1", key)
            tensors.setdefault(tied, tensor)
        load_pytorch_state_dict_in_tf2_model(model, tensors, tf_inputs=False)
    head = getattr(model, "predictions", None)
    if hasattr(head, "decoder_bias"):
        # ALBERT's, which is tied to the other one in PyTorch's class alone.
        head.decoder_bias.assign(head.bias)
    if not _agrees(model, directory, case):
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        model.save_pretrained(temporary)
        path = pathlib.Path(temporary, "tf_model.h5")
        found = {}

        def note(name: str, entry) -> None:
            if isinstance(entry, h5py.Dataset):
                found[name] = zlib.crc32(np.ascontiguousarray(entry[()]).tobytes())

        with h5py.File(path) as file:
            file.visititems(note)
        for file, kept in _KEPT.items():
            if kept == case:
                shutil.copy(path, golden / "tf_keras" / f"{file}.h5")
    return found


def _agrees(model, directory: pathlib.Path, case: str) -> bool:
    """Whether a class computes what the golden outputs are."""
    with np.load(directory / "io.npz") as file:
        io = dict(file)
    if "perm_mask" in io or "memory_0" in io:
        logging.info("%s: not compared.", case)
        return True
    inputs = {_INPUTS[name]: tf.constant(io[name]) for name in _INPUTS if name in io}
    outputs = model(inputs)
    for name, expected in io.items():
        theirs = outputs.get(_OUTPUTS.get(name, name))
        if theirs is None:
            continue
        differences = np.abs(theirs.numpy() - expected)
        mask = io.get("padding_mask")
        if mask is not None and expected.shape[: mask.ndim] == mask.shape:
            # What stands at padding, which classes attend with differently, has no meaning.
            differences = differences[mask > 0]
        difference = differences.max()
        logging.info("%s: %s differs by at most %.1e", case, name, difference)
        tolerances = (t for prefix, t in _OTHER_GELU.items() if prefix in type(model).__name__)
        if difference > next(tolerances, _TOLERANCE):
            logging.error("%s: %s differs; it is left out.", case, name)
            return False
    return True


if __name__ == "__main__":
    app.run(main)
