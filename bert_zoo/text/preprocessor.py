"""From texts to a model's inputs: a tokenizer, a packer, and a report when something is cut off."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.graph import tf
from bert_zoo.text.batches import text_batch
from bert_zoo.text.layout import BERT, PLAIN
from bert_zoo.text.numpy_packing import PackingOptions
from bert_zoo.text.packing import Packer, Positions, Slices
from bert_zoo.text.tokenizer import Tokenizer, made_of

logger = logging.getLogger(__name__)

# For: how many were cut, of how many, the limit, the longest one's tokens, and how to keep them.
TEXTS_OF_CALL_CUT = (
    "%d of the %d texts are longer than the %d tokens that the model reads, special tokens among "
    "them, and were cut; the longest has %d tokens without special ones. %s This is said once."
)
# For: how many were cut, of how many, the limit, the longest one's tokens.
TEXTS_CUT = (
    "%d of the %d texts of a batch are longer than sequence_length=%d allows and were cut; the "
    "longest has %d tokens without special tokens. Raise sequence_length (as far as the model "
    "allows) to keep them whole. This is said once."
)
# For: how many texts, of how many.
TEXTS_UNKNOWN = (
    "%d of the %d texts of a batch consist mostly of words or characters that the vocabulary does not "
    "have. The model reads the unknown token in their place, and what it answers says little. Check "
    "that it was made for the language and the script of these texts. This is said once."
)

# For: what the tuple has.
PAIR_FOR_LANGUAGE_MODEL = (
    "Got a tuple of {}, which is a pair of batches elsewhere; a language model reads single texts. "
    "Pass a batch as a list, and join what belongs together."
)
NO_PAIR = (
    "Got a tuple of {}. A tuple is a pair of batches, (firsts, seconds); pass a batch of single texts "
    "as a list."
)
# For: the size and the name of each batch.
SIZES_DIFFER = (
    "The two batches of a pair differ in size: {} {} and {} {}. Row i of one belongs to row i of the "
    "other."
)


class TextPreprocessor(tf.Module):
    """What preprocessors share: a tokenizer, a packer, and the reports on what is not read.

    Args: see `Preprocessor`.

    Attributes:
        default_layout: where none is given.
        packer_class: of the packer.
        packer: composes the rows.
        report: the `Report`, which is that of `with_options` too; None without one.
    """

    default_layout = BERT
    packer_class: type[PackingOptions] = Packer

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        sequence_length: int,
        report_truncation: bool = True,
        **packing: Any,
    ):
        super().__init__()
        self.tokenizer = tokenizer
        packing = {"layout": self.default_layout, **packing, "sequence_length": sequence_length}
        self.packer = self.packer_class.of_tokenizer(tokenizer, **packing)
        self.report = Report() if report_truncation else None

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's keyword arguments, ready for JSON; the tokenizer has its own."""
        return {**self.packer.get_config(), "report_truncation": self.report is not None}

    def __reduce__(self):
        # As `Tokenizer.__reduce__`.
        return made_of, (type(self), (self.tokenizer,), self.get_config())

    @property
    def sequence_length(self) -> int:
        """The most tokens a row may have, special ones included."""
        return self.packer.sequence_length

    @property
    def lowercase(self) -> bool | None:
        """Whether texts are lower-cased; None where the tokenizer has no such option."""
        return self.tokenizer.get_config().get("lowercase")

    def save_vocabulary(self, directory: str | Path) -> None:
        """Writes the files that `preprocessor_from_dir` makes the tokenizer from."""
        self.tokenizer.save(directory)

    def with_options(self, **changes: Any) -> Self:
        """A preprocessor with the same tokenizer and some options of the constructor changed.

        Raises:
            TypeError: a keyword that is not an option.
        """
        options = self.get_config()
        if unknown := sorted(changes.keys() - options.keys()):
            raise TypeError(f"Unknown options {unknown}; a preprocessor has {sorted(options)}.")
        made = type(self)(self.tokenizer, **{**options, **changes})
        if made.report is not None and self.report is not None:
            made.report = self.report  # or it would be said again
        return made

    def in_language(self, language: str) -> Self:
        """A preprocessor of texts in another language, for a tokenizer that tells languages apart.

        Raises:
            TypeError: the tokenizer does not.
            ValueError: a language that it does not know.
        """
        if not hasattr(self.tokenizer, "in_language"):
            raise TypeError(f"A {type(self.tokenizer).__name__} reads all languages alike.")
        return type(self)(self.tokenizer.in_language(language), **self.get_config())

    def class_of(self, kind: type[TextPreprocessor]) -> type[TextPreprocessor]:
        """The class that is what `kind` is, for arrays of this preprocessor's kind."""
        return kind

    def widened(self, inputs: Mapping[str, tf.Tensor], length: tf.Tensor) -> dict[str, tf.Tensor]:
        """Pads a model's inputs [batch, tokens] to `length` tokens, if they have fewer; traceable."""
        return self.packer.widened(inputs, length, {"labels": IGNORED_LABEL})

    @tf.autograph.experimental.do_not_convert
    def scored(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts into inputs and the token that each position has to predict.

        With an end token, which stands before a text as before any line, every token of the text is
        a label: the inputs are <eos> and the tokens without the last. (A tokenizer that puts <eos>
        before lines has it there already.) Without one, the first token is only an input.

        Takes and raises what a call does.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `labels`, -100 where there is none;
            `padding_mask`, 1 where a token is. At most `sequence_length` tokens a row are labels.
        """
        texts = single_texts(texts)
        tokens = self.tokenizer(texts)
        if hasattr(self.tokenizer, "eos_id") and self.tokenizer.eos_at != "line_starts_and_ends":
            eos = tf.fill([tokens.nrows(), 1], self.tokenizer.eos_id)
            tokens = tf.concat([eos, tokens], axis=1)
        (tokens,) = self.packer.checked(tokens)
        lengths = tf.maximum(tokens.row_lengths() - 1, 0)
        inputs, (positions,) = self._rows([tokens], [lengths])
        # The token at each index + 1.
        following = tf.concat([tokens.values[1:], [IGNORED_LABEL]], 0)
        labels = positions.gather(following, otherwise=IGNORED_LABEL)
        return with_batch_size({**inputs, "labels": labels}, texts)

    def pack_with_positions(
        self, segments: Sequence[tf.RaggedTensor]
    ) -> tuple[dict[str, tf.Tensor], list[Positions]]:
        """Packs tokenized segments into a model's inputs, and says where each segment's tokens stand."""
        segments = self.packer.checked(segments)
        return self._rows(segments, [segment.row_lengths() for segment in segments])

    def _rows(
        self, segments: Sequence[tf.RaggedTensor], lengths: Sequence[tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], list[Positions]]:
        """Packs the first `lengths` tokens of segments, reports what is cut, and says where they stand."""
        kept = self.packer.kept_lengths(lengths)
        if self.report is not None:
            self.report.watch_cuts(tf.add_n(lengths), tf.add_n(kept), self.sequence_length)
        self.watch_unknown(*segments)
        return self.packer.lay_out([*map(Slices.of_beginnings, segments, kept)])

    def watch_unknown(self, *segments: tf.RaggedTensor) -> None:
        """Adds the check on unknown tokens to the graph, if there is a report on them."""
        unk_id = unknown_id(self.tokenizer)
        if self.report is not None and unk_id is not None:
            for segment in segments:
                self.report.watch_unknown(segment, unk_id)

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Tokenizes texts to int32 [batch, (tokens)], under the name of TF-Hub's preprocessors."""
        return self.tokenizer(texts)


class Preprocessor(TextPreprocessor):
    """Tokenizes and packs texts or pairs of texts, in the graph.

    Args:
        tokenizer: anything called with texts that returns int32 [batch, (tokens)] and has the ids of
            the layout's special tokens, as `cls_id`, and `pad_id`.
        sequence_length: as for Packer.
        report_truncation: say once on the log (logger "bert_zoo.text.preprocessor") that texts were
            cut, and once that the vocabulary does not have most of a text. It runs Python inside the graph, so switch it off for a graph that leaves this
            process: a SavedModel, or a remote tf.data service.
        **packing: further keyword arguments of Packer: layout, padding, bucket, truncation.
    """

    # AutoGraph has nothing to convert here, and would trace every helper anew in each tf.data map.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts, or of pairs, into a model's inputs.

        Args:
            texts: texts, as the tokenizer takes them; or for pairs a tuple of two such batches of
                the same size, (firsts, seconds).

        Returns:
            dict of int32 [batch, length]: `token_ids`, `segment_ids` where the model has them,
            `padding_mask`.

        Raises:
            TypeError, ValueError: something that is not a batch of texts or of pairs.
        """
        batches = _text_batches(texts)
        inputs = self.pack([self.tokenizer(batch) for batch in batches])
        return with_batch_size(inputs, batches[0])

    def pack(self, segments: Sequence[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Turns tokenized segments, one or two int32 [batch, (tokens)], into a model's inputs."""
        return self.pack_with_positions(segments)[0]

    def bert_pack_inputs(
        self, segments: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Packs tokenized segments, as `pack`, under the names of TF-Hub's BERT preprocessors.

        Args:
            segments: one or two ragged tensors int32 [batch, (tokens)].
            seq_length: of the result, static if it is a number; by default `sequence_length`.

        Returns:
            dict of int32 [batch, seq_length]: `input_word_ids`, `input_mask`, `input_type_ids`,
            which are 0 for a model without segments.
        """
        length = self.sequence_length if seq_length is None else seq_length
        packing = {**self.packer.get_config(), "sequence_length": length, "padding": "fixed"}
        packed = Packer.of_tokenizer(self.tokenizer, **packing)(segments)
        return {
            "input_word_ids": packed["token_ids"],
            "input_mask": packed["padding_mask"],
            "input_type_ids": packed.get("segment_ids", tf.zeros_like(packed["token_ids"])),
        }


class LanguageModelPreprocessor(TextPreprocessor):
    """Tokenizes texts for a language model, in the graph, without adding special tokens.

    Args:
        tokenizer: what texts are read with.
        sequence_length: the most tokens a row may have; the others are cut off its end.
        report_truncation: as for Preprocessor.
        **packing: further keyword arguments of Packer: padding, bucket. Padding has the id 0 where
            the vocabulary has no token for it; the mask tells.

    Raises:
        ValueError: an option outside its range.
    """

    default_layout = PLAIN

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts, as the tokenizer takes them, into a model's inputs.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `padding_mask`, 1 where a token is.

        Raises:
            TypeError, ValueError: something that is not a batch of texts; a pair is a TypeError.
        """
        texts = single_texts(texts)
        inputs, _ = self.pack_with_positions([self.tokenizer(texts)])
        return with_batch_size(inputs, texts)


def unknown_id(tokenizer: Any) -> int | None:
    """The id of what a vocabulary does not have; None where it has all."""
    unk_id = getattr(tokenizer, "unk_id", None)
    # Of a byte-level vocabulary nothing is unknown, and its end token has that name too.
    return None if unk_id == getattr(tokenizer, "eos_id", None) else unk_id


def single_texts(texts: Any) -> tf.Tensor:
    if isinstance(texts, tuple):
        raise TypeError(PAIR_FOR_LANGUAGE_MODEL.format(len(texts)))
    return text_batch(texts)


def with_batch_size(rows: dict[str, tf.Tensor], texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Rows of texts with these' static batch size, which ragged tensors forget."""
    for value in rows.values():
        value.set_shape([texts.shape[0], *value.shape[1:]])
    return rows


def _text_batches(texts: Any) -> list[tf.Tensor]:
    """Returns one string tensor, or two of the same size for a pair."""
    if not isinstance(texts, tuple):
        return [text_batch(texts)]
    if len(texts) != 2:
        raise ValueError(NO_PAIR.format(len(texts)))
    return text_pair(*texts)


def text_pair(
    first: Any, second: Any, names: tuple[str, str] = ("firsts", "seconds")
) -> list[tf.Tensor]:
    """Two batches of texts as string tensors [batch]; `names` are what errors call them.

    Raises:
        TypeError, ValueError: something that is no batch of texts; or the sizes differ.
    """
    first, second = text_batch(first, names[0]), text_batch(second, names[1])
    if first.shape[0] is not None and second.shape[0] is not None:
        if first.shape[0] != second.shape[0]:
            sizes = (first.shape[0], names[0], second.shape[0], names[1])
            raise ValueError(SIZES_DIFFER.format(*sizes))
        return [first, second]
    message = "The two batches of a pair differ in size."
    same = tf.debugging.assert_equal(tf.size(first), tf.size(second), message=message)
    with tf.control_dependencies([same]):
        return [tf.identity(first), second]


@dataclass
class _Call:
    """What is cut of the texts of one call, as TEXTS_OF_CALL_CUT says it."""

    texts: int | None  # None where they are not known beforehand
    advice: str
    cut: int = 0
    longest: int = 0
    limit: int = 0


class Report:
    """Says once each, from inside a graph too, that texts were cut, and that most of one is unknown.

    It reports the first batch with a truncated text; within `of_call` at its end, of
    all texts.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._call: _Call | None = None

    def watch_cuts(
        self, lengths: tf.Tensor, kept: tf.Tensor, limit: int, message: str = TEXTS_CUT
    ) -> None:
        """Adds the check to the graph: int64 [batch] tokens before and after truncation."""
        count = partial(self._count, message)
        self._watch(message, kept < lengths, count, [lengths, kept, limit])

    def watch_unknown(self, tokens: tf.RaggedTensor, unk_id: int) -> None:
        """Adds the check to the graph: int32 [batch, (tokens)], without special tokens."""
        is_unknown = tokens.with_values(tf.cast(tokens.values == unk_id, tf.int64))
        is_mostly = 2 * tf.reduce_sum(is_unknown, axis=1) > tokens.row_lengths()
        self._watch(TEXTS_UNKNOWN, is_mostly, self._say_unknown, [is_mostly])

    def count_cuts(
        self, lengths: np.ndarray, kept: np.ndarray, limit: int, message: str = TEXTS_CUT
    ) -> None:
        """Checks a batch outside of a graph: int64 [batch] tokens before and after truncation."""
        if (kept < lengths).any():
            self._count(message, lengths, kept, limit)

    def count_unknown(self, is_mostly: np.ndarray) -> None:
        """Checks a batch outside of a graph: bool [batch], whether each text is unknown for the most part."""
        if is_mostly.any():
            self._say_unknown(is_mostly)

    def _say_unknown(self, is_mostly: np.ndarray) -> np.bool_:
        counts = (np.count_nonzero(is_mostly), is_mostly.size)
        return self._say(TEXTS_UNKNOWN, TEXTS_UNKNOWN, *counts)

    def _watch(
        self, message: str, rows: tf.Tensor, say: Callable[..., np.bool_], inputs: list[Any]
    ) -> None:
        """Calls `say` with the values of the inputs where one of the rows, bool [batch], is true."""
        if message not in self._said:
            # numpy_function asks for a result.
            found = tf.reduce_any(rows)
            report = partial(tf.numpy_function, say, inputs, tf.bool)
            tf.cond(found, report, lambda: tf.constant(False))

    @contextmanager
    def of_call(self, texts: int | None, advice: str) -> Iterator[Callable[[], None]]:
        """Within it, what is cut is counted until it ends; a call within a call is part of it.

        Args:
            texts: how many the call has; None where that is not known, so that it speaks of the first
                batch.
            advice: a sentence on how to keep them whole.

        Yields:
            A function that ends the counting before.
        """
        with self._lock:
            is_inner = self._call is not None
            if not is_inner:
                self._call = _Call(texts, advice)
            elif self._call.texts is not None:
                self._call.texts += texts or 0
        if is_inner:
            yield lambda: None
            return
        try:
            yield self._end_counting
        finally:
            self._end_counting()
            self._call = None

    def _end_counting(self) -> None:
        call = self._call
        if call.cut:
            counts = (call.cut, call.texts, call.limit, call.longest)
            self._say(TEXTS_CUT, TEXTS_OF_CALL_CUT, *counts, call.advice)
        call.texts, call.cut = None, 0

    def _count(
        self, message: str, lengths: np.ndarray, kept: np.ndarray, limit: np.int64
    ) -> np.bool_:
        """Counts a batch, or speaks of it."""
        cut, longest = np.count_nonzero(kept < lengths), int(lengths.max())
        with self._lock:
            call = self._call if message == TEXTS_CUT else None
            if call is not None and call.texts is not None:
                call.cut, call.limit = call.cut + cut, limit
                call.longest = max(call.longest, longest)
                return np.True_
        counts = (cut, lengths.size, limit, longest)
        if call is not None:
            return self._say(message, TEXTS_OF_CALL_CUT, *counts, call.advice)
        return self._say(message, message, *counts)

    def _say(self, kind: str, message: str, *arguments: Any) -> np.bool_:
        """Says a message, of those of a kind the first one."""
        with self._lock:
            is_said, self._said = kind in self._said, self._said | {kind}
        if not is_said:
            logger.warning(message, *arguments)
        return np.True_
