"""Text that goes on from a prompt: the model reads and steps, keras_hub's samplers choose."""

import codecs
import contextlib
import functools
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.config import is_integer
from bert_zoo.models.direct import tokenized
from bert_zoo.models.graphs import on_model
from bert_zoo.models.inputs import as_array, as_ids, check_range, check_rank
from bert_zoo.runtime.printed import Rows

# Tokens of a prompt that are read at once.
PIECE = 128
# A memory that grows with the text has a multiple of this number of slots.
SLOTS = 64
# keras_hub's classes by the names that `generate` takes, and those that draw random numbers.
SAMPLERS = {
    "greedy": "GreedySampler",
    "top_k": "TopKSampler",
    "top_p": "TopPSampler",
    "random": "RandomSampler",
    "beam": "BeamSampler",
}
SEEDED = ("top_k", "top_p", "random")
# They ask for hidden states, or for a second model.
UNSUPPORTED = ("ContrastiveSampler", "SpeculativeSampler")
# Held by the call that draws from a sampler which calls share.
_DRAWING = threading.Lock()
# The id of a position that no token was chosen for.
OPEN = -1


class GeneratedTexts(Rows):
    """A list of texts that prints them numbered, with an empty line between them."""

    def __str__(self) -> str:
        return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(self))


def read_prompts(model, rows: Sequence[np.ndarray], new_tokens: int = 0) -> dict[str, Any]:
    """The state after token ids of any length each, in pieces of `PIECE` tokens.

    A state that grows with the text has room for `number` new tokens.

    The state of a text is what `initial_memory` returns.

    Rows of different lengths are padded on the right, where no query sees, and each row's memory
    ends with its own last token: every row has the state that it has alone. (Padding on the left
    would push zeros that a text starts from, which count as a past, out of their positions.)
    """
    lengths = np.array([len(row) for row in rows])
    # XLA and JAX compile for each number of slots.
    slots = -(-(lengths.max() + new_tokens) // SLOTS) * SLOTS
    state = model.initial_memory(len(rows), tokens=int(slots))
    for start in range(0, lengths.max(), PIECE):
        kept = np.clip(lengths - start, 0, PIECE).astype("int32")
        piece = np.zeros((len(rows), kept.max()), "int32")
        for to, row, number in zip(piece, rows, kept, strict=True):
            to[:number] = row[start : start + number]
        state = on_model(model, _read_piece, piece, kept, state)
    return state


def _read_piece(model, token_ids, lengths, state):
    """The state after the first `lengths` [batch] of token_ids [batch, length]."""
    # Not the model's call, which runs the softmax.
    return model.encoder.backbone.state_after(token_ids, lengths, state)


def _step(model, token_ids, state):
    """From tokens [batch] to float32 log-probabilities [batch, vocabulary] of the next ones."""
    outputs = model({"token_ids": token_ids[:, None], **state}, training=False)
    return outputs["log_probs"][:, 0], {name: outputs[name] for name in state}


def generate(model, prompt, *, max_new_tokens, sampler, temperature, seed, stop, stream):
    """See `CausalLM.generate`."""
    if not is_integer(max_new_tokens) or max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens!r}; it must be a positive integer.")
    if any(0 in entry.shape for entry in keras.tree.flatten(model.initial_memory(1, tokens=1))):
        raise ValueError(
            "This model's mem_len is 0, so every token would be chosen by the one before it alone. "
            "Load it with a memory, for example load(..., mem_len=512)."
        )
    is_named = isinstance(sampler, str)
    # A stream's draws go on between those of other calls.
    sampler = _as_sampler(sampler, temperature, seed, own=stream)
    stop_ids = _stop_ids(model, stop)
    prompts = (IdPrompts if isinstance(prompt, Mapping) else TextPrompts)(model, prompt, stop_ids)
    longest = max(map(len, prompts.rows))
    # The last token is not read.
    if longest + max_new_tokens - 1 > model.longest_input:
        raise ValueError(
            f"The longest prompt has {longest} tokens, and with max_new_tokens={max_new_tokens} its text "
            f"would be longer than the {model.longest_input} positions of this model. Ask for at most "
            f"{max(model.longest_input - longest + 1, 0)} new tokens, or shorten the prompt."
        )
    if not stream:
        with _drawing_from(seed, sampler) if is_named else contextlib.nullcontext():
            chosen = _chosen(model, prompts.rows, sampler, stop_ids, max_new_tokens)
        return prompts.whole(chosen)
    if "__call__" in vars(type(sampler)):
        raise ValueError(
            f"{type(sampler).__name__} chooses whole texts, so there is nothing to stream before "
            "its end. Pass stream=False, or another sampler."
        )
    return prompts.pieces(_columns(model, prompts.rows, sampler, stop_ids, max_new_tokens))


