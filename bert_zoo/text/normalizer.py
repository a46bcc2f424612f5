"""BERT's text normalisation and word splitting, exactly, in the graph.

Every code point has one *rule*. `build_rules` makes a small paged table of rules from unicode_tables.json,
and `split_words` applies it to a whole batch at once. A rule yields *units*, int32 numbers with a code point
and its properties:

    bits 0-20   the code point (after lower-casing and accent stripping)
    bit 21      set if the code point is a word of its own (punctuation, Chinese)
    bits 22-29  canonical combining class, if accents are stripped
    bit 30      set if a mark with such a class survives accent stripping

Source: huggingface/tokenizers, bert normalizer and pre-tokenizer: clean, split Chinese, decompose
and drop non-spacing marks, lower-case, then split at white space and punctuation.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text.offsets import at_origins, look_up, picked
from bert_zoo.text.tokenizer import TokenizeFunction
from bert_zoo.text.unicode_tables import code_points, combining_classes, mapping, paged

_ISOLATED = 1 << 21
_CLASS_SHIFT = 22
_SURVIVES = 1 << 30

# Rules 0 and 1 keep the code point, as part of a word or as a word. A negative rule is -1 - (row of the
# expansions). Any other rule is a unit that replaces the code point. The control characters 2 to 4 never
# occur in normalised text, so they mean here: a space; a character that is dropped before marks are sorted;
# and (with its combining class) a mark that is dropped afterwards.
_KEEP, _KEEP_ISOLATED, _SPACE, _DROP, _DROP_MARK = range(5)


class Rules(NamedTuple):
    """The rules of all code points, in pages as from `unicode_tables.paged`."""

    pages: np.ndarray
    rules: np.ndarray
    expansions: np.ndarray  # int32 [rows, width], units of code points that become several


@functools.cache
def build_rules(*, lowercase: bool, strip_accents: bool, split_cjk: bool) -> Rules:
    """Compiles the Unicode tables for one tokenizer configuration.

    Args:
        lowercase: lower-case every code point by itself.
        strip_accents: decompose canonically and drop non-spacing marks.
        split_cjk: make every Chinese character a word.
    """
    rules = np.zeros(0x110000, np.int32)
    expansions: list[list[int]] = []
    lowered = mapping("bert/lowercase") if lowercase else {}
    stripped = _accent_stripped() if strip_accents else {}
    classes = combining_classes() if strip_accents else {}
    punctuation = set(code_points("bert/punctuation"))
    cjk = set(code_points("bert/cjk")) if split_cjk else set()

    def units_of(code: int) -> list[int]:
        parts = [low for part in stripped.get(code, (code,)) for low in lowered.get(part, (part,))]
        return [
            part
            | (_ISOLATED if code in cjk or part in punctuation else 0)
            | (classes[part] << _CLASS_SHIFT | _SURVIVES if part in classes else 0)
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
        for code in code_points("bert/nonspacing"):
            rules[code] = _DROP_MARK | classes.get(code, 0) << _CLASS_SHIFT
    rules[code_points("bert/whitespace")] = _SPACE
    rules[code_points("bert/dropped")] = _DROP

    width = max((len(units) for units in expansions), default=1)
    padded = [units + [_DROP] * (width - len(units)) for units in expansions] or [[_DROP]]
    return Rules(*paged(rules), np.int32(padded))


def _accent_stripped() -> dict[int, tuple[int, ...]]:
    """Canonical decompositions without non-spacing marks, Hangul by the standard's arithmetic."""
    stripped = mapping("bert/accent_stripped")
    for index in range(11172):
        lead, vowel, tail = index // 588, index % 588 // 28, index % 28
        jamo = (0x1100 + lead, 0x1161 + vowel, 0x11A7 + tail)
        stripped[0xAC00 + index] = jamo if tail else jamo[:2]
    return stripped


