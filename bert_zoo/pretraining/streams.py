"""Text for language models: files as streams of ids, and streams as segments.

Source: Dai et al. 2019, "Transformer-XL"; kimiyoung/transformer-xl pytorch/data_utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bert_zoo.data.by_number import BatchesByNumber
from bert_zoo.data.files import require_file
from bert_zoo.fields import check
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.pretraining.batches import StreamBatches
from bert_zoo.pretraining.tokens import TokenizedText, ids_of
from bert_zoo.text.word_level import WordLevelTokenizer

# The least bytes of a piece, so that the cost per call does not matter.
_BLOCK_BYTES = 1 << 20
NEWLINE_BYTE = b"\n"
# The error of a tokenizer in a graph. Without one it is a ValueError with the same message.
MISFIT = tf.errors.InvalidArgumentError if has_tensorflow else ()


class FileStream:
    """Text files as one stream: pieces of bytes, each a document of one sentence.

    With words and an `eos_at` other than "never", each line ends in <eos>, including blank lines and a last
    line without newline. These are the ids of the original's `encode_file(add_eos=True)`. With a
    `space_token`, white space at both ends of the file is dropped, as in the original's prep_text8.py. Each file is
    held in memory while it is read.
    """

    def __init__(self, paths: Sequence[str | Path], tokenizer: WordLevelTokenizer):
        if not isinstance(tokenizer, WordLevelTokenizer):
            raise ValueError(
                f"A {type(tokenizer).__name__} reads documents. Only language models of words, characters or "
                "bytes read whole files as one stream. Leave --form stream out."
            )
        self.paths, self.tokenizer = paths, tokenizer

    def __iter__(self) -> Iterator[list[bytes]]:
        options = {
            "whole_lines": self.tokenizer.eos_at != "never",
            "strip": self.tokenizer.get_config()["space_token"] is not None,
        }
        for path in self.paths:
            for piece in pieces_of(path, self.tokenizer.unit, **options):
                yield [piece]


class StreamPart:
    """The tokens `first` up to, but not including, `end` of a tokenized text, as one stream of ids."""

    def __init__(self, text: TokenizedText, first: int, end: int):
        self.text, self.first, self.end = text, first, end
        self.summary = text.summary

    def stream(self) -> np.ndarray:
        return self.text.stream()[self.first : self.end]

    def part(self, number: int, seeds: Sequence[int] = ()) -> StreamPart:
        return self

    @property
    def counts(self) -> np.ndarray:
        """How often each token occurs, int64 [vocab_size]."""
        return np.bincount(self.stream(), minlength=len(self.text.counts))


def encode_file(path: str | Path, tokenizer: WordLevelTokenizer) -> np.ndarray:
    """Reads a text file as one stream of ids for a language model.

    If the tokenizer's `eos_at` is not "never", each line ends in `<eos>`, including blank lines and a last
    line without newline. With a `space_token`, white space at both ends of the file is dropped.

    Args:
        path: a text file, in UTF-8 unless the tokenizer reads bytes.
        tokenizer: a `bert_zoo.text.WordLevelTokenizer`.

    Returns:
        int32 [tokens].

    Raises:
        FileNotFoundError: no such file.
        ValueError: another kind of tokenizer, an empty file, bytes that are not UTF-8 (names the line), or
            a token that the vocabulary lacks if the tokenizer has no unknown token.

    Source: Dai et al. 2019; kimiyoung/transformer-xl pytorch/utils/vocabulary.py, encode_file.
    """
    try:
        pieces = FileStream([path], tokenizer)
        return np.concatenate([np.concatenate(ids_of(tokenizer, piece)) for piece in pieces])
    except MISFIT as error:
        raise misfit(path, error) from error


def misfit(what: object, error: tf.errors.InvalidArgumentError) -> ValueError:
    """The error for a token that a `WordLevelTokenizer` without an unknown token lacks."""
    problem = error.message.partition("assertion failed: ")[2].partition("\n")[0]
    return ValueError(f"{what} does not fit the tokenizer: {problem or error}")


def pieces_of(
    path: str | Path, unit: str, *, whole_lines: bool = False, strip: bool = False
) -> Iterator[bytes]:
    """Yields a file in pieces that can be tokenized independently, in UTF-8 unless the unit is "byte".

    The file is cut after newlines and, unless `whole_lines`, after blanks. A last line of words without
    newline gets one. `strip` drops white space at both ends of the file.
    """
    path = require_file(Path(path), advice="Pass the path of a text file.")
    content = path.read_bytes()
    if not content:
        raise ValueError(f"{path} is empty. Pass a file with text.")
    if unit != "byte":
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {content.count(NEWLINE_BYTE, 0, error.start) + 1}: this is not UTF-8 "
                f"({error.reason}, byte 0x{content[error.start]:02x}). Convert the file to UTF-8, or read "
                "it with unit='byte'."
            ) from error
        if strip and not (content := text.strip().encode("utf-8")):
            raise ValueError(f"{path} has only white space. Pass a file with text.")
    if whole_lines and unit == "word" and not content.endswith(NEWLINE_BYTE):
        content += NEWLINE_BYTE
    # Characters are also cut at blanks: the lower case of a Greek sigma depends on its word.
    ends = re.compile(rb"\n" if whole_lines else rb"[\n ]" if unit != "byte" else rb"(?s:.)")
    start = 0
    while start < len(content):
        # The next end, or all the rest.
        found = ends.search(content, start + _BLOCK_BYTES - 1)
        end = found.end() if found else len(content)
        yield content[start:end]
        start = end


def segments(
    token_ids: np.ndarray, batch_size: int, segment_length: int, *, first_step: int = 0
) -> tf.data.Dataset | BatchesByNumber:
    """Divides a stream into batches of segments, for `fit` and `evaluate` of a model with a memory.

    The stream becomes `batch_size` contiguous rows. Row r of each batch continues where row r of the
    previous batch ended. Every token except the stream's first is a label exactly once. Rows are padded
    with token id 0 and label -100.

    Args:
        token_ids: integers [tokens], at least two.
        batch_size: number of rows.
        segment_length: tokens of a row in one batch.
        first_step: number of batches to skip at the start, to resume an interrupted pass.

    Returns:
        A tf.data.Dataset (without TensorFlow, a sequence) of dicts of int32: `token_ids` and `labels`
        [batch_size, segment_length]; `starts_stream` [batch_size], 1 in the first batch of the pass, where
        the memory is reset, else 0.

    Raises:
        ValueError: an option outside its range, or a stream that is too short for a batch.

    Source: Dai et al. 2019; kimiyoung/transformer-xl pytorch/data_utils.py. `StreamBatches` describes the
    differences.
    """
    whole = StreamBatches(token_ids, batch_size, segment_length)
    check(
        "first_step", first_step, int, least=0, most=whole.per_epoch, note="the number of batches"
    )
    return whole.dataset(first_step, whole.per_epoch)
