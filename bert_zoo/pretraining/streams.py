"""Text for language models: files as streams of ids, and streams as segments.

Source: Dai et al. 2019, "Transformer-XL"; kimiyoung/transformer-xl pytorch/data_utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.data.by_number import BatchesByNumber
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.pretraining.tokens import TokenizedText, ids_of
from bert_zoo.text.word_level import WordLevelTokenizer

# Bytes of a piece at least: enough that what each call costs does not count.
_BLOCK_BYTES = 1 << 20
NEWLINE_BYTE = b"\n"
# What a tokenizer raises in a graph; without one it is a ValueError that says the same.
MISFIT = tf.errors.InvalidArgumentError if has_tensorflow else ()

# --- Files as ids ---


class FileStream:
    """Text files as one stream: pieces of bytes, each a document of one sentence.

    With words and an `eos_at` other than "never", each line ends in <eos>, blank ones too, and also
    the last one where no newline ends it: the ids of the original's `encode_file(add_eos=True)`.
    With a `space_token`, white space at the ends of the file is no part of the stream, as in the
    original's prep_text8.py.

    Args:
        paths: text files, UTF-8 unless the tokenizer reads bytes. Each is held in memory while it is read.
        tokenizer: what is to read them.

    Raises:
        ValueError: a tokenizer of pieces of words; when it is read, also an empty file, or bytes that are
            not UTF-8 (names the line).
        FileNotFoundError: no such file, when it is read.
    """

    def __init__(self, paths: Sequence[str | Path], tokenizer: WordLevelTokenizer):
        if not isinstance(tokenizer, WordLevelTokenizer):
            raise ValueError(
                f"A {type(tokenizer).__name__} reads documents. Whole files as one stream are for language "
                "models of words, characters or bytes; leave --form stream out."
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
    """A part of a tokenized text, as one stream of ids.

    Args:
        text: the whole.
        first, end: its first token, and the one after its last.

    Attributes:
        summary: what tells the text from another.
    """

    def __init__(self, text: TokenizedText, first: int, end: int):
        self.text, self.first, self.end = text, first, end
        self.summary = text.summary

    def stream(self) -> np.ndarray:
        return self.text.stream()[self.first : self.end]

    @property
    def counts(self) -> np.ndarray:
        """How often each token occurs, int64 [vocab_size]."""
        return np.bincount(self.stream(), minlength=len(self.text.counts))


def encode_file(path: str | Path, tokenizer: WordLevelTokenizer) -> np.ndarray:
    """Reads a text file as one stream of ids, as `FileStream` says.

    Returns:
        int32 [tokens].

    Raises:
        FileNotFoundError, ValueError: as of `FileStream`; or a token that the vocabulary lacks, with a
            tokenizer without unknown token.
    """
    try:
        pieces = FileStream([path], tokenizer)
        return np.concatenate([np.concatenate(ids_of(tokenizer, piece)) for piece in pieces])
    except MISFIT as error:
        raise misfit(path, error) from error


def misfit(what: object, error: tf.errors.InvalidArgumentError) -> ValueError:
    """What to say where a `WordLevelTokenizer` without an unknown token met one that it lacks."""
    problem = error.message.partition("assertion failed: ")[2].partition("\n")[0]
    return ValueError(f"{what} does not fit the tokenizer: {problem or error}")


def pieces_of(
    path: str | Path, unit: str, *, whole_lines: bool = False, strip: bool = False
) -> Iterator[bytes]:
    """Yields a file in pieces that can be read by themselves, UTF-8 unless the unit is "byte".

    They are cut after newlines, and unless they are to be whole lines after blanks. The last line
    of words gets an end where it has none. `strip` leaves out white space at the ends of the file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Pass the path of a text file.")
    content = path.read_bytes()
    if not content:
        raise ValueError(f"{path} is empty. Pass a file with text.")
    if unit != "byte":
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {content.count(NEWLINE_BYTE, 0, error.start) + 1}: this is not UTF-8 "
                f"({error.reason}, byte 0x{content[error.start]:02x}). Convert the file to UTF-8, or read it "
                "with unit='byte'."
            ) from error
        if strip and not (content := text.strip().encode("utf-8")):
            raise ValueError(f"{path} holds nothing but white space. Pass a file with text.")
    if whole_lines and unit == "word" and not content.endswith(NEWLINE_BYTE):
        content += NEWLINE_BYTE
    # Characters, too, are cut at blanks: how a Greek sigma is lower-cased depends on its word.
    ends = re.compile(rb"\n" if whole_lines else rb"[\n ]" if unit != "byte" else rb"(?s:.)")
    start = 0
    while start < len(content):
        # The first end from there on, or all the rest.
        found = ends.search(content, start + _BLOCK_BYTES - 1)
        end = found.end() if found else len(content)
        yield content[start:end]
        start = end


# --- A stream as segments ---


