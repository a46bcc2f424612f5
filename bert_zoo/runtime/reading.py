"""From texts to rows of ids, in NumPy: what `bert_zoo.text` does in TensorFlow's graph."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_zoo.config import ConfigError
from bert_zoo.error_text import check_has_utf8, shortened
from bert_zoo.json_files import JsonObject
from bert_zoo.runtime.description import layout_of, split_tokens_of
from bert_zoo.runtime.files import DESCRIPTION_FILE, TOKENIZER_FILE

log = logging.getLogger("bert_zoo")

Arrays = dict[str, np.ndarray]


class Tokens(NamedTuple):
    """The tokens of a text."""

    ids: list[int]
    offsets: list[tuple[int, int]]  # the characters of each, the end exclusive


class Row(NamedTuple):
    """Ids of one text or two with special tokens, not padded."""

    token_ids: np.ndarray  # [tokens]
    segment_ids: np.ndarray  # [tokens]
    # Of each text, where its first token stands and how many there are.
    places: list[tuple[int, int]]

    def of_text(self, values: np.ndarray) -> np.ndarray:
        """What the tokens of the first text have of values [tokens, ...]."""
        start, length = self.places[0]
        return values[start : start + length]


class Reader:
    """A tokenizer in Rust, and what composes rows.

    Args:
        directory: of the export.
        text: what its description, which is checked, says of texts.
    """

    def __init__(self, directory: Path, text: JsonObject):
        from tokenizers import pre_tokenizers

        self._path = directory / TOKENIZER_FILE
        self._tokenizer = _read_tokenizer(self._path)
        self._word_tokenizer = self._tokenizer
        if text.get("blank_before_words"):
            self._word_tokenizer = _with_blank_before(_read_tokenizer(self._path), self._path)
        self.layout = layout_of(text)
        self.sequence_length = text["sequence_length"]
        self._truncation = text["truncation"]
        self._bucket = text["bucket"]
        self._ids = text["ids"]
        self._split_tokens = split_tokens_of(text)
        # Exports of bert_zoo 0.1.0 do not say it.
        self._vocabulary_size = text.get("vocabulary_size")
        self._has_blanks = isinstance(self._tokenizer.pre_tokenizer, pre_tokenizers.Metaspace)
        self._has_warned = False

    def tokenized(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of texts, without special ones."""
        encoded = self._encoded(self._tokenizer, texts)
        return [self._tokens(*pair) for pair in zip(texts, encoded, strict=True)]

    def words(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word by itself; a word that gives none becomes the unknown token."""
        encoded = self._encoded(self._word_tokenizer, words)
        tokens = (self._tokens(*pair) for pair in zip(words, encoded, strict=True))
        return [of_word.ids or [self._ids["unk"]] for of_word in tokens]

    def _encoded(self, tokenizer, texts: Sequence[str]):
        for text in texts:
            check_has_utf8(text)
        try:
            return tokenizer.encode_batch([*texts], add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{self._path} cannot read texts: {shortened(str(error))}.") from error

    def _tokens(self, text: str, encoding) -> Tokens:
        ids, offsets = encoding.ids, encoding.offsets
        if self._has_blanks:
            offsets = [_without_blanks(text, *span) for span in offsets]
        if self._split_tokens.keys().isdisjoint(ids):
            return Tokens(ids, offsets)
        parts = [self._split_tokens.get(token, [token]) for token in ids]
        spread = [span for part, span in zip(parts, offsets, strict=True) for _ in part]
        return Tokens([token for part in parts for token in part], spread)

    def kept(self, lengths: Sequence[int]) -> list[int]:
        """How many tokens of a text, or of a pair's two, a row takes."""
        budget = self.sequence_length - self.layout.specials(len(lengths))
        if sum(lengths) <= budget:
            return [*lengths]
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "A text of %d tokens is cut to the %d that a row has beside special ones. This is "
                "said once.",
                sum(lengths),
                budget,
            )
        if len(lengths) == 1:
            return [budget]
        first, second = lengths
        if self._truncation == "longest_first":
            shorter = min(first, second, budget // 2)
            longer = min(max(first, second), budget - shorter)
            return [shorter, longer] if second >= first else [longer, shorter]
        whole = first if self._truncation == "only_second" else second
        if whole > budget:
            raise ValueError(
                f"The text that truncation leaves whole has {whole} tokens, and a row has room for "
                f"{budget}. Shorten the text."
            )
        rest = budget - whole
        return [whole, rest] if self._truncation == "only_second" else [rest, whole]

    def row(self, *segments: Sequence[int]) -> Row:
        """A row of one text's ids or two, which fit into it."""
        ids, segment_ids, places = [], [], []
        texts = iter(segments)
        for part in self.layout.parts(len(segments)):
            tokens = next(texts) if part.is_text else [self._ids[part.name]]
            if part.is_text:
                places.append((len(ids), len(tokens)))
            ids += tokens
            segment_ids += [part.segment] * len(tokens)
        return Row(np.int32(ids), np.int32(segment_ids), places)

    def cut_rows(self, *texts: Sequence[str]) -> list[Row]:
        """Rows of texts, or of pairs, cut where they are too long."""
        rows = []
        for of_row in zip(*map(self.tokenized, texts), strict=True):
            kept = self.kept([len(tokens.ids) for tokens in of_row])
            rows.append(self.row(*(t.ids[:number] for t, number in zip(of_row, kept, strict=True))))
        return rows

    def padded(self, rows: Sequence[Row]) -> Arrays:
        """Rows as int32 [rows, length]: `token_ids`, `segment_ids`, `padding_mask`."""
        longest = max(len(row.token_ids) for row in rows)
        width = min(-(-longest // self._bucket) * self._bucket, self.sequence_length)
        shape = (len(rows), width)
        arrays = {
            "token_ids": np.full(shape, self._ids["pad"], np.int32),
            "segment_ids": np.full(shape, self.layout.padding_segment, np.int32),
            "padding_mask": np.zeros(shape, np.int32),
        }
        for number, row in enumerate(rows):
            at = self.inside(row, width)
            arrays["token_ids"][number, at] = row.token_ids
            arrays["segment_ids"][number, at] = row.segment_ids
            arrays["padding_mask"][number, at] = 1
        highest = int(arrays["token_ids"].max())
        if self._vocabulary_size is not None and highest >= self._vocabulary_size:
            raise ValueError(
                f"{self._path} gave the id {highest}, and the model has {self._vocabulary_size} tokens: "
                "the file is not of this export. Export the model again."
            )
        return arrays

    def inside(self, row: Row, width: int) -> slice:
        """Where a row's tokens stand in a batch of this width."""
        length = len(row.token_ids)
        start = width - length if self.layout.padding_side == "left" else 0
        return slice(start, start + length)


def _read_tokenizer(path: Path):
    """A tokenizer in Rust, which neither cuts nor pads.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: the library cannot read it.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing; bert_zoo.export writes it. Copy all its files."
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(
            f"{path} is no tokenizer that Hugging Face's library reads: {shortened(str(error))}. Export the model again."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _with_blank_before(tokenizer, path: Path):
    """The tokenizer, to which every text begins with a blank."""
    splitting = tokenizer.pre_tokenizer
    if not hasattr(splitting, "add_prefix_space"):
        raise ConfigError(
            f"{path}: its pre-tokenizer puts no blank before words, which {DESCRIPTION_FILE} asks for "
            "by blank_before_words. Export the model again."
        )
    splitting.add_prefix_space = True
    tokenizer.pre_tokenizer = splitting
    return tokenizer


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """A token's characters; one of a blank alone stands for the character after it."""
    shown = text[start:end]
    first = start + len(shown) - len(shown.lstrip())
    return (min(first, len(text) - 1), min(max(end, first + 1), len(text)))
