"""Texts as whole symbols (words, characters or bytes), as Transformer-XL's original code reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from bert_zoo.error_text import shown
from bert_zoo.text.albert_text import TextCleaner
from bert_zoo.text.byte_bpe_graph import lookup_table
from bert_zoo.text.symbol_files import character_as_line, is_byte
from bert_zoo.text.tokenizer import SPECIAL_TOKENS, Tokenizer, traced_once
from bert_zoo.text.unicode_tables import re2_class
from bert_zoo.text.vocabulary import Vocabulary

UNITS = ("word", "character", "byte")
# Where a text has <eos>, by (before each line, after each line).
EOS_AT = {
    "never": (0, 0),
    "newlines": (0, 1),
    "line_ends": (0, 1),
    "line_starts_and_ends": (1, 1),
}
NEWLINE = 10  # the byte that Transformer-XL's preparation of enwik8 makes a line end

# What Python's str.split splits at.
_WHITE_SPACE = re2_class("python/whitespace")
# What Python's text files and str.splitlines agree on.
_LINE_END = r"\r\n|\r|\n"
# The id of a symbol that the vocabulary lacks, where nothing stands for it.
_NONE = -1


class SymbolTokenizer(Tokenizer):
    """A language model's tokenizer: whole words, characters or bytes, each one id.

    Ids of words equal those of Transformer-XL's `Vocab` on every line: white space is what Python
    splits at, lower-casing Python's (Unicode 14, with Greek's final sigma). Bytes that are not
    UTF-8 count as U+FFFD, as in `text.decode("utf-8", "replace")`, except where bytes are the
    symbols. A symbol's own spelling in a text is that symbol, "<unk>" and "<eos>" too.

    Args:
        vocabulary: symbols in the order of their ids; for adaptive softmax by falling frequency.
        unit: what a symbol is.

            * "word": what stands between white space. Text that was prepared as symbols with blanks
              between them ("a _ b", or enwik8's "60 109") is read as words too.
            * "character": a Unicode character.
            * "byte": a byte, as its decimal number, "60" for "<" (enwik8). Newline bytes have no
              symbol and are dropped, as the original's preparation drops them.
        lowercase: lower-case texts; not for bytes.
        unknown_token: what a symbol outside the vocabulary becomes. None makes it an error.
        eos_token: the symbol of a line's end; None where the vocabulary has none.
        space_token: for characters, the symbol that a space becomes ("_" in text8).
        eos_at: for words, where a text has `eos_token` beside its own spelling. A line ends at "\\n",
            "\\r\\n" or "\\r", as in Python's text files.

            * "never": line ends are white space like any other.
            * "newlines": each line end is one; a text without one, for example a prompt, stays open.
            * "line_ends": after each line, also the last one where no newline ends it; an empty text
              is an empty line. One line or a whole file, these are the ids of the original's
              `encode_file(add_eos=True)`.
            * "line_starts_and_ends": before and after each line, as `add_double_eos=True` (lm1b).

    Attributes:
        unk_id, eos_id: where the vocabulary has such a token.

    Raises:
        ValueError: an option outside its values or not of this unit, a special token that the
            vocabulary lacks, or a symbol that no text of this unit can hold.

    Calling it raises tf.errors.InvalidArgumentError, in a graph too, for a symbol outside the
    vocabulary if there is no `unknown_token`; the message names the symbol.

    Source: Dai et al. 2019; kimiyoung/transformer-xl pytorch/utils/vocabulary.py, prep_text8.py.
    Unlike there, a word that holds "<eos>" and is not in the vocabulary is unknown, not an error.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        unit: str = "word",
        lowercase: bool = False,
        unknown_token: str | None = "<unk>",
        eos_token: str | None = "<eos>",
        space_token: str | None = None,
        eos_at: str = "never",
    ):
        # A plain object, so that tf.Module does not track what is inside it.
        options = SimpleNamespace(
            unit=unit,
            lowercase=bool(lowercase),
            unknown_token=unknown_token,
            eos_token=eos_token,
            space_token=space_token,
            eos_at=eos_at,
        )
        checked = Vocabulary(vocabulary)
        _check_options(options, checked)
        special = {name: token for name, token in vars(options).items() if name in SPECIAL_TOKENS}
        special = {name: token for name, token in special.items() if token is not None}
        super().__init__("symbol_tokenizer", checked, special)
        self._options = options
        with tf.init_scope(), tf.device("CPU:0"):
            self._engine = _ENGINES[unit](self._vocabulary, options)
        # One traced function: fast outside tf.data too, and part of a SavedModel.
        texts = tf.TensorSpec([None], tf.string, name="texts")
        self._tokenize = traced_once(self._engine.tokenize, texts)

    @property
    def unit(self) -> str:
        """What a symbol is: "word", "character" or "byte"."""
        return self._options.unit

    @property
    def eos_at(self) -> str:
        """Where a text has the end token beside its own spelling."""
        return self._options.eos_at

    def detokenize(self, token_ids: Any) -> tf.Tensor:
        """Joins symbols to text: words by blanks, `eos_token` as a newline, `space_token` as a space.

        Args:
            token_ids: integers [batch, length] or [batch, (tokens)].

        Returns:
            string [batch]; of bytes as they are, which need not be UTF-8.

        Raises:
            ValueError: a shape other than those.
            tf.errors.InvalidArgumentError: an id outside the vocabulary.
        """
        return super().detokenize(token_ids)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return self._engine.join(ids)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's keyword arguments, ready for JSON."""
        return dict(vars(self._options))

    def _files(self) -> dict[str, Any]:
        # Characters that cannot be seen or that end a line are written as code points, as U+000A.
        as_line = character_as_line if self.unit == "character" else str
        return {
            "vocab.txt": "".join(f"{as_line(symbol)}\n" for symbol in self.vocabulary),
            "tokenizer_config.json": {"tokenizer_class": type(self).__name__, **self.get_config()},
        }


