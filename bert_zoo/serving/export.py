"""`export`: writes a model that TensorFlow, LiteRT or ONNX Runtime can run without this package."""

import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import keras

from bert_zoo.models.base import ZooModel, encoder_of, quantized_layers
from bert_zoo.runtime.description import DESCRIPTION_FILE, ONNX_SUFFIX, VERSION
from bert_zoo.serving import ENTRIES, check_options
from bert_zoo.tasks.streams import StatefulModel
from bert_zoo.tasks.zero_shot import check_template
from bert_zoo.training.freezing import without_lora
from bert_zoo.weights.files import remove_leftovers, replacing_directory, write_json

log = logging.getLogger("bert_zoo")

# The folder of graphs in Hugging Face's directories, and the file names that transformers.js looks for.
_HF_FOLDER = "onnx"
_HF_FILES = {None: "model.onnx", "int8": "model_quantized.onnx", "float16": "model_fp16.onnx"}
# Bytes: the limit of both formats (flat buffers' offsets and protocol buffers), with a margin.
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
    label_template: str | None = None,
) -> None:
    """Writes a model for TensorFlow Serving, LiteRT or ONNX Runtime.

    `format="saved_model"` writes a SavedModel that uses only ops of TensorFlow and tensorflow_text.
    Its signatures accept any batch size and length:

    * `serving_default` takes `text` (string [batch]). Question answering takes `question` and
      `context`; multiple choice takes `text` and `choices` (string [batch, choices]).
    * `pairs` takes `text` and `text_pair`, if the task and the model read pairs.
    * `tokens` takes `token_ids`, `segment_ids` and `padding_mask` (int32 [batch, length]; multiple
      choice [batch, choices, length]).
    * `mask_positions` (masked language models) also takes `mask_positions` (int32 [batch,
      predictions]), and returns logits only there.
    * `span_boundaries` (SpanBERT's pretraining) also takes `span_boundaries` (int32 [batch, spans, 2]),
      and returns logits for the spans' tokens.
    * `replaced_token_ids` (ELECTRA's pretraining) also takes `replaced_token_ids` (int32 [batch,
      length]), which the discriminator reads instead of `token_ids`.
    * `zero_shot` (with `label_template`) takes `text` and `labels` (string [labels]), and returns `scores`
      (float32 [batch, labels]) as `classify(texts, labels=labels, template=label_template)` does; also
      `label_scores`, those of `multi_label=True`, or of a sentence encoder `cosines`.

    Models with a memory have `serving_default`, which takes `text`; `tokens`, which takes `token_ids`
    (language models also `labels`); `step`, which takes `token_ids` and the memory and returns the new
    memory; and `initial_memory`, which takes `batch_size` and returns the memory before a text.
    Language models add `score`, which takes `text`, and `step_scores`, a `step` that takes `labels`.

    Signatures that take text run any number of texts, or windows of long ones, in chunks of 8,192
    tokens, which limits the memory that a request needs. Texts are cut to the model's `max_length`
    unless it was loaded with `long_texts`; contexts of questions are read completely. The reloaded
    object follows TF-Hub's reusable SavedModel interface, and `bert_zoo.layers.SavedModelLayer` puts it
    back into a Keras model. docs/export.md lists the outputs of each task.

    `format="litert"` writes one `model.tflite` with all signatures, `format="onnx"` one file per
    signature. They contain the signatures on ids, without `segment_ids` if the model has none, and
    without `initial_memory` (it is all zeros). They return the model's raw outputs: logits, not labels.
    docs/serving.md describes the other files.

    `layout="hf"` writes ONNX files where transformers.js and optimum expect them: `onnx/model.onnx`
    takes `input_ids`, `attention_mask` and, if the family has them, `token_type_ids` (int64 [batch,
    sequence]), and returns `last_hidden_state`, `logits` or `start_logits` and `end_logits`. The other
    files are those of `save(format="hf")`, without weights.

    LoRA is merged into the kernels.

    Args:
        model: any model of the zoo, on Keras's TensorFlow backend.
        directory: where to write. An earlier export of the same format is replaced once the new one is
            complete; the directory must not contain other files.
        format: "saved_model", "litert" or "onnx".
        quantize: for "litert" and "onnx": "int8" stores weights in int8 and multiplies in int8 (dynamic
            range); "float16" halves the file and computes in float32; None changes nothing.
        layout: for "onnx": "bert_zoo", which `bert_zoo.runtime` reads, or "hf".
        pairs: whether a SavedModel's `serving_default` takes `text` and `text_pair`.
        text: False leaves out everything that takes text, for models without a vocabulary; a
            SavedModel's `serving_default` then equals `tokens`.
        label_template: adds a SavedModel's signature `zero_shot`; a sentence with {} in place of a label, or "{}".

    Raises:
        TypeError: not a model of the zoo, or a `StatefulModel` (export its inner model).
        RuntimeError: Keras runs on another backend.
        ValueError: the model has no vocabulary or does not read pairs; the path is not local; the format
            is unknown or lacks an option; or, for "litert" and "onnx", the model does not compute in
            float32 or has more than 2 GB of weights.
        ImportError: the format's extra is not installed.
        FileExistsError: `directory` holds other files.

    Source: tensorflow.org/hub, "Reusable SavedModels" and "Common SavedModel APIs for Text Tasks".
    """
    if not isinstance(model, ZooModel):
        raise TypeError(f"export() writes models that load() makes; got {type(model).__name__}.")
    if isinstance(model, StatefulModel):
        raise TypeError(
            f"A {type(model).__name__} holds its memory internally, for training. Export its inner model, "
            f"whose signatures take and return the memory: export(model.{model.held_as}, directory)."
        )
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"Exports need Keras's TensorFlow backend, but the backend is {keras.backend.backend()}. "
            "Save the model with bert_zoo.save(model, directory), then load and export it in a process "
            "with the environment variable KERAS_BACKEND=tensorflow and TensorFlow installed (pip "
            'install "bert_zoo[tensorflow]").'
        )
    if model.why_no_export:
        raise ValueError(
            f"Models for task {model.task!r} cannot be exported. {model.why_no_export} Use bert_zoo.save."
        )
    options = {"pairs": pairs, "text": text, "label_template": label_template}
    check_options(format, quantize, layout, **options)
    _check_model(model, format, text=text)
    if label_template is not None:
        check_template("label_template", label_template)
        if not hasattr(model, "served_by_name"):
            raise ValueError(
                f"label_template is {label_template!r}, but models of the task {model.task!r} do not find classes by "
                "name, as those of 'classification' and 'embedding' do. Leave it out."
            )
    if text and not getattr(model, "encoder", model).has_preprocessor:
        raise ValueError(
            "This model has no vocabulary, so it cannot read texts. Set model.preprocessor = "
            "bert_zoo.text.preprocessor_from_dir(...), or pass text=False to export only the signatures "
            "on ids."
        )
    target = _checked_target(directory, format if layout == "bert_zoo" else layout)
    model = without_lora(model)
    remove_leftovers(target.parent, target.name)
    with replacing_directory(target) as temporary:
        if layout == "hf":
            _write_hugging_face(model, temporary, target, quantize)
        elif format == "saved_model":
            _write_saved_model(model, temporary, **options)
        else:
            temporary.mkdir()
            _write_portable(model, temporary, format, quantize, text=text)


