"""Token-by-token generation with keras_hub's samplers."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_zoo.fields import check
from bert_zoo.generation_config import GenerationConfig
from bert_zoo.models.direct import tokenized
from bert_zoo.models.graphs import on_model
from bert_zoo.models.inputs import as_array, as_ids, check_range, check_rank
from bert_zoo.runtime.answers import PrintedRows
from bert_zoo.tasks.logits import LogitsProcessor
from bert_zoo.tasks.sampling import SEARCH, choice_of, drawing_from

# A growing memory has a multiple of this number of slots, because XLA and JAX compile for each size.
SLOTS = 64
# The id of a position without a chosen token.
OPEN = -1
DEFAULT_NEW_TOKENS = 100

# (model, tokens [batch], state) -> scores of the next tokens, log-probabilities or logits, float32 [batch, vocabulary],
# and the next state, tensors [batch, ...] in a dict. It must be traceable and a module's function, as for `on_model`. Its
# attribute `fixed` has the names of what stays as it is in the state; their rows may be fewer than the tokens', if several
# texts that follow each other share them.
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def slots_for(tokens: int) -> int:
    return -(-int(tokens) // SLOTS) * SLOTS


class Generation:
    """One call of `generate`: its options, checked, and how it chooses tokens.

    Arguments are those of `CausalLM.generate`, with `own` for a sampler that no other call shares.

    Attributes:
        config: the settings of the model and of the call.
        stop_ids: ids of the tokens that end a text.
        processor: what changes scores before a token is chosen.
    """

    def __init__(
        self,
        model,
        *,
        sampler=None,
        beams: int | None = None,
        seed: int | None = None,
        stop: str | Sequence[int | str] | None = "eos",
        stream: bool = False,
        bad_words: Sequence[str] | None = None,
        settings: str | None = None,
        own: bool = False,
        **options: Any,
    ):
        self._model, self._stream, self._seed = model, stream, seed
        given = {name: value for name, value in options.items() if value is not None}
        GenerationConfig().replace(**given)
        check("beams", beams, int | None, least=1)
        config = model.generation_config.chosen(settings)
        if sampler is not None:
            config = config.replace(**dict.fromkeys(SEARCH))
        if bad_words is not None:
            words = spelled_words(model, bad_words)
            given["bad_words_ids"] = (*given.get("bad_words_ids", ()), *words)
        self.config = config = config.replace(**given)
        config.check_ids(model.id_limits()["token_ids"][0])
        # A stream draws between other calls, so it needs its own sampler.
        choice = choice_of(sampler, config, given, beams=beams, seed=seed, own=stream or own)
        self._choice = choice
        if stream and "__call__" in vars(type(choice.sampler)):
            raise ValueError(
                f"{type(choice.sampler).__name__} chooses whole texts, so it cannot stream tokens. Pass stream=False, or "
                "another sampler: num_beams=1 for none."
            )
        self.returned = config.num_return_sequences or 1
        self._check_returned()
        self.stop_ids = _stop_ids(model, stop, config)
        self.processor = LogitsProcessor.of(
            config, self.stop_ids, draws=choice.warps, beams=choice.has_beams
        )

    def _check_returned(self) -> None:
        sampler, returned = self._choice.sampler, self.returned
        if returned == 1:
            return
        if self._stream:
            raise ValueError(
                f"num_return_sequences is {returned}, but a stream has one text for each prompt. Pass stream=False, or "
                "the prompt several times."
            )
        if self._choice.has_beams and returned > sampler.beams:
            raise ValueError(
                f"num_return_sequences is {returned}, but the search keeps {sampler.beams} beams. Pass num_beams="
                f"{returned} or more."
            )
        if not self._choice.has_beams and not sampler.variables:
            raise ValueError(
                f"num_return_sequences is {returned}, but {type(sampler).__name__} chooses the same text every time. Pass "
                f"num_beams={returned} or more, or do_sample=True."
            )

    @property
    def sampler(self):
        return self._choice.sampler

    @property
    def reads_logits(self) -> bool:
        """Whether scores are logits; a beam search needs log-probabilities, of which it makes sums."""
        return not self._choice.has_beams

    def new_tokens(self, longest: int, default: int = DEFAULT_NEW_TOKENS) -> int:
        """The maximum number of new tokens after prompts of up to `longest`; `default` if no setting names one."""
        config = self.config
        if config.max_new_tokens is None and config.max_length is not None:
            number = config.max_length - longest
            if number < 1:
                raise ValueError(
                    f"The longest prompt has {longest} tokens, and max_length, which counts them, is "
                    f"{config.max_length}. Pass max_new_tokens."
                )
            return number
        return default if config.max_new_tokens is None else config.max_new_tokens

    def no_texts(self) -> list | Iterator:
        """The result of `generate` for an empty list."""
        return iter(()) if self._stream else []

    def outputs(
        self,
        texts: "TextOutput | IdOutput",
        begins: Sequence[Callable[[], tuple[np.ndarray, Any]]],
        step: Step,
        number: int,
        order: np.ndarray | slice = slice(None),
    ):
        """The result of `generate`.

        Args:
            begins: a function for each batch of texts, which returns tokens of each, int32 [batch, length],
                at least the last one, with `OPEN` before them; and the state before the last one. A stream
                has one batch.
            number: maximum number of new tokens.
            order: the row of each text in the concatenated batches.
        """
        if self._stream:
            (begin,) = begins
            return texts.pieces(self._columns(begin, step, number))
        choice = self._choice
        with drawing_from(self._seed, choice.sampler) if choice.is_named else nullcontext():
            chosen = [self._chosen(*begin(), step, number) for begin in begins]
        longest = max(tokens.shape[1] for tokens in chosen)
        # A batch that ends early is filled with its rows' stop tokens.
        wide = [np.pad(t, [(0, 0), (0, longest - t.shape[1])], "edge") for t in chosen]
        rows = np.concatenate(wide).reshape(-1, self.returned, longest)[order]
        return texts.whole(rows.reshape(-1, longest), self.returned)

    def _chosen(self, tokens: np.ndarray, state, step: Step, number: int) -> np.ndarray:
        """Tokens, int32 [batch * returned, new tokens]; a row that has ended repeats its stop token."""
        if self.returned > 1 and not self._choice.has_beams:
            tokens, state = keras.tree.map_structure(
                lambda part: ops.repeat(part, self.returned, axis=0), (tokens, state)
            )
        tensors = (*_canvas(ops.convert_to_numpy(tokens), number), state)
        chosen = on_model(
            self._model,
            filled,
            *tensors,
            step=step,
            sampler=self._choice.sampler,
            stop_ids=self.stop_ids,
            processor=self.processor,
        )
        chosen = ops.convert_to_numpy(chosen)[:, -number:]
        return chosen[:, : _lengths(chosen, self.stop_ids, with_stop=True).max()]

    def _columns(
        self, begin: Callable[[], tuple[np.ndarray, Any]], step: Step, number: int
    ) -> Iterator[np.ndarray]:
        """Yields the columns of `_chosen`'s result, each as soon as it is sampled."""
        tokens, state = begin()
        canvas, first = _canvas(tokens, number)
        ended = np.zeros(len(tokens), bool)
        options = {"sampler": self._choice.sampler, "stop_ids": self.stop_ids}
        for index in range(first, first + number):
            scores, state = on_model(self._model, step, canvas[:, index - 1], state)
            tensors = (scores, canvas, np.int32(index), first, ended)
            column, ended = on_model(
                self._model, _next_tokens, *tensors, processor=self.processor, **options
            )
            canvas[:, index] = column = ops.convert_to_numpy(column)
            yield column
            if ops.convert_to_numpy(ended).all():
                return