# --- What goes in and comes out ---


class IdPrompts:
    """Prompts as ids; ids come out.

    Attributes:
        rows: the ids that the model reads, an array for each prompt.
    """

    def __init__(self, model, prompt: Mapping[str, Any], stop_ids: Sequence[int]):
        unknown = sorted(set(prompt) - {"token_ids", "padding_mask"})
        if unknown or "token_ids" not in prompt:
            raise ValueError(
                "A prompt of ids is a dict of token_ids [batch, length] and, for rows of different "
                f"lengths, padding_mask; this one has {sorted(prompt)}."
            )
        arrays = {
            name: ops.convert_to_numpy(as_ids(name, as_array(name, value)))
            for name, value in prompt.items()
        }
        self.token_ids = arrays["token_ids"]
        mask = arrays.get("padding_mask", np.ones_like(self.token_ids))
        check_rank(self.token_ids, 2, "[batch, length]")
        if mask.shape != self.token_ids.shape:
            raise ValueError(
                f"padding_mask has shape {mask.shape} and token_ids {self.token_ids.shape}; they "
                "must be the same."
            )
        for name, array in arrays.items():
            check_range(name, array, *model.id_limits()[name])
        self.rows = [row[real > 0] for row, real in zip(self.token_ids, mask, strict=True)]
        for number, row in enumerate(self.rows):
            if not row.size:
                raise ValueError(
                    f"Row {number} of the prompt has no token: its padding_mask is 0 throughout. Give "
                    "it one to start from."
                )

    def whole(self, chosen: np.ndarray) -> np.ndarray:
        return np.concatenate([self.token_ids, chosen], axis=1)

    def pieces(self, columns: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        yield self.token_ids
        for column in columns:
            yield column[:, None]


class TextPrompts:
    """Prompts as texts; texts come out, which begin with the prompts as the model reads them.

    Stop tokens are not shown. Attributes: as `IdPrompts`.
    """

    def __init__(self, model, prompt: str | Sequence[str], stop_ids: Sequence[int]):
        from bert_zoo.text.batches import strings, text_batch

        self.is_single = isinstance(prompt, str)
        self.model, self.tokenizer = model, model.preprocessor.tokenizer
        self.stop_ids = stop_ids
        texts = text_batch(prompt, "prompt")
        if not texts.shape[0]:
            raise ValueError("There is no prompt: the list is empty. Pass [''] for an empty one.")
        tokens = zip(strings(texts), tokenized(model, texts), strict=True)
        # A prompt's last line stays open where the tokenizer ends every line.
        closes = self.tokenizer.eos_at in ("line_ends", "line_starts_and_ends")
        self.shown = [
            row[:-1] if closes and not text.endswith(("\n", "\r")) else row for text, row in tokens
        ]
        self.rows = [row if row.size else self._start() for row in self.shown]

    def whole(self, chosen: np.ndarray) -> str | GeneratedTexts:
        ends = np.isin(chosen, self.stop_ids)
        lengths = np.where(ends.any(axis=1), ends.argmax(axis=1), chosen.shape[1])
        new = (row[:length] for row, length in zip(chosen, lengths, strict=True))
        spelled = self.tokenizer.detokenized(map(np.append, self.shown, new))
        return self._as_asked(GeneratedTexts(text.decode("utf-8", "replace") for text in spelled))

    def pieces(self, columns: Iterable[np.ndarray]) -> Iterator[str | list[str]]:
        # Tokens may be bytes, and several bytes make a character.
        decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in self.rows]

        def decoded(parts, final=False):
            pairs = zip(decoders, parts, strict=True)
            return self._as_asked([decoder.decode(part, final) for decoder, part in pairs])

        yield decoded(self.tokenizer.detokenized(self.shown))
        ended = np.zeros(len(self.rows), bool)
        last = [row[-1:] for row in self.shown]
        for column in columns:
            ended |= np.isin(column, self.stop_ids)
            new = [token[end:] for token, end in zip(column[:, None], ended.tolist(), strict=True)]
            # Whether a blank stands before a token is up to the token before it.
            longer = list(map(np.append, last, new))
            spelled = self.tokenizer.detokenized([*last, *longer])
            pairs = zip(spelled[: len(last)], spelled[len(last) :], strict=True)
            yield decoded([after[len(before) :] for before, after in pairs])
            last = [row[-1:] for row in longer]
        rest = decoded([b""] * len(self.rows), final=True)
        if any(rest):
            yield rest

    def _as_asked(self, texts: list[str]) -> str | list[str]:
        return texts[0] if self.is_single else texts

    def _start(self) -> np.ndarray:
        """What an empty prompt goes on from."""
        if not hasattr(self.tokenizer, "eos_id"):
            raise ValueError(
                "The prompt is empty, and this vocabulary has no end token to start a text from. "
                "Pass a prompt of at least one token."
            )
        return np.array([self.tokenizer.eos_id], "int32")


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
                f"Looking up the vocabulary's end token failed: {error}. Text needs TensorFlow; "
                "with prompts of ids, pass stop=[id] or stop=None."
            ) from error
        return (tokenizer.eos_id,) if hasattr(tokenizer, "eos_id") else ()
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise TypeError(
            f"stop is {stop!r}; it is 'eos', a list of tokens or of their ids, or None to go on for "
            "max_new_tokens."
        )
    ids = tuple(
        model.preprocessor.tokenizer.token_to_id(token) if isinstance(token, str) else token
        for token in stop
    )
    check_range("stop", np.array(ids), *model.id_limits()["token_ids"])
    return ids


