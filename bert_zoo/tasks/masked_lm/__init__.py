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
