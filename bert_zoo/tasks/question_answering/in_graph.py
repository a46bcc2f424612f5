"""Question answering as a SavedModel serves it: `select_answers`, in the graph.

Equal to bert_zoo.metrics.squad, whose functions say what is chosen and why.
"""

import sys
from typing import NamedTuple

import tensorflow as tf

Tensors = dict[str, tf.Tensor]

# What str.strip takes off.
WHITE_SPACE = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()]
# Spans a candidate that are looked at before more are: some have the text of a better one.
SPANS_A_CANDIDATE = 4

ANSWER_SPECS = {
    "answer": tf.TensorSpec([], tf.string),
    "start": tf.TensorSpec([], tf.int32),
    "end": tf.TensorSpec([], tf.int32),
    "score": tf.TensorSpec([], tf.float32),
    "no_answer_score": tf.TensorSpec([], tf.float32),
}


def best_answers(
    contexts: tf.Tensor,
    rows: Tensors,
    *,
    n_best: int,
    max_answer_length: int,
    no_answer: int = 0,
) -> Tensors:
    """The best span of each question's context and what no answer scores against it.

    Args:
        contexts: string [batch], of valid UTF-8.
        rows: those of QuestionWindows for them, and `start_logits` and `end_logits` [rows, width]; or
            `end_logits` [rows, width, starts] given `start_positions` [rows, starts], and
            `no_answer_logits` [rows, 1].
        n_best, max_answer_length: as for `bert_zoo.metrics.squad.select_answers`.
        no_answer: the column that stands for no answer, 0 or -1.

    Returns:
        dict of [batch]: `answer`, string; `start` and `end`, int32, its characters in the context;
        `score`, its probability among the candidates, no answer being one, and `no_answer_score`,
        float32. For a context without text "", -1, -1, 0 and infinity.
    """

    def of_question(arguments: tuple[tf.Tensor, tf.Tensor]) -> Tensors:
        context, number = arguments
        is_its = rows["example"] == number
        windows = {name: tf.boolean_mask(column, is_its) for name, column in rows.items()}
        return _best_answer(context, windows, n_best, max_answer_length, no_answer)

    numbers = tf.range(tf.size(contexts))
    return tf.map_fn(of_question, (contexts, numbers), fn_output_signature=ANSWER_SPECS)


class _Spans(NamedTuple):
    """Spans that an answer may be.

    Attributes:
        starts, ends: int32 [spans], their characters in the context.
        scores: float64 [spans].
    """

    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor

    def gather(self, numbers: tf.Tensor) -> "_Spans":
        return _Spans(*(tf.gather(column, numbers) for column in self))


def _best_answer(
    context: tf.Tensor, windows: Tensors, n_best: int, max_answer_length: int, column: int
) -> Tensors:
    """`best_answers` of one question, scalars."""
    # In the precision of select_answers, or close scores would change places.
    windows |= {name: tf.cast(windows[name], tf.float64) for name in ("start_logits", "end_logits")}
    text = _Text(context)
    spans = _best_spans(text, _all_spans(text, windows, max_answer_length), n_best)

    def answer() -> Tensors:
        if "no_answer_logits" in windows:
            odds = tf.cast(tf.reduce_min(windows["no_answer_logits"]), tf.float64)
            no_answer = odds + spans.scores[0]
        else:
            of_windows = windows["start_logits"][:, column] + windows["end_logits"][:, column]
            no_answer = tf.reduce_min(of_windows)
        start, end = spans.starts[0], spans.ends[0]
        # Which of select_answers' candidates a span is; no answer is always one, and the best span.
        rank = tf.range(tf.size(spans.scores)) + tf.cast(no_answer > spans.scores, tf.int32)
        is_candidate = (rank < n_best) | (tf.range(tf.size(rank)) == 0)
        scores = tf.concat([tf.boolean_mask(spans.scores, is_candidate), no_answer[None]], 0)
        return {
            "answer": text.cut(start[None], end[None])[0],
            "start": start,
            "end": end,
            "score": tf.cast(tf.nn.softmax(scores)[0], tf.float32),
            "no_answer_score": tf.cast(no_answer - spans.scores[0], tf.float32),
        }

    def nothing() -> Tensors:
        values = ("", -1, -1, 0.0, float("inf"))
        return dict(zip(ANSWER_SPECS, map(tf.constant, values), strict=True))

    return tf.cond(tf.size(spans.scores) > 0, answer, nothing)


