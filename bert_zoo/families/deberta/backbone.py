"""DeBERTa's backbone."""

from keras import ops

from bert_zoo.layers.attention import attention_bias, bias_between_documents
from bert_zoo.layers.backbones import TransformerBackbone
from bert_zoo.layers.common import at_positions, table
from bert_zoo.layers.embeddings import token_positions
from bert_zoo.layers.heads.masked_lm import MaskedLMHead


class PositionedHead(MaskedLMHead):
    """`MaskedLMHead` with the position table that `masked_states` adds to the queries.

    Args:
        max_positions: rows of the table.
        vocab_size, width, **options: arguments of `MaskedLMHead`.
    """

    def __init__(self, vocab_size: int, width: int, *, max_positions: int, **options):
        super().__init__(vocab_size, width, **options)
        self.position_embedding = table(
            max_positions,
            width,
            "position_embedding",
            stddev=options["initializer_range"],
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        self.position_embedding.build()
        super().build(input_shape)


class DisentangledBackbone(TransformerBackbone):
    """Token embeddings and a stack with disentangled attention (DeBERTa).

    Only the head for masked tokens, and embeddings with a position table, read `position_ids`.

    Args:
        config: the configuration.
        embeddings: a `TokenEmbeddings`.
        stack: a `DisentangledStack`.
    """

    @property
    def token_table(self):
        return self.embeddings.token_embedding.whole

    def call(self, inputs, positions=None, training=None):
        self._check_rows(inputs.get("document_ids"), isinstance(positions, slice))
        embedded = self.embeddings(*map(inputs.get, self.embedded_ids), training=training)
        bias, document_ids = self._visible(inputs)
        # Zeros for padding, which the convolution lets neighbours see.
        embedded = embedded * ops.expand_dims(ops.cast(document_ids > 0, embedded.dtype), -1)
        hidden_states, attentions = self.stack(
            embedded, bias, document_ids, positions=positions, training=training
        )
        outputs = {"sequence_output": hidden_states[-1], "hidden_states": hidden_states}
        return outputs | {"attentions": attentions}

    def _visible(self, inputs):
        """The attention bias, and the number of each token's document, 0 for padding."""
        padding_mask, document_ids = inputs.get("padding_mask"), inputs.get("document_ids")
        if padding_mask is None:
            padding_mask = ops.ones_like(inputs["token_ids"])
        bias = attention_bias(padding_mask, self.compute_dtype)
        if document_ids is None:
            return bias, padding_mask
        between = bias_between_documents(document_ids, self.compute_dtype)
        return ops.minimum(bias, between), document_ids * padding_mask

    @property
    def decodes_masks(self) -> bool:
        return self.config.enhances_masks

    def token_head(self, **options):
        if not self.decodes_masks:
            return super().token_head(**options)
        return super().token_head(
            head=PositionedHead, max_positions=self.config.max_positions, **options
        )

    def masked_states(self, encoded, inputs, head, positions, training=None):
        hidden, bias = encoded["hidden_states"][-2], self._visible(inputs)[0]
        length, most = hidden.shape[1], self.config.max_positions
        if length is not None and length > most:
            raise ValueError(
                f"The input has {length} tokens per row, but the head for masked tokens has {most} "
                f"positions. Cut the text, for instance with load(..., max_length={most})."
            )
        position_ids = token_positions(
            inputs["token_ids"], inputs.get("position_ids"), inputs.get("document_ids")
        )
        position_ids = ops.broadcast_to(position_ids, ops.shape(hidden)[:2])
        queries = hidden
        if positions is not None:
            queries, position_ids = (at_positions(x, positions) for x in (hidden, position_ids))
        queries = queries + head.position_embedding(position_ids)
        return self.stack.decode(queries, hidden, bias, positions, training=training)
