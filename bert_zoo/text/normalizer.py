"""BERT's text normalisation and word splitting, in the graph and exact.

Every code point has one *rule*; the rules of a configuration are a small paged table that
`build_rules` makes from unicode_tables.py, and `split_words` applies to a whole batch at once.
A rule yields *units*, int32 numbers that carry a code point and what must be known of it:

    bits 0-20   the code point (after lower-casing and accent stripping)
    bit 21      set where the code point is a word of its own (punctuation, Chinese)
    bits 22-    canonical combining class of a mark that survives accent stripping

Source: huggingface/tokenizers, bert normalizer and pre-tokenizer: clean, split Chinese, decompose
and drop non-spacing marks, lower-case, then split at white space and punctuation.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_zoo.text import unicode_tables

_NUM_CODE_POINTS = 0x110000
_PAGE_BITS = 8
_ISOLATED = 1 << 21
_CLASS_SHIFT = 22

# Rules 0 and 1 keep the code point, as part of a word or as a word. Any other rule is a unit that
# replaces it, or, below zero, -1 - (row of the expansions). The controls 2 to 4 are never part of a
# normalised text, so they are free to mean:
_KEEP, _KEEP_ISOLATED, _SPACE, _DROP, _DROP_STARTER = range(5)


class Rules(NamedTuple):
    """What happens to each code point. Read as rules[pages[code >> 8] << 8 | code & 255]."""

    pages: np.ndarray  # int32 [4352]
    rules: np.ndarray  # int32 [256 * distinct pages]
    expansions: np.ndarray  # int32 [rows, width]; units of the code points that become several


# ---------------------------------------------------------------------------------------------
# Building the rules
# ---------------------------------------------------------------------------------------------


@functools.cache
def build_rules(
    *, lowercase: bool, strip_accents: bool, split_cjk: bool, isolated: Sequence[int] = ()
) -> Rules:
    """Compiles unicode_tables for one tokenizer configuration.

    Args:
        lowercase: lower-case every code point by itself.
        strip_accents: decompose canonically and drop non-spacing marks.
        split_cjk: make every Chinese character a word.
        isolated: further code points that are kept, each as a word; a tuple or range.
    """
    rules = np.zeros(_NUM_CODE_POINTS, np.int32)
    expansions: list[list[int]] = []
    lowered = _parse_mapping(unicode_tables.LOWERCASE) if lowercase else {}
    stripped = _accent_stripped() if strip_accents else {}
    classes = _combining_classes() if strip_accents else {}
    punctuation = set(parse_ranges(unicode_tables.PUNCTUATION))
    cjk = set(parse_ranges(unicode_tables.CJK)) if split_cjk else set()

    def units_of(code: int) -> list[int]:
        parts = [low for part in stripped.get(code, (code,)) for low in lowered.get(part, (part,))]
        return [
            part
            | (_ISOLATED if code in cjk or part in punctuation else 0)
            | classes.get(part, 0) << _CLASS_SHIFT
            for part in parts
        ]

    rules[list(cjk | punctuation)] = _KEEP_ISOLATED
    for code in stripped.keys() | lowered.keys() | classes.keys():
        units = units_of(code)
        if len(units) == 1:
            rules[code] = units[0]
        else:
            expansions.append(units)
            rules[code] = -len(expansions)
    if strip_accents:
        rules[parse_ranges(unicode_tables.NONSPACING)] = _DROP
        rules[parse_ranges(unicode_tables.NONSPACING_STARTERS)] = _DROP_STARTER
    rules[parse_ranges(unicode_tables.WHITESPACE)] = _SPACE
    rules[parse_ranges(unicode_tables.DROPPED)] = _DROP
    rules[list(isolated)] = _KEEP_ISOLATED

    distinct: dict[bytes, int] = {}
    paged = rules.reshape(-1, 1 << _PAGE_BITS)
    pages = [distinct.setdefault(page.tobytes(), len(distinct)) for page in paged]
    width = max((len(units) for units in expansions), default=1)
    padded = [units + [_DROP] * (width - len(units)) for units in expansions] or [[_DROP]]
    return Rules(np.int32(pages), np.frombuffer(b"".join(distinct), np.int32), np.int32(padded))


def parse_ranges(text: str) -> list[int]:
    codes: list[int] = []
    for item in text.split():
        first, _, last = item.partition("-")
        codes.extend(range(int(first, 16), int(last or first, 16) + 1))
    return codes


def _parse_mapping(text: str) -> dict[int, tuple[int, ...]]:
    """Reads `first-last+delta`, `first-last/2+delta` and `code:replacement.replacement`."""
    mapping: dict[int, tuple[int, ...]] = {}
    for item in text.split():
        if ":" in item:
            code, _, replacement = item.partition(":")
            mapping[int(code, 16)] = tuple(int(part, 16) for part in replacement.split("."))
            continue
        first, rest = item.split("-", 1)
        sign = "+" if "+" in rest else "-"
        last, _, delta = rest.partition(sign)
        last, _, step = last.partition("/")
        for code in range(int(first, 16), int(last, 16) + 1, int(step or 1)):
            mapping[code] = (code + int(sign + delta, 16),)
    return mapping


def _accent_stripped() -> dict[int, tuple[int, ...]]:
    """Canonical decompositions without non-spacing marks, Hangul by the standard's arithmetic."""
    mapping = _parse_mapping(unicode_tables.ACCENT_STRIPPED)
    for index in range(11172):
        lead, vowel, tail = index // 588, index % 588 // 28, index % 28
        jamo = (0x1100 + lead, 0x1161 + vowel, 0x11A7 + tail)
        mapping[0xAC00 + index] = jamo if tail else jamo[:2]
    return mapping