class _Text:
    """A text that spans are cut from, without white space at their ends.

    Args:
        text: string [].
    """

    def __init__(self, text: tf.Tensor):
        self._codes = tf.strings.unicode_decode(text, "UTF-8")
        is_ink = ~tf.reduce_any(self._codes[:, None] == tf.constant(WHITE_SPACE), axis=1)
        # The positions of all characters that are not white space, and how many are before each position.
        self._ink = tf.where(is_ink)[:, 0]
        self._ink_before = tf.concat([[0], tf.cumsum(tf.cast(is_ink, tf.int32))], 0)

    def has_ink(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._ink_before, ends) > tf.gather(self._ink_before, starts)

    def stripped(self, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = tf.gather(self._ink, tf.gather(self._ink_before, starts))
        last = tf.gather(self._ink, tf.gather(self._ink_before, ends) - 1)
        return tf.cast(first, tf.int32), tf.cast(last + 1, tf.int32)

    def cut(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """The texts of spans, string [spans]."""
        # From characters, as many as the spans have: strings are only cut from copies of all of it.
        positions = tf.ragged.range(starts, ends)
        return tf.strings.unicode_encode(tf.gather(self._codes, positions), "UTF-8")


def _all_spans(text: _Text, windows: Tensors, max_answer_length: int) -> _Spans:
    """All spans with a text, in the order of windows, starts and lengths."""
    in_context = windows["context_mask"] == 1
    shape = tf.shape(in_context)
    can_start = _can_start(windows)
    if "start_positions" in windows:
        first = windows["start_positions"]
        can_start = tf.gather(can_start, first, batch_dims=1)
        is_shown = tf.gather(in_context, first, batch_dims=1)
        can_start = tf.where(tf.reduce_any(can_start), can_start, is_shown)
    else:
        first = tf.broadcast_to(tf.range(shape[1]), shape)
    last = first[:, :, None] + tf.range(max_answer_length)
    end_logits = windows["end_logits"]
    if end_logits.shape.rank == 3:
        end_logits = tf.transpose(end_logits, [0, 2, 1])

    def at_last(values: tf.Tensor) -> tf.Tensor:
        """Of [windows, width], or [windows, starts, width], values at the last tokens of spans [windows,
        starts, lengths]."""
        axes = values.shape.rank - 1
        padded = tf.pad(values, [*([0, 0],) * axes, [0, max_answer_length]])
        return tf.gather(padded, last, axis=axes, batch_dims=axes)

    def at_first(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, first, batch_dims=1)[:, :, None]

    is_span = can_start[:, :, None] & at_last(in_context)
    scores = at_first(windows["start_logits"]) + at_last(end_logits)
    starts = tf.broadcast_to(at_first(windows["starts"]), tf.shape(is_span))
    columns = (starts, at_last(windows["ends"]), scores)
    spans = _Spans(*(tf.boolean_mask(column, is_span) for column in columns))
    spans = spans.gather(tf.where(text.has_ink(spans.starts, spans.ends))[:, 0])
    return _Spans(*text.stripped(spans.starts, spans.ends), spans.scores)


def _can_start(windows: Tensors) -> tf.Tensor:
    """Bool [windows, width], tokens that a window shows with more context than all others."""
    in_context = windows["context_mask"] == 1
    counts = tf.reduce_sum(windows["context_mask"], axis=1, keepdims=True)
    left = tf.cumsum(windows["context_mask"], axis=1, exclusive=True)
    around = tf.cast(tf.minimum(left, counts - 1 - left), tf.float64)
    around += tf.constant(0.01, tf.float64) * tf.cast(counts, tf.float64)

    token = tf.where(in_context, windows["first_token"][:, None] + left, 0)
    total = tf.reduce_max(token) + 1
    around = tf.where(in_context, around, -1)
    is_most = around == tf.gather(tf.math.unsorted_segment_max(around, token, total), token)
    window = tf.broadcast_to(tf.range(tf.shape(token)[0])[:, None], tf.shape(token))
    candidates = tf.where(is_most, window, tf.int32.max)
    owner = tf.math.unsorted_segment_min(candidates, token, total)
    return in_context & (tf.gather(owner, token) == window)


def _best_spans(text: _Text, spans: _Spans, n_best: int) -> _Spans:
    """The `n_best` best spans with different texts, best first."""
    ranked = spans.gather(tf.argsort(spans.scores, direction="DESCENDING", stable=True))
    total = tf.size(ranked.scores)

    def texts_of_first(number: tf.Tensor) -> tf.Tensor:
        return text.cut(ranked.starts[:number], ranked.ends[:number])

    def are_too_few(number: tf.Tensor) -> tf.Tensor:
        distinct = tf.size(tf.unique(texts_of_first(number)).y)
        return (distinct < n_best) & (number < total)

    first = tf.minimum(SPANS_A_CANDIDATE * n_best, total)
    (looked_at,) = tf.while_loop(
        are_too_few, lambda number: (tf.minimum(2 * number, total),), (first,)
    )
    distinct, place = tf.unique(texts_of_first(looked_at))
    firsts = tf.math.unsorted_segment_min(tf.range(looked_at), place, tf.size(distinct))
    return ranked.gather(firsts[:n_best])
