"""Replaced token detection: a generator replaces tokens, and a discriminator finds them (ELECTRA)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from keras import ops, random

from bert_zoo.config import IGNORED_LABEL
from bert_zoo.layers.common import at_positions, norm
from bert_zoo.layers.embeddings import begin_of_documents
from bert_zoo.layers.heads import OutputHead
from bert_zoo.models.labels import LabelRange
from bert_zoo.models.losses import ReplacedTokenLoss
from bert_zoo.tasks.objectives.masking import MaskedTokens, Replacement
from bert_zoo.tasks.objectives.objective import Prediction


@dataclass(frozen=True, kw_only=True)
class ReplacedTokens(MaskedTokens):
    """ELECTRA's objective: the generator predicts masked tokens, and the discriminator reads its samples.

    Tokens are chosen as by `MaskedTokens`, and none becomes a random token. (The original may choose a
    position twice.) The labels of `discriminator_logits` are not made here: `task="pretraining"` samples from
    the generator in each step, and then makes them. Attributes are those of `MaskedTokens`.

    Source: Clark et al. 2020 (arXiv:2003.10555), section 2 and appendix A; google-research/electra
    pretrain/pretrain_helpers.py.
    """

    replacement: Replacement = Replacement(mask=0.85, random=0.0)  # noqa: RUF009 (frozen)
    replaced: ClassVar[bool] = True

    def predictions(self, length):
        # In rows below 100 tokens the original's number would lower the rate.
        return max(super().predictions(length), int((self.rate + 0.005) * length))


def sampled_tokens(logits: Any, seed: Any) -> Any:
    """Tokens int32 [batch, predictions] from logits [batch, predictions, vocab_size], by Gumbel noise, no gradients.

    `seed` is an integer or a `keras.random.SeedGenerator`.
    """
    logits = ops.cast(ops.stop_gradient(logits), "float32")
    # Above 0, which has no logarithm.
    uniform = random.uniform(ops.shape(logits), minval=1e-20, maxval=1.0, seed=seed)
    return ops.argmax(logits - ops.log(-ops.log(uniform)), axis=-1)


def with_tokens(token_ids: Any, positions: Any, tokens: Any) -> Any:
    """`token_ids` [batch, length] with `tokens` at `positions`, int32 [batch, predictions]; 0 for none."""
    first = token_ids[:, :1]
    tokens = ops.where(ops.equal(positions, 0), first, ops.cast(tokens, first.dtype))
    rows = ops.broadcast_to(ops.arange(ops.shape(positions)[0])[:, None], ops.shape(positions))
    at = ops.stack([ops.reshape(rows, [-1]), ops.reshape(positions, [-1])], axis=1)
    return ops.scatter_update(token_ids, at, ops.reshape(tokens, [-1]))


def replaced_labels(token_ids: Any, original: Any, padding_mask: Any = None) -> Any:
    """Labels of a discriminator, int32 [batch, length]: 1 for a token that differs, else 0; -100 for padding."""
    labels = ops.cast(ops.not_equal(token_ids, original), "int32")
    return labels if padding_mask is None else ops.where(padding_mask == 0, IGNORED_LABEL, labels)


class ReplacedTokenPrediction(Prediction):
    """Predicts whether each token was replaced: logits [batch, length] (ELECTRA's discriminator).

    Source: Clark et al. 2020 (arXiv:2003.10555), section 2.
    """

    weight = 50.0
    loss = ReplacedTokenLoss

    def head(self, model, name):
        config = model.encoder.config
        has_norm = model.stored_head.has(f"{name}/norm")
        return ReplacedTokenHead(
            transform=config.activation,
            transform_size=config.hidden_size,
            epsilon=config.layer_norm_epsilon if has_norm else None,
            name=name,
            **model.layer_options,
        )

    def reads_all(self, inputs):
        return True

    def logits(self, head, model, encoded, inputs):
        return head(encoded["sequence_output"], inputs.get("document_ids"))

    def label_range(self, model, inputs):
        what = "1 for a token that was replaced and 0 for another"
        return LabelRange(2, what, ("batch", "length"))


class ReplacedTokenHead(OutputHead):
    """A dense layer with activation, then one logit per token.

    Source: google-research/electra run_pretraining.py, _get_discriminator_output; with `epsilon`,
    microsoft/DeBERTa DeBERTa/apps/models/replaced_token_detection_model.py, LMMaskPredictionHead.

    Args:
        epsilon: of a layer norm over the sum of each token and the first token of its text, applied
            first; None for no such norm (ELECTRA).
    """

    def __init__(self, *, epsilon: float | None, **options):
        super().__init__(1, dropout=0.0, **options)
        self.norm = None
        if epsilon is not None:
            self.norm = norm("norm", epsilon=epsilon, dtype=self.dtype_policy)

    def build(self, input_shape):
        if self.norm is not None:
            self.norm.build(input_shape)
        super().build(input_shape)

    def call(self, x, document_ids=None, training=None):
        """[batch, length, hidden] to [batch, length]; `document_ids` as `Embeddings.call`."""
        if self.norm is not None:
            first = x[:, :1]
            if document_ids is not None:
                first = at_positions(x, begin_of_documents(document_ids))
            x = self.norm(x + first)
        return super().call(x, training=training)[..., 0]

    def compute_output_shape(self, input_shape):
        return input_shape[:-1]
