"""From texts to a language model's inputs: rows of tokens, and labels for scoring them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.text.batches import text_batch
from bert_zoo.text.packing import check_padding, padded_width
from bert_zoo.text.preprocessor import TextPreprocessor
from bert_zoo.text.symbols import SymbolTokenizer


class LanguageModelPreprocessor(TextPreprocessor):
    """Tokenizes texts for a language model, in the graph, without adding special tokens.

    Args:
        tokenizer: what texts are read with.
        sequence_length: the most tokens a row may have; the others are cut off its end.
        padding, bucket: as for Packer. Rows are padded on the right, with id 0 where the vocabulary
            has no padding token; the mask tells.
        report_truncation: say once on the log (logger "bert_zoo.text.preprocessor") that texts were
            cut. It runs Python inside the graph, so switch it off for a graph that leaves this
            process: a SavedModel, or a remote tf.data service.

    Raises:
        ValueError: an option outside its range.
    """

    def __init__(
        self,
        tokenizer: SymbolTokenizer,
        *,
        sequence_length: int,
        padding: str = "longest",
        bucket: int = 8,
        report_truncation: bool = True,
    ):
        check_padding(padding, bucket)
        if sequence_length != int(sequence_length) or sequence_length < 1:
            raise ValueError(
                f"sequence_length is {sequence_length}; it must be a whole number, 1 or more."
            )
        options = {
            "sequence_length": int(sequence_length),
            "padding": padding,
            "bucket": int(bucket),
        }
        super().__init__("language_model_preprocessor", tokenizer, options, report_truncation)

    @property
    def sequence_length(self) -> int:
        """The most tokens a row may have."""
        return self._options.sequence_length

    # AutoGraph has nothing to convert here, and would trace every helper anew in each tf.data map.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts into a model's inputs.

        Args:
            texts: texts, as the tokenizer takes them.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `padding_mask`, 1 where a token is.

        Raises:
            TypeError, ValueError: something that is not a batch of texts; a pair is a TypeError.
        """
        texts = _single_texts(texts)
        tokens = self.tokenizer(texts)
        position, lengths, mask = self._rows(tokens.row_lengths())
        token_ids = self._gather(tokens, position, lengths, otherwise=self._padding_id)
        return _with_batch_size({"token_ids": token_ids, "padding_mask": mask}, texts)

    @tf.autograph.experimental.do_not_convert
    def scored(self, texts: Any) -> dict[str, tf.Tensor]:
        """Turns a batch of texts into inputs and the token that each place has to predict.

        With an end token, which stands before a text as before any line, every token of the text is
        a label: the inputs are <eos> and the tokens without the last. (A tokenizer that puts <eos>
        before lines has it there already.) Without one, the first token is only an input.

        Args:
            texts: as for a call.

        Returns:
            dict of int32 [batch, length]: `token_ids`; `labels`, -100 where there is none;
            `padding_mask`, 1 where a token is. At most `sequence_length` tokens a row are labels.

        Raises:
            TypeError, ValueError: as for a call.
        """
        texts = _single_texts(texts)
        tokens = self.tokenizer(texts)
        if self._adds_eos:
            eos = tf.fill([tokens.nrows(), 1], self.tokenizer.eos_id)
            tokens = tf.concat([eos, tokens], axis=1)
        position, lengths, mask = self._rows(tf.maximum(tokens.row_lengths() - 1, 0))
        token_ids = self._gather(tokens, position, lengths, otherwise=self._padding_id)
        labels = self._gather(tokens, position, lengths, otherwise=IGNORED_LABEL, ahead=1)
        rows = {"token_ids": token_ids, "labels": labels, "padding_mask": mask}
        return _with_batch_size(rows, texts)

    @property
    def _padding_id(self) -> int:
        return getattr(self.tokenizer, "pad_id", 0)

    @property
    def _adds_eos(self) -> bool:
        return hasattr(self.tokenizer, "eos_id") and self.tokenizer.eos_at != "line_starts_and_ends"

    def _rows(self, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns positions [1, length], lengths [batch] after truncation, and the mask."""
        kept = tf.minimum(lengths, self.sequence_length)
        if self.report is not None:
            self.report.watch(lengths, kept, self.sequence_length)
        position = tf.range(padded_width(kept, **vars(self._options)))[None, :]
        return position, kept, tf.cast(position < kept[:, None], tf.int32)

    def _gather(
        self,
        tokens: tf.RaggedTensor,
        position: tf.Tensor,
        lengths: tf.Tensor,
        *,
        otherwise: int,
        ahead: int = 0,
    ) -> tf.Tensor:
        """Returns each row's first tokens, or those `ahead` of them, int32 [batch, length]."""
        pool = tf.concat([tokens.values, [otherwise]], axis=0)
        source = tokens.row_starts()[:, None] + position + ahead
        last = tf.size(pool, out_type=tf.int64) - 1
        return tf.gather(pool, tf.where(position < lengths[:, None], source, last))


def _single_texts(texts: Any) -> tf.Tensor:
    if isinstance(texts, tuple):
        raise TypeError(
            f"Got a tuple of {len(texts)}, which is a pair of batches elsewhere; a language model "
            "reads single texts. Pass a batch as a list, and join what belongs together."
        )
    return text_batch(texts)


def _with_batch_size(rows: dict[str, tf.Tensor], texts: tf.Tensor) -> dict[str, tf.Tensor]:
    for value in rows.values():  # ragged tensors forget a static batch size
        value.set_shape([texts.shape[0], None])
    return rows
