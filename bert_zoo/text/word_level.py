"""Tokenizes texts to whole words, characters or bytes, as Transformer-XL's original code does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.graph import tf
from bert_zoo.text.batches import as_utf8, lookup_table, split_at_white_space
from bert_zoo.text.files import Vocabulary, character_as_line, is_byte
from bert_zoo.text.normalizer import TextCleaner
from bert_zoo.text.numpy_packing import checked
from bert_zoo.text.tokenizer import Tokenizer

# Number of <eos> (before each line, after each line).
EOS_AT = {"never": (0, 0), "newlines": (0, 1), "line_ends": (0, 1), "line_starts_and_ends": (1, 1)}
NEWLINE = 10  # the byte that Transformer-XL's preparation of enwik8 makes a line end

# What Python's text files and str.splitlines agree on.
_LINE_END = r"\r\n|\r|\n"
# The id of a token that the vocabulary lacks, if there is no unknown token.
_NONE = -1


class WordLevelTokenizer(Tokenizer):
    """A language model's tokenizer for whole words, characters or bytes.

    Ids of words equal those of Transformer-XL's `Vocab` on every line: it splits at Python's white
    space, and lower-cases as Python does (Unicode 14, with Greek's final sigma). Bytes that are not
    UTF-8 count as U+FFFD, as in `text.decode("utf-8", "replace")`, unless bytes are the tokens. The
    spelling of any token in a text becomes that token, including `<unk>` and `<eos>`.

    Args:
        vocabulary: tokens in the order of their ids; for adaptive softmax by falling frequency.
        unit: kind of the tokens.

            * "word": words between white space. This also reads text that was prepared as tokens
              with blanks between them ("a _ b", or enwik8's "60 109").
            * "character": Unicode characters.
            * "byte": bytes, as decimal numbers, such as "60" for "<" (enwik8). Newline bytes have no
              token and are dropped, as in the original's preparation.
        lowercase: lower-case texts; not for bytes.
        unknown_token: token for words, characters or bytes outside the vocabulary. None makes them
            an error.
        eos_token: token for the end of a line; None if the vocabulary has none.
        space_token: for characters, the token of a space ("_" in text8).
        eos_at: for words, where to insert `eos_token`. A line ends at "\\n", "\\r\\n" or "\\r", as in
            Python's text files.

            * "never": line ends are ordinary white space.
            * "newlines": at each line end. A text without one, such as a prompt, has none.
            * "line_ends": after each line, including a last line without newline. An empty text is
              an empty line. The ids are those of the original's `encode_file(add_eos=True)`.
            * "line_starts_and_ends": before and after each line, as with `add_double_eos=True` (lm1b).

    Attributes:
        unk_id, eos_id: ids of these tokens, if the vocabulary has them.
        unit, eos_at: as given.

    Raises:
        ValueError: an unknown value of an option, an option that this unit does not have, a special
            token that the vocabulary lacks, or a token that cannot occur in texts of this unit.

    Without `unknown_token`, a call raises tf.errors.InvalidArgumentError for a word, character or byte
    that the vocabulary lacks, in a graph too, and names it. `detokenize` joins words by blanks, and
    writes `eos_token` as a newline and `space_token` as a space. Joined bytes need not be UTF-8.

    Source: Dai et al. 2019; kimiyoung/transformer-xl pytorch/utils/vocabulary.py, prep_text8.py.
    Unlike there, a word that contains `<eos>` and is not in the vocabulary is unknown, not an error.
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
        options = {
            "unit": unit,
            "lowercase": bool(lowercase),
            "unknown_token": unknown_token,
            "eos_token": eos_token,
            "space_token": space_token,
            "eos_at": eos_at,
        }
        checked = Vocabulary(vocabulary)
        _check_options(SimpleNamespace(**options), checked)
        super().__init__(checked, **options)
        self.unit, self.eos_at = unit, eos_at
        self._build_graph()

    def _build(self) -> None:
        options, unit = self._options, self.unit
        ids = {_key(token, unit): index for index, token in enumerate(self.vocabulary)}
        ids.pop(None, None)
        if options.space_token is not None:
            ids[ord(" ")] = self.token_to_id(options.space_token)
        keys = list(ids) if unit == "word" else np.array(list(ids), np.int64)
        values = np.array(list(ids.values()), np.int32)
        unknown = _NONE if options.unknown_token is None else self.unk_id
        self._ids = lookup_table(keys, values, default=unknown)
        lowercase = options.lowercase
        self._lower = TextCleaner(keep_accents=True, lowercase=True) if lowercase else None
        self._trace(self._ids_of)

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        units = self._split(texts)
        ids = self._ids.lookup(units.values)
        first = tf.where(ids == _NONE)[:1, 0]
        message = (
            "The vocabulary lacks a token of a text, and there is no unknown_token. Check that unit, "
            "lowercase and vocabulary fit the text, or pass an unknown_token. The token:"
        )
        named = _named(tf.gather(units.values, first), self.unit)
        return units.with_values(*checked([ids], tf.size(first) == 0, message, *named))

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The words of texts, or the numbers of their characters or bytes, int64 [batch, (n)]."""
        if self.unit == "byte":
            # Joined, since decode_raw takes several strings only if they are equally long.
            values = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8), tf.int64)
            lengths = tf.cast(tf.strings.length(texts), tf.int64)
            rows = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
            return tf.ragged.boolean_mask(rows, rows != NEWLINE)
        texts = as_utf8(texts) if self._lower is None else self._lower(texts)
        if self.unit == "character":
            return tf.cast(tf.strings.unicode_decode(texts, "UTF-8"), tf.int64)
        return split_at_white_space(self._with_eos(texts))

    def _with_eos(self, texts: tf.Tensor) -> tf.Tensor:
        """Inserts the end token into texts as a word, as `eos_at` says."""
        before, after = EOS_AT[self.eos_at]
        if not after:
            return texts
        mark = f" {self._options.eos_token} "
        rewrite = mark.replace("\\", "\\\\")
        if self.eos_at == "newlines":
            return tf.strings.regex_replace(texts, _LINE_END, rewrite)
        texts = tf.strings.regex_replace(texts, rf"(?:{_LINE_END})\z", "", replace_global=False)
        texts = tf.strings.regex_replace(texts, _LINE_END, rewrite * (after + before))
        return tf.strings.join([mark * before, texts, mark * after])

    @property
    def separator(self) -> str:
        return " " if self.unit == "word" else ""

    @property
    def joints(self) -> tuple[tuple[str, str], ...]:
        return ((" ?\n ?", "\n"),) if self.unit == "word" else ()

    def _spelling(self, token: str) -> bytes:
        options = self._options
        named = {options.eos_token: b"\n", options.space_token: b" "}
        byte = _key(token, self.unit) if self.unit == "byte" else None
        return named.get(token, token.encode()) if byte is None else bytes([byte])

    def _files(self) -> dict[str, Any]:
        # Invisible characters and line ends are written as code points, such as U+000A.
        as_line = character_as_line if self.unit == "character" else str
        return {
            "vocab.txt": "".join(f"{as_line(token)}\n" for token in self.vocabulary),
            "tokenizer_config.json": {"tokenizer_class": type(self).__name__, **self.get_config()},
        }


def _check_options(options: SimpleNamespace, vocabulary: Vocabulary) -> None:
    for name, values in (("unit", UNITS), ("eos_at", tuple(EOS_AT))):
        if getattr(options, name) not in values:
            raise ValueError(f"{name} is {shown(getattr(options, name))}; choose one of {values}.")
    unit = options.unit
    special = {n: getattr(options, n) for n in ("unknown_token", "eos_token", "space_token")}
    for name, token in special.items():
        if token is not None and token not in vocabulary:
            raise ValueError(
                f"The vocabulary of {len(vocabulary)} tokens lacks {name}={shown(token)}. It begins with "
                f"{shown(list(vocabulary.tokens[:5]))}. Pass a token that it has, or {name}=None."
            )
    if options.eos_at != "never" and (unit != "word" or options.eos_token is None):
        raise ValueError(
            f"eos_at is {shown(options.eos_at)} with unit={shown(unit)} and "
            f"eos_token={shown(options.eos_token)}. Line ends need unit='word' and an eos_token. "
            "Otherwise pass eos_at='never'."
        )
    if options.space_token is not None and unit != "character":
        raise ValueError(
            f"space_token is {shown(options.space_token)} with unit={shown(unit)}. Only "
            "unit='character' has one. Pass space_token=None."
        )
    if options.lowercase and unit == "byte":
        raise ValueError(
            "lowercase is True with unit='byte'. Bytes have no case. Pass lowercase=False."
        )
    fits, wanted = _TOKENS[unit]
    for index, token in enumerate(vocabulary.tokens):
        if not fits(token) and (unit == "word" or token not in special.values()):
            raise ValueError(
                f"vocabulary[{index}] is {shown(token)}. With unit={shown(unit)} a token must be {wanted}. "
                f"Choose another unit of {UNITS}, or mend the vocabulary."
            )


# Unit -> a check of its tokens, and their description. Vocabularies that Python 2 made, including released
# ones, may have words with white space other than ASCII's.
_TOKENS: dict[str, tuple[Callable[[str], bool], str]] = {
    "word": (
        lambda token: not any(char in " \t\n\r\v\f" for char in token),
        "characters without ASCII white space",
    ),
    "character": (lambda token: len(token) == 1, "one character, or a special token"),
    "byte": (is_byte, "a number from 0 to 255, or a special token"),
}
UNITS = tuple(_TOKENS)


def _key(token: str, unit: str) -> str | int | None:
    """The key of a token for look-up, its spelling or number; None if no text can contain it."""
    if unit == "word":
        return token
    if unit == "byte":
        return int(token) if is_byte(token) else None
    return ord(token) if len(token) == 1 else None


def _named(unit_of_text: tf.Tensor, unit: str) -> list[Any]:
    """The end of an error on a token that the vocabulary lacks, [0 or 1] as in `_split`."""
    if unit == "word":
        return [unit_of_text]
    if unit == "byte":
        return ["byte", unit_of_text]
    code = tf.cast(unit_of_text, tf.int32)
    return [tf.strings.unicode_encode(code[:, None], "UTF-8"), "code point", code]