def _canvas(tokens: np.ndarray, number: int) -> tuple[np.ndarray, np.int32]:
    """Texts with open positions after their tokens, int32 [batch, length + number], and the first of these."""
    return (
        np.pad(tokens, [(0, 0), (0, number)], constant_values=OPEN).astype("int32"),
        np.int32(tokens.shape[1]),
    )


def left_padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of ids with `OPEN` before them, int32 [rows, slots]."""
    padded = np.full((len(rows), slots_for(max(map(len, rows)))), OPEN, "int32")
    for to, row in zip(padded, rows, strict=True):
        to[padded.shape[1] - len(row) :] = row
    return padded


def spelled_words(model, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ids of words, as they stand at the start of a text and after a blank."""
    from bert_zoo.text.batches import text_batch

    if isinstance(words, str) or not all(isinstance(word, str) and word.strip() for word in words):
        raise TypeError(f"bad_words is {words!r}; it must be a list of texts that are not blank.")
    if not words:
        return ()
    tokenizer = model.preprocessor.tokenizer
    eos, unknown = (getattr(tokenizer, name, None) for name in ("eos_id", "unk_id"))
    texts = text_batch([*words, *(f" {word}" for word in words)])
    # Some tokenizers end every text with the end token, and a word with unknown parts cannot be written.
    spelled = (tuple(i for i in row.tolist() if i != eos) for row in tokenized(model, texts))
    return tuple(dict.fromkeys(row for row in spelled if row and unknown not in row))


def with_prefix(given, prefix: str | None, what: str):
    """Texts with the settings' prefix before each; ValueError if there is one, but the texts are ids."""
    if prefix is None:
        return given
    if isinstance(given, Mapping):
        raise ValueError(
            f"The chosen settings put {prefix!r} before each {what}, so pass texts; these are ids."
        )
    from bert_zoo.text.batches import strings

    texts = [prefix + text for text in strings(given, what)]
    return texts[0] if isinstance(given, str) else texts


