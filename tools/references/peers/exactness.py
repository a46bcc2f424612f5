"""What other libraries compute from tests/golden's tiny checkpoints, beside what these were made with.

    python exactness.py LIBRARY DIRECTORY ...      prints a line of JSON

LIBRARY is a function below, a DIRECTORY a checkpoint such as tests/golden/bert/encoder; `cases.json` above it says its
task. Runs in an environment with that library, so each imports it within its function. `tools/comparison_page.py` starts it.
"""

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
# Our names of inputs -> those of Hugging Face's models.
HF_INPUTS = {
    "token_ids": "input_ids",
    "padding_mask": "attention_mask",
    "segment_ids": "token_type_ids",
    "language_ids": "langs",
}
# Our names of outputs -> those of Hugging Face's models.
HF_OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "logits": "logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


def bert_zoo(directory: Path, task: str) -> Run:
    import bert_zoo

    model = bert_zoo.load(directory, task)

    def run(inputs: Arrays) -> Arrays:
        outputs = model(inputs)
        named = outputs if isinstance(outputs, dict) else {"logits": outputs}
        return {name: output for name, output in named.items() if name in HF_OUTPUTS}

    return run


def transformers(directory: Path, task: str) -> Run:
    import torch
    import transformers

    auto = transformers.AutoModel
    if task != "encoder":
        named = config_of(directory).get("architectures", ["AutoModelForMaskedLM"])
        auto = getattr(transformers, named[0])
    model = auto.from_pretrained(directory, dtype=torch.float32).eval()
    return lambda inputs: named_by_hf(model(**torch_inputs(inputs)))


def sentence_transformers(directory: Path, task: str) -> Run:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.models import Transformer

    if task == "classification":
        model = CrossEncoder(str(directory), device="cpu").model.eval()
        return lambda inputs: named_by_hf(model(**torch_inputs(inputs)))
    if task != "encoder":
        raise ValueError(f"There is no class for {task}.")
    encoder = Transformer(str(directory)).eval()

    def run(inputs: Arrays) -> Arrays:
        return {"sequence_output": encoder(torch_inputs(inputs))["token_embeddings"].detach()}

    return run


def torch_inputs(inputs: Arrays) -> dict:
    import torch

    return {HF_INPUTS[name]: torch.tensor(ids).long() for name, ids in inputs.items()}


def named_by_hf(outputs: Mapping) -> Arrays:
    """The outputs of a model that names them as Hugging Face's do."""
    return {
        ours: np.asarray(outputs[theirs].detach())
        for ours, theirs in HF_OUTPUTS.items()
        if theirs in outputs
    }


