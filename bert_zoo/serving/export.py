"""`export`: a model that serves text without this package, in TensorFlow, LiteRT or ONNX Runtime."""

import logging
import os
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

import keras

from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.quantization import quantized_layers
from bert_zoo.runtime.files import (
    DESCRIPTION_FILE,
    LITERT_FILE,
    ONNX_SUFFIX,
    TOKENIZER_FILE,
    VERSION,
)
from bert_zoo.tasks.streams import StatefulModel
from bert_zoo.training.lora import without_lora
from bert_zoo.weights.files import remove_leftovers, replacing_directory, write_json

log = logging.getLogger("bert_zoo")

# By format: what its directory has for certain, and what else is the export's. A SavedModel's
# `assets.extra`, for one, is the user's.
_ENTRIES = {
    "saved_model": ("saved_model.pb", {"fingerprint.pb", "variables", "assets"}),
    "litert": (DESCRIPTION_FILE, {LITERT_FILE, TOKENIZER_FILE}),
    "onnx": (DESCRIPTION_FILE, {TOKENIZER_FILE}),
}
_LAYOUTS = ("bert_zoo", "hf")
# The folder of graphs in Hugging Face's directories, and the names by which transformers.js asks for them.
_HF_FOLDER = "onnx"
_HF_FILES = {None: "model.onnx", "int8": "model_quantized.onnx", "float16": "model_fp16.onnx"}
_QUANTIZED = (None, "int8", "float16")
# What the converters need beside TensorFlow.
_MODULES = {"onnx": ("onnx", "onnxruntime", "tf2onnx")}
# Of a file in either format: the offsets of flat buffers, and protocol buffers, end there.
_LARGEST_FILE = 2**31 - 2**24


def export(
    model: ZooModel,
    directory: str | os.PathLike,
    *,
    format: str = "saved_model",
    quantize: str | None = None,
    layout: str = "bert_zoo",
    pairs: bool = False,
    text: bool = True,
) -> None:
    """Writes a model for TensorFlow Serving, LiteRT or ONNX Runtime.

    `format="saved_model"`: a SavedModel of TensorFlow's and tensorflow_text's ops alone. Its
    signatures, with batch size and length free:

    * `serving_default` takes `text` (string [batch]); question answering `question` and `context`;
      multiple choice `text` and `choices` (string [batch, choices]).
    * `pairs` takes `text` and `text_pair`, where the task and the model read pairs.
    * `tokens` takes `token_ids`, `segment_ids` and `padding_mask` (int32 [batch, length]; multiple
      choice [batch, choices, length]).
    * `span_boundaries`, of SpanBERT's pretraining, takes `span_boundaries` (int32 [batch, spans, 2])
      too, and gives logits of the spans' tokens.
    * `mask_positions`, of masked language models, takes `mask_positions` (int32 [batch,
      predictions]) too, and gives logits there only.
    * `replaced_token_ids`, of ELECTRA's pretraining, takes `replaced_token_ids` (int32 [batch, length])
      too, which the discriminator reads in place of `token_ids`.

    Those of a model with a memory: `serving_default` (of a language model also `score`) takes
    `text`; `tokens` takes `token_ids`, of a language model also `labels`; `step` takes `token_ids`
    and the memory and gives the new one; `step_scores`, of a language model, takes `labels` too;
    `initial_memory` takes `batch_size` and gives what comes before a text.

    Signatures that take text run any number of texts, or windows of long ones, in chunks of 8,192
    tokens, so that a request takes a bounded part of the memory for activations. Texts are cut to the
    model's `max_length`, unless it was loaded with `long_texts`; contexts of questions are read whole.

    The reloaded object follows TF-Hub's reusable SavedModel interface; `bert_zoo.layers.
    SavedModelLayer` puts it back into a Keras model. docs/export.md lists the outputs of each task.
    `format="litert"` (`model.tflite`, all signatures in one file) and `format="onnx"` (a file for each
    signature): `tokens` and the other signatures on ids, without `segment_ids` for models that have
    none, and without `initial_memory`, a memory of zeros. They give the model's own outputs, logits and
    not labels. docs/serving.md says what else is in the directory.
    `layout="hf"` of "onnx" writes Hugging Face's places and names in their stead, for transformers.js and
    optimum: `onnx/model.onnx`, which takes `input_ids`, `attention_mask` and, where the family has
    them, `token_type_ids` (int64 [batch, sequence]) and gives `last_hidden_state`, `logits` or
    `start_logits` and `end_logits`; beside it what `save(format="hf")` writes, but for weights.

    LoRA is written as part of the kernels that it belongs to.

    Args:
        model: any model of the zoo, on Keras's TensorFlow backend.
        directory: where to write. It may hold an earlier export of the same format, which is replaced
            once the new one is complete, and nothing else.
        format: "saved_model", "litert" or "onnx".
        quantize: of weights, for the latter two: "int8", with products in int8 (dynamic range);
            "float16", which halves the file, and products stay float32; or None.
        layout: of "onnx": "bert_zoo", for `bert_zoo.runtime`, or "hf".
        pairs: make a SavedModel's `serving_default` take `text` and `text_pair`.
        text: False leaves out all that takes text, for a model without vocabulary; a SavedModel's
            `serving_default` is then the same as `tokens`.

    Raises:
        TypeError: not a model of the zoo; or a `StatefulModel`, whose inner model is what serves.
        RuntimeError: Keras runs on another backend.
        ValueError: the model has no vocabulary, or does not read pairs; the path is not local; an
            unknown format or one that has no such option; or, for "litert" and "onnx", a model that
            does not compute in float32, or with more than 2 GB of weights.
        ImportError: the extra of the format is not installed.
        FileExistsError: `directory` holds other files.

    Source: tensorflow.org/hub, "Reusable SavedModels" and "Common SavedModel APIs for Text Tasks".
    """
    if not isinstance(model, ZooModel):
        raise TypeError(f"export() writes models that load() makes; got {type(model).__name__}.")
    if isinstance(model, StatefulModel):
        raise TypeError(
            f"A {type(model).__name__} keeps its memory to itself, so that it can be trained. Export the "
            "model inside of it, whose signatures take the memory and give it: "
            f"export(model.{model.held_as}, directory)."
        )
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"A SavedModel needs Keras's TensorFlow backend, and this is {keras.backend.backend()}. "
            "Save the model with bert_zoo.save(model, directory), then load and export it in a "
            "process with the environment variable KERAS_BACKEND=tensorflow, where TensorFlow is installed: pip "
            'install "bert_zoo[tensorflow]".'
        )
    _check_options(model, format, quantize, layout, pairs=pairs, text=text)
    if text and not getattr(model, "encoder", model).has_preprocessor:
        raise ValueError(
            "This model has no vocabulary, so it cannot serve text. Set model.preprocessor = "
            "bert_zoo.text.preprocessor_from_dir(...), or pass text=False to export the signatures "
            "on ids alone."
        )
    target = _checked_target(directory, format if layout == "bert_zoo" else layout)
    model = without_lora(model)
    remove_leftovers(target.parent, target.name)
    with replacing_directory(target) as temporary:
        if layout == "hf":
            _write_hugging_face(model, temporary, target, quantize)
        elif format == "saved_model":
            _write_saved_model(model, temporary, pairs=pairs, text=text)
        else:
            temporary.mkdir()
            _write_portable(model, temporary, format, quantize, text=text)


