"""Masked language models: the token in the place of a mask."""

from collections.abc import Sequence

import keras

from bert_zoo.tasks.objectives.model import ObjectiveModel
from bert_zoo.tasks.objectives.table import PREDICTIONS


class FillsMasks(ObjectiveModel):
    """A model with the objective of masked tokens, perhaps among others."""

    def fill_mask(self, text: str, targets: str | Sequence[str] | None = None, top_k: int = 5):
        """The likeliest tokens in the place of each mask of a text.

        Args:
            text: a text with the tokenizer's mask in it, once or more: "[MASK]" of BERT and ALBERT,
                "<mask>" of RoBERTa. Of several masks each is filled while the others stay.
            targets: words to rank, each one token in that place, instead of the vocabulary; or
                tokens as the vocabulary spells them ("##ing").
            top_k: candidates a mask; targets are returned all.

        Returns:
            For each mask a list of `Candidate(token, token_id, score, text, start)`, likeliest first;
            prints as tables. Scores are probabilities among the whole vocabulary, as those of
            Hugging Face's fill-mask pipeline.

        Raises:
            ValueError: the text has no mask or is too long, or a target is not one token.
        """
        from bert_zoo.tasks.masked_lm.fill_mask import fill_mask

        return fill_mask(self, text, targets, top_k)

    def score(self, texts, batch_size: int = 64, within_word: str = "one_by_one") -> list:
        """How likely texts are, token by token: each is predicted from all others of its text.

        The sum of a text's log-probabilities is its pseudo-log-likelihood, exp of their negative mean its
        pseudo-perplexity: numbers to compare texts of one model by, and no probabilities of texts. A text of n
        tokens is read n times; one that is longer than the model reads, in the window around each token.

        Args:
            texts: a text or several, without their special tokens.
            batch_size: masked copies of texts at a time.
            within_word: "one_by_one" hides one token at a time. "left_to_right" also hides the tokens after
                it of the same word, which otherwise give away what a rare word begins with.

        Returns:
            A list of `TextScore(text, tokens, log_probs, perplexity, bits_per_character)`, in the
            order of the texts, that prints as a table.

        Raises:
            ValueError: a text without tokens, or an option that does not exist or does not go with the model.

        Source: Salazar et al. 2020 (arXiv:1910.14659), section 2; left to right within words: Kauf and
        Ivanova 2023 (arXiv:2305.10588), section 2.
        """
        from bert_zoo.tasks.masked_lm.scoring import score

        return score(self, texts, batch_size, within_word)


@keras.saving.register_keras_serializable("bert_zoo")
class MaskedLM(FillsMasks):
    """Logits [batch, length, vocabulary]; at `mask_positions` [batch, predictions] only, if given."""

    task = "masked_lm"
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
