"""Plans of token rows: runs of a text's tokens, and the special tokens around them.

`bert_zoo.pretraining.rows` has the schemes that families share, and composes rows; a family's own scheme is
in its folder. Nothing here reads a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from bert_zoo.text.numpy_packing import Layout

# Placeholders in templates for a run of tokens, and for nothing.
RUN, NONE = -1, -2
# Kinds of runs: their index in a template.
FIRST, MIDDLE, SECOND = 1, 2, 4


class TooFewRows(ValueError):
    """A text has too few tokens for the rows of a batch; a smaller batch may do."""


class Text(Protocol):
    """Attributes of `bert_zoo.pretraining.tokens.TokenizedText` that schemes read."""

    num_documents: int
    document_starts: np.ndarray
    sentence_starts: np.ndarray
    layout: Layout


class Runs(NamedTuple):
    """The runs of tokens that make up rows. Attributes that a scheme does not use are empty."""

    rows: np.ndarray  # int64 [runs], row of each run, ascending
    starts: np.ndarray  # int64 [runs], index of its first token among all tokens
    lengths: np.ndarray  # int64 [runs], number of its tokens
    labels: np.ndarray = np.zeros(0, np.int32)  # int32 [rows]
    # int8 [runs], its kind in the template, for schemes whose rows do not determine it.
    kinds: np.ndarray = np.zeros(0, np.int8)
    languages: np.ndarray = np.zeros(0, np.int32)  # int32 [runs]
    backwards: np.ndarray = np.zeros(0, bool)  # bool [runs], whether its tokens are reversed


class RowScheme:
    """Divides a text into rows."""

    length: int  # tokens per row, including special tokens
    # Whether each row continues a row of the previous batch, so that rows keep the plan's order.
    in_order: ClassVar[bool] = False

    def plan(self, text: Text, rng: np.random.Generator) -> Iterator[Runs]:
        """Yields the runs of an epoch's rows in parts; each part numbers its rows from 0."""
        raise NotImplementedError

    def template(self, layout: Layout) -> Template:
        raise NotImplementedError


# --- Helpers for plans ---


def cut(starts: np.ndarray, lengths: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts runs into runs of at most `most` tokens."""
    counts = -(-lengths // most)
    places = ranges(counts) * most
    return np.repeat(starts, counts) + places, np.minimum(np.repeat(lengths, counts) - places, most)


def followed(following: np.ndarray) -> list[int]:
    """The chain 0, following[0], following[following[0]], ... up to the end of the array."""
    following, found, place = following.tolist(), [], 0
    while place < len(following):
        found.append(place)
        place = following[place]
    return found


def ranges(lengths: np.ndarray) -> np.ndarray:
    """The concatenated ranges 0, 1, ..., length - 1 of all lengths."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


# --- Special tokens around runs ---


@dataclass(frozen=True)
class Template:
    """The special tokens before and after a run, by its position in the row."""

    # Pairs (before, after) of lists of special tokens as (role, segment).
    only: tuple[Sequence, Sequence] = ((), ())
    first: tuple[Sequence, Sequence] = ((), ())
    middle: tuple[Sequence, Sequence] = ((), ())
    last: tuple[Sequence, Sequence] = ((), ())
    # The same for the second of two texts, if both have their own positions.
    second: tuple[Sequence, Sequence] = ((), ())
    segments: tuple[int, int] = (0, 0)  # segments of the tokens in first and last runs
    numbered: bool = False  # whether each run is a document with positions from 0

    def _slots(self) -> list[list[tuple[str, int]]]:
        """For each kind of run, the same number of slots before and after it, some of them empty."""
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
        """Ids of special tokens, int64 [kinds, slots]."""
        named = {**special_ids, "run": RUN, "": NONE}
        return np.array([[named[role] for role, _ in slots] for slots in self._slots()])

    def segments_of_slots(self) -> np.ndarray:
        """int32 [kinds, slots]."""
        return np.array([[segment for _, segment in slots] for slots in self._slots()], np.int32)

    @staticmethod
    def kinds(splits: np.ndarray) -> np.ndarray:
        """Kinds of runs: 0 for a row's only run, 1 for its first, 2 for a middle one, 3 for its last."""
        kinds = np.full(splits[-1], 2, np.int8)
        kinds[splits[:-1]] = 1
        kinds[splits[1:] - 1] = 3
        kinds[splits[:-1][np.diff(splits) == 1]] = 0
        return kinds


def separator(layout: Layout) -> list[tuple[str, int]]:
    """The separator between documents that share a row."""
    return [("sep", 0)] if "sep" in layout.roles else []


def around(layout: Layout) -> tuple[list, list]:
    """The special tokens before and after a single text, as (role, segment)."""
    parts = layout.parts(1)
    text = next(number for number, part in enumerate(parts) if part.is_text)
    return parts[:text], parts[text + 1 :]