def _check_options(
    model: ZooModel, format: str, quantize: str | None, layout: str, *, pairs: bool, text: bool
) -> None:
    if format not in _ENTRIES:
        raise ValueError(f"format is {format!r}; choose one of {tuple(_ENTRIES)}.")
    if layout not in _LAYOUTS or (layout != "bert_zoo" and format != "onnx"):
        raise ValueError(
            f"layout is {layout!r} and format {format!r}; format='onnx' has one of {_LAYOUTS}, all others "
            "'bert_zoo' alone."
        )
    if quantize not in _QUANTIZED:
        raise ValueError(f"quantize is {quantize!r}; choose one of {_QUANTIZED}.")
    if format == "saved_model":
        if quantize is not None:
            raise ValueError(
                f"quantize={quantize!r} is for format='litert' and format='onnx'; a SavedModel keeps the "
                "model's weights. Leave quantize out, or choose one of these formats."
            )
        return
    if not encoder_of(model).backbone.is_portable:
        raise ValueError(
            f"The converters of format={format!r} do not take the loops over tokens of the family "
            f"{encoder_of(model).family}. Export a SavedModel."
        )
    if format == "litert" and getattr(getattr(model, "features", None), "lstms", ()):
        raise ValueError(
            "LiteRT's converter does not take the loops over tokens of a BiLSTM, which this model's head has. "
            "Export it with format='onnx', or as a SavedModel."
        )
    if pairs:
        raise ValueError(
            f"pairs=True chooses a SavedModel's signature for texts; format={format!r} has none, and "
            "its signatures on ids read pairs as single texts. Leave pairs out."
        )
    modules = (*_MODULES.get(format, ()), *(("tokenizers",) if text else ()))
    if missing := [name for name in modules if not find_spec(name)]:
        raise ImportError(
            f"format={format!r} needs {', '.join(missing)}: pip install 'bert_zoo[{format}]'."
        )
    if text and model.reads_windows:
        raise ValueError(
            f"The model reads long texts in windows, which format={format!r} has not: it would cut them. "
            "Load the model with long_texts=None, or pass text=False."
        )
    if format == "litert" and quantized_layers(model):
        raise ValueError(
            "The model was quantized by Keras, whose products of integers LiteRT's converter does not take. "
            'Export the model as it was before model.quantize, with quantize="int8"; or choose another '
            "format."
        )
    if model.dtype_policy.compute_dtype != "float32":
        raise ValueError(
            f"The model computes in {model.dtype_policy.compute_dtype}, and format={format!r} is made from "
            "float32; quantize is how its weights become smaller. Load the model with dtype='float32'."
        )
    size = 4 * model.count_params()
    if size > _LARGEST_FILE:
        raise ValueError(
            f"The model's weights take {size / 2**30:.1f} GiB, and a file of format={format!r} holds less "
            "than 2 GiB. Export a SavedModel."
        )


