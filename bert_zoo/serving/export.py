"""`export`: one SavedModel that serves text, without this package."""

import os
from pathlib import Path

import keras

from bert_zoo.models.base import ZooModel
from bert_zoo.tasks.causal_lm.streams import StatefulLM
from bert_zoo.training.lora import without_lora
from bert_zoo.weights.files import replacing_directory

# What tf.saved_model.save writes. `assets.extra`, for one, is the user's.
SAVED_MODEL_ENTRIES = {"saved_model.pb", "fingerprint.pb", "variables", "assets"}


def export(
    model: ZooModel, directory: str | os.PathLike, *, pairs: bool = False, text: bool = True
) -> None:
    """Writes a SavedModel of TensorFlow's and tensorflow_text's ops alone.

    Its signatures, with batch size and length free:

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
    LoRA is written as part of the kernels that it belongs to.

    Args:
        model: any model of the zoo, on Keras's TensorFlow backend.
        directory: where to write. It may hold an earlier SavedModel, which is replaced once the new
            one is complete, and nothing else.
        pairs: make `serving_default` take `text` and `text_pair`.
        text: False leaves out all that takes text, for a model without vocabulary;
            `serving_default` is then the same as `tokens`.

    Raises:
        TypeError: not a model of the zoo; or a `StatefulLM`, whose language model is what serves.
        RuntimeError: Keras runs on another backend.
        ValueError: the model has no vocabulary, or does not read pairs; or the path is not local.
        FileExistsError: `directory` holds other files.

    Source: tensorflow.org/hub, "Reusable SavedModels" and "Common SavedModel APIs for Text Tasks".
    """
    if not isinstance(model, ZooModel):
        raise TypeError(f"export() writes models that load() makes; got {type(model).__name__}.")
    if isinstance(model, StatefulLM):
        raise TypeError(
            "A StatefulLM keeps its memory to itself, so that it can be trained. Export the model "
            "inside of it, whose signatures take the memory and give it: "
            "export(model.language_model, directory)."
        )
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"A SavedModel needs Keras's TensorFlow backend, and this is {keras.backend.backend()}. "
            "Save the model with bert_zoo.save(model, directory), then load and export it in a "
            "process with the environment variable KERAS_BACKEND=tensorflow."
        )
    if text and not getattr(model, "encoder", model).has_preprocessor:
        raise ValueError(
            "This model has no vocabulary, so it cannot serve text. Set model.preprocessor = "
            "bert_zoo.text.preprocessor_from_dir(...), or pass text=False to export the signatures "
            "on ids alone."
        )
    target = _checked_target(directory)

    import tensorflow as tf

    from bert_zoo.serving.servable import make_servable

    saved, signatures = make_servable(without_lora(model), pairs=pairs, text=text)
    with replacing_directory(target) as temporary:
        tf.saved_model.save(saved, str(temporary), signatures=signatures)


def _checked_target(directory: str | os.PathLike) -> Path:
    if "://" in os.fspath(directory):
        raise ValueError(
            f"{directory} is not a local directory. Export to one, and copy it from there."
        )
    target = Path(directory).expanduser().resolve()
    if not target.exists():
        return target
    if not target.is_dir():
        raise FileExistsError(f"{target} is a file. Name a directory for the SavedModel.")
    found = {entry.name for entry in target.iterdir()}
    foreign = sorted(found - SAVED_MODEL_ENTRIES)
    if found and (foreign or "saved_model.pb" not in found):
        raise FileExistsError(
            f"{target} holds other files than a SavedModel, which would be lost: "
            f"{(foreign or sorted(found))[:10]}. Name a new or empty directory, or delete it first."
        )
    return target
