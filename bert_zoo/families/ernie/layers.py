"""ERNIE's layers: BERT's embeddings with a table of task types, and the input that names its rows."""

from keras import ops

from bert_zoo.layers.backbones import Ids, TransformerBackbone
from bert_zoo.layers.common import float_table, table
from bert_zoo.layers.embeddings import Embeddings


class TaskTypeEmbeddings(Embeddings):
    """`Embeddings` that also add a vector for each token's task, `task_type_ids` int [batch, length]; row 0 if there
    are none. Source: Sun et al. 2019 (ERNIE 2.0, arXiv:1907.12412), section 3.2.
    """

    def __init__(self, *, num_task_types: int, **options):
        super().__init__(**options)
        self.task_type_embedding = table(
            num_task_types,
            options["embedding_size"],
            "task_type_embedding",
            stddev=options["initializer_range"],
            dtype=self.dtype_policy,
        )

    def build(self, token_ids_shape):
        self.task_type_embedding.build()
        super().build(token_ids_shape)

    def call(
        self,
        token_ids,
        segment_ids=None,
        position_ids=None,
        document_ids=None,
        task_type_ids=None,
        training=None,
    ):
        if task_type_ids is None:
            added = ops.cast(float_table(self.task_type_embedding)[0], self.compute_dtype)
        else:
            added = self.task_type_embedding(task_type_ids)
        ids = (token_ids, segment_ids, position_ids, document_ids)
        return super().call(*ids, added=added, training=training)


class TaskTypeBackbone(TransformerBackbone):
    """A `TransformerBackbone` with `TaskTypeEmbeddings`, which also takes `task_type_ids`."""

    embedded_ids = (*TransformerBackbone.embedded_ids, "task_type_ids")

    @property
    def inputs(self) -> dict[str, Ids]:
        tasks = Ids(self.config.num_task_types, "the number of task types", is_apart=True)
        return {**super().inputs, "task_type_ids": tasks}