def _write_saved_model(model: ZooModel, directory: Path, **options: bool) -> None:
    import tensorflow as tf

    from bert_zoo.serving.servable import make_servable

    saved, signatures = make_servable(model, **options)
    tf.saved_model.save(saved, str(directory), signatures=signatures)


def _write_portable(
    model: ZooModel, directory: Path, format: str, quantize: str | None, *, text: bool
) -> None:
    from bert_zoo.serving.description import text_description
    from bert_zoo.serving.litert import write_litert
    from bert_zoo.serving.onnx_files import write_onnx
    from bert_zoo.serving.portable import id_functions

    functions = id_functions(model)
    if format == "litert":
        write_litert(model, functions, directory, quantize)
    else:
        write_onnx(model, functions, directory, quantize)
    description = {
        "version": VERSION,
        "format": format,
        "quantize": quantize,
        "task": model.task,
        "verb": None,
        **model.portable_verb(),
        "outputs_per_token": [
            name
            for name in model.interface.outputs
            if model.outputs_per_token and name not in model.interface.row_outputs
        ],
        "signatures": {name: function.description() for name, function in functions.items()},
        **text_description(model, directory, text=text),
    }
    write_json(directory / DESCRIPTION_FILE, description)


def _write_hugging_face(
    model: ZooModel, directory: Path, target: Path, quantize: str | None
) -> None:
    from bert_zoo.loading.save import write_around_weights
    from bert_zoo.serving.onnx_files import write_graph
    from bert_zoo.serving.portable import hugging_face_function

    function = hugging_face_function(model)
    pooling = encoder_of(model).pooling
    # Models with a head keep neither.
    after = ["dense layers"] * bool(pooling.dense) + ["truncate_dim"] * bool(pooling.truncate_dim)
    if after:
        log.warning(
            "What follows the pooling of this model (%s) is in the directory, and not in the graph: "
            "sentence-transformers applies it, transformers.js does not.",
            " and ".join(after),
        )
    write_around_weights(model, directory)
    (directory / _HF_FOLDER).mkdir()
    _refuse_others(target, _HF_FOLDER, {entry.name for entry in directory.iterdir()}, "layout='hf'")
    path = directory / _HF_FOLDER / _HF_FILES[quantize]
    write_graph(model, path.stem, function, path, quantize)


def _checked_target(directory: str | os.PathLike, kind: str) -> Path:
    """The path of an export of a format, or of a layout, whose files are known once they are written."""
    if "://" in os.fspath(directory):
        raise ValueError(
            f"{directory} is not a local directory. Export to one, and copy it from there."
        )
    target = Path(directory).expanduser().resolve()
    if not target.exists():
        return target
    if not target.is_dir():
        raise FileExistsError(f"{target} is a file. Name a directory for the export.")
    if kind in _ENTRIES:
        certain, others = _ENTRIES[kind]
        if kind == "onnx":
            others = others | {path.name for path in target.glob(f"*{ONNX_SUFFIX}")}
        _refuse_others(target, certain, others, f"format={kind!r}")
    return target


def _refuse_others(target: Path, certain: str, others: Collection[str], what: str) -> None:
    """Refuses a directory that holds anything else than an earlier export.

    Args:
        certain: what an export has for certain.
        others: what else it may have.
        what: option that says what is exported.
    """
    found = {entry.name for entry in target.iterdir()} if target.exists() else set()
    foreign = sorted(found - {certain, *others})
    if found and (foreign or certain not in found):
        raise FileExistsError(
            f"{target} holds other files than an export of {what}, which would be lost: "
            f"{(foreign or sorted(found))[:10]}. Name a new or empty directory, or delete it first."
        )
