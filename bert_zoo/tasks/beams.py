"""Beam search that stores finished texts separately, so that the number of open beams stays constant."""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

# Below every score; the sum of two is still finite.
LOWEST = -1e9


@dataclass(frozen=True)
class BeamSearch:
    """Chooses whole texts by their scores. Call it like a sampler of keras_hub.

    A text's score is the sum of its tokens' log-probabilities, divided by the number of new tokens to the power
    `length_penalty`. Each step keeps the best open texts, or draws them, and separately the best finished ones.

    The result is that of transformers' `generate` with `num_beams` and the same options.

    Args:
        beams: number of open texts, and of finished texts to keep.
        length_penalty: 0 prefers short texts, because each token lowers the score; larger values prefer longer
            texts.
        early_stopping: when a row is done: True when `beams` texts are finished; False when all kept finished
            texts also score better than the best open text would if it ended now; "never" when they score
            better than it would at the length that suits it best.
        returned: number of finished texts to return for each row.
        drawer: a `keras_hub.samplers.RandomSampler` whose random numbers choose continuations, with the
            probabilities of their scores and without replacement; None to keep the best.
    """

    beams: int = 5
    length_penalty: float = 0.0
    early_stopping: bool | str = False
    returned: int = 1
    drawer: Any = None

    @property
    def variables(self) -> list:
        return [] if self.drawer is None else self.drawer.variables

    @property
    def seed_generator(self):
        return self.drawer.seed_generator

    def __call__(self, next, prompt, cache, index, mask, stop_token_ids, model):
        """Returns texts [rows * returned, length], the best of each row first."""
        from keras_hub.samplers import GreedySampler

        beams, stops = self.beams, stop_token_ids or ()
        candidates = beams * max(2, 1 + len(stops))
        index = ops.cast(index, "int32")
        first, length = index, ops.shape(prompt)[1]
        places = ops.arange(length, dtype="int32")

        def for_beams(value):
            return ops.repeat(value, beams, axis=0)

        def goes_on(texts, cache, index, scores, ended, ended_scores, is_open):
            return ops.any(is_open)

        def step(texts, cache, index, scores, ended, ended_scores, is_open):
            log_probs, _, cache = next(texts, cache, index)
            size = log_probs.shape[-1]
            totals = ops.reshape(log_probs, (-1, beams, size)) + scores[..., None]
            totals = ops.reshape(totals, (-1, beams * size))
            totals, found = self._candidates(totals, min(candidates, beams * size))
            tokens = ops.cast(found % size, texts.dtype)
            rows = ops.arange(ops.shape(found)[0], dtype=found.dtype)
            parents = found // size + rows[:, None] * beams
            longer = ops.take(texts, parents, axis=0)
            # A text that ends here repeats its last token, like rows that end before others.
            longer = ops.where(places >= index, tokens[..., None], longer)
            is_end = ops.any(tokens[..., None] == ops.array(stops, tokens.dtype), axis=-1)
            is_end = ops.logical_or(is_end, index + 1 == length)

            divisor = self._divisor(index + 1 - first)
            # The other candidates ensure that enough texts stay open.
            is_best = ops.arange(totals.shape[-1]) < beams
            is_new = ops.logical_and(ops.logical_and(is_end, is_best), is_open[:, None])
            new_scores = ops.where(is_new, totals / divisor, LOWEST)
            ended = ops.concatenate([ended, longer], axis=1)
            ended_scores = ops.concatenate([ended_scores, new_scores], axis=1)
            ended_scores, chosen = ops.top_k(ended_scores, beams)
            ended = ops.take_along_axis(ended, chosen[..., None], axis=1)

            scores, chosen = ops.top_k(ops.where(is_end, totals + LOWEST, totals), beams)
            texts = ops.take_along_axis(longer, chosen[..., None], axis=1)
            texts = ops.reshape(texts, (-1, length))
            parents = ops.reshape(ops.take_along_axis(parents, chosen, axis=1), (-1,))
            cache = keras.tree.map_structure(lambda part: ops.take(part, parents, axis=0), cache)
            if self.early_stopping == "never" and self.length_penalty > 0:
                divisor = self._divisor(length - first)
            is_better = scores[:, 0] / divisor > ended_scores[:, -1]
            if self.early_stopping is True:
                is_better = ops.logical_and(is_better, ended_scores[:, -1] <= LOWEST)
            is_open = ops.logical_and(is_open, is_better)
            return texts, cache, index + 1, scores, ended, ended_scores, is_open

        texts = for_beams(prompt)
        ended = ops.reshape(texts, (-1, beams, length))
        none = ops.zeros_like(ended[..., 0], "float32") + LOWEST
        # At first all beams are the same text.
        scores = ops.where(ops.arange(beams) == 0, 0.0, none)
        state = (texts, keras.tree.map_structure(for_beams, cache), index)
        state = (*state, scores, ended, none, ops.ones_like(prompt[:, 0], "bool"))
        # keras_hub's loop handles a model's variables, and a drawer's, on JAX.
        loop = (self.drawer or GreedySampler()).run_loop
        steps = ops.cast(length, "int32") - first
        *_, ended, _, _ = loop(goes_on, step, model, state, maximum_iterations=steps)
        return ops.reshape(ended[:, : self.returned], (-1, length))

    def _divisor(self, number):
        return ops.cast(number, "float32") ** self.length_penalty

    def _candidates(self, totals, number: int):
        """Returns the highest scores, or drawn ones, in descending order, and their places."""
        if self.drawer is None:
            return highest(totals, number)
        uniform = keras.random.uniform(
            ops.shape(totals), minval=1e-20, maxval=1.0, seed=self.drawer.seed_generator
        )
        # The largest sums with Gumbel noise are a sample without replacement (Kool et al. 2019, section 2.3).
        _, drawn = highest(totals - ops.log(-ops.log(uniform)), number)
        totals, order = ops.top_k(ops.take_along_axis(totals, drawn, axis=-1), number)
        return totals, ops.take_along_axis(drawn, order, axis=-1)


def highest(scores, number: int, width: int = 128):
    """`ops.top_k` of long rows: TensorFlow compares numbers one by one, but finds maxima of blocks many at a time.

    The highest numbers lie in the blocks with the highest maxima, of equal ones in the first.

    Args:
        scores: float [rows, length].
        width: numbers in a block.
    """
    length = scores.shape[-1]
    blocks = -(-length // width)
    if blocks <= number:
        return ops.top_k(scores, number)
    padding = [(0, 0), (0, blocks * width - length)]
    padded = ops.pad(scores, padding, constant_values=-float("inf"))
    flat = ops.reshape(padded, (-1, width))
    _, chosen = ops.top_k(ops.reshape(ops.max(flat, axis=-1), (-1, blocks)), number)
    chosen = ops.sort(chosen, axis=-1)
    begins = ops.arange(ops.shape(chosen)[0], dtype=chosen.dtype)[:, None] * blocks
    members = ops.reshape(ops.take(flat, begins + chosen, axis=0), (-1, number * width))
    found, places = ops.top_k(members, number)
    return found, ops.take_along_axis(chosen, places // width, axis=1) * width + places % width
