"""`add_tokens`: new tokens for a model's vocabulary, and rows for them in its tables."""

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
    """A model whose vocabulary has further tokens, each of which is one id wherever it stands in a text.

    Everything else is the given model's, which stays as it is. What has a row for each token grows: the
    token table, and with it the table or bias of a head over the vocabulary.

    Args:
        model: any model of the zoo with a vocabulary of subwords.
        tokens: each a string, found in normalised text (so in any case where the model reads lower case)
            as Hugging Face's `add_tokens` has it; or a `bert_zoo.text.AddedToken`, or a dictionary of its
            fields, which says how it is found.
        rows: what the new tokens' rows are: "mean", the mean of those of the pieces that the token has
            been so far; or "random", as at the beginning of pretraining.

    Returns:
        The model, compiled as `load` compiles it where the given one is compiled.

    Raises:
        ValueError: no tokens, `rows` of another name, or a model with LoRA, which has to be merged first.
        TypeError: something that is no token, or a model whose vocabulary is of whole words.
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
        raise ValueError("tokens is empty; pass the tokens that are to be added.")
    before = model.preprocessor.tokenizer
    tokenizer = before.with_added_tokens(added)
    size = encoder_of(model).config.vocab_size
    grown = rebuilt(model, vocab_size=max(size, tokenizer.vocab_size))
    encoder_of(grown).preprocessor = type(model.preprocessor)(
        tokenizer, **model.preprocessor.get_config()
    )
    # Which variables have rows of tokens is told by their shapes in a model with one token more.
    larger = (
        grown if encoder_of(grown).config.vocab_size > size else rebuilt(model, vocab_size=size + 1)
    )
    shapes = {path: tuple(v.shape) for path, v in named_variables(larger).items()}
    values = {path: ops.convert_to_numpy(v) for path, v in named_variables(model).items()}
    variables = named_variables(grown)
    if values.keys() != variables.keys():
        raise ValueError(
            f"The model has the variables {listing(sorted(values.keys() ^ variables.keys()))} beside its "
            "own. Merge its LoRA first: save it, and load what was saved."
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
    """A model of the same configuration but for some fields of its encoders', and with other weights."""

    def changed(config: Any) -> Any:
        if isinstance(config, dict):
            return {name: fields.get(name, changed(value)) for name, value in config.items()}
        return config

    return type(model).from_config(changed(model.get_config()))


def _pieces(before: "Tokenizer", tokenizer: "Tokenizer") -> dict[int, list[int]]:
    """What each new token has been so far, by its id: pieces, or the unknown token."""
    new = tokenizer.vocabulary[before.vocab_size :]
    ids = before(list(new)).to_list() if new else []
    return {
        before.vocab_size + number: of_token or [before.unk_id]
        for number, of_token in enumerate(ids)
    }