def _as_sampler(sampler, temperature: float | None, seed: int | None, own: bool):
    """One of keras_hub's samplers, from its name or as it is.

    Calls share those that have names, which saves tracing anew, unless one asks for its `own`.
    """
    try:
        from keras_hub import samplers
    except ImportError as error:
        raise ImportError(
            "Generation uses the samplers of keras_hub, and importing it failed: "
            f"{error}. Install it: pip install keras-hub."
        ) from error
    if isinstance(sampler, str):
        if sampler not in SAMPLERS:
            raise ValueError(
                f"There is no sampler {sampler!r}; choose one of {list(SAMPLERS)}, or pass a sampler "
                "of keras_hub."
            )
        name, temperature = _at_temperature(sampler, temperature)
        if own and name in SEEDED:
            return _new_sampler(name, temperature, seed)
        return _shared_sampler(name, temperature, None)
    if not isinstance(sampler, samplers.Sampler) or type(sampler).__name__ in UNSUPPORTED:
        raise TypeError(
            f"sampler is {sampler!r}; it is one of {list(SAMPLERS)}, or a sampler of keras_hub other "
            f"than {' and '.join(UNSUPPORTED)}."
        )
    for option, value in (("seed", seed), ("temperature", temperature)):
        if value is not None:
            raise ValueError(
                f"{option}={value!r} goes with a sampler's name; give it to the "
                f"{type(sampler).__name__} itself."
            )
    if getattr(sampler, "return_all_beams", False):
        raise ValueError(
            "Every prompt gets one text, so a sampler with return_all_beams=True does not fit. Leave "
            "it out."
        )
    return sampler


