"""Samplers that choose tokens: keras_hub's and a beam search, by name and options."""

import contextlib
import functools
import math
import threading
from collections.abc import Iterator
from numbers import Real
from typing import Any

import keras

from bert_zoo.config import is_integer
from bert_zoo.tasks.beams import BeamSearch

# Names for `generate` -> keras_hub's classes, and the names of those that draw random numbers.
SAMPLERS = {
    "greedy": "GreedySampler",
    "top_k": "TopKSampler",
    "top_p": "TopPSampler",
    "random": "RandomSampler",
}
SEEDED = ("top_k", "top_p", "random")
BEAM = "beam"
NAMES = (*SAMPLERS, BEAM)
# Options of `generate` for one sampler -> the sampler's name, and its name for the option.
OPTIONS = {
    "beams": (BEAM, "beams"),
    "length_penalty": (BEAM, "length_penalty"),
    "top_p": ("top_p", "p"),
}
# They need hidden states or a second model.
UNSUPPORTED = ("ContrastiveSampler", "SpeculativeSampler")
# Held by the call that draws from a shared sampler.
_DRAWING = threading.Lock()


def as_sampler(sampler, *, temperature, seed: int | None, own: bool, **options):
    """Returns a sampler of keras_hub or a `BeamSearch` by name, or a given sampler itself.

    Named samplers are shared between calls, which avoids retracing.

    Args:
        sampler, temperature, seed, **options: as for `generate`.
        own: whether to make a sampler for this call only.
    """
    try:
        from keras_hub import samplers
    except ImportError as error:
        raise ImportError(
            "Generation uses the samplers of keras_hub, and importing it failed: "
            f"{error}. Install it: pip install keras-hub."
        ) from error
    sampler, numbers = _with_options(sampler, **options)
    if isinstance(sampler, str):
        if sampler not in NAMES:
            raise ValueError(
                f"There is no sampler {sampler!r}. Choose one of {list(NAMES)}, or pass a sampler of keras_hub."
            )
        name, temperature = _at_temperature(sampler, temperature)
        if name == BEAM:
            return BeamSearch(**dict(numbers))
        numbers = numbers if name == sampler else ()
        if own and name in SEEDED:
            return _new_sampler(name, temperature, seed, numbers)
        return _shared_sampler(name, temperature, None, numbers)
    if not isinstance(sampler, samplers.Sampler) or type(sampler).__name__ in UNSUPPORTED:
        raise TypeError(
            f"sampler is {sampler!r}; it must be one of {list(NAMES)}, or a sampler of keras_hub other than "
            f"{' and '.join(UNSUPPORTED)}."
        )
    for option, value in (("seed", seed), ("temperature", temperature)):
        if value is not None:
            raise ValueError(
                f"{option}={value!r} only applies to a sampler's name. Pass it to {type(sampler).__name__} instead."
            )
    if getattr(sampler, "return_all_beams", False):
        raise ValueError(
            "Samplers with return_all_beams=True are not supported, because every prompt gets one text. Leave it out."
        )
    return sampler


def _with_options(sampler, **options) -> tuple[Any, tuple[tuple[str, Any], ...]]:
    """Returns the sampler that options imply, by default greedy, and the options with its own names."""
    beams, top_p, penalty = (options[name] for name in ("beams", "top_p", "length_penalty"))
    if beams is not None and (not is_integer(beams) or beams < 1):
        raise ValueError(f"beams is {beams!r}; it must be a positive integer.")
    if top_p is not None and not (_is_number(top_p) and 0 < top_p <= 1):
        raise ValueError(f"top_p is {top_p!r}; it must be a number above 0 and at most 1.")
    if penalty is not None and not (_is_number(penalty) and math.isfinite(penalty)):
        raise ValueError(
            f"length_penalty is {penalty!r}; it must be a number: 0 for the sum of log-probabilities, 1 for "
            "their mean, which prefers longer texts."
        )
    given = {name: value for name, value in options.items() if value is not None}
    for option, value in given.items():
        name, _ = OPTIONS[option]
        if sampler not in (None, name):
            raise ValueError(
                f"{option}={value!r} is for the sampler {name!r}, but the sampler is {sampler!r}. Leave one of them "
                "out."
            )
        sampler = name
    numbers = tuple((OPTIONS[option][1], value) for option, value in given.items())
    return "greedy" if sampler is None else sampler, numbers


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _at_temperature(name: str, temperature: float | None) -> tuple[str, float]:
    """Returns the sampler and its temperature. Temperature 0 means greedy."""
    if temperature is None:
        return name, 1.0
    if not _is_number(temperature) or not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature is {temperature!r}; it must be a number: 0 always takes the most probable token, below 1 "
            "prefers probable tokens, above 1 allows rarer ones."
        )
    if temperature == 0 and name in (*SEEDED, "greedy"):
        return "greedy", 1.0
    if name in SEEDED:
        return name, float(temperature)
    raise ValueError(
        f"temperature={temperature!r} is for samplers that draw at random, but {name!r} does not. Choose one of "
        f"{list(SEEDED)}, for example sampler='top_p', or leave temperature out."
    )


def _new_sampler(name: str, temperature: float, seed: int | None, numbers: tuple):
    from keras_hub import samplers

    options = {"temperature": temperature, "seed": seed} if name in SEEDED else {}
    return getattr(samplers, SAMPLERS[name])(**options, **dict(numbers))


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
