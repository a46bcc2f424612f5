"""Masked language models, which predict the token at a mask."""

from collections.abc import Sequence

import keras

from bert_zoo.tasks.objectives.model import ObjectiveModel
from bert_zoo.tasks.objectives.table import PREDICTIONS


class FillsMasks(ObjectiveModel):
    """A model that is trained on masked tokens, perhaps among other objectives."""

    def fill_mask(self, text: str, targets: str | Sequence[str] | None = None, top_k: int = 5):
        """Finds the likeliest tokens for each mask of a text.

        Args:
            text: a text that contains the tokenizer's mask at least once: "[MASK]" for BERT and ALBERT,
                "<mask>" for RoBERTa. If there are several, each is filled while the others stay.
            targets: rank only these words, each of which must be a single token in that place; or tokens
                as the vocabulary spells them ("##ing").
            top_k: number of candidates per mask. All targets are returned.

        Returns:
            For each mask a list of `Candidate(token, token_id, score, text, start)`, likeliest first;
            prints as tables. Scores are probabilities over the whole vocabulary, as in Hugging Face's
            fill-mask pipeline.

        Raises:
            ValueError: the text has no mask or is too long, or a target is not a single token.
        """
        from bert_zoo.tasks.masked_lm.fill_mask import fill_mask

        return fill_mask(self, text, targets, top_k)

    def score(self, texts, batch_size: int = 64, within_word: str = "one_by_one") -> list:
        """Scores texts: how likely each token is given all others of its text.

        The sum of a text's log-probabilities is its pseudo-log-likelihood, and exp of their negative mean its
        pseudo-perplexity. Use them to compare texts under one model; they are not probabilities of texts. A
        text of n tokens is read n times. If it is too long for the model, the window around each token is.

        Args:
            texts: a text or several, without special tokens.
            batch_size: number of masked copies of texts per step.
            within_word: "one_by_one" hides one token at a time. "left_to_right" also hides the later tokens
                of the same word, which would otherwise give away how a rare word starts.

        Returns:
            A list of `TextScore(text, tokens, log_probs, perplexity, bits_per_character)`, in the
            order of the texts, that prints as a table. Log-probabilities are in nats.

        Raises:
            ValueError: a text has no tokens, or an option is unknown or does not suit the model.

        Source: Salazar et al. 2020 (arXiv:1910.14659), section 2; left to right within words: Kauf and
        Ivanova 2023 (arXiv:2305.10588), section 2.
        """
        from bert_zoo.tasks.masked_lm.scoring import score

        return score(self, texts, batch_size, within_word)


@keras.saving.register_keras_serializable("bert_zoo")
class MaskedLM(FillsMasks):
    """Predicts masked tokens.

    Returns logits [batch, length, vocabulary]; with `mask_positions` int [batch, predictions] among the
    inputs, only the logits at these positions, [batch, predictions, vocabulary].
    """

    task = "masked_lm"
    verbs = ("fill_mask", "score")
    default_loss_weights = None

    @property
    def objectives(self):
        return {self.task: PREDICTIONS[self.task]}

    def head_outputs(self, encoded, inputs, training=None):
        (logits,) = super().head_outputs(encoded, inputs, training).values()
        return logits

    def label_ranges(self, inputs):
        (label_range,) = super().label_ranges(inputs).values()
        return {"": label_range}

    def default_loss(self):
        (loss,) = super().default_loss().values()
        return loss
