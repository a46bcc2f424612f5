"""What reference tokenizers do with each code point, from unicode_tables.json.

Tables and not ICU's or Python's properties, because the references mix Unicode versions and because
ids must not change with the version of TensorFlow or Python. tools/references writes the file:

- "bert", what Hugging Face's BERT normaliser and pre-tokeniser do: `dropped` before anything else;
  `whitespace` separates words; `cjk` and `punctuation` are words of their own; `nonspacing` goes when
  accents are stripped; `accent_stripped` is the canonical decomposition without such marks, Hangul
  left out; `lowercase`, one code point at a time; `combining_class` of marks, or of the first mark
  that one decomposes to, as `class:ranges` with the class in decimals.
- "python", Python 3.11's: `changed` by NFKD, dropped as combining, or changed by lower-casing;
  `whitespace`, at which str.split splits; `case_ignorable`, passed over where the context of a sigma
  is looked at; `cased`, without those; `starter_marks`, the marks of combining class 0.
- "byte_bpe", what GPT-2's pattern takes for `letters`, `numbers` and `whitespace` in Hugging Face's
  library.
- "tweets", what `word` and `number` are to the Python module regex: its \\w and \\d.
- "composition": `younger` are marks that ICU moves or joins in NFC, and that library does not.

Numbers are hexadecimal. Sets are ranges: `first-last` or a single code point. Mappings are
`first-last+delta` (`/2`: every second code point) or `code:replacement`, the replacement being code
points joined by dots.
"""

import functools
import json
from pathlib import Path

import numpy as np

NFC = "NFC"  # the normal form that composes letters and accents


# The bits of a code point that say which of its page's it is.
PAGE_BITS = 8


@functools.cache
def _sections() -> dict[str, dict]:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def table(name: str) -> str:
    """A table in its notation; `name` is the section and the table, as "bert/whitespace"."""
    section, _, key = name.partition("/")
    return _sections()[section]["tables"][key]


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (item.partition("-") for item in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]


def parse_ranges(text: str) -> list[int]:
    """The code points of a set in the tables' notation."""
    return [code for first, last in _ranges(text) for code in range(first, last + 1)]


def code_points(name: str) -> list[int]:
    """The code points of a table that is a set."""
    return parse_ranges(table(name))


@functools.cache
def re2_class(name: str) -> str:
    """A set as the inside of one of RE2's character classes."""
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in _ranges(table(name)))


def python_class(*names: str) -> str:
    """Sets as the inside of one of Python's character classes."""
    ranges = (pair for name in names for pair in _ranges(table(name)))
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges)


def mapping(name: str) -> dict[int, tuple[int, ...]]:
    """Code point -> its replacement."""
    found: dict[int, tuple[int, ...]] = {}
    for item in table(name).split():
        if ":" in item:
            code, _, replacement = item.partition(":")
            found[int(code, 16)] = tuple(int(part, 16) for part in replacement.split("."))
            continue
        first, rest = item.split("-", 1)
        sign = "+" if "+" in rest else "-"
        last, _, delta = rest.partition(sign)
        last, _, step = last.partition("/")
        for code in range(int(first, 16), int(last, 16) + 1, int(step or 1)):
            found[code] = (code + int(sign + delta, 16),)
    return found


def combining_classes() -> dict[int, int]:
    """Mark -> its canonical combining class."""
    items = (item.split(":") for item in table("bert/combining_class").split())
    return {
        code: int(value)
        for value, ranges in items
        for code in parse_ranges(ranges.replace(",", " "))
    }


def paged(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a table of all code points, int32 [0x110000], into pages, and keeps equal ones once.

    The number of a code point c is rows[pages[c >> 8] << 8 | c & 255] of the pages and rows that it
    gives; `offsets.look_up` does that in the graph.
    """
    distinct: dict[bytes, int] = {}
    pages = [
        distinct.setdefault(page.tobytes(), len(distinct))
        for page in numbers.reshape(-1, 1 << PAGE_BITS)
    ]
    return np.int32(pages), np.frombuffer(b"".join(distinct), np.int32)
