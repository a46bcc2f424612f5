"""`lengthen`: turns a model into one that reads longer rows."""

from typing import Any

import keras
from keras import ops

from bert_zoo.config import Config, is_integer
from bert_zoo.error_text import listing
from bert_zoo.family import Family
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.task_model import TaskModel
from bert_zoo.registry import registry
from bert_zoo.text.format import WithPreprocessor
from bert_zoo.training.compiling import compile_for_task
from bert_zoo.weights.bind import variables_of


def lengthen(
    model: ZooModel, max_length: int = 4096, attention: str = "window", window: int = 512
) -> ZooModel:
    """Returns a Longformer with a model's weights that reads rows of up to `max_length` tokens.

    Its time grows linearly with the length. The given model does not change; vocabulary, labels and a
    trained head are kept. The position table is repeated, and the projections for global tokens start
    as copies of the ordinary ones. For rows of at most half a window, the outputs stay the same. Train
    the new model on longer rows before use, at least on masked tokens (`bert_zoo pretrain --model`).

    Args:
        model: an encoder or task model with a vocabulary.
        max_length: maximum number of tokens of a row; more than the given model reads.
        attention: "window": each token attends to its neighbours, and a task's global tokens to all.
        window: even number of neighbours that a token attends to in each layer, half on each side.

    Returns:
        The new model. If the given one is compiled, it is compiled as `load` does.

    Raises:
        ValueError: the family or the head cannot be lengthened, or an argument is outside its range.

    Source: Beltagy et al. 2020 (Longformer, arXiv:2004.05150), section 5.
    """
    page = _page_of(attention)
    encoder = encoder_of(model)
    if encoder.family not in page.lengthening.families:
        raise ValueError(
            f"Models of the family {encoder.family} cannot be lengthened. The families "
            f"{listing(page.lengthening.families)} can."
        )
    if not is_integer(max_length) or max_length <= encoder.longest_input:
        raise ValueError(
            f"max_length is {max_length!r}; it must be a number of tokens above {encoder.longest_input}, the "
            "model's present limit."
        )
    sep_id = int(encoder.preprocessor.tokenizer.sep_id)
    config = page.lengthening.config(encoder.config, max_length, window, sep_id)
    if isinstance(model, TaskModel):
        config = _with_head(model, page, config)
    preprocessor = encoder.preprocessor.with_options(sequence_length=max_length)
    settings = {
        **encoder.get_config(),
        "config": config.to_dict(),
        "family": WithPreprocessor(page.name, preprocessor),
    }
    longer: Any = type(encoder).from_config(settings)
    if model is not encoder:
        serialized = keras.saving.serialize_keras_object(longer)
        longer = type(model).from_config({**model.get_config(), "encoder": serialized})
    values = {path: ops.convert_to_numpy(v) for path, v in variables_of(model).items()}
    variables = variables_of(longer)
    values = page.lengthening.weights(encoder.config, config, values, variables.keys())
    if values.keys() != variables.keys():
        raise ValueError(
            f"The model has additional variables: {listing(sorted(values.keys() ^ variables.keys()))}. "
            "To merge its LoRA first, save the model and load it again."
        )
    for path, variable in variables.items():
        variable.assign(values[path])
    if model.compiled:
        compile_for_task(longer)
    return longer


def _page_of(attention: str) -> Family:
    """Returns the family whose models have this attention."""
    pages = registry().families.values()
    known = {page.lengthening.attention: page for page in pages if page.lengthening is not None}
    if attention not in known:
        raise ValueError(f"attention is {attention!r}; it is one of {listing(known)}.")
    return known[attention]


def _with_head(model: TaskModel, page: Family, config: Config) -> Config:
    """Returns the longer model's configuration, for a head that computes the same as the given one's.

    Raises:
        ValueError: the longer family has no such head.
    """
    task = model.task
    if task not in page.tasks:
        raise ValueError(
            f"Models for the task {task!r} cannot be lengthened. Lengthen model.encoder, or load the checkpoint "
            f"with one of the tasks {listing(page.tasks)}."
        )
    own_head = model.head is not None or getattr(model, "reads_vectors", False)
    if task in page.tasks_without_head or own_head:
        return config
    head, longer = model.stored_head, page.heads[task]
    if model.predicts_tokens:
        before, after = (h.activation or config.activation for h in (head, longer))
        advice = f"Load the model with activation={after!r}, which also applies to its encoder."
        has_moved = False
    else:
        before = head.output(model.encoder.config).get("transform")
        after = longer.output(config).get("transform")
        # The longer model's head may contain the pooler's layer.
        has_moved = head.pooler and not longer.pooler
        before = "tanh" if has_moved else before
        advice = "Lengthen model.encoder, save it, and load it with this task, for a new head."
    if before != after:
        raise ValueError(
            f"The head of this model applies {before!r} before its logits, but a longer model's applies "
            f"{after!r}. {advice}"
        )
    return config.with_pooler(config.pooler and not has_moved)
