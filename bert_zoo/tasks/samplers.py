"""Samplers that choose tokens: keras_hub's and a beam search, by name and options."""

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from bert_zoo.generation_config import GenerationConfig
from bert_zoo.tasks.beams import BeamSearch

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
    """How tokens are chosen.

    Attributes:
        sampler: a sampler of keras_hub or a `BeamSearch`.
        warps: whether it draws from scores that temperature, `top_k` and `top_p` have changed before.
        is_named: whether it was made here, and may be shared between calls.
    """

    sampler: Any
    warps: bool = False
    is_named: bool = True

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
    """Returns how tokens are chosen. Samplers that are not given are shared between calls, which avoids retracing.

    Args:
        sampler, beams, seed: as for `generate`.
        config: the settings of the model and of the call.
        given: those of the call alone.
        own: whether to make a sampler for this call only.
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
    """Checks a user's sampler."""
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
    """A beam search; our names for it have our defaults, and transformers' names have theirs."""
    is_ours = beams is not None or sampler is not None or config.num_beams is None
    penalty = config.length_penalty
    if penalty is None:
        penalty = BeamSearch.length_penalty if is_ours else 1.0
    return BeamSearch(
        beams=beams or config.num_beams or BeamSearch.beams,
        length_penalty=penalty,
        early_stopping=config.early_stopping or False,
        returned=config.num_return_sequences or 1,
        drawer=drawer,
    )


def _with_options(sampler: str | None, given: Mapping[str, Any]) -> tuple[str, tuple]:
    """Returns the sampler that options imply, by default greedy, and the options with its own names."""
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
    """Returns the sampler and its temperature. Temperature 0 means greedy."""
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
    """Returns a sampler of keras_hub, for this call only where it keeps a seed of its own."""
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
