"""Normalises texts in the graph: BERT's way exactly, composed accents, Python's string methods.

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
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    as_utf8,
    at_origins,
    is_white_space,
    joined_rows,
    look_up,
    picked,
    sums_before,
)
from bert_zoo.text.tokenizer import TokenizeFunction, import_tensorflow_text, traced_once
from bert_zoo.text.unicode_tables import (
    UNICODE_SPACE,
    code_points,
    combining_classes,
    mapping,
    paged,
    re2_class,
)

# Hugging Face's library has an older Unicode than ICU, which moves and joins marks that the library does
# not know. Between two of these noncharacters, such a mark stays separate.
_GUARD = "\ufdd0"
# Characters below U+0300 never compose with one another.
_COMPOSED = r"[\x{0}-\x{2ff}]*"


class Composition:
    """Normalises texts to NFC; bytes that are not UTF-8 count as U+FFFD."""

    def normalized(self, text: str) -> str:
        return compose_as_reference(tf.constant([text]))[0].numpy().decode()

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        tokenize = traced_once(tokenize, tf.TensorSpec([None], tf.string))

        def compose() -> tf.RaggedTensor:
            source = as_utf8(texts)
            composed = compose_as_reference(source)
            tokens = tokenize(composed)
            if not with_offsets:
                return tokens
            return at_origins(tokens, *origins(composed, source))

        is_composed = tf.strings.regex_full_match(texts, _COMPOSED)
        return tf.cond(tf.reduce_all(is_composed), lambda: tokenize(texts), compose)


def compose_as_reference(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts [n], UTF-8, in the NFC of Hugging Face's library."""
    younger = f"([{re2_class('composition/younger')}])"
    guarded = tf.strings.regex_replace(texts, younger, rf"{_GUARD}\1{_GUARD}")
    composed = normalized(guarded, "NFC")
    return tf.strings.regex_replace(composed, f"{_GUARD}{younger}{_GUARD}", r"\1")


def normalized(texts: tf.Tensor, form: str) -> tf.Tensor:
    """Returns texts [n], UTF-8, in one of Unicode's normalization forms."""
    return import_tensorflow_text().normalize_utf8(texts, form)


def origins(composed: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The original position of each character of all composed texts [batch], int64 [characters], and their row splits.
    Both texts decompose to the same characters, which are counted. A composed character has the position of its
    first part, as in Hugging Face's library. If marks change places, their positions do not move along.
    """
    of_composed, of_texts = (tf.strings.unicode_split(each, "UTF-8") for each in (composed, texts))
    begins, wanted = (_begins_decomposed(each.values) for each in (of_texts, of_composed))
    places = tf.searchsorted(begins, wanted, side="right", out_type=tf.int64) - 1
    return places - tf.gather(
        of_texts.row_splits, of_composed.value_rowids()
    ), of_composed.row_splits


def _begins_decomposed(characters: tf.Tensor) -> tf.Tensor:
    """Returns the starts of characters [n] among their decompositions."""
    lengths = tf.strings.length(normalized(characters, "NFD"), unit="UTF8_CHAR")
    return tf.cumsum(lengths, exclusive=True)


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
    """Compiles the Unicode tables for one tokenizer: lower-case every code point by itself, decompose canonically and
    drop non-spacing marks, make every Chinese character a word.
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
    """Normalises texts, string [batch] (malformed bytes become U+FFFD, which BERT drops), and splits them into words,
    int32 [batch, (words), (code points)]; `with_origins` also gives the original position of every code point.
    `rules` are from `build_rules`, as tensors or arrays.
    """
    # A space ends the last word of each text, so that no word reaches into the next row.
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, " "]), "UTF-8", errors="replace")
    origins = ()
    if with_origins:
        origins = (tf.ragged.range(tf.cast(decoded.row_lengths(), tf.int32)).values,)
    return _split(*_apply_rules(decoded.values, decoded.row_splits, rules, *origins))


