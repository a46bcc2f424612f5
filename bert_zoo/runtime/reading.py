"""Turns texts into ids with an export's tokenizer, and runs signatures with LiteRT or ONNX Runtime."""

import contextlib
import copy
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shortened
from bert_zoo.json_files import JsonObject
from bert_zoo.runtime.description import (
    LITERT_FILE,
    TOKENIZER_FILE,
    layout_of,
    onnx_file,
    split_tokens_of,
)
from bert_zoo.text.numpy_packing import Arrays, NumpyPacker, Reader, Slices

log = logging.getLogger("bert_zoo")


class RowReader:
    """Turns texts into rows of ids, by the export's directory and the section `text` of its checked description."""

    def __init__(self, directory: Path, text: JsonObject):
        self._path = directory / TOKENIZER_FILE
        tokenizer = _read_tokenizer(self._path)
        self.reader = Reader(
            tokenizer,
            unk_id=text["ids"]["unk"],
            split_tokens=split_tokens_of(text),
            blank_before_words=bool(text.get("blank_before_words")),
            source=str(self._path),
        )
        self._ids = {f"{role}_id": index for role, index in text["ids"].items()}
        self.packer = self._packer_of(text)
        # Exports of bert_zoo 0.1.0 lack it.
        self._vocabulary_size = text.get("vocabulary_size")
        self._has_warned = False

    def _packer_of(self, rows: JsonObject) -> NumpyPacker:
        return NumpyPacker(
            layout=layout_of(rows),
            sequence_length=rows["sequence_length"],
            truncation=rows["truncation"],
            bucket=rows["bucket"],
            scoring=rows.get("scoring"),
            **self._ids,
        )

    def of_role(self, rows: JsonObject) -> "RowReader":
        """The reader of texts of a role, by the description's section of it."""
        reader = copy.copy(self)
        reader.packer = self._packer_of(rows)
        return reader

    def cut(self, *texts: Sequence[str]) -> list[Slices]:
        """Tokenizes texts or pairs, and cuts those that are too long."""
        tokens = self.packer.checked([self.reader.tokenized(each) for each in texts])
        kept = self.packer.kept_lengths([each.lengths for each in tokens])
        lengths, limit = sum(each.lengths for each in tokens), self.packer.sequence_length
        if not self._has_warned and (sum(kept) < lengths).any():
            self._has_warned = True
            log.warning(
                "A text of %d tokens was cut to %d, the limit without special tokens. (Shown once.)",
                lengths.max(),
                limit - self.packer.layout.specials(len(texts)),
            )
        return [each.beginnings(number) for each, number in zip(tokens, kept, strict=True)]

    def packed(self, segments: Sequence[Slices]) -> Arrays:
        """Packs segments into int32 [rows, length]: `token_ids`, `segment_ids` and `padding_mask`."""
        inputs, _ = self.packer.lay_out(segments)
        highest = int(inputs["token_ids"].max())
        if self._vocabulary_size is not None and highest >= self._vocabulary_size:
            raise ValueError(
                f"{self._path} produced the id {highest}, but the model has {self._vocabulary_size} tokens: "
                "the file belongs to another export. Export the model again."
            )
        # Models with a single segment still take its ids.
        return {"segment_ids": np.zeros_like(inputs["token_ids"]), **inputs}

    def specials_before(self, number: int, texts: int) -> int:
        """Returns the number of special tokens before a row's text with this number."""
        parts = self.packer.layout.parts(texts)
        at = [place for place, part in enumerate(parts) if part.is_text]
        return at[number] - number


def _read_tokenizer(path: Path):
    """Reads a tokenizer, with truncation and padding switched off."""
    from tokenizers import Tokenizer

    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. Copy all files that bert_zoo.export wrote.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(
            f"Hugging Face's tokenizers cannot read {path}: {shortened(str(error))}. Export the model again."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


# -------------------------------------------------------------------------------------------------
# Runs signatures on ids with LiteRT or ONNX Runtime.
# -------------------------------------------------------------------------------------------------

SessionArrays = dict[str, np.ndarray]


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

    def run(self, signature: str, inputs: SessionArrays) -> SessionArrays:
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

    def run(self, signature: str, inputs: SessionArrays) -> SessionArrays:
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


def checked_inputs(
    inputs: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]
) -> SessionArrays:
    """Arrays of the signature's dtypes; ValueError if names or shapes do not match it."""
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