class Segments:
    """A stream as contiguous rows, and each row as contiguous segments: a pass over it.

    Row r of every batch goes on where row r of the batch before ended, so that a model can carry
    its memory. Each token but the stream's first is a label exactly once: the last label of a row
    is the first input of the next. Rows differ by one token at most; those positions and the rest of
    the last segment are padded with token id 0 and label -100.

    The original (LMOrderedIterator) differs: its rows do not share that token, so that one label a
    row is lost, and so are up to `batch_size` - 1 tokens at the stream's end; its last segment is
    shorter, or on TPUs dropped.

    Args:
        token_ids: integers [tokens], at least two.
        batch_size: rows.
        segment_length: tokens of a row in one batch.

    Attributes:
        num_steps: batches of a pass.

    Raises:
        ValueError: an option outside its range, or a stream that gives no batch.
    """

    def __init__(self, token_ids: np.ndarray, batch_size: int, segment_length: int):
        token_ids = np.asarray(token_ids)
        if token_ids.ndim != 1 or not np.issubdtype(token_ids.dtype, np.integer):
            raise ValueError(
                f"token_ids is an array of {token_ids.dtype} with shape {token_ids.shape}; a stream is "
                "integers [tokens], as encode_file returns them."
            )
        for name, value in (("batch_size", batch_size), ("segment_length", segment_length)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be 1 or more.")
        self.token_ids, self.segment_length = token_ids, segment_length
        # Where each row begins and how many labels it has; the first rows have one more.
        shortest, longer = divmod(max(len(token_ids) - 1, 0), batch_size)
        self.lengths = shortest + (np.arange(batch_size) < longer)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.num_steps = -(-int(self.lengths[0]) // segment_length)
        if self.num_steps < 1:
            raise ValueError(
                f"{len(token_ids)} tokens give no batch of {batch_size} rows with {segment_length} tokens "
                "and their labels. Choose a longer text."
            )

    def at(self, step: int) -> dict[str, np.ndarray]:
        """A batch of the pass.

        Returns:
            dict of int32: `token_ids` and `labels` [batch_size, segment_length]; `starts_stream`
            [batch_size], 1 in the first batch of the pass, where memory begins anew, else 0.
        """
        position = step * self.segment_length + np.arange(self.segment_length)
        inside = position < self.lengths[:, None]
        source = np.where(inside, self.starts[:, None] + position, 0)
        return {
            "token_ids": np.where(inside, self.token_ids[source], 0).astype(np.int32),
            "labels": np.where(inside, self.token_ids[source + 1], IGNORED_LABEL).astype(np.int32),
            "starts_stream": np.full(len(self.lengths), step == 0, np.int32),
        }

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """The batches of `at` from one of them on, of known cardinality and static shapes, in a graph."""
        # The function of a map takes an eager tensor as an input and not into its graph, so that a
        # stream of gigabytes is held once and no protobuf has to carry it; batches are cut from it as
        # they are needed, where slices of a reshaped array would need a padded, time-major copy.
        with tf.device("CPU:0"):
            stream = tf.constant(self.token_ids, tf.int32)
            starts, lengths = (tf.constant(v, tf.int64) for v in (self.starts, self.lengths))

        def batch(step: tf.Tensor) -> dict[str, tf.Tensor]:
            position = step * self.segment_length
            position += tf.range(self.segment_length, dtype=tf.int64)[None, :]
            inside = position < lengths[:, None]
            source = tf.where(inside, starts[:, None] + position, 0)
            return {
                "token_ids": tf.where(inside, tf.gather(stream, source), 0),
                "labels": tf.where(inside, tf.gather(stream, source + 1), IGNORED_LABEL),
                "starts_stream": tf.fill([len(self.lengths)], tf.cast(step == 0, tf.int32)),
            }

        steps = tf.data.Dataset.range(first_step, self.num_steps)
        return steps.map(batch).prefetch(tf.data.AUTOTUNE)


def segments(
    token_ids: np.ndarray, batch_size: int, segment_length: int, *, first_step: int = 0
) -> tf.data.Dataset | BatchesByNumber:
    """One pass over a stream, as `fit` and `evaluate` take it.

    Args:
        token_ids, batch_size, segment_length: as of `Segments`.
        first_step: batches of the pass to leave out at its start, for going on with a pass that was
            stopped; the others are the same as without.

    Returns:
        The batches of `Segments.at`.

    Raises:
        ValueError: an option outside its range, or a stream that gives no batch.
    """
    whole = Segments(token_ids, batch_size, segment_length)
    if not 0 <= first_step <= whole.num_steps:
        raise ValueError(
            f"first_step is {first_step}; the pass has the steps 0 to {whole.num_steps - 1}."
        )
    if has_tensorflow:
        return whole.dataset(first_step)
    return BatchesByNumber(
        lambda number: whole.at(first_step + number), whole.num_steps - first_step
    )
