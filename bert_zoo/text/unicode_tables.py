"""How reference tokenizers treat each code point, from unicode_tables.json.

Tables instead of ICU's or Python's properties, because the references mix Unicode versions, and ids must not
depend on the version of TensorFlow or Python. tools/references writes the file:

- "bert", Hugging Face's BERT normaliser and pre-tokeniser: `dropped` before anything else; `whitespace`
  separates words; `cjk` and `punctuation` are words of their own; `nonspacing` is dropped when accents are
  stripped; `accent_stripped` is the canonical decomposition without such marks, except for Hangul;
  `lowercase`, one code point at a time; `combining_class` of marks, or of the first mark of a decomposition,
  as `class:ranges` with a decimal class.
- "python", Python 3.11: `changed` by NFKD, dropped as combining, or changed by lower-casing; `whitespace` of
  str.split; `case_ignorable`, skipped in the context of a sigma; `cased`, without those; `starter_marks`,
  marks of combining class 0.
- "byte_bpe", the `letters`, `numbers` and `whitespace` of GPT-2's pattern in Hugging Face's library; the `digits` of
  its step Digits, from a newer Unicode.
- "tweets", the `word` (\\w) and `number` (\\d) of the Python module regex.
- "composition": `younger` are marks that ICU moves or joins in NFC, unlike Hugging Face's library.

Numbers are hexadecimal. Sets are ranges: `first-last` or a single code point. Mappings are
`first-last+delta` (`/2`: every second code point) or `code:replacement`, with code points joined by dots.
"""

import functools
import json
import re
from pathlib import Path

import numpy as np

NFC = "NFC"  # the normal form that composes letters and accents
UNICODE_SPACE = "byte_bpe/whitespace"  # the set that Hugging Face's library splits at

# The number of low bits of a code point, its position in its page.
PAGE_BITS = 8


@functools.cache
def _sections() -> dict[str, dict]:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def table(name: str) -> str:
    """A table in the file's notation; `name` is section and table, such as "bert/whitespace"."""
    section, _, key = name.partition("/")
    return _sections()[section]["tables"][key]


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (item.partition("-") for item in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]


def parse_ranges(text: str) -> list[int]:
    """The code points of a set in the file's notation."""
    return [code for first, last in _ranges(text) for code in range(first, last + 1)]


def code_points(name: str) -> list[int]:
    return parse_ranges(table(name))


@functools.cache
def re2_class(name: str) -> str:
    """A set as the inside of an RE2 character class."""
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in _ranges(table(name)))


def python_class(*names: str) -> str:
    """Sets as the inside of a Python character class."""
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
        first, last, step, delta = re.fullmatch(r"(\w+)-(\w+)(?:/(\d+))?([+-]\w+)", item).groups()
        for code in range(int(first, 16), int(last, 16) + 1, int(step or 1)):
            found[code] = (code + int(delta, 16),)
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
    """Divides a table of all code points, int32 [0x110000], into pages, and stores equal pages once. The number of a
    code point c is rows[pages[c >> 8] << 8 | c & 255] of the returned pages and rows. `batches.look_up` does this in
    the graph.
    """
    distinct: dict[bytes, int] = {}
    pages = [
        distinct.setdefault(page.tobytes(), len(distinct))
        for page in numbers.reshape(-1, 1 << PAGE_BITS)
    ]
    return np.int32(pages), np.frombuffer(b"".join(distinct), np.int32)
