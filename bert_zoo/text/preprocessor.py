"""From texts and sentences of words to a model's inputs: a tokenizer, a packer, and a report on what is truncated."""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from bert_zoo.config import IGNORED_LABEL, UNLIMITED, TokenRole
from bert_zoo.error_text import shown
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.text.batches import as_utf8, is_tensor, split_at_white_space, strings, text_batch
from bert_zoo.text.columns import as_list, is_missing
from bert_zoo.text.format import TOKENIZER_FILE, with_rows
from bert_zoo.text.numpy_packing import (
    BERT,
    MARKER,
    PLAIN,
    NumpyPacker,
    PackingOptions,
    Positions,
    Slices,
    Tokens,
    checked,
    ops_of,
    ragged_range,
)
from bert_zoo.text.tokenizer import Tokenizer, made_of
from bert_zoo.weights.files import write_json


class Packer(PackingOptions, tf.Module):
    """Packs tokenized texts into rows: truncates, adds special tokens, and pads.

    Args:
        sequence_length: the most tokens of a row, including special tokens. It may be an int scalar
            tensor.
        layout: where special tokens and padding go: a `bert_zoo.text.numpy_packing.Layout`, or a dict of its
            attributes.
        padding: "longest" pads to the longest row of the batch, rounded up to a multiple of `bucket`
            and at most `sequence_length`. "fixed" always pads to `sequence_length`, the static shape
            that XLA and TPUs need.
        bucket: see `padding`.
        truncation: for pairs that are too long. "longest_first" shortens the longer text, or both to
            half the room if both are longer (an odd token goes to the longer text, or to the second if
            they are equal), as Hugging Face's fast tokenizers do. "only_first" and "only_second"
            shorten that text, and raise an error if this is not enough.
        scoring: for late interaction, which tokens have a vector that is compared: a
            `bert_zoo.text.numpy_packing.Scoring`, or a dict of its attributes.
        language_id: value of `language_ids`, for models with this input.
        **ids: ids of padding and of the layout's special tokens: `pad_id`, `cls_id`, ...

    Raises:
        ValueError: an option outside its range.
        TypeError: an id is missing, or an unknown option.
    """

    def __call__(self, segments: Any) -> dict[str, tf.Tensor]:
        """Packs one or two segments.

        Args:
            segments: a ragged tensor int32 [batch, (tokens)], or a sequence of one or two of them.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `segment_ids` if the layout has them;
            `padding_mask`, 1 for tokens and 0 for padding.

        Raises:
            ValueError: not one or two segments, or not ragged tensors of rank 2.
            tf.errors.InvalidArgumentError: "only_first" or "only_second" cannot shorten a row enough.
        """
        segments = self.checked(segments)
        kept = self.kept_lengths([segment.lengths for segment in segments])
        return self.lay_out([*map(Slices.beginnings, segments, kept)])[0]

    def in_numpy(self) -> NumpyPacker:
        """The packer that pads rows outside of the graph."""
        ids = {f"{role}_id": id for role, id in vars(self._ids).items()}
        return NumpyPacker(**self.get_config(), language_id=self.language_id, **ids)

    def checked(self, segments: Any) -> list[Slices]:
        """The segments as slices of int32; raises the errors of a call."""
        segments = [segments] if isinstance(segments, tf.RaggedTensor) else list(segments)
        self.layout.parts(len(segments))
        for number, segment in enumerate(segments):
            if not isinstance(segment, tf.RaggedTensor) or segment.shape.rank != 2:
                raise ValueError(
                    f"Segment {number} is {segment!r}. A segment must be a ragged tensor "
                    "[batch, (tokens)], as the tokenizer returns it. tf.RaggedTensor.from_tensor and "
                    "tf.ragged.constant make one."
                )
        return [*map(slices_of, segments)]

    def _checked_length(self, length: int | tf.Tensor) -> int | tf.Tensor:
        if not has_tensorflow or not tf.is_tensor(length):
            return super()._checked_length(length)
        length = tf.cast(length, tf.int64)
        message = f"sequence_length is too small; {self._wanted_length}. It is:"
        return checked([length], length >= self._least_length, message, length)[0]


