"""Runs signatures on ids with LiteRT or ONNX Runtime."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened
from bert_zoo.runtime.files import LITERT_FILE, onnx_file

Arrays = dict[str, np.ndarray]


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turns a runtime's errors into ValueErrors that name the file."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path} does not run: {shortened(str(error), 500)}") from error


class LiteRT:
    """Runs `model.tflite` in LiteRT's interpreter, one thread at a time."""

    def __init__(self, directory: Path, threads: int | None):
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise ImportError(
                f"{directory} is an export for LiteRT: pip install 'bert_zoo[litert]', or only "
                "ai-edge-litert and tokenizers."
            ) from error
        self._path = directory / LITERT_FILE
        with _named(self._path):
            self._interpreter = Interpreter(str(self._path), num_threads=threads)
        self._runners: dict[str, Any] = {}
        self._lock = threading.Lock()

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        with self._lock, _named(self._path):
            if signature not in self._runners:
                self._runners[signature] = self._interpreter.get_signature_runner(signature)
            return self._runners[signature](**inputs)


class OnnxRuntime:
    """Runs each `<signature>.onnx` in a CPU session of its own, created on first use."""

    def __init__(self, directory: Path, threads: int | None):
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError(
                f"{directory} is an export for ONNX Runtime: pip install 'bert_zoo[onnx]', or only "
                "onnxruntime and tokenizers."
            ) from error
        self._directory = directory
        self._options = onnxruntime.SessionOptions()
        if threads is not None:
            self._options.intra_op_num_threads = threads
        self._sessions: dict[str, Any] = {}
        self._lock = threading.Lock()

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        with _named(self._directory / onnx_file(signature)):
            session = self._session(signature)
            names = [output.name for output in session.get_outputs()]
            return dict(zip(names, session.run(names, inputs), strict=True))

    def _session(self, signature: str):
        from onnxruntime import InferenceSession

        with self._lock:
            if signature not in self._sessions:
                self._sessions[signature] = InferenceSession(
                    self._directory / onnx_file(signature),
                    self._options,
                    providers=["CPUExecutionProvider"],
                )
            return self._sessions[signature]


SESSIONS = {"litert": LiteRT, "onnx": OnnxRuntime}


def checked_inputs(inputs: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]) -> Arrays:
    """Converts inputs to arrays of the signature's dtypes.

    Raises:
        ValueError: names or shapes do not match the signature.
    """
    if inputs.keys() != wanted.keys():
        raise ValueError(f"The signature takes {sorted(wanted)}; got {sorted(inputs)}.")
    arrays = {}
    for name, spec in wanted.items():
        array = np.asarray(inputs[name], spec["dtype"])
        fits = array.ndim == len(spec["shape"]) and all(
            size in (None, found) for size, found in zip(spec["shape"], array.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"{name} has the shape {array.shape}; it must be {spec['shape']}.")
        arrays[name] = array
    return arrays