def _check_model(model: ZooModel, format: str, *, text: bool) -> None:
    if format == "saved_model":
        return
    if not encoder_of(model).backbone.is_portable:
        raise ValueError(
            f"The converter for format={format!r} does not support the loops over tokens of the family "
            f"{encoder_of(model).family}. Export a SavedModel."
        )
    if format == "litert" and getattr(getattr(model, "features", None), "lstms", ()):
        raise ValueError(
            "LiteRT's converter does not support the loops over tokens of a BiLSTM, which this model's head "
            "has. Export it with format='onnx', or as a SavedModel."
        )
    if text and model.reads_windows:
        raise ValueError(
            f"The model reads long texts in windows, but format={format!r} would cut them. Load the model "
            "with long_texts=None, or pass text=False."
        )
    if format == "litert" and quantized_layers(model):
        raise ValueError(
            "The model was quantized by Keras, whose integer products LiteRT's converter does not support. "
            'Export the model as it was before model.quantize, with quantize="int8", or choose another '
            "format."
        )
    if model.dtype_policy.compute_dtype != "float32":
        raise ValueError(
            f"The model computes in {model.dtype_policy.compute_dtype}, but format={format!r} needs float32. "
            "Load the model with dtype='float32'; to make the weights smaller, pass quantize."
        )
    size = 4 * model.count_params()
    if size > _LARGEST_FILE:
        raise ValueError(
            f"The model's weights take {size / 2**30:.1f} GiB, but a file of format={format!r} holds less "
            "than 2 GiB. Export a SavedModel."
        )