def keras_hub(directory: Path, task: str) -> Run:
    import keras_hub
    from safetensors.numpy import load_file, save_file

    classes = {
        "encoder": keras_hub.models.Backbone,
        "classification": keras_hub.models.TextClassifier,
        "masked_lm": keras_hub.models.MaskedLM,
    }
    if task not in classes:
        raise ValueError(f"There is no class for {task}.")
    config = config_of(directory)
    options = {} if task == "encoder" else {"preprocessor": None}
    if task == "classification":
        options["num_classes"] = len(config["id2label"])
    root = {"roberta": "roberta.", "albert": "albert.", "distilbert": "distilbert."}
    with tempfile.TemporaryDirectory() as copy:
        # These converters want the names that files with a head have, as most released ones do.
        prefix = root.get(config.get("model_type"), "") if task == "encoder" else ""
        tensors = load_file(directory / "model.safetensors")
        named = {prefix + name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        shutil.copytree(directory, copy, dirs_exist_ok=True)
        save_file(named, Path(copy, "model.safetensors"), {"format": "pt"})
        model = classes[task].from_preset(copy, **options)

    def run(inputs: Arrays) -> Arrays:
        names = {tensor.name for tensor in model.inputs}
        rows, length = inputs["token_ids"].shape
        given = dict.fromkeys(names, np.zeros((rows, length), "int32"))
        given |= {"mask_positions": np.tile(np.arange(length), (rows, 1))} | dict(inputs)
        outputs = model({name: ids for name, ids in given.items() if name in names})
        hidden = outputs["sequence_output"] if isinstance(outputs, dict) else outputs
        return {"sequence_output" if task == "encoder" else "logits": hidden}

    return run


# Task -> how KerasFormers' classes of it end.
KERASFORMERS_CLASSES = {
    "encoder": "Model",
    "masked_lm": "MaskedLM",
    "classification": "SequenceClassify",
    "regression": "SequenceClassify",
    "token_classification": "TokenClassify",
    "question_answering": "QnA",
    "multiple_choice": "MultipleChoice",
}


def kerasformers(directory: Path, task: str) -> Run:
    import keras
    from safetensors.numpy import load_file

    config = config_of(directory)
    kind = config["model_type"].replace("-", "_").replace("openai_", "")
    module = importlib.import_module(f"kerasformers.models.{kind}")
    wanted = (kind.replace("_", "") + KERASFORMERS_CLASSES[task]).lower()
    names = [name for name in dir(module) if name.lower() == wanted]
    if not names:
        raise ValueError(f"There is no class for {task}.")
    model_class = getattr(module, names[0])
    options = model_class.config_from_hf(config)
    if task == "multiple_choice":  # their number is fixed
        with np.load(directory / "io.npz") as io:
            options["num_choices"] = io["token_ids"].shape[1]
    model = model_class(**options)
    if hasattr(model, "build_for_transfer") and not model.built:
        model.build_for_transfer()
    # As its reader of hub directories does, which downloads them.
    model_class.transfer_from_hf(model, load_file(directory / "model.safetensors"))

    def run(inputs: Arrays) -> Arrays:
        given = {HF_INPUTS[name]: ids for name, ids in inputs.items()}
        given.setdefault("token_type_ids", np.zeros_like(given["input_ids"]))
        outputs = model(given)
        if not isinstance(outputs, dict):
            first = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
            outputs = {HF_OUTPUTS["sequence_output" if task == "encoder" else "logits"]: first}
        return {
            ours: keras.ops.stop_gradient(outputs[theirs])
            for ours, theirs in HF_OUTPUTS.items()
            if theirs in outputs
        }

    return run


def tf_models_official(directory: Path, task: str) -> Run:
    """Model Garden, by its converter of TensorFlow 1's checkpoints and the encoder that this is for."""
    import tensorflow as tf
    from official.modeling import tf_utils
    from official.nlp.modeling import networks

    encoders = {"bert": networks.BertEncoder, "albert": networks.AlbertEncoder}
    files = [file for kind in encoders if (file := directory / f"{kind}_config.json").is_file()]
    if task != "encoder" or not files:
        raise ValueError(f"There is no converter for {task} from {directory}.")
    (file,) = files
    kind = file.stem.removesuffix("_config")
    config = json.loads(file.read_text())
    with tempfile.TemporaryDirectory() as converted:
        program = f"official.nlp.tools.tf2_{kind}_encoder_checkpoint_converter"
        options = {
            f"{kind}_config_file": file,
            "checkpoint_to_convert": next(directory.glob("*.index")).with_suffix(""),
            "converted_checkpoint_path": Path(converted, "converted"),
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        subprocess.run([sys.executable, "-m", program, *flags], check=True, capture_output=True)
        encoder = encoders[kind](
            vocab_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            num_layers=config["num_hidden_layers"],
            num_attention_heads=config["num_attention_heads"],
            intermediate_size=config["intermediate_size"],
            max_sequence_length=config["max_position_embeddings"],
            type_vocab_size=config["type_vocab_size"],
            embedding_width=config.get("embedding_size"),
            activation=tf_utils.get_activation(config["hidden_act"]),
            dict_outputs=True,
        )
        tf.train.Checkpoint(encoder=encoder).read(
            tf.train.latest_checkpoint(converted)
        ).assert_existing_objects_matched()

    def run(inputs: Arrays) -> Arrays:
        theirs = {
            "token_ids": "input_word_ids",
            "padding_mask": "input_mask",
            "segment_ids": "input_type_ids",
        }
        given = {name: tf.convert_to_tensor(inputs[ours]) for ours, name in theirs.items()}
        return {"sequence_output": encoder(given)["sequence_output"]}

    return run


def config_of(directory: Path) -> dict:
    """What config.json says; nothing where it is not there, as in formats other than Hugging Face's."""
    file = directory / "config.json"
    return json.loads(file.read_text()) if file.is_file() else {}


def difference(load: Callable[[Path, str], Run], directory: Path) -> float | str:
    """The largest difference over real tokens, or why there is none.

    Of rows as people have them, where there are any: padded on the right, without padding's token among
    the real ones.
    """
    cases = json.loads((directory.parent / "cases.json").read_text())["cases"]
    with np.load(directory / "io.npz") as io:
        inputs = {name: io[name] for name in HF_INPUTS if name in io}
        wanted = {name: io[name] for name in HF_OUTPUTS if name in io}
    try:
        outputs = load(directory, cases[directory.name]["task"])(inputs)
        found = {name: np.asarray(outputs[name]) for name in wanted}
    # Whatever a library says of a checkpoint that it cannot read is the answer.
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0].replace(
            str(directory), "DIRECTORY"
        )
    ids = inputs["token_ids"]
    real = inputs.get("padding_mask", np.ones(ids.shape)) != 0
    padding = config_of(directory).get("pad_token_id")
    odd = (real != np.minimum.accumulate(real, axis=-1)) | (real & (ids == padding))
    usual = ~odd.any(axis=-1)
    if not usual.any():
        usual = ~usual
    tokens = real & usual[..., None]
    return max(
        float(np.abs(found[name] - output)[tokens if of_tokens(output, ids) else usual].max())
        for name, output in wanted.items()
    )


def of_tokens(output: np.ndarray, ids: np.ndarray) -> bool:
    """Whether an output has one value, or vector, a token; else it has one a row."""
    return output.shape[: ids.ndim] == ids.shape


def main() -> None:
    library, *directories = sys.argv[1:]
    found = {name: difference(globals()[library], Path(name)) for name in directories}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
