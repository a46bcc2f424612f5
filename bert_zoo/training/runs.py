"""Functions for trainings that write a run directory."""

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras

import bert_zoo
from bert_zoo.graph import has_tensorflow
from bert_zoo.json_files import parse_json, utf8_text
from bert_zoo.loading.locating import RUN_CONFIG as CONFIG
from bert_zoo.loading.locating import RUN_METRICS as METRICS

# The directory with the state of an unfinished training, and the note in it about its progress.
CHECKPOINT, PROGRESS = "checkpoint", "progress"
RUN_AGAIN = "Restore a copy of the file, or delete its directory and run the same command again."


def updates_of(model: keras.Model) -> int:
    """Returns the number of updates that the optimizer has made."""
    # int() does not work for a variable on several devices.
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))


def versions() -> dict[str, str]:
    """Returns the versions of the packages that a run depends on."""
    of_keras = ("keras", "jax") if keras.backend.backend() == "jax" else ("keras",)
    of_text = ("tensorflow", "tensorflow-text") if has_tensorflow else ("tokenizers",)
    found = {name: version(name) for name in (*of_keras, *of_text)}
    return {"bert_zoo": bert_zoo.__version__} | found


def read_json(path: Path, remedy: str = RUN_AGAIN) -> Any:
    """Reads a file of `write_json`. Raises ValueError, which ends with the next step, if it is damaged."""
    return parse_json(utf8_text(path.read_bytes(), path), path, remedy=remedy)


def keras_verbosity() -> int:
    """Returns Keras's `verbose`: a progress bar in a terminal, else one line per epoch."""
    return 1 if sys.stdout.isatty() else 2


def finished_run(directory: Path, config: Mapping[str, Any]) -> Any | None:
    """Returns the content of a finished run's `metrics.json`, or None if the run is not finished.

    Raises:
        ValueError: the run has other settings or data.
    """
    if not (directory / METRICS).is_file():
        return None
    advice = "Choose another directory (--output_dir), or delete it."
    _check_same_run(directory, config, "a finished run", advice)
    print(f"The run in {directory} is finished; nothing is trained again.")
    return read_json(directory / METRICS)


def check_goes_on(directory: Path, config: Mapping[str, Any]) -> None:
    """Raises ValueError if an interrupted training was started with other settings or data."""
    checkpoint = directory / CHECKPOINT
    advice = f"Use the same settings, choose another directory, or delete {checkpoint}."
    _check_same_run(directory, config, "an interrupted training", advice)


def _check_same_run(directory: Path, config: Mapping[str, Any], what: str, advice: str) -> None:
    """Raises ValueError if `what` in the directory was started with other settings or data."""

    def settings(config: Mapping[str, Any]) -> dict[str, Any]:
        # Without the path of the data: `examples` identifies them.
        return {k: v for k, v in config.items() if k not in ("recipe", "data")} | config["recipe"]

    began = settings(read_json(directory / CONFIG))
    # As after reading them from a file.
    now = settings(json.loads(json.dumps(dict(config))))
    changes = [
        f"{key} was {began.get(key)!r} and is {new!r}"
        for key, new in now.items()
        # A setting that the run's version lacked counts as equal if it is off.
        if began.get(key) != new and (key in began or new) and key != "examples"
    ]
    if began.get("examples") != now["examples"]:
        changes.append("the examples or their splits are different")
    if changes:
        raise ValueError(
            f"{directory} contains {what} with other settings: {'; '.join(changes)}. {advice}"
        )
