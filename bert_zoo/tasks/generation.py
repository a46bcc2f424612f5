"""Token-by-token generation with keras_hub's samplers."""

import codecs
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_zoo.config import is_integer
from bert_zoo.models.graphs import on_model
from bert_zoo.models.inputs import as_array, as_ids, check_range, check_rank
from bert_zoo.runtime.printed import Rows
from bert_zoo.tasks.samplers import as_sampler, drawing_from

# A growing memory has a multiple of this number of slots, because XLA and JAX compile for each size.
SLOTS = 64
# The id of a position without a chosen token.
OPEN = -1

# (model, tokens [batch], state) -> log-probabilities of the next tokens, float32 [batch, vocabulary], and the next
# state, tensors [batch, ...] in any structure. It must be traceable and a module's function, as for `on_model`.
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def slots_for(tokens: int) -> int:
    """Returns the number of slots of a memory for a number of tokens."""
    return -(-int(tokens) // SLOTS) * SLOTS


class Generation:
    """Checks the options of `generate` and chooses tokens.

    Args:
        model: a `ZooModel`.
        step: the model's `Step`.
        max_new_tokens, sampler, seed, stop, stream, **drawing: as for `CausalLM.generate`.

    Attributes:
        stop_ids: ids of the tokens that end a text.
    """

    def __init__(
        self,
        model,
        step: Step,
        *,
        max_new_tokens: int,
        sampler,
        seed,
        stop,
        stream: bool,
        **drawing,
    ):
        if not is_integer(max_new_tokens) or max_new_tokens < 1:
            raise ValueError(
                f"max_new_tokens is {max_new_tokens!r}; it must be a positive integer."
            )
        self._model, self._number, self._stream = model, max_new_tokens, stream
        is_named = sampler is None or isinstance(sampler, str)
        # A stream draws between other calls, so it needs its own sampler.
        sampler = as_sampler(sampler, seed=seed, own=stream, **drawing)
        if stream and "__call__" in vars(type(sampler)):
            raise ValueError(
                f"{type(sampler).__name__} chooses whole texts, so it cannot stream tokens. Pass stream=False, or another "
                "sampler."
            )
        self._drawing = drawing_from(seed, sampler) if is_named else contextlib.nullcontext()
        self.stop_ids = _stop_ids(model, stop)
        self._step = step
        self._choosing = {"sampler": sampler, "stop_ids": self.stop_ids}

    def outputs(
        self,
        texts: "TextOutput | IdOutput",
        begins: Sequence[Callable[[], tuple[np.ndarray, Any]]],
        order: np.ndarray | slice = slice(None),
    ):
        """Returns the result of `generate`.

        Args:
            texts: the texts to add tokens to.
            begins: a function for each batch of texts, which returns the last token of each, int32 [batch],
                and the state before it. A stream has one batch.
            order: the row of each text in the concatenated batches.
        """
        if self._stream:
            (begin,) = begins
            return texts.pieces(self._columns(begin))
        with self._drawing:
            chosen = [self._chosen(*begin()) for begin in begins]
        longest = max(tokens.shape[1] for tokens in chosen)
        # A batch that ends early is filled with its rows' stop tokens.
        wide = [np.pad(t, [(0, 0), (0, longest - t.shape[1])], "edge") for t in chosen]
        return texts.whole(np.concatenate(wide)[order])

    def _chosen(self, last: np.ndarray, state) -> np.ndarray:
        """Returns tokens, int32 [batch, new tokens]; a row that has ended repeats its stop token."""
        # The sampler fills the positions after the last token.
        canvas = np.full((len(last), 1 + self._number), OPEN, "int32")
        canvas[:, 0] = last
        is_given = np.zeros(canvas.shape, bool)
        is_given[:, 0] = True
        tensors = (canvas, is_given, state)
        tokens = on_model(self._model, filled, *tensors, step=self._step, **self._choosing)
        chosen = ops.convert_to_numpy(tokens)[:, 1:]
        return chosen[:, : _lengths(chosen, self.stop_ids, with_stop=True).max()]

    def _columns(self, begin: Callable[[], tuple[np.ndarray, Any]]) -> Iterator[np.ndarray]:
        """Yields the columns of `_chosen`'s result, each as soon as it is sampled."""
        tokens, state = begin()
        ended = np.zeros(len(tokens), bool)
        for _ in range(self._number):
            log_probs, state = on_model(self._model, self._step, tokens, state)
            tensors = (log_probs, tokens, ended)
            tokens, ended = on_model(self._model, _next_tokens, *tensors, **self._choosing)
            yield ops.convert_to_numpy(tokens)
            if ops.convert_to_numpy(ended).all():
                return


# --- Inputs and outputs ---


class GeneratedTexts(Rows):
    """A list of texts, which prints numbered with an empty line between texts."""

    def __str__(self) -> str:
        return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(self))


