"""Spans of whole words, whose tokens are also predicted from their boundaries (SpanBERT)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import keras
import numpy as np
from keras import ops

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.fields import setting
from bert_zoo.layers.common import Activation, at_positions, dense, norm, table, vocabulary_logits
from bert_zoo.models.inputs import as_ids, check_range
from bert_zoo.tasks.objectives.masking import Masking, Replacement, Words, numbered
from bert_zoo.tasks.objectives.objective import Prediction

# Number of spans of a row to draw at a time.
AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class Spans(Masking):
    """SpanBERT's spans: hides spans of words until enough tokens are chosen; the last may end within a word.

    A span has 1 to `longest` words, drawn from a geometric distribution. It begins with the word of a random
    token that is not chosen yet, and ends before the next special token. Spans that overlap or touch become
    one. The tokens of a span all become masks, or random tokens by their frequency in the corpus, or stay
    unchanged. Needs `word_starts`, and the vocabulary's `counts`.

    There are two more inputs than with `MaskedTokens`: `span_boundaries` int32 [batch, spans, 2], the positions
    before and after each span, then (0, 0); and `span_tokens` int32 [batch, predictions], which tokens to predict
    from them: s * `targets` + i means token i of span s. Their labels are `sbo_logits` int32
    [batch, predictions], then -100. Spans next to a special token have no boundaries.

    Attributes:
        rate: share to choose of the tokens that are not special, rounded up.
        max_predictions: as in `MaskedTokens`.
        replacement: as in `MaskedTokens`.
        p: parameter of the geometric distribution.
        longest: words of the longest span.
        max_spans: number of span boundaries in every row; by default half of the predictions plus two,
            which hardly any row exceeds.
        targets: most tokens of a span to predict from its boundaries; the configuration's `span_targets`.

    Raises:
        ValueError: an attribute outside its range.

    Source: Joshi et al. 2019 (arXiv:1907.10529), section 3; facebookresearch/SpanBERT
    pretraining/fairseq/data/masking.py, PairWithSpanMaskingScheme.
    """

    replacement: Replacement = Replacement(distribution="corpus")  # noqa: RUF009 (frozen)
    p: float = setting(0.2, above=0, below=1)
    longest: int = setting(10, least=1)
    max_spans: int | None = None
    targets: int = setting(15, least=1)

    def of_chosen(self, batch, chosen, draws):
        boundaries, tokens, labels = self._boundaries(batch, chosen)
        return {"span_boundaries": boundaries, "span_tokens": tokens}, {"sbo_logits": labels}

    def predictions(self, length):
        return self.max_predictions or math.ceil(self.rate * length)

    def numbers(self, batch, draws):
        wanted = np.ceil(self.rate * np.count_nonzero(~batch["special"], axis=1)).astype(np.int64)
        return np.minimum(wanted, self.predictions(batch["token_ids"].shape[1]))

    def choose(self, batch, draws):
        special = batch["special"]
        words = Words.of(batch)
        last_word = np.count_nonzero(words.lengths, axis=1) - 1
        rows, columns, numbers = numbered(~special)
        # The tokens whose words may begin a span, and the end of each token's text.
        tokens = np.zeros(special.shape, np.int64)
        tokens[rows, numbers] = columns
        counts = np.count_nonzero(~special, axis=1)
        length = special.shape[1]
        ends = np.where(special, np.arange(length), length)
        ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        chosen = np.zeros(special.shape, bool)
        left = self.numbers(batch, draws)
        drawn = 0
        while left.any():
            anchors = draws.uniform("span anchors", drawn + AT_ONCE)[:, drawn:]
            sizes = self._sizes(draws.uniform("span lengths", drawn + AT_ONCE)[:, drawn:])
            drawn += AT_ONCE
            for anchor, size in zip(anchors.T, sizes.T, strict=True):
                # One span in every row that has too few tokens.
                (row,) = np.nonzero(left)
                at = tokens[row, (anchor[row] * counts[row]).astype(np.int64)]
                is_free = ~chosen[row, at]
                row, at = row[is_free], at[is_free]
                first = words.of_token[row, at]
                last = np.minimum(first + size[row] - 1, last_word[row])
                start, end = words.starts[row, first], words.starts[row, last]
                end = np.minimum(end + words.lengths[row, last], ends[row, at])
                _add_spans(chosen, left, row, start, end)
        return chosen

    def groups(self, chosen, positions):
        starts, _ = _runs(chosen)
        spans = np.cumsum(starts, axis=1) - 1
        return np.maximum(np.take_along_axis(spans, positions, axis=1), 0)

    def spans(self, length: int) -> int:
        """The number of span boundaries in each row of `length` tokens."""
        return self.max_spans or math.ceil(self.predictions(length) / 2) + 2

    def _sizes(self, drawn: np.ndarray) -> np.ndarray:
        """Lengths of spans in words, from numbers in [0, 1)."""
        sums = np.cumsum(self.p * (1 - self.p) ** np.arange(self.longest))
        return 1 + np.searchsorted(sums[:-1], drawn * sums[-1], side="right")

    def _boundaries(self, batch, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`span_boundaries`, `span_tokens` and their labels."""
        count, length = chosen.shape
        starts, ends = _runs(chosen)
        rows, columns = np.nonzero(starts)
        starts, ends = columns, np.nonzero(ends)[1]
        special = np.pad(batch["special"], ((0, 0), (1, 1)), constant_values=True)
        is_inside = ~(special[rows, starts] | special[rows, ends + 2])
        rows, starts, ends = rows[is_inside], starts[is_inside], ends[is_inside]
        numbers = _numbers_in(rows)
        fits = numbers < self.spans(length)
        rows, starts, ends, numbers = rows[fits], starts[fits], ends[fits], numbers[fits]
        boundaries = np.zeros((count, self.spans(length), 2), np.int32)
        boundaries[rows, numbers] = np.stack([starts - 1, ends + 1], axis=1)
        # Spans together have no more tokens than are chosen, so these fit.
        span, place = np.nonzero(np.arange(self.targets) <= (ends - starts)[:, None])
        of_row = rows[span]
        at = of_row, _numbers_in(of_row)
        tokens = np.zeros((count, self.predictions(length)), np.int32)
        tokens[at] = numbers[span] * self.targets + place
        labels = np.full_like(tokens, IGNORED_LABEL)
        labels[at] = batch["token_ids"][of_row, starts[span] + place]
        return boundaries, tokens, labels


