"""`select_answers` in the TensorFlow graph, for question answering in SavedModels.

Equal to bert_zoo.metrics.squad, whose functions document the choices. Apart from the task, which runs without TensorFlow.
"""

import sys
from typing import NamedTuple

import tensorflow as tf

from bert_zoo.metrics.squad import answer_spans

Tensors = dict[str, tf.Tensor]

# Characters that str.strip removes.
WHITE_SPACE = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()]
# Spans per candidate to look at first, because some have the same text as a better one.
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
    """The best span of each question's context, string [batch] of valid UTF-8, and the score of no answer against it.

    Args:
        rows: the rows of `question_windows` with `start_logits` and `end_logits` [rows, width]; or with
            `end_logits` [rows, width, starts] for `start_positions` [rows, starts], and `no_answer_logits`
            [rows, 1].
        no_answer: the column that means no answer, 0 or -1.

    Returns:
        dict of [batch]: `answer`, string; `start` and `end`, int32, in characters of the context; `score`,
        float32, the probability among the candidates, which include no answer; and `no_answer_score`, float32.
        For an empty context "", -1, -1, 0 and infinity.
    """

    def of_question(arguments: tuple[tf.Tensor, tf.Tensor]) -> Tensors:
        context, number = arguments
        is_its = rows["example"] == number
        windows = {name: tf.boolean_mask(column, is_its) for name, column in rows.items()}
        return _best_answer(context, windows, n_best, max_answer_length, no_answer)

    numbers = tf.range(tf.size(contexts))
    return tf.map_fn(of_question, (contexts, numbers), fn_output_signature=ANSWER_SPECS)


class _Spans(NamedTuple):
    """Candidate spans of an answer."""

    starts: tf.Tensor  # int32 [spans], in characters of the context
    ends: tf.Tensor  # int32 [spans]
    scores: tf.Tensor  # float64 [spans]

    def gather(self, numbers: tf.Tensor) -> "_Spans":
        return _Spans(*(tf.gather(column, numbers) for column in self))


def _best_answer(
    context: tf.Tensor, windows: Tensors, n_best: int, max_answer_length: int, column: int
) -> Tensors:
    """`best_answers` of one question, scalars."""
    # In the precision of select_answers; otherwise close scores could swap ranks.
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
        # A span's rank among select_answers' candidates, which always include no answer and the best span.
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
    """A text, string [], from which spans are cut, without white space at their ends."""

    def __init__(self, text: tf.Tensor):
        self._codes = tf.strings.unicode_decode(text, "UTF-8")
        is_ink = ~tf.reduce_any(self._codes[:, None] == tf.constant(WHITE_SPACE), axis=1)
        # Positions of all characters other than white space, and their number before each position.
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
        # Encodes only the characters of spans; cutting strings would copy the whole text for each.
        positions = tf.ragged.range(starts, ends)
        return tf.strings.unicode_encode(tf.gather(self._codes, positions), "UTF-8")


def _all_spans(text: _Text, windows: Tensors, max_answer_length: int) -> _Spans:
    """All spans with text, in the order of windows, starts and lengths."""
    mask = tf.cast(windows["context_mask"], tf.int64)
    before = tf.cumsum(mask, axis=1, exclusive=True)
    after = tf.where(mask == 1, tf.reduce_sum(mask, axis=1, keepdims=True) - 1 - before, -1)
    number = tf.where(mask == 1, tf.cast(windows["first_token"], tf.int64)[:, None] + before, -1)
    index = tf.reshape(tf.range(tf.size(mask, tf.int64)), tf.shape(mask))
    starts, shifts, end_logits = index, tf.zeros_like(index), windows["end_logits"]
    if "start_positions" in windows:
        starts = tf.gather(index, windows["start_positions"], batch_dims=1)
        end_logits = tf.transpose(end_logits, [0, 2, 1])
        row = tf.reshape(tf.range(tf.size(starts, tf.int64)), tf.shape(starts))
        shifts = row * tf.shape(mask, tf.int64)[1] - index[:, :1]

    def at(column: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.reshape(column, [-1]), indices)

    sides = (tf.reshape(tf.cast(side, tf.float64), [-1]) for side in (before, after))
    chosen, first, last = answer_spans(
        tf.reshape(number, [-1]),
        *sides,
        tf.reshape(starts, [-1]),
        max_answer_length,
        tf.experimental.numpy,
    )
    scores = at(windows["start_logits"], first) + at(end_logits, last + at(shifts, chosen))
    spans = _Spans(at(windows["starts"], first), at(windows["ends"], last), scores)
    spans = spans.gather(tf.where(text.has_ink(spans.starts, spans.ends))[:, 0])
    return _Spans(*text.stripped(spans.starts, spans.ends), spans.scores)


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
