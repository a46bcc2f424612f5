"""Cleans texts in the graph like Python's string methods in the models' training code.

White space is collapsed, the text is decomposed (NFKD), combining characters are dropped, and the rest is
lower-cased. As all combining characters are dropped, the order of marks does not matter. So everything
except Greek's final sigma is a table from code points to code points.

Source: google-research/albert tokenization.py, `preprocess_text`, run by Python 3.11 (Unicode 14).
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_zoo.graph import tf
from bert_zoo.text import composition
from bert_zoo.text.batches import as_utf8
from bert_zoo.text.composition import compose_as_reference
from bert_zoo.text.offsets import is_white_space, joined_rows, look_up, sums_before
from bert_zoo.text.unicode_tables import UNICODE_SPACE, code_points, paged, re2_class

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
        """Returns the original position of each character of the prepared texts, int32 [batch, (n)].

        It follows from the number of characters that each one becomes, as their order never changes.
        """
        if self._compose:
            source = as_utf8(texts)
            composed = compose_as_reference(_with_spaces(source))
            places, row_splits = composition.origins(composed, source)
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
    """Replaces single characters.

    Args:
        written: code point -> code points that replace it.
    """

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
    """Returns the replacements of all code points that change.

    Python's Unicode data are used only for code points that Unicode 14 changes. By Unicode's policy their
    replacements are stable, so the table does not depend on the version of Python.
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
    """Lower-cases the capital sigmas of texts whose other characters are lower-case already.

    A sigma is final after a cased letter and not before one. Characters of the class "case-ignorable"
    between them are skipped; a character of both classes counts as case-ignorable.
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
    """Returns which code points [batch, (n)] are white space to remove, bool [all].

    This is all white space at both ends of a row, and all but the last character of runs inside it.
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