def normalized_texts(texts: tf.Tensor, rules: Rules) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Texts normalised but not split, string [batch], with a space on each side of Chinese characters; and the original
    position of every character, int32 [batch, (characters)]. Arguments as for `split_words`.
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
    """BERT's normalisation, with the rules (see `build_rules`) to split raw and normalised texts into words."""

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
    """Row splits, units int32 [m] (without the dropped ones) and, if given, origins [m] of code points [n]."""
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
    """Sorts each run of combining marks by class, as canonical decomposition does. Characters that the clean-up drops
    do not interrupt a run. Origins do not move with the marks: in the reference, the first unit of a decomposition,
    wherever it is sorted to, counts as a replacement of the next character of the text, and the other units as
    additions to it.
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


# -------------------------------------------------------------------------------------------------
# Cleans texts in the graph like Python's string methods in the models' training code.
#
# White space is collapsed, the text is decomposed (NFKD), combining characters are dropped, and the rest is
# lower-cased. As all combining characters are dropped, the order of marks does not matter. So everything
# except Greek's final sigma is a table from code points to code points.
#
# Source: google-research/albert tokenization.py, `preprocess_text`, run by Python 3.11 (Unicode 14).
# -------------------------------------------------------------------------------------------------

_UNCHANGED = -1
_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "Σσς"


class TextCleaner:
    """Prepares texts; each option is one step, in this order.

    Args:
        rewrite_quotes: turn `` and '' into ", as Hugging Face's tokenizer does, unlike Google's code.
        remove_space: turn each run of Python's white space into one space, and strip both ends.
        keep_accents: False decomposes (NFKD) and drops combining characters.
        lowercase: lower-case, with the final sigma of Greek words.
        spaces: characters to turn into spaces.
        hugging_face_rules: as in Hugging Face's library, white space is Unicode's, without U+001C to
            U+001F; with accents, drop all marks instead of only those with a combining class; lower-case
            each character by itself.
        compose: first compose letters and accents (NFC), turn tabs, line ends and runs of white space
            into spaces, and drop white space at the end, as transformers 5 does for DeBERTa 2 and 3.
    """

    def __init__(
        self,
        *,
        keep_accents: bool,
        lowercase: bool,
        rewrite_quotes: bool = False,
        remove_space: bool = False,
        spaces: str = "",
        hugging_face_rules: bool = False,
        compose: bool = False,
    ):
        self._compose = compose
        self._final_sigma = not hugging_face_rules
        self._rewrite_quotes = rewrite_quotes
        self._remove_space = remove_space
        self._white_space = UNICODE_SPACE if hugging_face_rules else "python/whitespace"
        self._lowercase = lowercase
        self._spaces = spaces
        self._changes_characters = lowercase or not keep_accents
        self._table = CharacterTable(
            replacements(
                keep_accents=keep_accents, lowercase=lowercase, all_marks=hugging_face_rules
            )
        )
        # Texts of printable ASCII with single spaces need at most lower-casing.
        self._plain = "(?:[!-~]+(?: [!-~]+)*)?" if remove_space else "[ -~]*"
        if compose:  # which drops blanks at the end
            self._plain = "(?:[ -~]*[!-~])?"

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns prepared texts, string [batch]; bytes that are not UTF-8 become U+FFFD."""
        if self._rewrite_quotes:
            texts = tf.strings.regex_replace(texts, "``|''", '"')
        if self._remove_space:
            texts = tf.strings.strip(texts)  # enough for most texts that are not plain
        plain = tf.strings.regex_full_match(texts, self._plain)
        texts = _map_where(~plain, self._prepare_unicode, texts)
        return tf.strings.lower(texts) if self._lowercase else texts

    def _prepare_unicode(self, texts: tf.Tensor) -> tf.Tensor:
        texts = as_utf8(texts)
        if self._compose:
            texts = compose_as_reference(_with_spaces(texts))
        if self._remove_space:
            white_space = f"[{re2_class(self._white_space)}]+"
            texts = tf.strings.strip(tf.strings.regex_replace(texts, white_space, " "))
        if self._changes_characters:
            texts = self._table(texts)[0]
        if self._spaces:
            texts = tf.strings.regex_replace(texts, f"[{self._spaces}]", " ")
        if self._lowercase and self._final_sigma:
            has_sigma = tf.strings.regex_full_match(texts, f"(?s).*{_SIGMA}.*")
            texts = _map_where(has_sigma, _lower_sigma, texts)
        return texts

    def origins(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The original position of each character of the prepared texts, int32 [batch, (n)]. It follows from the number
        of characters that each one becomes, as their order never changes.
        """
        if self._compose:
            source = as_utf8(texts)
            composed = compose_as_reference(_with_spaces(source))
            places, row_splits = origins(composed, source)
            found = self._origins(composed)
            shifts = tf.gather(row_splits, found.value_rowids())
            of_texts = tf.gather(places, tf.cast(found.values, tf.int64) + shifts)
            return found.with_values(tf.cast(of_texts, tf.int32))
        return self._origins(texts)

    def _origins(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        codes = characters.values
        lengths = tf.ones_like(codes)
        if self._changes_characters:
            lengths = tf.cast(self._table.written(codes).row_lengths(), tf.int32)
        if self._rewrite_quotes:
            lengths = tf.where(_begins_quotes(characters), 0, lengths)
        if self._remove_space:
            lengths = tf.where(_is_extra_space(characters, self._white_space), 0, lengths)
        positions = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).values
        lengths = tf.cast(lengths, tf.int64)
        origins = tf.RaggedTensor.from_row_lengths(
            tf.repeat(positions, lengths), lengths, validate=False
        )
        return joined_rows(origins, characters)


class CharacterTable:
    """Replaces single characters; `written` maps code points to those that replace them."""

    def __init__(self, written: Mapping[int, Sequence[int]]):
        numbers = np.zeros(0x110000, np.int32)
        rows = {(_UNCHANGED,): 0}
        for code, codes in written.items():
            numbers[code] = rows.setdefault(tuple(codes), len(rows))
        self._pages, self._rows = map(tf.constant, paged(numbers))
        flat = np.array([code for row in rows for code in row], np.int32)
        self._written = tf.RaggedTensor.from_row_lengths(flat, [*map(len, rows)])

    def written(self, codes: tf.Tensor) -> tf.RaggedTensor:
        """Returns the replacements of code points [n], int32 [n, (code points)]."""
        written = tf.gather(self._written, look_up(codes, self._pages, self._rows))
        kept = tf.gather(codes, written.value_rowids())
        return written.with_values(tf.where(written.values == _UNCHANGED, kept, written.values))

    def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor]:
        """Returns the new texts [batch], and the original position of each character, int32 [batch, (n)]."""
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        written = self.written(characters.values)
        places = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).values
        origins = written.with_values(tf.gather(places, written.value_rowids()))
        written, origins = (joined_rows(each, characters) for each in (written, origins))
        return tf.strings.unicode_encode(written, "UTF-8"), origins


@functools.cache
def replacements(
    *, keep_accents: bool, lowercase: bool, all_marks: bool = False
) -> dict[int, tuple[int, ...]]:
    """The replacements of all code points that change. Python's Unicode data are used only for code points that Unicode
    14 changes. By Unicode's policy their replacements are stable, so the table does not depend on the version of
    Python.
    """
    found = {}
    starters = {chr(code) for code in code_points("python/starter_marks")} if all_marks else set()
    for code in sorted({*code_points("python/changed"), *map(ord, starters)}):
        text = chr(code)
        if not keep_accents:
            decomposed = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in decomposed if not (unicodedata.combining(c) or c in starters))
        if lowercase:  # a sigma depends on its context
            waits = "" if all_marks else _SIGMA
            text = "".join(char if char == waits else char.lower() for char in text)
        if text != chr(code):
            found[code] = tuple(map(ord, text))
    return found


def _lower_sigma(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases the capital sigmas of texts whose other characters are lower-case already. A sigma is final after a
    cased letter and not before one. Characters of the class "case-ignorable" between them are skipped; a character
    of both classes counts as case-ignorable.
    """
    cased = re2_class("python/cased")
    ignorable = re2_class("python/case_ignorable")
    texts = tf.strings.regex_replace(
        texts,
        f"([{cased}][{ignorable}]*){_SIGMA}([{ignorable}]*(?:[^{cased}{ignorable}]|$))",
        rf"\1{_FINAL_SIGMA}\2",
    )
    return tf.strings.regex_replace(texts, _SIGMA, _SMALL_SIGMA)


def _with_spaces(texts: tf.Tensor) -> tf.Tensor:
    """Replaces tabs, line ends, and each character of a run of white space by spaces; drops those at the end."""
    texts = tf.strings.regex_replace(texts, f"[{re2_class(UNICODE_SPACE)}]+$", "")
    characters = tf.strings.unicode_decode(texts, "UTF-8")
    codes, row = characters.values, characters.value_rowids()
    is_space = is_white_space(codes, UNICODE_SPACE)
    in_run = [is_space & _shifted(is_space, by) & (_shifted(row, by) == row) for by in (1, -1)]
    ends_line = tf.reduce_any(codes[:, None] == [*map(ord, "\n\r\t")], axis=1)
    codes = tf.where(in_run[0] | in_run[1] | ends_line, ord(" "), codes)
    return tf.strings.unicode_encode(characters.with_values(codes), "UTF-8")


def _begins_quotes(characters: tf.RaggedTensor) -> tf.Tensor:
    """Returns which of the code points [batch, (n)] are the first half of `` or '', bool [all]."""
    codes, row = characters.values, characters.value_rowids()
    is_mark = (codes == ord("`")) | (codes == ord("'"))
    is_continued = (_shifted(codes, 1) == codes) & (_shifted(row, 1) == row)
    starts_run = (_shifted(codes, -1) != codes) | (_shifted(row, -1) != row)
    run_starts = tf.where(starts_run)[:, 0]
    run = tf.cumsum(tf.cast(starts_run, tf.int32)) - 1
    place = tf.range(tf.size(codes, tf.int64)) - tf.gather(run_starts, run)
    return is_mark & is_continued & (place % 2 == 0)


def _is_extra_space(characters: tf.RaggedTensor, table: str) -> tf.Tensor:
    """Which code points [batch, (n)] are white space to remove, bool [all]: all at both ends of a row, and all but the
    last character of runs inside it.
    """
    codes, row = characters.values, characters.value_rowids()
    is_space = is_white_space(codes, table)
    words_before = sums_before(tf.cast(~is_space, tf.int32), characters.row_splits)
    is_followed = (_shifted(row, 1) == row) & ~_shifted(is_space, 1)
    return is_space & ((words_before == 0) | ~is_followed)


def _shifted(values: tf.Tensor, by: int) -> tf.Tensor:
    """Returns the value after (1) or before (-1) each of [n] values; at the end, -1 or True."""
    end = tf.cast([-1], values.dtype)
    after = tf.concat([values, end], 0)[1:]
    return after if by == 1 else tf.concat([end, values], 0)[:-1]


def _map_where(
    mask: tf.Tensor, function: Callable[[tf.Tensor], tf.Tensor], texts: tf.Tensor
) -> tf.Tensor:
    """Applies a function to the texts that the mask selects, if there are any."""

    def mapped() -> tf.Tensor:
        selected = tf.where(mask)
        return tf.tensor_scatter_nd_update(texts, selected, function(tf.gather_nd(texts, selected)))

    return tf.cond(tf.reduce_any(mask), mapped, lambda: texts)
