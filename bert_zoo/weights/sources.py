"""`open_weights`: opens the tensors of a directory, file or checkpoint prefix."""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bert_zoo.config import ConfigError
from bert_zoo.error_text import listing, shown
from bert_zoo.json_files import read_object, read_whole
from bert_zoo.weights.files import WeightsError
from bert_zoo.weights.hdf5 import HDF5Source, preset
from bert_zoo.weights.safetensors_io import SafetensorsSource
from bert_zoo.weights.tensor_source import RenamedTensors, TensorSource
from bert_zoo.weights.tf1 import TF1Source, TFModelSource, is_of_tf_classes, refuse_classes_alone
from bert_zoo.weights.torch_bin import TorchSource

log = logging.getLogger("bert_zoo")

# Weight files to look for in a directory. The first kind found is used, because Hugging Face repositories may hold
# the same weights as safetensors, .bin and .h5.
_KINDS = {
    "safetensors": ("model.safetensors", "model.safetensors.index.json"),
    "sentence-transformers": ("0_StaticEmbedding/model.safetensors",),
    "PyTorch": ("pytorch_model.bin", "pytorch_model.bin.index.json"),
    "fairseq": ("model.pt",),
    "TensorFlow classes": ("tf_model.h5", "tf_model.h5.index.json"),
    "KerasHub": ("model.weights.h5",),
}
# Files of a peft LoRA adapter, which is not a model by itself; see `bert_zoo.weights.adapters`.
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_TF1_KIND = (
    *("*.ckpt.index", "*.ckpt-*.index"),
    "variables/variables.index",  # of a TF-Hub module
    "model/*.ckpt-*.index",  # of the released Transformer-XL directories
)

# Files of a TensorFlow checkpoint besides `prefix.index`.
_TF1_PART = re.compile(r"\.(data-\d{5}-of-\d{5}|meta)$")
# TensorFlow's file about the checkpoints in a directory, and its line about the latest one (a CheckpointState of
# tensorflow/python/training/checkpoint_state.proto as text).
_TF1_STATE, _LATEST = "checkpoint", re.compile(r'^model_checkpoint_path: "(.*)"', re.MULTILINE)

# Files of a graph, whose constants do not have the names of weights -> the program that runs them.
_GRAPHS = {".onnx": "onnxruntime.InferenceSession", ".tflite": "LiteRT's Interpreter"}


def what_runs(file_or_directory: Path) -> str | None:
    """Advice for a graph of another program, or a directory with one; else None."""
    path = file_or_directory
    files = [path] if not path.is_dir() else sorted([*path.glob("*.*"), *path.glob("onnx/*.*")])
    graph = next((file for file in files if file.suffix in _GRAPHS), None)
    if graph is None:
        return None
    return (
        f"{graph} is a graph, which cannot be turned back into a Keras model. Run it with "
        f"bert_zoo.runtime.load({str(graph.parent)!r}) if bert_zoo.export wrote it, else with {_GRAPHS[graph.suffix]}. "
        "For the Keras model, pass load() the directory of bert_zoo.save or the Hugging Face model that was exported."
    )


def open_weights(directory_or_file: str | os.PathLike) -> TensorSource:
    """Opens the weights of a checkpoint, a lazy mapping from name to array, without reading any tensor.

    It takes a directory with one checkpoint (a Hugging Face or bert_zoo directory, a KerasHub preset, or a TensorFlow 1
    checkpoint; of several, the latest according to their file `checkpoint`); a file: `*.safetensors`, `*.bin`, `*.pt`,
    `*.pth`, `*.h5` of transformers or KerasHub, `*.hdf5` of allennlp, a shard index `*.index.json`, or a TensorFlow
    `*.index`, `*.data-*` or `*.meta`; or a TensorFlow checkpoint prefix.

    Raises:
        FileNotFoundError: there is no checkpoint. The message lists the files found and expected.
        WeightsError: there are several checkpoints, or one that is damaged or refused.
    """
    path = Path(directory_or_file).expanduser()
    file = weights_in(path) if path.is_dir() else weights_at(path)
    if file is not None:
        return next(read(file) for ending, read in _READERS.items() if file.name.endswith(ending))
    if path.is_file():
        if advice := what_runs(path):
            raise WeightsError(advice)
        raise WeightsError(
            f"{path} does not have a known ending of weight files: {', '.join(_READERS)}. For a TensorFlow checkpoint, "
            "pass its prefix or its .index file."
        )
    raise FileNotFoundError(
        f"There are no weights at {path}: it is neither a directory, nor a file, nor the prefix of "
        "a TensorFlow checkpoint. Check the path."
    )


