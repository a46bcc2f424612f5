"""`lengthen`: a model that reads long rows, made of one that reads short ones."""

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
    """A model of the same task that reads rows of up to `max_length` tokens, in time that grows with them.

    Its weights are the given model's, which stays as it is: the table of positions is repeated, and
    tokens with attention to all others begin with the projections of all tokens. In rows that both models
    read and no longer than half a window, it computes what the given one does; longer ones it has to be
    trained on, at the least on masked tokens (`bert_zoo pretrain --model`). Vocabulary, labels and a
    trained head are kept.

    Args:
        model: an encoder or a task model, with a vocabulary.
        max_length: tokens of the longest row, more than the model reads.
        attention: "window": each token attends to those near by, and a task's global tokens to all.
        window: tokens that a token sees in each layer beside itself, an even number.

    Returns:
        The model, compiled as `load` compiles it where the given one is compiled.

    Raises:
        ValueError: a model that has no longer form, or whose head has none; or an argument outside of its
            range.

    Source: Beltagy et al. 2020 (Longformer, arXiv:2004.05150), section 5.
    """
    page = _page_of(attention)
    encoder = encoder_of(model)
    if encoder.family not in page.lengthening.families:
        raise ValueError(
            f"A model of the family {encoder.family} cannot be lengthened; those of "
            f"{listing(page.lengthening.families)} can."
        )
    if not is_integer(max_length) or max_length <= encoder.longest_input:
        raise ValueError(
            f"max_length is {max_length!r}; it is a number of tokens above the {encoder.longest_input} that "
            "the model reads."
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
            f"The model has the variables {listing(sorted(values.keys() ^ variables.keys()))} beside those of "
            "a longer one. Merge its LoRA first: save it, and load what was saved."
        )
    for path, variable in variables.items():
        variable.assign(values[path])
    if model.compiled:
        compile_for_task(longer)
    return longer


def _page_of(attention: str) -> Family:
    """The page of the family whose models have that attention."""
    pages = registry().families.values()
    known = {page.lengthening.attention: page for page in pages if page.lengthening is not None}
    if attention not in known:
        raise ValueError(f"attention is {attention!r}; it is one of {listing(known)}.")
    return known[attention]


def _with_head(model: TaskModel, page: Family, config: Config) -> Config:
    """The configuration of a longer model whose head computes what the given one's does.

    Raises:
        ValueError: the longer family has no such head.
    """
    task = model.task
    if task not in page.tasks:
        raise ValueError(
            f"There are no longer models for task {task!r}. Lengthen model.encoder, or the model that load() "
            f"makes of the checkpoint with one of the tasks {listing(page.tasks)}."
        )
    own_head = model.head is not None or getattr(model, "reads_vectors", False)
    if task in page.tasks_without_head or own_head:
        return config
    head, longer = model.stored_head, page.heads[task]
    if model.predicts_tokens:
        before, after = (h.activation or config.activation for h in (head, longer))
        advice = f"Load the model with activation={after!r}, which its encoder computes then, too."
        has_moved = False
    else:
        before = head.output(model.encoder.config).get("transform")
        after = longer.output(config).get("transform")
        # The pooler's layer may have its place in the head.
        has_moved = head.pooler and not longer.pooler
        before = "tanh" if has_moved else before
        advice = "Lengthen model.encoder, save it, and load it with this task, for a new head."
    if before != after:
        raise ValueError(
            f"The head of this model computes {before!r} before its logits, and that of a longer one "
            f"{after!r}. {advice}"
        )
    return config.with_pooler(config.pooler and not has_moved)