def slices_of(tokens: tf.RaggedTensor) -> Slices:
    """Tokens [batch, (tokens), ...] as slices."""
    tokens = tokens.with_row_splits_dtype(tf.int64)
    return Slices(tf.cast(tokens.values, tf.int32), tokens.row_starts(), tokens.row_lengths())


logger = logging.getLogger(__name__)

# Arguments: truncated texts, all texts, the limit, tokens of the longest text, and how to keep them.
TEXTS_OF_CALL_CUT = (
    "%d of the %d texts exceed the model's limit of %d tokens (including special tokens) and were "
    "truncated. The longest has %d tokens without special tokens. %s (Shown once.)"
)
# Arguments: truncated texts, all texts, the limit, tokens of the longest text.
TEXTS_CUT = (
    "%d of the %d texts of a batch exceed sequence_length=%d and were truncated. The longest has %d tokens "
    "without special tokens. Raise sequence_length, as far as the model allows, to keep them whole. "
    "(Shown once.)"
)
# Texts of a model without a limit are long from this number of tokens on, that of most models that have one.
LONG_TEXT = 512
# Arguments: long texts, all texts, `LONG_TEXT`, tokens of the longest text.
TEXTS_LONG = (
    "%d of the %d texts of a batch have more than %d tokens; the longest has %d. The model has no limit and "
    "reads them whole, in time and memory that grow with their length or faster. To cut them, call load() with "
    "max_length. (Shown once.)"
)
# Arguments: such texts, all texts.
TEXTS_UNKNOWN = (
    "%d of the %d texts of a batch consist mostly of words or characters that the vocabulary lacks. The "
    "model reads the unknown token instead, so its results mean little. Check that it was made for the "
    "language and script of these texts. (Shown once.)"
)