# ---------------------------------------------------------------------------------------------
# Checking
# ---------------------------------------------------------------------------------------------


def _check_options(options: SimpleNamespace, vocabulary: Vocabulary) -> None:
    for name, values in (("unit", UNITS), ("eos_at", tuple(EOS_AT))):
        if getattr(options, name) not in values:
            raise ValueError(f"{name} is {shown(getattr(options, name))}; choose one of {values}.")
    for name in ("unknown_token", "eos_token", "space_token"):
        token = getattr(options, name)
        if token is not None and token not in vocabulary:
            raise ValueError(
                f"The vocabulary of {len(vocabulary)} symbols lacks {name}={shown(token)}; it begins with "
                f"{shown(list(vocabulary.tokens[:5]))}. Name the one that it has, or pass {name}=None."
            )
    if options.eos_at != "never" and (options.unit != "word" or options.eos_token is None):
        raise ValueError(
            f"eos_at is {shown(options.eos_at)} with unit={shown(options.unit)} and "
            f"eos_token={shown(options.eos_token)}. Only words with an eos_token have it at line ends; "
            "pass eos_at='never'."
        )
    if options.space_token is not None and options.unit != "character":
        raise ValueError(
            f"space_token is {shown(options.space_token)} with unit={shown(options.unit)}; only characters have "
            "one. Pass space_token=None."
        )
    if options.lowercase and options.unit == "byte":
        raise ValueError("lowercase=True is not for bytes: they are read as they are.")
    special = {options.unknown_token, options.eos_token, options.space_token}
    fits, wanted = _SYMBOLS[options.unit]
    for index, symbol in enumerate(vocabulary.tokens):
        if not fits(symbol) and (options.unit == "word" or symbol not in special):
            raise ValueError(
                f"vocabulary[{index}] is {shown(symbol)}. With unit={shown(options.unit)} a symbol is {wanted}; "
                f"no text could hold this one. Choose another unit of {UNITS}, or mend the vocabulary."
            )


def _is_word(symbol: str) -> bool:
    # Vocabularies that Python 2 made, among them released ones, may have white space beyond ASCII's.
    return not any(char in " \t\n\r\v\f" for char in symbol)


def _is_character(symbol: str) -> bool:
    return len(symbol) == 1


_SYMBOLS: dict[str, tuple[Callable[[str], bool], str]] = {
    "word": (_is_word, "characters without ASCII white space"),
    "character": (_is_character, "one character, or a special token"),
    "byte": (is_byte, "a number from 0 to 255, or a special token"),
}


# ---------------------------------------------------------------------------------------------
# The constants and the graph of each unit
# ---------------------------------------------------------------------------------------------


class _Words(tf.Module):
    def __init__(self, vocabulary: Vocabulary, options: SimpleNamespace):
        super().__init__(name="words")
        self._unicode = _UnicodeTexts(options)
        self._eos_at, self._eos_token = options.eos_at, options.eos_token
        unknown = _unknown_id(vocabulary, options)
        ids = np.arange(len(vocabulary), dtype=np.int32)
        self._ids = lookup_table(list(vocabulary.tokens), ids, default=unknown)
        self._spellings = _spellings(vocabulary, {options.eos_token: "\n"})

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes string [batch] to int32 [batch, (tokens)]."""
        texts = self._with_eos(self._unicode(texts))
        # tf.strings.split knows ASCII's white space only, and not all of it.
        texts = tf.strings.regex_replace(texts, f"[{_WHITE_SPACE}]", " ")
        words = tf.strings.split(texts)
        ids = _none_unknown(
            self._ids.lookup(words.values), lambda first: [tf.gather(words.values, first)]
        )
        return words.with_values(ids)

    def _with_eos(self, texts: tf.Tensor) -> tf.Tensor:
        """Writes the end token into texts as a word, where `eos_at` has it."""
        before, after = EOS_AT[self._eos_at]
        if not after:
            return texts
        mark = f" {self._eos_token} "
        if self._eos_at == "newlines":
            return tf.strings.regex_replace(texts, _LINE_END, _rewrite(mark))
        texts = tf.strings.regex_replace(texts, rf"(?:{_LINE_END})\z", "", replace_global=False)
        between = _rewrite(mark * (after + before))
        texts = tf.strings.regex_replace(texts, _LINE_END, between)
        return tf.strings.join([mark * before, texts, mark * after])

    def join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the symbols of int32 [batch, (tokens)] to string [batch]."""
        joined = tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1, separator=" ")
        return tf.strings.regex_replace(joined, " ?\n ?", "\n")