# --- Inputs and outputs ---


class GeneratedTexts(PrintedRows):
    """A list of texts, which prints numbered with an empty line between texts."""

    def __str__(self) -> str:
        return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(self))

    def draw(self, charts: ModuleType) -> str:
        return charts.stacked([charts.marked_text(text, ()) for text in self])


def checked_ids(model, given: Mapping[str, Any], what: str) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and padding mask, int32 [batch, length], of a user's dict, called `what` in messages."""
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
    """Rows of ids, int32 [batch, length], followed by new tokens."""

    def __init__(self, shown: np.ndarray):
        self._shown = shown

    def whole(self, chosen: np.ndarray, returned: int = 1) -> np.ndarray:
        return np.concatenate([np.repeat(self._shown, returned, axis=0), chosen], axis=1)

    def pieces(self, columns: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        yield self._shown
        for column in columns:
            yield column[:, None]


class TextOutput:
    """Texts that begin with the ids `shown`, without stop tokens; `is_single` for one text instead of a list."""

    def __init__(
        self, tokenizer, shown: list[np.ndarray], stop_ids: Sequence[int], is_single: bool
    ):
        self._tokenizer, self._shown = tokenizer, shown
        self._stop_ids, self._is_single = stop_ids, is_single

    def whole(self, chosen: np.ndarray, returned: int = 1) -> str | GeneratedTexts:
        lengths = _lengths(chosen, self._stop_ids)
        new = (row[:length] for row, length in zip(chosen, lengths, strict=True))
        shown = (row for row in self._shown for _ in range(returned))
        spelled = self._tokenizer.detokenized(map(np.append, shown, new))
        texts = GeneratedTexts(text.decode("utf-8", "replace") for text in spelled)
        return texts if returned > 1 else self._as_asked(texts)

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
    """The number of each row's tokens before its stop token, int [batch], optionally with it."""
    ends = np.isin(chosen, stop_ids)
    return np.where(ends.any(axis=1), ends.argmax(axis=1) + with_stop, chosen.shape[1])


def _stop_ids(
    model, stop: str | Sequence[int | str] | None, config: GenerationConfig
) -> tuple[int, ...]:
    if stop is None:
        return ()
    if stop == "eos":
        if config.eos_token_id:
            return config.eos_token_id
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


def filled(model, canvas, first, state, *, step: Step, sampler, stop_ids, processor):
    """The canvas [rows, positions] with the sampler's tokens from the position `first` on."""
    places = ops.arange(ops.shape(canvas)[1], dtype="int32")
    # Beams would copy it at every step.
    fixed = {name: state[name] for name in step.fixed}
    state = {name: part for name, part in state.items() if name not in fixed}

    def next_scores(prompt, state, index):
        tokens = ops.take(prompt, index - 1, axis=1)
        scores, following = step(model, tokens, {**fixed, **state})
        state = {name: following[name] for name in state}
        scores = processor(scores, prompt, index, first)
        if stop_ids:
            ended = ops.any(ops.logical_and(_is_in(prompt, stop_ids), places >= first), axis=1)
            scores = _held_where(ended, scores, tokens)
        return scores, None, state

    return sampler(
        next=next_scores,
        prompt=ops.convert_to_tensor(canvas),
        cache=state,
        index=first,
        mask=ops.logical_or(ops.zeros_like(canvas, "bool"), places < first),
        stop_token_ids=stop_ids or None,
        model=model,
    )


def _next_tokens(model, scores, canvas, index, first, ended, *, sampler, stop_ids, processor):
    """The tokens [batch] at a position, chosen by scores, and which rows have ended."""
    scores = processor(scores, canvas, index, first)
    held = _held_where(ended, scores, ops.take(canvas, index - 1, axis=1))
    tokens = sampler.get_next_token(sampler.compute_probabilities(held))
    tokens = ops.cast(tokens, "int32")
    return tokens, ops.logical_or(ended, _is_in(tokens, stop_ids))


def _is_in(tokens, ids: Sequence[int]):
    return ops.any(tokens[..., None] == ops.array(ids, "int32"), axis=-1)


def _held_where(ended, scores, tokens):
    """Log-probabilities that make an ended row repeat its token without changing its score; others as they are.

    keras_hub 0.32's samplers continue a row until all have ended, so beams would otherwise be chosen by
    tokens after their ends.
    """

    def held():
        ids = ops.arange(ops.shape(scores)[-1])
        repeated = ops.where(ids[None, :] == tokens[:, None], 0.0, -np.inf)
        return ops.where(ended[:, None], ops.cast(repeated, scores.dtype), scores)

    return ops.cond(ops.any(ended), held, lambda: scores)
