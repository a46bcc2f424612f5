"""Exports: SavedModels, LiteRT and ONNX files, written by `bert_zoo.export`; and `SavedModelLayer`."""

from importlib.util import find_spec

from bert_zoo.fields import check
from bert_zoo.runtime.description import DESCRIPTION_FILE, LITERT_FILE, TOKENIZER_FILE

# Our name of an input -> its name in TF-Hub's transformer encoders.
HUB_NAMES = {
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
}

# --- The options of exports, checked without importing TensorFlow or Keras ---

# Format -> a file that every export has, and its other files. Further ones, such as a SavedModel's
# `assets.extra`, belong to the user.
ENTRIES = {
    "saved_model": ("saved_model.pb", {"fingerprint.pb", "variables", "assets"}),
    "litert": (DESCRIPTION_FILE, {LITERT_FILE, TOKENIZER_FILE}),
    "onnx": (DESCRIPTION_FILE, {TOKENIZER_FILE}),
}
# Other names of formats.
_OTHER_NAMES = {"tflite": "litert", "tensorflow": "saved_model", "tf": "saved_model"}
_LAYOUTS = ("bert_zoo", "hf")
_QUANTIZED = ("int8", "float16")
# Modules that the converters need in addition to TensorFlow.
_MODULES = {"onnx": ("onnx", "onnxruntime", "tf2onnx")}


def check_options(
    format: str,
    quantize: str | None,
    layout: str,
    *,
    pairs: bool,
    text: bool,
    label_template: str | None,
) -> None:
    """Raises the errors of `export` that depend on no model."""
    if format not in ENTRIES:
        other = _OTHER_NAMES.get(str(format).lower().removeprefix("."))
        advice = f" {format!r} is format={other!r} here." if other else ""
        raise ValueError(f"format is {format!r}; choose one of {tuple(ENTRIES)}.{advice}")
    if layout not in _LAYOUTS or (layout != "bert_zoo" and format != "onnx"):
        raise ValueError(
            f"layout is {layout!r} and format {format!r}; format='onnx' takes one of {_LAYOUTS}, all others "
            "only 'bert_zoo'."
        )
    check("quantize", quantize, str | None, choices=_QUANTIZED)
    if label_template is not None and (format != "saved_model" or not text):
        raise ValueError(
            f"label_template adds a signature of texts to a SavedModel, but format is {format!r} and text is {text}. "
            "Leave label_template out."
        )
    if format == "saved_model":
        if quantize is not None:
            raise ValueError(
                f"quantize={quantize!r} needs format='litert' or format='onnx'; a SavedModel keeps the "
                "model's weights. Leave quantize out, or choose one of these formats."
            )
        return
    if pairs:
        raise ValueError(
            f"pairs=True changes a SavedModel's signature for texts, but format={format!r} has none: its "
            "signatures on ids read pairs and single texts alike. Leave pairs out."
        )
    modules = (*_MODULES.get(format, ()), *(("tokenizers",) if text else ()))
    if missing := [name for name in modules if not find_spec(name)]:
        raise ImportError(
            f"format={format!r} needs {', '.join(missing)}: pip install 'bert_zoo[{format}]'."
        )