def weights_at(path: Path) -> Path | None:
    """A weight file, or the .index of the checkpoint whose prefix or part `path` is; None for others."""
    if path.name.endswith(tuple(_READERS)) and os.path.isfile(path):
        return path
    index = index_of_part(path) or path.parent / f"{path.name}.index"
    return index if os.path.isfile(index) else None


def index_of_part(path: Path) -> Path | None:
    """The .index of the TensorFlow checkpoint that a file with data or a graph belongs to; None for others."""
    prefix = _TF1_PART.sub("", path.name)
    return path.parent / f"{prefix}.index" if prefix != path.name else None


def check_weight_files(directory: Path) -> None:
    """Raises the errors of `open_weights` if a directory lacks weights or one of their shards; only reads an index."""
    path = weights_in(directory)
    if path.name.endswith(".index.json"):
        _shard_files(path, _weight_map(path))


def _sharded(index: Path, open_shard: Callable[[Path], TensorSource]) -> RenamedTensors:
    """Opens shards with an index `{"weight_map": {name: file}}` as one source, and checks all of them."""
    weight_map = _weight_map(index)
    files = _shard_files(index, weight_map)
    shards = {file: open_shard(index.parent / file) for file in files}
    named = {}
    for key, file in weight_map.items():
        # In the index of transformers' TensorFlow classes, names begin with the model's name.
        below = key.partition("/")[2]
        named[below if key not in shards[file] and below in shards[file] else key] = file
    _check_shards(index, named, shards)
    view = RenamedTensors(str(index), {key: (shards[file], key) for key, file in named.items()})
    view.metadata = shards[files[0]].metadata
    return view


def _keras3_source(path: Path) -> TensorSource:
    file = preset(path)
    refuse_classes_alone(file)
    return file


def _safetensors_source(file: TensorSource) -> TensorSource:
    return TFModelSource.of_variables(file) if file.metadata.get("format") == "tf" else file


def _tensorflow_source(prefix: Path) -> TensorSource:
    file = TF1Source(str(prefix))
    return TFModelSource.of_checkpoint(file) if is_of_tf_classes(file) else file


# Ending of a file's name -> reader. A longer ending comes before the shorter one that it contains.
_READERS: dict[str, Callable[[Path], TensorSource]] = {
    ".safetensors.index.json": lambda path: _safetensors_source(_sharded(path, SafetensorsSource)),
    ".h5.index.json": lambda path: TFModelSource.of_variables(_sharded(path, HDF5Source)),
    ".bin.index.json": lambda path: _sharded(path, TorchSource),
    ".safetensors": lambda path: _safetensors_source(SafetensorsSource(path)),
    ".bin": TorchSource,
    ".pt": TorchSource,
    ".pth": TorchSource,
    ".weights.h5": _keras3_source,
    ".hdf5": HDF5Source,
    ".h5": lambda path: TFModelSource.of_layers(HDF5Source(path)),
    ".index": lambda path: _tensorflow_source(path.with_suffix("")),
}
# Endings that mark a name as a file.
FILE_ENDINGS = (*_READERS, *_GRAPHS)


