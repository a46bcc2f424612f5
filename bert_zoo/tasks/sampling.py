"""Samplers that choose tokens: keras_hub's and a beam search, by name and options."""

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from bert_zoo.generation_config import GenerationConfig

# Names for `generate` -> keras_hub's classes, and the names of those that draw random numbers.
SAMPLERS = {
    "greedy": "GreedySampler",
    "top_k": "TopKSampler",
    "top_p": "TopPSampler",
    "random": "RandomSampler",
}
SEEDED = ("top_k", "top_p", "random")
GREEDY, RANDOM, BEAM = "greedy", "random", "beam"
NAMES = (*SAMPLERS, BEAM)
# Options of `generate` for one sampler -> the sampler's name, and its name for the option.
OPTIONS = {
    "beams": (BEAM, "beams"),
    "num_beams": (BEAM, "beams"),
    "length_penalty": (BEAM, "length_penalty"),
    "early_stopping": (BEAM, "early_stopping"),
    "top_p": ("top_p", "p"),
    "top_k": ("top_k", "k"),
}
# Settings for drawing, and all that a sampler replaces.
DRAWING = ("temperature", "top_k", "top_p")
SEARCH = (
    *("do_sample", "num_beams", "length_penalty", "early_stopping", "num_return_sequences"),
    *DRAWING,
)
# They need hidden states or a second model.
UNSUPPORTED = ("ContrastiveSampler", "SpeculativeSampler")
# Held by the call that draws from a shared sampler.
_DRAWING = threading.Lock()


@dataclass(frozen=True)
class Choice:
    """How tokens are chosen."""

    sampler: Any  # of keras_hub, or a `BeamSearch`
    # Whether it draws from scores that temperature, `top_k` and `top_p` have changed before.
    warps: bool = False
    is_named: bool = True  # whether it was made here, and may be shared between calls

    @property
    def has_beams(self) -> bool:
        return isinstance(self.sampler, BeamSearch)


def choice_of(
    sampler,
    config: GenerationConfig,
    given: Mapping[str, Any],
    *,
    beams: int | None = None,
    seed: int | None = None,
    own: bool = False,
) -> Choice:
    """How tokens are chosen. Samplers that are not given are shared between calls, which avoids retracing.

    `config` has the settings of the model and of the call, `given` those of the call alone; `own` is whether to make
    a sampler for this call only.
    """
    _import_samplers()
    given = {name: value for name, value in given.items() if name in SEARCH}
    if beams is not None:
        if "num_beams" in given:
            raise ValueError(
                f"beams={beams!r} and num_beams={given['num_beams']!r} both give the number of texts that a beam "
                "search keeps. Leave one of them out."
            )
        given["beams"] = beams
    if sampler is not None and not isinstance(sampler, str):
        return _given(sampler, given, seed)
    drawing = {name: given[name] for name in DRAWING if name in given}
    if "do_sample" in given and (sampler is not None or (drawing and not config.do_sample)):
        other = {"sampler": sampler} if sampler is not None else drawing
        raise ValueError(
            f"do_sample={given['do_sample']!r} does not go with {', '.join(f'{k}={v!r}' for k, v in other.items())}. "
            "Leave one of them out."
        )
    if sampler is None and config.do_sample:
        if config.temperature != 0:
            return _drawing(config, beams, seed, own)
        # Without chance, no token but the likeliest is drawn.
        given = {name: value for name, value in given.items() if name not in DRAWING}
    if sampler is None and given.get("num_beams") == 1:
        return Choice(_sampler(GREEDY))
    name, numbers = _with_options(sampler, given)
    if sampler is None and name == GREEDY and (config.num_beams or 1) > 1:
        name = BEAM
    if name not in NAMES:
        raise ValueError(
            f"There is no sampler {name!r}. Choose one of {list(NAMES)}, or pass a sampler of keras_hub."
        )
    drawn, temperature = _at_temperature(name, given.get("temperature"))
    if drawn == BEAM:
        return Choice(_beam_search(config, beams, sampler))
    return Choice(_sampler(drawn, temperature, seed, numbers if drawn == name else (), own))