def split_words(
    texts: tf.Tensor, rules: Rules, *, with_origins: bool = False
) -> list[tf.RaggedTensor]:
    """Normalises texts and splits them into words.

    Args:
        texts: string [batch], UTF-8; malformed bytes become U+FFFD, which BERT drops.
        rules: rules of `build_rules`, as tensors or arrays.
        with_origins: also return the original position of every code point.

    Returns:
        The words, int32 [batch, (words), (code points)]; with origins, also positions in the texts, in
        characters, of the same type and shape.
    """
    # A space ends the last word of each text, so that no word reaches into the next row.
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, " "]), "UTF-8", errors="replace")
    origins = ()
    if with_origins:
        origins = (tf.ragged.range(tf.cast(decoded.row_lengths(), tf.int32)).values,)
    return _split(*_apply_rules(decoded.values, decoded.row_splits, rules, *origins))


def normalized_texts(texts: tf.Tensor, rules: Rules) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Normalises texts without splitting them, and puts a space on each side of Chinese characters.

    Args: as for `split_words`.

    Returns:
        string [batch]; and the original position of every character, int32 [batch, (characters)].
    """
    # A space ends each text, so that no mark is sorted into the next row.
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, " "]), "UTF-8", errors="replace")
    origins = tf.ragged.range(tf.cast(decoded.row_lengths(), tf.int32)).values
    row_splits, units, origins = _apply_rules(decoded.values, decoded.row_splits, rules, origins)
    codes = tf.bitwise.bitwise_and(units, _ISOLATED - 1)
    is_isolated = tf.bitwise.bitwise_and(units, _ISOLATED) != 0
    is_chinese = is_isolated & (look_up(codes, *_punctuation()) == 0)
    codes = tf.where(units == _SPACE, ord(" "), codes)

    def spaced() -> tuple[tf.Tensor, ...]:
        lengths = tf.where(is_chinese, 3, 1)
        before = tf.concat([[0], tf.cumsum(lengths)], 0)
        places = tf.repeat(tf.range(tf.size(codes)), lengths)
        offsets = tf.range(tf.size(places)) - tf.gather(before, places)
        is_space = tf.gather(is_chinese, places) & (offsets != 1)
        return (
            tf.gather(tf.cast(before, tf.int64), row_splits),
            tf.where(is_space, ord(" "), tf.gather(codes, places)),
            tf.gather(origins, places),
        )

    row_splits, codes, origins = tf.cond(
        tf.reduce_any(is_chinese), spaced, lambda: (row_splits, codes, origins)
    )
    normalized, origins = (
        tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)[:, :-1]
        for values in (codes, origins)
    )
    return tf.strings.unicode_encode(normalized, "UTF-8"), origins


class BertNormalizer(tf.Module):
    """BERT's normalisation of texts, with the rules to split raw texts and normalised texts into words.

    Args: as for `build_rules`.
    """

    def __init__(self, **options: bool):
        super().__init__()
        of_normalized = build_rules(lowercase=False, strip_accents=False, split_cjk=False)
        self.rules = Rules(*map(tf.constant, build_rules(**options)))
        self.rules_of_normalized = Rules(*map(tf.constant, of_normalized))

    def normalized(self, text: str) -> str:
        (found,) = normalized_texts(tf.constant([text]), self.rules)[0].numpy()
        return found.decode()

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        normalized, origins = normalized_texts(texts, self.rules)
        tokens = tokenize(normalized)
        return at_origins(tokens, origins.values, origins.row_splits) if with_offsets else tokens


@functools.cache
def _punctuation() -> tuple[np.ndarray, np.ndarray]:
    """Whether each code point is punctuation, 1 or 0, as pages of `unicode_tables.paged`."""
    marks = np.zeros(0x110000, np.int32)
    marks[code_points("bert/punctuation")] = 1
    return paged(marks)


def _split(row_splits: tf.Tensor, units: tf.Tensor, *origins: tf.Tensor) -> list[tf.RaggedTensor]:
    """Divides the code points of units into words, and their origins alike, if given."""
    is_space = units == _SPACE
    is_isolated = tf.bitwise.bitwise_and(units, _ISOLATED) != 0
    ends_word = is_space | is_isolated
    follows_end = tf.concat([[True], ends_word], 0)[:-1]
    starts = ~is_space & (is_isolated | follows_end)

    # Positions among units other than spaces, and the number of words before each row.
    spaces_before = tf.cumsum(tf.cast(is_space, tf.int64))
    start_at = tf.where(starts)[:, 0]
    char_starts = start_at - tf.gather(spaces_before, start_at)
    chars = tf.bitwise.bitwise_and(picked(units, ~is_space), _ISOLATED - 1)
    num_chars = tf.size(chars, out_type=tf.int64)
    char_splits = tf.concat([char_starts, [num_chars]], 0)
    word_splits = tf.searchsorted(start_at, row_splits, out_type=tf.int64)
    return [
        tf.RaggedTensor.from_nested_row_splits(values, [word_splits, char_splits], validate=False)
        for values in (chars, *(picked(origin, ~is_space) for origin in origins))
    ]


def _apply_rules(
    codes: tf.Tensor, row_splits: tf.Tensor, rules: Rules, *origins: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Maps code points [n] to their units, without the dropped ones.

    Returns:
        The row splits of the units, the units int32 [m] and, if given, their origins [m].
    """
    rule = look_up(codes, rules.pages, rules.rules)
    units = tf.where(rule <= _KEEP_ISOLATED, codes + rule * _ISOLATED, rule)
    single = (row_splits, units, *origins)

    def resize() -> tuple[tf.Tensor, ...]:
        splits, *wide = tf.cond(
            tf.reduce_any(rule < 0),
            lambda: _expand(rule, rules.expansions, *single),
            lambda: single,
        )
        wide = tf.cond(
            tf.reduce_any(wide[0] >= _SURVIVES), lambda: _reorder(*wide), lambda: tuple(wide)
        )
        kept = ~_is_dropped(wide[0])
        kept_before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
        return tf.gather(kept_before, splits), *(picked(part, kept) for part in wide)

    changes_size = (rule < 0) | (units >= _SURVIVES) | _is_dropped(units)
    return tf.cond(tf.reduce_any(changes_size), resize, lambda: single)