def _numbers_in(rows: np.ndarray) -> np.ndarray:
    """Numbers the items of each row from 0; rows are in ascending order."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


def _add_spans(chosen, left, row, start, end) -> None:
    """Chooses the tokens from `start` to before `end`, one span per row, up to `left` tokens."""
    sizes = end - start
    firsts = np.cumsum(sizes) - sizes
    rows = np.repeat(row, sizes)
    columns = np.arange(len(rows)) + np.repeat(start - firsts, sizes)
    is_new = ~chosen[rows, columns]
    total = np.cumsum(is_new)
    before = total[firsts] - is_new[firsts]
    is_new &= total - np.repeat(before, sizes) <= left[rows]
    chosen[rows[is_new], columns[is_new]] = True
    left -= np.bincount(rows[is_new], minlength=len(left))


def _runs(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last token of each span of chosen tokens, bool [batch, length] each."""
    padded = np.pad(chosen, ((0, 0), (1, 1)))
    return chosen & ~padded[:, :-2], chosen & ~padded[:, 2:]


class SpanPrediction(Prediction):
    """Predicts the tokens of spans, if `span_boundaries` are given.

    Logits are [batch, spans, targets, vocabulary], or [batch, predictions, vocabulary] for `span_tokens`.
    """

    def head(self, model, name):
        config = model.encoder.config
        return SpanBoundaryHead(
            config.vocab_size,
            config.hidden_size,
            max_targets=config.span_targets,
            activation=config.activation,
            epsilon=config.layer_norm_epsilon,
            name=name,
            **model.layer_options,
        )

    def logits(self, head, model, encoded, inputs):
        boundaries, tokens = model.positions(inputs, "span_boundaries"), inputs.get("span_tokens")
        if boundaries is None:
            if tokens is not None:
                raise ValueError(
                    "span_tokens is given without span_boundaries, to which they belong. Pass both."
                )
            return None
        if tokens is not None:
            tokens = as_ids("span_tokens", tokens)
            check_range("span_tokens", tokens, *model.head_limits(inputs)["span_tokens"])
        return head(encoded["sequence_output"], model.token_table, boundaries, tokens)

    def label_range(self, model, inputs):
        each = super().label_range(model, inputs)
        if isinstance(inputs, Mapping) and inputs.get("span_tokens") is not None:
            return each
        return replace(each, axes=("batch", "spans", "targets"))