def _import_samplers() -> None:
    try:
        import keras_hub.samplers  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Generation uses the samplers of keras_hub, and importing it failed: "
            f"{error}. Install it: pip install keras-hub."
        ) from error


def _given(sampler, given: Mapping[str, Any], seed: int | None) -> Choice:
    from keras_hub import samplers

    if not isinstance(sampler, samplers.Sampler) or type(sampler).__name__ in UNSUPPORTED:
        raise TypeError(
            f"sampler is {sampler!r}; it must be one of {list(NAMES)}, or a sampler of keras_hub other than "
            f"{' and '.join(UNSUPPORTED)}."
        )
    for option, value in {"seed": seed, **given}.items():
        if value is not None and option != "num_return_sequences":
            raise ValueError(
                f"{option}={value!r} only applies to a sampler's name. Pass it to {type(sampler).__name__} instead."
            )
    if getattr(sampler, "return_all_beams", False):
        raise ValueError(
            "Samplers with return_all_beams=True are not supported, because every prompt gets one text. Leave it out."
        )
    return Choice(sampler, is_named=False)


def _drawing(config: GenerationConfig, beams: int | None, seed: int | None, own: bool) -> Choice:
    """Drawing as `do_sample` does, among all tokens or among the continuations of beams."""
    drawer = _sampler(RANDOM, seed=seed, own=own)
    if (beams or config.num_beams or 1) == 1:
        return Choice(drawer, warps=True)
    return Choice(_beam_search(config, beams, drawer=drawer), warps=True)


def _beam_search(config: GenerationConfig, beams: int | None, sampler=None, drawer=None):
    """A beam search: our names for it have our defaults, and transformers' names have theirs."""
    has_own_defaults = beams is not None or sampler is not None or config.num_beams is None
    penalty = config.length_penalty
    if penalty is None:
        penalty = BeamSearch.length_penalty if has_own_defaults else 1.0
    return BeamSearch(
        beams=beams or config.num_beams or BeamSearch.beams,
        length_penalty=penalty,
        early_stopping=config.early_stopping or False,
        returned=config.num_return_sequences or 1,
        drawer=drawer,
    )


def _with_options(sampler: str | None, given: Mapping[str, Any]) -> tuple[str, tuple]:
    """The sampler that options imply, by default greedy, and the options with its own names."""
    numbers = ()
    for option, (name, its_name) in OPTIONS.items():
        if option not in given:
            continue
        value = given[option]
        if sampler not in (None, name):
            raise ValueError(
                f"{option}={value!r} is for the sampler {name!r}, but the sampler is {sampler!r}. Leave one of them "
                "out."
            )
        sampler, numbers = name, (*numbers, (its_name, value))
    return GREEDY if sampler is None else sampler, numbers


def _at_temperature(name: str, temperature: float | None) -> tuple[str, float]:
    """The sampler and its temperature. Temperature 0 means greedy."""
    if temperature is None:
        return name, 1.0
    if temperature == 0 and name in (*SEEDED, GREEDY):
        return GREEDY, 1.0
    if name in SEEDED:
        return name, float(temperature)
    raise ValueError(
        f"temperature={temperature!r} is for samplers that draw at random, but {name!r} does not. Choose one of "
        f"{list(SEEDED)}, for example sampler='top_p', pass do_sample=True, or leave temperature out."
    )


def _sampler(
    name: str,
    temperature: float = 1.0,
    seed: int | None = None,
    numbers: tuple = (),
    own: bool = False,
):
    """A sampler of keras_hub, for this call only where it keeps a seed of its own."""
    if own and name in SEEDED:
        return _new_sampler(name, temperature, seed, numbers)
    return _shared_sampler(name, temperature, None, numbers)


