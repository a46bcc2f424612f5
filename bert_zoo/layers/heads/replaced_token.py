"""The head of a discriminator, which says of each token whether it was replaced."""

from bert_zoo.layers.common import at_positions, norm
from bert_zoo.layers.embeddings import begin_of_documents
from bert_zoo.layers.heads.output import OutputHead


class ReplacedTokenHead(OutputHead):
    """A layer with an activation and a logit of each token.

    Source: google-research/electra run_pretraining.py, _get_discriminator_output; with `epsilon`,
    microsoft/DeBERTa DeBERTa/apps/models/replaced_token_detection_model.py, LMMaskPredictionHead.

    Args:
        epsilon: of a layer norm over the sum of each token and the first of its text, which is read
            in the token's place then; None for tokens alone (ELECTRA).
        others: of `OutputHead`.
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