class _Characters(tf.Module):
    def __init__(self, vocabulary: Vocabulary, options: SimpleNamespace):
        super().__init__(name="characters")
        self._unicode = _UnicodeTexts(options)
        codes = {ord(s): i for i, s in enumerate(vocabulary.tokens) if len(s) == 1}
        if options.space_token is not None:
            codes[ord(" ")] = vocabulary.id_of(options.space_token)
        # The last row is for every character beyond it.
        ids = np.full(max(codes, default=0) + 2, _unknown_id(vocabulary, options), np.int32)
        ids[list(codes)] = list(codes.values())
        self._ids = tf.constant(ids)
        self._spellings = _spellings(
            vocabulary, {options.eos_token: "\n", options.space_token: " "}
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes string [batch] to int32 [batch, (tokens)]."""
        characters = tf.strings.unicode_decode(self._unicode(texts), "UTF-8", errors="replace")
        codes = characters.values

        def named(first: tf.Tensor) -> list[Any]:
            code = tf.gather(codes, first)
            return [tf.strings.unicode_encode(code[:, None], "UTF-8"), "code point", code]

        ids = tf.gather(self._ids, tf.minimum(codes, tf.size(self._ids) - 1))
        return characters.with_values(_none_unknown(ids, named))

    def join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the symbols of int32 [batch, (tokens)] to string [batch]."""
        return tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1)


class _Bytes(tf.Module):
    def __init__(self, vocabulary: Vocabulary, options: SimpleNamespace):
        super().__init__(name="bytes")
        values = {int(s): i for i, s in enumerate(vocabulary.tokens) if is_byte(s)}
        ids = np.full(256, _unknown_id(vocabulary, options), np.int32)
        ids[list(values)] = list(values.values())
        self._ids = tf.constant(ids)
        spelled = {str(value): bytes([value]) for value in values}
        self._spellings = _spellings(vocabulary, {**spelled, options.eos_token: "\n"})

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes string [batch] to int32 [batch, (tokens)]."""
        # Joined, since decode_raw takes several strings only if they are equally long.
        values = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int32)
        lengths = tf.cast(tf.strings.length(texts), tf.int64)
        kept = values != NEWLINE
        kept_before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
        row_splits = tf.gather(kept_before, tf.concat([[0], tf.cumsum(lengths)], 0))
        values = tf.boolean_mask(values, kept)
        ids = _none_unknown(
            tf.gather(self._ids, values), lambda first: ["byte", tf.gather(values, first)]
        )
        return tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False)

    def join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the symbols of int32 [batch, (tokens)] to string [batch]."""
        return tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1)


_ENGINES = {"word": _Words, "character": _Characters, "byte": _Bytes}


class _UnicodeTexts:
    """Makes texts UTF-8 and, on request, lower case."""

    def __init__(self, options: SimpleNamespace):
        self._lower = None
        if options.lowercase:
            self._lower = TextCleaner(
                rewrite_quotes=False,
                remove_space=False,
                keep_accents=True,
                lowercase=True,
                next_line_is_space=False,
            )

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns string [batch], in which bytes that are not UTF-8 became U+FFFD."""
        if self._lower is not None:
            return self._lower(texts)
        plain = tf.strings.regex_full_match(texts, r"[\x00-\x7f]*")
        return tf.cond(
            tf.reduce_all(plain),
            lambda: texts,
            lambda: tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace"),
        )


def _unknown_id(vocabulary: Vocabulary, options: SimpleNamespace) -> int:
    return _NONE if options.unknown_token is None else vocabulary.id_of(options.unknown_token)


def _spellings(vocabulary: Vocabulary, others: dict[str | None, str | bytes]) -> tf.Tensor:
    """What detokenize writes for each id: the symbol, or what `others` has for it."""
    return tf.constant([others.get(symbol, symbol) for symbol in vocabulary.tokens])


def _rewrite(text: str) -> str:
    """Writes a text as RE2's replacement."""
    return text.replace("\\", "\\\\")


def _none_unknown(ids: tf.Tensor, named: Callable[[tf.Tensor], list[Any]]) -> tf.Tensor:
    """Returns the ids [n]; an error, with what `named` has for the first such index, for _NONE."""
    first = tf.where(ids == _NONE)[:1, 0]
    message = (
        "The vocabulary lacks a symbol of a text and has no unknown_token for it. Check that unit, "
        "lowercase and vocabulary fit the text, or name an unknown_token. The symbol:"
    )
    known = tf.debugging.Assert(tf.size(first) == 0, [message, *named(first)])
    with tf.control_dependencies([known]):
        return tf.identity(ids)
