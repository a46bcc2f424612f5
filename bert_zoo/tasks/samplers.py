"""What chooses tokens: keras_hub's samplers, by name and by number."""

import contextlib
import functools
import math
import threading
from collections.abc import Iterator
from numbers import Real

import keras

from bert_zoo.config import is_integer

# keras_hub's classes by the names that `generate` takes, and those that draw random numbers.
SAMPLERS = {
    "greedy": "GreedySampler",
    "top_k": "TopKSampler",
    "top_p": "TopPSampler",
    "random": "RandomSampler",
    "beam": "BeamSampler",
}
SEEDED = ("top_k", "top_p", "random")
# Options of `generate` that are a number of one sampler -> its name, and its class's name of the number.
NUMBERS = {"beams": ("beam", "num_beams"), "top_p": ("top_p", "p")}
# They ask for hidden states, or for a second model.
UNSUPPORTED = ("ContrastiveSampler", "SpeculativeSampler")
# Held by the call that draws from a sampler which calls share.
_DRAWING = threading.Lock()


def as_sampler(sampler, *, beams, top_p, temperature, seed: int | None, own: bool):
    """One of keras_hub's samplers, from its name or as it is.

    Calls share those that have names, which saves tracing anew, unless one asks for its `own`.

    Args:
        sampler, beams, top_p, temperature, seed: as of `generate`.
    """
    try:
        from keras_hub import samplers
    except ImportError as error:
        raise ImportError(
            "Generation uses the samplers of keras_hub, and importing it failed: "
            f"{error}. Install it: pip install keras-hub."
        ) from error
    sampler, number = _with_number(sampler, beams=beams, top_p=top_p)
    if isinstance(sampler, str):
        if sampler not in SAMPLERS:
            raise ValueError(
                f"There is no sampler {sampler!r}; choose one of {list(SAMPLERS)}, or pass a sampler "
                "of keras_hub."
            )
        name, temperature = _at_temperature(sampler, temperature)
        number = number if name == sampler else ()
        if own and name in SEEDED:
            return _new_sampler(name, temperature, seed, number)
        return _shared_sampler(name, temperature, None, number)
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


def _with_number(sampler, *, beams: int | None, top_p: float | None):
    """The sampler, greedy by default, and its number as a keyword and value; () for keras_hub's own."""
    if beams is not None and (not is_integer(beams) or beams < 1):
        raise ValueError(f"beams is {beams!r}; it must be a positive integer.")
    is_share = isinstance(top_p, Real) and not isinstance(top_p, bool) and 0 < top_p <= 1
    if top_p is not None and not is_share:
        raise ValueError(f"top_p is {top_p!r}; it must be a number above 0, and 1 at most.")
    number = ()
    for option, value in (("beams", beams), ("top_p", top_p)):
        if value is None:
            continue
        name, keyword = NUMBERS[option]
        if sampler not in (None, name):
            raise ValueError(
                f"{option}={value!r} is for the sampler {name!r}, and the sampler here is {sampler!r}. "
                "Leave one of them out."
            )
        sampler, number = name, (keyword, value)
    return "greedy" if sampler is None else sampler, number


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


def _new_sampler(name: str, temperature: float, seed: int | None, number: tuple):
    from keras_hub import samplers

    options = {"temperature": temperature, "seed": seed} if name in SEEDED else {}
    options |= [number] if number else []
    return getattr(samplers, SAMPLERS[name])(**options)


_shared_sampler = functools.lru_cache(maxsize=32)(_new_sampler)


@contextlib.contextmanager
def drawing_from(seed: int | None, sampler) -> Iterator[None]:
    """Has a shared sampler start from a seed, and draw for one call at a time."""
    if not sampler.variables:
        yield
        return
    with _DRAWING:
        sampler.seed_generator.state.assign(keras.random.SeedGenerator(seed).state)
        yield