def _new_sampler(name: str, temperature: float, seed: int | None, numbers: tuple):
    from keras_hub import samplers

    options = {"temperature": temperature, "seed": seed} if name in SEEDED else {}
    sampler = getattr(samplers, SAMPLERS[name])(**options, **dict(numbers))
    if name == GREEDY:
        # The likeliest token has the highest score, so a softmax over the vocabulary is saved.
        sampler.compute_probabilities = _unchanged
    return sampler


def _unchanged(scores):
    return scores


_shared_sampler = functools.lru_cache(maxsize=32)(_new_sampler)


@contextlib.contextmanager
def drawing_from(seed: int | None, sampler) -> Iterator[None]:
    """Starts a shared sampler from a seed, for one call at a time."""
    if not sampler.variables:
        yield
        return
    with _DRAWING:
        sampler.seed_generator.state.assign(keras.random.SeedGenerator(seed).state)
        yield


# Below every score; the sum of two is still finite.
LOWEST = -1e9


@dataclass(frozen=True)
class BeamSearch:
    """Chooses whole texts by their scores. Call it like a sampler of keras_hub.

    A text's score is the sum of its tokens' log-probabilities, divided by the number of new tokens to the power
    `length_penalty`: 0 prefers short texts, because each token lowers the score. Each step keeps the `beams` best open
    texts, or draws them, and separately the best finished ones, so that the number of open ones stays constant.

    The result is that of transformers' `generate` with `num_beams` and the same options.

    Args:
        early_stopping: when a row is done: True when `beams` texts are finished; False when all kept finished
            texts also score better than the best open text would if it ended now; "never" when they score
            better than it would at the length that suits it best.
        returned: number of finished texts to return for each row.
        drawer: a `keras_hub.samplers.RandomSampler` whose random numbers choose continuations, with the
            probabilities of their scores and without replacement; None to keep the best.
    """

    beams: int = 5
    length_penalty: float = 0.0
    early_stopping: bool | str = False
    returned: int = 1
    drawer: Any = None

    @property
    def variables(self) -> list:
        return [] if self.drawer is None else self.drawer.variables

    @property
    def seed_generator(self):
        return self.drawer.seed_generator

    def __call__(self, next, prompt, cache, index, mask, stop_token_ids, model):
        """Texts [rows * returned, length], the best of each row first."""
        from keras_hub.samplers import GreedySampler

        beams, stops = self.beams, stop_token_ids or ()
        candidates = beams * max(2, 1 + len(stops))
        index = ops.cast(index, "int32")
        first, length = index, ops.shape(prompt)[1]
        places = ops.arange(length, dtype="int32")

        def for_beams(value):
            return ops.repeat(value, beams, axis=0)

        def goes_on(texts, cache, index, scores, ended, ended_scores, is_open):
            return ops.any(is_open)

        def step(texts, cache, index, scores, ended, ended_scores, is_open):
            log_probs, _, cache = next(texts, cache, index)
            size = log_probs.shape[-1]
            totals = ops.reshape(log_probs, (-1, beams, size)) + scores[..., None]
            totals = ops.reshape(totals, (-1, beams * size))
            totals, found = self._candidates(totals, min(candidates, beams * size))
            tokens = ops.cast(found % size, texts.dtype)
            rows = ops.arange(ops.shape(found)[0], dtype=found.dtype)
            parents = found // size + rows[:, None] * beams
            longer = ops.take(texts, parents, axis=0)
            # A text that ends here repeats its last token, like rows that end before others.
            longer = ops.where(places >= index, tokens[..., None], longer)
            is_end = ops.any(tokens[..., None] == ops.array(stops, tokens.dtype), axis=-1)
            is_end = ops.logical_or(is_end, index + 1 == length)

            divisor = self._divisor(index + 1 - first)
            # The other candidates ensure that enough texts stay open.
            is_best = ops.arange(totals.shape[-1]) < beams
            is_new = ops.logical_and(ops.logical_and(is_end, is_best), is_open[:, None])
            new_scores = ops.where(is_new, totals / divisor, LOWEST)
            ended = ops.concatenate([ended, longer], axis=1)
            ended_scores = ops.concatenate([ended_scores, new_scores], axis=1)
            ended_scores, chosen = ops.top_k(ended_scores, beams)
            ended = ops.take_along_axis(ended, chosen[..., None], axis=1)

            scores, chosen = ops.top_k(ops.where(is_end, totals + LOWEST, totals), beams)
            texts = ops.take_along_axis(longer, chosen[..., None], axis=1)
            texts = ops.reshape(texts, (-1, length))
            parents = ops.reshape(ops.take_along_axis(parents, chosen, axis=1), (-1,))
            cache = keras.tree.map_structure(lambda part: ops.take(part, parents, axis=0), cache)
            if self.early_stopping == "never" and self.length_penalty > 0:
                divisor = self._divisor(length - first)
            is_better = scores[:, 0] / divisor > ended_scores[:, -1]
            if self.early_stopping is True:
                is_better = ops.logical_and(is_better, ended_scores[:, -1] <= LOWEST)
            is_open = ops.logical_and(is_open, is_better)
            return texts, cache, index + 1, scores, ended, ended_scores, is_open

        texts = for_beams(prompt)
        ended = ops.reshape(texts, (-1, beams, length))
        none = ops.zeros_like(ended[..., 0], "float32") + LOWEST
        # At first all beams are the same text.
        scores = ops.where(ops.arange(beams) == 0, 0.0, none)
        state = (texts, keras.tree.map_structure(for_beams, cache), index)
        state = (*state, scores, ended, none, ops.ones_like(prompt[:, 0], "bool"))
        # keras_hub's loop handles a model's variables, and a drawer's, on JAX.
        loop = (self.drawer or GreedySampler()).run_loop
        steps = ops.cast(length, "int32") - first
        *_, ended, _, _ = loop(goes_on, step, model, state, maximum_iterations=steps)
        return ops.reshape(ended[:, : self.returned], (-1, length))

    def _divisor(self, number):
        return ops.cast(number, "float32") ** self.length_penalty

    def _candidates(self, totals, number: int):
        """The highest scores, or drawn ones, in descending order, and their places."""
        if self.drawer is None:
            return highest(totals, number)
        uniform = keras.random.uniform(
            ops.shape(totals), minval=1e-20, maxval=1.0, seed=self.drawer.seed_generator
        )
        # The largest sums with Gumbel noise are a sample without replacement (Kool et al. 2019, section 2.3).
        _, drawn = highest(totals - ops.log(-ops.log(uniform)), number)
        totals, order = ops.top_k(ops.take_along_axis(totals, drawn, axis=-1), number)
        return totals, ops.take_along_axis(drawn, order, axis=-1)


def highest(scores, number: int, width: int = 128):
    """`ops.top_k` of long rows: TensorFlow compares numbers one by one, but finds maxima of blocks many at a time.

    The highest numbers lie in the blocks of `width` numbers with the highest maxima, of equal ones in the first.
    """
    length = scores.shape[-1]
    blocks = -(-length // width)
    if blocks <= number:
        return ops.top_k(scores, number)
    padding = [(0, 0), (0, blocks * width - length)]
    padded = ops.pad(scores, padding, constant_values=-float("inf"))
    flat = ops.reshape(padded, (-1, width))
    _, chosen = ops.top_k(ops.reshape(ops.max(flat, axis=-1), (-1, blocks)), number)
    chosen = ops.sort(chosen, axis=-1)
    begins = ops.arange(ops.shape(chosen)[0], dtype=chosen.dtype)[:, None] * blocks
    members = ops.reshape(ops.take(flat, begins + chosen, axis=0), (-1, number * width))
    found, places = ops.top_k(members, number)
    return found, ops.take_along_axis(chosen, places // width, axis=1) * width + places % width