def _combining_classes() -> dict[int, int]:
    items = (item.split(":") for item in unicode_tables.COMBINING_CLASS.split())
    return {
        code: int(value)
        for value, ranges in items
        for code in parse_ranges(ranges.replace(",", " "))
    }


# ---------------------------------------------------------------------------------------------
# Applying them
# ---------------------------------------------------------------------------------------------


def split_words(texts: tf.Tensor, rules: Rules) -> tf.RaggedTensor:
    """Normalises texts and splits them into words.

    Args:
        texts: string [batch], UTF-8; malformed bytes become U+FFFD, which BERT drops.
        rules: of `build_rules`, as tensors or arrays.

    Returns:
        int32 [batch, (words), (code points)].
    """
    # The space ends the last word of each text, so that no word reaches into the next row.
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, " "]), "UTF-8", errors="replace")
    units, row_splits = _apply_rules(decoded.flat_values, decoded.row_splits, rules)

    is_space = units == _SPACE
    is_isolated = tf.bitwise.bitwise_and(units, _ISOLATED) != 0
    ends_word = is_space | is_isolated
    follows_end = tf.concat([[True], ends_word], 0)[:-1]
    starts = ~is_space & (is_isolated | follows_end)

    # Positions among the units that are not spaces, and words before each row.
    spaces_before = tf.cumsum(tf.cast(is_space, tf.int64))
    start_at = tf.where(starts)[:, 0]
    char_starts = start_at - tf.gather(spaces_before, start_at)
    chars = tf.bitwise.bitwise_and(tf.boolean_mask(units, ~is_space), _ISOLATED - 1)
    num_chars = tf.size(chars, out_type=tf.int64)
    words = tf.RaggedTensor.from_row_splits(
        chars, tf.concat([char_starts, [num_chars]], 0), validate=False
    )
    return tf.RaggedTensor.from_row_splits(
        words, tf.searchsorted(start_at, row_splits, out_type=tf.int64), validate=False
    )


def _apply_rules(
    codes: tf.Tensor, row_splits: tf.Tensor, rules: Rules
) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps code points [n] to their units [m], without the dropped ones, and moves the row splits."""
    page = tf.gather(rules.pages, tf.bitwise.right_shift(codes, _PAGE_BITS))
    offset = tf.bitwise.bitwise_and(codes, (1 << _PAGE_BITS) - 1)
    rule = tf.gather(rules.rules, page * (1 << _PAGE_BITS) + offset)
    units = tf.where(rule <= _KEEP_ISOLATED, codes + rule * _ISOLATED, rule)

    def resize() -> tuple[tf.Tensor, tf.Tensor]:
        wide, splits = tf.cond(
            tf.reduce_any(rule < 0),
            lambda: _expand(units, rule, row_splits, rules.expansions),
            lambda: (units, row_splits),
        )
        wide = tf.cond(
            tf.reduce_any(wide >= 1 << _CLASS_SHIFT), lambda: _reorder(wide), lambda: wide
        )
        kept = (wide != _DROP) & (wide != _DROP_STARTER)
        kept_before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
        return tf.boolean_mask(wide, kept), tf.gather(kept_before, splits)

    changes_size = (rule < 0) | (rule == _DROP) | (rule == _DROP_STARTER)
    has_marks = units >= 1 << _CLASS_SHIFT
    return tf.cond(tf.reduce_any(changes_size | has_marks), resize, lambda: (units, row_splits))


def _expand(
    units: tf.Tensor, rule: tf.Tensor, row_splits: tf.Tensor, expansions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gives every code point as many places as the longest expansion, unused ones dropped."""
    width = expansions.shape[1]
    single = tf.pad(units[:, None], [[0, 0], [0, width - 1]], constant_values=_DROP)
    several = tf.gather(expansions, tf.maximum(-1 - rule, 0))
    wide = tf.where(rule[:, None] < 0, several, single)
    return tf.reshape(wide, [-1]), row_splits * width


def _reorder(units: tf.Tensor) -> tf.Tensor:
    """Sorts each run of combining marks by class, as canonical decomposition does.

    Dropped units count as marks of class 0 wherever they stand in a run: they go in the end.
    """
    mark_class = tf.cast(tf.bitwise.right_shift(units, _CLASS_SHIFT), tf.int64)
    begins_run = (mark_class == 0) & (units != _DROP)
    run = tf.cumsum(tf.cast(begins_run, tf.int64))
    return tf.gather(units, tf.argsort(run * 256 + mark_class, stable=True))