def weights_in(directory: Path) -> Path:
    """The file that `open_weights` opens for a directory; raises its errors."""
    tf1 = sorted({file for pattern in _TF1_KIND for file in directory.glob(pattern)})
    found = {
        kind: [directory / name for name in names if (directory / name).is_file()]
        for kind, names in _KINDS.items()
    }
    taken = next((files for files in found.values() if files), []) + tf1
    # Microsoft's program numbers its files, ELECTRA's and XLM's are named after the model, allennlp's end in .hdf5.
    for pattern in ("pytorch.model*.bin", "*.index", "*.h5", "*.hdf5", "*.pth"):
        taken = taken or sorted(directory.glob(pattern))
    if len(taken) == 1:
        return taken[0]
    if not taken and (advice := what_runs(directory)):
        raise FileNotFoundError(f"{directory} holds no weights. {advice}")
    looked_for = ", ".join([*(name for names in _KINDS.values() for name in names), *_TF1_KIND])
    if taken:
        names = listing(file.name for file in taken)
        latest = None
        if all(file.suffix == ".index" for file in taken):
            latest = _latest_named(taken[0].with_name(_TF1_STATE))
        for file in taken:
            if file.name == latest:
                log.warning(
                    "%s holds several checkpoints: %s. %s is loaded, the latest one according to the file %r. Pass "
                    "the path of another one to load that.",
                    *(directory, names, latest, _TF1_STATE),
                )
                return file
        absent = f", but not {latest}, which its file {_TF1_STATE!r} names" if latest else ""
        raise WeightsError(
            f"{directory} holds several checkpoints: {names}{absent}. Pass the path of one of them instead of the "
            f"directory, such as {taken[-1]}."
        )
    raise FileNotFoundError(
        f"{directory} holds no weights. Looked for: {looked_for}. Found: "
        f"{listing(sorted(file.name for file in directory.iterdir()))}."
    )


def _latest_named(state: Path) -> str | None:
    """The name of the latest checkpoint's .index in TensorFlow's file about the checkpoints of a directory.

    Its directory is left out, because it often is one of another machine.
    """
    content = read_whole(state).decode(errors="replace") if state.is_file() else ""
    latest = _LATEST.search(content)
    return re.split(r"[/\\]", latest[1])[-1] + ".index" if latest else None


def _weight_map(index: Path) -> dict[str, str]:
    try:
        weight_map = read_object(index).section("weight_map").values_of(str)
    except ConfigError as error:
        raise WeightsError(f"{index} is not a shard index: {error}") from error
    if not weight_map:
        raise WeightsError(f"{index} is not a shard index: its `weight_map` is empty.")
    for file in weight_map.values():
        if file in ("", ".", "..") or set(file) & set("/\\\0:"):
            raise WeightsError(
                f"`weight_map` of {index} names the file {shown(file)}, but only files in the same directory are allowed."
            )
    return weight_map


def _shard_files(index: Path, weight_map: dict[str, str]) -> list[str]:
    files = sorted(set(weight_map.values()))
    # Names in the index are never passed to the operating system.
    present = {file.name for file in index.parent.iterdir() if file.is_file()}
    missing = [file for file in files if file not in present]
    if missing:
        raise FileNotFoundError(
            f"{index} names files that are missing in its directory: {listing(missing)}. Download or copy all of them."
        )
    return files


def _check_shards(index: Path, weight_map: dict[str, str], shards: dict[str, TensorSource]) -> None:
    copies = Counter(key for shard in shards.values() for key in shard)
    problems = {
        "in more than one file": [key for key, count in copies.items() if count > 1],
        "not in the file that the index names": [
            f"{key} ({file})" for key, file in weight_map.items() if key not in shards[file]
        ],
        "in a file but not in the index": [key for key in copies if key not in weight_map],
    }
    found = [f"{problem}: {listing(sorted(keys))}" for problem, keys in problems.items() if keys]
    if found:
        raise WeightsError(
            f"{index} and its files do not agree. Tensors {'; '.join(found)}. Download all of them again."
        )
