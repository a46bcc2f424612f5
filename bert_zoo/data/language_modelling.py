"""Text for language models: vocabularies from counts, files as streams of ids, streams as segments.

Source: Dai et al. 2019, "Transformer-XL"; kimiyoung/transformer-xl pytorch/data_utils.py and
utils/vocabulary.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.text.word_level import NEWLINE, UNITS, WordLevelTokenizer

# Bytes read at a time: enough that what each call costs does not count.
_BLOCK_BYTES = 1 << 20

# --- Vocabularies ---


def count_tokens(
    paths: Iterable[str | Path],
    *,
    unit: str = "word",
    lowercase: bool = False,
    space_token: str | None = None,
) -> Counter[str]:
    """Counts the tokens of text files, as a `WordLevelTokenizer` with the same options splits them.

    Args:
        paths: text files, UTF-8 unless the unit is "byte".

    Returns:
        Token -> count, in the order of first appearance.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an unknown unit, an empty file, or bytes that are not UTF-8.
    """
    if unit not in UNITS:
        raise ValueError(f"unit is {unit!r}; choose one of {UNITS}.")
    counts: Counter = Counter()
    for path in paths:
        for piece in _pieces(path, unit, strip=space_token is not None):
            if unit == "byte":
                counts.update(piece)
                continue
            text = piece.decode("utf-8")
            text = text.lower() if lowercase else text
            counts.update(text.split() if unit == "word" else text)
    if unit == "byte":
        del counts[NEWLINE]
        return Counter({str(value): count for value, count in counts.items()})
    if space_token is None:
        return counts
    # A space counts where its token first appears, or where it does itself.
    merged: Counter[str] = Counter()
    for token, count in counts.items():
        merged[space_token if token == " " else token] += count
    return merged


def build_vocabulary(
    paths: Iterable[str | Path],
    *,
    unit: str = "word",
    lowercase: bool = False,
    space_token: str | None = None,
    max_size: int | None = None,
    min_count: int = 0,
    special: Sequence[str] = ("<eos>",),
    unknown_token: str | None = "<unk>",
) -> list[str]:
    """Makes a vocabulary from text files; `count_tokens` and `select_tokens` say how.

    The original counts train.txt alone for WikiText-103, and train.txt, valid.txt and test.txt, in
    this order, for the Penn Treebank, WikiText-2, enwik8 and text8. For the two last `special` is
    () and `unknown_token` None.
    """
    counts = count_tokens(paths, unit=unit, lowercase=lowercase, space_token=space_token)
    return select_tokens(
        counts, max_size=max_size, min_count=min_count, special=special, unknown_token=unknown_token
    )


def select_tokens(
    counts: Mapping[str, int],
    *,
    max_size: int | None = None,
    min_count: int = 0,
    special: Sequence[str] = ("<eos>",),
    unknown_token: str | None = "<unk>",
) -> list[str]:
    """Orders tokens as the original's vocabularies are: special ones, then by falling frequency.

    Args:
        counts: token -> count, in the order of first appearance, which decides between equal counts.
        max_size: how many of the most frequent tokens are taken; None means all. Special tokens
            that the texts lack come on top.
        min_count: tokens that are rarer are left out.
        special: the tokens that come first.
        unknown_token: stands where its count puts it, as in WikiText, whose "<unk>" is a word
            like any other. Where that leaves it out, it follows the special tokens. None for a
            vocabulary that has every token there is.

    Returns:
        The tokens in the order of their ids.
    """
    frequent = [s for s, n in Counter(counts).most_common(max_size) if n >= min_count]
    if unknown_token is not None and unknown_token not in frequent:
        special = [*special, unknown_token]
    return list(dict.fromkeys([*special, *frequent]))


def suggested_cutoffs(vocab_size: int) -> list[int]:
    """Returns cutoffs for adaptive softmax: the shares that WikiText-103's are of its vocabulary.

    7.5%, 15% and 75%, to two digits; the original's for the One Billion Word Benchmark are 7.6%,
    12.6% and 80.7%. None below 50,000 tokens: the original has none for WikiText-2's 33,278.
    """
    if vocab_size < 50_000:
        return []
    return [int(float(f"{share * vocab_size:.1e}")) for share in (0.075, 0.15, 0.75)]


# --- Files as ids ---


def encode_file(path: str | Path, tokenizer: WordLevelTokenizer) -> np.ndarray:
    """Reads a text file as one stream of ids.

    With words and an `eos_at` other than "never", each line ends in <eos>, blank ones too, and also
    the last one where no newline ends it: the ids of the original's `encode_file(add_eos=True)`.
    With a `space_token`, white space at the ends of the file is no part of the stream, as in the
    original's prep_text8.py.

    Args:
        path: a text file, UTF-8 unless the tokenizer reads bytes. It is read in pieces.
        tokenizer: reads it.

    Returns:
        int32 [tokens].

    Raises:
        FileNotFoundError: no such file.
        ValueError: an empty file; bytes that are not UTF-8 (names the line); a token that the
            vocabulary lacks, with a tokenizer without unknown token.
    """
    pieces = _pieces(
        path,
        tokenizer.unit,
        whole_lines=tokenizer.eos_at != "never",
        strip=tokenizer.get_config()["space_token"] is not None,
    )
    try:
        return np.concatenate([tokenizer([piece]).flat_values for piece in pieces])
    except tf.errors.InvalidArgumentError as error:
        raise misfit(path, error) from error


def misfit(what: object, error: tf.errors.InvalidArgumentError) -> ValueError:
    """What to say where a `WordLevelTokenizer` without an unknown token met one that it lacks."""
    problem = error.message.partition("assertion failed: ")[2].partition("\n")[0]
    return ValueError(f"{what} does not fit the tokenizer: {problem or error}")


def _pieces(
    path: str | Path, unit: str, *, whole_lines: bool = False, strip: bool = False
) -> Iterator[bytes]:
    """Yields a file in pieces that can be read by themselves, UTF-8 unless the unit is "byte".

    They are cut after newlines, and unless they are to be whole lines after blanks. The last line
    of words gets an end where it has none. `strip` leaves out white space at the ends of the file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Pass the path of a text file.")
    pieces = _cut_blocks(path, unit, whole_lines)
    if unit != "byte":
        pieces = _checked_utf8(pieces, path)
    yield from _stripped(pieces, path) if strip else pieces


