"""XLM's layers: the input that names each token's language, and blocks that set hidden states of padding to 0."""

from keras import ops

from bert_zoo.layers.backbones import Ids, TransformerBackbone
from bert_zoo.layers.block import PostNormBlock
from bert_zoo.layers.common import at_positions


class PaddingBlock(PostNormBlock):
    """A block that sets its output to 0 at padding."""

    def call(self, x, seen, positions=None, training=None):
        """Like `PostNormBlock.call`; `seen` is the bias of scores and [batch, length], 1 for tokens, or None."""
        bias, kept = seen
        x, *others = super().call(x, bias, positions=positions, training=training)
        if kept is not None:
            kept = kept if positions is None else at_positions(kept, positions)
            x = x * ops.reshape(ops.cast(kept, x.dtype), (-1, 1))
        return x, *others


class LanguageBackbone(TransformerBackbone):
    """A `TransformerBackbone` with `TypedEmbeddings` and `PaddingBlock`s, which also takes `language_ids`."""

    embedded_ids = (*TransformerBackbone.embedded_ids, "language_ids")

    @property
    def inputs(self) -> dict[str, Ids]:
        languages = Ids(self.config.num_languages, "the number of languages", is_apart=True)
        return {**super().inputs, "language_ids": languages}

    def embedded(self, inputs, training):
        embedded, bias = super().embedded(inputs, training)
        mask = inputs.get("padding_mask")
        if mask is not None:
            embedded = embedded * ops.expand_dims(ops.cast(mask, embedded.dtype), -1)
        return embedded, (bias, mask)