def _at_temperature(name: str, temperature: float | None) -> tuple[str, float]:
    """The sampler and the temperature that it takes; at 0 the likeliest token is left alone."""
    if temperature is None:
        return name, 1.0
    is_number = isinstance(temperature, Real) and not isinstance(temperature, bool)
    if not is_number or not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature is {temperature!r}; it must be a number, 0 for the likeliest tokens, below 1 "
            "for more of them, or above 1 for rarer ones."
        )
    if temperature == 0 and name in (*SEEDED, "greedy"):
        return "greedy", 1.0
    if name in SEEDED:
        return name, float(temperature)
    raise ValueError(
        f"temperature={temperature!r} is for samplers that draw, and {name!r} does not. Choose one of "
        f"{list(SEEDED)}, for example sampler='top_p', or leave temperature out."
    )


def _new_sampler(name: str, temperature: float, seed: int | None):
    from keras_hub import samplers

    options = {"temperature": temperature, "seed": seed} if name in SEEDED else {}
    return getattr(samplers, SAMPLERS[name])(**options)


_shared_sampler = functools.lru_cache(maxsize=32)(_new_sampler)


@contextlib.contextmanager
def _drawing_from(seed: int | None, sampler) -> Iterator[None]:
    """Has a shared sampler start from a seed, and draw for one call at a time."""
    if not sampler.variables:
        yield
        return
    with _DRAWING:
        sampler.seed_generator.state.assign(keras.random.SeedGenerator(seed).state)
        yield


# --- Tokens ---


def _chosen(model, rows, sampler, stop_ids, number: int) -> np.ndarray:
    """Tokens int32 [batch, at most number]; a row that has ended repeats its stop token."""
    # The sampler fills the positions after the prompt's last token.
    canvas = np.full((len(rows), 1 + number), OPEN, "int32")
    canvas[:, 0] = [row[-1] for row in rows]
    is_given = np.zeros(canvas.shape, bool)
    is_given[:, 0] = True
    state = read_prompts(model, [row[:-1] for row in rows], number)
    tokens = on_model(model, _filled, canvas, is_given, state, sampler=sampler, stop_ids=stop_ids)
    chosen = ops.convert_to_numpy(tokens)[:, 1:]
    return chosen[:, (chosen != OPEN).all(axis=0)]


def _filled(model, canvas, is_given, state, *, sampler, stop_ids):
    """The canvas [batch, positions] with tokens of the sampler's choice where none is given."""

    def next_log_probs(prompt, state, index):
        tokens = ops.take(prompt, index - 1, axis=1)
        log_probs, state = _step(model, tokens, state)
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


def _columns(model, rows, sampler, stop_ids, number: int) -> Iterator[np.ndarray]:
    """The columns of what `_chosen` returns, each as soon as it is there."""
    state = read_prompts(model, [row[:-1] for row in rows], number)
    tokens = np.array([row[-1] for row in rows], "int32")
    ended = np.zeros(len(rows), bool)
    for _ in range(number):
        log_probs, state = on_model(model, _step, tokens, state)
        tokens, ended = on_model(
            model, _next_tokens, log_probs, tokens, ended, sampler=sampler, stop_ids=stop_ids
        )
        yield ops.convert_to_numpy(tokens)
        if ops.convert_to_numpy(ended).all():
            return


def _next_tokens(model, log_probs, tokens, ended, *, sampler, stop_ids):
    """The tokens [batch] after these, by their log-probabilities, and which rows have ended."""
    held = _held_where(ended, log_probs, tokens)
    tokens = sampler.get_next_token(sampler.compute_probabilities(held))
    tokens = ops.cast(tokens, "int32")
    return tokens, ops.logical_or(ended, _is_in(tokens, stop_ids))


def _is_in(tokens, ids: Sequence[int]):
    return ops.any(tokens[..., None] == ops.array(ids, "int32"), axis=-1)


def _held_where(ended, log_probs, tokens):
    """Log-probabilities that let an ended row repeat its token for ever, at no cost to its score.

    keras_hub 0.32's samplers go on with a row until all have ended; beams would be chosen by what
    comes after their ends.
    """
    ids = ops.arange(ops.shape(log_probs)[-1])
    repeated = ops.where(ids[None, :] == tokens[:, None], 0.0, -np.inf)
    return ops.where(ended[:, None], ops.cast(repeated, log_probs.dtype), log_probs)