def _cut_blocks(path: Path, unit: str, whole_lines: bool) -> Iterator[bytes]:
    size = path.stat().st_size
    if not size:
        raise ValueError(f"{path} is empty. Pass a file with text.")
    # Characters, too, are cut at blanks: how a Greek sigma is lower-cased depends on its word.
    ends = (b"\n",) if whole_lines else (b"\n", b" ")
    # Shown in a terminal only.
    bar = tqdm(desc=path.name, total=size, unit="B", unit_scale=True, disable=None)
    with path.open("rb") as file, bar:
        rest = b""
        while block := file.read(_BLOCK_BYTES):
            bar.update(len(block))
            rest += block
            anywhere = unit == "byte" and not whole_lines
            if end := len(rest) if anywhere else max(map(rest.rfind, ends)) + 1:
                yield rest[:end]
                rest = rest[end:]
        if rest:
            yield rest + b"\n" if whole_lines and unit == "word" else rest


def _checked_utf8(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    line = 1
    for piece in pieces:
        try:
            piece.decode("utf-8")
        except UnicodeDecodeError as error:
            line += piece.count(b"\n", 0, error.start)
            raise ValueError(
                f"{path}, line {line}: this is not UTF-8 ({error.reason}, byte "
                f"0x{piece[error.start]:02x}). Convert the file to UTF-8, or read it with unit='byte'."
            ) from error
        line += piece.count(b"\n")
        yield piece


def _stripped(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Leaves out white space at both ends of the whole; pieces are UTF-8."""
    pending = ""  # white space that is inside if something follows
    begun = False
    for piece in pieces:
        text = piece.decode("utf-8")
        text = pending + text if begun else text.lstrip()
        kept = text.rstrip()
        pending = text[len(kept) :]
        if kept:
            begun = True
            yield kept.encode("utf-8")
    if not begun:
        raise ValueError(f"{path} holds nothing but white space. Pass a file with text.")


# --- A stream as segments ---


def segments(
    token_ids: np.ndarray,
    batch_size: int,
    segment_length: int,
    *,
    first_step: int = 0,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Cuts a stream into contiguous rows, and each row into contiguous segments: one pass over it.

    Row r of every batch goes on where row r of the batch before ended, so that a model can carry
    its memory. Each token but the stream's first is a label exactly once: the last label of a row
    is the first input of the next. Rows differ by one token at most; those positions and the rest of
    the last segment are padded with token id 0 and label -100.

    The original (LMOrderedIterator) differs: its rows do not share that token, so that one label a
    row is lost, and so are up to `batch_size` - 1 tokens at the stream's end; its last segment is
    shorter, or on TPUs dropped. `drop_remainder` drops what would need padding: up to
    `batch_size` - 1 tokens of the stream's end, and the last segment where it is not full.

    Args:
        token_ids: integers [tokens], at least two.
        batch_size: rows.
        segment_length: tokens of a row in one batch.
        first_step: batches of the pass to leave out at its start, for going on with a pass that was
            stopped; the others are the same as without.
        drop_remainder: see above.

    Returns:
        A dataset, of known cardinality and static shapes, of dicts of int32: `token_ids` and `labels`
        [batch_size, segment_length]; `starts_stream` [batch_size], 1 in the first batch of the pass,
        where memory begins anew, else 0.

    Raises:
        ValueError: an option outside its range, or a stream that gives no batch.
    """
    token_ids = np.asarray(token_ids)
    if token_ids.ndim != 1 or not np.issubdtype(token_ids.dtype, np.integer):
        raise ValueError(
            f"token_ids is an array of {token_ids.dtype} with shape {token_ids.shape}; a stream is "
            "integers [tokens], as encode_file returns them."
        )
    for name, value in (("batch_size", batch_size), ("segment_length", segment_length)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be 1 or more.")
    # Where each row begins and how many labels it has; the first rows have one more.
    shortest, longer = divmod(max(len(token_ids) - 1, 0), batch_size)
    if drop_remainder:
        lengths = np.full(batch_size, shortest)
        num_steps = shortest // segment_length
    else:
        lengths = shortest + (np.arange(batch_size) < longer)
        num_steps = -(-int(lengths[0]) // segment_length)
    starts = np.cumsum(lengths) - lengths
    if num_steps < 1:
        raise ValueError(
            f"{len(token_ids)} tokens give no batch of {batch_size} rows with {segment_length} tokens "
            "and their labels. Choose a smaller batch_size or segment_length, or a longer text"
            + (", or pass drop_remainder=False." if drop_remainder else ".")
        )
    if not 0 <= first_step <= num_steps:
        raise ValueError(
            f"first_step is {first_step}; the pass has the steps 0 to {num_steps - 1}."
        )

    # The function of a map takes an eager tensor as an input and not into its graph, so that a
    # stream of gigabytes is held once and no protobuf has to carry it; batches are cut from it as
    # they are needed, where slices of a reshaped array would need a padded, time-major copy.
    with tf.device("CPU:0"):
        stream = tf.constant(token_ids, tf.int32)
        starts, lengths = tf.constant(starts, tf.int64), tf.constant(lengths, tf.int64)

    def batch(step: tf.Tensor) -> dict[str, tf.Tensor]:
        position = step * segment_length + tf.range(segment_length, dtype=tf.int64)[None, :]
        inside = position < lengths[:, None]
        source = tf.where(inside, starts[:, None] + position, 0)
        return {
            "token_ids": tf.where(inside, tf.gather(stream, source), 0),
            "labels": tf.where(inside, tf.gather(stream, source + 1), IGNORED_LABEL),
            "starts_stream": tf.fill([batch_size], tf.cast(step == 0, tf.int32)),
        }

    steps = tf.data.Dataset.range(first_step, num_steps)
    return steps.map(batch).prefetch(tf.data.AUTOTUNE)


class StreamBatches:
    """The batches of `segments` by number, one pass after the other, so that a training goes on anywhere.

    Args:
        token_ids, batch_size, segment_length: as of `segments`.

    Attributes:
        per_pass: batches of a pass.
        tokens: of a batch.
    """

    starts = ()  # as of `PretrainingBatches`: passes are all alike, and need no planning

    def __init__(self, token_ids: np.ndarray, batch_size: int, segment_length: int):
        self.token_ids, self.size = token_ids, (batch_size, segment_length)
        self.per_pass = int(segments(token_ids, *self.size).cardinality())
        self.tokens = float(batch_size * segment_length)

    def at(self, number: int) -> dict[str, tf.Tensor]:
        """A batch."""
        return next(iter(self.dataset(number)))

    def dataset(self, first: int, end: int | None = None) -> tf.data.Dataset:
        """The batches from `first` on, to before `end` if that is given."""
        rest = segments(self.token_ids, *self.size, first_step=first % self.per_pass)
        data = rest.concatenate(segments(self.token_ids, *self.size).repeat())
        return data if end is None else data.take(end - first)
