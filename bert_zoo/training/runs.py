"""What trainings that write a run directory share."""

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras

import bert_zoo
from bert_zoo.graph import has_tensorflow
from bert_zoo.loading.directories import RUN_METRICS as METRICS

CONFIG = "config.json"
# The state of a training that is not finished, and the note in it that says how far it is.
CHECKPOINT, PROGRESS = "checkpoint", "progress"


def updates_of(model: keras.Model) -> int:
    """Updates that the optimizer has made."""
    # Python's int knows no variable that lies on several devices.
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))


def versions() -> dict[str, str]:
    """The versions of what a run depends on."""
    of_keras = ("keras", "jax") if keras.backend.backend() == "jax" else ("keras",)
    of_text = ("tensorflow", "tensorflow-text") if has_tensorflow else ("tokenizers",)
    found = {name: version(name) for name in (*of_keras, *of_text)}
    return {"bert_zoo": bert_zoo.__version__} | found


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def keras_verbosity() -> int:
    """Keras's `verbose`: a progress bar in a terminal; a line an epoch in a file or a pipe, which keep each frame."""
    return 1 if sys.stdout.isatty() else 2


def finished_run(directory: Path, config: Mapping[str, Any]) -> Any | None:
    """What `metrics.json` of a finished run holds; None where the directory has no finished run.

    Raises:
        ValueError: the run is of other settings or data.
    """
    if not (directory / METRICS).is_file():
        return None
    advice = "Name another directory (--output_dir), or delete it."
    _check_same_run(directory, config, "a finished run", advice)
    print(f"The run in {directory} is finished; nothing is trained again.")
    return read_json(directory / METRICS)


def check_goes_on(directory: Path, config: Mapping[str, Any]) -> None:
    """Raises ValueError for a training that was stopped and began with other settings or data."""
    checkpoint = directory / CHECKPOINT
    advice = f"Go on with the same ones, name another directory, or delete {checkpoint}."
    _check_same_run(directory, config, "a training that was stopped", advice)


def _check_same_run(directory: Path, config: Mapping[str, Any], what: str, advice: str) -> None:
    """Refuses a directory in which `what` began with other settings or data."""

    def settings(config: Mapping[str, Any]) -> dict[str, Any]:
        # Not where the data are: which examples these are says `examples`.
        return {k: v for k, v in config.items() if k not in ("recipe", "data")} | config["recipe"]

    began = settings(read_json(directory / CONFIG))
    # As they are when they come back from a file.
    now = settings(json.loads(json.dumps(dict(config))))
    changes = [
        f"{key} was {began.get(key)!r} and is {new!r}"
        for key, new in now.items()
        # A setting that the run's version did not have is the same one where it is off.
        if began.get(key) != new and (key in began or new) and key != "examples"
    ]
    if began.get("examples") != now["examples"]:
        changes.append("the examples are others, or they are cut into other splits")
    if changes:
        raise ValueError(
            f"{directory} holds {what}, with other settings: {'; '.join(changes)}. {advice}"
        )