def _write_saved_model(model: ZooModel, directory: Path, **options: Any) -> None:
    import tensorflow as tf

    from bert_zoo.serving.servable import make_servable

    saved, signatures = make_servable(model, **options)
    tf.saved_model.save(saved, str(directory), signatures=signatures)


def _write_portable(
    model: ZooModel, directory: Path, format: str, quantize: str | None, *, text: bool
) -> None:
    from bert_zoo.serving.portable import id_functions, write_litert, write_onnx
    from bert_zoo.serving.servable import text_description

    verb = model.portable_verb()  # refuses some models, so it comes before the conversion
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
        **verb,
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
    from bert_zoo.serving.portable import hugging_face_function, write_graph

    function = hugging_face_function(model)
    pooling = encoder_of(model).pooling
    # Models with a head have neither.
    steps = {
        "dense layers": pooling.dense,
        "layer_norm": pooling.layer_norm,
        "truncate_dim": pooling.truncate_dim,
    }
    if after := [name for name, is_there in steps.items() if is_there]:
        log.warning(
            "The steps after this model's pooling (%s) are in the directory but not in the graph: "
            "sentence-transformers applies them, transformers.js does not.",
            " and ".join(after),
        )
    write_around_weights(model, directory)
    (directory / _HF_FOLDER).mkdir()
    _refuse_others(target, _HF_FOLDER, {entry.name for entry in directory.iterdir()}, "layout='hf'")
    path = directory / _HF_FOLDER / _HF_FILES[quantize]
    write_graph(model, path.stem, function, path, quantize)


def _checked_target(directory: str | os.PathLike, kind: str) -> Path:
    """Returns the path of an export; a layout's files are checked later, when they are written."""
    if "://" in os.fspath(directory):
        raise ValueError(
            f"{directory} is not a local directory. Export to a local one, and copy it from there."
        )
    target = Path(directory).expanduser().resolve()
    if not target.exists():
        return target
    if not target.is_dir():
        raise FileExistsError(f"{target} is a file. Name a directory for the export.")
    if kind in ENTRIES:
        certain, others = ENTRIES[kind]
        if kind == "onnx":
            others = others | {path.name for path in target.glob(f"*{ONNX_SUFFIX}")}
        _refuse_others(target, certain, others, f"format={kind!r}")
    return target


def _refuse_others(target: Path, certain: str, others: Collection[str], what: str) -> None:
    """Raises FileExistsError if a directory holds anything but an earlier export: a file that every export has, and its
    others. `what` is the option that selects this kind of export.
    """
    found = {entry.name for entry in target.iterdir()} if target.exists() else set()
    foreign = sorted(found - {certain, *others})
    if found and (foreign or certain not in found):
        raise FileExistsError(
            f"{target} holds files that are not of an export with {what} and would be lost: "
            f"{(foreign or sorted(found))[:10]}. Name a new or empty directory, or delete it first."
        )