def checked_ids(model, given: Mapping[str, Any], what: str) -> tuple[np.ndarray, np.ndarray]:
    """Checks texts given as ids and returns token ids and padding mask, int32 [batch, length].

    Args:
        model: the model.
        given: the user's dict.
        what: its name in messages.

    Raises:
        ValueError: names, shapes or ids are invalid, or a row has no token.
    """
    unknown = sorted(set(given) - {"token_ids", "padding_mask"})
    if unknown or "token_ids" not in given:
        raise ValueError(
            f"A {what} of ids must be a dict of token_ids [batch, length] and, for rows of different lengths, "
            f"padding_mask; this one has {sorted(given)}."
        )
    arrays = {
        name: ops.convert_to_numpy(as_ids(name, as_array(name, value)))
        for name, value in given.items()
    }
    token_ids = arrays["token_ids"]
    mask = arrays.get("padding_mask", np.ones_like(token_ids))
    check_rank(token_ids, 2, "[batch, length]")
    if mask.shape != token_ids.shape:
        raise ValueError(
            f"padding_mask has the shape {mask.shape}, but token_ids {token_ids.shape}. They must have the same shape."
        )
    for name, array in arrays.items():
        check_range(name, array, *model.id_limits()[name])
    for number, is_empty in enumerate(~(mask > 0).any(axis=1)):
        if is_empty:
            raise ValueError(
                f"Row {number} of the {what} has no token, because its padding_mask is 0 everywhere. Give it at least "
                "one token."
            )
    return token_ids, mask


class IdOutput:
    """Rows of ids with new tokens.

    Args:
        shown: the ids before the new tokens, int32 [batch, length].
    """

    def __init__(self, shown: np.ndarray):
        self._shown = shown

    def whole(self, chosen: np.ndarray) -> np.ndarray:
        return np.concatenate([self._shown, chosen], axis=1)

    def pieces(self, columns: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        yield self._shown
        for column in columns:
            yield column[:, None]


class TextOutput:
    """Texts of tokens, without stop tokens.

    Args:
        tokenizer: the tokenizer.
        shown: the ids that each text begins with.
        stop_ids: ids of the tokens that end a text.
        is_single: whether to return a single text instead of a list.
    """

    def __init__(
        self, tokenizer, shown: list[np.ndarray], stop_ids: Sequence[int], is_single: bool
    ):
        self._tokenizer, self._shown = tokenizer, shown
        self._stop_ids, self._is_single = stop_ids, is_single

    def whole(self, chosen: np.ndarray) -> str | GeneratedTexts:
        lengths = _lengths(chosen, self._stop_ids)
        new = (row[:length] for row, length in zip(chosen, lengths, strict=True))
        spelled = self._tokenizer.detokenized(map(np.append, self._shown, new))
        return self._as_asked(GeneratedTexts(text.decode("utf-8", "replace") for text in spelled))

    def pieces(self, columns: Iterable[np.ndarray]) -> Iterator[str | list[str]]:
        # Tokens may be bytes, and a character may have several.
        decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in self._shown]

        def decoded(parts, final=False):
            pairs = zip(decoders, parts, strict=True)
            return self._as_asked([decoder.decode(part, final) for decoder, part in pairs])

        yield decoded(self._tokenizer.detokenized(self._shown))
        ended = np.zeros(len(self._shown), bool)
        last = [row[-1:] for row in self._shown]
        for column in columns:
            ended |= np.isin(column, self._stop_ids)
            new = [token[end:] for token, end in zip(column[:, None], ended.tolist(), strict=True)]
            # The previous token decides whether a space precedes a token.
            longer = list(map(np.append, last, new))
            spelled = self._tokenizer.detokenized([*last, *longer])
            pairs = zip(spelled[: len(last)], spelled[len(last) :], strict=True)
            yield decoded([after[len(before) :] for before, after in pairs])
            last = [row[-1:] for row in longer]
        rest = decoded([b""] * len(self._shown), final=True)
        if any(rest):
            yield rest

    def _as_asked(self, texts: list[str]) -> str | list[str]:
        return texts[0] if self._is_single else texts