def _is_dropped(units: tf.Tensor) -> tf.Tensor:
    code = tf.bitwise.bitwise_and(units, _ISOLATED - 1)
    return (code == _DROP) | (code == _DROP_MARK)


def _expand(rule, expansions, row_splits, units, *origins) -> tuple[tf.Tensor, ...]:
    """Gives every code point as many places as the longest expansion; unused ones will be dropped."""
    width = expansions.shape[1]
    single = tf.pad(units[:, None], [[0, 0], [0, width - 1]], constant_values=_DROP)
    several = tf.gather(expansions, tf.maximum(-1 - rule, 0))
    wide = tf.where(rule[:, None] < 0, several, single)
    repeated = (tf.repeat(origin, width) for origin in origins)
    return row_splits * width, tf.reshape(wide, [-1]), *repeated


def _reorder(units: tf.Tensor, *origins: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Sorts each run of combining marks by class, as canonical decomposition does.

    Characters that the clean-up drops do not interrupt a run. Origins do not move with the marks: in the
    reference, the first unit of a decomposition, wherever it is sorted to, counts as a replacement of the
    next character of the text, and the other units as additions to it.
    """
    mark_class = tf.bitwise.bitwise_and(tf.bitwise.right_shift(units, _CLASS_SHIFT), 0xFF)
    is_there = units != _DROP
    begins_run = (mark_class == 0) & is_there
    run = tf.cumsum(tf.cast(begins_run, tf.int64))
    order = tf.argsort(run * 256 + tf.cast(mark_class, tf.int64), stable=True)
    return tf.gather(units, order), *(
        _consumed_origins(origin, is_there, order) for origin in origins
    )


def _consumed_origins(origins: tf.Tensor, is_there: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """Gives the first units of characters, in their new order, the origins in the old order."""
    differs = tf.concat([[True], origins[1:] != origins[:-1]], 0)
    is_first = differs & is_there
    place = tf.cumsum(tf.cast(tf.gather(is_first, order), tf.int32)) - 1
    return tf.gather(picked(origins, is_first), tf.maximum(place, 0))