class SpanBoundaryHead(keras.layers.Layer):
    """Predicts each token of a span from the outputs left and right of it and its position in the span.

    Two dense layers, each with activation and norm, read [left; right; position]. Their output is projected
    onto the encoder's token table, with a bias of its own. At most `max_targets` tokens of a span are predicted,
    from its first; `position_size` is the width of the table of positions in the span.

    Source: Joshi et al. 2020 (arXiv:1907.10529), section 3.2; facebookresearch/SpanBERT
    pretraining/fairseq/models/pair_bert.py.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        activation: str,
        epsilon: float,
        initializer_range: float,
        max_targets: int,
        position_size: int = 200,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.activation = Activation(activation, dtype=self.dtype_policy, name="activation")
        options = {"stddev": initializer_range, "dtype": self.dtype_policy}
        self.target_position = table(max_targets, position_size, "target_position", **options)
        self.first, self.second = (dense(hidden_size, n, **options) for n in ("first", "second"))
        self.first_norm = norm("first_norm", epsilon=epsilon, dtype=self.dtype_policy)
        self.second_norm = norm("second_norm", epsilon=epsilon, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.target_position.build()
        self.first.build((None, 2 * self.hidden_size + self.target_position.output_dim))
        self.second.build((None, self.hidden_size))
        for layer in (self.first_norm, self.second_norm):
            layer.build((None, self.hidden_size))
        self.bias = self.add_weight(shape=(self.vocab_size,), initializer="zeros", name="bias")
        self.built = True

    def call(self, sequence_output, token_table, span_boundaries, span_tokens=None):
        """float32 logits [batch, predictions, vocab_size]; without `span_tokens` [batch, spans, targets, vocab_size].

        Args:
            span_boundaries: int [batch, spans, 2], the positions just left and just right of each
                span; (0, 0) for no span, whose predictions mean nothing.
            span_tokens: int [batch, predictions], the tokens to predict, s * max_targets + i for token i
                of span s; by default the first max_targets tokens of every span.
        """
        targets, hidden = self.target_position.input_dim, self.hidden_size
        spans = ops.shape(span_boundaries)[1]
        pairs = ops.reshape(span_boundaries, (-1, 2 * spans))
        boundaries = at_positions(sequence_output, pairs)
        boundaries = ops.reshape(boundaries, (-1, spans, 2 * hidden))
        every = ops.expand_dims(ops.arange(spans * targets, dtype="int32"), 0)
        tokens = every if span_tokens is None else span_tokens
        boundaries = at_positions(boundaries, tokens // targets)
        positions = self.target_position(tokens % targets)
        size = (*ops.shape(boundaries)[:2], positions.shape[-1])
        x = ops.concatenate([boundaries, ops.broadcast_to(positions, size)], axis=-1)
        x = self.first_norm(self.activation(self.first(x)))
        x = self.second_norm(self.activation(self.second(x)))
        logits = vocabulary_logits(x, token_table, self.bias)
        if span_tokens is not None:
            return logits
        return ops.reshape(logits, (-1, spans, targets, self.vocab_size))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], None, self.target_position.input_dim, self.vocab_size)
