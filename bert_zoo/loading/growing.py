"""`add_tokens` and `lengthen`: a model with a larger vocabulary, or for longer rows."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import Config
from bert_zoo.error_text import listing, shown
from bert_zoo.family import Family
from bert_zoo.fields import check
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.models.task_model import TaskModel
from bert_zoo.registry import registry
from bert_zoo.text.files import AddedToken
from bert_zoo.text.format import WithPreprocessor
from bert_zoo.training.presets import compile_for_task
from bert_zoo.weights.bind import named_variables, variables_of

if TYPE_CHECKING:
    from bert_zoo.text.tokenizer import Tokenizer


def add_tokens(
    model: ZooModel,
    tokens: Iterable[str | AddedToken | Mapping[str, Any]],
    *,
    rows: str = "mean",
) -> ZooModel:
    """Returns a copy of a model with added tokens; each becomes one id wherever it occurs in a text.

    The given model does not change. Every table with a row per token grows: the token table, and the
    table or bias of a head that predicts tokens.

    Args:
        model: any model of the zoo with a vocabulary of subwords.
        tokens: strings, `bert_zoo.text.AddedToken` objects or dictionaries of their fields. Strings are
            matched in normalised text, as in Hugging Face's `add_tokens`: models that lower-case texts
            find them in any case.
        rows: initial rows of the new tokens: "mean" for the mean of the rows of the pieces that the token
            was split into before, or "random" for a random initialisation.

    Returns:
        The new model. If the given one is compiled, it is compiled as `load` does.

    Raises:
        ValueError: there are no tokens, `rows` is unknown, or the model has LoRA (merge it first).
        TypeError: an item is not a token, or the vocabulary consists of whole words.
    """
    check("rows", rows, str, choices=("mean", "random"))
    if isinstance(tokens, str):
        raise TypeError(f"tokens is {shown(tokens)}, one string; pass a list, [{shown(tokens)}].")
    added = [
        AddedToken(token, normalized=True) if isinstance(token, str) else AddedToken.of(token)
        for token in tokens
    ]
    if not added:
        raise ValueError("tokens is empty; pass the tokens to add.")
    before = model.preprocessor.tokenizer
    tokenizer = before.with_added_tokens(added)
    size = encoder_of(model).config.vocab_size
    grown = rebuilt(model, vocab_size=max(size, tokenizer.vocab_size))
    encoder_of(grown).preprocessor = type(model.preprocessor)(
        tokenizer, **model.preprocessor.get_config()
    )
    # Variables with a row per token are those whose shapes change with one more token.
    larger = (
        grown if encoder_of(grown).config.vocab_size > size else rebuilt(model, vocab_size=size + 1)
    )
    shapes = {path: tuple(v.shape) for path, v in named_variables(larger).items()}
    values = {path: ops.convert_to_numpy(v) for path, v in named_variables(model).items()}
    variables = named_variables(grown)
    if values.keys() != variables.keys():
        raise ValueError(
            f"The model has additional variables: {listing(sorted(values.keys() ^ variables.keys()))}. "
            "To merge its LoRA first, save the model and load it again."
        )
    pieces = _pieces(before, tokenizer) if rows == "mean" else {}
    for path, variable in variables.items():
        value = values[path]
        if shapes[path] != value.shape:
            value = np.concatenate([value, ops.convert_to_numpy(variable)[len(value) :]])
            for index, ids in pieces.items():
                value[index] = value[ids].mean(axis=0)
        variable.assign(value)
    if model.compiled:
        compile_for_task(grown)
    return grown


def rebuilt(model: ZooModel, **fields: Any) -> ZooModel:
    """Returns a randomly initialised model with changed fields in its encoders' configurations."""

    def changed(config: Any) -> Any:
        if isinstance(config, dict):
            return {name: fields.get(name, changed(value)) for name, value in config.items()}
        return config

    return type(model).from_config(changed(model.get_config()))


def _pieces(before: "Tokenizer", tokenizer: "Tokenizer") -> dict[int, list[int]]:
    """Maps the id of each new token to the ids it was split into before, or to the unknown token."""
    new = tokenizer.vocabulary[before.vocab_size :]
    ids = before(list(new)).to_list() if new else []
    return {
        before.vocab_size + number: of_token or [before.unk_id]
        for number, of_token in enumerate(ids)
    }


# -------------------------------------------------------------------------------------------------
# `lengthen`: turns a model into one that reads longer rows.
# -------------------------------------------------------------------------------------------------


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
    note = "the model's present limit"
    check("max_length", max_length, int, above=encoder.longest_input, note=note)
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
    check("attention", attention, str, choices=known)
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
