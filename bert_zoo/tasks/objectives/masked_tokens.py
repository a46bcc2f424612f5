"""Masked tokens, chosen one by one (BERT, RoBERTa, XLM), and their prediction."""

import math
from dataclasses import dataclass

import numpy as np

from bert_zoo.tasks.objectives.masking import Masking, shuffled
from bert_zoo.tasks.objectives.model import Prediction
from bert_zoo.tasks.objectives.replacement import Replacement


@dataclass(frozen=True, kw_only=True)
class MaskedTokens(Masking):
    """BERT's masked tokens: a fixed share of a row's tokens, rounded, at least one, and no special tokens.

    Call it with a batch of rows and their `Draws`; `Masking` describes both and the result.

    Attributes:
        rate: share of a row's tokens to choose, counting special tokens.
        max_predictions: number of predictions in every row, and so the most tokens chosen in a row;
            None for the rate times the row length.
        replacement: what the model reads in place of the chosen tokens.

    Raises:
        ValueError: an attribute outside its range.
    Source: Devlin et al. 2018 (arXiv:1810.04805), appendix A.1; google-research/bert
    create_pretraining_data.py.
    """

    def eligible(self, batch):
        """Returns the tokens that may be chosen, bool [batch, length]."""
        return ~batch["special"]

    def choose(self, batch, draws):
        eligible, numbers = self.eligible(batch), self.numbers(batch, draws)[:, None]
        keys = shuffled(eligible, draws, "tokens")
        last = np.take_along_axis(np.sort(keys, axis=1), np.maximum(numbers - 1, 0), axis=1)
        return (keys <= last) & eligible & (numbers > 0)


@dataclass(frozen=True, kw_only=True)
class DynamicMaskedTokens(MaskedTokens):
    """RoBERTa's masked tokens: special tokens may be chosen, and their number is rounded at random.

    The probability of rounding up is the fractional part, so short rows keep the rate on average. `<s>`,
    `<pad>`, `</s>` and `<unk>` (ids 0 to 3) are never random replacements. Attributes are those of `MaskedTokens`.

    Source: Liu et al. 2019 (arXiv:1907.11692), section 4.1; fairseq data/mask_tokens_dataset.py.
    """

    replacement: Replacement = Replacement(excluded_ids=(0, 1, 2, 3))  # noqa: RUF009 (frozen)

    def eligible(self, batch):
        return batch["padding_mask"] != 0

    def predictions(self, length):
        return self.max_predictions or math.ceil(self.rate * length)

    def numbers(self, batch, draws):
        wanted = self.rate * np.count_nonzero(self.eligible(batch), axis=1)
        wanted = (wanted + draws.uniform("number", 1)[:, 0]).astype(np.int64)
        return np.minimum(wanted, self.predictions(batch["token_ids"].shape[1]))


@dataclass(frozen=True, kw_only=True)
class StreamMaskedTokens(DynamicMaskedTokens):
    """XLM's masked tokens: any token except a row's first; random tokens come from the whole vocabulary.

    In rows with translations, the model can use each text to predict hidden tokens of the other. Attributes
    are those of `MaskedTokens`.

    Source: Lample and Conneau 2019 (arXiv:1901.07291), sections 3.3 and 3.5; facebookresearch/XLM
    xlm/trainer.py, mask_out.
    """

    replacement: Replacement = Replacement()  # noqa: RUF009 (frozen)

    def eligible(self, batch):
        eligible = super().eligible(batch)
        eligible[:, 0] = False
        return eligible


class MaskedTokenPrediction(Prediction):
    """Predicts masked tokens: logits [batch, length, vocabulary], or only at `mask_positions`.

    They come from the generator, or from the encoder's second stream, if there is one.
    """

    def head(self, model, name):
        stored = model.stored_head
        activation = stored.activation or model.encoder.config.activation
        return model.mask_reader.token_head(
            activation=None if stored.projects_directly else activation,
            name=name,
            **model.layer_options,
        )

    def reader(self, model):
        return model.mask_reader

    def reads_all(self, inputs):
        return inputs.get("mask_positions") is None

    def logits(self, head, model, encoded, inputs):
        if "query_output" in encoded:
            return head(encoded["query_output"], model.token_table)
        positions, reader = model.positions(inputs, "mask_positions"), model.mask_reader
        read = {n: inputs[n] for n in reader.inputs if inputs.get(n) is not None}
        if reader.decodes_masks:
            encoded = encoded if model.generator is None else reader(read)
            states = reader.masked_states(encoded, read, head, positions)
            return head(states, reader.token_table)
        if model.generator is None:
            x = model.prepared(encoded["sequence_output"])
            return head(x, model.token_table, positions)
        return head(reader(read, positions=positions)["sequence_output"], model.token_table)