class TextPreprocessor(tf.Module):
    """Base class of preprocessors: a tokenizer, a packer, and reports on texts that are not read in full.

    Args: see `Preprocessor`.

    Attributes:
        default_layout: the row layout if none is given.
        packer_class: class of the packer.
        packer: composes the rows.
        report: the `Report`, shared with the results of `with_options`; None without one.
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
        """Returns the constructor's keyword arguments, without the tokenizer, ready for JSON."""
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
        """Whether texts are lower-cased; None if the tokenizer has no such option."""
        return self.tokenizer.get_config().get("lowercase")

    def save_vocabulary(self, directory: str | Path) -> None:
        """Writes the tokenizer's files to a directory that `preprocessor_from_dir` reads."""
        self.tokenizer.save(directory)
        path = Path(directory) / TOKENIZER_FILE
        if path.is_file():  # which also says how rows are composed
            write_json(path, with_rows(self))

    def with_options(self, **changes: Any) -> Self:
        """Returns a preprocessor with the same tokenizer and some changed options of the constructor.

        Raises:
            TypeError: an unknown option.
        """
        options = self.get_config()
        if unknown := sorted(changes.keys() - options.keys()):
            raise TypeError(f"Unknown options {unknown}; a preprocessor has {sorted(options)}.")
        return self.made_as(type(self), **changes)

    def made_as(self, kind: type[TextPreprocessor], **options: Any) -> Any:
        """Makes a preprocessor of the class that reads text like this one; other `options` are the class's."""
        made = kind(self.tokenizer, **{**self.get_config(), **options})
        if made.report is not None and self.report is not None:
            made.report = self.report  # so that each message is shown once
        return made

    @cached_property
    def cutting_first(self) -> Self:
        """The preprocessor that truncates only the first text of a pair; one object, as graphs are traced for each."""
        return self.with_options(truncation="only_first")

    def of_role(self, role: TokenRole) -> Self:
        """Returns a preprocessor for the texts of a role in late interaction, queries or documents.

        Its rows have the role's marker before the text, and the input `SCORED`. Words to skip that are no token of the
        vocabulary are left out, as in sentence-transformers.

        Raises:
            ValueError: the vocabulary lacks the marker, or the token that fills rows.
        """
        tokenizer, layout, changes = self.tokenizer, self.packer.layout, {}
        scoring: dict[str, Any] = {"attends": role.attends}
        if role.marker is not None:
            scoring["marker_id"] = tokenizer.token_to_id(role.marker)
            changes["layout"] = replace(layout, single=layout.single.replace("A", f"{MARKER} A"))
        limits = [self.sequence_length, role.max_length]
        if role.expansion is not None:
            scoring["fill_to"] = min(role.expansion_length, self.sequence_length)
            scoring["fill_id"] = self._filling_id(role.expansion_token)
            limits.append(role.expansion_length if role.expansion == "fixed" else None)
        known = {*tokenizer.vocabulary} if role.skip_words else ()
        words = [word for word in role.skip_words if word in known]
        scoring["skipped_ids"] = tuple(map(tokenizer.token_to_id, words))
        changes["sequence_length"] = min(limit for limit in limits if limit is not None)
        return self.with_options(scoring=scoring, **changes)

    def _filling_id(self, token: str | None) -> int:
        """The id of a token that fills rows, by default the mask token, else the end token."""
        if token is not None:
            return self.tokenizer.token_to_id(token)
        found = [getattr(self.tokenizer, name, None) for name in ("mask_id", "eos_id")]
        if found == [None, None]:
            raise ValueError(
                "Rows cannot be filled, as the vocabulary has neither a mask token nor an end token. Name another one as "
                "expansion_token."
            )
        return next(index for index in found if index is not None)

    def in_language(self, language: str) -> Self:
        """Returns a preprocessor for texts in another language, if the tokenizer has a language (XLM).

        Raises:
            TypeError: the tokenizer has no language.
            ValueError: an unknown language.
        """
        if not hasattr(self.tokenizer, "in_language"):
            raise TypeError(
                f"A {type(self.tokenizer).__name__} has no language. It reads all languages alike."
            )
        return type(self)(self.tokenizer.in_language(language), **self.get_config())

    def widened(self, inputs: Mapping[str, tf.Tensor], length: tf.Tensor) -> dict[str, tf.Tensor]:
        """Pads a model's inputs [batch, tokens] to at least `length` tokens; traceable."""
        return self.packer.widened(inputs, length, {"labels": IGNORED_LABEL})

    @tf.autograph.experimental.do_not_convert
    def scored(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts into inputs and the next token to predict at each position.

        If the vocabulary has an end token, the inputs begin with it and every token of the text is a
        label. Otherwise the first token is only an input.

        Args, Raises: as for a call.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `labels`, -100 where there is none;
            `padding_mask`, 1 for tokens. A row has at most `sequence_length` labels.
        """
        texts = self._read_single(texts)
        (tokens,) = self.packer.checked([self.tokens_of(texts)])
        if hasattr(self.tokenizer, "eos_id") and self.tokenizer.eos_at != "line_starts_and_ends":
            tokens = self._after(tokens, self.tokenizer.eos_id)
        lengths = ops_of(tokens.lengths).maximum(tokens.lengths - 1, 0)
        inputs, (positions,) = self._rows([tokens], [lengths])
        # The token at each index + 1.
        following = ops_of(tokens.values).concat([tokens.values[1:], [IGNORED_LABEL]], 0)
        labels = positions.gather(following, otherwise=IGNORED_LABEL)
        return with_batch_size({**inputs, "labels": labels}, texts)

    def _after(self, tokens: Slices, token_id: int) -> Slices:
        """Rows of all tokens, with another one before each row."""
        rows = tf.RaggedTensor.from_row_lengths(tokens.values, tokens.lengths, validate=False)
        return slices_of(tf.concat([tf.fill([rows.nrows(), 1], token_id), rows], axis=1))

    def pack_with_positions(
        self, segments: Sequence[Any]
    ) -> tuple[dict[str, Any], list[Positions]]:
        """Packs tokenized segments into a model's inputs, and returns the positions of each segment's tokens."""
        segments = self.packer.checked(segments)
        return self._rows(segments, [segment.lengths for segment in segments])

    def _rows(
        self, segments: Sequence[Slices], lengths: Sequence[Any]
    ) -> tuple[dict[str, Any], list[Positions]]:
        """Packs the first `lengths` tokens of segments, reports truncation, and returns their positions."""
        kept = self.packer.kept_lengths(lengths)
        if self.report is not None:
            self.report.watch_cuts(sum(lengths), sum(kept), self.sequence_length)
            if self.sequence_length >= UNLIMITED:
                self.report.watch_long(sum(lengths))
        self.watch_unknown(*segments)
        return self.packer.lay_out([*map(Slices.beginnings, segments, kept)])

    def watch_unknown(self, *segments: Slices) -> None:
        """Reports texts that are mostly unknown, if there is a report; in a graph, adds the check to it."""
        unk_id = unknown_id(self.tokenizer)
        if self.report is not None and unk_id is not None:
            for values, starts, lengths in segments:
                ops = ops_of(values)
                is_unknown = ops.cast(values == unk_id, ops.int64)
                before = ops.concat([ops.cast([0], ops.int64), ops.cumsum(is_unknown)], 0)
                number = ops.gather(before, starts + lengths) - ops.gather(before, starts)
                self.report.watch_unknown(2 * number > lengths)

    def read(self, texts: Any, name: str = "texts") -> Any:
        """A batch of texts as `tokens_of` takes them."""
        return text_batch(texts, name)

    def read_pair(
        self, first: Any, second: Any, names: tuple[str, str] = ("firsts", "seconds")
    ) -> list[Any]:
        """Two batches of texts of the same size, as of `read`; errors call them by `names`."""
        batches = [self.read(first, names[0]), self.read(second, names[1])]
        sizes = [batch.shape[0] if hasattr(batch, "shape") else len(batch) for batch in batches]
        if None in sizes:
            same = tf.equal(*map(tf.size, batches))
            return checked(batches, same, "The two batches of a pair differ in size.")
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"The two batches of a pair differ in size: {sizes[0]} {names[0]} and {sizes[1]} {names[1]}. Row i "
                "of one must belong to row i of the other."
            )
        return batches

    def _read_single(self, texts: Any) -> Any:
        if isinstance(texts, tuple):
            raise TypeError(
                f"Got a tuple of {len(texts)} batches, but a language model reads single texts. Pass a batch as a "
                "list, and join texts that belong together."
            )
        return self.read(texts)

    def tokens_of(self, texts: Any) -> Any:
        """The tokens of texts that were read, as `packer.checked` takes them."""
        return self.tokenizer(texts)

    def tokens_with_offsets(self, texts: Any) -> tuple[Slices, Any, Any]:
        """The tokens of texts that were read, and start and end of each, [tokens]."""
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        return slices_of(ids), starts.values, ends.values

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Tokenizes texts to int32 [batch, (tokens)]; the name is that of TF-Hub's preprocessors."""
        return self.tokenizer(texts)


class Preprocessor(TextPreprocessor):
    """Tokenizes texts or pairs of texts and packs them into rows, in the graph.

    Args:
        tokenizer: a callable that maps texts to int32 [batch, (tokens)]. It has `pad_id` and the ids of
            the layout's special tokens as attributes, such as `cls_id`.
        sequence_length: the most tokens of a row, including special tokens.
        report_truncation: log once if texts were truncated, and once if the vocabulary lacks most of a
            text (logger "bert_zoo.text.preprocessor"). This runs Python inside the graph. Switch it off
            for a graph that leaves this process: a SavedModel, or a remote tf.data service.
        **packing: further keyword arguments of `Packer`: layout, padding, bucket, truncation.

    Raises:
        ValueError: an option outside its range.
    """

    # AutoGraph has nothing to convert here, and would trace every helper again in each tf.data map.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts, or of pairs, into a model's inputs.

        Args:
            texts: a str (a batch of one), a list or array of strings, or a string tensor [batch]. For
                pairs, a tuple of two such batches of the same size, (firsts, seconds).

        Returns:
            dict of int32 [batch, length]: `token_ids`; `segment_ids` if the model has them;
            `padding_mask`, 1 for tokens and 0 for padding.

        Raises:
            TypeError, ValueError: `texts` is neither a batch of texts nor a pair of batches.
        """
        is_pair = isinstance(texts, tuple)
        if is_pair and len(texts) != 2:
            raise ValueError(
                f"Got a tuple of {len(texts)} batches. A tuple must be a pair of batches, (firsts, seconds). Pass a "
                "batch of single texts as a list."
            )
        batches = self.read_pair(*texts) if is_pair else [self.read(texts)]
        inputs = self.pack([*map(self.tokens_of, batches)])
        return with_batch_size(inputs, batches[0])

    def pack(self, segments: Sequence[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """Packs one or two tokenized segments, int32 [batch, (tokens)] each, into a model's inputs."""
        return self.pack_with_positions(segments)[0]

    def bert_pack_inputs(
        self, segments: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Packs tokenized segments like `pack`, with the names of TF-Hub's BERT preprocessors.

        Args:
            segments: one or two ragged tensors, int32 [batch, (tokens)].
            seq_length: tokens of each row, a number or an int scalar tensor; by default
                `sequence_length`.

        Returns:
            dict of int32 [batch, seq_length]: `input_word_ids`, `input_mask`, `input_type_ids` (0 for a
            model without segments).
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
    """Tokenizes texts for a language model and packs them into rows, in the graph, without special tokens.

    Args:
        tokenizer: the tokenizer.
        sequence_length: the most tokens of a row; longer texts are truncated at the end.
        report_truncation: as for `Preprocessor`.
        **packing: further keyword arguments of `Packer`: padding, bucket. Padding has the id 0 if the
            vocabulary has no token for it.

    Raises:
        ValueError: an option outside its range.
    """

    default_layout = PLAIN

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts into a model's inputs.

        Args:
            texts: a str (a batch of one), a list or array of strings, or a string tensor [batch].

        Returns:
            dict of int32 [batch, length]: `token_ids`; `padding_mask`, 1 for tokens, 0 for padding.

        Raises:
            TypeError, ValueError: `texts` is not a batch of texts; TypeError for a pair of batches.
        """
        texts = self._read_single(texts)
        inputs, _ = self.pack_with_positions([self.tokens_of(texts)])
        return with_batch_size(inputs, texts)


def unknown_id(tokenizer: Any) -> int | None:
    """The id of the unknown token; None if nothing is unknown to the vocabulary."""
    unk_id = getattr(tokenizer, "unk_id", None)
    # A byte-level vocabulary knows all texts, and calls its end token the unknown token too.
    return None if unk_id == getattr(tokenizer, "eos_id", None) else unk_id


def with_batch_size(rows: dict[str, Any], texts: Any) -> dict[str, Any]:
    """Gives rows in a graph the static batch size of their texts, which ragged tensors lose."""
    for value in rows.values():
        if not isinstance(value, np.ndarray):
            value.set_shape([texts.shape[0], *value.shape[1:]])
    return rows


@dataclass
class _Call:
    """Truncated texts of one call, for TEXTS_OF_CALL_CUT."""

    texts: int | None  # None if their number is not known beforehand
    advice: str
    cut: int = 0
    longest: int = 0
    limit: int = 0


class Report:
    """Logs once each that texts were truncated, are long or mostly unknown; works inside a graph. It reports the first
    batch with a truncated text. Within `of_call`, it reports all texts at the end.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._call: _Call | None = None

    def watch_cuts(self, lengths: Any, kept: Any, limit: int, message: str = TEXTS_CUT) -> None:
        """Checks a batch: int64 [batch] tokens before and after truncation."""
        count = partial(self._count, message)
        self._watch(message, kept < lengths, count, [lengths, kept, limit])

    def watch_long(self, lengths: Any) -> None:
        """Checks a batch: int64 [batch] tokens of texts without a limit."""
        self._watch(TEXTS_LONG, lengths > LONG_TEXT, self._say_long, [lengths])

    def watch_unknown(self, is_mostly: Any) -> None:
        """Checks a batch: bool [batch], whether most of each text is unknown."""
        self._watch(TEXTS_UNKNOWN, is_mostly, self._say_unknown, [is_mostly])

    def _say_long(self, lengths: np.ndarray) -> np.bool_:
        long = np.count_nonzero(lengths > LONG_TEXT)
        counts = (long, lengths.size, LONG_TEXT, int(lengths.max()))
        return self._say(TEXTS_LONG, TEXTS_LONG, *counts)

    def _say_unknown(self, is_mostly: np.ndarray) -> np.bool_:
        counts = (np.count_nonzero(is_mostly), is_mostly.size)
        return self._say(TEXTS_UNKNOWN, TEXTS_UNKNOWN, *counts)

    def _watch(
        self, message: str, rows: Any, say: Callable[..., np.bool_], inputs: list[Any]
    ) -> None:
        """Calls `say` with the values of the inputs if any of the rows, bool [batch], is true. Of tensors, adds this to
        the graph.
        """
        if isinstance(rows, np.ndarray):
            if rows.any():
                say(*inputs)
        elif message not in self._said:
            # numpy_function needs a result.
            found = tf.reduce_any(rows)
            report = partial(tf.numpy_function, say, inputs, tf.bool)
            tf.cond(found, report, lambda: tf.constant(False))

    @contextmanager
    def of_call(self, texts: int | None, advice: str) -> Iterator[Callable[[], None]]:
        """Counts truncated texts until the context ends; an inner call is part of the outer one. `texts` is their
        number; None reports the first batch. `advice` says how to keep them whole. Yields a function that ends the
        counting early.
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
        """Counts a batch within `of_call`, or reports it."""
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
        """Logs the first message of its kind."""
        with self._lock:
            is_said, self._said = kind in self._said, self._said | {kind}
        if not is_said:
            logger.warning(message, *arguments)
        return np.True_


# -------------------------------------------------------------------------------------------------
# Sentences of words: to a model's inputs, and from labels of words to labels of tokens.
#
# Each word is tokenized separately, as by Hugging Face's fast tokenizers with `is_split_into_words=True` and, in
# byte-level BPE, `add_prefix_space=True`: without its blank, a word would read like the end of the one before it. So
# the option of a file that says otherwise holds for texts only. A word's label belongs to the first of its tokens,
# the *first piece*. Unlike there, a word without tokens (such as a lone control character) becomes one unknown token,
# so that every word has a label.
# -------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from bert_zoo.text.windows import NumpyPreprocessor


NO_WORD = -1
# The words of each row.
Words = list[list[str]]

WORDS_EXPECTED = (
    "Sentences of words are a list of lists of strings, a ragged string tensor [batch, (words)], or "
    "texts to be split at white space"
)


def check_rows(rows: Sequence[Any], name: str) -> None:
    """Raises TypeError or ValueError for a row that is no list of words, or a missing or empty word."""
    for position, row in enumerate(rows):
        if not isinstance(row, list | tuple | np.ndarray):
            raise TypeError(
                f"{name}[{position}] is {row!r} ({type(row).__name__}), not a list of words. "
                f"{WORDS_EXPECTED}."
            )
        for number, word in enumerate(row):
            if is_missing(word) or (isinstance(word, str | bytes) and not word):
                what = f"{shown(word)}, no word" if is_missing(word) else "an empty word"
                raise (TypeError if is_missing(word) else ValueError)(
                    f"{name}[{position}][{number}] is {what}. Drop it and its label. Sentences of "
                    "different lengths need no padding."
                )


def word_rows(words: Any, name: str = "words") -> Words:
    """Returns sentences as lists of words; arguments and errors are those of `word_batch`."""
    if not has_rows_of_words(words):
        return [text.split() for text in strings(words, name)]
    rows = [*as_list(words)]
    check_rows(rows, name)
    return [strings(row, f"{name}[{position}]") for position, row in enumerate(rows)]


class PackedWords(NamedTuple):
    """A model's inputs, and the word of each token."""

    inputs: dict[str, Any]  # as from a preprocessor, int32 [batch, length] each
    # int32 [batch, length], index of the token's word in its row; -1 for special tokens and padding
    word_ids: Any

    @property
    def first_pieces(self) -> Any:
        """bool [batch, length], the first tokens of words."""
        pad = ops_of(self.word_ids).pad
        before = pad(self.word_ids[:, :-1], [[0, 0], [1, 0]], constant_values=NO_WORD)
        return (self.word_ids != NO_WORD) & (self.word_ids != before)


def pack_word_pieces(
    pieces: Tokens, lengths: np.ndarray, preprocessor: NumpyPreprocessor
) -> PackedWords:
    """Packs the tokens of words; `lengths` int64 [batch] is the number of words in each row."""
    splits = np.cumsum([0, *lengths])
    before = np.append(pieces.starts, len(pieces.ids))
    tokens = Tokens(pieces.ids, np.diff(before[splits]))
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    number_of_word = ragged_range(np.zeros_like(lengths), lengths)
    number_of_token = np.int32(np.repeat(number_of_word, pieces.lengths))
    return PackedWords(inputs, positions.gather(number_of_token, otherwise=NO_WORD))


def has_rows_of_words(words: Any) -> bool:
    """Whether data are sentences of words, rather than texts."""
    if has_tensorflow and isinstance(words, tf.RaggedTensor):
        return True
    if is_tensor(words):
        return (words.shape.rank or 0) > 1
    words = as_list(words)
    is_list = isinstance(words, list | np.ndarray) and len(words) > 0
    return is_list and isinstance(words[0], list | tuple | np.ndarray)


def word_batch(words: Any, name: str = "words") -> tf.RaggedTensor | Words:
    """Returns sentences as a ragged string tensor [batch, (words)] with int64 row splits, or without TensorFlow as
    lists of words. `words` is a sequence, or a column of a table, of sequences of strings; a string tensor [batch,
    words], ragged or not; or texts as for `text_batch`, which are split like Python's `str.split`.

    Raises:
        TypeError, ValueError: an item that is not a word, or an empty word.
        tf.errors.InvalidArgumentError: an empty word in a tensor.
    """
    if not has_tensorflow:
        return word_rows(words, name)
    if not has_rows_of_words(words):
        return split_at_white_space(as_utf8(text_batch(words, name)))
    if isinstance(words, tf.Tensor):
        words = tf.RaggedTensor.from_tensor(words) if words.shape.rank == 2 else words
    if not isinstance(words, tf.RaggedTensor | tf.Tensor):
        rows = word_rows(words, name)
        flat = tf.constant([*itertools.chain.from_iterable(rows)], tf.string)
        lengths = np.array([*map(len, rows)], np.int64)
        return tf.RaggedTensor.from_row_lengths(flat, lengths, validate=False)
    if words.dtype != tf.string or words.shape.rank != 2:
        raise ValueError(
            f"{name} is a tensor of {words.dtype.name} with shape {words.shape}. {WORDS_EXPECTED}."
        )
    words = words.with_row_splits_dtype(tf.int64)
    message = f"{name} has empty words. Do not pad sentences: pass a ragged tensor."
    return words.with_values(*checked([words.values], tf.reduce_all(words.values != ""), message))


@tf.autograph.experimental.do_not_convert
def pack_words(words: Any, preprocessor: Preprocessor) -> PackedWords:
    """Turns sentences, as for `word_batch`, into a model's inputs; traceable. Rows longer than the preprocessor's
    `sequence_length` are truncated with a warning. A preprocessor in NumPy makes NumPy arrays.
    """
    if isinstance(preprocessor.packer, NumpyPacker):
        words = word_rows(words)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        pieces = preprocessor.reader.words([*itertools.chain.from_iterable(words)])
        return pack_word_pieces(pieces, lengths, preprocessor)
    return pack_pieces(word_pieces(word_batch(words), preprocessor.tokenizer), preprocessor)


def word_pieces(words: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Tokenizes each word separately, string [batch, (words)] to int32 [batch, (words), (pieces), ...]; a word without
    tokens becomes the unknown token.
    """
    if hasattr(tokenizer, "pieces_of_words"):  # a tokenizer of words
        return words.with_values(tokenizer.pieces_of_words(words.values))
    pieces = _word_tokenizer(tokenizer)(words.values).with_row_splits_dtype(tf.int64)
    missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(missing)], getattr(tokenizer, "unk_id", 0)), missing, validate=False
    )
    return words.with_values(tf.concat([pieces, unknown], axis=1))


# Cached, as making a tokenizer of 50,000 tokens takes seconds.
_PREFIXING: weakref.WeakKeyDictionary[Tokenizer, Tokenizer] = weakref.WeakKeyDictionary()


def _word_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer, or its twin with `add_prefix_space` if words need a blank before them."""
    if tokenizer.get_config().get("add_prefix_space", True):
        return tokenizer
    if tokenizer not in _PREFIXING:
        _PREFIXING[tokenizer] = tokenizer.with_options(add_prefix_space=True)
    return _PREFIXING[tokenizer]


def pack_pieces(pieces: tf.RaggedTensor, preprocessor: Preprocessor) -> PackedWords:
    """Packs what `word_pieces` returns."""
    tokens = pieces.merge_dims(1, 2)
    inputs, (positions,) = preprocessor.pack_with_positions([tokens])
    words = pieces.values
    row_of_word, first_word = pieces.value_rowids(), pieces.row_starts()
    number = tf.range(words.nrows()) - tf.gather(first_word, row_of_word)
    number_of_token = tf.cast(tf.gather(number, words.value_rowids()), tf.int32)
    return PackedWords(inputs, positions.gather(number_of_token, otherwise=NO_WORD))


def token_labels(
    labels: Any,
    packed: PackedWords,
    words: tf.RaggedTensor | Words,
    otherwise: float = IGNORED_LABEL,
) -> tf.Tensor | np.ndarray:
    """Gives the label (or weight) of each word [batch, (words)] to its first piece [batch, length], and all other
    tokens `otherwise`; traceable.

    Raises:
        ValueError: labels of another rank.
        tf.errors.InvalidArgumentError: a row has more or fewer labels than words; ValueError in NumPy.
    """
    ops = ops_of(packed.word_ids)
    if isinstance(packed.word_ids, np.ndarray):
        counts = zip(itertools.count(), map(len, words), map(len, labels), strict=False)
        if wrong := [each for each in counts if each[1] != each[2]]:
            raise ValueError(
                "Some rows of this batch do not have one label per word (or one weight). (row, words, labels): "
                f"{shown(wrong)}."
            )
        values = np.array([*itertools.chain.from_iterable(labels), otherwise])
        starts = np.cumsum([0, *map(len, labels)])[:-1]
    else:
        values, starts = _checked_labels(labels, words)
        values = tf.concat([values, tf.constant([otherwise], values.dtype)], axis=0)
    at = starts[:, None] + ops.cast(packed.word_ids, ops.int64)
    last = ops.size(values, ops.int64) - 1
    return ops.gather(values, ops.where(packed.first_pieces, at, last))


def _checked_labels(labels: Any, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The labels of all words, and the start of each row."""
    if labels.shape.rank != 2:
        raise ValueError(
            f"Labels or weights of words have shape {labels.shape}; they must be ragged [batch, (words)], one per word."
        )
    if isinstance(labels, tf.Tensor):
        labels = tf.RaggedTensor.from_tensor(labels)
    labels = labels.with_row_splits_dtype(tf.int64)
    number_of_labels, number_of_words = labels.row_lengths(), words.row_lengths()
    # The operator != loses the rank if only one of the sizes is known.
    wrong = tf.not_equal(number_of_labels, number_of_words)
    message = "Some rows of this batch do not have one label per word (or one weight). Rows, words, labels:"
    found = (tf.where(wrong)[:, 0], number_of_words[wrong], number_of_labels[wrong])
    return checked([labels.values, labels.row_starts()], ~tf.reduce_any(wrong), message, *found)
