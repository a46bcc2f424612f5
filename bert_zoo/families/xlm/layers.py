"""XLM's layers: language embeddings, and blocks that set hidden states of padding to 0."""

from keras import ops

from bert_zoo.layers.backbones import Ids, TransformerBackbone
from bert_zoo.layers.block import PostNormBlock
from bert_zoo.layers.common import at_positions, table
from bert_zoo.layers.embeddings import Embeddings


class LanguageEmbeddings(Embeddings):
    """`Embeddings` that also add a vector for each token's language, `language_ids` int [batch, length], unless there
    are 0 languages. Source: Lample and Conneau 2019 (arXiv:1901.07291), section 3.4.
    """

    def __init__(self, *, num_languages: int, **options):
        super().__init__(**options)
        self.language_embedding = None
        if num_languages:
            self.language_embedding = table(
                num_languages,
                options["embedding_size"],
                "language_embedding",
                stddev=options["initializer_range"],
                dtype=self.dtype_policy,
            )

    def build(self, token_ids_shape):
        if self.language_embedding is not None:
            self.language_embedding.build()
        super().build(token_ids_shape)

    def call(
        self,
        token_ids,
        segment_ids=None,
        position_ids=None,
        document_ids=None,
        language_ids=None,
        training=None,
    ):
        added = None
        if language_ids is not None and self.language_embedding is not None:
            added = self.language_embedding(language_ids)
        ids = (token_ids, segment_ids, position_ids, document_ids)
        return super().call(*ids, added=added, training=training)


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
    """A `TransformerBackbone` with `LanguageEmbeddings` and `PaddingBlock`s, which also takes `language_ids`."""

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