def _lengths(chosen: np.ndarray, stop_ids: Sequence[int], with_stop: bool = False) -> np.ndarray:
    """Returns the number of each row's tokens before its stop token, int [batch], optionally with it."""
    ends = np.isin(chosen, stop_ids)
    return np.where(ends.any(axis=1), ends.argmax(axis=1) + with_stop, chosen.shape[1])


def _stop_ids(model, stop: str | Sequence[int | str] | None) -> tuple[int, ...]:
    if stop is None:
        return ()
    if stop == "eos":
        if not model.encoder.has_preprocessor:
            return ()
        try:
            tokenizer = model.preprocessor.tokenizer
        except ImportError as error:
            raise ImportError(
                f"Looking up the vocabulary's end token failed: {error}. Text needs TensorFlow. With prompts of ids, "
                "pass stop=[id] or stop=None."
            ) from error
        return (tokenizer.eos_id,) if hasattr(tokenizer, "eos_id") else ()
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise TypeError(
            f"stop is {stop!r}; it must be 'eos', a list of tokens or ids, or None to generate max_new_tokens."
        )
    ids = tuple(
        model.preprocessor.tokenizer.token_to_id(token) if isinstance(token, str) else token
        for token in stop
    )
    check_range("stop", np.array(ids), *model.id_limits()["token_ids"])
    return ids


# --- Tokens ---


def filled(model, canvas, is_given, state, *, step: Step, sampler, stop_ids):
    """Returns the canvas [batch, positions] with the sampler's tokens in all positions that were not given."""

    def next_log_probs(prompt, state, index):
        tokens = ops.take(prompt, index - 1, axis=1)
        log_probs, state = step(model, tokens, state)
        ended = ops.any(_is_in(prompt[:, 1:], stop_ids), axis=1)
        return _held_where(ended, log_probs, tokens), None, state

    return sampler(
        next=next_log_probs,
        prompt=ops.convert_to_tensor(canvas),
        cache=state,
        index=1,
        mask=ops.convert_to_tensor(is_given),
        stop_token_ids=stop_ids or None,
        model=model,
    )


def _next_tokens(model, log_probs, tokens, ended, *, sampler, stop_ids):
    """Returns the next tokens [batch], chosen by log-probabilities, and which rows have ended."""
    held = _held_where(ended, log_probs, tokens)
    tokens = sampler.get_next_token(sampler.compute_probabilities(held))
    tokens = ops.cast(tokens, "int32")
    return tokens, ops.logical_or(ended, _is_in(tokens, stop_ids))


def _is_in(tokens, ids: Sequence[int]):
    return ops.any(tokens[..., None] == ops.array(ids, "int32"), axis=-1)


def _held_where(ended, log_probs, tokens):
    """Returns log-probabilities that make an ended row repeat its token without changing its score.

    keras_hub 0.32's samplers continue a row until all have ended, so beams would otherwise be chosen by
    tokens after their ends.
    """
    ids = ops.arange(ops.shape(log_probs)[-1])
    repeated = ops.where(ids[None, :] == tokens[:, None], 0.0, -np.inf)
    return ops.where(ended[:, None], ops.cast(repeated, log_probs.dtype), log_probs)
