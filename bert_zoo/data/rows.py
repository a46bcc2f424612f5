"""Rows of tokens, as schemes plan them: runs of a text's tokens, and the special tokens around them.

`bert_zoo.pretraining.rows` has the schemes that families share, and composes rows; a scheme of one family
stands with it. Nothing here reads a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from bert_zoo.text.layout import Layout

# Stands in templates for a run of tokens, and for nothing.
RUN, NONE = -1, -2
# Kinds of runs, by their place among a template's.
FIRST, MIDDLE, SECOND = 1, 2, 4


class Text(Protocol):
    """What schemes read of a tokenized text; attributes as of `bert_zoo.pretraining.tokens.TokenizedText`."""

    num_documents: int
    document_starts: np.ndarray
    sentence_starts: np.ndarray
    layout: Layout


class Runs(NamedTuple):
    """Runs of tokens of rows, some rows after others.

    Attributes:
        rows: int64 [runs], the row of each, rising.
        starts: int64 [runs], the place of its first token among all tokens.
        lengths: int64 [runs], its tokens.
        labels: int32 [rows] for schemes with a label, else of no size.
        kinds: int8 [runs], where in the template each stands, for schemes whose rows do not tell it; else
            of no size.
        languages: int32 [runs], for schemes with languages, else of no size.
        backwards: bool [runs], whether a run's tokens stand last to first, for schemes with such runs,
            else of no size.
    """

    rows: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray = np.zeros(0, np.int32)
    kinds: np.ndarray = np.zeros(0, np.int8)
    languages: np.ndarray = np.zeros(0, np.int32)
    backwards: np.ndarray = np.zeros(0, bool)


class Scheme:
    """What a row of a text is.

    Attributes:
        length: tokens of a row, special ones among them.
        in_order: whether each row goes on where a row of the batch before ended, so that rows keep the
            order of the plan.
    """

    length: int
    in_order: ClassVar[bool] = False

    def plan(self, text: Text, rng: np.random.Generator) -> Iterator[Runs]:
        """The runs of an epoch's rows, part after part; rows are numbered from 0 in each."""
        raise NotImplementedError

    def template(self, layout: Layout) -> Template:
        """The special tokens around runs."""
        raise NotImplementedError


# --- What plans are made of ---


def cut(starts: np.ndarray, lengths: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The given runs, cut into runs of at most `most` tokens."""
    counts = -(-lengths // most)
    places = ranges(counts) * most
    return np.repeat(starts, counts) + places, np.minimum(np.repeat(lengths, counts) - places, most)


def followed(following: np.ndarray) -> list[int]:
    """0, what follows it, what follows that, and so on to the end."""
    following, found, place = following.tolist(), [], 0
    while place < len(following):
        found.append(place)
        place = following[place]
    return found


def ranges(lengths: np.ndarray) -> np.ndarray:
    """0, 1, ... for each length, one after another."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


# --- Special tokens around runs ---


@dataclass(frozen=True)
class Template:
    """Which special tokens stand before and after a run, by where in its row it stands.

    Attributes:
        only, first, middle, last: pairs of lists of special tokens as (role, segment).
        second: of the second of two texts that each have positions of their own.
        segments: of the tokens of first and of last runs.
        numbered: whether each run is a document of its own, with positions that start again.
    """

    only: tuple[Sequence, Sequence] = ((), ())
    first: tuple[Sequence, Sequence] = ((), ())
    middle: tuple[Sequence, Sequence] = ((), ())
    last: tuple[Sequence, Sequence] = ((), ())
    second: tuple[Sequence, Sequence] = ((), ())
    segments: tuple[int, int] = (0, 0)
    numbered: bool = False

    def _slots(self) -> list[list[tuple[str, int]]]:
        """For each kind of run as many slots before the run as after it, empty ones among them."""
        kinds = (self.only, self.first, self.middle, self.last, self.second)
        width = max(len(part) for kind in kinds for part in kind)
        none = [("", 0)]
        segments = (*self.segments[:1] * 3, *self.segments[1:] * 2)
        return [
            none * (width - len(before))
            + [*before, ("run", segment), *after]
            + none * (width - len(after))
            for (before, after), segment in zip(kinds, segments, strict=True)
        ]

    def ids(self, special_ids: dict[str, int]) -> np.ndarray:
        """int64 [kinds, slots], the ids of special tokens."""
        named = {**special_ids, "run": RUN, "": NONE}
        return np.array([[named[role] for role, _ in slots] for slots in self._slots()])

    def segments_of_slots(self) -> np.ndarray:
        """int32 [kinds, slots]."""
        return np.array([[segment for _, segment in slots] for slots in self._slots()], np.int32)

    @staticmethod
    def kinds(splits: np.ndarray) -> np.ndarray:
        """0 for the only run of a row, 1 for the first, 2 for one in the middle, 3 for the last."""
        kinds = np.full(splits[-1], 2, np.int8)
        kinds[splits[:-1]] = 1
        kinds[splits[1:] - 1] = 3
        kinds[splits[:-1][np.diff(splits) == 1]] = 0
        return kinds


def separator(layout: Layout) -> list[tuple[str, int]]:
    """What stands between documents that share a row."""
    return [("sep", 0)] if "sep" in layout.roles else []


def around(layout: Layout) -> tuple[list, list]:
    """The special tokens before and after a single text, as (role, segment)."""
    parts = layout.parts(1)
    text = next(number for number, part in enumerate(parts) if part.is_text)
    return parts[:text], parts[text + 1 :]
