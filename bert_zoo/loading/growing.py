"""`add_tokens`: adds tokens to a model's vocabulary, and rows for them to its tables."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from bert_zoo.error_text import listing, shown
from bert_zoo.models.base import ZooModel, encoder_of
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.training.compiling import compile_for_task
from bert_zoo.weights.bind import named_variables

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
    if rows not in ("mean", "random"):
        raise ValueError(f"rows is {rows!r}; it is 'mean' or 'random'.")
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
