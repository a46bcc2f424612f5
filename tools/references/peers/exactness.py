"""What other libraries compute from tests/golden's tiny checkpoints, beside what these were made with.

    python exactness.py LIBRARY GOLDEN NAME ...      prints a line of JSON

LIBRARY is a function below, GOLDEN the folder tests/golden, a NAME a checkpoint below it, such as "bert/encoder". Runs
in an environment with that library, so each imports it within its function. `tools/comparison_page.py` starts it.
"""

import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

Inputs = dict[str, np.ndarray]
# Our names of inputs -> those of Hugging Face's models.
HF_INPUTS = {
    "token_ids": "input_ids",
    "padding_mask": "attention_mask",
    "segment_ids": "token_type_ids",
    "language_ids": "langs",
}


def bert_zoo(directory: Path) -> Callable[[Inputs], np.ndarray]:
    import bert_zoo

    model = bert_zoo.load(directory, "encoder")
    return lambda inputs: np.asarray(model(inputs)["sequence_output"])


def transformers(directory: Path) -> Callable[[Inputs], np.ndarray]:
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()

    def run(inputs: Inputs) -> np.ndarray:
        given = {HF_INPUTS[name]: torch.tensor(ids).long() for name, ids in inputs.items()}
        with torch.no_grad():
            return model(**given).last_hidden_state.numpy()

    return run


def sentence_transformers(directory: Path) -> Callable[[Inputs], np.ndarray]:
    import torch
    from sentence_transformers.models import Transformer

    model = Transformer(str(directory)).eval()

    def run(inputs: Inputs) -> np.ndarray:
        given = {HF_INPUTS[name]: torch.tensor(ids).long() for name, ids in inputs.items()}
        with torch.no_grad():
            return model(given)["token_embeddings"].numpy()

    return run


def keras_hub(directory: Path) -> Callable[[Inputs], np.ndarray]:
    import keras_hub
    from safetensors.numpy import load_file, save_file

    config = json.loads((directory / "config.json").read_text())
    root = {"roberta": "roberta.", "albert": "albert.", "distilbert": "distilbert."}
    with tempfile.TemporaryDirectory() as copy:
        # These converters want the names that files with a head have, as most released ones do.
        prefix = root.get(config.get("model_type"), "")
        tensors = load_file(directory / "model.safetensors")
        named = {prefix + name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        shutil.copytree(directory, copy, dirs_exist_ok=True)
        save_file(named, Path(copy, "model.safetensors"), {"format": "pt"})
        model = keras_hub.models.Backbone.from_preset(copy)

    def run(inputs: Inputs) -> np.ndarray:
        names = {tensor.name for tensor in model.inputs}
        shape = inputs["token_ids"].shape
        zeros = dict.fromkeys(names - inputs.keys(), np.zeros(shape, "int32"))
        outputs = model({name: ids for name, ids in inputs.items() if name in names} | zeros)
        return np.asarray(outputs["sequence_output"] if isinstance(outputs, dict) else outputs)

    return run


def kerasformers(directory: Path) -> Callable[[Inputs], np.ndarray]:
    import keras
    from safetensors.numpy import load_file

    config = json.loads((directory / "config.json").read_text())
    kind = config["model_type"].replace("-", "_").replace("openai_", "")
    module = importlib.import_module(f"kerasformers.models.{kind}")
    (name,) = (n for n in dir(module) if n.lower() == f"{kind}model".replace("_", ""))
    model_class = getattr(module, name)
    model = model_class(**model_class.config_from_hf(config))
    if hasattr(model, "build_for_transfer") and not model.built:
        model.build_for_transfer()
    # As its reader of hub directories does, which downloads them.
    model_class.transfer_from_hf(model, load_file(directory / "model.safetensors"))

    def run(inputs: Inputs) -> np.ndarray:
        given = {HF_INPUTS[name]: ids for name, ids in inputs.items()}
        given.setdefault("token_type_ids", np.zeros_like(given["input_ids"]))
        outputs = model(given)
        hidden = outputs["last_hidden_state"] if isinstance(outputs, dict) else outputs[0]
        return keras.ops.convert_to_numpy(hidden)

    return run


def difference(load: Callable[[Path], Callable], directory: Path) -> float | str:
    """The largest difference over real tokens, or why there is none.

    Of rows as people have them: padded on the right, without padding's token among the real ones.
    """
    with np.load(directory / "io.npz") as io:
        names = [name for name in HF_INPUTS if name in io]
        inputs = {name: io[name] for name in names}
        wanted = io["sequence_output"]
    try:
        outputs = load(directory)(inputs)
    # Whatever a library says of a checkpoint that it cannot read is the answer.
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0].replace(
            str(directory), "DIRECTORY"
        )
    real = inputs.get("padding_mask", np.ones(wanted.shape[:2])) != 0
    padding = json.loads((directory / "config.json").read_text()).get("pad_token_id")
    odd = (real != np.minimum.accumulate(real, axis=1)) | (real & (inputs["token_ids"] == padding))
    real &= ~odd.any(axis=1, keepdims=True)
    return float(np.abs(outputs - wanted)[real].max())


# What a family's folder or files are called, where it is not the family's name.
FOLDERS = {
    "transformers": {"gpt": "openai", "spanbert": ""},
    "keras_hub": {"distilbert": "distil_bert", "deberta_v2": "deberta_v3", "spanbert": ""},
    "kerasformers": {"spanbert": ""},
}
# Families of bert_zoo whose files begin with the name of another one.
FAMILIES_THAT_BEGIN_SO = {"gpt": "gpt2", "deberta": "deberta_v2", "xlm": "xlm_roberta"}


def lines_of(library: str, family: str) -> int:
    """Lines of code that a family has for itself; 0 where there is none."""
    package = Path(importlib.util.find_spec(library).origin).parent
    if library == "bert_zoo":
        ours = (package / "families").glob(f"{family}*.py")
        others = FAMILIES_THAT_BEGIN_SO.get(family, "no other")
        files = [file for file in ours if not file.stem.startswith(others)]
    else:
        folder = FOLDERS.get(library, {}).get(family, family)
        models = package / ("src/models" if library == "keras_hub" else "models")
        files = [*(models / folder).glob("*.py")] if folder else []
    left_out = ("checkpoints", "presets", "test", "modular", "__init__")
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#")
        for file in files
        if not any(word in file.stem for word in left_out)
        for line in file.read_text(encoding="utf-8").splitlines()
    )


def main() -> None:
    library, golden, *names = sys.argv[1:]
    found = {name: difference(globals()[library], Path(golden, name)) for name in names}
    families = [name.partition("/")[0] for name in names]
    # It has no models of its own.
    counted = () if library == "sentence_transformers" else families
    lines = {family: lines_of(library, family) for family in counted}
    try:
        installed = version(library.replace("_", "-"))
    except ModuleNotFoundError:  # a source tree
        installed = __import__(library).__version__
    print(json.dumps({"version": installed, "differences": found, "lines": lines}))


if __name__ == "__main__":
    main()
